"""The base of lazy stacks: their parts, metadata and tree; and the functions that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Size, Tensor
from torch.utils import _pytree
from typing_extensions import Self

from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import type_name
from tensorclass.td import pytree, registry, shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.get import MISSING
from tensorclass.td.hidden_members import with_members
from tensorclass.td.keys import dotted
from tensorclass.td.operands import WiderOperand
from tensorclass.td.same_named_classes import not_of_class
from tensorclass.td.stack_and_cat import stack
from tensorclass.td.stores.store_classes import OnStore, dense_class, on_store
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import COPY_IT, holds

from .lazy_store import FORMS, Columns, Parts

if TYPE_CHECKING:
    from tensorclass.td.shapes import Names

T = TypeVar("T", bound=TensorCollection)


def lazily(items: list[Any], dim: int, like: Parts | None = None, name: str | None = None) -> Any:
    """Make a lazy stack of checked collections, of the class of the first.

    Args:
        items: the parts, at least one.
        dim: position of the new dimension.
        like: store whose forms and hooks the new one takes over.
        name: name of the new dimension.
    """
    first = items[0]
    if not first._is_tree():  # non-tensor data holds an object for each row anyway
        return first._stack(items, dim)
    device, names, size = first._device, first._names, first._batch_size
    even, locked = True, True
    for item in items:
        if item._batch_size != size:
            even = False
        if item._device != device:
            device = None
        if item._names != names:
            stacked_size(items, dim)  # its error is clearer if the numbers of dimensions differ
            raise names_differ(items)
        if item._lock is None:
            locked = False
    new: Any = object.__new__(on_store(registry.LazyStacked, first.__class__))
    new._store = store = Parts(items, dim, lazily) if like is None else like.like(items, dim)
    store.name = name
    new._batch_size = shapes.inserted(size, dim, len(items)) if even else stacked_size(items, dim)
    new._device = device
    new._names = names if names is None and name is None else stacked_names(items, dim, name)
    new._lock = () if locked else None
    return new


def stacked_size(items: Sequence[Any], dim: int) -> Size:
    """Return the batch size of a stack, with -1 for sizes that differ between the parts."""
    size = items[0]._batch_size
    for item in items:
        if len(item._batch_size) != len(size):
            sizes = [list(item._batch_size) for item in items]
            raise RuntimeError(f"a lazy stack needs parts with as many batch dimensions each, got batch sizes {sizes}")
        if item._batch_size != size:
            size = Size([a if a == b else -1 for a, b in zip(size, item._batch_size, strict=True)])
    return shapes.inserted(size, dim, len(items))


def stacked_names(items: Sequence[Any], dim: int, name: str | None = None) -> Names:
    names: Names = items[0]._names
    if any(item._names != names for item in items):
        raise names_differ(items)
    if names is None and name is None:
        return None
    return shapes.names_inserted(names or (None,) * len(items[0]._batch_size), dim, name)


def names_differ(items: Sequence[Any]) -> ValueError:
    return ValueError(
        f"lazy_stack: the dimension names of the collections differ: {[item._name_list() for item in items[:4]]}"
    )


def checked(items: Sequence[Any], what: str) -> list[Any]:
    """Check that all items are collections with the same number of batch dimensions; return them as a list."""
    found = list(items)
    if not found:
        raise RuntimeError(f"{what}: expected at least one collection, got an empty sequence")
    cls = found[0].__class__
    if issubclass(cls, TensorCollection):
        ndim = len(found[0]._batch_size)
        for item in found:
            if type(item) is not cls or len(item._batch_size) != ndim:
                break
        else:
            return found
    for position, item in enumerate(found):
        if not isinstance(item, TensorCollection):
            raise TypeError(f"{what}: expected collections only, item {position} is a {type_name(item)}")
        if len(item._batch_size) != len(found[0]._batch_size):
            raise RuntimeError(
                f"{what}: all collections need the same number of batch dimensions; item 0 has the batch size "
                f"{list(found[0]._batch_size)}, item {position} has {list(item._batch_size)}"
            )
    check_classes(found, what)
    return found


def _check_size(got: Size, sizes: Sequence[int]) -> None:
    """Raise if the batch size of a new part differs from that of the others, where ``-1`` stands for any size."""
    if len(got) != len(sizes) or any(a not in (-1, b) for a, b in zip(sizes, got, strict=True)):
        raise ValueError(f"insert: the parts have the batch size {[*sizes]}, the new one has {[*got]}")


def check_classes(items: list[Any], what: str) -> None:
    cls: Any = dense_class(items[0].__class__)
    for position, item in enumerate(items):
        if not issubclass(cls, TensorDict) and not isinstance(item, cls):
            raise not_of_class(what, cls, position, item)


def _even(first: Any, other: Any) -> bool:
    """Return whether two parts have the same keys with values of the same shapes."""
    if isinstance(first, LazyParts) or isinstance(other, LazyParts):
        pairs = zip(first._nodes(), other._nodes(), strict=False)
        return type(first) is type(other) and all(_even(a, b) for a, b in pairs)
    ours, theirs = first._store, other._store
    if ours.keys() != theirs.keys():
        return False
    for key, value in ours.items():
        their = theirs[key]
        if with_members(value).shape != with_members(their).shape:
            return False
        if isinstance(value, Collection) and value._is_tree() and not _even(value, their):
            return False
    return True


def forms_given(forms: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(forms.keys() - FORMS.keys()):
        raise TypeError(f"unknown arguments {unknown}; expected some of {sorted(FORMS)}{did_you_mean(unknown, FORMS)}")
    return {name: value for name, value in forms.items() if value != FORMS[name]}


class LazyParts(OnStore):
    """The parts of a lazy stack, its metadata, and its tree."""

    __slots__ = ()

    if TYPE_CHECKING:
        _store: Parts  # pyright: ignore[reportIncompatibleVariableOverride]  # no other store comes here

    @classmethod
    def _register(cls) -> None:
        pytree.register(cls, _flatten, _unflatten, _flatten_with_keys)

    # -- its parts ----------------------------------------------------------------------------------------------------

    @property
    def tensordicts(self) -> list[Any]:
        """The parts.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> len(lazy_stack([TensorDict({"a": 1}), TensorDict({"a": 2})]).tensordicts)
            2
        """
        return list(self._store.items_)

    @property
    def stack_dim(self) -> int:
        """The batch dimension along which the parts are stacked.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> lazy_stack([TensorDict(batch_size=[4]), TensorDict(batch_size=[4])], 1).stack_dim
            1
        """
        return self._store.dim

    @property
    def hook_in(self) -> Callable[[Any], Any] | None:
        """Function that is called with each value before it is written; its result is written.

        Example:
            >>> from tensorclass import LazyStackedTensorDict, TensorDict
            >>> data = LazyStackedTensorDict(TensorDict(a=1), TensorDict(a=2), hook_in=lambda value: value * 10)
            >>> data["a"] = data["a"]
            >>> data["a"]
            tensor([10, 20])
        """
        return self._store.hook_in

    @hook_in.setter
    def hook_in(self, hook: Callable[[Any], Any] | None) -> None:
        self._store.hook_in = hook

    @property
    def hook_out(self) -> Callable[[Any], Any] | None:
        """Function that is called with each value that is read; its result is returned.

        Example:
            >>> from tensorclass import LazyStackedTensorDict, TensorDict
            >>> LazyStackedTensorDict(TensorDict(a=1), TensorDict(a=2), hook_out=lambda value: value * 10)["a"]
            tensor([10, 20])
        """
        return self._store.hook_out

    @hook_out.setter
    def hook_out(self, hook: Callable[[Any], Any] | None) -> None:
        self._store.hook_out = hook

    def _with_parts(self, items: list[Any], dim: int | None = None, name: Any = MISSING) -> Self:
        """Return a lazy stack of other parts with the same forms, hooks and name; itself if no part differs."""
        store = self._store
        if dim is None and all(a is b for a, b in zip(items, store.items_, strict=True)):
            return self
        if not items:
            return self._densified()
        return lazily(items, store.dim if dim is None else dim, store, store.name if name is MISSING else name)  # type: ignore[no-any-return]

    def _is_ragged(self) -> bool:
        """Return whether the parts differ in their batch sizes."""
        return -1 in self._batch_size

    def _is_uneven(self) -> bool:
        """Return whether the parts differ in their batch sizes, their keys, or the shapes of their values."""
        items = self._store.items_
        return self._is_ragged() or any(not _even(items[0], item) for item in items[1:])

    def append(self, tensordict: Any) -> None:
        """Append a part.

        Args:
            tensordict: the part.

        Raises:
            TypeError: it is not a collection, or of another class.
            ValueError: its batch size (if all parts share one) or its dimension names differ from those of the parts.
            RuntimeError: the stack is locked.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> data = lazy_stack([TensorDict({"a": 1})])
            >>> data.append(TensorDict({"a": 2}))
            >>> data["a"]
            tensor([1, 2])
        """
        self.insert(len(self._store.items_), tensordict)

    def insert(self, index: int, tensordict: Any) -> None:
        """Insert a part before the one at ``index``.

        Args:
            index: position among the parts.
            tensordict: the new part, a collection.

        Raises:
            TypeError: it is not a collection, or of another class.
            ValueError: its batch size (if all parts share one) or its dimension names differ from those of the parts.
            RuntimeError: the stack is locked.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> data = lazy_stack([TensorDict({"a": 1})])
            >>> data.insert(0, TensorDict({"a": 0}))
            >>> data["a"]
            tensor([0, 1])
        """
        self._check_unlocked()
        parts = self._store
        if not isinstance(tensordict, TensorCollection):
            raise TypeError(f"insert: expected a collection, got a {type_name(tensordict)}")
        if holds(tensordict, parts):
            raise ValueError(f"insert: a {type_name(self)} cannot be, or be below, one of its own parts; {COPY_IT}")
        items, got = parts.items_, tensordict._batch_size
        if items:
            first = items[0]
            if got != first._batch_size:
                _check_size(got, shapes.without(self._batch_size, (parts.dim,)))
            if tensordict.__class__ is not first.__class__:
                check_classes([first, tensordict], "insert")
            if tensordict._names != first._names:
                raise names_differ([first, tensordict])
            size = shapes.with_size(self._batch_size, parts.dim, len(items) + 1)
        else:
            size = shapes.inserted(got, parts.dim, 1)
        items.insert(index, tensordict if self._device is None else tensordict.to(self._device))
        self._batch_size = size

    def extend(self, tensordict: Any) -> None:
        """Append several parts.

        Args:
            tensordict: a list of collections, or a collection whose rows along the stack dimension are appended.

        Raises:
            ValueError: batch sizes or dimension names differ. The stack is unchanged.
            RuntimeError: the stack is locked.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> data = lazy_stack([TensorDict({"a": 1})])
            >>> data.extend([TensorDict({"a": 2}), TensorDict({"a": 3})])
            >>> data["a"]
            tensor([1, 2, 3])
        """
        self._check_unlocked()
        new = tensordict.unbind(self.stack_dim) if isinstance(tensordict, TensorCollection) else list(tensordict)
        before, size = list(self._store.items_), self._batch_size
        try:
            for item in new:
                self.append(item)
        except BaseException:
            self._store.items_[:] = before
            self._batch_size = size
            raise

    def valid_keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Any:
        """Return the keys that all parts have: the same as :meth:`keys`.

        Args:
            include_nested: include keys of nested collections, as tuples. Default: ``False``.
            leaves_only: include only keys of tensors, or of leaves by ``is_leaf``. Default: ``False``.
            is_leaf: called with the class of a value; returns whether it is a leaf. Nothing below a leaf is visited.
                Default: collections are not leaves.
            sort: sort alphabetically. Default: ``False``.

        Returns:
            A view that follows the collection.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> list(lazy_stack([TensorDict({"a": 1}), TensorDict({"a": 2, "b": 3})]).valid_keys())
            ['a']
        """
        return with_members(self).keys(include_nested, leaves_only, is_leaf, sort=sort)

    # -- metadata -----------------------------------------------------------------------------------------------------

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        dim, count = self._store.dim, len(self._store.items_)
        if len(size) <= dim or size[dim] != count:
            raise RuntimeError(
                f"batch_size: {list(size)} does not fit {dotted(path) or 'a lazy stack'} of {count} parts along "
                f"dimension {dim}. Nothing was changed"
            )
        for part in self._store.items_:
            part._check_batch_size(Size(shapes.without(size, (dim,))), path)

    def _check_behind(self, size: Size) -> None:
        for part in self._store.items_:
            part._check_behind(Size(shapes.without(size, (self._store.dim,))))

    def _take_batch_size(self, size: Size) -> None:
        for part in self._store.items_:
            part._take_batch_size(Size(shapes.without(size, (self._store.dim,))))
        self._batch_size = size
        self._names = shapes.names_fitted(self._names, len(size))

    def _set_names(self, names: Names) -> None:
        self._names = names
        self._store.name = names[self._store.dim] if names else None
        for part in self._store.items_:
            part._set_names(names and shapes.names_without(names, (self._store.dim,)))

    def _restore_names(self, names: Names) -> None:
        self._names = names
        self._store.name = names[self._store.dim] if names else None

    def _clear_device(self) -> None:
        self._device = None
        for part in self._store.items_:
            part._clear_device()

    def _set_device(self, device: torch.device) -> None:
        self._device = device
        for part in self._store.items_:
            part._set_device(device)

    def numel(self) -> int:
        return sum(part.numel() for part in self._store.items_) if self._is_ragged() else super().numel()

    # -- the tree -----------------------------------------------------------------------------------------------------

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        batch_size, dim = Size(shapes.as_sequence(size)), self._store.dim
        if not kwargs.get("empty_lazy") or dim >= len(batch_size):
            return super()._new(name, size, args, kwargs)
        below = shapes.without(batch_size, (dim,))
        device = kwargs.get("device", MISSING)
        like = self._store.items_[0] if self._store.items_ else self._dense._from_mapping({}, below, None, None)
        # at least one, which gives the stack its class
        parts = [
            with_members(like).empty(recurse=True, batch_size=below, device=device, names=None)
            for _ in range(max(batch_size[dim], 1))
        ]
        result = lazily(parts, dim, self._store)
        del result._store.items_[batch_size[dim] :]
        result._batch_size = batch_size
        return result

    def _nodes(self) -> list[Any]:
        return self._store.items_

    def _holds_values(self) -> bool:
        return False

    def _beside(self) -> list[Any]:
        return self._store.items_

    def _leaves(self) -> Iterator[Tensor]:
        for part in self._store.items_:
            yield from part._leaves()

    def _leaves_and_buffers(self) -> Iterator[Tensor]:
        for part in self._store.items_:
            yield from part._leaves_and_buffers()

    def _bytes(self) -> int:
        return sum(part._bytes() for part in self._store.items_)

    def _pieces(self, value: Any) -> list[Any]:
        """Return the operand of each part: its share of a collection or a tensor over the batch, else ``value``."""
        dim, count, ndim = self._store.dim, len(self._store.items_), len(self._batch_size)
        given: Any = value
        if isinstance(value, LazyParts) and value._store.dim == dim and len(value._store.items_) == count:
            return value._store.items_
        if isinstance(value, Collection):
            if len(value._batch_size) <= dim or value._batch_size[dim] != count:
                raise RuntimeError(
                    f"expected a collection of the batch size {list(self._batch_size)}, got {list(value._batch_size)}"
                )
            return list(with_members(value).unbind(dim))  # type: ignore[attr-defined]
        if isinstance(value, Tensor) and value.ndim:
            at = dim - (ndim - value.ndim)  # aligned with the last batch dimensions, as broadcasting does
            if value.ndim > ndim or (at >= 0 and value.shape[at] not in (1, count)):
                raise WiderOperand(self._batch_size, value.shape)
            if at < 0:
                return [value] * count
            return list(value.unbind(at)) if value.shape[at] == count else [value.select(at, 0)] * count
        if isinstance(value, Mapping):
            return self._pieces(TensorDict(given, self._batch_size))
        return [value] * count

    def _aligned_parts(self, operand: Any) -> Any:
        return zip(self._store.items_, self._pieces(operand), strict=True)

    def _now(self) -> Any:
        return Columns(self._store)

    def _levels_now(self) -> Self:
        new = self._over([part._levels_now() for part in self._store.items_])
        new._lock = self._lock
        return new

    def _over(self, items: list[Any]) -> Self:
        """Return a lazy stack of parts that differ from those of this one in nothing that it knows."""
        new = object.__new__(type(self))
        new._begin(self._store.like(items, self._store.dim), self._batch_size, self._device, self._names)
        new._store.name = self._store.name
        return new

    def _shallow(self) -> Self:
        items = [part._shallow() for part in self._store.items_]
        return lazily(items, self._store.dim, self._store, self._store.name) if items else self._densified()


def _flatten(collection: Any) -> tuple[list[Any], Any]:
    try:
        dense = collection._densified()
    except RecursionError:
        raise
    except RuntimeError:
        parts = collection._store
        return list(parts.items_), (None, parts.dim, parts.name)
    return pytree._flatten(dense)


def _flatten_with_keys(collection: Any) -> tuple[list[tuple[Any, Any]], Any]:
    children, context = _flatten(collection)
    if context[0] is None:
        return [(_pytree.SequenceKey(i), child) for i, child in enumerate(children)], context
    return [(_pytree.MappingKey(key), child) for key, child in zip(context[1], children, strict=True)], context


def _unflatten(values: Any, context: Any) -> Any:
    if context[0] is None:
        return lazily(list(values), context[1], None, context[2])
    return pytree._unflatten(values, context)


# -- functions that stack collections lazily, or to a plain collection where that is possible --------------------------


def stack_dimension(dim: int, ndim: int, what: str) -> int:
    """Return the position of the new dimension, for collections of ``ndim`` batch dimensions."""
    try:
        return shapes.unsqueezed_dim(ndim, dim)
    except IndexError as error:
        raise RuntimeError(f"{what}: {error}") from None


def lazy_stack(
    input: Sequence[T],
    dim: int = 0,
    *,
    out: T | None = None,
    device: DeviceLike | None = None,
    stack_dim_name: str | None = None,
    strict_shape: bool = False,
    **forms: Any,
) -> T:
    """Stack collections along a new batch dimension lazily: values are stacked when a key is read.

    Args:
        input: one or more collections with the same number of batch dimensions. Their keys and shapes may differ: a
            lazy stack has the keys that all of them have.
        dim: position of the new dimension. Default: 0.
        out: lazy stack that the values are written to, and that is returned.
        device: device to which the collections are moved. Default: theirs.
        stack_dim_name: name of the new dimension.
        strict_shape: raise if batch sizes differ; otherwise such a size is ``-1`` in the result. Default: ``False``.
        forms: form in which values of different shapes are read, as in :meth:`LazyStackedTensorDict.get`: ``as_list``,
            ``as_nested_tensor``, ``as_padded_tensor``, ``padding_side``, ``padding_value``, ``layout``. Without a form,
            reading such a key raises.

    Returns:
        A collection of the class of the first, which holds the collections themselves.

    Raises:
        RuntimeError: ``input`` is empty, or the numbers of batch dimensions differ.
        TypeError: an item is not a collection, or of another class.
        ValueError: dimension names differ.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, lazy_stack
        >>> rows = lazy_stack(
        ...     [TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3), "b": torch.zeros(())})]
        ... )
        >>> rows.batch_size, list(rows.keys()), rows.get("a", as_padded_tensor=True).shape
        (torch.Size([2]), ['a'], torch.Size([2, 3]))
    """
    items: list[Any] = [*input]
    items = checked(items, "lazy_stack")
    dim = stack_dimension(dim, len(items[0]._batch_size), "lazy_stack")
    if strict_shape:
        check_one_size(items, "lazy_stack")
    if device is not None:
        items = [with_members(item).to(device) for item in items]
    if out is not None:
        return _into(lazily(items, dim), out)  # type: ignore[no-any-return]
    result = lazily(items, dim, name=stack_dim_name)
    if forms and result._is_tree():  # forms are for tensors
        result._store.forms = forms_given(forms)
    return result  # type: ignore[no-any-return]


def _into(result: Any, out: Any) -> Any:
    if out._batch_size != result._batch_size:
        raise RuntimeError(
            f"out: expected the batch size of the result, {list(result._batch_size)}, got {list(out._batch_size)}"
        )
    return with_members(out).update(result, inplace=True)


def check_one_size(items: list[Any], what: str) -> None:
    """Raise if batch sizes differ."""
    for position, item in enumerate(items):
        if item._batch_size != items[0]._batch_size:
            raise RuntimeError(
                f"{what}: all collections need the same batch size; item 0 has {list(items[0]._batch_size)}, item "
                f"{position} has {list(item._batch_size)}"
            )


def maybe_dense_stack(
    input: Sequence[T], dim: int = 0, *, out: T | None = None, strict: bool = False, **kwargs: Any
) -> T:
    """Stack collections with :func:`stack` if their keys and shapes allow it, else with :func:`lazy_stack`.

    Args:
        input: one or more collections.
        dim: position of the new dimension. Default: 0.
        out: collection that the result is written to, and that is returned.
        strict: always use :func:`stack`, which raises if keys or shapes differ. Default: ``False``.
        kwargs: options of :func:`lazy_stack`.

    Returns:
        A new collection with copies of the values, or a lazy stack that holds the collections themselves.

    Raises:
        RuntimeError: ``input`` is empty, or the numbers of batch dimensions differ.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, maybe_dense_stack
        >>> type(maybe_dense_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3)})])).__name__
        'LazyStackedTensorDict'
    """
    items = checked(input, "maybe_dense_stack")
    if strict:
        return stack(items, dim, out=out)  # type: ignore[no-any-return]
    try:
        return stack(items, dim, out=out)  # type: ignore[no-any-return]
    except RecursionError:
        raise
    except RuntimeError:
        return lazy_stack(items, dim, out=out, **kwargs)  # type: ignore[no-any-return]


def dense_stack_tds(td_list: Sequence[T] | T, dim: int | None = None) -> T:
    """Stack collections, or the parts of a lazy stack, to a plain collection if their shapes allow it.

    Args:
        td_list: collections, or a lazy stack of them.
        dim: position of the new dimension. Default: that of a lazy stack.

    Returns:
        A plain collection with copies of the values, or a lazy stack if keys or shapes differ.

    Raises:
        ValueError: ``dim`` is missing, or is not the one of the lazy stack.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, dense_stack_tds, lazy_stack
        >>> type(dense_stack_tds(lazy_stack([TensorDict({"a": 1}), TensorDict({"a": 2})]))).__name__
        'TensorDict'
    """
    if isinstance(td_list, registry.LazyStacked):
        known = td_list.stack_dim
        if dim is not None and dim not in (known, known - td_list.ndim):
            raise ValueError(f"dense_stack_tds: the lazy stack has the stack dimension {known}, got dim={dim}")
        return maybe_dense_stack(td_list.tensordicts, known)  # type: ignore[no-any-return]
    if dim is None:
        raise ValueError("dense_stack_tds: dim is needed for a list of collections")
    return maybe_dense_stack(td_list, dim)  # type: ignore[arg-type]
