"""Open files with groups of arrays on demand, and write values to them."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.storage.common import collection_tree, describe_collection
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.interrupts import Uninterrupted, uninterrupted
from tensorclass.support.printable import printable, type_name
from tensorclass.support.progress import Bar
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.text import Text
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import Leaf
from tensorclass.td.stored_names import stored_name
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked

from .array_backend import NATIVE, ArrayBackend, Note, NotWritable, Replaced, stored_as

MODES = ("r", "r+", "w", "w-", "x", "a")
_TENSOR: Note = {"type": "tensor"}  #: the note of a tensor whose dtype the format has


def make_backend(name: str) -> ArrayBackend:
    """Return the backend of a name, ``"h5"`` or ``"zarr"``.

    Raises:
        NotImplementedError: there is no backend of this name.
    """
    if name == "h5":
        from .hdf5 import HDF5

        return HDF5()
    if name == "zarr":
        from .zarr import Zarr

        return Zarr()
    raise NotImplementedError(f"there is no backend {name!r}; the backends are 'h5' and 'zarr'")


@dataclass(frozen=True)
class FileOptions:
    """Options for writing values to a file and reading them."""

    arrays: dict[str, Any] = field(default_factory=dict[str, Any])  #: arguments of the library for new arrays
    resizable: bool = False  #: new arrays can get more rows
    checksum: bool = False  #: tensors are written with a checksum
    objects_as_stack: bool = False  #: one object for all rows is read as one for each
    allow_pickle: bool = False  #: objects without a JSON form are pickled


class ArrayFile:
    """A file with groups of arrays, opened when it is first needed. Copies sent to other processes open it there.

    Args:
        backend: its format.
        path: its path.
        mode: one of ``MODES``.
        options: how values are written and read.
        root: a group that the user has opened, instead of the file.
    """

    #: the class of its collections: ``PersistentTensorDict``, which puts itself here, or that of another kind of file
    form: type[Any]

    def __init__(
        self, backend: ArrayBackend, path: str, mode: str = "r", options: FileOptions = FileOptions(), root: Any = None
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"{printable(path)}: the mode is one of {', '.join(MODES)}, not {mode!r}")
        self.backend = backend
        self.path = path
        self.mode = mode
        self.options: FileOptions = options
        backend.check_options(options.arrays)
        self.writes_zeros: bool = False  #: arrays are created without values, as zeros
        self.progress_bar: Bar[Any] | None = None  #: advanced by the bytes that are written
        self.section: Uninterrupted | None = None  #: the block that writes: interrupts come between values
        self.is_closed: bool = False
        self.is_borrowed: bool = root is not None  # the user closes it
        self._root = None if root is None else backend.borrow(root)
        self._pid = os.getpid()
        self._inherited: list[Any] = []
        self._end: weakref.finalize[[ArrayBackend, Any, int], ArrayFile] | None = None
        self._changes = 0  #: open blocks of :meth:`changing`
        self._is_pending = False  #: the library may hold data that is not in the file

    @property
    def root(self) -> Any:
        """The root group. Opens the file if necessary."""
        if self.is_closed:
            raise ValueError(f"{printable(self.path)}: the file was closed; open it again")
        if self._root is not None:
            if self._pid == os.getpid():
                if not self.backend.is_open(self._root):
                    raise ValueError(f"{printable(self.path)}: the file was closed; open it again")
                if self.mode != "r":
                    self._check_unreplaced()
                return self._root
            self._inherited.append(self._root)  # the file of the process that forked this one: never closed here
        with self._guarded():
            self._root = self.backend.open(self.path, self.mode)
            self._pid = os.getpid()
            self._watch()
        if self.mode not in ("r", "r+"):
            self.mode = "r+"  # opening it again must keep its content
        return self._root

    def adopt(self, root: Any) -> None:
        """Use a root group of this file that was opened under another path."""
        with self._guarded():
            self._root = root
            self._pid = os.getpid()
            self._watch()

    def close(self) -> None:
        """Close the file for all its collections.

        Raises:
            OSError: the last change could not be written, on a full disk for example. The message gives its outcome.
        """
        with self._guarded():
            root, self._root = self._root, None
            is_open = root is not None and self._pid == os.getpid() and not self.is_borrowed and not self.is_closed
            self.is_closed = True
            self._unwatch()
            if is_open and (error := self.backend.close(root)) is not None and self._is_pending:
                raise OSError(error.errno, error.strerror, self.path)

    def _watch(self) -> None:
        """Close the file when it is dropped open: the library may write at that time."""
        self._unwatch()
        if self.mode != "r" and not self.is_borrowed:
            self._end = weakref.finalize(self, _close_dropped, self.backend, self._root, self._pid)
            self._end.atexit = False

    def _unwatch(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.detach()

    def _guarded(self) -> AbstractContextManager[object]:
        """Make interrupts wait if the file is open for writing: a library may write at any call."""
        return nullcontext() if self.mode == "r" else uninterrupted()

    @contextmanager
    def changing(self, complete: bool = True) -> Generator[None, None, None]:
        """Group the writes of a block into one change. At the end of the outermost block it is written, or undone.

        Interrupts wait for the end of the block, or come between the values of a collection that is written.

        Args:
            complete: write all of it to the file at the end. Otherwise the library may keep some of it in memory.

        Raises:
            OSError: the change could not be written. The file is closed.
        """
        with uninterrupted() as section:
            outer, self.section = self.section, self.section or section
            self._changes += 1
            self._is_pending = True
            try:
                yield
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                raise OSError(error.errno, error.strerror, self.path) from None
            finally:
                self._changes -= 1
                self.section = outer
            if not self._changes:
                self.flush_changes(complete)

    def flush_changes(self, complete: bool) -> None:
        """Raise, and close the file, if a change could not be written; see :meth:`changing`."""
        root = self._root
        if root is None or self.mode == "r" or self._pid != os.getpid():
            return
        error = self.backend.flush_changes(root, complete)
        if error is not None:
            self._root, self.is_closed = None, True
            self._unwatch()
            closed = self.backend.close(root) or error
            raise OSError(closed.errno, closed.strerror, self.path)
        if complete:
            self._is_pending = False

    def __getstate__(self) -> dict[str, Any]:
        if self.is_borrowed:
            raise TypeError(
                f"{printable(self.path)}: an open group cannot be sent to another process; open it by its file name"
            )
        if self._root is not None and self._pid == os.getpid() and self.mode != "r":
            self.flush_changes(True)
        return {**self.__dict__, "_root": None, "_end": None, "_inherited": [], "_changes": 0}

    def check_writable(self, what: str = "") -> None:
        """Raise if the file is open for reading only."""
        if self.mode == "r":
            raise NotWritable(
                f"{self.path}: {what + ': ' if what else ''}cannot be written, the file is open for reading (mode "
                "'r'); open it with mode='r+'"
            )

    @contextmanager
    def reading(self, path: tuple[str, ...]) -> Generator[None, None, None]:
        """Turn the errors that a library raises for a damaged file into a ``FileError`` that names the key."""
        with self._guarded():
            try:
                yield
                self._check_unreplaced()
            except Replaced:
                raise
            except Exception as error:
                self._check_unreplaced()  # a mix of two versions is not damage
                if isinstance(error, FileError):
                    raise
                where = f"{dotted(path)}: " if path else ""
                too_large = "it does not fit in memory: " if isinstance(error, MemoryError) else ""
                raise FileError(f"{self.path}: {where}{too_large}{_first_line(error)}") from None

    def _check_unreplaced(self) -> None:
        if self._root is not None:
            try:
                self.backend.check_unreplaced(self._root)
            except Replaced as error:
                raise Replaced(f"{printable(self.path)}: {error}") from None

    # -- writing ------------------------------------------------------------------------------------------------------

    def write_value(self, parent: Any, name: str, value: Any) -> Any:
        """Write a value that has passed :func:`check` under a free name; return its group or array."""
        if self.section is not None:
            self.section.check()
        if isinstance(value, Tensor):
            if value.is_nested:
                return self._write_jagged(parent, name, value)
            return self._write_tensor(parent, name, value)
        content = value._CONTENT
        if content is Content.TENSOR:
            head = {"type": "unbatched", **describe_collection.kind_note(value)}
            return self._write_tensor(parent, name, value._wrapped_tensor(), head)
        if content is Content.OBJECTS:
            return self._write_objects(parent, name, value)
        if content.has_spans:
            return self._write_column(parent, name, value)
        group = self.backend.make_group(parent, name)
        self.write_collection(group, value)
        return group

    def write_collection(self, group: Any, value: Any) -> None:
        """Write the entries of a collection to an empty group."""
        if isinstance(value, LazyStacked):
            store: Any = value._store
            note: Note = {"type": "lazy_stack", "version": collection_tree.VERSION, "parts": len(store.items_)}
            self.backend.write_note(group, {**note, "stack_dim": store.dim, "stack_dim_name": store.name})
            for at, part in enumerate(store.items_):
                self.write_value(group, str(at), part)
            return
        self.backend.write_note(group, collection_note(value, self.backend))
        cls: Any = value.__class__
        for key in value._store:
            self.write_value(group, escaped(stored_name(cls, key)), value._store[key])

    def _write_tensor(self, parent: Any, name: str, value: Tensor, head: Note = _TENSOR) -> Any:
        values = None if self.writes_zeros else as_array(value)
        sums = [collection_tree.checksum_of(value)] if self.options.checksum else []
        array = self.create_tensor(parent, name, value.shape, value.dtype, values, head, sums)
        if self.progress_bar is not None:
            self.progress_bar.advance(value.numel() * value.element_size())
        return array

    def create_tensor(
        self,
        parent: Any,
        name: str,
        shape: Size,
        dtype: torch.dtype,
        values: np.ndarray[Any, Any] | None,
        head: Note = _TENSOR,
        sums: Sequence[int] = (),
    ) -> Any:
        """Create the array of a tensor, and its note.

        Args:
            parent: the group.
            name: its name in the group.
            shape: the shape of the tensor.
            dtype: the dtype of the tensor.
            values: the values; ``None`` for zeros.
            head: the note without dtype and checksums: its type is ``"tensor"`` or ``"unbatched"``.
            sums: checksums of the values.
        """
        backend, options = self.backend, self.options
        array = backend.make_array(parent, name, shape, stored_as(dtype), values, options.arrays, options.resizable)
        note: Note = {**head}
        if dtype not in NATIVE:
            note["dtype"] = str(dtype).removeprefix("torch.")
        if sums:
            note["crc32"] = sums
        if note != _TENSOR or not backend.protects_metadata:
            backend.write_note(array, note)
        return array

    def _write_jagged(self, parent: Any, name: str, value: Any) -> Any:
        group = self.backend.make_group(parent, name)
        dtype = str(value.dtype).removeprefix("torch.")
        note: Note = {"type": "jagged", "dtype": dtype, "rows": len(value)}
        values, offsets = value.values(), value.offsets().to(torch.int64)
        if self.options.checksum:
            note["crc32"] = [collection_tree.checksum_of(values), collection_tree.checksum_of(offsets)]
        self.backend.write_note(group, note)
        self._write_tensor(group, "values", values)
        self._write_tensor(group, "offsets", offsets)
        return group

    def _write_column(self, parent: Any, name: str, value: BufferColumn, note: Note | None = None) -> Any:
        """Write the items of the rows in order, and the spans, to a group of two arrays.

        Args:
            parent: the group.
            name: its name in the group.
            value: the rows.
            note: entries of the note that differ from those of a column.
        """
        rows = value._allocated(value._batch_size) if self.writes_zeros else value.compact()
        group = self.backend.make_group(parent, name)
        head = {**describe_collection.column_head(rows), "version": collection_tree.VERSION, **(note or {})}
        self.backend.write_note(group, head)
        self.write_value(group, "values", rows._items)
        self._write_tensor(group, "spans", rows.spans)
        return group

    def _write_objects(self, parent: Any, name: str, value: Leaf) -> Any:
        node, _ = describe_collection.describe_value(value, (name,), self.options.allow_pickle)
        data = node.pop("data")
        if node["type"] == "objects" and len(data) >= describe_collection.ARRAYS_FROM and not self.writes_zeros:
            return self._write_object_rows(parent, name, data, value)
        plain = self.backend.can_hold_text
        texts: str | list[str]
        if node["type"] == "object":
            is_text = isinstance(data, str) and "metadata" not in node and plain(data)
            texts = data if is_text else _json({"data": data, "metadata": node.pop("metadata", None)})
        else:
            is_text = all(isinstance(item, str) and plain(item) for item in data)
            texts = data if is_text else [_json(item) for item in data]
        node["form"] = "text" if is_text else "json"
        made = self.backend.write_texts(parent, name, texts, node)
        self.backend.write_note(made, node)
        return made

    def _write_object_rows(self, parent: Any, name: str, items: list[Any], value: Leaf) -> Any:
        """Write many objects as rows of text, which are read without the others."""
        rows = describe_collection.as_strings(items)
        form = "json" if rows is None else "text"
        rows = Text.from_list(map(_json, items)) if rows is None else rows
        note = {"type": "object_rows", "form": form, **describe_collection.kind_note(value)}
        return self._write_column(parent, name, rows.reshape(value._batch_size), note)

    def text_rows(self, value: Leaf, form: object, path: tuple[str, ...]) -> Text | None:
        """Return objects as rows of text, or of JSON; ``None`` if the form is text, and an object is not a string.

        Args:
            value: the objects.
            form: ``"text"`` or ``"json"``.
            path: the key, for errors.
        """
        node, _ = describe_collection.describe_value(value, path, self.options.allow_pickle)
        items = [node["data"]] * value.numel() if node["type"] == "object" else node["data"]
        rows = describe_collection.as_strings(items) if form == "text" else Text.from_list(map(_json, items))
        return None if rows is None else rows.reshape(value._batch_size)


def _close_dropped(backend: ArrayBackend, root: Any, pid: int) -> None:
    """Close a file that was dropped while open."""
    if pid == os.getpid() and backend.is_open(root):
        with uninterrupted():
            error = backend.close(root)
        if error is not None:
            raise error


def check(value: Any, path: tuple[str, ...], what: str, allow_pickle: bool) -> None:
    """Raise if a value, or one nested in it, cannot be written.

    Args:
        value: the value.
        path: its key.
        what: the caller, for errors.
        allow_pickle: whether objects without a JSON form are pickled.
    """
    problems = describe_collection.describe_value(value, path, allow_pickle, strict=False)[1]
    if problems:
        raise TypeError(f"{what}: nothing was written; " + "; ".join(problems))


def collection_note(value: Any, backend: ArrayBackend) -> Note:
    """Return the note of a collection."""
    note = {"type": "collection", "version": collection_tree.VERSION, **describe_collection.collection_head(value)}
    if not backend.keeps_order:
        note["order"] = [escaped(stored_name(value.__class__, key)) for key in value._store]
    return note


def as_array(value: Tensor) -> np.ndarray[Any, Any]:
    """Return the values of a tensor in the dtype in which they are stored; shares memory where possible."""
    plain: Any = value.detach().as_subclass(Tensor).cpu().resolve_conj().resolve_neg().contiguous()
    if plain.dtype in NATIVE:
        return plain.numpy()  # type: ignore[no-any-return]
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[plain.dtype.itemsize]
    return plain.view(raw).numpy().view(stored_as(plain.dtype))  # type: ignore[no-any-return]


def as_tensor(array: np.ndarray[Any, Any], dtype: torch.dtype) -> Tensor:
    """Return the tensor that an array of a file stores; shares memory where possible."""
    native: Any = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
    from_numpy: Any = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if dtype in NATIVE:
        return from_numpy(native)  # type: ignore[no-any-return]
    signed = native.view(native.dtype.str.replace("u", "i") if native.itemsize > 1 else "u1")
    return from_numpy(signed).view(dtype)  # type: ignore[no-any-return]


def escaped(key: str) -> str:
    """Return the name of a key in a file, with characters escaped that names must not contain.

    >>> escaped("a/b"), escaped("50%"), escaped(".."), escaped("C:\\\\")
    ('a%2Fb', '50%25', '%2E%2E', 'C:%5C')
    """
    if not key:
        return "%"
    name = key.replace("%", "%25").replace("/", "%2F").replace("\\", "%5C").replace("\0", "%00")
    if not name.strip(".") or name.startswith("__") or name in ("zarr.json", ".zgroup", ".zarray", ".zattrs"):
        name = "".join([f"%{ord(char):02X}" for char in name[:2]]) + name[2:]
    return name


def unescaped(name: str) -> str:
    """Return the key of a name: the inverse of :func:`escaped`.

    >>> [unescaped(escaped(key)) for key in ("a/b", "50%", "..", "", "__x")]
    ['a/b', '50%', '..', '', '__x']
    """
    if "%" not in name:
        return name
    if name == "%":
        return ""
    first, *rest = name.split("%")
    return first + "".join([chr(int(part[:2], 16)) + part[2:] for part in rest])


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _first_line(error: BaseException) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text.splitlines()[0][:300] if text else type_name(error)


def is_record(cls: type[TensorCollection]) -> bool:
    """Return whether a class is a record, with declared fields."""
    return hasattr(cls, "_specs")
