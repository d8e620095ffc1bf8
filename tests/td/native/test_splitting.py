"""unbind, split and their relatives in native code do what they do in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.td import native
from tests.native_and_python import assert_same


class Sample(TensorClass):
    image: Tensor
    unbind: Tensor
    note: str = "same"


def _data(**kwargs: Any) -> TensorDict:
    return TensorDict(
        {"a": torch.arange(24.0).reshape(4, 2, 3), "b": torch.ones(4, 2), "c": {"d": torch.arange(8).reshape(4, 2)}},
        [4, 2],
        **kwargs,
    )


DATA: dict[str, Callable[[], Any]] = {
    "nested": _data,
    "names": lambda: _data(names=["time", None]),
    "device": lambda: _data(device="cpu"),
    "locked": lambda: _data().lock_(),
    "in one piece": lambda: _data().consolidate(),
    "record": lambda: Sample(torch.ones(4, 2, 3), torch.arange(8).reshape(4, 2), batch_size=[4, 2]),
    "record below": lambda: TensorDict({"r": DATA["record"](), "x": torch.ones(4, 2)}, [4, 2]),
    "more batch dimensions below": lambda: TensorDict({"t": _data(), "x": torch.ones(4)}, [4]),
    "text": lambda: TensorDict({"x": torch.ones(4, 2), "s": "text"}, [4, 2]),
    "lazy below": lambda: TensorDict({"l": lazy_stack([_data()[0], _data()[1]] * 2), "x": torch.ones(4, 2)}, [4, 2]),
    "parameter": lambda: TensorDict({"x": torch.nn.Parameter(torch.ones(4, 2))}, [4, 2]),
    "requires grad": lambda: TensorDict({"x": torch.ones(4, 2, requires_grad=True) * 2}, [4, 2]),
    "empty": lambda: TensorDict({}, [4, 2]),
    "no rows": lambda: TensorDict({"a": torch.ones(0, 2)}, [0, 2]),
    "no dimensions": lambda: TensorDict({"a": torch.ones(2)}),
}

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "unbind": lambda data: torch.unbind(data),
    "unbind 1": lambda data: torch.unbind(data, 1),
    "unbind -1": lambda data: torch.unbind(data, -1),
    "unbind out of range": lambda data: torch.unbind(data, 2),
    "iteration": lambda data: [*data],
    "split": lambda data: data.split(3),
    "split by sizes": lambda data: data.split([1, 0, 3]),
    "split of dimension 1": lambda data: data.split(1, -1),
    "split with other sizes": lambda data: data.split([1, 1]),
    "split with negative sizes": lambda data: data.split_with_sizes([5, -1]),
    "chunk": lambda data: data.chunk(3),
    "tensor_split": lambda data: data.tensor_split(3),
    "tensor_split at": lambda data: data.tensor_split([1, 3]),
    "narrow": lambda data: data.narrow(0, 1, 2),
    "rows in vmap": lambda data: torch.vmap(lambda row: row.unbind()[0])(data),
}


@pytest.mark.parametrize("operation", [*OPERATIONS])
@pytest.mark.parametrize("data", [*DATA])
def test_collections_are_split_as_in_python(data: str, operation: str) -> None:
    assert_same(lambda: (DATA[data](),), OPERATIONS[operation])


def test_parts_are_views() -> None:
    data = _data()
    for part in (*data.unbind(), *data.split(3), *data.chunk(2, 1)):
        part["a"].zero_()
        part["c", "d"].zero_()
    assert not data["a"].any()
    assert not data["c", "d"].any()


@pytest.mark.skipif(not native.ON, reason="native code is off")
@pytest.mark.parametrize("name", ["nested", "device", "text", "lazy below", "parameter", "empty", "no rows"])
def test_native_code_takes_the_usual_parts(name: str) -> None:
    data = DATA[name]()
    assert native.unbind(data, 0, None) is not None
    assert native.split(data, [len(data)], 0) is not None
