"""The store of a collection in an HDF5 or zarr file: each key is a group or an array."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Size, Tensor

from tensorclass.records.record import TensorClass
from tensorclass.storage.common import collection_tree, rebuild_collection
from tensorclass.storage.common.collection_tree import FileError, TreeSource
from tensorclass.storage.common.object_json import TAG, decode
from tensorclass.td import shapes
from tensorclass.td.collection import Collection
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind, has_spans
from tensorclass.td.leaves.nontensor import stack_of
from tensorclass.td.leaves.object_codes import codes_row_by_row, to_lists
from tensorclass.td.printing.field_previews import FirstRows
from tensorclass.td.stored_names import is_stored_only, stored_name

from .array_backend import BEFORE, DRAFT, Note, flat, tensor_dtype
from .array_file import ArrayFile, as_array, as_tensor, check, escaped, unescaped
from .array_selection import Selection, assign_rows, box_shape, select, take_selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorclass.td.collection import Value


#: the node types that are arrays
_OF_ARRAYS = frozenset(("tensor", "unbatched", "object", "objects", "text"))
#: the node types that are groups
_OF_GROUPS = frozenset(("collection", "lazy_stack", "jagged", "column", "object_rows"))


_SHOWN_ROWS = 8
#: the most items that are read without need between two rows, since each read takes about as long
_MOST_BETWEEN = 4096


def _runs(spans: Tensor) -> Tensor:
    """Return ranges of positions ``int64[runs, 2]`` that hold rows with items: in order, disjoint, few.

    >>> _runs(torch.tensor([[9000, 2], [0, 3], [3, 2], [9001, 4]]))
    tensor([[   0,    5],
            [9000, 9005]])
    """
    starts, order = spans[:, 0].sort()
    ends = (starts + spans[order, 1]).cummax(0).values if len(spans) else starts
    first = torch.ones(len(starts), dtype=torch.bool)
    first[1:] = starts[1:] - ends[:-1] > _MOST_BETWEEN
    last = torch.cat([first[1:], first[:1]])
    return torch.stack((starts[first], ends[last]), -1)


NONE_KNOWN: Mapping[str, Any] = {}


class OpenGroup(Protocol):
    """A function that makes the collection of a group that was just written."""

    def __call__(self, parent: GroupStore, key: str, name: str, cls: type[Any]) -> Any: ...


class GroupStore(MutableMapping[str, "Value"]):
    """The entries of a group. Arrays are read at each access; nested collections are made once and kept.

    A key that the file lacks can be in memory: the default of a field that a record has gained since.
    """

    __slots__ = (
        "_group",
        "_has_note",
        "_open_group",
        "_root",
        "children",
        "cls",
        "file",
        "hidden",
        "in_memory",
        "owner",
        "path",
    )

    def __init__(self, file: ArrayFile, path: tuple[str, ...], open_group: OpenGroup) -> None:
        self.file: ArrayFile = file
        self._open_group: OpenGroup = open_group
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

    def damaged(self, key: str, why: str) -> FileError:
        """Return an error that names the file and the key."""
        return collection_tree.damaged(self.file.path, (*self.path, key), why)

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

    def find(self, key: str, known: Mapping[str, Any] = NONE_KNOWN) -> tuple[Any, Note | None]:
        """Return the group or array of a key, and its note.

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
        return node, note

    # -- reading ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        nested = self.children.get(key)
        if nested is not None:
            return nested
        if key in self.in_memory:
            return self.in_memory[key]
        return self._value(key, *self.find(key))

    def rows(self, key: str, index: tuple[Any, ...]) -> Any:
        """Return the value of a key at a prepared index of the batch. Reads only the rows of the index."""
        nested = self.children.get(key)
        if nested is not None:
            return nested._index_prepared(index)
        if key in self.in_memory:
            return self.in_memory[key][index[0] if len(index) == 1 else index]
        return self._value(key, *self.find(key), index)

    def node_type(self, node: Any, note: Note | None) -> str:
        """Return the type of a group or array: one of the types of nodes in ``collection_tree``, or ``"text"``."""
        declared = None if note is None else note.get("type")
        if declared is not None:
            kind = str(declared)
            if kind in _OF_ARRAYS if self.file.backend.is_group(node) else kind in _OF_GROUPS:
                expected = "an array" if kind in _OF_ARRAYS else "a group"
                raise FileError(f"{self.file.path}: {node.name}: its type is {kind!r}, which only {expected} can have")
            return kind
        if self.file.backend.is_group(node):
            return "collection"
        return "text" if self.file.backend.is_text(node) else "tensor"

    def shape(self, key: str, node: Any) -> Size:
        """Return the shape of an array."""
        with self.file.reading((*self.path, key)):
            return Size(node.shape)

    def dtype(self, key: str, node: Any, note: Note | None) -> torch.dtype:
        """Return the dtype of the tensor in an array."""
        with self.file.reading((*self.path, key)):
            return tensor_dtype(node.dtype, note)

    def read(self, key: str, node: Any, note: Note | None, selection: Selection | None = None) -> Tensor:
        """Read a tensor, or a selection of it."""
        value = self._read(key, node, note, selection)
        device = self.owner()._device
        return value if device is None else value.to(device)

    def _read(self, key: str, node: Any, note: Note | None, selection: Selection | None = None) -> Tensor:
        """Read a tensor, or a selection of it, into the memory of the CPU."""
        dtype = self.dtype(key, node, note)
        with self.file.reading((*self.path, key)):
            value = as_tensor(self.file.backend.read(node, () if selection is None else selection.box), dtype)
        if selection is not None:
            value = take_selected(value, selection)
        return value

    def column_array(self, key: str, group: Any, name: str) -> tuple[Any, Note | None]:
        """Return an entry of the group of a column, ``"values"`` or ``"spans"``, and its note."""
        backend = self.file.backend
        with self.file.reading((*self.path, key)):
            node = backend.find(group, name)
            note = backend.read_note(node)
            is_group = backend.is_group(node)
        kind = self.node_type(node, note)
        if kind != "tensor" and not (name == "values" and is_group and kind == "column"):
            raise self.damaged(key, f"expected an array of {name}, got {kind}")
        if not is_group and not node.shape:
            raise self.damaged(key, f"expected an array of {name}, got one value")
        return node, note

    def column_size(self, key: str, group: Any) -> Size:
        """Return the batch size of a column."""
        return self.shape(key, self.column_array(key, group, "spans")[0])[:-1]

    def column(self, key: str, node: Any, note: Note, index: tuple[Any, ...] | None = None) -> Any:
        """Read a column, or some rows of it: their spans, and only their items."""
        source, path = self.source, (*self.path, key)
        if note.get("version") != collection_tree.VERSION:
            raise self.damaged(key, f"a column of version {ascii(note.get('version'))[:20]}, which is unknown here")
        array, array_note = self.column_array(key, node, "spans")
        selection = None if index is None else select(index, self.shape(key, array)[:-1])
        if selection is not None:
            selection = selection._replace(box=(*selection.box, slice(0, array.shape[-1], 1)), exact=False)
        spans = self._read(key, array, array_note, selection)
        values, values_note = self.column_array(key, node, "values")
        if index is None:
            items = self._items_within(key, values, values_note, None, path)
            made = rebuild_collection.column_of(note, items, spans, None, source, path)
        else:
            names = None if note.get("names") is None else note["names"]
            items, spans = self._items_of(key, values, values_note, spans, path)
            made = rebuild_collection.column_of({**note, "names": None}, items, spans, None, source, path, chosen=True)
            size = self.shape(key, array)[:-1]
            made._names = names and shapes.names_indexed(collection_tree.parse_names(names, size, source, path), index)
        device = self.owner()._device
        return made if device is None else made.to(device)

    def _items_of(
        self, key: str, values: Any, note: Note | None, spans: Tensor, path: tuple[str, ...]
    ) -> tuple[Any, Tensor]:
        """Read the items of rows; return them, and the spans of the rows in them."""
        size = self.column_size(key, values) if self.file.backend.is_group(values) else self.shape(key, values)
        try:
            span_functions.check(spans, int(size[0]), "rows")
        except (TypeError, ValueError) as error:
            raise self.source.damaged(path, str(error)) from None
        flat_spans = spans.reshape(-1, 2)
        filled = flat_spans[:, 1] > 0
        runs = _runs(flat_spans[filled])
        items = self._items_within(key, values, note, to_lists(runs), path)
        counts = runs[:, 1] - runs[:, 0]
        shift = counts.cumsum(0) - counts - runs[:, 0]  # from the start of a run in the file to that in the items
        starts = torch.zeros_like(flat_spans[:, 0])
        own = flat_spans[filled, 0]
        starts[filled] = own + shift[torch.searchsorted(runs[:, 0].contiguous(), own.contiguous(), right=True) - 1]
        return items, torch.stack((starts, flat_spans[:, 1]), -1).reshape(spans.shape)

    def _items_within(
        self, key: str, values: Any, note: Note | None, runs: list[list[int]] | None, path: tuple[str, ...]
    ) -> Any:
        """Read items at some ranges of positions, one after the other; all of them for ``None``."""
        if not self.file.backend.is_group(values):
            if runs is None:
                return self._read(key, values, note)
            pieces = [
                self._read(key, values, note, Selection((slice(start, stop, 1),), (slice(None),), True))
                for start, stop in runs or [[0, 0]]
            ]
            return torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        inner = {**(note or {}), "names": None}
        below, source = (*path, "values"), self.source
        array, array_note = self.column_array(key, values, "spans")
        items, items_note = self.column_array(key, values, "values")
        if runs is None:
            whole = self._items_within(key, items, items_note, None, below)
            return rebuild_collection.column_of(inner, whole, self._read(key, array, array_note), None, source, below)
        boxes = [(slice(start, stop, 1), slice(0, array.shape[-1], 1)) for start, stop in runs or [[0, 0]]]
        chosen_rows = [Selection(box, (slice(None), slice(None)), True) for box in boxes]
        spans = torch.cat([self._read(key, array, array_note, rows) for rows in chosen_rows])
        chosen, spans = self._items_of(key, items, items_note, spans, below)
        return rebuild_collection.column_of(inner, chosen, spans, None, source, below, chosen=True)

    def _value(self, key: str, node: Any, note: Note | None, index: tuple[Any, ...] | None = None) -> Any:
        """Return the value of a group or array, or only its rows at a prepared index of the batch."""
        kind, known = self.node_type(node, note), note or {}
        if kind == "tensor":
            return self.read(key, node, note, None if index is None else select(index, self.shape(key, node)))
        if kind == "column":
            return self.column(key, node, known, index)
        if kind == "object_rows":
            return self._as_declared(key, self._object_rows(key, node, known, index))
        if kind == "unbatched":
            value: Any = rebuild_collection.shared_tensor(known, self.read(key, node, note))
        elif kind == "jagged":
            value = self._jagged(key, node, known)
        elif kind in ("object", "objects", "text"):
            value = self._as_declared(key, self._objects(key, node, known, kind))
        else:
            raise self.damaged(key, f"the type {kind[:40]!r} is unknown here; a newer version may have written it")
        if index is None:
            return value
        item = index[0] if len(index) == 1 else index
        return value[item] if isinstance(value, Tensor) else value._index_value(item)

    def _as_declared(self, key: str, objects: Any) -> Any:
        """Return objects as the column that a record declares for a key."""
        owner = self.owner()
        spec = owner._specs.get(key) if isinstance(owner, TensorClass) else None
        if spec is None or spec.column is None:
            return objects
        try:
            return spec.column.made(objects, owner._batch_size)
        except (TypeError, ValueError) as error:
            raise self.damaged(key, str(error)) from None

    def verify(self, key: str, node: Any, note: Note | None) -> None:
        """Read a tensor and compare it with its checksum.

        Raises:
            FileError: the checksum differs, or there is none.
        """
        kind = self.node_type(node, note)
        if kind == "jagged":
            self._jagged(key, node, note or {}, verify=True)
        elif kind in ("column", "object_rows"):
            for name in ("values", "spans"):
                self.verify(key, *self.column_array(key, node, name))
            column = self.column(key, node, note or {})
            if column._CONTENT is Content.TEXT:
                try:
                    column.check_encoding()
                except ValueError as error:
                    raise self.damaged(key, str(error)) from None
        elif kind in ("tensor", "unbatched"):
            source, path = self.source._replace(verify=True), (*self.path, key)
            with self.file.reading(path):
                rebuild_collection.verify_checksum(self.read(key, node, note).cpu(), note or {}, 0, source, path)

    def _jagged(self, key: str, node: Any, note: Note, verify: bool = False) -> Tensor:
        backend = self.file.backend

        def read(path: collection_tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            with self.file.reading((*self.path, key)):
                array = backend.find(node, part or "values")
                if backend.is_group(array):
                    raise ValueError(f"expected an array of {part or 'values'}, found a group")
                array_note = backend.read_note(array)
            if (part and array.shape != shape) or self.dtype(key, array, array_note) != dtype:
                raise self.damaged(key, "the offsets or values of the jagged tensor do not fit")
            return self.read(key, array, array_note)

        with self.file.reading((*self.path, key)):
            shape = list(backend.find(node, "values").shape)
        source = TreeSource(self.file.path, read, verify=verify)
        return rebuild_collection.read_jagged({**note, "shape": shape}, source, (*self.path, key))

    def _objects(self, key: str, node: Any, note: Note, kind: str) -> Any:
        device, form, pickles = self.owner()._device, note.get("form"), self.file.options.allow_pickle
        with self.file.reading((*self.path, key)):
            texts = self.file.backend.read_texts(node)
            if kind == "text":  # written by another program
                if texts is None or isinstance(texts, str):
                    return self._one(texts)
                shape = Size(node.shape)
                return stack_of(tuple(flat(texts, len(shape))), codes_row_by_row(shape), device, None)
            if form == "pickle":
                texts = decode([TAG, "pickle", texts], pickles)
                if kind == "object":
                    return self._one(texts)
            if kind == "object":
                if not isinstance(texts, str):
                    raise ValueError("expected one text for an object")
                if form == "text":
                    return self._one(texts, note)
                content = collection_tree.as_dict(json.loads(texts)) or {}
                return self._one(decode(content["data"], pickles), note, decode(content.get("metadata"), pickles))
            shape = Size(self.file.backend.shape_of_texts(node, note))
            items = flat(texts, len(shape))
            if len(items) != shape.numel():
                raise ValueError(f"expected {shape.numel()} objects, found {len(items)}")
            if form == "json":
                items = [decode(json.loads(item), pickles) for item in items]
            return rebuild_collection.objects_of(note, tuple(items), codes_row_by_row(shape), device)

    def _object_rows(self, key: str, node: Any, note: Note, index: tuple[Any, ...] | None = None) -> Any:
        """Read objects from rows of text: all of them, or some rows."""
        rows = self.column(key, node, {**note, "column": "Text"}, index)
        pickles = self.file.options.allow_pickle
        with self.file.reading((*self.path, key)):
            items: list[Any] = rows.reshape(-1).tolist()
            if None in items:
                raise ValueError(f"row {items.index(None)} has no object")
            if note.get("form") != "text":
                items = [decode(json.loads(item), pickles) for item in items]
        size = rows._batch_size
        codes = codes_row_by_row(size or Size((1,)))
        stack = rebuild_collection.objects_of(note, tuple(items), codes, self.owner()._device)
        return stack if size else stack[0]

    def _one(self, value: Any, note: Note | None = None, metadata: Any = None) -> Any:
        """Return one object for all rows: as it is, or as a stack (``objects_as_stack``)."""
        owner = self.owner()
        size, device = owner._batch_size, owner._device
        if self.file.options.objects_as_stack and size:
            codes = torch.zeros((), dtype=torch.int64, device="cpu").expand(size)  # takes no memory
            return stack_of((value,), codes, device, None)
        return rebuild_collection.object_class(note or {})(value, metadata, batch_size=size, device=device)

    def placeholder(self, key: str, device: torch.device | None = None) -> Any:
        """Return a value with the shape and dtype of an entry: for arrays, an expanded tensor that takes no memory."""
        nested = self.children.get(key)
        if nested is not None:
            return nested._outline(None, device) if isinstance(nested._store, GroupStore) else nested
        if key in self.in_memory:
            return self.in_memory[key]
        node, note = self.find(key)
        kind = self.node_type(node, note)
        if kind == "tensor" or kind == "unbatched":
            zero = torch.zeros((), dtype=self.dtype(key, node, note), device=device or self.owner()._device)
            value = zero.expand(self.shape(key, node))
            return value if kind == "tensor" else rebuild_collection.shared_tensor(note or {}, value)
        if kind == "column":
            return self._column_placeholder(key, node, note or {}, device or self.owner()._device)
        return self._value(key, node, note)

    def _column_placeholder(self, key: str, node: Any, note: Note, device: torch.device | None) -> Any:
        """Return a column of empty rows, with the dtype and shape of the items."""
        values, values_note = self.column_array(key, node, "values")
        if self.file.backend.is_group(values):
            items = self._column_placeholder(key, values, values_note or {}, device)._index_value(slice(0, 0))
        else:
            shape = self.shape(key, values)
            items = torch.empty((0, *shape[1:]), dtype=self.dtype(key, values, values_note), device=device)
        size = self.column_size(key, node)
        spans = torch.zeros((), dtype=torch.int64, device=device).expand(*size, 2)
        source = self.source._replace(device=device)
        return rebuild_collection.column_of(note, items, spans, None, source, (*self.path, key), chosen=True)

    def shown(self, key: str) -> Any:
        """Return a value for printing: :meth:`placeholder`, but the first rows of text."""
        value = self.placeholder(key)
        if content_kind(value) is not Content.TEXT or value.ndim != 1:
            return value
        node, note = self.find(key)
        first = self.column(key, node, note or {}, (slice(0, _SHOWN_ROWS),))
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
            node, note = self.find(key)
            if (
                self.node_type(node, note) == "tensor"
                and self.shape(key, node) == value.shape
                and self.dtype(key, node, note) == value.dtype
            ):
                self.write(key, node, note, value)  # the array keeps its chunks
                return
        path = (*[unescaped(name) if self._has_note else name for name in self.path], key)
        check(value, path, self.file.path, self.file.options.allow_pickle)
        with self.file.changing():
            self.file.backend.replace(group, name, lambda parent, draft: self.file.write_value(parent, draft, value))
        self.children.pop(key, None)
        self.in_memory.pop(key, None)
        if isinstance(value, Collection) and value._is_tree() and value._wrapped_tensor() is None:
            self.children[key] = self._open_group(self, key, name, type(value))

    def write(self, key: str, node: Any, note: Note | None, rows: Any, selection: Selection | None = None) -> None:
        """Write values to an array, or to a selection of it."""
        self.file.check_writable(key)
        with self.file.changing(complete=False):
            self._write(key, node, note, rows, selection)

    def _write(self, key: str, node: Any, note: Note | None, rows: Any, selection: Selection | None) -> None:
        dtype = self.dtype(key, node, note)
        backend = self.file.backend
        if note is not None and "crc32" in note:  # it was computed from the old values
            backend.write_note(node, {name: value for name, value in note.items() if name != "crc32"})
        if selection is None:
            backend.write(node, (), as_array(rows.to(dtype)))
            return
        if selection.exact:
            box = torch.empty(box_shape(selection.box, node.shape), dtype=dtype, device="cpu")
        else:
            with self.file.reading((*self.path, key)):
                box = as_tensor(backend.read(node, selection.box), dtype)
        backend.write(node, selection.box, as_array(assign_rows(rows, selection, box)))

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
