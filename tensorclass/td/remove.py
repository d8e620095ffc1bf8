"""Remove and rename keys in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from .get import MISSING, NO_DEFAULT
from .hidden_members import with_members
from .keys import NestedKey, unravel_key_to_tuple
from .set import leaf_above
from .update import Updating

if TYPE_CHECKING:
    from .collection import Value


class Removing(Updating):
    """``del_``, ``pop``, ``clear`` and ``rename_key_``."""

    __slots__ = ()

    def del_(self, key: NestedKey) -> Self:
        """Remove a key.

        Args:
            key: the key, nested or not.

        Returns:
            This collection.

        Raises:
            KeyError: there is no such key.
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": 2}).del_("a").keys())
            ['b']
        """
        with_members(self).pop(key)
        return self

    def __delitem__(self, key: NestedKey) -> None:
        with_members(self).pop(key)

    def pop(self, key: NestedKey, default: Any = MISSING) -> Any:
        """Remove a key and return its value.

        Args:
            key: the key, nested or not.
            default: returned if there is no such key. Without it a missing key is an error.

        Returns:
            The value as it is stored. Non-tensor data is not unwrapped.

        Raises:
            KeyError: there is no such key and no ``default``.
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1, "b": {"c": 2}})
            >>> data.pop(("b", "c")), data.pop("d", None)
            (tensor(2), None)
        """
        if type(key) is str:
            if key in self._store:
                self._check_unlocked()
                value: Any = self._store.pop(key, MISSING)
                if value is not MISSING:  # another thread may have removed it since
                    return value
            parent, last = self, key
        else:
            *path, last = unravel_key_to_tuple(key)
            parent = self._find(tuple(path))
        if isinstance(parent, Removing) and last in parent._store:
            self._check_unlocked()
            parent._check_unlocked()
            value = parent._store.pop(last, MISSING)
            if value is not MISSING:
                return value
        if default is MISSING or default is NO_DEFAULT:
            raise self._key_error(key)
        return default

    def popitem(self) -> tuple[str, Value]:
        """Remove the key that was set last.

        Returns:
            The key and its value as it is stored.

        Raises:
            KeyError: the collection is empty.
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1, "b": 2}).popitem()
            ('b', tensor(2))
        """
        self._check_unlocked()
        if not self._store:
            raise KeyError("popitem: the collection has no keys")
        key = next(reversed(list(self._store)))
        return key, self._store.pop(key)

    def clear(self) -> Self:
        """Remove all keys.

        Returns:
            This collection. Batch size, device and dimension names stay.

        Raises:
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1}).clear()
            >>> len(data.keys())
            0
        """
        self._check_unlocked()
        self._store.clear()
        return self

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Rename a key in place.

        Args:
            old_key: the key, nested or not.
            new_key: the new key, nested or not. An existing value at this key is replaced.
            safe: raise instead of replacing an existing value. Default: ``False``.

        Returns:
            This collection. The value is shared, not copied.

        Raises:
            KeyError: there is no ``old_key``; or ``safe`` is set and ``new_key`` exists.
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1}).rename_key_("a", ("b", "c")).keys(True, True))
            [('b', 'c')]
        """
        self._check_unlocked()
        if type(old_key) is str and type(new_key) is str:
            if old_key not in self._store:
                raise self._key_error(old_key)
            if new_key == old_key:
                return self
            if safe and new_key in self._store:
                raise KeyError(f"rename_key_: {new_key!r} exists already; safe=False replaces its value")
            self._check_new_key(new_key)
            self._store[new_key] = self._store.pop(old_key)
            return self
        old, new = unravel_key_to_tuple(old_key), unravel_key_to_tuple(new_key)
        value = self._find(old)
        if value is MISSING:
            raise self._key_error(old_key)
        if old == new:
            return self
        if safe and new in self:
            raise KeyError(f"rename_key_: {new_key!r} exists already; safe=False replaces its value")
        parent = self._parent_of(old[:-1])
        parent._check_unlocked()
        for depth in range(1, len(new)):
            above = MISSING if new[:depth] == old else self._find(new[:depth])
            if above is MISSING:
                break
            if not isinstance(above, Removing) or not above._is_tree():
                raise leaf_above(new[:depth])
        before = {**parent._store}
        del parent._store[old[-1]]  # before setting the new key, because one may lie below the other
        try:
            self._set_nested(new, value)
        except BaseException:
            parent._store.clear()
            parent._store.update(before)
            raise
        return self
