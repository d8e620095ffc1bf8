"""JSON files: a line for each row, or an array of rows; and back."""

from __future__ import annotations

import codecs
import contextlib
import datetime
import io
import json as python_json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import islice
from typing import IO, Any, cast

from torch import Tensor

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_steps import C
from tensorclass.records.fields import shown_value
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.utf8_rows import EncodingError
from tensorclass.td.delegated.arguments import TableSource, Target

from .column_names import flattened, named_items
from .file_columns import nested_types, time_types
from .file_requests import FileRequest, check_rows
from .file_sources import TableFile, byte_stream, naming_file, open_for_writing, sorted_options
from .row_batches import Batches, TableReader, iterate_file, read_file

METHODS_OF = "TableFiles"
#: names of options in pandas, and what to use instead
_OTHER_NAMES = {
    "orient": "lines=True, or an array of rows",
    "chunksize": "iter_json",
    "nrows": "iter_json",
    "convert_dates": "nothing: text stays text",
    "encoding": "UTF-8",
    "compression": "a name that ends in .gz, .bz2, .lz4 or .zst",
    "engine": "nothing: pyarrow does the work",
    "index": "nothing: there is no index",
    "double_precision": "nothing: numbers are exact",
    "force_ascii": "ensure_ascii",
}
_BLANK = re.compile(r"[ \t\r\n]*")
_COMPRESSED = re.compile(r"\.(gz|bz2|lz4|zst)$")
#: number of bytes read at once
_CHUNK = 1 << 20
#: rows of which the values say whether columns hold times
_HEAD = 64
#: number of rows written at once
_ROWS = 4096


def from_json(cls: type[C], path: TableSource, *, lines: bool | None = None, **kwargs: Any) -> C:
    """Read a JSON file: one value per column, with the number of rows as batch size.

    The file has an array of objects, one per row, or an object with a list per column. Objects inside them become
    nested collections, lists of numbers of one length further dimensions. The fields of a record decide how numbers
    are read, and which text is a date or a time; other text stays text.

    Args:
        path: the file, possibly compressed (``"rows.json.gz"``); a list or a pattern of files with the same columns; or
            an open file.
        FileKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype
        lines: the file has one row per line instead of an array of rows. By default this is so if its name ends in
            ``.jsonl`` or ``.ndjson``, possibly with ``.gz``.
        FileKwargs: columns, rename, nulls, strict
        kwargs: with one row per line, options of pyarrow's ``ReadOptions`` and ``ParseOptions``: ``block_size``,
            ``explicit_schema``, ...

    Raises:
        FileKwargs: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_json(io.BytesIO(b'[{"a": 1, "n": {"b": [2, 3]}}]'))["n", "b"]
        tensor([[2, 3]])
    """
    return read_file(JSONReader, cls, "from_json", path, {"lines": lines, **kwargs})


def iter_json(
    cls: type[C], path: TableSource, *, batch_size: int, lines: bool | None = None, **kwargs: Any
) -> Batches[C]:
    """Iterate over the rows of a JSON file in batches. The file can be larger than memory.

    Args:
        path: the files, as in :meth:`from_json`.
        FileStreamKwargs: batch_size, drop_last, device, separator, dtype
        lines: the file has one row per line instead of an array of rows, as in :meth:`from_json`.
        FileStreamKwargs: columns, rename, nulls, strict, progress, pbar, kwargs

    Returns:
        FileStreamKwargs

    Raises:
        FileStreamKwargs: ConversionError, OSError, ValueError, TypeError, ImportError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> file = io.BytesIO()
        >>> TensorDict({"x": [1, 2, 3]}, [3]).to_json(file)
        >>> _ = file.seek(0)
        >>> [batch["x"].tolist() for batch in TensorDict.iter_json(file, batch_size=2)]
        [[1, 2], [3]]
    """
    return iterate_file(JSONReader, cls, "iter_json", path, batch_size, {"lines": lines, **kwargs})


def to_json(
    data: TensorCollection, path: Target, *, separator: str | None = None, lines: bool | None = None, **kwargs: Any
) -> None:
    """Write a JSON file with one row per item of the batch.

    Nested collections become objects, further dimensions lists. Numbers are written so that reading restores them
    exactly; nan and infinities as ``NaN`` and ``Infinity``, which Python, pandas and pyarrow read; dates and times
    as text (ISO 8601). The file is written completely or not at all: if writing fails, the previous file stays.

    Args:
        written_file: path
        separator: gives nested values keys of their own, with joined names.
        lines: write one row per line instead of an array of rows; by default as in :meth:`from_json`.
        kwargs: options of ``json.JSONEncoder``: ``indent``, ``default``, ``allow_nan``, ...

    Raises:
        written_file: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> file = io.BytesIO()
        >>> TensorDict({"x": [1, 2]}, [2]).to_json(file, lines=True)
        >>> file.getvalue().decode().split()
        ['{"x":1}', '{"x":2}']
    """
    what = "to_json"
    lines = _has_lines(what, [path], lines)
    own = ("allow_nan", "default", "ensure_ascii", "indent", "separators", "sort_keys")
    given = sorted_options(what, {"write": own}, kwargs, _OTHER_NAMES, of="Python's json")["write"]
    if lines and given.get("indent") is not None:
        raise ValueError(f"{what}: a row has one line with lines=True; leave indent={given['indent']!r} out")
    made: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":"), "default": _time, **given}
    encode = python_json.JSONEncoder(**made).encode
    check_rows(data, what)
    source: Any = data if separator is None else flattened(data, separator)
    first = True
    with uninterrupted() as section, open_for_writing(what, path, compressed=True) as file, section.interruptible():
        file.write(b"" if lines else b"[")
        for start in range(0, len(source), _ROWS):
            for row in _rows_of(source[start : start + _ROWS]):
                try:
                    text = encode(row)
                except (TypeError, ValueError):
                    _check_encodes(what, row, encode)
                    raise
                file.write(((b"" if first else b",\n") + text.encode()) if not lines else text.encode() + b"\n")
                first = False
        file.write(b"" if lines else b"]\n")


def _time(value: Any) -> str:
    """Write a date or time as ISO text, which date and time fields read."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"Object of type {type_name(value)} is not JSON serializable")


def _has_lines(what: str, paths: Sequence[Any], lines: bool | None) -> bool:
    """Return whether files have one row in each line: as given, or according to their names.

    Raises:
        ValueError: the names of the files disagree.
    """
    if lines is not None:
        return lines
    names = [
        str(getattr(path, "name", "") if hasattr(path, "read") or hasattr(path, "write") else path) for path in paths
    ]
    ends = {_COMPRESSED.sub("", name).endswith((".jsonl", ".ndjson")) for name in names}
    if len(ends) > 1:
        raise ValueError(f"{what}: expected files that all have a row in each line, or none, got {names}; say lines=")
    return ends == {True}


def _rows_of(data: TensorCollection) -> list[dict[str, Any]]:
    """Return the rows of a collection as dicts."""
    columns: dict[str, list[Any]] = {}
    for key, value in named_items(data):
        try:
            columns[key] = _row_values(value)
        except EncodingError as error:
            raise error.below(key) from None
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] or [{}] * len(data)


def _row_values(value: Any) -> list[Any]:
    """Convert a value to a list with an item for each row."""
    if isinstance(value, TensorCollection) and value._is_tree():
        return _rows_of(value) if len(value._batch_size) == 1 else [_row_values(row) for row in value]
    if isinstance(value, Tensor) and value.is_nested:
        return [row.tolist() for row in value.detach().unbind()]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast("list[Any]", value.tolist())  # pyright: ignore[reportUnknownMemberType]


def _check_encodes(what: str, row: Mapping[str, Any], encode: Any) -> None:
    """Raise an error that lists the values of a row that JSON cannot hold."""
    problems = Problems(what)
    found: list[tuple[tuple[str, ...], Any]] = [((key,), value) for key, value in row.items()]
    while found:
        path, value = found.pop(0)
        if isinstance(value, dict):
            found[:0] = [((*path, key), one) for key, one in cast("dict[str, Any]", value).items()]
            continue
        try:
            encode(value)
        except (TypeError, ValueError) as error:
            problems.add(
                path, "what JSON has: numbers, text, booleans, None, and lists of them", shown_value(value), str(error)
            )
    problems.check()


# -- in ---------------------------------------------------------------------------------------------------------------


class JSONReader(TableReader[C]):
    """Reads JSON files one after another."""

    OTHER_NAMES: Mapping[str, str] = _OTHER_NAMES

    def _options(self, path: Any, own: dict[str, Any]) -> dict[str, Iterable[str]]:
        paths = cast("Sequence[Any]", path) if isinstance(path, (list, tuple)) else [path]
        self.lines: bool = _has_lines(self.request.what, paths, own.pop("lines"))
        groups: dict[str, Iterable[str]] = {
            "ReadOptions": ("block_size", "use_threads"),
            "ParseOptions": ("explicit_schema", "newlines_in_values", "unexpected_field_behavior"),
        }
        return groups if self.lines else dict.fromkeys(groups, ())

    def _infer_schema(self) -> None:
        """Choose the types of fields that the first row has."""
        pa, request = self.pa, self.request
        self.request: FileRequest = request._replace(table_options=request.table_options._replace(untyped_lists=True))
        self._schema: Any = self.given["ParseOptions"].pop("explicit_schema", None)
        if self._schema is not None:
            return
        self._schema = pa.schema([])
        for file in self.files:
            types = self._declared_types()
            if not self.lines and self._begins_with(file, b"{"):  # an object of columns
                self._schema = pa.schema([*types.items()])
                return
            with contextlib.closing(self._rows(file)) as rows:
                head = [row for _, row in islice(rows, _HEAD)]
            if head:
                sample = {name: value for row in reversed(head) for name, value in row.items() if value is not None}
                types = self._with_times(types, sample)
                self._schema = pa.schema(_fields_in_row(pa, types, head[0]))
                return

    def _with_times(self, types: Mapping[str, Any], row: Mapping[str, Any], *path: str) -> dict[str, Any]:
        """Return the types, with date and time types for fields that take these and whose text in a row parses."""
        pa, found = self.pa, dict(types)
        for name, value in row.items():
            known = found.get(name)
            if isinstance(value, str):
                fitting = time_types(pa, self.cls, self.path(*path, name))
                if (fits := next((one for one in fitting if _is_of(pa, value, one)), None)) is not None:
                    found[name] = fits
            elif isinstance(value, dict) and (known is None or pa.types.is_struct(known)):
                inner = {} if known is None else {field.name: field.type for field in known}
                if made := self._with_times(inner, cast("dict[str, Any]", value), *path, name):
                    found[name] = pa.struct([*made.items()])
        return found

    def _declared_types(self) -> dict[str, Any]:
        """Return the types of fields by column. A column can have the name of the field, or a new name."""
        table_options = self.request.table_options
        types = nested_types(self.pa, self.cls, table_options.separator)
        names = self.cls._stored_names
        if names is not None:
            types |= {key: types[name] for key, name in names.of_fields.items() if name in types and key not in types}
        old = {new: old for old, new in (table_options.rename or {}).items()}
        return {old.get(name, name): arrow_type for name, arrow_type in types.items()}

    def _begins_with(self, file: TableFile, sign: bytes) -> bool:
        with byte_stream(self.request.what, file) as stream:
            return bool(stream.read(_CHUNK).lstrip().startswith(sign))

    def table(self) -> Any:
        tables: list[Any] = []
        for file in self.files:
            with self._naming_file(file):
                tables.append(self._read_file(file))
        return self._concatenated(tables)

    def tables(self, rows: int) -> Generator[Any, None, None]:
        pa, schema = self.pa, self._schema
        for file in self.files:
            with self._naming_file(file), contextlib.closing(self._chunks(file, rows)) as chunks:
                for chunk in chunks:
                    made = self._of_lines(chunk, schema) if isinstance(chunk, bytes) else _of_rows(pa, chunk, schema)
                    # the next rows have the same types
                    schema = pa.schema([field for field in made.schema if not pa.types.is_null(field.type)])
                    yield made

    def _chunks(self, file: TableFile, rows: int) -> Generator[bytes | list[dict[str, Any]], None, None]:
        if not self.lines:
            with contextlib.closing(self._rows(file)) as found:
                while chunk := [row for _, row in islice(found, rows)]:
                    yield chunk
            return
        with byte_stream(self.request.what, file) as stream, _lines(stream) as opened:
            while lines := [*islice(opened, rows)]:
                text = b"".join(lines)
                if not text.isspace():
                    yield text

    def _read_file(self, file: TableFile) -> Any:
        with byte_stream(self.request.what, file) as stream:
            text = stream.read()
        if self.lines:
            return self._of_lines(text, self._schema)
        found = _decoded(self.request.what, file, text)
        del text  # a whole file
        if isinstance(found, dict):
            columns = _columns_of_object(cast("dict[str, Any]", found))
            return self.pa.table({name: self._column(name, items) for name, items in columns.items()})
        return _of_rows(self.pa, _checked_rows(self.request.what, file, found), self._schema)

    def _column(self, name: str, items: list[Any]) -> Any:
        index = self._schema.get_field_index(name)
        known = {} if index < 0 else {name: self._schema.field(index).type}
        first = next((item for item in items[:_HEAD] if item is not None), None)
        return _array(self.pa, items, self._with_times(known, {name: first}).get(name))

    def _of_lines(self, text: bytes, schema: Any) -> Any:
        """Parse lines. Text that looks like dates stays text, and integers stay exact."""
        pa, made = self.pa, self._parsed(text, schema)
        late = [field.with_type(_as_text(pa, field.type)) for field in made.schema if field.name not in schema.names]
        if any(field.type != made.schema.field(field.name).type for field in late):  # text that looks like dates
            made = self._parsed(text, pa.schema([*schema, *late]))
        if large := self._find_large_integers(text, self._beyond_int64(made, schema.names)):
            late = [one.with_type(large.get(one.name, one.type)) for one in late]
            made = self._parsed(text, pa.schema([*schema, *late]))
        return made

    def _find_large_integers(self, text: bytes, names: Sequence[str]) -> dict[str, Any]:
        """Find integer columns that pyarrow read as doubles because int64 is too small. Return their types."""
        if not names:
            return {}
        rows = [_row(self.request.what, line) for line in text.splitlines() if not line.isspace()]
        columns = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
        whole = {name: items for name, items in columns.items() if all(isinstance(item, int) for item in items)}
        hint = "explicit_schema with a column of doubles rounds them"
        return self._as_uint64(whole, lambda item: 0 <= item < 2**64, hint)

    def _parsed(self, text: bytes, schema: Any) -> Any:
        pa, module = self.pa, self._library("pyarrow.json")
        readable = pa.schema([field.with_type(_readable(pa, field.type)) for field in schema])
        parse = module.ParseOptions(**{**self.given["ParseOptions"], "explicit_schema": readable})
        made = module.read_json(pa.BufferReader(text), module.ReadOptions(**self.given["ReadOptions"]), parse)
        for position, field in enumerate(schema):
            if readable.field(position).type != field.type:
                at = made.schema.get_field_index(field.name)
                made = made.set_column(at, field.name, _cast(pa, made.column(at), field.type))
        return made

    # -- row by row ---------------------------------------------------------------------------------------------------

    def _rows(self, file: TableFile) -> Generator[tuple[int, dict[str, Any]], None, None]:
        """Yield each row with its line (its position in an array), parsed by Python.

        Raises:
            ValueError: a line is not JSON, or not a row.
        """
        what = self.request.what
        with byte_stream(what, file) as stream:
            if not self.lines:
                yield from enumerate(_array_items(what, file, stream))
                return
            with _lines(stream) as opened:
                for number, line in enumerate(opened, 1):
                    if not line.isspace():
                        yield number, _row(f"{what}: {file}: line {number}", line)

    def _naming_file(self, file: TableFile) -> Any:
        return naming_file(self.request.what, file, lambda _: self._locate_error(file))

    def _locate_error(self, file: TableFile) -> None:
        """Raise an error that locates what is wrong. Python reads the file again for this.

        Raises:
            ValueError: a line is not JSON.
            ConversionError: values do not have the type of their column.
        """
        problems = Problems(self.request.options.what)
        seen: dict[str, tuple[str, int]] = {}
        types = {field.name: field.type for field in self._schema}
        for number, row in self._rows(file):
            place = f"in {'line' if self.lines else 'row'} {number} of {file}"
            for key, value in row.items():
                path = self.path(key)
                if value is None or problems.covers(path):
                    continue
                json_type, known = _json_type(value), types.get(key)
                if known is not None:
                    if not _is_of(self.pa, value, known):
                        problems.add(path, str(known), f"{shown_value(value)} {place}")
                elif seen.setdefault(key, (json_type, number))[0] != json_type:
                    before, there = seen[key]
                    problems.add(path, f"{before}, as in {there}", f"{shown_value(value)} {place}")
        problems.check()


@contextlib.contextmanager
def _lines(stream: Any) -> Generator[io.BufferedReader, None, None]:
    """Iterate over the lines of a stream without closing it."""
    lines = io.BufferedReader(stream)
    try:
        yield lines
    finally:
        lines.detach()


def _row(place: str, line: bytes) -> dict[str, Any]:
    """Parse the row in a line."""
    try:
        row: Any = python_json.loads(line)
    except python_json.JSONDecodeError as error:
        raise ValueError(f"{place}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    if not isinstance(row, dict):
        hint = "; lines=False reads an array of rows" if isinstance(row, list) else ""
        raise ValueError(f"{place}: expected an object with a value for each column, got {_json_type(row)}{hint}")
    return cast("dict[str, Any]", row)


def _array_items(what: str, file: TableFile, stream: IO[bytes]) -> Generator[dict[str, Any], None, None]:
    """Yield the items of an array while the text is read; only a part of it is in memory.

    The decoder of ``json`` parses each item. No parser here reads arrays piece by piece: ``json.load`` needs all of the
    text, pyarrow reads lines only.
    """
    decode = python_json.JSONDecoder().raw_decode
    text, lines, ended, started = "", 0, False, False
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()

    def broken(message: str, at: int = 0) -> ValueError:
        line = lines + text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) if "\n" in text[:at] else -1)
        return ValueError(f"{what}: {printable(file)}: line {line}, column {column}: {message}")

    at = 0
    while True:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
        if at < len(text):
            if not started:
                if text[at] != "[":
                    raise broken("expected an array of rows; lines=True reads a row for each line", at)
                started, at = True, at + 1
                continue
            if text[at] == "]":
                return
            if text[at] == ",":
                at += 1
                continue
            try:
                item, end = decode(text, at)
            except python_json.JSONDecodeError as error:
                if ended:
                    raise broken(error.msg, error.pos) from None
            else:
                if end < len(text) or ended:  # a number at the end of the text may continue
                    yield _checked_rows(what, file, [item])[0]
                    at = end
                    continue
        if ended:
            raise broken("the array does not end", len(text))
        chunk = stream.read(_CHUNK)
        ended = not chunk
        lines += text.count("\n", 0, at)
        try:
            text, at = text[at:] + utf8.decode(chunk, ended), 0
        except UnicodeDecodeError as error:
            raise ValueError(f"{what}: {printable(file)}: {error}") from None


def _decoded(what: str, file: TableFile, text: bytes) -> Any:
    """Parse a whole file."""
    try:
        return python_json.loads(text)
    except python_json.JSONDecodeError as error:
        hint = "; lines=True reads a row for each line" if error.msg == "Extra data" else ""
        raise ValueError(
            f"{what}: {printable(file)}: line {error.lineno}, column {error.colno}: {error.msg}{hint}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{what}: {printable(file)}: {error}") from None


def _checked_rows(what: str, file: TableFile, found: Any) -> list[dict[str, Any]]:
    rows = cast("list[object]", found) if isinstance(found, list) else [found]
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError(
                f"{what}: {printable(file)}: expected an array of objects with a value for each column, got "
                f"{shown_value(row)} in it"
            )
    return cast("list[dict[str, Any]]", rows)


def _columns_of_object(found: dict[str, Any]) -> dict[str, list[Any]]:
    """Convert columns as pandas writes them, ``{"a": {"0": 1, "1": 2}}`` or ``{"a": [1, 2]}``, to lists."""
    return {
        name: [*cast("dict[str, Any]", items).values()] if isinstance(items, dict) else items
        for name, items in found.items()
    }


def _of_rows(pa: Any, rows: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    names = [*dict.fromkeys([name for row in rows for name in row])]
    known = {field.name: field.type for field in schema}
    return pa.table({name: _array(pa, [row.get(name) for row in rows], known.get(name)) for name in names})


def _array(pa: Any, items: list[Any], arrow_type: Any) -> Any:
    """Make an array of values, of a type or of the type that Arrow infers."""
    is_struct = arrow_type is not None and pa.types.is_struct(arrow_type)
    if is_struct and all(isinstance(item, dict | None) for item in items):
        return _struct_array(pa, items, arrow_type)
    if arrow_type is not None:
        return _cast(pa, pa.array(items, _readable(pa, arrow_type)), arrow_type)
    try:
        return pa.array(items)
    except OverflowError:  # larger than int64
        return pa.array(items, pa.uint64())


def _struct_array(pa: Any, items: Sequence[dict[str, Any] | None], arrow_type: Any) -> Any:
    """Make an array of structs. Arrow infers the types of fields that the type lacks."""
    known = {field.name: field.type for field in arrow_type}
    names = [*dict.fromkeys([*known, *[name for item in items if item is not None for name in item]])]
    if not names:
        return pa.array(items, arrow_type)
    columns = [
        _array(pa, [None if item is None else item.get(name) for item in items], known.get(name)) for name in names
    ]
    return pa.StructArray.from_arrays(columns, names, mask=pa.array([item is None for item in items], pa.bool_()))


def _cast(pa: Any, column: Any, arrow_type: Any) -> Any:
    """Cast a column from the type it was read as. Times with a zone become UTC."""
    if column.type == arrow_type:
        return column
    if pa.types.is_struct(arrow_type):  # a type that was chosen for some of its fields
        fields = {field.name: field for field in column.type} | {field.name: field for field in arrow_type}
        arrow_type = pa.struct([*fields.values()])
    if pa.types.is_time(arrow_type):  # Arrow casts no text to times of the day
        texts: list[str | None] = column.to_pylist()
        times = [None if text is None else datetime.time.fromisoformat(text) for text in texts]
        return pa.array(times, arrow_type)
    try:
        return column.cast(arrow_type)
    except pa.ArrowInvalid:

        def in_utc(one: Any) -> Any:
            return pa.timestamp(one.unit, "UTC") if pa.types.is_timestamp(one) else one

        with_zone = _map_types(pa, arrow_type, in_utc)
        if with_zone == arrow_type:
            raise
        with contextlib.suppress(pa.ArrowInvalid):  # the zone is not the mistake
            return column.cast(with_zone)
        raise


def _fields_in_row(pa: Any, types: Mapping[str, Any], row: Mapping[str, Any]) -> list[Any]:
    """Return the types of the fields that are in a row."""
    fields: list[Any] = []
    for name, arrow_type in types.items():
        value = row.get(name)
        if name in row and pa.types.is_struct(arrow_type) and isinstance(value, Mapping):
            inner = {field.name: field.type for field in arrow_type}
            fields.append(pa.field(name, pa.struct(_fields_in_row(pa, inner, cast("Mapping[str, Any]", value)))))
        elif name in row and not pa.types.is_struct(arrow_type):
            fields.append(pa.field(name, arrow_type))
    return fields


def _map_types(pa: Any, arrow_type: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to the types of all leaves of a nested type."""
    types = pa.types
    if types.is_struct(arrow_type):
        return pa.struct([field.with_type(_map_types(pa, field.type, change)) for field in arrow_type])
    if types.is_list(arrow_type):
        return pa.list_(arrow_type.value_field.with_type(_map_types(pa, arrow_type.value_type, change)))
    return change(arrow_type)


def _as_text(pa: Any, arrow_type: Any) -> Any:
    return _map_types(pa, arrow_type, lambda one: pa.string() if pa.types.is_temporal(one) else one)


def _readable(pa: Any, arrow_type: Any) -> Any:
    """Return the type that JSON has for a type: dates and times are text."""
    return _as_text(pa, _map_types(pa, arrow_type, lambda one: pa.float32() if pa.types.is_float16(one) else one))


def _is_of(pa: Any, value: Any, arrow_type: Any) -> bool:
    try:
        _array(pa, [value], arrow_type)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return False
    return True


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    names: dict[Any, str] = {str: "text", list: "a list", dict: "an object"}
    return names.get(value.__class__, "null")
