"""Two classes of one name: after a cell of a notebook ran again, a module was reloaded, or two modules have one each.

An error that says "expected Sample, got Sample" helps nobody. Whoever compares classes and prints their names adds what
:func:`namesake` says.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

_count = itertools.count()


class Place(NamedTuple):
    """The file and line at which a class was defined, and its rank among all classes."""

    number: int
    file: str
    line: int

    @staticmethod
    def of(frame: Any) -> Place:
        """The place that a frame is at."""
        if frame is None:
            return Place(next(_count), "", 0)
        return Place(next(_count), frame.f_code.co_filename, frame.f_lineno)


def namesake(got: type, wanted: Iterable[type], *, between: Literal["value", "values", "classes"] = "value") -> str:
    """Explain that a class has the name of one that is wanted, and is another; and say what to do.

    Args:
        got: the class of the value.
        wanted: the classes that would do.
        between: whether a value met what is declared, or values or declarations met one another.

    Returns:
        a part of a message, without a full stop; empty where no name is the same.

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
        return f"{text}{_named(mine)}{_place(mine)} came; give it the one that is expected{converted}"
    newer = _newer(mine, other)
    if newer is None:
        return f"{text}another one{_place(mine)} came; the class was defined again: make the value anew{converted}"
    text += f"the one of {'an earlier' if newer is other else 'a later'} definition{_place(mine)} came; "
    if between == "values":
        return f"{text}the class was defined again: make what is of the older one anew{converted}"
    if between == "value" and newer is other:
        return f"{text}the class was defined again after the value was made: make it anew{converted}"
    return (
        f"{text}the class was defined again, and what was declared before still means the older one: define that "
        "again, too (run its cell once more)"
    )


def not_of_class(what: str, cls: type, position: int, item: object) -> TypeError:
    """The error for one of several records that is not of the class of the others."""
    twin = namesake(type(item), [cls], between="values")
    return TypeError(
        f"{what}: all of them must be records of the class {cls.__name__}; item {position} is a {type(item).__name__}"
        + (f"; {twin}" if twin else "")
    )


def _dense(cls: type) -> type:
    """The class of a collection, also of one on another store."""
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
    """The one of two classes that was defined later; ``None`` where nothing tells it."""
    one, other = _members(first).get("_defined_at"), _members(second).get("_defined_at")
    if isinstance(one, Place) and isinstance(other, Place):
        return first if one.number > other.number else second
    found: Any = sys.modules.get(first.__module__)
    for name in first.__qualname__.split("."):
        found = getattr(found, name, None)
    return found if found is first or found is second else None


def _members(cls: type) -> Mapping[str, Any]:
    return vars(cls)
