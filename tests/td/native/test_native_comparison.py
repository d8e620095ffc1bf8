"""Operations give the same with native code and without: results, errors, warnings, and the collection afterwards."""

from __future__ import annotations

import cProfile
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import tensorclass
from tensorclass import LazyStackedTensorDict, NonTensorData, NonTensorStack, Ragged, TensorClass, TensorDict, Text
from tensorclass.nn import TensorDictParams
from tests import strategies
from tests.legacy_mode import legacy_methods, switched_on
from tests.native_comparison import outcome

# -- collections ------------------------------------------------------------------------------------------------------


class Point(TensorClass):
    """A plain record."""

    x: torch.Tensor
    y: torch.Tensor


class Sample(TensorClass):
    """A record with a record, text, rows of different length and an object in it."""

    image: torch.Tensor
    point: Point
    caption: Text
    tokens: Ragged
    source: str


class Hiding(TensorClass, shadow=True):
    """Fields that hide members which operations may call."""

    shape: torch.Tensor
    keys: torch.Tensor
    reshape: torch.Tensor
    device: torch.Tensor


class Own(TensorDict):
    """Methods of its own, which operations on the collection around it must call."""

    def _like(self, *args: Any, **kwargs: Any) -> Any:
        new = super()._like(*args, **kwargs)
        new._store["liked"] = torch.zeros(new.batch_size)
        return new

    def reshape(self, *shape: Any) -> Any:
        return super().reshape(*shape).set("reshaped", torch.zeros(()).expand(super().reshape(*shape).batch_size))

    def clone(self, recurse: bool = True) -> Any:
        new = super().clone(recurse)
        new["cloned"] = torch.ones(new.batch_size)
        return new

    def __getitem__(self, item: Any) -> Any:
        found = super().__getitem__(item)
        return found.apply(torch.neg) if isinstance(found, TensorDict) else found


SIZE = (4, 3)


def numbers(*rest: int, size: tuple[int, ...] = SIZE, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    shape = (*size, *rest)
    values = torch.arange(torch.Size(shape).numel(), dtype=torch.float64).reshape(shape) - 5.5
    return values.to(dtype) if dtype is not torch.bool else values > 0


def flat(size: tuple[int, ...] = SIZE, **options: Any) -> TensorDict:
    return TensorDict({"a": numbers(2, size=size), "b": numbers(size=size, dtype=torch.int64)}, size, **options)


def nested(size: tuple[int, ...] = SIZE, **options: Any) -> TensorDict:
    inner = TensorDict({"c": numbers(2, size=size), "d": {"e": numbers(size=size)}}, size)
    return TensorDict({"z": numbers(size=size), "inner": inner, "a": numbers(2, size=size)}, size, **options)


def sample(size: tuple[int, ...] = SIZE) -> Sample:
    flattened = torch.Size(size).numel()
    return Sample(
        image=numbers(2, size=(flattened,)),
        point=Point(x=numbers(size=(flattened,)), y=numbers(2, size=(flattened,)), batch_size=[flattened]),
        caption=Text.from_list([f"text {i}" for i in range(flattened)]),
        tokens=Ragged.from_list([torch.arange(i) for i in range(flattened)]),
        source="somewhere",
        batch_size=[flattened],
    )


def leaf(tensor: Callable[[], Any]) -> Callable[[], TensorDict]:
    return lambda: TensorDict({"a": tensor(), "inner": {"c": numbers(2), "t": tensor()}}, SIZE)


def shared() -> TensorDict:
    tensor = numbers(2)
    return TensorDict({"a": tensor, "again": tensor, "view": tensor[..., 0], "inner": {"c": tensor}}, SIZE)


def lazy() -> LazyStackedTensorDict:
    return LazyStackedTensorDict.lazy_stack([nested((3,)), nested((3,)), nested((3,)), nested((3,))], 0)


def legacy_parameter() -> Any:
    return torch.nn.Parameter(numbers(2))


def named() -> TensorDict:
    return nested(names=["time", "env"])


def named_inside() -> TensorDict:
    outer = nested()
    outer["inner"].names = ["time", None]
    return outer


COLLECTIONS: dict[str, Callable[[], Any]] = {
    "flat": flat,
    "nested": nested,
    "no batch": lambda: nested(()),
    "one dimension": lambda: nested((4,)),
    "no rows": lambda: nested((0, 3)),
    "empty": lambda: TensorDict({}, SIZE),
    "empty inside": lambda: TensorDict({"a": numbers(), "inner": {}}, SIZE),
    "longer inside": lambda: TensorDict({"a": numbers(), "inner": TensorDict({"c": numbers(2)}, (*SIZE, 2))}, SIZE),
    "names": named,
    "names inside": named_inside,
    "device": lambda: nested(device="cpu"),
    "meta": lambda: nested(device="meta"),
    "locked": lambda: nested().lock_(),
    "record": lambda: Point(x=numbers(2), y=numbers(dtype=torch.int32), batch_size=SIZE),
    "record, nested": lambda: TensorDict(
        {"p": Point(x=numbers(2), y=numbers(), batch_size=SIZE), "a": numbers()}, SIZE
    ),
    "record of everything": sample,
    "fields that hide members": lambda: Hiding(numbers(), numbers(2), numbers(), numbers(), batch_size=SIZE),
    "they hide inside": lambda: TensorDict(
        {"h": Hiding(numbers(), numbers(2), numbers(), numbers(), batch_size=SIZE)}, SIZE
    ),
    "overrides": lambda: Own({"a": numbers(2)}, SIZE),
    "overrides inside": lambda: TensorDict({"a": numbers(), "own": Own({"c": numbers(2)}, SIZE)}, SIZE),
    "objects": lambda: TensorDict({"a": numbers(), "o": NonTensorData({"x": 1}, batch_size=SIZE)}, SIZE),
    "objects by row": lambda: TensorDict({"a": numbers(size=(4,)), "o": NonTensorStack("p", "q", "r", "s")}, [4]),
    "lazy": lazy,
    "lazy inside": lambda: TensorDict({"a": numbers(), "lazy": lazy()}, SIZE),
    "parameters": lambda: TensorDictParams(nested(())),
    "parameters inside": lambda: TensorDict({"a": numbers(size=()), "p": TensorDictParams(nested(()))}, ()),
    "parameter": leaf(legacy_parameter),
    "gradient": leaf(lambda: numbers(2).requires_grad_()),
    "result with gradient": leaf(lambda: numbers(2).requires_grad_() * 2),
    "integers": leaf(lambda: numbers(2, dtype=torch.int16)),
    "bools": leaf(lambda: numbers(2, dtype=torch.bool)),
    "complex": leaf(lambda: numbers(2, dtype=torch.complex64)),
    "conjugated": leaf(lambda: numbers(2, dtype=torch.complex64).conj()),
    "half": leaf(lambda: numbers(2, dtype=torch.float16)),
    "expanded": leaf(lambda: torch.ones(1, 3, 1).expand(4, 3, 2)),
    "not contiguous": leaf(lambda: numbers(2, size=(3, 4)).transpose(0, 1)),
    "subclass of tensor": leaf(lambda: numbers(2).as_subclass(Subclass)),
    "shared memory of two": shared,
    "one piece": lambda: nested().consolidate(),
    "memory mapped": lambda: nested().memmap(),
    "sub": lambda: flat((5, 4, 3)).get_sub_tensordict(1),
    "wide": lambda: TensorDict({f"k{i}": numbers(i % 3 + 1) for i in range(20)}, SIZE),
}


class Subclass(torch.Tensor):
    """A tensor of another class."""


# -- operations -------------------------------------------------------------------------------------------------------

MASK = torch.arange(12).reshape(SIZE) % 3 == 0
ROWS = torch.tensor([2, 0, 3])


def other(data: Any) -> Any:
    """Another operand with the keys of a collection."""
    return data.clone().apply(lambda value: value * 2 if value.dtype is not torch.bool else ~value)


def in_block(enter: Callable[[Any], Any], write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        with enter(data) as inner:
            write(inner)
        return data

    return run


INDICES: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "outside": 9,
    "slice": slice(1, 3),
    "step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "ellipsis": ...,
    "everything": slice(None),
    "ellipsis in a tuple": (...,),
    "nothing": (),
    "none": None,
    "bool": True,
    "pair": (1, 2),
    "column": (slice(None), 1),
    "mixed": (..., None, slice(0, 2)),
    "too many": (0, 0, 0, 0),
    "tensor": ROWS,
    "tensor of bytes": ROWS.to(torch.uint8),
    "tensor of one": torch.tensor(1),
    "two tensors": (ROWS, torch.tensor([0, 1, 2])),
    "tensor and slice": (slice(None), torch.tensor([2, 0])),
    "outside tensor": torch.tensor([7]),
    "mask": MASK,
    "mask of rows": torch.tensor([True, False, True, False]),
    "short mask": torch.tensor([True, False]),
    "list": [0, 2],
    "list of bools": [True, False, False, True],
    "range": range(2),
    "empty list": [],
    "float": 1.5,
    "big": 10**30,
}

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    **{f"[{name}]": lambda d, item=item: d[item] for name, item in INDICES.items()},
    **{f"[{name}] = row": lambda d, item=item: d.__setitem__(item, d[item].clone()) for name, item in INDICES.items()},
    "[0] = number": lambda d: d.__setitem__(0, 1),
    "[0] = other keys": lambda d: d.__setitem__(0, TensorDict({"q": torch.zeros(3)}, [3])),
    "[:2] = too long": lambda d: d.__setitem__(slice(0, 2), d.clone()),
    "reshape": lambda d: d.reshape(-1),
    "reshape to 3": lambda d: d.reshape(2, 2, 3),
    "reshape, wrong": lambda d: d.reshape(5, -1),
    "view": lambda d: d.view(12),
    "flatten": lambda d: d.flatten(0, 1),
    "unflatten": lambda d: d.unflatten(0, (2, 2)),
    "squeeze": lambda d: d[:, :1].squeeze(1),
    "squeeze all": lambda d: d[:1, :1].squeeze(),
    "squeeze all, one": lambda d: d[:1].squeeze(),
    "squeeze nothing": lambda d: d.squeeze(0),
    "unsqueeze": lambda d: d.unsqueeze(-1),
    "expand": lambda d: d.expand(2, *d.shape),
    "permute": lambda d: d.permute(1, 0),
    "transpose": lambda d: d.transpose(0, 1),
    "write through flatten": in_block(lambda d: d.flatten(0, 1), lambda d: d.set("new", torch.ones(12))),
    "write through permute": in_block(lambda d: d.permute(1, 0), lambda d: d.set("new", torch.ones(3, 4))),
    "write through unsqueeze": in_block(lambda d: d.unsqueeze(0), lambda d: d.set("new", torch.ones(1, 4, 3))),
    "write through view": in_block(lambda d: d.view(-1), lambda d: d.set("new", torch.ones(12))),
    "split": lambda d: d.split(2),
    "split, sizes": lambda d: d.split([1, 3]),
    "chunk": lambda d: d.chunk(2, 1),
    "tensor_split": lambda d: d.tensor_split(3),
    "unbind": lambda d: d.unbind(0),
    "unbind 1": lambda d: d.unbind(1),
    "iterate": list,
    "narrow": lambda d: d.narrow(0, 1, 2),
    "gather": lambda d: d.gather(0, torch.zeros(2, 3, dtype=torch.long)),
    "take rows": lambda d: torch.index_select(d, 0, ROWS),
    "masked_select": lambda d: d.masked_select(MASK),
    "roll": lambda d: d.roll(1, 0),
    "flip": lambda d: d.flip(0),
    "repeat": lambda d: d.repeat(2, 1),
    "repeat_interleave": lambda d: d.repeat_interleave(2, 0),
    "stack": lambda d: torch.stack([d, d.clone()], 1),
    "stack last": lambda d: torch.stack([d, d], -1),
    "stack of other keys": lambda d: torch.stack([d, d.clone().exclude("a")]),
    "stack of other shapes": lambda d: torch.stack([d, d[:2]]),
    "stack of other dtypes": lambda d: torch.stack([d, d.double()]),
    "cat": lambda d: torch.cat([d, d.clone()], 0),
    "cat 1": lambda d: torch.cat([d, d[:, :1]], 1),
    "cat of one": lambda d: torch.cat([d]),
    "cat of other keys": lambda d: torch.cat([d, d.clone().exclude("a")]),
    "cat of other shapes": lambda d: torch.cat([d, d[:, :1]], 0),
    "lazy_stack": lambda d: LazyStackedTensorDict.lazy_stack([d, d.clone()], 0).contiguous(),
    "+ 1": lambda d: d + 1,
    "1 - d": lambda d: 1 - d,
    "+ tensor": lambda d: d + torch.ones(()),
    "+ other": lambda d: d + other(d),
    "* other": lambda d: d * other(d),
    "/ other": lambda d: d / other(d),
    "+ other order": lambda d: d + d.select(*reversed(list(d.keys()))),
    "+ other keys": lambda d: d + d.exclude("a"),
    "+ other shapes": lambda d: d + d[:2],
    "+ text": lambda d: d + "text",
    "+= 1": lambda d: d.__iadd__(1),
    "add alpha": lambda d: d.add(1, alpha=2),
    "add_": lambda d: d.add_(2),
    "add_ other": lambda d: d.add_(other(d)),
    "add_ float": lambda d: d.add_(1.5),
    "mul_": lambda d: d.mul_(2),
    "sub_ too wide": lambda d: d.sub_(torch.ones(2, 4, 3)),
    "pow": lambda d: d**2,
    "exp": lambda d: d.exp(),
    "exp_": lambda d: d.exp_(),
    "sqrt": lambda d: d.sqrt(),
    "neg": lambda d: -d,
    "abs": lambda d: abs(d),
    "clamp": lambda d: d.clamp(-1, 1),
    "clamp_min_": lambda d: d.clamp_min_(0),
    "lerp": lambda d: d.lerp(other(d), 0.5),
    "addcmul": lambda d: d.addcmul(d, d, value=2),
    "maximum": lambda d: d.maximum(other(d)),
    "round": lambda d: d.round(),
    "isnan": lambda d: d.isnan(),
    "== other": lambda d: d == other(d),
    "== 1": lambda d: d == 1,
    "< 1": lambda d: d < 1,
    "~": lambda d: ~d,
    "&": lambda d: d & d,
    "== and all": lambda d: (d == d).all(),
    "any": lambda d: (d == d).any(),
    "where": lambda d: d.where(MASK, other(d)),
    "where number": lambda d: d.where(MASK, 0),
    "masked_fill": lambda d: d.masked_fill(MASK, 0),
    "masked_fill_": lambda d: d.masked_fill_(MASK, 0),
    "sum": lambda d: d.sum(),
    "sum 0": lambda d: d.sum(dim=0),
    "sum keepdim": lambda d: d.sum(dim=1, keepdim=True),
    "sum dtype": lambda d: d.sum(dim=0, dtype=torch.float64),
    "sum reduce": lambda d: d.sum(reduce=True),
    "mean": lambda d: d.mean(dim=0),
    "std": lambda d: d.std(dim=0),
    "amax": lambda d: d.amax(dim=0),
    "max": lambda d: d.max(dim=0),
    "prod": lambda d: d.prod(dim=(0, 1)),
    "norm": lambda d: d.norm(),
    "cumsum": lambda d: d.cumsum(0),
    "logsumexp": lambda d: d.logsumexp(dim=0),
    "sum, wrong dim": lambda d: d.sum(dim=5),
    "clone": lambda d: d.clone(),
    "clone, not deep": lambda d: d.clone(recurse=False),
    "copy": lambda d: d.copy(),
    "detach": lambda d: d.detach(),
    "data": lambda d: d.data,
    "contiguous": lambda d: d.contiguous(),
    "to cpu": lambda d: d.to("cpu"),
    "to meta": lambda d: d.to("meta"),
    "to double": lambda d: d.to(torch.float64),
    "double": lambda d: d.double(),
    "float": lambda d: d.float(),
    "half": lambda d: d.half(),
    "cpu": lambda d: d.cpu(),
    "type": lambda d: d.type(torch.float32),
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "full_like": lambda d: torch.full_like(d, 3),
    "empty_like": lambda d: torch.empty_like(d).zero_(),
    "new_zeros": lambda d: d.new_zeros(2, 3),
    "zero_": lambda d: d.zero_(),
    "fill_": lambda d: d.fill_("a", 1),
    "requires_grad_": lambda d: d.requires_grad_(),
    "is_contiguous": lambda d: d.is_contiguous(),
    "is_empty": lambda d: d.is_empty(),
    "numel": lambda d: d.numel(),
    "bytes": lambda d: d.bytes(),
    "keys": lambda d: list(d.keys()),
    "keys, all": lambda d: list(d.keys(True, True)),
    "keys, nested": lambda d: list(d.keys(True)),
    "keys, sorted": lambda d: list(d.keys(True, True, sort=True)),
    "items": lambda d: list(d.items()),
    "items, all": lambda d: list(d.items(True, True)),
    "values": lambda d: list(d.values()),
    "values, all": lambda d: list(d.values(True, True)),
    "len of keys": lambda d: (len(d.keys()), "a" in d.keys(), ("inner", "c") in d.keys(True)),  # noqa: SIM118
    "in": lambda d: ("a" in d, ("inner", "c") in d, "q" in d),
    "get": lambda d: (d.get("a"), d.get("q", None)),
    "get nested": lambda d: d["inner", "c"],
    "get, missing": lambda d: d["q"],
    "get, missing nested": lambda d: d["inner", "q"],
    "get_at": lambda d: d.get_at("a", 1),
    "set": lambda d: d.set("a", numbers(5)),
    "set, wrong shape": lambda d: d.set("a", torch.zeros(7, 7)),
    "set nested": lambda d: d.set(("inner", "new"), numbers(5)),
    "set into new": lambda d: d.set(("other", "new"), numbers(5)),
    "set item": lambda d: d.__setitem__("a", numbers(2)),
    "set a collection": lambda d: d.set("a", TensorDict({"q": numbers()}, SIZE)),
    "set a number": lambda d: d.set("a", 1.0),
    "set a string": lambda d: d.set("a", "text"),
    "set_": lambda d: d.set_("a", numbers(2)),
    "set_, wrong": lambda d: d.set_("a", numbers(7)),
    "set_at_": lambda d: d.set_at_("a", 1, 0),
    "update": lambda d: d.update({"a": numbers(2), "inner": {"c": numbers(2)}}),
    "update, wrong": lambda d: d.update({"z": numbers(), "a": torch.zeros(7, 7)}),
    "update other": lambda d: d.update(other(d)),
    "update clone": lambda d: d.update(other(d), clone=True),
    "update_": lambda d: d.update_(other(d)),
    "update_ dict": lambda d: d.update_({"a": numbers(2)}),
    "update_ unknown": lambda d: d.update_({"z": numbers(), "unknown": numbers()}),
    "update_ wrong": lambda d: d.update_({"z": numbers(), "a": numbers(9)}),
    "update_at_": lambda d: d.update_at_(other(d)[0], 0),
    "copy_": lambda d: d.copy_(other(d)),
    "copy_ wrong": lambda d: d.copy_(other(d)[:2]),
    "select": lambda d: d.select("a"),
    "select nested": lambda d: d.select(("inner", "c"), strict=False),
    "select, missing": lambda d: d.select("q"),
    "exclude": lambda d: d.exclude("a"),
    "exclude nested": lambda d: d.exclude(("inner", "c")),
    "rename": lambda d: d.clone(False).rename_key_("a", "q"),
    "del": lambda d: d.del_("a"),
    "pop": lambda d: d.pop("a"),
    "pop, default": lambda d: d.pop("q", None),
    "flatten_keys": lambda d: d.flatten_keys("."),
    "flatten and unflatten keys": lambda d: d.flatten_keys(".").unflatten_keys("."),
    "empty": lambda d: d.empty(),
    "empty, recurse": lambda d: d.empty(recurse=True),
    "to_dict": lambda d: d.to_dict(),
    "from to_dict": lambda d: TensorDict.from_dict(d.to_dict()),
    "to_tensordict": lambda d: d.to_tensordict(),
    "apply": lambda d: d.apply(lambda value: value * 2),
    "apply two": lambda d: d.apply(lambda value, second: value + second, other(d)),
    "apply inplace": lambda d: d.apply(lambda value: value * 2, inplace=True),
    "apply batch size": lambda d: d.apply(lambda value: value.sum(0), batch_size=[3]),
    "named_apply": lambda d: d.named_apply(lambda name, value: value if name != "a" else None, nested_keys=True),
    "apply nothing": lambda d: d.apply(lambda value: None),
    "lock": lambda d: d.lock_(),
    "unlock": lambda d: d.lock_().unlock_(),
    "write when locked": lambda d: d.lock_().set("a", numbers(2)),
    "in a locked block": in_block(lambda d: d.unlock_(), lambda d: d.set("new", numbers())),
    "names": lambda d: d.refine_names("time", ...).names,
    "rename names": lambda d: d.rename("x", "y"),
    "batch_size": lambda d: setattr(d, "batch_size", [4]),
    "auto_batch_size_": lambda d: d.auto_batch_size_(),
    "auto_device_": lambda d: d.auto_device_(),
    "clear_device_": lambda d: d.clear_device_(),
    "consolidate": lambda d: d.consolidate(),
    "split_keys": lambda d: d.split_keys(["a"]),
    "cat_tensors": lambda d: d.cat_tensors("a", "z", out_key="q", dim=0),
    "stack_tensors": lambda d: d.stack_tensors("a", "a", out_key="q"),
    "pad": lambda d: tensorclass.pad(d, [0, 1], value=1.0),
    "equal": lambda d: (d == d.clone()).all(),
    "constructor": lambda d: TensorDict(d, batch_size=d.batch_size),
    "constructor of items": lambda d: TensorDict(dict(d.items()), batch_size=d.batch_size, device="cpu"),
    "replace": lambda d: d.replace(a=numbers(2)),
    "masked write": lambda d: d.__setitem__(MASK, 0),
    "backward": lambda d: torch.autograd.grad(
        sum(value.sum() for value in (d * 2 + 1).reshape(-1)[2:].values(True, True) if value.requires_grad),
        [value for value in d.values(True, True) if value.requires_grad],
    ),
}


# -- comparisons ------------------------------------------------------------------------------------------------------

#: collections that every operation meets; of the others each meets a third, or all with HYPOTHESIS_PROFILE=thorough
ALWAYS = frozenset({"nested", "record of everything", "overrides inside", "gradient", "lazy inside", "names"})
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def chosen(operation: str) -> list[str]:
    turn = list(OPERATIONS).index(operation)
    return [name for i, name in enumerate(COLLECTIONS) if THOROUGH or name in ALWAYS or (i + turn) % 3 == 0]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_the_same_for_every_collection(name: str) -> None:
    different = {}
    for kind in chosen(name):
        with_native, without = (outcome(COLLECTIONS[kind], OPERATIONS[name], native) for native in (True, False))
        if with_native != without:
            different[kind] = (with_native, without)
    assert different == {}


class Passing(TorchFunctionMode):
    """Sees the calls of functions, and makes them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):
    """Sees the calls of operators, and makes them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "function mode": Passing,
    "dispatch mode": Dispatching,
    "legacy mode": switched_on,
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "profiler of Python": cProfile.Profile,
}


@pytest.mark.parametrize("mode", MODES)
def test_operations_give_the_same_in_modes_of_torch(mode: str) -> None:
    def in_mode(operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(data: Any) -> Any:
            with MODES[mode]():
                return operation(data)

        return run

    turn = list(MODES).index(mode)
    different = {}
    with legacy_methods() if mode == "legacy mode" else nullcontext():
        for name in list(OPERATIONS)[turn % 5 :: 1 if THOROUGH else 5]:
            for kind in ("nested", "result with gradient", "record of everything"):
                with_native, without = (
                    outcome(COLLECTIONS[kind], in_mode(OPERATIONS[name]), native) for native in (True, False)
                )
                if with_native != without:
                    different[name, kind] = (with_native, without)
    assert different == {}


def transformed(transform: Callable[[Callable[[torch.Tensor], Any]], Any], operation: Callable[[Any], Any]) -> Any:
    """An operation on a collection of tensors that a transform of torch.func has wrapped."""

    def on_tensor(tensor: torch.Tensor) -> Any:
        data = TensorDict({"a": tensor, "inner": {"c": tensor[..., 0]}, "z": tensor[..., 1]}, SIZE)
        result = operation(data)
        found = result if isinstance(result, (tuple, list)) else [result]
        collections = [data, *(entry for entry in found if isinstance(entry, TensorDict))]
        tensors = [value for collection in collections for value in collection.values(True, True)]
        return sum(value.sum() for value in tensors if value.is_floating_point())

    return transform(on_tensor)


TRANSFORMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "grad": (torch.func.grad, (*SIZE, 2)),
    "vmap": (torch.func.vmap, (5, *SIZE, 2)),
    "vmap of grad": (lambda function: torch.func.vmap(torch.func.grad(function)), (5, *SIZE, 2)),
    "functionalize": (torch.func.functionalize, (*SIZE, 2)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_operations_give_the_same_in_transforms(name: str) -> None:
    transform, shape = TRANSFORMS[name]
    turn = list(TRANSFORMS).index(name)
    different = {}
    for operation in list(OPERATIONS)[turn :: 1 if THOROUGH else 4]:
        run = transformed(transform, OPERATIONS[operation])
        with_native, without = (outcome(lambda: numbers(size=shape), run, native) for native in (True, False))
        if with_native != without:
            different[operation] = (with_native, without)
    assert different == {}


@given(st.data())
@settings(max_examples=100)
def test_operations_give_the_same_for_random_collections(data: st.DataObject) -> None:
    size = data.draw(strategies.shapes(max_dims=2, max_size=4))
    tree = data.draw(strategies.deep_trees(max_leaves=8))
    names = data.draw(st.none() | strategies.names_or_none(len(size)))
    device = data.draw(st.sampled_from((None, None, "cpu")))
    index = data.draw(strategies.indices(size))
    operation = data.draw(st.sampled_from([*OPERATIONS.values(), *[lambda d: d[index]] * 20]))
    with_native, without = (
        outcome(lambda: tree.build(size, names, device=device), operation, native) for native in (True, False)
    )
    assert with_native == without
