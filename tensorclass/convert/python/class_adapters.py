"""Adapters for classes with fields: dataclasses, classes of attrs, models and dataclasses of pydantic.

A :class:`ClassAdapter` says which fields a class declares, which values an instance has, and how an instance is made.
Everything else is written once, for all adapters: ``instances.py`` converts instances, ``record_class.py`` makes record
classes. Finding the adapter of a class imports none of the libraries.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorclass.support.extras import require
from tensorclass.td.collection import Collection

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


class ClassField(NamedTuple):
    """A field as its class declares it."""

    name: str
    #: its annotation, evaluated if possible; ``Any`` without one
    hint: Any
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    #: name of the constructor's argument; ``None`` if there is none
    argument: str | None = None
    kw_only: bool = False
    repr: bool = True
    metadata: Mapping[Any, Any] = types.MappingProxyType({})

    @property
    def required(self) -> bool:
        """Return whether the constructor needs it."""
        return self.argument is not None and self.default is MISSING and self.factory is None


class ClassAdapter:
    """Reads the classes of one library; this one reads dataclasses."""

    #: suffix of the functions: ``from_dataclass``
    name = "dataclass"
    #: the names of the functions that take these classes
    taken_by: tuple[str, ...] = ("dataclass",)
    #: whether a record can derive from such a class itself, where its fields can be set
    is_base = True
    #: name of such a class in messages
    shown = "a dataclass"
    #: hint in messages: what takes a class instead of an instance
    takes_class = "as_tensorclass=True"
    #: members that the library writes into a class, and that a record has itself or does not need
    written: frozenset[str] = frozenset({"__dataclass_fields__", "__dataclass_params__"})

    def require(self, purpose: str) -> None:
        """Import the library, to raise if it is missing."""
        if self.name != "dataclass":
            require(self.name, self.name, purpose)

    def accepts(self, cls: type[Any]) -> bool:
        """Return whether ``from_x`` and ``to_x`` take a class."""
        found = adapter_of(cls)
        return found is not None and self.name in found.taken_by

    def fields(self, cls: type[Any]) -> dict[str, ClassField]:
        """Return the fields of a class in the order of the constructor, those of its bases first."""
        hints = hints_of(cls)
        return {f.name: self._member(cls, f, hints.get(f.name, f.type)) for f in dataclasses.fields(cls)}

    def _member(self, cls: type[Any], f: dataclasses.Field[Any], hint: Any) -> ClassField:
        factory = None if f.default_factory is MISSING else f.default_factory
        argument = f.name if f.init else None
        return ClassField(f.name, hint, f.default, factory, argument, bool(f.kw_only), f.repr, f.metadata)

    def arguments(self, cls: type[Any]) -> dict[str, ClassField]:
        """Return the constructor's arguments that the instance does not keep: ``InitVar`` fields."""
        pseudo: dict[str, Any] = getattr(cls, "__dataclass_fields__", {})
        return {
            f.name: self._member(cls, f, f.type)
            for f in pseudo.values()
            if f._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
        }

    def values(self, obj: Any) -> dict[str, Any]:
        """Return the values of an instance; fields that were never set are left out."""
        names = [f.name for f in dataclasses.fields(obj)]
        try:
            return {name: getattr(obj, name) for name in names}
        except AttributeError:
            return {name: getattr(obj, name) for name in names if hasattr(obj, name)}

    def make(self, cls: type[Any], values: Mapping[str, Any]) -> Any:
        """Make an instance by the constructor; fields that are no arguments are set afterwards."""
        fields = {**self.fields(cls), **self.arguments(cls)}
        given: dict[str, Any] = {}
        later: dict[str, Any] = {}
        for name, value in values.items():
            argument = fields[name].argument
            if argument is None:
                later[name] = value
            else:
                given[argument] = value
        made = self._construct(cls, given)
        for name, value in later.items():
            object.__setattr__(made, name, value)
        return made

    def _construct(self, cls: type[Any], given: dict[str, Any]) -> Any:
        return cls(**given)

    def takes_more(self, cls: type[Any]) -> bool:
        """Return whether an instance can have values that are no fields."""
        return False

    def is_frozen(self, cls: type[Any]) -> bool:
        """Return whether the fields of an instance cannot be set."""
        frozen: bool = cls.__dataclass_params__.frozen
        return frozen

    def can_be_base(self, cls: type[Any]) -> bool:
        """Return whether a record can derive from the class itself, and so be its instance."""
        return (
            self.is_base
            and not vars(cls).get("__slots__")
            and not ("__dataclass_params__" in vars(cls) and self.is_frozen(cls))
        )

    def is_generated(self, function: types.CodeType) -> bool:
        """Return whether the library wrote a special method."""
        return function.co_filename in ("<string>", dataclasses.__file__)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """Return the members in the body of a class other than its fields."""
        return {name: member for name, member in vars(cls).items() if name not in self.written}


class PydanticDataclassAdapter(ClassAdapter):
    """Reads dataclasses that pydantic validates."""

    taken_by: tuple[str, ...] = ("dataclass", "pydantic")
    is_base = False  # constructor and setters validate
    written: frozenset[str] = ClassAdapter.written | {"__pydantic_fields_complete__", "__signature__"}

    def _member(self, cls: type[Any], f: dataclasses.Field[Any], hint: Any) -> ClassField:
        info: FieldInfo | None = cls.__pydantic_fields__.get(f.name)
        if info is None:
            return super()._member(cls, f, hint)
        return _of_info(f.name, info, hint)._replace(argument=f.name if f.init else None, kw_only=bool(f.kw_only))

    def _construct(self, cls: type[Any], given: dict[str, Any]) -> Any:
        adapter: Any = require("pydantic", "pydantic", "to_pydantic").TypeAdapter(cls)
        return adapter.validate_python(given, by_alias=False, by_name=True)

    def is_generated(self, function: types.CodeType) -> bool:
        """Return whether pydantic, or ``dataclasses`` for it, wrote a special method."""
        return super().is_generated(function) or _is_in("pydantic", function)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """Return the members in the body of a class other than its fields."""
        return {name: member for name, member in super().members(cls).items() if not name.startswith("__pydantic_")}


class AttrsAdapter(ClassAdapter):
    """Reads classes of attrs, by its old and its new decorators."""

    name = "attrs"
    taken_by: tuple[str, ...] = ("attrs",)
    is_base = False  # most classes have slots
    shown = "a class of attrs"
    takes_class = "the function tensorclass.from_attrs"
    written: frozenset[str] = frozenset({"__attrs_attrs__", "__attrs_props__", "__attrs_own_setattr__", "__getattr__"})

    def fields(self, cls: type[Any]) -> dict[str, ClassField]:
        """Return the fields of a class in the order of the constructor, those of its bases first."""
        hints = hints_of(cls)
        return {a.name: self._of_attribute(a, hints) for a in cls.__attrs_attrs__}

    def _of_attribute(self, attribute: Any, hints: Mapping[str, Any]) -> ClassField:
        hint = hints.get(attribute.name, Any if attribute.type is None else attribute.type)
        default, factory = attribute.default, None
        if getattr(default, "takes_self", False):
            factory = _refused(attribute.name, "it is computed from the other fields of an instance of attrs")
        elif hasattr(default, "takes_self"):
            factory = default.factory
        elif default is require("attrs", "attrs", "from_attrs").NOTHING:
            default = MISSING
        if factory is not None:
            default = MISSING
        argument = attribute.alias if attribute.init else None
        kw_only, shown, metadata = attribute.kw_only, bool(attribute.repr), attribute.metadata
        return ClassField(attribute.name, hint, default, factory, argument, kw_only, shown, metadata)

    def values(self, obj: Any) -> dict[str, Any]:
        """Return the values of an instance; fields that were never set are left out."""
        return {a.name: getattr(obj, a.name) for a in obj.__attrs_attrs__ if hasattr(obj, a.name)}

    def is_frozen(self, cls: type[Any]) -> bool:
        """Return whether the fields of an instance cannot be set."""
        return getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"

    def is_generated(self, function: types.CodeType) -> bool:
        """Return whether attrs wrote a special method."""
        return function.co_filename.startswith("<attrs generated") or _is_in("attr", function)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """Return the members in the body of a class other than its fields; attrs moves cached properties away."""
        members = super().members(cls)
        getter = vars(cls).get("__getattr__")
        if getter is not None and not self.is_generated(getter.__code__):
            members["__getattr__"] = getter
        elif getter is not None:
            cached: Mapping[str, Any] = getter.__globals__.get("cached_properties", {})
            for name, function in cached.items():
                members[name] = functools.cached_property(getattr(function, "func", function))
                members[name].__set_name__(cls, name)
        if "__attrs_post_init__" in members:
            members["__post_init__"] = members["__attrs_post_init__"]
        return members


class PydanticAdapter(ClassAdapter):
    """Reads models of pydantic."""

    name = "pydantic"
    taken_by: tuple[str, ...] = ("pydantic",)
    is_base = False  # models have a metaclass of their own
    shown = "a model of pydantic"
    takes_class = "the function tensorclass.from_pydantic"
    written: frozenset[str] = frozenset(
        {"model_config", "__class_vars__", "__private_attributes__", "__signature__", "_abc_impl"}
    )

    def fields(self, cls: type[BaseModel]) -> dict[str, ClassField]:
        """Return the fields of a model, those of its bases first."""
        return {
            name: _of_info(name, info, info.rebuild_annotation())._replace(kw_only=True)
            for name, info in cls.model_fields.items()
        }

    def values(self, obj: BaseModel) -> dict[str, Any]:
        """Return the values of a model, those that are no fields (``extra="allow"``) included."""
        values = vars(obj)
        fields = type(obj).model_fields
        return {name: values[name] for name in fields if name in values} | (obj.model_extra or {})

    def make(self, cls: type[BaseModel], values: Mapping[str, Any]) -> Any:
        """Make a model; pydantic validates the values."""
        is_root = getattr(cls, "__pydantic_root_model__", False)
        return cls.model_validate(values["root"] if is_root else dict(values), by_alias=False, by_name=True)

    def takes_more(self, cls: type[BaseModel]) -> bool:
        """Return whether a model can have values that are no fields."""
        return cls.model_config.get("extra") == "allow"

    def is_frozen(self, cls: type[BaseModel]) -> bool:
        """Return whether the fields of a model cannot be set."""
        return bool(cls.model_config.get("frozen"))

    def is_generated(self, function: types.CodeType) -> bool:
        """Return whether pydantic wrote a special method."""
        return _is_in("pydantic", function)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """Return the members in the body of a model other than its fields."""
        private: Mapping[str, Any] = getattr(cls, "__private_attributes__", {})
        return {
            name: member
            for name, member in super().members(cls).items()
            if not name.startswith("__pydantic_") and name not in private and name != "model_post_init"
        }


DATACLASS, PYDANTIC_DATACLASS = ClassAdapter(), PydanticDataclassAdapter()
ATTRS, PYDANTIC = AttrsAdapter(), PydanticAdapter()


#: types of most values, which have no fields
PLAIN = frozenset({int, float, bool, complex, str, bytes, list, type(None)})


def adapter_of(cls: type[Any]) -> ClassAdapter | None:
    """Return the adapter of a class with fields; ``None`` for other classes and for collections."""
    if cls in PLAIN:
        return None
    if hasattr(cls, "__dataclass_fields__"):
        if issubclass(cls, Collection):
            return None
        return PYDANTIC_DATACLASS if "__pydantic_validator__" in vars(cls) else DATACLASS
    if hasattr(cls, "__attrs_attrs__"):
        return ATTRS
    models = sys.modules.get("pydantic.main")
    return PYDANTIC if models is not None and issubclass(cls, models.BaseModel) else None


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the annotations of a class and its bases; empty if one of them cannot be evaluated here."""
    try:
        # make_dataclass writes "typing.Any" for fields without a type
        return typing.get_type_hints(cls, localns={"typing": typing, cls.__name__: cls}, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _of_info(name: str, info: FieldInfo, hint: Any) -> ClassField:
    """Read a field of pydantic."""
    default: Any = MISSING
    factory: Any = info.default_factory
    if factory is not None:
        if info.default_factory_takes_validated_data:
            factory = _refused(name, "it is computed by pydantic from the other values")
    elif not info.is_required():
        default = info.default
        if default.__hash__ is None:  # pydantic copies mutable defaults
            factory, default = functools.partial(copy.deepcopy, default), MISSING
    return ClassField(name, hint, default, factory, name, repr=info.repr)


def _refused(name: str, why: str) -> Callable[[], Any]:
    """Return a factory that raises, for a default that the library computes from an instance."""

    def factory() -> Any:
        raise TypeError(f"{name}: a record cannot make this default: {why}; give it a value")

    return factory


def _is_in(package: str, function: types.CodeType) -> bool:
    """Return whether a function is defined in a package."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and function.co_filename.startswith(file.removesuffix("__init__.py"))
