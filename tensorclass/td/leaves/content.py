"""Contents of values: objects, strings, rows or a tensor; and the names of leaves in files.

Files, messages, tables and operations on rows ask a value for its :class:`Content`, and not for its class. A new leaf
says it with one attribute.
"""

from __future__ import annotations

import enum
from typing import Any


class Content(enum.Enum):
    """The content of a value that is no tensor. It says which methods return the parts."""

    TREE = enum.auto()  #: values under keys: a nested collection
    TENSOR = enum.auto()  #: one tensor for all rows: ``_wrapped_tensor()``
    OBJECTS = enum.auto()  #: objects, and their codes: ``_coded_objects()``
    TEXT = enum.auto()  #: strings: UTF-8 in a buffer, and spans, as :class:`Text` has them
    RAGGED = enum.auto()  #: rows of numbers: items in a buffer, and spans, as :class:`Ragged` has them

    @property
    def has_spans(self) -> bool:
        """True if rows are spans of a buffer; the value is then based on :class:`BufferColumn`."""
        return self is Content.TEXT or self is Content.RAGGED


#: classes of leaves by their names in files
_kinds: dict[str, Any] = {}


def register_kind(cls: Any) -> None:
    """Let files name a class of leaves: by its ``_KIND``.

    Raises:
        ValueError: another class has the name.
    """
    known = _kinds.setdefault(cls._KIND, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"files name {known.__module__}.{known.__qualname__} {cls._KIND!r} already; choose another")
    _kinds[cls._KIND] = cls


def leaf_class(kind: object, *contents: Content) -> Any:
    """Return the class that a file names for such contents; ``None`` if none is registered under this name."""
    found = _kinds.get(kind) if isinstance(kind, str) else None
    return found if found is not None and found._CONTENT in contents else None
