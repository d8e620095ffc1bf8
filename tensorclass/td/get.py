"""Reading by key: the part of the dict interface that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView
from typing import TYPE_CHECKING, Any

from torch import Size, Tensor

from tensorclass.support.printable import type_name

from . import registry
from .collection import Collection
from .hidden_members import with_members
from .keys import FlatKey, NestedKey, dotted, missing_key, unravel_key, unravel_key_to_tuple
from .modes import Mode
from .stored_names import field_hint

if TYPE_CHECKING:
    from .collection import Value

    IsLeaf = Callable[[type], bool]

#: stands for "no default was given" and "no such key"
MISSING: Any = object()


class _NoDefault:
    """The class of :data:`NO_DEFAULT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


#: a default that asks for the error of a missing key, whatever :class:`set_get_defaults_to_none` says
NO_DEFAULT: Any = _NoDefault()


#: whether ``get`` without a default returns ``None`` for a missing key
_DEFAULTS_TO_NONE = Mode("get_defaults_to_none", True)


def get_defaults_to_none() -> bool:
    """Return whether ``get`` without a default returns ``None`` for a missing key.

    See :func:`set_get_defaults_to_none`.

    Example:
        >>> from tensorclass import get_defaults_to_none
        >>> get_defaults_to_none()
        True
    """
    return _DEFAULTS_TO_NONE.everywhere


def set_get_defaults_to_none(set_to_none: bool = True) -> None:
    """Set, for the whole program, what ``get`` and ``get_at`` without a default do if the key is missing.

    Args:
        set_to_none: ``True`` (default) returns ``None``; ``False`` raises a ``KeyError``, as ``data[key]`` does.

    Example:
        >>> from tensorclass import TensorDict, set_get_defaults_to_none
        >>> set_get_defaults_to_none(False)
        >>> try:
        ...     TensorDict({"a": 1}).get("b")
        ... except KeyError as error:
        ...     print(error.args[0])
        key 'b' not found in this TensorDict: the keys are ['a']
        >>> set_get_defaults_to_none(True)
    """
    _DEFAULTS_TO_NONE.everywhere = bool(set_to_none)


class KeyView(KeysView[Any]):
    """View of the keys: iterable, sized, with membership tests and set operations. It follows the collection."""

    __slots__ = ("_collection",)

    def __init__(self, collection: Reading) -> None:
        self._collection = collection

    def __iter__(self) -> Iterator[Any]:
        return iter(self._collection._store)

    def __len__(self) -> int:
        return len(self._collection._store)

    def __contains__(self, key: object) -> bool:
        key = _unraveled(key)
        return isinstance(key, str) and key in self._collection._store

    def __repr__(self) -> str:
        return f"KeyView({list(self)})"


class WalkedKeyView(KeyView):
    """View of the keys of all levels, of leaves alone, or in order."""

    __slots__ = ("_options",)

    def __init__(self, collection: Reading, *options: Any) -> None:
        self._collection = collection
        # include_nested, leaves_only, is_leaf, sort
        self._options: tuple[bool, bool, IsLeaf | None, bool] = options

    def _walked(self) -> list[Any]:
        include_nested, leaves_only, is_leaf, sort = self._options
        if include_nested and is_leaf is None and not sort:
            keys: list[FlatKey] = []
            self._collection._keys_into(keys, leaves_only, ())
            return keys
        return [key for key, _ in self._collection._walk(include_nested, leaves_only, is_leaf, sort)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._walked())

    def __len__(self) -> int:  # list() calls it, too
        return len(self._walked())

    def __contains__(self, key: object) -> bool:
        key = _unraveled(key)
        include_nested, leaves_only, is_leaf, _ = self._options
        if isinstance(key, str) and not leaves_only:
            return key in self._collection._store
        if not include_nested and not isinstance(key, str):
            return False
        value = self._collection._find(unravel_key_to_tuple(key))
        return value is not MISSING and not (leaves_only and not _is_leaf(value, is_leaf))


def _unraveled(key: Any) -> FlatKey:
    """Return the flat form of a key that is looked up in a view of keys. Raise a ``TypeError`` if it is not a key."""
    try:
        return key if isinstance(key, str) else unravel_key(key)
    except TypeError:
        raise TypeError(f"keys are strings, or tuples of strings for nested ones; got {key!r}") from None


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def _is_leaf(value: Value, is_leaf: IsLeaf | None) -> bool:
    if is_leaf is not None:
        return is_leaf(type(value))
    return not isinstance(value, Collection) or value._wrapped_tensor() is not None


def default_is_leaf(cls: type) -> bool:
    """Return whether a class is a leaf class: any but collections. Non-tensor data is no leaf.

    Example:
        >>> from torch import Tensor
        >>> from tensorclass import TensorDict, default_is_leaf
        >>> default_is_leaf(Tensor), default_is_leaf(TensorDict)
        (True, False)
    """
    return not issubclass(cls, Collection)


class Reading(Collection):
    """get, keys, values, items and membership; nested keys as any nesting of tuples."""

    __slots__ = ()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _get_key(self, key: NestedKey) -> Any:
        """Implement ``data[key]``. Non-tensor data is returned as the object that it holds."""
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
        """Return whether a missing key means ``None``: an optional field of a record."""
        return False

    def _holds_tensor(self, key: str) -> bool:
        """Return whether a key takes only tensors: a field of a record that is declared so."""
        return False

    def _out(self, value: Any, key: NestedKey) -> Any:
        """Return the value of a key as ``data[key]`` does. Records override this."""
        return value._as_read() if isinstance(value, Collection) else value

    def _find(self, path: tuple[str, ...]) -> Any:
        """Return the value at a nested key, or ``MISSING``."""
        node: Any = self
        for name in path:
            if not isinstance(node, Reading) or not node._is_tree():
                return MISSING
            node = node._store.get(name, MISSING)
        return node

    def _found(self, key: NestedKey) -> Any:
        """Return the value at a nested key, or raise."""
        value = self._find(unravel_key_to_tuple(key))
        if value is MISSING:
            raise self._key_error(key)
        return value

    def _key_error(self, key: NestedKey) -> KeyError:
        *path, last = unravel_key_to_tuple(key)
        node: Any = self
        for depth, name in enumerate(path):
            below = node._store.get(name, MISSING)
            if not isinstance(below, Collection):
                what = "is missing" if below is MISSING else "is a leaf without keys"
                names = list(node._store)
                message = f"key {key!r} not found: {dotted(path[: depth + 1])} {what}; the keys are {names}"
                return missing_key(message, name, names)
            node = below
        names = list(node._store)
        message = f"key {key!r} not found in this {type_name(node)}: the keys are {names}"
        message += field_hint(node.__class__, last)
        return missing_key(message, last, names)

    def get(self, key: NestedKey, default: Any = MISSING, **forms: Any) -> Any:
        """Return the value of a key, or a default.

        Non-tensor data is returned as it is stored (:class:`NonTensorData`); ``data[key]`` returns its object.

        Args:
            key: the key, nested or not.
            default: returned for a missing key. Default: ``None``; see :func:`set_get_defaults_to_none`.
            forms: for values of different shapes in a lazy stack: ``as_list=True``, ``as_padded_tensor=True`` (with
                ``padding_side="left"`` or ``"right"``, ``padding_value``), or ``as_nested_tensor=True`` (with
                ``layout``).

        Returns:
            The value itself, not a copy.

        Raises:
            KeyError: the key is missing, there is no default, and ``set_get_defaults_to_none(False)`` was called.
            TypeError: ``forms`` are given for a value that is not in a lazy stack.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": {"c": 2}})
            >>> data.get(("b", "c")), data.get("x"), data.get("x", 0)
            (tensor(2), None, 0)
        """
        if forms:
            return self._get_as(unravel_key_to_tuple(key), None if default is MISSING else default, forms)
        value: Any = self._store.get(key, MISSING) if type(key) is str else self._find(unravel_key_to_tuple(key))
        if value is not MISSING:
            return value
        return default if default is not MISSING and default is not NO_DEFAULT else self._default(key, default)

    def _default(self, key: NestedKey, default: Any, may_be_none: bool = True) -> Any:
        """Return the default for a missing key, or raise. ``may_be_none``: without a default it can be ``None``."""
        if default is not MISSING and default is not NO_DEFAULT:
            return default
        if default is MISSING and may_be_none and _DEFAULTS_TO_NONE.everywhere:
            return None
        raise self._key_error(key)

    def _get_as(self, path: tuple[str, ...], default: Any, forms: dict[str, Any]) -> Any:
        """Implement ``get`` with ``forms``, which a lazy stack on the path may answer."""
        first, *rest = path
        node = self._store.get(first, MISSING)
        if rest and isinstance(node, Reading) and node._is_tree():
            return node._get_as(tuple(rest), default, forms)
        if node is MISSING or rest:
            return default
        raise TypeError(
            f"get({first!r}): {sorted(forms)} are for values of different shapes in a lazy stack; this value is a "
            f"{type_name(node)} of a {type_name(self)}"
        )

    def get_at(self, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
        """Return ``data.get(key)[index]``, or a default.

        Args:
            key: the key, nested or not.
            index: an index of the value.
            default: returned for a missing key; see :meth:`get`.

        Raises:
            KeyError: the key is missing; see :meth:`get`.
            IndexError: the index is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2])}, [2]).get_at("a", 0)
            tensor(1)
        """
        value = self._find(unravel_key_to_tuple(key))
        return self._default(key, default) if value is MISSING else value[index]

    def get_non_tensor(self, key: NestedKey, default: Any = MISSING) -> Any:
        """Return the object of the non-tensor data at a key; other values unchanged.

        Args:
            key: the key, nested or not.
            default: returned for a missing key. Without it, a missing key raises.

        Raises:
            KeyError: the key is missing, and there is no default.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"name": "a"}).get_non_tensor("name")
            'a'
        """
        value = self._find(unravel_key_to_tuple(key))
        if value is MISSING:
            return self._default(key, default, False)
        return value if isinstance(value, Tensor) else value._as_read()

    def get_item_shape(self, key: NestedKey) -> Size:
        """Return the shape of the value at a key.

        Args:
            key: the key, nested or not.

        Raises:
            KeyError: the key is missing.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3, 4)}, [3]).get_item_shape("a")
            torch.Size([3, 4])
        """
        shape: Size = with_members(self._found(key)).shape
        return shape

    def entry_class(self, key: NestedKey) -> type:
        """Return the class of the value at a key.

        Args:
            key: the key, nested or not.

        Raises:
            KeyError: the key is missing.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1}).entry_class("a").__name__
            'Tensor'
        """
        value: object = self._found(key)
        return type(value)

    def is_non_tensor(self, key: NestedKey) -> bool:
        """Return whether the value at a key is non-tensor data.

        Args:
            key: the key, nested or not.

        Raises:
            KeyError: the key is missing.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": 1, "name": "a"})
            >>> data.is_non_tensor("x"), data.is_non_tensor("name")
            (False, True)
        """
        return issubclass(with_members(self).entry_class(key), registry.NonTensorDataBase)

    # -- walking ------------------------------------------------------------------------------------------------------

    def _walk(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        sort: bool = False,
    ) -> list[tuple[Any, Any]]:
        """List the entries, a nested collection before its own entries. Non-tensor data is neither leaf nor nested."""
        entries: list[tuple[FlatKey, Value]] = []
        self._walk_into(entries, include_nested, leaves_only, is_leaf, sort, ())
        return entries

    def _keys_into(self, keys: list[FlatKey], leaves_only: bool, path: tuple[str, ...]) -> None:
        """Append the keys of all levels, in the order of :meth:`_walk`."""
        for key, value in self._now().items():
            if type(value) is Tensor:
                keys.append((*path, key) if path else key)
            elif isinstance(value, Reading) and value._is_tree():
                if not leaves_only:
                    keys.append((*path, key) if path else key)
                value._keys_into(keys, leaves_only, (*path, key))
            elif not leaves_only or _is_leaf(value, None):
                keys.append((*path, key) if path else key)

    def _items_into(self, entries: list[tuple[FlatKey, Value]], leaves_only: bool, path: tuple[str, ...]) -> None:
        """Append the entries of all levels, in the order of :meth:`_walk`, which takes longer."""
        for key, value in self._now().items():
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
        store = self._now()
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
        """Return a view of the keys.

        Args:
            include_nested: include keys of nested collections, as tuples. Default: ``False``.
            leaves_only: include only keys of tensors, or of leaves by ``is_leaf``. Default: ``False``.
            is_leaf: called with the class of a value; returns whether it is a leaf. Nothing below a leaf is visited.
                Default: collections are not leaves.
            sort: sort alphabetically. Default: ``False``.

        Returns:
            A view that follows the collection.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": {"c": 2}})
            >>> list(data.keys()), list(data.keys(include_nested=True, leaves_only=True))
            (['a', 'b'], ['a', ('b', 'c')])
        """
        if not (include_nested or leaves_only or sort):
            return KeyView(self)
        return WalkedKeyView(self, include_nested, leaves_only, is_leaf, sort)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        *,
        sort: bool = False,
    ) -> Iterator[Value]:
        """Iterate over the values.

        Args:
            include_nested: see :meth:`keys`.
            leaves_only: see :meth:`keys`.
            is_leaf: see :meth:`keys`.
            sort: see :meth:`keys`.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": 2}}).values(True, True))
            [tensor(1), tensor(2)]
        """
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
        """Iterate over pairs of key and value.

        Args:
            include_nested: see :meth:`keys`.
            leaves_only: see :meth:`keys`.
            is_leaf: see :meth:`keys`.
            sort: see :meth:`keys`.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": 2}}).items(True, True))
            [('a', tensor(1)), (('b', 'c'), tensor(2))]
        """
        if not (include_nested or leaves_only or sort):
            return iter(self._store.items())
        if include_nested and is_leaf is None and not sort:
            entries: list[tuple[FlatKey, Value]] = []
            self._items_into(entries, leaves_only, ())
            return iter(entries)
        return iter(self._walk(include_nested, leaves_only, is_leaf, sort))

    @property
    def sorted_keys(self) -> list[str]:
        """Keys in alphabetical order.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"b": 1, "a": 2}).sorted_keys
            ['a', 'b']
        """
        return sorted(self._store)

    def __contains__(self, key: object) -> bool:
        """Return whether a key, nested or not, exists."""
        if type(key) is str:
            return key in self._store
        return self._find(unravel_key_to_tuple(_unraveled(key))) is not MISSING

    def is_empty(self) -> bool:
        """Return whether there is no leaf at any depth: neither a tensor nor non-tensor data.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": {"b": {}}}).is_empty()
            True
        """
        return all(isinstance(value, Reading) and with_members(value).is_empty() for value in self._now().values())
