"""Rearrange keys over the same values: select, exclude, rename, replace, flatten and unflatten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import ref

from torch import Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT

from . import native, registry, shapes
from .collection import Collection, DeviceLike, as_device, is_tree
from .context import FLAT_KEYS, NESTED_KEYS
from .get import MISSING
from .hidden_members import with_members
from .keys import FlatKey, NestedKey, key_tree, unravel_key, unravel_key_to_tuple
from .remove import Removing

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store
    from .get import IsLeaf


def _dict_at(tree: dict[str, Any], path: Sequence[str], key: str) -> dict[str, Any]:
    """Return the dict at a path of a tree of dicts. Create missing dicts; replace collections on the path by dicts."""
    for name in path:
        found = tree.get(name)
        below: dict[str, Any] = found  # type: ignore[assignment]
        if found is None:
            below = tree[name] = {}
        elif isinstance(found, KeySelecting) and found._is_tree():
            below = tree[name] = dict(found._store)
        elif type(found) is not dict:
            raise KeyError(f"unflatten_keys: {key!r} would lie below the leaf {name!r}")
        tree = below
    return tree


class KeySelecting(Removing):
    """Operations that select, rename or rearrange keys."""

    __slots__ = ()

    def rename_keys(self, mapping: Mapping[NestedKey, NestedKey], *, strict: bool = True) -> Self:
        """Return a collection with the same values under other keys. Several keys can swap names at once.

        Args:
            mapping: ``{old: new}``, keys nested or not.
            strict: raise if an old key does not exist; otherwise ignore it. Default: ``True``.

        Returns:
            A new collection. Tensors are shared.

        Raises:
            KeyError: an old key does not exist and ``strict`` is set.
            ValueError: two keys are renamed to the same key or to one below the other, or a new key exists already and
                is not renamed itself.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": 2}).rename_keys({"a": "b", "b": "a"})
            >>> data["a"], data["b"]
            (tensor(2), tensor(1))
        """
        result = with_members(self).copy()
        olds = [unravel_key_to_tuple(old) for old in mapping]
        if len(set(olds)) < len(olds):
            twice = sorted({".".join(old) for old in olds if olds.count(old) > 1})
            raise ValueError(f"rename_keys: the old keys {twice} are given twice, in different nestings of tuples")
        moves = {unravel_key_to_tuple(old): unravel_key_to_tuple(new) for old, new in mapping.items()}
        values = {old: result._find(old) for old in moves}
        for old in [old for old, value in values.items() if value is MISSING]:
            if strict:
                raise self._key_error(old)
            del values[old], moves[old]
        for what, paths in (("old", sorted(moves)), ("new", sorted(moves.values()))):
            for first, second in pairwise(paths):
                if second[: len(first)] == first:
                    raise ValueError(
                        f"rename_keys: the {what} keys {first} and {second} are equal, or one lies below the other"
                    )
        for old in moves:
            with_members(result).pop(old)
            result._drop_emptied(old[:-1])
        for new in moves.values():
            if result._find(new) is not MISSING:
                raise ValueError(f"rename_keys: {new} exists already and is not renamed itself")
        for old, new in moves.items():
            result._set_nested(new, values[old])
        return result

    # -- selecting ----------------------------------------------------------------------------------------------------

    @native.tries("shallow")
    def _shallow(self) -> Self:
        store: Store = {
            key: value if type(value) is Tensor or not isinstance(value, Collection) else value._shallow()
            for key, value in self._now().items()
        }
        return self._same(store)

    def copy(self) -> Self:
        """Return new collections, at every level, that share the tensors.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1})
            >>> copied = data.copy()
            >>> copied["b"] = 2
            >>> list(data.keys()), copied["a"] is data["a"]
            (['a'], True)
        """
        return self._shallow()

    __copy__ = copy

    @native.tries("empty")
    def empty(
        self,
        recurse: bool = False,
        *,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = MISSING,
        names: Sequence[str | None] | None = MISSING,
    ) -> Self:
        """Return a collection like this one without its leaves.

        Args:
            recurse: keep nested collections, without their leaves. Default: ``False``.
            batch_size: the batch size. Default: that of this collection.
            device: the device, ``None`` for any. Default: that of this collection.
            names: a name or ``None`` for each batch dimension. Default: those of this collection.

        Returns:
            A new collection of this class.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": {"c": 2}}, device="cpu").empty(recurse=True)
            >>> list(data.keys(True)), data.device
            (['b'], device(type='cpu'))
        """
        if batch_size is None and device is MISSING and names is MISSING and not recurse:
            return self._same({})
        size = self._batch_size if batch_size is None else shapes.as_size(batch_size)
        if names is MISSING:
            new_names = shapes.names_fitted(self._names, len(size))
        else:
            new_names = shapes.as_names(names, len(size))
        nested: Store = {}
        if recurse:
            ndim = len(self._batch_size)
            nested = {
                key: with_members(value).empty(recurse=True, batch_size=size + value._batch_size[ndim:], device=device)
                for key, value in self._now().items()
                if isinstance(value, KeySelecting) and value._is_tree()
            }
        result = self._like(nested, size, new_names)
        if device is not MISSING:
            result._device = as_device(device)
        if names is not MISSING:
            result._set_names(new_names)
        return result

    def select(self, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Self:
        """Return a collection with some of the keys.

        Args:
            keys: the keys to keep, nested or not.
            inplace: remove all other keys from this collection and return it. Default: ``False``.
            strict: raise if a key does not exist; otherwise ignore it. Default: ``True``.
            as_tensordict: return a TensorDict also for a record. Default: ``False``.

        Returns:
            A new collection that shares the tensors; this collection if ``inplace`` is set.

        Raises:
            KeyError: a key does not exist and ``strict`` is set.
            RuntimeError: ``inplace`` is set and the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": 2, "d": 3}}).select(("b", "c")).keys(True, True))
            [('b', 'c')]
        """
        own = self._store
        store: Store = {}
        if keys and type(own) is DICT:  # the most frequent case: keys of this level
            for key in keys:
                if type(key) is not str or key not in own:
                    break
                store[key] = own[key]
        if not keys or len(store) != len(keys):
            store = self._selected(key_tree(keys), strict)
        if not inplace:
            return self._as_tensordict(store) if as_tensordict else self._same(store)  # type: ignore[return-value]
        self._check_unlocked()
        self._replace_store(store)
        return self

    def _as_tensordict(self, store: Store) -> TensorCollection:
        return registry.TensorDict._of(self, store)

    def _selected(self, tree: dict[str, Any], strict: bool) -> Store:
        store: Store = {}
        for key, below in tree.items():
            value = self._store.get(key)
            if value is not None and below is None:
                store[key] = value
            elif isinstance(value, KeySelecting) and value._is_tree():
                store[key] = value._same(value._selected(below, strict))
            elif strict:
                raise self._key_error(key if below is None else (key, next(iter(below))))
        return store

    def exclude(self, *keys: NestedKey, inplace: bool = False) -> Self:
        """Return a collection without some of the keys.

        Args:
            keys: the keys to leave out, nested or not. Keys that do not exist are ignored.
            inplace: remove these keys from this collection and return it. Default: ``False``.

        Returns:
            A new collection that shares the tensors; this collection if ``inplace`` is set.

        Raises:
            RuntimeError: ``inplace`` is set, one of the keys exists and the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": 2, "d": 3}}).exclude("a", ("b", "c")).keys(True, True))
            [('b', 'd')]
        """
        store = self._excluded(key_tree(keys))
        if not inplace:
            return self._same(store)
        if any(key in self for key in keys):
            self._replace_store(store)
        return self

    def _excluded(self, tree: Any) -> Store:
        store: Store = {}
        for below in tree.values():
            if below is not None:
                break
        else:  # the most frequent case: keys of this level
            store = {**self._store}
            for key in tree:
                store.pop(key, None)
            return store
        for key, value in self._now().items():
            below = tree.get(key, MISSING)
            if isinstance(below, dict) and isinstance(value, KeySelecting) and value._is_tree():
                store[key] = value._same(value._excluded(below))
            elif below is not None:
                store[key] = value
        return store

    def _replace_store(self, store: Store) -> None:
        self._check_unlocked()
        own = self._store
        for key in [key for key in [*own] if key not in store]:
            del own[key]
        for key, value in store.items():
            current = own[key]
            if value is current:
                continue
            if isinstance(current, KeySelecting) and isinstance(value, KeySelecting):
                current._replace_store(value._store)
            else:
                own[key] = value

    def split_keys(
        self,
        *key_sets: Sequence[NestedKey],
        inplace: bool = False,
        default: Any = MISSING,
        strict: bool = True,
        reproduce_struct: bool = False,
    ) -> tuple[Self, ...]:
        """Split a collection by key: one collection for each set of keys, and one with the remaining keys.

        Args:
            key_sets: sets of keys, nested or not. A key is missing for the sets after the first that has it.
            inplace: remove the keys from this collection, which is the last one of the result. Default: ``False``.
            default: the value of a missing key. Without it a missing key is an error.
            strict: with ``False``, missing keys are left out. Default: ``True``.
            reproduce_struct: keep all nested collections in all results, also empty ones. Default: ``False``.

        Returns:
            A tuple with one collection more than there are sets. Tensors are shared.

        Raises:
            KeyError: a key is missing, ``strict`` is set and there is no ``default``.
            RuntimeError: ``inplace`` is set and the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> first, rest = TensorDict({"a": 1, "b": 2, "c": 3}).split_keys(["a", "c"])
            >>> list(first.keys()), list(rest.keys())
            (['a', 'c'], ['b'])
        """
        if inplace:
            self._check_unlocked()
        left = with_members(self).copy()
        taken: list[tuple[str, ...]] = []
        parts: list[Self] = []
        for key_set in key_sets:
            part = left._untyped(with_members(left).empty(recurse=True)._store if reproduce_struct else {})
            paths = [unravel_key_to_tuple(key) for key in key_set]
            absent = [path for path in paths if left._find(path) is MISSING]
            if absent and strict and default is MISSING:
                raise left._key_error(unravel_key(absent[0]))
            for path in paths:
                if path not in absent:
                    with_members(part).set(path, left._find(path))
            parts.append(left._same(left._classed(part)))
            if default is not MISSING:
                for path in absent:
                    with_members(parts[-1]).set(path, default)
            left._take_out(paths, reproduce_struct)
            taken += paths
        if inplace:
            self._take_out(taken, reproduce_struct)
        return (*parts, self if inplace else left)

    def _classed(self, part: Collection) -> Store:
        """Return the values of a partial copy. Nested collections get the classes that they have in this collection."""
        store: Store = {}
        for key, value in part._now().items():
            own = self._store.get(key)
            if (
                value is not own
                and isinstance(own, KeySelecting)
                and own._is_tree()
                and isinstance(value, KeySelecting)
            ):
                store[key] = own._like(own._classed(value), value._batch_size, value._names)
            else:
                store[key] = value
        return store

    def _take_out(self, paths: list[tuple[str, ...]], keep_emptied: bool) -> None:
        """Remove the values at the paths that exist, then collections that have become empty."""
        for path in sorted(paths, key=len):  # whole collections first: the results hold them
            if self._find(path) is not MISSING:
                with_members(self).pop(path)
        if not keep_emptied:
            for path in paths:
                self._drop_emptied(path[:-1])

    def separates(
        self, *keys: NestedKey, default: Any = MISSING, strict: bool = True, filter_empty: bool = True
    ) -> Self:
        """Remove keys from this collection and return them as another one. See :meth:`split_keys`.

        Args:
            keys: the keys, nested or not.
            default: the value of a missing key. Without it a missing key is an error.
            strict: with ``False`` and without ``default``, a missing key gets ``None``. Default: ``True``.
            filter_empty: leave out nested collections that are empty afterwards. Default: ``True``.

        Returns:
            A collection with the keys. Tensors are shared.

        Raises:
            KeyError: a key is missing, ``strict`` is set and there is no ``default``.
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": {"c": 2}})
            >>> part = data.separates(("b", "c"))
            >>> list(part.keys(True, True)), list(data.keys())
            ([('b', 'c')], ['a'])
        """
        if default is MISSING and not strict:
            default = None
        return with_members(self).split_keys(keys, inplace=True, default=default, reproduce_struct=not filter_empty)[0]

    # -- filtering ----------------------------------------------------------------------------------------------------

    def filter_empty_(self) -> Self:
        """Remove nested collections without tensors and objects, at every level.

        Returns:
            This collection.

        Raises:
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": {}}}).filter_empty_().keys())
            ['a']
        """
        self._check_unlocked()
        for key, value in list(self._now().items()):
            if not isinstance(value, KeySelecting) or not value._is_tree():
                continue
            if with_members(value).is_empty():
                self.pop(key)
            else:
                with_members(value).filter_empty_()
        return self

    def filter_non_tensor_data(self) -> Self:
        """Return a collection without text and other objects.

        Returns:
            A new collection with the tensors, which are shared, and the nested collections.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "text": "hello"}).filter_non_tensor_data().keys())
            ['a']
        """
        store: Store = {}
        for key, value in self._now().items():
            if not isinstance(value, Collection) or value._wrapped_tensor() is not None:
                store[key] = value
            elif is_tree(value):
                store[key] = with_members(value).filter_non_tensor_data()
        return self._same(store)

    def non_tensor_items(self, include_nested: bool = False) -> tuple[tuple[FlatKey, Any], ...]:
        """Return the items whose values are text or other objects, as they are stored. See :meth:`get`.

        Args:
            include_nested: include items of nested collections, under nested keys. Default: ``False``.

        Example:
            >>> from tensorclass import TensorDict
            >>> [(key, value.data) for key, value in TensorDict({"a": 1, "text": "hello"}).non_tensor_items()]
            [('text', 'hello')]
        """
        return tuple(
            (key, value)
            for key, value in self._walk(include_nested)
            if isinstance(value, Collection) and not value._is_tree() and value._wrapped_tensor() is None
        )

    def _drop_emptied(self, path: tuple[str, ...]) -> None:
        """Remove the collection at ``path``, and then its parents, as long as they have no keys."""
        while path and isinstance(node := self._find(path), Removing) and not node._store:
            with_members(self).pop(path)
            path = path[:-1]

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """Return a collection with other values under some keys: ``data.replace({"a": 1})`` or ``data.replace(a=1)``.

        Args:
            args: a mapping or a collection with new values, as :meth:`update` takes it.
            kwargs: more new values by key.

        Returns:
            A new collection. All other values are shared.

        Raises:
            TypeError: there is more than one positional argument.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": 2})
            >>> data.replace(a=5)["a"], data["a"]
            (tensor(5), tensor(1))
        """
        if len(args) > 1:
            raise TypeError(
                f"replace: expected one mapping or collection and keywords, got {len(args)} positional arguments"
            )
        return with_members(self).copy().update(args[0] if args else None, **kwargs)

    # -- flat and nested ----------------------------------------------------------------------------------------------

    def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: IsLeaf | None = None) -> Self:
        """Return the leaves on one level, under keys joined by a separator.

        Args:
            separator: the string between the names of a nested key. Default: ``"."``.
            inplace: change this collection and return it. Default: ``False``.
            is_leaf: called with the class of a nested collection. If it returns ``True``, the collection is kept whole.

        Returns:
            A new collection that shares the tensors; this collection if ``inplace`` is set.

        Raises:
            KeyError: two keys become the same.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": 2}}).flatten_keys().keys())
            ['a', 'b.c']
        """
        store: Store = {}
        self._flatten_into(store, "", separator, is_leaf)
        if not inplace:
            result = self._untyped(store)
            result._context = ((), FLAT_KEYS, ref(self), separator)
            return result  # type: ignore[return-value]
        self._check_unlocked()
        self._store.clear()
        self._store.update(store)
        return self

    def _flatten_into(self, store: Store, prefix: str, separator: str, is_leaf: IsLeaf | None) -> None:
        for key, value in self._now().items():
            name = prefix + key
            if type(value) is not Tensor and isinstance(value, Collection):
                if not is_tree(value):
                    value = value._shallow()
                elif is_leaf is None or not is_leaf(type(value)):
                    value._flatten_into(store, name + separator, separator, is_leaf)
                    continue
            if name in store:
                raise KeyError(f"flatten_keys: two keys become {name!r}; choose another separator than {separator!r}")
            store[name] = value

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Self:
        """Turn keys that contain a separator into nested keys: the inverse of :meth:`flatten_keys`.

        Args:
            separator: the string between the names of a nested key. Default: ``"."``.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A new collection that shares the tensors; this collection if ``inplace`` is set.

        Raises:
            KeyError: a key has two values, or lies below a leaf.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a.b": 1, "a.c": 2}).unflatten_keys()["a", "c"]
            tensor(2)
        """
        if inplace:
            self._check_unlocked()
        nested = self._nested(self._unflattened(separator))
        if not inplace:
            result = self._untyped(nested)
            result._context = ((), NESTED_KEYS, ref(self), separator)
            return result  # type: ignore[return-value]
        self._store.clear()
        self._store.update(nested)
        return self

    def _unflattened(self, separator: str) -> dict[str, Any]:
        """Return the values in dicts of nested keys."""
        store: dict[str, Any] = {}
        nodes: dict[str, dict[str, Any]] = {}  # prefix -> where its keys go
        for key, value in self._now().items():
            prefix, found, last = key.rpartition(separator)
            node = nodes.get(prefix) if found else store
            if node is None:
                node = nodes[prefix] = _dict_at(store, prefix.split(separator), key)
            current = node.get(last)
            if current is None:
                node[last] = value if type(value) is Tensor or not isinstance(value, Collection) else value._shallow()
            elif (
                type(current) is dict
                and isinstance(value, KeySelecting)
                and value._is_tree()
                and current.keys().isdisjoint(value._store)
            ):
                node[last].update(value._store)
            else:
                raise KeyError(f"unflatten_keys: {key!r} has two values, or other keys lie below it")
        return store

    def _nested(self, tree: Any) -> Store:
        """Convert a tree of dicts in place: each dict below becomes a collection with this one's batch size."""
        for key, value in tree.items():
            if type(value) is dict:
                tree[key] = self._untyped(self._nested(value))
        return tree  # type: ignore[no-any-return]

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: Any = 0) -> Self:
        """Return a collection without batch dimensions that has the same value under each key.

        Args:
            keys: the keys, nested or not.
            value: what :meth:`set` takes. Default: 0.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict.fromkeys(["a", ("b", "c")], 1)["b", "c"]
            tensor(1)
        """
        return cls({unravel_key(key): value for key in keys})  # type: ignore[call-arg]
