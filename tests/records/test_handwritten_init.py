"""Classes that define ``__init__`` themselves."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tests.records.classes import MakeForm, Point


def test_a_hand_written_init_calls_super_with_the_fields(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Made(base):
        x: Tensor
        tag: str = "t"

        def __init__(self, n: int) -> None:
            super().__init__(x=torch.zeros(n), batch_size=[n], names=["n"])

    made = Made(3)
    assert (made.batch_size, made.names, made.tag) == (torch.Size([3]), ["n"], "t")
    assert type(made[0]) is Made


def test_a_hand_written_init_can_set_fields_after_super() -> None:
    class Made(TensorClass):
        x: Tensor
        y: Tensor

        def __init__(self, n: int) -> None:
            super().__init__(torch.zeros(n), batch_size=[n])
            self.y = self.x + 1

    assert Made(2).y.tolist() == [1, 1]


def test_a_hand_written_init_is_inherited() -> None:
    class Made(TensorClass):
        x: Tensor

        def __init__(self, n: int) -> None:
            super().__init__(x=torch.zeros(n), batch_size=[n])

    class Child(Made):
        y: Tensor | None = None

    assert Child(3).batch_size == torch.Size([3])


def test_a_hand_written_init_can_call_the_generated_one_of_its_base() -> None:
    class Child(Point):
        z: Tensor

        def __init__(self, n: int) -> None:
            super().__init__(torch.zeros(n), tag="child", batch_size=[n])
            self.z = torch.ones(n)

    assert (Child(2).tag, Child(2).z.tolist()) == ("child", [1, 1])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda init: init(q=1), "unexpected arguments"),
        (lambda init: init(1, 2, 3), "at most 1 positional"),
        (lambda init: init(1, x=2), "multiple values"),
        (lambda init: init("text"), r"Made\.x: expected Tensor"),
    ],
    ids=["unexpected", "too many", "twice", "misfit"],
)
def test_super_init_checks_its_arguments(arguments: Callable[[Any], None], message: str) -> None:
    class Made(TensorClass):
        x: Tensor

        def __init__(self) -> None:
            arguments(super().__init__)

    with pytest.raises(TypeError, match=message):
        Made()


def test_from_tensordict_does_not_call_a_hand_written_init() -> None:
    class Made(TensorClass):
        x: Tensor
        tag: str = "t"

        def __init__(self, n: int) -> None:
            super().__init__(x=torch.zeros(n), batch_size=[n])

    made = Made.from_tensordict(TensorDict({"x": torch.ones(2)}, [2]))
    assert (made.x.tolist(), made.tag, made.batch_size) == ([1, 1], "t", torch.Size([2]))
