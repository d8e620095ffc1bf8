"""Checks of the lengths of rows: ragged fields whose rows have a dimension of one name have equal lengths, row by row.

A name that is also a dimension of a tensor, or of an item, has one size: every row has that length. Rows without a
value have no length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from tensorclass.td.collection import functorch
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.leaves.object_codes import to_lists

from .dims import Dim, evaluate
from .row_contract import RowContract

if TYPE_CHECKING:
    from tensorclass.records.fields import FieldSpec

    from .contract import Contract


class RowLengths:
    """The fields of a class whose row lengths are compared.

    Args:
        specs: the fields of the class.
    """

    __slots__ = ("_groups", "fields")

    def __init__(self, specs: Mapping[str, FieldSpec]) -> None:
        rows = [(key, row, row.length) for key, row in rows_of(specs)]
        sized = {name for _, dim in item_dims(specs) for name in dim.names}
        computed = {name for _, _, dim in rows if dim is not None and dim.formula is not None for name in dim.names}
        by_name: dict[str, dict[str, None]] = {}
        for key, _, dim in rows:
            if dim is not None and dim.name is not None:
                by_name.setdefault(dim.name, {})[key] = None
        wanted = {
            key
            for key, _, dim in rows
            if dim is not None
            and (dim.name is None or dim.name in sized or dim.name in computed or len(by_name[dim.name]) > 1)
            and (dim.size, dim.name, dim.formula) != (None, None, None)
        }
        is_easy = all(
            dim is None or (dim.name is not None and dim.name not in sized | computed and not dim.broadcastable)
            for key, _, dim in rows
            if key in wanted
        ) and all(row.depth == 1 and not row.others for key, row, _ in rows if key in wanted)
        #: fields of one name, if comparing their lengths with each other is enough
        self._groups: list[list[str]] | None = (
            [[*keys] for keys in by_name.values() if len(keys) > 1] if is_easy else None
        )
        names = {name for key, _, dim in rows if key in wanted and dim is not None for name in dim.names}
        #: the fields to look at if they change
        self.fields: frozenset[str] = frozenset(
            wanted | {key for key, dim in item_dims(specs) if wanted and not names.isdisjoint(dim.names)}
        )

    def fit(self, values: Mapping[str, Any]) -> bool:
        """Return whether rows have the lengths that they must have; ``False`` also if it cannot tell."""
        if self._groups is None:
            return False
        for keys in self._groups:
            first: Tensor | None = None
            for key in keys:
                column = values.get(key)
                if column is None:
                    continue
                spans: Tensor = column._spans()
                if first is None:
                    first = spans
                elif spans is not first and (not is_readable(spans) or not torch.equal(first[..., 1], spans[..., 1])):
                    return False
        return True


def rows_of(specs: Mapping[str, FieldSpec]) -> Iterator[tuple[str, RowContract]]:
    """Iterate over the row contracts of a class, with alternatives, by field."""
    for key, spec in specs.items():
        for row in spec.row_contract or ():
            yield key, row


def item_dims(specs: Mapping[str, FieldSpec]) -> Iterator[tuple[str, Dim]]:
    """Iterate over the dimensions that have one size in a record: those of tensors, and of the items of rows."""
    for key, spec in specs.items():
        contract = spec.contract
        contracts: list[Contract] = [] if contract is None else [contract, *contract.others]
        contracts += [row.item for row in spec.row_contract or ()]
        for one in contracts:
            for dim in one.dims or ():
                yield key, dim


def check_names(owner: str, specs: Mapping[str, FieldSpec]) -> None:
    """Raise if the names of row lengths contradict each other, or cannot be known.

    Raises:
        ValueError: one name stands at different depths, or a dimension with one size follows from a length.
    """
    depths: dict[str, tuple[int, str]] = {}
    for key, row in rows_of(specs):
        for name in row.length.names if row.length is not None else ():
            depth, other = depths.setdefault(name, (row.depth, key))
            if depth != row.depth:
                raise ValueError(
                    f"{owner}.{key}: {name} is the length of rows {row.depth} ragged dimensions deep, and in the field "
                    f"{other} {depth} deep; use two names"
                )
    sized = {dim.name for _, dim in item_dims(specs) if dim.name is not None and not dim.variadic}
    for key, dim in item_dims(specs):
        if dim.formula is not None and (varying := [n for n in dim.names if n in depths and n not in sized]):
            raise ValueError(
                f"{owner}.{key}: the dimension {dim.text!r} has one size, and {varying[0]} is a length that each row "
                f"of the field {depths[varying[0]][1]} has for itself"
            )


#: the columns whose row lengths have a name: field, column, whether a length of one will do
Named = dict[str, list[tuple[str, Ragged[Any], bool]]]


class LengthMismatch(NamedTuple):
    """A row whose length is wrong."""

    #: the field, and the other fields that the length follows from
    field: str
    others: tuple[str, ...]
    why: str


def length_mismatches(
    rows: Sequence[tuple[str, RowContract, Ragged[Any]]], bound: Mapping[str, tuple[Any, str]]
) -> Iterator[LengthMismatch]:
    """Iterate over the fields that have rows of a wrong length; each names the first such row.

    Args:
        rows: field, contract and column.
        bound: the sizes of dimensions that have one size in the record, and the field that each was read from.
    """
    named: Named = {}
    readable = [one for one in rows if one[1].length is not None and is_readable(one[2]._spans())]
    for key, row, column in readable:
        dim = row.length
        assert dim is not None
        if dim.name is None:
            continue
        same = named.setdefault(dim.name, [])
        for other, before, may_be_one in same:
            why = _differ(dim, column, before, other, may_be_one)
            if why:
                yield LengthMismatch(key, (other,), why)
                break
        same.append((key, column, dim.broadcastable))
    for key, row, column in readable:
        dim = row.length
        assert dim is not None
        if dim.size is not None:
            why = _unequal(dim, column, dim.size, f"must be {dim.size}")
            others: tuple[str, ...] = ()
        elif dim.name is not None:
            if dim.name not in bound:
                continue
            size, other = bound[dim.name]
            others, why = (other,), _unequal(dim, column, size, f"must be {size}: {dim.name} in the field {other}")
        elif dim.formula is not None:
            others = tuple(dict.fromkeys(_sources(dim, named, bound)))
            why = _formula_differs(dim, column, named, bound)
        else:
            continue
        if why:
            yield LengthMismatch(key, tuple(other for other in others if other != key), why)


def _sources(dim: Dim, named: Named, bound: Mapping[str, tuple[Any, str]]) -> Iterator[str]:
    for name in dim.names:
        if name in bound:
            yield bound[name][1]
        elif name in named:
            yield named[name][0][0]


def is_readable(spans: Tensor) -> bool:
    """Return whether numbers can be read from a tensor."""
    return not (spans.is_meta or isinstance(spans, FakeTensor) or functorch.is_functorch_wrapped_tensor(spans))


class _Levels(NamedTuple):
    """The lengths of several columns over the rows that have a value in all of them."""

    #: the position in the batch of each row, ``int64[rows, batch dimensions]``
    rows: Tensor
    #: the lengths of each column, outermost ragged dimension first
    lengths: list[list[Tensor]]


def _levels(columns: Sequence[Ragged[Any]]) -> _Levels:
    spans = [column._spans() for column in columns]
    present = torch.stack([one[..., 1] >= 0 for one in spans]).all(0)
    lengths: list[list[Tensor]] = []
    for column, one in zip(columns, spans, strict=True):
        chosen = one[present]
        own = [chosen[:, 1]]
        below: Any = column
        while below.ragged_dims > 1:
            below = below._of(below._items, chosen)._packed()[0]
            chosen = below._spans()
            own.append(chosen[:, 1])
        lengths.append(own)
    return _Levels(present.nonzero(), lengths)


def _first(wrong: Tensor) -> int | None:
    """Return the position of the first true element."""
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def _shown_row(levels: _Levels, lengths: list[Tensor], at: int) -> str:
    """Return a row for messages: its indices in the batch, then in each ragged dimension."""
    inner: list[int] = []
    for counts in reversed(lengths[:-1]):
        ends = counts.clamp(min=0).cumsum(0)
        row = int(torch.searchsorted(ends, at, right=True))
        inner.insert(0, at - (int(ends[row - 1]) if row else 0))
        at = row
    position = [*to_lists(levels.rows[at]), *inner]
    if not position:
        return "the row"
    return f"row {position[0]}" if len(position) == 1 else f"row {position}"


def _differ(dim: Dim, column: Ragged[Any], before: Ragged[Any], other: str, may_be_one: bool) -> str:
    """Return what is wrong with the lengths of a column beside those of another."""
    if column._spans() is before._spans() and isinstance(column._items, Tensor):
        return ""
    levels = _levels([before, column])
    theirs, ours = levels.lengths
    for level, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        wrong = a != b
        if level == len(ours) - 1:
            wrong = wrong & (a >= 0) & (b >= 0)
            wrong = wrong & (b != 1) if dim.broadcastable else wrong
            wrong = wrong & (a != 1) if may_be_one else wrong
        at = _first(wrong)
        if at is not None:
            row = _shown_row(levels, ours[: level + 1], at)
            what = f"{dim.name} is" if level == len(ours) - 1 else "the number of rows in it is"
            return f"{row}: {what} {int(a[at])} in the field {other}, but {int(b[at])} here"
    return ""


def _unequal(dim: Dim, column: Ragged[Any], expected: Any, must: str) -> str:
    levels = _levels([column])
    (own,) = levels.lengths
    at = _first_other(dim, own[-1], expected, own[-1] >= 0)
    return "" if at is None else f"{_shown_row(levels, own, at)}: its length {must}; it is {int(own[-1][at])}"


def _first_other(dim: Dim, actual: Tensor, expected: Any, known: Tensor) -> int | None:
    """Return the position of the first known length that is not the expected one."""
    wrong = known & (actual != expected)
    return _first(wrong & (actual != 1) if dim.broadcastable else wrong)


def _formula_differs(dim: Dim, column: Ragged[Any], named: Named, bound: Mapping[str, tuple[Any, str]]) -> str:
    assert dim.formula is not None
    if any(name not in bound and name not in named for name in dim.names):
        return ""  # a field with one of the names is None
    varying = [name for name in dim.names if name not in bound]
    levels = _levels([column, *[named[name][0][1] for name in varying]])
    ours, *others = levels.lengths
    for level in range(len(ours) - 1):
        for name, theirs in zip(varying, others, strict=True):
            at = _first(theirs[level] != ours[level])
            if at is not None:
                row = _shown_row(levels, ours[: level + 1], at)
                here, there = int(ours[level][at]), int(theirs[level][at])
                return f"{row}: the number of rows in it is {there} in the field {named[name][0][0]}, but {here} here"
    actual = ours[-1]
    sizes: dict[str, Any] = {name: bound[name][0] for name in dim.names if name in bound}
    sizes.update({name: theirs[-1] for name, theirs in zip(varying, others, strict=True)})
    known = actual >= 0
    for theirs in others:
        known = known & (theirs[-1] >= 0)
    try:
        expected: Any = evaluate(dim.formula, sizes)
    except (ZeroDivisionError, RuntimeError):
        return f"its length must be {dim.formula}, which divides by zero"
    at = _first_other(dim, actual, expected, known)
    if at is None:
        return ""
    where = {name: bound[name][1] if name in bound else named[name][0][0] for name in dim.names}
    given = ", ".join(
        [f"{name} = {int(size[at]) if isinstance(size, Tensor) else size} (in the field {where[name]})"
         for name, size in sizes.items()]
    )  # fmt: skip
    must = int(expected[at]) if isinstance(expected, Tensor) else expected
    return (
        f"{_shown_row(levels, ours, at)}: its length must be {dim.formula}, which is {must} with {given}; it is "
        f"{int(actual[at])}"
    )
