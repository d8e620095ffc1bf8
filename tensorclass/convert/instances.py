"""Instances of classes of fields, in and out; the same for dataclasses, attrs classes and models of pydantic."""

from __future__ import annotations

import collections.abc
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from tensorclass.fields import shown_annotation
from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike

from .kinds import Kind, hints_of, kind_of
from .problems import Problems
from .record_class import class_of, source_of
from .tree import FAILED, BatchSize, C, from_entries, plan

_UNIONS = (typing.Union, types.UnionType)


# ---------------------------------------------------------------------------------------------------------------------
# in


def from_instance(
    kind: Kind,
    cls: type[C],
    obj: Any,
    *,
    auto_batch_size: bool,
    batch_dims: int | None,
    batch_size: BatchSize,
    device: DeviceLike | None,
    strict: bool,
    more: str = "",
) -> C:
    """A collection of an instance."""
    what = f"from_{kind.name}"
    asked = plan(f"{cls.__name__}.{what}", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if isinstance(obj, type) or not kind.accepts(obj.__class__):
        raise TypeError(_expected(what, obj, f"an instance of {kind.shown}", more))
    return from_entries(cls, obj, asked)


def to_record(
    kind: Kind,
    obj: Any,
    *,
    dest_cls: type[Any] | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    device: DeviceLike | None = None,
    strict: bool = True,
    **options: bool,
) -> Any:
    """A record of an instance, or the record class of a class."""
    what = f"from_{kind.name}"
    asked = plan(what, auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if isinstance(obj, type):
        given: Any = obj
        if issubclass(given, TensorClass):
            return given
        if not kind.accepts(given):
            raise TypeError(_expected(what, given, kind.shown))
        if dest_cls is not None or asked.auto or asked.batch_size is not None or device is not None:
            raise ValueError(
                f"{what}: dest_cls, batch_size, auto_batch_size, batch_dims and device are about an instance; "
                f"{given.__name__} is a class"
            )
        return class_of(given, options)
    if not kind.accepts(obj.__class__):
        raise TypeError(_expected(what, obj, f"{kind.shown} or an instance of one"))
    if dest_cls is None:
        dest_cls = class_of(obj.__class__, options)
    elif any(options.values()):
        raise ValueError(f"{what}: {dest_cls.__name__} has its options already; they are given without dest_cls")
    elif not issubclass(dest_cls, TensorClass):
        raise TypeError(f"{what}: dest_cls must be a class of records, got {dest_cls!r}")
    return from_entries(dest_cls, obj, asked)


# ---------------------------------------------------------------------------------------------------------------------
# out


def to_instance(kind: Kind, data: TensorCollection, dest_cls: type[Any]) -> Any:
    """An instance of a class with the values of a collection."""
    what = f"to_{kind.name}"
    if not isinstance(cast("object", dest_cls), type) or not kind.accepts(dest_cls):
        raise TypeError(f"{what}: expected {kind.shown}, got {dest_cls!r}")
    problems = Problems(what)
    made = _instance(data, dest_cls, problems, ())
    problems.check()
    return made


def _instance(data: TensorCollection, cls: type[Any], problems: Problems, path: tuple[str, ...]) -> Any:
    """An instance; ``FAILED`` where it cannot be made, what is wrong is noted then."""
    kind = cast("Kind", kind_of(cls))
    taken = {**kind.fields(cls), **kind.arguments(cls)}
    values = {
        key: restored(_plain(value), taken[key].hint if key in taken else Any, problems, (*path, key))
        for key, value in data._items_for_export(True)
        if key in data._store or not isinstance(data, TensorClass) or data._specs[key].allows_none(data)
    }
    for name, member in taken.items():
        if member.required and name not in values:
            problems.add((*path, name), shown_annotation(member.hint), "nothing: there is no such key")
    if not kind.takes_more(cls):
        expected = f"one of the fields {', '.join(map(repr, taken))} of {cls.__name__}"
        for name in values:
            if name not in taken:
                problems.add((*path, name), expected, "a key that is none of them")
    return FAILED if problems else kind.make(cls, values)


def _plain(value: Any) -> Any:
    """What a collection holds under a key: objects themselves."""
    if isinstance(value, Collection) and not (isinstance(value, TensorCollection) and value._is_tree()):
        return value._unwrapped()  # type: ignore[attr-defined]
    return value


def restored(value: Any, hint: Any, problems: Problems, path: tuple[str, ...] = ()) -> Any:
    """A value as an annotation says, where a converter took it apart or made a tensor of it.

    >>> import torch
    >>> [restored(torch.tensor(one), hint, Problems("")) for one, hint in [(1.5, float | None), ([1, 2], list[int])]]
    [1.5, [1, 2]]
    """
    if value is None or hint is Any:
        return value
    origin: Any = typing.get_origin(hint)
    if origin is typing.Annotated:
        return restored(value, typing.get_args(hint)[0], problems, path)
    if origin in _UNIONS:
        return _as_one_of(value, typing.get_args(hint), problems, path)
    one: Any = origin or hint
    if not _is(one, object):
        return value
    if isinstance(value, TensorCollection) and value._is_tree():
        return value if issubclass(one, Collection) else _as_object(value, hint, one, problems, path)
    if isinstance(value, Tensor) and not value.requires_grad:
        return _as_number(value, one, typing.get_args(hint))
    return value


def _as_one_of(value: Any, hints: Sequence[Any], problems: Problems, path: tuple[str, ...]) -> Any:
    """A value as the first of several annotations that fits it."""
    hints = [typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint for hint in hints]
    classes = [typing.get_origin(hint) or hint for hint in hints]
    kept = [one for one in classes if not isinstance(value, Collection) or _is(one, Collection)]
    if Any in classes or any(isinstance(one, type) and isinstance(value, one) for one in kept):
        return value
    if isinstance(value, TensorCollection):
        source = source_of(type(value))
        if source is not None and any(_is(source, one) for one in classes):
            return _instance(value, source, problems, path)
        keys = set(value._store)
        misfits = [_misfit(one, keys) for one in classes]
        return restored(value, hints[misfits.index(min(misfits))], problems, path)
    for hint in hints:
        found = restored(value, hint, problems, path)
        if found is not value:
            return found
    return value


def _is(cls: Any, base: Any) -> bool:
    return isinstance(cls, type) and isinstance(base, type) and issubclass(cls, base)


def _misfit(cls: Any, keys: set[str]) -> float:
    """How many entries with these keys are too many or too few for an object of a class; infinite for other classes.

    What cannot be without the entry, or with it, counts for more than all that can.
    """
    if not isinstance(cls, type):
        return math.inf
    kind = kind_of(cls)
    if kind is not None:
        taken = {**kind.fields(cls), **kind.arguments(cls)}
        required = {name for name, one in taken.items() if one.required}
        wrong = len(required - keys) + (0 if kind.takes_more(cls) else len(keys - taken.keys()))
        return 1000 * wrong + len(taken.keys() ^ keys)
    named: Sequence[str] | None = getattr(cls, "_fields", None)
    if named is not None and issubclass(cls, tuple):
        return 1000 * len(set(named) ^ keys)
    return 500 if issubclass(cls, (tuple, collections.abc.Mapping)) else math.inf


def _as_object(value: TensorCollection, hint: Any, cls: Any, problems: Problems, path: tuple[str, ...]) -> Any:
    """Entries as the object that they were taken from: an instance, a mapping, a tuple."""
    if kind_of(cls) is not None:
        source = source_of(type(value))
        return _instance(value, source if source is not None and issubclass(source, cls) else cls, problems, path)
    entries = {key: _plain(entry) for key, entry in value._items_for_export(True)}
    parts: tuple[Any, ...] = typing.get_args(hint)
    named: Sequence[str] | None = getattr(cls, "_fields", None)
    of: Any
    if _is(cls, tuple) and named is None:
        entries = dict(sorted(entries.items(), key=lambda item: int(item[0])))
        of = dict.fromkeys(entries, parts[0]) if parts[1:] == (...,) else dict(zip(entries, parts, strict=False))
    elif _is(cls, tuple) or typing.is_typeddict(cls):
        of = hints_of(cls)
    elif _is(cls, Mapping):
        of = dict.fromkeys(entries, parts[1]) if len(parts) == 2 else {}
    else:
        return value
    items = {key: restored(entry, of.get(key, Any), problems, (*path, key)) for key, entry in entries.items()}
    if _is(cls, tuple):
        return tuple(items.values()) if named is None else cls(**items)
    return items if typing.is_typeddict(cls) or _is(dict, cls) else cls(items)


def _as_number(value: Any, cls: Any, parts: tuple[Any, ...]) -> Any:
    """A tensor as the number, the list or the array that an annotation says."""
    if isinstance(value, cls):
        return value
    if _is(cls, np.ndarray):
        return value.cpu().numpy()
    if _is(cls, list) and value.ndim:
        return [*value.unbind()] if parts and _is(parts[0], Tensor) else value.tolist()
    if value.ndim:
        return value
    if _is(cls, np.generic):
        return cls(value.item())
    fits = (
        cls is complex
        or (cls is float and not value.is_complex())
        or (cls is int and not value.is_complex() and not value.is_floating_point())
        or (cls is bool and value.dtype is torch.bool)
    )
    return value.item() if fits else value


def _expected(what: str, obj: object, expected: str, more: str = "") -> str:
    got = f"the class {obj.__name__}" if isinstance(obj, type) else f"a {type(obj).__name__}"
    return f"{what}: expected {expected}, got {got}{more}"
