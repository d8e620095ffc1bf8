"""What ``torch.load(weights_only=True)`` may find in a file: collections, and no way to call a class of a user.

The loader there takes a name in a file for an object only where the name is allowed, and such a file could call what it
finds under it. So a name of a class does not stand for the class: it gives a :class:`Named`, which cannot be called and
of which only the functions that put collections together make the class. These run no ``__init__`` and no
``__post_init__``.
"""

from __future__ import annotations

from collections.abc import Callable
from pickle import PicklingError, UnpicklingError
from typing import Any, TypeVar
from weakref import ref

import torch

T = TypeVar("T")

_serialization: Any = torch.serialization
_allow: Callable[[list[Any]], None] = _serialization.add_safe_globals


class Named:
    """Stands for a class in a file; the last one that was defined under its name."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type) -> None:
        self._cls: ref[type] = ref(cls)  # a class that is gone is not kept

    def __reduce_ex__(self, protocol: Any) -> Any:
        cls: Any = self._cls()
        if protocol < 5 and "<locals>" in cls.__qualname__:  # cloudpickle, of protocol 5, takes the class itself along
            raise PicklingError(
                f"{cls.__qualname__} of the module {cls.__module__} is defined in a function, where no file can name "
                "it: define it outside of functions, or write formats that hold no classes, as memmap() and "
                "save_safetensors() do"
            )
        if protocol >= 4:  # which has names of classes in classes
            return _itself, (cls,)
        return class_named, (cls.__module__, cls.__qualname__)


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


def is_allowed(cls: type) -> bool:
    """Return whether files can name a class."""
    known = _NAMED.get(f"{cls.__module__}.{cls.__qualname__}")
    return known is not None and known._cls() is cls


def allow_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets files call one of the functions that put collections together."""
    _allow([(function, f"{function.__module__}.{function.__qualname__}")])
    return function


def written(cls: type) -> Any:
    """What a pickle has of a class: its name, whose form depends on the protocol where it is a class in a class.

    Pickling what stands for a class in a function raises a ``PicklingError``, since no name leads to it.
    """
    return Named(cls) if "." in cls.__qualname__ else cls


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


def _itself(cls: type) -> type:
    return cls


@allow_function
def class_named(module: str, name: str) -> Named:
    """What unpickling calls for a class in a class, which the loader of torch has no name for.

    Raises:
        UnpicklingError: there is none. Nothing is imported for a name in a file.
    """
    named = _NAMED.get(f"{module}.{name}")
    if named is None:
        raise UnpicklingError(f"the file has a {name} of the module {module}, where none is defined: import it first")
    return named
