"""The decorator ``@tensorclass``, which turns a plain class into a record class."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

from torch import Tensor
from typing_extensions import dataclass_transform

from tensorclass.support.printable import class_name

from .definition import redefine
from .field_specifier import field
from .name_errors import unknown_options
from .record import KEYWORDS, RecordMeta, TensorClass

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
    cast_filter: Callable[[tuple[str, ...], Tensor], bool] | None = ...,
    skip_post_init_on_rebuild: bool = ...,
    validate: bool = ...,
    stack_objects: bool = ...,
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field, dataclasses.field, dataclasses.Field), eq_default=False)
def tensorclass(cls: Any = None, /, **options: Any) -> Any:
    """Turn a class into a record class, as if it derived from :class:`TensorClass`.

    A class that already derives from a record stays the class that it is, and gets the options.

    Args:
        cls: the class.
        options: the options of :class:`TensorClass`: ``autocast``, ``nocast``, ``frozen``, ``tensor_only``, ``shadow``,
            ``kw_only``, ``cast_filter``, ``skip_post_init_on_rebuild``, ``validate``,
            ``stack_objects``.

    Returns:
        A new class with the attributes of the decorated one; a decorator if only options are given.

    Raises:
        TypeError: an option is unknown, or ``cls`` is not a class, or a dataclass.

    Example:
        >>> import torch
        >>> from tensorclass import tensorclass
        >>> @tensorclass
        ... class Point:
        ...     x: torch.Tensor
        ...     y: torch.Tensor
        >>> Point(torch.zeros(3), torch.ones(3), batch_size=[3])[0].y
        tensor(1.)
    """
    return decorated(TensorClass, cls, options)


def decorated(base: type[TensorClass], cls: Any, options: dict[str, Any]) -> Any:
    """Return the record class of a class, or a decorator if there is none.

    Args:
        base: the base class of the record class.
        cls: the class, or ``None``.
        options: the options of the record class.
    """
    if unknown := [name for name in options if name not in KEYWORDS]:
        raise TypeError(unknown_options("tensorclass", unknown, KEYWORDS))

    def decorate(plain: type) -> type:
        return _make(base, plain, options)

    return decorate if cls is None else decorate(cls)


def _make(base_class: type[TensorClass], cls: Any, options: dict[str, Any]) -> type:
    if not isinstance(cls, type):
        raise TypeError(f"tensorclass: expected a class, got {cls!r}; options are given by keyword")
    if isinstance(cls, RecordMeta):
        if options:
            redefine(cls, options)
        return cls
    if "__dataclass_fields__" in vars(cls):
        raise TypeError(f"tensorclass: {class_name(cls)} is a dataclass; drop @dataclass, a record is one by itself")
    namespace = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
    slots = namespace.get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else tuple(slots)
    for slot in slots:
        namespace.pop(slot, None)  # the member descriptor of the old class
    # fields are kept in the record's store: only other attributes need a slot
    fields = {"__weakref__", *namespace.get("__annotations__", ())}
    namespace["__slots__"] = tuple(slot for slot in slots if slot not in fields)
    namespace["__qualname__"] = cls.__qualname__
    bases = tuple(base for base in getattr(cls, "__orig_bases__", cls.__bases__) if base is not object)
    generic = [base for base in bases if base is Generic or getattr(base, "__origin__", None) is Generic]
    bases = (*(base for base in bases if base not in generic), base_class, *generic)
    new = types.new_class(cls.__name__, bases, dict(options), lambda space: space.update(namespace))
    _repoint([member for member in namespace.values() if not isinstance(member, type)], cls, new)
    return new


def _repoint(members: Iterable[Any], old: type, new: type) -> None:
    """Make ``super()`` and ``__class__`` in the methods of the decorated class refer to the record class.

    All methods of a class share one cell that holds the class. It may be reachable only through the wrappers of a
    method.
    """
    for _ in range(_DEPTH):
        inside: list[Any] = []
        for member in members:
            if isinstance(member, types.FunctionType):
                for name, cell in zip(member.__code__.co_freevars, member.__closure__ or (), strict=True):
                    try:
                        content = cell.cell_contents
                    except ValueError:  # a cell that is still empty
                        continue
                    if name == "__class__" and content is old:
                        cell.cell_contents = new
                        return
                    inside.append(content)
            elif isinstance(member, property):
                inside += [member.fget, member.fset, member.fdel]
            # a classmethod, functools.wraps, cached_property and partialmethod, a decorator that is a class
            inside += [getattr(member, name, None) for name in ("__func__", "__wrapped__", "func")]
            inside += getattr(member, "__dict__", {}).values()
        members = [
            item
            for item in {id(item): item for item in inside}.values()
            if not isinstance(item, type) and (callable(item) or hasattr(item, "__get__"))
        ]


#: number of nested wrappers that are searched for a method
_DEPTH = 8
