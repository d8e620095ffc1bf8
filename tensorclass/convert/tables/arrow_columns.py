"""Text and ragged rows to and from arrays of Arrow, which share their buffers.

Source of the memory layouts: the specification of Arrow's columnar format, https://arrow.apache.org/docs/format/Columnar.html
(variable-size binary and list layouts, and their views).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorclass.support.extras import require
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text


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
    array = _one_array(pa, data)
    if pa.types.is_dictionary(array.type):
        codes = torch.from_numpy(array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
        values = text_from_arrow(array.dictionary)
        return Text._of(values.values, _with_nulls(values._at(codes).spans, array))
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if pa.types.is_null(array.type):
        return Text.from_list([None] * len(array))
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise TypeError(f"Text: expected strings, got an Arrow array of the type {array.type}")
    _, offsets, values = array.buffers()
    wide = pa.types.is_large_string(array.type)
    spans = span_functions.from_offsets(_offsets(array, offsets, wide))
    return Text._of(_bytes_of(values), _with_nulls(spans, array))


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
    array = _one_array(pa, data)
    kind = array.type
    is_view = getattr(pa.types, "is_list_view", _never)(kind) or getattr(pa.types, "is_large_list_view", _never)(kind)
    if is_view:
        starts = _numbers(array.offsets).to(torch.int64)
        spans = torch.stack((starts, _numbers(array.sizes).to(torch.int64)), -1)
        items = array.values
    elif pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        starts = (torch.arange(len(array)) + array.offset) * size
        spans = torch.stack((starts, torch.full_like(starts, size)), -1)
        items = array.values
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        spans = span_functions.from_offsets(_offsets(array, array.buffers()[1], pa.types.is_large_list(kind)))
        items = array.values
    else:
        raise TypeError(f"Ragged: expected lists, got an Arrow array of the type {kind}")
    spans = _with_nulls(spans, array)
    made: Ragged[Any] = Ragged._of(
        ragged_from_arrow(items) if _is_list(pa, items.type) else _item_tensor(pa, items, spans), spans
    )
    return made


def to_arrow(column: Text | Ragged[Any]) -> Any:
    """Return a column as an array of Arrow: ``large_string``, or ``large_list`` of the items.

    Args:
        column: with one batch dimension.

    Returns:
        An array that shares the buffer of a compact column on the CPU.

    Raises:
        ValueError: the batch has not one dimension.
        TypeError: the items of a Ragged have a shape or a dtype that Arrow has no type for.
    """
    pa = require("pyarrow", "arrow", "columns of Arrow")
    if column.ndim != 1:
        raise ValueError(f"to_arrow: expected one batch dimension, got the batch size {list(column.batch_size)}")
    items, spans = column.cpu()._packed()
    sizes = span_functions.counts_of(spans)
    offsets = torch.cat((sizes.new_zeros(1), sizes.cumsum(0))).numpy()
    missing = column.missing.cpu().numpy()
    mask = None
    if missing.any():
        mask = pa.array(~missing).buffers()[1]
    if isinstance(column, Text):
        buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(items.contiguous().numpy())]
        return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    values = to_arrow(items) if isinstance(items, Ragged) else _arrow_items(pa, items.detach())
    kind = pa.large_list(values.type)
    return pa.Array.from_buffers(kind, len(offsets) - 1, [mask, pa.py_buffer(offsets)], children=[values])


def _arrow_items(pa: Any, items: Tensor) -> Any:
    """Return items as an array of Arrow; items of a shape as lists of fixed size."""
    if items.ndim == 1:
        if items.dtype is torch.bfloat16 or items.is_complex():
            raise TypeError(f"to_arrow: Arrow has no type for {items.dtype}; cast the items first, as in rows.float()")
        return pa.array(items.contiguous().numpy())
    below = _arrow_items(pa, items.reshape(-1, *items.shape[2:]))
    return pa.FixedSizeListArray.from_arrays(below, items.shape[1])


def _never(kind: Any) -> bool:
    return False


def _is_list(pa: Any, kind: Any) -> bool:
    tests = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
    return any(getattr(pa.types, test, _never)(kind) for test in tests)


def _one_array(pa: Any, data: Any) -> Any:
    """Return one array, joined from chunks, without extension types."""
    if not isinstance(data, (pa.Array, pa.ChunkedArray)):
        data = pa.chunked_array(data) if hasattr(data, "__arrow_c_stream__") else pa.array(data)
    if isinstance(data, pa.ChunkedArray):
        data = data.chunk(0) if data.num_chunks == 1 else data.combine_chunks()
        if isinstance(data, pa.ChunkedArray):  # larger than 32-bit offsets reach
            kind = data.type
            wide = pa.large_string() if pa.types.is_string(kind) else pa.large_list(kind.value_type)
            data = data.cast(wide).combine_chunks()
    return data.storage if isinstance(data, pa.ExtensionArray) else data


def _offsets(array: Any, buffer: Any, wide: bool) -> Tensor:
    """Return the ``len + 1`` offsets of an array, which can be a slice."""
    dtype = np.int64 if wide else np.int32
    if not len(array):
        return torch.zeros(1, dtype=torch.int64)
    return _shared(np.frombuffer(buffer, dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize))


def _shared(array: Any) -> Tensor:
    """Return an array that cannot be written to as a tensor on the same memory; columns never write to buffers."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of every array that is not writable
        made: Tensor = torch.from_numpy(array)
    return made


def _bytes_of(buffer: Any) -> Tensor:
    if buffer is None or not buffer.size:
        return torch.empty(0, dtype=torch.uint8)
    return _shared(np.frombuffer(buffer, np.uint8))


def _numbers(array: Any) -> Tensor:
    return _shared(array.to_numpy(zero_copy_only=False))


def _item_tensor(pa: Any, items: Any, spans: Tensor) -> Tensor:
    """Return the items of lists as a tensor."""
    if items.null_count:
        is_null = torch.from_numpy(items.is_null().to_numpy(zero_copy_only=False).copy())
        rows = span_functions.row_numbers(spans)[is_null[span_functions.positions(spans)]]
        if len(rows):
            raise ValueError(f"Ragged: row {int(rows[0])}: an item is null; fill or drop the null items of lists first")
        items = items.fill_null(False if pa.types.is_boolean(items.type) else 0)
    kind = items.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"Ragged: expected lists of numbers or booleans, got lists of {kind}")
    array = items.to_numpy(zero_copy_only=False)
    return _shared(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))


def _with_nulls(spans: Tensor, array: Any) -> Tensor:
    """Return the spans with the null rows of the array as rows without a value."""
    if not array.null_count:
        return spans
    missing = torch.from_numpy(array.is_null().to_numpy(zero_copy_only=False).copy())
    lengths = torch.where(missing, span_functions.MISSING_LENGTH, spans[..., 1])
    return torch.stack((spans[..., 0], lengths), -1)
