"""``@tensorclass``: a plain class made a record."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from typing_extensions import dataclass_transform

from .record import RecordMeta, TensorClass

T = TypeVar("T")


@overload
def tensorclass(cls: type[T], /) -> type[T]: ...
@overload
def tensorclass(
    cls: None = None,
    /,
    *,
    autocast: bool = ...,
    frozen: bool = ...,
    nocast: bool = ...,
    shadow: bool = ...,
    tensor_only: bool = ...,
    kw_only: bool = ...,
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(eq_default=False)
def tensorclass(cls: Any = None, /, **options: bool) -> Any:
    """Makes a record of a class: the same as deriving it from :class:`TensorClass`.

    >>> import torch
    >>> @tensorclass
    ... class Point:
    ...     x: torch.Tensor
    ...     y: torch.Tensor
    >>> Point(torch.zeros(3), torch.ones(3), batch_size=[3])[0].y
    tensor(1.)

    Args:
        cls: the class.
        options: those of :class:`TensorClass`: ``autocast``, ``nocast``, ``frozen``, ``tensor_only``, ``shadow``,
            ``kw_only``.
    """
    if cls is None:
        return lambda decorated: _make(decorated, options)
    if not isinstance(cls, type):
        raise TypeError(f"tensorclass: expected a class, got {cls!r}; options are given by keyword")
    return _make(cls, options)


def _make(cls: type, options: dict[str, bool]) -> type:
    namespace = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
    for slot in _own_slots(namespace):
        namespace.pop(slot, None)  # the member of the old class; the record's field takes its place
    namespace.pop("__slots__", None)
    namespace["__qualname__"] = cls.__qualname__
    bases = tuple(base for base in getattr(cls, "__orig_bases__", cls.__bases__) if base is not object)
    if not any(isinstance(base, RecordMeta) for base in cls.__bases__):
        generic = [base for base in bases if base is Generic or getattr(base, "__origin__", None) is Generic]
        bases = (*(base for base in bases if base not in generic), TensorClass, *generic)
    new = types.new_class(cls.__name__, bases, dict(options), lambda space: space.update(namespace))
    _repoint(namespace.values(), cls, new)
    return new


def _own_slots(namespace: dict[str, Any]) -> tuple[str, ...]:
    slots = namespace.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _repoint(members: Any, old: type, new: type) -> None:
    """Lets ``super()`` and ``__class__`` in the methods of the decorated class mean the record."""
    seen: set[int] = set()
    pending = list(members)
    while pending:
        member = pending.pop()
        if id(member) in seen:
            continue
        seen.add(id(member))
        if isinstance(member, (staticmethod, classmethod)):
            pending.append(member.__func__)
        elif isinstance(member, property):
            pending += [f for f in (member.fget, member.fset, member.fdel) if f is not None]
        elif isinstance(member, types.FunctionType):
            if hasattr(member, "__wrapped__"):
                pending.append(member.__wrapped__)
            for name, cell in zip(member.__code__.co_freevars, member.__closure__ or (), strict=True):
                try:
                    content = cell.cell_contents
                except ValueError:  # a cell that is still empty
                    continue
                if name == "__class__" and content is old:
                    cell.cell_contents = new
                elif isinstance(content, types.FunctionType):
                    pending.append(content)
        elif hasattr(member, "func"):  # functools.cached_property, functools.partialmethod
            pending.append(member.func)
