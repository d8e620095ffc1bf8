"""The core of a collection: a store of values under string keys, and the metadata that makes it behave like one tensor.

Everything here is small on purpose. The families of operations (indexing, shaping, ...) are classes of their own, one
module each, that stand on :class:`Collection`; :mod:`tensorclass.td.base` puts them together.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, overload

import torch
from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from . import shapes
from .shapes import Names

if TYPE_CHECKING:
    from .base import TensorCollection

    Value: TypeAlias = Tensor | TensorCollection
    Store: TypeAlias = MutableMapping[str, Value]

DeviceLike: TypeAlias = torch.device | str | int

#: what is known of the transforms of ``torch.func``; torch has stubs for it, but not as a part of ``torch._C``
functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def as_device(device: DeviceLike | None) -> torch.device | None:
    """A device in the form that tensors report, so that devices compare by ``==``: an index for accelerators.

    >>> as_device("cpu")
    device(type='cpu')
    """
    if device is None:
        return None
    device = torch.device(device)
    needs_index = device.type not in ("cpu", "meta") and ":" not in str(device)
    return torch.empty((), device=device).device if needs_index else device


#: modules that ask a dataset for its length
_LOADERS = tuple([f"torch.utils.data.{name}" for name in ("dataloader", "dataset", "distributed", "sampler")])


def no_dataset(collection: Collection) -> str:
    """Return the error text for a collection without batch dimensions where a dataset is wanted."""
    name = type(collection).__name__
    return (
        f"this {name} has the batch size [], hence no rows that a loader could load: it is one sample. Give it the "
        f"batch size of its values, {name}(..., batch_size=[n]) or .auto_batch_size_(1), or put it into a list "
        "of samples"
    )


class Collection:
    """A store plus a batch size, a device, dimension names and a lock.

    The slots are set by :meth:`_like` (and its kin) and by the constructors; no other place makes an instance. Code in
    this package that has checked its values by construction ends in :meth:`_like`, which checks nothing.
    """

    __slots__ = ("__weakref__", "_batch_size", "_context", "_device", "_lock", "_names", "_store")

    if TYPE_CHECKING:  # typing.get_type_hints of a record shall find its fields, not these
        _store: Store
        _batch_size: Size
        _device: torch.device | None
        _names: Names
        # None: unlocked. A tuple: locked; it refers to the collections that hold this one and were locked with it.
        _lock: tuple[weakref.ref[Collection], ...] | None
        # What a `with` statement undoes; unset where there is nothing (see context).
        _context: tuple[Any, ...]

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # == compares element by element, as a tensor's does

    # -- making one ---------------------------------------------------------------------------------------------------

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Self:
        """A collection of this class on ``store``: nothing is checked, the device is kept, the lock is not."""
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = batch_size
        new._device = self._device
        new._names = names
        new._lock = None
        return new

    def _same(self, store: Store) -> Self:
        """:meth:`_like` with this batch size and these names."""
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = self._batch_size
        new._device = self._device
        new._names = self._names
        new._lock = None
        return new

    def _on(self, store: Store, device: torch.device | None) -> Self:
        """:meth:`_same` on another device."""
        new = self._same(store)
        new._device = device
        return new

    def _untyped(self, store: Store) -> TensorCollection:
        """:meth:`_same` for a result whose keys are others than this one's: a record gives a TensorDict here."""
        return self._same(store)  # type: ignore[return-value]

    # -- what a collection shares with a tensor -----------------------------------------------------------------------

    @property
    def batch_size(self) -> Size:
        """The shape that every value has in front.

        Setting it checks every value and reaches nested collections whose own batch size does not begin with it.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: Sequence[int] | int) -> None:
        self._set_batch_size(batch_size)

    @property
    def shape(self) -> Size:
        """The batch size: what a collection has where a tensor has a shape."""
        return self._batch_size

    @shape.setter
    def shape(self, batch_size: Sequence[int] | int) -> None:
        self._set_batch_size(batch_size)

    def _set_batch_size(self, batch_size: Sequence[int] | int) -> None:
        size = shapes.as_size(batch_size)
        shapes.check_size(size)
        self._check_batch_size(size, ())
        self._check_behind(size)
        self._take_batch_size(size)

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        """Raises an error where a value does not have ``size`` in front and cannot take it."""
        ndim = len(size)
        for key, value in self._store.items():
            shape = value.shape
            if shape[:ndim] != size:
                if not isinstance(value, Collection) or len(shape) >= ndim:
                    raise RuntimeError(
                        f"batch_size: {list(size)} does not fit {'.'.join((*path, key))!r}, of shape {list(shape)}; "
                        "every value must have the batch size in front. Nothing was changed"
                    )
                value._check_batch_size(size, (*path, key))

    def _check_behind(self, size: Size) -> None:
        """Raises an error where values don't fit behind a batch size that they have in front; a record knows."""
        for value in self._store.values():
            if isinstance(value, Collection) and len(value._batch_size) < len(size):
                value._check_behind(size)

    def _take_batch_size(self, size: Size) -> None:
        """Sets a checked batch size, also in nested collections that have fewer dimensions."""
        ndim = len(size)
        for value in self._store.values():
            if isinstance(value, Collection) and len(value._batch_size) < ndim:
                value._take_batch_size(size)
        self._batch_size = size
        self._names = shapes.names_fitted(self._names, ndim)
        if self._names is not None:
            self._set_names(self._names)

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    @property
    def ndim(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    def dim(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    def ndimension(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The batch size, or its entry at ``dim``."""
        return self._batch_size if dim is None else self._batch_size[dim]

    def numel(self) -> int:
        """The number of items that the batch size holds, at least 1 as for a tensor without dimensions."""
        return shapes.numel(self._batch_size)

    def __len__(self) -> int:
        """The size of the first batch dimension; 0 when there is none."""
        return self._batch_size[0] if self._batch_size else self._no_rows()

    def _no_rows(self) -> int:
        """0, the length of a collection without batch dimensions; an error for a loader, which would load nothing."""
        if not is_dynamo_compiling() and sys._getframe(2).f_globals.get("__name__") in _LOADERS:
            raise TypeError(no_dataset(self))
        return 0

    def __bool__(self) -> bool:
        raise RuntimeError(
            f"the truth value of a {type(self).__name__} is ambiguous: reduce it first, (a == b).all() or .any(); "
            "to ask for values use is_empty(), for rows len(...)"
        )

    # -- device -------------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device | None:
        """The device that values are cast to when they are written; ``None`` where each may live on its own."""
        return self._device

    @device.setter
    def device(self, value: DeviceLike) -> None:
        raise RuntimeError(
            "device cannot be set, because values would have to move: use .to(device), which gives a collection on the "
            "new device, or .clear_device_() to lift the restriction to one device"
        )

    def clear_device_(self) -> Self:
        """Lets values of any device in, here and in nested collections. Nothing is moved."""
        if is_dynamo_compiling():
            self._clear_device()
            return self
        nodes: list[Collection] = [self]
        seen = {id(self)}
        for node in nodes:  # it grows on the way
            for below in node._nodes():
                if id(below) not in seen:
                    seen.add(id(below))
                    nodes.append(below)
        before = [node._device for node in nodes]
        try:
            self._clear_device()
        except BaseException:
            for node, device in zip(nodes, before, strict=True):
                node._device = device
            raise
        return self

    def _clear_device(self) -> None:
        self._device = None
        for node in self._nodes():
            node._clear_device()

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str | None]:
        """The names of the batch dimensions, ``None`` where one has no name."""
        return [None] * len(self._batch_size) if self._names is None else list(self._names)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._rename_to(shapes.as_names(names, len(self._batch_size)))

    def _rename_to(self, names: Names) -> None:
        self._check_names(names)
        self._set_names(names)

    def _check_names(self, names: Names) -> None:
        """Raises an error where a nested collection has one of these names for a further dimension of its own."""
        if names is None:
            return
        ndim = len(self._batch_size)
        for node in self._nodes():
            own = node._names[ndim:] if node._names else ()
            twice = [name for name in own if name is not None and name in names]
            if twice:
                raise ValueError(
                    f"names: a nested collection has {twice} among its names {node.names}, for dimensions beyond the "
                    f"{ndim} that get the names {list(names)}; rename its dimensions first. Nothing was changed"
                )
            node._check_names((*names, *own))

    def _set_names(self, names: Names) -> None:
        """Sets checked names, and those of the leading dimensions of nested collections."""
        self._names = names
        for value in self._store.values():
            if isinstance(value, Collection):
                own = shapes.names_padded(value._names, -len(self._batch_size))
                value._set_names(
                    shapes.names_or_none(
                        (names or (None,) * len(self._batch_size))
                        + (own or (None,) * (value.ndim - len(self._batch_size)))
                    )
                )

    def refine_names(self, *names: str | ellipsis | None) -> Self:  # noqa: F821
        """Gives names to dimensions that have none; ``...`` stands for those that stay as they are.

        >>> from tensorclass import TensorDict
        >>> TensorDict({}, [2, 3, 4]).refine_names("x", ...).names
        ['x', None, None]

        Raises:
            RuntimeError: a dimension has another name already.
        """
        given: list[Any] = list(names)
        if given.count(...) > 1:
            raise RuntimeError("refine_names: ... can appear once")
        if ... in given:
            at = given.index(...)
            fill = self.ndim - len(given) + 1
            given[at : at + 1] = self.names[at : at + fill]
        for old, new in zip(self.names, given, strict=False):
            if old is not None and old != new:
                raise RuntimeError(f"refine_names: the dimension {old!r} has a name already, it cannot become {new!r}")
        self._rename_to(shapes.as_names(given, self.ndim))
        return self

    def rename_(self, *names: str | None, **rename_map: str) -> Self:
        """Renames the dimensions in place: all of them by position, or some as ``old="new"``."""
        self._rename_to(self._renamed(names, rename_map))
        return self

    def rename(self, *names: str | None, **rename_map: str) -> Self:
        """A collection that shares the values, with other dimension names: by position, or as ``old="new"``."""
        new = self._shallow()
        new._rename_to(self._renamed(names, rename_map))
        return new

    def _renamed(self, names: tuple[Any, ...], rename_map: dict[str, str]) -> Names:
        if names and rename_map:
            raise ValueError("rename: give all names by position, or some as old='new', not both")
        if names or not rename_map:
            single = len(names) == 1 and type(names[0]) in (list, tuple, type(None))
            return shapes.as_names(names[0] if single else names, self.ndim)
        missing = [old for old in rename_map if old not in self.names]
        if missing:
            raise ValueError(f"rename: there are no dimensions named {missing}; the names are {self.names}")
        return shapes.as_names([rename_map.get(name, name) if name else name for name in self.names], self.ndim)

    def _shallow(self) -> Self:
        """New collections on the same values, at every level."""
        return self._same(
            {key: value._shallow() if isinstance(value, Collection) else value for key, value in self._store.items()}
        )

    # -- the tree -----------------------------------------------------------------------------------------------------

    def _is_tree(self) -> bool:
        """Whether this is a nested collection among values; text and objects are leaves, collections by class only."""
        return True

    def _nodes(self) -> list[TensorCollection]:
        """The collections that this one consists of, one level below: what a lock, or a device, reaches next."""
        return [value for value in self._store.values() if isinstance(value, Collection)]

    def _holds_values(self) -> bool:
        """Whether the values are in this collection itself, and not in those that it consists of."""
        return True

    def _beside(self) -> Sequence[Collection]:
        """Return the collections in memory that this one reads or holds, but not as values: say, parts or objects."""
        return ()

    def _held(self) -> Tensor | None:
        """The tensor of an unbatched one, which is a leaf where it stands; ``None`` for all others."""
        return None

    def _own_operands(self, operand: Any) -> Iterator[Any]:
        """The operands of the tensors of a leaf that is no tensor, when it meets another value."""
        return iter(())

    def _content(self) -> tuple[Any, ...]:
        """What a leaf that is no tensor holds: it has changed when one of these is another object."""
        return tuple(self._store.values())

    def _leaves(self) -> Iterator[Tensor]:
        """The tensors of the tree, depth first, in the order of the keys."""
        for value in self._store.values():
            if isinstance(value, Collection):
                yield from value._leaves()
            else:
                yield value

    def _named_leaves(self) -> list[tuple[tuple[str, ...], Tensor]]:
        """The tensors of the tree with their keys, as flat tuples."""
        leaves: list[tuple[tuple[str, ...], Tensor]] = []
        for key, value in self._store.items():
            if isinstance(value, Tensor):
                leaves.append(((key,), value))
            else:
                leaves.extend(((key, *path), leaf) for path, leaf in value._named_leaves())
        return leaves

    def _aligned_parts(self, operand: Any) -> Any:
        """Where the leaves are those of several parts: pairs of a part and its operand."""
        return None

    def _with_leaves(self, leaves: Iterator[Tensor]) -> Self:
        """The same tree with other tensors, taken in the order of :meth:`_leaves`."""
        return self._same(
            {
                key: value._with_leaves(leaves) if isinstance(value, Collection) else next(leaves)
                for key, value in self._store.items()
            }
        )

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        """Takes the tensors of :meth:`_leaves` back after they were written into: they can be copies."""
        for value in self._store.values():
            if isinstance(value, Collection):
                value._put_leaves(leaves)
            else:
                next(leaves)

    # -- lock ---------------------------------------------------------------------------------------------------------

    def _check_unlocked(self) -> None:
        if self._lock is not None:
            raise RuntimeError(
                f"this {type(self).__name__} is locked: its keys cannot be set, replaced or removed. Write into the "
                "values in place (set_, update_, copy_), or unlock it first: `with data.unlock_(): ...`"
            )
