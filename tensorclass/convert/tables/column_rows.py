"""Rows of a table as columns: of the declared class, with what stands for rows without a value."""

from __future__ import annotations

import enum
import pathlib
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Union, cast, get_args, get_origin

import torch
from torch import Size, Tensor

from tensorclass.support.help_links import help_link
from tensorclass.td.columns.buffer_column import SPANS, BufferColumn
from tensorclass.td.columns.column import Column, as_column
from tensorclass.td.columns.item_types import decoded, encoded, predicate, shown
from tensorclass.td.columns.text import Text
from tensorclass.td.delegated.arguments import Nulls
from tensorclass.td.leaves.content import Content

from .arrow_numbers import nulls_of
from .column_reader import ReadColumn, UnreadableColumn
from .column_schema import NOTHING, ColumnSchema

_HINT = "nulls='fill' fills them, nulls='mask' also says where they were"

Conversion = Callable[[Any], Any]


def declared_rows(rows: Sequence[Any], schema: ColumnSchema, nulls: Nulls, size: Size | None = None) -> ReadColumn:
    """Convert objects, one for each row, to the column that a field declares.

    Args:
        rows: strings, sequences of numbers, or the objects of a :class:`Column`; ``None`` for a missing row. In flat
            order.
        schema: of the field.
        nulls: what becomes of missing rows.
        size: the batch size. Default: one dimension.

    Raises:
        UnreadableColumn: a row does not fit the field. The message names it.
    """
    declared = schema.declared
    try:
        if issubclass(declared.cls, Column):
            convert = item_conversion(declared.item_type)
            items = rows if convert is None else [convert(row) for row in rows]
            return fill_missing_objects(list(items), schema, nulls, size)
        made = schema.typed(declared.made(rows, Size((len(rows),))))
    except (TypeError, ValueError) as error:
        raise misfit(schema, error) from None
    return fill_missing(made if size is None else made.reshape(size), schema, nulls)


def misfit(schema: ColumnSchema, error: Exception) -> UnreadableColumn:
    """Return the problem of a column that its class refused."""
    _, _, what = str(error).partition(": ")
    return UnreadableColumn(schema.shown, "other rows", what or str(error))


def fill_missing(column: BufferColumn, schema: ColumnSchema, nulls: Nulls) -> ReadColumn:
    """Fill rows without a value: with the default of the field, or with nothing if it does not allow such rows.

    ``nulls="fill"`` also makes missing ragged rows empty, as 0 fills missing numbers.

    Raises:
        UnreadableColumn: rows have no value, and must have one.
    """
    missing = column.missing
    if not bool(missing.any()):
        return ReadColumn(column)
    mask = ~missing if nulls == "mask" else None
    default = _default_of(schema, missing, nulls)
    if default is not None:
        column = column.clone()
        try:
            column[missing] = schema.declared.made(default, Size(())).expand(Size((int(missing.sum()),)))
        except (TypeError, ValueError) as error:
            raise misfit(schema, error) from None
    elif (schema.spec is not None and not schema.optional) or (
        nulls != "default" and column._CONTENT is Content.RAGGED
    ):
        spans = column._spans()
        column = column._same({SPANS: torch.stack((spans[..., 0], spans[..., 1].clamp(min=0)), -1)})
    return ReadColumn(column, mask)


def fill_missing_objects(
    items: list[Any], schema: ColumnSchema, nulls: Nulls, size: Size | None = None, item_type: Any = None
) -> ReadColumn:
    """Return a :class:`Column` of objects, with missing ones filled; see :func:`fill_missing`."""
    if item_type is None:
        item_type = schema.spec.column.item_type if schema.spec is not None and schema.spec.column is not None else Any
    mask, missing = None, torch.tensor([item is None for item in items], dtype=torch.bool)
    fits = predicate(item_type)
    if bool(missing.any()) and (nulls == "raise" or (fits is not None and not fits(None))):
        mask = ~missing if nulls == "mask" else None
        default = _default_of(schema, missing, nulls)
        if default is None and schema.spec is not None:
            raise _has_none(schema, missing)
        if default is not None:
            items = [_default_object(schema) if item is None else item for item in items]
    elif nulls == "mask" and bool(missing.any()):
        mask = ~missing
    try:
        column = as_column(items, item_type)
    except (TypeError, ValueError) as error:
        raise misfit(schema, error) from None
    if size is not None:
        column, mask = column.reshape(size), mask if mask is None else mask.reshape(size)
    return ReadColumn(column, mask)


def _default_of(schema: ColumnSchema, missing: Tensor, nulls: Nulls) -> Any:
    """Return the default of the field for missing rows; ``None`` if there is none and they may stay.

    Raises:
        UnreadableColumn: missing rows are an error.
    """
    if nulls == "raise":
        raise _has_none(schema, missing)
    if nulls != "default" or schema.spec is None:
        return None
    default = schema.default()
    if default is NOTHING or default is None:
        if not schema.optional:
            raise _has_none(schema, missing)
        return None
    return default


def _default_object(schema: ColumnSchema) -> Any:
    """Return the default of a field for one row: its own object, where a factory makes it."""
    made: Any = schema.default()
    return made.item() if issubclass(type(made), Column) else made


def _has_none(schema: ColumnSchema, missing: Tensor) -> UnreadableColumn:
    expected = "no nulls" if schema.spec is None else f"{schema.shown}, which has no default"
    hint = _HINT
    declared = None if schema.spec is None else schema.spec.column
    if declared is not None and issubclass(declared.cls, Column):
        hint = f"to allow rows without a value, declare Column[{shown(declared.item_type)} | None]"
    elif declared is not None:
        hint = f"{_HINT}, {schema.shown} | None allows rows without a value"
    hint += help_link("nulls")
    return UnreadableColumn(expected, nulls_of(int(missing.sum()), ~missing.reshape(-1)), hint)


# -- objects of a declared type ---------------------------------------------------------------------------------------


def item_conversion(annotation: Any) -> Conversion | None:
    """Return a function that makes objects of an annotation from what tables hold; ``None`` where nothing changes.

    Lists become tuples and sets, pairs dicts, names members of an enumeration, strings paths.

    >>> item_conversion(tuple[str, ...])(["a", "b"])
    ('a', 'b')
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return item_conversion(args[0])
    if origin in (Union, types.UnionType):
        options = [(predicate(arg), item_conversion(arg)) for arg in args]
        return None if all(convert is None for _, convert in options) else lambda item: _first_fit(options, item)
    if isinstance(annotation, type) and origin is None:
        return _of_class(annotation)
    if origin in (list, tuple, set, frozenset):
        kind: Any = origin
        inner = item_conversion(args[0]) if args and (origin is not tuple or args[1:] == (...,)) else None
        if origin is list and inner is None:
            return lambda item: item.tolist() if hasattr(item, "tolist") else item
        return lambda item: _listed(kind, item, inner)
    if origin is dict:
        return _as_dict
    return None


def _as_dict(item: Any) -> Any:
    """Return a list of pairs, as Arrow gives maps, as a dict; another object itself."""
    pairs: Any = item
    return dict(pairs) if isinstance(item, list) else pairs


def _of_class(cls: type) -> Conversion | None:
    made: Any = cls
    if issubclass(cls, enum.Enum):
        return lambda item: member_of(made, item)
    if issubclass(cls, pathlib.PurePath):
        return lambda item: made(item) if isinstance(item, str) else item
    if cls in (tuple, set, frozenset, list):
        return lambda item: _listed(made, item, None)
    if cls is dict:
        return _as_dict
    return None


def _listed(kind: Any, item: Any, inner: Conversion | None) -> Any:
    if hasattr(item, "tolist"):  # an array
        item = item.tolist()
    items: Any = item
    if not isinstance(item, list):
        return items
    return kind(items if inner is None else [inner(one) for one in items])


def _first_fit(options: Sequence[tuple[Any, Conversion | None]], item: Any) -> Any:
    for fits, convert in options:
        made = item if convert is None else convert(item)
        if fits is None or fits(made):
            return made
    return item


def member_of(cls: type[enum.Enum], value: Any) -> Any:
    """Return the enum member with a name or value; the value itself if there is none."""
    found = cls.__members__.get(value) if isinstance(value, str) else None
    if found is not None:
        return found
    try:
        return cls(value)
    except ValueError:
        return value


def item_type_note(item_type: Any) -> Any:
    """Return an annotation for the metadata of a column, as JSON holds it: :func:`item_types.encoded`, else ``Any``."""
    note: Any = encoded(item_type)
    form: object = note
    return note if isinstance(form, tuple) else ("Any",)


def item_type_of(note: Any) -> Any:
    """Return the annotation of :func:`item_type_note`."""

    def tuples(form: Any) -> Any:
        forms: Any = form
        return tuple([tuples(one) for one in forms]) if isinstance(form, list) else forms

    try:
        return decoded(tuples(note))
    except (KeyError, TypeError, ValueError):
        return Any


# -- where nothing is declared ----------------------------------------------------------------------------------------


def undeclared_rows(items: Sequence[Any], present: Sequence[Any]) -> Any:
    """Return rows of strings, of numbers or of lists as a column; ``None`` for other objects.

    Args:
        items: an object for each row, ``None`` for missing ones.
        present: those that are not missing.
    """
    kinds: set[type[Any]] = {*map(type, present)}
    if kinds and all(issubclass(kind, str) for kind in kinds):
        return Text.from_list(items)
    if not kinds or not all(issubclass(kind, (list, tuple)) or hasattr(kind, "tolist") for kind in kinds):
        return None
    lists: list[Any] = [item.tolist() if hasattr(item, "tolist") else item for item in items]
    below: set[type[Any]] = {
        type(one) for row in lists if isinstance(row, (list, tuple)) for one in cast("Sequence[Any]", row)
    }
    item_type = list_type(below)
    return (
        None if item_type is None else as_column(lists, item_type if len(present) == len(items) else item_type | None)
    )


def list_type(kinds: set[type]) -> Any:
    """Return the annotation of lists of strings or of dicts, from the types of all their items; ``None`` for others."""
    named = kinds - {type(None)}
    for kind in (str, dict):
        if named and all(issubclass(one, kind) for one in named):
            inner: Any = kind if named == kinds else kind | None
            return list[inner]
    return None
