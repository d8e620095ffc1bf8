"""Reductions along rows of different length.

Each function takes the items of all rows, ``[items, *item shape]``, the row number of each item, ``int64[items]``,
which never decreases, and the number of rows. Results are ``[rows, *item shape]`` unless they are items again.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Extreme = Literal["amax", "amin"]

#: sums over rows add in another order than :func:`torch.sum`, so they accumulate in the next wider dtype
_WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def wider_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype in which items are added; MPS has no float64."""
    return dtype if device.type == "mps" else _WIDER.get(dtype, dtype)


def row_sums(items: Tensor, rows: Tensor, count: int, dtype: torch.dtype | None = None) -> Tensor:
    """Sum the items of each row; 0 for a row without items.

    Args:
        items: the items of all rows.
        rows: the row number of each item.
        count: the number of rows.
        dtype: of the result. Default: that of :func:`torch.sum`.

    Example:
        >>> row_sums(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 2]), 3)
        tensor([3, 0, 3])
    """
    result = dtype or (items.dtype if items.is_floating_point() or items.is_complex() else torch.int64)
    return _added(items, rows, count, wider_dtype(result, items.device)).to(result)


def _added(items: Tensor, rows: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return items.new_zeros((count, *items.shape[1:]), dtype=dtype).index_add(0, rows, items.to(dtype))


def row_extremes(items: Tensor, rows: Tensor, count: int, extreme: Extreme) -> Tensor:
    """Return the largest or smallest item of each row; any value for a row without items.

    Example:
        >>> row_extremes(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 1]), 2, "amax")
        tensor([2, 3])
    """
    is_bool = items.dtype is torch.bool
    if is_bool:
        items = items.to(torch.uint8)
    index = _over_items(rows, items)
    start = items.new_zeros((count, *items.shape[1:]))
    reduced = start.scatter_reduce(0, index, items, extreme, include_self=False)
    return reduced.bool() if is_bool else reduced


def positions_of_extremes(items: Tensor, rows: Tensor, starts: Tensor, extreme: Extreme) -> Tensor:
    """Return the position of the largest or smallest item in each row: the first of equal ones, NaN before others.

    Args:
        items: the items of all rows.
        rows: the row number of each item.
        starts: the position of the first item of each row in ``items``.
        extreme: which item.

    Example:
        >>> positions_of_extremes(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 1]), torch.tensor([0, 2]), "amax")
        tensor([1, 0])
    """
    count = len(starts)
    items = items.detach()
    is_extreme = row_extremes(items, rows, count, extreme).index_select(0, rows) == items
    if items.is_floating_point():
        is_extreme |= items.isnan()
    positions = torch.arange(len(items), device=items.device) - starts.index_select(0, rows)
    last = torch.iinfo(torch.int64).max
    return row_extremes(torch.where(is_extreme, _over_items(positions, items), last), rows, count, "amin")


def row_softmax(items: Tensor, rows: Tensor, count: int) -> Tensor:
    """Return the softmax of the items of each row, as items.

    Example:
        >>> row_softmax(torch.zeros(3), torch.tensor([0, 0, 1]), 2)
        tensor([0.5000, 0.5000, 1.0000])
    """
    top = row_extremes(items.detach(), rows, count, "amax").index_select(0, rows)
    top = torch.where(top.isinf(), 0, top)
    powers = (items - top).exp()
    totals = _added(powers, rows, count, wider_dtype(powers.dtype, items.device))
    return (powers / totals.index_select(0, rows)).to(items.dtype)


def _over_items(values: Tensor, items: Tensor) -> Tensor:
    """Expand a value for each item to the item shape."""
    return values.reshape(-1, *(1,) * (items.ndim - 1)).expand(items.shape)
