"""Pickles of collections. A consolidated buffer, or memory that tensors share, is in a pickle once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from . import registry
from .buffer_operations import buffer_of, mark_positions
from .collection import Collection
from .hidden_members import with_members
from .memory.buffer_layout import BufferLayout
from .memory.consolidated_buffer import TensorSpan, flat_of, view, with_buffers
from .pickle_buffers import FIRST_PROTOCOL, with_pickled_tensors
from .safe_unpickling import allow_function, found, written
from .shapes import Names

if TYPE_CHECKING:
    from .base import TensorCollection


class Pickling(Collection):
    """``__reduce__``: pickling and copying."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        # a plain dict and a plain tuple: the file names no classes but this one and torch's
        buffer = buffer_of(self, "__reduce__", "__reduce_ex__")
        if buffer is not None:
            return rebuild_in_buffer, (buffer.memory, *buffer.layout.described(), _structure_of(self))
        data = with_buffer_views(self)
        cls, size, locked = written(type(self)), tuple(self._batch_size), self._lock is not None
        return rebuild, (cls, dict(data._store), size, self._device, self._names, locked, *self._pickled())

    def __reduce_ex__(self, protocol: Any) -> Any:
        made: Any = self.__reduce__()
        if protocol < FIRST_PROTOCOL:
            return made
        function, arguments, *more = made
        return function, with_pickled_tensors(arguments), *more

    def _pickled(self) -> tuple[Any, ...]:
        """Return additional arguments of :meth:`_unpickled`."""
        return ()

    def _unpickled(self) -> None:
        """Complete a collection after unpickling. Subclasses override this."""


def _structure_of(data: Any) -> tuple[Any, ...]:
    """Return a tree without its tensors: keys, structures below by key, and the other arguments of :func:`rebuild`."""
    store = data._now()
    below = {key: _structure_of(value) for key, value in store.items() if isinstance(value, Collection)}
    cls, size, locked = written(data.__class__), tuple(data._batch_size), data._lock is not None
    return tuple(store), below, cls, size, data._device, data._names, locked, *data._pickled()


class _BufferView(Tensor):
    """Stands for a view of a storage in a pickle that contains the storage once."""

    __slots__ = ("args",)
    args: tuple[Tensor, torch.dtype, tuple[int, ...], int]  #: arguments of :func:`view`

    @staticmethod
    def of(memory: Tensor, span: TensorSpan) -> _BufferView:
        dtype, shape, start = span
        new = _BufferView()
        new.args = (memory, dtype, tuple(shape), start)
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        return view, self.args if protocol < FIRST_PROTOCOL else with_pickled_tensors(self.args)


def with_buffer_views(data: Any) -> Any:
    """Replace tensors that are views of one storage by tensors that pickle this storage once, not once each.

    Other collections are returned unchanged.
    """
    first: Any = next(iter(data._leaves_and_buffers()), None)
    if (
        first.__class__ is Tensor
        and first.layout is torch.strided
        and first.untyped_storage().nbytes() == first.numel() * first.itemsize
    ):  # the most frequent case: the tensor fills its own memory
        return data
    flat = flat_of(data._leaves_and_buffers())
    if flat is None or len(flat.spans) < 2 or any(leaf.is_nested for leaf in data._leaves()):
        return data
    locked = data._lock is not None
    if not locked and any(node._lock is not None for node in data._nodes()):
        return data
    new = with_buffers(data, [_BufferView.of(flat.memory, span) for span in flat.spans])
    return with_members(new).lock_() if locked else new


def rebuild_in_buffer(
    memory: Tensor, dtypes: tuple[torch.dtype, ...], numbers: str, tree: tuple[Any, ...]
) -> TensorCollection:
    """Rebuild a consolidated collection. Called by unpickling.

    Raises:
        ValueError: a tensor is not in the memory.
    """
    layout = BufferLayout.from_description(dtypes, numbers, memory.numel() * memory.itemsize)
    tensors = layout.tensors_in(memory)
    made = _rebuild_tree(tree, iter(tensors))
    return mark_positions(made, layout, tensors)  # type: ignore[no-any-return]


def _rebuild_tree(tree: tuple[Any, ...], tensors: Iterator[Tensor]) -> TensorCollection:
    keys, below, cls, *rest = tree
    store = {key: _rebuild_tree(below[key], tensors) if key in below else next(tensors) for key in keys}
    return rebuild(cls, store, *rest)


def rebuild(
    cls: Any,
    store: dict[str, Any],
    batch_size: tuple[int, ...],
    device: Any,
    names: Names,
    locked: bool,
    *more: Any,
) -> TensorCollection:
    """Rebuild a collection. Called by unpickling."""
    new = object.__new__(found(cls, registry.TensorCollection))
    new._store = store
    new._batch_size = Size(batch_size)
    new._device = device
    new._names = names
    new._lock = None
    new._unpickled(*more)
    if locked:
        new._lock_under(())
    return new


allow_function(view)
for _function in (rebuild, rebuild_in_buffer):
    allow_function(_function, "tensorclass.td.state_dict")
