"""Writes in place in native code do what they do in Python: all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.td import native
from tests.native_and_python import assert_same, outcome
from tests.native_code import functions, native_code


class Inner(TensorClass):
    x: Tensor


class Outer(TensorClass):
    inner: Inner
    y: Tensor
    note: str | None = None


def _filled(rows: int, number: float = 0.0, **kwargs: Any) -> TensorDict:
    values = number + torch.arange(rows * 6.0).reshape(rows, 2, 3)
    return TensorDict(
        {"a": values, "b": values[:, 0, 0].clone().to(torch.int64), "c": {"d": values[:, 1].clone(), "e": values > 2}},
        [rows],
        **kwargs,
    )


def _record(rows: int, number: float = 0.0, **kwargs: Any) -> Outer:
    inner = Inner(number + torch.arange(rows * 2.0).reshape(rows, 2), batch_size=[rows])
    return Outer(inner, torch.full((rows,), number), **kwargs, batch_size=[rows])


def _setitem(index: Any) -> Callable[[Any, Any], Any]:
    def write(data: Any, rows: Any) -> Any:
        data[index] = rows
        return data

    return write


def _with(key: str, value: Any, rows: int = 4) -> TensorDict:
    data = _filled(rows)
    data._store[key] = value
    return data


DATA: dict[str, Callable[[], Any]] = {
    "nested": lambda: _filled(4),
    "record": lambda: _record(4),
    "names": lambda: _filled(4, names=["x"]),
    "device": lambda: _filled(4, device="cpu"),
    "locked": lambda: _filled(4).lock_(),
    "in one piece": lambda: _filled(4).consolidate(),
    "text": lambda: TensorDict({"a": torch.zeros(4, 2, 3), "s": ["p", "q", "r", "s"]}, [4]),
    "leaf that requires grad": lambda: _with("a", torch.ones(4, 2, 3, requires_grad=True)),
    "view of a leaf": lambda: _with("a", torch.ones(8, 2, 3, requires_grad=True)[::2]),
    "result with history": lambda: _with("a", torch.ones(4, 2, 3, requires_grad=True) * 2),
    "expanded": lambda: _with("a", torch.ones(2, 3).expand(4, 2, 3)),
    "transposed": lambda: _with("a", torch.ones(3, 2, 4).permute(2, 1, 0)),
    "half": lambda: _with("a", torch.ones(4, 2, 3, dtype=torch.float16)),
    "complex": lambda: _with("a", torch.ones(4, 2, 3, dtype=torch.complex64)),
    "conjugated": lambda: _with("a", torch.ones(4, 2, 3, dtype=torch.complex64).conj()),
    "parameter": lambda: _with("a", torch.nn.Parameter(torch.ones(4, 2, 3), requires_grad=False)),
    "meta": lambda: TensorDict({"a": torch.ones(4, 2, 3, device="meta")}, [4]),
    "lazy": lambda: lazy_stack([_filled(4)[i].clone() for i in range(4)]),
    "empty": lambda: TensorDict({}, [4]),
}

INDICES: dict[str, tuple[Any, int | None]] = {  # with the number of rows; None: a row without its dimension
    "int": (2, None),
    "last": (-1, None),
    "slice": (slice(1, 3), 2),
    "slice with a step": (slice(0, None, 2), 2),
    "empty slice": (slice(3, 1), 0),
    "all": (..., 4),
    "tuple": ((slice(1, 3),), 2),
    "none": (None, 1),
    "positions": (torch.tensor([3, 0, -2]), 3),
    "positions twice": (torch.tensor([1, 1, 0]), 3),
    "no positions": (torch.tensor([], dtype=torch.long), 0),
    "int32": (torch.tensor([1, 0], dtype=torch.int32), 2),
    "mask": (torch.tensor([True, False, True, True]), 3),
    "empty mask": (torch.zeros(4, dtype=torch.bool), 0),
    "list": ([1, 0], 2),
    # errors
    "int out of range": (4, None),
    "position out of range": (torch.tensor([0, 4]), 2),
    "mask of another length": (torch.ones(3, dtype=torch.bool), 3),
    "too many": ((0, 0), None),
}


@pytest.mark.parametrize("data", [*DATA])
def test_rows_are_written_as_in_python(data: str) -> None:
    def make(at: Any, count: int | None) -> tuple[Any, ...]:
        whole = DATA[data]()
        source: Any = _record(4, 50.0) if data == "record" else _filled(4, 50.0)
        if data == "text":
            source = TensorDict({"a": torch.ones(4, 2, 3), "s": ["t"] * 4}, [4])
        if data in ("meta", "empty"):
            source = TensorDict({}, [4]) if data == "empty" else source.select("a")
        rows = source[0] if count is None else source[:1][None] if at is None else source[:count]
        return whole, rows.clone()

    for name, (at, count) in INDICES.items():
        assert_same(partial(make, at, count), _setitem(at), name)


ROWS: dict[str, Callable[[], Any]] = {
    "more keys": lambda: TensorDict({**_filled(2, 9.0), "new": torch.ones(2)}, [2]),
    "fewer keys": lambda: _filled(2, 9.0).select("b"),
    "another dtype": lambda: _filled(2, 9.0).double(),
    "complex rows": lambda: _with("b", torch.ones(2, dtype=torch.complex64), 2),
    "rows of another length": lambda: _filled(3, 9.0),
    "one row for all": lambda: _filled(1, 9.0),
    "a row without dimensions": lambda: _filled(1, 9.0)[0],
    "broadcast behind": lambda: _with("a", torch.ones(2, 1, 3), 2),
    "another shape in the last": lambda: TensorDict(
        {**_filled(2, 9.0).exclude("c"), "c": {"e": torch.ones(2, 7)}}, [2]
    ),
    "tensor for a collection": lambda: _with("c", torch.ones(2), 2),
    "collection for a tensor": lambda: _with("a", _filled(2), 2),
    "record for a collection": lambda: _with("c", Inner(torch.ones(2), batch_size=[2]), 2),
    "requires grad": lambda: _with("a", torch.ones(2, 2, 3, requires_grad=True), 2),
    "meta rows": lambda: _with("b", torch.ones(2, dtype=torch.long, device="meta"), 2),
    "lazy rows": lambda: lazy_stack([_filled(1)[0], _filled(1)[0]]),
    "mapping": lambda: {"b": torch.tensor([7, 8])},
    "number": lambda: 3,
    "float": lambda: 2.5,
    "bool": lambda: True,
    "complex number": lambda: 1j,
    "number that does not fit": lambda: 2**70,
    "tensor": lambda: torch.tensor(4.0),
    "tensor over the rows": lambda: torch.tensor([4.0, 5.0]),
    "text": lambda: "text",
}


@pytest.mark.parametrize("rows", [*ROWS])
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_other_rows_are_written_or_refused_as_in_python(rows: str) -> None:
    for index in ("slice", "positions", "int32", "mask", "all", "int"):
        assert_same(lambda: (_filled(4), ROWS[rows]()), _setitem(INDICES[index][0]), index)


# fmt: off
KINDS = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.uint16,
)
# fmt: on


@pytest.mark.parametrize("number", [0, -1, 1.75, True, 300, float("nan"), float("inf"), 2**40])
@pytest.mark.parametrize("index", [0, slice(1, 3), ..., torch.tensor([True, False, True]), torch.tensor([2, 0])])
def test_numbers_are_converted_as_in_python(index: Any, number: float) -> None:
    for kind in KINDS:

        def make(kind: torch.dtype = kind) -> tuple[Any, ...]:
            return TensorDict({"a": torch.ones(3, 2, dtype=kind)}, [3]), number

        def write(data: TensorDict, number: float) -> str:
            data[index] = number
            return repr(data["a"])  # nan is not equal to itself

        with native_code(False):
            expected = outcome(write, make())[0]
        assert outcome(write, make())[0] == expected


SOURCES: dict[str, Callable[[], Any]] = {
    "collection": lambda: _filled(4, 9.0),
    "mapping": lambda: {"a": torch.ones(4, 2, 3), "c": {"d": torch.ones(4, 3)}},
    "nested keys": lambda: {("c", "d"): torch.ones(4, 3)},
    "record below": lambda: _with("c", Inner(torch.ones(4), batch_size=[4])),
    "another dtype": lambda: _filled(4, 9.0).double(),
    "broadcast": lambda: {"a": torch.ones(2, 3), "b": torch.ones(4)},
    "another shape in the last": lambda: {"a": torch.ones(4, 2, 3), "b": torch.ones(5)},
    "missing key": lambda: {"a": torch.ones(4, 2, 3), "x": torch.ones(4)},
    "more keys": lambda: TensorDict({**_filled(4, 9.0), "x": torch.ones(4)}, [4]),
    "fewer keys": lambda: _filled(4, 9.0).select("a"),
    "list": lambda: {"a": [[[0.0] * 3] * 2] * 4},
    "requires grad": lambda: _with("a", torch.ones(4, 2, 3, requires_grad=True)),
    "locked": lambda: _filled(4, 9.0).lock_(),
    "itself": lambda: None,
    "nothing": dict,
}

UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "update_": lambda data, source: data.update_(source),
    "copy_": lambda data, source: data.copy_(source),
    "update": lambda data, source: data.update(source),
    "update in place": lambda data, source: data.update(source, inplace=True),
    "set_": lambda data, source: data.set_("a", source["a"]),
}


@pytest.mark.parametrize("source", [*SOURCES])
def test_values_are_updated_as_in_python(source: str) -> None:
    def make(data: str) -> tuple[Any, ...]:
        whole = DATA[data]()
        return whole, whole if source == "itself" else SOURCES[source]()

    for data in ("nested", "locked", "leaf that requires grad", "expanded", "transposed"):
        for update, operation in UPDATES.items():
            assert_same(partial(make, data), operation, (data, update))


@pytest.mark.parametrize("update", [*UPDATES])
def test_records_are_updated_as_in_python(update: str) -> None:
    assert_same(lambda: (_record(4), _record(4, 7.0)), UPDATES[update])
    assert_same(lambda: (_record(4), _record(4, 7.0).to_tensordict()), UPDATES[update])
    assert_same(lambda: (_record(4), {"y": torch.ones(4), "a": torch.ones(4)}), UPDATES[update])


def _overlaps() -> dict[str, Callable[[TensorDict], Any]]:
    def onto(target: Any, source: Any) -> Callable[[TensorDict], Any]:
        return lambda data: _setitem(target)(data, data[source])

    def swap(data: TensorDict) -> Any:
        return data.update_({"a": data["b"], "b": data["a"]})

    def by_own_value(data: TensorDict) -> Any:
        return _setitem(data["i"])(data, data[:3].clone())

    return {
        "shifted up": onto(slice(1, None), slice(None, -1)),
        "shifted down": onto(slice(None, -1), slice(1, None)),
        "apart": onto(slice(0, 2), slice(2, 4)),
        "itself": onto(..., ...),
        "reversed": onto(torch.tensor([3, 2, 1, 0]), slice(None)),
        "swapped": swap,
        "index among the values": by_own_value,
    }


@pytest.mark.parametrize("name", [*_overlaps()])
def test_memory_that_overlaps_is_written_as_in_python(name: str) -> None:
    def make() -> tuple[Any, ...]:
        return (
            TensorDict({"a": torch.arange(4.0), "b": torch.arange(4.0) + 10, "i": torch.tensor([2, 0, 1, 3])}, [4]),
        )

    operation = _overlaps()[name]
    if name == "index among the values":
        assert_same(lambda: (make()[0][:3].clone(),), operation)
    else:
        assert_same(make, operation)


def test_autograd_notices_writes() -> None:
    data = TensorDict({"a": torch.ones(3)}, [3])
    versions = [data["a"]._version]
    data[0] = TensorDict({"a": torch.tensor(2.0)})
    versions.append(data["a"]._version)
    data[torch.tensor([1])] = TensorDict({"a": torch.zeros(1)}, [1])
    versions.append(data["a"]._version)
    data[torch.tensor([True, False, False])] = 4.0
    versions.append(data["a"]._version)
    data.update_({"a": torch.ones(3)})
    versions.append(data["a"]._version)
    data.set_("a", torch.ones(3))
    versions.append(data["a"]._version)
    assert versions == [*range(6)]
    weight = torch.ones(3, requires_grad=True)
    product = (weight * data["a"]).sum()
    data[0] = 7.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_modes_and_transforms_see_writes() -> None:
    def in_vmap(data: TensorDict, rows: TensorDict) -> Any:
        def one(whole: TensorDict, row: TensorDict) -> TensorDict:
            whole = whole.clone()
            whole[0] = row
            whole.update_(whole.clone().zero_())
            whole[1:] = 5.0
            return whole

        return torch.vmap(one)(data, rows)

    def make() -> tuple[Any, ...]:
        return TensorDict({"a": torch.arange(12.0).reshape(2, 3, 2)}, [2, 3]), TensorDict({"a": torch.ones(2, 2)}, [2])

    assert_same(make, in_vmap)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_same(make, lambda data, rows: _setitem((slice(None), 0))(data, rows))
            assert_same(lambda: (DATA["view of a leaf"](), _filled(1)[0]), _setitem(0))
    with FakeTensorMode():
        fake = TensorDict({"a": torch.ones(3)}, [3])
        fake[0] = TensorDict({"a": torch.ones(())})
        fake[:] = 3.0
        assert type(fake["a"]).__name__ == "FakeTensor"


def test_many_rows_are_written_as_in_python() -> None:
    def make() -> tuple[Any, ...]:
        return TensorDict({"a": torch.zeros(3000, 40)}, [3000]), TensorDict({"a": torch.ones(2999, 40)}, [2999])

    for index in (slice(1, None), torch.arange(2999), torch.arange(3000) > 0):
        assert_same(make, _setitem(index))
    for place in (slice(None), 5, torch.tensor([7, 2999])):
        assert_same(lambda: (make()[0], 3.0), _setitem(place))


@pytest.mark.skipif(not native.ON, reason="native code is off")
def test_native_code_takes_the_usual_writes() -> None:
    for make in (_filled, _record):
        for at, count in INDICES.values():
            usual = count is not None and count > 0 and at is not None and not isinstance(at, list)
            if usual and not (isinstance(at, Tensor) and at.dtype is torch.int32):
                wrong = isinstance(at, Tensor) and (len(at) == 2 or (at.dtype is torch.bool and len(at) == 3))
                assert functions()["write"](make(4), at, make(4)[:count]) is (None if wrong else True)
        assert functions()["write"](make(4), 1, make(4)[0])
        assert functions()["write_all"](make(4), make(4), True, False)
    assert functions()["write_key"](_filled(4), "a", torch.ones(4, 2, 3)) is not None
    assert functions()["write"](_filled(4), slice(2), 1.0)


@pytest.mark.skipif(not native.ON, reason="native code is off")
def test_a_tensor_without_its_memory_is_left_to_torch() -> None:
    # as sharded training releases parameters: the shape stays, the storage is empty
    data = TensorDict({"a": torch.ones(3)}, [3])
    data["a"].untyped_storage().resize_(0)
    full = TensorDict({"a": torch.zeros(6)[3:]}, [3])
    full["a"].untyped_storage().resize_(20)
    assert not functions()["write"](data, 0, 5.0)
    assert not functions()["write"](full, 0, 5.0)
    assert not functions()["write"](full, slice(1, 3), TensorDict({"a": torch.ones(2)}, [2]))
