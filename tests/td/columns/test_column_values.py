"""Columns of declared fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from tensorclass import Column, Ragged, TensorClass, Text
from tensorclass.testing import records


class Prompt(Text):
    __slots__ = ()


class Tokens(Ragged[Tensor]):
    __slots__ = ()


class Paths(Column[Path]):
    __slots__ = ()


class Question(TensorClass):
    prompt: Prompt
    tokens: Tokens
    paths: Paths


@pytest.mark.parametrize(
    "name, rows", [("prompt", ["a", "bc"]), ("tokens", [[1, 2], [3]]), ("paths", [Path("u"), Path("v")])]
)
def test_a_field_of_a_subclass_holds_rows_of_that_class(name: str, rows: list[Any]) -> None:
    values = {"prompt": ["a", "bc"], "tokens": [[1, 2], [3]], "paths": [Path("u"), Path("v")], name: rows}
    column = getattr(Question(**values, batch_size=[2]), name)
    assert type(column).__name__ == Question.__annotations__[name]
    assert column.tolist() == rows
    assert type(column[1:]) is type(column)
    assert torch.stack([column, column]).tolist() == [rows, rows]


class Numbers(TensorClass):
    prompt: Prompt
    tokens: Tokens


def test_factories_and_tables_make_columns_of_a_subclass() -> None:
    rows = Numbers(prompt=["a", "bc"], tokens=[[1, 2], [3]], batch_size=[2])
    pytest.importorskip("pyarrow")
    for made in (Numbers.zeros(2), Numbers.random(2), Numbers.from_arrow(rows.to_arrow())):
        assert (type(made.prompt), type(made.tokens)) == (Prompt, Tokens)


@given(batch=records(Numbers, batch_size=[2]))
@settings(max_examples=3)
def test_records_of_tests_have_columns_of_a_subclass(batch: Numbers) -> None:
    assert (type(batch.prompt), type(batch.tokens)) == (Prompt, Tokens)
