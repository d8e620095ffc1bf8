"""The order of rows by one number each. Equal numbers keep their order; NaN comes last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_sort: Callable[..., tuple[Tensor, Tensor]] = torch.sort

#: bits of the integers that hold a value and a row in one number
_BITS = 62


def stable_order(values: Tensor, descending: bool = False) -> Tensor:
    """Return the positions that sort a tensor with one dimension, ``int64``. NaN comes last in both directions.

    >>> stable_order(torch.tensor([2.0, float("nan"), 1.0, 2.0]), descending=True)
    tensor([0, 3, 2, 1])
    """
    if values.is_floating_point():
        missing = values.isnan()
        if descending:
            values = -values
        if bool(missing.any()):
            there, order = missing.logical_not().nonzero().squeeze(1), missing.nonzero().squeeze(1)
            return torch.cat([there[stable_order(values[there])], order])
        if values.device.type == "cpu" and values.dtype in (torch.float16, torch.bfloat16, torch.float32):
            return stable_order(_as_integers(values.float()))
    elif values.dtype is torch.bool:
        values = values.to(torch.uint8)
    if values.device.type != "cpu" or not len(values):
        return _sort(values, stable=True, descending=descending and not values.is_floating_point())[1]
    if values.is_floating_point():
        return _order_by_numpy(values)
    return _order_of_integers(values.to(torch.int64), descending)


def _as_integers(values: Tensor) -> Tensor:
    """Return integers that compare as float32 numbers do: their bit patterns, inverted for negative numbers."""
    bits = (values + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _order_of_integers(values: Tensor, descending: bool) -> Tensor:
    """Sort integers whose high bits are the value and whose low bits are the row: 5 to 10 times as fast as argsort."""
    low, high = (int(end) for end in torch.aminmax(values))
    shift = max(len(values) - 1, 1).bit_length()
    if (high - low).bit_length() + shift > _BITS:
        return _order_by_numpy(~values if descending else values)
    return _sorted_rows((high - values) if descending else (values - low), torch.arange(len(values)))


def _sorted_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Return rows in the order of their values (integers from 0), then of themselves: sort one number for both."""
    shift = max(len(rows) - 1, 1).bit_length()
    packed = (values << shift) | rows
    array = packed.numpy()
    array.sort()
    array &= np.int64((1 << shift) - 1)
    return packed


def _order_by_numpy(values: Tensor) -> Tensor:
    """Sort positions with numpy's unstable sort, which is faster, then restore the order of equal numbers."""
    order = torch.as_tensor(values.numpy().argsort())
    ordered = values[order]
    begins = ordered[1:] != ordered[:-1]
    if bool(begins.all()):
        return order
    ranks = torch.zeros_like(order)
    torch.cumsum(begins, 0, out=ranks[1:])
    return _sorted_rows(ranks, order)
