"""Records are made of values by position and by keyword, with batch size, device and names."""

import dataclasses
from dataclasses import field
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.records.classes import MakeForm, Point


@pytest.mark.parametrize(
    "make",
    [lambda Pair, a, b: Pair(a, b, batch_size=[2]), lambda Pair, a, b: Pair(second=b, first=a, batch_size=[2])],
    ids=["position", "keyword"],
)
def test_fields_are_given_by_position_in_the_order_of_declaration_or_by_keyword(form: MakeForm, make: Any) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        first: Tensor
        second: Tensor

    pair = make(Pair, torch.zeros(2), torch.ones(2))
    assert (pair.first.tolist(), pair.second.tolist()) == ([0, 0], [1, 1])


def test_metadata_is_given_by_keyword(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    one = One(torch.zeros(2, 3, 4), batch_size=[2, 3], device="cpu", names=["a", None])
    assert one.batch_size == torch.Size([2, 3])
    assert one.device == torch.device("cpu")
    assert one.names == ["a", None]


def test_without_a_batch_size_there_are_no_batch_dimensions() -> None:
    assert Point(torch.zeros(2)).batch_size == torch.Size([])


def test_the_batch_size_can_be_a_number() -> None:
    assert Point(torch.zeros(2), batch_size=2).batch_size == torch.Size([2])


def test_values_are_stored_without_a_copy() -> None:
    x = torch.zeros(2)
    assert Point(x, batch_size=[2]).x is x


def test_values_are_moved_to_the_device() -> None:
    record = Point(torch.zeros(2), torch.zeros(2), batch_size=[2], device="meta")
    assert record.x.device == record.y.device == torch.device("meta")


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((), {}, "missing 1 required positional argument: 'x'"),
        ((), {"x": 1, "z": 2}, "unexpected keyword argument 'z'"),
        ((1,), {"x": 1}, "multiple values for argument 'x'"),
        ((1, None, "t", [2]), {}, "positional arguments but 5 were given"),
    ],
    ids=["missing", "unexpected", "twice", "too many"],
)
def test_wrong_arguments_are_type_errors_as_for_a_function(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"Point\.__init__\(\).*{message}"):
        Point(*args, **kwargs)


def test_a_value_without_the_batch_size_in_front_is_an_error_that_names_field_and_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"x: .*\[2\] in front, got shape \[3, 2\]"):
        Point(torch.zeros(3, 2), batch_size=[2])


def test_none_for_a_field_that_is_not_optional_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Point\.x: expected Tensor, got NoneType"):
        Point(None)


def test_fields_can_have_the_names_of_builtins_and_of_what_init_uses_itself(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Odd(base):
        self: Tensor
        store: Tensor
        len: Tensor
        isinstance: Tensor
        Tensor: Tensor
        dataclasses: Tensor
        cls: Tensor = field(default_factory=lambda: torch.full((2,), 6.0))

    odd = Odd(*torch.arange(6.0).unsqueeze(1).expand(6, 2), batch_size=[2])
    values = [odd.get(f.name)[0].item() for f in dataclasses.fields(odd)]
    assert values == [0, 1, 2, 3, 4, 5, 6]
