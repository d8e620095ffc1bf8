"""More rows in a folder of memory-mapped files, behind those that are there.

The values go to the ends of the files, behind what ``meta.json`` tells of, where no reader looks. Then a new folder
takes the place of the old one in one step: it has links to the same files, and tells of the new rows. An append that is
killed before that leaves bytes that the next one writes over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.atomic import acquire_folder, swapped_folder
from tensorclass.folder_locks import FolderLock, is_at
from tensorclass.interrupts import Uninterrupted, uninterrupted
from tensorclass.printable import printable
from tensorclass.progress import bytes_of
from tensorclass.record import TensorClass
from tensorclass.regular import kind_of, open_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import dotted
from tensorclass.td.memmap import Filename, write_values
from tensorclass.td.namesakes import namesake
from tensorclass.td.nontensor import NonTensorData, NonTensorDataBase
from tensorclass.td.stores.lazy.stack import LazyStacked
from tensorclass.td.unbatched import UnbatchedTensor

from . import folder, layout, open_folders, tree
from .paths import path_of
from .tree import FileError, Leaf, Node, Source, as_list, dtype_of, size_of


class Piece(NamedTuple):
    """A file of the new folder: what it has already, and what is written behind that."""

    path: tree.Path
    part: str
    start: int  #: how many bytes it has
    tensor: Tensor | None


def append_memmap(
    cls: Any,
    prefix: Filename,
    rows: TensorCollection,
    *,
    allow_pickle: bool | None = None,
    progress: bool | None = None,
) -> None:
    """See :meth:`TensorDict.append_memmap`."""
    path = Path(path_of(prefix, "append_memmap"))
    if not isinstance(rows, TensorCollection):
        raise TypeError(f"append_memmap: expected rows to be a collection, got {type(rows).__name__}")
    if issubclass(cls, TensorClass) and not isinstance(rows, cls):
        twin = namesake(type(rows), [cls])
        raise TypeError(
            f"append_memmap: expected rows of the class {cls.__name__}, got {type(rows).__name__}"
            + (f"; {twin}" if twin else "")
        )
    with uninterrupted() as section, FolderLock(section) as folder_lock:
        root = _root(path, folder_lock)
        growth = Growth(str(path), bool(allow_pickle))
        folders = open_folders.Folders(root, pickles=growth.pickles)
        try:
            count = growth.rows_of(rows)
            there = layout.read_node(folders, ())  # which opens files, and none stays open
            with section.interruptible():
                node = growth.grown(there, rows, (), count)
                if growth.problems:
                    raise ValueError(
                        f"{printable(path)}: append_memmap: nothing was written; " + "; ".join(growth.problems)
                    )
            growth.check_offsets(folders)
            _Writing(path, folders, folder_lock, section).write(node, growth.pieces, progress)
        except FileNotFoundError as error:
            raise ValueError(
                f"{printable(path)}: append_memmap appends to a folder that memmap() wrote: {error}"
            ) from None
        finally:
            folders.close()


def _root(path: Path, folder_lock: FolderLock) -> open_folders.Opened:
    """The open folder, when no other process or thread writes to it."""
    folder_lock.share_above(path)
    try:
        found = acquire_folder(folder_lock, path)
    except NotADirectoryError:
        found = False
    if not found or folder_lock.handle is None:
        raise ValueError(f"{printable(path)}: append_memmap appends to a folder that memmap() wrote, and there is none")
    if not folder_lock.is_locked:
        raise OSError(
            errno.ENOLCK,
            "append_memmap needs locks, which this file system does not have: two processes would write over each "
            "other's rows. Append where there are locks, and copy the folder",
            str(path),
        )
    return open_folders.Opened(folder_lock.handle, str(path))


class Growth:
    """How the tree of a folder changes when rows come, and what is written to its files."""

    def __init__(self, file: str, allow_pickle: bool) -> None:
        self.file = file
        self.pickles = allow_pickle
        self.problems: list[str] = []
        self.pieces: list[Piece] = []
        self.source: Source = Source(file, self._no_reader)

    @staticmethod
    def _no_reader(path: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        raise AssertionError("an append reads no tensor")

    def rows_of(self, rows: TensorCollection) -> int:
        """How many rows come."""
        if not rows.ndim:
            raise ValueError(
                f"{self.file}: append_memmap appends along the first batch dimension, and the rows have none; "
                "unsqueeze(0) makes one row of them"
            )
        return rows.shape[0]

    def grown(self, node: Node, rows: Any, path: tree.Path, count: int) -> Node:
        """The node with the rows, all of which are looked at; what does not fit is noted."""
        kind = node["type"]
        if kind == "lazy_stack":
            return self._stack(node, rows, path, count)
        if kind == "collection":
            return self._collection(node, rows, path, count)
        self._differ(path, "rows of a collection", f"a saved value of the type {kind!r}")
        return node

    def _collection(self, node: Node, rows: Any, path: tree.Path, count: int) -> Node:
        if not isinstance(rows, TensorCollection) or not rows._is_tree():
            self._differ(path, "a nested collection", _named(rows))
            return node
        size = size_of(node.get("batch_size"), self.source, path)
        if not size or rows.shape[1:] != size[1:] or rows.shape[:1] != (count,):
            self._differ(path, f"rows of the batch size {_rows(size)}", list(rows.shape))
            return node
        entries: dict[str, Node] = node["entries"]
        got = list(rows._store.keys())
        if set(got) != set(entries):
            missing, unexpected = [key for key in entries if key not in got], [key for key in got if key not in entries]
            self.problems.append(
                f"{dotted(path) + ': ' if path else ''}the keys there are {list(entries)}, the rows have {got}"
                + (f"; missing: {missing}" if missing else "")
                + (f"; unexpected: {unexpected}" if unexpected else "")
            )
            return node
        grown = {key: self._entry(entry, rows._store[key], (*path, key), size, count) for key, entry in entries.items()}
        return {**node, "batch_size": [size[0] + count, *size[1:]], "entries": grown}

    def _entry(self, node: Node, value: Any, path: tree.Path, size: Size, count: int) -> Node:
        kind = node["type"]
        if kind == "object" or kind == "objects":
            return self._objects(node, value, path, size, count)
        if kind == "unbatched":
            return self._unbatched(node, value, path)
        if kind == "tensor":
            return self._tensor(node, value, path)
        if kind == "jagged":
            return self._jagged(node, value, path)
        if kind == "nested":
            self._differ(path, "a layout that can grow", "a nested tensor of the older layout; load and save it first")
            return node
        return self.grown(node, value, path, count)

    def _tensor(self, node: Node, value: Any, path: tree.Path) -> Node:
        dtype, size = dtype_of(node["dtype"], self.source, path), size_of(node["shape"], self.source, path)
        if not isinstance(value, Tensor) or value.is_nested:
            self._differ(path, "a tensor", _named(value))
        elif value.dtype != dtype or not size or value.shape[1:] != size[1:]:
            self._differ(path, f"{dtype} of the shape {_rows(size)}", f"{value.dtype} of {list(value.shape)}")
        elif self._can_be_written(value, path):
            self.pieces.append(Piece(path, "", size.numel() * dtype.itemsize, value))
            return {**node, "shape": [size[0] + len(value), *size[1:]], **_checksums(node, value)}
        return node

    def _jagged(self, node: Node, value: Any, path: tree.Path) -> Node:
        dtype, size = dtype_of(node["dtype"], self.source, path), size_of(node["shape"], self.source, path)
        rows = node["rows"]
        if not isinstance(value, Tensor) or not value.is_nested:
            self._differ(path, "a jagged tensor", _named(value))
            return node
        leaves = self._can_be_written(value, path)
        if len(leaves) != 2:
            return node
        values, offsets = leaves[0].tensor, leaves[1].tensor
        if values.dtype != dtype or values.shape[1:] != size[1:]:
            expected = f"{dtype} with values of the shape {_rows(size)}"
            self._differ(path, expected, f"{values.dtype} with {list(values.shape)}")
            return node
        self.pieces.append(Piece(path, "", size.numel() * dtype.itemsize, values))
        offsets = offsets[1:] + size[0]
        self.pieces.append(Piece(path, "offsets", (rows + 1) * 8, offsets))
        grown = {"shape": [size[0] + len(values), *size[1:]], "rows": rows + len(offsets)}
        return {**node, **grown, **_checksums(node, values, offsets)}

    def _unbatched(self, node: Node, value: Any, path: tree.Path) -> Node:
        dtype, size = dtype_of(node["dtype"], self.source, path), size_of(node["shape"], self.source, path)
        if not isinstance(value, UnbatchedTensor):
            self._differ(path, "a tensor that is one for all rows", _named(value))
        elif value._tensor.dtype != dtype or value._tensor.shape != size:
            self._differ(
                path, f"{dtype} of the shape {list(size)}", f"{value._tensor.dtype} of {list(value._tensor.shape)}"
            )
        else:
            self.pieces.append(Piece(path, "", size.numel() * dtype.itemsize, None))
        return node

    def _objects(self, node: Node, value: Any, path: tree.Path, size: Size, count: int) -> Node:
        if not isinstance(value, NonTensorDataBase):
            self._differ(path, "objects", _named(value))
            return node
        try:
            more, _ = tree.describe(value, "append_memmap", self.pickles)
        except TypeError as error:
            self.problems.append(f"{dotted(path)}: {error}")
            return node
        total = [size[0] + count, *size[1:]]
        if node["type"] == "object" and isinstance(value, NonTensorData) and more["data"] == node.get("data"):
            return {**node, "batch_size": total}
        new_rows = Size([count, *size[1:]]).numel()
        items = [*_row_by_row(node, size.numel()), *_row_by_row(more, new_rows)]
        if len(items) != size.numel() + new_rows:
            raise self.source.damaged(path, f"expected {size.numel()} objects for the batch size {list(size)}")
        return {"type": "objects", "batch_size": total, "data": items}

    def _stack(self, node: Node, rows: Any, path: tree.Path, count: int) -> Node:
        """Rows are further parts of a lazy stack, or rows of each part, where it is stacked along another dimension."""
        dim, parts = node["stack_dim"], as_list(node["parts"]) or []
        if not isinstance(rows, TensorCollection) or not rows._is_tree():
            self._differ(path, "a nested collection", _named(rows))
            return node
        if not isinstance(dim, int) or not 0 <= dim < rows.ndim:
            self._differ(path, f"rows that can be taken apart along the dimension {dim}", list(rows.shape))
            return node
        own: Any = rows
        whole = isinstance(rows, LazyStacked) and own._store.dim == dim
        items: list[Any] = list(own._store.items_ if whole else rows.unbind(dim))
        if dim:
            if len(items) != len(parts):
                self._differ(path, f"{len(parts)} parts along the dimension {dim}", len(items))
                return node
            grown = [
                self.grown(part, item, (*path, str(at)), count)
                for at, (part, item) in enumerate(zip(parts, items, strict=True))
            ]
            return {**node, "parts": grown}
        for at, part in enumerate(parts):
            self._kept(part, (*path, str(at)))
        sizes = {tuple(_size_of(part)) for part in parts} | {tuple(item.shape) for item in items}
        if len(sizes) > 1:
            self._differ(path, f"parts of the batch size {_size_of(parts[0])}", [list(item.shape) for item in items])
            return node
        checked = _is_checked(parts[0])
        new = [self._new(item, (*path, str(at)), checked) for at, item in enumerate(items, len(parts))]
        return {**node, "parts": [*parts, *new]}

    def _new(self, item: Any, path: tree.Path, checksum: bool) -> Node:
        """A further part of a lazy stack."""
        try:
            node, leaves = tree.describe(item, "append_memmap", self.pickles, checksum, path)
        except TypeError as error:
            self.problems.append(f"{dotted(path)}: {error}")
            return {}
        self.pieces += [Piece((*path, *leaf.path), leaf.part, 0, leaf.tensor) for leaf in leaves]
        return node

    def _kept(self, node: Node, path: tree.Path) -> None:
        """The files of a part that stays as it is."""
        kind = node["type"]
        if kind == "lazy_stack":
            for at, part in enumerate(as_list(node["parts"]) or []):
                self._kept(part, (*path, str(at)))
        elif kind == "collection":
            for key, entry in node["entries"].items():
                self._kept(entry, (*path, key))
        elif kind == "nested":
            self._differ(path, "a layout that can grow", "a nested tensor of the older layout; load and save it first")
        elif "dtype" in node:
            dtype, size = dtype_of(node["dtype"], self.source, path), size_of(node["shape"], self.source, path)
            self.pieces.append(Piece(path, "", size.numel() * dtype.itemsize, None))
            if kind == "jagged":
                self.pieces.append(Piece(path, "offsets", (node["rows"] + 1) * 8, None))

    def _can_be_written(self, value: Tensor, path: tree.Path) -> list[Leaf]:
        leaves: list[Leaf] = []
        tree.node_of_tensor(value, path, leaves, self.problems)
        return leaves

    def check_offsets(self, folders: open_folders.Folders) -> None:
        """The files are as long as they should be: nothing is written behind a gap."""
        for piece in self.pieces:
            if piece.start:
                opened, name = folders.find(piece.path, piece.part)
                info = os.stat(name, dir_fd=opened.handle, follow_symlinks=False)
                if not stat.S_ISREG(info.st_mode):
                    raise FileError(f"{opened.name}/{name}: expected a file, found {kind_of(info.st_mode)}")
                if info.st_size < piece.start:
                    raise FileError(f"{opened.name}/{name}: expected {piece.start} bytes; it has {info.st_size}")

    def _differ(self, path: tree.Path, expected: Any, got: Any) -> None:
        self.problems.append(f"{dotted(path) + ': ' if path else ''}expected {expected}, got {got}")


class _Grown(NamedTuple):
    """A file that has been written to behind its end."""

    path: tree.Path
    part: str
    place: tuple[int, int]  #: its device and number: what is at its path may be another one
    length: int  #: how long it was


class _Writing:
    """The values at the ends of the files, then the folder that tells of them."""

    def __init__(self, path: Path, old: open_folders.Folders, folder_lock: FolderLock, section: Uninterrupted) -> None:
        self._path = path
        self._old = old
        self._folder_lock = folder_lock
        self._section = section
        self._grown: list[_Grown] = []

    def write(self, node: Node, pieces: list[Piece], progress: bool | None) -> None:
        """Write it all, or nothing: files that have grown are cut again, if they are those of the path still."""
        root = self._folder_lock.handle
        total = sum(piece.tensor.numel() * piece.tensor.element_size() for piece in pieces if piece.tensor is not None)
        try:
            with (
                swapped_folder(self._path, self._folder_lock) as draft,
                bytes_of(total, "append_memmap", progress) as shown,
            ):
                with self._section.interruptible():
                    folders = layout.metas(node, "append_memmap", self._path)
                    for place, meta in folders:
                        if place:
                            os.mkdir(draft / place)
                        (draft / place / layout.META).write_bytes(meta)
                for piece in pieces:
                    *above, key = piece.path
                    name = "/".join([*map(layout.file_name, above), layout.tensor_file(key, piece.part)])
                    with contextlib.ExitStack() as stack:
                        file = self._file(piece, draft / name)
                        if file is not None:
                            stack.callback(os.close, file)
                        with self._section.interruptible():
                            if file is not None and piece.tensor is not None:
                                write_values(file, piece.tensor, shown.advance)
                folder.keep_strangers(self._path, draft)
        except BaseException:
            # behind the exchange the new folder tells of what was written
            if root is not None and is_at(root, self._path):
                self._cut()
            raise

    def _file(self, piece: Piece, place: Path) -> int | None:
        """The file of a piece in the new folder, open where values come, and at the place for them."""
        written = piece.tensor is not None and piece.tensor.numel() > 0
        if not piece.start:
            return os.open(place, _NEW, 0o666) if written else None
        opened, name = self._old.find(piece.path, piece.part)
        shown = f"{opened.name}/{name}"
        file = open_regular(name, os.O_RDWR if written else os.O_RDONLY, folder=opened.handle, shown=shown)
        try:
            info = os.fstat(file)
            if written and info.st_nlink > 1:
                copy = os.open(place, _NEW, 0o666)
                file, source = copy, file
                try:
                    with self._section.interruptible():
                        copy_values(source, copy, piece.start)
                finally:
                    os.close(source)
            else:
                os.link(name, place, src_dir_fd=opened.handle, follow_symlinks=False)
                if not os.path.samestat(info, os.lstat(place)):
                    raise FileError(f"{shown}: another file has taken its place")
                if not written:
                    os.close(file)
                    return None
                self._grown.append(_Grown(piece.path, piece.part, (info.st_dev, info.st_ino), info.st_size))
            os.lseek(file, piece.start, os.SEEK_SET)
        except BaseException:
            os.close(file)
            raise
        return file

    def _cut(self) -> None:
        """Files end where they ended before; what cannot be cut stays, behind what the folder tells of."""
        for grown in self._grown:
            with contextlib.suppress(OSError):
                opened, name = self._old.find(grown.path, grown.part)
                file = open_regular(name, os.O_RDWR, folder=opened.handle)
                try:
                    info = os.fstat(file)
                    if (info.st_dev, info.st_ino) == grown.place and info.st_size > grown.length:
                        os.ftruncate(file, grown.length)
                finally:
                    os.close(file)


_NEW: Final[int] = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def copy_values(source: int, copy: int, count: int) -> None:
    """Copy the begin of an open file to a new one; holes, which take no space, stay holes."""
    at = 0
    while at < count:
        try:
            start = os.lseek(source, at, os.SEEK_DATA) if _HOLES else at
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # nothing but a hole follows
        stop = min(count, os.lseek(source, start, os.SEEK_HOLE)) if _HOLES else count
        os.lseek(source, start, os.SEEK_SET)
        os.lseek(copy, start, os.SEEK_SET)
        at = start
        while at < stop:
            piece = os.read(source, min(_PIECE, stop - at))
            if not piece:
                raise OSError(errno.EIO, "the file has become shorter while it was copied")
            at += len(piece)
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(copy, rest) :]
    os.ftruncate(copy, count)


_HOLES = hasattr(os, "SEEK_DATA")
_PIECE = 2**22


def _checksums(node: Node, *more: Tensor) -> Node:
    """The checksums of a tensor that has more values, where it had some."""
    sums = as_list(node.get("crc32"))
    if sums is None:
        return {}
    if len(sums) != len(more) or any(type(found) is not int for found in sums):
        raise ValueError(f"append_memmap: the checksums {ascii(sums)[:80]} are damaged")
    return {"crc32": [tree.checksum_of(value, before & 0xFFFFFFFF) for before, value in zip(sums, more, strict=True)]}


def _is_checked(node: Node) -> bool:
    if node["type"] == "lazy_stack":
        return _is_checked(node["parts"][0])
    return "crc32" in node or any(_is_checked(entry) for entry in node.get("entries", {}).values())


def _row_by_row(node: Node, count: int) -> list[Any]:
    """What stands for the object of each row."""
    if node["type"] == "object":
        return [node.get("data")] * count
    return as_list(node.get("data")) or []


def _size_of(node: Node) -> list[int]:
    """The batch size of a collection in a folder."""
    if node["type"] != "lazy_stack":
        return node.get("batch_size") or []
    size = list(_size_of(node["parts"][0]))
    return [*size[: node["stack_dim"]], len(node["parts"]), *size[node["stack_dim"] :]]


def _named(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {list(value.shape)}" if not value.is_nested else "a jagged tensor"
    return type(value).__name__


def _rows(size: Size) -> str:
    return f"[{', '.join(['*', *map(str, size[1:])])}]"
