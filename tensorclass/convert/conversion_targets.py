"""The target of each value in a conversion: the class of the result, and the entries that a value has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from torch import Tensor

from tensorclass.records.record import TensorClass
from tensorclass.records.typed import TypedTensorDict
from tensorclass.td.base import TensorCollection
from tensorclass.td.stores.store_classes import dense_class
from tensorclass.td.tensordict import TensorDict

from .python.class_adapters import PLAIN, adapter_of
from .python.record_class import matching_record_class

#: The class of a converted value, or a collection of that structure. ``Tensor`` and ``None`` are for fields of records
#: that hold a tensor or an object: their values are not taken apart.
Target: TypeAlias = "type[TensorCollection] | TensorCollection | type[Tensor] | None"

#: errors that values raise if they do not fit
VALUE_ERRORS = (TypeError, ValueError, RuntimeError, AttributeError)


def entries(obj: Any) -> dict[Any, Any] | None:
    """Return the entries of a mapping, a (named) tuple or an instance with fields by key; ``None`` for other objects.

    >>> entries((1, "a"))
    {'0': 1, '1': 'a'}
    """
    if type(obj) in PLAIN:
        return None
    if isinstance(obj, tuple):  # before mappings, whose check is slow
        items = cast("tuple[object, ...]", obj)
        fields: Sequence[str] | None = getattr(items, "_fields", None)
        names = map(str, range(len(items))) if fields is None else fields
        return dict(zip(names, items, strict=True))
    given: Any = obj
    if type(given) is dict or isinstance(given, Mapping):
        return dict(given)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    adapter = adapter_of(obj.__class__)
    return None if adapter is None else adapter.values(obj)


def target_class(target: type[TensorCollection] | TensorCollection) -> type[TensorCollection]:
    """Return the class of the result for a target."""
    return dense_class(target if isinstance(target, type) else type(target))


def entry_target(target: type[TensorCollection] | TensorCollection, key: str, value: object = None) -> Target:
    """Return the target of an entry. ``value`` decides between the classes of a field that takes several."""
    cls = target_class(target)
    if isinstance(target, TensorCollection):
        entry = target._store.get(key)
        if isinstance(entry, TensorCollection) and entry._is_tree():
            return entry
    if issubclass(cls, TensorClass):
        spec = cls._specs.get(key)
        if spec is None:
            return None
        if len(spec.types) > 1 and value is not None:
            for one in spec.types:
                if issubclass(one, TensorClass) and matching_record_class(one, value) is not None:
                    return one
        return spec.target(cls)
    if issubclass(cls, TypedTensorDict) and key in cls._columns:
        return None
    return TensorDict
