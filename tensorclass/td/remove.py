"""Remove and rename keys in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from .keys import NestedKey, unravel_key_to_tuple
from .reading import MISSING
from .set import leaf_above
from .update import Updating

if TYPE_CHECKING:
    from .collection import Value


class Removing(Updating):
    """``del_``, ``pop``, ``clear`` and ``rename_key_``."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _check_new_key(self, key: str) -> None: ...

    def del_(self, key: NestedKey) -> Self:
        """Removes a key."""
        self.pop(key)
        return self

    def __delitem__(self, key: NestedKey) -> None:
        self.pop(key)

    def pop(self, key: NestedKey, default: Any = MISSING) -> Any:
        """Removes a key and gives its value; the default (if one is given) when there is no such key."""
        *path, last = unravel_key_to_tuple(key)
        parent = self._find(tuple(path))
        if isinstance(parent, Removing) and last in parent._store:
            self._check_unlocked()
            parent._check_unlocked()
            return parent._store.pop(last)
        if default is MISSING:
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
        if value is MISSING:
            raise self._key_error(old_key)
        if old == new:
            return self
        if safe and new in self:
            raise KeyError(f"rename_key_: {new_key!r} is there already; safe=False replaces it")
        parent = self._parent_of(old[:-1])
        parent._check_unlocked()
        for depth in range(1, len(new)):
            above = MISSING if new[:depth] == old else self._find(new[:depth])
            if above is MISSING:
                break
            if not isinstance(above, Removing) or not above._is_tree():
                raise leaf_above(new[:depth])
        before = {**parent._store}
        del parent._store[old[-1]]  # first, because the new key may lie below the old one, or the other way round
        try:
            self._set_nested(new, value)
        except BaseException:
            parent._store.clear()
            parent._store.update(before)
            raise
        return self
