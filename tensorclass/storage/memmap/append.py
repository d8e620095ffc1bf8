"""Append rows to a memory-mapped folder.

Values are written to the ends of the files, beyond the shapes in ``meta.json``, where no reader looks. Then a new
folder replaces the old one in one step: it has links to the same files, and the new shapes. An append that is killed
before that leaves bytes that the next one overwrites.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import torch
from torch import Size, Tensor

from tensorclass.records.record import TensorClass
from tensorclass.storage.common import collection_tree, describe_collection, object_json, rebuild_collection
from tensorclass.storage.common.collection_tree import FileError, Node, TensorLeaf, as_list, parse_dtype, parse_size
from tensorclass.storage.common.file_paths import path_of
from tensorclass.storage.common.rebuild_collection import names_by_field
from tensorclass.support.atomic import acquire_folder, swapped_folder
from tensorclass.support.folder_locks import FolderLock, is_at
from tensorclass.support.interrupts import Uninterrupted, uninterrupted
from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.support.progress import bytes_of, progress_of
from tensorclass.support.regular_files import file_type, open_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind, has_spans, holds_objects
from tensorclass.td.leaves.object_codes import codes_row_by_row
from tensorclass.td.memory.mapped_files import Filename, write_values
from tensorclass.td.same_named_classes import namesake
from tensorclass.td.stored_names import stored_name
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked

from . import folder_layout, memmap_folder, open_folders

METHODS_OF = "MemoryMaps"
C = TypeVar("C", bound=TensorCollection)

#: nested tensors as ``tensordict`` writes them
_OLDER = "a nested tensor of the older layout; save a copy first: load_memmap(folder).clone().memmap(another_folder)"


class AppendedFile(NamedTuple):
    """A file of the new folder."""

    path: collection_tree.Path
    buffer: str
    start: int  #: the number of bytes that the file has already
    tensor: Tensor | None  #: the values to append


def append_memmap(
    cls: type[C],
    prefix: Filename,
    rows: C,
    *,
    allow_pickle: bool | None = None,
    progress: bool | None = None,
    pbar: bool | None = None,
) -> None:
    """Append rows to those that :meth:`memmap` wrote to a folder.

    Existing rows are not copied, so the time depends on the new rows only. Readers see either the old rows or all
    rows, also if the process is killed. Collections that were loaded before keep their rows;
    :meth:`memmap_refresh_` gives them the new ones. Several processes may append at the same time. Files that a
    snapshot shares by hard links are copied before they grow.

    Args:
        prefix: the folder.
        rows: a collection with the same keys, dtypes and, except for the first dimension, shapes; for a record, of
            this class. Objects that differ become a column. The rows of a lazy stack become further parts. An
            unbatched tensor stays unchanged.
        allow_pickle: write objects that JSON cannot hold as pickles.
        progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
        pbar: another name of ``progress``.

    Raises:
        ValueError: nothing is saved there, or the rows do not fit. Lists all differences. Nothing was written.
        OSError: the disk is full or does not support locks. Nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
        ...     TensorDict.append_memmap(folder + "/rows", TensorDict({"x": torch.ones(2)}, [2]))
        ...     TensorDict.load_memmap(folder + "/rows")["x"].tolist()
        [0.0, 0.0, 0.0, 1.0, 1.0]
    """
    progress = progress_of("append_memmap", progress, pbar)
    path = Path(path_of(prefix, "append_memmap"))
    if not isinstance(rows, TensorCollection):
        raise TypeError(f"append_memmap: expected rows to be a collection, got {type_name(rows)}")
    if issubclass(cls, TensorClass) and not isinstance(rows, cls):
        twin = namesake(type(rows), [cls])
        raise TypeError(
            f"append_memmap: expected rows of the class {class_name(cls)}, got {type_name(rows)}"
            + (f"; {twin}" if twin else "")
        )
    with uninterrupted() as section, FolderLock(section) as folder_lock:
        folders = open_folders.OpenFolderTree(_root(path, folder_lock), allow_pickle=bool(allow_pickle))
        try:
            saved = folder_layout.read_node(folders, ())
            plan = AppendPlan(str(path), folders, _has_checksums(saved))
            with section.interruptible():
                node = plan.grown(saved, rows, (), plan.rows_of(rows))
                if plan.problems:
                    what = f"{printable(path)}: append_memmap: nothing was written"
                    raise ValueError(f"{what}; {'; '.join(plan.problems)}")
            plan.check_offsets()
            _AppendWriter(path, folders, folder_lock, section).write(node, plan.files, progress)
        except FileNotFoundError as error:
            raise ValueError(
                f"{printable(path)}: append_memmap appends to a folder that memmap() wrote: {error}"
            ) from None
        finally:
            folders.close()


def _root(path: Path, folder_lock: FolderLock) -> open_folders.OpenFolder:
    """Lock the folder and return it open. Waits for other writers."""
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
            "append_memmap needs file locks, which this file system does not have: two processes could overwrite each "
            "other's rows. Append on a file system with locks, and copy the folder",
            str(path),
        )
    return open_folders.OpenFolder(folder_lock.handle, str(path))


@dataclass
class AppendPlan:
    """Computes the new tree of a folder and the values to append to its files; collects what does not fit."""

    file: str  #: the path of the folder, for errors
    folders: open_folders.OpenFolderTree
    has_checksums: bool  #: of the tensors in the folder
    problems: list[str] = field(default_factory=list[str])
    files: list[AppendedFile] = field(default_factory=list[AppendedFile])

    @property
    def source(self) -> collection_tree.TreeSource:
        """The folder, for checks of its metadata."""
        return collection_tree.TreeSource(self.file, collection_tree.no_tensor)

    def rows_of(self, rows: TensorCollection) -> int:
        """Return the number of rows to append."""
        if not rows.ndim:
            raise ValueError(
                f"{self.file}: append_memmap appends along the first batch dimension, and the rows have none; "
                "unsqueeze(0) makes one row of them"
            )
        return rows.shape[0]

    def grown(self, node: Node, rows: Any, path: collection_tree.Path, count: int) -> Node:
        """Return the node of a collection with the rows added. Appends to ``problems`` what does not fit."""
        kind = node["type"]
        if kind == "lazy_stack":
            return self._stack(node, rows, path, count)
        if kind == "collection":
            return self._collection(node, rows, path, count)
        return self._differ(path, "rows of a collection", f"a saved value of the type {kind!r}")

    def _collection(self, node: Node, rows: Any, path: collection_tree.Path, count: int) -> Node:
        if not isinstance(rows, TensorCollection) or not rows._is_tree():
            return self._differ(path, "a nested collection", _type_in_words(rows))
        size = parse_size(node.get("batch_size"), self.source, path)
        if not size or rows.shape[1:] != size[1:] or rows.shape[:1] != (count,):
            return self._differ(path, f"rows of the batch size {_shape_of_rows(size)}", list(rows.shape))
        entries: dict[str, Node] = node["entries"]
        cls = type(rows)
        keys = {name: key for key, name in names_by_field(cls, entries, self.source, path).items()}
        got = [stored_name(cls, key) for key in rows._store]
        if set(rows._store) != set(keys.values()):
            missing = [name for name in entries if keys[name] not in rows._store]
            unexpected = [name for name, key in zip(got, rows._store, strict=True) if key not in keys.values()]
            both = (("missing", missing), ("unexpected", unexpected))
            differing = "".join([f"; {what}: {names}" for what, names in both if names])
            problem = f"the keys there are {list(entries)}, the rows have {got}{differing}"
            self.problems.append(collection_tree.at_key(path, problem))
            return node
        grown = {
            name: self._entry(entry, rows._store[keys[name]], (*path, name), size, count)
            for name, entry in entries.items()
        }
        return {**node, "batch_size": [size[0] + count, *size[1:]], "entries": grown}

    def _entry(self, node: Node, value: Any, path: collection_tree.Path, size: Size, count: int) -> Node:
        kind = node["type"]
        if kind in ("object", "objects", *collection_tree.OBJECT_ARRAYS):
            return self._objects(node, value, path, size, count)
        if kind == "column":
            return self._column(node, value, path)
        if kind == "nested":
            return self._differ(path, "a layout that can grow", _OLDER)
        by_type = {"unbatched": self._unbatched, "tensor": self._tensor, "jagged": self._jagged}
        append = by_type.get(kind) if isinstance(kind, str) else None
        return self.grown(node, value, path, count) if append is None else append(node, value, path)

    def _tensor(self, node: Node, value: Any, path: collection_tree.Path) -> Node:
        dtype, size, held = self._form(node, path)
        if not isinstance(value, Tensor) or value.is_nested:
            return self._differ(path, "a tensor", _type_in_words(value))
        if value.dtype != dtype or not size or value.shape[1:] != size[1:]:
            expected = f"{dtype} of the shape {_shape_of_rows(size)}"
            return self._differ(path, expected, f"{value.dtype} of {list(value.shape)}")
        if not self._can_be_written(value, path):
            return node
        self.files.append(AppendedFile(path, "", held, value))
        return {**node, "shape": [size[0] + len(value), *size[1:]], **_checksums(node, value)}

    def _jagged(self, node: Node, value: Any, path: collection_tree.Path) -> Node:
        dtype, size, held = self._form(node, path)
        rows = node["rows"]
        if not isinstance(value, Tensor) or not value.is_nested:
            return self._differ(path, "a jagged tensor", _type_in_words(value))
        leaves = self._can_be_written(value, path)
        if len(leaves) != 2:
            return node
        values, offsets = leaves[0].tensor, leaves[1].tensor
        if values.dtype != dtype or values.shape[1:] != size[1:]:
            expected = f"{dtype} with values of the shape {_shape_of_rows(size)}"
            return self._differ(path, expected, f"{values.dtype} with {list(values.shape)}")
        offsets = offsets[1:] + size[0]
        self.files.append(AppendedFile(path, "", held, values))
        self.files.append(AppendedFile(path, "offsets", (rows + 1) * 8, offsets))
        grown = {"shape": [size[0] + len(values), *size[1:]], "rows": rows + len(offsets)}
        return {**node, **grown, **_checksums(node, values, offsets)}

    def _column(self, node: Node, value: Any, path: collection_tree.Path, batch_size: list[int] | None = None) -> Node:
        """Append items and spans, whose starts are shifted by the items that are there.

        The batch size of a column of columns is that of the outer one.
        """
        name = str(node.get("column"))
        if not has_spans(value) or describe_collection.column_head(value)["column"] != name:
            return self._differ(path, f"a {name}", _type_in_words(value))
        entries: dict[str, Node] = node["entries"]
        values_node, spans_node = entries["values"], entries["spans"]
        old = parse_size(spans_node.get("shape"), self.source, path)
        rows = value.compact()
        spans, items = rows.spans, rows._items
        if not old or spans.shape[1:] != old[1:]:
            return self._differ(path, f"rows of the batch size {_shape_of_rows(old[:-1])}", list(rows.batch_size))
        if batch_size is None:
            batch_size = [old[0] + len(spans), *old[1:-1]]
        below = (*path, "values")
        if values_node["type"] == "column":
            if isinstance(items, Tensor):
                return self._differ(path, "rows of ragged rows", "rows of items")
            before = parse_size(values_node["entries"]["spans"].get("shape"), self.source, below)[0]
            grown_values = self._column(values_node, items, below, batch_size)
        else:
            held = parse_size(values_node.get("shape"), self.source, below)
            before = (*held, 0)[0]
            if isinstance(items, Tensor) and not len(items):  # without items: their dtype says nothing
                dtype = parse_dtype(values_node["dtype"], self.source, below)
                items = items.new_empty((0, *held[1:]), dtype=dtype)
            elif isinstance(items, Tensor) and not before:
                name = str(items.dtype).removeprefix("torch.")
                values_node = {**values_node, "dtype": name, "shape": [0, *items.shape[1:]]}
            grown_values = self._tensor(values_node, items, below)
        shifted = torch.stack((spans[..., 0] + before, spans[..., 1]), -1)
        grown_spans = self._tensor(spans_node, shifted, (*path, "spans"))
        missing = bool(node["missing"]) or describe_collection.column_head(rows)["missing"]
        grown = {"values": grown_values, "spans": grown_spans}
        return {**node, "missing": missing, "batch_size": batch_size, "entries": grown}

    def _unbatched(self, node: Node, value: Any, path: collection_tree.Path) -> Node:
        dtype, size, held = self._form(node, path)
        if content_kind(value) is not Content.TENSOR:
            return self._differ(path, "a tensor that is one for all rows", _type_in_words(value))
        own = value._wrapped_tensor()
        if own.dtype != dtype or own.shape != size:
            expected = f"{dtype} of the shape {list(size)}"
            return self._differ(path, expected, f"{own.dtype} of {list(own.shape)}")
        self.files.append(AppendedFile(path, "", held, None))
        return node

    def _objects(self, node: Node, value: Any, path: collection_tree.Path, size: Size, count: int) -> Node:
        if not holds_objects(value):
            return self._differ(path, "objects", _type_in_words(value))
        try:
            forms, codes = describe_collection.forms_of(value, self.folders.allow_pickle)
        except object_json.Unwritable as error:
            self.problems.append(f"{dotted(path)}: {error}")
            return node
        if node["type"] == "object" and value._is_uniform and forms == [node.get("data")]:
            return {**node, "batch_size": [size[0] + count, *size[1:]]}
        if node["type"] != "object":
            own = parse_size(node.get("batch_size"), self.source, path)
            size = own if own[: len(size)] == size else size  # stacks of stacks have more dimensions
        if value.batch_size[1:] != size[1:]:
            return self._differ(path, f"rows of the batch size {_shape_of_rows(size)}", list(value.batch_size))
        total = [size[0] + count, *size[1:]]
        if node["type"] in collection_tree.OBJECT_ARRAYS:
            grown = self._object_arrays(node, forms, codes, path, total)
            if grown is not None:
                return grown
        old_forms, old_codes = self._forms_of(node, path, size)
        leaves: list[TensorLeaf] = []
        grown = describe_collection.describe_forms(
            [*old_forms, *forms], torch.cat((old_codes, codes + len(old_forms))), path, leaves, self.problems
        )
        if node["type"] != "object" and "kind" in node:
            grown["kind"] = node["kind"]
        if self.has_checksums:
            describe_collection.add_checksums(leaves)
        self.files += [AppendedFile(leaf.path, leaf.buffer, 0, leaf.tensor) for leaf in leaves]
        return grown

    def _object_arrays(
        self, node: Node, forms: list[Any], codes: Tensor, path: collection_tree.Path, total: list[int]
    ) -> Node | None:
        """Append objects to those in arrays; return ``None`` if these are strings, and an object is not."""
        if node["type"] == "strings" and describe_collection.as_strings(forms) is None:
            return None
        leaves: list[TensorLeaf] = []
        describe_collection.describe_forms(forms, codes, path, leaves, self.problems, node["type"])
        values, spans, codes = [leaf.tensor for leaf in leaves]
        entries: dict[str, Node] = node["entries"]
        shape = {key: parse_size(entry.get("shape"), self.source, (*path, key)) for key, entry in entries.items()}
        shifted = torch.stack((spans[..., 0] + shape["values"][0], spans[..., 1]), -1)
        parts = {"values": values, "spans": shifted, "codes": codes + shape["spans"][0]}
        grown = {key: self._tensor(entries[key], part, (*path, key)) for key, part in parts.items()}
        return {**node, "batch_size": total, "entries": grown}

    def _forms_of(self, node: Node, path: collection_tree.Path, size: Size) -> tuple[list[Any], Tensor]:
        """Return the JSON forms of the objects that are there, and the codes, which index them."""
        if node["type"] == "object":
            return [node.get("data")], torch.zeros(size, dtype=torch.int64)
        if node["type"] in collection_tree.OBJECT_ARRAYS:
            return self._strings(node, path)
        forms = as_list(node.get("data")) or []
        if len(forms) != size.numel():
            raise self.source.damaged(path, f"expected {size.numel()} objects for the batch size {list(size)}")
        return forms, codes_row_by_row(size)

    def _strings(self, node: Node, path: collection_tree.Path) -> tuple[list[str], Tensor]:
        """Return the strings in arrays, and their codes."""

        def read(key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            return memmap_folder.map_tensor(*self.folders.find(key, buffer), dtype, shape, "r")

        strings = rebuild_collection.rebuild_objects(node, None, self.source._replace(read=read), path)
        objects, codes = strings._coded_objects()
        return list(objects), codes

    def _stack(self, node: Node, rows: Any, path: collection_tree.Path, count: int) -> Node:
        """Rows are further items of a lazy stack along dimension 0, and rows of each item for other dimensions."""
        dim, old = node["stack_dim"], as_list(node["parts"]) or []
        if not isinstance(rows, TensorCollection) or not rows._is_tree():
            return self._differ(path, "a nested collection", _type_in_words(rows))
        if not isinstance(dim, int) or not 0 <= dim < rows.ndim:
            return self._differ(path, f"rows that can be taken apart along the dimension {dim}", list(rows.shape))
        own: Any = rows
        whole = isinstance(rows, LazyStacked) and own._store.dim == dim
        items: list[Any] = list(own._store.items_ if whole else rows.unbind(dim))
        if dim:
            if len(items) != len(old):
                return self._differ(path, f"{len(old)} items along the dimension {dim}", len(items))
            pairs = enumerate(zip(old, items, strict=True))
            return {**node, "parts": [self.grown(one, item, (*path, str(at)), count) for at, (one, item) in pairs]}
        for at, old_item in enumerate(old):
            self._keep(old_item, (*path, str(at)))
        sizes = {tuple(_batch_size(old_item)) for old_item in old} | {tuple(item.shape) for item in items}
        if len(sizes) > 1:
            got = [list(item.shape) for item in items]
            return self._differ(path, f"items of the batch size {_batch_size(old[0])}", got)
        checksum = _has_checksums(old[0])
        new = [self._add_item(item, (*path, str(at)), checksum) for at, item in enumerate(items, len(old))]
        return {**node, "parts": [*old, *new]}

    def _add_item(self, item: Any, path: collection_tree.Path, checksum: bool) -> Node:
        """Return the node of a further item of a lazy stack."""
        node, leaves = describe_collection.describe_item(item, path, self.problems, self.folders.allow_pickle, checksum)
        self.files += [AppendedFile(leaf.path, leaf.buffer, 0, leaf.tensor) for leaf in leaves]
        return node

    def _keep(self, node: Node, path: collection_tree.Path) -> None:
        """Add the files of an item of a lazy stack that does not change."""
        kind = node["type"]
        if kind == "lazy_stack":
            for at, item in enumerate(as_list(node["parts"]) or []):
                self._keep(item, (*path, str(at)))
        elif kind in ("collection", "column", *collection_tree.OBJECT_ARRAYS):
            for key, entry in node["entries"].items():
                self._keep(entry, (*path, key))
        elif kind == "nested":
            self._differ(path, "a layout that can grow", _OLDER)
        elif "dtype" in node:
            self.files.append(AppendedFile(path, "", self._form(node, path)[2], None))
            if kind == "jagged":
                self.files.append(AppendedFile(path, "offsets", (node["rows"] + 1) * 8, None))

    def _can_be_written(self, value: Tensor, path: collection_tree.Path) -> list[TensorLeaf]:
        """Return the buffers of a tensor; none if it cannot be written."""
        leaves: list[TensorLeaf] = []
        describe_collection.describe_tensor(value, path, leaves, self.problems)
        return leaves

    def check_offsets(self) -> None:
        """Raise if a file is too short, so that nothing is written after a gap."""
        for appended in self.files:
            if appended.start:
                opened, name = self.folders.find(appended.path, appended.buffer)
                info = os.stat(name, dir_fd=opened.handle, follow_symlinks=False)
                if not stat.S_ISREG(info.st_mode):
                    raise FileError(f"{opened.name}/{name}: expected a file, found {file_type(info.st_mode)}")
                if info.st_size < appended.start:
                    raise FileError(f"{opened.name}/{name}: expected {appended.start} bytes; it has {info.st_size}")

    def _differ(self, path: collection_tree.Path, expected: Any, got: Any) -> Node:
        """Note that the rows do not fit a node; return one that nobody writes."""
        self.problems.append(collection_tree.at_key(path, f"expected {expected}, got {got}"))
        return {}

    def _form(self, node: Node, path: collection_tree.Path) -> tuple[torch.dtype, Size, int]:
        """Return dtype, shape and number of bytes of a tensor that the folder has already."""
        dtype, size = parse_dtype(node["dtype"], self.source, path), parse_size(node["shape"], self.source, path)
        return dtype, size, size.numel() * dtype.itemsize


class _GrownFile(NamedTuple):
    """A file to which values have been appended."""

    path: collection_tree.Path
    buffer: str
    file_id: tuple[int, int]  #: its device and inode, since another file may be at its path
    length: int  #: its length before


class _AppendWriter:
    """Writes values to the ends of the files, then the folder that describes them."""

    def __init__(
        self, path: Path, old: open_folders.OpenFolderTree, folder_lock: FolderLock, section: Uninterrupted
    ) -> None:
        self._path = path
        self._old = old
        self._folder_lock = folder_lock
        self._section = section
        self._grown: list[_GrownFile] = []

    def write(self, node: Node, files: list[AppendedFile], progress: bool | None) -> None:
        """Write everything or nothing. After an error, the files get their old lengths."""
        root = self._folder_lock.handle
        tensors = [appended.tensor for appended in files if appended.tensor is not None]
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        try:
            with (
                swapped_folder(self._path, self._folder_lock) as draft,
                bytes_of(total, "append_memmap", progress) as bar,
            ):
                with self._section.interruptible():
                    folders = folder_layout.meta_files(node, "append_memmap", self._path)
                    for meta_folder, meta in folders:
                        if meta_folder:
                            os.mkdir(draft / meta_folder)
                        (draft / meta_folder / folder_layout.META).write_bytes(meta)
                for appended in files:
                    name = folder_layout.tensor_path(appended.path, appended.buffer)
                    with contextlib.ExitStack() as stack:
                        file = self._file(appended, draft / name)
                        if file is not None:
                            stack.callback(os.close, file)
                        with self._section.interruptible():
                            if file is not None and appended.tensor is not None:
                                write_values(file, appended.tensor, bar.advance)
                memmap_folder.keep_foreign_files(self._path, draft)
        except BaseException:
            # once the new folder is at the path, it describes the new values
            if root is not None and is_at(root, self._path):
                self._cut()
            raise

    def _file(self, appended: AppendedFile, path: Path) -> int | None:
        """Put a file into the new folder, at ``path``. If values are appended, return it open at its end.

        The file is linked. It is copied if it has other links too, since those must not change.
        """
        written = appended.tensor is not None and appended.tensor.numel() > 0
        if not appended.start:
            return os.open(path, _NEW, 0o666) if written else None
        opened, name = self._old.find(appended.path, appended.buffer)
        shown_path = f"{opened.name}/{name}"
        file = open_regular(name, os.O_RDWR if written else os.O_RDONLY, folder=opened.handle, shown=shown_path)
        try:
            info = os.fstat(file)
            if written and info.st_nlink > 1:
                copy = os.open(path, _NEW, 0o666)
                file, source = copy, file
                try:
                    with self._section.interruptible():
                        copy_values(source, copy, appended.start)
                finally:
                    os.close(source)
            else:
                os.link(name, path, src_dir_fd=opened.handle, follow_symlinks=False)
                if not os.path.samestat(info, os.lstat(path)):
                    raise FileError(f"{shown_path}: another process has replaced the file")
                if not written:
                    os.close(file)
                    return None
                self._grown.append(_GrownFile(appended.path, appended.buffer, (info.st_dev, info.st_ino), info.st_size))
            os.lseek(file, appended.start, os.SEEK_SET)
        except BaseException:
            os.close(file)
            raise
        return file

    def _cut(self) -> None:
        """Cut files to their old lengths. Bytes that cannot be cut stay: the folder's metadata does not cover them."""
        for grown in self._grown:
            with contextlib.suppress(OSError):
                opened, name = self._old.find(grown.path, grown.buffer)
                file = open_regular(name, os.O_RDWR, folder=opened.handle)
                try:
                    info = os.fstat(file)
                    if (info.st_dev, info.st_ino) == grown.file_id and info.st_size > grown.length:
                        os.ftruncate(file, grown.length)
                finally:
                    os.close(file)


_NEW: Final[int] = os.O_RDWR | os.O_CREAT | os.O_EXCL


def copy_values(source: int, copy: int, count: int) -> None:
    """Copy the first ``count`` bytes of an open file to a new one. Holes, which take no space, stay holes."""
    at = 0
    while at < count:
        try:
            start = os.lseek(source, at, os.SEEK_DATA) if _HOLES else at
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # only a hole follows
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
    """Return the new checksums of a tensor after its buffers get more values; nothing if it has none."""
    sums = as_list(node.get("crc32"))
    if sums is None:
        return {}
    if len(sums) != len(more) or any(type(found) is not int for found in sums):
        raise ValueError(f"append_memmap: the checksums {ascii(sums)[:80]} are damaged")
    pairs = zip(sums, more, strict=True)
    return {"crc32": [collection_tree.checksum_of(value, before & 0xFFFFFFFF) for before, value in pairs]}


def _has_checksums(node: Node) -> bool:
    if node["type"] == "lazy_stack":
        return _has_checksums(node["parts"][0])
    return "crc32" in node or any(_has_checksums(entry) for entry in node.get("entries", {}).values())


def _batch_size(node: Node) -> list[int]:
    """Return the batch size of a collection in a folder."""
    if node["type"] != "lazy_stack":
        return node.get("batch_size") or []
    size = list(_batch_size(node["parts"][0]))
    return [*size[: node["stack_dim"]], len(node["parts"]), *size[node["stack_dim"] :]]


def _type_in_words(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {list(value.shape)}" if not value.is_nested else "a jagged tensor"
    return type_name(value)


def _shape_of_rows(size: Size) -> str:
    return f"[{', '.join(['*', *map(str, size[1:])])}]"
