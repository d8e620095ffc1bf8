"""Private methods of collections that clients of ``tensordict`` call. They are there while compat is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorclass.td.base import TensorCollection

from .peer_pickles import STATEFUL

#: class, name and function of each method
METHODS: Final[list[tuple[type, str, Callable[..., Any]]]] = [
    (cls, "__setstate__", function) for cls, function in STATEFUL.items()
]

#: what stood under the names before
_before: Final[list[tuple[type, str, Any]]] = []


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function to the methods of collections."""
    METHODS.append((TensorCollection, function.__name__, function))
    return function


def add_methods() -> None:
    """Give collections the methods."""
    for cls, name, function in METHODS:
        if name in vars(cls):
            _before.append((cls, name, vars(cls)[name]))
        setattr(cls, name, function)


def remove_methods() -> None:
    """Take the methods away again."""
    for cls, name, _ in METHODS:
        delattr(cls, name)
    for cls, name, member in _before:
        setattr(cls, name, member)
    _before.clear()
