"""Tuples: the keys are the positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike

from .tree import BatchSize, C, build, converted_entries, plan


def from_tuple(
    cls: type[C],
    obj: Sequence[Any],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_tuple`."""
    asked = plan(f"{cls.__name__}.from_tuple", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if not isinstance(obj, (tuple, list)):
        raise TypeError(f"from_tuple: expected a tuple, got a {type(obj).__name__}; from_any takes other objects")
    keys = [str(position) for position in range(len(obj))]
    if issubclass(cls, TensorClass):
        keys = [name for name, spec in cls._specs.items() if spec.init and not spec.kw_only]
        if len(obj) > len(keys):
            raise TypeError(f"{cls.__name__}.from_tuple: expected at most {len(keys)} items, {keys}; got {len(obj)}")
    return build(cls, converted_entries(dict(zip(keys, obj, strict=False)), cls, asked), asked)  # type: ignore[no-any-return]


def to_tuple(data: TensorCollection) -> tuple[Any, ...]:
    """See :meth:`TensorDict.to_tuple`."""
    entries = dict(data._items_for_export(True))
    keys: list[str] = [*entries]
    if all(key.isdecimal() for key in keys):
        keys.sort(key=int)
    return tuple([_item(entries[key]) for key in keys])


def _item(value: Any) -> Any:
    if isinstance(value, TensorCollection) and value._is_tree():
        return to_tuple(value)
    return value._unwrapped() if isinstance(value, Collection) else value  # type: ignore[attr-defined]
