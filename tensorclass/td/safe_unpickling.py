"""Allow ``torch.load(weights_only=True)`` to load collections, without a way to call a user's class.

That loader resolves only allowed names, but a file may call whatever a name resolves to. So the name of a class
resolves to a :class:`Named`, which cannot be called. Only the functions that rebuild collections resolve it to the
class, and they run no ``__init__`` and no ``__post_init__``.
"""

from __future__ import annotations

from collections.abc import Callable
from pickle import PicklingError, UnpicklingError
from typing import Any, TypeVar
from weakref import ref

import torch

from tensorclass.support.moved_modules import former_names
from tensorclass.support.printable import class_name, printable

T = TypeVar("T")

_serialization: Any = torch.serialization
_allow: Callable[[list[Any]], None] = _serialization.add_safe_globals


class Named:
    """Stands for a class in a file: the one that was defined last under its name."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type) -> None:
        self._cls: ref[type] = ref(cls)  # does not keep the class alive

    def __reduce_ex__(self, protocol: Any) -> Any:
        cls: Any = self._cls()
        if protocol < 5 and "<locals>" in cls.__qualname__:  # cloudpickle (protocol 5) pickles the class itself
            name = printable(f"{cls.__qualname__} of the module {cls.__module__}")
            raise PicklingError(
                f"{name} is defined in a function, and a file cannot name it: define it outside of functions, or write "
                "a format without classes, as memmap() and save_safetensors() do"
            )
        if protocol >= 4:  # it can name nested classes
            return _itself, (cls,)
        return class_named, (cls.__module__, cls.__qualname__)


_NAMED: dict[str, Named] = {}


def allow_class(cls: type, former_module: str | None = None) -> None:
    """Allow files to name a class of collections, if the class can be named.

    Args:
        cls: the class.
        former_module: the module that it was in before, by which earlier files name it.
    """
    name = f"{cls.__module__}.{cls.__qualname__}"
    known = _NAMED.get(name)
    if known is not None:
        known._cls = ref(cls)
    elif "<locals>" not in name:
        named = Named(cls)
        for known_name in _names_in_files(cls, former_module):
            _NAMED[known_name] = named
            _allow([(named, known_name)])


def is_allowed(cls: type) -> bool:
    """Return whether files can name a class."""
    known = _NAMED.get(f"{cls.__module__}.{cls.__qualname__}")
    return known is not None and known._cls() is cls


def allow_function(function: Callable[..., Any], former_module: str | None = None) -> Callable[..., Any]:
    """Allow files to call a function that rebuilds collections. See :func:`allow_class` for ``former_module``."""
    _allow([(function, name) for name in _names_in_files(function, former_module)])
    return function


def _names_in_files(member: Any, former_module: str | None) -> list[str]:
    """Return the present and former full names of a class or function."""
    modules = [member.__module__] if former_module is None else [member.__module__, former_module]
    return [f"{name}.{member.__qualname__}" for module in modules for name in (module, *former_names(module))]


def written(cls: type) -> Any:
    """Return what a pickle holds for a class. For a nested class it is a name in the form that the protocol allows.

    A class in a function has no name: pickling it raises a ``PicklingError``.
    """
    return Named(cls) if "." in cls.__qualname__ else cls


def found(given: Any, base: type[T]) -> type[T]:
    """Resolve a class in a file.

    Args:
        given: the class, or a :class:`Named`.
        base: class that the result must be, or derive from.

    Raises:
        UnpicklingError: it does not.
    """
    cls = given._cls() if isinstance(given, Named) else given
    if isinstance(cls, type) and issubclass(cls, base):
        return cls
    raise UnpicklingError(f"a file names {cls!r} where a {class_name(base)} was expected")


def _itself(cls: type) -> type:
    return cls


@allow_function
def class_named(module: str, name: str) -> Named:
    """Resolve the name of a nested class, which torch's loader cannot name. Called by unpickling.

    Raises:
        UnpicklingError: no such class is defined. Nothing is imported for a name in a file.
    """
    named = _NAMED.get(f"{module}.{name}")
    if named is None:
        raise UnpicklingError(f"the file has a {name} of the module {module}, which is not defined: import it first")
    return named
