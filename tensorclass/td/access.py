"""The dict interface: keys in, values out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from torch import Size, Tensor
from typing_extensions import Self

from . import shapes
from .collection import Collection, DeviceLike, as_device
from .keys import FlatKey, NestedKey, tree_of, unravel_key, unravel_key_to_tuple
from .values import BatchMismatch, fit

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store, Value

    IsLeaf = Callable[[type], bool]
    #: a collection, and what was in it: its entries, batch size and names
    Before = tuple["Access", dict[str, Value], Size, shapes.Names]

_MISSING: Any = object()


class KeyView(KeysView[Any]):
    """What ``keys()`` gives: iterable, sized, with membership tests and set operations; it follows the collection."""

    __slots__ = ("_collection", "_options")

    def __init__(self, collection: Access, *options: Any) -> None:
        self._collection = collection
        # include_nested, leaves_only, is_leaf, sort
        self._options: tuple[bool, bool, IsLeaf | None, bool] = options or _PLAIN

    def __iter__(self) -> Iterator[Any]:
        if self._options is _PLAIN:
            return iter(self._collection._store)
        include_nested, leaves_only, is_leaf, sort = self._options
        if include_nested and is_leaf is None and not sort:
            keys: list[FlatKey] = []
            self._collection._keys_into(keys, leaves_only, ())
            return iter(keys)
        return iter([key for key, _ in self._collection._walk(include_nested, leaves_only, is_leaf, sort)])

    def __len__(self) -> int:
        if self._options is _PLAIN:
            return len(self._collection._store)
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            try:
                key = unravel_key(key)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(f"keys are strings, or tuples of strings for nested ones; got {key!r}") from None
        include_nested, leaves_only, is_leaf, _ = self._options
        if isinstance(key, str) and not leaves_only:
            return key in self._collection._store
        if not include_nested and not isinstance(key, str):
            return False
        value = self._collection._find(unravel_key_to_tuple(key))
        return value is not _MISSING and not (leaves_only and not _is_leaf(value, is_leaf))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"


def _node(tree: dict[str, Any], path: Sequence[str], key: str) -> dict[str, Any]:
    """The dict at a path of a tree of dicts, made where it is missing; a collection on the way is opened."""
    for name in path:
        below = tree.get(name)
        if below is None:
            below = tree[name] = {}
        elif isinstance(below, Access) and below._is_tree():
            below = tree[name] = dict(below._store)
        elif type(below) is not dict:
            raise KeyError(f"unflatten_keys: {key!r} would lie below the leaf {name!r}")
        tree = below
    return tree


_PLAIN = (False, False, None, False)


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def _is_leaf(value: Value, is_leaf: IsLeaf | None) -> bool:
    return not isinstance(value, Collection) if is_leaf is None else is_leaf(type(value))


def _leaf_above(path: Sequence[str]) -> KeyError:
    return KeyError(f"{'.'.join(path)} is a leaf: it cannot hold other keys")


def _chosen(source: Any, wanted: dict[str, Any]) -> Any:
    """The wanted keys of a collection or a mapping."""
    if isinstance(source, Access):
        return source._same(source._selected(wanted, strict=False))
    chosen: dict[Any, Any] = {}
    for key, value in source.items():
        below: Any = wanted
        for name in unravel_key_to_tuple(key):
            below = below.get(name, _MISSING) if isinstance(below, dict) else below
        if below is None:
            chosen[key] = value
        elif below is not _MISSING and isinstance(value, (Collection, Mapping)):
            chosen[key] = _chosen(value, below)
    return chosen


def _cloned(value: Any) -> Any:
    """A value of which no tensor is shared; what is neither tensor, collection nor mapping stays."""
    if isinstance(value, Mapping):
        return {key: _cloned(item) for key, item in value.items()}
    return value.clone() if isinstance(value, (Tensor, Access)) else value


class Access(Collection):
    """get, set, update, keys and everything else that a dict has; nested keys as any nesting of tuples."""

    __slots__ = ()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _get_key(self, key: NestedKey) -> Any:
        """``data[key]``: non-tensor data comes out as the object that it holds."""
        try:
            if type(key) is str:
                value: Any = self._store[key]
            else:
                value = self
                for name in key if type(key[0]) is str else unravel_key_to_tuple(key):
                    value = value._store[name]
        except (KeyError, AttributeError, TypeError):
            value = self._find(unravel_key_to_tuple(key))
            if value is _MISSING:
                raise self._key_error(key) from None
        return value if type(value) is Tensor else self._out(value)

    def _out(self, value: Any) -> Any:
        """What the outside sees of a value."""
        return value._unwrapped() if isinstance(value, Access) else value

    def _find(self, path: tuple[str, ...]) -> Any:
        """The value at a nested key, or ``_MISSING``."""
        node: Any = self
        for name in path:
            if not isinstance(node, Access) or not node._is_tree():
                return _MISSING
            node = node._store.get(name, _MISSING)
        return node

    def _unwrapped(self) -> Any:
        """What ``data[key]`` gives when this is the value of the key: non-tensor data gives its object."""
        return self

    def _key_error(self, key: NestedKey) -> KeyError:
        *path, last = unravel_key_to_tuple(key)
        node: Any = self
        for depth, name in enumerate(path):
            below = node._store.get(name, _MISSING)
            if not isinstance(below, Collection):
                what = "is missing" if below is _MISSING else "is a leaf, it has no keys"
                return KeyError(f"key {key!r} not found: {'.'.join(path[: depth + 1])} {what}; the keys are {list(node._store)}")
            node = below
        return KeyError(f"key {key!r} not found in this {type(node).__name__}: the keys are {list(node._store)}")

    def get(self, key: NestedKey, default: Any = None) -> Any:
        """The value at ``key``, or ``default`` when there is none.

        Non-tensor data comes as it is stored (:class:`NonTensorData`); ``data[key]`` gives the object itself.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": 1, "b": {"c": 2}})
        >>> data.get(("b", "c")), data.get("x"), data.get("x", 0)
        (tensor(2), None, 0)
        """
        if type(key) is str:
            return self._store.get(key, default)
        value = self._find(unravel_key_to_tuple(key))
        return default if value is _MISSING else value

    def get_non_tensor(self, key: NestedKey, default: Any = _MISSING) -> Any:
        """The object held by the non-tensor data at ``key``; another value as it is."""
        value = self._find(unravel_key_to_tuple(key))
        if value is _MISSING:
            if default is _MISSING:
                raise self._key_error(key)
            return default
        return value if isinstance(value, Tensor) else value._unwrapped()

    def get_item_shape(self, key: NestedKey) -> Size:
        """The shape of the value at ``key``."""
        value = self._find(unravel_key_to_tuple(key))
        if value is _MISSING:
            raise self._key_error(key)
        shape: Size = value.shape
        return shape

    def entry_class(self, key: NestedKey) -> type:
        """The class of the value at ``key``."""
        value = self._find(unravel_key_to_tuple(key))
        if value is _MISSING:
            raise self._key_error(key)
        return type(value)

    def is_non_tensor(self, key: NestedKey) -> bool:
        """Whether the value at ``key`` is non-tensor data."""
        from .nontensor import NonTensorDataBase

        return issubclass(self.entry_class(key), NonTensorDataBase)

    # -- walking ------------------------------------------------------------------------------------------------------

    def _walk(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        sort: bool = False,
        path: tuple[str, ...] = (),
    ) -> list[tuple[FlatKey, Value]]:
        """The entries, a nested collection before what it holds; non-tensor data is neither a leaf nor nested."""
        entries: list[tuple[FlatKey, Value]] = []
        self._walk_into(entries, include_nested, leaves_only, is_leaf, sort, path)
        return entries

    def _keys_into(self, keys: list[FlatKey], leaves_only: bool, path: tuple[str, ...]) -> None:
        """The keys of :meth:`_walk` over all levels, without the values."""
        for key, value in self._store.items():
            if type(value) is Tensor:
                keys.append((*path, key) if path else key)
            else:
                if not leaves_only or not isinstance(value, Collection):
                    keys.append((*path, key) if path else key)
                if isinstance(value, Access) and value._is_tree():
                    value._keys_into(keys, leaves_only, (*path, key))

    def _items_into(
        self, entries: list[tuple[FlatKey, Value]], leaves_only: bool, path: tuple[str, ...]
    ) -> None:
        """The entries of :meth:`_walk` over all levels."""
        for key, value in self._store.items():
            if type(value) is Tensor:
                entries.append(((*path, key) if path else key, value))
            else:
                if not leaves_only or not isinstance(value, Collection):
                    entries.append(((*path, key) if path else key, value))
                if isinstance(value, Access) and value._is_tree():
                    value._items_into(entries, leaves_only, (*path, key))

    def _walk_into(
        self,
        entries: list[tuple[FlatKey, Value]],
        include_nested: bool,
        leaves_only: bool,
        is_leaf: IsLeaf | None,
        sort: bool,
        path: tuple[str, ...],
    ) -> None:
        store = self._store
        for key, value in sorted(store.items(), key=_first) if sort else store.items():
            if type(value) is Tensor and is_leaf is None:
                entries.append(((*path, key) if path else key, value))
                continue
            if not leaves_only or _is_leaf(value, is_leaf):
                entries.append(((*path, key) if path else key, value))
            if include_nested and isinstance(value, Access) and (is_leaf is None or not is_leaf(type(value))):
                value._walk_into(entries, True, leaves_only, is_leaf, sort, (*path, key))

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        *,
        sort: bool = False,
    ) -> KeyView:
        """The keys.

        Args:
            include_nested: also those of nested collections, as tuples.
            leaves_only: only those of tensors (or of what ``is_leaf`` says).
            is_leaf: called with the class of a value, whether it is a leaf; nothing below a leaf is visited.
            sort: in alphabetical order.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": 1, "b": {"c": 2}})
        >>> list(data.keys()), list(data.keys(include_nested=True, leaves_only=True))
        (['a', 'b'], ['a', ('b', 'c')])
        """
        if not (include_nested or leaves_only or sort):
            return KeyView(self)
        return KeyView(self, include_nested, leaves_only, is_leaf, sort)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        *,
        sort: bool = False,
    ) -> Iterator[Value]:
        """The values; see :meth:`keys` for the arguments."""
        if not (include_nested or leaves_only or sort):
            return iter(self._store.values())
        return (value for _, value in self._walk(include_nested, leaves_only, is_leaf, sort))

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        *,
        sort: bool = False,
    ) -> Iterator[tuple[Any, Value]]:
        """The keys with their values; see :meth:`keys` for the arguments."""
        if not (include_nested or leaves_only or sort):
            return iter(self._store.items())
        if include_nested and is_leaf is None and not sort:
            entries: list[tuple[FlatKey, Value]] = []
            self._items_into(entries, leaves_only, ())
            return iter(entries)
        return iter(self._walk(include_nested, leaves_only, is_leaf, sort))

    @property
    def sorted_keys(self) -> list[str]:
        """The keys in alphabetical order."""
        return sorted(self._store)

    def __contains__(self, key: object) -> bool:
        """Whether ``key``, nested or not, is there."""
        if type(key) is str:
            return key in self._store
        return KeyView(self, True, False, None, False).__contains__(key)

    def is_empty(self) -> bool:
        """Whether there is no leaf: neither a tensor nor non-tensor data, at any depth.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": {"b": {}}}).is_empty()
        True
        """
        return all(isinstance(value, Access) and value.is_empty() for value in self._store.values())

    # -- writing ------------------------------------------------------------------------------------------------------

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        """What is stored when ``value`` is written to ``key``. A record checks its field here."""
        return fit(self, key, value, non_blocking)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        """Writes one key of this level."""
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        if self._lock is not None:
            self._check_unlocked()
        if (
            self._device is None
            and type(value) is Tensor
            and value.shape[: len(self._batch_size)] == self._batch_size
        ):  # what most writes are, and needs no more
            self._store[key] = value
        else:
            self._store[key] = self._fit(key, value, non_blocking)

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        """Writes into the value of a key of this level."""
        try:
            destination = self._store[key]
        except KeyError:
            raise self._key_error(key) from None
        if type(destination) is Tensor and type(value) is Tensor and value.shape == destination.shape:
            destination.copy_(value, non_blocking=non_blocking)
            return
        value = self._fit(key, value, non_blocking)
        if isinstance(destination, Tensor):
            if not isinstance(value, Tensor):
                raise TypeError(f"{key}: cannot write a {type(value).__name__} into a tensor in place")
            try:
                destination.copy_(value, non_blocking=non_blocking)
            except RuntimeError as error:
                if value.shape == destination.shape:
                    raise
                raise RuntimeError(
                    f"{key}: cannot write in place: expected shape {list(destination.shape)}, or one that broadcasts to "
                    f"it, got {list(value.shape)}"
                ) from error
        else:
            written = self._store[key] = destination._copy(value, non_blocking)
            if written._lock is None:
                written._lock = destination._lock

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        """Writes the values of a collection into those of this one. Keys that the source lacks stay as they are.

        Gives what stands for this collection afterwards: itself, but for non-tensor data.
        """
        if not isinstance(source, Collection):
            raise TypeError(f"expected a collection to copy from, got a {type(source).__name__}")
        for key in source._store:
            if key not in self._store:
                raise self._key_error(key)
        for key, value in source._store.items():
            self._set_(key, value, non_blocking)
        return self

    def _parent_of(self, path: Sequence[str], create: bool = False) -> Access:
        """The collection that holds the last name of a nested key."""
        node: Access = self
        for depth, name in enumerate(path):
            below = node._store.get(name)
            if below is None:
                if not create:
                    raise self._key_error(tuple(path[: depth + 1]))
                node._set(name, {})
                below = node._store[name]
            if not isinstance(below, Access) or not below._is_tree():
                raise _leaf_above(path[: depth + 1])
            node = below
        return node

    def set(self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any) -> Self:
        """Writes a value.

        Args:
            key: where; the collections on the way are made when they are missing.
            item: a tensor, a collection, a mapping (becomes a nested collection), a number, array or list of numbers
                (becomes a tensor), anything else (becomes non-tensor data).
            inplace: write into the value that is there, if there is one.
            non_blocking: do not wait for the transfer to the collection's device.
        """
        if kwargs:
            raise TypeError(f"set: unknown arguments {sorted(kwargs)}")
        if type(key) is str:
            self._set(key, item, inplace, non_blocking)
        else:
            self._set_nested(unravel_key_to_tuple(key), item, inplace, non_blocking)
        return self

    def _set_nested(self, path: tuple[str, ...], item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        """Writes a value below this level. What is missing on the way is made whole before any of it is stored."""
        node: Access = self
        for depth, name in enumerate(path[:-1]):
            below = node._store.get(name)
            if below is None:
                for key in reversed(path[depth + 1 :]):
                    item = {key: item}
                break
            if not isinstance(below, Access) or not below._is_tree():
                raise _leaf_above(path[: depth + 1])
            node = below
        else:
            depth, name = len(path) - 1, path[-1]
        try:
            node._set(name, item, inplace, non_blocking)
        except BatchMismatch as error:
            raise error.below(*path[:depth]) from None

    def set_(self, key: NestedKey, item: Any, *, non_blocking: bool = False) -> Self:
        """Writes into the value at ``key``, which must be there; works on locked collections."""
        if type(key) is str:
            self._set_(key, item, non_blocking)
        else:
            *path, last = unravel_key_to_tuple(key)
            self._parent_of(path)._set_(last, item, non_blocking)
        return self

    def set_at_(self, key: NestedKey, value: Any, index: Any, *, non_blocking: bool = False) -> Self:
        """Writes into rows of the value at ``key``: ``data[key][index] = value``."""
        destination = self._find(unravel_key_to_tuple(key))
        if destination is _MISSING:
            raise self._key_error(key)
        destination[index] = value
        return self

    def set_non_tensor(self, key: NestedKey, value: Any) -> Self:
        """Writes ``value`` as non-tensor data, whatever it is."""
        from .nontensor import NonTensorData

        *path, last = unravel_key_to_tuple(key)
        parent = self._parent_of(path, create=True)
        parent._set(last, NonTensorData(value, batch_size=parent._batch_size, device=parent._device))
        return self

    def fill_(self, key: NestedKey, value: float | bool) -> Self:
        """Fills the value at ``key`` (all values of it when it is a collection) in place."""
        destination = self._find(unravel_key_to_tuple(key))
        if destination is _MISSING:
            raise self._key_error(key)
        for leaf in destination._leaves() if isinstance(destination, Collection) else (destination,):
            leaf.fill_(value)
        return self

    def setdefault(self, key: NestedKey, default: Any, inplace: bool = False) -> Any:
        """The value at ``key``, after writing ``default`` there when there is none."""
        if key not in self:
            self.set(key, default, inplace=inplace)
        return self.get(key)

    def create_nested(self, key: NestedKey) -> Self:
        """Writes an empty nested collection at ``key``."""
        *path, last = unravel_key_to_tuple(key)
        self._parent_of(path, create=True)._set(last, {})
        return self

    def update(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection | None = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        is_leaf: IsLeaf | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Writes the values of a mapping or a collection; nested ones are merged.

        Args:
            input_dict_or_td: the source; more entries can come as keywords.
            clone: write copies of the values.
            inplace: write into values that are there.
            non_blocking: do not wait for transfers between devices.
            keys_to_update: only these keys of the source.
            is_leaf: called with the class of a value: ``True`` replaces it whole where it would be merged.
            update_batch_size: take the batch size of the source, which must be a collection.
            ignore_lock: write to a locked collection.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": 1, "b": {"c": 2}})
        >>> sorted(data.update({"b": {"d": 3}}).keys(True, True), key=str)
        [('b', 'c'), ('b', 'd'), 'a']
        """
        if self._lock is not None and not inplace and not ignore_lock:
            self._check_unlocked()
        wanted = None if keys_to_update is None else tree_of(keys_to_update)
        lock = self._lock
        if ignore_lock and lock is not None:
            self._unlock_below()
        undo: list[Before] = []
        try:
            if update_batch_size:
                if not isinstance(input_dict_or_td, Collection):
                    raise TypeError("update: update_batch_size needs a collection as the source: a mapping has none")
                self._make_room(input_dict_or_td, wanted, undo)
            self._merge(input_dict_or_td, wanted, clone, inplace, non_blocking, is_leaf, undo)
            if kwargs:
                self._merge(kwargs, wanted, clone, inplace, non_blocking, is_leaf, undo)
        except BaseException:
            for node, store, node._batch_size, node._names in reversed(undo):
                node._store.clear()
                node._store.update(store)
            raise
        finally:
            if ignore_lock and lock is not None:
                self._lock_under(())
                self._lock = lock
        return self

    def _make_room(self, source: Collection, wanted: dict[str, Any] | None, undo: list[Before]) -> None:
        """Takes over the batch size of a source, which must replace all values that this batch size does not fit."""
        undo.append((self, {**self._store}, self._batch_size, self._names))
        size = source._batch_size
        for key, value in self._store.items():
            new = source._store.get(key) if wanted is None or key in wanted else None
            if isinstance(value, Access) and value._is_tree() and isinstance(new, Access) and new._is_tree():
                value._make_room(new, None if wanted is None else wanted[key], undo)
            elif new is None and value.shape[: len(size)] != size:
                raise RuntimeError(
                    f"update: the batch size {list(size)} does not fit {key!r}, which is not updated and has shape "
                    f"{list(value.shape)}"
                )
        self._batch_size = size
        self._names = source._names

    def _merge(
        self,
        source: Mapping[Any, Any] | Collection | None,
        wanted: dict[str, Any] | None,
        clone: bool,
        inplace: bool,
        non_blocking: bool,
        is_leaf: IsLeaf | None,
        undo: list[Before],
    ) -> None:
        """Writes the values of a source, and notes in ``undo`` what each level was before."""
        if source is None:
            return
        store = self._store
        undo.append((self, {**store}, self._batch_size, self._names))
        for key, value in (source._store if isinstance(source, Collection) else source).items():
            rest: Sequence[str] = ()
            if type(key) is not str:
                key, *rest = unravel_key_to_tuple(key)
                if rest:
                    value = {tuple(rest): value}
            below = None
            if wanted is not None:
                if key not in wanted:
                    continue
                below = wanted[key]
            if type(value) is Tensor and below is None:
                self._set(key, value.clone() if clone else value, inplace, non_blocking)
                continue
            if isinstance(value, (Collection, Mapping)):
                current = store.get(key)
                whole = not rest and is_leaf is not None and is_leaf(type(value))
                if isinstance(current, Access) and current._merges(value) and not whole:
                    try:
                        current._merge(value, below, clone, inplace, non_blocking, is_leaf, undo)
                    except BatchMismatch as error:
                        raise error.below(key) from None
                    continue
                if rest and current is not None:
                    raise _leaf_above((key,))
                if below is not None:
                    value = _chosen(value, below)
            elif below is not None:  # only something below this key is wanted, and there is nothing below
                continue
            self._set(key, _cloned(value) if clone else value, inplace, non_blocking)

    def _merges(self, source: object) -> bool:
        """Whether ``update`` merges a nested source into this value; non-tensor data is replaced whole."""
        from .nontensor import NonTensorDataBase

        return not isinstance(source, NonTensorDataBase)

    def update_(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection | None = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Writes into the values that are there, in place; a key that is missing here is a ``KeyError``."""
        wanted = None if keys_to_update is None else tree_of(keys_to_update)
        for source in (input_dict_or_td, kwargs or None):
            if source is not None:
                self._require(source, wanted)
                self._merge(source, wanted, clone, True, non_blocking, None, [])
        return self

    def _require(self, source: Mapping[Any, Any] | Collection, wanted: dict[str, Any] | None) -> None:
        """Raises when a (wanted) key of the source is missing here."""
        for key, value in (source._store if isinstance(source, Collection) else source).items():
            first, *rest = unravel_key_to_tuple(key)
            if wanted is not None and first not in wanted:
                continue
            current = self._store.get(first)
            tree = isinstance(current, Access) and current._is_tree()
            if current is None or (rest and not tree):
                raise self._key_error(key)
            value = {tuple(rest): value} if rest else value
            if tree and isinstance(value, (Collection, Mapping)):
                current._require(value, wanted[first] if wanted is not None else None)  # type: ignore[union-attr]

    def update_at_(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection,
        idx: Any,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
    ) -> Self:
        """Writes into rows of the values that are there: ``data[idx] = source`` for keys that exist."""
        wanted = None if keys_to_update is None else tree_of(keys_to_update)
        self._require(input_dict_or_td, wanted)
        self[idx] = input_dict_or_td if wanted is None else _chosen(input_dict_or_td, wanted)  # type: ignore[index]
        return self

    def copy_(self, tensordict: Collection, non_blocking: bool = False) -> Self:
        """Writes the values of ``tensordict``, which must have all the keys of this one, into the values here."""
        keys = [key for key, value in self._walk(True) if not (isinstance(value, Access) and value._is_tree())]
        missing = [key for key in keys if key not in tensordict]  # type: ignore[operator]
        if missing:
            raise KeyError(f"copy_: the source lacks the keys {missing}; its keys are {list(tensordict._store)}")
        return self.update_(tensordict, non_blocking=non_blocking, keys_to_update=keys)

    if TYPE_CHECKING:

        def _check_new_key(self, key: str) -> None: ...
        def _lock_under(self, parents: Any) -> None: ...
        def _unlock_below(self) -> None: ...

    # -- removing -----------------------------------------------------------------------------------------------------

    def del_(self, key: NestedKey) -> Self:
        """Removes a key."""
        self.pop(key)
        return self

    def __delitem__(self, key: NestedKey) -> None:
        self.pop(key)

    def pop(self, key: NestedKey, default: Any = _MISSING) -> Any:
        """Removes a key and gives its value; the default (if one is given) when there is no such key."""
        self._check_unlocked()
        *path, last = unravel_key_to_tuple(key)
        parent = self._find(tuple(path))
        if isinstance(parent, Access) and last in parent._store:
            parent._check_unlocked()
            return parent._store.pop(last)
        if default is _MISSING:
            raise self._key_error(key)
        return default

    def popitem(self) -> tuple[str, Value]:
        """Removes the key that was written last and gives it with its value."""
        self._check_unlocked()
        if not self._store:
            raise KeyError("popitem: the collection has no keys")
        key = next(reversed(list(self._store)))
        return key, self._store.pop(key)

    def clear(self) -> Self:
        """Removes all keys."""
        self._check_unlocked()
        self._store.clear()
        return self

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Renames a key; with ``safe``, a ``KeyError`` when the new one is there already."""
        self._check_unlocked()
        if type(old_key) is str and type(new_key) is str:
            if old_key not in self._store:
                raise self._key_error(old_key)
            if new_key == old_key:
                return self
            if safe and new_key in self._store:
                raise KeyError(f"rename_key_: {new_key!r} is there already; safe=False replaces it")
            self._check_new_key(new_key)
            self._store[new_key] = self._store.pop(old_key)
            return self
        old, new = unravel_key_to_tuple(old_key), unravel_key_to_tuple(new_key)
        value = self._find(old)
        if value is _MISSING:
            raise self._key_error(old_key)
        if old == new:
            return self
        if safe and new in self:
            raise KeyError(f"rename_key_: {new_key!r} is there already; safe=False replaces it")
        parent = self._parent_of(old[:-1])
        parent._check_unlocked()
        before = {**parent._store}
        del parent._store[old[-1]]  # first, because the new key may lie below the old one, or the other way round
        try:
            self._set_nested(new, value)
        except BaseException:
            parent._store.clear()
            parent._store.update(before)
            raise
        return self

    def rename_keys(self, mapping: Mapping[NestedKey, NestedKey], *, strict: bool = True) -> Self:
        """A collection on the same values with other keys, ``{old: new}``; several can swap names at once.

        Args:
            mapping: the new key for each old one, nested or not.
            strict: a key that is missing is a ``KeyError``; otherwise it is left out.

        Raises:
            ValueError: two keys get the same name or lie inside one another, or a new key is there already and is not
                renamed itself.
        """
        result = self.copy()
        moves = {unravel_key_to_tuple(old): unravel_key_to_tuple(new) for old, new in mapping.items()}
        values = {old: result._find(old) for old in moves}
        for old in [old for old, value in values.items() if value is _MISSING]:
            if strict:
                raise self._key_error(old)
            del values[old], moves[old]
        for what, paths in (("old", sorted(moves)), ("new", sorted(moves.values()))):
            for first, second in pairwise(paths):
                if second[: len(first)] == first:
                    raise ValueError(f"rename_keys: the {what} keys {first} and {second} are one, or lie in one another")
        for old in moves:
            result.pop(old)
            result._drop_emptied(old[:-1])
        for new in moves.values():
            if result._find(new) is not _MISSING:
                raise ValueError(f"rename_keys: {new} is there already and is not renamed itself")
        for old, new in moves.items():
            result._set_nested(new, values[old])
        return result

    # -- choosing -----------------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        """New collections on the same tensors."""
        return self._shallow()

    __copy__ = copy

    def empty(
        self,
        recurse: bool = False,
        *,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = _MISSING,
        names: Sequence[str | None] | None = _MISSING,
    ) -> Self:
        """A collection like this one without its leaves; with ``recurse``, nested collections stay, empty too."""
        size = self._batch_size if batch_size is None else shapes.as_size(batch_size)
        if names is _MISSING:
            new_names = self._names if size == self._batch_size else None
        else:
            new_names = shapes.as_names(names, len(size))
        nested: Store = {}
        if recurse:
            ndim = len(self._batch_size)
            nested = {
                key: value.empty(recurse=True, batch_size=size + value._batch_size[ndim:], device=device)
                for key, value in self._store.items()
                if isinstance(value, Access) and value._is_tree()
            }
        result = self._like(nested, size, new_names)
        if device is not _MISSING:
            result._device = as_device(device)
        if names is not _MISSING:
            result._set_names(new_names)
        return result

    def _is_tree(self) -> bool:
        """Whether this is a nested collection, not a leaf that is one by its class (non-tensor data)."""
        return True

    def select(self, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Self:
        """Only some keys.

        Args:
            keys: the keys, nested or not.
            inplace: remove the others from this collection and return it.
            strict: a key that is missing is a ``KeyError``; otherwise it is left out.
            as_tensordict: give a record's values as a TensorDict.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict({"a": 1, "b": {"c": 2, "d": 3}}).select(("b", "c")).keys(True, True))
        [('b', 'c')]
        """
        store = self._selected(tree_of(keys), strict)
        if not inplace:
            return (self._as_tensordict(store) if as_tensordict else self._same(store))  # type: ignore[return-value]
        self._check_unlocked()
        self._replace_store(store)
        return self

    def _as_tensordict(self, store: Store) -> TensorCollection:
        from .tensordict import TensorDict

        return TensorDict._of(self, store)

    def _selected(self, tree: dict[str, Any], strict: bool) -> Store:
        store: Store = {}
        for key, below in tree.items():
            value = self._store.get(key)
            if value is not None and below is None:
                store[key] = value
            elif isinstance(value, Access) and value._is_tree():
                store[key] = value._same(value._selected(below, strict))
            elif strict:
                raise self._key_error(key if below is None else (key, next(iter(below))))
        return store

    def exclude(self, *keys: NestedKey, inplace: bool = False) -> Self:
        """All keys but some; those that are missing do not matter.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict({"a": 1, "b": {"c": 2, "d": 3}}).exclude("a", ("b", "c")).keys(True, True))
        [('b', 'd')]
        """
        store = self._excluded(tree_of(keys))
        if not inplace:
            return self._same(store)
        self._check_unlocked()
        self._replace_store(store)
        return self

    def _excluded(self, tree: dict[str, Any]) -> Store:
        store: Store = {}
        for key, value in self._store.items():
            below = tree.get(key, _MISSING)
            if isinstance(below, dict) and isinstance(value, Access) and value._is_tree():
                store[key] = value._same(value._excluded(below))
            elif below is not None:
                store[key] = value
        return store

    def _replace_store(self, store: Store) -> None:
        self._check_unlocked()
        own = self._store
        for key in [key for key in own if key not in store]:
            del own[key]
        for key, value in store.items():
            current = own[key]
            if value is current:
                continue
            if isinstance(current, Access) and isinstance(value, Access):
                current._replace_store(value._store)
            else:
                own[key] = value

    def split_keys(
        self,
        *key_sets: Sequence[NestedKey],
        inplace: bool = False,
        default: Any = _MISSING,
        strict: bool = True,
        reproduce_struct: bool = False,
    ) -> tuple[Self, ...]:
        """One collection for each set of keys, and one more with what remains.

        Args:
            key_sets: sets of keys, with no key in two of them.
            inplace: take the keys out of this collection, which comes last in the result.
            default: what a missing key gets; a missing key is a ``KeyError`` without it.
            strict: with ``False``, missing keys are left out.
            reproduce_struct: keep emptied nested collections in the last one.
        """
        last = self if inplace else self.copy()
        if inplace:
            self._check_unlocked()
        seen: set[FlatKey] = set()
        parts: list[Self] = []
        for key_set in key_sets:
            part = self._untyped({})
            for raw in key_set:
                key = unravel_key(raw)
                if key in seen:
                    raise KeyError(f"split_keys: {key!r} is asked for twice")
                seen.add(key)
                value = last._find(unravel_key_to_tuple(key))
                if value is _MISSING:
                    if default is not _MISSING:
                        value = default
                    elif strict:
                        raise self._key_error(key)
                    else:
                        continue
                part.set(key, value)
            parts.append(self._same(part._store))
        for key in seen:
            if key in last:
                last.pop(key)
        if not reproduce_struct:
            for key in seen:
                last._drop_emptied(unravel_key_to_tuple(key)[:-1])
        return (*parts, last)

    def _drop_emptied(self, path: tuple[str, ...]) -> None:
        """Removes the collection at ``path``, and those above it, as far as they have no keys."""
        while path and isinstance(node := self._find(path), Access) and not node._store:
            self.pop(path)
            path = path[:-1]

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """A collection that shares the values, but for those given: ``data.replace({"a": 1})`` or ``replace(a=1)``."""
        if len(args) > 1:
            raise TypeError(f"replace: expected one mapping or collection and keywords, got {len(args)} positional arguments")
        return self.copy().update(args[0] if args else None, **kwargs)

    # -- flat and nested ----------------------------------------------------------------------------------------------

    def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: IsLeaf | None = None) -> Self:
        """The leaves under keys joined by ``separator``, on one level.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict({"a": 1, "b": {"c": 2}}).flatten_keys().keys())
        ['a', 'b.c']
        """
        store: Store = {}
        self._flatten_into(store, "", separator, is_leaf)
        if not inplace:
            return self._untyped(store)  # type: ignore[return-value]
        self._check_unlocked()
        self._store.clear()
        self._store.update(store)
        return self

    def _flatten_into(self, store: Store, prefix: str, separator: str, is_leaf: IsLeaf | None) -> None:
        for key, value in self._store.items():
            name = prefix + key
            if type(value) is not Tensor and isinstance(value, Access) and value._is_tree():
                if is_leaf is None or not is_leaf(type(value)):
                    value._flatten_into(store, name + separator, separator, is_leaf)
                    continue
            if name in store:
                raise KeyError(f"flatten_keys: two keys become {name!r}; choose another separator than {separator!r}")
            store[name] = value

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Self:
        """The inverse of :meth:`flatten_keys`: a key that holds ``separator`` becomes a nested one.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a.b": 1, "a.c": 2}).unflatten_keys()["a", "c"]
        tensor(2)
        """
        if inplace:
            self._check_unlocked()
        store: dict[str, Any] = {}
        nodes: dict[str, dict[str, Any]] = {}  # prefix -> where its keys go
        for key, value in self._store.items():
            prefix, found, last = key.rpartition(separator)
            node = nodes.get(prefix) if found else store
            if node is None:
                node = nodes[prefix] = _node(store, prefix.split(separator), key)
            current = node.get(last)
            if current is None:
                node[last] = value
            elif (
                type(current) is dict
                and isinstance(value, Access)
                and value._is_tree()
                and current.keys().isdisjoint(value._store)
            ):
                current.update(value._store)
            else:
                raise KeyError(f"unflatten_keys: {key!r} has two values, or other keys lie below it")
        nested = self._nested(store)
        if not inplace:
            return self._untyped(nested)  # type: ignore[return-value]
        self._store.clear()
        self._store.update(nested)
        return self

    def _nested(self, tree: dict[str, Any]) -> Store:
        """A store from a tree of dicts: each dict becomes a collection with this one's batch size."""
        return {
            key: self._untyped(self._nested(value)) if type(value) is dict else value for key, value in tree.items()
        }

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: Any = 0) -> Self:
        """A collection without batch dimensions that has ``value`` under each key.

        >>> from tensorclass import TensorDict
        >>> TensorDict.fromkeys(["a", ("b", "c")], 1)["b", "c"]
        tensor(1)
        """
        return cls({unravel_key(key): value for key in keys})  # type: ignore[call-arg]
