"""Rows of two collections with equal keys, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

from tensorclass.td.columns.column import Column
from tensorclass.td.columns.text import Text
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.stack_and_cat import cat
from tensorclass.td.tensordict import TensorDict

from .key_codes import KeyCodes, Keys, as_keys, codes_of_columns, key_columns
from .row_order import stable_order

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

C = TypeVar("C", bound="TensorCollection")

#: which rows a join keeps
How: TypeAlias = Literal["inner", "left", "semi", "anti"]


def join(
    self: TensorCollection,
    other: TensorCollection,
    on: Keys,
    how: How = "inner",
    *,
    suffix: str = "_right",
    fill: Mapping[str, Any] | None = None,
    into: type[C] | None = None,
) -> Any:
    """See :meth:`TensorDict.join`."""
    if how not in ("inner", "left", "semi", "anti"):
        raise ValueError(f"join: how: expected 'inner', 'left', 'semi' or 'anti', got {how!r}")
    keys = as_keys(on)
    ours, theirs = key_columns("join", self, keys), key_columns("join", other, keys)
    split = int(self._batch_size[0])
    both = codes_of_columns("join", [_both(*pair) for pair in zip(ours, theirs, keys, strict=True)], keys)
    left, right = both.codes[:split], both.codes[split:]
    counts = torch.bincount(right, minlength=both.count)
    if how in ("semi", "anti"):
        found = counts[left] > 0
        result: Any = self[found if how == "semi" else ~found]
        return result if into is None else into.from_any(result)
    rows, others = _pairs(left, KeyCodes(right, both.count), counts, keep=how == "left")
    result = _side_by_side(self, other, keys, rows, others, suffix, fill or {})
    return result if into is None else into.from_any(result)


def _both(ours: Any, theirs: Any, key: Sequence[str]) -> Any:
    """Return the values of both sides as one column."""
    if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
        if ours.shape[1:] != theirs.shape[1:]:
            raise ValueError(
                f"join: {dotted(key)!r}: expected rows of one shape, got {list(ours.shape[1:])} and "
                f"{list(theirs.shape[1:])}"
            )
        dtype = torch.promote_types(ours.dtype, theirs.dtype)
        return torch.cat([ours.detach().to(dtype), theirs.detach().to(dtype)])
    if isinstance(ours, Text) and isinstance(theirs, Text):
        return cat([ours, theirs])
    if isinstance(ours, (Text, NonTensorDataBase)) and isinstance(theirs, (Text, NonTensorDataBase)):
        return Column.from_list([*ours.tolist(), *theirs.tolist()])
    raise TypeError(
        f"join: {dotted(key)!r}: expected values of one kind, got a {type(ours).__name__} and a {type(theirs).__name__}"
    )


def _pairs(left: Tensor, right: KeyCodes, counts: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """Return the rows of both sides that belong together; -1 where a kept row has no partner."""
    partners = counts[left]
    repeats = partners.clamp(min=1) if keep else partners
    rows = torch.repeat_interleave(torch.arange(len(left), device=left.device), repeats)
    order = stable_order(right.codes)
    begins = counts.cumsum(0) - counts
    within = torch.arange(len(rows), device=left.device) - (repeats.cumsum(0) - repeats)[rows]
    position = begins[left[rows]] + within
    alone = partners[rows] == 0
    if not len(order):
        return rows, torch.full_like(rows, -1)
    return rows, torch.where(alone, -1, order[position.clamp(max=len(order) - 1)])


def _side_by_side(
    left: Any,
    right: Any,
    keys: Sequence[tuple[str, ...]],
    rows: Tensor,
    others: Tensor,
    suffix: str,
    fill: Mapping[str, Any],
) -> TensorDict:
    result = TensorDict(dict(left[rows]._store), [len(rows)], device=left._device)
    alone = others < 0
    partner = right[others.clamp(min=0)] if len(right) or not len(others) else None
    for key, column in right._store.items():
        if (key,) in keys:
            continue
        name = key if key not in result._store else key + suffix
        if name in result._store:
            raise ValueError(f"join: {name!r}: both sides have a key of this name; choose another suffix")
        made = _empty_like(column, len(others)) if partner is None else partner._store[key]
        result[name] = _filled(made, alone, key, fill)
    return result


def _empty_like(column: Any, rows: int) -> Any:
    if isinstance(column, Tensor):
        return column.new_zeros((rows, *column.shape[1:]))
    if isinstance(column, Text):
        return Text.from_list([None] * rows)
    return Column.from_list([None] * rows)


def _filled(column: Any, alone: Tensor, key: str, fill: Mapping[str, Any]) -> Any:
    """Return the values of the other side, with a filling where there is no partner."""
    if not bool(alone.any()):
        return column
    if isinstance(column, Tensor):
        if key not in fill and not column.is_floating_point():
            raise ValueError(
                f"join: {int(alone.sum())} rows have no partner, and {key!r} ({column.dtype}) has no number that says "
                f"so; give one: fill={{{key!r}: -1}}, or take how='inner'"
            )
        mask = alone.reshape(-1, *[1] * (column.ndim - 1))
        return torch.where(mask, torch.as_tensor(fill.get(key, float("nan")), dtype=column.dtype), column)
    if isinstance(column, (Text, NonTensorDataBase)):
        rows: list[Any] = column.tolist()
        gone: list[bool] = to_lists(alone)
        filled = [fill.get(key) if empty else row for row, empty in zip(rows, gone, strict=True)]
        return Text.from_list(filled) if isinstance(column, Text) else Column.from_list(filled)
    raise ValueError(
        f"join: {int(alone.sum())} rows have no partner, and {key!r} (a {type(column).__name__}) cannot be filled; "
        "leave it out, or take how='inner'"
    )
