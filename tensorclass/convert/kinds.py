"""Classes of fields: what dataclasses, attrs classes and models of pydantic have in common.

A :class:`Kind` reads one of them: which fields a class declares, which values an instance has, how an instance is made.
All else is written once over that: ``instances.py`` takes instances apart and makes them, ``record_class.py`` makes
record classes. None of the packages is imported for the question of what kind a class is.
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

from tensorclass.td.collection import Collection

from .extras import require

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


class Member(NamedTuple):
    """A field, as its class declares it."""

    name: str
    #: its annotation, evaluated where that can be done; ``Any`` where it has none
    hint: Any
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    #: what the constructor calls it; ``None`` where it is no argument
    argument: str | None = None
    kw_only: bool = False
    repr: bool = True
    metadata: Mapping[Any, Any] = types.MappingProxyType({})

    @property
    def required(self) -> bool:
        """Whether the constructor needs it."""
        return self.argument is not None and self.default is MISSING and self.factory is None


class Kind:
    """How the classes of one package are read; this one reads dataclasses."""

    #: what the functions are named after
    name = "dataclass"
    #: what a class is called in messages
    shown = "a dataclass"
    #: names of members that the package writes into a class, where a record has its own or needs none
    written: frozenset[str] = frozenset({"__dataclass_fields__", "__dataclass_params__"})

    def accepts(self, cls: type[Any]) -> bool:
        """Whether the functions that are named after this kind take a class."""
        return kind_of(cls) in (DATACLASS, PYDANTIC_DATACLASS)

    def fields(self, cls: type[Any]) -> dict[str, Member]:
        """The fields of a class, those of its bases in front, in the order of the constructor."""
        hints = hints_of(cls)
        return {f.name: self._member(cls, f, hints.get(f.name, f.type)) for f in dataclasses.fields(cls)}

    def _member(self, cls: type[Any], f: dataclasses.Field[Any], hint: Any) -> Member:
        factory = None if f.default_factory is MISSING else f.default_factory
        argument = f.name if f.init else None
        return Member(f.name, hint, f.default, factory, argument, bool(f.kw_only), f.repr, f.metadata)

    def arguments(self, cls: type[Any]) -> dict[str, Member]:
        """What the constructor takes and the instance does not keep: fields that are ``InitVar``."""
        pseudo: dict[str, Any] = getattr(cls, "__dataclass_fields__", {})
        return {
            f.name: self._member(cls, f, f.type)
            for f in pseudo.values()
            if f._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
        }

    def values(self, obj: Any) -> dict[str, Any]:
        """The values that an instance has: a field that was never set has none."""
        names = [f.name for f in dataclasses.fields(obj)]
        try:
            return {name: getattr(obj, name) for name in names}
        except AttributeError:
            return {name: getattr(obj, name) for name in names if hasattr(obj, name)}

    def make(self, cls: type[Any], values: Mapping[str, Any]) -> Any:
        """An instance with these values, made as a user makes one: by the constructor."""
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
        """Whether an instance can have values that are no fields."""
        return False

    def is_frozen(self, cls: type[Any]) -> bool:
        """Whether the fields of an instance cannot be set."""
        frozen: bool = cls.__dataclass_params__.frozen
        return frozen

    def can_be_base(self, cls: type[Any]) -> bool:
        """Whether a record can derive from a class itself, so that it is an instance of it."""
        return not vars(cls).get("__slots__") and not ("__dataclass_params__" in vars(cls) and self.is_frozen(cls))

    def is_generated(self, function: types.CodeType) -> bool:
        """Whether it was the package that wrote a special method."""
        return function.co_filename in ("<string>", dataclasses.__file__)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """What the body of a class says beside its fields."""
        return {name: member for name, member in vars(cls).items() if name not in self.written}


class PydanticDataclass(Kind):
    """Dataclasses that pydantic validates."""

    written: frozenset[str] = Kind.written | {"__pydantic_fields_complete__", "__signature__"}

    def _member(self, cls: type[Any], f: dataclasses.Field[Any], hint: Any) -> Member:
        info: FieldInfo | None = cls.__pydantic_fields__.get(f.name)
        if info is None:
            return super()._member(cls, f, hint)
        return _of_info(f.name, info, hint)._replace(argument=f.name if f.init else None, kw_only=bool(f.kw_only))

    def _construct(self, cls: type[Any], given: dict[str, Any]) -> Any:
        adapter: Any = require("pydantic", "pydantic", "to_pydantic").TypeAdapter(cls)
        return adapter.validate_python(given, by_alias=False, by_name=True)

    def can_be_base(self, cls: type[Any]) -> bool:
        """Never: its constructor and its setters validate."""
        return False

    def is_generated(self, function: types.CodeType) -> bool:
        """Whether it was pydantic, or ``dataclasses`` for it, that wrote a special method."""
        return super().is_generated(function) or _is_in("pydantic", function)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """What the body of a class says beside its fields."""
        return {name: member for name, member in super().members(cls).items() if not name.startswith("__pydantic_")}


class Attrs(Kind):
    """Classes of attrs, of its old decorators and of its new ones."""

    name = "attrs"
    shown = "a class of attrs"
    written: frozenset[str] = frozenset({"__attrs_attrs__", "__attrs_props__", "__attrs_own_setattr__", "__getattr__"})

    def accepts(self, cls: type[Any]) -> bool:
        """Whether a class is one of attrs."""
        return kind_of(cls) is ATTRS

    def fields(self, cls: type[Any]) -> dict[str, Member]:
        """The fields of a class, those of its bases in front, in the order of the constructor."""
        hints = hints_of(cls)
        return {a.name: self._of_attribute(a, hints) for a in cls.__attrs_attrs__}

    def _of_attribute(self, attribute: Any, hints: Mapping[str, Any]) -> Member:
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
        return Member(attribute.name, hint, default, factory, argument, kw_only, shown, metadata)

    def arguments(self, cls: type[Any]) -> dict[str, Member]:
        """None."""
        return {}

    def values(self, obj: Any) -> dict[str, Any]:
        """The values that an instance has: a field that was never set has none."""
        return {a.name: getattr(obj, a.name) for a in obj.__attrs_attrs__ if hasattr(obj, a.name)}

    def is_frozen(self, cls: type[Any]) -> bool:
        """Whether the fields of an instance cannot be set."""
        return getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"

    def can_be_base(self, cls: type[Any]) -> bool:
        """Never: most have slots."""
        return False

    def is_generated(self, function: types.CodeType) -> bool:
        """Whether it was attrs that wrote a special method."""
        return function.co_filename.startswith("<attrs generated") or _is_in("attr", function)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """What the body of a class says beside its fields: cached properties too, which attrs moves elsewhere."""
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


class Pydantic(Kind):
    """Models of pydantic."""

    name = "pydantic"
    shown = "a model of pydantic"
    written: frozenset[str] = frozenset(
        {"model_config", "__class_vars__", "__private_attributes__", "__signature__", "_abc_impl"}
    )

    def accepts(self, cls: type[Any]) -> bool:
        """Whether a class is a model, or a dataclass of pydantic."""
        return kind_of(cls) in (PYDANTIC, PYDANTIC_DATACLASS)

    def fields(self, cls: type[BaseModel]) -> dict[str, Member]:
        """The fields of a model, those of its bases in front."""
        return {
            name: _of_info(name, info, info.rebuild_annotation())._replace(kw_only=True)
            for name, info in cls.model_fields.items()
        }

    def arguments(self, cls: type[Any]) -> dict[str, Member]:
        """None."""
        return {}

    def values(self, obj: BaseModel) -> dict[str, Any]:
        """The values that a model has, those that are no fields of it (``extra="allow"``) too."""
        values = vars(obj)
        fields = type(obj).model_fields
        return {name: values[name] for name in fields if name in values} | (obj.model_extra or {})

    def make(self, cls: type[BaseModel], values: Mapping[str, Any]) -> Any:
        """A model with these values, which are validated."""
        is_root = getattr(cls, "__pydantic_root_model__", False)
        return cls.model_validate(values["root"] if is_root else dict(values), by_alias=False, by_name=True)

    def takes_more(self, cls: type[BaseModel]) -> bool:
        """Whether a model can have values that are no fields."""
        return cls.model_config.get("extra") == "allow"

    def is_frozen(self, cls: type[BaseModel]) -> bool:
        """Whether the fields of a model cannot be set."""
        return bool(cls.model_config.get("frozen"))

    def can_be_base(self, cls: type[Any]) -> bool:
        """Never: models have a metaclass of their own."""
        return False

    def is_generated(self, function: types.CodeType) -> bool:
        """Whether it was pydantic that wrote a special method."""
        return _is_in("pydantic", function)

    def members(self, cls: type[Any]) -> dict[str, Any]:
        """What the body of a model says beside its fields."""
        private: Mapping[str, Any] = getattr(cls, "__private_attributes__", {})
        return {
            name: member
            for name, member in super().members(cls).items()
            if not name.startswith("__pydantic_") and name not in private and name != "model_post_init"
        }


DATACLASS, PYDANTIC_DATACLASS, ATTRS, PYDANTIC = Kind(), PydanticDataclass(), Attrs(), Pydantic()


#: what most values are, and no kind
PLAIN = frozenset({int, float, bool, complex, str, bytes, list, type(None)})


def kind_of(cls: type[Any]) -> Kind | None:
    """What a class of fields is read with; ``None`` for other classes, and for collections."""
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
    """The annotations of a class and its bases; none where one of them cannot be evaluated here."""
    try:
        # make_dataclass writes "typing.Any" where it is given no type
        return typing.get_type_hints(cls, localns={"typing": typing, cls.__name__: cls}, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _of_info(name: str, info: FieldInfo, hint: Any) -> Member:
    """A field of pydantic."""
    default: Any = MISSING
    factory: Any = info.default_factory
    if factory is not None:
        if info.default_factory_takes_validated_data:
            factory = _refused(name, "it is computed by pydantic from the other values")
    elif not info.is_required():
        default = info.default
        if default.__hash__ is None:  # pydantic copies what could be changed
            factory, default = functools.partial(copy.deepcopy, default), MISSING
    return Member(name, hint, default, factory, name, repr=info.repr)


def _refused(name: str, why: str) -> Callable[[], Any]:
    def factory() -> Any:
        raise TypeError(f"{name}: a record cannot make this default: {why}; give it a value")

    return factory


def _is_in(package: str, function: types.CodeType) -> bool:
    """Whether a function is one of a package."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and function.co_filename.startswith(file.removesuffix("__init__.py"))
