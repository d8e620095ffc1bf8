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

METHODS_OF = "PythonObjects"


def from_tuple(cls: type[C], obj: Sequence[Any], **kwargs: Unpack[ConversionKwargs]) -> C:
    """Convert a tuple: its items get the keys ``"0"``, ``"1"``, ..., or those of a record's fields in their order.

    Args:
        obj: the tuple, or another sequence.
        ConversionKwargs: auto_batch_size, batch_dims, device, batch_size, strict

    Example:
        >>> from tensorclass import TensorDict
        >>> sorted(TensorDict.from_tuple((1, 2, 3)).keys())
        ['0', '1', '2']
    """
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
    """Return the values as a tuple. Nested collections become tuples too. The inverse of :meth:`from_tuple`.

    Keys that are numbers (``"0"``, ``"1"``, ...) give the positions of their values. Otherwise the order is that of
    the keys, or of a record's fields, with ``None`` for fields without a value.

    Returns:
        A tuple of the same tensors: nothing is copied.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_tuple((1, ("text", 2.5))).to_tuple()
        (tensor(1), ('text', tensor(2.5000)))
    """
    entries = dict(data._items_for_export(True))
    keys: list[str] = [*entries]
    if all(key.isdecimal() for key in keys):
        keys.sort(key=int)
    return tuple([_exported(entries[key]) for key in keys])


def _exported(value: Any) -> Any:
    if isinstance(value, TensorCollection) and value._is_tree():
        return to_tuple(value)
    return value._unwrapped() if isinstance(value, Collection) else value
