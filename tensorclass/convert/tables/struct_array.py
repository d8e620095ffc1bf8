"""Structured arrays of numpy."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Unpack

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_options import (
    ConversionKwargs,
    ConversionOptions,
    TableOptions,
    table_call_options,
)
from tensorclass.convert.conversion_steps import C, build, object_column, with_metadata
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text
from tensorclass.td.columns.utf8_rows import EncodingError
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.leaves.packed_tensor import as_packed_tensor
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import is_array

from .column_names import Path, named_items, renamed_columns
from .column_reader import ColumnReader, ReadColumn, UnreadableColumn
from .column_rows import declared_rows
from .column_schema import ColumnSchema, fit_columns

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

METHODS_OF = "PythonObjects"

#: an example row of an empty array, so that text fields stay text
_EMPTY: dict[str, Any] = {"U": "", "S": b""}

# numpy's type hints of this function are incomplete
_str_len: Callable[[Any], Any] = np.char.str_len  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: size in bytes of an item from which large arrays are written in blocks, and size of a block
_WIDE, _BLOCK = 64, 1 << 21


def from_struct_array(
    cls: type[C],
    struct_array: Any,
    *,
    copy: bool | None = None,
    rename: Mapping[str, str] | None = None,
    **kwargs: Unpack[ConversionKwargs],
) -> C:
    """Convert a numpy array of a structured dtype. The shape of the array is the batch size.

    Numbers share memory with the array: a write to one shows in the other. If the fields are packed so that a plain
    tensor cannot be laid over them (``[("a", "u1"), ("b", "f8")]``: the items of ``b`` are 9 bytes apart), they
    become packed tensors, which work as any other but compute more slowly. Numbers are copied if they have another
    byte order, negative strides, or belong to a read-only array. Sub-arrays become further dimensions, nested
    dtypes nested collections. Other items (text, bytes, times, objects) become non-tensor data.

    Args:
        struct_array: the array.
        auto_batch_size: infer the batch size instead of taking the shape of the array.
        ConversionKwargs: batch_dims
        TableKwargs: device
        batch_size: another batch size: leading dimensions of the array.
        copy: ``True`` copies all numbers into plain tensors. ``False`` raises where a copy is needed. By default
            numbers are copied where needed.
        rename: new names of fields of the array, ``{"name": "field"}``, before they are looked up; none by default.
        strict: with ``False``, drop fields of the array that are not fields of a record, and warn about them.

    Raises:
        TypeError: the array is not structured, or some of its values are masked.
        ConversionError: a dtype does not exist in torch (long double), ``copy=False`` and a copy is needed, or fields
            are missing or do not fit the record. Lists everything that is wrong.

    Example:
        >>> import numpy as np
        >>> from tensorclass import TensorDict
        >>> pets = np.array([("Rex", 9), ("Fido", 3)], dtype=[("name", "U10"), ("age", "i4")])
        >>> data = TensorDict.from_struct_array(pets)
        >>> pets["age"] += 1
        >>> data["name"].tolist(), data["age"]
        (['Rex', 'Fido'], tensor([10,  4], dtype=torch.int32))
    """
    if cls is TensorDict and type(struct_array) is np.ndarray and not (copy or rename or kwargs):
        tensors = _shared_tensors(struct_array)  # pyright: ignore[reportUnknownArgumentType]
        if tensors is not None:
            return TensorDict._on_store(tensors, Size(struct_array.shape))  # type: ignore[return-value]
    what = f"{class_name(cls)}.from_struct_array"
    options, table_options = table_call_options(what, copy=copy, rename=rename, **kwargs)
    given: Any = struct_array
    is_array: bool = isinstance(struct_array, (np.ndarray, np.void))
    if not is_array or given.dtype.names is None:
        kind = f"an array of dtype {given.dtype}" if is_array else repr(given)
        raise TypeError(
            f"from_struct_array: expected a numpy array of a structured dtype, such as [('a', 'i4')]; got {kind}"
        )
    if _is_masked(struct_array):
        raise TypeError(
            "from_struct_array: expected an array without masked values, which tensors do not have; .filled(...) puts "
            "numbers in their place"
        )
    array: Any = np.asarray(given)
    columns = renamed_columns({name: array[name] for name in array.dtype.names}, rename, options.problems)
    values, _ = _StructArrayReader(options, table_options, array).values(columns, cls)
    values = fit_columns(cls, values, array.shape)
    data: C = build(cls, values, options._replace(auto=False, batch_size=Size(array.shape), device=None))
    return with_metadata(data, options)


def to_struct_array(data: TensorCollection, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return a copy of the values as a numpy array of a structured dtype. Its shape is the batch size.

    Args:
        dtype: the dtype, for instance that of the array from which the collection was made. By default it follows from
            the values: text gets the length of the longest, objects of different types get the dtype ``object``.

    Raises:
        TypeError: a value has a dtype that numpy does not have.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict({"name": ["Rex", "Fido"], "age": [9, 3]}, [2]).to_struct_array()["age"].tolist()
        [9, 3]
    """
    problems = Problems(f"{type_name(data)}.to_struct_array")
    columns = _columns(data, len(data._batch_size), (), problems)
    problems.check()
    shape = tuple(data.batch_size)
    # a given dtype may have gaps, which nothing writes to
    result: Any = np.empty(shape, _dtype(columns)) if dtype is None else np.zeros(shape, dtype)
    pairs = list(_field_pairs(result, columns, (), problems))
    problems.check()
    _write(pairs, shape, result.itemsize)
    return result  # type: ignore[no-any-return]


# -- in ---------------------------------------------------------------------------------------------------------------


def _is_masked(array: Any) -> bool:
    """Return whether any value of any field is masked."""
    masked: Any = sys.modules.get("numpy.ma")  # slow to import, and imported if masked arrays exist
    if masked is None or not isinstance(array, masked.MaskedArray):
        return False
    return b"\1" in masked.getmaskarray(array).tobytes()


def _shared_tensors(array: Any) -> dict[str, Any] | None:
    """Return the fields as tensors on the memory of an array; ``None`` if one cannot be, or holds no numbers."""
    dtype = array.dtype
    if not _holds_numbers(dtype) or not array.flags.writeable:
        return None
    if array.flags.c_contiguous and _is_regular(dtype):
        return {name: torch.from_numpy(array[name]) for name in dtype.names}  # pyright: ignore[reportUnknownMemberType]
    for stride in array.strides:
        if stride < 0:
            return None
    return {name: as_packed_tensor(array[name]) for name in dtype.names}


@functools.lru_cache(maxsize=256)
def _is_regular(dtype: Any) -> bool:
    """Return whether the fields of a contiguous array of a dtype are plain tensors: see :class:`PackedTensor`."""
    sizes = [dtype[name].base.itemsize for name in dtype.names]
    return all(size != 16 and dtype.itemsize % size == 0 for size in sizes)


@functools.lru_cache(maxsize=256)
def _holds_numbers(dtype: Any) -> bool:
    """Return whether all fields of a dtype are numbers that torch has, in native byte order."""
    fields = [dtype[name].base for name in dtype.names or ()]
    if not fields or not all(field.kind in "biufc" and field.isnative for field in fields):
        return False
    try:
        for field in fields:
            as_packed_tensor(np.empty(0, field))
    except TypeError:
        return False
    return True


class _StructArrayReader(ColumnReader):
    """Reads the fields of an array. Numbers share its memory, unless a copy is requested or needed."""

    def __init__(self, options: ConversionOptions, table_options: TableOptions, array: Any) -> None:
        super().__init__(options, table_options)
        #: why fields cannot share memory; ``None`` if they can
        self.copy_reason: str | None = None
        if not array.flags.writeable:
            self.copy_reason = "a read-only array"
        elif array.size and any(stride < 0 for stride in array.strides):
            self.copy_reason = "an array with negative strides"

    def check_type(self, column: Any) -> None:
        """Do nothing: numpy runs no code of others."""

    def column(self, column: Any, schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read a field of the array."""
        dtype, shape = column.dtype, Size(column.shape)
        if dtype.kind in "biufc":
            return ReadColumn(self._numbers(column, dtype))
        if dtype.names is not None:  # its own batch size: a sub-array has more dimensions
            below = {name: column[name] for name in dtype.names}
            return ReadColumn(TensorDict(self.nested(below, schema.target, path).value, shape))
        items = list(column.ravel()) if dtype.kind in "mM" else column.ravel().tolist()
        if schema.holds == "column":
            return declared_rows(items, schema, "default", shape)
        made = _undeclared_rows(items) if schema.is_undeclared else None
        return ReadColumn(object_column(items, shape, _EMPTY.get(dtype.kind)) if made is None else made.reshape(shape))

    def _numbers(self, part: Any, dtype: Any) -> Tensor:
        copy_reason = self.copy_reason or (None if dtype.isnative else "numbers in another byte order")
        if copy_reason and self.options.copy is False:
            hint = "leave out copy=False" + ("" if part.flags.writeable else ", or map a file with mmap_mode='c'")
            raise UnreadableColumn("numbers that can be read without a copy", copy_reason, hint)
        try:
            if copy_reason or self.options.copy:
                return as_packed_tensor(part.astype(dtype.newbyteorder("="), order="C"))
            return as_packed_tensor(part)
        except TypeError:
            raise UnreadableColumn("a dtype that torch has", str(dtype), "convert it first, with .astype") from None


def _undeclared_rows(items: list[Any]) -> Any:
    """Convert objects to a column of strings or of ragged numbers; ``None`` for others."""
    present = [item for item in items if item is not None]
    if present and all(is_array(item) and item.dtype.kind in "biufc" for item in present):
        return Ragged.from_list(items)
    is_text = all(isinstance(item, str) for item in present) and (present or not items)
    return Text.from_list(items) if is_text else None


# -- out --------------------------------------------------------------------------------------------------------------


def _columns(data: TensorCollection, ndim: int, path: tuple[str, ...], problems: Problems) -> dict[Any, Any]:
    """Convert values to arrays, nested collections to dicts, each with its batch shape under the key ``None``."""
    columns: dict[Any, Any] = {None: tuple(data._batch_size[ndim:])}
    value: Any
    for key, value in named_items(data):
        content = content_kind(value)
        if content is Content.TEXT or content is Content.RAGGED:
            try:
                columns[key] = _array_of_rows(value), len(data._batch_size)
            except EncodingError as error:
                raise error.below(*path, key) from None
        elif content is Content.OBJECTS:
            columns[key] = _array_of_objects(value), len(data._batch_size)
        elif isinstance(value, TensorCollection):
            columns[key] = _columns(value, len(data._batch_size), (*path, key), problems)
        elif value.is_nested or value.is_sparse:
            hint = "to_padded_tensor() makes a rectangle of a ragged one"
            problems.add((*path, key), "items of one shape", "a ragged or sparse tensor", hint)
        else:
            try:
                columns[key] = value.numpy(force=True), len(data._batch_size)
            except TypeError:
                hint = f"convert it first, for instance with .to({torch.float32})"
                problems.add((*path, key), "a dtype that numpy has", str(value.dtype), hint)
    return columns


def _array_of_rows(value: BufferColumn) -> Any:
    """Convert text, or ragged rows, to an array: an array of numbers for each ragged row."""
    if value._CONTENT is Content.TEXT:
        return _array_of(value.reshape(-1).tolist()).reshape(tuple(value.batch_size))
    rows: Any = value
    if rows.ragged_dims == 1:
        return rows.cpu().numpy()
    items: Any = np.empty(rows.numel(), dtype=object)
    for position, row in enumerate(rows.reshape(-1).tolist()):
        items[position] = row
    return items.reshape(tuple(rows.batch_size))


def _array_of_objects(value: Any) -> Any:
    """Convert objects to an array: text, bytes, times and numbers in their own dtype, others in dtype object."""
    objects, codes = value._coded_objects()
    items = _array_of(list(objects))
    return items[codes.cpu().reshape(-1).numpy()].reshape(tuple(codes.shape))


def _array_of(given: list[Any]) -> Any:
    """Return an array of objects with one dimension, in a dtype of their own if numpy has one."""
    items: Any = None
    kinds: set[type] = set(map(type, given))
    if len(kinds) == 1 and issubclass(next(iter(kinds)), (str, bytes, bool, int, float, complex, np.generic)):
        plain: Any = np.array(given)
        kind: str = plain.dtype.kind
        # numpy cannot distinguish text that ends in zeros from padding
        if kind in "bifcmM" or (kind in "US" and _str_len(plain).sum() == sum(map(len, given))):
            items = plain
    if items is None:
        items = np.empty(len(given), dtype=object)
        for position, item in enumerate(given):
            items[position] = item
    return items


def _dtype(columns: dict[Any, Any]) -> Any:
    """Return the structured dtype of columns."""
    fields: list[tuple[Any, ...]] = []
    for key, column in columns.items():
        if key is None:
            continue
        if isinstance(column, dict):
            fields.append((key, _dtype(column), column[None]))  # pyright: ignore[reportUnknownArgumentType]
        else:
            array, ndim = column
            dtype = array.dtype
            if dtype.kind in "US" and dtype.itemsize == 0:  # numpy would drop a field of no size
                dtype = np.dtype(f"{dtype.kind}1")
            fields.append((key, dtype, array.shape[ndim:]))
    made = np.dtype(fields)
    if list(made.names or ()) != [field[0] for field in fields]:
        raise ValueError(f"to_struct_array: numpy cannot have fields of the names {[field[0] for field in fields]}")
    return made


def _field_pairs(
    result: Any, columns: dict[Any, Any], path: tuple[str, ...], problems: Problems
) -> Iterator[tuple[Any, Any]]:
    """Yield each field of the result with the array to write to it."""
    names = [key for key in columns if key is not None]
    if set(names) != set(result.dtype.names or ()):
        problems.add(path, f"a dtype with the fields {names}", str(result.dtype))
        return
    for key in names:
        column, part, where = columns[key], result[key], (*path, key)
        if isinstance(column, dict):
            yield from _field_pairs(part, column, where, problems)  # pyright: ignore[reportUnknownArgumentType]
            continue
        array: Any = column[0]
        if array.shape != part.shape:
            problems.add(where, f"a dtype of the shape {list(array.shape)}", str(list(part.shape)))
        elif not _fits(array, part.dtype):
            problems.add(where, f"a dtype that can hold {array.dtype}", str(part.dtype))
        else:
            yield part, array


def _fits(array: Any, options: Any) -> bool:
    """Return whether a dtype holds values of an array without changing their category or cutting text."""
    given = array.dtype
    if given == options:  # as in the dtype of the columns themselves
        return True
    if given.kind in "biufc" and options.kind in "biufc":
        return np.can_cast(given, options, "same_kind")
    if given.kind not in "US" or given.kind != options.kind or given.itemsize <= options.itemsize:
        return True
    return bool(_str_len(array).max(initial=0) * (4 if given.kind == "U" else 1) <= options.itemsize)


def _write(pairs: list[tuple[Any, Any]], shape: tuple[int, ...], itemsize: int) -> None:
    """Write the columns. Wide items are written in blocks of rows, which stay in the cache for all columns."""
    size = itemsize * math.prod(shape)
    if itemsize < _WIDE or size <= _BLOCK:
        for part, column in pairs:
            part[...] = column
        return
    step = max(1, shape[0] * _BLOCK // size)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        for part, column in pairs:
            part[rows] = column[rows]
