"""CSV files, whole and in batches, and back.

As in pyarrow's files, an empty cell without quotes is a null, and a quoted empty cell an empty text.
"""

from __future__ import annotations

import csv as python_csv
import datetime
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_steps import C
from tensorclass.records.record import TensorClass
from tensorclass.support.extras import require
from tensorclass.support.printable import printable
from tensorclass.td.base import TensorCollection
from tensorclass.td.delegated.arguments import TableSource, Target

from .arrow_text import is_text
from .file_columns import chosen_columns, column_types, kept_columns, optional_text, time_types
from .file_requests import check_rows, flat_table
from .file_sources import EXTRA, TableFile, byte_stream, naming_file, public_names, sorted_options, written_file
from .row_batches import Batches, TableReader, iterate_file, read_file

METHODS_OF = "TableFiles"
#: names of options in pandas, and what to use instead
_OTHER_NAMES = {
    "sep": "delimiter",
    "usecols": "columns",
    "names": "column_names",
    "header": "autogenerate_column_names=True where the file has no names, or column_names",
    "na_values": "null_values",
    "skiprows": "skip_rows",
    "quotechar": "quote_char",
    "escapechar": "escape_char",
    "doublequote": "double_quote",
    "skip_blank_lines": "ignore_empty_lines",
    "decimal": "decimal_point",
    "converters": "column_types",
    "chunksize": "iter_csv",
    "nrows": "iter_csv",
    "index_col": "nothing: there is no index",
    "index": "nothing: there is no index",
    "engine": "nothing: pyarrow does the work",
    "compression": "a name that ends in .gz, .bz2, .lz4 or .zst",
    "lineterminator": "eol",
    "quoting": "quoting_style",
    "columns": "select(...) before",
    "na_rep": "null_string",
}
_GROUPS = ("ReadOptions", "ParseOptions", "ConvertOptions")


def from_csv(cls: type[C], path: TableSource, **kwargs: Any) -> C:
    r"""Read a CSV file: one value per column, with the number of rows as batch size.

    The fields of a record decide how text is read: ``Int[Tensor, ""]`` as integers, ``str`` as text, even if it
    looks like a number. Other columns become integers, doubles or booleans if all of their cells can, and text
    otherwise, including dates. An empty cell is a null. In a column of text it is the empty text, unless its field
    has a default or allows ``None``.

    Args:
        path: the file, possibly compressed (``"table.csv.gz"``); a list or a pattern of files with the same columns; or
            an open file.
        FileKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype, columns, rename, nulls, strict
        kwargs: options of pyarrow's ``ReadOptions``, ``ParseOptions`` and ``ConvertOptions``: ``delimiter``,
            ``column_names``, ``include_columns``, ``column_types``, ``null_values``, ``block_size``, ...

    Raises:
        FileKwargs: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import io, torch
        >>> from tensorclass import TensorClass, Text
        >>> class Pet(TensorClass):
        ...     name: Text
        ...     age: torch.Tensor
        >>> Pet.from_csv(io.BytesIO(b"name,age\n007,3\nRex,9\n")).name[0]
        '007'
    """
    return read_file(CSVReader, cls, "from_csv", path, kwargs)


def iter_csv(cls: type[C], path: TableSource, *, batch_size: int, **kwargs: Any) -> Batches[C]:
    """Iterate over the rows of a CSV file in batches. The file can be larger than memory.

    Args:
        path: the files, as in :meth:`from_csv`.
        FileStreamKwargs: batch_size, drop_last, device, separator, dtype, columns, rename, nulls, strict, progress,
            pbar, kwargs

    Returns:
        FileStreamKwargs

    Raises:
        FileStreamKwargs: ConversionError, OSError, ValueError, TypeError, ImportError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> file = io.BytesIO()
        >>> TensorDict({"x": [1, 2, 3]}, [3]).to_csv(file)
        >>> _ = file.seek(0)
        >>> [batch["x"].tolist() for batch in TensorDict.iter_csv(file, batch_size=2)]
        [[1, 2], [3]]
    """
    return iterate_file(CSVReader, cls, "iter_csv", path, batch_size, kwargs)


def to_csv(data: TensorCollection, path: Target, *, separator: str | None = None, **kwargs: Any) -> None:
    """Write a CSV file with one row per item of the batch.

    Each value has one number, time or text per row. Numbers are written so that reading restores them exactly. The
    file is written completely or not at all: if writing fails, the previous file stays.

    Args:
        written_file: path
        separator: joins nested keys to the names of columns. Required if there are nested keys.
        kwargs: options of ``pyarrow.csv.WriteOptions``: ``delimiter``, ``include_header``, ``quoting_style``, ...

    Raises:
        written_file: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> file = io.BytesIO()
        >>> TensorDict({"name": ["Rex", "Fido"], "age": [9, 3]}, [2]).to_csv(file)
        >>> file.getvalue().decode().split()
        ['"name","age"', '"Rex",9', '"Fido",3']
    """
    what = "to_csv"
    pa, module = require("pyarrow", EXTRA, what), require("pyarrow.csv", EXTRA, what)
    own = _names(module.WriteOptions)
    given = sorted_options(what, {"write": own}, kwargs, _OTHER_NAMES)["write"]
    check_rows(data, what)
    table = flat_table(data, separator)
    problems = Problems(what)
    for field in table.schema:
        hint = _not_in_a_cell(pa, field.type)
        if hint:
            problems.add((field.name,), "one number, time or text a row", f"a column of {field.type}", hint)
    problems.check()
    if table.num_columns == 1 and table.column(0).null_count and not given.get("null_string"):
        advice = "give null_string" if "null_string" in own else "with pyarrow 26, null_string is written there"
        raise ValueError(
            f"{what}: the only column {table.column_names[0]!r} has no value in {table.column(0).null_count} rows. "
            f"Readers skip empty lines: {advice}"
        )
    types = {one.name: one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in table.schema}
    table = table.cast(pa.schema([*types.items()]))  # without dictionaries
    with written_file(what, path, compressed=True) as file:
        module.write_csv(table, file, module.WriteOptions(**given))


class CSVReader(TableReader[C]):
    """Reads CSV files with the same columns one after another."""

    OTHER_NAMES: Mapping[str, str] = _OTHER_NAMES

    def _options(self, path: Any, own: dict[str, Any]) -> dict[str, Iterable[str]]:
        return {group: _names(getattr(self._csv, group)) for group in _GROUPS}

    @property
    def _csv(self) -> Any:
        return self._library("pyarrow.csv")

    def _infer_schema(self) -> None:
        """Infer the columns and their types from the first rows."""
        pa = self.pa
        convert: dict[str, Any] = {
            "null_values": [""],
            "strings_can_be_null": True,
            "quoted_strings_can_be_null": False,
        }
        self._convert = {**convert, **self.given["ConvertOptions"]}
        self._column_types: dict[str, Any] = dict(self._convert.pop("column_types", None) or {})
        self._types: dict[str, Any] = {}
        names: list[str] = []
        temporal: dict[str, Any] = {}
        for file in self.files:
            with self._naming_file(file), self._opened(file, {}) as head:
                schema = head.schema
            if not names:
                names = schema.names
                temporal = {one.name: one.type for one in schema if pa.types.is_temporal(one.type)}
            elif schema.names != names:
                raise ValueError(
                    f"{self.request.what}: {printable(file)}: expected the columns {names} of "
                    f"{printable(self.files[0])}, got {schema.names}"
                )
        self._check_names(names)
        self._check_delimiter(names)
        problems = self.request.options.problems
        read = chosen_columns(self.request.what, names, self._chosen_columns(), problems)
        paths = {path: name for (name,), path in self.paths([(name,) for name in read]).items()}
        kept = kept_columns(self.cls, paths, problems, self.request.options.strict)
        problems.check()
        types = {name: pa.string() for name in temporal if "timestamp_parsers" not in self._convert}
        types.update({paths[path]: arrow_type for path, arrow_type in column_types(pa, self.cls, kept).items()})
        times = {name: self._time_type(name, arrow_type) for name, arrow_type in temporal.items()}
        types.update({name: arrow_type for name, arrow_type in times.items() if arrow_type is not None})
        for name, inferred in temporal.items():
            if name in types and pa.types.is_timestamp(types[name]) and getattr(inferred, "tz", None):
                types[name] = pa.timestamp(types[name].unit, "UTC")
        self._types = {**types, **self._column_types}
        if len(kept) < len(names) and "include_columns" not in self._convert:
            self._convert["include_columns"] = [name for path, name in paths.items() if path in kept]

    def _time_type(self, name: str, inferred: Any) -> Any:
        """Return the type of a column for which pyarrow infers dates or times; ``None`` if its field takes none."""
        fitting = time_types(self.pa, self.cls, self.path(name))
        return next((one for one in fitting if _is_read_as(self.pa, inferred, one)), inferred) if fitting else None

    def _check_delimiter(self, names: Sequence[str]) -> None:
        """Raise if the only column of a record seems to be several, with another delimiter."""
        if len(names) == 1 and issubclass(self.cls, TensorClass) and names[0] not in self.cls._specs:
            for delimiter in (";", "\t", "|"):
                if delimiter in names[0] and "delimiter" not in self.given["ParseOptions"]:
                    raise ValueError(
                        f"{self.request.what}: {printable(self.files[0])}: expected columns for the fields "
                        f"{list(self.cls._specs)}, got the one column {names[0]!r}; give delimiter={delimiter!r}"
                    )

    def _settings(self, types: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the options of pyarrow, with column types."""
        types = {**self._column_types, **_readable(self.pa, types)}
        return (
            self._csv.ReadOptions(**self.given["ReadOptions"]),
            self._csv.ParseOptions(**self.given["ParseOptions"]),
            self._csv.ConvertOptions(**{**self._convert, "column_types": types}),
        )

    @contextmanager
    def _opened(self, file: TableFile, types: Mapping[str, Any]) -> Generator[Any, None, None]:
        with (
            byte_stream(self.request.what, file) as stream,
            self._csv.open_csv(stream, *self._settings(types)) as opened,
        ):
            yield opened

    def table(self) -> Any:
        pa, types, tables = self.pa, dict(self._types), list[Any]()
        stays = "timestamp_parsers" in self._convert
        for file in self.files:
            with self._naming_file(file):
                made = self._read(file, types)
                late = {
                    one.name: self._time_type(one.name, one.type) or pa.string()
                    for one in made.schema
                    if pa.types.is_temporal(one.type) and one.name not in types and not stays
                }
                if late:  # dates that begin after the first rows
                    types.update(late)
                    made = self._read(file, types)
                if large := self._find_large_integers(file, made, types):  # integers too large for int64
                    types.update(large)
                    made = self._read(file, types)
            tables.append(made)
        return self._cast_to_fields(self._concatenated(tables, "; give column_types"))

    def tables(self, rows: int) -> Generator[Any, None, None]:
        types = dict(self._types)
        for file in self.files:
            with self._naming_file(file), self._opened(file, types) as opened:
                # the first file sets the types of all
                types = {**{one.name: one.type for one in opened.schema}, **types}
                for batch in opened:
                    yield self._cast_to_fields(self.pa.Table.from_batches([batch]))

    def _read(self, file: TableFile, types: Mapping[str, Any]) -> Any:
        with byte_stream(self.request.what, file) as stream:
            return self._csv.read_csv(stream, *self._settings(types))

    def _find_large_integers(self, file: TableFile, table: Any, types: Mapping[str, Any]) -> dict[str, Any]:
        """Find integer columns that pyarrow read as doubles because int64 is too small. Return their types."""
        names = self._beyond_int64(table, types)
        if not names:
            return {}
        texts = self._read(file, {**types, **dict.fromkeys(names, self.pa.string())})
        columns = {name: [cell for cell in texts.column(name).to_pylist() if cell] for name in names}
        whole = {
            name: cells for name, cells in columns.items() if all(re.fullmatch(r"\s*-?\d+\s*", cell) for cell in cells)
        }
        hint = "column_types={{{name!r}: pyarrow.float64()}} rounds them"
        return self._as_uint64(whole, _CHECKS["uint64"], hint, f" in {file}")

    def _cast_to_fields(self, table: Any) -> Any:
        """Cast columns to the types of the fields. Missing text becomes empty text if the field has nothing else for
        it.
        """
        for position, field in enumerate(table.schema):
            column, arrow_type = table.column(position), self._types.get(field.name, field.type)
            may_be_text = self.request.table_options.nulls == "default" and is_text(self.pa, field.type)
            if may_be_text and column.null_count:
                if not optional_text(self.cls, self.path(field.name)):
                    column = column.fill_null("")
            elif field.type != arrow_type:
                column = column.cast(arrow_type)
            else:
                continue
            table = table.set_column(position, field.name, column)
        return table

    # -- what is wrong ------------------------------------------------------------------------------------------------

    def _naming_file(self, file: TableFile) -> Any:
        return naming_file(self.request.what, file, partial(self._locate_error, file))

    def _locate_error(self, file: TableFile, error: Exception) -> str | None:
        """Locate an error: the first line with the wrong number of cells, or the first bad cell of each column.

        Python reads the file again for this, because pyarrow does not name the line.

        Raises:
            ConversionError: cells do not have the type of their column.
        """
        problems = Problems(self.request.options.what)
        checks, missing = self._checks()
        times: list[tuple[tuple[str, ...], str, str]] = []  #: cells in columns that could hold times alone
        named_cell = re.search(
            r"In CSV column #(\d+): .*conversion error to (\w+).*: invalid value '(.*)'", str(error), re.S
        )
        for line, names, row in self._rows(file):
            if len(row) != len(names):
                return f"line {line}: expected {len(names)} cell{'s'[: len(names) != 1]}, got {len(row)}"
            for position, (name, cell) in enumerate(zip(names, row, strict=True)):
                path, check = self.path(name), checks.get(name)
                if cell in missing or problems.covers(path):
                    continue
                if check is not None and not check(cell):
                    if _is_time(cell) and time_types(self.pa, self.cls, path):
                        times.append((path, str(self._types[name]), f"{cell!r} in line {line} of {file}"))
                        continue
                    problems.add(path, str(self._types[name]), f"{cell!r} in line {line} of {file}", _advice(cell))
                elif check is None and named_cell and int(named_cell[1]) == position and named_cell[3] == cell:
                    hint = "what is in front of it says the type; give another one with column_types"
                    problems.add(path, named_cell[2], f"{cell!r} in line {line} of {file}", hint)
        for path, expected, got in times:
            if not problems.covers(path):
                problems.add(path, expected, got)
        problems.check()
        return None

    def _checks(self) -> tuple[dict[str, Callable[[str], bool] | None], set[str]]:
        """Return a check of the cells of each column whose type is known, and the cells that are nulls."""
        options: Any = self._settings({})[-1]
        truths: set[str] = {*options.true_values, *options.false_values}

        def is_truth(cell: str) -> bool:
            return cell in truths

        def is_float(cell: str) -> bool:
            return _is_number(cell.replace(options.decimal_point, "."))

        known = {**_CHECKS, "bool": is_truth, **dict.fromkeys(_FLOATS, is_float)}
        return {name: known.get(str(arrow_type)) for name, arrow_type in self._types.items()}, {*options.null_values}

    def _rows(self, file: TableFile) -> Iterator[tuple[int, list[str], list[str]]]:
        """Yield each row with its last line number and the column names, up to one that Python does not read.

        These are rows with a cell of over 128 KiB, and on Python 3.10 with a NUL.
        """
        read, parse = self.given["ReadOptions"], self.given["ParseOptions"]
        quote = parse.get("quote_char", '"')
        with suppress(python_csv.Error), byte_stream(self.request.what, file) as stream:
            text = io.TextIOWrapper(io.BytesIO(stream.read()), read.get("encoding", "utf-8"), "replace", newline="")
            for _ in range(read.get("skip_rows", 0)):
                text.readline()
            rows = python_csv.reader(
                text,
                delimiter=parse.get("delimiter", ","),
                quotechar=quote or None,
                quoting=python_csv.QUOTE_MINIMAL if quote else python_csv.QUOTE_NONE,
                doublequote=bool(parse.get("double_quote", True)),
                escapechar=parse.get("escape_char") or None,
            )
            names: list[str] = list(read.get("column_names") or ())
            for row in rows:
                if not row and parse.get("ignore_empty_lines", True):
                    continue
                if not names:
                    names = [f"f{position}" for position in range(len(row))]
                    if not read.get("autogenerate_column_names"):
                        names = row
                        continue
                yield rows.line_num + read.get("skip_rows", 0), names, row


def _names(options: Any) -> list[str]:
    """Return the names of the options in a class of pyarrow."""
    return public_names(options, "equals", "validate")


def _readable(pa: Any, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return types that pyarrow can parse, to be cast to the wanted ones."""
    return {name: pa.float32() if pa.types.is_float16(arrow_type) else arrow_type for name, arrow_type in types.items()}


def _is_read_as(pa: Any, inferred: Any, arrow_type: Any) -> bool:
    """Return whether a column that pyarrow infers as dates or times can be read as ``arrow_type``."""
    if pa.types.is_timestamp(arrow_type):
        return bool(pa.types.is_timestamp(inferred) or pa.types.is_date(inferred))
    return bool(pa.types.is_date(inferred) if pa.types.is_date(arrow_type) else pa.types.is_time(inferred))


def _not_in_a_cell(pa: Any, arrow_type: Any) -> str:
    """Return a hint for columns whose values do not fit a cell; empty for others."""
    if pa.types.is_struct(arrow_type):
        return "a separator gives nested values columns of their own: to_csv(path, separator='.')"
    if isinstance(arrow_type, pa.BaseExtensionType) or pa.types.is_nested(arrow_type):
        return "unbind it into several, or use to_json or to_parquet"
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return "bytes are no text: decode them, or use to_parquet"
    return ""


def _advice(cell: str) -> str:
    """Return a hint for a cell that is no number: a mark of missing values, or a date."""
    if cell.strip().lower() in _NO_VALUE:
        return f"null_values={['', cell]} reads it as no value"
    if re.match(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b", cell):
        return "timestamp_parsers=['%d/%m/%Y'] reads times in another form than ISO 8601"
    return ""


def _is_time(cell: str) -> bool:
    try:
        datetime.datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _is_whole(low: int, high: int) -> Callable[[str], bool]:
    def check(cell: str) -> bool:
        try:
            return "_" not in cell and low <= int(cell) < high
        except ValueError:
            return False

    return check


#: what other programs write for a missing value, in lower case
_NO_VALUE = frozenset(("na", "n/a", "nan", "null", "none", "nil", "missing", "-", "--", "?", ".", "#n/a"))
_FLOATS = ("double", "float", "halffloat")
#: whether a cell can be read as a type; those of booleans and floating numbers depend on the options
_CHECKS: dict[str, Callable[[str], bool]] = {
    **{f"int{bits}": _is_whole(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _is_whole(0, 2**bits) for bits in (8, 16, 32, 64)},
}
