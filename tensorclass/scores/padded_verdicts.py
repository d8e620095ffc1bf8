"""Ragged verdicts as one padded tensor: a few instructions a prompt, NaN where a prompt has no more."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

__all__ = ["pad_rows", "ragged"]


def ragged(
    rows: Sequence[Sequence[float]] | Tensor, *, width: int | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return ragged verdicts as a padded tensor ``[prompts, width]``; NaN stands for padding.

    Args:
        rows: a list of verdicts (bools or fractions) for each prompt, or a nested tensor of them, jagged or strided.
        width: the length to pad to; by default the longest row. Pad to a common width what is to be stacked or
            concatenated.
        dtype: a floating dtype (only these have NaN).

    Raises:
        TypeError: a row is not a list.
        ValueError: a row longer than ``width``, or a dtype without NaN.

    Example:
        >>> from tensorclass.scores import ragged
        >>> ragged([[True, False], [True]])
        tensor([[1., 0.],
                [1., nan]])
    """
    if not dtype.is_floating_point:
        raise ValueError(f"dtype: expected a floating dtype, since padding is NaN, got {dtype}")
    if isinstance(rows, Tensor):
        if not rows.is_nested:
            raise ValueError(
                f"rows: expected a list of lists or a nested tensor, got a tensor of shape {list(rows.shape)}; "
                "a plain tensor needs no padding"
            )
        parts = [part.detach().cpu().double().numpy() for part in rows.unbind()]
        padded = pad_rows(np.concatenate(parts) if parts else [], [len(part) for part in parts], width)
        return padded.to(device=rows.device, dtype=dtype)
    for number, row in enumerate(rows):
        if not isinstance(row, Sized):
            raise TypeError(f"rows: expected a list of verdicts for each prompt, got {row!r} for prompt {number}")
    flat = [float(verdict) for row in rows for verdict in row]
    return pad_rows(flat, [len(row) for row in rows], width).to(dtype)


def pad_rows(flat: ArrayLike, lengths: ArrayLike, width: int | None = None, fill: float = float("nan")) -> Tensor:
    """Rows that lie one after the other, as a padded tensor ``[rows, width]`` of float64.

    Args:
        flat: the values of all rows.
        lengths: how many of them belong to each row.
        width: the length to pad to; by default the longest row.
        fill: what stands for padding.

    Example:
        >>> pad_rows([1.0, 2.0, 3.0], [1, 2], fill=-1)
        tensor([[ 1., -1.],
                [ 2.,  3.]], dtype=torch.float64)
    """
    values, counts = np.asarray(flat, dtype=np.float64), np.asarray(lengths, dtype=np.int64)
    longest = int(counts.max(initial=0))
    if width is None:
        width = longest
    elif longest > width:
        raise ValueError(f"width: expected at least the longest row, {longest}, got {width}")
    padded = np.full((len(counts), width), fill, dtype=np.float64)
    padded[np.arange(width) < counts[:, None]] = values
    return torch.as_tensor(padded, device="cpu")
