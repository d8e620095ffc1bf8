"""The base of non-tensor data: leaves that hold objects instead of numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import registry, shapes
from tensorclass.td.collection import Collection
from tensorclass.td.indexing import check_broadcast
from tensorclass.td.keys import dotted
from tensorclass.td.modes import CAPTURE
from tensorclass.td.prepared_index import prepare_index
from tensorclass.td.printing.representations import failed_text
from tensorclass.td.safe_unpickling import allow_function, found
from tensorclass.td.shapes import Names
from tensorclass.td.stack_and_cat import _where_value
from tensorclass.td.value_checks import contains_itself, holds

from .leaf import FullLeaf, Leaf
from .linked_list import LinkedList
from .object_codes import (
    Deferred,
    codes_row_by_row,
    copy_objects,
    flatten_lists,
    join_objects,
    on_cpu,
    realize,
    same_object,
    to_lists,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorclass.td.collection import Store
    from tensorclass.td.get import IsLeaf
    from tensorclass.td.indexing import ObjectRows
    from tensorclass.td.keys import NestedKey


class NonTensorDataBase(FullLeaf):
    """The base class of :class:`NonTensorData` and :class:`NonTensorStack`.

    Example:
        >>> from tensorclass import NonTensorData, NonTensorDataBase
        >>> isinstance(NonTensorData("a"), NonTensorDataBase)
        True
    """

    __slots__ = ("_in_file", "_metadata", "_objects")

    _is_non_tensor = True
    _CONTENT_HINT = "; its object is in `data`"

    #: one object for NonTensorData; the targets of the codes for NonTensorStack
    _objects: Sequence[Any]
    #: a dict that the user gave with the object
    _metadata: dict[Any, Any] | None
    #: set if this was loaded from files that are written to; results of operations do not have it
    _in_file: bool

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Self:
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = batch_size
        new._device = self._device
        new._names = names
        new._lock = None
        new._objects = self._objects
        new._metadata = self._metadata
        return new

    def _begin_with(
        self, objects: Sequence[Any], store: Any, size: Size, device: Any, names: Names, metadata: Any = None
    ) -> None:
        """Set the slots of a new instance, which is unlocked. Nothing is checked."""
        self._begin(store, size, device, names)
        self._objects = objects
        self._metadata = metadata

    def _same(self, store: Store) -> Self:  # inside vmap without dimensions, yet with objects for each row
        new = super(Leaf, self)._same(store)
        new._objects = self._objects
        new._metadata = self._metadata
        return new

    # -- no tensors: those of the store are codes ----------------------------------------------------------------------

    def _identity(self) -> tuple[Any, ...]:
        return (self._objects, *self._store.values())

    def _beside(self) -> list[Collection]:
        objects = self._objects
        # look only at the first: there can be one for each row; a file has none
        if not objects or isinstance(objects, Deferred) or not isinstance(objects[0], Collection):
            return []
        return [item for item in objects if isinstance(item, Collection)]

    def _selected(self, tree: Any, strict: bool) -> Store:
        return self._shallow()._store

    def empty(self, *args: Any, **kwargs: Any) -> Self:
        """Return the same data in a new holder: a collection without leaves keeps its objects.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").empty().data
            'a'
        """
        return self._shallow()

    def _set_nested(self, path: tuple[str, ...], item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if path != ("data",):
            raise self._key_error(path)
        self.update(item if isinstance(item, NonTensorDataBase) else registry.NonTensorData(item), inplace=inplace)

    def to_lazystack(self, dim: int = 0) -> Self:
        """Return this data, whose objects are held row by row already.

        Args:
            dim: a batch dimension. Default: 0.

        Raises:
            IndexError: there is no such dimension.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).to_lazystack().tolist()
            ['a', 'a']
        """
        shapes.wrap_dim(dim, len(self._batch_size))
        return self

    # -- what it holds ------------------------------------------------------------------------------------------------

    def _coded_objects(self) -> tuple[Sequence[Any], Tensor]:
        return self._objects, self._codes()

    @classmethod
    def _from_objects(cls, objects: Sequence[Any], codes: Tensor, device: torch.device | None) -> Any:
        return registry.stack_of(objects, codes, device, None)

    def _take_objects(self, new: Any) -> None:
        self._objects = new._objects
        self._store = new._store

    def _codes(self, start: int = 0) -> Tensor:
        """Return the codes: for each position the index of its object in ``_objects``, counted from ``start``."""
        raise NotImplementedError

    def _listed(self) -> Any:
        """Return the objects in nested lists."""
        raise NotImplementedError

    def tolist(
        self,
        *,
        convert_nodes: bool = True,
        convert_tensors: bool | str = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """Return the objects in nested lists, one level for each batch dimension; the object itself without any.

        Objects are returned as they are; the options for conversions have no effect.

        Args:
            convert_nodes: has no effect here.
            convert_tensors: has no effect here.
            tolist_first: has no effect here.
            as_linked_list: return a :class:`LinkedList`, which writes assigned items into this data. Default:
                ``False``.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).tolist()
            ['a', 'a']
        """
        nested = self._listed()
        return LinkedList(nested, td=self, depth=self.ndim) if as_linked_list and self._batch_size else nested

    def to_dict(
        self,
        *,
        retain_none: bool = True,
        convert_tensors: bool | str = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """Return the object, or nested lists of objects: the form of this data in ``to_dict`` of a collection.

        Args:
            retain_none: has no effect here.
            convert_tensors: has no effect here.
            tolist_first: has no effect here.
            as_linked_list: return a :class:`LinkedList`, which writes assigned items into this data. Default:
                ``False``.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).to_dict()
            'a'
        """
        return self._as_read() if as_linked_list else self._unwrapped()

    def numpy(self) -> Any:
        """Return the object, or nested lists of objects.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").numpy()
            'a'
        """
        return self.to_dict()

    def _as_array(self, dtype: Any = None) -> NDArray[Any]:
        """Return numbers as numbers, other objects as they are, in an array over the batch."""
        nested = self.tolist()
        if not self._batch_size:
            return np.asarray(nested)
        objects, _ = flatten_lists(nested, self.ndim)
        array: Any = np.empty(len(objects), object)
        for position, item in enumerate(objects):
            array[position] = item
        if all(isinstance(item, (Number, np.generic)) for item in objects):
            array = np.array(objects)
        shaped: NDArray[Any] = array.reshape(self._batch_size)
        return shaped

    def _one_tensor(self) -> Tensor:
        nested = self.tolist()
        try:
            return torch.as_tensor(nested)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"the objects of this {type_name(self)} are no tensor ({error}); take them with tolist()"
            ) from None

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """Return the same data in a new holder.

        Args:
            retain_none: has no effect here.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").to_tensordict().data
            'a'
        """
        return self._shallow()

    # -- copies -------------------------------------------------------------------------------------------------------

    def clone(self, recurse: bool = True, *, memory_format: torch.memory_format = torch.preserve_format) -> Self:
        """Return a copy.

        Args:
            recurse: copy the objects deeply. ``False`` copies only the holder. Default: ``True``.
            memory_format: has no effect here.

        Example:
            >>> config = {"lr": 0.1}
            >>> from tensorclass import NonTensorData
            >>> data = NonTensorData(config)
            >>> data.clone().data is config, data.clone(recurse=False).data is config
            (False, True)
        """
        new = self._shallow()
        if recurse:
            new._objects = copy_objects(self._objects)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = memo[id(self)] = self._shallow()
        new._objects = copy.deepcopy(self._objects, memo)
        return new

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            self._objects,
            dict(self._store),
            tuple(self._batch_size),
            self._device,
            self._names,
            self._metadata,
        )

    # -- operations on numbers change nothing, and neither does moving to a device -------------------------------------

    def apply(self, *args: Any, **kwargs: Any) -> Self:
        """Return the same data in a new holder: there are no tensors to apply a function to.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> import torch
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").apply(torch.abs).data
            'a'
        """
        return self._shallow()

    def named_apply(self, *args: Any, **kwargs: Any) -> Self:
        """Return the same data in a new holder: there are no tensors to apply a function to.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").named_apply(lambda key, value: value).data
            'a'
        """
        return self._shallow()

    def apply_(self, *args: Any, **kwargs: Any) -> Self:
        """Return this data: there are no tensors to apply a function to.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> import torch
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").apply_(torch.abs).data
            'a'
        """
        return self

    def _to_device(self, device: torch.device, non_blocking: bool) -> Self:
        return self._on(dict(self._store), device)

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        """Return the data with ``None`` at the new positions."""
        result: NonTensorDataBase = self
        for dim, (before, behind) in enumerate(pairs):
            if before < 0 or behind < 0:  # negative padding cuts positions off
                start = max(-before, 0)
                result = result.narrow(dim, start, result._batch_size[dim] - start - max(-behind, 0))
            more = [
                registry.NonTensorData(None, batch_size=shapes.with_size(result._batch_size, dim, max(count, 0)))
                for count in (before, behind)
            ]
            parts = [part for part in (more[0], result, more[1]) if part is result or part._batch_size[dim]]
            if len(parts) > 1:
                result = result._cat(parts, dim)
        return result

    # -- writing ------------------------------------------------------------------------------------------------------

    def _become(self, source: Any) -> None:
        self._check_objects(source._beside())
        super()._become(source)

    def _take_content(self, source: Any) -> None:
        if self.__class__ is not source.__class__:
            self.__class__ = source.__class__
        self._objects = source._objects
        self._store = dict(source._store)

    def _check_objects(self, objects: Sequence[Any]) -> None:
        """Raise if an object is a collection that holds this data."""
        for item in objects:
            if isinstance(item, Collection) and holds(item, self._store):
                raise contains_itself(self, "data")

    def _as_rows_of(self, source: Any, batch_size: Size) -> Any:
        """Convert an object, or other non-tensor data, to non-tensor data of a batch size."""
        if not isinstance(source, NonTensorDataBase):
            return registry.NonTensorData(source, batch_size=batch_size)
        return source._resized(batch_size)

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        if not isinstance(source, NonTensorDataBase):
            raise TypeError(f"cannot write a {type_name(source)} into non-tensor data")
        self._become(self._as_held(source._resized(self._batch_size)))
        return self

    def _as_held(self, source: NonTensorDataBase) -> NonTensorDataBase:
        """Convert ``source``, of this batch size, to the class of this holder, whose content it replaces."""
        raise NotImplementedError

    def update(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        is_leaf: IsLeaf | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Replace the object (or objects) in place.

        Args:
            input_dict_or_td: an object, or other non-tensor data. ``None`` changes nothing.
            clone: copy the objects. Default: ``False``.
            inplace: also write if the data is locked. Default: ``False``.
            non_blocking: has no effect here.
            keys_to_update: must be ``None``: there are no keys.
            is_leaf: has no effect here.
            update_batch_size: must be ``False``: set it for the collection that holds the data.
            ignore_lock: also write if the data is locked. Default: ``False``.
            kwargs: must be empty: there are no keys.

        Returns:
            This data.

        Raises:
            ValueError: keys or ``update_batch_size`` were given.
            RuntimeError: the data is locked.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).update("b").tolist()
            ['b', 'b']
        """
        if keys_to_update is not None or kwargs:
            raise ValueError(f"update: non-tensor data has no keys, got {list(kwargs or keys_to_update or ())}")
        if update_batch_size:
            raise ValueError("update: set the batch size of the collection that holds the data, with update_batch_size")
        if input_dict_or_td is None:
            return self
        if not (inplace or ignore_lock):
            self._check_unlocked()
        rows = self._as_rows_of(input_dict_or_td, self._batch_size)
        self._become(self._as_held(rows.clone() if clone else rows))
        return self

    def update_(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Write another object; see :meth:`update`. This also works if the data is locked.

        Args:
            input_dict_or_td: an object, or other non-tensor data. ``None`` changes nothing.
            clone: copy the objects. Default: ``False``.
            non_blocking: has no effect here.
            keys_to_update: must be ``None``: there are no keys.
            kwargs: must be empty: there are no keys.

        Returns:
            This data.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").update_("b").data
            'b'
        """
        return self.update(
            input_dict_or_td, clone, True, non_blocking=non_blocking, keys_to_update=keys_to_update, **kwargs
        )

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]  # the peer's name
        """Write the objects of other non-tensor data into this one, also if it is locked.

        Args:
            src: non-tensor data of a batch size that fits.
            non_blocking: has no effect here.

        Returns:
            This data.

        Raises:
            TypeError: ``src`` is not non-tensor data.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").copy_(NonTensorData("b")).data
            'b'
        """
        return self._copy(src, non_blocking)  # type: ignore[no-any-return]

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        if not isinstance(rows, NonTensorDataBase):
            raise RuntimeError(
                f"{dotted(path)}: cannot write a {type_name(rows)} into non-tensor data; nothing was written"
            )
        check_broadcast(path, self.shape[ndim:], rows.shape[row_ndim:], row_ndim)

    def _object_rows(self, rows: Collection, path: tuple[str, ...]) -> list[ObjectRows]:
        return [(path, self, rows)]

    def _stands_in_file(self) -> bool:
        """Return whether the objects were read from files into which the tensors beside them are written."""
        return getattr(self, "_in_file", False)

    def _holds(self, index: tuple[Any, ...], rows: NonTensorDataBase) -> bool:
        """Return whether writing rows would change nothing."""
        if self._one([self, rows]):
            return True
        here: NonTensorDataBase = self[index] if index else self
        return bool(here._compared(rows, True).all())

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Collection:
        if not isinstance(rows, NonTensorDataBase):
            raise TypeError(f"cannot write a {type_name(rows)} into non-tensor data")
        if self._one([self, rows]):
            return self

        def write(codes: list[Tensor]) -> Tensor:
            target = codes[0].clone()
            target[tuple([on_cpu(item) for item in index])] = codes[1]
            return target

        return self._written(self._joined_objects([self, rows], write, self._names))

    def _written(self, new: NonTensorDataBase) -> Collection:
        """Return the data to store after rows were written: ``new``, or this data with its content."""
        new._lock = self._lock
        return new

    def _allocated(self, batch_size: Size) -> Self:
        return registry.NonTensorData(None, batch_size=batch_size, device=self._device)  # type: ignore[return-value]

    def __setitem__(self, index: Any, value: Any) -> None:
        prepared = prepare_index(index, self._batch_size, writing=True)
        if not isinstance(value, NonTensorDataBase):
            value = registry.NonTensorData(value, batch_size=shapes.indexed(self._batch_size, prepared))
        self._become(self._write(prepared, value))

    def _write_items(self, index: tuple[Any, ...], value: Any, depth: int) -> None:
        """Write what is assigned to items of a linked list: an object, or lists of objects, nested ``depth`` deep."""
        prepared = prepare_index(index, self._batch_size, writing=True)
        size = shapes.indexed(self._batch_size, prepared)
        if isinstance(value, list) and size:
            flat, lengths = flatten_lists(value, depth)
            if tuple(lengths) != tuple(size):
                raise ValueError(f"expected (nested) lists of the lengths {list(size)}, got {lengths}; nothing changed")
            value = registry.stack_of(tuple(flat), codes_row_by_row(size), None, None)
        self[prepared] = value

    # -- combining ----------------------------------------------------------------------------------------------------

    def _one(self, items: list[Any]) -> bool:
        """Return whether all items are one and the same object, so that the result is one object, too."""
        return False

    def _joined_objects(
        self, items: list[Any], join: Callable[[list[Tensor]], Tensor], names: Names
    ) -> NonTensorDataBase:
        """Return the objects of several data, for which ``join`` joins the codes."""
        return _from_codes(*join_objects(items, join), self._device, names)

    def _stack(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(NonTensorDataBase, items, None)
        return self._joined_objects(items, lambda codes: torch.stack(codes, dim), self._names_stacked(items, dim))

    def _captures(self) -> bool:
        """Return whether one object stays one when the batch gets a new dimension."""
        return CAPTURE.current() is not False

    def _cat(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(NonTensorDataBase, items, dim)
        return self._joined_objects(items, lambda codes: torch.cat(codes, dim), self._names)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Any:
        if not isinstance(other, NonTensorDataBase) or self._one([self, other]):
            return self._shallow()

        def choose(codes: list[Tensor]) -> Tensor:
            chosen: Tensor = _where_value(path, condition.cpu(), codes[0], codes[1], None)
            return chosen

        return self._joined_objects([self, other], choose, self._names)

    def repeat_interleave(self, repeats: Tensor | int, *args: Any, **kwargs: Any) -> Self:
        """Repeat each object along a batch dimension, as :func:`torch.repeat_interleave` does.

        Args:
            repeats: the number of repetitions, one for all positions or an int64 tensor with one for each.
            args: further arguments of the method of collections: ``dim``.
            kwargs: further arguments of the method of collections: ``dim``, ``output_size``.

        Returns:
            New data; objects are shared.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack("a", "b").repeat_interleave(2, dim=0).tolist()
            ['a', 'a', 'b', 'b']
        """
        return super().repeat_interleave(on_cpu(repeats), *args, **kwargs)

    # -- comparison ---------------------------------------------------------------------------------------------------

    def _compared(self, other: Any, equal: bool) -> Any:
        """Compare position by position. The result is a boolean tensor over the batch."""
        if not isinstance(other, NonTensorDataBase):
            other = registry.NonTensorData(other)
        size = shapes.broadcast(self._batch_size, other._batch_size)
        if isinstance(self, registry.NonTensorData) and isinstance(other, registry.NonTensorData):
            return torch.full(size, same_object(self._objects[0], other._objects[0]) == equal)
        ours, theirs = (to_lists(item._codes().expand(size).flatten()) for item in (self, other))
        a, b = (realize(item._objects, len(ours)) for item in (self, other))
        same = [same_object(a[i], b[j]) == equal for i, j in zip(ours, theirs, strict=True)]
        return torch.tensor(same, dtype=torch.bool).reshape(size)

    def eq(self, other: Any, *, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return a boolean tensor over the batch that is true where objects are equal.

        Args:
            other: an object, or non-tensor data whose batch size broadcasts with this one.
            default: has no effect here, because objects have no keys.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).eq("a")
            tensor([True, True])
        """
        return self._compared(other, True)

    def ne(self, other: Any, *, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return a boolean tensor over the batch that is true where objects differ.

        Args:
            other: an object, or non-tensor data whose batch size broadcasts with this one.
            default: has no effect here, because objects have no keys.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).ne("a")
            tensor([False, False])
        """
        return self._compared(other, False)

    def __eq__(self, other: Any) -> Any:
        return self._compared(other, True)

    def __ne__(self, other: Any) -> Any:
        return self._compared(other, False)

    def _objects_for_repr(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            shown = self._objects_for_repr()
            return f"{type_name(self)}({shown}, batch_size={self._batch_size}, device={self._device})"
        except Exception as error:  # half-constructed, or an object whose repr raises
            return failed_text(self, error)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


def _from_codes(objects: Sequence[Any], codes: Tensor, device: torch.device | None, names: Names) -> NonTensorDataBase:
    if codes.ndim:
        return registry.stack_of(objects, codes, device, names)
    return registry.NonTensorData(objects[int(codes)], device=device)


@allow_function
def _rebuild(
    cls: Any,
    objects: Sequence[Any],
    store: dict[str, Any],
    batch_size: tuple[int, ...],
    device: torch.device | None,
    names: Names,
    metadata: dict[Any, Any] | None,
) -> NonTensorDataBase:
    given: Any = cls
    new: NonTensorDataBase = object.__new__(
        found(given[0], NonTensorDataBase)[given[1]] if isinstance(cls, tuple) else found(given, NonTensorDataBase)  # type: ignore[index]
    )
    new._begin_with(objects, store, Size(batch_size), device, names, metadata)
    return new


registry.register(NonTensorDataBase)
