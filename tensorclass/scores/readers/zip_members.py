"""A zip archive read member by member, also of members compressed with zstd, which Python reads from 3.14 on."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

from tensorclass.scores.readers.log_sizes import LARGEST_DOCUMENT, most_unpacked, raised, too_large
from tensorclass.scores.readers.unpacked_file import BROKEN, broken, opened
from tensorclass.scores.score_errors import ScoreFileError, require

__all__ = ["ZipMembers"]

_ZSTD: Final = 93  # https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.4.5
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_PIECES: Final = {zipfile.ZIP_STORED: 2**20, zipfile.ZIP_DEFLATED: 2**20}  # bytes to read at a time
_SMALL_PIECE: Final = 4096  # others unpack all bytes that they take, to some 100 MB at most


class ZipMembers:
    """The members of a zip archive, by name. Of members with the same name, the last one counts."""

    def __init__(self, archive: zipfile.ZipFile, stream: IO[bytes], name: str) -> None:
        self._archive = archive
        self._stream = stream
        self._name = name
        self._size = stream.seek(0, os.SEEK_END)
        self._members = {info.filename: info for info in archive.infolist()}

    @classmethod
    @contextmanager
    def of(cls, path: Path, name: str) -> Generator[ZipMembers, None, None]:
        """Open an archive.

        Args:
            path: the file.
            name: the file as the caller named it, for errors.

        Raises:
            ScoreFileError: no zip archive, or one that is cut off.
        """
        with opened(path, name) as (stream, raw), ExitStack() as copies:
            file = cast("IO[bytes]", stream)
            if stream is not raw:  # compressed once more; members are sought
                file = copies.enter_context(tempfile.TemporaryFile())
                try:
                    shutil.copyfileobj(stream, file)
                except BROKEN as error:
                    raise broken(name, None, error) from None
            try:
                archive = zipfile.ZipFile(file)
            except (zipfile.BadZipFile, EOFError, OSError) as error:
                raise ScoreFileError(
                    name, None, f"the zip archive is cut off or damaged ({error}); was the run stopped while writing?"
                ) from None
            with archive:
                members = cls(archive, file, name)
                members._check_size()
                yield members

    def __contains__(self, member: str) -> bool:
        return member in self._members

    def names(self, prefix: str = "", suffix: str = "") -> list[str]:
        """The members whose names begin and end so, in the order in which they were written."""
        return [name for name in self._members if name.startswith(prefix) and name.endswith(suffix)]

    def end_of(self, member: str) -> int:
        """The position in the file where a member ends, up to the length of its header."""
        info = self._members[member]
        return info.header_offset + info.compress_size

    def read(self, member: str) -> bytes:
        """The bytes of a member.

        Raises:
            ScoreFileError: it is damaged, encrypted, too large, or compressed in an unknown way.
        """
        info = self._members[member]
        place = f"{self._name}/{member}"
        packed = min(info.compress_size, self._size)
        if info.file_size > min(most_unpacked(packed), raised(LARGEST_DOCUMENT)):
            problem = f"{info.file_size:,} bytes, compressed to {packed:,}; expected the log of one sample"
            raise too_large(place, None, problem, info.file_size)
        try:
            if info.compress_type == _ZSTD:
                return self._unpacked(info)
            with self._archive.open(info) as opened_member:
                piece = _PIECES.get(info.compress_type, _SMALL_PIECE)
                return b"".join(iter(partial(opened_member.read, piece), b""))
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise ScoreFileError(place, None, f"damaged: {error}") from None
        except (NotImplementedError, RuntimeError) as error:  # of another compression, or encrypted
            raise ScoreFileError(place, None, f"can't be read: {error}") from None

    def _check_size(self) -> None:
        """Raise if all members are many times as large as the file: they may be the same bytes, many times."""
        total = sum(info.file_size for info in self._members.values())
        if total > most_unpacked(self._size):
            largest = max(self._members.values(), key=lambda info: info.file_size)
            problem = f"{largest.file_size:,} bytes, {total:,} with the other members, in an archive of {self._size:,}"
            raise too_large(f"{self._name}/{largest.filename}", None, problem, total)

    def _unpacked(self, info: zipfile.ZipInfo) -> bytes:
        zstandard: Any = require("zstandard", f"reading {self._name}")
        self._stream.seek(info.header_offset)
        name, extra = _LOCAL_HEADER.unpack(self._stream.read(_LOCAL_HEADER.size))
        self._stream.seek(name + extra, 1)
        packed = self._stream.read(info.compress_size)
        try:
            with zstandard.ZstdDecompressor().stream_reader(packed) as frame:  # whatever size the frame says
                content = cast("bytes", frame.read(info.file_size))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
        if zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile("its checksum differs")
        return content
