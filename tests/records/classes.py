"""Records and helpers that several tests of records use."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, tensorclass
from tests.forms import Form

MakeForm = Callable[..., Form]


T = TypeVar("T")


class Point(TensorClass, stack_objects=True):
    x: Tensor
    y: Tensor | None = None
    tag: str = "t"

    class Nested(TensorClass):
        value: Tensor


@tensorclass
class Decorated:
    x: Tensor
    point: Point

    @tensorclass
    class Nested:
        value: Tensor


class Inner(TensorClass):
    value: Tensor


class Sample(TensorClass, stack_objects=True):
    image: Tensor
    label: Tensor
    inner: Inner | None = None
    text: str = "a"
    spare: Tensor | None = None
    extra: TensorDict | None = None


def point(n: int = 2, **fields: Any) -> Point:
    return Point(**{"x": torch.arange(float(n)), **fields}, batch_size=[n])


def nested() -> Decorated:
    return Decorated(torch.zeros(2), point(), batch_size=[2])


class Frozen(TensorClass, frozen=True, stack_objects=True):
    x: Tensor
    y: Tensor | None = None
    point: Point | None = None
    tag: str = "t"


def frozen() -> Frozen:
    return Frozen(torch.zeros(2), point=point(), batch_size=[2])
