"""Numpy's structured arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.nontensor import NonTensorDataBase
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import as_tensor

from .problems import Problems
from .readers import is_struct_array
from .tree import BatchSize, C, build, objects, plan, settled

#: what stands where an array has no items, so that a field declared as text stays one
_EMPTY: dict[str, Any] = {"U": "", "S": b""}


def from_struct_array(
    cls: type[C],
    struct_array: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_struct_array`."""
    asked = plan(f"{cls.__name__}.from_struct_array", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if not is_struct_array(struct_array):
        given: Any = struct_array
        kind = f"an array of dtype {given.dtype}" if isinstance(struct_array, np.ndarray) else repr(given)
        raise TypeError(
            f"from_struct_array: expected a numpy array of a structured dtype, such as [('a', 'i4')]; got {kind}"
        )
    array: Any = np.asarray(struct_array)
    values = _read(array, (), asked.problems)
    data: C = build(cls, values, asked._replace(auto=False, batch_size=Size(array.shape), device=None))
    return settled(data, asked)


def to_struct_array(data: TensorCollection, dtype: Any = None) -> Any:
    """See :meth:`TensorDict.to_struct_array`."""
    columns = _columns(data, data.batch_dims, ())
    described = _dtype(columns)
    result = np.empty(tuple(data.batch_size), described if dtype is None else np.dtype(dtype))
    _fill(result, columns, ())
    return result


# -- in ---------------------------------------------------------------------------------------------------------------


def _read(array: Any, path: tuple[str, ...], problems: Problems) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in array.dtype.names:
        part = array[name]
        if part.dtype.names is not None:  # with a batch size of its own: a sub-array has more dimensions
            values[name] = TensorDict(_read(part, (*path, name), problems), part.shape)
        elif part.dtype.kind in "biufc":
            tensor = as_tensor(part)
            if tensor is None:
                problems.add((*path, name), "a dtype that torch has", str(part.dtype), "convert it first, with .astype")
            else:
                values[name] = tensor
        else:
            kind = part.dtype.kind
            items = list(part.ravel()) if kind in "mM" else part.ravel().tolist()
            values[name] = objects(items, Size(part.shape), _EMPTY.get(kind))
    return values


# -- out --------------------------------------------------------------------------------------------------------------


def _columns(data: TensorCollection, ndim: int, path: tuple[str, ...]) -> dict[str, Any]:
    """The values as arrays, nested collections as dicts with the shape of their batch under the key ``None``."""
    columns: dict[Any, Any] = {None: tuple(data.batch_size[ndim:])}
    for key, value in data._items_for_export(False):
        where = (*path, key)
        if isinstance(value, NonTensorDataBase):
            columns[key] = _array_of_objects(value)
        elif isinstance(value, TensorCollection):
            columns[key] = _columns(value, data.batch_dims, where)
        else:
            columns[key] = _array(value, where)
        if not isinstance(columns[key], dict):
            columns[key] = (columns[key], data.batch_dims)
    return columns


def _array(value: Tensor, path: tuple[str, ...]) -> Any:
    if value.is_nested or value.is_sparse:
        raise TypeError(f"to_struct_array: {'.'.join(path)} is ragged or sparse; an array needs items of one shape")
    try:
        return value.detach().cpu().numpy()
    except TypeError:
        raise TypeError(
            f"to_struct_array: {'.'.join(path)} has the dtype {value.dtype}, which numpy does not have; convert it "
            f"first, for instance with .to({torch.float32})"
        ) from None


def _array_of_objects(value: NonTensorDataBase) -> Any:
    """Text, bytes, times and numbers in arrays of their own dtype, other objects in one of objects."""
    items: Any = np.empty(len(value._objects), dtype=object)
    for position, item in enumerate(value._objects):
        items[position] = item
    kinds: set[type] = {item.__class__ for item in value._objects}
    if len(kinds) == 1 and issubclass(next(iter(kinds)), (str, bytes, bool, int, float, complex, np.generic)):
        plain = np.array(list(value._objects))
        # numpy cannot tell text that ends in zeros from its padding
        if plain.dtype.kind in "USbifcmM" and not any(
            item[-1:] in ("\0", b"\0") for item in items if isinstance(item, (str, bytes))
        ):
            items = plain
    codes = value._codes().cpu()
    return items[codes.reshape(-1).numpy()].reshape(tuple(codes.shape))


def _dtype(columns: dict[Any, Any]) -> Any:
    fields: list[tuple[Any, ...]] = []
    for key, column in columns.items():
        if key is None:
            continue
        if isinstance(column, dict):
            fields.append((key, _dtype(column), column[None]))  # pyright: ignore[reportUnknownArgumentType]
        else:
            array, ndim = column
            dtype = array.dtype
            if dtype.kind in "US" and dtype.itemsize == 0:  # numpy would drop a field of no size
                dtype = np.dtype(f"{dtype.kind}1")
            fields.append((key, dtype, array.shape[ndim:]))
    made = np.dtype(fields)
    if list(made.names or ()) != [field[0] for field in fields]:
        raise ValueError(f"to_struct_array: numpy cannot have fields of the names {[field[0] for field in fields]}")
    return made


def _fill(result: Any, columns: dict[Any, Any], path: tuple[str, ...]) -> None:
    names = [key for key in columns if key is not None]
    if set(names) != set(result.dtype.names or ()):
        raise ValueError(
            f"to_struct_array: dtype must have the fields {names}"
            + (f" in {'.'.join(path)!r}" if path else "")
            + f", got {result.dtype}"
        )
    for key in names:
        column = columns[key]
        if isinstance(column, dict):
            _fill(result[key], column, (*path, key))  # pyright: ignore[reportUnknownArgumentType]
        else:
            result[key][...] = column[0]
