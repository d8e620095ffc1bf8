"""Collections as nodes of pytrees: ``torch.utils._pytree``, and through it ``torch.func``, export and compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Size, Tensor
from torch.utils import _pytree

if TYPE_CHECKING:
    from .base import TensorCollection


def _context(collection: Any) -> tuple[Any, ...]:
    return (
        type(collection),
        tuple(collection._store),
        collection._batch_size,
        collection._device,
        collection._names,
        getattr(collection, "_objects", None),
    )


def _flatten(collection: Any) -> tuple[list[Any], Any]:
    return list(collection._store.values()), _context(collection)


def _flatten_with_keys(collection: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(_pytree.MappingKey(key), value) for key, value in collection._store.items()], _context(collection)


def _unflatten(values: Any, context: Any) -> Any:
    cls, keys, batch_size, device, names, objects = context
    new = object.__new__(cls)
    store = dict(zip(keys, values, strict=True))
    new._store = store
    new._batch_size = batch_size
    new._device = device
    new._names = names
    new._lock = None
    if objects is not None:
        new._objects = objects
    ndim = len(batch_size)
    for value in store.values():
        if isinstance(value, Tensor) and value.shape[:ndim] != batch_size:
            _rebatch(new)
            break
    return new


def _rebatch(new: TensorCollection) -> None:
    """A function over the leaves changed their leading dimensions: those that all of them share become the batch size."""
    shapes = [value.shape for value in new._store.values() if isinstance(value, Tensor)]
    common: list[int] = []
    for entries in zip(*shapes, strict=False):
        if len(set(entries)) != 1 or len(common) == len(new._batch_size):
            break
        common.append(entries[0])
    if len(common) != len(new._batch_size):
        new._names = None
    new._batch_size = Size(common)


def register(cls: type[TensorCollection]) -> None:
    """Makes a class a node of pytrees. Every concrete class of collections is registered when it is defined."""
    _pytree.register_pytree_node(cls, _flatten, _unflatten, flatten_with_keys_fn=_flatten_with_keys)
