"""Tables of pandas: a column is a value, a row an item of the batch."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.values import as_tensor

from .extras import require
from .readers import is_dataframe
from .tree import BatchSize, C, build, converted_entries, objects, plan

_EXTRA = "pandas"
_EXACT = 2**53  # up to here a double is every whole number


def from_pandas(
    cls: type[C],
    dataframe: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_pandas`."""
    asked = plan(f"{cls.__name__}.from_pandas", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    require("pandas", _EXTRA, "from_pandas")
    if not is_dataframe(dataframe):
        raise TypeError(f"from_pandas: expected a pandas.DataFrame, got a {type(dataframe).__name__}")
    values: dict[Any, Any] = {}
    for position, label in enumerate(dataframe.columns):
        key = _key(label, separator)
        if key in values:
            raise ValueError(f"from_pandas: several columns have the label {label!r}; give each one its own")
        values[key] = _column(label, dataframe.iloc[:, position], dtype)
    if not asked.auto and asked.batch_size is None:
        asked = asked._replace(batch_size=Size((len(dataframe),)))
    return build(cls, converted_entries(values, cls, asked), asked)  # type: ignore[no-any-return]


def to_pandas(data: TensorCollection, *, separator: str | None = None) -> Any:
    """See :meth:`TensorDict.to_pandas`."""
    pandas = require("pandas", _EXTRA, "to_pandas")
    if data.batch_dims != 1:
        raise ValueError(
            f"to_pandas: expected one batch dimension, the rows; got the batch size {list(data.batch_size)}. "
            "reshape(-1) makes one of several"
        )
    columns: dict[str, Any] = {}
    _collect(data, separator, (), columns)
    return pandas.DataFrame(columns, index=pandas.RangeIndex(len(data)))


# -- in ---------------------------------------------------------------------------------------------------------------


def _key(label: Any, separator: str | None) -> Any:
    name = str(label)
    if isinstance(label, tuple):
        parts = cast("tuple[object, ...]", label)
        if parts and all(isinstance(part, str) for part in parts):
            return parts  # of columns on several levels
    if separator is None or separator not in name:
        return name
    return tuple(name.split(separator))


def _column(label: Any, column: Any, dtype: torch.dtype | None) -> Any:
    own: Any = column.dtype
    kind: str = own.kind
    plain: object = own
    if isinstance(plain, np.dtype) and kind in "biufc":
        return _tensor(label, column.to_numpy(), dtype)
    missing = column.isna().to_numpy()
    if kind == "M":
        if missing.any():
            raise ValueError(
                f"from_pandas: the column {label!r} has {int(missing.sum())} missing times; drop or fill them"
            )
        return _tensor(label, column.to_numpy(dtype="datetime64[ns]").astype(np.int64), dtype)
    if kind in "iuf" and own.name != "category":  # of the types that can miss values
        if not missing.any():
            return _tensor(label, column.to_numpy(dtype=own.numpy_dtype), dtype)
        if kind in "iu" and (column.dropna().abs() > _EXACT).any():
            raise ValueError(
                f"from_pandas: the column {label!r} misses values, and has numbers that a float with nan for them "
                "cannot hold; fill them, with .fillna"
            )
        floating = own.numpy_dtype if kind == "f" else np.dtype("float64")
        return _tensor(label, column.to_numpy(dtype=floating, na_value=np.nan), dtype)
    if kind == "b" and not missing.any():
        return _tensor(label, column.to_numpy(dtype=bool), dtype)
    items: list[Any] = column.tolist()
    if missing.any():
        items = [None if gone else item for item, gone in zip(items, missing, strict=True)]
    return objects(items, Size((len(items),)), "")


def _tensor(label: Any, array: Any, dtype: torch.dtype | None) -> Tensor:
    tensor = as_tensor(array)
    if tensor is None:
        raise TypeError(f"from_pandas: the column {label!r} has the dtype {array.dtype}, which torch does not have")
    return tensor if dtype is None else tensor.to(dtype)


# -- out --------------------------------------------------------------------------------------------------------------


def _collect(data: TensorCollection, separator: str | None, path: tuple[str, ...], columns: dict[str, Any]) -> None:
    for key, value in data._items_for_export(False):
        where = (*path, key)
        name = (separator or ".").join(where)
        if isinstance(value, TensorCollection) and value._is_tree():
            if separator is None:
                raise ValueError(
                    f"to_pandas: {name!r} is nested; give a separator for its columns: to_pandas(separator='.')"
                )
            _collect(value, separator, where, columns)
            continue
        if name in columns:
            raise ValueError(f"to_pandas: two values would become the column {name!r}; give another separator")
        if value.ndim != 1:
            raise ValueError(
                f"to_pandas: {name!r} has the shape {list(value.shape)}; a column has one value a row: split it with "
                "unbind, or use to_arrow, which has columns of tensors"
            )
        columns[name] = _array(name, value) if isinstance(value, Tensor) else value.tolist()


def _array(name: str, value: Tensor) -> Any:
    try:
        return value.detach().cpu().numpy()
    except TypeError:
        raise TypeError(
            f"to_pandas: {name!r} has the dtype {value.dtype}, which numpy does not have; convert it first, for "
            f"instance with .to({torch.float32})"
        ) from None
