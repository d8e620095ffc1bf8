"""Ragged: values that are no rows, comparison, masks and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tensorclass import Ragged, TensorDict, Text, assert_close

ROWS = [[1.0, 2.0, 4.0], [3.0, 5.0]]


@pytest.mark.parametrize(
    "rows", [[1, 2], [[1], 2], [None, object()]], ids=["numbers", "a list and a number", "an object"]
)
def test_what_is_no_row_is_named(rows: list[Any]) -> None:
    at = 0 if rows[0] == 1 else 1
    with pytest.raises(TypeError, match=rf"Ragged: row {at}: expected a sequence of numbers, .* got {rows[at]!r}"):
        Ragged(rows)


def test_the_error_for_a_row_says_why() -> None:
    with pytest.raises(ValueError, match=r"row 1: expected a sequence of numbers .*\[11805\d+\]: Overflow"):
        Ragged([[1], [2**70]])


def test_assert_close_compares_lengths_and_items() -> None:
    first = TensorDict({"rows": Ragged([[1], [2, 3]])}, [2])
    assert assert_close(first, TensorDict({"rows": Ragged([[2, 3], [1]])[[1, 0]]}, [2]))
    with pytest.raises(AssertionError, match=r"key \('rows',\) does not match\nthe lengths of row 0 differ: 1 and 2"):
        assert_close(first, TensorDict({"rows": Ragged([[1, 2], [3]])}, [2]))
    with pytest.raises(AssertionError, match=r"key \('rows',\) does not match, root mean squared difference"):
        assert_close(first, TensorDict({"rows": Ragged([[1], [2, 4]])}, [2]))
    nested = [Ragged.from_list(rows, ragged_dims=2) for rows in ([[[1], [2, 3]]], [[[1, 2], [3]]])]
    with pytest.raises(AssertionError, match="the lengths of row 0 differ: 1 and 2"):
        assert_close(TensorDict({"rows": nested[0]}, [1]), TensorDict({"rows": nested[1]}, [1]))


def test_a_mask_over_the_batch_fills_the_items_of_rows() -> None:
    mask = torch.tensor([True, False, True])
    rows = Ragged([[1], [2, 3], [4]])
    data = TensorDict(
        {"x": torch.arange(3), "rows": rows, "deep": Ragged.from_list([[[1], [2]]] * 3, ragged_dims=2)}, [3]
    )
    filled = data.masked_fill(mask, 0)
    assert filled["rows"].tolist() == [[0], [2, 3], [0]]
    assert filled["deep"].tolist() == [[[0], [0]], [[1], [2]], [[0], [0]]]
    data.masked_fill_(mask, 9)
    assert (data["rows"].tolist(), rows.tolist()) == ([[9], [2, 3], [9]], [[9], [2, 3], [9]])


def test_numpy_makes_arrays_of_objects_of_columns() -> None:
    array = np.asarray(Ragged([[1], [2, 3]]))
    assert (array.dtype, [row.tolist() for row in array]) == (object, [[1], [2, 3]])
    assert np.asarray(Text(["a", None])).tolist() == ["a", None]
    assert np.array(Text([["a", "bc"]]), dtype="U").tolist() == [["a", "bc"]]
    with pytest.raises(ValueError, match="a Text is an array only as a copy"):
        np.asarray(Text(["a"]), copy=False)
