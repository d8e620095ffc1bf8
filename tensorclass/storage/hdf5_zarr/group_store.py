"""The store of a collection in an HDF5 or zarr file: each key is a group or an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.storage.common import collection_tree, rebuild_collection
from tensorclass.storage.common.collection_tree import FileError, TreeSource
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind, has_spans
from tensorclass.td.printing.field_previews import FirstRows
from tensorclass.td.stored_names import is_stored_only, stored_name

from .array_backend import BEFORE, DRAFT, Note
from .array_file import ArrayFile, check, escaped, unescaped
from .group_entry import GroupEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorclass.td.collection import Value


_SHOWN_ROWS = 8
NONE_KNOWN: Mapping[str, Any] = {}


class GroupStore(MutableMapping[str, "Value"]):
    """The entries of a group. Arrays are read at each access; nested collections are made once and kept.

    A key that the file lacks can be in memory: the default of a field that a record has gained since.
    """

    __slots__ = (
        "_group",
        "_has_note",
        "_root",
        "children",
        "cls",
        "file",
        "hidden",
        "in_memory",
        "owner",
        "path",
    )

    #: returns the nested collection, of a class, that was just written at a key; ``group_loader`` puts it here
    open_group: ClassVar[Callable[[GroupStore, str, str, type[Any]], Any]]

    def __init__(self, file: ArrayFile, path: tuple[str, ...]) -> None:
        self.file: ArrayFile = file
        self.cls: type[Collection] = Collection  #: class of the collection, whose fields can have other names here
        self.path: tuple[str, ...] = path  #: names of the groups from the root of the file
        self.children: dict[str, Any] = {}  #: nested collections
        self.in_memory: dict[str, Any] = {}  #: entries that the file lacks
        self.hidden: frozenset[str] = frozenset()  #: keys of the file that the record has no fields for
        self.owner: Callable[[], Any]  #: gives the collection of this store
        self._root: Any = None
        self._group: Any = None
        self._has_note = False

    @property
    def group(self) -> Any:
        """The group. It is looked up again when the file was opened again."""
        root = self.file.root
        if self._root is not root:
            node = root
            with self.file.reading(self.path):
                for name in self.path:
                    node = self.file.backend.find(node, name)
                self._has_note = self.file.backend.has_escaped_names(node)
            self._root, self._group = root, node
        return self._group

    @property
    def source(self) -> TreeSource:
        """The file, for checks of what it says."""
        return TreeSource(self.file.path, collection_tree.no_tensor)

    def write_note(self, note: Note) -> None:
        """Write the note of the collection to the file."""
        with self.file.changing():
            self.file.backend.write_note(self.group, note)
        self._has_note = True

    def name(self, key: str) -> str:
        """Return the name of a key in the file."""
        group = self.group  # sets _has_note
        stored = stored_name(self.cls, key)
        if stored != key:
            before, after = (escaped(one) if self._has_note else one for one in (key, stored))
            is_older = not self.file.backend.has(group, after) and self.file.backend.has(group, before)
            key = key if is_older else stored
        if self._has_note:
            name = escaped(key)
            if "\\" in key and not self.file.backend.has(group, name):  # earlier versions did not escape it
                older = name.replace("%5C", "\\")
                return older if self.file.backend.has(group, older) else name
            return name
        if not key or "/" in key or "\0" in key or not key.strip("."):
            raise ValueError(f"{self.file.path}: {key!r} cannot be a key in a file that another program wrote")
        return key

    def keys_in_file(self) -> dict[str, str]:
        """Return the keys in the file, with their names."""
        group = self.group
        with self.file.reading(self.path):
            names = [name for name in self.file.backend.names(group) if not name.startswith((BEFORE, DRAFT))]
            there = {unescaped(name) if self._has_note else name: name for name in names}
        found = rebuild_collection.names_by_field(self.cls, there, self.source, self.path)
        return {key: there[name] for key, name in found.items() if key not in self.hidden}

    def find(self, key: str, known: Mapping[str, Any] = NONE_KNOWN) -> GroupEntry:
        """Return the entry of a key.

        Args:
            key: the key.
            known: groups and arrays that were found together, by name.
        """
        if type(key) is not str or key in self.hidden or is_stored_only(self.cls, key):
            raise KeyError(key)
        group = self.group
        try:
            name = self.name(key)
        except ValueError:
            raise KeyError(key) from None
        backend = self.file.backend
        with self.file.reading((*self.path, key)):
            try:
                node = known.get(name)
                node = backend.find(group, name) if node is None else backend.checked(group, name, node)
            except KeyError:
                if backend.has(group, name):  # it exists, but cannot be read
                    raise
                node = None
            note = None if node is None else backend.read_note(node)
        if node is None:
            raise KeyError(key)
        return GroupEntry(self, (*self.path, key), node, note)

    # -- reading ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        nested = self.children.get(key)
        if nested is not None:
            return nested
        if key in self.in_memory:
            return self.in_memory[key]
        return self.find(key).value()

    def rows(self, key: str, index: tuple[Any, ...]) -> Any:
        """Return the value of a key at a prepared index of the batch. Reads only the rows of the index."""
        nested = self.children.get(key)
        if nested is not None:
            return nested._index_prepared(index)
        if key in self.in_memory:
            return self.in_memory[key][index[0] if len(index) == 1 else index]
        return self.find(key).value(index)

    def placeholder(self, key: str, device: torch.device | None = None) -> Any:
        """Return a value with the shape and dtype of an entry: for arrays, an expanded tensor that takes no memory."""
        nested = self.children.get(key)
        if nested is not None:
            return nested._outline(None, device) if isinstance(nested._store, GroupStore) else nested
        if key in self.in_memory:
            return self.in_memory[key]
        return self.find(key).placeholder(device)

    def shown(self, key: str) -> Any:
        """Return a value for printing: :meth:`placeholder`, but the first rows of text."""
        value = self.placeholder(key)
        if content_kind(value) is not Content.TEXT or value.ndim != 1:
            return value
        first = self.find(key).column((slice(0, _SHOWN_ROWS),))
        rest = value.spans[first.shape[0] :]
        return value._of(first._items, torch.cat([first.spans, rest]), value._names)

    def preview(self, key: str) -> Any:
        """Return a value for printing: its outline, with a function that reads its first rows."""
        if key in self.in_memory or key in self.children:
            return self[key]
        outline = self.placeholder(key)
        if content_kind(outline) is Content.TENSOR:
            return self[key]

        def first_rows(count: int) -> Any:
            return self.rows(key, (slice(count),))

        if isinstance(outline, Tensor) and not outline.is_nested:
            is_small = not outline.ndim or not self.owner()._batch_size
            return self[key] if is_small else FirstRows(outline, first_rows)
        is_column = has_spans(outline) and outline._batch_size
        return FirstRows(outline, first_rows) if is_column else outline

    # -- writing ------------------------------------------------------------------------------------------------------

    def __setitem__(self, key: str, value: Any) -> None:
        if value is self.children.get(key):
            return
        self.file.check_writable(key)
        group, name = self.group, self.name(key)
        if type(value) is Tensor and not value.is_meta and self.file.backend.has(group, name):
            old = self.find(key)
            if old.kind == "tensor" and old.shape == value.shape and old.dtype == value.dtype:
                old.write(value)  # the array keeps its chunks
                return
        path = (*[unescaped(name) if self._has_note else name for name in self.path], key)
        check(value, path, self.file.path, self.file.options.allow_pickle)
        with self.file.changing():
            self.file.backend.replace(group, name, lambda parent, draft: self.file.write_value(parent, draft, value))
        self.children.pop(key, None)
        self.in_memory.pop(key, None)
        if isinstance(value, Collection) and value._is_tree() and value._wrapped_tensor() is None:
            self.children[key] = self.open_group(key, name, type(value))

    def allocate(self, key: str, shape: Size, dtype: torch.dtype) -> None:
        """Create an array of zeros."""
        self.file.check_writable(key)
        with self.file.changing():
            self.file.create_tensor(self.group, self.name(key), shape, dtype, None)

    def __delitem__(self, key: str) -> None:
        if key in self.in_memory:
            del self.in_memory[key]
            return
        self.file.check_writable(key)
        self.find(key)
        self.children.pop(key, None)
        with self.file.changing():
            self.file.backend.remove(self.group, self.name(key))

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key; return its value, in memory."""
        try:
            value = self[key]
        except KeyError:
            if default:
                return default[0]
            raise
        self.file.check_writable(key)
        value = value._densified() if hasattr(value, "_densified") else value
        del self[key]
        return value

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def __contains__(self, key: object) -> bool:
        if key in self.children or key in self.in_memory:
            return True
        try:
            self.find(key)  # type: ignore[arg-type]
        except KeyError:
            return False
        except FileError:
            return not self.file.is_closed
        return True

    def __iter__(self) -> Iterator[str]:
        return iter([*self.keys_in_file(), *self.in_memory])

    def __len__(self) -> int:
        return len(self.keys_in_file()) + len(self.in_memory)


class Unreadable(NamedTuple):
    """Printed in place of a value that cannot be read."""

    why: str

    def __repr__(self) -> str:
        return f"<cannot be read: {self.why}>"


def snapshot(data: Any) -> dict[str, Any]:
    """Return the values of a collection and those nested in it, to find changed ones later."""
    return {
        key: (value, snapshot(value) if isinstance(value, Collection) and value._is_tree() else None)
        for key, value in data._now().items()
    }


def write_changed(target: Any, merged: Any, before: dict[str, Any]) -> None:
    """Write the values of ``merged`` that are not those of its :func:`snapshot` to the file of ``target``."""
    for key, value in merged._store.items():
        old, below = before.get(key, (None, None))
        if value is not old:
            target._store[key] = value
        elif below is not None:
            write_changed(target._store[key], value, below)
