"""Text and ragged rows to and from arrays of Arrow, which share their buffers.

Source of the memory layouts: the specification of Arrow's columnar format, https://arrow.apache.org/docs/format/Columnar.html
(variable-size binary and list layouts, and their views).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tensorclass.convert.conversion_options import TableOptions
from tensorclass.support.extras import require
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text

from .arrow_numbers import NumberReader, compute, filled, from_numpy, in_dtype, is_list_view
from .column_reader import UnreadableColumn

#: largest number of items, or bytes, that 32-bit offsets reach
_NARROW = 2**31 - 1


class ItemsRead(NamedTuple):
    """Ragged rows as read, with what is known of null items."""

    column: Ragged[Any]
    #: ``True`` for items that are not null, in the rows of ``column``; ``None`` without null items
    mask: Ragged[Any] | None = None


def text_from_arrow(data: Any) -> Text:
    """Make a Text from strings of Arrow.

    Args:
        data: an array or chunked array of ``string``, ``large_string`` or ``string_view``, also dictionary-encoded; or
            an object that gives itself to Arrow.

    Returns:
        A column that shares the buffer of an array of one chunk whose strings are not views.

    Raises:
        TypeError: the type is none of these.
    """
    pa = require("pyarrow", "arrow", "columns of Arrow")
    column = _chunked(pa, data)
    if not (is_string(pa, column.type) or pa.types.is_null(column.type)):
        raise TypeError(f"Text: expected strings, got an Arrow array of the type {column.type}")
    return read_text(NumberReader(pa, TableOptions()), column)


def ragged_from_arrow(data: Any) -> Ragged[Any]:
    """Make a Ragged from lists of Arrow.

    Args:
        data: an array or chunked array of lists of numbers or booleans, also large lists, list views, lists of fixed
            size and lists of lists; or an object that gives itself to Arrow.

    Returns:
        A column that shares the buffer of an array of one chunk, but for booleans, which Arrow packs into bits.

    Raises:
        TypeError: the type is none of these.
        ValueError: an item is null.
    """
    pa = require("pyarrow", "arrow", "columns of Arrow")
    reader, column = NumberReader(pa, TableOptions()), _chunked(pa, data)
    if not reader.is_list(column.type):
        raise TypeError(f"Ragged: expected lists, got an Arrow array of the type {column.type}")
    items = innermost(reader, column.type)
    if not (reader.is_numeric(items) or pa.types.is_null(items)):
        raise TypeError(f"Ragged: expected lists of numbers or booleans, got lists of {items}")
    try:
        return read_ragged(reader, column, list_levels(reader, column.type)).column
    except UnreadableColumn as error:
        expected, got, _ = error.problem
        raise ValueError(f"Ragged: expected {expected}, got {got}") from None


# -- in ---------------------------------------------------------------------------------------------------------------


def is_string(pa: Any, arrow_type: Any) -> bool:
    """Return whether a type holds strings, in any layout."""
    types = pa.types
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return is_string(pa, arrow_type.value_type)
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type))


def innermost(reader: NumberReader, arrow_type: Any) -> Any:
    """Return the type of the items below all levels of lists."""
    while reader.is_list(arrow_type):
        arrow_type = arrow_type.value_type
    return arrow_type


def list_levels(reader: NumberReader, arrow_type: Any) -> int:
    """Return the number of levels of lists that are ragged: all down to the last that has no fixed size, at least 1."""
    levels = found = 1
    while reader.is_list(arrow_type):
        if not reader.pa.types.is_fixed_size_list(arrow_type):
            found = levels
        arrow_type = arrow_type.value_type
        levels += 1
    return found


def read_text(reader: NumberReader, column: Any) -> Text:
    """Read a chunked array of strings, or of nulls only. It shares the buffer of one chunk that holds no views."""
    pa, types = reader.pa, reader.pa.types
    if types.is_null(column.type):
        return Text.from_list([None] * len(column))
    if types.is_run_end_encoded(column.type):
        reader.must_copy("strings of runs")
        column = compute(pa).run_end_decode(column)
    if types.is_string_view(column.type):
        reader.must_copy("views of strings")
        column = column.cast(pa.large_string())
    elif types.is_string(column.type) and column.num_chunks > 1 and column.nbytes > _NARROW:
        column = column.cast(pa.large_string())
    array = reader.as_one_chunk(column)
    if types.is_dictionary(array.type):
        return _coded_text(reader, array)
    wide = types.is_large_string(array.type)
    offsets = _offsets(array, wide)
    first, last = int(offsets[0]), int(offsets[-1])
    data = array.buffers()[2]
    if last == first or data is None:
        items = torch.empty(0, dtype=torch.uint8)
    else:
        items = reader.numbers(pa.Array.from_buffers(pa.uint8(), last - first, [None, data.slice(first)])).value
    spans = _with_nulls(span_functions.from_offsets(offsets - first if first else offsets), array)
    return Text._of(items, spans, compact=not array.null_count)


def _coded_text(reader: NumberReader, array: Any) -> Text:
    """Read strings of a dictionary: the rows share its strings."""
    pa = reader.pa
    values = read_text(reader, pa.chunked_array([array.dictionary]))
    if not len(values):
        return Text.from_list([None] * len(array))
    codes = array.indices.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    spans = values._spans().index_select(0, from_numpy(codes.copy()))
    return Text._of(values._items, _with_nulls(spans, array))


def read_ragged(
    reader: NumberReader, column: Any, levels: int, note: Mapping[str, Any] = MappingProxyType({})
) -> ItemsRead:
    """Read a chunked array of lists, with as many ragged dimensions as ``levels``. It shares the buffer of one chunk.

    Lists below these levels must have one length; they are dimensions of the items.

    Raises:
        UnreadableColumn: an item is null and the options do not fill it, or lists have not one length. The message
            names the row.
    """
    types = reader.pa.types
    arrow_type = column.type
    narrow = types.is_list(arrow_type) or types.is_list_view(arrow_type)
    if narrow and column.num_chunks > 1 and column.nbytes > _NARROW:
        column = column.cast(reader.pa.large_list(arrow_type.value_type))
    column, mask, null_rows = _read_levels(reader, reader.as_one_chunk(column), levels, note)
    if null_rows is not None and bool(null_rows.any()):
        if reader.options.nulls in ("default", "raise"):
            row = int(null_rows.nonzero()[0])
            raise UnreadableColumn(
                "lists without null items", f"a null item in row {row}", "nulls='fill' fills them, with 0 or nan"
            )
    else:
        mask = None
    return ItemsRead(column, mask)


def _read_levels(
    reader: NumberReader, array: Any, levels: int, note: Mapping[str, Any]
) -> tuple[Ragged[Any], Ragged[Any] | None, Tensor | None]:
    """Return rows, a mask of their items, and where rows have null items. The last two are ``None`` without nulls."""
    spans, below = _spans_and_items(reader, array)
    is_null: Tensor | None
    items: Any
    masks: Any
    if levels > 1 and reader.is_list(below.type):
        items, masks, is_null = _read_levels(reader, below, levels - 1, note)
    else:
        items, masks = _item_tensor(reader, below, note)
        is_null = None if masks is None else ~masks.reshape(len(masks), -1).all(1)
    spans = _with_nulls(spans, array)
    compact = not array.null_count and not is_list_view(reader.pa, array.type)
    rows: Ragged[Any] = Ragged._of(items, spans, compact=compact)
    if is_null is None or masks is None:
        return rows, None, None
    null_rows = torch.zeros(len(array), dtype=torch.bool)
    null_rows[span_functions.row_numbers(spans)[is_null[span_functions.positions(spans)]]] = True
    return rows, Ragged._of(masks, spans, compact=compact), null_rows


def _spans_and_items(reader: NumberReader, array: Any) -> tuple[Tensor, Any]:
    """Return the spans of lists, and the array of items that they refer to."""
    pa, kind = reader.pa, array.type
    if isinstance(array, pa.ExtensionArray):
        return _spans_and_items(reader, array.storage)
    if is_list_view(pa, kind):
        parts = [one.to_numpy(zero_copy_only=False).astype(np.int64) for one in (array.offsets, array.sizes)]
        return torch.stack([from_numpy(one) for one in parts], -1), array.values
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        starts = torch.arange(len(array)) * size
        items = array.values.slice(array.offset * size, len(array) * size)
        return torch.stack((starts, torch.full_like(starts, size)), -1), items
    offsets = _offsets(array, pa.types.is_large_list(kind))
    first, last = int(offsets[0]), int(offsets[-1])
    spans = span_functions.from_offsets(offsets - first if first else offsets)
    return spans, array.values.slice(first, last - first)


def _item_tensor(reader: NumberReader, items: Any, note: Mapping[str, Any]) -> tuple[Tensor, Tensor | None]:
    """Return items as a tensor, and a mask of those that are not null: ``None`` without nulls."""
    types = reader.pa.types
    if types.is_null(items.type):
        return torch.zeros(len(items)), torch.zeros(len(items), dtype=torch.bool) if len(items) else None
    found = reader.numbers(items)
    if found.lengths is not None:
        given = found.lengths if found.rows is None else found.lengths[found.rows]
        raise UnreadableColumn(
            "lists of one length, for dimensions of the items",
            f"lists of {int(given.min())} to {int(given.max())}" if len(given) else "nulls",
            "declare them ragged, too: Ragged[Ragged[...]]",
        )
    if "dtype" in note:
        reader.must_copy(f"{note['dtype']}, which Arrow does not have")
        found = in_dtype(found, note["dtype"])
    value, mask = found.value, found.mask
    if mask is not None:
        value = filled(mask, value)
    return value, mask


def _chunked(pa: Any, data: Any) -> Any:
    """Return a chunked array, without extension types."""
    if not isinstance(data, (pa.Array, pa.ChunkedArray)):
        data = pa.chunked_array(data) if hasattr(data, "__arrow_c_stream__") else pa.array(data)
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    if isinstance(data.type, pa.BaseExtensionType):
        data = pa.chunked_array([chunk.storage for chunk in data.chunks], type=data.type.storage_type)
    return data


def _offsets(array: Any, wide: bool) -> Tensor:
    """Return the ``len + 1`` offsets of an array, which can be a slice."""
    dtype = np.int64 if wide else np.int32
    if not len(array):
        return torch.zeros(1, dtype=torch.int64)
    found = np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize)
    return from_numpy(found.astype(np.int64))


def _with_nulls(spans: Tensor, array: Any) -> Tensor:
    """Return the spans with the null rows of the array as rows without a value."""
    if not array.null_count:
        return spans
    missing = from_numpy(array.is_null().to_numpy(zero_copy_only=False).copy())
    lengths = torch.where(missing, span_functions.MISSING_LENGTH, spans[..., 1])
    return torch.stack((spans[..., 0], lengths), -1)


# -- out --------------------------------------------------------------------------------------------------------------


def string_array(pa: Any, column: Text, wide: bool = False) -> Any:
    """Return a Text with one batch dimension as strings: large ones if asked for, or needed."""
    items, spans = column.cpu()._packed()
    wide = wide or len(items) > _NARROW
    lengths = spans[:, 1]
    buffers = [_validity(pa, lengths), _offset_buffer(pa, lengths, wide), pa.py_buffer(items.contiguous().numpy())]
    return pa.Array.from_buffers(pa.large_string() if wide else pa.string(), len(spans), buffers)


def list_array(pa: Any, lengths: Tensor, values: Any, arrow_type: Any = None) -> Any:
    """Return packed rows as a list array. By default its offsets have 64 bits only if the values need them.

    A negative length is that of a row that is null.
    """
    if arrow_type is None:
        arrow_type = (pa.large_list if len(values) > _NARROW else pa.list_)(values.type)
    wide = pa.types.is_large_list(arrow_type)
    buffers = [_validity(pa, lengths), _offset_buffer(pa, lengths, wide)]
    return pa.Array.from_buffers(arrow_type, len(lengths), buffers, children=[values])


def _offset_buffer(pa: Any, lengths: Tensor, wide: bool) -> Any:
    sizes = lengths.clamp(min=0)
    offsets = torch.zeros(len(sizes) + 1, dtype=torch.int64 if wide else torch.int32)
    torch.cumsum(sizes, 0, out=offsets[1:]) if wide else offsets[1:].copy_(sizes.cumsum(0))
    return pa.py_buffer(offsets.numpy())


def _validity(pa: Any, lengths: Tensor) -> Any:
    """Return the validity bitmap of the rows; ``None`` if all have a value."""
    given = (lengths >= 0).numpy()
    return None if given.all() else pa.array(given).buffers()[1]
