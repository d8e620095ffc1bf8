"""Comparison and search of bytes in the rows of one buffer.

Each function takes a buffer, ``uint8[bytes]``, and the spans of rows in it, and gives a mask over the batch. Rows
without a value are never found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor

from . import spans as span_functions

if TYPE_CHECKING:
    from numpy.typing import NDArray

_from_numpy: Callable[[NDArray[Any]], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def rows_equal_to(data: Tensor, spans: Tensor, piece: bytes) -> Tensor:
    """Return where a row has exactly some bytes: ``bool[*batch]``.

    Example:
        >>> rows_equal_to(torch.tensor([97, 98, 97]).byte(), torch.tensor([[0, 1], [1, 1], [2, 1]]), b"a")
        tensor([ True, False,  True])
    """
    flat = spans.reshape(-1, 2)
    same_length = flat[:, 1] == len(piece)
    if not piece:
        return same_length.reshape(spans.shape[:-1])
    return _where_bytes(data, same_length, flat[:, 0], piece).reshape(spans.shape[:-1])


def rows_with_end(data: Tensor, spans: Tensor, piece: bytes, *, at_start: bool) -> Tensor:
    """Return where a row begins, or ends, with some bytes: ``bool[*batch]``."""
    flat = spans.reshape(-1, 2)
    is_long = flat[:, 1] >= len(piece)
    if not piece:
        return is_long.reshape(spans.shape[:-1])
    starts = flat[:, 0] if at_start else flat[:, 0] + (flat[:, 1] - len(piece))
    return _where_bytes(data, is_long, starts, piece).reshape(spans.shape[:-1])


def rows_that_contain(data: Tensor, spans: Tensor, piece: bytes) -> Tensor:
    """Return where a row contains some bytes: ``bool[*batch]``. The rows must lie in order, without gaps."""
    flat = spans.reshape(-1, 2)
    result = flat[:, 1] >= 0
    if not piece:
        return result.reshape(spans.shape[:-1])
    result = torch.zeros_like(result)
    haystack = data.cpu().numpy().tobytes()
    starts: list[int] = []
    start = haystack.find(piece)
    while start >= 0:
        starts.append(start)
        start = haystack.find(piece, start + 1)
    if starts:
        at = torch.tensor(starts, dtype=torch.int64)
        ends = (flat[:, 0] + flat[:, 1].clamp(min=0)).cpu()
        rows = torch.searchsorted(ends, at, right=True)
        rows = rows[at + len(piece) <= ends[rows]]
        result[rows.to(result.device)] = True
    return result.reshape(spans.shape[:-1])


def equal_rows(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor], size: Size) -> Tensor:
    """Return where the rows of two buffers are equal: ``bool[*size]``.

    Args:
        ours: buffer and spans.
        theirs: the other buffer and spans.
        size: the batch size to which both are expanded.
    """
    first = ours[1].expand(*size, 2).reshape(-1, 2)
    second = theirs[1].expand(*size, 2).reshape(-1, 2)
    equal = first[:, 1] == second[:, 1]
    rows = (equal & (first[:, 1] > 0)).nonzero().squeeze(1)
    if len(rows):
        a, b = first[rows], second[rows]
        differ = ours[0][span_functions.positions(a)] != theirs[0][span_functions.positions(b)]
        at = span_functions.row_numbers(a)[differ]
        equal[rows[at]] = False
    return equal.reshape(size)


def _where_bytes(data: Tensor, candidates: Tensor, starts: Tensor, piece: bytes) -> Tensor:
    """Return the rows among the candidates, a flat mask, whose bytes at ``starts`` are ``piece``, as a flat mask."""
    if data.is_cpu:  # numpy takes a third of torch's time here
        rows = np.flatnonzero(candidates.numpy())
        found = np.zeros(len(candidates), dtype=np.bool_)
        found[rows[_words_equal(data.numpy(), starts.numpy()[rows], piece)]] = True
        return _from_numpy(found)
    result = candidates.clone()
    for step, byte in enumerate(piece):
        result &= data.index_select(0, torch.where(result, starts + step, 0)) == byte
    return result


def _words_equal(data: NDArray[np.uint8], starts: NDArray[np.int64], piece: bytes) -> NDArray[np.bool_]:
    """Return whether the bytes of ``data`` at some starts are ``piece``, by words of up to 8 bytes.

    Rows that differ in a word drop out before the next one.
    """
    length = len(piece)
    if not len(starts):
        return np.zeros(0, dtype=np.bool_)
    size = next(size for size in (8, 4, 2, 1) if size <= length)
    dtype = np.dtype(f"u{size}")
    words: NDArray[Any] = np.ndarray(len(data) - size + 1, dtype, data, 0, (1,))
    steps = [*range(0, length - size, size), length - size]  # the last word can overlap the one before
    first = starts + steps[0] if steps[0] else starts
    same: NDArray[np.bool_] = words[first] == np.frombuffer(piece, dtype, 1, steps[0])[0]
    if len(steps) == 1:
        return same
    rows = np.flatnonzero(same)
    for step in steps[1:]:
        rows = rows[words[starts[rows] + step] == np.frombuffer(piece, dtype, 1, step)[0]]
    result = np.zeros(len(starts), dtype=np.bool_)
    result[rows] = True
    return result
