"""Archives: the files of a memory-mapped folder in one ZIP file, laid out as the peer does.

A member is stored as it is, its bytes at a multiple of 64, so that tensors are mapped to memory straight from the
archive; or it is compressed, and then read when the archive is loaded. The ZIP format has a checksum (CRC-32) of each
member. What an archive says is looked at before it is believed: names that lead out of it, links, members of one name,
members that overlap, and sizes that are not so are errors.
"""

from __future__ import annotations

import lzma
import mmap
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.atomic import swapped_folder, whole_file
from tensorclass.folder_locks import FolderLock
from tensorclass.interrupts import uninterrupted
from tensorclass.printable import printable
from tensorclass.progress import Bar, bytes_of
from tensorclass.regular import open_regular, reading_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import NestedKey, dotted, unravel_key_to_tuple
from tensorclass.td.memmap import MODES, Filename, MemoryMappedTensor, pieces
from tensorclass.td.nontensor_base import note_files
from tensorclass.td.objects import CPU

from . import folder, layout, tree
from .ahead import reading_ahead
from .deflation import Compression, excess_of, unpacked
from .paths import above, path_of
from .tree import FileError, Source

SUFFIX = ".tdz"  #: of files that are archives without being asked to

_METHODS = {
    "stored": zipfile.ZIP_STORED, "deflate": zipfile.ZIP_DEFLATED, "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA,
}  # fmt: skip
_LEVELS = {zipfile.ZIP_DEFLATED: range(-1, 10), zipfile.ZIP_BZIP2: range(1, 10)}  #: of the others it says nothing
_ALIGN = 64  #: where the bytes of a stored member begin
_PIECE = 2**24
_DEEPEST = 2 * tree.DEPTH + 2  #: folders that a member can be in
_SIZES_BEHIND = 8  #: the flag of a member whose sizes stand behind it once more
_FILLED = b"td"  #: marks the part of a header that only fills it
_LOCAL, _CENTRAL = struct.Struct("<4s22xHH"), struct.Struct("<4s24xHHH12x")
_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]


# ---------------------------------------------------------------------------------------------------------------------
# writing


_LONGEST_NAME = 2**16 - 1  #: bytes that the ZIP format has for a name


def method_of(compression: str | int | None, what: str) -> int:
    """The number that ZIP files have for a compression."""
    if compression is None:
        return zipfile.ZIP_STORED
    found = _METHODS.get(compression, -1) if isinstance(compression, str) else compression
    if type(found) is not int or found not in _METHODS.values():
        raise ValueError(
            f"{what}: expected compression to be one of {sorted(_METHODS)}, or what zipfile calls them, "
            f"got {compression!r}"
        )
    return found


def save(
    data: TensorCollection,
    path: Filename,
    *,
    what: str,
    compression: str | int | None = None,
    allow_pickle: bool = False,
    values: bool = True,
    robust_key: bool = True,
    copy_existing: bool = False,
    checksum: bool = False,
    progress: bool | None = False,
    then: Callable[[str], object],
) -> None:
    """Writes a collection to an archive, as a whole or not at all; see :func:`.folder.save` for the arguments.

    ``then`` is called with the path of the archive before it takes its place, where there may soon be another one.
    """
    method = method_of(compression, what)
    if not robust_key:
        layout.check_keys(data, what)
    node, leaves = tree.describe(data, what, allow_pickle, checksum)
    for leaf in leaves:
        if type(leaf.tensor) is MemoryMappedTensor and leaf.tensor._filename is not None and not copy_existing:
            raise RuntimeError(
                f"{what}: {dotted(leaf.path)} lies in the file {printable(leaf.tensor._filename)} already; "
                "copy_existing=True copies it"
            )
    metas = layout.metas(node, what, os.fspath(path))
    for leaf in leaves:
        name = layout.place_of(leaf)
        if len(name) > _LONGEST_NAME // 4 and len(os.fsencode(name)) > _LONGEST_NAME:
            raise ValueError(
                f"{what}: nothing was written; the keys {'.'.join(leaf.path)[:80]}... are longer together than "
                f"the name of a file in an archive, which takes {_LONGEST_NAME} bytes"
            )
    total = sum(leaf.tensor.numel() * leaf.tensor.element_size() for leaf in leaves)
    with (
        uninterrupted() as section,
        _writer(path, method, None, then) as write,
        bytes_of(total, what, progress) as shown,
        section.interruptible(),
    ):
        for place, text in metas:
            write(place + layout.META, iter([memoryview(text)]))
        for leaf in leaves:
            if leaf.tensor.numel():
                write(layout.place_of(leaf), _told(pieces(leaf.tensor) if values else _zeros(leaf.tensor), shown))


def pack_memmap(
    prefix: Filename,
    archive_path: Filename,
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
    progress: bool | None = None,
) -> Path:
    """See :func:`tensorclass.pack_memmap`."""
    root = Path(path_of(prefix, "pack_memmap"))
    if not (root / layout.META).is_file():
        raise FileError(f"{root}: nothing is saved there: it has no {layout.META}")
    method = method_of(compression, "pack_memmap")
    levels = _LEVELS.get(method)
    if compresslevel is not None and levels is not None and compresslevel not in levels:
        raise ValueError(
            f"pack_memmap: expected compresslevel to be {levels.start} to {levels.stop - 1} for this compression, got "
            f"{compresslevel!r}"
        )
    with uninterrupted() as section, FolderLock(section) as folder_lock:
        folder_lock.share_above(root / layout.META)  # writers wait: what is packed is one version
        files = sorted(_files_below(root, ""), key=lambda name: (name != layout.META, name))
        total = sum(os.path.getsize(root / name) for name in files)
        with (
            _writer(archive_path, method, compresslevel) as write,
            bytes_of(total, "pack_memmap", progress) as shown,
            section.interruptible(),
        ):
            for name in files:
                with reading_regular(root / name) as file:
                    write(name, _told(_pieces(file), shown))
    return Path(archive_path)


@contextmanager
def _writer(
    path: Filename, method: int, level: int | None, then: Callable[[str], object] | None = None
) -> Generator[Callable[[str, Iterator[memoryview]], None], None, None]:
    path = path_of(path, "an archive", writes=True)
    above(path)
    with whole_file(path) as file:
        with zipfile.ZipFile(file, "w", method, compresslevel=level) as archive:
            chosen = Compression(method)

            def write(name: str, pieces: Iterator[memoryview]) -> None:
                info = zipfile.ZipInfo(name)  # of 1980: the same values are the same file
                info.external_attr = 0o644 << 16
                info.compress_type, pieces = chosen.of(name, pieces)
                info._compresslevel = level  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
                start = file.tell() + 30 + len(name.encode()) + 20  # the header, and what it says of sizes
                if method == zipfile.ZIP_STORED and name.endswith(layout.SUFFIX) and start % _ALIGN:
                    fill = (-start - 4) % _ALIGN
                    info.extra = _FILLED + fill.to_bytes(2, "little") + bytes(fill)
                with archive.open(info, "w", force_zip64=True) as member:
                    for piece in pieces:
                        member.write(piece)

            yield write
            if excess := excess_of(archive.infolist()):
                raise ValueError(f"{path}: nothing was written: its compressed {excess}; use another compression")
        if then is not None:
            file.flush()
            then(file.name)


def _files_below(root: Path, inside: str) -> Iterator[str]:
    with os.scandir(root / inside) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(root, f"{inside}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            yield inside + entry.name
        else:
            raise FileError(f"{entry.path}: a link, or no regular file; what it leads to is not packed")


def _pieces(file: IO[bytes]) -> Iterator[memoryview]:
    while piece := file.read(_PIECE):
        yield memoryview(piece)


def _told(pieces: Iterator[memoryview], shown: Bar[Any]) -> Iterator[memoryview]:
    """The pieces, in pieces of some megabytes, of which a bar is told."""
    for piece in pieces:
        for start in range(0, len(piece), _PIECE):
            part = piece[start : start + _PIECE]
            yield part
            shown.advance(len(part))


def _zeros(tensor: Tensor) -> Iterator[memoryview]:
    left = tensor.numel() * tensor.element_size()
    while left:
        count = min(left, _PIECE)
        yield memoryview(bytes(count))
        left -= count


# ---------------------------------------------------------------------------------------------------------------------
# reading


class _Member(NamedTuple):
    info: zipfile.ZipInfo
    start: int  #: of its bytes


class _Archive:
    """An open archive, whose members have been looked at."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self.handle: int = file.fileno()
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, struct.error, NotImplementedError) as error:
            raise FileError(f"{name}: it is no archive of a memory-mapped folder, or damaged ({error})") from None
        self.members: dict[str, _Member] = {}
        self.folders: set[str] = {""}
        self.inside: dict[str, set[str]] = {}  #: the names of what is in each folder
        found = [self._add(info, file) for info in self.zip.infolist()]
        ends, gap = 0, True  # whatever is before the first one
        for info, start in sorted(found, key=lambda member: member.start):
            if info.header_offset < ends:
                raise self.damaged(info.filename, "it overlaps another member")
            if info.header_offset > ends and not gap:  # a header that lies about where its bytes begin moves them all
                raise self.damaged(info.filename, "it does not stand right behind another member")
            ends, gap = start + info.compress_size, bool(info.flag_bits & _SIZES_BEHIND)
        if ends > self.zip.start_dir or not (gap or ends == self.zip.start_dir):
            raise FileError(f"{name}: its members are shorter, or longer, than it says")
        if layout.META not in self.members:
            raise FileError(f"{name}: it is no archive of a memory-mapped folder: it has no member {layout.META}")
        if excess := excess_of(member.info for member in self.members.values()):
            raise FileError(
                f"{name}: its compressed {excess}; where you trust it, another program (unzip) makes a folder of it, "
                "which load_memmap reads"
            )

    def _add(self, info: zipfile.ZipInfo, file: IO[bytes]) -> _Member:
        name = info.filename
        parts = name.removesuffix("/").split("/")
        if info.orig_filename != name or "\\" in name or any(part in ("", ".", "..") for part in parts):
            raise self.damaged(name, "the name of a member must be a relative path, without '..'")
        if len(parts) > _DEEPEST:
            raise self.damaged(name[:80], "it is in too many folders")
        if name in self.members:
            raise self.damaged(name, "there are two members of this name")
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise self.damaged(name, "a link, or no regular file")
        if info.flag_bits & 0x1:
            raise self.damaged(name, "it is encrypted")
        if info.compress_type not in _METHODS.values():
            raise self.damaged(name, f"it is compressed in a way that is unknown here ({info.compress_type})")
        if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
            raise self.damaged(name, "its two sizes differ, and it is not compressed")
        folder = ""
        for part in parts[:-1]:
            self.inside.setdefault(folder, set()).add(part)
            folder += f"{part}/"
            self.folders.add(folder)
        self.inside.setdefault(folder, set()).add(parts[-1])
        if not 0 <= info.header_offset <= self.zip.start_dir:
            raise self.damaged(name, "its header is not where the directory says")
        file.seek(info.header_offset)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != b"PK\3\4":
            raise self.damaged(name, "its header is not where the directory says")
        _, length, extra = _LOCAL.unpack(header)
        if file.read(length).decode("utf-8", "replace") != name:
            raise self.damaged(name, "its header has another name")
        member = _Member(info, info.header_offset + _LOCAL.size + length + extra)
        if name.endswith("/"):
            self.folders.add(name)
        else:
            self.members[name] = member
        return member

    def damaged(self, name: str, why: str) -> FileError:
        return FileError(f"{self.name}: {name}: {why}")

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of a member in pieces, up to its declared size, and verify its checksum."""
        info, start = self.members[name]
        left, crc = info.file_size, 0
        try:
            for piece in unpacked(self.handle, start, info.compress_size, info.compress_type):
                left -= len(piece)
                if left < 0:
                    raise self.damaged(name, "it is longer than it says")
                crc = zlib.crc32(piece, crc)
                yield piece
        except FileError:
            raise
        except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise self.damaged(name, f"damaged ({error})") from None
        if left:
            raise self.damaged(name, "it is shorter than it says")
        if crc != info.CRC:
            raise self.damaged(name, "damaged (its checksum differs)")

    def check(self, num_threads: int = 0) -> None:
        """Reads all members, and compares their checksums."""

        def read(name: str) -> None:
            for _ in self.pieces(name):
                pass

        if num_threads > 1:
            with ThreadPoolExecutor(num_threads) as pool:
                list(pool.map(read, self.members))
        else:
            for name in self.members:
                read(name)


class _Inside(NamedTuple):
    """A folder in an archive."""

    archive: _Archive
    inside: str  #: ``""``, or the name of the folder and a slash

    @property
    def name(self) -> str:
        return f"{self.archive.name}: {self.inside}".removesuffix(": ")

    def content(self, name: str) -> bytes:
        name = self.inside + name
        member = self.archive.members.get(name)
        if member is None:
            raise self.archive.damaged(name, "missing")
        if member.info.file_size > layout.LONGEST:
            raise self.archive.damaged(name, f"it is longer than {layout.LONGEST} bytes")
        return b"".join(self.archive.pieces(name))

    def names(self) -> set[str]:
        return self.archive.inside.get(self.inside, set())


class _Folders:
    """The folders of an archive, by their path in the tree."""

    def __init__(self, archive: _Archive, pickles: bool) -> None:
        self.archive = archive
        self.pickles: bool = pickles
        self.known: dict[tuple[str, ...], str] = {(): ""}

    def at(self, path: tuple[str, ...]) -> _Inside:
        inside = self.known.get(path)
        if inside is None:
            inside = self.known[path] = f"{self.at(path[:-1]).inside}{layout.file_name(path[-1])}/"
            if inside not in self.archive.folders:
                raise self.archive.damaged(inside, "missing")
        return _Inside(self.archive, inside)

    def below(self, keys: tuple[str, ...]) -> str:
        """The folder of a nested collection, in that of the whole."""
        places = _Folders(self.archive, self.pickles)
        for depth in range(len(keys)):
            outer = places.at(keys[:depth])
            values = f"{outer.inside}{layout.INSIDE}/{layout.META}"
            if values in self.archive.members and "shape" not in layout.read_meta(outer):
                places.enter(keys[:depth])
        return places.at(keys).inside

    def say_foreign(self, path: tuple[str, ...]) -> None:
        """Nothing to do: archives have no files that are named in another way."""

    def enter(self, path: tuple[str, ...]) -> None:
        inside = self.at(path).inside
        if inside.endswith(f"{layout.INSIDE}/"):
            raise self.archive.damaged(inside + layout.META, "its shape is missing")
        self.known[path] = f"{inside}{layout.INSIDE}/"


@contextmanager
def _opened(path: Filename) -> Generator[tuple[_Archive, int], None, None]:
    name = os.path.abspath(path)
    with reading_regular(name) as file:
        yield _Archive(file, name), file.fileno()


def is_memmap_archive(path: Filename) -> bool:
    """See :func:`tensorclass.is_memmap_archive`."""
    if not os.path.isfile(path) or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return layout.META in archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return False


def load(
    target: Any,
    path: Filename,
    *,
    device: torch.device | None = None,
    non_blocking: bool = False,
    mode: str | None = None,
    subpath: NestedKey | None = None,
    allow_pickle: bool = False,
    strict: bool = True,
    same_objects: bool = False,
    verify: bool = False,
    num_threads: int = 0,
) -> Any:
    """The collection in an archive, its stored tensors mapped to memory.

    Args:
        target: the class of the result, or a collection that it shall be like.
        path: the archive.
        device: where the tensors go; ``meta`` reads none of them.
        non_blocking: do not wait for them to get there.
        mode: ``"r+"`` writes to the archive what is written to the tensors (:func:`refresh_archive_checksums` then
            brings its checksums up to date); otherwise that stays in this process.
        subpath: the key of a nested collection, to load this one alone.
        allow_pickle: read objects that were written as pickles.
        strict: for a record: the archive has its fields and no others.
        same_objects: take the objects of ``target``.
        verify: read all members first, and compare their checksums.
        num_threads: how many threads read values, where they are read: compressed ones, for a device, for ``verify``.
    """
    if mode not in (None, *MODES):
        raise ValueError(f"load_memmap: expected mode to be 'r', 'r+' or None, got {mode!r}")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {printable(os.path.abspath(path))}")
    with _opened(path) as (archive, handle):
        if verify:
            archive.check(num_threads)
        places = _Folders(archive, allow_pickle)
        if subpath is not None:
            places.known[()] = places.below(unravel_key_to_tuple(subpath))
        try:
            node = layout.read_node(places, ())
        except RecursionError:
            raise FileError(f"{archive.name}: what it says of itself is nested too deep") from None
        opens = not tree.only_shapes(device)
        maps: list[Any] = []

        def mapped() -> Any:
            if not maps:
                if mode == "r+":
                    with os.fdopen(open_regular(archive.name, os.O_RDWR), "r+b") as writable:
                        maps.append(mmap.mmap(writable.fileno(), 0, access=mmap.ACCESS_WRITE))
                else:
                    maps.append(mmap.mmap(handle, 0, access=mmap.ACCESS_COPY))
            return maps[0]

        moves = device is not None and device.type != "cpu"

        def opened(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Callable[[], Tensor]:
            count = shape.numel()
            if not opens or not count:
                return lambda: torch.empty(shape, dtype=dtype, device=device or CPU)
            name = places.at(where[:-1]).inside + layout.tensor_file(where[-1], part)
            member = archive.members.get(name)
            if member is None:
                raise archive.damaged(name, "missing")
            if member.info.file_size < count * dtype.itemsize:
                raise archive.damaged(
                    name,
                    f"expected {count * dtype.itemsize} bytes, for the shape {list(shape)} of {dtype}; "
                    f"it has {member.info.file_size}",
                )
            stored = member.info.compress_type == zipfile.ZIP_STORED and not member.start % dtype.itemsize
            if mode == "r+" and not stored:
                raise RuntimeError(
                    f"load_memmap: {archive.name}: {name} is compressed, or not aligned, and cannot be written in "
                    "place; save the archive without compression, or load it without mode='r+'"
                )
            memory = mapped() if stored else None

            def read() -> Tensor:
                if stored:
                    value: Tensor = _frombuffer(memory, dtype=dtype, count=count, offset=member.start).view(shape)
                else:
                    value = _unpacked(archive, name, dtype, count).view(shape)
                return value.to(device, non_blocking=non_blocking) if moves else value

            return read

        def read_now(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            return opened(where, part, dtype, shape)()

        source = Source(archive.name, read_now, device or CPU, allow_pickle, strict, same_objects)
        if num_threads > 1 and opens:
            with reading_ahead(node, source, opened, num_threads) as source:
                return note_files(tree.rebuild(node, target, source))
        return note_files(tree.rebuild(node, target, source))


def _unpacked(archive: _Archive, name: str, dtype: torch.dtype, count: int) -> Tensor:
    value = torch.empty(count, dtype=dtype, device="cpu")
    place = memoryview(value.view(torch.uint8).numpy())  # type: ignore[arg-type]
    at = 0
    for piece in archive.pieces(name):
        part = piece[: len(place) - at]
        place[at : at + len(part)] = part
        at += len(part)
    return value


def unpack_memmap(archive_path: Filename, prefix: Filename, *, progress: bool | None = None) -> Path:
    """See :func:`tensorclass.unpack_memmap`."""
    archive_path = path_of(archive_path, "unpack_memmap")
    if not os.path.isfile(archive_path):
        raise FileError(f"{archive_path}: there is no such file")
    path = Path(path_of(prefix, "unpack_memmap", writes=True))
    with _opened(archive_path) as (archive, _):
        existing = next(parent for parent in (path, *path.parents) if parent.is_dir())
        needed, free = (
            sum(member.info.file_size for member in archive.members.values()),
            shutil.disk_usage(existing).free,
        )
        if needed > free:
            raise FileError(f"{archive.name}: it says that it needs {needed} bytes; {existing} has {free}")

        def finish(draft: Path) -> None:
            folder.keep_strangers(path, draft)

        with (
            uninterrupted() as section,
            swapped_folder(path, finish=finish) as draft,
            bytes_of(needed, "unpack_memmap", progress) as shown,
            section.interruptible(),
        ):
            for name in archive.members:
                place = draft / name
                place.parent.mkdir(parents=True, exist_ok=True)
                with open(place, "xb") as file:
                    for piece in archive.pieces(name):
                        file.write(piece)
                        shown.advance(len(piece))
    return Path(prefix)


def refresh_archive_checksums(archive_path: Filename) -> Path:
    """See :func:`tensorclass.refresh_archive_checksums`."""
    if not os.path.isfile(archive_path):
        raise FileError(f"{os.path.abspath(archive_path)}: it is no archive of a memory-mapped folder: no such file")
    with (
        uninterrupted() as section,
        _opened(archive_path) as (archive, handle),
        os.fdopen(open_regular(archive.name, os.O_RDWR), "r+b") as file,
    ):
        with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as memory:
            at = archive.zip.start_dir
            for info in archive.zip.infolist():
                signature, *lengths = _CENTRAL.unpack_from(memory, at)
                if signature != b"PK\1\2":
                    raise archive.damaged(info.filename, "the directory is damaged")
                member = archive.members.get(info.filename)
                if member is not None and info.compress_type == zipfile.ZIP_STORED:
                    crc = 0
                    for start in range(member.start, member.start + info.file_size, _PIECE):
                        section.check()
                        crc = zlib.crc32(memory[start : min(start + _PIECE, member.start + info.file_size)], crc)
                    if crc != info.CRC:
                        for place in (info.header_offset + 14, at + 16):
                            file.seek(place)
                            file.write(crc.to_bytes(4, "little"))
                at += _CENTRAL.size + sum(lengths)
        file.flush()
        os.fsync(file.fileno())
    return Path(archive_path)
