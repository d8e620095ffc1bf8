"""Columns made from the declarations of their fields, for ``Sample.zeros``, ``ones``, ``empty`` and ``random``."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import torch
from torch import Size, Tensor

from tensorclass.contracts.contract import Contract
from tensorclass.contracts.dims import Dim, evaluate
from tensorclass.contracts.dtype_names import usual
from tensorclass.contracts.row_contract import RowContract
from tensorclass.td.columns.column import Column
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text

#: draws ``count`` whole numbers from ``low`` to ``high``, both included
Integers = Callable[[int, int, int], list[int]]
#: makes a tensor of a shape, dtype and device, for a contract
Fill = Callable[[tuple[int, ...], torch.dtype, "torch.device | None", Contract], Tensor]

#: the shortest and the longest row, string and list that are drawn
SHORTEST, LONGEST = 1, 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class PlannedColumn(NamedTuple):
    """A column of the plan."""

    declared: Declared
    row: RowContract | None
    batch_size: Size
    #: the number of items of each row, for each ragged dimension, outermost first; empty for other columns
    lengths: list[list[int]]
    item_shape: tuple[int, ...]


class LengthPlan:
    """The lengths of the rows of one record.

    Args:
        batch_size: the batch size of the record.
        given: the size given for a name: a number for all rows, one for each row, or ``None``.
        fixed: the sizes of names that are also dimensions of tensors.
        draw: draws lengths that are not given; ``None``: they must be given.
    """

    def __init__(
        self,
        batch_size: Size,
        given: Callable[[str], int | Sequence[int] | None],
        fixed: Mapping[str, int],
        draw: Integers | None,
    ) -> None:
        self._rows = batch_size.numel()
        self._given, self._fixed, self._draw = given, fixed, draw
        #: names without a size
        self.missing: list[str] = []
        self._named: dict[str, list[list[int]]] = {}

    def name(self, rows: Sequence[RowContract]) -> None:
        """Plan the row lengths of each named ragged dimension, so that no expression of the names is negative."""
        depths = {name: row.depth for row in rows for name in (row.length.names if row.length is not None else ())}
        drawn: list[str] = []
        for name, depth in depths.items():
            outer = self._outer(depth - 1, [self._named[n] for n in self._named if depths[n] == depth])
            count = outer[-1] if outer else None
            total = self._rows if count is None else sum(count)
            size = self._fixed.get(name)
            found: int | Sequence[int] | None = self._given(name) if size is None else size
            if found is None and self._draw is None:
                self.missing.append(name)
                found = 0
            if found is None:
                assert self._draw is not None
                drawn.append(name)
                found = self._draw(SHORTEST, LONGEST, total)
            elif not isinstance(found, int) and len(found) != total:
                raise ValueError(f"the lengths of {name}: expected one number, or {total}, got {len(found)}")
            self._named[name] = [*outer, [found] * total if isinstance(found, int) else [*found]]
        formulas = [row.length for row in rows if row.length is not None and row.length.formula is not None]
        for _ in range(0 if self.missing else LONGEST):
            if all(min(self._inner(dim), default=0) >= 0 for dim in formulas):
                return
            for name in drawn:
                self._named[name][-1] = [length + 1 for length in self._named[name][-1]]

    def _outer(self, depth: int, alike: list[list[list[int]]]) -> list[list[int]]:
        """Return the lengths of all ragged dimensions but the innermost: the first of ``alike``, or new ones."""
        if alike:
            return alike[0][:-1]
        found: list[list[int]] = []
        for _ in range(depth):
            total = sum(found[-1]) if found else self._rows
            found.append([1] * total if self._draw is None else self._draw(1, 3, total))
        return found

    def _inner(self, dim: Dim) -> list[int]:
        assert dim.formula is not None
        names = dim.names
        inner = [self._named[name][-1] for name in names]
        return [evaluate(dim.formula, dict(zip(names, row, strict=True))) for row in zip(*inner, strict=True)]

    def of(self, row: RowContract | None, ragged_dims: int) -> list[list[int]]:
        """Return the lengths of the rows of a field, for each ragged dimension."""
        if self.missing:
            return []
        dim = None if row is None else row.length
        if dim is not None and dim.name is not None:
            return self._named[dim.name]
        if dim is not None and dim.formula is not None:
            outer = self._named[dim.names[0]][:-1]
            lengths = self._inner(dim)
            if min(lengths, default=0) < 0:
                raise ValueError(f"the length {dim.formula} is {min(lengths)} with the given sizes; give larger ones")
            return [*outer, lengths]
        outer = self._outer(ragged_dims - 1, [])
        total = sum(outer[-1]) if outer else self._rows
        if dim is not None and dim.size is not None:
            return [*outer, [dim.size] * total]
        return [*outer, [1] * total if self._draw is None else self._draw(SHORTEST, LONGEST, total)]


def can_be_made(declared: Declared, is_random: bool) -> bool:
    """Return whether rows can be made of a declaration alone."""
    return not issubclass(declared.cls, Column) or _maker(declared.item_type, is_random) is not None


def filled_column(plan: PlannedColumn, fill: Fill, device: torch.device | None, draw: Integers | None) -> Any:
    """Make a column.

    Args:
        plan: its rows.
        fill: makes the items of ragged rows.
        device: where the column is.
        draw: draws strings and objects; ``None``: they are empty.
    """
    declared = plan.declared
    count = plan.batch_size.numel()
    if issubclass(declared.cls, Text):
        strings = [""] * count if draw is None else [_word(draw) for _ in range(count)]
        return declared.cls.from_list(strings, device=device).reshape(plan.batch_size)
    if issubclass(declared.cls, Column):
        make = _maker(declared.item_type, draw is not None)
        assert make is not None
        column = Column([make(draw) for _ in range(count)], declared.item_type, device=device)
        return declared.in_class(column.reshape(plan.batch_size))
    item = Contract() if plan.row is None else plan.row.item
    shape = (sum(plan.lengths[-1]), *plan.item_shape)
    rows: Any = fill(shape, usual(item.dtypes)[0], device or item.device, item)
    for lengths in reversed(plan.lengths[1:]):
        rows = Ragged.from_lengths(rows, lengths)
    outermost = torch.tensor(plan.lengths[0], dtype=torch.int64).reshape(plan.batch_size)
    return declared.in_class(Ragged.from_lengths(rows, outermost))


# ---------------------------------------------------------------------------------------------------------------------
# objects

Maker = Callable[["Integers | None"], Any]


def _word(draw: Integers) -> str:
    (length,) = draw(SHORTEST, LONGEST, 1)
    return "".join([_LETTERS[letter] for letter in draw(0, len(_LETTERS) - 1, length)])


def _maker(item_type: Any, is_random: bool) -> Maker | None:
    """Return a function that makes an object of a type; ``None`` for types of which nothing is known."""
    if item_type is None or item_type is type(None):
        return lambda draw: None
    if isinstance(item_type, type) and get_origin(item_type) is None:
        return _class_maker(item_type, is_random)
    origin, args = get_origin(item_type), get_args(item_type)
    cls: Any = origin
    if origin is typing.Annotated:
        return _maker(args[0], is_random)
    if origin in (Union, types.UnionType):
        options = [_maker(arg, is_random) for arg in args]
        known = [option for option in options if option is not None]
        return _one_of(known) if len(known) == len(options) else None
    if origin is Literal:
        return _one_of([_constant(value) for value in args]) if is_random else None
    if origin is tuple and args and args[-1] is not ...:
        each = [_maker(arg, is_random) for arg in args]
        known = [one for one in each if one is not None]
        return None if len(known) != len(each) else lambda draw: tuple([one(draw) for one in known])
    if origin in (list, set, frozenset, tuple):
        if not is_random:
            return lambda draw: cls()
        item = _maker(args[0], is_random)
        return None if item is None else lambda draw: cls(_several(item, draw))
    if origin is dict:
        if not is_random:
            return lambda draw: {}
        key, value = _maker(args[0], is_random), _maker(args[1], is_random)
        if key is None or value is None:
            return None
        return lambda draw: {one: value(draw) for one in _several(key, draw)}
    return None


def _class_maker(cls: type[Any], is_random: bool) -> Maker | None:
    if issubclass(cls, enum.Enum):
        return _one_of([_constant(member) for member in cls]) if is_random else None
    if cls not in _EMPTY:
        return None
    made: Any = cls
    make = _RANDOM.get(cls) if is_random else None
    return lambda draw: made() if make is None or draw is None else make(draw)


def _constant(value: Any) -> Maker:
    return lambda draw: value


def _one_of(options: Sequence[Maker]) -> Maker:
    return lambda draw: options[0 if draw is None else draw(0, len(options) - 1, 1)[0]](draw)


def _several(item: Maker, draw: Integers | None) -> list[Any]:
    return [] if draw is None else [item(draw) for _ in range(draw(0, 3, 1)[0])]


#: classes whose call without arguments is an empty object
_EMPTY = (str, bytes, int, float, complex, bool, list, dict, tuple, set, frozenset)

_RANDOM: dict[type, Callable[[Integers], Any]] = {
    str: _word,
    bytes: lambda draw: _word(draw).encode(),
    int: lambda draw: draw(0, 99, 1)[0],
    float: lambda draw: draw(0, 1 << 24, 1)[0] / (1 << 24),
    complex: lambda draw: complex(*[one / (1 << 24) for one in draw(0, 1 << 24, 2)]),
    bool: lambda draw: bool(draw(0, 1, 1)[0]),
}
