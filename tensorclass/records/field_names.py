"""Names that fields cannot have."""

from __future__ import annotations

import dataclasses
import keyword
import re
import typing
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorclass.support.printable import class_name

from .field_specifier import has_name
from .record import METADATA, TensorClass

#: names of members of records: a field of such a name hides the member
MEMBER_NAMES = frozenset(name for name in dir(TensorClass) if not name.startswith("__")) | set(METADATA)

#: members that code around a record reads of any tensor or collection: hiding them needs the option ``shadow``
NEED_SHADOW = frozenset({"device", "names", "shape"})


def check_field_names(cls: Any, fields: Sequence[dataclasses.Field[Any]], annotations: Mapping[str, Any]) -> None:
    """Raise if a field or an ``InitVar`` of a new class has a name that it cannot have.

    Raises:
        AttributeError: the name is not one for an argument, or that of a member that cannot be hidden.
    """
    names = [f.name for f in fields]
    for name in annotations:
        f = cls.__dataclass_fields__.get(name)
        if f is not None and f._field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            if name in METADATA:
                raise AttributeError(
                    f"{class_name(cls)}: {name} is an argument of every record's constructor; rename yours"
                )
            if has_name(f):
                raise TypeError(
                    f"{class_name(cls)}.{name}: field(name=...) names a field in files and tables, and an InitVar is "
                    "in neither; drop the name"
                )
            names.append(name)
    check_usable(cls, names)
    taken = MEMBER_NAMES.intersection(names)
    private = sorted(name for name in taken if name.startswith("_"))
    if private:
        raise AttributeError(
            f"{class_name(cls)}: records keep what they hold under the names {private}, which cannot be hidden; rename "
            "them"
        )
    if "batch_size" in taken:
        raise AttributeError(
            f"{class_name(cls)}: no field can be called 'batch_size': the constructor takes it; rename the field"
        )
    if (hidden := sorted(taken & NEED_SHADOW)) and not cls._options["shadow"]:
        raise AttributeError(
            f"{class_name(cls)}: records have members of their own with the names {hidden}, which most code reads; "
            "rename the fields, or hide the members with the option shadow=True: "
            f"class {class_name(cls)}(..., shadow=True)"
        )


def check_usable(cls: Any, names: Iterable[str]) -> None:
    """Raise ``AttributeError`` if a name is :func:`unusable`."""
    for name in names:
        if why := unusable(name):
            raise AttributeError(f"{class_name(cls)}: no field can be called {name!r}: {why}; rename the field")


def unusable(name: str) -> str:
    """Return why the generated constructor cannot have an argument of this name; empty if it can."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "it is no name that Python takes for an argument"
    if unicodedata.normalize("NFKC", name) != name:
        return f"Python reads it as {unicodedata.normalize('NFKC', name)!r}"
    if name.startswith("__"):
        return "names that begin with two underscores are those of Python, and of generated code"
    return ""


def is_class_variable(annotation: Any) -> bool:
    """Return whether an annotation, which may be text, is a ``ClassVar``, as ``dataclasses`` sees it."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(text, str):
        return re.match(r"\s*(?:\w+\s*\.\s*)*ClassVar\b", text) is not None
    return annotation is typing.ClassVar or typing.get_origin(annotation) is typing.ClassVar
