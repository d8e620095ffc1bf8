"""Numbers in Arrow columns as tensors, without a copy where possible, with masks of nulls and lengths of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import dlpack

from tensorclass.convert.conversion_options import TableOptions
from tensorclass.td.memory.copy_on_write import WORTH, copy_on_write

from .column_reader import UnreadableColumn
from .writable_memory import make_writable

# torch types these functions only in part
frombuffer: Callable[..., Tensor] = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]
from_numpy: Callable[[Any], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
shared: Callable[[Any], Tensor] = dlpack.from_dlpack  # pyright: ignore[reportUnknownMemberType]


#: ``torch.where`` does not take these dtypes; their bits are selected as signed integers
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class NestedRagged(UnreadableColumn):
    """Lists of lists have different lengths, for which torch has no tensor."""


class NumberColumn(NamedTuple):
    """Numbers as read, before nulls are filled."""

    #: ``[rows, ...]``, or all items of ragged lists in order; arbitrary where the mask is ``False``
    value: Tensor
    #: over the leading dimensions of the value
    mask: Tensor | None = None
    #: length of each ragged list
    lengths: Tensor | None = None
    #: ``True`` for each ragged list that is not null
    rows: Tensor | None = None


class NumberReader:
    """Reads arrays of numbers, and of lists of numbers."""

    def __init__(self, pa: Any, options: TableOptions) -> None:
        self.pa: Any = pa
        self.options: TableOptions = options

    # -- what a type holds --------------------------------------------------------------------------------------------

    def is_numeric(self, arrow_type: Any, times: bool = False) -> bool:
        """Return whether a type holds numbers or lists of them; with ``times``, also dates, times and decimals."""
        types = self.pa.types
        if isinstance(arrow_type, self.pa.FixedShapeTensorType):
            return True
        if isinstance(arrow_type, self.pa.BaseExtensionType):
            return arrow_type.extension_name == "arrow.bool8" or self.is_numeric(arrow_type.storage_type, times)
        if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type) or self.is_list(arrow_type):
            return self.is_numeric(arrow_type.value_type, times)
        if types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_boolean(arrow_type):
            return True
        is_time = types.is_temporal(arrow_type) and not types.is_interval(arrow_type)
        return times and bool(is_time or types.is_decimal(arrow_type))

    def is_list(self, arrow_type: Any) -> bool:
        types = self.pa.types
        tests = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        return any(test(arrow_type) for test in tests) or is_list_view(self.pa, arrow_type)

    def _unextended(self, column: Any) -> Any:
        """Return the storage of a column, for extension types that add nothing to it."""
        if isinstance(column.type, self.pa.FixedShapeTensorType):
            return column
        if column.type.extension_name in ("arrow.bool8", "arrow.uuid"):
            return column
        return self.pa.chunked_array([chunk.storage for chunk in column.chunks], type=column.type.storage_type)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def must_copy(self, why: str) -> None:
        """Raise if the options forbid a copy."""
        if self.options.copy is False:
            hint = "copy=None copies where it is needed"
            raise UnreadableColumn("a column that can be read without a copy", why, hint)

    def as_one_chunk(self, column: Any) -> Any:
        """Join the chunks of a column."""
        if column.num_chunks == 1:
            return column.chunk(0)
        if not column.num_chunks and isinstance(column.type, self.pa.BaseExtensionType):  # an empty column of a file
            return self.pa.ExtensionArray.from_storage(column.type, self.pa.array([], column.type.storage_type))
        if len(column):
            self.must_copy(f"{column.num_chunks} chunks")
        try:
            return self.with_one_dictionary(column).combine_chunks()
        except self.pa.ArrowInvalid as error:
            got = f"{column.num_chunks} chunks"
            raise UnreadableColumn("a column that can be made one array", got, str(error)) from None

    def with_one_dictionary(self, column: Any) -> Any:
        """Give the chunks of a dictionary column one dictionary, or decode them if that fails."""
        if not self.pa.types.is_dictionary(column.type) or column.num_chunks < 2:
            return column
        try:
            return column.unify_dictionaries()
        except self.pa.ArrowInvalid:  # dictionaries with nulls
            return column.cast(column.type.value_type)

    def numbers(self, array: Any) -> NumberColumn:
        """Read an array of numbers, or of lists of numbers."""
        pa, types, arrow_type = self.pa, self.pa.types, array.type
        if isinstance(arrow_type, pa.FixedShapeTensorType):
            return self._fixed_shape(array)
        if isinstance(arrow_type, pa.BaseExtensionType):
            found = self.numbers(array.storage)
            return found._replace(value=_as_booleans(found)) if arrow_type.extension_name == "arrow.bool8" else found
        if types.is_dictionary(arrow_type):
            self.must_copy("numbers of a dictionary")
            return self.numbers(array.dictionary_decode())
        if types.is_run_end_encoded(arrow_type):
            self.must_copy("numbers of runs")
            return self.numbers(compute(pa).run_end_decode(array))
        if types.is_fixed_size_list(arrow_type):
            return self._fixed_size_lists(array)
        if self.is_list(arrow_type):
            return self._variable_lists(array)
        if types.is_temporal(arrow_type) or types.is_decimal(arrow_type):
            return self.numbers(self._time_counts(array))
        return self._plain(array)

    def _plain(self, array: Any) -> NumberColumn:
        pa, arrow_type = self.pa, array.type
        mask = self._validity(array)
        if not len(array):
            return NumberColumn(from_numpy(array.to_numpy(zero_copy_only=False).copy()), mask)
        truths = pa.types.is_boolean(arrow_type)
        if truths:
            self.must_copy("booleans, which are single bits there")
            array, arrow_type = array.cast(pa.uint8()), pa.uint8()
        if mask is not None:  # values below nulls stay, and are replaced later
            array = pa.Array.from_buffers(arrow_type, len(array), [None, array.buffers()[1]], 0, array.offset)
        value = shared(array)
        memory = array.buffers()[1]
        if not (truths or memory.is_mutable or make_writable(value.data_ptr(), value.nbytes)):
            pages = None
            if value.nbytes >= WORTH or self.options.copy is False:
                begin = value.data_ptr() - memory.address
                pages = copy_on_write(memoryview(memory)[begin : begin + value.nbytes])
            if pages is None:
                self.must_copy("memory for reading alone")
                value = value.clone()
            else:
                value = frombuffer(pages, dtype=value.dtype)
        return NumberColumn(value.view(torch.bool) if truths else value, mask)

    def _validity(self, array: Any) -> Tensor | None:
        """Return a mask with ``True`` for values that are not null; ``None`` without nulls."""
        if not array.null_count:
            return None
        return shared(array.is_valid().cast(self.pa.uint8())).view(torch.bool)

    def _time_counts(self, array: Any) -> Any:
        """Convert times to int64 nanoseconds (since 1970, since midnight), decimals to doubles."""
        pa, types, arrow_type = self.pa, self.pa.types, array.type
        if types.is_decimal(arrow_type):
            self.must_copy("decimal numbers")
            return array.cast(pa.float64())
        if types.is_duration(arrow_type):
            exact = pa.duration("ns")
        elif types.is_time(arrow_type):
            exact = pa.time64("ns")
        else:
            exact = pa.timestamp("ns", getattr(arrow_type, "tz", None))
        if exact != arrow_type:
            self.must_copy(f"{arrow_type}, not {exact}")
        try:
            return array.cast(exact).view(pa.int64())
        except pa.ArrowInvalid as error:
            raise UnreadableColumn("times that are nanoseconds in 64 bits", str(arrow_type), str(error)) from None

    def _fixed_size_lists(self, array: Any) -> NumberColumn:
        count, size = len(array), array.type.list_size
        inner = self.numbers(array.values.slice(array.offset * size, count * size))
        if inner.lengths is not None:
            raise _nested_ragged(array.type)
        value = inner.value.reshape(count, size, *inner.value.shape[1:])
        items = None if inner.mask is None else inner.mask.reshape(count, size, *inner.mask.shape[1:])
        rows = self._validity(array)
        if items is None or rows is None:
            return NumberColumn(value, rows if items is None else items)
        if bool(items.reshape(count, -1)[rows].all()):
            return NumberColumn(value, rows)
        return NumberColumn(value, items & rows.reshape(-1, *(1,) * (items.ndim - 1)))

    def _fixed_shape(self, array: Any) -> NumberColumn:
        count, arrow_type = len(array), array.type
        value, mask, *_ = self._fixed_size_lists(array.storage)
        shape = list(arrow_type.shape)
        value = value.reshape(count, *shape)
        mask = mask if mask is None or mask.ndim == 1 else mask.reshape(count, *shape)
        if arrow_type.permutation is None:
            return NumberColumn(value, mask)
        order = [0, *(1 + dim for dim in arrow_type.permutation)]
        return NumberColumn(value.permute(order), mask if mask is None or mask.ndim == 1 else mask.permute(order))

    def _variable_lists(self, array: Any) -> NumberColumn:
        if is_list_view(self.pa, array.type):
            self.must_copy("views of lists")
        rows = self._validity(array)
        lengths = self._lengths(array)
        inner = self.numbers(array.flatten())  # items below nulls are left out
        if inner.lengths is not None:
            raise _nested_ragged(array.type)
        given = lengths if rows is None else lengths[rows]
        size = _one_length(given)
        if size is None or (rows is not None and self.options.nulls != "default"):
            if self.options.ragged == "raise" and size is None:
                least, most = int(given.min()), int(given.max())
                hint = "ragged='jagged' gives a jagged tensor, ragged='lazy' a lazy stack"
                raise UnreadableColumn("lists of one length", f"lists of {least} to {most}", hint)
            return NumberColumn(inner.value, inner.mask, lengths, rows)
        value = inner.value.reshape(len(given), size, *inner.value.shape[1:])
        mask = None if inner.mask is None else inner.mask.reshape(len(given), size, *inner.mask.shape[1:])
        if rows is None:
            return NumberColumn(value, mask)
        filled = value.new_zeros(len(array), *value.shape[1:])
        filled[rows] = value
        if mask is None:
            return NumberColumn(filled, rows)
        items = mask.new_zeros(len(array), *mask.shape[1:])
        items[rows] = mask
        return NumberColumn(filled, items)

    def _lengths(self, array: Any) -> Tensor:
        return from_numpy(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).copy()).long()

    def flatten_lists(self, column: Any) -> tuple[Any, int]:
        """Flatten lists of one length. Return the items and that length."""
        array = self.as_one_chunk(column)
        if array.null_count:
            raise UnreadableColumn("lists of one length", f"{nulls_of(array.null_count)} among the lists")
        lengths = self._lengths(array)
        size = array.type.list_size if self.pa.types.is_fixed_size_list(array.type) else _one_length(lengths)
        if size is None:
            raise UnreadableColumn("lists of one length", f"lists of {int(lengths.min())} to {int(lengths.max())}")
        return self.pa.chunked_array([array.flatten()]), size


def is_list_view(pa: Any, arrow_type: Any) -> bool:
    """Return whether a type holds lists that refer to their items in any order."""
    return bool(pa.types.is_list_view(arrow_type) or pa.types.is_large_list_view(arrow_type))


def compute(pa: Any) -> Any:
    import pyarrow.compute

    return pyarrow.compute


def nulls_of(count: int, there: Tensor | None = None) -> str:
    """Return the number of nulls for a message, and the first rows with one.

    Args:
        count: the number.
        there: whether each row has a value, if that is known.

    >>> nulls_of(2, torch.tensor([True, False, False]))
    '2 nulls, the first in rows 1, 2'
    """
    shown = f"{count} null" if count == 1 else f"{count} nulls"
    if there is None or not len(there):
        return shown
    null_rows: Any = (~there.reshape(len(there), -1).all(dim=1)).nonzero()
    rows: list[int] = null_rows[:_FEW, 0].tolist()
    return f"{shown}, the first in row{'s'[: len(rows) > 1]} {', '.join([str(row) for row in rows])}"


#: how many rows an error names
_FEW = 3


def _nested_ragged(arrow_type: Any) -> NestedRagged:
    hint = "ragged='lazy' makes a lazy stack of rows"
    return NestedRagged("lists of lists of one length", f"a column of {arrow_type} with several", hint)


def _one_length(lengths: Tensor) -> int | None:
    """Return the common length of all lists; ``None`` if they differ."""
    if not len(lengths):
        return 0
    return int(lengths[0]) if bool((lengths == lengths[0]).all()) else None


def _as_booleans(found: NumberColumn) -> Tensor:
    value = found.value
    zero_or_one = found.mask is None and bool((value.view(torch.uint8) < 2).all())
    return value.view(torch.bool) if zero_or_one else value != 0


def in_dtype(found: NumberColumn, name: str) -> NumberColumn:
    """Restore the dtype in the note of a column, which Arrow does not have."""
    dtype, value, mask = getattr(torch, name, None), found.value, found.mask
    if not isinstance(dtype, torch.dtype):
        raise UnreadableColumn("a dtype of torch in the metadata of the column", repr(name))
    if not dtype.is_complex:
        return found._replace(value=value.to(dtype))
    if not value.ndim or value.shape[-1] != 2:
        raise UnreadableColumn("two numbers for each complex one", f"items of the shape {list(value.shape[1:])}")
    if mask is not None and mask.ndim == value.ndim:
        mask = mask.all(-1)
    return found._replace(value=torch.view_as_complex(value.contiguous()), mask=mask)


def jagged(items: Tensor, lengths: Tensor) -> Tensor:
    """Return a jagged tensor of rows that lie one after the other."""
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return torch.nested.nested_tensor_from_jagged(items, offsets)


def filled(mask: Tensor, value: Tensor) -> Tensor:
    """Return numbers with nan, or 0, where the mask is ``False``."""
    return where_given(mask, value, torch.tensor(float("nan") if value.is_floating_point() else 0))


def where_given(mask: Tensor, value: Tensor, other: Tensor) -> Tensor:
    """Select ``value`` where the mask, over its leading dimensions, is ``True``, else ``other``."""
    mask = mask.reshape(*mask.shape, *(1,) * (value.ndim - mask.ndim))
    signed = _SIGNED.get(value.dtype)
    other = other.to(value.dtype)
    if signed is None:
        return torch.where(mask, value, other)
    return torch.where(mask, value.view(signed), other.view(signed)).view(value.dtype)
