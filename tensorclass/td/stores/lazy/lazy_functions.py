"""Functions that stack collections lazily, or to a plain collection where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tensorclass.td import registry, shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.hidden_members import with_members
from tensorclass.td.stack_and_cat import stack

from .lazy_base import checked, forms_given, lazily

T = TypeVar("T", bound=TensorCollection)


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
