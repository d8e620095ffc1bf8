"""Columns (``Text``, ``Ragged``) as bytes of a message: lengths of the rows, then the items, for each column.

Two processes agree on the batch size, the dtype and the shape of items of a column (:class:`ColumnForm`), not on the
lengths of its rows. So the bytes need no description: lengths give the number of items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.storage.common.collection_tree import FileError
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text
from tensorclass.td.leaves.content import Content

from .byte_tensors import as_bytes, padded, to_bytes


class ColumnForm(NamedTuple):
    """The facts that two processes must agree on to send a column: all but the lengths of its rows and the items."""

    is_text: bool
    batch_size: Size
    ragged_dims: int
    dtype: torch.dtype
    item_shape: Size

    @classmethod
    def of(cls, column: BufferColumn) -> ColumnForm:
        """Return the form of a column."""
        if column._CONTENT is Content.TEXT:
            return cls(True, column._batch_size, 1, torch.uint8, Size(()))
        rows: Any = column
        return cls(False, rows._batch_size, rows.ragged_dims, rows.dtype, rows.item_shape)

    def __str__(self) -> str:
        if self.is_text:
            return f"Text of {list(self.batch_size)} rows"
        items = f"{str(self.dtype).removeprefix('torch.')} items of shape {list(self.item_shape)}"
        deep = f" in {self.ragged_dims} ragged dimensions" if self.ragged_dims > 1 else ""
        return f"Ragged of {list(self.batch_size)} rows, {items}{deep}"


def lengths_and_items(column: Any) -> Iterator[Tensor]:
    """Yield the lengths of each ragged dimension, and the items."""
    items, spans = column._packed()
    yield spans[..., 1]
    if isinstance(items, Tensor):
        yield items
    else:
        yield from lengths_and_items(items)


def column_bytes(columns: Sequence[BufferColumn], text: bytes) -> bytes:
    """Return the bytes of a text followed by the rows of columns."""
    return tensor_bytes([part for column in columns for part in lengths_and_items(column)], text)


def tensor_bytes(tensors: Sequence[Tensor], text: bytes) -> bytes:
    """Return the bytes of a text followed by the values of tensors."""
    parts = [tensor.detach() for tensor in tensors]
    starts: list[int] = []
    end = padded(8 + len(text))
    for part in parts:
        starts.append(end)
        end = padded(end + part.numel() * part.dtype.itemsize)
    memory = torch.zeros(end, dtype=torch.uint8, device="cpu")
    memory[:8] = as_bytes(len(text).to_bytes(8, "little"))
    memory[8 : 8 + len(text)] = as_bytes(text)
    for start, part in zip(starts, parts, strict=True):
        if part.numel():
            size = part.numel() * part.dtype.itemsize
            target = memory[start : start + size].view(part.dtype).view(part.shape)
            target.copy_(part.resolve_conj().resolve_neg() if part.dtype.is_complex else part)
    return to_bytes(memory)


def split_columns(
    content: bytes | bytearray, forms: Sequence[ColumnForm], origin: str
) -> tuple[bytes, list[BufferColumn]]:
    """Return the text and the columns of :func:`column_bytes`. They share one piece of memory.

    Args:
        content: the bytes.
        forms: the forms of the columns.
        origin: where the bytes come from, for error messages.

    Raises:
        FileError: the bytes do not fit the forms. It is a ValueError.
    """
    text, reader = _split(content, origin)
    columns = [reader.column(form, form.batch_size, form.ragged_dims) for form in forms]
    reader.finish()
    return text, columns


def split_tensors(
    content: bytes | bytearray, forms: Callable[[bytes], Sequence[tuple[torch.dtype, Size]]], origin: str
) -> tuple[bytes, list[Tensor]]:
    """Return the text and the tensors of :func:`tensor_bytes`. The tensors share one piece of memory.

    Args:
        content: the bytes.
        forms: returns the dtypes and shapes of the tensors for the text.
        origin: where the bytes come from, for error messages.

    Raises:
        FileError: the bytes do not fit. It is a ValueError.
    """
    text, reader = _split(content, origin)
    tensors = [reader.tensor(dtype, shape) for dtype, shape in forms(text)]
    reader.finish()
    return text, tensors


def _split(content: bytes | bytearray, origin: str) -> tuple[bytes, _Reader]:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise FileError(f"{origin}: the text and ragged rows are damaged. Nothing was written")
    return bytes(content[8 : 8 + length]), _Reader(as_bytes(content), padded(8 + length), origin)


class _Reader:
    """Reads tensors one after the other from bytes of another process, which are not trusted."""

    def __init__(self, memory: Tensor, start: int, origin: str) -> None:
        self.memory = memory
        self.at = start
        self.origin = origin

    def damaged(self) -> FileError:
        return FileError(f"{self.origin}: the text and ragged rows do not fit the record. Nothing was written")

    def finish(self) -> None:
        if self.at != len(self.memory):
            raise self.damaged()

    def tensor(self, dtype: torch.dtype, shape: Size) -> Tensor:
        size = shape.numel() * dtype.itemsize
        if self.at + size > len(self.memory):
            raise self.damaged()
        part = self.memory[self.at : self.at + size]
        self.at = padded(self.at + size)
        return part.view(dtype).view(shape) if size else torch.empty(shape, dtype=dtype, device="cpu")

    def column(self, form: ColumnForm, batch_size: Size, ragged_dims: int) -> BufferColumn:
        lengths = self.tensor(torch.int64, batch_size)
        rest = len(self.memory) - self.at
        most = rest if form.dtype.itemsize and form.item_shape.numel() and ragged_dims == 1 else 2**40
        if bool(((lengths < span_functions.MISSING_LENGTH) | (lengths > most)).any()):
            raise self.damaged()
        spans = span_functions.from_lengths(lengths)
        count = int(span_functions.counts_of(spans).sum())
        if count > max(most, 0) or count < 0:
            raise self.damaged()
        items: Any
        if ragged_dims > 1:
            items = self.column(form, Size((count,)), ragged_dims - 1)
        else:
            items = self.tensor(form.dtype, Size((count, *form.item_shape)))
        cls: Any = Text if form.is_text else Ragged
        made: BufferColumn = cls._of(items, spans, compact=True)
        return made
