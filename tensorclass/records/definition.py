"""Definition of a record class: annotations become fields and properties, and ``__init__`` is generated."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

from tensorclass.contracts.checking import Checks, item_ranks
from tensorclass.support.printable import class_name
from tensorclass.td import pytree
from tensorclass.td.collection import Collection
from tensorclass.td.hidden_members import hide_member
from tensorclass.td.safe_unpickling import allow_class
from tensorclass.td.same_named_classes import DefinitionSite
from tensorclass.td.stored_names import StoredNames

from .constructor import generate_init, has_own_init
from .field_names import MEMBER_NAMES, check_field_names, check_usable, is_class_variable
from .field_properties import field_property, hidden_member
from .fields import FieldSpec
from .frozen import CAST_FILTER_MEMBERS, FROZEN_MEMBERS
from .name_errors import no_field
from .record import METADATA, OPTIONS, RecordMeta


def define(cls: Any, given: Mapping[str, Any]) -> None:
    """Turn the annotations of a new class into fields, properties and ``__init__``.

    Args:
        cls: the class.
        given: the options that stand in its class statement, or in its decorator.
    """
    options, kw_only = _combined_options(cls, given)
    cls._options = options
    cls._defined_at = DefinitionSite.of(_frame_of_the_class())
    own = _attributes_of(cls)
    annotations = annotations_of(cls)
    check_usable(cls, [name for name, annotation in annotations.items() if not is_class_variable(annotation)])
    _refuse_hidden_fields(cls, annotations)
    _restore_defaults(cls, annotations)
    if cls.__doc__ is None:
        cls.__doc__ = f"A record with the fields {', '.join(annotations) or 'of its bases'}."
    _make_dataclass(cls, annotations, kw_only)
    fields = [f for f in cls.__dataclass_fields__.values() if f._field_type is dataclasses._FIELD]  # type: ignore[attr-defined]
    check_field_names(cls, fields, annotations)
    scope = scope_of(cls, annotations)
    specs: dict[str, FieldSpec] = {}
    for f in fields:
        if f.name in annotations:
            spec = cls._spec_class(cls.__name__, f, cls.__module__, scope, options)
            _set_property(cls, spec)
        else:
            spec = _inherited_spec(cls, f).with_options(options)
            if not _has_property(cls, spec):
                _set_property(cls, spec)
        specs[f.name] = spec
    is_new = "_specs" not in own
    cls._specs = specs
    cls._stored_names = StoredNames.of(cls.__name__, {name: spec.stored_name for name, spec in specs.items()})
    cls._item_ranks = item_ranks(specs)
    # a field whose annotation names a class that is defined later may have a contract
    may_have_contracts = any(spec.has_contract or spec.kind is None for spec in specs.values())
    cls._checks = Checks(cls.__qualname__, specs) if may_have_contracts and options["validate"] else None
    if "__setattr__" in own:
        cls.__setattr__ = of_fields_alone(own["__setattr__"])
    if not has_own_init(cls):
        cls.__init__ = generate_init(cls, specs, annotations, scope)
    generated = getattr(cls.__init__, "__generated__", False)
    cls._takes_fields = generated and all(spec.init and name not in METADATA for name, spec in specs.items())
    if given.get("cast_filter") is not None:
        cls._cast_filter = staticmethod(given["cast_filter"])
        for name, member in CAST_FILTER_MEMBERS.items():
            setattr(cls, name, member)
    if options["frozen"]:
        for name, member in FROZEN_MEMBERS.items():
            if name not in specs:
                setattr(cls, name, member)
        if cls.__hash__ is None:
            cls.__hash__ = object.__hash__
    if cls.__abstractmethods__:
        abc.update_abstractmethods(cls)  # a field makes an abstract property of a base concrete
    if cls.__dictoffset__ and cls.__setattr__ in (object.__setattr__, _strict_setattr):
        cls.__setattr__ = _strict_setattr
        cls._assignable = _assignable(cls)
    if is_new and pytree.register(cls):
        allow_class(cls)


def _set_property(cls: Any, spec: FieldSpec) -> None:
    frozen: bool = cls._options["frozen"]
    setattr(cls, spec.name, field_property(spec, frozen))
    member = hidden_member(spec.name, frozen)
    if member is not None:
        hide_member(cls, spec.name, member)


def _assignable(cls: type) -> frozenset[str]:
    """Return the attributes that instances can set although they have a ``__dict__``: slots and properties."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members.update(vars(base))
    classes: dict[str, type] = {name: type(member) for name, member in members.items()}
    return frozenset(name for name, cls_of_member in classes.items() if hasattr(cls_of_member, "__set__"))


def redefine(cls: Any, given: Mapping[str, Any]) -> None:
    """Give more options to a class that is a record already: ``@tensorclass`` over a class derived from a record."""
    _check_options(cls, given)
    own = _attributes_of(cls)
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


def _attributes_of(cls: type) -> Mapping[str, Any]:
    """Return the attributes of a class itself, without inherited ones."""
    return vars(cls)


def _check_options(cls: Any, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name == "cast_filter":
            if value is not None and not callable(value):
                raise TypeError(f"{class_name(cls)}: cast_filter is called with key and tensor, got {value!r}")
        elif not isinstance(value, bool):
            raise TypeError(f"{class_name(cls)}: the option {name} is True or False, got {value!r}")
    if not given.get("skip_post_init_on_rebuild", True):
        raise TypeError(
            f"{class_name(cls)}: skip_post_init_on_rebuild=False: __post_init__ is for what the constructor is given, "
            "the results of operations do not run it; write a method for what shall be done to them"
        )


def _combined_options(cls: Any, given: Mapping[str, Any]) -> tuple[dict[str, bool], bool]:
    """Return the options of a class and its subclasses, and ``kw_only``, which is about the fields of one class."""
    _check_options(cls, given)
    options = {**OPTIONS}
    for base in reversed(cls.__mro__[1:]):
        inherited: Mapping[str, bool] | None = base.__dict__.get("_options")
        if inherited is not None:
            options.update(_changed(inherited))
    if options["frozen"] and not given.get("frozen", True):
        raise TypeError(f"{class_name(cls)}: frozen=False, but a class that it derives from is frozen")
    kw_only = given.get("kw_only", any(base.__dict__.get("_options", OPTIONS)["kw_only"] for base in cls.__bases__))
    options.update({name: on for name, on in given.items() if name in OPTIONS})
    options["kw_only"] = False
    if options["autocast"] and options["nocast"]:
        raise ValueError(f"{class_name(cls)}: the options autocast and nocast exclude each other")
    return options, kw_only


def _changed(options: Mapping[str, bool]) -> dict[str, bool]:
    """Return the options that differ from their defaults."""
    return {name: on for name, on in options.items() if on is not OPTIONS[name]}


def annotations_of(cls: Any) -> dict[str, Any]:
    """Return the annotations of this class, without those of its bases. Text is not evaluated."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return inspect.get_annotations(cls)


def _refuse_hidden_fields(cls: Any, annotations: Mapping[str, Any]) -> None:
    """Raise if a class attribute would hide an inherited field."""
    own = _attributes_of(cls)
    for base in cls.__bases__:
        for name in getattr(base, "_specs", ()):
            if name in own and name not in annotations and "_specs" not in own:
                raise TypeError(
                    f"{class_name(cls)}.{name} would hide the field {name!r} of {class_name(base)}; to change its "
                    f"default, declare it again with its type: {name}: ... = {own[name]!r}"
                )


def _restore_defaults(cls: Any, annotations: Mapping[str, Any]) -> None:
    """Keep ``dataclasses`` from taking a base class's attribute of a field's name for its default."""
    own = cls.__dict__
    inheriting = [name for name in annotations if name not in own and hasattr(cls, name)]
    bases = cls.__mro__[1:] if inheriting else ()
    records = [base for base in bases if hasattr(base, "_specs")]
    for name in inheriting:
        inherited = next((base.__dataclass_fields__[name] for base in records if name in base._specs), None)
        if inherited is not None:
            kwargs: dict[str, Any] = {"default": inherited.default}
            if inherited.default_factory is not dataclasses.MISSING:
                kwargs = {"default_factory": inherited.default_factory}
            setattr(cls, name, dataclasses.field(**kwargs, metadata=inherited.metadata))
            continue
        base = next((base for base in bases if name in base.__dict__), None)
        # an attribute of a plain base is a default, as in dataclasses; a method or property is not
        if base is not None and (name in MEMBER_NAMES or hasattr(base.__dict__[name], "__get__")):
            setattr(cls, name, dataclasses.field())


def _make_dataclass(cls: Any, annotations: Mapping[str, Any], kw_only: bool) -> None:
    has_match_args = "__match_args__" in vars(cls)
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    if any(name in annotations for name in METADATA):
        # a field of that name (with shadow=True) is ordered where it is declared, not where the bases have the argument
        fields = cls.__dataclass_fields__
        inherited = {name for base in cls.__bases__ for name in getattr(base, "_specs", ())}
        new = [name for name in annotations if name in fields and name not in inherited]
        order = [name for name in fields if name not in new] + new
        cls.__dataclass_fields__ = {name: fields[name] for name in order}
        if not has_match_args:
            positional = [f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only]
            type.__setattr__(cls, "__match_args__", tuple(positional))


def scope_of(cls: Any, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names that text annotations can use beside those of the module.

    They are the names of the function around the class statement, and of the class itself.
    """
    frame = _frame_of_the_class()
    while frame is not None and not frame.f_code.co_flags & _OPTIMIZED and frame.f_code.co_name != "<module>":
        frame = frame.f_back  # the body of an outer class: Python does not look names up there
    module = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    own = _attributes_of(cls)
    scope = {
        name: value
        for name, value in own.items()
        if name not in annotations and name not in module and not name.startswith("__")
    }
    if frame is not None and frame.f_globals is not module:  # code that exec() ran with a namespace of its own
        scope.update(frame.f_globals)
    if frame is not None and frame.f_locals is not frame.f_globals:
        scope.update(frame.f_locals)
    scope[cls.__name__] = cls
    return scope


def _frame_of_the_class() -> Any:
    """Return the frame of the class statement that is being executed."""
    frame: Any = sys._getframe(2)
    while frame is not None and _is_defining(frame.f_globals):
        frame = frame.f_back
    return frame


def _is_defining(module_globals: Mapping[str, Any]) -> bool:
    """Return whether the globals of a frame are those of one of the modules ``_DEFINING``."""
    module = module_globals.get("__name__")
    return module in _DEFINING and module_globals is vars(sys.modules[module])


#: modules whose calls lie between a class statement and _frame_of_the_class
_DEFINING = (
    *[f"{__package__}.{name}" for name in ("definition", "record", "decorator", "typed")],
    "types",
)
_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: the code of a function


def _inherited_spec(cls: Any, f: dataclasses.Field[Any]) -> FieldSpec:
    """Return the spec of a field that a base declared."""
    base = next(base for base in cls.__mro__[1:] if base.__dict__.get("__dataclass_fields__", {}).get(f.name) is f)
    found: FieldSpec | None = base.__dict__.get("_specs", {}).get(f.name)
    if found is not None:
        return found
    # of a plain dataclass; make_dataclass writes "typing.Any" where it is given no type
    spec: FieldSpec = cls._spec_class(base.__name__, f, base.__module__, {"typing": typing}, cls._options)
    return spec


def _has_property(cls: Any, spec: FieldSpec) -> bool:
    """Return whether the attribute of a field's name is the property that was made from this spec."""
    for base in cls.__mro__:
        if spec.name in base.__dict__:
            return base.__dict__.get("_specs", {}).get(spec.name) is spec
    return False


def of_fields_alone(own: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    """Wrap a class's own ``__setattr__`` so that it is called for fields only, and not for the slots of a record."""
    if getattr(own, "__of_fields__", False) or own in (object.__setattr__, _strict_setattr):
        return own

    @functools.wraps(own)
    def __setattr__(self: Any, name: str, value: Any) -> None:
        (object.__setattr__ if name in _SLOTS else own)(self, name, value)

    __setattr__.__of_fields__ = True  # type: ignore[attr-defined]
    return __setattr__


_SLOTS = frozenset(Collection.__slots__)


def _strict_setattr(self: Any, name: str, value: Any) -> None:
    """``__setattr__`` of classes whose plain bases bring a ``__dict__``: refuse undeclared attributes."""
    if name not in self._assignable:
        raise no_field(self, name)
    object.__setattr__(self, name, value)


RecordMeta._define = staticmethod(define)  # type: ignore[assignment]
