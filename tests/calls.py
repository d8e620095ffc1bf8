"""A call of every operation whose result is of the class that it is called on, for batch size ``[2, 3]``.

``CALLS`` is found by the annotations of the methods, so that an operation that is added is called too; only the
arguments that a method requires stand here.
"""

from __future__ import annotations

import importlib
import inspect
import io
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import TensorClass

SIZE = (2, 3)
MASK = torch.tensor([[True, False, True], [False, False, True]])
INDEX = torch.tensor([[1, 0, 1]])

#: what the class of a result is written as, where it is that of the collection itself
_SELF = ("Self", "tuple[Self, ...]", "Pointwise", "Casts", "Devices", "T")


def _instance_of_attrs(record: Any) -> Any:
    attrs: Any = importlib.import_module("attrs")
    values = dict(record.items())
    return attrs.make_class("Source", list(values))(**values)


def _model_of_pydantic(record: Any) -> Any:
    pydantic: Any = importlib.import_module("pydantic")
    values = dict(record.items())
    return pydantic.create_model("Source", **dict.fromkeys(values, (Any, ...)))(**values)


def _written(write: Any, record: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    write(record, file, **options)
    file.seek(0)
    return file


def _saved(write: str, then: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    """A call that has the record in a file: written by the method of this name, then read."""

    def call(record: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/record"
            getattr(record, write)(path)
            return then(record, path)

    return call


def _at_path(then: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    """A call with a path where nothing is."""

    def call(record: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return then(record, f"{folder}/record")

    return call


#: operations on files that hold one collection
STORED: dict[str, Callable[[Any], Any]] = {
    "from_consolidated": _saved("consolidate", lambda r, path: type(r).from_consolidated(path)),
    "from_safetensors": _saved("to_safetensors", lambda r, path: type(r).from_safetensors(path)),
    "load": _saved("save", lambda r, path: type(r).load(path)),
    "load_": _saved("save", lambda r, path: r.load_(path)),
    "load_memmap": _saved("memmap", lambda r, path: type(r).load_memmap(path)),
    "load_memmap_": _saved("memmap", lambda r, path: r.load_memmap_(path)),
    "load_safetensors": _saved("save_safetensors", lambda r, path: type(r).load_safetensors(path)),
    "memmap_refresh_": _saved("memmap", lambda r, path: type(r).load_memmap(path).memmap_refresh_()),
}


def _in_memory(record: Any) -> Any:
    """The record of one in a file, which is then closed: a folder that is gone shall have no open files."""
    with record as held:
        return held.clone()


def _in_zarr(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(record: Any) -> Any:
        pytest.importorskip("zarr")
        return call(record)

    return checked


#: those in which the record stays in the file
STORED |= {
    "from_h5": _saved("to_h5", lambda r, path: _in_memory(type(r).from_h5(path))),
    "from_zarr": _in_zarr(_saved("to_zarr", lambda r, path: _in_memory(type(r).from_zarr(path)))),
    "to_h5": _at_path(lambda r, path: _in_memory(r.to_h5(path))),
    "to_zarr": _in_zarr(_at_path(lambda r, path: _in_memory(r.to_zarr(path)))),
}

#: the arguments of a method that requires some, or the whole call
ARGUMENTS: dict[str, tuple[Any, ...] | Callable[[Any], Any]] = {
    **STORED,
    "__deepcopy__": lambda r: r.__deepcopy__({}),
    "__getitems__": ([0, 1],),
    "addcdiv": lambda r: r.addcdiv(r, r),
    "addcdiv_": lambda r: r.addcdiv_(r.clone(), r.clone()),
    "addcmul": lambda r: r.addcmul(r, r),
    "addcmul_": lambda r: r.addcmul_(r.clone(), r.clone()),
    "apply": (torch.abs,),
    "apply_": (torch.abs,),
    "broadcast_to": ((4, 2, 3),),
    "cat": lambda r: type(r).cat([r, r]),
    "cat_tensors": lambda r: r.cat_tensors("label", out_key="spare", dim=-1, keep_entries=True),
    "chunk": (2,),
    "clamp": (0.0, 1.0),
    "copy_": lambda r: r.copy_(r.clone()),
    "copy_at_": lambda r: r.copy_at_(r[0].clone().select("image"), 1),
    "create_nested": ("extra",),
    "cumprod": (0,),
    "cumsum": (0,),
    "del_": ("label",),
    "drop_duplicates": ("label",),
    "exclude": ("spare",),
    "expand": (4, 2, 3),
    "expand_as": (torch.empty(4, 2, 3),),
    "fill_": ("image", 1.0),
    "filter": (torch.tensor([True, False]),),
    "flip": (0,),
    "from_arrow": lambda r: type(r).from_arrow(r[0].to_arrow()),
    "from_attrs": lambda r: type(r).from_attrs(_instance_of_attrs(r), batch_size=SIZE),
    "from_csv": lambda r: type(r).from_csv(
        _written(TensorClass.to_csv, r[0].exclude("image").set("image", r.label[0]), separator="."), separator="."
    ),
    "from_feather": lambda r: type(r).from_feather(_written(TensorClass.to_feather, r)),
    "from_json": lambda r: type(r).from_json(_written(TensorClass.to_json, r[0])),
    "from_parquet": lambda r: type(r).from_parquet(_written(TensorClass.to_parquet, r)),
    "from_dict_instance": lambda r: r.from_dict_instance(r.to_dict(), batch_size=SIZE),
    "from_list": lambda r: type(r).from_list([r[0].to_dict(), r[1].to_dict()]),
    "from_namedtuple": lambda r: type(r).from_namedtuple(r.to_namedtuple(), batch_size=SIZE),
    "from_huggingface": lambda r: type(r).from_huggingface(r[0].to_huggingface()),
    "from_pandas": lambda r: type(r).from_pandas(
        r[0].exclude("image").set("image", r.label[0]).to_pandas(separator="."), separator="."
    ),
    "from_polars": lambda r: type(r).from_polars(r[0].to_polars()),
    "from_pydantic": lambda r: type(r).from_pydantic(_model_of_pydantic(r), batch_size=SIZE),
    "from_struct_array": lambda r: type(r).from_struct_array(r.to_struct_array()),
    "from_tuple": lambda r: type(r).from_tuple((r.image, r.label, r.inner), batch_size=SIZE),
    "from_dict": lambda r: type(r).from_dict(dict(r.items()), batch_size=SIZE),
    "from_any": lambda r: type(r).from_any(dict(r.items()), batch_size=SIZE),
    "from_pytree": lambda r: type(r).from_pytree(dict(r.items()), batch_size=SIZE),
    "unchecked": lambda r: type(r).unchecked(r.image, r.label, batch_size=SIZE),
    "from_schema": lambda r: type(r).from_schema({"image": ([2], torch.float32), "label": ([], torch.int64)}),
    "from_tensordict": lambda r: type(r).from_tensordict(r.to_tensordict()),
    "from_store": lambda r: type(r).from_store(dict(r.items()), SIZE),
    "fromkeys": lambda r: type(r).fromkeys(["image", "label"], 0),
    "gather": (0, INDEX),
    "get_sub_tensordict": (0,),
    "lazy_stack": lambda r: type(r).lazy_stack([r, r]),
    "lerp": lambda r: r.lerp(r, 0.5),
    "lerp_": lambda r: r.lerp_(r.clone(), 0.5),
    "load_state_dict": lambda r: r.load_state_dict(r.clone().state_dict()),
    "logical_and": lambda r: r.logical_and(r),
    "logical_or": lambda r: r.logical_or(r),
    "logical_xor": lambda r: r.logical_xor(r),
    "masked_fill": (MASK, 0.0),
    "masked_fill_": (MASK, 0.0),
    "masked_select": (MASK,),
    "maybe_dense_stack": lambda r: type(r).maybe_dense_stack([r, r]),
    "moveaxis": (0, 1),
    "movedim": (0, 1),
    "named_apply": (lambda key, value: value.abs(),),
    "narrow": (1, 0, 2),
    "new_empty": (5,),
    "new_full": ((5,), 1.0),
    "new_ones": (5,),
    "new_tensor": lambda r: r.new_tensor(r),
    "new_zeros": (5,),
    "pad": ([0, 1],),
    "permute": (1, 0),
    "random_split": ([1, 1],),
    "sample": (2,),
    "refine_names": ("a", "b"),
    "rename": ("a", "b"),
    "rename_": ("a", "b"),
    "rename_key_": ("label", "spare"),
    "rename_keys": ({"label": "spare"},),
    "repeat": (2, 1),
    "repeat_interleave": (2, 0),
    "replace": lambda r: r.replace(label=torch.ones(SIZE)),
    "reshape": (3, 2),
    "roll": (1, 0),
    "select": ("image", "inner"),
    "separates": ("label",),
    "set": ("label", torch.ones(SIZE)),
    "set_": ("label", torch.ones(SIZE)),
    "set_at_": ("label", 1.0, 0),
    "set_non_tensor": ("text", "other"),
    "softmax": (0,),
    "sort_by": ("label",),
    "split": (1,),
    "split_keys": (["image"], ["label"]),
    "split_with_sizes": ([1, 1],),
    "stack_tensors": lambda r: r.stack_tensors("label", "label", out_key="spare", dim=-1, keep_entries=True),
    "stack": lambda r: type(r).stack([r, r]),
    "swapaxes": (0, 1),
    "swapdims": (0, 1),
    "take": (torch.tensor([1]),),
    "tensor_split": (2,),
    "tile": ((2, 1),),
    "to": (torch.float64,),
    "transpose": (0, 1),
    "type": (torch.float64,),
    "unflatten": (1, (3, 1)),
    "unique": ("label",),
    "unsqueeze": (0,),
    "update": ({"label": torch.ones(SIZE)},),
    "update_": ({"label": torch.ones(SIZE)},),
    "update_at_": ({"label": torch.ones(3)}, 0),
    "view": (6,),
    "where": (MASK, 0.0),
}

#: operations on integers
INTEGER = {"__and__", "__or__", "__xor__", "__rand__", "__ror__", "__rxor__", "__invert__"} | {
    f"bitwise_{name}" for name in ("and", "or", "xor", "not")
}

#: they need a device that is no CPU, or a kernel that torch does not have
DEVICE = {"cuda", "pin_memory", "pin_memory_", "record_stream"} | {"qint8", "qint32", "quint8", "quint4x2"}

#: those that need a cluster, other processes or a server, which tests/distributed and tests/storage/key_value have
CLUSTER = {"broadcast", "from_ray_dataset", "from_remote_init", "scatter", "to_store"}

#: results whose class the annotations do not say
MORE: dict[str, Callable[[Any], Any]] = {
    "[int]": lambda r: r[0],
    "[slice]": lambda r: r[:, 1:],
    "[None]": lambda r: r[None],
    "[...]": lambda r: r[..., 0],
    "[mask]": lambda r: r[MASK],
    "[list]": lambda r: r[[1, 0]],
    "[tensor]": lambda r: r[INDEX],
    "iter": lambda r: tuple(r),
    "==": lambda r: r == r,
    "!=": lambda r: r != r,
    "2 ** r": lambda r: 2.0**r,
    "tensor + r": lambda r: torch.ones(SIZE) + r,
    "grad": lambda r: r.requires_grad_().detach_().grad or r,
    "all": lambda r: r.all(0),
    "amax": lambda r: r.amax(0),
    "amin": lambda r: r.amin(0),
    "any": lambda r: r.any(0),
    "cummax": lambda r: r.cummax(0)[0],
    "cummin": lambda r: r.cummin(0)[1],
    "logsumexp": lambda r: r.logsumexp(0),
    "max": lambda r: r.max(0)[0],
    "mean": lambda r: r.mean(0),
    "mean over features": lambda r: r.mean(dim="feature"),
    "min": lambda r: r.min(0)[1],
    "nanmean": lambda r: r.nanmean(0),
    "nansum": lambda r: r.nansum(0),
    "prod": lambda r: r.prod(0),
    "quantile": lambda r: r.quantile(0.5, 0),
    "std": lambda r: r.std(0),
    "sum": lambda r: r.sum(),
    "var": lambda r: r.var(0),
    "torch.stack": lambda r: torch.stack([r, r], -1),
    "torch.cat": lambda r: torch.cat([r, r], 1),
    "torch.where": lambda r: torch.where(MASK, r, r),
    "torch.zeros_like": torch.zeros_like,
    "torch.ones_like": torch.ones_like,
    "torch.empty_like": torch.empty_like,
    "torch.full_like": lambda r: torch.full_like(r, 1.0),
    "torch.rand_like": torch.rand_like,
    "torch.unbind": lambda r: torch.unbind(r, 1),
    "torch.split": lambda r: torch.split(r, 1),
    "torch.reshape": lambda r: torch.reshape(r, (6,)),
    "torch.permute": lambda r: torch.permute(r, (1, 0)),
    "torch.sum": lambda r: torch.sum(r, 0),
    "torch.abs": torch.abs,
    "torch.clone": torch.clone,
    "torch.squeeze": torch.squeeze,
}


def _function(member: Any) -> Any:
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _call(name: str, member: Any) -> Callable[[Any], Any]:
    if isinstance(member, property):
        return lambda record: getattr(record, name)
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        parameters = list(inspect.signature(_function(member)).parameters.values())[1:]
        required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        assert required in ([], ["other"]), f"say in ARGUMENTS what {name} is called with"
        arguments = (2,) * len(required)
    if callable(arguments):
        return arguments
    return lambda record: getattr(record, name)(*arguments)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def calls() -> dict[str, Callable[[Any], Any]]:
    """The operations by name; each is called with a record."""
    found = dict(MORE)
    for name in filter(_is_public, dir(TensorClass)):
        member = inspect.getattr_static(TensorClass, name)
        if getattr(_function(member), "__annotations__", {}).get("return") in _SELF and name not in DEVICE | CLUSTER:
            found[name] = _call(name, member)
    return found


CALLS = calls()
