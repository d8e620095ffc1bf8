"""Locking: a locked collection keeps its keys and the identity of its values; their contents can still change."""

from __future__ import annotations

import weakref

from typing_extensions import Self

from .collection import Collection
from .context import Contexts


class Locking(Contexts):
    """``lock_``, ``unlock_`` and ``is_locked``."""

    __slots__ = ()

    @property
    def is_locked(self) -> bool:
        """Whether keys are protected from being set, replaced or removed. Settable."""
        return self._lock is not None

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def lock_(self) -> Self:
        """Locks the keys, here and in nested collections. As a context manager it unlocks at the end.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": 0}).lock_()
        >>> with data.unlock_():
        ...     data["b"] = 1
        >>> data.is_locked, sorted(data.keys())
        (True, ['a', 'b'])
        """
        if self._lock is None:
            self._lock_under(())
            self._undoes("_unlock")
        else:
            self._undoes(None)
        return self

    def unlock_(self) -> Self:
        """Unlocks the keys, here and in nested collections. As a context manager it locks again at the end.

        Raises:
            RuntimeError: this collection is part of one that is locked; unlock that one instead.
        """
        if self._lock is None:
            self._undoes(None)
        else:
            self._unlock()
            self._undoes("lock_")
        return self

    def _lock_under(self, parents: tuple[weakref.ref[Collection], ...]) -> None:
        self._lock = (self._lock or ()) + parents
        me: tuple[weakref.ref[Collection], ...] = (weakref.ref(self),)
        for node in self._nodes():
            node._lock_under(me)

    def _unlock(self) -> None:
        for ref in self._lock or ():
            holder = ref()
            if holder is not None and holder._lock is not None:
                raise RuntimeError(
                    f"this {type(self).__name__} is part of a locked {type(holder).__name__}: unlock that one instead"
                )
        self._unlock_below()

    def _unlock_below(self) -> None:
        self._lock = None
        for node in self._nodes():
            if node._lock is not None:
                others: list[weakref.ref[Collection]] = []
                for ref in node._lock:  # a loop, because torch.compile cannot trace a comprehension that assigns
                    holder = ref()
                    if holder is not None and holder._lock is not None:
                        others.append(ref)
                node._lock = tuple(others)
                if not others:
                    node._unlock_below()
