"""Predicates of annotations: whether an object is an instance of ``list[str]``, ``Path | None``, an enum, ..."""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

Predicate = Callable[[Any], bool]

_SEQUENCES = (list, set, frozenset, collections.abc.Sequence, collections.abc.Set, collections.abc.Collection)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def predicate(annotation: Any) -> Predicate | None:
    """Return a function that says whether an object fits an annotation; ``None`` if every object does.

    Args:
        annotation: a class, or what :mod:`typing` makes of classes: unions, ``list[str]``, ``dict[str, int]``,
            ``Literal``, ``Annotated``, ``Any``.

    Raises:
        TypeError: instances of the annotation cannot be told at run time.

    Example:
        >>> fits = predicate(list[str])
        >>> fits(["a"]), fits([1]), fits("a")
        (True, False, False)
    """
    try:
        return _cached(annotation)
    except TypeError as error:
        if "unhashable" in str(error):
            return _made(annotation)
        raise


@functools.lru_cache(maxsize=1024)
def _cached(annotation: Any) -> Predicate | None:
    return _made(annotation)


def _made(annotation: Any) -> Predicate | None:
    if annotation in (Any, object) or isinstance(annotation, typing.TypeVar):
        return None
    if annotation is None or annotation is type(None):
        return lambda value: value is None
    if annotation is float:  # as type checkers do
        return lambda value: isinstance(value, (int, float))
    if annotation is complex:
        return lambda value: isinstance(value, (int, float, complex))
    if isinstance(annotation, type) and get_origin(annotation) is None:
        kind = annotation
        return lambda value: isinstance(value, kind)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return predicate(args[0])
    if origin is Literal:
        return lambda value: any(type(value) is type(item) and value == item for item in args)
    if origin in (Union, types.UnionType):
        options = [predicate(arg) for arg in args]
        if any(option is None for option in options):
            return None
        return lambda value: any(option(value) for option in options if option is not None)
    if isinstance(annotation, typing.NewType):
        return predicate(annotation.__supertype__)
    if not isinstance(origin, type):
        raise TypeError(f"Column[{annotation!r}]: instances of this annotation cannot be told at run time; use a class")
    return _of_origin(origin, args)


def _of_origin(origin: type, args: tuple[Any, ...]) -> Predicate:
    if origin is tuple and len(args) == 2 and args[1] is ...:
        inner = predicate(args[0])
        return lambda value: isinstance(value, tuple) and _all_fit(inner, value)
    if origin is tuple:
        each = [predicate(arg) for arg in args]
        return lambda value: (
            isinstance(value, tuple)
            and len(typing.cast("Any", value)) == len(each)
            and all(one is None or one(item) for one, item in zip(each, typing.cast("Any", value), strict=True))
        )
    if origin in _SEQUENCES and len(args) == 1:
        below = predicate(args[0])
        return lambda value: (
            isinstance(value, origin)
            and not (isinstance(value, (str, bytes)) and origin is not str)
            and _all_fit(below, value)
        )
    if origin in _MAPPINGS and len(args) == 2:
        keys, values = predicate(args[0]), predicate(args[1])
        return lambda value: isinstance(value, origin) and _all_fit(keys, value) and _all_fit(values, value.values())
    return lambda value: isinstance(value, origin)


def _all_fit(fits: Predicate | None, items: Any) -> bool:
    return fits is None or all(map(fits, items))


def shown(annotation: Any) -> str:
    """Return an annotation as it is written."""
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


#: classes that a file may name: loading one runs no code of users
_PLAIN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (str, bytes, int, float, complex, bool, list, dict, tuple, set, frozenset, type(None))
}


def encoded(annotation: Any) -> Any:
    """Return an annotation in a form that files can hold: nested tuples of names where it is made of builtins.

    Any other annotation is returned unchanged, so that pickles name its classes.

    Example:
        >>> encoded(dict[str, list[int]])
        ('dict', ('str',), ('list', ('int',)))
    """
    form = _encoded(annotation)
    return annotation if form is None else form


def _encoded(annotation: Any) -> Any:
    if annotation is Any:
        return ("Any",)
    if annotation is None:
        return ("NoneType",)
    origin = get_origin(annotation) or annotation
    name = "|" if origin in (Union, types.UnionType) else getattr(origin, "__name__", "")
    if name != "|" and _PLAIN.get(name) is not origin:
        return None
    args = [("...",) if arg is ... else _encoded(arg) for arg in get_args(annotation)]
    return None if None in args else (name, *args)


def decoded(form: Any) -> Any:
    """Return the annotation of :func:`encoded`."""
    names: Any = form
    if not isinstance(form, tuple):
        return names
    name, *below = names
    if name == "Any":
        return Any
    if name == "...":
        return ...
    args = tuple([decoded(one) for one in below])
    if name == "|":
        return functools.reduce(lambda left, right: Union[left, right], args)  # noqa: UP007  # None has no `|`
    return _PLAIN[name][args] if args else _PLAIN[name]
