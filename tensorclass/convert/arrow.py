"""Tables of Arrow: a column is a value, a row an item of the batch.

Columns of numbers without nulls share memory with the table where they are one chunk. Structs are nested collections,
lists of one length further dimensions, other lists ragged (jagged) tensors, text and the rest objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Size, Tensor
from torch.utils import dlpack

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.nontensor import NonTensorDataBase

from .extras import require
from .tree import C, build, converted_entries, objects, plan

_EXTRA = "arrow"
_NULLS = ("raise", "fill", "mask")
_MASK = "_mask"  #: where the masks are written by default

# torch has a part of their types only
_from_numpy: Callable[[Any], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_from_dlpack: Callable[[Any], Tensor] = dlpack.from_dlpack  # pyright: ignore[reportUnknownMemberType]


def from_arrow(
    cls: type[C],
    table: Any,
    *,
    copy: bool | None = None,
    nulls: Literal["raise", "fill", "mask"] = "raise",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_arrow`."""
    pa = require("pyarrow", _EXTRA, "from_arrow")
    if nulls not in _NULLS:
        raise ValueError(f"from_arrow: expected nulls to be one of {_NULLS}, got {nulls!r}")
    if mask_key is not None and nulls != "mask":
        raise ValueError(f"from_arrow: mask_key={mask_key!r} needs nulls='mask', got nulls={nulls!r}")
    given = _as_table(pa, table)
    names: list[str] = given.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"from_arrow: several columns have the names {twice}; give each one its own")
    reader = _Reader(pa, copy, nulls)
    columns = [reader.whole(column, (name,)) for name, column in zip(names, given.columns, strict=True)]
    values = {name: column.value for name, column in zip(names, columns, strict=True)}
    masks = {name: column.mask for name, column in zip(names, columns, strict=True) if column.mask is not None}
    if masks and nulls == "mask":
        path = unravel_key_to_tuple(mask_key or _MASK)
        if path[0] in values:
            raise ValueError(f"from_arrow: the masks would be written to {path[0]!r}, which is a column; give mask_key")
        for name in reversed(path[1:]):
            masks = {name: masks}
        values[path[0]] = masks
    asked = plan(f"{cls.__name__}.from_arrow", None, None, (given.num_rows,), device, strict=strict)
    return build(cls, converted_entries(values, cls, asked), asked)  # type: ignore[no-any-return]


def to_arrow(td: TensorCollection) -> Any:
    """See :meth:`TensorDict.to_arrow`."""
    pa = require("pyarrow", _EXTRA, "to_arrow")
    if not isinstance(td, TensorCollection):
        raise TypeError(f"to_arrow: expected a collection, got a {type(td).__name__}")
    if td.batch_dims != 1:
        raise ValueError(
            f"to_arrow: expected one batch dimension, the rows; got the batch size {list(td.batch_size)}. "
            "reshape(-1) makes one of several"
        )
    return pa.table(_arrays(pa, td, ()))


# -- in ---------------------------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    """A value, and where it was given: ``True`` for a row that is not null. ``None`` where no row is."""

    value: Any
    mask: Any = None


def _as_table(pa: Any, table: Any) -> Any:
    kind: str = table.__class__.__name__
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, pa.StructArray):
        return pa.Table.from_struct_array(table)
    if isinstance(table, Mapping) or hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        try:
            return pa.table(table)
        except pa.ArrowInvalid as error:
            raise TypeError(f"from_arrow: expected columns, got a {kind} ({error})") from None
    raise TypeError(
        f"from_arrow: expected a pyarrow.Table, a record batch or another object with Arrow columns, got a {kind}"
    )


class _Reader:
    """Reads columns the way that was asked for."""

    def __init__(self, pa: Any, copy: bool | None, nulls: str) -> None:
        self.pa, self.copy, self.nulls = pa, copy, nulls

    def whole(self, column: Any, path: tuple[str, ...]) -> _Column:
        """A column of any number of chunks."""
        if column.num_chunks == 1:
            return self.read(column.chunk(0), path)
        if self.copy is False and len(column) and self._holds_numbers(column.type):
            raise ValueError(
                f"from_arrow: the column {'.'.join(path)!r} cannot be read without a copy: it has "
                f"{column.num_chunks} chunks"
            )
        return self.read(column.combine_chunks(), path)

    def read(self, array: Any, path: tuple[str, ...]) -> _Column:
        types, kind = self.pa.types, array.type
        if isinstance(kind, self.pa.FixedShapeTensorType):
            return self._fixed_shape(array, path)
        if isinstance(array, self.pa.ExtensionArray):
            return self.read(array.storage, path)
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            return self._numbers(array, path)
        if types.is_struct(kind):
            return self._struct(array, path)
        if types.is_fixed_size_list(kind):
            return self._fixed_list(array, path)
        if (types.is_list(kind) or types.is_large_list(kind)) and self._is_numeric(kind.value_type):
            return self._list(array, path)
        return _Column(objects(array.to_pylist(), Size([len(array)]), ""), self._mask(array, path))

    def _is_numeric(self, kind: Any) -> bool:
        types = self.pa.types
        if types.is_fixed_size_list(kind):
            return self._is_numeric(kind.value_type)
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))

    def _holds_numbers(self, kind: Any) -> bool:
        if isinstance(kind, self.pa.BaseExtensionType):
            kind = kind.storage_type
        if self.pa.types.is_dictionary(kind):  # its items are objects
            return False
        if self.pa.types.is_struct(kind):
            return any(self._holds_numbers(kind.field(position).type) for position in range(kind.num_fields))
        return self._is_numeric(getattr(kind, "value_type", kind))

    def _mask(self, array: Any, path: tuple[str, ...]) -> Tensor | None:
        if not array.null_count:
            return None
        if self.nulls == "raise":
            raise ValueError(
                f"from_arrow: the column {'.'.join(path)!r} has {array.null_count} null values; nulls='fill' fills "
                "them (with 0, nan or None), nulls='mask' also says where they were"
            )
        return _from_numpy(array.is_valid().to_numpy(zero_copy_only=False).copy())

    def _numbers(self, array: Any, path: tuple[str, ...]) -> _Column:
        types, mask = self.pa.types, self._mask(array, path)
        if mask is None and not types.is_boolean(array.type) and len(array):
            shared = _from_dlpack(array)  # shares the memory of the table
            return _Column(shared.clone() if self.copy else shared)
        if self.copy is False and len(array):
            why = "its nulls are filled" if mask is not None else "booleans are single bits there"
            raise ValueError(f"from_arrow: the column {'.'.join(path)!r} cannot be read without a copy: {why}")
        if mask is not None and not types.is_floating(array.type):  # floats have nan there
            array = array.fill_null(False if types.is_boolean(array.type) else 0)
        return _Column(_from_numpy(array.to_numpy(zero_copy_only=False).copy()), mask)

    def _struct(self, array: Any, path: tuple[str, ...]) -> _Column:
        names: list[str] = [array.type.field(position).name for position in range(array.type.num_fields)]
        if not names:
            return _Column({}, self._mask(array, path))
        parts = {name: self.read(part, (*path, name)) for name, part in zip(names, array.flatten(), strict=True)}
        masks = {name: part.mask for name, part in parts.items() if part.mask is not None}
        return _Column({name: part.value for name, part in parts.items()}, masks or None)

    def _fixed_list(self, array: Any, path: tuple[str, ...]) -> _Column:
        size: int = array.type.list_size
        if not self._is_numeric(array.type):
            return _Column(objects(array.to_pylist(), Size([len(array)]), ""), self._mask(array, path))
        rows = self._mask(array, path)
        inner = self.read(array.values.slice(array.offset * size, len(array) * size), path)
        value = inner.value.reshape(len(array), size, *inner.value.shape[1:])
        mask = rows
        if inner.mask is not None:
            mask = inner.mask.reshape(len(array), size, *inner.mask.shape[1:])
            mask = mask if rows is None else mask & rows.reshape(-1, *(1,) * (mask.ndim - 1))
        if rows is not None:
            value = value.clone()  # what stands below a null is anything
            value[~rows] = float("nan") if value.is_floating_point() else 0
            if inner.mask is not None and bool(inner.mask.reshape(len(array), -1)[rows].all()):
                mask = rows
        return _Column(value, mask)

    def _fixed_shape(self, array: Any, path: tuple[str, ...]) -> _Column:
        shape: list[int] = list(array.type.shape)
        column = self._fixed_list(array.storage, path)
        count = len(array)
        value = column.value.reshape(count, *shape)
        mask = column.mask.reshape(count, *shape) if column.mask is not None and column.mask.ndim > 1 else column.mask
        if array.type.permutation is None:
            return _Column(value, mask)
        order = [0, *(1 + dim for dim in array.type.permutation)]
        return _Column(value.permute(order), mask if mask is None or mask.ndim == 1 else mask.permute(order))

    def _list(self, array: Any, path: tuple[str, ...]) -> _Column:
        mask = self._mask(array, path)
        if mask is not None:  # what stands below a null is anything: empty lists instead
            array = self.pa.array([item if item is not None else [] for item in array.to_pylist()], type=array.type)
        lengths = _from_numpy(array.value_lengths().to_numpy(zero_copy_only=False).copy()).long()
        inner = self.read(array.flatten(), path)
        if inner.mask is not None and self.nulls == "mask":
            raise ValueError(
                f"from_arrow: the lists of the column {'.'.join(path)!r} hold {int((~inner.mask).sum())} nulls, and a "
                "mask of rows cannot say where; use nulls='fill'"
            )
        rest = inner.value.shape[1:]
        if mask is None and len(array) and bool((lengths == lengths[0]).all()):
            return _Column(inner.value.reshape(len(array), int(lengths[0]), *rest))
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return _Column(torch.nested.nested_tensor_from_jagged(inner.value, offsets), mask)


# -- out --------------------------------------------------------------------------------------------------------------


def _arrays(pa: Any, data: TensorCollection, path: tuple[str, ...]) -> dict[str, Any]:
    return {key: _array(pa, value, (*path, key)) for key, value in data._items_for_export(False)}


def _array(pa: Any, value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, NonTensorDataBase):
        try:
            return pa.array(value.tolist(), from_pandas=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise TypeError(f"to_arrow: {'.'.join(path)} holds objects for which Arrow has no type: {error}") from None
    if isinstance(value, TensorCollection):
        parts = _arrays(pa, value, path)
        if not parts:
            return pa.array([{}] * len(value), pa.struct([]))
        return pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
    return _of_tensor(pa, value.detach().cpu(), path)


def _of_tensor(pa: Any, value: Tensor, path: tuple[str, ...]) -> Any:
    if value.is_nested and value.layout == torch.jagged:
        jagged: Any = value
        return pa.ListArray.from_arrays(jagged.offsets().to(torch.int32).numpy(), _of_tensor(pa, jagged.values(), path))
    if value.is_nested or value.layout != torch.strided:
        raise TypeError(f"to_arrow: {'.'.join(path)} is a tensor of the layout {value.layout}; make it strided first")
    try:
        flat = pa.array(value.reshape(-1).numpy())
    except (TypeError, pa.ArrowNotImplementedError):
        raise TypeError(
            f"to_arrow: {'.'.join(path)} has the dtype {value.dtype}, which Arrow does not have; convert it first, for "
            f"instance with .to({torch.float32})"
        ) from None
    if value.ndim == 1:
        return flat
    shape = list(value.shape[1:])
    size = value.shape[1:].numel()
    if size == 0:
        raise ValueError(f"to_arrow: {'.'.join(path)} has the shape {list(value.shape)}: Arrow has no items of no size")
    kind = pa.fixed_shape_tensor(flat.type, shape, permutation=range(len(shape)))
    storage = pa.FixedSizeListArray.from_arrays(flat, size)
    return pa.ExtensionArray.from_storage(kind, storage)
