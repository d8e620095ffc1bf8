"""Explain errors between two classes of the same name.

They come from a notebook cell that ran again, from a reloaded module, or from two modules that each define one. An
error "expected Sample, got Sample" would not help, so code that compares classes adds what :func:`namesake` returns.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from tensorclass.support.help_links import help_link
from tensorclass.support.printable import class_name, type_name

_count = itertools.count()


class DefinitionSite(NamedTuple):
    """The file and line of a class definition, and its number in the order of all definitions."""

    number: int
    file: str
    line: int

    @staticmethod
    def of(frame: Any) -> DefinitionSite:
        """Return the site of the class statement that a frame executes, with the next number."""
        if frame is None:
            return DefinitionSite(next(_count), "", 0)
        return DefinitionSite(next(_count), frame.f_code.co_filename, frame.f_lineno)


def namesake(got: type, wanted: Iterable[type], *, between: Literal["value", "values", "classes"] = "value") -> str:
    """Explain that a class differs from an expected class of the same name, and what to do.

    Args:
        got: the class of the value.
        wanted: the classes that would do.
        between: what does not match: a value and a declaration, values, or classes.

    Returns:
        The end of a message; empty if no name is the same.

    >>> first, second = (type("Sample", (), {}) for _ in range(2))
    >>> namesake(first, [int])
    ''
    >>> namesake(first, [second]).split(":")[0]
    'there are two classes of this name'
    """
    text = _namesake(got, wanted, between)
    return text and text + help_link("redefined-class")


def _namesake(got: type, wanted: Iterable[type], between: str) -> str:
    actual: Any = _dense_class(got)
    others: list[Any] = [_dense_class(cls) for cls in wanted]
    other = next((cls for cls in others if cls.__name__ == actual.__name__ and cls is not actual), None)
    if other is None:
        return ""
    name = other.__name__
    text = f"there are two classes of this name: {_full_name(other)}{_site(other)} was expected, and "
    converted = f", or convert it: {name}.from_any(value)" if hasattr(other, "from_any") else ""
    if _full_name(actual) != _full_name(other):
        return f"{text}{_full_name(actual)}{_site(actual)} came; pass the expected one{converted}"
    newer = _later_definition(actual, other)
    if newer is None:
        return f"{text}another one{_site(actual)} came; the class was defined again: create the value again{converted}"
    text += f"the one of {'an earlier' if newer is other else 'a later'} definition{_site(actual)} came; "
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
        f"{what}: expected records of the class {class_name(cls)} only; item {position} is a {type_name(item)}"
        + (f"; {twin}" if twin else "")
    )


def _dense_class(cls: type) -> type:
    """Return the class of a collection on a dict, also for one on another store."""
    dense: type = getattr(cls, "_dense", cls)
    return dense


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _site(cls: type) -> str:
    attributes = _class_attributes(cls)
    site = attributes.get("_defined_at")
    if isinstance(site, DefinitionSite) and site.file:
        return f" ({site.file}:{site.line})"
    line, file = attributes.get("__firstlineno__"), getattr(sys.modules.get(cls.__module__), "__file__", None)
    return f" ({file}:{line})" if line and file else ""


def _later_definition(first: type, second: type) -> type | None:
    """Return the class that was defined later; ``None`` if that is unknown."""
    site, other = _class_attributes(first).get("_defined_at"), _class_attributes(second).get("_defined_at")
    if isinstance(site, DefinitionSite) and isinstance(other, DefinitionSite):
        return first if site.number > other.number else second
    current: Any = sys.modules.get(first.__module__)  # the class that the name refers to now
    for name in first.__qualname__.split("."):
        current = getattr(current, name, None)
    return current if current is first or current is second else None


def _class_attributes(cls: type) -> Mapping[str, Any]:
    return vars(cls)
