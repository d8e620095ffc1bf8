"""A few rows of a large column: what they say that they take, and what they keep."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import Column, Ragged, TensorClass, TensorDict, Text
from tensorclass.relational import row_selection
from tensorclass.td.columns import column_repr

COUNT = 20_000


class Sample(TensorClass):
    text: Text
    rows: Ragged
    deep: Ragged
    tags: Column[list[str]]
    group: Tensor


def samples() -> Sample:
    return Sample(
        Text([f"row number {row}" for row in range(COUNT)]),
        Ragged.from_list([[row] * (row % 3) for row in range(COUNT)], dtype=torch.int64),
        Ragged.from_list([[[row], [row, 1]] for row in range(COUNT)], dtype=torch.int16, ragged_dims=2),
        [[f"tag {row}"] for row in range(COUNT)],
        torch.arange(COUNT),
    )


@pytest.fixture(params=["memory", "mapped"])
def data(request: Any, tmp_path: Path) -> Sample:
    if request.param == "memory":
        return samples()
    samples().memmap(tmp_path / "x")
    return Sample.load_memmap(tmp_path / "x")


CHOICES: dict[str, Callable[[Sample], Any]] = {
    "a row": lambda data: data[5],
    "a slice": lambda data: data[5:8],
    "positions": lambda data: data[torch.tensor([9, 5])],
    "a mask": lambda data: data[data.group < 3],
    "rows in steps": lambda data: data[5:20:5],
    "a row of positions": lambda data: data[[5, 7]][1],
}


@pytest.mark.parametrize("choice", CHOICES)
def test_rows_say_what_they_take(data: Sample, choice: str) -> None:
    rows = CHOICES[choice](data)
    whole = rows.clone()
    assert rows.bytes() == whole.bytes() < 1000
    assert rows.text.nbytes() == whole.text.nbytes()
    for ours, theirs in ((rows, whole), *((rows.get(key), whole.get(key)) for key in ("text", "rows", "deep"))):
        expected = re.search(r"\d+ bytes", repr(theirs))
        assert expected is not None
        assert expected[0] in repr(ours).splitlines()[0]
    expected = re.search(r"\d+ bytes", repr(whole))
    assert expected is not None
    assert expected[0] in rows._repr_html_()


def test_of_many_rows_of_a_file_the_lengths_are_not_read_for_a_repr(tmp_path: Path, monkeypatch: Any) -> None:
    samples().memmap(tmp_path / "x")
    data = Sample.load_memmap(tmp_path / "x")
    monkeypatch.setattr(column_repr, "_MOST_ROWS", 100)
    read: list[int] = []
    real = column_repr.span_functions.counts_of
    monkeypatch.setattr(
        column_repr.span_functions, "counts_of", lambda spans: (read.append(spans.numel()), real(spans))[1]
    )
    shown = repr(data.text[10 : COUNT - 10])
    assert f"{data.text[10 : COUNT - 10].clone().nbytes() / 1000:.1f} kB" in shown
    read.clear()
    repr(data[10 : COUNT - 10])
    assert read == []


RELATIONAL: dict[str, Callable[[TensorDict], Any]] = {
    "filter": lambda data: data.filter(data["group"] < 3),
    "unique": lambda data: data.unique("few"),
    "drop_duplicates": lambda data: data.drop_duplicates("few", keep="last"),
    "sample": lambda data: data.sample(3),
    "keys of groups": lambda data: data.group_by("name").keys(),
    "figures of groups": lambda data: data.group_by("name").agg(x=("group", "sum")),
    "value_counts": lambda data: data.value_counts("name"),
}


@pytest.mark.parametrize("operation", RELATIONAL)
def test_few_rows_chosen_by_their_values_keep_no_others(data: Sample, operation: str) -> None:
    numbers = torch.arange(COUNT) % 4
    table = TensorDict({key: data.get(key) for key in ("text", "rows", "deep", "tags", "group")}, [COUNT])
    table["few"], table["name"] = numbers, Text([f"name {number}" for number in numbers.tolist()])
    rows = RELATIONAL[operation](table)
    assert len(rows) <= 4
    kept = {id(leaf.untyped_storage()): leaf.untyped_storage().nbytes() for leaf in rows._leaves_and_buffers()}
    assert sum(kept.values()) < 2000
    for value in rows.values():
        if isinstance(value, Column) and isinstance(data.tags._objects, tuple):  # those of a file were not read
            assert len(value._objects) == len(rows)


def test_many_rows_share_their_buffers(data: Sample) -> None:
    half = data.filter(data.group < COUNT // 2)
    assert half.text.values is data.text.values
    assert half.tags._objects is data.tags._objects
    assert row_selection.trimmed(data[:10_000]).text.values is data.text.values
    assert data.text[: COUNT // 2].compact().values.data_ptr() == data.text.values.data_ptr()


def test_rows_by_index_share_memory_as_those_of_tensors(data: Sample) -> None:
    assert data[5].text.values is data.text.values
    assert data[5].clone().text.values.untyped_storage().nbytes() < 100


@pytest.mark.parametrize("choice", CHOICES)
def test_what_travels_has_the_rows_alone(data: Sample, choice: str, tmp_path: Path) -> None:
    rows = CHOICES[choice](data)  # without a tensor: torch writes the whole storage of a view
    rows = TensorDict({key: rows.get(key) for key in ("text", "rows", "deep", "tags")}, rows.batch_size)
    assert len(pickle.dumps(rows)) < 6000
    for content in (rows, rows.state_dict()):
        stream = io.BytesIO()
        torch.save(content, stream)
        assert stream.tell() < 8000
    rows.memmap(tmp_path / "rows", copy_existing=True)
    assert sum(file.stat().st_size for file in (tmp_path / "rows").rglob("*.memmap")) < 1000
    shared = rows.clone(recurse=False).share_memory_()
    if choice != "a row":
        assert sum(leaf.untyped_storage().nbytes() for leaf in shared._leaves_and_buffers()) < 1000


def test_gradients_pass_through_few_rows_that_are_copied() -> None:
    values = torch.ones(COUNT, requires_grad=True)
    rows = Ragged(values, torch.tensor([[row, 1] for row in range(COUNT)]))
    few = rows[5:8].compact()
    assert few.values.untyped_storage().nbytes() == 12
    few.values.sum().backward()
    assert values.grad is not None
    assert values.grad.nonzero().flatten().tolist() == [5, 6, 7]
