"""Open a log: a file, a pipe or the standard input, decompressed if its first bytes say that it is compressed."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, FileIO, RawIOBase
from pathlib import Path
from typing import IO, Any, Final, cast

from tensorclass.scores.score_errors import ScoreFileError, require
from tensorclass.support.interrupts import uninterrupted

__all__ = ["BROKEN", "STANDARD_INPUT", "broken", "copied", "is_stream", "opened"]

STANDARD_INPUT: Final = "-"
"""The path that stands for the standard input."""

BROKEN: Final[tuple[type[Exception], ...]] = (EOFError, zlib.error, OSError)
"""Errors of reading a file that is cut off, damaged or unreadable; :func:`broken` names them."""

_BUFFER = 1024 * 1024
_PACKED_CHUNK = 4096  # bytes of zstd decompressed at a time: a hostile frame makes at most some 100 MB of them
_GZIP, _BZIP2, _ZSTD = b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd"


@contextmanager
def opened(path: str | Path, name: str | None = None) -> Generator[tuple[BufferedIOBase, BufferedIOBase], None, None]:
    """Open a file for reading: gzip, bzip2 and zstd by their first bytes, whatever the file's name.

    Args:
        path: the file.
        name: the name of the file in errors; by default its path.

    Returns:
        The decompressed bytes, and the file itself, whose position tells the progress.

    Raises:
        ScoreFileError: the file is missing, a folder or a device, or can't be opened.
        MissingExtraError: the file is compressed with zstd, and zstandard is not installed.
    """
    name = str(path) if name is None else name
    with uninterrupted() as section:
        # Opened below, where Ctrl-C works: a pipe that nobody writes to blocks. Until then, closing does nothing.
        file = FileIO.__new__(FileIO)
        try:
            with section.interruptible():
                try:
                    FileIO.__init__(file, path)
                except OSError as error:
                    raise ScoreFileError(name, None, _problem(error)) from None
                mode = os.fstat(file.fileno()).st_mode  # a pipe is fine, as of `<(zcat samples.jsonl.gz)`
                if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty()):
                    raise ScoreFileError(name, None, "is a device; give a file with one JSON object on each line")
                raw: BufferedReader = BufferedReader(file, _BUFFER)
                yield _unpacked(raw, name), raw
        finally:
            file.close()


def is_stream(path: str | Path) -> bool:
    """Return whether a path is the standard input or a pipe, which can be read only once."""
    if str(path) == STANDARD_INPUT:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:  # opening it will say so
        return False


def copied(path: str | Path) -> IO[bytes]:
    """Copy a pipe, or the standard input, to a temporary file, which is removed when it is closed or collected."""
    copy = cast("IO[bytes]", tempfile.NamedTemporaryFile(prefix="tensorclass-log-"))  # noqa: SIM115  kept open
    if str(path) == STANDARD_INPUT:
        shutil.copyfileobj(sys.stdin.buffer, copy, _BUFFER)
    else:
        with open(path, "rb") as pipe:
            shutil.copyfileobj(pipe, copy, _BUFFER)
    copy.flush()
    return copy


def broken(name: str, line: int | None, error: Exception) -> ScoreFileError:
    """Return the error for a file that could not be read on: one of :data:`BROKEN` was raised."""
    damaged = isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)) or (
        isinstance(error, OSError) and error.errno is None
    )
    if damaged:
        return ScoreFileError(name, line, f"the compressed file is cut off or damaged here ({error}); make it again")
    return ScoreFileError(name, line, f"can't be read: {getattr(error, 'strerror', None) or error}")


def _unpacked(raw: BufferedReader, name: str) -> BufferedIOBase:
    start = raw.peek(4)[:4]
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(_BZIP2):
        return bz2.BZ2File(raw)
    if start.startswith(_ZSTD):
        zstandard = require("zstandard", f"reading {name}")
        return BufferedReader(_ZstdFile(raw, zstandard), _BUFFER)
    return raw


class _ZstdFile(RawIOBase):
    """The decompressed bytes of zstd frames. A frame that is cut off is an error: zstandard's own reader ends there."""

    def __init__(self, raw: BufferedReader, zstandard: Any) -> None:
        self._raw = raw
        self._zstandard = zstandard
        self._frame: Any = None  # the decompressor of the frame that is being read
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._fill():
            pass
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _fill(self) -> bool:
        """Decompress the next chunk. Return False at the end of the file."""
        packed = self._raw.read(_PACKED_CHUNK)
        if not packed:
            if self._frame is not None:
                raise EOFError("the last zstd frame has no end")
            return False
        parts: list[bytes] = []
        try:
            while packed:
                if self._frame is None:
                    self._frame = self._zstandard.ZstdDecompressor().decompressobj()
                parts.append(self._frame.decompress(packed))
                packed = self._frame.unused_data if self._frame.eof else b""
                if self._frame.eof:
                    self._frame = None
        except self._zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
        self._ready = memoryview(b"".join(parts))
        return True


def _problem(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder; give the .jsonl files in it"
    return f"can't be opened: {error.strerror or error}"
