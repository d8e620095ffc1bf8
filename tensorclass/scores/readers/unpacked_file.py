"""Open a log: a file, a pipe or the standard input, decompressed if its first bytes say that it is compressed."""

from __future__ import annotations

import bz2
import gzip
import os
import select
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import IO, Any, Final, cast

from tensorclass.scores.readers.log_sizes import LARGEST_DOCUMENT, most_unpacked, raised, too_large
from tensorclass.scores.score_errors import ScoreFileError, require
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.regular_files import NotRegular, open_regular

__all__ = ["BROKEN", "PACKED", "STANDARD_INPUT", "broken", "copied", "is_stream", "opened", "read_whole"]

STANDARD_INPUT: Final = "-"
"""The path that stands for the standard input."""

PACKED: Final = (".gz", ".bz2", ".zst")
"""Ends of the names of compressed files."""

BROKEN: Final[tuple[type[Exception], ...]] = (EOFError, zlib.error, OSError)
"""Errors of reading a file that is cut off, damaged or unreadable; :func:`broken` names them."""

PATIENCE: float = 10.0
"""Seconds to wait for somebody who writes to a pipe."""

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
        ScoreFileError: the file is missing, no regular file or a pointer of git-LFS, or can't be opened; reading it
            raises one where it unpacks to more than a log of its size would.
        MissingExtraError: the file is compressed with zstd, and zstandard is not installed.
    """
    name = str(path) if name is None else name
    with uninterrupted() as section, _file(path, name) as raw, section.interruptible():
        yield _unpacked(raw, name), raw


def read_whole(stream: BufferedIOBase, name: str) -> bytes:
    """Read a stream to its end.

    Args:
        stream: the stream.
        name: the name of the file in errors.

    Raises:
        ScoreFileError: it is damaged, or larger than the largest document.
    """
    limit = raised(LARGEST_DOCUMENT)
    content = BytesIO()
    try:
        while piece := stream.read(_BUFFER):
            content.write(piece)
            if content.tell() > limit:
                raise too_large(name, None, f"more than {limit:,} bytes; expected a document that fits into memory")
    except BROKEN as error:
        raise broken(name, None, error) from None
    return content.getvalue()


def is_stream(path: str | Path) -> bool:
    """Return whether a path is the standard input or a pipe, which can be read only once."""
    if str(path) == STANDARD_INPUT:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):  # opening it will say so
        return False


def copied(path: str | Path) -> IO[bytes]:
    """Copy a pipe, or the standard input, to a temporary file, which is removed when it is closed.

    Raises:
        ScoreFileError: nobody writes to the pipe, or it can't be opened.
    """
    copy = cast("IO[bytes]", tempfile.NamedTemporaryFile(prefix="tensorclass-log-"))  # noqa: SIM115  kept open
    try:
        if str(path) == STANDARD_INPUT:
            shutil.copyfileobj(sys.stdin.buffer, copy, _BUFFER)
        else:
            _copy_pipe(path, copy)
        copy.flush()
    except BaseException:
        copy.close()
        raise
    return copy


def broken(name: str, line: int | None, error: Exception) -> ScoreFileError:
    """Return the error for a file that could not be read on: one of :data:`BROKEN` was raised."""
    damaged = isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)) or (
        isinstance(error, OSError) and error.errno is None
    )
    if damaged:
        return ScoreFileError(name, line, f"the compressed file is cut off or damaged here ({error}); make it again")
    return ScoreFileError(name, line, f"can't be read: {getattr(error, 'strerror', None) or error}")


def _file(path: str | Path, name: str) -> BufferedReader:
    try:
        return cast("BufferedReader", os.fdopen(open_regular(path, shown=name), "rb", _BUFFER))
    except (OSError, ValueError) as error:
        raise ScoreFileError(name, None, _problem(error, name)) from None


def _copy_pipe(path: str | Path, copy: IO[bytes]) -> None:
    try:
        pipe = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except OSError as error:
        raise ScoreFileError(str(path), None, _problem(error, str(path))) from None
    with pipe:
        copy.write(_first_byte(pipe.fileno(), str(path)))
        shutil.copyfileobj(pipe, copy, _BUFFER)


def _first_byte(pipe: int, name: str) -> bytes:
    """Wait until something comes from a pipe that was opened without waiting for its writer. Let it block from now on.

    Returns:
        What was read of it: a byte or nothing.
    """
    first = b""
    events = select.poll()
    events.register(pipe, select.POLLIN)
    if not events.poll(1000 * PATIENCE):  # no bytes, and no writer who has left
        try:
            first = os.read(pipe, 1)
        except BlockingIOError:  # there is a writer, who takes their time
            pass
        else:
            if not first:
                raise ScoreFileError(name, None, f"a pipe that nobody writes to, in {PATIENCE:g} seconds of waiting")
    os.set_blocking(pipe, True)
    return first


def _unpacked(raw: BufferedReader, name: str) -> BufferedIOBase:
    start = raw.peek(4)[:4]
    unpacked: BufferedIOBase | RawIOBase
    if start.startswith(_GZIP):
        unpacked = gzip.GzipFile(fileobj=raw)
    elif start.startswith(_BZIP2):
        unpacked = bz2.BZ2File(raw)
    elif start.startswith(_ZSTD):
        unpacked = _ZstdFile(raw, require("zstandard", f"reading {name}"))
    else:
        return raw
    return BufferedReader(_LimitedFile(unpacked, os.fstat(raw.fileno()).st_size, name), _BUFFER)


class _LimitedFile(RawIOBase):
    """Decompressed bytes, which may not be many times those of the file."""

    def __init__(self, unpacked: BufferedIOBase | RawIOBase, packed: int, name: str) -> None:
        self._unpacked = unpacked
        self._count = 0
        self._packed = packed
        self._limit = most_unpacked(packed)
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._unpacked.readinto(buffer) or 0
        self._count += count
        if self._count > self._limit:
            problem = f"unpacks from {self._packed:,} to more than {self._limit:,} bytes"
            raise too_large(self._name, None, problem)
        return count


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


def _problem(error: Exception, name: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "expected a file, found a folder"
    if isinstance(error, NotRegular):
        return str(error).removeprefix(f"{name}: ")
    return f"can't be opened: {getattr(error, 'strerror', None) or error}"
