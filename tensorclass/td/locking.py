"""Locking: a locked collection keeps its keys and the identity of its values, whose contents can still change."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from typing_extensions import Self

from tensorclass.support.printable import type_name

from .collection import Collection
from .context import Contexts
from .hidden_members import with_members
from .tracing import knows_addresses


class Locking(Contexts):
    """``lock_``, ``unlock_`` and ``is_locked``."""

    __slots__ = ()

    @property
    def is_locked(self) -> bool:
        """``True`` if keys cannot be set, replaced or removed. Setting it locks or unlocks.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict(a=1)
            >>> data.is_locked = True
            >>> data.is_locked
            True
        """
        return self._lock is not None

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            with_members(self).lock_()
        else:
            with_members(self).unlock_()

    def lock_(self) -> Self:
        """Lock the keys, here and in nested collections. As a context manager it unlocks at the end.

        Returns:
            This collection.

        Example:
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
        """Unlock the keys, here and in nested collections. As a context manager it locks again at the end.

        Returns:
            This collection.

        Raises:
            RuntimeError: this collection is part of a locked one; unlock that one instead.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 0}).lock_().unlock_()
            >>> data.is_locked
            False
        """
        if self._lock is None:
            self._undoes(None)
        else:
            self._unlock()
            self._undoes("lock_")
        return self

    def _lock_under(self, parents: tuple[weakref.ref[Collection], ...]) -> None:
        """Lock this collection as a part of ``parents``, and all collections below it: all of them or none."""
        if not self._nodes():
            self._lock = (self._lock or ()) + parents
            return
        if not knows_addresses():
            self._lock_each(parents)
            return
        nodes: list[Any] = [self]
        locks = [(self._lock or ()) + parents]
        positions = {id(self): 0}  # in nodes and locks
        for node in nodes:  # grows during the loop
            parent: weakref.ref[Collection] = weakref.ref(node)
            for below in node._nodes():
                position = positions.get(id(below))
                if position is None:
                    position = positions[id(below)] = len(nodes)
                    nodes.append(below)
                    locks.append(below._lock or ())
                if not _contains_ref(locks[position], parent):
                    locks[position] += (parent,)
        set_locks(nodes, locks)

    def _lock_each(self, parents: tuple[weakref.ref[Collection], ...]) -> None:
        self._lock = (self._lock or ()) + parents
        parent: tuple[weakref.ref[Collection], ...] = (weakref.ref(self),)
        for node in self._nodes():
            node._lock_each(parent)

    def _unlock(self) -> None:
        for ref in self._lock or ():
            holder = ref()
            if holder is not None and holder._lock is not None:
                raise RuntimeError(
                    f"this {type_name(self)} is part of a locked {type_name(holder)}: unlock that one instead"
                )
        self._unlock_below()

    def _unlock_below(self) -> None:
        """Unlock this collection, and those below it that no other locked one contains: all of them or none."""
        if not self._nodes():
            self._lock = None
            return
        if not knows_addresses():
            self._unlock_each()
            return
        opened: list[Any] = [self]
        done = {id(self)}
        kept: dict[int, tuple[Any, tuple[weakref.ref[Collection], ...]]] = {}
        for node in opened:  # grows during the loop
            for below in node._nodes():
                lock = below._lock  # once: another thread may unlock it, too
                if lock is None or id(below) in done:
                    continue
                others = tuple([ref for ref in lock if _keeps_locked(ref(), done)])
                if others:
                    kept[id(below)] = below, others
                else:
                    kept.pop(id(below), None)
                    done.add(id(below))
                    opened.append(below)
        nodes = [*opened, *[node for node, _ in kept.values()]]
        set_locks(nodes, [*[None] * len(opened), *[others for _, others in kept.values()]])

    def _unlock_each(self) -> None:
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
                    node._unlock_each()


def _contains_ref(refs: Sequence[weakref.ref[Collection]], wanted: weakref.ref[Collection]) -> bool:
    """Return whether a reference is in a sequence. ``in`` would compare the collections."""
    for ref in refs:  # noqa: SIM110  (a generator would cost more than the loop)
        if ref is wanted:
            return True
    return False


def _keeps_locked(holder: Collection | None, opened: set[int]) -> bool:
    """Return whether a collection keeps those below it locked while others are unlocked."""
    return holder is not None and holder._lock is not None and id(holder) not in opened


def set_locks(nodes: Sequence[Collection], locks: Sequence[tuple[weakref.ref[Collection], ...] | None]) -> None:
    """Give each collection its lock; none of them if Ctrl-C interrupts."""
    before = [node._lock for node in nodes]
    try:
        for node, lock in zip(nodes, locks, strict=True):
            node._lock = lock
    except BaseException:
        for node, lock in zip(nodes, before, strict=True):
            node._lock = lock
        raise
