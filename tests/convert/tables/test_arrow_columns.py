"""Text and ragged rows out of arrays of Arrow, and back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tensorclass import Ragged, TensorDict, Text

pa = pytest.importorskip("pyarrow")

STRINGS = pa.array(["a", None, "bé", ""])
LISTS = pa.array([[1, 2], None, [], [3]])
FIXED = pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2))


def to_arrow(column: Text | Ragged[Any]) -> Any:
    return TensorDict({"a": column}, [len(column)]).to_arrow()["a"]


@pytest.mark.parametrize(
    "array",
    [
        STRINGS,
        STRINGS.slice(1),
        STRINGS.slice(4),
        STRINGS.cast(pa.large_string()),
        STRINGS.cast(pa.string_view()),
        STRINGS.dictionary_encode(),
        pa.chunked_array([STRINGS, STRINGS]),
        pa.chunked_array([], pa.string()),
        pa.nulls(2),
    ],
)
def test_strings_come_and_go(array: Any) -> None:
    text = Text(array)
    assert text.tolist() == array.to_pylist()
    assert to_arrow(text).to_pylist() == array.to_pylist()
    assert to_arrow(text.flip(0)).to_pylist() == array.to_pylist()[::-1]


@pytest.mark.parametrize(
    "array",
    [
        LISTS,
        LISTS.slice(1),
        LISTS.slice(3),
        pa.chunked_array([LISTS, LISTS.slice(2)]),
        LISTS.cast(pa.large_list(pa.int32())),
        pa.ListViewArray.from_arrays([1, 0, 0], [2, 0, 1], pa.array([1, 2, 3])),
        pa.array([[1.5], [2.0, 3.0]]),
        pa.array([[True], [False, True]]),
        pa.array([[[1], [2, 3]], [], None, [[4]]]),
        FIXED,
        FIXED.slice(1),
        pa.array([], pa.list_(pa.int64())),
    ],
)
def test_lists_come_and_go(array: Any) -> None:
    rows = Ragged(array)
    assert rows.tolist() == array.to_pylist()
    assert to_arrow(rows).to_pylist() == array.to_pylist()
    assert to_arrow(rows.flip(0)).to_pylist() == array.to_pylist()[::-1]


def test_buffers_are_shared() -> None:
    array = pa.array(["some", "text"])
    assert Text(array).values.data_ptr() == array.buffers()[2].address
    lists = pa.array([[1, 2], [3]])
    assert Ragged(lists).values.data_ptr() == lists.values.buffers()[1].address
    rows = Ragged([[1, 2], [3]])
    assert to_arrow(rows).chunk(0).values.buffers()[1].address == rows.values.data_ptr()


def test_writing_leaves_the_array_as_it_is() -> None:
    lists = pa.array([[1, 2], [3]])
    rows = Ragged(lists)
    rows[0] = [7]
    rows += 1
    assert lists.to_pylist() == [[1, 2], [3]]
    assert rows.tolist() == [[8], [4]]


def test_items_of_a_shape_are_lists_of_fixed_size() -> None:
    rows = Ragged([torch.zeros(2, 3), torch.ones(1, 3)])
    assert to_arrow(rows).to_pylist() == [[[0.0] * 3] * 2, [[1.0] * 3]]


def test_what_is_no_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="null item in row 1"):
        Ragged(pa.array([[1], [None, 2]]))
    with pytest.raises(TypeError, match="got lists of string"):
        Ragged(pa.array([["a"]]))
    with pytest.raises(TypeError, match="Text: expected strings, got an Arrow array of the type int64"):
        Text(pa.array([1]))
