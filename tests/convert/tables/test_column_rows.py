"""Strings and rows of different length come out of every table and file as columns, and go back as they came."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import Column, Ragged, TensorClass, Text

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")


class Sample(TensorClass):
    text: Text | None
    tokens: Ragged[Int[Tensor, "n"]] | None
    scores: Ragged[Float[Tensor, "m"]]
    x: Float[Tensor, ""]


class Full(Sample):
    deep: Ragged[Ragged[Int[Tensor, "k"]]]
    tags: Column[list[str]]


class Line(TensorClass):
    """What a cell of a CSV file holds."""

    text: Text | None
    x: Float[Tensor, ""]


Trip = Callable[[Any, Any], Any]


def through_file(kind: str, suffix: str = "") -> Trip:
    def trip(cls: Any, data: Any) -> Any:
        file = io.BytesIO()
        options = {"lines": True} if suffix else {}
        getattr(data, f"to_{kind}")(file, **options)
        file.seek(0)
        return getattr(cls, f"from_{kind}")(file, **options)

    return trip


def through(kind: str) -> Trip:
    return lambda cls, data: getattr(cls, f"from_{kind}")(getattr(data, f"to_{kind}")())


TRIPS: dict[str, Trip] = {
    "pandas": through("pandas"),
    "arrow": through("arrow"),
    "polars": through("polars"),
    "huggingface": through("huggingface"),
    "struct_array": through("struct_array"),
    "parquet": through_file("parquet"),
    "feather": through_file("feather"),
    "json": through_file("json"),
    "lines": through_file("json", "lines"),
    "dict": lambda cls, data: cls.from_dict(data.to_dict(), batch_size=data.batch_size),
    "namedtuple": lambda cls, data: cls.from_namedtuple(data.to_namedtuple(), batch_size=data.batch_size),
}

words = st.text(st.sampled_from('ab é€😀,"\n'), max_size=4)
ints = st.lists(st.integers(-5, 5), max_size=4)
floats = st.lists(st.sampled_from([0.5, -1.25, 3.0]), max_size=4)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Rows by the name of their field: of a `Full`."""
    count = draw(st.integers(1, 6))

    def rows(strategy: Any) -> list[Any]:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    return {
        "text": rows(st.one_of(st.none(), words)),
        "tokens": rows(st.one_of(st.none(), ints)),
        "scores": rows(floats),
        "x": [float(at) for at in range(count)],
        "deep": rows(st.lists(ints, max_size=3)),
        "tags": rows(st.lists(words, max_size=3)),
    }


def full(rows: dict[str, list[Any]]) -> Full:
    return Full(
        text=Text(rows["text"]),
        tokens=Ragged.from_list(rows["tokens"], dtype=torch.int64),
        scores=Ragged.from_list(rows["scores"], dtype=torch.float64),
        x=torch.tensor(rows["x"], dtype=torch.float64),
        deep=Ragged.from_list(rows["deep"], dtype=torch.int64, ragged_dims=2),
        tags=Column(rows["tags"], list[str]),
    )


@pytest.mark.parametrize("name", TRIPS)
@settings(max_examples=15)
@given(tables(), st.booleans())
def test_declared_rows_come_back_through_every_format(name: str, rows: dict[str, list[Any]], flipped: bool) -> None:
    data = full(rows)
    if flipped:  # rows that do not lie in order in their buffer
        data = data.flip(0)
        rows = {key: value[::-1] for key, value in rows.items()}
    back = TRIPS[name](Full, data)
    assert {key: back.get(key).tolist() for key in rows} == rows
    assert [type(back.get(key)) for key in ("text", "tokens", "deep", "tags")] == [Text, Ragged, Ragged, Column]
    assert (back.tokens.dtype, back.scores.dtype.is_floating_point, back.batch_size) == (
        torch.int64,
        True,
        data.batch_size,
    )
