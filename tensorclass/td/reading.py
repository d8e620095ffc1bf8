"""Reading by key: the dict interface that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView
from typing import TYPE_CHECKING, Any

from torch import Size, Tensor

from .collection import Collection
from .keys import FlatKey, NestedKey, dotted, unravel_key, unravel_key_to_tuple

if TYPE_CHECKING:
    from .collection import Value

    IsLeaf = Callable[[type], bool]

#: stands for "no default was given" and "no such key"
MISSING: Any = object()


_gives_none = True


def get_defaults_to_none() -> bool:
    """Whether ``get`` gives ``None`` for a missing key when no default is given: :func:`set_get_defaults_to_none`."""
    return _gives_none


def set_get_defaults_to_none(set_to_none: bool = True) -> None:
    """Sets, for the whole program, what ``get`` and ``get_at`` do with a missing key where no default is given.

    Args:
        set_to_none: ``True``, as at first, gives ``None``; ``False`` raises a ``KeyError``, as ``data[key]`` does.
    """
    global _gives_none
    _gives_none = set_to_none


class KeyView(KeysView[Any]):
    """What ``keys()`` gives: iterable, sized, with membership tests and set operations; it follows the collection."""

    __slots__ = ("_collection", "_options")

    def __init__(self, collection: Reading, *options: Any) -> None:
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
        return value is not MISSING and not (leaves_only and not _is_leaf(value, is_leaf))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"


_PLAIN = (False, False, None, False)


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def _is_leaf(value: Value, is_leaf: IsLeaf | None) -> bool:
    if is_leaf is not None:
        return is_leaf(type(value))
    return not isinstance(value, Collection) or value._held() is not None


def default_is_leaf(cls: type) -> bool:
    """Whether a class is that of a leaf: anything but a collection. Text and other objects are none.

    >>> from tensorclass import TensorDict
    >>> default_is_leaf(Tensor), default_is_leaf(TensorDict)
    (True, False)
    """
    return not issubclass(cls, Collection)


class Reading(Collection):
    """get, keys, values, items and membership; nested keys as any nesting of tuples."""

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
            path = unravel_key_to_tuple(key)
            value = self._find(path)
            if value is MISSING:
                holder = self._find(path[:-1])
                if isinstance(holder, Reading) and holder._holds_none(path[-1]):
                    return None
                raise self._key_error(key) from None
        return value if type(value) is Tensor else self._out(value, key)

    def _holds_none(self, key: str) -> bool:
        """Whether a key that is not there stands for ``None``: an optional field of a record."""
        return False

    def _holds_tensor(self, key: str) -> bool:
        """Whether a key takes nothing but a tensor: such a field of a record."""
        return False

    def _out(self, value: Any, key: NestedKey) -> Any:
        """What the outside sees of the value of a key."""
        return value._as_read() if isinstance(value, Reading) else value

    def _find(self, path: tuple[str, ...]) -> Any:
        """The value at a nested key, or ``MISSING``."""
        node: Any = self
        for name in path:
            if not isinstance(node, Reading) or not node._is_tree():
                return MISSING
            node = node._store.get(name, MISSING)
        return node

    def _as_read(self) -> Any:
        """What ``data[key]`` gives when this is the value of the key: non-tensor data gives its object."""
        return self

    def _unwrapped(self) -> Any:
        """What stands for this in structures of other libraries: non-tensor data gives its object."""
        return self

    def _key_error(self, key: NestedKey) -> KeyError:
        *path, _last = unravel_key_to_tuple(key)
        node: Any = self
        for depth, name in enumerate(path):
            below = node._store.get(name, MISSING)
            if not isinstance(below, Collection):
                what = "is missing" if below is MISSING else "is a leaf, it has no keys"
                return KeyError(
                    f"key {key!r} not found: {dotted(path[: depth + 1])} {what}; the keys are {list(node._store)}"
                )
            node = below
        return KeyError(f"key {key!r} not found in this {type(node).__name__}: the keys are {list(node._store)}")

    def get(self, key: NestedKey, default: Any = MISSING, **forms: Any) -> Any:
        """The value at ``key``, or ``default`` when there is none, or ``None``; see :func:`set_get_defaults_to_none`.

        Non-tensor data comes as it is stored (:class:`NonTensorData`); ``data[key]`` gives the object itself.

        Args:
            key: the key, nested or not.
            default: what there is instead of a missing value.
            forms: in a lazy stack, how values of different shapes are read: ``as_list=True``,
                ``as_padded_tensor=True`` (with ``padding_side="left"`` or ``"right"``, ``padding_value``), or
                ``as_nested_tensor=True`` (with ``layout``).

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": 1, "b": {"c": 2}})
        >>> data.get(("b", "c")), data.get("x"), data.get("x", 0)
        (tensor(2), None, 0)
        """
        if forms:
            return self._get_as(unravel_key_to_tuple(key), None if default is MISSING else default, forms)
        value: Any = self._store.get(key, MISSING) if type(key) is str else self._find(unravel_key_to_tuple(key))
        return value if value is not MISSING else self._default(key, default)

    def _default(self, key: NestedKey, default: Any) -> Any:
        """What stands for a missing value."""
        if default is not MISSING:
            return default
        if _gives_none:
            return None
        raise self._key_error(key)

    def _get_as(self, path: tuple[str, ...], default: Any, forms: dict[str, Any]) -> Any:
        """``get`` with a form for values of different shapes, which only a lazy stack on the way can have."""
        first, *rest = path
        node = self._store.get(first, MISSING)
        if rest and isinstance(node, Reading) and node._is_tree():
            return node._get_as(tuple(rest), default, forms)
        if node is MISSING or rest:
            return default
        raise TypeError(
            f"get({first!r}): {sorted(forms)} tell how the parts of a lazy stack are put together; the value is a "
            f"{type(node).__name__} of a {type(self).__name__}, in one piece already"
        )

    def get_at(self, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
        """``data.get(key)[index]``; the default, or ``None``, when the key is missing: see :meth:`get`."""
        value = self._find(unravel_key_to_tuple(key))
        return self._default(key, default) if value is MISSING else value[index]

    def get_non_tensor(self, key: NestedKey, default: Any = MISSING) -> Any:
        """The object held by the non-tensor data at ``key``; another value as it is."""
        value = self._find(unravel_key_to_tuple(key))
        if value is MISSING:
            if default is MISSING:
                raise self._key_error(key)
            return default
        return value if isinstance(value, Tensor) else value._as_read()

    def get_item_shape(self, key: NestedKey) -> Size:
        """The shape of the value at ``key``."""
        value = self._find(unravel_key_to_tuple(key))
        if value is MISSING:
            raise self._key_error(key)
        shape: Size = value.shape
        return shape

    def entry_class(self, key: NestedKey) -> type:
        """The class of the value at ``key``."""
        value: object = self._find(unravel_key_to_tuple(key))
        if value is MISSING:
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
    ) -> list[tuple[Any, Any]]:
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
                if not leaves_only or _is_leaf(value, None):
                    keys.append((*path, key) if path else key)
                if isinstance(value, Reading) and value._is_tree():
                    value._keys_into(keys, leaves_only, (*path, key))

    def _items_into(self, entries: list[tuple[FlatKey, Value]], leaves_only: bool, path: tuple[str, ...]) -> None:
        """The entries of :meth:`_walk` over all levels."""
        for key, value in self._store.items():
            if type(value) is Tensor:
                entries.append(((*path, key) if path else key, value))
            elif isinstance(value, Reading) and value._is_tree():
                if not leaves_only:
                    entries.append(((*path, key) if path else key, value))
                value._items_into(entries, leaves_only, (*path, key))
            elif not leaves_only or _is_leaf(value, None):
                entries.append(((*path, key) if path else key, value))

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
            if include_nested and isinstance(value, Reading) and (is_leaf is None or not is_leaf(type(value))):
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
        return all(isinstance(value, Reading) and value.is_empty() for value in self._store.values())
