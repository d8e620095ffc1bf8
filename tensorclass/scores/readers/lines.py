"""JSON Lines as a stream: one row at a time, with its line number, and an error that names the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedIOBase
from itertools import count
from json import JSONDecodeError
from pathlib import Path
from typing import Any, TypeAlias, cast

from tensorclass.scores.readers.json_document import json_of_file, json_problem, python_json
from tensorclass.scores.readers.log_sizes import LONGEST_LINE, raised, too_large
from tensorclass.scores.readers.unpacked_file import BROKEN, broken, opened
from tensorclass.scores.score_errors import ScoreFileError, require

__all__ = ["OnProgress", "Row", "json_rows", "rows_of_array", "rows_of_lines"]

Row: TypeAlias = dict[str, Any]

OnProgress: TypeAlias = Callable[[int], None]
"""Called now and then with the number of bytes of the file (as it lies on disk) that have been read."""

_ROWS_A_REPORT = 1024


def json_rows(
    path: str | Path, on_progress: OnProgress | None = None, name: str | None = None
) -> Iterator[tuple[int, Row]]:
    """The objects of a JSON Lines file, one at a time, each with its line number (from 1).

    Empty lines are skipped. A compressed file is decompressed, whatever its name. NaN, Infinity and lone surrogates,
    which Python's ``json`` writes, are read as Python's ``json`` reads them.

    Args:
        path: the file.
        on_progress: called with the bytes read so far.
        name: the name of the file in errors; by default its path.

    Raises:
        ScoreFileError: the file is missing, is a folder or can't be read; a line is not JSON, is cut off, or is
            something else than an object.
        MissingExtraError: orjson is not installed.
    """
    name = str(path) if name is None else name
    with opened(path, name) as (stream, raw):
        for number, row in rows_of_lines(name, stream):
            if on_progress is not None and number % _ROWS_A_REPORT == 0:
                on_progress(raw.tell())
            yield number, row
        if on_progress is not None:
            on_progress(raw.tell())


def rows_of_lines(name: str, stream: BufferedIOBase, first: int = 1) -> Iterator[tuple[int, Row]]:
    """The objects in the lines of a stream; see :func:`json_rows`.

    Args:
        name: the file, for errors.
        stream: the lines.
        first: the number of the first line.
    """
    loads = cast("Callable[[bytes], object]", require("orjson", "reading score files").loads)
    longest = raised(LONGEST_LINE)
    lines = iter(partial(stream.readline, longest), b"")
    for number in count(first):
        try:
            line = next(lines, None)
        except BROKEN as error:
            raise broken(name, number, error) from None
        if line is None:
            return
        try:
            row = loads(line)
        except ValueError:
            if line.isspace():
                continue
            row = _leniently(name, number, line, longest)
        yield number, _object(name, number, row)


def rows_of_array(name: str, data: bytes) -> Iterator[tuple[int, Row]]:
    """The objects of a JSON array, each with its number in the array, from 1.

    Args:
        name: the file, for errors.
        data: the array.

    Raises:
        ScoreFileError: it is not JSON, or holds something else than objects.
    """
    found = json_of_file(data, name)
    for number, row in enumerate(cast("list[object]", found), 1):
        yield number, _object(name, number, row)


def _object(name: str, number: int, row: object) -> Row:
    if type(row) is not dict:
        raise ScoreFileError(name, number, f"expected a JSON object on each line, got {_kind(row)}")
    return cast("Row", row)


def _leniently(name: str, number: int, line: bytes, longest: int) -> object:
    """Parse a line that orjson refuses with Python's json, or say what is wrong with it."""
    if len(line) == longest:
        raise too_large(name, number, f"a line of {longest:,} bytes or more; expected one JSON object on each line")
    try:
        return python_json(line)
    except (ValueError, RecursionError) as error:
        if isinstance(error, JSONDecodeError) and not line.endswith(b"\n") and line.lstrip()[:1] == b"{":
            problem = "the line is cut off: the file ends inside it; write the file again or drop this line"
            raise ScoreFileError(name, number, problem) from None
        if number == 1 and line.strip() in (b"{", b"["):
            expected = "one JSON object on each line: give a log of samples (samples_*.jsonl)"
            problem = f"JSON over several lines; expected {expected}, not a summary (results_*.json)"
            raise ScoreFileError(name, number, problem) from None
        raise ScoreFileError(name, number, f"{json_problem(error)}; expected one JSON object on each line") from None


def _kind(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a verdict"}
    return names.get(type(value), "null")
