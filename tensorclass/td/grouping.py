"""Rows by the value of one key: grouped, found in others, without duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from . import shapes
from .keys import NestedKey, unravel_key_to_tuple
from .nontensor import NonTensorDataBase
from .objects import listed
from .reading import MISSING

if TYPE_CHECKING:
    from .base import TensorCollection

T = TypeVar("T", bound="TensorCollection")

_unique: Callable[..., tuple[Tensor, Tensor]] = torch.unique  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def group_by(tensordict: T, key: NestedKey) -> tuple[Tensor | list[Any], tuple[T, ...]]:
    """The rows along the first batch dimension in groups, one for each value that they have under ``key``.

    Args:
        tensordict: a collection with at least one batch dimension.
        key: of a tensor, whose rows are compared whole, or of objects that can be hashed and sorted (text, ...).

    Returns:
        The values, sorted, and the groups in the same order; rows keep their order within a group.

    Raises:
        KeyError: there is no such key.
        ValueError: there is no batch dimension.
        TypeError: the key holds a nested collection, or objects that cannot be hashed and sorted.

    >>> from tensorclass import TensorDict
    >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "row": torch.arange(3)}, [3])
    >>> values, groups = group_by(data, "label")
    >>> values, [group["row"].tolist() for group in groups]
    (tensor([0, 1]), [[1], [0, 2]])
    """
    if not tensordict.batch_dims:
        raise ValueError("group_by: rows lie along the first batch dimension, and there is none")
    value: Any = tensordict._find(unravel_key_to_tuple(key))
    if value is MISSING:
        raise KeyError(f"group_by: there is no key {key!r}; the keys are {list(tensordict.keys(True))}")
    values: Tensor | list[Any]
    if isinstance(value, NonTensorDataBase):
        objects: list[Any] = value.tolist()
        try:
            values = sorted(set(objects))
        except TypeError as error:
            raise TypeError(f"group_by: the objects of {key!r} must be hashable and sortable ({error})") from None
        place = {entry: code for code, entry in enumerate(values)}
        codes = torch.tensor([place[entry] for entry in objects], dtype=torch.long)
    elif isinstance(value, Tensor):
        values, codes = _unique(value, dim=0, return_inverse=True)
    else:
        raise TypeError(f"group_by: {key!r} holds a {type(value).__name__}; a tensor or objects are needed")
    count = len(values)
    order = torch.argsort(codes, stable=True)
    sizes = listed(torch.bincount(codes, minlength=count))
    return values, tuple(tensordict[rows] for rows in order.split_with_sizes(sizes))


def isin(input: TensorCollection, reference: TensorCollection, key: NestedKey, dim: int = 0) -> Tensor:
    """For each slice of ``input`` along a batch dimension, whether ``reference`` has one with its value of ``key``.

    Args:
        input: the collection that is asked about.
        reference: a collection with the same key.
        key: of a tensor in both.
        dim: the batch dimension.

    Returns:
        A boolean tensor of the length of ``dim``.

    Raises:
        KeyError: one of the two has no tensor under ``key``.
        ValueError: ``dim`` is no batch dimension.

    >>> from tensorclass import TensorDict
    >>> data = TensorDict({"id": torch.tensor([4, 5, 6])}, [3])
    >>> isin(data, data[1:], "id")
    tensor([False,  True,  True])
    """
    ours, dim = _column("isin", input, key, dim)
    theirs, _ = _column("isin", reference, key, dim)
    size = ours.shape[dim]
    _, codes = _unique(torch.cat([ours, theirs], dim), dim=dim, return_inverse=True)
    return torch.isin(codes[:size], codes[size:])


def remove_duplicates(input: T, key: NestedKey, dim: int = 0, *, return_indices: bool = False) -> T | tuple[T, Tensor]:
    """The slices along a batch dimension whose values of ``key`` differ, sorted by these values.

    Of several slices with one value the first stays, with all that it has under other keys.

    Args:
        input: the collection.
        key: of a tensor.
        dim: the batch dimension.
        return_indices: also give, for each slice of ``input``, the place of its value in the result.

    Raises:
        KeyError: there is no tensor under ``key``.
        ValueError: ``dim`` is no batch dimension.

    >>> from tensorclass import TensorDict
    >>> remove_duplicates(TensorDict({"id": torch.tensor([3, 1, 3])}, [3]), "id")["id"]
    tensor([1, 3])
    """
    column, dim = _column("remove_duplicates", input, key, dim)
    values, codes = _unique(column, dim=dim, return_inverse=True)
    positions = torch.arange(len(codes), device=codes.device)
    first = torch.full((values.shape[dim],), len(codes), dtype=torch.long, device=codes.device)
    first = first.scatter_reduce(0, codes, positions, "amin")
    result = input[(slice(None),) * dim + (first,)]
    return (result, codes) if return_indices else result


def _column(what: str, data: TensorCollection, key: NestedKey, dim: int) -> tuple[Tensor, int]:
    """The tensor under a key, and the dimension counted from the front."""
    value: Any = data._find(unravel_key_to_tuple(key))
    if not isinstance(value, Tensor):
        raise KeyError(f"{what}: there is no tensor under {key!r}; the keys are {list(data.keys(True))}")
    try:
        return value, shapes.wrap_dim(dim, data.batch_dims)
    except IndexError as error:
        raise ValueError(f"{what}: {error}; the batch size is {list(data.batch_size)}") from None
