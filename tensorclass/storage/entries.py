"""The store of a collection in a file: each key is a group or an array of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from tensorclass.td.collection import Collection
from tensorclass.td.nontensor import MetaData, NonTensorData, stack_of
from tensorclass.td.objects import codes_row_by_row
from tensorclass.td.unbatched import UnbatchedTensor

from . import tree
from .file import File, as_array, as_tensor, check, escaped, replaced, unescaped
from .hierarchy import BEFORE, DRAFT, Said, dtype_of, flat
from .objects import TAG, decode
from .partial import Part, part_of, picked, spread
from .tree import FileError, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorclass.td.collection import Value


#: what is noted of arrays, and of groups
_OF_ARRAYS = frozenset(("tensor", "unbatched", "object", "objects", "text"))
_OF_GROUPS = frozenset(("collection", "lazy_stack", "jagged"))


class Entries(MutableMapping[str, "Value"]):
    """The entries of a group. Arrays are read when they are asked for; nested collections are kept once they are made.

    A key that the file lacks can be in memory: the default of a field that a record has gained.
    """

    __slots__ = ("_group", "_noted", "_root", "file", "hidden", "in_memory", "kept", "owner", "path")

    def __init__(self, file: File, path: tuple[str, ...]) -> None:
        self.file: File = file
        self.path: tuple[str, ...] = path  #: names, from the root of the file
        self.kept: dict[str, Any] = {}
        self.in_memory: dict[str, Any] = {}
        self.hidden: frozenset[str] = frozenset()
        self.owner: Callable[[], Any]
        self._root: Any = None
        self._group: Any = None
        self._noted = False

    @property
    def group(self) -> Any:
        """The group in the file as it is open now."""
        root = self.file.root
        if self._root is not root:
            node = root
            with self.file.reading(self.path):
                for name in self.path:
                    node = self.file.format.find(node, name)
                self._noted = self.file.format.is_ours(node)
            self._root, self._group = root, node
        return self._group

    def note(self, said: Said) -> None:
        """Notes what the collection is, in the file."""
        with self.file.changing():
            self.file.format.say(self.group, said)
        self._noted = True

    def name(self, key: str) -> str:
        """The name of a key in the file."""
        self.group  # noqa: B018  # it says whether this package has made the names
        if self._noted:
            return escaped(key)
        if not key or "/" in key or "\0" in key or not key.strip("."):
            raise ValueError(f"{self.file.path}: {key!r} can be no key of a file that another program wrote")
        return key

    def keys_in_file(self) -> dict[str, str]:
        """The keys, with their names."""
        group = self.group
        with self.file.reading(self.path):
            names = [name for name in self.file.format.names(group) if not name.startswith((BEFORE, DRAFT))]
            found = {unescaped(name) if self._noted else name: name for name in names}
        return {key: name for key, name in found.items() if key not in self.hidden}

    def find(self, key: str) -> tuple[Any, Said | None]:
        """The group or array of a key, and what is noted of it."""
        if type(key) is not str or key in self.hidden:
            raise KeyError(key)
        group = self.group
        try:
            name = self.name(key)
        except ValueError:
            raise KeyError(key) from None
        format = self.file.format
        with self.file.reading((*self.path, key)):
            try:
                node = format.find(group, name)
            except KeyError:
                if format.has(group, name):  # and cannot be read
                    raise
                node = None
            said = None if node is None else format.said(node)
        if node is None:
            raise KeyError(key)
        return node, said

    # -- reading ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        nested = self.kept.get(key)
        if nested is not None:
            return nested
        if key in self.in_memory:
            return self.in_memory[key]
        node, said = self.find(key)
        return self._value(key, node, said)

    def rows(self, key: str, index: tuple[Any, ...]) -> Any:
        """The value of a key at an index of the batch: only that is read."""
        nested = self.kept.get(key)
        if nested is not None:
            return nested._index(index)
        item = index[0] if len(index) == 1 else index
        if key in self.in_memory:
            return self.in_memory[key][item]
        node, said = self.find(key)
        kind = self.kind(node, said)
        if kind == "tensor":
            return self.read(key, node, said, part_of(index, self.shape(key, node)))
        return self._value(key, node, said)[item]

    def kind(self, node: Any, said: Said | None) -> str:
        """What a node of the file stands for: a type of :mod:`.tree`."""
        noted = None if said is None else said.get("type")
        if noted is not None:
            kind = str(noted)
            if kind in _OF_ARRAYS if self.file.format.is_group(node) else kind in _OF_GROUPS:
                other = "an array" if kind in _OF_ARRAYS else "a group"
                raise FileError(f"{self.file.path}: {node.name}: what it says of itself, {kind!r}, is said of {other}")
            return kind
        if self.file.format.is_group(node):
            return "collection"
        return "text" if self.file.format.is_text(node) else "tensor"

    def shape(self, key: str, node: Any) -> Size:
        """The shape of an array."""
        with self.file.reading((*self.path, key)):
            return Size(node.shape)

    def dtype(self, key: str, node: Any, said: Said | None) -> torch.dtype:
        """The dtype of the tensor in an array."""
        with self.file.reading((*self.path, key)):
            return dtype_of(node.dtype, said)

    def read(self, key: str, node: Any, said: Said | None, part: Part | None = None) -> Tensor:
        """A tensor, or a part of one."""
        dtype = self.dtype(key, node, said)
        with self.file.reading((*self.path, key)):
            value = as_tensor(self.file.format.read(node, () if part is None else part.box), dtype)
        if part is not None:
            value = picked(value, part)
        device = self.owner()._device
        return value if device is None else value.to(device)

    def _value(self, key: str, node: Any, said: Said | None) -> Any:
        kind = self.kind(node, said)
        if kind == "tensor":
            return self.read(key, node, said)
        if kind == "unbatched":
            return UnbatchedTensor(self.read(key, node, said))
        if kind == "jagged":
            return self._jagged(key, node, said or {})
        if kind in ("object", "objects", "text"):
            return self._objects(key, node, said or {}, kind)
        raise FileError(
            f"{self.file.path}: {'.'.join((*self.path, key))}: the type {kind[:40]!r} is unknown here; a newer version "
            "may have written it"
        )

    def verify(self, key: str, node: Any, said: Said | None) -> None:
        """Reads a tensor, and compares it with its checksum.

        Raises:
            FileError: it differs, or there is none.
        """
        kind = self.kind(node, said)
        if kind == "jagged":
            self._jagged(key, node, said or {}, verify=True)
        elif kind in ("tensor", "unbatched"):
            source, path = Source(self.file.path, unread, verify=True), (*self.path, key)
            with self.file.reading(path):
                tree.verified(self.read(key, node, said).cpu(), said or {}, 0, source, path)

    def _jagged(self, key: str, node: Any, said: Said, verify: bool = False) -> Tensor:
        format = self.file.format

        def read(path: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            with self.file.reading((*self.path, key)):
                array = format.find(node, part or "values")
                if format.is_group(array):
                    raise ValueError(f"expected an array of {part or 'values'}, found a group")
                held = format.said(array)
            if (part and array.shape != shape) or self.dtype(key, array, held) != dtype:
                raise FileError(f"{self.file.path}: {key}: what makes it a jagged tensor does not fit")
            return self.read(key, array, held)

        with self.file.reading((*self.path, key)):
            shape = list(format.find(node, "values").shape)
        source = Source(self.file.path, read, verify=verify)
        return tree.jagged({**said, "shape": shape}, source, (*self.path, key))

    def _objects(self, key: str, node: Any, said: Said, kind: str) -> Any:
        owner = self.owner()
        size, device = owner._batch_size, owner._device
        with self.file.reading((*self.path, key)):
            texts = self.file.format.texts(node)
            if kind == "text":  # of another program
                if texts is None or isinstance(texts, str):
                    return self._one(NonTensorData(texts, batch_size=size, device=device))
                shape = Size(node.shape)
                return stack_of(tuple(flat(texts, len(shape))), codes_row_by_row(shape), device, None)
            form = said.get("form")
            pickles = self.file.allow_pickle
            if form == "pickle":
                texts = decode([TAG, "pickle", texts], pickles)
                if kind == "object":
                    return self._one(NonTensorData(texts, batch_size=size, device=device))
            if kind == "object":
                if not isinstance(texts, str):
                    raise ValueError("expected one text for an object")
                node_ = {"data": texts} if form == "text" else tree.as_dict(json.loads(texts)) or {}
                cls = MetaData if said.get("kind") == "MetaData" else NonTensorData
                metadata = decode(node_.get("metadata"), pickles)
                value = texts if form == "text" else decode(node_["data"], pickles)
                return self._one(cls(value, metadata, batch_size=size, device=device))
            shape = Size(self.file.format.shape_of_texts(node, said))
            items = flat(texts, len(shape))
            if len(items) != shape.numel():
                raise ValueError(f"expected {shape.numel()} objects, found {len(items)}")
            if form == "json":
                items = [decode(json.loads(item), pickles) for item in items]
            return stack_of(tuple(items), codes_row_by_row(shape), device, None)

    def _one(self, value: Any) -> Any:
        """One object for all rows, in the form that was asked for."""
        if not self.file.as_stack or not value._batch_size:
            return value
        codes = torch.zeros((), dtype=torch.int64, device="cpu").expand(value._batch_size)  # of any length
        return stack_of((value._objects[0],), codes, value._device, None)

    def stand_in(self, key: str, device: torch.device | None = None) -> Any:
        """Something of the form of a value, without its content: a tensor that takes no memory."""
        nested = self.kept.get(key)
        if nested is not None:
            return nested._outline(None, device) if isinstance(nested._store, Entries) else nested
        if key in self.in_memory:
            return self.in_memory[key]
        node, said = self.find(key)
        kind = self.kind(node, said)
        if kind == "tensor" or kind == "unbatched":
            zero = torch.zeros((), dtype=self.dtype(key, node, said), device=device or self.owner()._device)
            value = zero.expand(self.shape(key, node))
            return value if kind == "tensor" else UnbatchedTensor(value)
        return self._value(key, node, said)

    # -- writing ------------------------------------------------------------------------------------------------------

    def __setitem__(self, key: str, value: Any) -> None:
        if value is self.kept.get(key):
            return
        self.file.check_writable(key)
        group, name = self.group, self.name(key)
        if type(value) is Tensor and not value.is_meta and self.file.format.has(group, name):
            node, said = self.find(key)
            if (
                self.kind(node, said) == "tensor"
                and self.shape(key, node) == value.shape
                and self.dtype(key, node, said) == value.dtype
            ):
                self.write(key, node, said, value)  # it keeps its chunks
                return
        path = (*[unescaped(name) if self._noted else name for name in self.path], key)
        check(value, path, self.file.path, self.file.allow_pickle)
        with self.file.changing():
            replaced(self.file, group, name, value)
        self.kept.pop(key, None)
        self.in_memory.pop(key, None)
        if isinstance(value, Collection) and value._is_tree() and value._held() is None:
            from .opening import open_group

            self.kept[key] = open_group(self, key, name, type(value))

    def write(self, key: str, node: Any, said: Said | None, rows: Any, part: Part | None = None) -> None:
        """Writes values into an array, or into a part of it."""
        self.file.check_writable(key)
        with self.file.changing(whole=False):
            self._write(key, node, said, rows, part)

    def _write(self, key: str, node: Any, said: Said | None, rows: Any, part: Part | None) -> None:
        dtype = self.dtype(key, node, said)
        format = self.file.format
        if said is not None and "crc32" in said:  # the values will be others
            format.say(node, {name: value for name, value in said.items() if name != "crc32"})
        if part is None:
            format.write(node, (), as_array(rows.to(dtype)))
            return
        if part.exact:
            box = torch.empty(part.shape(node.shape), dtype=dtype, device="cpu")
        else:
            with self.file.reading((*self.path, key)):
                box = as_tensor(format.read(node, part.box), dtype)
        format.write(node, part.box, as_array(spread(rows, part, box)))

    def allocate(self, key: str, shape: Size, dtype: torch.dtype) -> None:
        """A new array of zeros."""
        self.file.check_writable(key)
        with self.file.changing():
            self.file.make_array(self.group, self.name(key), shape, dtype, None)

    def __delitem__(self, key: str) -> None:
        if key in self.in_memory:
            del self.in_memory[key]
            return
        self.file.check_writable(key)
        self.find(key)
        self.kept.pop(key, None)
        with self.file.changing():
            self.file.format.remove(self.group, self.name(key))

    def pop(self, key: str, *default: Any) -> Any:
        """Removes a key and gives its value, in memory."""
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
        if key in self.kept or key in self.in_memory:
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


def unread(path: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
    """The reader of a tree in which there are no tensors."""
    raise FileError(f"{'.'.join(path)}: not a tensor")
