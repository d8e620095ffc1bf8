"""Named tuples, of ``collections`` and of ``typing``."""

from __future__ import annotations

import collections
import functools
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from torch import Size
from typing_extensions import Unpack

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_options import ConversionKwargs, ConversionOptions
from tensorclass.convert.conversion_steps import C, from_entries
from tensorclass.convert.conversion_targets import target_class
from tensorclass.convert.tensor_trees import given_size, of_tensors
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import all_begin_with

from .instance_values import restore_value

METHODS_OF = "PythonObjects"

D = TypeVar("D")
_NO_DIMS = Size()


def from_namedtuple(cls: type[C], named_tuple: Any, **kwargs: Unpack[ConversionKwargs]) -> C:
    """Convert a named tuple, and the named tuples inside it.

    Args:
        named_tuple: the named tuple. Its field names become the keys.
        ConversionKwargs: auto_batch_size, batch_dims, device, batch_size, strict

    Example:
        >>> from typing import NamedTuple
        >>> from tensorclass import TensorDict
        >>> class Point(NamedTuple):
        ...     x: float
        ...     y: float
        >>> TensorDict.from_namedtuple(Point(1.0, 2.0)).to_namedtuple(Point)
        Point(x=1.0, y=2.0)
    """
    size = given_size(kwargs) if cls is TensorDict and is_namedtuple(named_tuple) else None
    made: Any = None if size is None else of_tensors(named_tuple._asdict(), size)
    if made is not None:
        return made  # type: ignore[no-any-return]
    options = ConversionOptions.of(f"{class_name(cls)}.from_namedtuple", **kwargs)
    if not is_namedtuple(named_tuple):
        raise TypeError(
            f"from_namedtuple: expected a named tuple, got a {type_name(named_tuple)}; from_any takes other objects"
        )
    return from_entries(cls, named_tuple, options)


@overload
def to_namedtuple(data: TensorCollection, dest_cls: None = None) -> Any: ...
@overload
def to_namedtuple(data: TensorCollection, dest_cls: type[D]) -> D: ...
def to_namedtuple(data: TensorCollection, dest_cls: type[Any] | None = None) -> Any:
    """Return the values as a named tuple. Nested collections become named tuples too.

    Args:
        dest_cls: the class of the named tuple. If its annotations name further classes, the nested collections get
            those. By default a class is made with the name of the collection's class.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": 1, "b": {"c": "text"}}).to_namedtuple()
        TensorDict(a=tensor(1), b=TensorDict(c='text'))
    """
    if dest_cls is None and data._exports_store() and all_begin_with((store := data._now()).values(), _NO_DIMS):
        return _class_of(target_class(data).__name__, tuple(store))(*store.values())  # tensors alone
    hints = {} if dest_cls is None else _hints(dest_cls)
    values: dict[str, Any] = {}
    problems = Problems("to_namedtuple")
    for key, value in data._items_for_export(dest_cls is None):
        hint = hints.get(key, Any)
        if isinstance(value, TensorCollection) and value._is_tree():
            values[key] = to_namedtuple(value, hint if is_namedtuple(hint) else None)
        else:
            values[key] = restore_value(value._unwrapped() if isinstance(value, Collection) else value, hint, problems)
    problems.check()
    if dest_cls is None:
        return _class_of(target_class(data).__name__, tuple(values))(**values)
    fields: tuple[str, ...] = dest_cls._fields
    optional: Mapping[str, Any] = getattr(dest_cls, "_field_defaults", {})
    missing = [name for name in fields if name not in values and name not in optional]
    unexpected = [name for name in values if name not in fields]
    if missing or unexpected:
        raise TypeError(
            f"to_namedtuple: the keys must be the fields {list(fields)} of {class_name(dest_cls)}"
            + (f"; missing: {missing}" if missing else "")
            + (f"; unexpected: {unexpected}" if unexpected else "")
        )
    return dest_cls(**values)


def is_namedtuple(obj: object) -> bool:
    """Return whether an object or a class is a named tuple."""
    cls = obj if isinstance(obj, type) else type(obj)
    return hasattr(cls, "_fields") and issubclass(cls, tuple)


@functools.lru_cache(maxsize=256)
def _class_of(name: str, fields: tuple[str, ...]) -> Any:
    try:
        make: Any = collections.namedtuple  # checkers cannot know the fields
        return make(name, fields)
    except ValueError as error:
        raise ValueError(
            f"to_namedtuple: {error}; a field of a named tuple is an identifier that does not begin with an "
            "underscore: rename the key with rename_key_, or use to_dict"
        ) from None


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the annotations of a named tuple."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError):  # an annotation cannot be evaluated here
        return {}
