"""``repr`` of columns: class, batch size, and the beginning of a few rows; also on a part of a line, as a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.support.printable import type_name
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.printing.field_previews import row_texts, tensor_type
from tensorclass.td.printing.number_previews import is_readable
from tensorclass.td.printing.representations import failed_text
from tensorclass.td.printing.short_form import facts_of, head_facts, line_width
from tensorclass.td.printing.text_previews import ROWS, cut, listed, string_text

if TYPE_CHECKING:
    from .buffer_column import BufferColumn
    from .ragged import Ragged
    from .text import Text

#: rows that the ``repr`` of a column shows
_SHOWN_ROWS = 10
#: the most rows of which the lengths are read from a file
_MOST_ROWS = 2**16
#: bytes of UTF-8 that a character takes at most
_BYTES = 4


def describe_column(column: Any) -> str:
    """Return a line about a column of any class, and one for each of its first rows."""
    try:
        width = line_width()
        size = column._batch_size
        head = f"{column._type_for_repr()}({', '.join(head_facts(column, facts_of(column)))})"
        lines: list[str] = column._row_texts(_SHOWN_ROWS, width - 2) if len(size) < 2 else []
        if lines and size and size[0] > len(lines):
            lines.append(f"... {size[0] - len(lines)} more rows")
        return "\n  ".join([cut(head, width), *[cut(line, width - 2) for line in lines]])
    except Exception as error:  # half-constructed, or of a damaged file
        return failed_text(column, error)


def values_of(column: BufferColumn) -> list[Tensor]:
    """Return the buffers of a column, whose size in bytes is shown.

    Slices share the buffer of items. There are only as many items as the rows refer to.
    """
    items: Any = column._items
    spans = column._spans()
    if column._is_compact or not is_readable(spans):
        return list(column._leaves_and_buffers())
    if isinstance(items, Tensor):
        return [items[: _item_count(spans, len(items))], spans]
    if spans.numel() > 2 * _MOST_ROWS:
        return list(column._leaves_and_buffers())
    below: Any = column._packed()[0]
    return [*values_of(below), spans]


def _item_count(spans: Tensor, size: int) -> int:
    """Return the number of items that rows refer to.

    Of many rows in a file only the first and the last are read: a slice of a column has the items between them.
    """
    if type(spans) is not Tensor and spans.numel() > 2 * _MOST_ROWS:
        rows = spans.ndim - 1
        first, last = spans[(0,) * rows], spans[(-1,) * rows]
        total = int(last[0]) + max(int(last[1]), 0) - int(first[0])
    else:
        total = int(span_functions.counts_of(spans).sum())
    return min(max(total, 0), size)


def rows_in_line(column: Any, width: int, count: int | None, most: int | None = None) -> str:
    """Return the first rows of a column as a list on a part of a line.

    Args:
        column: any column.
        width: columns.
        count: the number of rows, if the column has only the first of them.
        most: the most columns of one row among others.
    """
    size = column._batch_size
    if len(size) > 1:
        return ""
    if not size:
        return "".join(column._row_texts(1, width))
    shown = column._row_texts(ROWS, width - 7 if size[0] == 1 else min(most or width, width))
    return listed(shown, count or size[0], width) if shown else ""


def ragged_type(column: Ragged[Any]) -> str:
    """Return the class with dtype and shape of the items."""
    items: Any = column._items
    inner = tensor_type(items, items.shape, 1) if isinstance(items, Tensor) else ragged_type(items)
    return f"{type_name(column)}[{inner}]"


def ragged_rows(column: Ragged[Any], count: int, width: int) -> list[str]:
    """Return the texts of the first rows: the first items of each."""
    items: Any = column._items
    spans = _first_spans(column, count)
    if spans is None:
        return []
    if isinstance(items, Tensor):
        return row_texts(items, spans, width) if is_readable(items) else []
    rows: list[str] = []
    for start, length in spans:
        inner: Any = items._index_value(slice(start, start + max(length, 0)))
        rows.append("None" if length < 0 else listed(ragged_rows(inner, ROWS, width), length, width))
    return rows


def text_rows(text: Text, count: int, width: int) -> list[str]:
    """Return the texts of the first rows: the first characters of each."""
    spans = _first_spans(text, count)
    buffer: Any = text._items
    if spans is None or not is_readable(buffer):
        return []
    rows: list[str] = []
    for start, length in spans:
        if length < 0:
            rows.append("None")
            continue
        taken = min(length, _BYTES * width)
        string = bytes(to_lists(buffer[start : start + taken])).decode(
            "utf-8", "ignore" if taken < length else "replace"
        )
        rows.append(string_text(string, width, is_cut=taken < length))
    return rows


def _first_spans(column: BufferColumn, count: int) -> list[tuple[int, int]] | None:
    spans = column._spans()
    if not is_readable(spans) or not spans.numel():
        return None
    first: torch.Tensor = spans[:count] if spans.ndim > 1 else spans.unsqueeze(0)
    return [(start, length) for start, length in to_lists(first)]
