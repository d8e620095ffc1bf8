"""Ragged: reductions of collections that hold it, operands, and errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensorclass import Ragged, TensorClass, TensorDict, Text, assert_close

ROWS = [[1.0, 2.0, 4.0], [3.0, 5.0]]


def data() -> TensorDict:
    return TensorDict({"x": torch.rand(2, 3), "below": {"rows": Ragged(ROWS)}}, [2])


@pytest.mark.parametrize(
    "reduce",
    [
        *[
            lambda data, name=name: getattr(data, name)(0)
            for name in ("sum", "mean", "prod", "std", "amax", "max", "any", "logsumexp", "cummax", "cumsum", "softmax")
        ],
        lambda data: data.quantile(0.5, 0),
        lambda data: data.sum("feature", reduce=True),
    ],
)
def test_rows_that_differ_in_length_are_not_reduced_along_the_batch(reduce: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"^below\.rows: the rows of a Ragged differ in length") as caught:
        reduce(data())
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "amax", "amin", "logsumexp"])
@pytest.mark.parametrize("item_shape", [(), (2,)], ids=str)
def test_features_of_a_collection_are_the_items_of_a_row(name: str, item_shape: tuple[int, ...]) -> None:
    rows = [torch.rand(length, *item_shape) for length in (3, 2)]
    data = TensorDict({"rows": Ragged(rows, names=["b"])}, [2], names=["b"])
    reduced = getattr(data, name)("feature")["rows"]
    one_by_one = [getattr(TensorDict({"row": row}), name)("feature")["row"] for row in rows]
    assert (reduced.lengths.tolist(), reduced.names) == ([1, 1], ["b"])
    torch.testing.assert_close(reduced.values, torch.stack(one_by_one))
    kept = getattr(data, name)("feature", keepdim=True)["rows"]
    assert (kept.item_shape, kept.lengths.tolist()) == ((1,) * len(item_shape), [1, 1])


def test_features_of_ragged_rows_of_rows_are_all_items() -> None:
    rows = Ragged.from_list([[[1, 2], [3]], [[4]]], ragged_dims=2)
    assert TensorDict({"rows": rows}, [2]).sum("feature")["rows"].tolist() == [[[6]], [[4]]]


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax"])
def test_a_reduction_of_everything_is_that_of_all_items(name: str) -> None:
    items = torch.tensor([item for row in ROWS for item in row])
    expected = getattr(TensorDict({"items": items}), name)()["items"]
    assert getattr(data(), name)()["below", "rows"].tolist() == [expected]
    assert getattr(data(), name)(keepdim=True)["below", "rows"].tolist() == [[expected]]
    last = getattr(data()[1:], name)()["below", "rows"]
    assert last.tolist() == [getattr(torch.tensor([3.0, 5.0]), name)()]


def test_a_reduction_of_the_features_of_no_rows() -> None:
    reduced = TensorDict({"rows": Ragged(ROWS)}, [2])[:0].std("feature")["rows"]
    assert (type(reduced), reduced.shape) == (Ragged, (0,))


def test_a_field_of_ragged_rows_stays_one_in_a_reduction(tmp_path: Path) -> None:
    class Sample(TensorClass):
        rows: Ragged

    Sample(ROWS).mean("feature").memmap(tmp_path)
    assert Sample.load_memmap(tmp_path).rows.values.tolist() == pytest.approx([7 / 3, 4.0])


def test_reductions_of_all_tensors_take_items() -> None:
    assert data()["below"].sum(reduce=True) == 15


def test_an_array_is_an_operand_of_rows() -> None:
    assert (Ragged([[1], [2, 3]]) + np.array([10, 20])).tolist() == [[11], [22, 23]]


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
