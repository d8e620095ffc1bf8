"""Values as Arrow arrays, which share memory with tensors where Arrow has their type.

What Arrow has no type for is noted in the metadata of the field (:data:`ABOUT`), so that reading restores it: a dtype,
one object for all rows, numbers that were objects.
"""

from __future__ import annotations

import enum
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Size, Tensor

from tensorclass.convert.conversion_errors import Problems
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.column import Column
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text
from tensorclass.td.leaves.content import Content
from tensorclass.td.stored_names import stored_name
from tensorclass.td.stores.lazy.lazy_store import Parts

from .arrow_columns import list_array, string_array
from .arrow_text import ArrowText
from .column_names import named_items
from .column_rows import item_type_note

#: metadata key of our note, a JSON object, in fields and schemas
ABOUT = b"tensorclass"


class UnwritableColumn(Exception):
    """A value cannot be a column: what was expected, what came, and what to do."""

    def __init__(self, expected: str, got: str, hint: str = "") -> None:
        super().__init__(expected, got, hint)
        self.problem: tuple[str, str, str] = (expected, got, hint)


class _RaggedRows(list[Tensor]):
    """A value of a lazy stack whose rows have different shapes."""


def read_note(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Read our note from the metadata of a field or schema."""
    text = (metadata or {}).get(ABOUT)
    return json.loads(text) if text else {}


def with_note(metadata: Mapping[bytes, bytes] | None, note: Mapping[str, Any]) -> dict[bytes, bytes] | None:
    """Add our note to metadata. ``None`` if there is neither."""
    result = dict(metadata or {})
    if note:
        result[ABOUT] = json.dumps(note).encode()
    return result or None


def size_note(size: Size, known: int) -> dict[str, Any]:
    """Return a note of the batch dimensions after the rows, if there are more than ``known`` dimensions."""
    if len(size) <= known or min(size) < 0:  # a lazy stack whose parts have different sizes
        return {}
    return {"batch_size": list(size[1:])}


def noted_batch_size(count: int, note: Mapping[str, Any]) -> Size:
    """Return the batch size of ``count`` rows: further dimensions are in the note."""
    return Size((count, *note.get("batch_size", ())))


class ColumnWriter:
    """Converts values to columns; values that cannot be columns are noted.

    Args:
        pa: pyarrow.
        problems: takes the notes.
        plain: write further dimensions as lists of a fixed length, for readers without a tensor type.
    """

    def __init__(self, pa: Any, problems: Problems, plain: bool = False) -> None:
        self.pa: Any = pa
        self.problems: Problems = problems
        self.plain: bool = plain

    def columns(
        self, data: TensorCollection, path: tuple[str, ...], fields: Iterable[Any] | None
    ) -> tuple[list[Any], list[Any]]:
        """Convert the values of a collection. Return arrays and fields: the given fields, or those that the values
        need.
        """
        asked = None if fields is None else {field.name: field for field in fields}
        items = dict(_items(data))
        arrays: list[Any] = []
        made: list[Any] = []
        for key in items if asked is None else asked:
            if key not in items:
                hint = "leave it out of the schema"
                self.problems.add((*path, key), "a value for the column", "nothing: there is no such key", hint)
                continue
            field = None if asked is None else asked[key]
            try:
                array, note = self.array(items[key], (*path, key), None if field is None else field.type, data)
            except UnwritableColumn as error:
                self.problems.add((*path, key), *error.problem)
                continue
            arrays.append(array)
            arrow_type = array.type if field is None else field.type
            metadata = None if field is None else field.metadata
            made.append(self.pa.field(key, arrow_type, metadata=with_note(metadata, note)))
        if asked is not None:
            for key in items:
                if key not in asked:
                    got = "a key that is none of them"
                    self.problems.add_unknown((*path, key), "a column of the schema", got, asked)
        return arrays, made

    def array(
        self, value: Any, path: tuple[str, ...], arrow_type: Any, data: TensorCollection
    ) -> tuple[Any, dict[str, Any]]:
        """Convert a value to an array, of a given type if there is one. Return it with its note."""
        pa, count = self.pa, data.batch_size[0]
        if value is None:
            return pa.nulls(count, arrow_type), {"none": True}
        if isinstance(value, _RaggedRows):
            return self._stacked(value, arrow_type)
        if isinstance(value, Tensor):
            return self._tensor(value, arrow_type)
        content = value._CONTENT
        if content.has_spans:
            return self._column(value, arrow_type)
        if content is Content.TENSOR:
            held = value._wrapped_tensor()
            array, note = self._tensor(held.expand(count, *held.shape), arrow_type)
            return array, {**note, "unbatched": True}
        if content is Content.OBJECTS:
            return self._objects(value, arrow_type)
        return self._struct(value, path, arrow_type, data)

    # -- nested collections -------------------------------------------------------------------------------------------

    def _struct(
        self, value: Any, path: tuple[str, ...], arrow_type: Any, data: TensorCollection
    ) -> tuple[Any, dict[str, Any]]:
        pa = self.pa
        if arrow_type is not None and not pa.types.is_struct(arrow_type):
            raise UnwritableColumn(f"a value for a column of {arrow_type}", "a nested collection")
        arrays, made = self.columns(value, path, None if arrow_type is None else [*arrow_type])
        note = size_note(value.batch_size, data.batch_dims)
        if not arrays:
            return pa.Array.from_buffers(pa.struct([]), len(value), [None]), note
        return pa.StructArray.from_arrays(arrays, fields=made), note

    # -- tensors ------------------------------------------------------------------------------------------------------

    def _tensor(self, value: Tensor, arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        value = value.detach()
        if value.is_nested:
            return self._jagged(value, arrow_type)
        if value.is_meta:
            hint = "leave its key out, with exclude(...)"
            raise UnwritableColumn("a tensor with values", "one on the device meta", hint)
        if value.layout != torch.strided:
            raise UnwritableColumn("a strided tensor", f"one of the layout {value.layout}", "make it strided first")
        value, note = _storable(value.cpu())
        dims = list(value.shape[1:])
        flat = self._flat(value)
        if arrow_type is None and dims:
            arrow_type = self._of_shape(flat.type, dims)
        return self._shaped(flat, len(value), dims, arrow_type), note

    def _of_shape(self, arrow_type: Any, dims: Sequence[int]) -> Any:
        """Return the type of items with further dimensions."""
        if not self.plain:
            return self.pa.fixed_shape_tensor(arrow_type, dims, permutation=range(len(dims)))
        for size in reversed(dims):
            arrow_type = self.pa.large_list(arrow_type) if 0 in dims else self.pa.list_(arrow_type, size)
        return arrow_type

    def _flat(self, value: Tensor) -> Any:
        try:
            return self.pa.array(value.reshape(-1).numpy())
        except (TypeError, self.pa.ArrowNotImplementedError):
            hint = f"convert it first, for instance with .to({torch.float32})"
            raise UnwritableColumn("a dtype that Arrow has", f"{value.dtype}", hint) from None

    def _shaped(self, flat: Any, count: int, dims: Sequence[int], arrow_type: Any) -> Any:
        """Wrap a flat array of numbers as ``count`` items with the dimensions ``dims``."""
        pa = self.pa
        if not dims:
            return flat if arrow_type is None or arrow_type == flat.type else self._cast(flat, arrow_type)
        misfit = UnwritableColumn(f"a value for a column of {arrow_type}", f"items of the shape {list(dims)}")
        if isinstance(arrow_type, pa.FixedShapeTensorType):
            if arrow_type.shape != list(dims):
                raise misfit
            size = Size(dims).numel()
            storage = self._shaped(flat, count, [size], arrow_type.storage_type)
            return pa.ExtensionArray.from_storage(arrow_type, storage)
        is_fixed = pa.types.is_fixed_size_list(arrow_type)
        if arrow_type.list_size != dims[0] if is_fixed else not self._is_list(arrow_type):
            raise misfit
        items = self._shaped(flat, count * dims[0], dims[1:], arrow_type.value_type)
        if is_fixed:
            return pa.Array.from_buffers(arrow_type, count, [None], children=[items])
        return self._list_array(items, torch.full((count,), dims[0]), arrow_type)

    def _cast(self, array: Any, arrow_type: Any) -> Any:
        try:
            return array.cast(arrow_type)
        except (self.pa.ArrowInvalid, self.pa.ArrowNotImplementedError, self.pa.ArrowTypeError) as error:
            raise UnwritableColumn(f"a value for a column of {arrow_type}", f"{array.type}", str(error)) from None

    def _jagged(self, value: Any, arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        if value.layout != torch.jagged or value._ragged_idx != 1 or value.lengths() is not None:
            return self._stacked(value.unbind(), arrow_type)
        offsets = value.offsets().cpu()
        items = value.values()[int(offsets[0]) : int(offsets[-1])]
        return self._lists(items, offsets.diff(), arrow_type)

    def _lists(self, items: Tensor, lengths: Tensor, arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        array, note = self._tensor(items, self._item_type(arrow_type))
        return self._list_array(array, lengths, arrow_type), note

    def _stacked(self, rows: Sequence[Tensor], arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        """Write rows of different shapes as lists, with a level for each dimension in which they differ."""
        rows = [row.to_padded_tensor(0.0) if row.is_nested else row for row in rows]
        if len({row.ndim for row in rows}) > 1 or not rows[0].ndim:
            got = f"rows with {sorted({row.ndim for row in rows})}"
            raise UnwritableColumn("rows with one number of dimensions", got)
        lengths = torch.tensor([len(row) for row in rows])
        if len({row.shape[1:] for row in rows}) == 1:
            return self._lists(torch.cat([row.detach() for row in rows]), lengths, arrow_type)
        item_type = self._item_type(arrow_type)
        array, note = self._stacked([item for row in rows for item in row.unbind()], item_type)
        return self._list_array(array, lengths, arrow_type), note

    def _is_list(self, arrow_type: Any) -> bool:
        types = self.pa.types
        return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type))

    def _item_type(self, arrow_type: Any) -> Any:
        """Return the type of the items of a type for ragged rows; ``None`` without one."""
        if arrow_type is None:
            return None
        if not self._is_list(arrow_type):
            raise UnwritableColumn(f"a value for a column of {arrow_type}", "a ragged tensor")
        return arrow_type.value_type

    def _list_array(self, items: Any, lengths: Tensor, arrow_type: Any) -> Any:
        """Return lists of items, of a type if there is one. A row of a negative length is null."""
        if arrow_type is not None and self.pa.types.is_list(arrow_type) and len(items) > torch.iinfo(torch.int32).max:
            raise UnwritableColumn("lists of less than 2**31 items", f"{len(items)}", "ask for large lists in a schema")
        return list_array(self.pa, lengths, items, arrow_type)

    # -- text and ragged rows -----------------------------------------------------------------------------------------

    def _column(self, value: BufferColumn, arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        """Write strings, or lists; further batch dimensions are lists around them."""
        if value._spans().is_meta:
            hint = "leave its key out, with exclude(...)"
            raise UnwritableColumn("a column with rows", "one on the device meta", hint)
        sizes = list(value.batch_size)
        inner, list_types = self._below_batch(arrow_type, sizes)
        flat: Any = value.reshape(-1) if len(sizes) > 1 else value
        flat = flat if flat.device is None or flat.device.type == "cpu" else flat.cpu()
        array, note = self._strings(flat, inner) if flat._CONTENT is Content.TEXT else self._ragged(flat, inner)
        return self._in_batch_lists(array, sizes, list_types), note

    def _strings(self, value: Text, arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        types = self.pa.types
        array = string_array(self.pa, value, arrow_type is not None and types.is_large_string(arrow_type))
        if arrow_type is None or array.type == arrow_type:
            return array, {}
        if types.is_dictionary(arrow_type):
            array = self._cast(array, arrow_type.value_type).dictionary_encode()
        return self._cast(array, arrow_type), {}

    def _ragged(self, value: Ragged[Any], arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        items, spans = value._packed()
        is_list = arrow_type is not None and self._is_list(arrow_type)
        if arrow_type is not None and not (is_list or getattr(arrow_type, "value_type", None) is not None):
            raise UnwritableColumn(f"a value for a column of {arrow_type}", "ragged rows")
        below = None if arrow_type is None else arrow_type.value_type
        array, note = self._tensor(items, below) if isinstance(items, Tensor) else self._ragged(items, below)
        made = self._list_array(array, spans[:, 1], arrow_type if is_list else None)
        return (made if arrow_type is None or is_list else self._cast(made, arrow_type)), note

    def _below_batch(self, arrow_type: Any, sizes: Sequence[int]) -> tuple[Any, list[Any]]:
        """Return the type below the lists for batch dimensions after the first, and the types of these lists."""
        inner, list_types = arrow_type, list[Any]()
        for _ in sizes[1:]:
            if inner is not None and not self._is_list(inner):
                raise UnwritableColumn(f"a value for a column of {arrow_type}", f"objects of the shape {list(sizes)}")
            list_types.append(inner)
            inner = None if inner is None else inner.value_type
        return inner, list_types

    def _in_batch_lists(self, array: Any, sizes: Sequence[int], list_types: Sequence[Any]) -> Any:
        """Return items in lists for the batch dimensions after the first."""
        for level in range(len(sizes) - 1, 0, -1):
            lengths = torch.full((Size(sizes[:level]).numel(),), sizes[level])
            array = self._list_array(array, lengths, list_types[level - 1])
        return array

    # -- objects ------------------------------------------------------------------------------------------------------

    def _objects(self, value: Any, arrow_type: Any) -> tuple[Any, dict[str, Any]]:
        pa, types = self.pa, self.pa.types
        objects, codes = value._coded_objects()
        sizes = list(codes.shape)
        inner, list_types = self._below_batch(arrow_type, sizes)
        coded: Any = inner if inner is not None and types.is_dictionary(inner) else None
        array = self._listed(objects, inner if coded is None else coded.value_type)
        flat = codes.reshape(-1)
        if coded is not None:
            encoded = array.dictionary_encode()
            indices = encoded.indices.take(pa.array(flat.numpy())).cast(coded.index_type)
            array = pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=coded.ordered)
        elif len(array) != len(flat) or not torch.equal(flat, torch.arange(len(flat))):
            array = array.take(pa.array(flat.numpy()))
        array = self._in_batch_lists(array, sizes, list_types)
        note: dict[str, Any] = {}
        if value._is_uniform and value._unwrapped() is not None:
            note["uniform"] = True
        if isinstance(value, Column):
            note["column"] = item_type_note(value.item_type)
        elif arrow_type is None and _reads_as_numbers(pa, array.type):
            note["objects"] = True
        if value._KIND is not None and not value._is_uniform:
            note["kind"] = value._KIND
        return array, note

    def _listed(self, objects: Sequence[Any], arrow_type: Any) -> Any:
        if isinstance(objects, ArrowText) and arrow_type in (None, objects.column.type):
            column = objects.column
            return column.combine_chunks() if isinstance(column, self.pa.ChunkedArray) else column
        items = [_plain_object(item) for item in objects]
        try:
            return self.pa.array(items, type=arrow_type, from_pandas=False)
        except (self.pa.ArrowInvalid, self.pa.ArrowTypeError, self.pa.ArrowNotImplementedError, OverflowError) as error:
            where = "which Arrow has a type" if arrow_type is None else f"a column of {arrow_type}"
            raise UnwritableColumn(f"objects for {where}", _classes(objects), str(error)) from None


def _plain_object(item: Any) -> Any:
    """Return an object as Arrow knows it: enum members by name, paths as strings, sets as lists."""
    if isinstance(item, enum.Enum):
        return item.name
    if isinstance(item, pathlib.PurePath):
        return str(item)
    items: Any = item
    return sorted(items) if isinstance(item, (set, frozenset)) else items


def _items(data: TensorCollection) -> Iterable[tuple[str, Any]]:
    """Yield the values of a collection by the names of their columns."""
    store = data._store
    if isinstance(store, Parts) and store.dim == 0:
        for key in store:
            column = store.column(key)
            are_tensors = all(isinstance(value, Tensor) for value in column)
            is_ragged = are_tensors and len({value.shape for value in column}) > 1
            yield stored_name(type(data), key), _RaggedRows(column) if is_ragged else store[key]
        return
    yield from named_items(data)
    if isinstance(data, TensorClass):
        for name, spec in type(data)._specs.items():  # without the column, reading would bring the default back
            if name not in store and spec.default is not None and spec.default() is not None:
                yield spec.stored_name, None


def _storable(value: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Convert a tensor to a dtype that Arrow has, and note the original one."""
    note = {"dtype": str(value.dtype).removeprefix("torch.")}
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj()), note
    if value.dtype == torch.bfloat16 or (value.is_floating_point() and value.element_size() == 1):
        return value.float(), note
    return value.resolve_neg(), {}


def _reads_as_numbers(pa: Any, arrow_type: Any) -> bool:
    """Return whether a column of objects would be read as a tensor without a note."""
    types = pa.types
    if types.is_list(arrow_type):
        return _reads_as_numbers(pa, arrow_type.value_type)
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_struct)
    return any(test(arrow_type) for test in tests)


def _classes(objects: Sequence[Any]) -> str:
    names = sorted({type_name(item) for item in objects})
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
