"""Select the columns of a file for the fields of a class, and derive their Arrow types."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from tensorclass.contracts.contract import Contract
from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_targets import entry_target
from tensorclass.convert.diagnosis import absent_key, is_required
from tensorclass.records.fields import FieldSpec, Kind
from tensorclass.records.record import TensorClass
from tensorclass.support.extras import require
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text
from tensorclass.td.stored_names import all_names, shown_names

from .column_names import key_of_columns

#: dtypes for parsed numbers in order of preference, as far as a contract allows them
_PREFERRED = (
    ("float64", "float32", "float16"),
    ("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8"),
    ("bool",),
)


def chosen_columns(
    what: str,
    names: Sequence[str],
    columns: Sequence[str] | None,
    problems: Problems,
    known: Sequence[str] | None = None,
) -> Sequence[str]:
    """Return the columns of a table to read: those that ``columns=`` names, or all.

    Args:
        what: the call, for messages: ``"from_csv"``.
        names: the names of all columns.
        columns: the names to read; ``None`` for all.
        problems: takes the notes.
        known: what ``columns=`` may name; ``names`` by default.

    Raises:
        TypeError: ``columns`` is a text, not a list.
        ConversionError: a name is that of no column. Lists all of them.
    """
    if columns is None:
        return names
    if isinstance(columns, str):
        raise TypeError(f"{what}: expected a list of columns, got the text {columns!r}")
    for name in columns:
        if name not in (names if known is None else known):
            expected = f"one of the columns {', '.join(map(repr, names))}"
            problems.add_unknown((name,), expected, "a name that is none of them", names)
    problems.check()
    return columns


def kept_columns(cls: Any, paths: Iterable[tuple[str, ...]], problems: Problems, strict: bool) -> set[tuple[str, ...]]:
    """Select the columns of a file that are for fields; an untyped collection takes all.

    Notes required fields without a column and, if ``strict``, columns that are no fields. Otherwise those are noted as
    left out.

    Args:
        cls: class of the result.
        paths: the key of each column.
        problems: takes the notes.
        strict: whether a column that is no field is an error.
    """
    kept: set[tuple[str, ...]] = set()
    for path in paths:
        undeclared = _undeclared(cls, path)
        if undeclared is None:
            kept.add(path)
        elif not strict:
            problems.left_out[undeclared] = None
        elif not problems.covers(undeclared):
            hint = _separated(cls, path) or "strict=False leaves it out"
            owner = _owner(cls, undeclared)
            expected = f"one of the fields {', '.join(shown_names(owner, owner._specs))}"
            problems.add_unknown(
                undeclared, expected, "a column that is none of them", all_names(owner, owner._specs), hint
            )
    _note_missing(cls, kept, problems, ())
    return kept


def column_types(pa: Any, cls: Any, paths: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    """Return Arrow types of columns with one value a row, as far as the fields of a record tell."""
    types: dict[tuple[str, ...], Any] = {}
    for path in paths:
        owner, spec = _field_at(cls, path)
        found = None if spec is None else _scalar(pa, spec, owner)
        if found is not None:
            types[path] = found
    return types


def nested_types(pa: Any, cls: Any, separator: str | None = None) -> dict[str, Any]:
    """Return the Arrow types of a record's fields, as far as they tell: lists for dimensions, structs for records.

    They are under the names of their columns. A separator puts the fields of nested records under joined names instead.
    """
    types: dict[str, Any] = {}
    for spec in cls._specs.values() if _is_record(cls) else ():
        name = spec.stored_name
        target: Any = spec.target(cls)
        if _is_record(target) and target is not cls:
            inner = nested_types(pa, target, separator)
            if separator is not None:
                types.update({f"{name}{separator}{key}": arrow_type for key, arrow_type in inner.items()})
            elif inner:
                types[name] = pa.struct([*inner.items()])
            continue
        if spec.column is not None:
            arrow_type = _of_column(pa, spec.column)
            if arrow_type is not None:
                types[name] = arrow_type
            continue
        found = _scalar(pa, spec, cls)
        rank = spec.contract.rank if spec.contract is not None else None
        if found is None or (target is Tensor and rank is None):
            continue
        for _ in range(rank or 0 if target is Tensor else 0):
            found = pa.list_(found)
        types[name] = found
    return types


def time_types(pa: Any, cls: Any, path: Sequence[str]) -> list[Any]:
    """Return the Arrow types that ISO dates and times in a file of text can have for a field; none: they are text.

    A tensor takes nanoseconds, since 1970 or midnight, as from tables whose columns are times. A ``Column`` takes the
    objects of its annotation.
    """
    owner, spec = _field_at(cls, path)
    if spec is None:
        return []
    if spec.column is not None:
        kinds = (spec.column.item_type, *get_args(spec.column.item_type))
        times: dict[Any, list[Any]] = {
            datetime.date: [pa.date32(), pa.timestamp("us")],
            datetime.datetime: [pa.timestamp("us")],
            datetime.time: [pa.time64("us")],
        }
        return next((times[kind] for kind in kinds if kind in times), list[Any]())
    if spec.target(owner) is not Tensor:
        return []
    contracts = () if spec.contract is None else (spec.contract, *spec.contract.others)
    takes_int64 = all(one.dtypes is None or torch.int64 in one.dtypes for one in contracts)
    return [pa.timestamp("ns"), pa.time64("ns")] if takes_int64 else []


def is_beyond_int64(column: Any) -> bool:
    """Return whether some doubles of a column exceed int64: in the file it may have held larger integers."""
    compute = require("pyarrow.compute", "arrow", "from_csv")
    low, high = compute.min_max(column).as_py().values()
    return high is not None and (high >= 2.0**63 or low < -(2.0**63))


def optional_text(cls: Any, path: Sequence[str]) -> bool:
    """Return whether a column holds text that may be missing.

    That is so if the field takes ``None`` or has a default, and if nothing is declared.
    """
    owner, spec = _field_at(cls, path)
    if spec is None or (spec.kind is Kind.ANY and not spec.types):
        return True
    return spec.default is not None or spec.allows_none_in(owner)


def _below(owner: Any, name: str) -> Any:
    """Return the target of an entry of a class; ``None`` below tensors and objects."""
    return entry_target(owner, name) if isinstance(owner, type) and owner is not Tensor else None


def _field_at(cls: Any, path: Sequence[str]) -> tuple[Any, FieldSpec | None]:
    """Return the class that has the last name of a path as a key, and its field; ``None`` if it is not a field."""
    owner = _owner(cls, path)
    return owner, owner._specs.get(path[-1]) if _is_record(owner) else None


def _is_record(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, TensorClass)


def _undeclared(cls: Any, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the shortest prefix of a path that is not a declared field; ``None`` if all of them are declared."""
    owner = cls
    for depth, name in enumerate(path):
        if not _is_record(owner):
            return None  # a TensorDict takes every key; other fields raise by themselves
        if name not in owner._specs:
            return path[: depth + 1]
        owner = _below(owner, name)
    return None


def _separated(cls: Any, path: tuple[str, ...]) -> str:
    """Return a hint if splitting the column name leads to a field."""
    for separator in (".", "/", "__", "_"):
        split = key_of_columns(cls, (*path[:-1], *path[-1].split(separator)))
        if separator in path[-1] and _undeclared(cls, split) is None:
            return f"separator={separator!r} splits it into the keys of a field"
    return ""


def _owner(cls: Any, path: Sequence[str]) -> Any:
    """Return the class whose fields a path leads to."""
    owner = cls
    for name in path[:-1]:
        owner = _below(owner, name)
    return owner


def _note_missing(cls: Any, kept: set[tuple[str, ...]], problems: Problems, path: tuple[str, ...]) -> None:
    if not _is_record(cls):
        return
    for name, spec in cls._specs.items():
        where = (*path, name)
        if any(one[: len(where)] == where for one in kept):
            inner = _below(cls, name)
            if where not in kept and inner is not cls:
                _note_missing(inner, kept, problems, where)
        elif is_required(spec) and not problems.covers(where):
            problems.add(where, spec.shown, f"nothing: there is no {absent_key(spec, 'column')}")


def _scalar(pa: Any, spec: FieldSpec, cls: Any) -> Any:
    """Return the Arrow type of one value of a field; ``None`` if the declaration leaves it open."""
    target = spec.target(cls)
    if spec.column is not None:
        return pa.string() if issubclass(spec.column.cls, Text) else None
    if target is Tensor:
        return None if spec.contract is None else _of_dtypes(pa, spec.contract)
    if target is not None:
        return None
    classes: set[Any] = {literal.__class__ for literal in spec.literals} if spec.literals else {*spec.types}
    if len(classes) != 1:
        return None
    known: dict[Any, Any] = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime.date: pa.date32(),
        datetime.datetime: pa.timestamp("us"),
    }
    return known.get(classes.pop())


def _of_column(pa: Any, declared: Declared) -> Any:
    """Return the Arrow type of a column; ``None`` if its declaration leaves it open."""
    if issubclass(declared.cls, Text):
        return pa.string()
    contract = Contract.of(declared.item_type) if issubclass(declared.cls, Ragged) else None
    found = None if contract is None else _of_dtypes(pa, contract)
    if contract is None or found is None or contract.rank is None:
        return None
    for _ in range(declared.ragged_dims + contract.rank - 1):
        found = pa.list_(found)
    return found


def _of_dtypes(pa: Any, contract: Contract) -> Any:
    allowed: set[torch.dtype] = set()
    for one in (contract, *contract.others):
        if one.dtypes is None:
            return None
        allowed |= one.dtypes
    by_category = [[name for name in names if getattr(torch, name) in allowed] for names in _PREFERRED]
    fitting = [names[0] for names in by_category if names]
    if len(fitting) != 1:  # several categories fit, so the text decides
        return None
    return getattr(pa, {"bool": "bool_"}.get(fitting[0], fitting[0]))()
