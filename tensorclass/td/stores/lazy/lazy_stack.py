"""Lazy stacks: collections that are stacked when a key is read.

Making one copies nothing. Its parts may differ in their keys and in the shapes of their values. Writing a key writes
into the parts. Operations that work on each part stay lazy (``lazy`` in ``td/operations.py``), as do indices that
select parts; operations that need all values in one tensor stack them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import registry, shapes
from tensorclass.td.apply import _KEEP, MappedCall
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.hidden_members import member_values, with_members
from tensorclass.td.operands import WiderOperand
from tensorclass.td.operations import OPERATIONS
from tensorclass.td.pickling import with_buffer_views
from tensorclass.td.printing.field_previews import FirstRows, shape_of_rows
from tensorclass.td.safe_unpickling import allow_function, found, written
from tensorclass.td.stores.store_classes import on_store
from tensorclass.td.tensordict import TensorDict

from .lazy_base import check_one_size, checked, lazily, stack_dimension, stacked_names, stacked_size
from .lazy_base import dense_stack_tds as dense_stack_tds
from .lazy_base import lazy_stack as lazy_stack
from .lazy_base import maybe_dense_stack as maybe_dense_stack
from .lazy_keys import LazyKeys
from .lazy_rows import LazyRows
from .lazy_shapes import LazyShaping
from .lazy_store import Parts

if TYPE_CHECKING:
    from tensorclass.td.reduction_factories import Dim
    from tensorclass.td.shapes import Names

T = TypeVar("T", bound=TensorCollection)

#: parts at which ``repr`` looks: it takes no longer for more of them
_SHOWN_PARTS = 1000


class LazyStacked(LazyKeys, LazyRows, LazyShaping):
    """Methods of lazy stacks, in front of those of the class of their parts (see ``on_store``)."""

    __slots__ = ()

    # -- functions on the values --------------------------------------------------------------------------------------

    def _mapped(
        self,
        call: MappedCall,
        others: Any,
        path: Any,
        batch_size: Any = None,
        names: Any = _KEEP,
        inplace: bool = False,
        out: Any = None,
    ) -> Any:
        if batch_size is not None or out is not None:
            return super()._mapped(call, others, path, batch_size, names, inplace, out)
        items: list[Any] = [*self._store.items_]
        if inplace and not call.call_on_nested and call.is_leaf is None:
            items = [part._levels_now() for part in items]
        count = len(items)
        columns = [self._pieces(other) if isinstance(other, Collection) else [other] * count for other in others]
        of_parts = call._replace(propagate_lock=False)
        parts = [part._mapped(of_parts, tuple([column[i] for column in columns]), path) for i, part in enumerate(items)]
        if inplace:
            changes = [part._changes(own._store) for part, own in zip(items, parts, strict=True)]
            for part, own in zip(items, changes, strict=True):
                part._require(own, None, True)
            for part, own in zip(items, changes, strict=True):
                part._take_results(own)
            return self
        result = self._with_parts(parts)
        if names is not _KEEP:
            result._set_names(shapes.as_names(names, len(self._batch_size)))
        if call.propagate_lock and self._lock is not None:
            result.lock_()
        return result

    def _check_operand(self, operand: Any, path: tuple[str, ...]) -> None:
        for part, piece in zip(self._store.items_, self._pieces(operand), strict=True):
            part._check_operand(piece, path)

    def to(self, *args: Any, batch_size: Any = None, **kwargs: Any) -> Self:
        result = self._undone_by_part([part.to(*args, **kwargs) for part in member_values(self._store.items_)])
        if batch_size is not None:
            result = result._shallow() if result is self else result
            result._set_batch_size(batch_size)
        return result

    def _take_values(self, source: Collection) -> Self:
        if source is not self and isinstance(source, LazyStacked):  # keys that not all parts have are no items
            self._check_unlocked()
            for part, new in zip(self._store.items_, source._store.items_, strict=True):
                part._take_values(new)
            self._batch_size, self._device = source._batch_size, source._device
            return self
        return super()._take_values(source)

    def all(self, dim: Dim = None, keepdim: bool = False) -> Any:
        if dim is None:
            return all(with_members(part).all() for part in self._store.items_)
        return super().all(dim, keepdim)

    def any(self, dim: Dim = None, keepdim: bool = False) -> Any:
        if dim is None:
            return any(part.any() for part in self._store.items_)
        return super().any(dim, keepdim)

    def _joined(self, dim: Any) -> Any:
        return self._densified()._joined(dim)

    def _gradient(self) -> Any:
        found = [part._gradient() for part in self._store.items_]
        if all(part is None for part in found):
            return None
        pairs = zip(found, self._store.items_, strict=True)
        return self._with_parts([own._same({}) if part is None else part for part, own in pairs])

    def _set_gradient(self, value: Any) -> None:
        pieces = self._pieces(value) if value is not None else [None] * len(self)
        for part, piece in zip(self._store.items_, pieces, strict=True):
            part._set_gradient(piece)

    def _set_data(self, value: Any) -> None:
        for part, piece in zip(self._store.items_, self._pieces(value), strict=True):
            part._set_data(piece)

    # -- one by one ---------------------------------------------------------------------------------------------------

    def to_lazystack(self, dim: int = 0) -> Self:
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        if dim == self._store.dim:
            return self
        return lazily(list(with_members(self).unbind(dim)), dim, None, self._name_list()[dim])  # type: ignore[no-any-return]

    def tolist(self, *args: Any, **kwargs: Any) -> Any:
        if self._store.dim == 0:
            return [part.tolist(*args, **kwargs) for part in self._store.items_]
        return super().tolist(*args, **kwargs)

    def _items_for_repr(self) -> Any:
        shown: list[tuple[str, Any]] = []
        for key in sorted(self._store):
            column = self._store.column(key)
            try:
                shown.append((key, self._store[key]))
            except RuntimeError:
                shapes_of = [tuple(value.shape) for value in column[:4]]
                more = ", ..." if len(column) > 4 else ""
                shown.append((key, _Text(f"{type_name(column[0])}(shapes={shapes_of}{more})")))
        return shown

    def _value_for_repr(self, key: str) -> Any:
        few, count, dim = self._first_parts()._store, len(self._store.items_), self._store.dim
        values = few.column(key)
        first = values[0]
        if not isinstance(first, Tensor):
            value = few[key]
            if few is not self._store and isinstance(value, Collection):
                value._batch_size = shapes.with_size(value._batch_size, dim, count)
            return value
        shapes_found = [value.shape for value in values]
        sizes = shape_of_rows(shapes_found)
        outline = torch.empty(first.shape, dtype=first.dtype, device="meta")

        def first_rows(count: int) -> Any:
            few = [value if dim == 0 else value[:count] for value in values[:count]]
            return torch.stack(few, dim) if len({*shapes_found[:count]}) == 1 else few

        whole = (*sizes[:dim], count, *sizes[dim:])
        return FirstRows(outline, first_rows, whole, first.device)

    def _first_parts(self) -> Self:
        """Return the stack of the parts at which ``repr`` looks."""
        items = self._store.items_
        return self if len(items) <= _SHOWN_PARTS else self._with_parts(items[:_SHOWN_PARTS], self._store.dim)

    def _names_for_repr(self) -> list[str]:
        return super(LazyStacked, self._first_parts())._names_for_repr()

    def _values_for_repr(self) -> Iterable[Any]:
        return self._store.items_

    def _marks_for_repr(self) -> tuple[str, ...]:
        return (f"lazy stack of {self._batch_size[self._store.dim]}",)

    def __reduce__(self) -> Any:
        parts = with_buffer_views(self)._store
        options = (parts.name, parts.forms, parts.hook_in, parts.hook_out)
        return _rebuild, (
            written(self._dense), parts.items_, parts.dim, self._names, self._device, tuple(self._batch_size), options,
            self._lock is not None,
        )  # fmt: skip

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        new = memo[id(self)] = self._over([])
        new._store.items_ = copy.deepcopy(self._store.items_, memo)
        return new


class _Text:
    """A text that is its own ``repr``."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


@allow_function
def _rebuild(
    dense: Any, items: list[Any], dim: int, names: Names, device: Any, batch_size: Any, options: Any, locked: bool
) -> Any:
    new: Any = object.__new__(on_store(LazyStacked, found(dense, TensorCollection)))
    new._begin(Parts(items, dim, lazily), Size(batch_size), device, names)
    new._store.name, new._store.forms, new._store.hook_in, new._store.hook_out = options
    if locked:
        new.lock_()
    return new


# ---------------------------------------------------------------------------------------------------------------------
# operations on each part: `lazy` of a row


def _by_part(name: str, undone: bool) -> Callable[..., Any]:
    """Make a method that calls the method of each part, and that a ``with`` statement perhaps undoes in each part."""

    def method(self: LazyStacked, *args: Any, **kwargs: Any) -> Any:
        parts = [getattr(part, name)(*args, **kwargs) for part in member_values(self._store.items_)]
        return self._undone_by_part(parts) if undone else self._with_parts(parts)

    return method


def _promotes(operand: Any, data: LazyStacked) -> bool:
    """Return whether a tensor over the stack dimension alone has another dtype than a value."""
    if not isinstance(operand, Tensor) or operand.ndim != 1 or data._is_uneven():
        return False
    return any(leaf.dtype != operand.dtype for leaf in data._leaves())


def _with_operands(name: str, in_place: bool) -> Callable[..., Any]:
    """Make a point-wise method that splits operands over the batch for the parts."""

    def method(self: LazyStacked, *args: Any, **kwargs: Any) -> Any:
        if not in_place and self._store.dim == len(self._batch_size) - 1 and any(_promotes(arg, self) for arg in args):
            # a piece without dimensions would not promote dtypes as the whole tensor does
            return getattr(with_members(self._densified()), name)(*args, **kwargs).to_lazystack(self._store.dim)
        try:
            columns = [self._pieces(arg) for arg in args]
            named = {key: self._pieces(value) for key, value in kwargs.items()}
        except WiderOperand as error:
            if in_place:
                raise
            return getattr(with_members(self._expanded_for(error)), name)(*args, **kwargs)
        parts: list[Any] = []
        if in_place:
            for column in columns:
                for part, piece in zip(self._store.items_, column, strict=True):
                    if isinstance(piece, Collection):
                        part._check_operand(piece, ())
        for i, part in enumerate(self._store.items_):
            own = {key: column[i] for key, column in named.items()}
            result = getattr(with_members(part), name)(*[column[i] for column in columns], **own)
            if result is NotImplemented:
                return NotImplemented
            parts.append(result)
        return self._with_parts(parts)

    return method


def _named(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__ = name
    method.__qualname__ = f"LazyStacked.{name}"
    own: Any = getattr(TensorCollection, name)
    method.__doc__ = getattr(own, "__doc__", None)
    method.__wrapped__ = own  # type: ignore[attr-defined]  # for inspect.signature
    return method


for _row in OPERATIONS:
    for _name, _in_place in _row.methods.items() if _row.lazy else ():
        _splits = _row.lazy == "with operands"
        _made = _with_operands(_name, _in_place) if _splits else _by_part(_name, _row.lazy == "undone by part")
        setattr(LazyStacked, _name, _named(_made, _name))


# ---------------------------------------------------------------------------------------------------------------------
# the untyped one


class LazyStackedTensorDict(LazyStacked, TensorDict):  # pyright: ignore[reportIncompatibleVariableOverride]  # its store
    """A lazy stack of TensorDicts. :func:`lazy_stack` makes one of any collections.

    Args:
        tensordicts: the parts.
        stack_dim: position of the new batch dimension. Default: 0.
        hook_out: function called with each value that is read; its result is returned.
        hook_in: function called with each value before it is written; its result is written.
        batch_size: batch size of a stack without parts.
        device: device to which the parts are moved. Default: theirs.
        names: a name or ``None`` for each batch dimension.
        stack_dim_name: name of the new dimension.
        strict_shape: raise if batch sizes differ. Default: ``False``.

    Raises:
        RuntimeError: the numbers of batch dimensions differ, or ``batch_size`` is not that of the parts.
        TypeError: a part is not a collection.

    Example:
        >>> from tensorclass import LazyStackedTensorDict, TensorDict
        >>> data = LazyStackedTensorDict(TensorDict({"a": 1}), TensorDict({"a": 2, "b": 3}))
        >>> data["a"], data[1]["b"]
        (tensor([1, 2]), tensor(3))
    """

    __slots__ = ()
    _dense = TensorDict

    def __init__(
        self,
        *tensordicts: Any,
        stack_dim: int = 0,
        hook_out: Callable[[Any], Any] | None = None,
        hook_in: Callable[[Any], Any] | None = None,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
    ) -> None:
        items = checked(tensordicts, "LazyStackedTensorDict") if tensordicts else []
        dim = stack_dimension(stack_dim, len(items[0]._batch_size) if items else 0, "LazyStackedTensorDict")
        if strict_shape and items:
            check_one_size(items, "LazyStackedTensorDict")
        if device is not None:
            items = [item.to(device) for item in items]
        devices = {item._device for item in items}
        store = Parts(items, dim, lazily)
        store.hook_in, store.hook_out = hook_in, hook_out
        store.name = stack_dim_name if items else None
        size = stacked_size(items, dim) if items else shapes.as_size([0] if batch_size is None else batch_size)
        if items and batch_size is not None and shapes.as_size(batch_size) != size:
            raise RuntimeError(
                f"LazyStackedTensorDict: the parts make the batch size {list(size)}, got batch_size={list(batch_size)}"
            )
        own_names = stacked_names(items, dim, stack_dim_name) if items else None
        self._begin(store, size, devices.pop() if len(devices) == 1 else as_device(device), own_names)
        if names is not None:
            self._set_names(shapes.as_names(names, len(self._batch_size)))

    @classmethod
    def lazy_stack(  # type: ignore[override]
        cls,
        items: Sequence[T],
        dim: int = 0,
        *,
        device: DeviceLike | None = None,
        out: T | None = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
        as_list: bool = False,
        as_padded_tensor: bool = False,
        as_nested_tensor: bool = False,
        padding_side: str = "right",
        layout: torch.layout | None = None,
        padding_value: float | int | bool = 0.0,
    ) -> T:
        """Stack collections along a new batch dimension lazily: values are stacked when a key is read.

        The same as the function :func:`tensorclass.lazy_stack`.

        Args:
            items: one or more collections with the same number of batch dimensions. Their keys and shapes may differ.
            dim: position of the new dimension. Default: 0.
            device: device to which the collections are moved. Default: theirs.
            out: lazy stack that the values are written to, and that is returned.
            stack_dim_name: name of the new dimension.
            strict_shape: raise if batch sizes differ. Default: ``False``.
            as_list: read values of different shapes as a list.
            as_padded_tensor: read values of different shapes as one padded tensor.
            as_nested_tensor: read values of different shapes as a nested tensor.
            padding_side: ``"right"`` (the default) or ``"left"``, for ``as_padded_tensor``.
            layout: ``torch.strided`` or ``torch.jagged``, for ``as_nested_tensor``.
            padding_value: the number between values and padded shape. Default: 0.

        Returns:
            A collection of the class of the first, which holds the collections themselves.

        Raises:
            RuntimeError: ``items`` is empty, or the numbers of batch dimensions differ.
            TypeError: an item is not a collection, or of another class.
            ValueError: dimension names differ.

        Example:
            >>> import torch
            >>> from tensorclass import LazyStackedTensorDict, TensorDict
            >>> rows = [TensorDict({"a": torch.ones(1)}), TensorDict({"a": torch.ones(2)})]
            >>> LazyStackedTensorDict.lazy_stack(rows, as_padded_tensor=True)["a"]
            tensor([[1., 0.],
                    [1., 1.]])
        """
        return lazy_stack(
            items, dim, out=out, device=device, stack_dim_name=stack_dim_name, strict_shape=strict_shape,
            as_list=as_list, as_padded_tensor=as_padded_tensor, as_nested_tensor=as_nested_tensor,
            padding_side=padding_side, layout=layout, padding_value=padding_value,
        )  # fmt: skip

    @classmethod
    def maybe_dense_stack(  # type: ignore[override]
        cls, items: Sequence[T], dim: int = 0, out: T | None = None, strict: bool = False
    ) -> T:
        """Stack collections to a plain collection if their keys and shapes allow it, else to a lazy stack.

        The same as the function :func:`tensorclass.maybe_dense_stack`.

        Args:
            items: one or more collections.
            dim: position of the new dimension. Default: 0.
            out: collection that the result is written to, and that is returned.
            strict: raise if keys or shapes differ, as :func:`tensorclass.stack` does. Default: ``False``.

        Returns:
            A new collection with copies of the values, or a lazy stack that holds the collections themselves.

        Raises:
            RuntimeError: ``items`` is empty, or the numbers of batch dimensions differ.

        Example:
            >>> from tensorclass import LazyStackedTensorDict, TensorDict
            >>> rows = [TensorDict({"a": 1}), TensorDict({"a": 2})]
            >>> type(LazyStackedTensorDict.maybe_dense_stack(rows)).__name__
            'TensorDict'
        """
        return maybe_dense_stack(items, dim, out=out, strict=strict)

    @classmethod
    def from_list(
        cls,
        input: Sequence[Mapping[Any, Any]],
        *,
        auto_batch_size: bool | None = None,
        batch_size: Any = None,
        device: Any = None,
        batch_dims: int | None = None,
        names: Any = None,
        lazy: bool | None = None,
        strict: bool = True,
    ) -> Any:
        """Make a lazy stack of one TensorDict per mapping.

        Args:
            input: the rows: mappings, or collections, which are taken as they are.
            auto_batch_size: infer the batch size of each row; by default only if ``batch_dims`` is given.
            batch_size: the batch size of the result, which begins with the number of rows.
            device: where the values are moved; by default they stay where they are.
            batch_dims: the largest number of dimensions of an inferred batch size of a row; unlimited by default.
            names: a name or ``None`` for each batch dimension of the result.
            lazy: ``True`` or ``None``; the result is always lazy.
            strict: with ``False``, drop keys that are not fields of a nested record, and warn about them.

        Returns:
            A lazy stack along dimension 0. Its tensors share memory with those of the rows.

        Raises:
            ValueError: ``lazy`` is ``False``, or the batch size does not fit the rows.

        Example:
            >>> from tensorclass import LazyStackedTensorDict
            >>> LazyStackedTensorDict.from_list([{"a": 1}, {"a": 2}])["a"]
            tensor([1, 2])
        """
        if lazy is False:
            raise ValueError("LazyStackedTensorDict.from_list: for lazy=False, call TensorDict.from_list")
        options = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "device": device, "strict": strict}
        return _of_mappings("from_list", list(input), 0, None, batch_size, names, options)

    @classmethod
    def from_dict(  # type: ignore[override]
        cls,
        input_dict: Any,
        *other: Any,
        auto_batch_size: bool = False,
        batch_size: Any = None,
        device: Any = None,
        batch_dims: int | None = None,
        stack_dim_name: str | None = None,
        stack_dim: int = 0,
        names: Any = None,
        strict: bool = True,
    ) -> Any:
        """Make a lazy stack of one TensorDict per mapping.

        Args:
            input_dict: the parts: a list of mappings or collections, or a mapping whose values are the parts; or the
                first part, if ``other`` is given.
            other: the other parts.
            auto_batch_size: infer the batch size of each part. Default: ``False``.
            batch_size: the batch size of the result, which has the number of parts at ``stack_dim``.
            device: where the values are moved; by default they stay where they are.
            batch_dims: the largest number of dimensions of an inferred batch size of a part; unlimited by default.
            stack_dim_name: name of the new dimension.
            stack_dim: position of the new dimension. Default: 0.
            names: a name or ``None`` for each batch dimension of the result.
            strict: with ``False``, drop keys that are not fields of a nested record, and warn about them.

        Returns:
            A lazy stack. Its tensors share memory with those of the mappings.

        Raises:
            ValueError: the batch size does not fit the parts.

        Example:
            >>> from tensorclass import LazyStackedTensorDict
            >>> LazyStackedTensorDict.from_dict({"first": {"a": 1}, "second": {"a": 2}})["a"]
            tensor([1, 2])
        """
        first: Any = input_dict
        entries = [first, *other] if other else [*(first.values() if isinstance(input_dict, Mapping) else first)]
        options = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "device": device, "strict": strict}
        return _of_mappings("from_dict", entries, stack_dim, stack_dim_name, batch_size, names, options)


def _of_mappings(
    what: str,
    entries: list[Any],
    dim: int,
    name: str | None,
    batch_size: Any,
    names: Any,
    options: Mapping[str, Any],
) -> LazyStackedTensorDict:
    """Stack mappings, converted by ``TensorDict.from_dict`` with ``options``, and collections."""
    what = f"LazyStackedTensorDict.{what}"
    below: Size | None = None
    if batch_size is not None:
        size = shapes.as_size(batch_size)
        at = dim + len(size) if dim < 0 else dim
        if not 0 <= at < len(size) or size[at] != len(entries):
            raise ValueError(
                f"{what}: expected a batch size with {len(entries)}, the number of parts, at dimension {dim}; got "
                f"{list(size)}"
            )
        below = Size(shapes.without(size, (at,)))
    items: list[Any] = [
        entry if isinstance(entry, TensorCollection) else TensorDict.from_dict(entry, batch_size=below, **options)
        for entry in entries
    ]
    for position, item in enumerate(items):
        if below is not None and item._batch_size != below:
            raise ValueError(
                f"{what}: part {position}: expected the batch size {list(below)}, as batch_size says, got "
                f"{list(item._batch_size)}"
            )
    result: Any
    if items:
        result = lazy_stack(items, dim, stack_dim_name=name)
    else:
        result = LazyStackedTensorDict(batch_size=batch_size, device=options["device"])
    if names is not None:
        result.names = names
    return result  # type: ignore[no-any-return]


setattr(TensorDict, f"_class_on_{LazyStacked.__name__}", LazyStackedTensorDict)
registry.register(LazyStacked, lazily, lazy_stack, maybe_dense_stack)


LazyStackedTensorDict._register()
