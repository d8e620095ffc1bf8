"""The property of each field of a record class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from tensorclass.td import native
from tensorclass.td.leaves.nontensor import NonTensorData

from .field_names import MEMBER_NAMES
from .fields import FieldSpec, Kind
from .frozen import FROZEN_MEMBERS
from .name_errors import without_init
from .record import TensorClass


@native.tries("set_field")
def _put_tensor(record: TensorClass, name: str, value: Any) -> None:
    """Set a field that takes every tensor of the batch size."""
    try:
        size = record._batch_size
        if record._lock is None and isinstance(value, Tensor):
            shape = value.shape
            ndim = len(size)  # slicing a torch.Size is slow
            fits = shape == size or ((shape[0] == size[0]) if ndim == 1 and shape else shape[:ndim] == size)
            fits = fits and (record._device is None or value.device == record._device)
        else:
            fits = False
    except RuntimeError:  # a nested tensor can have no shape
        fits = False
    except AttributeError as error:
        raise without_init(record, error) from None
    if fits:
        record._store[name] = value
    else:
        record._set(name, value)


def field_property(spec: FieldSpec, frozen: bool) -> property:
    """Make the property of a field.

    All decisions that follow from the annotation are made here, once a class, so that reading the field makes none.
    """
    # (A __getattr__ could word the errors for unknown attributes, but its mere presence slows every attribute down.)
    name = spec.name
    removed = f"{spec.owner}.{name} is not set: it was removed, or not selected"
    tensor = spec.kind in (Kind.TENSOR, Kind.COLLECTION, Kind.COLUMN)
    plain = spec.kind is Kind.TENSOR and spec.contract is None
    # a plain bool: torch.compile can take that from a closure, a FieldSpec not
    required = spec.kind is not None and not spec.optional

    def get_value(self: TensorClass) -> Any:
        try:
            return self._store[name]
        except KeyError:
            raise AttributeError(removed) from None

    def get_optional(self: TensorClass) -> Any:
        return self._store.get(name)

    def get_object(self: TensorClass) -> Any:
        value = self._store.get(name)
        if type(value) is NonTensorData:  # the usual case
            return value._objects[0]
        if value is None:
            if required:
                raise AttributeError(removed)
            return None
        return value if isinstance(value, Tensor) else self._out(value, name)

    def set_tensor(self: TensorClass, value: Any) -> None:
        _put_tensor(self, name, value)

    def set_value(self: TensorClass, value: Any) -> None:
        try:
            self._set(name, value)
        except AttributeError as error:
            raise without_init(self, error) from None

    def delete(self: TensorClass) -> None:
        self._check_unlocked()
        if name in self._store:
            del self._store[name]
        elif required:
            raise AttributeError(removed)

    getter: Callable[[Any], Any] = get_object if not tensor else get_optional if spec.optional else get_value
    setter = set_tensor if plain and not frozen else set_value
    return property(getter, setter, delete, f"A field: {spec.shown}")


def hidden_member(name: str, frozen: bool) -> Any:
    """Return the member of collections that a field of this name hides, or ``None``."""
    if name not in MEMBER_NAMES:
        return None
    return FROZEN_MEMBERS[name] if frozen and name in FROZEN_MEMBERS else inspect.getattr_static(TensorClass, name)
