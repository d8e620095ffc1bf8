"""First-class dimensions (``functorch.dim``) as indices: ``data[d0]``, ``data[:, d0]``.

A tensor that is indexed by such a dimension becomes a ``functorch.dim.Tensor``, which is no ``torch.Tensor``. It is
bound to the dimension, which its shape no longer has. So the batch size of ``data[d0]`` is that of ``data[0]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Size, Tensor

#: the module of the classes. It is not imported for programs that do not use it.
_MODULE = "functorch.dim"


class BoundIndex(IndexError):
    """An index with a first-class dimension, where none can be used."""

    def __init__(self, item: object) -> None:
        super().__init__(
            f"first-class dimensions, such as {item!r}, index collections of tensors, in data[{item!r}] and "
            f"data[{item!r}] = value; they index no objects of single rows, and write into no lazy stacks and files"
        )


def is_bound(value: object) -> bool:
    """Return whether a value is a first-class dimension, or a tensor that is bound to one.

    Example:
        >>> import torch
        >>> from functorch.dim import dims
        >>> d0 = dims()
        >>> is_bound(d0), is_bound(torch.zeros(3)[d0]), is_bound(torch.zeros(3))
        (True, True, False)
    """
    return type(value).__module__ == _MODULE


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor, bound or not."""
    return isinstance(value, Tensor) or is_bound(value)


def is_bound_item(item: Any) -> bool:
    """Return whether an item of an index is a first-class dimension, or several that split one dimension."""
    given = item
    return is_bound(item) or (isinstance(item, (tuple, list)) and bool(given) and all(map(is_bound, given)))


def split(
    index: Any, batch_size: Size, prepare: Callable[[Any, Size], tuple[Any, ...]]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Prepare an index with first-class dimensions.

    Args:
        index: the index.
        batch_size: of the collection.
        prepare: prepares an index without them: :func:`~tensorclass.td.prepared_index.prepare_index`.

    Returns:
        The index for tensors, and the same one with a position for each first-class dimension, which gives the batch
        size and the names of the result.
    """
    bound: dict[int, Any] = {}
    items: list[Any] = []
    given = index
    whole: Any = given if isinstance(index, tuple) else (given,)
    for item in whole:
        position = item
        if is_bound_item(item):
            shape = tuple(item.shape) if type(item).__name__ == "Tensor" else ()  # of a bound index tensor
            position = torch.zeros(shape, dtype=torch.int64)
            bound[id(position)] = item
        items.append(position)
    plain = prepare(tuple(items), batch_size)
    return tuple([bound.get(id(item), item) for item in plain]), plain
