"""Any object, by the converter of its kind."""

from __future__ import annotations

from typing import Any, cast

from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.values import as_tensor

from .list import from_list
from .pandas import from_pandas
from .struct_array import from_struct_array
from .tree import BatchSize, C, column, entries, from_entries, is_dataframe, is_struct_array, plan, settled


def from_any(
    cls: type[C],
    obj: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
) -> Any:
    """See :meth:`TensorDict.from_any`."""
    asked = plan("from_any", auto_batch_size, batch_dims, batch_size, device)
    options: Any = {
        "auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "device": device, "batch_size": batch_size,
    }  # fmt: skip
    is_record = issubclass(cls, TensorClass)
    if isinstance(obj, TensorCollection):
        same = obj if isinstance(obj, cls) or not is_record else cls.from_tensordict(obj)  # type: ignore[attr-defined]
        is_plain = not asked.auto and batch_size is None and device is None
        return same if is_plain else settled(same._shallow(), asked)
    if entries(obj) is not None:
        return from_entries(cls, obj, asked)
    if is_struct_array(obj):
        return from_struct_array(cls, obj, **options)
    if is_dataframe(obj):
        return from_pandas(cls, obj, **options)
    given: Any = obj  # whatever a checker learns of it below
    rows = cast("list[object]", obj) if isinstance(obj, list) else None
    if is_record and rows is not None:
        return from_list(cls, rows, **options)
    if is_record:
        raise TypeError(
            f"{cls.__name__}.from_any: expected something with entries for the fields {list(cls._specs)}: a mapping, a "  # type: ignore[attr-defined]
            f"dataclass, a named tuple, a structured array, a table, or a list of those; got a {type(given).__name__}"
        )
    if rows is not None:
        tensor = as_tensor(rows, asked.device)
        return column(rows) if tensor is None else tensor
    return given
