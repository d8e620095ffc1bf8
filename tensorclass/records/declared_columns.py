"""The columns among the declared keys of a typed TensorDict."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Mapping
from typing import Any

import typing_extensions

from .definition import scope_of
from .fields import FieldSpec, Kind, Unresolved, classify, evaluated
from .record import OPTIONS

# typing has one of its own from Python 3.11 on; typing_extensions' differs from it in some versions
_NOT_REQUIRED = (typing_extensions.NotRequired, getattr(typing, "NotRequired", typing_extensions.NotRequired))


def declared_columns(cls: Any, annotations: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, FieldSpec]:
    """Return the fields among annotations that declare columns, by key.

    Args:
        cls: the class with the annotations.
        annotations: an annotation of each key. Text that names what is not defined yet declares no column.
        defaults: makes the default of a key that has one.

    Raises:
        TypeError: the annotation of a column contradicts itself.
    """
    scope = scope_of(cls, annotations)
    space = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    found: dict[str, FieldSpec] = {}
    for name, annotation in annotations.items():
        declared: Any = evaluated(annotation, space, scope) if isinstance(annotation, str) else annotation
        if typing.get_origin(declared) in _NOT_REQUIRED:
            (declared,) = typing.get_args(declared)
        try:
            if classify(declared, space, scope).kind is not Kind.COLUMN:
                continue
        except Unresolved:
            continue
        field: Any = dataclasses.field(default_factory=defaults[name]) if name in defaults else dataclasses.field()
        field.name, field.type = name, declared
        found[name] = FieldSpec(cls.__name__, field, cls.__module__, scope, OPTIONS)
    return found
