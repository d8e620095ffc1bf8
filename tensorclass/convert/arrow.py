"""Tables of Arrow: a column is a value, a row an item of the batch.

Columns of numbers without nulls share memory with the table where they are one chunk. Structs are nested collections,
lists of one length further dimensions, other lists ragged tensors, text and the rest objects. How a column is read is
in ``arrow_reading.py``, how it is written in ``arrow_writing.py``. Readers of other formats call :func:`read_table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Size

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple

from .arrow_numbers import Nulls, Ragged, Reading
from .arrow_reading import ColumnReader, Given, Rows
from .arrow_writing import ColumnWriter, about, note_of_size, noted, noted_size
from .declared import fitted
from .extras import require
from .problems import Problems
from .readers import described
from .tree import BatchSize, C, Plan, build, plan

_EXTRA = "arrow"
_NULLS = ("default", "raise", "fill", "mask")
_RAGGED = ("jagged", "lazy", "raise")
_MASK = "_mask"  #: where the masks are written by default


def from_arrow(
    cls: type[C],
    table: Any,
    *,
    copy: bool | None = None,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    columns: Sequence[str] | None = None,
    ragged: Ragged = "jagged",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_arrow`."""
    what = f"{cls.__name__}.from_arrow"
    reading = reading_of(what, nulls, copy, ragged, mask_key)
    asked = plan(what, auto_batch_size, batch_dims, batch_size, device, strict=strict)
    given = as_table(require("pyarrow", _EXTRA, "from_arrow"), table, what)
    return read_table(cls, given, asked, reading, columns=columns)


def to_arrow(td: TensorCollection, *, schema: Any = None) -> Any:
    """See :meth:`TensorDict.to_arrow`."""
    pa = require("pyarrow", _EXTRA, "to_arrow")
    if not isinstance(td, TensorCollection):
        raise TypeError(f"to_arrow: expected a collection, got a {type(td).__name__}")
    if not td.batch_dims:
        raise ValueError(
            "to_arrow: expected a batch dimension, the rows; got the batch size []. unsqueeze(0) makes one"
        )
    problems = Problems(f"{type(td).__name__}.to_arrow")
    arrays, fields = ColumnWriter(pa, problems).columns(td, (), schema)
    problems.check()
    note = note_of_size(td.batch_size, 1)
    made = pa.schema(fields, metadata=noted(None if schema is None else schema.metadata, note))
    if not arrays:  # a table without columns has rows nevertheless
        return pa.Table.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(td), [None]))
    return pa.table(arrays, schema=made)


# -- for readers of other formats -------------------------------------------------------------------------------------


def reading_of(
    what: str, nulls: Nulls, copy: bool | None = None, ragged: Ragged = "jagged", mask_key: NestedKey | None = None
) -> Reading:
    """The options for columns together.

    Raises:
        ValueError: an option is none of those that there are, or ``mask_key`` is given without ``nulls="mask"``.
    """
    for name, value, known in (("nulls", nulls, _NULLS), ("ragged", ragged, _RAGGED)):
        if value not in known:
            raise ValueError(f"{what}: expected {name} to be one of {known}, got {value!r}")
    if mask_key is not None and nulls != "mask":
        raise ValueError(f"{what}: mask_key={mask_key!r} needs nulls='mask', got nulls={nulls!r}")
    return Reading(nulls, copy, ragged, mask_key)


def read_table(
    cls: type[C],
    table: Any,
    asked: Plan,
    reading: Reading,
    *,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
) -> C:
    """A collection of the columns of a table. Its rows are the batch, where the plan says nothing else.

    Args:
        cls: the class of the result.
        table: the ``pyarrow.Table``.
        asked: the plan.
        reading: how columns are read.
        columns: the names of those that are read; all by default.
        separator: splits the names of columns into nested keys.

    Raises:
        ConversionError: columns are missing, too many, cannot be read or do not fit their fields: all of them.
    """
    if not asked.auto and asked.batch_size is None:
        asked = asked._replace(batch_size=noted_size(table.num_rows, about(table.schema.metadata)))
    given = given_columns(table, asked.what)
    return read_columns(cls, given, table.num_rows, asked, reading, columns=columns, separator=separator)


def read_columns(
    cls: type[C],
    given: Mapping[str, Given],
    count: int,
    asked: Plan,
    reading: Reading,
    *,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
) -> C:
    """:func:`read_table` for columns by name, of ``count`` rows."""
    if not asked.auto and asked.batch_size is None:
        asked = asked._replace(batch_size=Size((count,)))
    values = column_values(cls, given, asked, reading, columns=columns, separator=separator)
    if reading.ragged == "lazy" and _has_rows(values):
        return _lazy(cls, values, asked, count)
    values = fitted(cls, values, [count] if asked.batch_size is None else asked.batch_size)
    return build(cls, values, asked)  # type: ignore[no-any-return]


def table_values(
    cls: type[TensorCollection],
    table: Any,
    asked: Plan,
    reading: Reading,
    *,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
) -> dict[str, Any]:
    """The columns of a table as values for :func:`tree.build`; see :func:`read_table`.

    A column that cannot be read is noted in the plan, and left out.
    """
    given = given_columns(table, asked.what)
    return column_values(cls, given, asked, reading, columns=columns, separator=separator)


def given_columns(table: Any, what: str) -> dict[str, Given]:
    """The columns of a table by name, with what is noted of them.

    Raises:
        ValueError: several have one name.
    """
    names: list[str] = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: several columns have the names {twice}; give each one its own")
    return {
        field.name: Given(column, about(field.metadata))
        for field, column in zip(table.schema, table.columns, strict=True)
    }


def column_values(
    cls: type[TensorCollection],
    given: Mapping[str, Given],
    asked: Plan,
    reading: Reading,
    *,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
) -> dict[str, Any]:
    """:func:`table_values` for columns by name."""
    if columns is not None:
        for name in columns:
            if name not in given:
                asked.problems.add((name,), f"one of the columns {[*given]}", "a name that is none of them")
        given = {name: given[name] for name in columns if name in given}
    pa = require("pyarrow", _EXTRA, asked.what)
    found = given if separator is None else _nested(given, separator, asked.what)
    values, masks = ColumnReader(pa, asked, reading).values(found, cls)
    if masks and reading.nulls == "mask":
        path = unravel_key_to_tuple(reading.mask_key or _MASK)
        if path[0] in found:
            raise ValueError(
                f"{asked.what}: the masks would be written to {path[0]!r}, which is a column; give mask_key"
            )
        for name in reversed(path[1:]):
            masks = {name: masks}
        values[path[0]] = masks
    return values


def as_table(pa: Any, table: Any, what: str) -> Any:
    """An object with columns of Arrow as a table of it; no column is copied.

    Raises:
        TypeError: it has none.
    """
    kind: str = table.__class__.__name__
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
        raise TypeError(f"{what}: expected columns, got a {kind} ({error})") from None
    raise TypeError(
        f"{what}: expected a pyarrow.Table, a record batch or another object with Arrow columns, got {described(table)}"
    )


def _nested(columns: Mapping[str, Given], separator: str, what: str) -> dict[str, Any]:
    """Columns whose names are joined by a separator as nested dicts."""
    result: dict[str, Any] = {}
    for name, column in columns.items():
        *parents, last = name.split(separator)
        node = result
        for parent in parents:
            below: Any = node.setdefault(parent, {})
            if isinstance(below, Given):
                raise ValueError(f"{what}: the column {name!r} is below {parent!r}, which is a column too")
            node = below
        if last in node:
            raise ValueError(f"{what}: the column {name!r} is a column, and others are below it")
        node[last] = column
    return result


# -- lazy stacks ------------------------------------------------------------------------------------------------------


def _has_rows(values: Mapping[str, Any]) -> bool:
    return any(
        _has_rows(cast("dict[str, Any]", value)) if isinstance(value, dict) else isinstance(value, Rows)
        for value in values.values()
    )


def _lazy(cls: type[C], values: dict[str, Any], asked: Plan, count: int) -> C:
    """A lazy stack with the rows of the values."""
    from .list import from_rows

    asked.problems.check()
    size = None if asked.batch_size is None else asked.batch_size[1:]
    dims = None if asked.batch_dims is None else max(asked.batch_dims - 1, 0)
    rows = [_row(values, position) for position in range(count)]
    made = from_rows(cls, rows, asked._replace(batch_size=size, batch_dims=dims), ())
    asked.problems.check()
    asked.problems.warn()
    return made  # type: ignore[no-any-return]


def _row(values: Mapping[str, Any], position: int) -> dict[str, Any]:
    return {
        key: _row(cast("dict[str, Any]", value), position)
        if isinstance(value, dict)
        else (None if value is None else value[position])
        for key, value in values.items()
    }
