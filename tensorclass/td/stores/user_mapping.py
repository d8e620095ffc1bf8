"""A user's mapping as the store of a collection, which reads from it and writes to it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Size, Tensor

from tensorclass.support.printable import type_name
from tensorclass.td import shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.shapes import Names
from tensorclass.td.value_checks import Misfit, batch_mismatch, shape_of

from .store_classes import dense_class, on_new_store
from .write_back import WrittenBack

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection
    from tensorclass.td.collection import Value

METHODS_OF = "Stores"

C = TypeVar("C", bound="TensorCollection")


class Entries(MutableMapping[str, "Value"]):
    """The store: entries of a mapping as values of a collection.

    Nested mappings become collections that read and write through too. Each stays one object, with its lock and batch
    size, even if the mapping makes a new one at each read. Other objects are converted as if they were written to the
    collection.
    """

    __slots__ = ("nested", "owner", "source")

    def __init__(self, source: MutableMapping[str, Any]) -> None:
        self.source: MutableMapping[str, Any] = source
        self.nested: dict[str, Any] = {}
        self.owner: Callable[[], Any]

    def __getitem__(self, key: str) -> Any:
        value = held = self.source[key]
        if isinstance(value, Tensor) or (isinstance(value, Collection) and value._is_tree()):
            return value
        if not isinstance(value, MutableMapping):
            return self.owner()._fit(key, value)
        nested = self.nested.get(key)
        if nested is None:
            owner: TensorCollection = self.owner()
            metadata = owner._batch_size, owner._device, owner._names
            nested = self.nested[key] = through(owner._nested_class(key), held, *metadata)
        entries: Any = nested._store
        entries.source = held
        return nested

    def __setitem__(self, key: str, value: Any) -> None:
        nested = self.nested.get(key)
        if nested is not None:
            if value is nested:
                return
            self._detach(key)
        self.source[key] = value
        self._remember(key, value)

    def _remember(self, key: str, value: Any) -> None:
        """Keep batch size, names and class of a nested collection that the source stored as a mapping."""
        if isinstance(value, Tensor) or not value._is_tree():
            return
        source = held = self.source[key]
        if isinstance(held, MutableMapping):
            metadata = value._batch_size, value._device, value._names
            nested: Any = through(dense_class(value.__class__), source, *metadata)
            self.nested[key], entries = nested, nested._store
            for name, below in value._now().items():
                entries._remember(name, below)

    def __delitem__(self, key: str) -> None:
        self._detach(key)
        del self.source[key]

    def clear(self) -> None:
        for key in [*self.nested]:
            self._detach(key)
        self.source.clear()

    def _detach(self, key: str) -> None:
        """Move the values of a nested collection to a plain dict, because its mapping is removed."""
        nested = self.nested.pop(key, None)
        if nested is not None:
            nested._store = nested._values()._store

    def __contains__(self, key: object) -> bool:
        return key in self.source

    def __iter__(self) -> Iterator[str]:
        return iter(self.source)

    def __len__(self) -> int:
        return len(self.source)


class OnMapping(WrittenBack):
    """Methods of a collection on a user's mapping."""

    __slots__ = ()

    def _take(self, values: Any, objects: bool = True) -> None:
        store = self._store
        for key, value in values._now().items():
            given, current = value, None
            if isinstance(value, Collection):
                if value._is_tree():
                    current = store.get(key)
                elif not objects:
                    continue
            if isinstance(current, OnMapping) and _alike(current, value):
                for gone in [name for name in current._store if name not in value._store]:
                    del current._store[gone]
                current._take(value, objects)
            elif isinstance(current, WrittenBack) and not isinstance(current, OnMapping):
                current._take(value, objects)
            else:
                store[key] = given


def _alike(a: Any, b: Any) -> bool:
    same_class = dense_class(a.__class__) is dense_class(b.__class__)
    return same_class and (a._batch_size, a._names) == (b._batch_size, b._names)


def from_store(
    cls: type[C],
    store: MutableMapping[str, Any],
    batch_size: Sequence[int] | int | None = None,
    device: DeviceLike | None = None,
    names: Sequence[str | None] | None = None,
) -> C:
    """Return a collection that reads from a mapping and writes to it, without a copy.

    Operations return collections on a plain dict. Operations in place read the values, change them and write them
    back.

    Args:
        store: returns and takes values under string keys. A mutable mapping in it is a nested collection that reads
            and writes through, too. Tensors and collections (nested ones and non-tensor data) are written to it.
        batch_size: the leading dimensions that all values share. Default: none.
        device: the device that all values must be on. Nothing is moved. Default: any.
        names: a name or ``None`` for each batch dimension. Default: no names.

    Returns:
        A collection of this class on ``store``.

    Raises:
        RuntimeError: a value's shape does not begin with the batch size, or it is on another device.
        TypeError: ``store`` is not a mutable mapping.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> store = {"a": torch.zeros(3), "b": {"c": torch.ones(3)}}
        >>> data = TensorDict.from_store(store, [3])
        >>> data["b", "d"] = torch.ones(3)
        >>> list(store["b"])
        ['c', 'd']
    """
    if not isinstance(store, MutableMapping):
        raise TypeError(f"from_store: expected a mutable mapping, got a {type_name(store)}")
    size = shapes.as_size(batch_size)
    given = None if names is None else shapes.as_names(names, len(size))
    result = through(cls, store, size, as_device(device), given)
    check(result)
    return result


def through(
    cls: type[C], source: MutableMapping[str, Any], batch_size: Size, device: torch.device | None, names: Names
) -> C:
    """Make a collection of a class over a mapping, without checks."""
    entries = Entries(source)
    new = on_new_store(OnMapping, cls, entries, batch_size, device, names)
    entries.owner = weakref.ref(new)  # weak: in a cycle, only the garbage collector would free the two
    return new


def check(collection: Any, path: tuple[str, ...] = ()) -> None:
    """Raise if the entries of a mapping do not fit the collection over it."""
    size, device = collection._batch_size, collection._device
    source: Any = collection._store.source
    for key in source:
        if type(key) is not str:
            raise TypeError(f"from_store: keys are strings, got {key!r}; use a nested mapping for a nested collection")
    collection._check_keys(source, complete=True)
    for key, value in collection._now().items():
        shape = shape_of(value, (*path, key))
        if shape[: len(size)] != size:
            raise batch_mismatch((*path, key), size, shape)
        is_tree = isinstance(value, Collection) and value._is_tree()
        own = value._device if isinstance(value, Collection) else value.device
        if device is not None and own != device and (is_tree or isinstance(value, Tensor)):
            raise RuntimeError(
                f"from_store: {'.'.join((*path, key))}: expected a value on the device {device}, got {own}; "
                "values of a store are not moved: move them in the store, or leave device= out"
            )
        collection._check_entry(key, value)
        if isinstance(value, OnMapping) and isinstance(value._store, Entries):
            check(value, (*path, key))
    try:
        collection._check_changed({})
    except Misfit as error:
        raise error.below(*path) from None
