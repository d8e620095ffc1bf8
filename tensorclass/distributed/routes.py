"""What is kept of a record that goes the same way again and again, so that a message of it costs little but its bytes.

A message between two processes takes some 60 us, and to take a record of 50 tensors apart 20 us, or twice that where
the tensors are not in the cache of the processor. A loop sends the same record, whose tensors are the same objects with
new values: a :class:`Route` knows them again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import attrgetter, is_
from typing import Any

from torch import Tensor

from tensorclass.td.collection import Collection

from .layout import Layout, Taken
from .staging import Staging

_dtype: Callable[[Any], Any] = attrgetter("dtype")
_is_contiguous: Callable[[Any], bool] = Tensor.is_contiguous
_pointer: Callable[[Any], int] = Tensor.data_ptr
_shape: Callable[[Any], Any] = attrgetter("shape")
_LARGEST = 2**22  #: bytes of a message that a route keeps the memory of


class Route:
    """A record on its way to one process, or from one.

    It holds neither the record nor its tensors, only the memory of a consolidated one. The same tensor can have another
    memory by now (``tensor.data = ...``) or another name, so that what could do harm is looked at each time: keys,
    dtypes, shapes, that there are no gaps, and where they are.

    Attributes:
        layout: that of the record.
        peer: the other side.
        mark: what the message begins with.
    """

    __slots__ = (
        "_data", "_dtypes", "_keys", "_memory", "_nodes", "_picks", "_pointers", "_refs", "_shapes", "_staging",
        "layout", "mark", "peer",
    )  # fmt: skip

    def __init__(
        self,
        data: Any,
        keys: list[str | None],
        values: list[Any],
        nodes: list[Any],
        picks: list[int],
        taken: Taken,
        staging: Staging,
        peer: int,
    ) -> None:
        self._data = weakref.ref(data)
        self._keys: list[str | None] = keys
        self._nodes: list[weakref.ref[Any]] = [weakref.ref(node) for node in nodes]
        self._refs = [weakref.ref(value) for value in values]
        self._picks = None if picks == list(range(len(values))) else picks
        own = taken.tensors if taken.parts is None else taken.parts
        self._shapes = [tensor.shape for tensor in own]
        self._dtypes = [tensor.dtype for tensor in own]
        self._memory: list[Any] | None = None if taken.parts is None else taken.tensors
        self._pointers = [tensor.data_ptr() for tensor in own]
        self._staging: Staging | None = staging
        self.layout: Layout = taken.layout
        self.peer: int = peer
        self.mark: bytes = taken.layout.digest.to_bytes(16, "little")

    def tensors_of(self, data: Any) -> list[Any] | None:
        """What is copied to the message, or from it: the tensors of the record, or the memory of a consolidated one.

        ``None`` where it is not the same one with the same tensors.
        """
        known: bool = self._data() is data
        if not known:
            return None
        keys: list[str | None] = list(data._store)
        values: list[Any] = list(data._store.values())
        for ref in self._nodes:
            store: Any = getattr(ref(), "_store", None)
            if store is None:
                return None
            keys.append(None)
            keys += store
            values += store.values()
        if keys != self._keys or not all(map(is_, values, [ref() for ref in self._refs])):
            return None
        tensors = values if self._picks is None else [values[at] for at in self._picks]
        if list(map(_shape, tensors)) != self._shapes or list(map(_dtype, tensors)) != self._dtypes:
            return None
        if not all(map(_is_contiguous, tensors)):
            return None
        if self._memory is None:
            return tensors
        return self._memory if list(map(_pointer, tensors)) == self._pointers else None

    def take(self) -> Staging | None:
        """The memory for a message; ``None`` where another thread has it."""
        staging, self._staging = self._staging, None
        return staging

    def give(self, staging: Staging) -> None:
        """Takes the memory back."""
        self._staging = staging


def route_of(data: Any, taken: Taken, staging: Staging, peer: int) -> Route | None:
    """The route of a record; ``None`` where its tensors cannot be known again by a look at them."""
    if not taken.plain or taken.leaves is not None or taken.layout.objects or staging.size > _LARGEST:
        return None
    nodes: list[Any] = [data]
    keys: list[str | None] = []
    values: list[Any] = []
    for node in nodes:  # it grows
        if node._store.__class__ is not dict:
            return None
        keys += [None, *node._store]
        values += node._store.values()
        nodes += [value for value in node._store.values() if isinstance(value, Collection)]
    places = {id(value): at for at, value in enumerate(values)}
    own = taken.tensors if taken.parts is None else taken.parts
    if not all(id(tensor) in places for tensor in own):
        return None  # one that is the same for all rows, or a copy
    picks = [places[id(tensor)] for tensor in own]
    return Route(data, keys[1:], values, nodes[1:], picks, taken, staging, peer)
