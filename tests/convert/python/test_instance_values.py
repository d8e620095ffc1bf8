"""Values of fields in the form that the annotations of a class say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
import pydantic
import pytest
from torch import Tensor

from tensorclass import Column, Ragged, TensorClass, Text


class Rows(TensorClass):
    tokens: Ragged
    parts: Ragged | None
    prompt: Text
    tags: Column[list[str]]


class AsNamedTuple(NamedTuple):
    tokens: list[list[int]]
    parts: Sequence[list[int] | None] | None
    prompt: list[str]
    tags: list[list[str]]


@dataclasses.dataclass
class AsDataclass:
    tokens: list[list[int]]
    parts: Sequence[list[int] | None] | None
    prompt: list[str]
    tags: list[list[str]]


@attrs.define
class AsAttrs:
    tokens: list[list[int]]
    parts: Sequence[list[int] | None] | None
    prompt: list[str]
    tags: list[list[str]]


class AsModel(pydantic.BaseModel):
    tokens: list[list[int]]
    parts: Sequence[list[int] | None] | None
    prompt: list[str]
    tags: list[list[str]]


def rows() -> Rows:
    return Rows(tokens=[[1, 2], []], parts=[None, [3]], prompt=["a", "b"], tags=[["u"], []])


@pytest.mark.parametrize(
    "convert",
    [
        lambda data: data.to_dataclass(AsDataclass),
        lambda data: data.to_attrs(AsAttrs),
        lambda data: data.to_pydantic(AsModel),
        lambda data: data.to_namedtuple(AsNamedTuple),
    ],
    ids=["dataclass", "attrs", "pydantic", "namedtuple"],
)
def test_columns_become_the_lists_that_a_class_declares(convert: Callable[[Rows], Any]) -> None:
    made = convert(rows())
    found = made.tokens, made.parts, made.prompt, made.tags
    assert found == ([[1, 2], []], [None, [3]], ["a", "b"], [["u"], []])


@dataclasses.dataclass
class OfArrays:
    tokens: list[Tensor]
    parts: list[np.ndarray[Any, Any] | None]
    prompt: list[str]
    tags: list[list[str]]


def test_ragged_rows_become_a_tensor_or_array_each_where_a_class_declares_them() -> None:
    made = rows().to_dataclass(OfArrays)
    assert [row.tolist() for row in made.tokens] == [[1, 2], []]
    assert made.parts[0] is None
    assert isinstance(made.parts[1], np.ndarray)
    assert made.parts[1].tolist() == [3]


def test_a_declared_column_stays_one() -> None:
    @dataclasses.dataclass
    class Same:
        tokens: Ragged | list[list[int]]
        parts: Any
        prompt: list[str]
        tags: list[list[str]]

    made = rows().to_dataclass(Same)
    assert isinstance(made.tokens, Ragged)
    assert isinstance(made.parts, Ragged)
