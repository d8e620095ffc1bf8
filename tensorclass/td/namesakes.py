"""Explain errors between two classes of the same name.

They come from a notebook cell that ran again, from a reloaded module, or from two modules that each define one. An
error "expected Sample, got Sample" would not help, so code that compares classes adds what :func:`namesake` returns.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

_count = itertools.count()


class Place(NamedTuple):
    """The file and line of a class definition, and its number in the order of all definitions."""

    number: int
    file: str
    line: int

    @staticmethod
    def of(frame: Any) -> Place:
        """Return the place of a frame."""
        if frame is None:
            return Place(next(_count), "", 0)
        return Place(next(_count), frame.f_code.co_filename, frame.f_lineno)


def namesake(got: type, wanted: Iterable[type], *, between: Literal["value", "values", "classes"] = "value") -> str:
    """Explain that a class differs from an expected class of the same name, and what to do.

    Args:
        got: the class of the value.
        wanted: the classes that would do.
        between: what does not match: a value and a declaration, values, or classes.

    Returns:
        A part of a message, without a full stop; empty if no name is the same.

    >>> first, second = (type("Sample", (), {}) for _ in range(2))
    >>> namesake(first, [int])
    ''
    >>> namesake(first, [second]).split(":")[0]
    'there are two classes of this name'
    """
    mine: Any = _dense(got)
    others: list[Any] = [_dense(cls) for cls in wanted]
    other = next((cls for cls in others if cls.__name__ == mine.__name__ and cls is not mine), None)
    if other is None:
        return ""
    name = other.__name__
    text = f"there are two classes of this name: {_named(other)}{_place(other)} was expected, and "
    converted = f", or convert it: {name}.from_any(value)" if hasattr(other, "from_any") else ""
    if _named(mine) != _named(other):
        return f"{text}{_named(mine)}{_place(mine)} came; pass the expected one{converted}"
    newer = _newer(mine, other)
    if newer is None:
        return f"{text}another one{_place(mine)} came; the class was defined again: create the value again{converted}"
    text += f"the one of {'an earlier' if newer is other else 'a later'} definition{_place(mine)} came; "
    if between == "values":
        return f"{text}the class was defined again: create the values of the older one again{converted}"
    if between == "value" and newer is other:
        return f"{text}the class was defined again after the value was created: create it again{converted}"
    return (
        f"{text}the class was defined again, and earlier declarations still refer to the older one: define them "
        "again, too (rerun their cell)"
    )


def not_of_class(what: str, cls: type, position: int, item: object) -> TypeError:
    """Return the error for an item of another class than the other records."""
    twin = namesake(type(item), [cls], between="values")
    return TypeError(
        f"{what}: expected records of the class {cls.__name__} only; item {position} is a {type(item).__name__}"
        + (f"; {twin}" if twin else "")
    )


def _dense(cls: type) -> type:
    """Return the class of a collection on a dict, also for one on another store."""
    dense: type = getattr(cls, "_dense", cls)
    return dense


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _place(cls: type) -> str:
    own = _members(cls)
    place = own.get("_defined_at")
    if isinstance(place, Place) and place.file:
        return f" ({place.file}:{place.line})"
    line, file = own.get("__firstlineno__"), getattr(sys.modules.get(cls.__module__), "__file__", None)
    return f" ({file}:{line})" if line and file else ""


def _newer(first: type, second: type) -> type | None:
    """Return the class that was defined later; ``None`` if that is unknown."""
    one, other = _members(first).get("_defined_at"), _members(second).get("_defined_at")
    if isinstance(one, Place) and isinstance(other, Place):
        return first if one.number > other.number else second
    found: Any = sys.modules.get(first.__module__)
    for name in first.__qualname__.split("."):
        found = getattr(found, name, None)
    return found if found is first or found is second else None


def _members(cls: type) -> Mapping[str, Any]:
    return vars(cls)
