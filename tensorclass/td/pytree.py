"""Collections as nodes of pytrees: ``torch.utils._pytree``, and through it ``torch.func``, export and compile.

A function over the leaves may change their leading dimensions, and so the batch size. ``torch.vmap`` does this on the
way in, where every leaf loses a dimension, and on the way out, where every leaf gets one; nobody says which dimension
that is. On the way in the leaves know it themselves, on the way out it shows by comparison with the leaves as they were
flattened (:class:`_Origin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Size, Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.utils import _pytree

from . import shapes
from .collection import Collection, functorch
from .shapes import Names

if TYPE_CHECKING:
    from .base import TensorCollection


class _Origin:
    """Where a collection was flattened: the level of ``torch.func`` transforms, and the form of its leaves in there.

    It is part of what pytrees compare, and must not make two collections different.
    """

    __slots__ = ("forms", "level", "vmapped")

    def __init__(self, level: int = 0, leaves: Sequence[Tensor] = ()) -> None:
        self.level = level
        self.forms = [_form(leaf) for leaf in leaves]
        self.vmapped = _vmapped(leaves, level)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Origin)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "_Origin()"


def _context(collection: Any) -> tuple[Any, ...]:
    node: object = collection
    return (
        getattr(type(node), "_dense", type(node)),  # on a plain dict afterwards, whatever the store is
        tuple(collection._store),
        collection._batch_size,
        collection._device,
        collection._names,
        getattr(collection, "_objects", None),
        _Origin(functorch.maybe_current_level() or 0, _tensors(collection)) if _transforms_active() else _OUTSIDE,
    )


def _flatten(collection: Any) -> tuple[list[Any], Any]:
    return list(collection._store.values()), _context(collection)


def _flatten_with_keys(collection: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(_pytree.MappingKey(key), value) for key, value in collection._store.items()], _context(collection)


def _unflatten(values: Any, context: Any) -> Any:
    cls, keys, batch_size, device, names, objects, origin = context
    new = object.__new__(cls)
    store = dict(zip(keys, values, strict=True))
    new._store = store
    new._batch_size = batch_size
    new._device = device
    new._names = names
    new._lock = None
    if objects is not None:
        new._objects = objects
    if _transforms_active() and _follow_vmap(new, origin):
        return new
    ndim = len(batch_size)
    for value in store.values():
        if isinstance(value, (Tensor, Collection)) and value.shape[:ndim] != batch_size:
            _rebatch(new)
            break
    return new


def _rebatch(new: TensorCollection) -> None:
    """A function changed the leading dimensions of the leaves: those that all of them share become the batch size."""
    sizes = [value.shape for value in new._store.values() if _tensors(value)]
    common: list[int] = []
    for entries in zip(*sizes, strict=False):
        if len(set(entries)) != 1 or len(common) == len(new._batch_size):
            break
        common.append(entries[0])
    ndim = len(new._batch_size)
    _change(new, lambda size: Size(common) + size[ndim:], lambda names: names if len(common) == ndim else None)


# -- vmap -------------------------------------------------------------------------------------------------------------


def _follow_vmap(new: TensorCollection, origin: _Origin) -> bool:
    """Sets the batch size of a collection whose leaves a ``vmap`` changed; whether that is what happened."""
    leaves = _tensors(new)
    ndim = len(new._batch_size)
    lost = {_lost(leaf, origin.level) for leaf in leaves}
    if lost and lost != {()}:
        taken = {tuple(dim for dim in dims if dim < ndim) for dims in lost}
        if len(taken) != 1:
            return False
        dims = taken.pop()
        _change(new, lambda size: Size(shapes.without(size, dims)), lambda names: shapes.names_without(names, dims))
        return True
    if not leaves or len(origin.forms) != len(leaves) or _vmapped(leaves, origin.level):
        return False
    places = set(range(ndim + 1))
    for form, leaf in zip(origin.forms, leaves, strict=True):
        places &= _gained(form, _form(leaf))
    if not places:
        return False
    dim = min(places)
    if not origin.vmapped and any(leaf.stride(dim) for leaf in leaves):
        return False  # what did not depend on what was mapped is expanded on the way out
    count = leaves[0].shape[dim]
    _change(new, lambda size: shapes.inserted(size, dim, count), lambda names: shapes.names_inserted(names, dim))
    return True


def _vmapped(leaves: Sequence[Tensor], level: int) -> bool:
    """Whether the transform of a level is a vmap that hides a dimension of a leaf."""
    return any(functorch.is_batchedtensor(leaf) and functorch.maybe_get_level(leaf) == level for leaf in leaves)


def _lost(leaf: Tensor, level: int) -> tuple[int, ...]:
    """The dimensions that the vmaps above a level hide of a tensor, counted in the tensor outside of them."""
    hidden: list[int] = []
    while functorch.is_functorch_wrapped_tensor(leaf) and functorch.maybe_get_level(leaf) > level:
        if functorch.is_batchedtensor(leaf):
            hidden.append(functorch.maybe_get_bdim(leaf))
        leaf = functorch.get_unwrapped(leaf)
    if not hidden:
        return ()
    seen = list(range(leaf.ndim))
    return tuple(sorted(seen.pop(dim) for dim in reversed(hidden)))  # each vmap sees what those around it left


def _form(leaf: Tensor) -> list[tuple[int, int]]:
    """Sizes with strides: sizes alone may not tell which of two dimensions is new."""
    return list(zip(leaf.shape, leaf.stride(), strict=True))


def _gained(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> set[int]:
    """Where a dimension was put in, as far as that can be seen."""
    return {dim for dim in range(len(after)) if after[:dim] + after[dim + 1 :] == before}


# -- the tree ---------------------------------------------------------------------------------------------------------


def _tensors(node: Any) -> list[Tensor]:
    """The leaves of a tree, as far as they are tensors still."""
    if isinstance(node, Collection):
        return [leaf for value in node._store.values() for leaf in _tensors(value)]
    return [node] if isinstance(node, Tensor) else []


def _change(new: Collection, size: Callable[[Size], Size], names: Callable[[Names], Names]) -> None:
    """Changes batch size and names, also of what has no leaves below that could have told."""
    new._names = names(new._names)
    new._batch_size = size(new._batch_size)
    for value in new._store.values():
        if isinstance(value, Collection) and not _tensors(value):
            _change(value, size, names)


_OUTSIDE = _Origin()


def register(
    cls: type[TensorCollection],
    flatten: Callable[[Any], Any] = _flatten,
    unflatten: Callable[[Any, Any], Any] = _unflatten,
    flatten_with_keys: Callable[[Any], Any] = _flatten_with_keys,
) -> None:
    """Makes a class a node of pytrees. Every concrete class of collections is registered when it is defined."""
    _pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)
