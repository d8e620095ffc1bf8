"""Strings as UTF-8 in one buffer of bytes, and back; comparison and search of bytes in the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.support.printable import type_name
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.object_codes import to_lists

from . import spans as span_functions

if TYPE_CHECKING:
    from numpy.typing import NDArray

_from_numpy: Callable[[NDArray[Any]], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class EncodingError(ValueError):
    """The bytes of a row are not UTF-8.

    Args:
        what: the row, for the message.
        why: what is wrong with its bytes.
        path: the key of the column, as far as it is known.
    """

    def __init__(self, what: str, why: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{dotted(path) if path else 'Text'}: {what}: the bytes are not UTF-8: {why}")
        self.parts: tuple[str, str, tuple[str, ...]] = (what, why, path)

    def __reduce__(self) -> Any:
        return type(self), self.parts

    def below(self, *path: str) -> EncodingError:
        """Return the error for a column at a key."""
        what, why, below = self.parts
        return EncodingError(what, why, (*path, *below))


def encode_rows(strings: list[Any]) -> tuple[Tensor, Tensor]:
    """Return strings, and ``None``, as one buffer, ``uint8[bytes]``, and the spans of the rows, ``int64[n, 2]``.

    Raises:
        TypeError: an item is neither a string nor ``None``. The message names the row.
        ValueError: a string has a surrogate, which UTF-8 cannot hold.

    Example:
        >>> encode_rows(["a", None])
        (tensor([97], dtype=torch.uint8), tensor([[ 0,  1],
                [ 1, -1]]))
    """
    pieces: list[bytes] = []
    counts: list[int] = []
    try:
        for item in strings:
            if item is None:
                counts.append(-1)
            else:
                piece = str.encode(item)
                pieces.append(piece)
                counts.append(len(piece))
    except (TypeError, UnicodeEncodeError) as error:
        row = len(counts)
        item = strings[row]
        if isinstance(item, str):
            raise ValueError(f"Text: row {row}: {item!r:.80} cannot be written as UTF-8: {error}") from None
        raise TypeError(f"Text: row {row}: expected a string or None, got {item!r:.80} ({type_name(item)})") from None
    data = b"".join(pieces)
    # a bytearray, as tensors may be written to
    buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    return buffer, span_functions.from_lengths(torch.tensor(counts, dtype=torch.int64))


def decode_rows(buffer: Tensor, spans: Tensor) -> list[str | None]:
    """Return the strings of all rows in flat order, ``None`` for those without one.

    Raises:
        EncodingError: the bytes of a row are not UTF-8. The message names the row.
    """
    data = buffer.cpu().numpy().tobytes()
    flat = spans.reshape(-1, 2).cpu().numpy()
    bounds: list[tuple[int, int]] = list(zip(flat[:, 0].tolist(), flat[:, 1].tolist(), strict=True))  # not a list a row
    if data.isascii():
        text = data.decode("ascii")
        return [text[start : start + n] if n >= 0 else None for start, n in bounds]
    try:
        return [data[start : start + n].decode() if n >= 0 else None for start, n in bounds]
    except UnicodeDecodeError:
        check_rows(buffer, spans)
        raise


def check_rows(buffer: Tensor, spans: Tensor) -> None:
    """Raise if the bytes of a row are not UTF-8.

    Raises:
        EncodingError: the message names the row.
    """
    data = buffer.cpu().numpy().tobytes()
    if not data.isascii():
        bounds: list[tuple[int, int]] = to_lists(spans.reshape(-1, 2))
        for row, (start, n) in enumerate(bounds):
            decode_row(data[start : start + max(n, 0)], f"row {row}")


def decode_row(data: bytes, what: str) -> str:
    """Return the string of bytes; raise :class:`EncodingError` with the name of the row if they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(what, str(error)) from None


def count_characters(buffer: Tensor, spans: Tensor) -> Tensor:
    """Return the number of characters of each row, ``int64[*batch]``. The rows must lie in order, without gaps."""
    counts = span_functions.counts_of(spans)
    is_continuation = (buffer & 0xC0) == 0x80  # a further byte of a character
    if not bool(is_continuation.any()):
        return counts
    rows = span_functions.row_numbers(spans)[is_continuation]
    return counts - torch.bincount(rows, minlength=counts.numel()).reshape(counts.shape)


# -- comparison and search --------------------------------------------------------------------------------------------
# Each function takes a buffer, uint8[bytes], and the spans of rows in it, and gives a mask over the batch. Rows without
# a value are never found.


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
