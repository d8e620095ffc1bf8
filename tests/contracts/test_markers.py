"""What the markers of ``Annotated`` take, say, and refuse."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import Device, DType, Range, Shape
from tensorclass.contracts.dims import parse


def test_markers_with_the_same_content_are_equal_and_hash_alike() -> None:
    pairs: list[tuple[Any, Any]] = [
        (Shape("3 h"), Shape("3 h")),
        (DType("float", torch.int8), DType("float", torch.int8)),
        (Range(0, 1), Range(0, 1)),
        (Device("cuda"), Device(torch.device("cuda"))),
    ]
    for a, b in pairs:
        assert a == b
        assert hash(a) == hash(b)


@pytest.mark.parametrize(
    "marker, text",
    [
        (Shape("3 h w"), 'Shape("3 h w")'),
        (DType("float", torch.int8), 'DType("float", torch.int8)'),
        (Range(0, 1), "Range(0, 1)"),
        (Range(low=0), "Range(low=0)"),
        (Range(high=1.5), "Range(high=1.5)"),
        (Device("cuda:1"), 'Device("cuda:1")'),
    ],
)
def test_a_marker_is_shown_as_it_is_written(marker: object, text: str) -> None:
    assert repr(marker) == text
    assert eval(text, {"Shape": Shape, "DType": DType, "Range": Range, "Device": Device, "torch": torch}) == marker


def test_a_shape_has_dimensions() -> None:
    assert Shape("3 *n").dims == parse("3 *n")


def test_dtypes_are_categories_names_and_dtypes() -> None:
    assert DType("float32").allowed == DType(torch.float32).allowed == {torch.float32}
    assert DType("bool", torch.uint8).allowed == {torch.bool, torch.uint8}
    assert {torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2} < DType("float").allowed
    assert torch.int64 not in DType("float").allowed
    assert DType("num").allowed == DType("real", "complex").allowed == DType("integer", "inexact").allowed
    assert torch.bool not in DType("num").allowed


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Shape("3 h w?"), "the dimension 'w?'"),
        (lambda: Shape(3), "expected a text"),
        (lambda: DType("floats"), "no dtypes are called 'floats'"),
        (lambda: DType(), "expected dtypes"),
        (lambda: DType(float), "expected dtypes"),
        (lambda: Range(), "give a bound"),
        (lambda: Range(2, 1), "no value is at least 2 and at most 1"),
        (lambda: Range("a"), "the bounds are numbers"),
        (lambda: Range(float("nan")), "the bounds are numbers"),
    ],
)
def test_what_a_marker_cannot_be_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert message in str(raised.value)
