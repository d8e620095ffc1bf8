"""Rows of two collections with equal keys, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, overload

import torch
from torch import Tensor

from tensorclass.convert.conversion_errors import ConversionError
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.columns.column import Column
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind, has_spans, holds_objects
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.stack_and_cat import cat
from tensorclass.td.tensordict import TensorDict

from .key_codes import KeyCodes, Keys, as_keys, codes_of_columns, key_columns, leaf_keys
from .row_order import stable_order

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

METHODS_OF = "RowOperations"

C = TypeVar("C", bound="TensorCollection")
Into = TypeVar("Into", bound="TensorCollection")

#: which rows a join keeps
How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


@overload
def join(self: TensorCollection, other: TensorCollection, on: Keys, *, into: type[Into]) -> Into: ...
@overload
def join(self: C, other: TensorCollection, on: Keys, how: Literal["semi", "anti"], *, into: None = ...) -> C: ...
@overload
def join(
    self: TensorCollection,
    other: TensorCollection,
    on: Keys,
    how: Literal["inner", "left", "right", "full"] = ...,
    *,
    into: None = ...,
) -> TensorDict: ...
def join(
    self: TensorCollection,
    other: TensorCollection,
    on: Keys,
    how: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner",
    *,
    right_on: Keys | None = None,
    suffix: str = "_right",
    fill: Mapping[str, Any] | None = None,
    into: type[Into] | None = None,
) -> Any:
    """Put rows of two collections with equal keys side by side.

    Args:
        other: the other collection.
        on: a key, or a list of keys, of both. NaN is equal to NaN, and ``None`` to ``None``.
        how: ``"inner"``: the pairs of equal keys; ``"left"``: also the rows here that have no partner;
            ``"right"``: also those of the other side; ``"full"``: also those of both sides (the outer join of other
            libraries); ``"semi"``: the rows here that have a partner; ``"anti"``: those that have none.
        right_on: the keys of the other side, if they have other names there; the result has those of ``on``.
        suffix: what is added to a key of the other side that is here, too. Default: ``"_right"``.
        fill: values where a row has no partner, by name in the result or by key of a side. Default: NaN for
            floating-point numbers, ``None`` for text, ragged rows and objects; other numbers need one.
        into: the record class of the result.

    Returns:
        The pairs: the keys here, and those of the other side. The keys of ``on`` are there once, with the value
        of the side that has the row. Pairs are in the order of the rows here, then of the other side; for
        ``"right"`` the other way round; for ``"full"`` rows of the other side without a partner come last.
        ``"semi"`` and ``"anti"`` give rows of this class.

    Raises:
        KeyError: a side lacks a key.
        TypeError: the values of a key are of two kinds, or cannot be compared.
        ValueError: values need a ``fill``, which has an unknown key or does not fit; names collide in spite of the
            suffix; ``how`` is something else.
        ConversionError: the result does not fit ``into``.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> rows = TensorDict({"user": torch.tensor([2, 1, 2])}, [3])
        >>> users = TensorDict({"user": torch.tensor([1, 2]), "age": torch.tensor([30, 40])}, [2])
        >>> rows.join(users, on="user")["age"]
        tensor([40, 30, 40])
        >>> more = TensorDict({"user": torch.tensor([3, 1]), "city": ["Bonn", "Rome"]}, [2])
        >>> full = users.join(more, on="user", how="full", fill={"age": -1})
        >>> full["user"].tolist(), full["age"].tolist(), full["city"].tolist()
        ([1, 2, 3], [30, 40, -1], ['Rome', None, 'Bonn'])
    """
    if how not in get_args(How):
        near = did_you_mean(how, get_args(How))
        hint = "; outer joins are called 'full'" if str(how) == "outer" else near
        raise ValueError(f"join: how: expected one of {', '.join(map(repr, get_args(How)))}, got {how!r}{hint}")
    keys = as_keys(on)
    others_keys = keys if right_on is None else as_keys(right_on)
    if len(others_keys) != len(keys):
        raise ValueError(f"join: right_on: expected a key for each of the {len(keys)} of on, got {len(others_keys)}")
    ours, theirs = key_columns("join", self, keys), key_columns("join", other, others_keys)
    split = int(self._batch_size[0])
    columns = [_both(*pair) for pair in zip(ours, theirs, keys, strict=True)]
    both = codes_of_columns("join", columns, keys)
    left, right = KeyCodes(both.codes[:split], both.count), KeyCodes(both.codes[split:], both.count)
    if how in ("semi", "anti"):
        found = right.counts()[left.codes] > 0
        result: Any = self[found if how == "semi" else ~found]
        return result if into is None else _into(into, result)
    if how == "right":
        others, rows = _pairs(right, left, keep=True)
    else:
        rows, others = _pairs(left, right, keep=how != "inner")
    if how == "full":
        alone = (left.counts()[right.codes] == 0).nonzero()[:, 0]
        rows, others = torch.cat([rows, torch.full_like(alone, -1)]), torch.cat([others, alone])
    filler = _Filler(fill or {})
    result = TensorDict(filler.columns(self, rows, {key: key for key in self._now()}, keys), [len(rows)], self._device)
    if how in ("right", "full"):  # the keys of rows without a partner here are those of the other side
        places = torch.where(rows < 0, others + split, rows)
        for key, column in zip(keys, columns, strict=True):
            result[key] = column[places]
    names = _names_beside(self, other, others_keys, suffix)
    result.update(filler.columns(other, others, names, []))
    filler.check_used()
    return result if into is None else _into(into, result)


def _into(cls: type[TensorCollection], result: Any) -> Any:
    try:
        return cls.from_any(result)
    except ConversionError as error:
        unknown = [one for one in error.problems if one.expected.startswith("one of the fields")]
        hints = {
            one: f"leave it out before the join, with .exclude({(one.path[0] if len(one.path) == 1 else one.path)!r})"
            for one in unknown
        }
        raise ConversionError("join", [one._replace(hint=hints.get(one, one.hint)) for one in error.problems]) from None


def _names_beside(left: Any, right: Any, keys: Sequence[tuple[str, ...]], suffix: str) -> dict[str, str]:
    """Return the keys of the other side that are not those of the join, and their names in the result."""
    names: dict[str, str] = {}
    for key in right._now():
        if (key,) in keys:
            continue
        names[key] = key if key not in left._store else key + suffix
        if names[key] != key and (names[key] in left._store or names[key] in right._store):
            raise ValueError(f"join: {names[key]!r}: both sides have a key of this name; choose another suffix")
    return names


def _both(ours: Any, theirs: Any, key: Sequence[str]) -> Any:
    """Return the values of both sides as one column."""
    contents = {content_kind(ours), content_kind(theirs)}
    if contents == {Content.TEXT}:
        return cat([ours, theirs])
    if contents <= {Content.TEXT, Content.OBJECTS}:
        return Column.from_list([*ours.tolist(), *theirs.tolist()])
    if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
        if ours.shape[1:] != theirs.shape[1:]:
            raise ValueError(
                f"join: {dotted(key)!r}: expected rows of one shape, got {list(ours.shape[1:])} and "
                f"{list(theirs.shape[1:])}"
            )
        dtype = torch.promote_types(ours.dtype, theirs.dtype)
        return torch.cat([ours.detach().to(dtype), theirs.detach().to(dtype)])
    raise TypeError(
        f"join: {dotted(key)!r}: expected values of one kind, got a {type_name(ours)} and a {type_name(theirs)}"
    )


def _pairs(left: KeyCodes, right: KeyCodes, keep: bool) -> tuple[Tensor, Tensor]:
    """Return the rows of both sides that belong together; -1 where a kept row has no partner."""
    counts, device = right.counts(), left.codes.device
    partners = counts[left.codes]
    repeats = partners.clamp(min=1) if keep else partners
    rows = torch.repeat_interleave(torch.arange(len(left.codes), device=device), repeats)
    order = stable_order(right.codes)
    begins = counts.cumsum(0) - counts
    within = torch.arange(len(rows), device=device) - (repeats.cumsum(0) - repeats)[rows]
    position = begins[left.codes[rows]] + within
    alone = partners[rows] == 0
    if not len(order):
        return rows, torch.full_like(rows, -1)
    return rows, torch.where(alone, -1, order[position.clamp(max=len(order) - 1)])


class _Filler:
    """Takes rows of one side, and fills values where a row has no partner.

    Args:
        fill: the given values, by key of the side or by name in the result.
    """

    def __init__(self, fill: Mapping[str, Any]) -> None:
        self._fill = fill
        #: keys that ``fill`` may have
        self._known: set[str] = set()

    def columns(
        self, side: Any, rows: Tensor, names: Mapping[str, str], without: Sequence[tuple[str, ...]]
    ) -> dict[str, Any]:
        """Return the values of ``side`` at rows, under their names in the result; -1 is a row without a partner.

        ``without`` are keys that the caller fills.
        """
        self._known |= {*names.values(), *map(dotted, leaf_keys(side))}
        alone = rows < 0
        some = bool(alone.any())
        taken: Any = side[rows.clamp(min=0) if some else rows] if len(side) or not some else None
        made: dict[str, Any] = {}
        for key, name in names.items():
            column = _empty_like(side._store[key], len(rows)) if taken is None else taken._store[key]
            made[name] = self._filled(column, alone if some else None, (key,), name, without)
        return made

    def check_used(self) -> None:
        """Raise if ``fill`` has a key that neither collection has."""
        if unknown := [key for key in self._fill if key not in self._known]:
            raise ValueError(f"join: fill: there are no keys {unknown}; the keys are {sorted(self._known)}")

    def _filled(
        self, column: Any, alone: Tensor | None, key: tuple[str, ...], name: str, without: Sequence[tuple[str, ...]]
    ) -> Any:
        """Return values with a filling where ``alone``."""
        if alone is None or key in without:
            return column
        if isinstance(column, Collection) and column._is_tree():
            nested: Any = column
            below = {one: self._filled(value, alone, (*key, one), "", without) for one, value in nested._now().items()}
            return TensorDict(below, nested._batch_size, nested._device)
        value = self._fill.get(name, self._fill.get(dotted(key), _NOTHING))
        if isinstance(column, Tensor) and not column.is_nested:
            mask = alone.reshape(-1, *[1] * (column.ndim - 1))
            return torch.where(mask, _number_for(column, alone, dotted(key), value), column)
        value = None if value is _NOTHING and not isinstance(column, Tensor) else value
        is_buffer = has_spans(column)
        if is_buffer and value is None:
            spans, nothing = column._spans(), torch.tensor([0, -1], device=alone.device)
            mask = alone.reshape(-1, *[1] * (spans.ndim - 1))
            return column._of(column._items, torch.where(mask, nothing, spans), column._names)
        if is_buffer or holds_objects(column):
            rows: list[Any] = column.tolist()
            gone: list[bool] = to_lists(alone)
            filled = [value if empty else row for row, empty in zip(rows, gone, strict=True)]
            cls: Any = type(column) if is_buffer else Column
            return cls.from_list(filled)
        raise ValueError(
            f"join: {int(alone.sum())} rows have no partner, and {dotted(key)!r} (a {type_name(column)}) cannot be "
            "filled; leave it out, or take how='inner'"
        )


_NOTHING: Any = object()


def _number_for(column: Tensor, alone: Tensor, key: str, value: Any) -> Tensor:
    """Return the number that fills a column of numbers."""
    if value is _NOTHING:
        if not (column.is_floating_point() or column.is_complex()):
            raise ValueError(
                f"join: {int(alone.sum())} rows have no partner, and {key!r} ({column.dtype}) has no number that says "
                f"so; give one: fill={{{key!r}: -1}}, or take how='inner'"
            )
        value = float("nan")
    try:
        given = torch.as_tensor(value)
        made = given.to(column.dtype)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"join: fill: {key!r}: expected a number for {column.dtype}, got {value!r}") from None
    if not bool(((made == given) | (made != made)).all()) and not column.is_floating_point():
        raise ValueError(f"join: fill: {key!r} ({column.dtype}) cannot hold {value!r}")
    return made.to(column.device)


def _empty_like(column: Any, rows: int) -> Any:
    """Return rows in which everything is to be filled."""
    if isinstance(column, Tensor):
        return column.new_zeros((rows, *column.shape[1:]))
    if has_spans(column):
        return column._of(column._items, column._spans().new_zeros((rows, *column._spans().shape[1:])))
    if isinstance(column, Collection) and column._is_tree():
        nested: Any = column
        return TensorDict({key: _empty_like(below, rows) for key, below in nested._now().items()}, [rows])
    return Column.from_list([None] * rows)
