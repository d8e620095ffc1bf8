"""Record classes of dataclasses, classes of attrs and models of pydantic.

A record class declares the fields that ``kinds.py`` reads. It derives from the class itself, or from a copy of its
methods if a record cannot derive from it, and from the record classes of the bases.
"""

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
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from typing_extensions import Self

from tensorclass.records.record import OPTIONS, RecordMeta, TensorClass
from tensorclass.support.printable import class_name

from .class_adapters import ClassAdapter, ClassField, adapter_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorclass.td.collection import DeviceLike

    R = TypeVar("R", bound=TensorClass)

    class AnyMembers(RecordMeta):
        """Metaclass of record classes made at run time, whose members no checker knows."""

        def __getattr__(cls, name: str) -> Any: ...

    class AnyRecord(TensorClass, metaclass=AnyMembers):
        """The type of records whose class is made at run time, for checkers: operations, not fields."""

        def __init__(
            self,
            *args: Any,
            batch_size: Sequence[int] | int | None = ...,
            device: DeviceLike | None = ...,
            names: Sequence[str | None] | None = ...,
            **kwargs: Any,
        ) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    class RecordFunction(Protocol):
        """A function that makes record classes of classes, and records of instances."""

        # keywords are written out: ty reports no wrong ones where they are a TypedDict

        @overload
        def __call__(self, obj: type[R]) -> type[R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        @overload
        def __call__(  # type: ignore[overload-overlap]
            self,
            obj: type[Any],
            *,
            frozen: bool = ...,
            autocast: bool = ...,
            nocast: bool = ...,
            shadow: bool = ...,
            tensor_only: bool = ...,
        ) -> type[AnyRecord]: ...
        @overload
        def __call__(
            self,
            obj: object,
            *,
            dest_cls: type[R],
            auto_batch_size: bool = ...,
            batch_dims: int | None = ...,
            batch_size: Sequence[int] | int | None = ...,
            device: DeviceLike | None = ...,
            strict: bool = ...,
        ) -> R: ...
        @overload
        def __call__(
            self,
            obj: object,
            *,
            auto_batch_size: bool = ...,
            batch_dims: int | None = ...,
            batch_size: Sequence[int] | int | None = ...,
            frozen: bool = ...,
            autocast: bool = ...,
            nocast: bool = ...,
            shadow: bool = ...,
            tensor_only: bool = ...,
            device: DeviceLike | None = ...,
            strict: bool = ...,
        ) -> AnyRecord: ...


#: class with fields -> its record classes, by the names of their options
_record_classes: weakref.WeakKeyDictionary[type[Any], dict[tuple[str, ...], type[TensorClass]]] = (
    weakref.WeakKeyDictionary()
)
#: record class -> its source class, and the names of its options
_source_classes: weakref.WeakKeyDictionary[RecordMeta, tuple[type[Any], tuple[str, ...]]] = weakref.WeakKeyDictionary()
#: class -> copy of its methods, for classes that a record cannot derive from
_copies: weakref.WeakKeyDictionary[type[Any], type[Any]] = weakref.WeakKeyDictionary()

#: special methods that the libraries write, where a record has its own
_GENERATED = (
    "__init__", "__repr__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__setattr__",
    "__delattr__", "__replace__", "__getstate__", "__setstate__",
)  # fmt: skip
#: members that are not copied
_OWN = frozenset({
    "__dict__", "__weakref__", "__slots__", "__match_args__", "__annotations__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__abstractmethods__", "_is_protocol", "_is_runtime_protocol", "__protocol_attrs__",
    "__non_callable_proto_members__", "_abc_impl",
})  # fmt: skip
#: wrappers of a function
_WRAPPERS: Any = (classmethod, staticmethod)


def record_class_of(cls: type[Any], options: Mapping[str, bool]) -> type[TensorClass]:
    """Return the record class of a class with fields: one for each set of options."""
    making = _RecordClassBuilder(options)
    made = making.of(cls)
    making.finish()
    return made


def source_class_of(cls: type[Any]) -> type[Any] | None:
    """Return the class that a record class was made of; ``None`` for others."""
    dense: Any = getattr(cls, "_dense", cls)  # the record class on the plain store
    return _source_classes[dense][0] if isinstance(dense, RecordMeta) and dense in _source_classes else None


def matching_record_class(target: object, obj: object) -> type[TensorClass] | None:
    """Return the record class of an object, if the target is that class or one of its bases; ``None`` otherwise.

    Such a record takes over the instance as it is: ``__post_init__`` ran already.
    """
    if not isinstance(target, RecordMeta) or target not in _source_classes:
        return None
    source, wanted = _source_classes[target]
    if type(obj) is source:
        return target  # type: ignore[return-value]
    if not isinstance(obj, source):
        return None
    own = record_class_of(type(obj), dict.fromkeys(wanted, True))
    return own if issubclass(own, target) else None


class _RecordClassBuilder:
    """Makes record classes together, because their fields refer to each other."""

    def __init__(self, options: Mapping[str, bool]) -> None:
        self.wanted = tuple(name for name in OPTIONS if options.get(name))
        #: classes whose record class is being made
        self.in_progress: list[type[Any]] = []
        #: classes to make after their bases
        self.deferred: list[type[Any]] = []
        #: fields that name a class being made, resolved at the end
        self.forward_fields: list[tuple[type[TensorClass], str]] = []
        #: finished classes, published together
        self.made: dict[type[Any], tuple[tuple[str, ...], type[TensorClass]]] = {}

    def of(self, cls: type[Any]) -> type[TensorClass]:
        if issubclass(cls, TensorClass):
            return cls
        if cls in self.made:
            return self.made[cls][1]
        kind = adapter_of(cls)
        if kind is None:
            raise TypeError(f"expected a class of fields, got {cls!r}")
        wanted = tuple(name for name in OPTIONS if name in self.wanted or (name == "frozen" and kind.is_frozen(cls)))
        known = _record_classes.get(cls, {})
        if wanted in known:
            return known[wanted]
        self.in_progress.append(cls)
        made = self.make(cls, kind, wanted)
        self.in_progress.remove(cls)
        self.made[cls] = wanted, made
        return made

    def make(self, cls: type[Any], kind: ClassAdapter, wanted: tuple[str, ...]) -> type[TensorClass]:
        space: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__annotations__": {}}
        for name in _GENERATED:  # hides what the library has written
            written = next((vars(owner)[name] for owner in cls.__mro__ if name in vars(owner)), None)
            if name != "__init__" and _is_generated(kind, name, written) and hasattr(TensorClass, name):
                space[name] = getattr(TensorClass, name)
        forward_fields: list[str] = []
        for member in (*kind.fields(cls).values(), *kind.arguments(cls).values()):
            hint, waits = self.hint(member.hint, cls)
            forward_fields += [member.name] if waits else []
            space["__annotations__"][member.name] = hint
            space[member.name] = _redeclare(member)
        bases = (_as_base(cls), *self.bases(cls, kind, wanted))
        given = dict.fromkeys(wanted, True)
        made = types.new_class(f"{cls.__name__}_tc", bases, given, lambda namespace: namespace.update(space))
        self.forward_fields += [(made, name) for name in forward_fields]
        return made

    def bases(self, cls: type[Any], kind: ClassAdapter, wanted: tuple[str, ...]) -> tuple[type[Any], ...]:
        """Return the record classes of the bases, without frozen ones below a class that is not frozen."""
        found: list[type[Any]] = []
        for base in cls.__bases__:
            own = adapter_of(base)
            if (
                own is kind
                and not _is_library(base)
                and kind.fields(base)
                and ("frozen" in wanted or not kind.is_frozen(base))
            ):
                found.append(self.of(base))
        return tuple(found) or (TensorClass,)

    def hint(self, hint: Any, cls: type[Any]) -> tuple[Any, bool]:
        """Replace classes with fields by record classes in an annotation. Also return whether one is not made yet."""
        origin: Any = typing.get_origin(hint)
        parts: tuple[Any, ...] = typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            changed = [self.hint(part, cls) for part in parts]
            return typing.Union[tuple([part for part, _ in changed])], any(waits for _, waits in changed)  # noqa: UP007
        if origin is typing.Annotated:
            inner, waits = self.hint(parts[0], cls)
            annotated: Any = typing.Annotated
            parts = (inner, *parts[1:])
            return annotated[parts], waits
        one: Any = origin if isinstance(origin, type) else hint  # Box, for Box[int]
        if not isinstance(one, type) or adapter_of(one) is None:
            return hint, False
        if one is cls:
            return Self, False  # pyright: ignore[reportUnknownVariableType]  # to be an annotation of the class
        if any(issubclass(one, cls) for cls in self.in_progress):
            self.deferred.append(one)
            return typing.ForwardRef(f"{one.__name__}_tc"), True
        return self.of(one), False

    def finish(self) -> None:
        """Resolve references between the new classes, and publish them."""
        for cls in self.deferred:
            self.of(cls)
        names = {made.__name__: made for _, made in self.made.values()}
        for owner, name in self.forward_fields:
            owner._specs[name]._resolve({**names, owner.__name__: owner})
        for cls, (wanted, made) in self.made.items():
            _record_classes.setdefault(cls, {})[wanted] = made
            _source_classes[made] = cls, wanted


# ---------------------------------------------------------------------------------------------------------------------
# pickling


def _class_of_pickled(cls: type[Any], wanted: tuple[str, ...]) -> type[Any]:
    """Return a record class; pickles call this."""
    return record_class_of(cls, dict.fromkeys(wanted, True))


def _reduce_class(cls: RecordMeta) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """Reduce a record class: by its name, or as the record class of a class that has a name."""
    if cls not in _source_classes or _object_at_name(cls) is cls:
        return cls.__qualname__
    source, wanted = _source_classes[cls]
    found = _object_at_name(source)
    if found is cls:  # the record class replaced the source class
        return source.__qualname__
    if found is not source:
        raise pickle.PicklingError(
            f"cannot pickle a {class_name(cls)}: it is pickled as the record class of {source.__qualname__}, and "
            f"{source.__module__}.{source.__qualname__} is not that class; define it in a module, or pickle "
            f"record.to_tensordict()"
        )
    return _class_of_pickled, (source, wanted)


def _object_at_name(cls: type) -> Any:
    """Return the object at the qualified name of a class."""
    try:
        return operator.attrgetter(cls.__qualname__)(sys.modules[cls.__module__])
    except (KeyError, AttributeError):
        return None


copyreg.pickle(RecordMeta, _reduce_class)

# ---------------------------------------------------------------------------------------------------------------------
# base classes of record classes


def _as_base(cls: type[Any]) -> type[Any]:
    """Return a class that a record can derive from: the class itself, or a copy of its methods."""
    if all(_can_be_base(base) for base in cls.__mro__):
        return cls
    if cls not in _copies:
        _copies[cls] = _copy(cls)
    return _copies[cls]


def _can_be_base(cls: type[Any]) -> bool:
    kind = adapter_of(cls)
    if not issubclass(RecordMeta, type(cls)) or _is_library(cls):
        return False
    return kind.can_be_base(cls) if kind is not None else not vars(cls).get("__slots__")


def _is_library(cls: type[Any]) -> bool:
    """Return whether a class is defined by pydantic, whose methods are about models."""
    return cls.__module__.partition(".")[0] == "pydantic"


def _copy(cls: type[Any]) -> type[Any]:
    kind = adapter_of(cls)
    members = dict(vars(cls)) if kind is None else kind.members(cls)
    fields = {} if kind is None else {**kind.fields(cls), **kind.arguments(cls)}
    cell = types.CellType()
    space = {
        name: _rebind_class_cell(member, cell)
        for name, member in members.items()
        if name not in _OWN and name not in fields and not isinstance(member, types.MemberDescriptorType)
        and not (kind is not None and name in _GENERATED and _is_generated(kind, name, member))
    }  # fmt: skip
    bases = tuple(_as_base(base) for base in cls.__bases__ if not _is_library(base) and base is not typing.Protocol)
    copy = types.new_class(cls.__name__, bases, {}, lambda namespace: namespace.update(space))
    cell.cell_contents = copy
    return copy


def _rebind_class_cell(member: Any, cell: types.CellType) -> Any:
    """Copy a member of a class so that ``super()`` and ``__class__`` refer to the content of a cell."""
    if isinstance(member, types.FunctionType):
        if "__class__" not in member.__code__.co_freevars:
            return member
        cells = dict(zip(member.__code__.co_freevars, member.__closure__ or (), strict=True))
        closure = tuple((cells | {"__class__": cell}).values())
        new = types.FunctionType(member.__code__, member.__globals__, member.__name__, member.__defaults__, closure)
        new.__kwdefaults__ = member.__kwdefaults__
        return functools.update_wrapper(new, member, updated=("__dict__",))
    if isinstance(member, _WRAPPERS):
        return member.__class__(_rebind_class_cell(member.__func__, cell))
    if isinstance(member, property):
        parts = [_rebind_class_cell(part, cell) for part in (member.fget, member.fset, member.fdel)]
        return property(parts[0], parts[1], parts[2], member.__doc__)
    return member


def _is_generated(kind: ClassAdapter, name: str, written: Any) -> bool:
    """Return whether no user wrote a special method: the library did, or it is ``object``'s."""
    if written is None or written is getattr(object, name, None):
        return True
    code = getattr(getattr(written, "__wrapped__", written), "__code__", None)
    return isinstance(code, types.CodeType) and kind.is_generated(code)


def _redeclare(member: ClassField) -> Any:
    """Declare a field of another class again."""
    options: dict[str, Any] = {
        "default": member.default,
        "init": member.argument is not None,
        "repr": member.repr,
        "metadata": member.metadata,
        "kw_only": member.kw_only,
    }
    if member.factory is not None:
        options["default_factory"] = member.factory
        del options["default"]
    elif member.default is not dataclasses.MISSING and type(member.default).__hash__ is None:
        # attrs shares one default among all instances
        options["default_factory"] = functools.partial(_same, member.default)
        del options["default"]
    return dataclasses.field(**options)


def _same(value: Any) -> Any:
    return value
