"""Rows chosen and ordered by their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor

from tensorclass.support.exact_types import DICT
from tensorclass.support.nearest import did_you_mean
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.tensordict import TensorDict

from .key_codes import Keys, as_keys, codes_of_columns, key_codes, key_columns, leaf_keys
from .row_order import stable_order

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

METHODS_OF = "RowOperations"

T = TypeVar("T", bound="TensorCollection")


def filter(self: T, condition: Tensor | Sequence[bool] | Callable[[T], Tensor]) -> T:
    """Return the rows that fulfil a condition.

    Args:
        condition: a bool for each row, ``bool[rows]`` (or for each item of several batch dimensions), or a function
            that takes this collection and returns them.

    Returns:
        The rows in their order, as ``data[mask]`` gives them. From a file only these rows are read.

    Raises:
        TypeError: the condition is a string.
        ValueError: the condition is not bool, or has another shape.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"score": torch.tensor([0.1, 0.9, 0.5])}, [3])
        >>> data.filter(lambda rows: rows["score"] > 0.3)["score"]
        tensor([0.9000, 0.5000])
    """
    mask: Any = condition(self) if callable(condition) else condition
    if isinstance(mask, str):
        raise TypeError(
            f"filter: expected a bool for each row, or a function that returns them, got the string {mask!r}; "
            "write filter(lambda rows: rows.price > 8), and join conditions by & and |, each in parentheses"
        )
    if not isinstance(mask, Tensor):
        mask = torch.as_tensor(mask, device=self._device)
    size = tuple(self._batch_size)
    if mask.dtype is not torch.bool or not mask.ndim or tuple(mask.shape) != size[: mask.ndim]:
        raise ValueError(
            f"filter: expected a bool for each row, of the shape {list(size[:1])} or further dimensions of the batch "
            f"size {list(size)}, got {mask.dtype} of the shape {list(mask.shape)}"
        )
    rows: T = self[mask]
    return trimmed(rows)


def sort_by(self: T, by: Keys, *, descending: bool | Sequence[bool] = False) -> T:
    """Return the rows in the order of one or several keys. Equal rows keep their order.

    Args:
        by: a key, or a list of keys of which the first counts most. Values are real numbers, text, or objects that
            can be sorted; rows of tensors are compared from the left.
        descending: largest first; one bool, or one for each key. Default: ``False``.

    Returns:
        The sorted rows. Rows without a value (NaN, ``None``) come last in both directions.

    Raises:
        KeyError: there is no such key.
        TypeError: the values of a key cannot be sorted.
        ValueError: there is no batch dimension, or the number of directions is not that of the keys.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "score": torch.tensor([0.5, 0.1, 0.9])}, [3])
        >>> data.sort_by(["label", "score"], descending=[False, True])["score"]
        tensor([0.1000, 0.9000, 0.5000])
    """
    keys = as_keys(by)
    columns = key_columns("sort_by", self, keys)
    directions = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
    if len(directions) != len(keys):
        raise ValueError(
            f"sort_by: descending: expected one bool, or one for each of {len(keys)} keys, got {directions}"
        )
    order: Tensor | None = None
    for key, column, downwards in reversed(list(zip(keys, columns, directions, strict=True))):
        if isinstance(column, Tensor) and column.ndim == 1 and not column.is_complex() and not column.is_nested:
            values = column.detach()
        else:
            codes = codes_of_columns("sort_by", [column], [key])
            values = codes.codes
            if downwards and _has_missing(column):  # rows without a value stay last
                values = torch.where(values == codes.count - 1, -1, values)
        step = stable_order(values if order is None else values[order], downwards)
        order = step if order is None else order[step]
    assert order is not None
    return self[order]


def _has_missing(column: Any) -> bool:
    if content_kind(column) is Content.TEXT:
        return bool((column._spans()[..., 1] < 0).any())
    return not isinstance(column, Tensor) and any(item is None for item in column.tolist())


def unique(self: T, by: Keys | None = None) -> T:
    """Return one row for each distinct value, sorted by it. Of several rows the first one is kept.

    Args:
        by: a key or a list of keys; all keys by default.

    Raises:
        KeyError: there is no such key.
        TypeError: the values of a key cannot be compared.
        ValueError: there is no batch dimension.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict({"label": torch.tensor([1, 0, 1]), "row": torch.arange(3)}, [3]).unique("label")["row"]
        tensor([1, 0])
    """
    keys = leaf_keys(self) if by is None else as_keys(by)
    return trimmed(self[key_codes("unique", self, keys).first_rows()])


def drop_duplicates(self: T, by: Keys | None = None, *, keep: Literal["first", "last"] | Literal[False] = "first") -> T:
    """Return the rows without those that repeat another one, in their order.

    Args:
        unique: by
        keep: the row that stays of several equal ones: ``"first"`` (default), ``"last"``, or ``False`` for none.

    Raises:
        unique: KeyError, TypeError
        ValueError: there is no batch dimension, or ``keep`` is something else.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "row": torch.arange(3)}, [3])
        >>> data.drop_duplicates("label")["row"], data.drop_duplicates("label", keep=False)["row"]
        (tensor([0, 1]), tensor([1]))
    """
    keys = leaf_keys(self) if by is None else as_keys(by)
    codes = key_codes("drop_duplicates", self, keys)
    if keep is False:
        return trimmed(self[codes.counts()[codes.codes] == 1])
    if keep not in ("first", "last"):
        wrong = f"{keep!r}{did_you_mean(keep, ('first', 'last'))}"
        raise ValueError(f"drop_duplicates: keep: expected 'first', 'last' or False, got {wrong}")
    rows = codes.first_rows() if keep == "first" else codes.last_rows()
    return trimmed(self[rows[stable_order(rows)]])


def value_counts(self: TensorCollection, by: Keys, *, sort: bool = True) -> TensorDict:
    """Count the rows with each value.

    Args:
        by: a key or a list of keys.
        sort: the most frequent value first; with ``False`` in the order of the values. Default: ``True``.

    Returns:
        A row for each distinct value: the keys, and ``count``, int64.

    Raises:
        unique: KeyError, TypeError
        ValueError: there is no batch dimension, or a key is called ``count``.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict({"label": torch.tensor([1, 0, 1])}, [3]).value_counts("label").to_dict()
        {'label': tensor([1, 0]), 'count': tensor([2, 1])}
    """
    keys = as_keys(by)
    codes = key_codes("value_counts", self, keys)
    counts = codes.counts()
    rows = codes.first_rows()
    if sort:
        order = stable_order(counts, descending=True)
        rows, counts = rows[order], counts[order]
    result = columns_of(self, keys, rows)
    if "count" in result._store:
        raise ValueError("value_counts: a key is called 'count', which is the name of the result; rename it first")
    result["count"] = counts
    return result


def columns_of(data: TensorCollection, keys: Sequence[tuple[str, ...]], rows: Tensor) -> TensorDict:
    """Return a collection of the values under keys, at rows. Nested keys stay nested."""
    result = TensorDict({}, [len(rows)], device=data._device)
    for key in keys:
        column: Any = data._find(key)
        result[key] = column[rows] if isinstance(column, Tensor) else column._index_value(rows)
    return trimmed(result)


def trimmed(rows: T) -> T:
    """Copy text, ragged rows and objects if few rows were chosen, so that they do not keep the memory of all rows.

    Args:
        rows: a new collection; its values are replaced.
    """
    store: Any = rows._store
    for key, value in store.items() if type(store) is DICT else ():
        if isinstance(value, Collection):
            below: Any = value
            store[key] = trimmed(below) if value._is_tree() else below._trimmed()
    return rows
