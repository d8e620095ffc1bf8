"""Instances of dataclasses, classes of attrs and models of pydantic, to collections and back."""

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
from typing_extensions import Unpack

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_options import ConversionKwargs, ConversionOptions
from tensorclass.convert.conversion_steps import FAILED, C, from_entries
from tensorclass.records.fields import shown_annotation
from tensorclass.records.record import OPTIONS, TensorClass
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind

from .class_adapters import ClassAdapter, adapter_of, hints_of
from .record_class import record_class_of, source_class_of

_UNIONS = (typing.Union, types.UnionType)


# ---------------------------------------------------------------------------------------------------------------------
# in


def from_instance(adapter: ClassAdapter, cls: type[C], obj: Any, **kwargs: Unpack[ConversionKwargs]) -> C:
    """Convert an instance to a collection."""
    name = f"from_{adapter.name}"
    adapter.require(name)
    options = ConversionOptions.of(f"{class_name(cls)}.{name}", **kwargs)
    if isinstance(obj, type) or not adapter.accepts(obj.__class__):
        raise TypeError(
            _expected(name, obj, f"an instance of {adapter.shown}", f"; {adapter.takes_class} takes a class")
        )
    return from_entries(cls, obj, options)


def to_record(adapter: ClassAdapter, obj: Any, *, dest_cls: type[Any] | None = None, **kwargs: Any) -> Any:
    """Return the record of an instance, or the record class of a class; ``kwargs`` are options of both."""
    what = f"from_{adapter.name}"
    adapter.require(what)
    class_options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
    options = ConversionOptions.of(what, **kwargs)
    if isinstance(obj, type):
        given: Any = obj
        if issubclass(given, TensorClass):
            return given
        if not adapter.accepts(given):
            raise TypeError(_expected(what, given, adapter.shown))
        if dest_cls is not None or options.auto or options.batch_size is not None or options.device is not None:
            raise ValueError(
                f"{what}: dest_cls, batch_size, auto_batch_size, batch_dims and device are about an instance; "
                f"{class_name(given)} is a class"
            )
        return record_class_of(given, class_options)
    if not adapter.accepts(obj.__class__):
        raise TypeError(_expected(what, obj, f"{adapter.shown} or an instance of one"))
    if dest_cls is None:
        dest_cls = record_class_of(obj.__class__, class_options)
    elif any(class_options.values()):
        raise ValueError(f"{what}: {class_name(dest_cls)} has its options already; give options only without dest_cls")
    elif not issubclass(dest_cls, TensorClass):
        raise TypeError(f"{what}: dest_cls must be a class of records, got {dest_cls!r}")
    return from_entries(dest_cls, obj, options)


# ---------------------------------------------------------------------------------------------------------------------
# out


def to_instance(adapter: ClassAdapter, data: TensorCollection, dest_cls: type[Any]) -> Any:
    """Convert a collection to an instance of a class."""
    what = f"to_{adapter.name}"
    adapter.require(what)
    if not isinstance(cast("object", dest_cls), type) or not adapter.accepts(dest_cls):
        raise TypeError(f"{what}: expected {adapter.shown}, got {dest_cls!r}")
    problems = Problems(what)
    made = _instance(data, dest_cls, problems, ())
    problems.check()
    return made


def _instance(data: TensorCollection, cls: type[Any], problems: Problems, path: tuple[str, ...]) -> Any:
    """Make an instance. ``FAILED`` if that is not possible; the problems are noted."""
    adapter = cast("ClassAdapter", adapter_of(cls))
    taken = {**adapter.fields(cls), **adapter.arguments(cls)}
    values = {
        key: restore_value(_plain(value), taken[key].hint if key in taken else Any, problems, (*path, key))
        for key, value in data._items_for_export(True)
        if key in data._store or not isinstance(data, TensorClass) or data._specs[key].allows_none(data)
    }
    for name, member in taken.items():
        if member.required and name not in values:
            problems.add((*path, name), shown_annotation(member.hint), "nothing: there is no such key")
    if not adapter.takes_more(cls):
        expected = f"one of the fields {', '.join(map(repr, taken))} of {class_name(cls)}"
        for name in values:
            if name not in taken:
                problems.add_unknown((*path, name), expected, "a key that is none of them", taken)
    return FAILED if problems else adapter.make(cls, values)


def _plain(value: Any) -> Any:
    """Return the value of an entry; objects without their container."""
    if isinstance(value, Collection) and not (isinstance(value, TensorCollection) and value._is_tree()):
        return value._unwrapped()
    return value


def restore_value(value: Any, hint: Any, problems: Problems, path: tuple[str, ...] = ()) -> Any:
    """Restore a value to what an annotation says, if a converter took it apart or made it a tensor.

    >>> import torch
    >>> [
    ...     restore_value(torch.tensor(one), hint, Problems(""))
    ...     for one, hint in [(1.5, float | None), ([1, 2], list[int])]
    ... ]
    [1.5, [1, 2]]
    """
    if value is None or hint is Any:
        return value
    origin: Any = typing.get_origin(hint)
    if origin is typing.Annotated:
        return restore_value(value, typing.get_args(hint)[0], problems, path)
    if origin in _UNIONS:
        return _as_one_of(value, typing.get_args(hint), problems, path)
    one: Any = origin or hint
    if not _is_subclass(one, object):
        return value
    if isinstance(value, TensorCollection) and value._is_tree():
        return value if issubclass(one, Collection) else _as_object(value, hint, one, problems, path)
    if isinstance(value, Tensor) and not value.requires_grad:
        return _as_number(value, one, typing.get_args(hint))
    rows: Any = value
    if content_kind(value) is Content.RAGGED and not rows.requires_grad:
        return _as_lists(rows, one, typing.get_args(hint))
    return rows


def _as_one_of(value: Any, hints: Sequence[Any], problems: Problems, path: tuple[str, ...]) -> Any:
    """Restore a value to the first annotation of a union that fits."""
    hints = [typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint for hint in hints]
    classes = [typing.get_origin(hint) or hint for hint in hints]
    kept = [one for one in classes if not isinstance(value, Collection) or _is_subclass(one, Collection)]
    if Any in classes or any(isinstance(one, type) and isinstance(value, one) for one in kept):
        return value
    if isinstance(value, TensorCollection):
        source = source_class_of(type(value))
        if source is not None and any(_is_subclass(source, one) for one in classes):
            return _instance(value, source, problems, path)
        keys = set(value._store)
        mismatches = [_key_mismatch(one, keys) for one in classes]
        return restore_value(value, hints[mismatches.index(min(mismatches))], problems, path)
    for hint in hints:
        found = restore_value(value, hint, problems, path)
        if found is not value:
            return found
    return value


def _is_subclass(cls: Any, base: Any) -> bool:
    return isinstance(cls, type) and isinstance(base, type) and issubclass(cls, base)


def _key_mismatch(cls: Any, keys: set[str]) -> float:
    """Count the keys that an object of a class has too many or too few; infinite for other classes.

    A missing required field, or a key that the class does not take, counts more than all optional fields.
    """
    if not isinstance(cls, type):
        return math.inf
    adapter = adapter_of(cls)
    if adapter is not None:
        taken = {**adapter.fields(cls), **adapter.arguments(cls)}
        required = {name for name, one in taken.items() if one.required}
        wrong = len(required - keys) + (0 if adapter.takes_more(cls) else len(keys - taken.keys()))
        return 1000 * wrong + len(taken.keys() ^ keys)
    named: Sequence[str] | None = getattr(cls, "_fields", None)
    if named is not None and issubclass(cls, tuple):
        return 1000 * len(set(named) ^ keys)
    return 500 if issubclass(cls, (tuple, collections.abc.Mapping)) else math.inf


def _as_object(value: TensorCollection, hint: Any, cls: Any, problems: Problems, path: tuple[str, ...]) -> Any:
    """Restore a collection to the instance, mapping or tuple that it was made from."""
    if adapter_of(cls) is not None:
        source = source_class_of(type(value))
        return _instance(value, source if source is not None and issubclass(source, cls) else cls, problems, path)
    entries = {key: _plain(entry) for key, entry in value._items_for_export(True)}
    parts: tuple[Any, ...] = typing.get_args(hint)
    named: Sequence[str] | None = getattr(cls, "_fields", None)
    of: Any
    if _is_subclass(cls, tuple) and named is None:
        entries = dict(sorted(entries.items(), key=lambda item: int(item[0])))
        of = dict.fromkeys(entries, parts[0]) if parts[1:] == (...,) else dict(zip(entries, parts, strict=False))
    elif _is_subclass(cls, tuple) or typing.is_typeddict(cls):
        of = hints_of(cls)
    elif _is_subclass(cls, Mapping):
        of = dict.fromkeys(entries, parts[1]) if len(parts) == 2 else {}
    else:
        return value
    items = {key: restore_value(entry, of.get(key, Any), problems, (*path, key)) for key, entry in entries.items()}
    if _is_subclass(cls, tuple):
        return tuple(items.values()) if named is None else cls(**items)
    return items if typing.is_typeddict(cls) or _is_subclass(dict, cls) else cls(items)


def _as_number(value: Any, cls: Any, parts: tuple[Any, ...]) -> Any:
    """Restore a tensor to the annotated type: a number, a list or an array."""
    if isinstance(value, cls):
        return value
    if _is_subclass(cls, np.ndarray):
        return value.cpu().numpy()
    if _is_subclass(cls, list) and value.ndim:
        return [*value.unbind()] if parts and _is_subclass(parts[0], Tensor) else value.tolist()
    if value.ndim:
        return value
    if _is_subclass(cls, np.generic):
        return cls(value.item())
    fits = (
        cls is complex
        or (cls is float and not value.is_complex())
        or (cls is int and not value.is_complex() and not value.is_floating_point())
        or (cls is bool and value.dtype is torch.bool)
    )
    return value.item() if fits else value


def _as_lists(value: Ragged[Any], cls: Any, parts: tuple[Any, ...]) -> Any:
    """Restore ragged rows to the annotated type: a list or an array; ``list[Tensor]`` gets one tensor for each row."""
    if isinstance(value, cls):
        return value
    if _is_subclass(cls, np.ndarray) and value.ragged_dims == 1:
        return value.numpy()
    if not _is_subclass(list, cls):
        return value
    hint = parts[0] if parts else Any
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else [hint]
    kinds = [typing.get_origin(one) or one for one in options]
    wanted = next((kind for kind in (Tensor, np.ndarray) if any(_is_subclass(one, kind) for one in kinds)), None)
    if wanted is None or value.ragged_dims != 1 or value.ndim != 1:
        return value.tolist()
    rows = [None if row.missing else row.tensor() for row in value]
    return rows if wanted is Tensor else [None if row is None else row.numpy(force=True) for row in rows]


def _expected(what: str, obj: object, expected: str, more: str = "") -> str:
    got = f"the class {class_name(obj)}" if isinstance(obj, type) else f"a {type_name(obj)}"
    return f"{what}: expected {expected}, got {got}{more}"
