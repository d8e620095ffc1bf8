"""Tuples: the keys of the collection are the positions, or the fields of a record in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionKwargs, ConversionOptions
from tensorclass.convert.conversion_steps import C, build, convert_entries
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection


def from_tuple(cls: type[C], obj: Sequence[Any], **kwargs: Unpack[ConversionKwargs]) -> C:
    """See :meth:`TensorDict.from_tuple`."""
    options = ConversionOptions.of(f"{class_name(cls)}.from_tuple", **kwargs)
    if not isinstance(obj, (tuple, list)):
        raise TypeError(f"from_tuple: expected a tuple, got a {type_name(obj)}; from_any takes other objects")
    keys = [str(position) for position in range(len(obj))]
    if issubclass(cls, TensorClass):
        keys = [name for name, spec in cls._specs.items() if spec.init and not spec.kw_only]
        if len(obj) > len(keys):
            raise TypeError(f"{class_name(cls)}.from_tuple: expected at most {len(keys)} items, {keys}; got {len(obj)}")
    return build(cls, convert_entries(dict(zip(keys, obj, strict=False)), cls, options), options)  # type: ignore[no-any-return]


def to_tuple(data: TensorCollection) -> tuple[Any, ...]:
    """See :meth:`TensorDict.to_tuple`."""
    entries = dict(data._items_for_export(True))
    keys: list[str] = [*entries]
    if all(key.isdecimal() for key in keys):
        keys.sort(key=int)
    return tuple([_exported(entries[key]) for key in keys])


def _exported(value: Any) -> Any:
    if isinstance(value, TensorCollection) and value._is_tree():
        return to_tuple(value)
    return value._unwrapped() if isinstance(value, Collection) else value
