"""Dataclasses: instances become collections, classes become record classes."""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import operator
import pickle
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import Self

from tensorclass.definition import annotations_of
from tensorclass.record import OPTIONS, RecordMeta, TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike

from .tree import BatchSize, C, from_entries, is_dataclass_instance, plan

D = TypeVar("D")


def from_dataclass(
    cls: type[C],
    dataclass: Any,
    *,
    dest_cls: type[Any] | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    as_tensorclass: bool = False,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> Any:
    """See :meth:`TensorDict.from_dataclass`."""
    if as_tensorclass:
        if dest_cls is None and issubclass(cls, TensorClass) and not isinstance(dataclass, type):
            dest_cls = cls
        return record_class(
            dataclass, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, strict=strict,
        )  # fmt: skip
    if dest_cls is not None:
        raise ValueError(
            f"from_dataclass: dest_cls says what a record is made of, and needs as_tensorclass=True; or call "
            f"{dest_cls.__name__}.from_dataclass"
        )
    asked = plan(f"{cls.__name__}.from_dataclass", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if not is_dataclass_instance(dataclass):
        raise TypeError(_expected(dataclass, "an instance of a dataclass", "; as_tensorclass=True takes a class"))
    return from_entries(cls, dataclass, asked)


def to_dataclass(data: TensorCollection, dest_cls: type[D]) -> D:
    """See :meth:`TensorDict.to_dataclass`."""
    if not dataclasses.is_dataclass(dest_cls) or issubclass(dest_cls, TensorClass):
        raise TypeError(f"to_dataclass: expected a dataclass, got {dest_cls!r}")
    hints = _hints(dest_cls)
    fields = {f.name: f for f in dataclasses.fields(dest_cls)}
    values: dict[str, Any] = {}
    for key, value in data._items_for_export(True):
        inner = _dataclass_in(hints.get(key))
        if isinstance(value, TensorCollection) and value._is_tree():
            values[key] = value if inner is None else to_dataclass(value, inner)
        else:
            values[key] = value._unwrapped() if isinstance(value, Collection) else value  # type: ignore[attr-defined]
    required = [
        f.name for f in fields.values()
        if f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]  # fmt: skip
    missing = [name for name in required if name not in values]
    unexpected = [name for name in values if name not in fields]
    if missing or unexpected:
        raise TypeError(
            f"to_dataclass: the keys must be the fields {list(fields)} of {dest_cls.__name__};"
            + (f" missing: {missing}" if missing else "")
            + (f" unexpected: {unexpected}" if unexpected else "")
        )
    made = dest_cls(**{name: value for name, value in values.items() if fields[name].init})
    for name, value in values.items():
        if not fields[name].init:
            object.__setattr__(made, name, value)
    return made


def record_class(
    obj: Any,
    *,
    dest_cls: type[Any] | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    frozen: bool = False,
    autocast: bool = False,
    nocast: bool = False,
    inplace: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
    device: DeviceLike | None = None,
    strict: bool = True,
) -> Any:
    """A record class of a dataclass, or a record of an instance of one.

    The class derives from the dataclass and from :class:`TensorClass`: fields, defaults, methods and bases stay, and a
    record is an instance of the dataclass. (One that is frozen or has slots cannot be a base: a copy of it is, and the
    record is no instance of it.) Fields that hold dataclasses hold records. Of one dataclass (and one set of options)
    there is one record class, however often it is asked for. A record can be pickled where the dataclass could.

    Args:
        obj: the dataclass, or an instance of one.
        dest_cls: for an instance: the class of the record, instead of the one that is made.
        auto_batch_size: for an instance: find the batch size out.
        batch_dims: for an instance: how many dimensions the batch size has at most, when it is found out.
        batch_size: for an instance: the batch size; none by default.
        frozen: an option of the class, as are the following; the record of a frozen dataclass is frozen anyway.
        autocast: convert values to the type of the annotation.
        nocast: take only tensors for tensor fields.
        inplace: not supported: a class cannot become another one.
        shadow: allow fields with the name of a method of records.
        tensor_only: every field holds a tensor.
        device: for an instance: the device of the record.
        strict: for an instance, with ``dest_cls``: ``False`` leaves fields out that the record has not.

    Raises:
        TypeError: ``obj`` is no dataclass, nor an instance of one.

    >>> import dataclasses, torch
    >>> from tensorclass import from_dataclass
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: Any
    ...     label: str = "a"
    ...
    ...     def doubled(self):
    ...         return 2 * self.x
    >>> point = from_dataclass(Point(torch.ones(3)), batch_size=[3])
    >>> point[:2].doubled(), point.label, isinstance(point, Point)
    (tensor([2., 2.]), 'a', True)
    >>> type(point) is from_dataclass(Point)
    True
    """
    asked = plan("from_dataclass", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if inplace:
        raise TypeError("from_dataclass: inplace=True is not supported: write @tensorclass over the class instead")
    options = {
        "frozen": frozen, "autocast": autocast, "nocast": nocast, "shadow": shadow, "tensor_only": tensor_only,
    }  # fmt: skip
    if isinstance(obj, type):
        if not _is_dataclass(obj):
            raise TypeError(_expected(obj, "a dataclass"))
        if dest_cls is not None or asked.auto or asked.batch_size is not None or device is not None:
            raise ValueError(
                f"from_dataclass: dest_cls, batch_size, auto_batch_size, batch_dims and device are about an instance; "
                f"{obj.__name__} is a class"
            )
        return _class_of(obj, options)
    if not is_dataclass_instance(obj):
        raise TypeError(_expected(obj, "a dataclass or an instance of one"))
    if dest_cls is None:
        dest_cls = _class_of(obj.__class__, options)
    elif any(options.values()):
        raise ValueError(
            f"from_dataclass: {dest_cls.__name__} has its options already; they are given without dest_cls"
        )
    elif not issubclass(dest_cls, TensorClass):
        raise TypeError(f"from_dataclass: dest_cls must be a class of records, got {dest_cls!r}")
    return from_entries(dest_cls, obj, asked)


# ---------------------------------------------------------------------------------------------------------------------
# the class

_made: weakref.WeakKeyDictionary[type[Any], dict[tuple[str, ...], type[TensorClass]]] = weakref.WeakKeyDictionary()
#: the other way: a record class -> its dataclass, and the names of its options
_sources: weakref.WeakKeyDictionary[RecordMeta, tuple[type[Any], tuple[str, ...]]] = weakref.WeakKeyDictionary()

#: what ``dataclasses`` wrote into a class, where a record has its own
_GENERATED = (
    "__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__setattr__", "__delattr__",
    "__replace__", "__getstate__", "__setstate__",
)  # fmt: skip

#: what holds a function of a class
_WRAPPERS: Any = (classmethod, staticmethod)


def _class_of(cls: type[Any], options: dict[str, bool], around: tuple[type[Any], ...] = ()) -> type[Any]:
    if issubclass(cls, TensorClass):
        return cls
    if cls.__dataclass_params__.frozen:
        options = {**options, "frozen": True}
    known = _made.setdefault(cls, {})
    wanted = tuple(name for name in OPTIONS if options.get(name))
    if wanted not in known:
        known[wanted] = _make(cls, options, (*around, cls))
        _sources[known[wanted]] = cls, wanted
    return known[wanted]


def _class_of_pickled(cls: type[Any], wanted: tuple[str, ...]) -> type[Any]:
    """What unpickling calls."""
    return _class_of(cls, dict.fromkeys(wanted, True))


def _pickled(cls: RecordMeta) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """How a record class is pickled: by its name, as every class, or as that of a dataclass that has a name."""
    if cls not in _sources or _at_name(cls) is cls:
        return cls.__qualname__
    source, wanted = _sources[cls]
    found = _at_name(source)
    if found is cls:  # the class took the place of the dataclass
        return source.__qualname__
    if found is not source:
        raise pickle.PicklingError(
            f"cannot pickle a {cls.__name__}: it is pickled as the record class of {source.__qualname__}, and "
            f"{source.__module__}.{source.__qualname__} is not that dataclass; define the dataclass in a module, or "
            f"pickle record.to_tensordict()"
        )
    return _class_of_pickled, (source, wanted)


def _at_name(cls: type) -> Any:
    """What stands where a class says that it is defined."""
    try:
        return operator.attrgetter(cls.__qualname__)(sys.modules[cls.__module__])
    except (KeyError, AttributeError):
        return None


copyreg.pickle(RecordMeta, _pickled)


def _make(cls: type[Any], options: dict[str, bool], around: tuple[type[Any], ...]) -> type[TensorClass]:
    hints = _hints(cls)
    base = _as_base(cls)
    space: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__annotations__": {}}
    for name in _GENERATED:  # in front of what the dataclass has
        written = next((vars(owner)[name] for owner in cls.__mro__ if name in vars(owner)), None)
        if name != "__init__" and _is_generated(cls, name, written) and hasattr(TensorClass, name):
            space[name] = getattr(TensorClass, name)
    for f in dataclasses.fields(cls):
        annotation = _with_records(hints.get(f.name), options, around)
        if annotation is not None:
            space["__annotations__"][f.name] = annotation
            space[f.name] = _again(f)
    given = {name: True for name, on in options.items() if on}
    return types.new_class(f"{cls.__name__}_tc", (base, TensorClass), given, lambda namespace: namespace.update(space))


def _as_base(cls: type[Any]) -> type[Any]:
    """A dataclass from which a record can derive: itself, or a copy of one that is frozen or has slots."""
    if not any(_cannot_be_base(base) for base in cls.__mro__):
        return cls
    fields = {f.name: f for f in dataclasses.fields(cls)}
    own = annotations_of(cls)
    dropped = {
        "__dict__", "__weakref__", "__slots__", "__dataclass_fields__", "__dataclass_params__", "__match_args__",
        "__annotate__", "__annotate_func__", "__annotations_cache__",
    }  # fmt: skip
    dropped |= {name for name in _GENERATED if _is_generated(cls, name, vars(cls).get(name))}
    space = {
        name: member
        for name, member in vars(cls).items()
        if name not in dropped and not isinstance(member, types.MemberDescriptorType)
    }
    space.update((name, _again(fields[name])) for name in own if name in fields)
    space["__annotations__"] = own
    bases = tuple(_as_base(base) for base in cls.__bases__)
    cell = types.CellType()
    copied = {name: _in_cell(member, cell) for name, member in space.items()}
    copy = types.new_class(cls.__name__, bases, {}, lambda namespace: namespace.update(copied))
    cell.cell_contents = copy
    if _is_dataclass(cls):
        dataclasses.dataclass(init=False, repr=False, eq=False)(copy)
    return copy


def _is_dataclass(cls: type) -> bool:
    """``dataclasses.is_dataclass``, which would make a type checker forget that it is a class."""
    return dataclasses.is_dataclass(cls)


def _cannot_be_base(cls: type[Any]) -> bool:
    params = vars(cls).get("__dataclass_params__")
    return bool(vars(cls).get("__slots__")) or (params is not None and params.frozen)


def _in_cell(member: Any, cell: types.CellType) -> Any:
    """A member of a class for a copy of it: ``super()`` and ``__class__`` in it mean what the cell will hold."""
    if isinstance(member, types.FunctionType):
        if "__class__" not in member.__code__.co_freevars:
            return member
        cells = dict(zip(member.__code__.co_freevars, member.__closure__ or (), strict=True))
        closure = tuple((cells | {"__class__": cell}).values())
        new = types.FunctionType(member.__code__, member.__globals__, member.__name__, member.__defaults__, closure)
        new.__kwdefaults__ = member.__kwdefaults__
        return functools.update_wrapper(new, member, updated=("__dict__",))
    if isinstance(member, _WRAPPERS):
        return member.__class__(_in_cell(member.__func__, cell))
    if isinstance(member, property):
        parts = [_in_cell(part, cell) for part in (member.fget, member.fset, member.fdel)]
        return property(parts[0], parts[1], parts[2], member.__doc__)
    return member


def _is_generated(cls: type[Any], name: str, written: Any) -> bool:
    """Whether a special method was made by ``dataclasses``, or is that of ``object``: no user wrote it."""
    if written is None or written is getattr(object, name, None):
        return True
    code = getattr(getattr(written, "__wrapped__", written), "__code__", None)
    return code is not None and (code.co_filename == "<string>" or code.co_filename == dataclasses.__file__)


def _hints(cls: type[Any]) -> dict[str, Any]:
    try:
        # make_dataclass writes "typing.Any" where it is given no type
        return typing.get_type_hints(cls, localns={"typing": typing, cls.__name__: cls}, include_extras=True)
    except (NameError, TypeError, AttributeError):  # an annotation that cannot be evaluated here
        return {f.name: f.type for f in dataclasses.fields(cls)}


def _with_records(hint: Any, options: dict[str, bool], around: tuple[type[Any], ...]) -> Any:
    """An annotation with record classes for dataclasses; ``None`` where there are none in it."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and not issubclass(hint, TensorClass):
        if hint is around[-1]:
            return Self  # pyright: ignore[reportUnknownVariableType]  # to be an annotation of the class
        return None if hint in around else _class_of(hint, options, around)
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return None
    parts = typing.get_args(hint)
    changed = [_with_records(part, options, around) for part in parts]
    if all(part is None for part in changed):
        return None
    return typing.Union[tuple(new or old for new, old in zip(changed, parts, strict=True))]  # noqa: UP007


def _again(f: dataclasses.Field[Any]) -> Any:
    """The field of another class, to be declared again."""
    options: dict[str, Any] = {
        name: getattr(f, name) for name in ("default", "default_factory", "init", "repr", "metadata", "kw_only")
    }
    return dataclasses.field(**options)


def _dataclass_in(hint: Any) -> type[Any] | None:
    """The dataclass that an annotation names, alone or in a union."""
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return next((part for part in parts if isinstance(part, type) and dataclasses.is_dataclass(part)), None)


def _expected(obj: object, what: str, more: str = "") -> str:
    got = f"the class {obj.__name__}" if isinstance(obj, type) else f"a {type(obj).__name__}"
    return f"from_dataclass: expected {what}, got {got}{more}"


record_class.__name__ = record_class.__qualname__ = "from_dataclass"  # as the package exports it
