"""CSV files, whole and in batches, and back.

As in pyarrow's files, an empty cell without quotes is a null, and a quoted empty cell an empty text.
"""

from __future__ import annotations

import csv as python_csv
import datetime
import io
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_options import BatchSize, NullMode
from tensorclass.convert.conversion_steps import C
from tensorclass.records.record import TensorClass
from tensorclass.support.extras import require
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import class_name, printable
from tensorclass.support.progress import progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .file_columns import chosen_columns, column_types, is_beyond_int64, kept_columns, optional_text, time_types
from .file_requests import FileRequest, check_rows, flat_table
from .file_sources import EXTRA, PyarrowOptions, TableFile, byte_stream, naming_file, open_for_writing, table_files
from .row_batches import Batches, TableReader

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


def from_csv(
    cls: type[C],
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    nulls: NullMode = "default",
    strict: bool = True,
    **kwargs: Any,
) -> C:
    """See :meth:`TensorDict.from_csv`."""
    request = FileRequest.of(
        f"{class_name(cls)}.from_csv", auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
        batch_size=batch_size, separator=separator, dtype=dtype, rename=rename, nulls=nulls, strict=strict,
    )  # fmt: skip
    reader = CSVReader(cls, path, request, columns, kwargs)
    return reader.request.collection(cls, reader.table())


def iter_csv(
    cls: type[C],
    path: Any,
    *,
    batch_size: int,
    drop_last: bool = False,
    device: DeviceLike | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    nulls: NullMode = "default",
    strict: bool = True,
    progress: bool | None = None,
    pbar: bool | None = None,
    **kwargs: Any,
) -> Batches[C]:
    """See :meth:`TensorDict.iter_csv`."""
    progress = progress_of("iter_csv", progress, pbar)
    what = f"{class_name(cls)}.iter_csv"
    request = FileRequest.of(
        what, device=device, separator=separator, dtype=dtype, rename=rename, nulls=nulls, strict=strict
    )
    return Batches(CSVReader(cls, path, request, columns, kwargs), batch_size, drop_last, progress)


def to_csv(data: TensorCollection, path: Any, *, separator: str | None = None, **kwargs: Any) -> None:
    """See :meth:`TensorDict.to_csv`."""
    what = "to_csv"
    pa, module = require("pyarrow", EXTRA, what), require("pyarrow.csv", EXTRA, what)
    own = _names(module.WriteOptions)
    given = PyarrowOptions(what, {"write": own}, _OTHER_NAMES).sorted(kwargs)["write"]
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
    table = table.cast(pa.schema([(field.name, _written_as(pa, field.type)) for field in table.schema]))
    with (
        uninterrupted() as section,
        open_for_writing(what, path, compressed=True) as file,
        naming_file(what, TableFile(str(path))),
        section.interruptible(),
    ):
        module.write_csv(table, file, module.WriteOptions(**given))


class CSVReader(TableReader[C]):
    """Reads CSV files with the same columns one after another."""

    def __init__(
        self,
        cls: type[C],
        path: Any,
        request: FileRequest,
        columns: Sequence[str] | None,
        pyarrow_options: Mapping[str, Any],
    ) -> None:
        what = request.what
        module: Any = require("pyarrow.csv", EXTRA, what)
        self._pyarrow_options = PyarrowOptions(
            what, {name: _names(getattr(module, name)) for name in _GROUPS}, _OTHER_NAMES
        ).sorted(pyarrow_options)
        self._set_files(cls, request, table_files(what, path))
        self._types: dict[str, Any] = {}
        self._infer_schema(columns)

    def _infer_schema(self, columns: Sequence[str] | None) -> None:
        """Infer the columns and their types from the first rows."""
        pa, pc = require("pyarrow", EXTRA, self.request.what), require("pyarrow.csv", EXTRA, self.request.what)
        convert: dict[str, Any] = {
            "null_values": [""],
            "strings_can_be_null": True,
            "quoted_strings_can_be_null": False,
        }
        self._convert = {**convert, **self._pyarrow_options["ConvertOptions"]}
        self._column_types: dict[str, Any] = dict(self._convert.pop("column_types", None) or {})
        names: list[str] = []
        temporal: dict[str, Any] = {}
        for file in self.files:
            with (
                naming_file(self.request.what, file, partial(self._locate_error, file)),
                byte_stream(self.request.what, file) as stream,
            ):
                head = pc.open_csv(stream, *self._settings({}))
                with head:
                    schema = head.schema
            if not names:
                names = schema.names
                temporal = {one.name: one.type for one in schema if pa.types.is_temporal(one.type)}
            elif schema.names != names:
                raise ValueError(
                    f"{self.request.what}: {printable(file)}: expected the columns {names} of "
                    f"{printable(self.files[0])}, got {schema.names}"
                )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{self.request.what}: {self.files[0]}: several columns have the names {twice}")
        self._check_delimiter(names)
        problems = self.request.options.problems
        read = chosen_columns(self.request.what, names, columns, problems)
        paths = {path: name for (name,), path in self.paths([(name,) for name in read]).items()}
        kept = kept_columns(self.cls, paths, problems, self.request.options.strict)
        problems.check()
        types = {name: pa.string() for name in temporal if "timestamp_parsers" not in self._convert}
        types.update({paths[path]: arrow_type for path, arrow_type in column_types(pa, self.cls, kept).items()})
        times = {name: self._time_type(pa, name, arrow_type) for name, arrow_type in temporal.items()}
        types.update({name: arrow_type for name, arrow_type in times.items() if arrow_type is not None})
        for name, inferred in temporal.items():
            if name in types and pa.types.is_timestamp(types[name]) and getattr(inferred, "tz", None):
                types[name] = pa.timestamp(types[name].unit, "UTC")
        self._types = {**types, **self._column_types}
        if len(kept) < len(names) and "include_columns" not in self._convert:
            self._convert["include_columns"] = [name for path, name in paths.items() if path in kept]

    def _time_type(self, pa: Any, name: str, inferred: Any) -> Any:
        """Return the type of a column for which pyarrow infers dates or times; ``None`` if its field takes none."""
        fitting = time_types(pa, self.cls, self.path(name))
        return next((one for one in fitting if _is_read_as(pa, inferred, one)), inferred) if fitting else None

    def _check_delimiter(self, names: Sequence[str]) -> None:
        """Raise if the only column of a record seems to be several, with another delimiter."""
        if len(names) == 1 and issubclass(self.cls, TensorClass) and names[0] not in self.cls._specs:
            for delimiter in (";", "\t", "|"):
                if delimiter in names[0] and "delimiter" not in self._pyarrow_options["ParseOptions"]:
                    raise ValueError(
                        f"{self.request.what}: {printable(self.files[0])}: expected columns for the fields "
                        f"{list(self.cls._specs)}, got the one column {names[0]!r}; give delimiter={delimiter!r}"
                    )

    def _settings(self, types: Mapping[str, Any], **read: Any) -> tuple[Any, Any, Any]:
        """Return the options of pyarrow, with column types."""
        pc: Any = require("pyarrow.csv", EXTRA, self.request.what)
        return (
            pc.ReadOptions(**{**self._pyarrow_options["ReadOptions"], **read}),
            pc.ParseOptions(**self._pyarrow_options["ParseOptions"]),
            pc.ConvertOptions(**{**self._convert, "column_types": {**self._column_types, **types}}),
        )

    def table(self) -> Any:
        pa, pc = require("pyarrow", EXTRA, self.request.what), require("pyarrow.csv", EXTRA, self.request.what)
        types, tables = dict(self._types), list[Any]()
        for file in self.files:
            with self._naming_file(file):
                made = self._read(pc, file, types)
                late = {
                    one.name: self._time_type(pa, one.name, one.type) or pa.string()
                    for one in made.schema
                    if self._is_late_date(pa, one, types)
                }
                if late:  # dates that begin after the first rows
                    types.update(late)
                    made = self._read(pc, file, types)
                if large := self._find_large_integers(pa, pc, file, made, types):  # integers too large for int64
                    types.update(large)
                    made = self._read(pc, file, types)
            tables.append(made)
        if len(tables) > 1:
            tables = [self._concatenate(pa, tables)]
        return self._cast_to_fields(pa, tables[0])

    def tables(self, rows: int) -> Generator[Any, None, None]:
        pa, pc = require("pyarrow", EXTRA, self.request.what), require("pyarrow.csv", EXTRA, self.request.what)
        types = dict(self._types)
        for file in self.files:
            with (
                self._naming_file(file),
                byte_stream(self.request.what, file) as stream,
                pc.open_csv(stream, *self._settings(_readable(pa, types))) as opened,
            ):
                # the first file sets the types of all
                types = {**{one.name: one.type for one in opened.schema}, **types}
                for batch in opened:
                    yield self._cast_to_fields(pa, pa.Table.from_batches([batch]))

    def _read(self, pc: Any, file: TableFile, types: Mapping[str, Any]) -> Any:
        with byte_stream(self.request.what, file) as stream:
            return pc.read_csv(stream, *self._settings(_readable(require("pyarrow", EXTRA, "from_csv"), types)))

    def _find_large_integers(
        self, pa: Any, pc: Any, file: TableFile, table: Any, types: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Find integer columns that pyarrow read as doubles because int64 is too small. Return their types.

        Raises:
            ConversionError: not all values fit uint64.
        """
        doubles = [one.name for one in table.schema if one.type == pa.float64() and one.name not in types]
        names = [name for name in doubles if is_beyond_int64(table.column(name))]
        if not names or (
            self.request.table_options.dtype is not None and self.request.table_options.dtype.is_floating_point
        ):
            return {}
        texts = self._read(pc, file, {**types, **dict.fromkeys(names, pa.string())})
        problems, large = Problems(self.request.options.what), dict[str, Any]()
        check = _CHECKS["uint64"]
        for name in names:
            cells: list[str] = [cell for cell in texts.column(name).to_pylist() if cell]
            if all(re.fullmatch(r"\s*-?\d+\s*", cell) for cell in cells):
                large[name] = pa.uint64()
                outside = next((cell for cell in cells if not check(cell)), None)
                if outside is not None:
                    hint = f"column_types={{{name!r}: pyarrow.float64()}} rounds them"
                    problems.add(self.path(name), "integers from 0 to 2**64 - 1", f"{outside} in {file}", hint)
        problems.check()
        return large

    def _is_late_date(self, pa: Any, field: Any, types: Mapping[str, Any]) -> bool:
        """Return whether dates were inferred only after the first rows."""
        known = field.name in types or "timestamp_parsers" in self._convert
        return pa.types.is_temporal(field.type) and not known

    def _concatenate(self, pa: Any, tables: list[Any]) -> Any:
        """Concatenate the tables of several files, and promote types: integers in one file, doubles in the next."""
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(
                f"{self.request.what}: the columns of {len(tables)} files have different types: {error}; give "
                "column_types"
            ) from None

    def _cast_to_fields(self, pa: Any, table: Any) -> Any:
        """Cast columns to the types of the fields. Missing text becomes empty text if the field has nothing else for
        it.
        """
        for position, field in enumerate(table.schema):
            column, arrow_type = table.column(position), self._types.get(field.name, field.type)
            is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
            if self.request.table_options.nulls == "default" and is_text and column.null_count:
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
        pa = require("pyarrow", EXTRA, self.request.what)
        problems = Problems(self.request.options.what)
        checks, missing = self._checks()
        times: list[tuple[tuple[str, ...], str, str]] = []  #: cells in columns that could hold times alone
        named_cell = re.search(
            r"In CSV column #(\d+): .*conversion error to (\w+).*: invalid value '(.*)'", str(error), re.S
        )
        for line, names, row in self._rows(file):
            if len(row) != len(names):
                return f"line {line}: expected {_cells(len(names))}, got {len(row)}"
            for position, (name, cell) in enumerate(zip(names, row, strict=True)):
                path, check = self.path(name), checks.get(name)
                if cell in missing or problems.covers(path):
                    continue
                if check is not None and not check(cell):
                    if _is_time(cell) and time_types(pa, self.cls, path):
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
        read, parse = self._pyarrow_options["ReadOptions"], self._pyarrow_options["ParseOptions"]
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
    """Return the names of the options in a pyarrow options class."""
    return [name for name in dir(options) if not name.startswith("_") and name not in ("equals", "validate")]


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _readable(pa: Any, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return types that pyarrow can parse, to be cast to the wanted ones."""
    return {name: pa.float32() if pa.types.is_float16(arrow_type) else arrow_type for name, arrow_type in types.items()}


def _is_read_as(pa: Any, inferred: Any, arrow_type: Any) -> bool:
    """Return whether cells for which pyarrow infers a type of times can be read as another one."""
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


def _written_as(pa: Any, arrow_type: Any) -> Any:
    """Return the type of a column in the file: dictionaries are decoded."""
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


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
