"""An entry of a group in an HDF5 or zarr file: read all of its value, or some rows; write to its array."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from tensorclass.records.record import TensorClass
from tensorclass.storage.common import collection_tree, rebuild_collection
from tensorclass.storage.common.collection_tree import FileError, TreeSource
from tensorclass.storage.common.object_json import TAG, decode
from tensorclass.td import shapes
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.nontensor import stack_of
from tensorclass.td.leaves.object_codes import codes_row_by_row, to_lists

from .array_backend import Note, flat, tensor_dtype
from .array_file import ArrayFile, as_array, as_tensor
from .array_selection import Selection, assign_rows, box_shape, select, take_selected

if TYPE_CHECKING:
    from .group_store import GroupStore

#: the node types that are arrays
_OF_ARRAYS = frozenset(("tensor", "unbatched", "object", "objects", "text"))
#: the node types that are groups
_OF_GROUPS = frozenset(("collection", "lazy_stack", "jagged", "column", "object_rows"))

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


class GroupEntry:
    """A group or an array of a file, with its note.

    Args:
        store: the store that has the entry.
        path: the names of the groups that the entry is in, then its key.
        node: the group or array.
        note: its note.
    """

    def __init__(self, store: GroupStore, path: tuple[str, ...], node: Any, note: Note | None) -> None:
        self.store: GroupStore = store
        self.path: tuple[str, ...] = path
        self.node: Any = node
        self.note: Note | None = note

    @property
    def file(self) -> ArrayFile:
        return self.store.file

    def reading(self) -> AbstractContextManager[None]:
        """Turn errors of the library in a block into a ``FileError`` that names the key."""
        return self.file.reading(self.path)

    def damaged(self, why: str) -> FileError:
        """Return an error that names the file and the key."""
        return collection_tree.damaged(self.file.path, self.path, why)

    @property
    def is_group(self) -> bool:
        """True for a group, ``False`` for an array."""
        return self.file.backend.is_group(self.node)

    @cached_property
    def kind(self) -> str:
        """The type of the value: one of the types of nodes in ``collection_tree``, or ``"text"``."""
        declared = None if self.note is None else self.note.get("type")
        if declared is not None:
            kind = str(declared)
            if kind in _OF_ARRAYS if self.is_group else kind in _OF_GROUPS:
                expected = "an array" if kind in _OF_ARRAYS else "a group"
                raise FileError(
                    f"{self.file.path}: {self.node.name}: its type is {kind!r}, which only {expected} can have"
                )
            return kind
        if self.is_group:
            return "collection"
        return "text" if self.file.backend.is_text(self.node) else "tensor"

    @property
    def shape(self) -> Size:
        """The shape of an array."""
        with self.reading():
            return Size(self.node.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensor in an array."""
        with self.reading():
            return tensor_dtype(self.node.dtype, self.note)

    def part(self, name: str) -> GroupEntry:
        """Return an entry of the group of a column: ``"spans"``, or ``"values"``, which can be a column, too."""
        backend = self.file.backend
        with self.reading():
            node = backend.find(self.node, name)
            note = backend.read_note(node)
            path = (*self.path, name) if backend.is_group(node) else self.path
        found = GroupEntry(self.store, path, node, note)
        if found.kind != "tensor" and not (name == "values" and found.kind == "column"):
            raise self.damaged(f"expected an array of {name}, got {found.kind}")
        if not found.is_group and not node.shape:
            raise self.damaged(f"expected an array of {name}, got one value")
        return found

    @property
    def column_size(self) -> Size:
        """The batch size of a column."""
        return self.part("spans").shape[:-1]

    # -- reading ------------------------------------------------------------------------------------------------------

    def value(self, index: tuple[Any, ...] | None = None) -> Any:
        """Return the value, or only its rows at a prepared index of the batch."""
        kind = self.kind
        if kind == "tensor":
            return self.read(None if index is None else select(index, self.shape))
        if kind == "column":
            return self.column(index)
        if kind == "object_rows":
            return self._as_declared(self._object_rows(index))
        if kind == "unbatched":
            value: Any = rebuild_collection.shared_tensor(self.note or {}, self.read())
            value = value._resized(self.store.owner()._batch_size)
        elif kind == "jagged":
            value = self._jagged()
        elif kind in ("object", "objects", "text"):
            value = self._as_declared(self._objects())
        else:
            raise self.damaged(f"the type {kind[:40]!r} is unknown here; a newer version may have written it")
        if index is None:
            return value
        item = index[0] if len(index) == 1 else index
        return value[item] if isinstance(value, Tensor) else value._index_value(item)

    def read(self, selection: Selection | None = None) -> Tensor:
        """Read a tensor, or a selection of it."""
        value, device = self._read(selection), self.store.owner()._device
        return value if device is None else value.to(device)

    def _read(self, selection: Selection | None = None) -> Tensor:
        """Read a tensor, or a selection of it, into the memory of the CPU."""
        dtype = self.dtype
        with self.reading():
            value = as_tensor(self.file.backend.read(self.node, () if selection is None else selection.box), dtype)
        return value if selection is None else take_selected(value, selection)

    def column(self, index: tuple[Any, ...] | None = None) -> Any:
        """Read a column, or some rows of it: their spans, and only their items."""
        note = self.note or {}
        if note.get("version") != collection_tree.VERSION:
            raise self.damaged(f"a column of version {ascii(note.get('version'))[:20]}, which is unknown here")
        if index is None:
            made = self._column(None)
        else:
            spans = self.part("spans")
            rows, size = select(index, spans.shape[:-1]), spans.shape[:-1]
            made = self._column([rows._replace(box=(*rows.box, slice(0, spans.shape[-1], 1)), exact=False)])
            names = collection_tree.parse_names(note.get("names"), size, self.store.source, self.path)
            made._names = names and shapes.names_indexed(names, index)
        device = self.store.owner()._device
        return made if device is None else made.to(device)

    def _column(self, rows: list[Selection] | None) -> Any:
        """Read a column into the memory of the CPU: all of it, or the rows of selections, one after the other."""
        spans, values = self.part("spans"), self.part("values")
        note, source = self.note or {}, self.store.source
        if rows is None:
            return rebuild_collection.column_of(note, values._items(None), spans._read(), None, source, self.path)
        items, chosen = values._items_of(torch.cat([spans._read(one) for one in rows]))
        note = {**note, "names": None}
        return rebuild_collection.column_of(note, items, chosen, None, source, self.path, chosen=True)

    def _items_of(self, spans: Tensor) -> tuple[Any, Tensor]:
        """Read the items of rows; return them, and the spans of the rows in them."""
        size = self.column_size if self.is_group else self.shape
        try:
            span_functions.check(spans, int(size[0]), "rows")
        except (TypeError, ValueError) as error:
            raise self.damaged(str(error)) from None
        flat_spans = spans.reshape(-1, 2)
        filled = flat_spans[:, 1] > 0
        runs = _runs(flat_spans[filled])
        items = self._items(to_lists(runs))
        counts = runs[:, 1] - runs[:, 0]
        shift = counts.cumsum(0) - counts - runs[:, 0]  # from the start of a run in the file to that in the items
        starts = torch.zeros_like(flat_spans[:, 0])
        own = flat_spans[filled, 0]
        starts[filled] = own + shift[torch.searchsorted(runs[:, 0].contiguous(), own.contiguous(), right=True) - 1]
        return items, torch.stack((starts, flat_spans[:, 1]), -1).reshape(spans.shape)

    def _items(self, runs: list[list[int]] | None) -> Any:
        """Read the items of a column at some ranges of positions, one after the other; all of them for ``None``."""
        rows = None
        if runs is not None:
            rows = [Selection((slice(start, stop, 1),), (slice(None),), True) for start, stop in runs or [[0, 0]]]
        if self.is_group:
            return self._column(rows)
        return self._read() if rows is None else torch.cat([self._read(one) for one in rows])

    def _as_declared(self, objects: Any) -> Any:
        """Return objects as the column that a record declares for the key."""
        owner = self.store.owner()
        spec = owner._specs.get(self.path[-1]) if isinstance(owner, TensorClass) else None
        if spec is None or spec.column is None:
            return objects
        try:
            return spec.column.made(objects, owner._batch_size)
        except (TypeError, ValueError) as error:
            raise self.damaged(str(error)) from None

    def verify(self) -> None:
        """Read a tensor and compare it with its checksum.

        Raises:
            FileError: the checksum differs, or there is none.
        """
        kind = self.kind
        if kind == "jagged":
            self._jagged(verify=True)
        elif kind in ("column", "object_rows"):
            for name in ("values", "spans"):
                self.part(name).verify()
            column = self.column()
            if column._CONTENT is Content.TEXT:
                try:
                    column.check_encoding()
                except ValueError as error:
                    raise self.damaged(str(error)) from None
        elif kind in ("tensor", "unbatched"):
            source = self.store.source._replace(verify=True)
            with self.reading():
                rebuild_collection.verify_checksum(self.read().cpu(), self.note or {}, 0, source, self.path)

    def _jagged(self, verify: bool = False) -> Tensor:
        def read(path: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            part = self.part(buffer or "values")
            if part.is_group or (buffer and part.shape != shape) or part.dtype != dtype:
                raise self.damaged("the offsets or values of the jagged tensor do not fit")
            return part.read()

        source = TreeSource(self.file.path, read, verify=verify)
        node = {**(self.note or {}), "shape": [*self.part("values").shape]}
        return rebuild_collection.read_jagged(node, source, self.path)

    def _objects(self) -> Any:
        node, note, kind, backend = self.node, self.note or {}, self.kind, self.file.backend
        device, form, pickles = self.store.owner()._device, note.get("form"), self.file.options.allow_pickle
        with self.reading():
            texts = backend.read_texts(node)
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
                    return self._one(texts)
                content = collection_tree.as_dict(json.loads(texts)) or {}
                return self._one(decode(content["data"], pickles), decode(content.get("metadata"), pickles))
            shape = Size(backend.shape_of_texts(node, note))
            items = flat(texts, len(shape))
            if len(items) != shape.numel():
                raise ValueError(f"expected {shape.numel()} objects, found {len(items)}")
            if form == "json":
                items = [decode(json.loads(item), pickles) for item in items]
            return rebuild_collection.objects_of(note, tuple(items), codes_row_by_row(shape), device)

    def _object_rows(self, index: tuple[Any, ...] | None) -> Any:
        """Read objects from rows of text: all of them, or some rows."""
        rows, note = self.column(index), self.note or {}
        with self.reading():
            items: list[Any] = rows.reshape(-1).tolist()
            if None in items:
                raise ValueError(f"row {items.index(None)} has no object")
            if note.get("form") != "text":
                items = [decode(json.loads(item), self.file.options.allow_pickle) for item in items]
        size = rows._batch_size
        codes = codes_row_by_row(size or Size((1,)))
        stack = rebuild_collection.objects_of(note, tuple(items), codes, self.store.owner()._device)
        return stack if size else stack[0]

    def _one(self, value: Any, metadata: Any = None) -> Any:
        """Return one object for all rows: as it is, or as a stack (``objects_as_stack``)."""
        owner = self.store.owner()
        size, device = owner._batch_size, owner._device
        if self.file.options.objects_as_stack and size:
            codes = torch.zeros((), dtype=torch.int64, device="cpu").expand(size)  # takes no memory
            return stack_of((value,), codes, device, None)
        return rebuild_collection.object_class(self.note or {})(value, metadata, batch_size=size, device=device)

    def placeholder(self, device: torch.device | None = None) -> Any:
        """Return a value with the shape and dtype of the entry: for arrays, an expanded tensor without memory."""
        kind = self.kind
        device = device or self.store.owner()._device
        if kind == "tensor" or kind == "unbatched":
            value = torch.zeros((), dtype=self.dtype, device=device).expand(self.shape)
            return value if kind == "tensor" else rebuild_collection.shared_tensor(self.note or {}, value)
        return self._empty_column(device) if kind == "column" else self.value()

    def _empty_column(self, device: torch.device | None) -> Any:
        """Return a column of empty rows, with the dtype and shape of the items."""
        values = self.part("values")
        if values.is_group:
            items = values._empty_column(device)._index_value(slice(0, 0))
        else:
            items = torch.empty((0, *values.shape[1:]), dtype=values.dtype, device=device)
        spans = torch.zeros((), dtype=torch.int64, device=device).expand(*self.column_size, 2)
        source = self.store.source._replace(device=device)
        return rebuild_collection.column_of(self.note or {}, items, spans, None, source, self.path, chosen=True)

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, rows: Any, selection: Selection | None = None) -> None:
        """Write values to an array, or to a selection of it."""
        self.file.check_writable(self.path[-1])
        with self.file.changing(complete=False):
            self._write(rows, selection)

    def _write(self, rows: Any, selection: Selection | None) -> None:
        dtype, node, note, backend = self.dtype, self.node, self.note, self.file.backend
        if note is not None and "crc32" in note:  # it was computed from the old values
            backend.write_note(node, {name: value for name, value in note.items() if name != "crc32"})
        if selection is None:
            backend.write(node, (), as_array(rows.to(dtype)))
            return
        if selection.exact:
            box = torch.empty(box_shape(selection.box, node.shape), dtype=dtype, device="cpu")
        else:
            with self.reading():
                box = as_tensor(backend.read(node, selection.box), dtype)
        backend.write(node, selection.box, as_array(assign_rows(rows, selection, box)))
