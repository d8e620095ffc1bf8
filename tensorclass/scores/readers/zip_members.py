"""A zip archive read member by member, also of members compressed with zstd, which Python reads from 3.14 on."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from tensorclass.scores.readers.unpacked_file import opened
from tensorclass.scores.score_errors import ScoreFileError, require

__all__ = ["LARGEST_MEMBER", "ZipMembers"]

LARGEST_MEMBER: Final[int] = 2 * 1024**3
"""A member of more bytes is an error rather than a reason to run out of memory."""

_ZSTD: Final = 93  # https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.4.5
_LOCAL_HEADER: Final = struct.Struct("<26xHH")


class ZipMembers:
    """The members of a zip archive, by name. Of members with the same name, the last one counts."""

    def __init__(self, archive: zipfile.ZipFile, stream: IO[bytes], name: str) -> None:
        self._archive = archive
        self._stream = stream
        self._name = name
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
        with opened(path, name) as (stream, _):
            file = cast("IO[bytes]", stream)
            try:
                archive = zipfile.ZipFile(file)
            except (zipfile.BadZipFile, EOFError, OSError) as error:
                raise ScoreFileError(
                    name, None, f"the zip archive is cut off or damaged ({error}); was the run stopped while writing?"
                ) from None
            with archive:
                yield cls(archive, file, name)

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
        if info.file_size > LARGEST_MEMBER:
            raise ScoreFileError(place, None, f"larger than {LARGEST_MEMBER >> 30} GiB; expected the log of one sample")
        try:
            if info.compress_type == _ZSTD:
                return self._unpacked(info)
            return self._archive.read(info)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise ScoreFileError(place, None, f"damaged: {error}") from None
        except (NotImplementedError, RuntimeError) as error:  # of another compression, or encrypted
            raise ScoreFileError(place, None, f"can't be read: {error}") from None

    def _unpacked(self, info: zipfile.ZipInfo) -> bytes:
        zstandard: Any = require("zstandard", f"reading {self._name}")
        self._stream.seek(info.header_offset)
        name, extra = _LOCAL_HEADER.unpack(self._stream.read(_LOCAL_HEADER.size))
        self._stream.seek(name + extra, 1)
        packed = self._stream.read(info.compress_size)
        try:
            content = cast("bytes", zstandard.ZstdDecompressor().decompress(packed, max_output_size=info.file_size))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
        if zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile("its checksum differs")
        return content
