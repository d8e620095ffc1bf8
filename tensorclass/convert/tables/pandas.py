"""Tables of pandas: a column is a value, a row an item of the batch.

Numbers become tensors. Rows of lists or arrays become further dimensions if their shapes agree, else jagged tensors.
Rows of dicts become nested collections, text and everything else objects.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionOptions, TableOptions, table_call_options
from tensorclass.convert.conversion_steps import C, build, convert_entries, object_column
from tensorclass.convert.conversion_targets import entries
from tensorclass.convert.converter_registry import describe_source, is_dataframe
from tensorclass.support.extras import require
from tensorclass.support.help_links import help_link
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.column import Column
from tensorclass.td.columns.item_types import predicate
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.utf8_rows import EncodingError
from tensorclass.td.delegated.arguments import Nulls
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.leaves.nontensor import stack_of
from tensorclass.td.leaves.object_codes import codes_row_by_row
from tensorclass.td.value_checks import as_tensor

from .arrow import with_rows
from .arrow_extensions import check_extensions
from .arrow_numbers import from_numpy, jagged
from .arrow_reading import ArrowColumnReader, InputColumn
from .arrow_text import ArrowText, is_text
from .column_names import check_renamed, key_of_columns, named_items
from .column_reader import ColumnReader, Path, ReadColumn, UnreadableColumn, reshape_rows
from .column_rows import declared_rows, fill_missing, fill_missing_objects, undeclared_rows
from .column_schema import NOTHING, ColumnSchema, fill_rows, fit_columns
from .file_columns import chosen_columns
from .file_requests import FileKwargs
from .writable_memory import WritableView, is_shareable

METHODS_OF = "Tables"
_EXTRA = "pandas"
_MASK_KEY = "_mask"  #: default key of the masks
_EXACT = 2**53  #: up to here a double holds every integer


class PandasKwargs(FileKwargs, total=False):
    """Keyword arguments of ``from_pandas``.

    Args:
        FileKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype, columns, rename, strict
        TableKwargs: mask_key
    """

    mask_key: NestedKey | None


def from_pandas(cls: type[C], dataframe: Any, *, copy: bool | None = True, **kwargs: Unpack[PandasKwargs]) -> C:
    """Convert a ``pandas.DataFrame``: one value per column, with the number of rows as batch size.

    Numbers and booleans become tensors, also from nullable, Arrow-backed, sparse and categorical columns. Times
    become nanoseconds since 1970 (``int64``). Rows that are lists or arrays of numbers become further dimensions if
    they have one shape, and :class:`Ragged` if they differ in length. Rows that are dicts with the same keys become
    nested collections, text :class:`Text`, lists of strings a :class:`Column`, everything else objects. The fields
    of a record decide: a field of objects gets the rows unchanged; a field of a tensor gets numbers (a jagged
    tensor for rows that differ in length) or raises. The index is dropped;
    ``dataframe.reset_index()`` turns it into columns.

    Args:
        dataframe: the table. Columns on several levels are nested keys.
        PandasKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype
        copy: ``None`` shares memory with the table where its numbers have the form that torch needs: a write to one
            shows in the other, and in all tables that pandas derived from it. ``False`` also shares, and raises for a
            column that needs a copy. ``True`` copies.
        PandasKwargs: columns, rename
        nulls: what becomes of missing values. ``"default"``: the default of the field, broadcast; ``None`` if the field
            allows it and holds objects; otherwise an error. Without declared fields, nan in columns of doubles and
            ``None`` among booleans and objects. ``"raise"``: an error, also for nan. ``"fill"``: 0, ``False``, nan or
            ``None``. ``"mask"``: as ``"fill"``, plus a collection of masks for the columns with missing values,
            ``True`` where a row has a value.
        PandasKwargs: mask_key, strict

    Raises:
        ImportError: pandas is not installed.
        TypeError: ``dataframe`` is not a ``pandas.DataFrame``.
        ConversionError: columns do not fit their fields. Lists all of them.

    Example:
        >>> import pandas
        >>> from tensorclass import TensorDict
        >>> table = pandas.DataFrame({"name": ["a", "b"], "point.x": [1.0, 2.0], "rgb": [[1, 2, 3], [4, 5, 6]]})
        >>> data = TensorDict.from_pandas(table, separator=".")
        >>> data[1].to_dict()
        {'name': 'b', 'point': {'x': tensor(2., dtype=torch.float64)}, 'rgb': tensor([4, 5, 6])}
    """
    options, table_options = table_call_options(f"{class_name(cls)}.from_pandas", copy=copy, **kwargs)
    require("pandas", _EXTRA, "from_pandas")
    if not is_dataframe(dataframe):
        hint = "; .to_frame() makes a table of it" if hasattr(dataframe, "to_frame") else ""
        raise TypeError(f"{options.what}: expected a pandas.DataFrame, got {describe_source(dataframe)}{hint}")
    if table_options.columns is not None:
        labels: list[Any] = dataframe.columns.tolist()
        dataframe = dataframe[[*chosen_columns(options.what, labels, table_options.columns, options.problems)]]
    count = len(dataframe)
    paths = _paths(dataframe.columns.tolist(), table_options, options)
    columns = _nest({path: column for path, (_, column) in zip(paths, dataframe.items(), strict=True) if path})
    values, masks = _PandasReader(options, table_options, count).values(columns, cls)
    _check_index(dataframe.index.names, columns, cls, options)
    if masks:
        where = unravel_key_to_tuple(table_options.mask_key or _MASK_KEY)
        if not _place(values, where, masks):
            options.problems.add(where, "no column where the masks are written", "one", "give mask_key=")
    options = with_rows(options, Size((count,)))
    return build(cls, fit_columns(cls, convert_entries(values, cls, options), [count]), options)  # type: ignore[no-any-return]


def to_pandas(data: TensorCollection, *, separator: str | None = None, copy: bool = True) -> Any:
    """Return a ``pandas.DataFrame`` with one row per item of the batch, which has one dimension.

    Tensors of one dimension keep their dtype. Further dimensions, ragged rows and jagged tensors become columns
    with an array per row. Text and other objects become what pandas makes of them; numbers beside ``None`` stay
    objects.

    Args:
        separator: joins nested keys to the names of columns. Required if there are nested keys.
        copy: ``False`` shares memory with the table: writes to the tensors show in it.

    Raises:
        ImportError: pandas is not installed.
        ValueError: the batch does not have exactly one dimension, or nested keys lack a separator.
        TypeError: a tensor has a dtype that numpy does not have.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": [1, 2], "n": {"b": [[3, 4], [5, 6]]}}, [2]).to_pandas(separator=".")
           a     n.b
        0  1  [3, 4]
        1  2  [5, 6]
    """
    pandas = require("pandas", _EXTRA, "to_pandas")
    if data.batch_dims != 1:
        raise ValueError(
            f"to_pandas: expected one batch dimension, the rows; got the batch size {list(data.batch_size)}. "
            "reshape(-1) makes one of several, unsqueeze(0) one of none"
        )
    columns: dict[str, Any] = {}
    _collect(pandas, data, separator, (), columns)
    return pandas.DataFrame(columns, index=pandas.RangeIndex(len(data)), copy=copy)


# -- labels -----------------------------------------------------------------------------------------------------------


def _paths(labels: Any, table_options: TableOptions, options: ConversionOptions) -> list[Path | None]:
    """Return the names in each column label; ``None``, with a note, for labels whose names are taken."""
    separator, rename = table_options.separator, table_options.rename
    check_renamed(labels, rename, options.problems)
    seen: dict[Path, bool] = {}  # ``True`` for a column, ``False`` for a parent of columns
    result: list[Path | None] = []
    for label in labels:
        path = _path((rename or {}).get(label, label), separator)
        parents = [path[:depth] for depth in range(1, len(path))]
        taken = path in seen or any(seen.get(parent) for parent in parents)
        if taken:
            got = "several" if seen.get(path) else "columns both at this key and below it"
            options.problems.add(path, "one column", got, f"give the column {label!r} a name of its own")
        else:
            seen |= dict.fromkeys(parents, False)
            seen[path] = True
        result.append(None if taken else path)
    return result


def _path(label: Any, separator: str | None) -> Path:
    parts: list[str]
    if isinstance(label, tuple):  # a label of several levels; pandas fills missing levels with ""
        levels = cast("tuple[object, ...]", label)
        parts = [str(level) for level in levels if level != ""] or [""]
    else:
        parts = [str(label)]
    if separator is not None:
        parts = [name for part in parts for name in part.split(separator)]
    return tuple(parts)


def _nest(columns: Mapping[Path, Any]) -> dict[str, Any]:
    """Nest columns by path."""
    result: dict[str, Any] = {}
    for (*parents, last), column in columns.items():
        level = result
        for name in parents:
            level = level.setdefault(name, {})
        level[last] = column
    return result


def _place(values: dict[str, Any], path: Path, masks: dict[str, Any]) -> bool:
    """Write the masks below a path. Return ``False`` if a column is at the path, or above it."""
    level = values
    for name in path:
        inner: Any = level.setdefault(name, {})
        if not isinstance(inner, dict):
            return False
        level = cast("dict[str, Any]", inner)
    _merge(level, masks)
    return True


def _merge(values: dict[str, Any], others: dict[str, Any]) -> None:
    """Merge a nested dict of values into another, in place."""
    for name, value in others.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            _merge(values[name], cast("dict[str, Any]", value))
        else:
            values[name] = value


def _check_index(
    names: Any, columns: Mapping[str, Any], cls: type[TensorCollection], options: ConversionOptions
) -> None:
    """Note required fields that are in the index, which is not read."""
    for name in names:
        key = key_of_columns(cls, [str(name)])
        schema = None if name is None or str(name) in columns else ColumnSchema.of(cls, key)
        if schema is not None and schema.spec is not None and schema.default() is NOTHING:
            options.problems.add(key, schema.shown, "the index", "table.reset_index() makes columns of it")


# -- in ---------------------------------------------------------------------------------------------------------------


class _NumberArray(NamedTuple):
    """A column of numbers as an array."""

    array: Any
    #: ``True`` for each missing row, whose number is arbitrary; ``None`` without missing rows
    missing: Any = None
    #: whether the array is memory of the table
    shared: bool = False
    #: whether they are times in nanoseconds
    times: bool = False


class _PandasReader(ColumnReader):
    """Reads the columns of a table with ``rows`` rows."""

    def __init__(self, options: ConversionOptions, table_options: TableOptions, rows: int) -> None:
        super().__init__(options, table_options)
        self.rows: int = rows

    def check_type(self, column: Any) -> None:
        """Refuse extension types that Arrow holds for other libraries."""
        held = getattr(column.dtype, "pyarrow_dtype", None)
        if held is not None:
            check_extensions(require("pyarrow", _EXTRA, "from_pandas"), held)

    def column(self, column: Any, schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read a ``pandas.Series``, or a dict of them for a nested collection."""
        if isinstance(column, dict):
            return self.nested(cast("dict[str, Any]", column), schema.target, path)
        if schema.holds == "column" or schema.is_undeclared:
            found = self._rows(column, schema)
            if found is not None:
                return found
        if (text := _text(column, schema)) is not None:
            return ReadColumn(stack_of(text, codes_row_by_row(Size((self.rows,))), None, None))
        if schema.holds == "object":
            missing = column.isna().to_numpy()
            is_float = _is_plain(column.dtype) and column.dtype.kind == "f"
            if self.options.nulls == "default" and is_float and _keeps_nan(schema):
                missing = np.zeros_like(missing)
            return self._objects(_objects_of(column, schema), missing, schema)
        try:
            numbers = None if schema.holds == "collection" else _numbers(column, schema, self.options.nulls)
        except (ValueError, OverflowError) as error:  # times outside the range of 64 bits
            raise UnreadableColumn(schema.shown, f"a column of dtype {column.dtype}", str(error)) from None
        if numbers is not None:
            return self._number_column(numbers, schema)
        return self._object_column(column, schema, path)

    # -- text and ragged rows -----------------------------------------------------------------------------------------

    def _rows(self, column: Any, schema: ColumnSchema) -> ReadColumn | None:
        """Read a column as the field declares it, or strings, ragged numbers and lists of strings; else ``None``."""
        held = _arrow_array(column)
        if held is not None:
            table = self.options._replace(columns=None)
            reader = ArrowColumnReader(require("pyarrow", _EXTRA, "from_pandas"), self.conversion, table)
            reader.levels = 0
            if schema.holds == "column":
                return reader.column(InputColumn(held), schema, ())
            return reader._undeclared_column(held, schema, {})
        if schema.holds != "column" and (_is_plain(column.dtype) and column.dtype.kind != "O"):
            return None
        items, missing = column.tolist(), column.isna().to_numpy()
        rows = [None if gone else item for item, gone in zip(items, missing, strict=True)] if missing.any() else items
        if schema.holds == "column":
            if missing.any() and column.dtype.kind == "f":
                rows = _integers(rows, schema)
            return declared_rows(rows, schema, self.options.nulls)
        present = [row for row in rows if row is not None]
        if present and all(isinstance(row, (list, tuple, np.ndarray, Tensor)) for row in present):
            tensor = _stacked(present)
            if tensor is not None and (tensor.is_nested or (missing.any() and tensor.ndim > 1)):
                made = Ragged.from_list(rows)
                return fill_missing(made.to(dtype=self.options.dtype), schema, self.options.nulls)
            if tensor is not None:
                return None
        made_rows: Any = undeclared_rows(rows, present)
        if content_kind(made_rows) is Content.TEXT:
            return fill_missing(made_rows, schema, self.options.nulls)
        if made_rows is None:
            return None
        return fill_missing_objects(made_rows.tolist(), schema, self.options.nulls, None, made_rows.item_type)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _number_column(self, numbers: _NumberArray, schema: ColumnSchema) -> ReadColumn:
        missing = numbers.missing
        if missing is not None and not missing.any():
            missing = None
        tensor = self._tensor(numbers.array, numbers.shared and missing is None, schema)
        if missing is None:
            return ReadColumn(tensor)
        if self.options.nulls == "default" and schema.holds == "any" and schema.default() in (NOTHING, None):
            return ReadColumn(self._undeclared_nulls(numbers, tensor, schema))
        return self._fill_nulls(tensor, missing, schema)

    def _tensor(self, array: Any, shared: bool, schema: ColumnSchema) -> Tensor:
        copy = self.options.copy
        if shared and (copy or array.dtype.kind == "V"):
            array = array.copy()
        elif copy is False and self.rows and not (shared and is_shareable(array)):
            why = "its numbers do not stand in memory as torch needs them"
            got = f"a column that cannot be read without a copy: {why}"
            raise UnreadableColumn(schema.shown, got, "leave copy=False")
        elif shared and is_shareable(array):
            array = np.asarray(WritableView(array))
        tensor = as_tensor(array)
        if tensor is None:
            got = f"a column of dtype {array.dtype}"
            raise UnreadableColumn(schema.shown, got, "torch does not have it: convert it")
        return self._in_dtype(tensor)

    def _in_dtype(self, tensor: Tensor) -> Tensor:
        return tensor if self.options.dtype is None else tensor.to(self.options.dtype)

    def _undeclared_nulls(self, numbers: _NumberArray, tensor: Tensor, schema: ColumnSchema) -> Any:
        """Fill missing numbers that have no declared default, as the peer does: nan, and ``None`` among booleans."""
        missing = numbers.missing
        if numbers.times:
            raise UnreadableColumn(schema.shown, *_gaps(missing, "times"))
        if tensor.is_floating_point() or tensor.is_complex():
            return tensor  # already nan
        if numbers.array.dtype == bool:
            items = [None if gone else bool(item) for item, gone in zip(numbers.array, missing, strict=True)]
            return object_column(items, Size((self.rows,)))
        if (np.abs(numbers.array[~missing].astype(object)) > _EXACT).any():
            got = "missing values beside numbers that a float with nan for them cannot hold"
            raise UnreadableColumn(schema.shown, got, "fill them, with .fillna or nulls='fill'")
        return torch.where(from_numpy(~missing), tensor.double(), torch.nan)

    def _fill_nulls(self, values: Tensor, missing: Any, schema: ColumnSchema) -> ReadColumn:
        """Fill the rows of a tensor whose values are missing."""
        given, nulls = from_numpy(~missing), self.options.nulls
        if nulls in ("fill", "mask"):
            return ReadColumn(values, given if nulls == "mask" else None)
        default = NOTHING if nulls == "raise" else schema.default()
        if default is None and missing.all():
            return ReadColumn(None)
        made = None if default is NOTHING or default is None else fill_rows(values, given, default)
        if made is None:
            raise UnreadableColumn(schema.shown, *_gaps(missing, "values"))
        return ReadColumn(self._in_dtype(made))

    # -- objects ------------------------------------------------------------------------------------------------------

    def _objects(self, items: list[Any], missing: Any, schema: ColumnSchema) -> ReadColumn:
        """Return objects row by row, with the default of the field for those that are missing."""
        mask = None
        if missing.any():
            nulls = self.options.nulls
            default = schema.default() if nulls == "default" else None
            no_default = default in (NOTHING, None)
            if nulls == "raise" or (nulls == "default" and no_default and not schema.optional):
                raise UnreadableColumn(schema.shown, *_gaps(missing, "values"))
            mask = from_numpy(~missing) if nulls == "mask" else None
            items = [
                (None if no_default else schema.default()) if gone else item
                for item, gone in zip(items, missing, strict=True)
            ]
        return ReadColumn(object_column(items, Size((self.rows,)), ""), mask)

    def _object_column(self, column: Any, schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read a column of dtype object, whose rows may be lists, arrays, dicts or numbers."""
        items, missing = column.tolist(), column.isna().to_numpy()
        present = [item for item, gone in zip(items, missing, strict=True) if not gone] if missing.any() else items
        if schema.holds == "any":
            return self._untyped_rows(items, missing, present, schema, path)
        if not present and items:
            return self._fill_nulls(torch.zeros(self.rows), missing, schema)
        if schema.holds == "collection":
            if not missing.any() and all(isinstance(item, (list, np.ndarray)) for item in present):
                return self._lists_of_dicts(present, schema, path)
            rows = [None if gone else entries(item) for item, gone in zip(items, missing, strict=True)]
            if all(row is not None or gone for row, gone in zip(rows, missing, strict=True)):
                return self._dicts(rows, schema, path)
            odd = next(item for item in present if entries(item) is None)
            raise UnreadableColumn(schema.shown, f"a column of {type_name(odd)}", "its rows must be dicts")
        return self._stack(items, missing, present, schema)

    def _untyped_rows(
        self, items: list[Any], missing: Any, present: list[Any], schema: ColumnSchema, path: Path
    ) -> ReadColumn:
        """Read rows without a declared type: a nested collection or a tensor if all rows allow it, else objects."""
        types: set[type] = {*map(type, present)}
        if present and len(present) == len(items):
            if all(issubclass(one, dict) for one in types) and len({tuple(item) for item in present}) == 1:
                return self._dicts(items, schema, path)
            if all(issubclass(one, (list, np.ndarray, Tensor)) for one in types):
                tensor = _stacked(present)
                if tensor is not None:
                    return ReadColumn(self._in_dtype(tensor))
        return self._objects(items, missing, schema)

    def _lists_of_dicts(self, lists: list[Any], schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read lists of dicts, all of one length: a nested collection with one more batch dimension."""
        lengths = {len(items) for items in lists}
        if len(lengths) > 1:
            got = f"a column with lists of {min(lengths)} to {max(lengths)} items"
            raise UnreadableColumn(
                schema.shown, got, "a collection takes lists of one length; from_list makes a lazy stack"
            )
        size = (len(lists), *lengths)
        inner = _PandasReader(self.conversion, self.options, len(lists) * max(lengths, default=0))
        column = require("pandas", _EXTRA, "from_pandas").Series(
            [one for items in lists for one in items], dtype=object
        )
        made = inner.column(column, schema, path)
        return ReadColumn(*(reshape_rows(one, size) if isinstance(one, dict) else one for one in made))

    def _dicts(self, rows: list[Any], schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read dicts: a nested collection with a column for each key."""
        series = require("pandas", _EXTRA, "from_pandas").Series
        keys: dict[Any, None] = {key: None for row in rows if row is not None for key in row}
        columns = {key: series([None if row is None else row.get(key) for row in rows]) for key in keys}
        return self.nested(columns, schema.target, path)

    def _stack(self, items: list[Any], missing: Any, present: list[Any], schema: ColumnSchema) -> ReadColumn:
        """Stack rows of numbers, lists or arrays for a tensor field."""
        tensor = _stacked(present)
        if tensor is None:
            names = sorted({type_name(item) for item in present})
            got = f"a column with rows of {', '.join(names)} that are no numbers, or no arrays that fit each other"
            raise UnreadableColumn(schema.shown, got, "convert them, or declare the field as objects")
        if not missing.any():
            return ReadColumn(self._in_dtype(tensor))
        if not tensor.is_nested:
            nothing = torch.nan if tensor.is_floating_point() else 0
            rows = tensor.new_full((self.rows, *tensor.shape[1:]), nothing)
            rows[from_numpy(~missing)] = tensor
            return self._fill_nulls(rows, missing, schema)
        nulls = self.options.nulls
        default: Any = schema.default() if nulls == "default" else []
        refused = nulls == "raise" or default is NOTHING or default is None
        whole = None if refused else _stacked(
            [default if gone else item for item, gone in zip(items, missing, strict=True)]
        )  # fmt: skip
        if whole is None:
            raise UnreadableColumn(schema.shown, *_gaps(missing, "values"))
        return ReadColumn(self._in_dtype(whole), from_numpy(~missing) if nulls == "mask" else None)


def _integers(rows: list[Any], schema: ColumnSchema) -> list[Any]:
    """Return doubles as integers if the field takes no doubles: pandas has none with missing values beside them."""
    declared = schema.declared
    fits = predicate(declared.item_type) if issubclass(declared.cls, Column) else None
    if fits is None or fits(0.5):
        return rows
    return [int(row) if row is not None and row.is_integer() and abs(row) <= _EXACT else row for row in rows]


def _numbers(column: Any, schema: ColumnSchema, nulls: Nulls) -> _NumberArray | None:
    """Return the numbers of a column: numpy's, nullable, Arrow's, sparse ones or times; ``None`` for other columns."""
    own: Any = column.dtype
    kind = own.kind
    if _is_plain(own) and kind in "biufc":
        array = column.to_numpy()
        needed = kind in "fc" and (nulls != "default" or not _keeps_nan(schema))  # else nan stays
        return _NumberArray(array, np.isnan(array) if needed else None, True)
    name = str(own)
    if name.startswith("Sparse"):
        dense = _numbers(column.sparse.to_dense(), schema, nulls)
        return None if dense is None else dense._replace(shared=False)
    if name == "category":
        if column.cat.categories.dtype.kind not in "biufcM":
            return None
        return _numbers(column.astype(object).infer_objects(), schema, nulls)  # categories are read as their values
    if kind in "mM" and (schema.holds == "tensor" or (kind == "M" and not name.startswith("date32"))):
        column = column.astype("datetime64[s]") if name.startswith("date32") else column
        missing = column.isna().to_numpy()
        times = column.dt.as_unit("ns").to_numpy(dtype=f"{kind}8[ns]").view(np.int64)
        return _NumberArray(
            np.where(missing, 0, times) if missing.any() else times, missing, name.endswith("[ns]"), True
        )
    if kind not in "biuf":
        return None
    missing = column.isna().to_numpy()
    if not missing.any():
        return _NumberArray(column.to_numpy(dtype=own.numpy_dtype), missing, kind != "b")
    nothing = np.nan if kind == "f" else own.numpy_dtype.type(0)
    return _NumberArray(column.to_numpy(dtype=own.numpy_dtype, na_value=nothing), missing)


def _keeps_nan(schema: ColumnSchema) -> bool:
    """Return whether nan in a column of floats is a number like others: the field takes floats and has no default.

    pandas writes nan for missing numbers, too.
    """
    spec = schema.spec
    if spec is None:
        return True
    if schema.default() not in (NOTHING, None):
        return False
    if schema.holds == "object":
        return float in spec.types and not spec.optional
    dtypes = None if spec.contract is None else spec.contract.dtypes
    return dtypes is None or any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)


def _text(column: Any, schema: ColumnSchema) -> ArrowText | None:
    """Return the text of a column, if Arrow holds it, no row is missing, and the field takes text."""
    own: Any = column.dtype
    types = () if schema.spec is None else schema.spec.types
    if _is_plain(own) or schema.holds not in ("any", "object") or (types and str not in types) or not len(column):
        return None
    if not (own.name in ("str", "string") and own.storage == "pyarrow"):
        return None
    pa = require("pyarrow", _EXTRA, "from_pandas")
    held = pa.array(column.array)
    return ArrowText(pa, held) if is_text(pa, held.type) and not held.null_count else None


def _arrow_array(column: Any) -> Any:
    """Return strings or lists that Arrow holds for pandas, as a chunked array; ``None`` for other columns."""
    own: Any = column.dtype
    if _is_plain(own):
        return None
    held = getattr(own, "pyarrow_dtype", None)
    if held is None and not (own.name in ("str", "string") and getattr(own, "storage", "") == "pyarrow"):
        return None
    pa = require("pyarrow", _EXTRA, "from_pandas")
    array = pa.array(column.array) if held is None else column.array.__arrow_array__()
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _is_plain(dtype: object) -> bool:
    """Return whether a dtype of a column is numpy's."""
    return isinstance(dtype, np.dtype)


def _objects_of(column: Any, schema: ColumnSchema) -> list[Any]:
    """Return the rows as Python objects, converted to the types of the field."""
    items: list[Any] = column.tolist()
    types = () if schema.spec is None else schema.spec.types
    # integers that pandas made floats, because values are missing
    if column.dtype.kind == "f" and int in types and float not in types:
        return [int(item) if item == item and item is not None and item % 1 == 0 else item for item in items]
    if column.dtype.kind != "O":  # text has dtype object, too
        return items
    lists = next((one for one in types if one in (list, tuple)), None)
    members: list[Any] = [one.__members__ for one in types if issubclass(one, enum.Enum)]
    names: dict[str, Any] = dict(members[0]) if members else {}
    for position, item in enumerate(items):
        if names and isinstance(item, str) and str not in types:
            items[position] = names.get(item, item)
        elif isinstance(item, np.generic) and not isinstance(item, types or np.generic):
            items[position] = item.item()
        # lists that pandas read from Parquet
        elif isinstance(item, np.ndarray) and lists is not None and np.ndarray not in types:
            items[position] = lists(item.tolist())  # pyright: ignore[reportUnknownMemberType]
    return items


def _gaps(missing: Any, what: str) -> tuple[str, str]:
    """Describe missing values, and what to do about them."""
    rows = np.flatnonzero(missing)
    got = f"{len(rows)} missing {what}, the first in row {rows[0]}"
    hint = "drop or fill them, give the field a default, or say nulls='fill' (with 0, False, nan, None) or 'mask'"
    return got, hint + help_link("nulls")


def _stacked(rows: list[Any]) -> Tensor | None:
    """Stack numbers, lists, arrays or tensors; a jagged tensor if lengths differ. ``None`` if they do not fit."""
    if not rows:
        return torch.zeros(0)  # without rows the type is unknown
    if all(issubclass(one, Tensor) for one in {*map(type, rows)}):
        parts = [row.detach() if not row.requires_grad else row for row in rows]
        if len({part.shape for part in parts}) == 1:
            return torch.stack(parts)
    else:
        try:
            arrays = np.asarray(rows)
        except ValueError:  # ragged
            arrays = np.empty(0, dtype=object)
        if arrays.dtype.kind in "biufc":
            return as_tensor(arrays)
        try:
            parts = [torch.as_tensor(row if isinstance(row, Tensor) else np.array(row)) for row in rows]
        except (TypeError, ValueError):
            return None
    filled_parts = [part for part in parts if part.numel()] or parts
    if not all(part.ndim and part.shape[1:] == filled_parts[0].shape[1:] for part in filled_parts):
        return None
    if not all(part.ndim for part in parts):
        return None
    return jagged(torch.cat(filled_parts), torch.tensor([len(part) for part in parts]))


# -- out --------------------------------------------------------------------------------------------------------------


def _collect(pandas: Any, data: TensorCollection, separator: str | None, path: Path, columns: dict[str, Any]) -> None:
    """Collect the columns of a collection by name."""
    for key, value in named_items(data):
        where = (*path, key)
        name = (separator or ".").join(where)
        if isinstance(value, TensorCollection) and value._is_tree():
            if separator is None:
                raise ValueError(
                    f"to_pandas: {name!r} is nested; give a separator for its columns: to_pandas(separator='.')"
                )
            _collect(pandas, value, separator, where, columns)
            continue
        if name in columns:
            raise ValueError(f"to_pandas: two values would become the column {name!r}; give another separator")
        rows: Any = value
        if isinstance(value, Tensor):
            columns[name] = _array(pandas, name, value)
        elif content_kind(value) is Content.RAGGED and rows.ragged_dims == 1:
            if rows.dtype is torch.bfloat16:
                raise _without_dtype(name, rows.dtype)
            columns[name] = pandas.Series(list(rows.numpy()), dtype=object)
        else:
            try:
                columns[name] = _items(pandas, value.tolist())
            except EncodingError as error:
                raise error.below(*where) from None


def _array(pandas: Any, name: str, value: Tensor) -> Any:
    if value.is_meta:
        raise TypeError(
            f"to_pandas: {name!r} is on the device meta and has no numbers; torch.zeros_like(data, device='cpu') has "
            "some"
        )
    value = value.detach().cpu()
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    if value.layout not in (torch.strided, torch.jagged):
        raise TypeError(f"to_pandas: {name!r} is a tensor of the layout {value.layout}; make it strided first")
    try:
        if value.is_nested:
            rows = [row.numpy() for row in value.unbind()]
        elif value.ndim == 1:
            return value.numpy()
        else:
            rows = list(value.numpy())
    except TypeError:
        raise _without_dtype(name, value.dtype) from None
    return pandas.Series(rows, dtype=object)


def _without_dtype(name: str, dtype: torch.dtype) -> TypeError:
    return TypeError(
        f"to_pandas: {name!r} has the dtype {dtype}, which numpy does not have; convert it first, for instance with "
        f".to({torch.float32})"
    )


def _items(pandas: Any, items: list[Any]) -> Any:
    """Return objects for pandas. It would turn numbers beside ``None`` into floats, unless the dtype is object."""
    if any(item is None for item in items) and any(isinstance(item, (bool, int, float)) for item in items):
        return pandas.Series(items, dtype=object)
    return items
