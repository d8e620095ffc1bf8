"""The buffer of items that rows make: sequences of numbers, arrays, tensors, nested tensors of torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from tensorclass.support.printable import type_name
from tensorclass.td.value_checks import as_tensor, is_array


def join_rows(rows: Sequence[Any], dtype: torch.dtype | None = None) -> Tensor:
    """Join the items of rows into one tensor ``[items, *item shape]``.

    Args:
        rows: each a sequence of numbers, an array, a tensor, or ``None`` for a row without a value.
        dtype: of the items. Default: as :func:`torch.tensor` infers it; float for no items.

    Raises:
        ValueError: the items of rows differ in shape. The message names the row.
        TypeError: an item is not a number. The message names the row.

    Example:
        >>> join_rows([[1, 2], None, [3]])
        tensor([1, 2, 3])
    """
    present = [row for row in rows if row is not None and len(row)]
    if not present:
        return _no_items(rows, dtype)
    try:
        return _joined(present, dtype)
    except (RuntimeError, ValueError, TypeError) as error:
        position = _first_wrong(rows)
        if position is not None:
            raise type(error)(
                f"Ragged: row {position}: expected a sequence of numbers of one shape, got {rows[position]!r:.80}: "
                f"{error}"
            ) from None
        raise type(error)(
            f"Ragged: the rows differ in the type or shape of their items ({type_name(present[0])}): {error}"
        ) from None


def wrong_row(rows: Sequence[Any]) -> TypeError:
    """Return the error for the first row that has no length, or is not a sequence."""
    position = next(at for at, row in enumerate(rows) if row is not None and not hasattr(row, "__len__"))
    got = rows[position]
    return TypeError(
        f"Ragged: row {position}: expected a sequence of numbers, an array, a tensor or None, got {got!r:.80} "
        f"({type_name(got)})"
    )


def _no_items(rows: Sequence[Any], dtype: torch.dtype | None) -> Tensor:
    """Return a buffer without items, with the dtype and the item shape of a row that has them."""
    for row in rows:
        if isinstance(row, Tensor):
            return row.new_empty((0, *row.shape[1:]))
    for row in rows:
        if is_array(row) and row.dtype != object:
            return torch.as_tensor(row)
    return torch.empty(0, dtype=dtype)


def _joined(rows: list[Any], dtype: torch.dtype | None) -> Tensor:
    first: object = rows[0]
    if isinstance(first, Tensor):
        return torch.cat([torch.as_tensor(row) for row in rows])
    if is_array(first):
        joined = as_tensor(np.concatenate([np.asarray(row) for row in rows]))
        if joined is None:
            raise TypeError(f"Ragged: expected rows of numbers, got arrays of dtype {first.dtype}")
        return joined
    items = list(itertools.chain.from_iterable(cast("Iterable[Iterable[Any]]", rows)))
    first = items[0]
    if isinstance(first, Tensor):
        return torch.stack([torch.as_tensor(item) for item in items])
    if is_array(first):
        return torch.as_tensor(np.stack(items))
    return torch.tensor(items, dtype=dtype)


def _first_wrong(rows: Sequence[Any]) -> int | None:
    """Return the position of the first row that is not a sequence of numbers of one shape."""
    for position, row in enumerate(rows):
        if row is None:
            continue
        try:
            if as_tensor(row) is None and not isinstance(row, Tensor) and len(row):
                return position
        except (RuntimeError, ValueError, TypeError):
            return position
    return None


def split_jagged(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values of a nested tensor of the layout ``torch.jagged``, which share its memory, and spans.

    Raises:
        ValueError: the ragged dimension is not the second.

    Example:
        >>> split_jagged(torch.nested.nested_tensor([torch.arange(2), torch.arange(1)], layout=torch.jagged))[1]
        tensor([[0, 2],
                [2, 1]])
    """
    jagged: Any = tensor  # torch does not declare its methods
    if jagged._ragged_idx != 1:
        raise ValueError(
            f"Ragged.from_jagged: the ragged dimension must be dimension 1, it is {jagged._ragged_idx}; transpose it"
        )
    values: Tensor = jagged.values()
    offsets: Tensor = jagged.offsets().to(torch.int64)
    lengths: Tensor | None = jagged.lengths()
    sizes = offsets[1:] - offsets[:-1] if lengths is None else lengths.to(torch.int64)
    return values, torch.stack((offsets[:-1], sizes), -1)


def join_jagged(items: Tensor, spans: Tensor) -> Tensor:
    """Return a nested tensor of the layout ``torch.jagged`` of rows that lie in order, and share its memory.

    Raises:
        ValueError: a row has no value.
    """
    if bool((spans[:, 1] < 0).any()):
        raise ValueError("to_jagged: a row has no value (None), which torch's tensors do not know; see .missing")
    offsets = torch.cat((spans.new_zeros(1), spans[:, 0] + spans[:, 1]))
    made = cast("Callable[[Tensor, Tensor], Tensor]", torch.nested.nested_tensor_from_jagged)
    return made(items, offsets)
