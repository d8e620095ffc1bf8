"""JSON Lines as a stream: one row at a time, with its line number, and an error that names the line."""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase, BufferedReader, FileIO
from pathlib import Path
from typing import Any, TypeAlias, cast

from tensorclass.scores.score_errors import ScoreFileError, require
from tensorclass.support.interrupts import uninterrupted

__all__ = ["LONGEST_LINE", "OnProgress", "Row", "json_rows"]

Row: TypeAlias = dict[str, Any]

OnProgress: TypeAlias = Callable[[int], None]
"""Called now and then with the number of bytes of the file (as it lies on disk) that have been read."""

LONGEST_LINE = 256 * 1024 * 1024
"""A line of more bytes is an error rather than a reason to run out of memory."""

_ROWS_A_REPORT = 1024
_BUFFER = 1024 * 1024


def json_rows(path: str | Path, on_progress: OnProgress | None = None) -> Iterator[tuple[int, Row]]:
    """The objects of a JSON Lines file, one at a time, each with its line number (from 1).

    Empty lines are skipped. A gzip file is read through, whatever its name. NaN, Infinity and lone surrogates, which
    Python's ``json`` writes, are read as Python's ``json`` reads them.

    Raises:
        ScoreFileError: the file is missing, is a folder or can't be read; a line is not JSON, is cut off, or is
            something else than an object.
        MissingExtraError: orjson is not installed.
    """
    loads = cast("Callable[[bytes], object]", require("orjson", "reading score files").loads)
    name = str(path)
    number = 0
    with _opened(path) as (stream, raw):
        lines = iter(partial(stream.readline, LONGEST_LINE), b"")
        while True:
            number += 1
            try:
                line = next(lines, None)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ScoreFileError(
                    name, number, f"the compressed file is cut off or damaged here ({error}); make it again"
                ) from None
            except OSError as error:
                raise ScoreFileError(name, number, f"can't be read: {error.strerror or error}") from None
            if line is None:
                break
            try:
                row = loads(line)
            except ValueError:
                if line.isspace():
                    continue
                row = _leniently(name, number, line)
            if type(row) is not dict:
                raise ScoreFileError(name, number, f"expected a JSON object on each line, got {_kind(row)}")
            if on_progress is not None and number % _ROWS_A_REPORT == 0:
                on_progress(raw.tell())
            yield number, cast("Row", row)
        if on_progress is not None:
            on_progress(raw.tell())


@contextmanager
def _opened(path: str | Path) -> Generator[tuple[BufferedIOBase, BufferedIOBase], None, None]:
    """The file's (decompressed) bytes, and the file itself for its position."""
    with uninterrupted() as section:
        # Opened below, where Ctrl-C works: a pipe that nobody writes to blocks. Until then, closing does nothing.
        file = FileIO.__new__(FileIO)
        try:
            with section.interruptible():
                try:
                    FileIO.__init__(file, path)
                except OSError as error:
                    raise ScoreFileError(str(path), None, _problem(error)) from None
                mode = os.fstat(file.fileno()).st_mode  # a pipe is fine, as of `<(zcat samples.jsonl.gz)`
                if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty()):
                    raise ScoreFileError(str(path), None, "is a device; give a file with one JSON object on each line")
                raw = BufferedReader(file, _BUFFER)
                if raw.peek(2)[:2] == b"\x1f\x8b":
                    with gzip.GzipFile(fileobj=raw) as stream:
                        yield stream, raw
                else:
                    yield raw, raw
        finally:
            file.close()


def _leniently(name: str, number: int, line: bytes) -> object:
    """Parse a line that orjson refuses with Python's json, or say what is wrong with it."""
    if number == 1 and line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    try:
        return json.loads(line.decode())
    except RecursionError:
        raise ScoreFileError(name, number, "not a score: nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ScoreFileError(
            name, number, f"not JSON: not UTF-8 at byte {error.start + 1}; expected one JSON object on each line"
        ) from None
    except json.JSONDecodeError as error:
        if len(line) == LONGEST_LINE:
            raise ScoreFileError(
                name, number, f"longer than {LONGEST_LINE >> 20} MiB; expected one JSON object on each line"
            ) from None
        if not line.endswith(b"\n") and line.lstrip()[:1] == b"{":
            raise ScoreFileError(
                name, number, "the line is cut off: the file ends inside it; write the file again or drop this line"
            ) from None
        if number == 1 and line.strip() in (b"{", b"["):
            raise ScoreFileError(
                name,
                number,
                "JSON over several lines; expected one JSON object on each line: give a log of samples "
                "(samples_*.jsonl), not a summary (results_*.json)",
            ) from None
        raise ScoreFileError(
            name,
            number,
            f"not JSON at column {error.colno}: {error.msg}; expected one JSON object on each line",
        ) from None


def _problem(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder; give the .jsonl files in it"
    return f"can't be opened: {error.strerror or error}"


def _kind(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a verdict"}
    return names.get(type(value), "null")
