"""A record whose fields hide all members of collections goes through the package, which reads none of the fields."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import io
import pickle
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils import _pytree

from tensorclass import TensorClass, TensorDict, collate, lazy_stack, set_printoptions
from tensorclass.nn import TensorDictModule, TensorDictParams
from tensorclass.td.hidden_members import Members
from tests.calls import CALLS, INTEGER
from tests.storage.formats import FORMATS

NAMES = sorted(name for name in dir(TensorClass) if not name.startswith("_") and name != "batch_size")


class Hiding(TensorClass, shadow=True, kw_only=True):
    image: Tensor
    label: Tensor
    inner: TensorDict | None = None
    spare: Tensor | None = None
    extra: TensorDict | None = None
    __annotations__.update(dict.fromkeys(NAMES, Tensor))


class Outer(TensorClass):
    image: Tensor
    label: Tensor
    inner: Hiding | None = None
    text: str = "a"
    spare: Tensor | None = None
    extra: TensorDict | None = None


def outer(*size: int, integer: bool = False) -> Outer:
    value = torch.arange(1, 1 + torch.Size(size).numel()).reshape(size)
    value = value if integer else value / 10
    below = Hiding(**dict.fromkeys(("image", "label", *NAMES), value), batch_size=size)
    return Outer(value, value, below, batch_size=size)


class Itself(Members):
    """A record for :data:`CALLS`: attributes are the hidden members."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return self._record[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._record[index] = value


#: calls that need the class of the record or fields that it lacks, or give the record itself as an operand
_NOT_ITSELF = {
    "addcdiv", "addcmul", "copy_at_", "grad", "lerp", "load_", "load_memmap_", "load_state_dict", "logical_and",
    "logical_or", "logical_xor", "memmap_refresh_", "new_tensor", "select", "set_non_tensor", "to_h5",
    "to_store", "to_zarr",
}  # fmt: skip
OWN = [
    name
    for name in NAMES
    if name in CALLS
    and name not in _NOT_ITSELF
    and not isinstance(inspect.getattr_static(TensorClass, name), classmethod)
]


def _forbidden(name: str, made: property) -> property:
    def read(self: Any) -> Any:
        caller = sys._getframe(1)
        module = caller.f_globals.get("__name__", "")
        assert not module.startswith("tensorclass."), f"{module}:{caller.f_lineno} reads the field {name!r}"
        assert made.fget is not None
        return made.fget(self)

    return property(read, made.fset, made.fdel)


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package fail where it reads a field as if it were the member that the field hides."""
    for name in NAMES:
        monkeypatch.setattr(Hiding, name, _forbidden(name, vars(Hiding)[name]))


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("call", sorted(CALLS.keys() - {"from_zarr", "to_zarr"}))  # see test_files, for 400 fields
def test_operations_of_an_outer_record(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        CALLS[call](outer(2, 3, integer=call in INTEGER))


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("call", OWN)
def test_operations_of_the_record_itself(call: str) -> None:
    record: Any = outer(2, 3, integer=call in INTEGER).inner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        CALLS[call](Itself(record))


@pytest.mark.usefixtures("guarded")
def test_functions_and_operators_on_the_record_itself() -> None:
    record: Any = outer(2).inner
    results = {
        "index": record[0],
        "mask": record[torch.tensor([True, False])],
        "iterate": next(iter(record)),
        "stack": torch.stack([record, record])[0, 0],
        "cat": torch.cat([record, record])[0],
        "arithmetic": (record * 2 - record)[0],
        "reduce": torch.sum(record[:1], 0),
        "reshape": torch.reshape(record, (2, 1))[0, 0],
        "copy": copy.copy(record)[0],
        "deepcopy": copy.deepcopy(record)[0],
        "clone": torch.clone(record)[0],
        "pytree": _pytree.tree_map(torch.clone, record)[0],
    }
    for name in ("image", *NAMES):
        values = {key: result[name].flatten()[0].item() for key, result in results.items()}
        assert values == dict.fromkeys(results, pytest.approx(0.1))
    with set_printoptions(max_lines=len(NAMES) + 9):
        assert all(f"  {name}:" in repr(record) for name in NAMES)
    record[0] = record[1]
    assert all(record[name].tolist() == [pytest.approx(0.2)] * 2 for name in NAMES)


def test_compiled_code() -> None:
    """Checked without the guard: torch.compile cannot trace a look at the caller."""

    def call(record: Any) -> Any:
        results = record.reshape(2, 1), record.unsqueeze(0), torch.stack([record, record]), record[0], record.unbind(0)
        return *results, record + 1, record.clone(), record.inner.shape, record.inner.reshape * 2

    record = outer(2)  # each row more is four hundred fields to trace
    torch.compiler.reset()
    results: Any = torch.compile(call, fullgraph=True, backend="eager")(record)
    for result, expected in zip(_pytree.tree_leaves(results), _pytree.tree_leaves(call(record)), strict=True):
        torch.testing.assert_close(result, expected)
    assert results[0].inner._batch_size == (2, 1)


def _same_fields(record: Any, like: Any) -> None:
    """Check that a nested record has the fields of another."""
    assert record._batch_size == like._batch_size
    for name in ("image", *NAMES):
        torch.testing.assert_close(record._store[name], like._store[name])


def _into(module: Any, record: Any) -> Any:
    return module(record.to_tensordict())


def _torch_saved(record: Any) -> Any:
    file = io.BytesIO()
    torch.save(record, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


#: ways through the package other than operations: they return a record equal to their argument
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda r: pickle.loads(pickle.dumps(r)),
    "pickle with buffers": lambda r: pickle.loads(pickle.dumps(r, protocol=5)),
    "queue": lambda r: pickle.loads(ForkingPickler.dumps(r)),
    "torch.save": _torch_saved,
    "replace": lambda r: dataclasses.replace(r, label=r.label),
    "iterate": lambda r: torch.stack(list(r)),
    "pytree": lambda r: _pytree.tree_map(torch.clone, r),
    "vmap": lambda r: torch.vmap(lambda row: row.clone())(r),
    "collate": lambda r: collate([r[i] for i in range(len(r))]),
    "lazy_stack": lambda r: lazy_stack([r[i] for i in range(len(r))]).densify(),
    "loader": lambda r: next(iter(torch.utils.data.DataLoader(r, batch_size=len(r), collate_fn=collate))),
    "map": lambda r: r.map(torch.clone, executor=ThreadPoolExecutor(1)),
    "to_dict": lambda r: Outer.from_dict(r.to_dict(), batch_size=r.batch_size),
    "to_tensordict": lambda r: Outer.from_tensordict(r.to_tensordict()),
    "to_struct_array": lambda r: Outer.from_struct_array(r.to_struct_array()),
    "state_dict": lambda r: outer(*r.batch_size).load_state_dict(r.state_dict()),
    "module": partial(_into, TensorDictModule(torch.nn.Identity(), "image", "image")),
    "write rows": lambda r: _rows_written(r),
    "update": lambda r: outer(*r.batch_size).update(r),
    "update_": lambda r: (r * 0).update_(r),
}


def _rows_written(record: Any) -> Any:
    new = record * 0
    new[:2] = record[:2]
    new[2:] = record[2:]
    return new


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("way", WAYS)
def test_ways_through_the_package(way: str) -> None:
    record = outer(4)
    result = WAYS[way](record)
    _same_fields(result._store["inner"], record.inner)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("form", ["folder", "archive", "safetensors", "consolidated", "h5", "zarr"])
def test_files(form: str, tmp_path: Path) -> None:
    if form == "zarr":
        pytest.importorskip("zarr")  # needs Python 3.11
    record = outer(4)
    FORMATS[form].save(record, tmp_path / "file")
    loaded = FORMATS[form].load(tmp_path / "file")
    _same_fields(loaded._store["inner"], record.inner)


@pytest.mark.usefixtures("guarded")
def test_one_process_of_a_group(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        record = outer(4)
        for result in (
            record.clone().all_reduce(),
            record.clone().broadcast(0),
            record.all_gather()[0],
            record.clone().reduce(0),
        ):
            _same_fields((record if result is None else result)._store["inner"], record.inner)
    finally:
        dist.destroy_process_group()


@pytest.mark.usefixtures("guarded")
def test_parameters() -> None:
    params = TensorDictParams(outer(4))
    assert params["inner", "image"].shape == (4,)
    assert len(list(params.parameters())) == len(NAMES) + 4


def test_classes_that_hide_members_cost_other_collections_no_calls() -> None:
    def calls(width: int) -> int:
        data = TensorDict({f"f{number}": torch.zeros(4) for number in range(width)}, [4])
        count = 0

        def profile(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        for run in (False, True):  # the first one fills caches
            sys.setprofile(profile if run else None)
            data.reshape(2, 2)
            sys.setprofile(None)
        return count

    assert calls(50) == calls(1)
