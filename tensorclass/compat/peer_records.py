"""Record classes that are declared through ``tensordict``: as lenient as those of ``tensordict``.

A field can be ``None`` whatever its annotation, and reads as ``None`` if it was deselected. Objects are taken without a
check of their type. Fields can have the names of members, and each row of a field can have an object of its own.
Classes that are declared through this package stay as they are: leniency is in the specs of the fields, which a class
gets once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from torch import Tensor

from tensorclass.records import decorator
from tensorclass.records.contracted import Contracted
from tensorclass.records.fields import FieldSpec, Kind
from tensorclass.records.record import OPTIONS, RecordMeta
from tensorclass.records.record import TensorClass as StrictRecord
from tensorclass.support.printable import type_name
from tensorclass.td import registry, value_checks
from tensorclass.td.collection import Collection
from tensorclass.td.get import MISSING
from tensorclass.td.keys import NestedKey
from tensorclass.td.leaves.leaf import holds_objects

if TYPE_CHECKING:
    from tensorclass.td.collection import Value

__all__ = ["TensorClass", "tensorclass"]


class LenientSpec(FieldSpec):
    """A field of a record that takes ``None``, and objects of any type. Numbers and lists of numbers become tensors."""

    __slots__ = ("_converts", "_numbers")

    kind: Kind | None
    types: tuple[type, ...]
    literals: tuple[Any, ...]

    def _resolve(self, scope: Mapping[str, Any]) -> None:
        super()._resolve(scope)
        self.optional = True
        #: numbers that stay numbers for all rows of a batch, as they are annotated; others do not fit a batch
        self._numbers = tuple({number for cls in self.types for number in _NUMBERS.get(cls, ())})
        #: classes of the values that become tensors
        self._converts: tuple[type, ...] = ()
        is_open = self.kind is not Kind.COLUMN and not self._options["tensor_only"]
        if is_open and not (self.kind is Kind.OBJECT and self._options["autocast"]):
            self._converts = self._converted_classes()
            self.kind, self.literals = Kind.ANY, ()
            self.types = ()

    def _converted_classes(self) -> tuple[type, ...]:
        if self._options["nocast"]:
            return (list,)
        if not self._options["autocast"]:
            return (bool, int, float, list, np.ndarray)
        sequences = (list, tuple, np.generic) if self.kind is Kind.TENSOR else ()
        return (bool, int, float, np.ndarray, *sequences)

    def fit(self, record: Contracted, value: Any, non_blocking: bool = False) -> Value:
        """Return the value to store. A field of tensors takes collections and objects that are no numbers, too."""
        if self._known_kind(type(record), value) is Kind.ANY:
            if self._converts and not isinstance(value, (Tensor, Collection)):
                value = self._converted(record, value)
        elif self.kind is Kind.TENSOR and isinstance(value, Collection):
            return value_checks.fit_collection(record, self.name, value, non_blocking)
        return super().fit(record, value, non_blocking)

    def _converted(self, record: Contracted, value: Any) -> Any:
        """Return a number, an array or a list of numbers as a tensor, objects in a list as a stack."""
        size = record._batch_size
        given = value
        is_list = isinstance(value, list)
        if isinstance(value, self._converts) and (not is_list or given or not size):
            tensor = value_checks.as_tensor(given, record._device)
            if tensor is not None:
                return given if size and isinstance(value, self._numbers) else tensor
        if isinstance(value, np.generic) or (is_list and list in self._converts):
            return registry.non_tensor(given, size, record._device, record._names)
        return given


_NUMBERS: Final[dict[type, tuple[type, ...]]] = {bool: (bool,), int: (bool, int), float: (bool, int, float)}


class LenientMeta(RecordMeta):
    """Metaclass of lenient records. All records are instances of their base class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(StrictRecord if cls is TensorClass else cls, subclass)


class TensorClass(StrictRecord, metaclass=LenientMeta, is_base=True):
    """``tensordict.TensorClass``: the base class of records, with lenient fields."""

    __slots__ = ()

    _spec_class = LenientSpec
    _CASTS_INTEGERS = True
    _options = {**OPTIONS, "shadow": True, "stack_objects": True}

    def get(self, key: NestedKey, default: Any = MISSING, **forms: Any) -> Any:
        """Return the value of a field: that of a non-tensor field is its object, and ``None`` if it has none."""
        if type(key) is str and key in type(self)._specs and key not in self._store:
            return None
        value = super().get(key, default, **forms)
        return value._as_read() if holds_objects(value) else value

    def get_at(self, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
        """Return rows of a field: those of a non-tensor field are its objects."""
        value = super().get_at(key, index, default)
        return value._as_read() if holds_objects(value) else value

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Return the value of a field, for classes that wrap this method; others have no such attribute."""
            if name in type(self)._specs:
                return self._out(self._store.get(name), name)
            raise AttributeError(f"{type_name(self)} has no attribute {name!r}; its fields are {[*type(self)._specs]}")


def tensorclass(cls: Any = None, /, **options: Any) -> Any:
    """``tensordict.tensorclass``: turn a class into a record class, with lenient fields."""
    return decorator.decorated(TensorClass, cls, options)
