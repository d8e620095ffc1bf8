"""Errors for names that a record does not have: fields, arguments of the constructor, options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from tensorclass.support.help_links import help_link
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import printable, type_name
from tensorclass.td.stored_names import field_hint

#: stands for an argument of a constructor that was not given
REQUIRED: Any = object()


def no_field(record: Any, name: str) -> AttributeError:
    """Return the error for a name that is no field of a record, or of parameters in the fields of one."""
    fields = list(record._specs)
    hint = field_hint(record.__class__, name) or did_you_mean(name, fields) or help_link("undeclared-field")
    return AttributeError(f"{type_name(record)} has no field {name!r}; its fields are {fields}{hint}")


def without_init(record: Any, error: AttributeError) -> AttributeError:
    """Return the error for a field that is set before the constructor of the base class ran; else the given error."""
    if hasattr(record, "_store"):
        return error
    return AttributeError(
        f"{type_name(record)}: a hand-written __init__ calls super().__init__(...) before it sets fields; "
        f"__post_init__ needs none{help_link('own-constructor')}"
    )


def unknown_options(what: str, unknown: Sequence[str], known: Iterable[str]) -> str:
    """Return the message about options that a class statement or a decorator does not take."""
    known = list(known)
    return f"{what}: unknown options {unknown}; there are {known}{did_you_mean(unknown, known)}"


def refused_arguments(
    cls: Any,
    parameters: Sequence[Parameter],
    more: Sequence[object],
    unknown: Iterable[str],
    required: Mapping[str, object],
) -> TypeError:
    """Return the error for a call of a generated constructor, in Python's words.

    Args:
        cls: the class of the record.
        parameters: its parameters, without the record.
        more: positional arguments for which there is no parameter.
        unknown: keywords for which there is no parameter.
        required: the arguments without a default; those that are missing are ``REQUIRED``.

    >>> parameters = [Parameter("image", Parameter.POSITIONAL_OR_KEYWORD)]
    >>> raise refused_arguments(
    ...     type("Sample", (), {"_stored_names": None}), parameters, (), ["imgae"], {"image": REQUIRED}
    ... )
    Traceback (most recent call last):
    TypeError: Sample.__init__() got an unexpected keyword argument 'imgae'. Did you mean: 'image'?
    """
    function = f"{printable(cls.__qualname__)}.__init__"
    positional = [one for one in parameters if one.kind is not Parameter.KEYWORD_ONLY]
    missing = [name for name, value in required.items() if value is REQUIRED]
    if unknown := list(unknown):
        what = "an unexpected keyword argument" if len(unknown) == 1 else "unexpected keyword arguments"
        near = "".join([field_hint(cls, name) for name in unknown])
        near = near or did_you_mean(unknown, missing) or did_you_mean(unknown, [one.name for one in parameters])
        return TypeError(f"{function}() got {what} {_listed(unknown)}{near or _undeclared(cls, unknown[0])}")
    if more:
        most = 1 + len(positional)  # Python counts the record, too
        least = 1 + sum(one.default is Parameter.empty for one in positional)
        takes = f"{most}" if least == most else f"from {least} to {most}"
        return TypeError(
            f"{function}() takes {takes} positional argument{'s'[: most > 1]} but {most + len(more)} were given; "
            "give batch_size, device and names by keyword"
        )
    by_keyword = {one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY}
    named = [name for name in missing if name not in by_keyword] or missing
    what = "keyword-only" if named[0] in by_keyword else "positional"
    hint = "only fields with a default can be left out"
    if any(isinstance(value, Mapping) and not value.keys().isdisjoint(required) for value in required.values()):
        hint = f"{printable(cls.__qualname__)}.from_dict takes a mapping of fields to values"
    return TypeError(
        f"{function}() missing {len(named)} required {what} argument{'s'[: len(named) > 1]}: {_listed(named)}; {hint}"
    )


def _undeclared(cls: Any, name: str) -> str:
    """Return advice about an attribute of the class that is not declared as a field."""
    if not any(name in vars(base) for base in cls.__mro__ if base.__module__ == cls.__module__):
        return ""
    return f"; {name!r} is no field, as it has no annotation: declare it, for instance {name}: Tensor = ..."


def _listed(names: Sequence[str]) -> str:
    """Return names as Python lists them in errors."""
    *others, last = [repr(name) for name in names]
    return f"{', '.join(others)}{',' if len(others) > 1 else ''} and {last}" if others else last
