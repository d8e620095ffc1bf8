"""The start of a file, by which its format is recognised."""

from __future__ import annotations

import json
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Final, cast

from tensorclass.scores.readers.json_document import BOM, outer_keys, python_json
from tensorclass.scores.readers.lines import OnProgress, Row, json_rows, rows_of_array
from tensorclass.scores.readers.log_sizes import LONGEST_LINE, raised
from tensorclass.scores.readers.parquet_file import ParquetRows
from tensorclass.scores.readers.unpacked_file import (
    BROKEN,
    PACKED,
    STANDARD_INPUT,
    copied,
    is_stream,
    opened,
    read_whole,
)
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError

__all__ = ["START", "FileHead"]

START: Final[int] = 64 * 1024
"""The most bytes that :attr:`FileHead.start` holds."""


@dataclass(frozen=True, eq=False)
class FileHead:
    """A file whose format is not known yet: its name and its first bytes. Made by :meth:`of`.

    Attributes:
        path: the file, as the caller named it.
        name: the name of the file without its folder, and without ``.gz``, ``.bz2`` or ``.zst``.
        start: the first 64 KiB, decompressed.

    Example:
        >>> import pathlib, tempfile
        >>> from tensorclass.scores import FileHead
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "log.jsonl")
        ...     _ = file.write_text('{"question": 1, "right": true}\\n')
        ...     head = FileHead.of(file)
        ...     head.name, head.first_row, head.is_zip
        ('log.jsonl', {'question': 1, 'right': True}, False)
    """

    path: Path
    name: str
    start: bytes
    _copy: IO[bytes] | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if self._copy is not None:
            weakref.finalize(self, self._copy.close)

    @classmethod
    def of(cls, path: str | Path) -> FileHead:
        """Read the head of a file.

        Args:
            path: the file; ``-`` is the standard input. A pipe, and the standard input, is copied to a temporary
                file, which lives as long as the head.

        Raises:
            ScoreFileError: the file is missing, a folder or a device, or can't be opened.

        Example:
            >>> import pathlib, tempfile
            >>> from tensorclass.scores import FileHead
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "log.csv.gz")
            ...     _ = file.write_bytes(b"id,right\\n1,0\\n")
            ...     FileHead.of(file).start
            b'id,right\\n1,0\\n'
        """
        path = Path(path)
        copy = copied(path) if is_stream(path) else None
        try:
            with opened(path if copy is None else copy.name, str(path)) as (stream, _):
                start = _first_bytes(stream)
        except BaseException:
            if copy is not None:
                copy.close()
            raise
        name = "stdin" if str(path) == STANDARD_INPUT else path.name
        stem, dot, suffix = name.rpartition(".")
        return cls(path, stem if dot and f".{suffix}" in PACKED and stem else name, start, _copy=copy)

    @property
    def location(self) -> Path:
        """The path of the file's bytes: its own, or that of the copy of a pipe.

        Example:
            >>> import pathlib, tempfile
            >>> from tensorclass.scores import FileHead
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "log.csv")
            ...     _ = file.write_text("id,right\\n")
            ...     FileHead.of(file).location == file
            True
        """
        return self.path if self._copy is None else Path(self._copy.name)

    @property
    def can_be_read_again(self) -> bool:
        """True unless the file is a pipe or the standard input, whose bytes are gone later.

        Example:
            >>> import pathlib
            >>> from tensorclass.scores import FileHead
            >>> FileHead(pathlib.Path("log.csv"), "log.csv", b"id,right").can_be_read_again
            True
        """
        return self._copy is None

    @property
    def is_zip(self) -> bool:
        """True for a zip archive, by its first bytes.

        Example:
            >>> import pathlib
            >>> from tensorclass.scores import FileHead
            >>> FileHead(pathlib.Path("log.eval"), "log.eval", b"PK\\x03\\x04").is_zip
            True
        """
        return self.start.startswith((b"PK\x03\x04", b"PK\x05\x06"))

    @property
    def is_parquet(self) -> bool:
        """True for a Parquet file, by its first bytes.

        Example:
            >>> import pathlib
            >>> from tensorclass.scores import FileHead
            >>> FileHead(pathlib.Path("details.parquet"), "details.parquet", b"PAR1").is_parquet
            True
        """
        return self.start.startswith(b"PAR1")

    @cached_property
    def first_row(self) -> Row | None:
        """The first object of a JSON Lines file or of a JSON array of objects, or row of a Parquet file; else None.

        A JSON document over several lines has no rows: look at :attr:`keys`. A Parquet file has none, either, if
        pyarrow is not installed.

        Example:
            >>> import pathlib, tempfile
            >>> from tensorclass.scores import FileHead
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "annotations.json")
            ...     _ = file.write_text('[\\n  {"preference": 1.0},\\n  {"preference": 2.0}\\n]')
            ...     FileHead.of(file).first_row
            {'preference': 1.0}
        """
        start = self._stripped
        if self.is_parquet:
            return self._first_of_parquet()
        if start[:1] == b"{":
            return self._first_line()
        return self._first_of_array() if start[:1] == b"[" else None

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of a JSON document, an object over one or several lines, as far as :attr:`start` shows them.

        Example:
            >>> import pathlib
            >>> from tensorclass.scores import FileHead
            >>> start = b'{"status": "success",\\n "eval": {"task": "arc"}, "samples": ['
            >>> sorted(FileHead(pathlib.Path("log.json"), "log.json", start).keys)
            ['eval', 'samples', 'status']
        """
        start = self._stripped
        return outer_keys(start) if start[:1] == b"{" else frozenset()

    @property
    def is_array(self) -> bool:
        """True for a JSON array of objects.

        Example:
            >>> import pathlib, tempfile
            >>> from tensorclass.scores import FileHead
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "annotations.json")
            ...     _ = file.write_text('[{"preference": 1.0}]')
            ...     FileHead.of(file).is_array
            True
        """
        return self._stripped[:1] == b"[" and self.first_row is not None

    @contextmanager
    def open(self) -> Generator[BufferedIOBase, None, None]:
        """Open the file for reading its decompressed bytes from the start.

        Raises:
            ScoreFileError: the file can't be opened.

        Example:
            >>> import gzip, pathlib, tempfile
            >>> from tensorclass.scores import FileHead
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "log.csv.gz")
            ...     _ = file.write_bytes(gzip.compress(b"id,right"))
            ...     with FileHead.of(file).open() as stream:
            ...         stream.read()
            b'id,right'
        """
        with opened(self.location, str(self.path)) as (stream, _):
            yield stream

    def rows(self, on_progress: OnProgress | None = None) -> Iterator[tuple[int, Row]]:
        """Yield the objects of a JSON Lines file, one at a time, each with its line number (from 1).

        A JSON array of objects is read at once; its objects are numbered from 1, as are the rows of a Parquet file.

        Args:
            on_progress: called with the bytes read so far.

        Raises:
            ScoreFileError: a line is not JSON, is cut off, or is something else than an object.

        Example:
            >>> import pathlib, tempfile
            >>> from tensorclass.scores import FileHead
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "log.jsonl")
            ...     _ = file.write_text('{"right": true}\\n\\n{"right": false}\\n')
            ...     list(FileHead.of(file).rows())
            [(1, {'right': True}), (3, {'right': False})]
        """
        if self.is_parquet:
            return self._parquet_rows()
        if not self.is_array:
            return json_rows(self.location, on_progress, str(self.path))
        with self.open() as stream:
            return rows_of_array(str(self.path), read_whole(stream, str(self.path)))

    @property
    def _stripped(self) -> bytes:
        return self.start.removeprefix(BOM).lstrip()

    def _parquet_rows(self) -> Iterator[tuple[int, Row]]:
        with ParquetRows.of(self.location, str(self.path)) as table:
            yield from table.rows(table.columns)

    def _first_of_parquet(self) -> Row | None:
        try:
            return next(self._parquet_rows(), (1, None))[1]
        except (ScoreFileError, MissingExtraError):
            return None

    def _first_line(self) -> Row | None:
        with self.open() as stream:
            lines = iter(partial(stream.readline, raised(LONGEST_LINE)), b"")
            try:
                line = next((line for line in lines if line.removeprefix(BOM).strip()), b"")
            except BROKEN:
                return None
        try:
            row = python_json(line)
        except (ValueError, RecursionError):
            return None
        return cast("Row", row) if isinstance(row, dict) else None

    def _first_of_array(self) -> Row | None:
        decoder = json.JSONDecoder()
        size = START
        while size <= LONGEST_LINE:
            with self.open() as stream:
                try:
                    held = stream.read(size)
                except BROKEN:
                    return None
            text = held.removeprefix(BOM).decode(errors="ignore").lstrip()[1:].lstrip()
            try:
                row, _ = decoder.raw_decode(text)
            except RecursionError:
                return None
            except ValueError:
                if len(held) < size or not text.startswith("{"):
                    return None
                size *= 8
                continue
            return cast("Row", row) if isinstance(row, dict) else None
        return None


def _first_bytes(stream: BufferedIOBase) -> bytes:
    """At most :data:`START` bytes; of a file that is cut off or damaged, those before: reading it names the line."""
    start = b""
    try:
        while len(start) < START and (more := stream.read1(START - len(start))):
            start += more
    except BROKEN:
        pass
    return start
