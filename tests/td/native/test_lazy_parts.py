"""Lazy stacks in native code are made, read and written as in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack
from tensorclass.td import native
from tests.native_and_python import assert_same, state


class Step(TensorClass):
    a: Tensor
    note: str = "same"


class Other(TensorDict):
    """A class of its own."""


def _part(number: float, rows: int = 2, **kwargs: Any) -> TensorDict:
    return TensorDict({"a": torch.full((rows, 3), number), "b": {"c": torch.arange(rows)}}, [rows], **kwargs)


def _parts(**kwargs: Any) -> list[Any]:
    return [_part(float(i), **kwargs) for i in range(3)]


def _changed(key: str, value: Any) -> list[Any]:
    parts = _parts()
    parts[1]._store[key] = value
    return parts


PARTS: dict[str, Callable[[], list[Any]]] = {
    "alike": _parts,
    "locked": lambda: [part.lock_() for part in _parts()],
    "one locked": lambda: [_part(0), _part(1).lock_(), _part(2)],
    "device": lambda: _parts(device="cpu"),
    "one device": lambda: [_part(0), _part(1, device="cpu"), _part(2)],
    "one device below": lambda: _changed("b", TensorDict({"c": torch.arange(2)}, [2], device="cpu")),
    "names": lambda: _parts(names=["x"]),
    "names below": lambda: _changed("b", TensorDict({"c": torch.arange(2)}, [2], names=["y"])),
    "other names": lambda: [_part(0), _part(1, names=["x"]), _part(2)],
    "ragged": lambda: [_part(0), _part(1, rows=4), _part(2)],
    "other shape": lambda: _changed("a", torch.ones(2, 5)),
    "other dtype": lambda: _changed("a", torch.ones(2, 3, dtype=torch.int64)),
    "requires grad": lambda: _changed("a", torch.ones(2, 3, requires_grad=True)),
    "more keys": lambda: _changed("x", torch.ones(2)),
    "tensor for a collection": lambda: _changed("b", torch.ones(2)),
    "record below": lambda: _changed("b", Step(torch.ones(2), batch_size=[2])),
    "lazy below": lambda: [TensorDict({"b": lazy_stack([_part(0), _part(1)], 1)}, [2]) for _ in range(3)],
    "lazy parts": lambda: [lazy_stack(_parts()) for _ in range(3)],
    "text": lambda: [TensorDict({"a": torch.ones(2), "s": str(i)}, [2]) for i in range(3)],
    "records": lambda: [Step(torch.full((2,), float(i)), note=str(i), batch_size=[2]) for i in range(3)],
    "other class": lambda: [_part(0), Other({"a": torch.ones(2, 3)}, [2]), _part(2)],
    "records and others": lambda: [Step(torch.ones(2), batch_size=[2]), _part(1), _part(2)],
    "no batch dimensions": lambda: [TensorDict({"a": torch.tensor(float(i))}) for i in range(3)],
    "other number of dimensions": lambda: [_part(0), TensorDict({"a": torch.ones(2, 3)}, [2, 3]), _part(2)],
    "empty": lambda: [TensorDict({}, [2]) for _ in range(3)],
    "tensors": lambda: [torch.ones(2), torch.ones(2)],
    "none": list,
}

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda lazy: [lazy._store.items_, lazy._store.name, lazy._store.forms, lazy.batch_size, lazy._device],
    "class": type,
    "locked": lambda lazy: lazy.is_locked,
    "names": lambda lazy: lazy.names,
    "a": lambda lazy: lazy["a"],
    "b": lambda lazy: lazy["b"].contiguous(),
    "s": lambda lazy: lazy["s"],
    "missing": lambda lazy: lazy["missing"],
    "contiguous": lambda lazy: lazy.contiguous(),
    "slice": lambda lazy: [lazy[1:], lazy[::2], lazy[::2].batch_size, lazy[3:], lazy[:1].unbind(0)],
    "slice of rows": lambda lazy: lazy[:, 1:],
    "part": lambda lazy: [lazy[1], lazy[-1], lazy[2]],
    "part out of range": lambda lazy: lazy[3],
    "wrong index": lambda lazy: lazy["a":],
    "unbind": lambda lazy: [lazy.unbind(), lazy.unbind(0), lazy.unbind(1), lazy.unbind(-1), lazy.unbind(dim=0)],
    "sum": lambda lazy: lazy + 1,
    "clone": lambda lazy: lazy.clone(),
    "write": lambda lazy: lazy.set("a", torch.arange(24.0).reshape(3, 2, 4)),
    "write a new key": lambda lazy: lazy.set("new", torch.ones(3, 2)),
    "write another size": lambda lazy: lazy.set("a", torch.ones(3, 5)),
    "write too few dimensions": lambda lazy: lazy.set("a", torch.ones(3)),
    "write what requires grad": lambda lazy: lazy.set("a", torch.ones(3, 2, requires_grad=True)),
    "append": lambda lazy: [lazy.append(_part(7)), lazy],
    "append another size": lambda lazy: [lazy.append(_part(7, rows=5)), lazy],
    "append names": lambda lazy: [lazy.append(_part(7, names=["x"])), lazy],
    "append a device": lambda lazy: [lazy.append(_part(7, device="cpu")), lazy, lazy["a"]],
    "append a record": lambda lazy: [lazy.append(Step(torch.ones(2), batch_size=[2])), lazy],
    "append a tensor": lambda lazy: lazy.append(torch.ones(2)),
    "append itself": lambda lazy: lazy.append(lazy),
    "append what holds it": lambda lazy: lazy.append(TensorDict({"a": lazy}, lazy.batch_size[1:])),
}


@pytest.mark.parametrize("name", [*PARTS])
def test_lazy_stacks_do_what_they_do_in_python(name: str) -> None:
    for what, operation in OPERATIONS.items():
        for dim in (0, 1):
            assert_same(
                lambda: tuple(PARTS[name]()),
                lambda *parts, dim=dim, operation=operation: operation(lazy_stack(parts, dim)),
                (what, dim),
            )


def test_dimensions_are_checked_as_in_python() -> None:
    for dim in (-1, -2, -3, 2, "x"):
        assert_same(lambda: tuple(_parts()), lambda *parts, dim=dim: lazy_stack(parts, dim).batch_size)


def test_hooks_and_forms_are_asked_as_in_python() -> None:
    def hooked(*parts: Any) -> Any:
        lazy = LazyStackedTensorDict(*parts, hook_in=lambda value: value * 10, hook_out=lambda value: value + 1)
        lazy["a"] = torch.ones(3, 2)
        some = lazy[1:]
        some["b"] = torch.ones(2, 2)
        return [lazy["a"], some["a"], some["b"], lazy.contiguous()]

    def padded(*parts: Any) -> Any:
        lazy = lazy_stack(parts, as_padded_tensor=True)
        return [lazy["a"], lazy[1:]["a"], lazy.contiguous()]

    def named(*parts: Any) -> Any:
        lazy = lazy_stack(parts, stack_dim_name="time")
        return [lazy.names, lazy[1:].names, lazy["b"].names, lazy[1:].contiguous().names]

    for operation in (hooked, padded, named):
        assert_same(lambda: tuple(_parts()), operation)
    assert_same(lambda: tuple(PARTS["other shape"]()), padded)


def test_the_first_part_may_have_another_class_than_the_stack() -> None:
    def operation(*parts: Any) -> Any:
        lazy = lazy_stack(parts)
        lazy.insert(0, Step(torch.ones(2, 3), batch_size=[2]))
        del lazy._store.items_[1:]
        lazy._batch_size = torch.Size([1, 2])
        return [type(lazy), lazy.contiguous()]

    assert_same(lambda: tuple(_parts()), operation)


def test_a_generator_is_read_once() -> None:
    assert state(lazy_stack(part for part in _parts()).contiguous()) == state(lazy_stack(_parts()).contiguous())
    assert lazy_stack(iter([_part(0), _part(1, rows=3)])).batch_size == (2, -1)


def test_keys_are_read_in_vmap() -> None:
    def read(data: Any) -> Any:
        return torch.vmap(lambda row: lazy_stack([row, row * 2])["a"])(data)

    assert_same(lambda: (_part(1.0),), read)


@pytest.mark.skipif(not native.ON, reason="native code is off")
def test_native_code_takes_parts_that_are_alike() -> None:
    lazy = native.lazily(_parts(), 0, None)
    assert state(lazy) == state(lazy_stack(_parts()))
    items = lazy._store.items_
    assert native.stack_key(items, "a", 0) is not None
    assert native.densify(items, 0) is not None
    assert native.set_key(items, "a", torch.ones(3, 2), 0, lazy.batch_size)
