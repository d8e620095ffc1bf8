"""Decompress archive members in pieces of bounded size, and limit how much a small file may expand.

A few bytes can expand to any number: bzip2 compresses a gigabyte to a thousand bytes. Python's ``zipfile`` decompresses
all that it has read at once, however large the result.
"""

from __future__ import annotations

import bz2
import itertools
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator

from tensorclass.storage.memmap.folder_layout import SUFFIX

PIECE = 2**22

#: values may expand to VALUES bytes plus TIMES_VALUES times their compressed size; deflate's best ratio is 1032
VALUES, TIMES_VALUES = 2**26, 1100
#: the same limits for metadata: Python objects take some fifty times the memory of their JSON
TEXTS, TIMES_TEXTS = 2**20, 20

_LARGEST_WINDOW = 2**26
_SAMPLE = 2**18
_STRONG: dict[int, Callable[[memoryview | bytes], bytes]] = {
    zipfile.ZIP_BZIP2: bz2.compress,
    zipfile.ZIP_LZMA: lzma.compress,
}


def excess_of(infos: Iterable[zipfile.ZipInfo]) -> str:
    """Describe for an error how an archive exceeds the limits of expansion; ``""`` if it does not.

    Args:
        infos: the members of the archive.
    """
    packed = [info for info in infos if info.compress_type != zipfile.ZIP_STORED]
    for kind, is_values, fixed, times in (("values", True, VALUES, TIMES_VALUES), ("texts", False, TEXTS, TIMES_TEXTS)):
        chosen = [info for info in packed if info.filename.endswith(SUFFIX) is is_values]
        small, large = sum(info.compress_size for info in chosen), sum(info.file_size for info in chosen)
        if large > fixed + times * small:
            return (
                f"{kind} take {small} bytes, and {large} when they are unpacked, which is more than {times} times that"
            )
    return ""


class Compression:
    """Choose the compression of an archive's members so that :func:`excess_of` does not refuse it.

    Args:
        method: the compression that the user asked for, as ``zipfile`` numbers it.
    """

    def __init__(self, method: int) -> None:
        self.method: int = method
        self._texts = 0

    def of(self, name: str, pieces: Iterator[memoryview]) -> tuple[int, Iterator[memoryview]]:
        """Return the method for a member, and its pieces; some of the given iterator is consumed."""
        first = next(pieces, memoryview(b""))
        method = self.method
        if name.endswith(SUFFIX):
            sample = first[:_SAMPLE]
            if method in _STRONG and len(sample) > TIMES_VALUES / 2 * len(_STRONG[method](sample)):
                method = zipfile.ZIP_DEFLATED
        else:
            text = b"".join([first, *pieces])
            first, pieces = memoryview(text), iter(())
            self._texts += len(text)
            if method != zipfile.ZIP_STORED and self._texts > TEXTS / 2:
                packed = _STRONG.get(method, zlib.compress)(text)
                method = zipfile.ZIP_STORED if len(text) > TIMES_TEXTS / 2 * len(packed) else method
        return method, itertools.chain((first,), pieces)


def unpacked(handle: int, start: int, size: int, method: int) -> Iterator[bytes]:
    """Yield the decompressed content of a member in pieces.

    Args:
        handle: the file descriptor of the archive.
        start: the offset of the member's bytes.
        size: their number.
        method: their compression, as ``zipfile`` numbers it.

    Raises:
        ValueError, EOFError, OSError, zlib.error, lzma.LZMAError: the bytes are damaged.
    """
    if method == zipfile.ZIP_STORED:
        yield from _raw(handle, start, size)
    elif method == zipfile.ZIP_DEFLATED:
        yield from _inflated(_raw(handle, start, size))
    elif method == zipfile.ZIP_BZIP2:
        yield from _decompressed(bz2.BZ2Decompressor(), _raw(handle, start, size))
    else:
        head = os.pread(handle, min(size, 9), start)
        decompressor = _lzma(head)
        yield from _decompressed(decompressor, _raw(handle, start + len(head), size - len(head)))


def _raw(handle: int, start: int, size: int) -> Iterator[bytes]:
    while size:
        piece = os.pread(handle, min(size, PIECE), start)
        if not piece:
            raise EOFError("the file ends too early")
        start, size = start + len(piece), size - len(piece)
        yield piece


def _inflated(raw: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-15)
    for piece in raw:
        while piece:
            yield inflater.decompress(piece, PIECE)
            piece = inflater.unconsumed_tail
        if inflater.eof:
            break
    if not inflater.eof:
        while more := inflater.decompress(b"", PIECE):
            yield more
    if not inflater.eof:
        raise EOFError("its compressed values end too early")


def _decompressed(decompressor: bz2.BZ2Decompressor | lzma.LZMADecompressor, raw: Iterator[bytes]) -> Iterator[bytes]:
    for piece in raw:
        yield decompressor.decompress(piece, PIECE)
        while not decompressor.eof and not decompressor.needs_input:
            yield decompressor.decompress(b"", PIECE)
        if decompressor.eof:
            break


def _lzma(head: bytes) -> lzma.LZMADecompressor:
    """Return the decompressor for a member, whose first 9 bytes hold the LZMA properties in a ZIP file."""
    if len(head) < 9 or int.from_bytes(head[2:4], "little") != 5:
        raise ValueError("its LZMA properties are damaged")
    code, window = head[4], int.from_bytes(head[5:9], "little")
    if code >= 225 or window > _LARGEST_WINDOW:
        raise ValueError(f"unpacking it takes {window} bytes of memory")
    chosen = {"id": lzma.FILTER_LZMA1, "dict_size": window, "lc": code % 9, "lp": code // 9 % 5, "pb": code // 45}
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[chosen])
