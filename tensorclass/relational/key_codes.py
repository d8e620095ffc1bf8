"""Values of keys as integers from 0, which compare as the values do. Rows without a value (NaN, ``None``) come last."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor

from tensorclass.support.extras import require
from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.columns.text import Text
from tensorclass.td.get import MISSING
from tensorclass.td.keys import NestedKey, dotted, missing_key, unravel_key_to_tuple
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind

from .row_order import stable_order

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

#: a key, or a list of keys; a tuple is one nested key, as everywhere
Keys: TypeAlias = "NestedKey | list[NestedKey]"

_unique: Callable[..., tuple[Tensor, Tensor]] = torch.unique  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: integers are counted instead of sorted if their range is at most this many times the number of rows
_DENSE = 4


@dataclass(frozen=True, eq=False)
class KeyCodes:
    """The code of each row.

    Attributes:
        codes: ``int64[rows]``, from 0; equal where the values are, ordered as they are.
        count: the number of distinct codes.
    """

    codes: Tensor
    count: int

    def first_rows(self) -> Tensor:
        """Return the first row with each code, ``int64[count]``."""
        return self._end_rows("amin")

    def last_rows(self) -> Tensor:
        """Return the last row with each code, ``int64[count]``."""
        return self._end_rows("amax")

    def _end_rows(self, how: str) -> Tensor:
        rows = torch.arange(len(self.codes), device=self.codes.device)
        return rows.new_zeros(self.count).scatter_reduce_(0, self.codes, rows, how, include_self=False)

    def counts(self) -> Tensor:
        """Return the number of rows with each code, ``int64[count]``."""
        return torch.bincount(self.codes, minlength=self.count)


def as_keys(by: Keys) -> list[tuple[str, ...]]:
    """Return keys as flat tuples."""
    return [unravel_key_to_tuple(key) for key in (by if isinstance(by, list) else [by])]


def leaf_keys(data: TensorCollection) -> list[tuple[str, ...]]:
    """Return the keys of all values that are no nested collections."""
    found: list[tuple[str, ...]] = []
    for key, value in data._now().items():
        below = value if isinstance(value, Collection) and value._is_tree() else None
        found += [(key,)] if below is None else [(key, *rest) for rest in leaf_keys(cast("TensorCollection", below))]
    return found


def row_count(what: str, data: TensorCollection) -> int:
    """Return the number of rows.

    Raises:
        ValueError: there is no batch dimension.
    """
    if not data._batch_size:
        raise ValueError(f"{what}: expected at least one batch dimension, along which the rows lie; got none")
    return int(data._batch_size[0])


def row_index(data: TensorCollection, rows: Tensor) -> Tensor:
    """Return positions of rows as an index of a collection, on its device."""
    return rows if data._device is None else rows.to(data._device)


def key_columns(what: str, data: TensorCollection, keys: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return the values under keys.

    Raises:
        ValueError: there is no batch dimension, or no key.
        KeyError: there is no such key.
    """
    row_count(what, data)
    if not keys:
        raise ValueError(f"{what}: expected at least one key, got none")
    columns = [data._find(key) for key in keys]
    for key, column in zip(keys, columns, strict=True):
        if column is MISSING:
            there = [dotted(one) for one in leaf_keys(data)]
            message = f"{what}: there is no key {dotted(key)!r}; the keys are {', '.join(map(repr, there))}"
            raise missing_key(message, dotted(key), there)
    return columns


def key_codes(what: str, data: TensorCollection, keys: Sequence[tuple[str, ...]]) -> KeyCodes:
    """Return the codes of the rows by the values of keys, the first key first."""
    return codes_of_columns(what, key_columns(what, data, keys), keys)


def codes_of_columns(what: str, columns: Sequence[Any], keys: Sequence[tuple[str, ...]]) -> KeyCodes:
    """Return the codes of rows by several columns, the first one first."""
    result: KeyCodes | None = None
    for key, column in zip(keys, columns, strict=True):
        codes = _codes_of(what, dotted(key), column)
        if result is not None:  # both counts are at most the number of rows
            codes = dense_codes(result.codes * codes.count + codes.codes)
        result = codes
    assert result is not None
    return result


def dense_codes(values: Tensor) -> KeyCodes:
    """Return the codes of integers."""
    if not len(values):
        return KeyCodes(values.to(torch.int64), 0)
    low, high = (int(end) for end in torch.aminmax(values))
    if high - low < _DENSE * len(values) + 1024:
        shifted = values.to(torch.int64) - low
        present = torch.bincount(shifted, minlength=high - low + 1) > 0
        ranks = present.cumsum(0) - 1
        return KeyCodes(ranks[shifted], int(ranks[-1]) + 1)
    return _codes_in_order(values, stable_order(values))


def _codes_in_order(values: Tensor, order: Tensor) -> KeyCodes:
    """Return the codes of numbers, given their order. All NaN are one value."""
    ordered = values[order]
    begins = ordered[1:] != ordered[:-1]
    if values.is_floating_point():
        begins &= ~(ordered[1:].isnan() & ordered[:-1].isnan())
    ranks = torch.zeros(len(values), dtype=torch.int64, device=values.device)
    torch.cumsum(begins, 0, out=ranks[1:])
    codes = torch.empty_like(ranks)
    codes[order] = ranks
    return KeyCodes(codes, int(ranks[-1]) + 1)


def _codes_of(what: str, key: str, column: Any) -> KeyCodes:
    content = content_kind(column)
    if content is Content.TEXT:
        return _codes_of_text(column)
    if content is Content.OBJECTS:
        return _codes_of_objects(what, key, column)
    if not isinstance(column, Tensor) or column.is_nested or column.is_complex():
        raise TypeError(f"{what}: {key!r}: expected real numbers, text or hashable objects, got a {type_name(column)}")
    values = column.detach().as_subclass(Tensor)
    if values.ndim > 1:
        distinct, codes = _unique(values, dim=0, return_inverse=True)
        return KeyCodes(codes, len(distinct))
    if not len(values):
        return KeyCodes(torch.zeros(0, dtype=torch.int64, device=values.device), 0)
    if not values.is_floating_point():
        return dense_codes(values.to(torch.int64) if values.dtype is torch.bool else values)
    return _codes_in_order(values, stable_order(values))


def _codes_of_text(column: Text) -> KeyCodes:
    flat = column.reshape(-1) if len(column._batch_size) > 1 else column
    found = _encoded_by_arrow(flat) if find_spec("pyarrow") and len(flat) else None
    if found is None:
        distinct = flat.unique()
        found = KeyCodes(distinct.codes, distinct.values._batch_size[0])
    if len(column._batch_size) == 1:
        return found
    rows, codes = _unique(found.codes.reshape(column._batch_size), dim=0, return_inverse=True)
    return KeyCodes(codes, len(rows))


def _encoded_by_arrow(column: Text) -> KeyCodes:
    """Return the codes of strings, counted by Arrow. It sorts by bytes, which is the order of code points."""
    from tensorclass.convert.tables.arrow_columns import string_array

    pa, pc = (require(name, "arrow", "codes of text") for name in ("pyarrow", "pyarrow.compute"))
    encoded: Any = string_array(pa, column, wide=True).dictionary_encode()
    order = torch.as_tensor(pc.sort_indices(encoded.dictionary).to_numpy().astype("int64"))
    ranks = torch.empty(len(order) + 1, dtype=torch.int64)
    ranks[order] = torch.arange(len(order))
    ranks[len(order)] = len(order)  # of rows without a string
    indices = torch.as_tensor(encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False).astype("int64"))
    return KeyCodes(ranks[indices].to(column._device or "cpu"), len(order) + int(encoded.null_count > 0))


def _codes_of_objects(what: str, key: str, column: Any) -> KeyCodes:
    objects: list[Any] = column.tolist() if column._batch_size else []
    if column._batch_size[1:]:
        objects = [_hashable(item) for item in objects]
    try:
        distinct: list[Hashable] = sorted({item for item in objects if item is not None})
    except TypeError as error:
        raise TypeError(f"{what}: the objects of {key!r} must be hashable and sortable ({error})") from None
    code_of: dict[Hashable, int] = {item: code for code, item in enumerate(distinct)}
    if any(item is None for item in objects):
        code_of[None] = len(code_of)
    codes = torch.tensor([code_of[item] for item in objects], dtype=torch.int64, device=column._device)
    return KeyCodes(codes, len(code_of))


def _hashable(item: Any) -> Any:
    return tuple(map(_hashable, item)) if isinstance(item, list) else item  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
