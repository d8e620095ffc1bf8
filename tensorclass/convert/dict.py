"""Mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike

from .tree import BatchSize, C, Plan, build, converted_entries, like, plan, settled


def from_dict(
    cls: type[C],
    input_dict: Any,
    *,
    auto_batch_size: bool | None = None,
    batch_size: BatchSize = None,
    device: DeviceLike | None = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_dict`."""
    asked = plan(
        f"{cls.__name__}.from_dict", auto_batch_size, batch_dims, batch_size, device, names, ValueError, strict
    )
    return _read(cls, input_dict, asked)  # type: ignore[no-any-return]


def from_dict_instance(
    like: TensorCollection,
    input_dict: Any,
    *,
    auto_batch_size: bool | None = None,
    batch_size: BatchSize = None,
    device: DeviceLike | None = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
    strict: bool = True,
) -> Any:
    """See :meth:`TensorDict.from_dict_instance`."""
    asked = plan(
        f"{type(like).__name__}.from_dict_instance", auto_batch_size, batch_dims, batch_size, device, names,
        ValueError, strict,
    )  # fmt: skip
    return _read(like, input_dict, asked)


def _read(target: type[TensorCollection] | TensorCollection, source: Any, asked: Plan) -> Any:
    if isinstance(source, Collection):
        cls = target if isinstance(target, type) else type(target)
        if not isinstance(source, cls):
            return build(target, dict(source._store), like(source, asked))
        return settled(source._shallow(), asked)
    if not isinstance(source, Mapping):
        try:
            source = dict(source)
        except (TypeError, ValueError):
            raise TypeError(
                f"{asked.what}: expected a mapping, got a {type(source).__name__}; from_any takes other objects"
            ) from None
    return build(target, converted_entries(source, target, asked), asked)  # pyright: ignore[reportUnknownArgumentType]
