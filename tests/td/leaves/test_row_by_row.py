"""What leaves with content for each position have in common: text, ragged rows, objects."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Size

from tensorclass import Column, NonTensorStack, Ragged, TensorDict, Text
from tensorclass.td.leaves.row_by_row import RowByRow

LEAVES: dict[str, Any] = {
    "stack": lambda: NonTensorStack(NonTensorStack("a", "b"), NonTensorStack("c", "d")),
    "column": lambda: Column([["a", "b"], ["c", "d"]], str, batch_size=[2, 2]),
    "text": lambda: Text([["a", "b"], ["c", "d"]]),
    "ragged": lambda: Ragged([[1], [2, 3], [4], []]).reshape(2, 2),
}
WITHOUT_NUMBERS = ("stack", "column", "text")


@pytest.mark.parametrize("name", LEAVES)
def test_the_batch_size_is_that_of_the_content(name: str) -> None:
    leaf = LEAVES[name]()
    assert isinstance(leaf, RowByRow)
    leaf.batch_size = [2, 2]
    for size in ([], [2], [2, 3]):
        message = r"which holds an? \w+ for each position of \[2, 2\]. Nothing was changed"
        with pytest.raises(RuntimeError, match=message):
            leaf.batch_size = size
    data = TensorDict({"rows": leaf}, [2])
    with pytest.raises(RuntimeError, match=r"does not fit 'rows', which holds an? \w+ for each position of \[2, 2\]"):
        data.batch_size = [2, 2, 1]
    assert data.batch_size == Size([2])


@pytest.mark.parametrize("name", WITHOUT_NUMBERS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_reduction_keeps_the_first_row(name: str, keepdim: bool) -> None:
    data = TensorDict({"rows": LEAVES[name](), "x": torch.ones(2, 2)}, [2, 2], names=["a", "b"])
    rows = data.sum(0, keepdim=keepdim).get("rows")
    assert rows.tolist() == ([["a", "b"]] if keepdim else ["a", "b"])
    assert rows.names == (["a", "b"] if keepdim else ["b"])
    assert data.sum(1, keepdim=keepdim).get("rows").tolist() == ([["a"], ["c"]] if keepdim else ["a", "c"])
    smallest: Any = data.min(0)
    assert smallest[0].get("rows").tolist() == ["a", "b"]


@pytest.mark.parametrize("name", WITHOUT_NUMBERS)
def test_a_reduction_of_no_rows_has_no_value(name: str) -> None:
    data = TensorDict({"rows": LEAVES[name](), "x": torch.ones(2, 2)}, [2, 2], names=["a", "b"])[:0]
    rows = data.sum(0).get("rows")
    assert (rows.batch_size, rows.names, rows.tolist()) == (Size([2]), ["b"], [None, None])
