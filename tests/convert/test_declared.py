"""What the fields of a record say about columns, and defaults in rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.convert.declared import NOTHING, Declared, filled


class Inner(TensorClass):
    x: Tensor
    name: str = "none"


class Outer(TensorClass):
    inner: Inner
    free: TensorDict
    either: Tensor | str
    text: str | None
    anything: Any = None
    tags: list[str] = None  # type: ignore[assignment]
    later: Later | None = None


class Later(TensorClass):
    x: Tensor = torch.tensor(1.5)


@pytest.mark.parametrize(
    "path, kind",
    [("inner", "collection"), ("inner.x", "tensor"), ("inner.name", "object"), ("free", "collection"),
     ("free.a.b", "any"), ("either", "any"), ("text", "object"), ("anything", "any"), ("tags", "object"),
     ("later.x", "tensor")],
)  # fmt: skip
def test_a_field_says_what_its_column_becomes(path: str, kind: str) -> None:
    found = Declared.of(Outer, path.split("."))
    assert found is not None
    assert found.kind == kind


def test_what_is_no_field_is_none() -> None:
    assert Declared.of(Outer, ("y",)) is Declared.of(Outer, ("inner", "y")) is None
    assert Declared.of(TensorDict, ("y",)) == Declared()


def test_defaults_are_those_of_the_field() -> None:
    def of(*path: str) -> Declared:
        found = Declared.of(Outer, path)
        assert found is not None
        return found

    assert of("inner", "name").default() == "none"
    assert of("inner", "x").default() is NOTHING is Declared().default()
    assert (of("text").optional, of("inner", "x").optional) == (True, False)
    assert of("later", "x").default() == 1.5


nan = float("nan")


@pytest.mark.parametrize(
    "values, default, expected",
    [
        (torch.tensor([1, 0]), 7, torch.tensor([1, 7])),
        (torch.tensor([1, 0]), 0.5, torch.tensor([1, 0.5], dtype=torch.float64)),
        (torch.tensor([1.5, nan]), 7, torch.tensor([1.5, 7])),
        (torch.tensor([1.5, nan], dtype=torch.float64), 7, torch.tensor([1.5, 7], dtype=torch.float64)),
        (torch.tensor([1.0, nan], dtype=torch.float64), 7, torch.tensor([1, 7])),
        (torch.tensor([1.0, nan], dtype=torch.float64), 7.0, torch.tensor([1.0, 7.0], dtype=torch.float64)),
        (torch.tensor([7.0, nan], dtype=torch.float64), True, torch.tensor([7, 1])),
        (torch.tensor([True, False]), True, torch.tensor([True, True])),
        (torch.zeros(2, 3), torch.ones(3), torch.tensor([[0.0, 0, 0], [1, 1, 1]])),
        (torch.zeros(2, 3), 1, torch.tensor([[0.0, 0, 0], [1, 1, 1]])),
    ],
)
def test_a_default_stands_in_the_rows_without_a_value(values: Tensor, default: Any, expected: Tensor) -> None:
    made = filled(values, torch.tensor([True, False]), default)
    assert made is not None
    assert made.dtype == expected.dtype
    assert torch.equal(made, expected)


@pytest.mark.parametrize("default", ["text", torch.zeros(2)])
def test_a_default_that_cannot_stand_there_is_none(default: Any) -> None:
    assert filled(torch.zeros(2, 3), torch.tensor([True, False]), default) is None
