"""Strings as UTF-8 in one buffer of bytes, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tensorclass.support.printable import type_name
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.object_codes import to_lists

from . import spans as span_functions


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
