"""Mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Size, Tensor
from typing_extensions import Unpack

from tensorclass.convert.conversion_options import BatchSize, ConversionKwargs, ConversionOptions
from tensorclass.convert.conversion_steps import (
    VALUE_ERRORS,
    C,
    build,
    convert_entries,
    with_metadata,
    with_metadata_of,
)
from tensorclass.convert.converter_registry import converter_of, describe_source
from tensorclass.records.record import TensorClass
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.hidden_members import member_values
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import all_begin_with, have_plain_keys, is_strided_nested, strided_nested


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
    if type(input_dict) is dict and names is None and device is None:
        given: dict[Any, Any] = input_dict
        made: Any = None
        if cls is not TensorDict:
            is_given = batch_dims is None and not auto_batch_size
            if strict and is_given and issubclass(cls, TensorClass):
                made = _record_of_tensors(cls, given, None if batch_size is None else shapes.as_size(batch_size))
        elif batch_dims is None and not auto_batch_size:
            made = _of_tensors(given, shapes.as_size(batch_size))
        elif batch_size is None:
            made = _of_tensors(given, None, batch_dims)
        if made is not None:
            return made  # type: ignore[no-any-return]
    what = f"{cls.__name__}.from_dict"
    options = ConversionOptions.of(
        what, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size, device=device, names=names,
        strict=strict, conflict=ValueError,
    )  # fmt: skip
    return _read(cls, input_dict, options)  # type: ignore[no-any-return]


def from_dict_instance(
    instance: TensorCollection,
    input_dict: Any,
    *,
    names: Sequence[str | None] | None = None,
    **kwargs: Unpack[ConversionKwargs],
) -> Any:
    """See :meth:`TensorDict.from_dict_instance`."""
    what = f"{type(instance).__name__}.from_dict_instance"
    options = ConversionOptions.of(what, names=names, conflict=ValueError, **kwargs)
    return _read(instance, input_dict, options)


def _of_tensors(source: dict[Any, Any], size: Size | None, batch_dims: int | None = None) -> TensorDict | None:
    """Convert a dict of tensors and such dicts, the most common input, in one pass. ``None`` for other dicts.

    Args:
        source: the dict.
        size: the batch size; ``None`` infers it.
        batch_dims: largest number of inferred batch dimensions.
    """
    store: dict[str, Any] = {}
    if size and have_plain_keys(source) and all_begin_with(source.values(), size):
        store = source.copy()
    else:
        ndim = 0 if size is None else len(size)
        for key, value in source.items():
            if type(key) is not str:
                return None
            if type(value) is Tensor:
                if value.is_nested and is_strided_nested(value):
                    raise strided_nested(key)
                if ndim and value.shape[:ndim] != size:
                    return None  # the slow path says what is wrong
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
        size = shapes.common([value.shape for value in member_values(store.values())], batch_dims)
    new = object.__new__(TensorDict)
    new._store, new._batch_size, new._device, new._names, new._lock = store, size, None, None, None
    return new


def _holds_tensors(source: dict[Any, Any]) -> bool:
    """Return whether a dict has string keys and only tensors and such dicts: nothing to convert."""
    for key, value in source.items():
        if type(key) is not str:
            return False
        if type(value) is not Tensor and (type(value) is not dict or not _holds_tensors(value)):  # pyright: ignore[reportUnknownArgumentType]
            return False
    return True


def _record_of_tensors(cls: type[TensorClass], source: dict[Any, Any], size: Size | None) -> TensorClass | None:
    """Convert a dict of tensors, and of such dicts for nested collections, to a record. ``None`` for other dicts."""
    specs = cls._specs
    if not cls._takes_fields or source.keys() != specs.keys() or (size is None and cls._item_ranks):
        return None
    values = source
    for key, value in source.items():
        if type(value) is dict:
            held: Any = specs[key].stored_class
            made: Any = None
            if held is TensorDict:
                made = _of_tensors(value, size or Size())  # pyright: ignore[reportUnknownArgumentType]
            elif held is not None and issubclass(held, TensorClass) and not held._item_ranks:
                made = _record_of_tensors(held, value, size)  # pyright: ignore[reportUnknownArgumentType]
            if made is None:
                return None
            values = source.copy() if values is source else values
            values[key] = made
        elif type(value) is not Tensor:
            return None
    try:
        return cls(**values, batch_size=size)
    except VALUE_ERRORS:  # the slow path lists all of them, with their paths
        return None


def _read(target: type[TensorCollection] | TensorCollection, source: Any, options: ConversionOptions) -> Any:
    if isinstance(source, Collection):
        cls = target if isinstance(target, type) else type(target)
        if not isinstance(source, cls):
            return build(target, dict(source._store), with_metadata_of(source, options))
        return with_metadata(source._shallow(), options)
    if not isinstance(source, Mapping):
        got = f"{options.what}: expected a mapping, got {describe_source(source)}; from_any takes other objects"
        if converter_of(source) is not None:  # dict() would make a dict of the columns of a table
            raise TypeError(got)
        try:
            source = dict(source)
        except (TypeError, ValueError):
            raise TypeError(got) from None
    if type(source) is dict and isinstance(target, type) and _holds_tensors(source):  # pyright: ignore[reportUnknownArgumentType]
        return build(target, source, options)  # pyright: ignore[reportUnknownArgumentType]
    return build(target, convert_entries(source, target, options), options)  # pyright: ignore[reportUnknownArgumentType]
