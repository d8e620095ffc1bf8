"""Rows as a padded tensor, and a padded tensor as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tensorclass.support.nearest import did_you_mean
from tensorclass.td.tracing import has_values, is_batched

from . import spans as span_functions

Side = Literal["right", "left"]


class Padded(NamedTuple):
    """The result of :meth:`Ragged.to_padded`.

    Args:
        values: the padded tensor, ``[*batch, length, *item shape]``.
        mask: true at items, false at padding, ``bool[*batch, length]``.

    Example:
        >>> from tensorclass import Ragged
        >>> Ragged([[1, 2], [3]]).to_padded().mask
        tensor([[ True,  True],
                [ True, False]])
    """

    values: Tensor
    mask: Tensor


def check_side(side: str, what: str) -> None:
    """Raise ``ValueError`` for an unknown side."""
    if side not in ("right", "left"):
        near = did_you_mean(side, ("right", "left"))
        raise ValueError(f"{what}: expected side 'right' or 'left', got {side!r}{near}")


def padded_length(spans: Tensor, length: int | None, multiple_of: int | None) -> int:
    """Return the length to which rows are padded.

    Args:
        spans: of the rows.
        length: the length that was asked for. Default: that of the longest row.
        multiple_of: round up to a multiple of this.

    Raises:
        ValueError: a row is longer than ``length``.
    """
    lengths = spans[..., 1]  # -1 for a row without a value
    longest = length
    if longest is None:
        span_functions.check_readable(spans)
        longest = max(int(lengths.max()), 0) if lengths.numel() else 0
    if multiple_of is not None:
        if multiple_of < 1:
            raise ValueError(f"to_padded: expected multiple_of of at least 1, got {multiple_of}")
        longest = -(-longest // multiple_of) * multiple_of
    if length is None:
        return longest
    if not has_values(spans):
        if not is_batched(spans):  # part of the traced program
            is_long_enough = (lengths <= longest).all()
            torch._assert_async(is_long_enough, "to_padded: a row has more items than length=")  # pyright: ignore[reportPrivateImportUsage]
    elif bool((lengths > longest).any()):
        raise ValueError(
            f"to_padded: a row has {int(lengths.max())} items, more than length={length}; truncate the rows first"
        )
    return longest


def pad_rows(items: Tensor, spans: Tensor, length: int, padding: complex = 0, side: Side = "right") -> Padded:
    """Gather rows in a padded tensor, and the mask of its items.

    Args:
        items: the buffer, ``[items, *item shape]``.
        spans: of the rows in it, ``int64[*batch, 2]``.
        length: the padded length, at least that of the longest row.
        padding: the value at padded positions.
        side: the side at which rows are padded.

    Example:
        >>> pad_rows(torch.arange(3), torch.tensor([[0, 2], [2, 1]]), 2).values
        tensor([[0, 1],
                [2, 0]])
    """
    lengths = spans[..., 1].unsqueeze(-1)  # -1 for a row without a value: no step is below
    steps = torch.arange(length, device=spans.device)
    if side == "left":
        steps = steps - (length - lengths)
        mask = steps >= 0
    else:
        mask = steps < lengths
    if has_values(spans):
        if not len(items):
            return Padded(items.new_full((*mask.shape, *items.shape[1:]), padding), mask)
    else:
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        if not statically_known_true(items.shape[0] > 0):  # their number can depend on values
            items = torch.cat((items, items.new_zeros((1, *items.shape[1:]))))
    at = (steps + spans[..., 0].unsqueeze(-1)).clamp(0, items.shape[0] - 1)
    gathered = items.index_select(0, at.reshape(-1)).reshape(*at.shape, *items.shape[1:])
    hidden = ~mask
    if gathered.ndim > mask.ndim:
        hidden = hidden.reshape(mask.shape + (1,) * (gathered.ndim - mask.ndim))
    return Padded(gathered.masked_fill_(hidden, padding), mask)


def unpad_by_lengths(padded: Tensor, lengths: Tensor | Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return a padded tensor as a buffer of items, and the spans of rows that begin with their items.

    Args:
        padded: ``[*batch, longest, *item shape]``.
        lengths: the number of items of each row, ``int[*batch]``.

    Returns:
        Items that share memory with ``padded`` where its strides allow it, and spans.

    Raises:
        ValueError: the batch of lengths is not that of the tensor, or a row is longer than the tensor.
    """
    counts = torch.as_tensor(lengths, dtype=torch.int64, device=padded.device)
    ndim = counts.ndim
    if padded.ndim <= ndim or padded.shape[:ndim] != counts.shape:
        raise ValueError(
            f"Ragged.from_padded: lengths of shape {list(counts.shape)} need a tensor [*batch, longest, ...] of "
            f"that batch, got shape {list(padded.shape)}"
        )
    longest = padded.shape[ndim]
    if not counts.is_meta and bool(((counts > longest) | (counts < -1)).any()):
        raise ValueError(f"Ragged.from_padded: lengths must be at most {longest}, the padded length")
    starts = torch.arange(counts.numel(), device=padded.device).reshape(counts.shape) * longest
    return padded.reshape(-1, *padded.shape[ndim + 1 :]), torch.stack((starts, counts), -1)


def unpad_by_mask(padded: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the items at which a mask is true, and the spans of the rows in them.

    Args:
        padded: ``[*batch, longest, *item shape]``.
        mask: ``bool[*batch, longest]``.

    Raises:
        ValueError: the mask is not boolean, or its shape is not that of the first dimensions.
    """
    if mask.dtype is not torch.bool or padded.shape[: mask.ndim] != mask.shape or not mask.ndim:
        raise ValueError(
            f"Ragged.from_padded: expected a boolean mask over the first dimensions of {list(padded.shape)}, "
            f"got {mask.dtype} of shape {list(mask.shape)}"
        )
    return padded[mask], span_functions.from_lengths(mask.sum(-1))
