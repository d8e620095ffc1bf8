"""The items of ragged rows as one tensor: operations, casts and gradients, also where items are ragged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import Ragged
from tensorclass.td.columns.item_numbers import ItemNumbers

ROWS: dict[str, Callable[[], Ragged[Any]]] = {
    "numbers": lambda: Ragged([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]),
    "vectors": lambda: Ragged([torch.ones(2, 3), torch.zeros(1, 3), torch.ones(3, 3)]),
    "ragged items": lambda: Ragged.from_list([[[1.0], [2.0, 3.0]], [], [[4.0, 5.0]]], ragged_dims=2),
}


@pytest.mark.parametrize("name", ROWS)
def test_items_are_one_tensor(name: str) -> None:
    rows = ROWS[name]()[1:]
    assert isinstance(rows, ItemNumbers)
    doubled = (rows * 2).type(torch.float64)
    assert doubled.dtype is torch.float64
    assert doubled.item_shape == rows.item_shape
    assert doubled.ragged_dims == rows.ragged_dims
    assert torch.equal(doubled.lengths, rows.lengths)
    assert doubled._wrapped_tensor().tolist() == (rows + rows)._wrapped_tensor().tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_rows_of_the_same_lengths(name: str) -> None:
    rows = ROWS[name]().requires_grad_()
    assert rows.requires_grad
    assert not rows.detach().requires_grad
    (rows * 3)._wrapped_tensor().sum().backward()  # type: ignore[union-attr]
    gradient = rows.grad
    assert isinstance(gradient, Ragged)
    assert torch.equal(gradient.spans, rows.spans)
    assert {*gradient._wrapped_tensor().reshape(-1).tolist()} == {3.0}  # type: ignore[union-attr]
