"""Arrow tables: a column is a value, a row an item of the batch.

Columns of numbers without nulls share memory with the table if they are one chunk. Structs become nested collections,
lists of one length more dimensions, other lists ragged tensors, text and everything else objects. ``arrow_reading.py``
reads columns, ``arrow_writing.py`` writes them. Converters of other formats call :func:`read_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Size
from typing_extensions import Unpack

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_options import ConversionOptions, TableKwargs, TableOptions, table_call_options
from tensorclass.convert.conversion_steps import C, build, raise_problems, rows_of
from tensorclass.convert.converter_registry import describe_source
from tensorclass.support.extras import require
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import unravel_key_to_tuple

from .arrow_reading import ArrowColumnReader, InputColumn
from .arrow_writing import ColumnWriter, noted_batch_size, read_note, size_note, with_note
from .column_names import renamed_columns
from .column_reader import LazyRows
from .column_schema import fit_columns

METHODS_OF = "Tables"

_EXTRA = "arrow"
_MASK_KEY = "_mask"  #: default key of the masks


def from_arrow(cls: type[C], table: Any, **kwargs: Unpack[TableKwargs]) -> C:
    """Convert an Arrow table or record batch: one value per column, with the number of rows as batch size.

    Structs become nested collections, strings :class:`Text`, lists of numbers :class:`Ragged`, lists of a fixed
    size further dimensions, lists of strings a :class:`Column`. Times and everything else become non-tensor data. A
    field of a record gets what it declares: lists as a tensor (jagged if their lengths differ), times and decimal
    numbers as a tensor (nanoseconds, doubles), or numbers as objects.

    Args:
        table: a ``pyarrow.Table``, or another object with Arrow columns, of polars, pandas, duckdb, ....
        TableKwargs: copy
        nulls: what becomes of nulls. ``"default"``: the default of the record's field, or ``None`` if the field allows
            it; otherwise an error. In a :class:`TensorDict`, strings and lists that are null are rows without a value,
            and null numbers are an error. ``"raise"``: an error. ``"fill"``: 0, ``False``, nan, an empty list or
            ``None``. ``"mask"``: as ``"fill"``, plus a collection of masks for the columns with nulls, ``True`` where a
            row has a value.
        TableKwargs: mask_key, device, columns, rename
        ragged: what becomes of lists of numbers whose field declares no column. ``"column"``: :class:`Ragged`; a field
            that takes a tensor gets it as with ``"jagged"``. ``"jagged"``: a tensor if they have one length, otherwise
            a jagged tensor. ``"lazy"``: the result is a lazy stack of rows. ``"raise"``: an error if their lengths
            differ. Torch has no jagged tensor for lists in lists of different lengths: with ``"jagged"``, a
            :class:`TensorDict` gets objects, and a field that takes a tensor raises.
        TableKwargs: auto_batch_size, batch_dims, batch_size
        strict: with ``False``, drop columns that are not fields of a record, and warn about them. A :class:`TensorDict`
            takes all columns.

    Returns:
        A collection of this class. Columns of numbers share memory with the table if they are one chunk without nulls.
        Arrow assumes that its memory never changes, so copy before you write.

    Raises:
        ImportError: pyarrow is not installed.
        ConversionError: there are nulls, a column cannot be read (without a copy), or columns are missing, unexpected
            or do not fit their fields. Lists everything that is wrong.

    Example:
        >>> import pyarrow
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_arrow(pyarrow.table({"x": [1, 2], "name": ["a", "b"]})).to_dict()
        {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    what = f"{class_name(cls)}.from_arrow"
    options, table_options = table_call_options(what, **kwargs)
    return read_table(cls, as_table(require("pyarrow", _EXTRA, "from_arrow"), table, what), options, table_options)


def to_arrow(td: TensorCollection, *, schema: Any = None) -> Any:
    """Return a ``pyarrow.Table`` with one row per item of the first batch dimension.

    Further dimensions become columns of tensors of a fixed shape (for text: lists), nested collections structs,
    ragged rows, jagged tensors and rows of different shapes lists, :class:`Text` strings, ``None`` null. Strings
    and lists are large ones only if they need 64-bit offsets. The metadata of a column notes what Arrow has no type
    for, so that :meth:`from_arrow` restores it: dtypes such as ``bfloat16`` (written as ``float``) and
    complex ones (as pairs), one object that stands for all rows, numbers that are objects, further batch
    dimensions.

    Args:
        schema: a ``pyarrow.Schema``: the columns with their types, for instance dictionaries for text that repeats.

    Returns:
        A table that shares memory with the tensors where Arrow can.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: there is no batch dimension.
        ConversionError: values cannot be columns (of the types in the schema). Lists all of them.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}, [2]).to_arrow().to_pylist()
        [{'x': [1, 2], 'name': 'a'}, {'x': [3, 4], 'name': 'b'}]
    """
    pa = require("pyarrow", _EXTRA, "to_arrow")
    arrays, fields = written_columns(pa, td, "to_arrow", schema)
    note = size_note(td.batch_size, 1)
    made = pa.schema(fields, metadata=with_note(None if schema is None else schema.metadata, note))
    if not arrays:  # a table without columns still has rows
        return pa.Table.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(td), [None]))
    return pa.table(arrays, schema=made)


# -- for converters of other formats ----------------------------------------------------------------------------------


def written_columns(
    pa: Any, data: TensorCollection, what: str, schema: Any = None, plain: bool = False
) -> tuple[list[Any], list[Any]]:
    """Return the arrays and fields of a table with one row per item of the first batch dimension."""
    check_has_rows(data, what)
    problems = Problems(f"{type_name(data)}.{what}")
    columns = ColumnWriter(pa, problems, plain).columns(data, (), schema)
    problems.check()
    return columns


def check_has_rows(data: TensorCollection, what: str) -> None:
    """Raise unless a value is a collection with a batch dimension, the rows."""
    if not isinstance(data, TensorCollection):
        raise TypeError(f"{what}: expected a collection, got a {type_name(data)}")
    if not data.batch_dims:
        raise ValueError(f"{what}: expected a batch dimension, the rows; got the batch size []. unsqueeze(0) makes one")


def read_table(cls: type[C], table: Any, options: ConversionOptions, table_options: TableOptions) -> C:
    """Convert the columns of a ``pyarrow.Table``. The rows are the batch, unless the options say otherwise.

    Raises:
        ConversionError: columns are missing, not declared, unreadable or do not fit their fields. Lists all of them.
    """
    options = with_rows(options, noted_batch_size(table.num_rows, read_note(table.schema.metadata)))
    return read_columns(cls, input_columns(table, options.what), table.num_rows, options, table_options)


def read_columns(
    cls: type[C],
    columns: Mapping[str, InputColumn],
    count: int,
    options: ConversionOptions,
    table_options: TableOptions,
) -> C:
    """Convert ``count`` rows of columns by name; see :func:`read_table`."""
    options = with_rows(options, Size((count,)))
    values = column_values(cls, columns, options, table_options)
    if table_options.ragged == "lazy" and _has_lazy_rows(values):
        return _lazy_stack(cls, values, options, count)
    values = fit_columns(cls, values, [count] if options.batch_size is None else options.batch_size)
    return build(cls, values, options)  # type: ignore[no-any-return]


def with_rows(options: ConversionOptions, size: Size) -> ConversionOptions:
    """Return the options with the size of a table as batch size, if they neither give one nor ask to infer it."""
    if options.auto or options.batch_size is not None:
        return options
    return options._replace(batch_size=size)


def input_columns(table: Any, what: str) -> dict[str, InputColumn]:
    """Return the columns of a table by name, with the notes in their metadata.

    Raises:
        ValueError: two columns share a name.
    """
    names: list[str] = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: several columns have the names {twice}; give each one its own")
    return {
        field.name: InputColumn(column, read_note(field.metadata))
        for field, column in zip(table.schema, table.columns, strict=True)
    }


def column_values(
    cls: type[TensorCollection],
    columns: Mapping[str, InputColumn],
    options: ConversionOptions,
    table_options: TableOptions,
) -> dict[str, Any]:
    """Convert columns to values for :func:`tree.build`. Unreadable columns are noted in ``options`` and left out."""
    chosen = table_options.columns
    if chosen is not None:
        for name in chosen:
            if name not in columns:
                expected = f"one of the columns {[*columns]}"
                options.problems.add_unknown((name,), expected, "a name that is none of them", columns)
        columns = {name: columns[name] for name in chosen if name in columns}
    columns = renamed_columns(columns, table_options.rename, options.problems)
    pa = require("pyarrow", _EXTRA, options.what)
    separator = table_options.separator
    nested = columns if separator is None else _split_names(columns, separator, options.what)
    values, masks = ArrowColumnReader(pa, options, table_options).values(nested, cls)
    if masks and table_options.nulls == "mask":
        path = unravel_key_to_tuple(table_options.mask_key or _MASK_KEY)
        if path[0] in nested:
            raise ValueError(
                f"{options.what}: the masks would be written to {path[0]!r}, which is a column; give mask_key"
            )
        for name in reversed(path[1:]):
            masks = {name: masks}
        values[path[0]] = masks
    return values


def as_table(pa: Any, table: Any, what: str) -> Any:
    """Return a ``pyarrow.Table`` of an object with Arrow columns, without copying one.

    Raises:
        TypeError: the object has no Arrow columns.
    """
    name: str = table.__class__.__name__
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, pa.RecordBatchReader):
        return table.read_all()
    try:
        if isinstance(table, (pa.StructArray, pa.ChunkedArray)):
            return pa.Table.from_struct_array(table)
        if isinstance(table, Mapping) or hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            return pa.table(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise TypeError(f"{what}: expected columns, got a {name} ({error})") from None
    raise TypeError(
        f"{what}: expected a pyarrow.Table, a record batch or another object with Arrow columns, got "
        f"{describe_source(table)}"
    )


def _split_names(columns: Mapping[str, InputColumn], separator: str, what: str) -> dict[str, Any]:
    """Split column names at the separator, into nested dicts of columns."""
    result: dict[str, Any] = {}
    for name, column in columns.items():
        *parents, last = name.split(separator)
        level = result
        for parent in parents:
            inner: Any = level.setdefault(parent, {})
            if isinstance(inner, InputColumn):
                raise ValueError(f"{what}: the column {name!r} is below {parent!r}, which is a column too")
            level = inner
        if last in level:
            raise ValueError(f"{what}: the column {name!r} is a column, and others are below it")
        level[last] = column
    return result


# -- lazy stacks ------------------------------------------------------------------------------------------------------


def _has_lazy_rows(values: Mapping[str, Any]) -> bool:
    return any(
        _has_lazy_rows(cast("dict[str, Any]", value)) if isinstance(value, dict) else isinstance(value, LazyRows)
        for value in values.values()
    )


def _lazy_stack(cls: type[C], values: dict[str, Any], options: ConversionOptions, count: int) -> C:
    options.problems.check()
    size = None if options.batch_size is None else options.batch_size[1:]
    dims = None if options.batch_dims is None else max(options.batch_dims - 1, 0)
    rows = [_row(values, position) for position in range(count)]
    made = rows_of(cls, rows, options._replace(batch_size=size, batch_dims=dims), ())
    raise_problems(options)
    return made  # type: ignore[no-any-return]


def _row(values: Mapping[str, Any], position: int) -> dict[str, Any]:
    return {
        key: _row(cast("dict[str, Any]", value), position)
        if isinstance(value, dict)
        else (None if value is None else value[position])
        for key, value in values.items()
    }
