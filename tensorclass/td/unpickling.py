"""What ``torch.load(weights_only=True)`` may find in a file: collections, and no way to call a class of a user.

The loader there takes a name in a file for an object only where the name is allowed, and such a file could call what it
finds under it. So a name of a class does not stand for the class: it gives a :class:`Named`, which cannot be called and
of which only the functions that put collections together make the class. These run no ``__init__`` and no
``__post_init__``.
"""

from __future__ import annotations

from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, TypeVar
from weakref import ref

import torch

T = TypeVar("T")


class Named:
    """Stands for a class in a file; the last one that was defined under its name."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type) -> None:
        self._cls: ref[type] = ref(cls)  # a class that is gone is not kept


_NAMED: dict[str, Named] = {}


def allow_class(cls: type) -> None:
    """Lets files name a class of collections, where it has a name that a file can have."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    known = _NAMED.get(name)
    if known is not None:
        known._cls = ref(cls)
    elif "<locals>" not in name:
        _NAMED[name] = named = Named(cls)
        _allow([(named, name)])


def allow_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets files call one of the functions that put collections together."""
    _allow([(function, f"{function.__module__}.{function.__qualname__}")])
    return function


def found(given: Any, base: type[T]) -> type[T]:
    """The class that a file names.

    Args:
        given: the class, or what stands for it.
        base: a class that it must be, or derive from.

    Raises:
        UnpicklingError: it is none.
    """
    cls = given._cls() if isinstance(given, Named) else given
    if isinstance(cls, type) and issubclass(cls, base):
        return cls
    raise UnpicklingError(f"a file names {cls!r} where a {base.__name__} was expected")


_serialization: Any = torch.serialization
_allow: Callable[[list[Any]], None] = _serialization.add_safe_globals
