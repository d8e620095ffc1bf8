"""Arrow columns as values: tensors, non-tensor data, and dicts of them for structs.

The schema of a column (``declared.py``) says what it becomes. A field of a record takes a tensor, a collection or
objects. A :class:`TensorDict` takes numbers as tensors, structs as collections and everything else as objects. A column
that cannot be read is noted as a problem and left out.
"""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from torch import Size, Tensor

from tensorclass.convert.conversion_options import ConversionOptions, TableOptions
from tensorclass.convert.conversion_steps import build_nested
from tensorclass.support.help_links import help_link
from tensorclass.td.columns.column import Column
from tensorclass.td.columns.text import Text
from tensorclass.td.leaves.content import Content, leaf_class
from tensorclass.td.leaves.nontensor import NonTensorData, stack_of
from tensorclass.td.leaves.object_codes import Deferred, codes_row_by_row, drop_unused, to_lists
from tensorclass.td.leaves.unbatched_tensor import UnbatchedTensor
from tensorclass.td.value_checks import as_tensor

from .arrow_columns import innermost, is_string, list_levels, read_ragged, read_text
from .arrow_extensions import check_extensions
from .arrow_numbers import (
    NestedRagged,
    NumberColumn,
    NumberReader,
    compute,
    filled,
    in_dtype,
    jagged,
    nulls_of,
    shared,
    where_given,
)
from .arrow_text import HEAD, ArrowText, is_text, repeats
from .arrow_writing import noted_batch_size, read_note
from .column_reader import ColumnReader, LazyRows, Path, ReadColumn, UnreadableColumn, reshape_rows
from .column_rows import declared_rows, fill_missing, fill_missing_objects, item_type_of, member_of
from .column_schema import NOTHING, ColumnSchema

#: types of fields that a list (a dict, of a map) is converted to
_LISTED: dict[type, Callable[[Any], Any]] = {one: one for one in (tuple, set, frozenset, dict)}

#: advice for a column of strings that a field of tensors should take
_TEXT_IN_TENSOR = "declare the field Text, or convert the strings to numbers or times first"


class ObjectColumn(list[Any]):
    """Objects that Arrow has no type for."""


class InputColumn(NamedTuple):
    """A column of the source, with the note in the metadata of its field."""

    #: a ``pyarrow.ChunkedArray``, an :class:`ObjectColumn`, or the reason why it cannot be read
    column: Any
    note: Mapping[str, Any] = MappingProxyType({})


class ArrowColumnReader(NumberReader, ColumnReader):
    """Reads Arrow columns."""

    def __init__(self, pa: Any, options: ConversionOptions, table_options: TableOptions) -> None:
        NumberReader.__init__(self, pa, table_options)
        ColumnReader.__init__(self, options, table_options)
        self._counted_rows: Tensor | None = None
        #: number of list levels of an object column that are batch dimensions; ``None``: as many as there are
        self.levels: int | None = None if options.auto else len(options.batch_size or (0,)) - 1

    def check_type(self, column: Any) -> None:
        """Refuse extension types of other libraries."""
        if hasattr(column.column, "type"):
            check_extensions(self.pa, column.column.type)

    def column(self, column: Any, schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read an :class:`InputColumn`, or a dict of them for a nested collection."""
        types, purpose = self.pa.types, schema.holds
        nests = purpose == "collection" or schema.spec is None
        if isinstance(column, dict):
            columns = cast("dict[str, Any]", column)
            if not nests:
                raise UnreadableColumn(schema.shown, f"nested columns {sorted(columns)}")
            return self.nested(columns, schema.target, path)
        column, note = column
        if isinstance(column, UnreadableColumn):
            raise column
        if isinstance(column, ObjectColumn):
            return self._of_objects(column, schema)
        if note.get("none") and _takes_none(schema) and column.null_count == len(column):
            return ReadColumn(None)
        if purpose == "any" and ("objects" in note or "kind" in note):
            return self._objects(column, schema, note)
        if isinstance(column.type, self.pa.BaseExtensionType):
            column = self._unextended(column)
        if purpose == "column":
            return self._declared_column(column, schema, note)
        if schema.is_undeclared and (found := self._undeclared_column(column, schema, note)) is not None:
            return found
        arrow_type = column.type
        if types.is_null(arrow_type) and purpose != "object":
            return self._all_null(len(column), schema)
        if nests and types.is_struct(arrow_type):
            made = self._struct(column, schema, path)
            if "batch_size" in note:  # more batch dimensions than the table
                size = noted_batch_size(len(column), note)
                options = self.conversion._replace(auto=False, batch_dims=None, batch_size=size, names=None)
                made = made._replace(value=build_nested(schema.target, made.value, options, path))
            return made
        if purpose == "collection":
            return self._structs_in_lists(column, schema, path)
        if purpose != "object" and self.is_numeric(arrow_type, times=purpose == "tensor"):
            try:
                return self._fill_nulls(self.numbers(self.as_one_chunk(column)), schema, note)
            except NestedRagged:
                if self.options.ragged == "lazy":
                    return self._nested_ragged_rows(self.as_one_chunk(column), schema, note)
                if purpose == "tensor" or self.options.ragged == "raise":
                    raise
        if purpose == "tensor":
            hint = _TEXT_IN_TENSOR if is_string(self.pa, arrow_type) else ""
            raise UnreadableColumn(schema.shown, f"a column of {arrow_type}", hint)
        return self._objects(column, schema, note)

    # -- text and ragged rows -----------------------------------------------------------------------------------------

    def _batch_levels(self, column: Any, is_number: bool = False) -> tuple[Any, list[int]]:
        """Flatten the levels of lists that are batch dimensions. Return the rows, and their batch size.

        With an inferred batch size, outer levels whose lists have one length are batch dimensions; in columns of
        numbers (``is_number``), no level is.
        """
        shape = [len(column)]
        levels = self.levels if self.levels is not None else 0 if is_number else math.inf
        while len(shape) <= levels and self.is_list(column.type):
            try:
                column, size = self.flatten_lists(column)
            except UnreadableColumn:
                if self.levels is None:
                    break
                raise
            shape.append(size)
        return column, shape

    def _declared_column(self, column: Any, schema: ColumnSchema, note: Mapping[str, Any]) -> ReadColumn:
        """Read a column as the field declares it."""
        declared = schema.declared
        given = column.type
        column, shape = self._batch_levels(column, is_number=True)
        is_null = self.pa.types.is_null(column.type)
        if issubclass(declared.cls, Column):
            return declared_rows(self._object_rows(column), schema, self.options.nulls, Size(shape))
        made: Any
        mask: Any = None
        if issubclass(declared.cls, Text):
            if not (is_string(self.pa, column.type) or is_null):
                raise UnreadableColumn(schema.shown, f"a column of {given}")
            made = read_text(self, column)
        elif is_null:
            made = schema.typed(declared.made([None] * len(column), Size((len(column),))))
        else:
            items, levels = innermost(self, column.type), declared.ragged_dims
            is_items = self.is_numeric(items, times=True) or self.pa.types.is_null(items)
            if not is_items or self._depth(column.type) < levels:
                raise UnreadableColumn(schema.shown, f"a column of {given}")
            made, mask = read_ragged(self, column, levels, note)
            if self.pa.types.is_null(items):
                made = schema.typed(made)
        found = fill_missing(self._own(made).reshape(shape), schema, self.options.nulls)
        found = found._replace(value=declared.in_class(found.value))
        return self._with_item_mask(found, mask, shape)

    def _undeclared_column(self, column: Any, schema: ColumnSchema, note: Mapping[str, Any]) -> ReadColumn | None:
        """Read strings as Text, lists of numbers as Ragged, lists of strings or dicts as a Column; else ``None``."""
        types, items = self.pa.types, innermost(self, column.type)
        is_column = self.is_list(column.type) or is_string(self.pa, column.type) or "column" in note
        if note.get("uniform") or not is_column:
            return None
        is_number = self.is_numeric(items)
        if "column" not in note and is_number and self.options.ragged != "column":
            return None
        column, shape = self._batch_levels(column, is_number)
        nulls = self.options.nulls
        if "column" in note:
            item_type = item_type_of(note["column"])
            return fill_missing_objects(self._object_rows(column), schema, nulls, Size(shape), item_type)
        if is_string(self.pa, column.type):
            return fill_missing(self._own(read_text(self, column)).reshape(shape), schema, nulls)
        if not self.is_list(column.type):
            return None
        if is_number:
            levels = list_levels(self, column.type)
            is_fixed = levels == 1 and types.is_fixed_size_list(column.type)
            by_data = self.options.untyped_lists or self.levels is None
            if is_fixed or (by_data and self._has_one_length(column)):
                return None
            made, mask = read_ragged(self, column, levels, note)
            return self._with_item_mask(fill_missing(self._own(made).reshape(shape), schema, nulls), mask, shape)
        if not (is_string(self.pa, items) or types.is_struct(items)):
            return None
        rows, item_type = self._object_rows(column), typed_lists(self, column)
        return fill_missing_objects(rows, schema, nulls, Size(shape), item_type)

    def _has_one_length(self, column: Any) -> bool:
        """Return whether the lists of all levels have one length, so that they are a tensor."""
        if column.null_count:
            return False
        try:
            return self.numbers(self.as_one_chunk(column)).lengths is None
        except NestedRagged:
            return False

    def _depth(self, arrow_type: Any) -> int:
        """Return the number of levels of lists."""
        return 1 + self._depth(arrow_type.value_type) if self.is_list(arrow_type) else 0

    def _own(self, column: Any) -> Any:
        """Return a column that shares no memory if the options ask for a copy."""
        return column.clone() if self.options.copy else column

    def _with_item_mask(self, found: ReadColumn, mask: Any, shape: Sequence[int]) -> ReadColumn:
        """Add the mask of null items, which also says which rows are null."""
        return found._replace(mask=mask.reshape(shape)) if mask is not None and self.options.nulls == "mask" else found

    def _object_rows(self, column: Any) -> list[Any]:
        """Return the objects of all rows."""
        objects, codes = self._coded_column(column)
        return [objects[code] for code in to_lists(codes)]

    # -- where numbers are null ---------------------------------------------------------------------------------------

    def _fill_nulls(self, found: NumberColumn, schema: ColumnSchema, note: Mapping[str, Any]) -> ReadColumn:
        """Fill the nulls of numbers, and give ragged ones the requested form."""
        if "dtype" in note:
            self.must_copy(f"{note['dtype']}, which Arrow does not have")
            found = in_dtype(found, note["dtype"])
        value, mask, lengths, rows = found
        if mask is None and rows is None:
            value = value.clone() if self.options.copy else value
        else:
            self._check_nulls(mask, rows, schema, mask if lengths is None else rows)
            self.must_copy("nulls that are fill_rows")
            if self.options.nulls == "default":
                if rows is not None and lengths is not None:
                    return self._ragged_default(found, schema)
                assert mask is not None
                value = _with_default(value, mask, schema)
            elif mask is not None:
                value = filled(mask, value)
        if note.get("unbatched") and lengths is None and len(value) and bool((value == value[:1]).all()):
            return ReadColumn(UnbatchedTensor(value[0]))
        if lengths is None:
            return ReadColumn(value, mask if self.options.nulls == "mask" else None)
        if self.options.nulls != "mask":
            return ReadColumn(self._ragged(value, lengths))
        if mask is not None and rows is not None:
            raise UnreadableColumn(
                "lists, or items of lists, that are null", "both", "one mask cannot say where; use nulls='fill'"
            )
        return ReadColumn(self._ragged(value, lengths), rows if mask is None else self._ragged(mask, lengths))

    def _check_nulls(
        self, mask: Tensor | None, rows: Tensor | None, schema: ColumnSchema, there: Tensor | None
    ) -> None:
        """Raise if nulls cannot be filled."""
        count = sum(int((~one).sum()) for one in (mask, rows) if one is not None)
        if self.options.nulls == "raise":
            raise UnreadableColumn("no nulls", nulls_of(count, there), _NULLS)
        if self.options.nulls != "default":
            return
        if schema.spec is None or schema.spec.default is None:
            what = "no nulls" if schema.spec is None else "no nulls, as it has no default"
            raise UnreadableColumn(what, nulls_of(count, there), _NULLS)

    def _ragged_default(self, found: NumberColumn, schema: ColumnSchema) -> ReadColumn:
        """Fill null lists with the default of the field."""
        value, mask, lengths, rows = found
        assert lengths is not None
        assert rows is not None
        if mask is not None:
            value = _with_default(value, mask, schema)
        default = _default_tensor(schema, value.dtype)
        if default is None or default.ndim != value.ndim or default.shape[1:] != value.shape[1:]:
            shown = "None" if default is None else f"of shape {list(default.shape)}"
            raise UnreadableColumn("a list as default, to stand for lists that are null", f"one {shown}", _HINT)
        given = iter(_split(value, lengths[rows]))
        parts = [next(given) if there else default for there in rows.tolist()]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        lengths = torch.where(rows, lengths, len(default))
        return ReadColumn(self._ragged(torch.cat(parts), lengths))

    def _ragged(self, value: Tensor, lengths: Tensor) -> Any:
        """Return a jagged tensor, or the rows of a lazy stack."""
        return LazyRows(_split(value, lengths)) if self.options.ragged == "lazy" else jagged(value, lengths)

    def _nested_ragged_rows(self, array: Any, schema: ColumnSchema, note: Mapping[str, Any]) -> ReadColumn:
        """Read lists of lists of different lengths row by row."""
        rows = LazyRows()
        for position in range(len(array)):
            found = self.numbers(array.slice(position, 1).flatten())
            if found.mask is not None or found.rows is not None or not array[position].is_valid:
                raise UnreadableColumn("no nulls in lists of lists of different lengths", "some")
            made = self._fill_nulls(found, schema, note).value
            is_ragged = isinstance(made, LazyRows) and found.lengths is not None
            rows.append(jagged(found.value, found.lengths) if is_ragged else made)  # type: ignore[arg-type]
        return ReadColumn(rows)

    # -- nested collections -------------------------------------------------------------------------------------------

    def _struct(self, column: Any, schema: ColumnSchema, path: tuple[str, ...]) -> ReadColumn:
        arrow_type = column.type
        if len(column) and column.null_count == len(column) and self._may_be_none(schema):
            return ReadColumn(None)
        names = [field.name for field in arrow_type]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UnreadableColumn("one value for each name", f"several values for {twice}")
        if not names:
            return ReadColumn({})
        notes = [read_note(field.metadata) for field in arrow_type]
        given = [InputColumn(child, note) for child, note in zip(column.flatten(), notes, strict=True)]
        return self.nested(dict(zip(names, given, strict=True)), schema.target, path)

    def _may_be_none(self, schema: ColumnSchema) -> bool:
        return self.options.nulls == "default" and _takes_none(schema)

    def _structs_in_lists(self, column: Any, schema: ColumnSchema, path: tuple[str, ...]) -> ReadColumn:
        """Read lists of structs, of one length: a nested collection with more batch dimensions."""
        shape = [len(column)]
        if not self.pa.types.is_struct(innermost(self, column.type)):
            raise UnreadableColumn(schema.shown, f"a column of {column.type}")
        while self.is_list(column.type):
            column, size = self.flatten_lists(column)
            shape.append(size)
        made = self._struct(column, schema, path)
        if made.mask is not None:
            made = made._replace(mask=reshape_rows(made.mask, shape))
        return made._replace(value=reshape_rows(made.value, shape))

    # -- objects ------------------------------------------------------------------------------------------------------

    def _all_null(self, count: int, schema: ColumnSchema) -> ReadColumn:
        """Read a column of nulls only."""
        mask = torch.zeros(count, dtype=torch.bool)
        default = _default(schema) if self.options.nulls == "default" and count else None
        if (tensor := _as_tensor(default)) is not None and schema.holds == "tensor":
            return ReadColumn(tensor.expand(count, *tensor.shape).clone())
        if default is None and self._may_be_none(schema):
            return ReadColumn(None)
        return self._object_values((None,), torch.zeros(count, dtype=torch.long), mask, schema)

    def _of_objects(self, column: ObjectColumn, schema: ColumnSchema) -> ReadColumn:
        if schema.holds == "tensor":
            raise UnreadableColumn(schema.shown, "a column of objects")
        if schema.holds == "column":
            return declared_rows([*column], schema, self.options.nulls)
        mask = torch.tensor([item is not None for item in column], dtype=torch.bool)
        return self._object_values(
            tuple(column), codes_row_by_row(mask.shape), None if bool(mask.all()) else mask, schema
        )

    def _objects(self, column: Any, schema: ColumnSchema, note: Mapping[str, Any]) -> ReadColumn:
        shape = [len(column)]
        while self.is_list(column.type) and self._is_batch_level(len(shape), schema):
            try:
                column, size = self.flatten_lists(column)
            except UnreadableColumn:
                if self.levels is None or self.levels < len(shape):
                    break
                raise
            shape.append(size)
        objects, codes = self._coded_column(column)
        if len(shape) > 1:
            codes = codes.reshape(shape)
        mask = None
        if column.null_count and (missing := [code for code, value in enumerate(objects) if value is None]):
            mask = ~torch.isin(codes, torch.tensor(missing)) if len(missing) < len(objects) else codes < 0
        if note.get("uniform") and len(column) and mask is None and all(value == objects[0] for value in objects):
            objects, codes = objects[:1], torch.zeros_like(codes)
            made = self._object_values(objects, codes, mask, schema)
            return made._replace(value=NonTensorData(made.value._objects[0], batch_size=codes.shape))
        cls = leaf_class(note.get("kind"), Content.OBJECTS)
        is_taken = schema.spec is None or schema.is_undeclared or cls in schema.spec.types
        if cls is not None and is_taken and mask is None:
            return ReadColumn(cls._from_objects(objects, codes, None))
        return self._object_values(objects, codes, mask, schema)

    def _is_batch_level(self, levels: int, schema: ColumnSchema) -> bool:
        """Return whether the next level of lists of objects is a batch dimension."""
        if schema.spec is not None and schema.spec.types:
            return not any(issubclass(one, (list, tuple)) for one in schema.spec.types)
        return self.levels is None or levels <= self.levels

    def _coded_column(self, column: Any) -> tuple[Sequence[Any], Tensor]:
        """Return the distinct objects of a column, and the code of each row."""
        types, arrow_type = self.pa.types, column.type
        if types.is_run_end_encoded(arrow_type):
            column = compute(self.pa).run_end_decode(column)
        elif types.is_string_view(arrow_type):  # Arrow has fewer functions for views
            column = column.cast(self.pa.large_string())
        elif types.is_binary_view(arrow_type):
            column = column.cast(self.pa.large_binary())
        if is_text(self.pa, column.type) and not column.null_count and not self.options.copy:
            return ArrowText(self.pa, column), self._row_codes(len(column))
        if repeats(self.pa, column):
            column = column.dictionary_encode()
        column = self.with_one_dictionary(column)
        if not types.is_dictionary(column.type):
            return tuple(self._python_objects(column)), self._row_codes(len(column))
        codes: list[Tensor] = []
        objects: list[Any] = []
        for chunk in column.chunks:
            if not objects:
                objects = self._python_objects(chunk.dictionary)
            indices = chunk.indices
            if indices.null_count:
                if len(objects) == len(chunk.dictionary):
                    objects.append(None)
                indices = indices.cast(self.pa.int64()).fill_null(len(chunk.dictionary))
            if len(chunk):
                codes.append(shared(indices.cast(self.pa.int64())))
        if not codes:
            return (), codes_row_by_row(Size([0]))
        return drop_unused(tuple(objects), codes[0] if len(codes) == 1 else torch.cat(codes), HEAD)

    def _row_codes(self, count: int) -> Tensor:
        """Return the codes 0, 1, ... of rows with an object each. All columns share the tensor; it is never written."""
        if self._counted_rows is None or len(self._counted_rows) != count:
            self._counted_rows = codes_row_by_row(Size((count,)))
        return self._counted_rows

    def _python_objects(self, column: Any) -> list[Any]:
        """Return the Python objects of a column. Times become microseconds, as Python counts, if that is exact."""
        arrow_type = column.type
        if self.pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns":  # Python's times count microseconds
            with contextlib.suppress(self.pa.ArrowInvalid):
                column = column.cast(self.pa.timestamp("us", arrow_type.tz))
        return column.to_pylist()  # type: ignore[no-any-return]

    def _object_values(
        self, objects: Sequence[Any], codes: Tensor, mask: Tensor | None, schema: ColumnSchema
    ) -> ReadColumn:
        """Return non-tensor data of coded objects, with nulls filled."""
        spec, nulls = schema.spec, self.options.nulls
        if not codes.numel():
            empty = spec is None or spec.types == (str,)
            return ReadColumn(NonTensorData("", batch_size=codes.shape) if empty else stack_of((), codes, None, None))
        fill: Any = None
        if mask is not None:
            count = int((~mask).sum())
            if nulls == "raise" or (nulls == "default" and spec is None):
                raise UnreadableColumn("no nulls", nulls_of(count, mask), _NULLS)
            if nulls == "default" and spec is not None:
                if spec.default is None and not _takes_none(schema):
                    raise UnreadableColumn(f"{spec.shown}, as it has no default", nulls_of(count, mask), _NULLS)
                fill = _default(schema)
        convert = _object_conversion(schema)
        are_items = isinstance(objects, Deferred) and spec is not None and objects.kind in spec.types
        if convert is not None and not are_items:
            objects = tuple([None if value is None else convert(value) for value in objects])
        if mask is not None and fill is not None:
            objects = tuple([fill if value is None else value for value in objects])
        given = mask if nulls == "mask" else None
        if not isinstance(objects, Deferred) and all(value is None for value in objects):
            return ReadColumn(NonTensorData(None, batch_size=codes.shape), given)
        return ReadColumn(stack_of(objects, codes, None, None), given)


_HINT = "nulls='fill' fills them (with 0, nan or None), nulls='mask' also says where they were"
_NULLS = _HINT + help_link("nulls")


def _takes_none(schema: ColumnSchema) -> bool:
    """Return whether the field takes ``None``, for all rows or for one."""
    return schema.spec is not None and schema.spec.optional


def _default(schema: ColumnSchema) -> Any:
    found = schema.default()
    return None if found is NOTHING else found


def _as_tensor(default: Any) -> Tensor | None:
    return default.detach().cpu() if isinstance(default, Tensor) else as_tensor(default)


def _default_tensor(schema: ColumnSchema, dtype: torch.dtype) -> Tensor | None:
    """Return the default of a field in the dtype of its column."""
    default = _default(schema)
    tensor = _as_tensor(default)
    if tensor is None:
        return None
    made = tensor.to(dtype)
    back = made.to(tensor.dtype)
    if not dtype.is_floating_point and not bool(((back == tensor) | tensor.isnan()).all() & ~tensor.isnan().any()):
        raise UnreadableColumn(f"a default that is {dtype}, as the column is", f"{default!r}", _HINT)
    return made


def _with_default(value: Tensor, mask: Tensor, schema: ColumnSchema) -> Tensor:
    default = _default_tensor(schema, value.dtype)
    if default is None:
        raise UnreadableColumn("a default that is a tensor or a number", f"{_default(schema)!r} for single rows", _HINT)
    try:
        return where_given(mask, value, default.expand(value.shape[1:]))
    except RuntimeError:
        rows = list(value.shape[1:])
        raise UnreadableColumn(
            f"a default that can be broadcast to {rows}", f"shape {list(default.shape)}", _HINT
        ) from None


def _split(value: Tensor, lengths: Tensor) -> Sequence[Tensor]:
    return value.split_with_sizes(lengths.tolist())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _object_conversion(schema: ColumnSchema) -> Callable[[Any], Any] | None:
    """Return a function that converts objects of a column to a type of the field: a list to a tuple, a name to a
    member.
    """
    types: tuple[Any, ...] = () if schema.spec is None else schema.spec.types
    if not types:
        return None

    def convert(value: Any) -> Any:
        if isinstance(value, types):
            return value
        is_list: bool = isinstance(value, list)
        one: Any
        for one in types:
            if issubclass(one, enum.Enum):
                return member_of(one, value)
            if is_list and one in _LISTED:
                return _LISTED[one](value)
        return value

    return convert


def typed_lists(reader: NumberReader, column: Any) -> Any:
    """Return the annotation of the rows of lists of strings or structs: ``list[str]``, ``list[dict | None]``."""
    items: Any = str if is_string(reader.pa, innermost(reader, column.type)) else dict
    types: list[Any] = []
    array: Any = column
    while True:
        types.append(array.null_count)
        if not reader.is_list(array.type):
            break
        array = compute(reader.pa).list_flatten(array)
    made: Any = items
    for nulls in reversed(types[1:]):
        item: Any = made | None if nulls else made
        made = list[item]
    return made | None if types[0] else made
