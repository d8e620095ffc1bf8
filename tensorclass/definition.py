"""How a class becomes a record: its annotations become fields and properties, and ``__init__`` is generated."""

from __future__ import annotations

import abc
import dataclasses
import inspect
import keyword
import linecache
import re
import sys
import typing
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import torch
from torch import Size, Tensor
from torch.compiler import is_compiling, is_dynamo_compiling

from .contracts.checking import Checks, entered, inferred_size, telling
from .contracts.contract import described_array
from .contracts.generated import Writer, writer_of
from .fields import FieldSpec, Kind, evaluated
from .record import KEYWORDS, METADATA, OPTIONS, RecordMeta, TensorClass
from .td import pytree, shapes
from .td.base import TensorCollection
from .td.collection import DeviceLike, as_device
from .td.namesakes import Place
from .td.nontensor import NonTensorData
from .td.unpickling import allow_class
from .td.values import batch_mismatch, explained

#: the names that fields can have only where they may hide members (shadow=True)
_RESERVED = frozenset(name for name in dir(TensorClass) if not name.startswith("__")) | set(METADATA)
#: what stands in the slot ``_context`` while ``__post_init__`` runs, which can set the fields of a frozen record
_IN_POST_INIT: Any = ((), None)


class _Factory:
    """Stands in signatures for a default that is made for each record."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()

# ---------------------------------------------------------------------------------------------------------------------
# what is different in a frozen class


class _Frozen:
    """Members that :func:`define` puts into every frozen class, so that other classes do not pay for them."""

    def _check_unlocked(self: Any) -> None:
        if getattr(self, "_context", None) is not _IN_POST_INIT:
            raise dataclasses.FrozenInstanceError(
                f"{type(self).__name__} is frozen: its fields and its batch size cannot be set, replaced or removed; "
                f"make a changed one with dataclasses.replace or .replace(...)"
            )

    def _set_nested(self: Any, path: Any, item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if not inplace:
            self._check_unlocked()
        TensorCollection._set_nested(self, path, item, inplace, non_blocking)

    def _merge(self: Any, source: Any, wanted: Any, clone: bool, inplace: bool, *args: Any) -> None:
        if not inplace:
            self._check_unlocked()
        TensorCollection._merge(self, source, wanted, clone, inplace, *args)

    def unlock_(self: Any) -> Any:
        """Raises an error: the class is frozen."""
        self._check_unlocked()

    @property
    def batch_size(self: Any) -> Size:
        """The shape that every value has in front. The class is frozen: it cannot be set."""
        size: Size = self._batch_size
        return size

    @batch_size.setter
    def batch_size(self: Any, batch_size: Any) -> None:
        self._check_unlocked()
        self._set_batch_size(batch_size)

    @property
    def shape(self: Any) -> Size:
        """The batch size: what a collection has where a tensor has a shape."""
        size: Size = self._batch_size
        return size

    @shape.setter
    def shape(self: Any, batch_size: Any) -> None:
        self._check_unlocked()
        self._set_batch_size(batch_size)

    @property
    def is_locked(self: Any) -> bool:
        """Always: the class is frozen."""
        return True

    @is_locked.setter
    def is_locked(self: Any, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self._check_unlocked()


_FROZEN_MEMBERS = {name: member for name, member in vars(_Frozen).items() if not name.startswith("__")}


class _Filtering:
    """Members of a class with a ``cast_filter``."""

    def type(self: Any, dst_type: torch.dtype, *, cast_filter: Any = None) -> Any:
        """The values in another dtype, but for those that ``cast_filter``, or the one of the class, keeps."""
        return TensorCollection.type(self, dst_type, cast_filter=cast_filter or self._cast_filter)

    def _moved(self: Any, device: Any, dtype: torch.dtype | None, *args: Any) -> Any:
        cast = self if dtype is None else self._filtered_cast(dtype, self._cast_filter, ())
        return TensorCollection._moved(cast, device, None, *args)


_FILTERING_MEMBERS = {name: member for name, member in vars(_Filtering).items() if not name.startswith("__")}


# ---------------------------------------------------------------------------------------------------------------------
# defining a class


def define(cls: Any, given: Mapping[str, Any]) -> None:
    """Turns the annotations of a new class into fields, properties and ``__init__``."""
    options, kw_only = _combined_options(cls, given)
    cls._options = options
    cls._defined_at = Place.of(_frame_of_the_class())
    own = _members(cls)
    annotations = annotations_of(cls)
    _refuse_names(cls, [name for name, annotation in annotations.items() if not _is_class_variable(annotation)])
    _refuse_hidden(cls, annotations)
    _restore_defaults(cls, annotations)
    if cls.__doc__ is None:
        cls.__doc__ = f"A record with the fields {', '.join(annotations) or 'of its bases'}."
    _make_dataclass(cls, annotations, kw_only)
    fields = [f for f in cls.__dataclass_fields__.values() if f._field_type is dataclasses._FIELD]  # type: ignore[attr-defined]
    _refuse_reserved(cls, fields, annotations)
    scope = _scope(cls, annotations)
    specs: dict[str, FieldSpec] = {}
    for f in fields:
        if f.name in annotations:
            spec = FieldSpec(cls.__name__, f, cls.__module__, scope, options)
            setattr(cls, f.name, _property(spec, options["frozen"]))
        else:
            spec = _inherited(cls, f).under(options)
            if not _has_property(cls, spec):
                setattr(cls, f.name, _property(spec, options["frozen"]))
        specs[f.name] = spec
    is_new = "_specs" not in own
    cls._specs = specs
    cls._telling = telling(specs)
    cls._checks = _checks(cls, specs)
    if not _has_own_init(cls):
        cls.__init__ = _generate_init(cls, specs)
        _describe_init(cls, annotations, scope)
    generated = getattr(cls.__init__, "__generated__", False)
    cls._takes_fields = generated and all(spec.init and name not in METADATA for name, spec in specs.items())
    if given.get("cast_filter") is not None:
        cls._cast_filter = staticmethod(given["cast_filter"])
        for name, member in _FILTERING_MEMBERS.items():
            setattr(cls, name, member)
    if options["frozen"]:
        for name, member in _FROZEN_MEMBERS.items():
            if name not in specs:
                setattr(cls, name, member)
    if cls.__abstractmethods__:
        abc.update_abstractmethods(cls)  # a field makes an abstract property of a base concrete
    if cls.__dictoffset__ and cls.__setattr__ in (object.__setattr__, _strict_setattr):
        cls.__setattr__ = _strict_setattr
        cls._assignable = _assignable(cls)
    if is_new and pytree.register(cls):
        allow_class(cls)


def _checks(cls: Any, specs: Mapping[str, FieldSpec]) -> Checks | None:
    """What looks at the contracts of a class; ``None`` where it has none, or does not want that."""
    # an annotation that names what is not defined yet may have a contract
    may_have = any(spec.contract is not None or spec.kind is None for spec in specs.values())
    return Checks(cls.__qualname__, specs) if may_have and cls._options["validate"] else None


def _assignable(cls: type) -> frozenset[str]:
    """The attributes for which the class has a place: slots and properties."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members.update(vars(base))
    kinds: dict[str, type] = {name: type(member) for name, member in members.items()}
    return frozenset(name for name, kind in kinds.items() if hasattr(kind, "__set__"))


def _members(cls: type) -> Mapping[str, Any]:
    """What stands in the body of a class."""
    return vars(cls)


def redefine(cls: Any, given: Mapping[str, Any]) -> None:
    """Gives a class that is defined already more options, as a decorator over a class derived from a record does."""
    _check_options(cls, given)
    own = _members(cls)
    for name in annotations_of(cls):
        f = cls.__dataclass_fields__.get(name)
        if f is not None and f._field_type is dataclasses._FIELD:  # type: ignore[attr-defined]
            as_written: dict[str, Any] = {
                key: getattr(f, key)
                for key in ("default", "default_factory", "init", "repr", "hash", "compare", "metadata")
            }
            if f.kw_only:
                as_written["kw_only"] = True
            setattr(cls, name, dataclasses.field(**as_written))
    positional = tuple([f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only])
    if own.get("__match_args__") == positional:
        del cls.__match_args__
    if getattr(own.get("__init__"), "__generated__", False):
        del cls.__init__
    define(cls, {**_changed(cls._options), **given})


def _check_options(cls: Any, given: Mapping[str, Any]) -> None:
    if unknown := [name for name in given if name not in KEYWORDS]:
        raise TypeError(f"{cls.__name__}: unknown options {unknown}; there are {list(KEYWORDS)}")
    for name, value in given.items():
        if name == "cast_filter":
            if value is not None and not callable(value):
                raise TypeError(f"{cls.__name__}: cast_filter is called with key and tensor, got {value!r}")
        elif not isinstance(value, bool):
            raise TypeError(f"{cls.__name__}: the option {name} is True or False, got {value!r}")
    if not given.get("skip_post_init_on_rebuild", True):
        raise TypeError(
            f"{cls.__name__}: skip_post_init_on_rebuild=False: __post_init__ is for what the constructor is given, the "
            "results of operations do not run it; write a method for what shall be done to them"
        )


def _combined_options(cls: Any, given: Mapping[str, Any]) -> tuple[dict[str, bool], bool]:
    """The options that hold for a class and its subclasses, and ``kw_only``, which is about the fields of one class."""
    _check_options(cls, given)
    options = {**OPTIONS}
    for base in reversed(cls.__mro__[1:]):
        inherited: Mapping[str, bool] = base.__dict__.get("_options", {})
        options.update(_changed(inherited))
    if options["frozen"] and not given.get("frozen", True):
        raise TypeError(f"{cls.__name__}: frozen=False, but a class that it derives from is frozen")
    kw_only = given.get("kw_only", any(base.__dict__.get("_options", OPTIONS)["kw_only"] for base in cls.__bases__))
    options.update({name: on for name, on in given.items() if name in OPTIONS})
    options["kw_only"] = False
    if options["autocast"] and options["nocast"]:
        raise ValueError(f"{cls.__name__}: the options autocast and nocast exclude each other")
    return options, kw_only


def _changed(options: Mapping[str, bool]) -> dict[str, bool]:
    """The options that are other than their defaults."""
    return {name: on for name, on in options.items() if on is not OPTIONS[name]}


def annotations_of(cls: Any) -> dict[str, Any]:
    """The annotations of this class alone, without evaluating those that are text."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return inspect.get_annotations(cls)


def _refuse_hidden(cls: Any, annotations: Mapping[str, Any]) -> None:
    """A class attribute of the name of an inherited field would hide the field."""
    own = _members(cls)
    for base in cls.__bases__:
        for name in getattr(base, "_specs", ()):
            if name in own and name not in annotations and "_specs" not in own:
                raise TypeError(
                    f"{cls.__name__}.{name} would hide the field {name!r} of {base.__name__}; to change its default, "
                    f"declare it again with its type: {name}: ... = {own[name]!r}"
                )


def _restore_defaults(cls: Any, annotations: Mapping[str, Any]) -> None:
    """Keeps ``dataclasses`` from taking what a base class has under a field's name for a default."""
    own = cls.__dict__
    for name in annotations:
        if name in own:
            continue
        bases = cls.__mro__[1:]
        inherited = next((b.__dataclass_fields__[name] for b in bases if name in getattr(b, "_specs", ())), None)
        if inherited is not None:
            kwargs: dict[str, Any] = {"default": inherited.default}
            if inherited.default_factory is not dataclasses.MISSING:
                kwargs = {"default_factory": inherited.default_factory}
            setattr(cls, name, dataclasses.field(**kwargs))
            continue
        base = next((base for base in bases if name in base.__dict__), None)
        # an attribute of a plain base is a default, as in dataclasses; a method or property is none
        if base is not None and (name in _RESERVED or hasattr(base.__dict__[name], "__get__")):
            setattr(cls, name, dataclasses.field())


def _make_dataclass(cls: Any, annotations: Mapping[str, Any], kw_only: bool) -> None:
    has_match_args = "__match_args__" in vars(cls)
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    if any(name in annotations for name in METADATA):
        # a field of that name (with shadow=True) comes where it is declared, not where the argument stands in the bases
        fields = cls.__dataclass_fields__
        inherited = {name for base in cls.__bases__ for name in getattr(base, "_specs", ())}
        new = [name for name in annotations if name in fields and name not in inherited]
        order = [name for name in fields if name not in new] + new
        cls.__dataclass_fields__ = {name: fields[name] for name in order}
        if not has_match_args:
            positional = [f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only]
            type.__setattr__(cls, "__match_args__", tuple(positional))


def _refuse_reserved(cls: Any, fields: Sequence[dataclasses.Field[Any]], annotations: Mapping[str, Any]) -> None:
    names = [f.name for f in fields]
    for name in annotations:  # what is given to __post_init__ has a name too
        f = cls.__dataclass_fields__.get(name)
        if f is not None and f._field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            if name in METADATA:
                raise AttributeError(
                    f"{cls.__name__}: {name} is an argument of every record's constructor; rename yours"
                )
            names.append(name)
    _refuse_names(cls, names)
    taken = _RESERVED.intersection(names)
    own = sorted(name for name in taken if name.startswith("_"))
    if own and cls._options["shadow"]:
        raise AttributeError(
            f"{cls.__name__}: records keep what they hold under the names {own}, which cannot be hidden; rename them"
        )
    if taken and not cls._options["shadow"]:
        raise AttributeError(
            f"{cls.__name__}: records have members of their own with the names {sorted(taken)}, which operations need; "
            "rename the fields, or hide the members with the option shadow=True: "
            f"class {cls.__name__}(..., shadow=True)"
        )
    if "batch_size" in taken:
        raise AttributeError(
            f"{cls.__name__}: no field can be called batch_size: the constructor takes it; rename the field"
        )


def _refuse_names(cls: Any, names: Iterable[str]) -> None:
    for name in names:
        if why := unusable(name):
            raise AttributeError(f"{cls.__name__}: no field can be called {name!r}: {why}; rename the field")


def _is_class_variable(annotation: Any) -> bool:
    """Return whether an annotation, which may be text, is a ``ClassVar``, as ``dataclasses`` sees it."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(text, str):
        return re.match(r"\s*(?:\w+\s*\.\s*)*ClassVar\b", text) is not None
    return annotation is typing.ClassVar or typing.get_origin(annotation) is typing.ClassVar


def unusable(name: str) -> str:
    """Why there can be no attribute of this name that ``__init__`` takes; empty where there can."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "it is no name that Python takes for an argument"
    if unicodedata.normalize("NFKC", name) != name:
        return f"Python reads it as {unicodedata.normalize('NFKC', name)!r}"
    if name.startswith("__"):
        return "names that begin with two underscores are those of Python, and of generated code"
    return ""


def _scope(cls: Any, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The names that annotations which are text can use beside those of the module: those of the function around the
    class statement, and of the class itself.
    """
    frame = _frame_of_the_class()
    while frame is not None and not frame.f_code.co_flags & _OPTIMIZED and frame.f_code.co_name != "<module>":
        frame = frame.f_back  # the body of a class around this one: its names are not seen from within
    module = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    own = _members(cls)
    scope = {
        name: value
        for name, value in own.items()
        if name not in annotations and name not in module and not name.startswith("__")
    }
    if frame is not None and frame.f_globals is not module:  # code that was run with names of its own
        scope.update(frame.f_globals)
    if frame is not None and frame.f_locals is not frame.f_globals:
        scope.update(frame.f_locals)
    scope[cls.__name__] = cls
    return scope


def _frame_of_the_class() -> Any:
    """The frame in which the class is written that is being defined."""
    frame: Any = sys._getframe(2)
    while frame is not None and _is_defining(frame.f_globals):
        frame = frame.f_back
    return frame


def _is_defining(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a module between the place where a class is written and ``_scope``."""
    module = names.get("__name__")
    return module in _DEFINING and names is vars(sys.modules[module])


#: the modules between the place where a class is written and _scope
_DEFINING = (*[f"{__package__}.{name}" for name in ("definition", "record", "decorator")], "types")
_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: the code of a function


def _inherited(cls: Any, f: dataclasses.Field[Any]) -> FieldSpec:
    """The spec of a field that a base declared."""
    base = next(base for base in cls.__mro__[1:] if base.__dict__.get("__dataclass_fields__", {}).get(f.name) is f)
    spec: FieldSpec | None = base.__dict__.get("_specs", {}).get(f.name)
    if spec is None:  # of a plain dataclass; make_dataclass writes "typing.Any" where it is given no type
        spec = FieldSpec(base.__name__, f, base.__module__, {"typing": typing}, cls._options)
    return spec


def _has_property(cls: Any, spec: FieldSpec) -> bool:
    """Whether what the class has under a field's name is the property made from this spec."""
    for base in cls.__mro__:
        if spec.name in base.__dict__:
            return base.__dict__.get("_specs", {}).get(spec.name) is spec
    return False


def _property(spec: FieldSpec, frozen: bool) -> property:
    """The property of a field. What the field holds is known here, so that reading it asks nothing."""
    # (A __getattr__ could word the errors for unknown attributes, but its mere presence slows every attribute down.)
    name = spec.name
    removed = f"{spec.owner}.{name} is not set: it was removed, or not selected"
    tensor = spec.kind in (Kind.TENSOR, Kind.COLLECTION)
    plain = spec.kind is Kind.TENSOR and spec.contract is None
    # a plain bool: torch.compile can take that from a closure, a FieldSpec not
    required = spec.kind is not None and not spec.optional

    def get_value(self: TensorClass) -> Any:
        try:
            return self._store[name]
        except KeyError:
            raise AttributeError(removed) from None

    def get_optional(self: TensorClass) -> Any:
        return self._store.get(name)

    def get_object(self: TensorClass) -> Any:
        value = self._store.get(name)
        if type(value) is NonTensorData:  # what nearly all are
            return value._objects[0]
        if value is None:
            if required:
                raise AttributeError(removed)
            return None
        return value if isinstance(value, Tensor) else self._out(value, name)

    def set_tensor(self: TensorClass, value: Any) -> None:
        try:
            fits = (
                self._lock is None
                and isinstance(value, Tensor)
                and value.shape[: len(self._batch_size)] == self._batch_size
                and (self._device is None or value.device == self._device)
            )
        except RuntimeError:  # a nested tensor can have no shape
            fits = False
        if fits:
            self._store[name] = value
        else:
            self._set(name, value)

    def set_value(self: TensorClass, value: Any) -> None:
        self._set(name, value)

    def delete(self: TensorClass) -> None:
        self._check_unlocked()
        if name in self._store:
            del self._store[name]
        elif required:
            raise AttributeError(removed)

    getter: Callable[[Any], Any] = get_object if not tensor else get_optional if spec.optional else get_value
    if name in _RESERVED:
        as_frozen = frozen and name in _FROZEN_MEMBERS
        member = _FROZEN_MEMBERS[name] if as_frozen else inspect.getattr_static(TensorClass, name)
        getter = hiding(getter, member)
    setter = set_tensor if plain and not frozen else set_value
    return property(getter, setter, delete, f"A field: {spec.shown}")


def hiding(getter: Callable[[Any], Any], member: Any) -> Callable[[Any], Any]:
    """The getter of a field that hides a member of collections: the engine, which needs the member, still sees that."""

    def get(self: Any) -> Any:
        # (torch.compile cannot trace the question who asks)
        if is_dynamo_compiling() or not sys._getframe(1).f_globals.get("__name__", "").startswith(_ENGINE):
            return getter(self)
        return member.__get__(self, type(self))

    return get


_ENGINE = (f"{__package__}.td.", f"{__package__}.convert.")


def _has_own_init(cls: Any) -> bool:
    """Whether this class, or a record that it derives from, defines ``__init__`` by hand, which is inherited then."""
    for base in cls.__mro__:
        if base is TensorClass:
            break
        if isinstance(base, RecordMeta) and "__init__" in base.__dict__:
            return not getattr(base.__dict__["__init__"], "__generated__", False)
    return False


def _generate_init(cls: Any, specs: Mapping[str, FieldSpec]) -> Callable[..., None]:
    """``__init__`` as text, compiled: each field's part is written for what the field holds."""
    # names that are no field's, also for what Python has built in
    space: dict[str, Any] = {
        "__isinstance": isinstance,
        "__len": len,
        "__type": type,
        "__Tensor": Tensor,
        "__Size": Size,
        "__as_size": shapes.as_size,
        "__check_size": shapes.check_size,
        "__as_names": shapes.as_names,
        "__as_device": as_device,
        "__explained": explained,
        "__mismatch": batch_mismatch,
        "__FACTORY": _FACTORY,
        "__infer": inferred_size,
        "__is_compiling": is_compiling,
        "__IN_POST_INIT": _IN_POST_INIT,
    }
    checks: Checks | None = cls._checks
    nested = any(getattr(kind, "_checks", None) is not None for spec in specs.values() for kind in spec.types)
    if checks is None and nested and cls._options["validate"]:  # to list what is wrong with all of them
        checks = Checks(cls.__qualname__, specs)
    writer = None if checks is None else writer_of(specs)
    if writer is not None:
        space.update(writer.space)
        writer.space = space
    metadata = [name for name in METADATA if name not in specs]
    me = "__self" if "self" in cls.__dataclass_fields__ else "self"
    device = "device" if "device" in metadata else "__device"
    positional: list[str] = []
    keyword: list[str] = []
    first: list[str] = []
    body: list[str] = []
    post: list[str] = []
    parameters: dict[str, Any] = {}
    seen_default = ""
    for f in cls.__dataclass_fields__.values():
        kind = f._field_type
        name = f.name
        if kind is dataclasses._FIELD_CLASSVAR or (name in METADATA and name not in specs):  # type: ignore[attr-defined]
            continue
        default = ""
        if f.default is not dataclasses.MISSING:
            space[f"__default_{name}"] = f.default
            default = f"__default_{name}"
        elif f.default_factory is not dataclasses.MISSING:
            space[f"__factory_{name}"] = f.default_factory
            default = "__FACTORY"
        if f.init:
            parameters[name] = f.type
            parameter = f"{name}={default}" if default else name
            if f.kw_only:
                keyword.append(parameter)
            else:
                if seen_default and not default:
                    raise TypeError(
                        f"{cls.__name__}: the field {name!r} without a default follows {seen_default!r}, which has "
                        f"one; give it one too, or make it keyword-only: class {cls.__name__}(..., kw_only=True)"
                    )
                seen_default = name if default else seen_default
                positional.append(parameter)
        elif default:
            body.append(f"{name} = {default}")
        else:
            continue
        if kind is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            post.append(name)
            continue
        if f.default_factory is not dataclasses.MISSING:
            made = [f"if {name} is __FACTORY:", f"    {name} = __factory_{name}()"]
            if f.init and name in cls._telling:
                first += made
            else:
                body += made
        body += _enter(specs[name], space, me, device, writer)
    signature = ", ".join([me, *positional, "*", *keyword, *[f"{name}=None" for name in metadata]])
    given = ", ".join([f"{name!r}: {name}" for name in parameters if name in specs])
    # a nested tensor can have no shape; a block that raises nothing costs nothing
    entering = ["try:", *[f"    {line}" for line in _checked(checks, writer, body, space, me) or ["pass"]]]
    entering += ["except RuntimeError as __error:", f"    raise __explained(__error, {{{given}}}) from None"]
    sizes = (*first, *_size_lines(cls._telling, parameters, space))
    if len(sizes) > 1:  # shapes are read
        sizes = ("try:", *[f"    {line}" for line in sizes], *entering[-2:])
    lines = [
        f"def __init__({signature}):",
        *(f"    {line}" for line in sizes),
        "    __ndim = __len(__size)",
        f"    {device} = " + ("None if device is None else __as_device(device)" if device in metadata else "None"),
        f"    {me}._batch_size = __size",
        f"    {me}._device = {device}",
        f"    {me}._names = "
        + ("None if names is None else __as_names(names, __ndim)" if "names" in metadata else "None"),
        f"    {me}._lock = None",
        f"    {me}._store = __store = {{}}",
        *(f"    {line}" for line in entering),
        "    if not __store:",  # a tensor would have shown what is wrong with it
        "        __check_size(__size)",
    ]
    if hasattr(cls, "__post_init__"):
        call = f"{me}.__post_init__({', '.join(post)})"
        if cls._options["frozen"]:
            lines += [f"    {me}._context = __IN_POST_INIT", f"    {call}", f"    del {me}._context"]
        else:
            lines.append(f"    {call}")
    source = "\n".join(lines) + "\n"
    filename = f"<generated __init__ of {cls.__module__}.{cls.__qualname__}>"
    exec(compile(source, filename, "exec"), space)
    # so that a debugger and a traceback show the text
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    init: Any = space["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {**parameters, "return": None}
    init.__generated__ = True
    return init  # type: ignore[no-any-return]


def _describe_init(cls: Any, own: Mapping[str, Any], scope: Mapping[str, Any]) -> None:
    """Gives the generated ``__init__`` what ``inspect`` and ``help`` show of it: a text, and objects as annotations.

    Annotations that are text would be looked up among the names of the generated text.
    """
    init = cls.__init__
    above: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        if getattr(base.__dict__.get("__init__"), "__generated__", False):
            above.update(base.__dict__["__init__"].__annotations__)
    space = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    annotations = init.__annotations__
    for name, annotation in annotations.items():
        if name not in own and name in above:
            annotations[name] = above[name]
        elif isinstance(annotation, str):
            annotations[name] = evaluated(annotation, space, scope)
        if isinstance(annotations[name], dataclasses.InitVar):
            annotations[name] = annotations[name].type
    given = {name: hint for name, hint in _METADATA_HINTS.items() if name not in cls._specs}
    init.__annotations__ = {**annotations, **given, "return": None}
    init.__doc__ = (
        "Makes a record of the values of its fields; for ``batch_size``, ``device``, ``names`` see the bases."
    )
    if any(described_array(part) is not None for hint in annotations.values() for part in (hint, *get_args(hint))):
        # jaxtyping's annotations are about one item: what checks calls would refuse a batch
        init.__no_type_check__ = True


_METADATA_HINTS: dict[str, Any] = {
    "batch_size": Sequence[int] | int | None,
    "device": DeviceLike | None,
    "names": Sequence[str | None] | None,
}


def _size_lines(telling: Mapping[str, int], parameters: Mapping[str, Any], space: dict[str, Any]) -> list[str]:
    """The lines of ``__init__`` that set the batch size: the one given, or what the first contract that can says."""
    given = "batch_size if __type(batch_size) is __Size else __as_size(batch_size)"
    ranks = {name: rank for name, rank in telling.items() if name in parameters}
    if not ranks:
        return [f"__size = {given}"]
    space["__ranks"] = ranks
    lines = ["if batch_size is not None:", f"    __size = {given}"]
    for name, rank in ranks.items():
        lines += [
            f"elif __isinstance({name}, __Tensor):",
            f"    __size = {name}.shape" + (f"[:-{rank}]" if rank else ""),
        ]
    values = ", ".join([f"{name!r}: {name}" for name in ranks])
    return [*lines, "else:", f"    __size = __as_size(__infer(__ranks, {{{values}}}))"]


def _checked(
    checks: Checks | None, writer: Writer | None, body: list[str], space: dict[str, Any], me: str
) -> list[str]:
    """The lines of ``__init__`` that enter the fields, with those around them that a class with contracts has."""
    if checks is None or writer is None:
        return body
    space.update(__made=checks.made, __ranges=checks.ranges, __entered=entered)
    lines = ["__checked = not __is_compiling()", "__broken = False", *writer.start()]
    wrong, errors = "__broken", ""
    if any("__errors" in line for line in body):  # of nested records
        lines.append("__errors = []")
        wrong, errors = "__broken or __errors", ", __errors"
    lines += body
    if end := writer.end("__broken = True"):
        lines += ["if __checked:", *[f"    {line}" for line in end]]
    lines += [f"if {wrong}:", f"    __made({me}, batch_size is None{errors})"]
    return [*lines, "elif __checked:", f"    __ranges({me}, batch_size is None)"] if checks.bounded else lines


def _enter(spec: FieldSpec, space: dict[str, Any], me: str, device: str, writer: Writer | None) -> list[str]:
    """The lines of ``__init__`` that check one field and store it."""
    name = spec.name
    own = f"__spec_{name}"
    space[own] = spec
    if writer is not None and spec.kind is Kind.TENSOR:
        fails = "__broken = True"
        behind = ["if __shape != __size and __shape[:__ndim] != __size:", f"    {fails}"]
        if spec.contract is not None:
            behind = writer.field(name, name, not spec.optional, fails)
        store = [
            f"__store[{name!r}] = {name}",
            f"__shape = {name}.shape",
            "if __checked:",
            *[f"    {line}" for line in behind],
            "elif __shape[:__ndim] != __size:",
            f"    raise __mismatch({name!r}, __size, __shape)",
        ]
        lines = [
            f"if __isinstance({name}, __Tensor):",
            f"    if {device} is not None and {name}.device != {device}:",
            f"        {name} = {name}.to({device})",
            f"elif {name} is not None:",
            f"    {name} = {own}.fit({me}, {name})",
        ]
        if spec.optional:
            return [*lines, f"if {name} is not None:", *[f"    {line}" for line in store]]
        return [*lines, "else:", f"    raise {own}.mismatch({name})", *store]
    if spec.kind is Kind.TENSOR:
        lines = [
            f"if __isinstance({name}, __Tensor):",
            f"    __shape = {name}.shape",
            "    if __shape != __size and __shape[:__ndim] != __size:",
            f"        raise __mismatch({name!r}, __size, __shape)",
            f"    __store[{name!r}] = {name} if {device} is None or {name}.device == {device} else {name}.to({device})",
            f"elif {name} is not None:",
            f"    __store[{name!r}] = {own}.fit({me}, {name})",
        ]
    elif writer is not None and any(issubclass(kind, TensorCollection) for kind in spec.types):
        lines = [
            f"if {name} is not None:",
            f"    __entry = __entered({own}, {me}, {name}, __errors) if __checked else {own}.fit({me}, {name})",
            "    if __entry is not None:",
            f"        __store[{name!r}] = __entry",
        ]
    else:
        lines = [f"if {name} is not None:", f"    __store[{name!r}] = {own}.fit({me}, {name})"]
    if spec.kind is None:  # what it names is not defined yet
        lines += [f"elif not {own}.allows_none({me}):", f"    raise {own}.mismatch({name})"]
    elif not spec.optional:
        lines += ["else:", f"    raise {own}.mismatch({name})"]
    if writer is not None and spec.contract is not None:
        checks = writer.field(name, "__entry", False, "__broken = True")
        lines += [
            f"__entry = __store.get({name!r}) if __checked else None",
            "if __entry is not None:",
            "    __shape = __entry.shape",
            *[f"    {line}" for line in checks],
        ]
    elif writer is not None and spec.kind is None:
        lines += [f"if __checked and {own}.contract is not None:", "    __broken = True"]
    return lines


def _strict_setattr(self: Any, name: str, value: Any) -> None:
    """For classes whose plain bases bring a ``__dict__`` along: only what the class has a place for can be assigned."""
    if name not in self._assignable:
        raise AttributeError(f"{type(self).__name__} has no field {name!r}; its fields are {list(self._specs)}")
    object.__setattr__(self, name, value)
