"""Functions on spans: the start and the length of each row in a buffer of items, ``int64[*batch, 2]``.

A length of -1 marks a row without a value. Such a row has no items.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.tracing import is_batched

#: the length of a row without a value
MISSING_LENGTH = -1


def from_lengths(lengths: Tensor) -> Tensor:
    """Return the spans of rows that lie one after the other.

    Args:
        lengths: int64 tensor of any shape; -1 marks a row without a value.

    Example:
        >>> import torch
        >>> from_lengths(torch.tensor([2, 0, 3]))
        tensor([[0, 2],
                [2, 0],
                [2, 3]])
    """
    counts = lengths.clamp(min=0).reshape(-1)
    starts = (counts.cumsum(0) - counts).reshape(lengths.shape)
    return torch.stack((starts, lengths), -1)


def from_offsets(offsets: Tensor) -> Tensor:
    """Return the spans of rows from ``n + 1`` offsets, which need not begin at 0.

    Args:
        offsets: integers that never decrease.

    Example:
        >>> import torch
        >>> from_offsets(torch.tensor([0, 2, 5]))
        tensor([[0, 2],
                [2, 3]])
    """
    offsets = offsets.to(torch.int64)
    starts = offsets[:-1]
    return torch.stack((starts, offsets[1:] - starts), -1)


#: so many rows are gathered as one number of 16 bytes each, which torch copies 10 times as fast as pairs
_MANY_ROWS = 1000


def take(spans: Tensor, rows: Tensor) -> Tensor:
    """Return the spans of some rows of a contiguous ``int64[batch, 2]``. Rows are int64, not negative.

    Example:
        >>> import torch
        >>> take(torch.tensor([[0, 2], [2, 3]]), torch.tensor([1]))
        tensor([[2, 3]])
    """
    if len(rows) < _MANY_ROWS or spans.ndim != 2 or spans.device.type != "cpu":
        return spans.index_select(0, rows)
    numbers = torch.view_as_complex(spans.view(torch.float64)).index_select(0, rows)
    return torch.view_as_real(numbers).view(torch.int64)


def counts_of(spans: Tensor) -> Tensor:
    """Return the number of items of each row, ``int64[*batch]``: 0 for a row without a value."""
    return spans[..., 1].clamp(min=0)


def positions(spans: Tensor) -> Tensor:
    """Return the positions of all items, row by row, ``int64[total]``.

    Example:
        >>> import torch
        >>> positions(torch.tensor([[4, 2], [0, 3]]))
        tensor([4, 5, 0, 1, 2])
    """
    check_readable(spans)
    counts = counts_of(spans).reshape(-1)
    ends = counts.cumsum(0)
    shifts = spans[..., 0].reshape(-1) - (ends - counts)
    moved = torch.repeat_interleave(shifts, counts)
    return moved + torch.arange(moved.shape[0], device=spans.device)


def row_numbers(spans: Tensor) -> Tensor:
    """Return the number of the row of each item, row by row, ``int64[total]``; rows are counted in flat order.

    Example:
        >>> import torch
        >>> row_numbers(torch.tensor([[4, 2], [0, 3]]))
        tensor([0, 0, 1, 1, 1])
    """
    check_readable(spans)
    counts = counts_of(spans).reshape(-1)
    return torch.repeat_interleave(torch.arange(counts.shape[0], device=spans.device), counts)


def check_readable(spans: Tensor) -> None:
    """Raise if a vmap hides the lengths of rows.

    Raises:
        RuntimeError: so it is.
    """
    if is_batched(spans):
        raise RuntimeError(
            "vmap: this needs the lengths of the rows, which differ and are hidden inside of vmap; pad the rows with "
            "to_padded(length=...), or compute it outside of vmap, on the whole column"
        )


def run_of(spans: Tensor) -> tuple[int, int] | None:
    """Return ``(first, total)`` if the rows lie one after the other in the buffer without gaps; else ``None``.

    Rows without items can lie anywhere.
    """
    flat = spans.reshape(-1, 2)
    counts = flat[:, 1].clamp(min=0)
    if counts.shape[0] > 1:
        starts = flat[:, 0]
        shifts = starts - (counts.cumsum(0) - counts)
        filled = counts > 0
        if not bool(filled.all()):
            shifts = shifts[filled]
        if not shifts.shape[0]:
            return 0, 0
        first = shifts[0]
        if not bool((shifts == first).all()):
            return None
        return int(first), int(counts.sum())
    if not counts.shape[0]:
        return 0, 0
    first_start, count = int(flat[0, 0]), int(counts[0])
    return (first_start, count) if count else (0, 0)


def check(spans: Tensor, size: int, what: str) -> None:
    """Raise if a row lies outside of a buffer.

    Args:
        spans: the spans.
        size: the number of items of the buffer.
        what: the beginning of the error message.

    Raises:
        TypeError: spans are not int64.
        ValueError: the shape is wrong, or a row begins or ends outside of the buffer.
    """
    if spans.dtype is not torch.int64:
        raise TypeError(f"{what}: expected spans of dtype int64, got {spans.dtype}")
    if not spans.ndim or spans.shape[-1] != 2:
        raise ValueError(
            f"{what}: expected spans of shape [*batch, 2] (start and length of each row), got {list(spans.shape)}"
        )
    if spans.is_meta:
        return
    starts, lengths = spans[..., 0], spans[..., 1]
    wrong = (lengths < MISSING_LENGTH) | ((lengths > 0) & ((starts < 0) | (starts > size - lengths)))
    if bool(wrong.any()):
        start, length = to_lists(spans[wrong][0])
        raise ValueError(
            f"{what}: row {first_row(wrong)}: expected items within the {size} of the buffer, got start {start} and "
            f"length {length}"
        )


def check_unshared(spans: Tensor, size: int, *, has_missing: bool) -> int:
    """Raise if rows share items, or have no value against a description. Return the number of items of the rows.

    Files have no rows that share items: a copy of many rows that are the whole buffer would take any amount of memory.

    Args:
        spans: the spans.
        size: the number of items of the buffer.
        has_missing: rows may have no value.

    Raises:
        ValueError: so it is.
    """
    lengths = spans[..., 1]
    total = int(lengths.clamp(min=0).sum())
    if total > size or total < 0:
        raise ValueError(f"its rows have {total} items together, more than the {size} of the buffer: some are shared")
    if not has_missing and bool((lengths < 0).any()):
        raise ValueError(f"row {first_row(lengths < 0)} has no value, but its description has no such row")
    return total


def check_lengths(ours: Tensor, theirs: Tensor, what: str) -> None:
    """Raise if two columns differ in the length of a row. Both are spans of one batch size.

    Raises:
        ValueError: the message names the first such row.
    """
    different = ours[..., 1] != theirs[..., 1]
    if bool(different.any()):
        first, second = int(ours[..., 1][different][0]), int(theirs[..., 1][different][0])
        raise ValueError(
            f"{what}: the lengths of row {first_row(different)} differ: {first} and {second}; rows "
            "are combined item by item"
        )


def first_row(mask: Tensor) -> str:
    """Return the position of the first true element of a mask over the batch, for messages.

    Example:
        >>> first_row(torch.tensor([False, True])), first_row(torch.tensor([[False, True]]))
        ('1', '[0, 1]')
    """
    position = to_lists(mask.nonzero()[0])
    return str(position[0]) if len(position) == 1 else str(position)
