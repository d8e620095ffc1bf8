"""Small collections that tests begin with."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorDict

from .checks import assert_equal


def nested(device: Any = None, names: Any = None, *, requires_grad: bool = False) -> TensorDict:
    """Three rows: tensors of floats at three levels, one of them under a longer batch size, and an empty level."""
    inner = TensorDict({"d": torch.linspace(0.4, 0.6, 12).reshape(3, 2, 2)}, [3, 2], device=device)
    data = TensorDict(
        {
            "a": torch.linspace(0.1, 0.9, 6).reshape(3, 2),
            "b": {"c": torch.tensor([0.2, 0.3, 0.7]), "inner": inner},
            "empty": {},
        },
        [3],
        device=device,
        names=names,
    )
    return data.requires_grad_() if requires_grad else data


def mixed() -> TensorDict:
    """Three rows: tensors of several dtypes, text, an object for each row, and a nested level with both."""
    return TensorDict(
        {
            "x": torch.arange(6.0).reshape(3, 2),
            "n": torch.arange(3),
            "text": "hello",
            "labels": NonTensorStack("p", "q", "r"),
            "nest": {"flag": torch.tensor([True, False, True]), "none": None},
        },
        [3],
    )


class Unchanged:
    """``with Unchanged(data): ...`` asserts that the collection is as it was: keys, values, tensors, metadata, lock."""

    def __init__(self, data: TensorDict) -> None:
        self.data = data

    def __enter__(self) -> TensorDict:
        self.before, self.entries = copy.deepcopy(self.data), _entries(self.data)
        return self.data

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        if exc_type is None:
            entries = _entries(self.data)
            assert [key for key, *_ in entries] == [key for key, *_ in self.entries]
            assert all(now[1] is then[1] for now, then in zip(entries, self.entries, strict=True))
            assert [entry[2:] for entry in entries] == [entry[2:] for entry in self.entries]
            assert_equal(self.data, self.before)


def _entries(data: TensorDict) -> list[tuple[Any, ...]]:
    """Every entry with what is known of it beside its content."""
    found: list[tuple[Any, ...]] = [((), data, data.batch_size, data.device, data.names, data.is_locked)]
    for key, value in data.items(include_nested=True):
        if isinstance(value, Tensor):
            found.append((key, value, value.shape, value.device, value.requires_grad))
        else:
            found.append((key, value, value.batch_size, value.device, value.names, value.is_locked))
    return found
