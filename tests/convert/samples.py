"""Objects to convert, and a record that takes them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tensorclass import TensorClass


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Plain:
    x: Tensor
    label: str = "a"
    below: Plain | None = None

    def doubled(self) -> Tensor:
        return 2 * self.x


class Inner(TensorClass, stack_objects=True):
    x: Tensor
    tag: str | None = None


class Sample(TensorClass, stack_objects=True):
    x: Tensor
    label: str = "a"
    inner: Inner | None = None
    pair: tuple[Any, ...] | None = None


def values(*shape: int) -> Tensor:
    """Return numbers in order."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
