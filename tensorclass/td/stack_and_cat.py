"""Combine several collections: stack, cat, where and merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.help_links import help_link
from tensorclass.support.printable import printable, type_name

from . import jagged, native, registry, shapes
from .collection import Collection
from .hidden_members import with_members
from .keys import NestedKey, dotted, unravel_key_to_tuple

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store

T = TypeVar("T", bound="Combining")  # a collection or a column
C = TypeVar("C", bound="TensorCollection")


@native.tries("stack")
def stack(input: Sequence[T], dim: int = 0, *, out: T | None = None) -> T:
    """Stack collections of one batch size and the same keys along a new batch dimension.

    Non-tensor data that is equal in all collections stays one object; otherwise it becomes a :class:`NonTensorStack`.

    Args:
        input: the collections, at least one.
        dim: the position of the new dimension; ``-1`` is after all batch dimensions. Default: 0.
        out: a collection of the result's batch size to write into, in place for keys that it has.

    Returns:
        A new collection with copies of the tensors, on the device of the first collection, with its dimension names if
        all collections share them; ``out`` if it is given.

    Raises:
        RuntimeError: batch sizes, keys, or shapes after the batch dimensions differ.
        TypeError: an item is not a collection.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, stack
        >>> rows = [TensorDict({"a": torch.zeros(3)}) for _ in range(4)]
        >>> stack(rows)["a"].shape
        torch.Size([4, 3])
    """
    items = _collections(input, "stack")
    first = items[0]
    if out is not None:
        return _write_out(stack(items, dim), out)  # type: ignore[no-any-return]
    return first._stack(items, shapes.unsqueezed_dim(len(first._batch_size), dim))


def _collections(input: Sequence[T], what: str) -> Sequence[T]:
    """Return the items as a list. Raise if there are none, or if the first is no collection."""
    items: Sequence[T] = input
    if type(input) is not list:
        items = list(input)
    if not items:
        raise RuntimeError(f"{what}: expected at least one collection, got an empty sequence")
    if not isinstance(items[0], Combining):
        raise TypeError(f"{what}: expected collections only, item 0 is a {type_name(items[0])}")
    return items


@native.tries("cat")
def cat(input: Sequence[T], dim: int = 0, *, out: T | None = None) -> T:
    """Concatenate collections with the same keys along an existing batch dimension.

    Args:
        input: the collections, at least one.
        dim: the batch dimension. All other batch dimensions must agree. Default: 0.
        out: a collection of the result's batch size to write into, in place for keys that it has.

    Returns:
        A new collection with copies of the tensors, on the device of the first collection, with its dimension names;
        ``out`` if it is given.

    Raises:
        RuntimeError: batch sizes (other than along ``dim``), keys, or shapes after the batch dimensions differ.
        TypeError: an item is not a collection.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, cat
        >>> cat([TensorDict({"a": torch.zeros(3)}, [3]), TensorDict({"a": torch.zeros(2)}, [2])]).batch_size
        torch.Size([5])
    """
    items = _collections(input, "cat")
    first = items[0]
    if out is not None:
        return _write_out(cat(items, dim), out)  # type: ignore[no-any-return]
    try:
        wrapped = shapes.wrap_dim(dim, len(first._batch_size))
    except IndexError as error:
        raise RuntimeError(f"cat: {error}; the batch size is {list(first._batch_size)}") from None
    return first._cat(items, wrapped)


def where(
    condition: Tensor,
    input: T | Tensor | float,
    other: T | Tensor | float,
    *,
    out: T | None = None,
    pad: float | None = None,
) -> T:
    """Return the elements of ``input`` where a condition is true, and those of ``other`` elsewhere.

    Args:
        condition: a boolean tensor whose shape broadcasts to the batch size.
        input: a collection; or one number or tensor over the batch for all values if ``other`` is a collection.
        other: a collection, or one number or tensor over the batch for all values.
        out: a collection of the result's batch size to write into, in place for keys that it has.
        pad: the value of keys that only one of the two collections has. Without it such a key is an error.

    Returns:
        A new collection with copies of the tensors; ``out`` if it is given.

    Raises:
        KeyError: only one of the two collections has a key, and there is no ``pad``.
        RuntimeError: shapes do not broadcast.
        TypeError: neither ``input`` nor ``other`` is a collection.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, where
        >>> where(torch.tensor([True, False]), TensorDict({"a": torch.ones(2)}, [2]), 0)["a"]
        tensor([1., 0.])
    """
    chosen: Any = (
        with_members(input).where(condition, other, out=out, pad=pad) if isinstance(input, Combining) else None
    )
    if chosen is None and isinstance(other, Combining):
        chosen = with_members(other).where(~condition, input, out=out, pad=pad)
    if chosen is None:
        raise TypeError(f"where: expected at least one collection, got {type_name(input)}, {type_name(other)}")
    return chosen  # type: ignore[no-any-return]


def merge_tensordicts(
    *tensordicts: T,
    callback_exist: Callable[..., Any] | Mapping[NestedKey, Callable[..., Any]] | None = None,
) -> T:
    """Merge the keys of several collections into one collection, which shares their values.

    Args:
        tensordicts: at least two collections, whose batch sizes begin with that of the first.
        callback_exist: called with all values of a key that every collection has, returns the value of the result; or a
            mapping of such functions by key. Otherwise, and for objects, the first collection with the key gives the
            value.

    Returns:
        A collection with the class, batch size, names and device of the first.

    Raises:
        RuntimeError: there are fewer than two, or a value's shape does not begin with the batch size of the first.
        TypeError: an item is not a collection, or a key is nested in some collections and a leaf in others.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, merge_tensordicts
        >>> merged = merge_tensordicts(TensorDict({"a": 1, "b": 2}), TensorDict({"b": 3}), callback_exist=torch.add)
        >>> merged["a"], merged["b"]
        (tensor(1), tensor(5))
    """
    if len(tensordicts) < 2:
        raise RuntimeError(f"merge_tensordicts: expected at least two collections, got {len(tensordicts)}")
    for item in tensordicts:
        if not isinstance(item, Collection):
            raise TypeError(f"merge_tensordicts: expected collections, got a {type_name(item)}")
    given: Any = callback_exist
    if isinstance(callback_exist, Mapping):
        by_path = {unravel_key_to_tuple(key): function for key, function in given.items()}
        return _merged(list(tensordicts), by_path.get, len(tensordicts), ())  # type: ignore[no-any-return]
    return _merged(list(tensordicts), lambda path: given, len(tensordicts), ())  # type: ignore[no-any-return]


def _merged(items: list[Any], callback: Callable[..., Any], count: int, path: tuple[str, ...]) -> Any:
    """Merge one level. ``items`` are the collections that have this level, ``count`` is the number of all collections.

    ``callback`` returns the function for a nested key, or ``None``.
    """
    result = items[0]._same({})
    stores: list[Any] = [item._now() for item in items]
    for store in stores:
        for key, value in store.items():
            if key in result._store:
                continue
            values: list[Any] = [other[key] for other in stores if key in other]
            here = (*path, key)
            trees = [isinstance(other, Collection) and other._is_tree() for other in values]
            if any(trees):
                if not all(trees):
                    raise TypeError(
                        f"merge_tensordicts: {'.'.join(here)!r} is a nested collection in some collections and a leaf "
                        "in others"
                    )
                value = _merged(values, callback, count, here)
            elif len(values) == count and not isinstance(value, Collection):
                function = callback(here)
                value = value if function is None else function(*values)
            result._set(key, value)
    return result


class Combining(Collection):
    """The methods behind :func:`stack`, :func:`cat` and :func:`where`. Non-tensor data overrides them."""

    __slots__ = ()

    def _check_classes(self, what: str, items: Sequence[Any]) -> None:
        """Raise if items of other classes cannot be joined with this one. Records override this."""

    def _fitting_stores(self, what: str, items: Any, store: Store, dim: int | None) -> tuple[list[Store], int]:
        """Return the entries of all items, and the sum of their sizes along ``dim``. Raise if they do not fit together.

        All are copied before the first value is computed, as in :meth:`_now`. ``store`` is the copy of this one.
        """
        cls, batch_size, count = self.__class__, self._batch_size, len(store)
        one_class = True
        total = 0
        stores: list[Store] = []
        for item in items:
            entries, size = item._store, item._batch_size
            if type(entries) is DICT:
                entries = store if item is self else {**entries}
            if item.__class__ is not cls:
                one_class = False
            if len(entries) != count or (
                size != batch_size
                and (dim is None or shapes.with_size(size, dim, 0) != shapes.with_size(batch_size, dim, 0))
            ):
                raise RuntimeError(f"{what}: the collections do not fit together")  # _cannot_combine says why
            stores.append(entries)
            if dim is not None:
                total += size[dim]
        if not one_class:
            self._check_classes(what, items)
        if not count:
            self._check_kinds(what, items)
        return stores, total

    def _stack(self, items: Any, dim: int) -> Self:
        batch_size, names = self._batch_size, self._names and shapes.names_inserted(_shared_names(items), dim)
        store = {**self._store}
        key: str | None = None
        try:
            stores, _ = self._fitting_stores("stack", items, store, None)
            for key, value in store.items():
                column: list[Any] = [s[key] for s in stores]
                if type(value) is not Tensor and isinstance(value, Combining):
                    # directly, because torch.stack would dispatch back to it (see torch_functions)
                    store[key] = value._stack(column, dim)
                else:
                    store[key] = torch.stack(column, dim)
        except RecursionError:
            raise
        except (AttributeError, KeyError, RuntimeError, TypeError) as error:
            self._cannot_combine("stack", items, None, error, key)
        return self._like(store, shapes.inserted(batch_size, dim, len(items)), names)

    def _cat(self, items: Any, dim: int) -> Self:
        batch_size, names = self._batch_size, self._names
        store = {**self._store}
        key: str | None = None
        total = 0
        try:
            stores, total = self._fitting_stores("cat", items, store, dim)
            for key, value in store.items():
                column: list[Any] = [s[key] for s in stores]
                if type(value) is not Tensor and isinstance(value, Combining):
                    store[key] = value._cat(column, dim)
                else:
                    try:
                        store[key] = torch.cat(column, dim)
                    except (RuntimeError, ValueError):
                        if not jagged.any_nested(column):
                            raise
                        store[key] = jagged.cat_rows(column, dim)
        except RecursionError:
            raise
        except (AttributeError, KeyError, RuntimeError, TypeError, IndexError) as error:
            self._cannot_combine("cat", items, dim, error, key)
        return self._like(store, shapes.with_size(batch_size, dim, total), names)

    def _cannot_combine(
        self, what: str, items: list[Any], dim: int | None, error: Exception | None = None, key: str | None = None
    ) -> NoReturn:
        """Raise an error that says why the collections do not fit. Collections that fit do not pay for these checks.

        ``error`` was raised for the values under ``key``. They are not joined again: that would take twice the time at
        each level of a deep tree. Errors are ``from None``: one that was caught says the same, or less.
        """
        self._check_classes(what, items)
        for position, item in enumerate(items):
            if not isinstance(item, Collection):
                raise TypeError(f"{what}: expected collections only, item {position} is a {type_name(item)}") from None
        for position, item in enumerate(items):
            self._check_kinds(what, [item], position)
            if self._is_tree() and item._store.keys() != self._store.keys():
                missing, more = (
                    sorted(self._store.keys() - item._store.keys()),
                    sorted(item._store.keys() - self._store.keys()),
                )
                raise RuntimeError(
                    f"{what}: all collections need the same keys; item {position}"
                    + (f" lacks {missing}" if missing else "")
                    + (" and" if missing and more else "")
                    + (f" has {more} beyond those of item 0" if more else "")
                ) from None
            sizes = [list(self._batch_size), list(item._batch_size)]
            if dim is not None:
                sizes = [size[:dim] + size[dim + 1 :] for size in sizes]
            if sizes[0] != sizes[1]:
                raise RuntimeError(
                    f"{what}: all collections need the same batch size"
                    + (f" but for dimension {dim}" if dim is not None else "")
                    + f"; item 0 has {list(self._batch_size)}, item {position} has {list(item._batch_size)}"
                ) from None
        for position, item in enumerate(items if not self._is_tree() else ()):  # leaves of several kinds
            if type(item) is not type(self):
                raise self._other_kind(what, item, position) from None
        if key is not None and isinstance(error, (RuntimeError, TypeError, IndexError)):
            why = f"{what}: {printable(key)}: {str(error).removeprefix(f'{what}: ').removesuffix('.')}"
            column = [item._store.get(key) for item in items]
            if type(column[0]) is Tensor and len({getattr(value, "shape", None) for value in column}) > 1:
                why += (
                    "; pad_sequence pads rows of different lengths, lazy_stack keeps them, a field declared Ragged "
                    f"takes them{help_link('different-lengths')}"
                )
            raise RuntimeError(why) from None
        raise error if error is not None else RuntimeError(f"{what}: the collections do not fit together")

    def _check_kinds(self, what: str, items: list[Any], first: int = 0) -> None:
        """Raise if non-tensor data and a nested collection are to be combined, also if neither has an entry."""
        for position, item in enumerate(items, first):
            if isinstance(item, Combining) and item._is_tree() != self._is_tree():
                raise self._other_kind(what, item, position) from None

    def _other_kind(self, what: str, item: object, position: int) -> RuntimeError:
        return RuntimeError(f"{what}: item 0 is a {type_name(self)}, item {position} a {type_name(item)}")

    @classmethod
    def stack(cls, input: Sequence[T], dim: int = 0, *, out: T | None = None) -> T:
        """Stack collections along a new batch dimension. See :func:`tensorclass.stack`.

        Args:
            input: the collections, at least one, of one batch size and with the same keys.
            dim: the position of the new dimension. Default: 0.
            out: a collection to write into.

        Returns:
            A new collection with copies of the tensors; ``out`` if it is given.

        Raises:
            RuntimeError: the collections do not fit together.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict.stack([TensorDict({"a": 1}), TensorDict({"a": 2})])["a"]
            tensor([1, 2])
        """
        return stack(input, dim, out=out)

    @classmethod
    def cat(cls, input: Sequence[T], dim: int = 0, *, out: T | None = None) -> T:
        """Concatenate collections along a batch dimension. See :func:`tensorclass.cat`.

        Args:
            input: the collections, at least one, with the same keys.
            dim: the batch dimension. Default: 0.
            out: a collection to write into.

        Returns:
            A new collection with copies of the tensors; ``out`` if it is given.

        Raises:
            RuntimeError: the collections do not fit together.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"a": torch.arange(2)}, [2])
            >>> TensorDict.cat([rows, rows])["a"]
            tensor([0, 1, 0, 1])
        """
        return cat(input, dim, out=out)

    @classmethod
    def lazy_stack(cls, input: Sequence[C], dim: int = 0, *, out: C | None = None, **kwargs: Any) -> C:
        """Stack collections lazily. See :func:`tensorclass.lazy_stack`.

        Args:
            input: the collections, of one batch size. Keys and shapes after the batch dimensions may differ.
            dim: the position of the new dimension. Default: 0.
            out: a collection to write into.
            kwargs: further options of :func:`tensorclass.lazy_stack`.

        Returns:
            A lazy stack on the collections themselves; ``out`` if it is given.

        Example:
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict.lazy_stack([TensorDict({"a": 1}), TensorDict({"a": 2})])
            >>> rows["a"]
            tensor([1, 2])
        """
        return registry.lazy_stack(input, dim, out=out, **kwargs)

    @classmethod
    def maybe_dense_stack(cls, input: Sequence[C], dim: int = 0, *, out: C | None = None, **kwargs: Any) -> C:
        """Stack collections, lazily if they do not fit together. See :func:`tensorclass.maybe_dense_stack`.

        Args:
            input: the collections, of one batch size.
            dim: the position of the new dimension. Default: 0.
            out: a collection to write into.
            kwargs: further options of :func:`tensorclass.lazy_stack`.

        Returns:
            A new collection with copies of the tensors, or a lazy stack on the collections; ``out`` if it is given.

        Example:
            >>> import torch
            >>> from tensorclass import LazyStackedTensorDict, TensorDict
            >>> rows = [TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3)})]
            >>> isinstance(TensorDict.maybe_dense_stack(rows), LazyStackedTensorDict)
            True
        """
        return registry.maybe_dense_stack(input, dim, out=out, **kwargs)

    def to_lazystack(self, dim: int = 0) -> Self:
        """Split a collection along a batch dimension into a lazy stack.

        Args:
            dim: the batch dimension. Default: 0.

        Returns:
            A lazy stack of the slices. Tensors share memory.

        Raises:
            RuntimeError: the dimension has size 0, and a lazy stack needs a component.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"a": torch.zeros(3)}, [3]).to_lazystack()
            >>> rows.append(TensorDict({"a": torch.ones(())}))
            >>> rows["a"]
            tensor([0., 0., 0., 1.])
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        if not self._batch_size[dim]:
            raise RuntimeError(
                f"to_lazystack: dimension {dim} of {list(self._batch_size)} has size 0, and a lazy stack needs at "
                "least one component"
            )
        return registry.lazily(list(with_members(self).unbind(dim)), dim, name=self._name_list()[dim])  # type: ignore[no-any-return]

    def densify(self, layout: torch.layout = torch.jagged) -> Self:
        """Return a collection with every lazy stack read: equal shapes are stacked, others become nested tensors.

        Args:
            layout: the layout of nested tensors. ``torch.strided`` takes any shapes, but its tensors have no shape of
                their own, and no collection takes them in.

        Returns:
            A new collection. Tensors outside of lazy stacks are shared.

        Raises:
            RuntimeError: the shapes under a key differ in more than one dimension, which ``torch.jagged`` cannot hold,
                or the stack dimension is not the first. :meth:`to_padded_tensor` takes both.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict, lazy_stack
            >>> rows = lazy_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3)})])
            >>> rows.densify()["a"].offsets()
            tensor([0, 2, 5])
        """
        return self._same(
            {
                key: with_members(value).densify(layout) if isinstance(value, Combining) else value
                for key, value in self._now().items()
            }
        )

    def _as_padded(self, padding: float) -> tuple[Any, Tensor | None]:
        """Return the padded form of this value, and the mask of items that are not padding if it is ragged rows."""
        return with_members(self).to_padded_tensor(padding), None

    def to_padded_tensor(self, padding: float = 0.0, mask_key: NestedKey | None = None) -> Self:
        """Return a collection with padded tensors in place of nested tensors, ragged rows and uneven lazy stacks.

        Args:
            padding: the value of padded elements. Default: 0.
            mask_key: the key under which to set a boolean mask that is true where the batch is not padded, for a batch
                with a dimension of varying size (its size is ``-1``); or that is true at the items of ragged rows,
                ``[*batch, longest]``. Default: no mask.

        Returns:
            A new collection. Other tensors are shared.

        Raises:
            RuntimeError: ``mask_key`` is given and nothing varies, or ragged rows of one collection differ in length;
                a record holds ragged rows, whose field takes no padded tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict, lazy_stack
            >>> rows = lazy_stack([TensorDict({"a": torch.ones(1)}), TensorDict({"a": torch.ones(2)})])
            >>> rows.densify(torch.jagged).to_padded_tensor()["a"]
            tensor([[1., 0.],
                    [1., 1.]])
        """
        store: Store = {}
        batch_size = self._batch_size
        ndim = len(batch_size)
        mask: Tensor | None = None
        masks: dict[str, Tensor] = {}
        size = batch_size
        for key, value in self._now().items():
            if isinstance(value, Combining):
                store[key], own = value._as_padded(padding)
                if own is not None:
                    masks[key] = own
            elif value.is_nested:
                store[key] = jagged.as_padded(value, padding)
                if -1 in batch_size:
                    size = store[key].shape[:ndim]
                    marks = [part.new_ones(part.shape[: ndim - 1], dtype=torch.bool) for part in value.unbind(0)]
                    mask = jagged.as_padded(jagged.as_nested(marks, layout=value.layout), False)
            else:
                store[key] = value
        if masks and not isinstance(self, registry.TensorDict):
            raise RuntimeError(
                f"to_padded_tensor: {list(masks)} of a {type_name(self)} hold ragged rows, and take no padded "
                "tensor; pad record.to_tensordict(), or a field: record.field.to_padded()"
            )
        result = self._like(store, size, self._names)
        if mask_key is not None:
            if mask is None and masks:
                mask, *others = masks.values()
                if any(not torch.equal(mask, other) for other in others):
                    raise RuntimeError(
                        f"to_padded_tensor: mask_key: one mask cannot mark the items of {list(masks)}, whose rows "
                        "differ in length; pad each: values, mask = data[key].to_padded()"
                    )
            if mask is None:
                raise RuntimeError(
                    "to_padded_tensor: mask_key: a mask marks padded elements of the batch, and no batch dimension "
                    f"varies here (the batch size is {list(size)}); leave mask_key out"
                )
            with_members(result).set(mask_key, mask)  # type: ignore[attr-defined]
        return result

    if TYPE_CHECKING:

        def unbind(self, dim: int = 0) -> tuple[Self, ...]: ...

    def where(
        self,
        condition: Tensor,
        other: Self | Tensor | complex,
        *,
        out: Self | None = None,
        pad: float | None = None,
        update_batch_size: bool = False,
    ) -> Self:
        """Return the elements of this collection where a condition is true, and those of ``other`` elsewhere.

        Args:
            condition: a boolean tensor whose shape broadcasts to the batch size.
            other: a collection, or one number or tensor over the batch for all values.
            out: a collection to write into, in place for keys that it has.
            pad: the value of keys that only one of the two collections has. Without it such a key is an error.
            update_batch_size: let ``out`` take the batch size and the values of the result if the batch sizes differ.
                Default: ``False``.

        Returns:
            A new collection with copies of the tensors; ``out`` if it is given.

        Raises:
            KeyError: only one of the two collections has a key, and there is no ``pad``.
            RuntimeError: shapes do not broadcast.
            TypeError: the condition is not a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.tensor([1, 2])}, [2])
            >>> data.where(data["a"] > 1, 0)["a"]
            tensor([0, 2])
        """
        if not isinstance(condition, Tensor):
            raise TypeError(f"where: expected a boolean tensor as the condition, got a {type_name(condition)}")
        result = self._where(condition, other, pad, ())
        if out is not None and update_batch_size and out._batch_size != result._batch_size:
            return out.update(result, update_batch_size=True)  # type: ignore[attr-defined,no-any-return]
        return result if out is None else _write_out(result, out)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Self:
        if not isinstance(other, Collection):
            return self._same(
                {key: _where_value((*path, key), condition, value, other, pad) for key, value in self._now().items()}
            )
        ours = self._now()
        theirs: Any = other._now()
        store: Store = {}
        spread: dict[int, Tensor] = {}  # number of dimensions of a value -> the condition, broadcastable to it
        for key, value in ours.items():
            operand = theirs.get(key)
            if type(value) is Tensor and type(operand) is Tensor and value.shape == operand.shape:
                ndim = value.ndim
                if ndim not in spread:
                    spread[ndim] = _append_dims(condition, ndim)
                result = torch.where(spread[ndim], value, operand)
                if result.shape == value.shape:
                    store[key] = result
                    continue
            here = (*path, key)
            if key not in theirs:
                store[key] = _where_value(here, condition, value, _padding_of(here, pad, "other", value), pad)
            elif isinstance(theirs[key], Collection) and isinstance(value, Collection):
                if value._is_tree() != theirs[key]._is_tree():
                    raise _cannot_choose(here, value, theirs[key])
                store[key] = value._where(condition, theirs[key], pad, here)
            elif isinstance(theirs[key], Collection) or isinstance(value, Collection):
                raise _cannot_choose(here, value, theirs[key])
            else:
                store[key] = _where_value(here, condition, value, theirs[key], pad)
        for key, value in theirs.items():
            if key not in ours:
                here = (*path, key)
                store[key] = _where_value(here, ~condition, value, _padding_of(here, pad, "first", value), pad)
        return self._same(store)


def _where_value(path: tuple[str, ...], condition: Tensor, value: Any, other: Any, pad: float | None) -> Any:
    """Choose one value where ``condition`` is true, a tensor or a number elsewhere."""
    if isinstance(value, Combining):
        return value._where(condition, other, pad, path)
    if isinstance(other, Tensor) and other.ndim:
        other = _append_dims(other, value.ndim)
    try:
        result = torch.where(_append_dims(condition, value.ndim), value, other)
    except RuntimeError as error:
        raise RuntimeError(f"where: {dotted(path)}: {error}") from None
    if result.shape != value.shape:
        raise RuntimeError(
            f"where: {dotted(path)}: its shape {list(value.shape)} would become {list(result.shape)}; the condition "
            f"has shape {list(condition.shape)}, it must broadcast to the batch size"
        )
    return result


def _padding_of(path: tuple[str, ...], pad: float | None, side: str, value: Any) -> Any:
    """Return the replacement for a value that one collection lacks, in the dtype of the other's value."""
    if pad is None:
        raise KeyError(f"where: {'.'.join(path)!r} is missing in the {side} collection; give its value as pad=")
    return torch.full_like(value, pad) if isinstance(value, Tensor) or value._is_tree() else pad


def _cannot_choose(path: tuple[str, ...], value: Any, other: Any) -> RuntimeError:
    return RuntimeError(f"where: {dotted(path)}: cannot choose between a {type_name(value)} and a {type_name(other)}")


def _shared_names(items: list[Any]) -> shapes.Names:
    """Return the dimension names that all items share, ``None`` if they differ."""
    names: shapes.Names = items[0]._names
    return names if all(getattr(item, "_names", None) == names for item in items) else None


def _write_out(result: Any, out: Any) -> Any:
    """Write a result into ``out`` and return it."""
    if out._batch_size != result._batch_size:
        raise RuntimeError(
            f"out: expected the batch size of the result, {list(result._batch_size)}, got {list(out._batch_size)}"
        )
    return with_members(out).update(result, inplace=True)


def _append_dims(tensor: Tensor, ndim: int) -> Tensor:
    """Append dimensions of size 1 so that a tensor over the batch broadcasts against a value of ``ndim`` dimensions."""
    return tensor.reshape(tensor.shape + (1,) * (ndim - tensor.ndim)) if tensor.ndim < ndim else tensor
