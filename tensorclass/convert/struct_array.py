"""Numpy's structured arrays."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.nontensor import NonTensorDataBase
from tensorclass.td.packed import packed
from tensorclass.td.tensordict import TensorDict

from .declared import fitted
from .problems import Problems
from .tree import BatchSize, C, build, objects, plan, settled

#: what stands where an array has no items, so that a field declared as text stays one
_EMPTY: dict[str, Any] = {"U": "", "S": b""}

# numpy has a part of its types only
_str_len: Callable[[Any], Any] = np.char.str_len  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: bytes of an array that is written by rows, and of the rows that are written at once
_LARGE, _BLOCK = 1 << 20, 1 << 17


def from_struct_array(
    cls: type[C],
    struct_array: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    copy: bool | None = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_struct_array`."""
    asked = plan(f"{cls.__name__}.from_struct_array", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    given: Any = struct_array
    is_array: bool = isinstance(struct_array, (np.ndarray, np.void))
    if not is_array or given.dtype.names is None:
        kind = f"an array of dtype {given.dtype}" if is_array else repr(given)
        raise TypeError(
            f"from_struct_array: expected a numpy array of a structured dtype, such as [('a', 'i4')]; got {kind}"
        )
    if _is_masked(struct_array):
        raise TypeError(
            "from_struct_array: expected an array without masked values, which tensors do not have; .filled(...) puts "
            "numbers in their place"
        )
    array: Any = np.asarray(given)
    values = fitted(cls, _Reader(array, copy, asked.problems).read(array, ()), array.shape)
    data: C = build(cls, values, asked._replace(auto=False, batch_size=Size(array.shape), device=None))
    return settled(data, asked)


def to_struct_array(data: TensorCollection, dtype: Any = None) -> Any:
    """See :meth:`TensorDict.to_struct_array`."""
    problems = Problems(f"{type(data).__name__}.to_struct_array")
    columns = _columns(data, data.batch_dims, (), problems)
    problems.check()
    shape = tuple(data.batch_size)
    # a dtype that is given may have gaps, in which nothing is written
    result: Any = np.empty(shape, _dtype(columns)) if dtype is None else np.zeros(shape, dtype)
    pairs = list(_pairs(result, columns, (), problems))
    problems.check()
    _write(pairs, shape, result.itemsize)
    return result


# -- in ---------------------------------------------------------------------------------------------------------------


def _is_masked(array: Any) -> bool:
    """Whether any value of any field is."""
    masked: Any = sys.modules.get("numpy.ma")  # which takes long to import, and makes all such arrays
    if masked is None or not isinstance(array, masked.MaskedArray):
        return False
    return b"\1" in masked.getmaskarray(array).tobytes()


class _Reader:
    """Reads the fields of an array: their numbers on the memory of the array, unless a copy is asked for or needed."""

    def __init__(self, array: Any, copy: bool | None, problems: Problems) -> None:
        self.copy, self.problems = copy, problems
        #: why no field can share its memory
        self.apart: str | None = None
        if not array.flags.writeable:
            self.apart = "a read-only array"
        elif array.size and any(stride < 0 for stride in array.strides):
            self.apart = "an array with negative strides"

    def read(self, array: Any, path: tuple[str, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in array.dtype.names:
            part = array[name]
            dtype = part.dtype
            kind: str = dtype.kind
            if kind in "biufc":
                tensor = self.numbers(part, dtype, path, name)
                if tensor is not None:
                    values[name] = tensor
            elif dtype.names is not None:  # with a batch size of its own: a sub-array has more dimensions
                values[name] = TensorDict(self.read(part, (*path, name)), part.shape)
            else:
                items = list(part.ravel()) if kind in "mM" else part.ravel().tolist()
                values[name] = objects(items, Size(part.shape), _EMPTY.get(kind))
        return values

    def numbers(self, part: Any, dtype: Any, path: tuple[str, ...], name: str) -> Tensor | None:
        apart = self.apart or (None if dtype.isnative else "numbers in another byte order")
        if apart and self.copy is False:
            hint = "leave out copy=False" + ("" if part.flags.writeable else ", or map a file with mmap_mode='c'")
            self.problems.add((*path, name), "numbers that can be read without a copy", apart, hint)
            return None
        try:
            if apart or self.copy:
                return packed(part.astype(dtype.newbyteorder("="), order="C"))
            return packed(part)
        except TypeError:
            self.problems.add((*path, name), "a dtype that torch has", str(dtype), "convert it first, with .astype")
            return None


# -- out --------------------------------------------------------------------------------------------------------------


def _columns(data: TensorCollection, ndim: int, path: tuple[str, ...], problems: Problems) -> dict[Any, Any]:
    """The values as arrays, nested collections as dicts with the shape of their batch under the key ``None``."""
    columns: dict[Any, Any] = {None: tuple(data.batch_size[ndim:])}
    for key, value in data._items_for_export(False):
        if isinstance(value, NonTensorDataBase):
            columns[key] = _array_of_objects(value), data.batch_dims
        elif isinstance(value, TensorCollection):
            columns[key] = _columns(value, data.batch_dims, (*path, key), problems)
        elif value.is_nested or value.is_sparse:
            hint = "to_padded_tensor() makes a rectangle of a ragged one"
            problems.add((*path, key), "items of one shape", "a ragged or sparse tensor", hint)
        else:
            try:
                columns[key] = value.numpy(force=True), data.batch_dims
            except TypeError:
                hint = f"convert it first, for instance with .to({torch.float32})"
                problems.add((*path, key), "a dtype that numpy has", str(value.dtype), hint)
    return columns


def _array_of_objects(value: NonTensorDataBase) -> Any:
    """Text, bytes, times and numbers in arrays of their own dtype, other objects in one of objects."""
    given: list[Any] = list(value._objects)
    items: Any = None
    kinds: set[type] = set(map(type, given))
    if len(kinds) == 1 and issubclass(next(iter(kinds)), (str, bytes, bool, int, float, complex, np.generic)):
        plain: Any = np.array(given)
        kind: str = plain.dtype.kind
        # numpy cannot tell text that ends in zeros from its padding
        if kind in "bifcmM" or (kind in "US" and _str_len(plain).sum() == sum(map(len, given))):
            items = plain
    if items is None:
        items = np.empty(len(given), dtype=object)
        for position, item in enumerate(given):
            items[position] = item
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


def _pairs(
    result: Any, columns: dict[Any, Any], path: tuple[str, ...], problems: Problems
) -> Iterator[tuple[Any, Any]]:
    """The fields of the result, each with the array that is written there."""
    names = [key for key in columns if key is not None]
    if set(names) != set(result.dtype.names or ()):
        problems.add(path, f"a dtype with the fields {names}", str(result.dtype))
        return
    for key in names:
        column, part, where = columns[key], result[key], (*path, key)
        if isinstance(column, dict):
            yield from _pairs(part, column, where, problems)  # pyright: ignore[reportUnknownArgumentType]
            continue
        array: Any = column[0]
        if array.shape != part.shape:
            problems.add(where, f"a dtype of the shape {list(array.shape)}", str(list(part.shape)))
        elif not _fits(array, part.dtype):
            problems.add(where, f"a dtype that can hold {array.dtype}", str(part.dtype))
        else:
            yield part, array


def _fits(array: Any, asked: Any) -> bool:
    """Whether values are written without losing their kind, and text without being cut."""
    given = array.dtype
    if given.kind in "biufc" and asked.kind in "biufc":
        return np.can_cast(given, asked, "same_kind")
    if given.kind not in "US" or given.kind != asked.kind or given.itemsize <= asked.itemsize:
        return True
    return bool(_str_len(array).max(initial=0) * (4 if given.kind == "U" else 1) <= asked.itemsize)


def _write(pairs: list[tuple[Any, Any]], shape: tuple[int, ...], itemsize: int) -> None:
    """Writes the columns of an array. Those of a large one together, so that its memory is fetched once."""
    size = itemsize * math.prod(shape)
    if size <= _LARGE:
        for part, column in pairs:
            part[...] = column
        return
    step = max(1, shape[0] * _BLOCK // size)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        for part, column in pairs:
            part[rows] = column[rows]
