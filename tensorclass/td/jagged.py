"""Indexing, splitting and concatenation of jagged nested tensors, which torch does not support.

These functions are called only after torch has raised, so that other values pay nothing. They unbind the tensor into
its rows and build the result from rows, which keeps gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

# torch has only some of their types
as_nested: Callable[..., Tensor] = torch.nested.as_nested_tensor  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
as_padded: Callable[[Tensor, float], Tensor] = torch.nested.to_padded_tensor  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def any_nested(values: Iterable[Any]) -> bool:
    """Return whether one of the values is a nested tensor."""
    return any(isinstance(value, Tensor) and value.is_nested for value in values)


def packed(value: Tensor) -> Tensor:
    """Return a jagged tensor whose rows lie one after the other; other tensors unchanged."""
    ragged: Any = value
    if not value.is_nested or value.layout is not torch.jagged or ragged.lengths() is None:
        return value
    return _from_rows(list(value.unbind()), value)


def all_packed(data: Any) -> Any:
    """Return a collection whose jagged tensors have no holes: :func:`packed`; itself if none has."""
    leaves = list(data._leaves_and_buffers())
    dense = [packed(leaf) if leaf.is_nested else leaf for leaf in leaves]
    changed = any(one is not other for one, other in zip(leaves, dense, strict=True))
    return data._with_leaves_and_buffers(iter(dense)) if changed else data


def index_rows(value: Any, item: Any) -> Any:
    """Return ``value[item]``. For a jagged tensor the index must select rows of the first dimension."""
    if not any_nested((value,)):
        return value[item]
    positions = torch.arange(len(value))[item.cpu() if isinstance(item, Tensor) else item]
    if positions.ndim == 0:
        return value[int(positions)]
    if positions.ndim != 1:
        raise _unsupported(f"the index gives {positions.ndim} batch dimensions", value)
    rows: Any = value.unbind()
    return _from_rows([rows[position] for position in positions.tolist()], value)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def split_rows(value: Any, sizes: Sequence[int], dim: int) -> Any:
    """Return ``value.split_with_sizes(sizes, dim)``."""
    if not any_nested((value,)):
        return value.split_with_sizes(sizes, dim)
    rows: Any = value.unbind()
    bounds = itertools.accumulate(sizes, initial=0)
    return [_from_rows(rows[start:stop], value) for start, stop in itertools.pairwise(bounds)]


def cat_rows(values: Sequence[Any], dim: int) -> Any:
    """Return ``torch.cat(values, dim)``."""
    if not any_nested(values) or dim != 0:
        return torch.cat(list(values), dim)
    return _from_rows([row for value in values for row in value.unbind(0)], values[0])


def _from_rows(rows: Sequence[Tensor], value: Any) -> Tensor:
    if rows:
        return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)  # pyright: ignore[reportUnknownMemberType]
    offsets = torch.zeros(1, dtype=torch.long, device=value.device)
    return torch.nested.nested_tensor_from_jagged(value.values()[:0], offsets)


def _unsupported(what: str, value: Tensor) -> RuntimeError:
    return RuntimeError(
        f"{what}, but a jagged tensor of shape {list(value.shape)} has only one dimension of rows; pad it first: "
        "value.to_padded_tensor(0)"
    )
