"""Mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Size, Tensor

from tensorclass.record import TensorClass
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import is_strided_nested, strided_nested

from .problems import Problems
from .readers import described, reader_of
from .tree import MISTAKES, BatchSize, C, Plan, build, converted_entries, explain, like, plan, settled


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
    what = f"{cls.__name__}.from_dict"
    if type(input_dict) is dict and names is None and device is None:
        made: Any = None
        if cls is not TensorDict:
            is_given = batch_dims is None and not auto_batch_size
            if strict and is_given and issubclass(cls, TensorClass) and _holds_tensors(input_dict):  # pyright: ignore[reportUnknownArgumentType]
                size = None if batch_size is None else shapes.as_size(batch_size)
                return _record(cls, input_dict, size, what)  # pyright: ignore[reportUnknownArgumentType]
        elif batch_dims is None and not auto_batch_size:
            made = _of_tensors(input_dict, shapes.as_size(batch_size))  # pyright: ignore[reportUnknownArgumentType]
        elif batch_size is None:
            made = _of_tensors(input_dict, None, batch_dims)  # pyright: ignore[reportUnknownArgumentType]
        if made is not None:
            return made  # type: ignore[no-any-return]
    asked = plan(what, auto_batch_size, batch_dims, batch_size, device, names, ValueError, strict)
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


def _of_tensors(source: dict[Any, Any], size: Size | None, batch_dims: int | None = None) -> TensorDict | None:
    """A collection of a dict that holds tensors and such dicts, as most do, in one go; ``None`` for another one.

    Args:
        source: the dict.
        size: the batch size; ``None`` where it shall be found out.
        batch_dims: how many dimensions it has at most then.
    """
    store: dict[str, Any] = {}
    ndim = 0 if size is None else len(size)
    for key, value in source.items():
        if type(key) is not str:
            return None
        if type(value) is Tensor:
            if is_strided_nested(value):
                raise strided_nested(key)
            if ndim and value.shape[:ndim] != size:
                return None  # what is wrong is said elsewhere
            store[key] = value
        elif type(value) is dict:
            inner = store[key] = _of_tensors(value, size, batch_dims)  # pyright: ignore[reportUnknownArgumentType]
            if inner is None:
                return None
        else:
            return None
    if size is None or not store:
        if not store or (batch_dims is not None and batch_dims < 0):
            return None
        size = shapes.common([value.shape for value in store.values()], batch_dims)
    new = object.__new__(TensorDict)
    new._store, new._batch_size, new._device, new._names, new._lock = store, size, None, None, None
    return new


def _holds_tensors(source: dict[Any, Any]) -> bool:
    """Whether there are only tensors in a dict, and in the dicts in it, under strings: nothing to convert."""
    for key, value in source.items():
        if type(key) is not str:
            return False
        if type(value) is not Tensor and (type(value) is not dict or not _holds_tensors(value)):  # pyright: ignore[reportUnknownArgumentType]
            return False
    return True


def _record(cls: type[C], values: dict[str, Any], size: Size | None, what: str) -> C:
    try:
        return cls._from_mapping(values, size, None, None)
    except MISTAKES as error:
        problems = Problems(what)
        explain(error, cls, values, size, problems)
        problems.check()
        raise  # (not reached: there are problems)


def _read(target: type[TensorCollection] | TensorCollection, source: Any, asked: Plan) -> Any:
    if isinstance(source, Collection):
        cls = target if isinstance(target, type) else type(target)
        if not isinstance(source, cls):
            return build(target, dict(source._store), like(source, asked))
        return settled(source._shallow(), asked)
    if not isinstance(source, Mapping):
        got = f"{asked.what}: expected a mapping, got {described(source)}; from_any takes other objects"
        if reader_of(source) is not None:  # a table, which Python would take for a dict of its columns
            raise TypeError(got)
        try:
            source = dict(source)
        except (TypeError, ValueError):
            raise TypeError(got) from None
    if type(source) is dict and isinstance(target, type) and _holds_tensors(source):  # pyright: ignore[reportUnknownArgumentType]
        return build(target, source, asked)  # pyright: ignore[reportUnknownArgumentType]
    return build(target, converted_entries(source, target, asked), asked)  # pyright: ignore[reportUnknownArgumentType]
