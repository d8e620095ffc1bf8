"""Any object, by the converter of its kind."""

from __future__ import annotations

from typing import Any, cast

from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.values import as_tensor

from .list import from_list
from .readers import described, reader_of
from .tree import BatchSize, C, build, column, entries, from_entries, like, plan, settled


def from_any(
    cls: type[C],
    obj: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> Any:
    """See :meth:`TensorDict.from_any`."""
    asked = plan(f"{cls.__name__}.from_any", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    options: Any = {
        "auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "device": device, "batch_size": batch_size,
        "strict": strict,
    }  # fmt: skip
    is_record = issubclass(cls, TensorClass)
    if isinstance(obj, TensorCollection):
        if is_record and not isinstance(obj, cls):
            names = None if asked.auto or batch_size is not None else obj._names
            return build(cls, dict(obj._store), like(obj, asked)._replace(names=names))
        is_plain = not asked.auto and batch_size is None and device is None
        return obj if is_plain else settled(obj._shallow(), asked)
    if entries(obj) is not None:
        return from_entries(cls, obj, asked)
    reader = reader_of(obj)
    if reader is not None:
        made = getattr(cls, reader.method)(obj, device=asked.device, strict=strict)
        return made if not asked.auto and batch_size is None else settled(made, asked)
    given: Any = obj  # whatever a checker learns of it below
    rows = cast("list[object]", obj) if isinstance(obj, list) else None
    if is_record and rows is not None:
        return from_list(cls, rows, **options)
    if is_record:
        raise TypeError(
            f"{cls.__name__}.from_any: expected something with entries for the fields {list(cls._specs)}: a mapping, a "  # type: ignore[attr-defined]
            f"dataclass, a named tuple, a structured array, a table, or a list of those; got {described(given)}"
        )
    if rows is not None:
        tensor = as_tensor(rows, asked.device)
        return column(rows) if tensor is None else tensor
    return given
