"""Archives: the files of a memory-mapped folder in one ZIP file, in the layout of the peer.

A stored member begins at a multiple of 64 bytes, so that its tensor is mapped from the archive; a compressed one is
read when the archive is loaded. The ZIP format has a checksum (CRC-32) of each member. The directory of an archive is
not trusted: names that lead out of it, links, members with the same name, overlapping members and wrong sizes are
errors.
"""

from __future__ import annotations

import functools
import lzma
import mmap
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.support.atomic import swapped_folder, whole_file
from tensorclass.support.folder_locks import FolderLock
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.progress import Bar, bytes_of, progress_of
from tensorclass.support.regular_files import open_regular, reading_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.leaves.nontensor import note_files
from tensorclass.td.leaves.object_codes import CPU
from tensorclass.td.memory.mapped_files import Filename, pieces

from .common import collection_tree, describe_collection, rebuild_collection
from .common.collection_tree import FileError
from .common.decompression import Compression, excess_of, unpacked
from .common.file_paths import check_parent, names_in_zip, path_of
from .common.prefetch import prefetching
from .memmap import folder_layout
from .memmap.memmap_folder import LoadOptions, SaveOptions, keep_foreign_files

SUFFIX = ".tdz"  #: memmap() writes an archive to a path with this suffix

_METHODS = {
    "stored": zipfile.ZIP_STORED, "deflate": zipfile.ZIP_DEFLATED, "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA,
}  # fmt: skip
_LEVELS = {zipfile.ZIP_DEFLATED: range(-1, 10), zipfile.ZIP_BZIP2: range(1, 10)}  #: other methods ignore the level
_ALIGN = 64  #: stored members begin at multiples of this
_PIECE = 2**24
_DEEPEST = 2 * collection_tree.DEPTH + 2  #: the most components of a member's path
_SIZES_BEHIND = 8  #: the flag of a member whose sizes are repeated after its bytes
_FILLED = b"td"  #: the tag of padding in the header of a member
_LOCAL, _CENTRAL = struct.Struct("<4s22xHH"), struct.Struct("<4s24xHHH12x")
_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]


# ---------------------------------------------------------------------------------------------------------------------
# writing


_LONGEST_NAME = 2**16 - 1  #: bytes of a name in the ZIP format


def compression_method(compression: str | int | None, what: str) -> int:
    """Return the number of a compression in ZIP files. ``what`` is the caller, for errors."""
    if compression is None:
        return zipfile.ZIP_STORED
    found = _METHODS.get(compression, -1) if isinstance(compression, str) else compression
    if type(found) is not int or found not in _METHODS.values():
        raise ValueError(
            f"{what}: expected compression to be one of {sorted(_METHODS)}, or what zipfile calls them, "
            f"got {compression!r}"
        )
    return found


def save_archive(data: TensorCollection, path: Filename, options: SaveOptions, then: Callable[[str], object]) -> None:
    """Write a collection to an archive, all of it or nothing.

    One thread writes the archive; others bring the values of the next tensors to the memory of the CPU in C order.
    ``then`` is called with the path of the draft before it takes its final name, at which another writer might soon put
    another file.
    """
    what, values = options.what, options.values
    method = compression_method(options.compression, what)
    if not options.robust_key:
        folder_layout.check_keys(data, what)
    node, leaves = describe_collection.describe(data, what, options.allow_pickle, options.checksum)
    if not ({"entries", "parts"} & node.keys() or node["type"] == "column"):
        raise describe_collection.no_collection(data, what)
    meta_files = folder_layout.meta_files(node, what, os.fspath(path))
    for leaf in leaves:
        name = folder_layout.tensor_path(leaf.path, leaf.buffer)
        if len(name) > _LONGEST_NAME // 4 and len(os.fsencode(name)) > _LONGEST_NAME:
            raise ValueError(
                f"{what}: nothing was written; the keys {'.'.join(leaf.path)[:80]}... together are longer than a file "
                f"name in an archive can be: {_LONGEST_NAME} bytes"
            )
    total = sum(leaf.tensor.numel() * leaf.tensor.element_size() for leaf in leaves)
    with (
        uninterrupted() as section,
        _archive_writer(path, method, None, then) as write,
        bytes_of(total, what, options.progress) as bar,
        section.interruptible(),
    ):
        for meta_folder, text in meta_files:
            write(meta_folder + folder_layout.META, iter([memoryview(text)]))
        filled = [leaf for leaf in leaves if leaf.tensor.numel()]
        copied = [leaf.tensor for leaf in filled if values or leaf.of_objects]
        with closing(_contents(copied, options.num_threads)) as contents:
            for leaf in filled:
                content = next(contents) if values or leaf.of_objects else _zeros(leaf.tensor)
                write(folder_layout.tensor_path(leaf.path, leaf.buffer), _with_progress(content, bar))


def _contents(tensors: Sequence[Tensor], num_threads: int) -> Generator[Iterator[memoryview], None, None]:
    """Yield the bytes of each tensor; threads bring those of the next ones to the memory of the CPU in C order."""
    if num_threads < 2:
        yield from map(pieces, tensors)
        return
    ahead: deque[Future[list[memoryview]]] = deque()
    with ThreadPoolExecutor(num_threads, thread_name_prefix="archive") as pool:
        for tensor in tensors:
            ahead.append(pool.submit(list[memoryview], pieces(tensor)))
            if len(ahead) > num_threads:
                yield iter(ahead.popleft().result())
        while ahead:
            yield iter(ahead.popleft().result())


def pack_memmap(
    prefix: Filename,
    archive_path: Filename,
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
    progress: bool | None = None,
    pbar: bool | None = None,
) -> Path:
    """See :func:`tensorclass.pack_memmap`."""
    progress = progress_of("pack_memmap", progress, pbar)
    root = Path(path_of(prefix, "pack_memmap"))
    if not (root / folder_layout.META).is_file():
        raise FileError(f"{root}: nothing is saved there: it has no {folder_layout.META}")
    method = compression_method(compression, "pack_memmap")
    levels = _LEVELS.get(method)
    if compresslevel is not None and levels is not None and compresslevel not in levels:
        raise ValueError(
            f"pack_memmap: expected compresslevel to be {levels.start} to {levels.stop - 1} for this compression, got "
            f"{compresslevel!r}"
        )
    with uninterrupted() as section, FolderLock(section) as folder_lock:
        folder_lock.share(root)  # writers wait, so that one version is packed
        files = sorted(_files_below(root, ""), key=lambda name: (name != folder_layout.META, name))
        total = sum(os.path.getsize(root / name) for name in files)
        with (
            _archive_writer(archive_path, method, compresslevel) as write,
            bytes_of(total, "pack_memmap", progress) as bar,
            section.interruptible(),
        ):
            for name in files:
                with reading_regular(root / name) as file:
                    content = (memoryview(piece) for piece in iter(functools.partial(file.read, _PIECE), b""))
                    write(name, _with_progress(content, bar))
    return Path(archive_path)


@contextmanager
def _archive_writer(
    path: Filename, method: int, level: int | None, then: Callable[[str], object] | None = None
) -> Generator[Callable[[str, Iterator[memoryview]], None], None, None]:
    path = path_of(path, "an archive", writes=True)
    check_parent(path)
    with whole_file(path) as file:
        with zipfile.ZipFile(file, "w", method, compresslevel=level) as archive:
            chosen = Compression(method)

            def write(name: str, pieces: Iterator[memoryview]) -> None:
                info = zipfile.ZipInfo(name)  # with the date 1980, so that equal values make equal files
                info.external_attr = 0o644 << 16
                info.compress_type, pieces = chosen.of(name, pieces)
                info._compresslevel = level  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
                start = file.tell() + 30 + len(name.encode()) + 20  # the header with its ZIP64 field
                if method == zipfile.ZIP_STORED and name.endswith(folder_layout.SUFFIX) and start % _ALIGN:
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


def _files_below(root: Path, prefix: str) -> Iterator[str]:
    with os.scandir(root / prefix) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(root, f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            yield prefix + entry.name
        else:
            raise FileError(f"{entry.path}: expected a regular file or a folder; links are not followed")


def _with_progress(pieces: Iterator[memoryview], bar: Bar[Any]) -> Iterator[memoryview]:
    """Yield the content in pieces of at most 16 MB; advance a progress bar."""
    for piece in pieces:
        for start in range(0, len(piece), _PIECE):
            part = piece[start : start + _PIECE]
            yield part
            bar.advance(len(part))


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
    start: int  #: the offset of its bytes


class _Archive:
    """An open archive whose directory has been checked."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self.handle: int = file.fileno()
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, struct.error, NotImplementedError) as error:
            raise FileError(f"{name}: not an archive of a memory-mapped folder, or damaged ({error})") from None
        self.members: dict[str, _Member] = {}
        self.folders: set[str] = {""}
        self.contents: dict[str, set[str]] = {}  #: the names of the files and folders in each folder
        found = [self._add(info, file) for info in self.zip.infolist()]
        ends, gap = 0, True  # bytes before the first member are allowed
        for info, start in sorted(found, key=lambda member: member.start):
            if info.header_offset < ends:
                raise self.damaged(info.filename, "it overlaps another member")
            if info.header_offset > ends and not gap:  # a header with a wrong length would shift all values
                raise self.damaged(info.filename, "there is a gap between it and the member before it")
            ends, gap = start + info.compress_size, bool(info.flag_bits & _SIZES_BEHIND)
        if ends > self.zip.start_dir or not (gap or ends == self.zip.start_dir):
            raise FileError(f"{name}: the sizes of its members do not fit its directory")
        if folder_layout.META not in self.members:
            raise FileError(f"{name}: not an archive of a memory-mapped folder: it has no member {folder_layout.META}")
        if excess := excess_of(member.info for member in self.members.values()):
            raise FileError(
                f"{name}: its compressed {excess}; if you trust it, unpack it with another program (unzip) and load "
                "the folder with load_memmap"
            )

    def _add(self, info: zipfile.ZipInfo, file: IO[bytes]) -> _Member:
        name = info.filename
        parts = name.removesuffix("/").split("/")
        if info.orig_filename != name or "\\" in name or any(part in ("", ".", "..") for part in parts):
            raise self.damaged(name, "the name of a member must be a relative path, without '..'")
        if len(parts) > _DEEPEST:
            raise self.damaged(name[:80], "it is in too many folders")
        kind, is_stored = stat.S_IFMT(info.external_attr >> 16), info.compress_type == zipfile.ZIP_STORED
        problems = {
            "there are two members of this name": name in self.members,
            "expected a regular file or a folder": kind not in (0, stat.S_IFREG, stat.S_IFDIR),
            "it is encrypted": info.flag_bits & 0x1,
            f"its compression is unknown here ({info.compress_type})": info.compress_type not in _METHODS.values(),
            "its two sizes differ although it is not compressed": is_stored and info.compress_size != info.file_size,
        }
        for why, is_so in problems.items():
            if is_so:
                raise self.damaged(name, why)
        folder = ""
        for part in parts[:-1]:
            self.contents.setdefault(folder, set()).add(part)
            folder += f"{part}/"
            self.folders.add(folder)
        self.contents.setdefault(folder, set()).add(parts[-1])
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
                    raise self.damaged(name, "it is longer than its declared size")
                crc = zlib.crc32(piece, crc)
                yield piece
        except FileError:
            raise
        except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise self.damaged(name, f"damaged ({error})") from None
        if left:
            raise self.damaged(name, "it is shorter than its declared size")
        if crc != info.CRC:
            raise self.damaged(name, "damaged (its checksum differs)")

    def check(self, num_threads: int = 0) -> None:
        """Read all members and compare their checksums."""

        def read(name: str) -> None:
            for _ in self.pieces(name):
                pass

        if num_threads > 1:
            with ThreadPoolExecutor(num_threads) as pool:
                list(pool.map(read, self.members))
        else:
            for name in self.members:
                read(name)


class _ArchiveFolder(NamedTuple):
    """A folder in an archive."""

    archive: _Archive
    prefix: str  #: ``""``, or the name of the folder and a slash

    @property
    def name(self) -> str:
        return f"{self.archive.name}: {self.prefix}".removesuffix(": ")

    def read_file(self, name: str) -> bytes:
        name = self.prefix + name
        member = self.archive.members.get(name)
        if member is None:
            raise self.archive.damaged(name, "missing")
        if member.info.file_size > folder_layout.LONGEST:
            raise self.archive.damaged(name, f"it is longer than {folder_layout.LONGEST} bytes")
        return b"".join(self.archive.pieces(name))

    def names(self) -> set[str]:
        return self.archive.contents.get(self.prefix, set())


class _ArchiveFolderTree:
    """The folders of an archive by key."""

    def __init__(self, archive: _Archive, allow_pickle: bool) -> None:
        self.archive = archive
        self.allow_pickle: bool = allow_pickle
        self.known: dict[tuple[str, ...], str] = {(): ""}

    def at(self, path: tuple[str, ...]) -> _ArchiveFolder:
        prefix = self.known.get(path)
        if prefix is None:
            prefix = self.known[path] = f"{self.at(path[:-1]).prefix}{folder_layout.file_name(path[-1])}/"
            if prefix not in self.archive.folders:
                raise self.archive.damaged(prefix, "missing")
        return _ArchiveFolder(self.archive, prefix)

    def below(self, keys: tuple[str, ...]) -> str:
        """Return the folder of a nested collection, relative to the outermost one."""
        folders = _ArchiveFolderTree(self.archive, self.allow_pickle)
        for depth in range(len(keys)):
            outer = folders.at(keys[:depth])
            values = f"{outer.prefix}{folder_layout.VALUES_FOLDER}/{folder_layout.META}"
            if values in self.archive.members and "shape" not in folder_layout.read_meta(outer):
                folders.use_values_folder(keys[:depth])
        return folders.at(keys).prefix

    def mark_foreign(self, path: tuple[str, ...]) -> None:
        """Do nothing: the names of files in archives are always escaped."""

    def use_values_folder(self, path: tuple[str, ...]) -> None:
        prefix = self.at(path).prefix
        if prefix.endswith(f"{folder_layout.VALUES_FOLDER}/"):
            raise self.archive.damaged(prefix + folder_layout.META, "its shape is missing")
        self.known[path] = f"{prefix}{folder_layout.VALUES_FOLDER}/"


@contextmanager
def _open_archive(path: Filename) -> Generator[_Archive, None, None]:
    name = os.path.abspath(path)
    with reading_regular(name) as file:
        yield _Archive(file, name)


def is_memmap_archive(path: Filename) -> bool:
    """See :func:`tensorclass.is_memmap_archive`."""
    return os.path.isfile(path) and folder_layout.META in names_in_zip(path)


class _ArchiveTensors:
    """Reads the tensors of an archive: stored ones are mapped to memory, compressed ones are decompressed."""

    def __init__(self, archive: _Archive, folders: _ArchiveFolderTree, options: LoadOptions) -> None:
        self._archive = archive
        self._folders = folders
        self._options = options
        self._memory: mmap.mmap | None = None

    def open(self, key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Callable[[], Tensor]:
        """Return a function that reads a tensor, also in another thread."""
        archive, device = self._archive, self._options.device
        if not shape.numel():
            return lambda: torch.empty(shape, dtype=dtype, device=device or CPU)
        name = self._member_name(key, buffer, dtype, shape)
        info, start = archive.members[name]
        is_stored = info.compress_type == zipfile.ZIP_STORED and not start % dtype.itemsize
        if self._options.mode == "r+" and not is_stored:
            raise RuntimeError(
                f"load_memmap: {archive.name}: {name} is compressed, or not aligned, and cannot be written in place; "
                "save the archive without compression, or load it without mode='r+'"
            )
        memory = self._mapped() if is_stored else None

        def read() -> Tensor:
            if memory is None:
                value = _read_member(archive, name, dtype, shape)
            else:
                value = _frombuffer(memory, dtype=dtype, count=shape.numel(), offset=start).view(shape)
            return value if device is None else value.to(device, non_blocking=self._options.non_blocking)

        return read

    def read(self, key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        return self.open(key, buffer, dtype, shape)()

    def read_strings(self, key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        """Read the texts of objects into the memory of the CPU; compare their checksum."""
        if not shape.numel():
            return torch.empty(shape, dtype=dtype)
        return _read_member(self._archive, self._member_name(key, buffer, dtype, shape), dtype, shape)

    def _member_name(self, key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size) -> str:
        """Return the name of the member of a tensor; raise if it is missing, or too short."""
        name = self._folders.at(key[:-1]).prefix + folder_layout.tensor_file(key[-1], buffer)
        member, needed = self._archive.members.get(name), shape.numel() * dtype.itemsize
        if member is None:
            raise self._archive.damaged(name, "missing")
        if member.info.file_size < needed:
            expected = f"expected {needed} bytes, for the shape {list(shape)} of {dtype}"
            raise self._archive.damaged(name, f"{expected}; it has {member.info.file_size}")
        return name

    def _mapped(self) -> mmap.mmap:
        if self._memory is None:
            if self._options.mode == "r+":
                with os.fdopen(open_regular(self._archive.name, os.O_RDWR), "r+b") as writable:
                    self._memory = mmap.mmap(writable.fileno(), 0, access=mmap.ACCESS_WRITE)
            else:
                self._memory = mmap.mmap(self._archive.handle, 0, access=mmap.ACCESS_COPY)
        return self._memory


def _read_member(archive: _Archive, name: str, dtype: torch.dtype, shape: Size) -> Tensor:
    value = torch.empty(shape, dtype=dtype, device="cpu")
    target = memoryview(value.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
    at = 0
    for piece in archive.pieces(name):
        part = piece[: len(target) - at]
        target[at : at + len(part)] = part
        at += len(part)
    return value


def load_archive(target: Any, path: Filename, options: LoadOptions, subpath: tuple[str, ...] = ()) -> Any:
    """Return the collection in an archive, with its stored tensors mapped to memory.

    Args:
        target: the class of the result, or a collection whose classes it gets.
        path: the archive.
        options: how it is loaded. :func:`refresh_archive_checksums` updates the checksums after changes that the mode
            ``"r+"`` writes.
        subpath: the key of a nested collection, to load only that.

    Raises:
        FileNotFoundError: there is no such file.
        FileError: it is damaged, or does not fit the record.
    """
    options.check_mode()
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {printable(os.path.abspath(path))}")
    with _open_archive(path) as archive:
        if options.verify:
            archive.check(options.num_threads)
        folders = _ArchiveFolderTree(archive, options.allow_pickle)
        folders.known[()] = folders.below(subpath)
        try:
            node = folder_layout.read_node(folders, ())
        except RecursionError:
            raise FileError(f"{archive.name}: its metadata is nested too deep") from None
        tensors, device = _ArchiveTensors(archive, folders, options), options.device
        is_blank = rebuild_collection.needs_no_values(device)
        read = rebuild_collection.blank_reader(device or CPU) if is_blank else tensors.read
        source = options.source(archive.name, read, tensors.read_strings)
        source = source._replace(verify=False, check_text=options.verify)  # the checksums are those of the members
        with prefetching(node, source, tensors.open, 0 if is_blank else options.num_threads) as source:
            return note_files(rebuild_collection.rebuild(node, target, source))


def unpack_memmap(
    archive_path: Filename, prefix: Filename, *, progress: bool | None = None, pbar: bool | None = None
) -> Path:
    """See :func:`tensorclass.unpack_memmap`."""
    progress = progress_of("unpack_memmap", progress, pbar)
    archive_path = path_of(archive_path, "unpack_memmap")
    if not os.path.isfile(archive_path):
        raise FileError(f"{archive_path}: there is no such file")
    path = Path(path_of(prefix, "unpack_memmap", writes=True))
    with _open_archive(archive_path) as archive:
        existing = next(parent for parent in (path, *path.parents) if parent.is_dir())
        needed = sum(member.info.file_size for member in archive.members.values())
        free = shutil.disk_usage(existing).free
        if needed > free:
            raise FileError(f"{archive.name}: unpacking it takes {needed} bytes; {existing} has {free} free")
        with (
            uninterrupted() as section,
            swapped_folder(path, finish=functools.partial(keep_foreign_files, path)) as draft,
            bytes_of(needed, "unpack_memmap", progress) as bar,
            section.interruptible(),
        ):
            for name in archive.members:
                target = draft / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "xb") as file:
                    for piece in archive.pieces(name):
                        file.write(piece)
                        bar.advance(len(piece))
    return Path(prefix)


def refresh_archive_checksums(archive_path: Filename) -> Path:
    """See :func:`tensorclass.refresh_archive_checksums`."""
    if not os.path.isfile(archive_path):
        raise FileError(f"{os.path.abspath(archive_path)}: not an archive of a memory-mapped folder: no such file")
    with (
        uninterrupted() as section,
        _open_archive(archive_path) as archive,
        os.fdopen(open_regular(archive.name, os.O_RDWR), "r+b") as file,
    ):
        with mmap.mmap(archive.handle, 0, access=mmap.ACCESS_READ) as memory:
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
                        for offset in (info.header_offset + 14, at + 16):
                            file.seek(offset)
                            file.write(crc.to_bytes(4, "little"))
                at += _CENTRAL.size + sum(lengths)
        file.flush()
        os.fsync(file.fileno())
    return Path(archive_path)
