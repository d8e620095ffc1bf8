"""Operations on rows by the value of one key: group, find in another collection, remove duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from tensorclass.support.printable import type_name

from . import shapes
from .get import MISSING
from .keys import NestedKey, missing_key, unravel_key_to_tuple
from .leaves.nontensor import NonTensorDataBase
from .leaves.object_codes import to_lists

if TYPE_CHECKING:
    from .base import TensorCollection

T = TypeVar("T", bound="TensorCollection")

_unique: Callable[..., tuple[Tensor, Tensor]] = torch.unique  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def group_by(tensordict: T, key: NestedKey) -> tuple[Tensor | list[Any], tuple[T, ...]]:
    """Group rows along the first batch dimension by their value under a key.

    Args:
        tensordict: a collection with at least one batch dimension.
        key: the key of a tensor, whose rows are compared as a whole, or of hashable and sortable objects (text, ...).

    Returns:
        The distinct values, sorted, and a tuple with one collection for each value. Rows keep their order in a group.
        Tensors are copied.

    Raises:
        KeyError: there is no such key.
        ValueError: there is no batch dimension.
        TypeError: the key holds a nested collection, or objects that cannot be hashed and sorted.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, group_by
        >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "row": torch.arange(3)}, [3])
        >>> values, groups = group_by(data, "label")
        >>> values, [group["row"].tolist() for group in groups]
        (tensor([0, 1]), [[1], [0, 2]])
    """
    if not tensordict._batch_size:
        raise ValueError("group_by: expected at least one batch dimension, along which rows are grouped; got none")
    value: Any = tensordict._find(unravel_key_to_tuple(key))
    if value is MISSING:
        known = list(tensordict.keys(True))
        raise missing_key(f"group_by: there is no key {key!r}; the keys are {known}", key, known)
    values: Tensor | list[Any]
    if isinstance(value, NonTensorDataBase):
        objects: list[Any] = value.tolist()
        try:
            values = sorted(set(objects))
        except TypeError as error:
            raise TypeError(f"group_by: the objects of {key!r} must be hashable and sortable ({error})") from None
        code_of = {entry: code for code, entry in enumerate(values)}
        codes = torch.tensor([code_of[entry] for entry in objects], dtype=torch.long)
    elif isinstance(value, Tensor):
        values, codes = _unique(value, dim=0, return_inverse=True)
    else:
        raise TypeError(f"group_by: {key!r}: expected a tensor or objects, got a {type_name(value)}")
    count = len(values)
    order = torch.argsort(codes, stable=True)
    sizes = to_lists(torch.bincount(codes, minlength=count))
    return values, tuple(tensordict[rows] for rows in order.split_with_sizes(sizes))


def isin(input: TensorCollection, reference: TensorCollection, key: NestedKey, dim: int = 0) -> Tensor:
    """Test for each slice of ``input`` along a batch dimension whether ``reference`` has an equal slice.

    Args:
        input: the collection whose slices are tested.
        reference: a collection with the same key.
        key: the key of a tensor in both collections.
        dim: the batch dimension. Default: 0.

    Returns:
        A boolean tensor with an element for each position of ``dim``.

    Raises:
        KeyError: a collection has no tensor under ``key``.
        ValueError: ``dim`` is not a batch dimension.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.utils import isin
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
    """Keep one slice along a batch dimension for each distinct value of a key, sorted by this value.

    Of several slices with the same value the first is kept, with its values under all keys.

    Args:
        input: the collection.
        key: the key of a tensor.
        dim: the batch dimension. Default: 0.
        return_indices: also return the position in the result of each slice's value. Default: ``False``.

    Returns:
        A new collection with copies of the tensors. With ``return_indices`` a tuple with an int64 tensor beside it.

    Raises:
        KeyError: there is no tensor under ``key``.
        ValueError: ``dim`` is not a batch dimension.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.utils import remove_duplicates
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
    """Return the tensor under a key, and the dimension as a non-negative number."""
    value: Any = data._find(unravel_key_to_tuple(key))
    if not isinstance(value, Tensor):
        known = list(data.keys(True))
        raise missing_key(f"{what}: there is no tensor under {key!r}; the keys are {known}", key, known)
    try:
        return value, shapes.wrap_dim(dim, len(data._batch_size))
    except IndexError as error:
        raise ValueError(f"{what}: {error}; the batch size is {list(data.batch_size)}") from None
