"""The core of a collection: a store of values under string keys, and the metadata that makes it behave like one tensor.

Families of operations (indexing, shaping, ...) are classes in modules of their own, which :mod:`.base` combines.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, TypeGuard, overload

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.help_links import no_dataset
from tensorclass.support.printable import type_name

from . import shapes
from .device_names import DeviceLike as DeviceLike
from .device_names import as_device as as_device
from .leaves.content import Content
from .shapes import Names
from .tracing import knows_addresses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .base import TensorCollection
    from .buffer_operations import BufferMark
    from .leaves.leaf import Leaf
    from .stored_names import StoredNames

    Value: TypeAlias = Tensor | TensorCollection | Leaf
    Store: TypeAlias = MutableMapping[str, Value]

#: the internals of the ``torch.func`` transforms; torch ships stubs for them, but not as a part of ``torch._C``
functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


class Collection:
    """A store plus a batch size, a device, dimension names and a lock.

    Only constructors, and :meth:`_like` and its variants, set the slots. The latter check nothing.
    """

    __slots__ = ("__weakref__", "_batch_size", "_buffer", "_context", "_device", "_lock", "_names", "_store")

    if TYPE_CHECKING:  # so that typing.get_type_hints of a record finds its fields, not these
        _store: Store
        _batch_size: Size
        _device: torch.device | None
        _names: Names
        # None: unlocked. A tuple: locked, with references to the parents that were locked with this one.
        _lock: tuple[weakref.ref[Collection], ...] | None
        # How a `with` statement undoes the last operation (see context); unset if it cannot.
        _context: tuple[Any, ...]
        # Where all tensors lie in one buffer (see buffer_operations); unset if they do not.
        _buffer: BufferMark

    #: members whose names fields of the class have (see hidden_members); ``None`` if there are none
    _hidden_members: ClassVar[Mapping[str, Any] | None] = None
    #: whether native code may walk collections of this class: it is a tree that overrides none of ``native.METHODS``
    _NATIVE: ClassVar[bool] = False
    #: the kind of content, which code outside of the engine checks instead of the class
    _CONTENT: ClassVar[Content] = Content.TREE
    #: fields that have another name in files and tables; ``None`` if there are none
    _stored_names: ClassVar[StoredNames | None] = None

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # == compares element by element, as a tensor's does

    # -- private constructors -----------------------------------------------------------------------------------------

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Self:
        """Return a collection of this class on ``store``. Nothing is checked, the device is kept, the lock is not."""
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = batch_size
        new._device = self._device
        new._names = names
        new._lock = None
        return new

    def _same(self, store: Store) -> Self:
        """:meth:`_like` with the same batch size and names."""
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = self._batch_size
        new._device = self._device
        new._names = self._names
        new._lock = None
        return new

    def _begin(self, store: Any, batch_size: Size, device: torch.device | None, names: Names) -> None:
        """Set the slots of a new instance, which is unlocked. Nothing is checked."""
        self._store = store
        self._batch_size = batch_size
        self._device = device
        self._names = names
        self._lock = None

    def _on(self, store: Store, device: torch.device | None) -> Self:
        """:meth:`_same` on another device."""
        new = self._same(store)
        new._device = device
        return new

    def _now(self) -> Store:
        """Return the store as it is now: a copy of a dict, whose keys other threads may set and remove meanwhile.

        Loops go over it, and results are put under its keys, so that each value stays under its own key. One call of C
        makes the copy. Other stores are returned themselves.
        """
        return {**self._store}

    def _untyped(self, store: Store) -> TensorCollection:
        """:meth:`_same` for a result with other keys. Records return a TensorDict here."""
        return self._same(store)  # type: ignore[return-value]

    # -- the interface of tensors -------------------------------------------------------------------------------------

    @property
    def batch_size(self) -> Size:
        """The leading dimensions that all values share.

        Setting it checks every value. Nested collections whose own batch size is shorter take the new one.

        Raises:
            RuntimeError: the shape of a value does not begin with the new batch size. Nothing is changed.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2, 3)}, [2])
            >>> data.batch_size = [2, 3]
            >>> data.batch_size
            torch.Size([2, 3])
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: Sequence[int] | int) -> None:
        self._set_batch_size(batch_size)

    @property
    def shape(self) -> Size:
        """The batch size, under the name that tensors use.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict(batch_size=[2, 3]).shape
            torch.Size([2, 3])
        """
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
        """Raise if the shape of a value does not begin with ``size`` and the value cannot take it."""
        ndim = len(size)
        for key, value in self._now().items():
            shape = value._batch_size if isinstance(value, Collection) else value.shape
            if shape[:ndim] != size:
                if not isinstance(value, Collection) or len(shape) >= ndim:
                    raise RuntimeError(
                        f"batch_size: {list(size)} does not fit {'.'.join((*path, key))!r}, of shape {list(shape)}; "
                        "the shape of every value must begin with the batch size. Nothing was changed"
                    )
                value._check_batch_size(size, (*path, key))

    def _check_behind(self, size: Size) -> None:
        """Raise if the dimensions of a value after the batch size do not fit. Records override this."""
        for value in self._now().values():
            if isinstance(value, Collection) and len(value._batch_size) < len(size):
                value._check_behind(size)

    def _take_batch_size(self, size: Size) -> None:
        """Set a checked batch size, also in nested collections that have fewer dimensions."""
        ndim = len(size)
        for value in self._now().values():
            if isinstance(value, Collection) and len(value._batch_size) < ndim:
                value._take_batch_size(size)
        self._batch_size = size
        self._names = shapes.names_fitted(self._names, ndim)
        if self._names is not None:
            self._set_names(self._names)

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict(batch_size=[2, 3]).batch_dims
            2
        """
        return len(self._batch_size)

    @property
    def ndim(self) -> int:
        """The number of batch dimensions.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict(batch_size=[2, 3]).ndim
            2
        """
        return len(self._batch_size)

    def dim(self) -> int:
        """Return the number of batch dimensions.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2, 3]).dim()
            2
        """
        return len(self._batch_size)

    def ndimension(self) -> int:
        """Return the number of batch dimensions.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2, 3]).ndimension()
            2
        """
        return len(self._batch_size)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """Return the batch size, or the size of one batch dimension.

        Args:
            dim: a batch dimension; negative ones count from the end. Default: all.

        Returns:
            A ``torch.Size``, or an int if ``dim`` is given.

        Raises:
            IndexError: there is no such dimension.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2, 3]).size(), TensorDict({}, [2, 3]).size(-1)
            (torch.Size([2, 3]), 3)
        """
        if dim is None:
            return self._batch_size
        try:
            return self._batch_size[dim]
        except IndexError:
            shapes.wrap_dim(dim, len(self._batch_size))  # raises, and says what the dimensions are
            raise

    def numel(self) -> int:
        """Return the number of elements of the batch: the product of the batch size, 1 without batch dimensions.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2, 3]).numel()
            6
        """
        return shapes.numel(self._batch_size)

    def __len__(self) -> int:
        """Return the size of the first batch dimension. Raise without one: 0 would stand for a batch of no rows."""
        return self._batch_size[0] if self._batch_size else self._no_rows()

    def _no_rows(self) -> NoReturn:
        raise TypeError(f"{no_dataset(self)}. Its keys are counted by len(data.keys())")

    def __bool__(self) -> bool:
        raise RuntimeError(
            f"the truth value of a {type_name(self)} is ambiguous: reduce it first, (a == b).all() or .any(); "
            "to ask for values use is_empty(), for rows len(...)"
        )

    #: whether arithmetic and reductions mean something; they leave other values of a collection alone
    _has_numbers: ClassVar[bool] = True

    # -- arrays: for functions of other libraries that take something like one ----------------------------------------

    def _one_tensor(self) -> Tensor:
        """Return the content as one tensor. Collections raise, with advice how to get tensors; leaves override this."""
        key = next(iter(self._store), None)
        raise TypeError(
            f"a {type_name(self)} is no tensor and no array, but a collection of them by key; take one of them"
            + (f", data[{key!r}]," if key is not None else "")
            + " or all, .to_dict() or .numpy()"
        )

    def _as_array(self, dtype: Any = None) -> NDArray[Any]:
        """Return the content as one array, which the caller casts to ``dtype``. Raise as :meth:`_one_tensor` does."""
        return self._one_tensor().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return an array, for :func:`numpy.asarray`. Collections raise; some leaves are arrays."""
        array = self._as_array(dtype)
        if copy is False and self._tensor_of_all_rows() is None:
            raise ValueError(f"a {type_name(self)} is an array only as a copy; give copy=None")
        return np.array(array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Return a capsule with a tensor, for :func:`torch.as_tensor`. Collections raise; some leaves are tensors."""
        tensor: Any = self._one_tensor()
        return tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        """Return the type and number of the device, for :func:`torch.as_tensor`. Raise if this is no tensor."""
        tensor: Any = self._one_tensor()
        device: tuple[Any, int] = tensor.__dlpack_device__()
        return device

    # -- device -------------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device | None:
        """The device to which values are moved when they are set; ``None`` if each value may be on its own device.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> data.device, data.to("cpu").device
            (None, device(type='cpu'))
        """
        return self._device

    @device.setter
    def device(self, value: DeviceLike) -> None:
        raise RuntimeError(
            "device cannot be set, because values would have to move: .to(device) returns a collection on the new "
            "device, .clear_device_() allows any device"
        )

    def _all_nodes(self) -> list[Collection]:
        """Return this collection and all nested ones, each of them once; while traced, once for each key."""
        nodes: list[Collection] = [self]
        if not knows_addresses():
            for node in nodes:  # grows during the loop
                nodes += node._nodes()
            return nodes
        seen = {id(self)}
        for node in nodes:
            for below in node._nodes():
                if id(below) not in seen:
                    seen.add(id(below))
                    nodes.append(below)
        return nodes

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str | None]:
        """The names of the batch dimensions; ``None`` for a dimension without a name.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict(batch_size=[2, 3], names=["time", None])
            >>> data.names
            ['time', None]
        """
        return self._name_list()

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._rename_to(shapes.as_names(names, len(self._batch_size)))

    def _name_list(self) -> list[str | None]:
        return [None] * len(self._batch_size) if self._names is None else list(self._names)

    def _rename_to(self, names: Names) -> None:
        self._check_names(names)
        before = [(node, node._names) for node in self._all_nodes()]
        try:
            self._set_names(names)
        except BaseException:  # rows of a collection refuse names, a full disk refuses the note of a file
            for node, old in before:
                if node._names != old:
                    node._restore_names(old)
            raise

    def _restore_names(self, names: Names) -> None:
        """Undo a change of names at this level alone."""
        self._names = names

    def _check_names(self, names: Names) -> None:
        """Raise if a nested collection uses one of these names for a further dimension of its own."""
        if names is None:
            return
        ndim, taken = len(self._batch_size), set(names)
        for node in self._nodes():
            own = node._names[ndim:] if node._names else ()
            twice = [name for name in own if name is not None and name in taken]
            if twice:
                raise ValueError(
                    f"names: a nested collection uses {twice} among its names {node._name_list()} for dimensions "
                    f"behind the {ndim} that would be named {list(names)}; rename its dimensions first. Nothing was "
                    "changed"
                )
            node._check_names((*names, *own))

    def _set_names(self, names: Names) -> None:
        """Set checked names, also for the leading dimensions of nested collections."""
        self._names = names
        for value in self._now().values():
            if isinstance(value, Collection):
                own = shapes.names_padded(value._names, -len(self._batch_size))
                value._set_names(
                    shapes.names_or_none(
                        (names or (None,) * len(self._batch_size))
                        + (own or (None,) * (len(value._batch_size) - len(self._batch_size)))
                    )
                )

    def refine_names(self, *names: str | ellipsis | None) -> Self:  # noqa: F821
        """Name dimensions that have no name yet, in place.

        Args:
            names: a name for each dimension. ``...`` (at most once) stands for dimensions that keep their names.

        Returns:
            This collection.

        Raises:
            RuntimeError: a dimension has another name already.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2, 3, 4]).refine_names("x", ...).names
            ['x', None, None]
        """
        given: list[Any] = list(names)
        ellipses = [at for at, name in enumerate(given) if name is ...]
        if len(ellipses) > 1:
            raise RuntimeError("refine_names: ... can appear only once")
        if ellipses:
            at = ellipses[0]
            fill = len(self._batch_size) - len(given) + 1
            given[at : at + 1] = self._name_list()[at : at + fill]
        for old, new in zip(self._name_list(), given, strict=False):
            if old is not None and old is not new and old != new:
                raise RuntimeError(f"refine_names: the dimension {old!r} has a name already, it cannot become {new!r}")
        self._rename_to(shapes.as_names(given, len(self._batch_size)))
        return self

    def rename_(self, *names: str | None, **rename_map: str) -> Self:
        """Rename batch dimensions in place.

        Args:
            names: the new names of all dimensions, as arguments or as one sequence; ``None`` removes a name.
            rename_map: instead, the new name of some dimensions as ``old="new"``.

        Returns:
            This collection.

        Raises:
            ValueError: both forms are used, a name to replace does not exist, or the number of names is wrong.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2, 3]).rename_("x", "y").rename_(x="z").names
            ['z', 'y']
        """
        self._rename_to(self._renamed(names, rename_map))
        return self

    def rename(self, *names: str | None, **rename_map: str) -> Self:
        """Return a collection with other dimension names. :meth:`rename_` changes those of this one.

        Args:
            names: the new names of all dimensions, as arguments or as one sequence; ``None`` removes a name.
            rename_map: instead, the new name of some dimensions as ``old="new"``.

        Returns:
            A new collection. Tensors are shared.

        Raises:
            ValueError: both forms are used, a name to replace does not exist, or the number of names is wrong.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({}, [2], names=["time"])
            >>> data.rename("row").names, data.names
            (['row'], ['time'])
        """
        new = self._shallow()
        new._rename_to(self._renamed(names, rename_map))
        return new

    def _renamed(self, names: tuple[Any, ...], rename_map: dict[str, str]) -> Names:
        if names and rename_map:
            raise ValueError("rename: give all names by position, or some as old='new', not both")
        ndim = len(self._batch_size)
        if names or not rename_map:
            single = len(names) == 1 and type(names[0]) in (list, tuple, type(None))
            return shapes.as_names(names[0] if single else names, ndim)
        own = self._name_list()
        known = set(own)
        missing = [old for old in rename_map if old not in known]
        if missing:
            raise ValueError(f"rename: there are no dimensions named {missing}; the names are {own}")
        return shapes.as_names([rename_map.get(name, name) if name is not None else name for name in own], ndim)

    def _shallow(self) -> Self:
        """Return new collections with the same values, at every level."""
        return self._same(
            {key: value._shallow() if isinstance(value, Collection) else value for key, value in self._now().items()}
        )

    # -- the tree -----------------------------------------------------------------------------------------------------

    def _levels_now(self) -> Self:
        """Return this collection as it is now: copies of the dicts of all levels, with the same values and locks.

        For operations that check all values before they write any: both loops then see the same keys.
        """
        store = self._store
        if type(store) is not DICT or not self._is_tree():
            return self
        store = {**store}
        new = self._same(store)
        new._lock = self._lock
        for key, value in store.items():
            if value.__class__ is not Tensor and isinstance(value, Collection):
                store[key] = value._levels_now()
        return new

    def _is_tree(self) -> bool:
        """Return whether this is a nested collection. Text and objects are leaves, despite their base class."""
        return True

    def _as_read(self) -> Any:
        """Return what ``data[key]`` returns for this value. Non-tensor data returns its object."""
        return self

    def _unwrapped(self) -> Any:
        """Return the form of this value in structures of other libraries. Non-tensor data returns its object."""
        return self

    def _nodes(self) -> list[TensorCollection | Leaf]:
        """Return the collections one level below, which locks and devices reach next."""
        nodes: list[TensorCollection | Leaf] = []
        for value in [*self._store.values()]:  # before Python 3.12 a comprehension would cost more than the loop
            if value.__class__ is not Tensor and isinstance(value, Collection):
                nodes.append(value)  # noqa: PERF401
        return nodes

    def _holds_values(self) -> bool:
        """Return whether the values are in this collection itself, not in components as those of a lazy stack."""
        return True

    def _beside(self) -> Sequence[Collection]:
        """Return the collections that this one refers to other than as values: components or objects."""
        return ()

    def _wrapped_tensor(self) -> Tensor | None:
        """Return the tensor in an unbatched tensor, or the items of ragged rows; ``None`` for all other collections."""
        return None

    def _tensor_of_all_rows(self) -> Tensor | None:
        """Return the tensor of an unbatched tensor; ``None`` for all other collections, ragged rows among them."""
        return None

    def _own_operands(self, operand: Any) -> Iterator[Any]:
        """Yield the operands for the tensors of a leaf other than a tensor in an operation with ``operand``."""
        return iter(())

    def _identity(self) -> tuple[Any, ...]:
        """Return objects that identify the content of a leaf: it has changed if one of them is another object."""
        return tuple(self._now().values())

    def _leaves(self) -> Iterator[Tensor]:
        """Yield the tensors of the tree, depth first, in the order of the keys."""
        for value in self._now().values():
            if isinstance(value, Collection):
                yield from value._leaves()
            else:
                yield value

    def _captured(self, leaves: list[Tensor]) -> Self:
        """Return the tree as it is now, its dicts copied at every level, and append the tensors of :meth:`_leaves`."""
        store = self._now()
        for key, value in store.items():
            if value.__class__ is not Tensor and isinstance(value, Collection):
                store[key] = value._captured(leaves)
            else:
                leaves.append(value)  # pyright: ignore[reportArgumentType]
        return self._same(store)

    def _named_leaves(self) -> list[tuple[tuple[str, ...], Tensor]]:
        """Return the tensors of the tree with their keys as flat tuples."""
        leaves: list[tuple[tuple[str, ...], Tensor]] = []
        for key, value in self._now().items():
            if isinstance(value, Tensor):
                leaves.append(((key,), value))
            else:
                leaves.extend(((key, *path), leaf) for path, leaf in value._named_leaves())
        return leaves

    def _aligned_parts(self, operand: Any) -> Any:
        """Return pairs of a component and its operand if the leaves belong to several components (a lazy stack's)."""
        return None

    def _with_leaves(self, leaves: Iterator[Tensor]) -> Self:
        """Return the same tree with other tensors, in the order of :meth:`_leaves`."""
        store = {**self._store}
        for key, value in store.items():
            store[key] = value._with_leaves(leaves) if isinstance(value, Collection) else next(leaves)
        return self._same(store)

    def _leaves_and_buffers(self) -> Iterator[Tensor]:
        """Yield the tensors of :meth:`_leaves`, and the buffers of columns: items and spans."""
        for value in self._now().values():
            if isinstance(value, Collection):
                yield from value._leaves_and_buffers()
            else:
                yield value

    def _row_mismatch(self, other: Collection) -> str | None:
        """Return how the rows of a column differ from those of another, beside the numbers; ``None`` elsewhere."""
        return None

    def _bytes(self) -> int:
        """Return the memory of all values in bytes; of columns that of the rows, not of the buffer."""
        return sum(
            value._bytes() if isinstance(value, Collection) else value.numel() * value.element_size()
            for value in self._now().values()
        )

    def _with_leaves_and_buffers(self, buffers: Iterator[Tensor]) -> Self:
        """Return the same tree with other tensors of the same shapes, in the order of :meth:`_leaves_and_buffers`."""
        store = {**self._store}
        for key, value in store.items():
            store[key] = value._with_leaves_and_buffers(buffers) if isinstance(value, Collection) else next(buffers)
        return self._same(store)

    def _compacted(self) -> Self:
        """Return the same tree with compact columns; the tree itself if there are no others."""
        now = self._now()
        new = {key: value._compacted() if isinstance(value, Collection) else value for key, value in now.items()}
        return self._same(new) if any(new[key] is not value for key, value in now.items()) else self

    def _compact_in_place(self) -> None:
        """Drop items that no row refers to. Only columns have such items."""

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        """Take back the tensors of :meth:`_leaves` after writes into them: other stores may have returned copies."""
        for value in self._now().values():
            if isinstance(value, Collection):
                value._put_leaves(leaves)
            else:
                next(leaves)

    # -- lock ---------------------------------------------------------------------------------------------------------

    def _check_unlocked(self) -> None:
        if self._lock is not None:
            raise RuntimeError(
                f"this {type_name(self)} is locked: its keys cannot be set, replaced or removed. Write into the "
                "values in place (set_, update_, copy_), or unlock it first: `with data.unlock_(): ...`"
            )


def has_no_numbers(value: object) -> TypeGuard[Leaf]:
    """Return whether arithmetic on a collection leaves this value alone: text and objects."""
    return isinstance(value, Collection) and not value._has_numbers


#: functions that text and objects have, too
_COMPARISONS: frozenset[Callable[..., Any]] = frozenset((operator.eq, operator.ne, torch.eq, torch.ne))


def call_on_value(function: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function on a value of a collection. Text and objects are compared; all else leaves them as they are."""
    if has_no_numbers(value) and function not in _COMPARISONS:
        return value._shallow()
    return function(value, *args, **kwargs)


def is_tree(value: object) -> TypeGuard[TensorCollection]:
    """Return whether a value is a nested collection: not a tensor, and not another leaf."""
    return isinstance(value, Collection) and value._is_tree()
