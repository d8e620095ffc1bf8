"""Records: collections whose keys are declared."""

from __future__ import annotations

import abc
import dataclasses
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self, dataclass_transform

from .fields import FieldSpec, Kind
from .td import pytree, shapes
from .td.base import TensorCollection
from .td.collection import Collection, as_device
from .td.nontensor import NonTensorData
from .td.printing import described
from .td.tensordict import TensorDict
from .td.values import batch_mismatch

if TYPE_CHECKING:
    from .td.collection import Store, Value

#: the options of a class, with their defaults
OPTIONS: dict[str, bool] = {
    "autocast": False,
    "nocast": False,
    "frozen": False,
    "tensor_only": False,
    "shadow": False,
    "kw_only": False,
}

_METADATA = ("batch_size", "device", "names")
#: what stands in the slot ``_context`` while ``__post_init__`` runs, which can set the fields of a frozen record
_IN_POST_INIT: Any = (None, ())
_FACTORY: Any = type("_Factory", (), {"__repr__": lambda self: "<factory>"})()


@dataclass_transform(field_specifiers=(dataclasses.field, dataclasses.Field), eq_default=False)
class RecordMeta(abc.ABCMeta):
    """Makes a class of records: fields become properties, and ``__init__`` is generated, once a class."""

    # a record has no virtual subclasses, and asking need not cost what it costs for abstract base classes
    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, is_base: bool = False, **kwargs: Any
    ) -> RecordMeta:
        given = {key: kwargs.pop(key) for key in OPTIONS.keys() & kwargs.keys()}
        # without a __dict__ an instance is small, and assigning an unknown attribute is an error
        namespace.setdefault("__slots__", ())
        try:
            cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        except TypeError as error:
            if kwargs and "takes no keyword arguments" in str(error):
                raise TypeError(f"{name}: unknown options {sorted(kwargs)}; there are {list(OPTIONS)}") from None
            raise
        if not is_base:
            _define(cls, given)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace)


if TYPE_CHECKING:

    class _Metadata(metaclass=RecordMeta, is_base=True):
        # arguments of every constructor that are no fields
        batch_size: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)
        device: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)
        names: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)
else:
    _Metadata = object


class TensorClass(TensorCollection, _Metadata, metaclass=RecordMeta, is_base=True):
    """The base of records: a class whose fields are tensors, other records, or objects, over one batch size.

    Declare fields as for a dataclass; instances behave like a dataclass, and like one tensor of the shape of their
    batch size.

        class Sample(TensorClass):
            image: Tensor
            label: Tensor
            source: str = ""

        batch = Sample(image=torch.zeros(32, 3, 8, 8), label=torch.zeros(32), batch_size=[32])
        batch[:8].reshape(2, 4)

    Fields are given by position or by keyword, in the order of their declaration; then, by keyword:

    Args:
        batch_size: the dimensions that all values have in front; none by default.
        device: values are moved there when they are written.
        names: a name or ``None`` for each batch dimension.

    Options are class keywords, ``class Sample(TensorClass, frozen=True)``, or ``TensorClass["frozen"]``:

    - ``autocast``: convert values to the type of the annotation (``int``, ``str``, ...).
    - ``nocast``: take only tensors for tensor fields; by default numbers, arrays and lists of numbers become tensors.
    - ``frozen``: fields cannot be set, replaced or removed.
    - ``tensor_only``: every field holds a tensor (or a collection), whatever its annotation.
    - ``shadow``: allow fields with the name of a method or attribute of records, which they then hide.
    - ``kw_only``: fields are given by keyword only.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # annotations that are no fields, and that typing.get_type_hints shall not find
        _specs: ClassVar[dict[str, FieldSpec]]
        _options: ClassVar[dict[str, bool]]
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:
        _specs = {}
        _options = dict(OPTIONS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Sets the fields given, for a class that defines ``__init__`` itself; others come from :func:`_generate_init`.

        Fields that are neither given nor have a default stay unset, to be assigned afterwards.
        """
        cls = type(self)
        fields = [f for f in dataclasses.fields(cls) if f.init]
        names = [f.name for f in fields if not f.kw_only]
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__}: expected at most {len(names)} positional arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        if twice := sorted(given.keys() & kwargs.keys()):
            raise TypeError(f"{cls.__name__}: got multiple values for {twice}")
        given.update(kwargs)
        metadata = {name: given.pop(name, None) for name in _METADATA if name not in cls._specs}
        if unexpected := [name for name in given if name not in [f.name for f in fields]]:
            raise TypeError(f"{cls.__name__}: got unexpected arguments {unexpected}; its fields are {list(cls._specs)}")
        self._set_up(given, **metadata)

    def _set_up(self, values: Mapping[str, Any], batch_size: Any = None, device: Any = None, names: Any = None) -> None:
        """Sets the metadata and the fields, from ``values`` or their defaults."""
        self._batch_size = shapes.as_size(batch_size)
        self._device = as_device(device)
        self._names = shapes.as_names(names, len(self._batch_size))
        self._lock = None
        self._store = {}
        for f in dataclasses.fields(self):
            if f.name in values:
                value = values[f.name]
            elif f.default is not dataclasses.MISSING:
                value = f.default
            elif f.default_factory is not dataclasses.MISSING:
                value = f.default_factory()
            else:
                continue
            spec = self._specs[f.name]
            if value is not None:
                self._store[f.name] = spec.fit(self, value)
            elif not spec.allows_none(self):
                raise spec.mismatch(value)

    def __class_getitem__(cls, item: Any) -> Any:
        options = item if isinstance(item, tuple) else (item,)
        generic = getattr(super(), "__class_getitem__", None)
        if options and all(isinstance(option, str) for option in options) and not cls._specs:
            unknown = [option for option in options if option not in OPTIONS]
            if not unknown:
                base = RecordMeta(cls.__name__, (cls,), {"__module__": cls.__module__}, is_base=True)
                base._options = {**cls._options, **dict.fromkeys(options, True)}  # type: ignore[attr-defined]
                return base
            if generic is None:
                raise ValueError(f"{cls.__name__}[...]: unknown options {unknown}; there are {list(OPTIONS)}")
        if generic is None:
            raise TypeError(f"{cls.__name__} is not generic: it cannot be subscripted with {item!r}")
        return generic(item)

    # -- fields -------------------------------------------------------------------------------------------------------

    @classmethod
    def fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The fields, as ``dataclasses.fields`` gives them."""
        return dataclasses.fields(cls)

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        return self._spec(key).fit(self, value, non_blocking)

    def _spec(self, key: str) -> FieldSpec:
        try:
            return self._specs[key]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no field {key!r}; its fields are {list(self._specs)}"
            ) from None

    def _check_new_key(self, key: str) -> None:
        self._spec(key)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        self._check_unlocked()
        spec = self._spec(key)
        if value is None or _is_none(value):
            if not spec.allows_none(self):
                raise spec.mismatch(value)
            self._store.pop(key, None)
        else:
            self._store[key] = spec.fit(self, value, non_blocking)

    def _holds_none(self, key: str) -> bool:
        return key in self._specs and self._specs[key].optional

    def _merges(self, source: object) -> bool:
        # a record of another class does not fit here, whatever the names of its fields: writing it whole says so
        return super()._merges(source) and (type(source) is type(self) or not isinstance(source, TensorClass))

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Moves the value of a field to another one that it fits; see :meth:`TensorDict.rename_key_`."""
        self._check_unlocked()
        if type(old_key) is not str or type(new_key) is not str or old_key not in self._store:
            return super().rename_key_(old_key, new_key, safe)
        value = self._spec(new_key).fit(self, self._store[old_key])
        super().rename_key_(old_key, new_key, safe)
        self._store[new_key] = value
        return self

    # -- as a dataclass -----------------------------------------------------------------------------------------------

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """A record that shares the values, but for those given: ``record.replace(label=...)``."""
        if len(args) > 1:
            raise TypeError(
                f"replace: expected one mapping or record and keywords, got {len(args)} positional arguments"
            )
        new = self._shallow()
        for source in (*args, kwargs):
            for key, value in (source._store if isinstance(source, Collection) else source).items():
                spec = new._spec(key)
                if value is not None and not _is_none(value):
                    new._store[key] = spec.fit(new, value)
                elif spec.allows_none(new):
                    new._store.pop(key, None)
                else:
                    raise spec.mismatch(value)
        return new

    def __replace__(self, /, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    # -- with others -----------------------------------------------------------------------------------------------------

    def _stack(self, items: list[Any], dim: int) -> Self:
        self._check_class("stack", items)
        return super()._stack(items, dim)

    def _cat(self, items: list[Any], dim: int) -> Self:
        self._check_class("cat", items)
        return super()._cat(items, dim)

    def _check_class(self, what: str, items: list[Any]) -> None:
        cls = type(self)
        if [type(item) for item in items].count(cls) == len(items):
            return
        for position, item in enumerate(items):
            if not isinstance(item, cls):
                raise TypeError(
                    f"{what}: all of them must be records of the class {cls.__name__}; item {position} is a "
                    f"{type(item).__name__}"
                )

    # -- other keys: what does not have the declared fields is a TensorDict ---------------------------------------------

    def _untyped(self, store: Store) -> TensorCollection:
        return TensorDict._of(self, store)

    def flatten_keys(
        self, separator: str = ".", inplace: bool = False, is_leaf: Callable[[type], bool] | None = None
    ) -> Any:
        """The leaves under keys joined by ``separator``, on one level: a :class:`TensorDict`."""
        self._refuse_inplace("flatten_keys", inplace)
        return super().flatten_keys(separator, False, is_leaf)

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Any:
        """A :class:`TensorDict` in which keys that hold ``separator`` are nested."""
        self._refuse_inplace("unflatten_keys", inplace)
        return super().unflatten_keys(separator, False)

    def _refuse_inplace(self, what: str, inplace: bool) -> None:
        if inplace:
            raise TypeError(
                f"{what}(inplace=True): the keys of a {type(self).__name__} are declared, they cannot change"
            )

    # -- in and out ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_tensordict(
        cls,
        tensordict: Collection | Mapping[str, Any],
        non_tensordict: Mapping[str, Any] | None = None,
        safe: bool = True,
    ) -> Self:
        """A record on the values of a collection whose keys are its fields.

        Args:
            tensordict: the collection; its values are shared, not copied.
            non_tensordict: more fields, by name.
            safe: refuse a mapping; otherwise one is taken too.

        Raises:
            ValueError: a key is no field, or a field without default is missing; all of them are listed.
        """
        if isinstance(tensordict, Collection):
            items = {**tensordict._store, **(non_tensordict or {})}
            return cls._from_mapping(items, tensordict._batch_size, tensordict._device, tensordict._names)
        if safe or not isinstance(tensordict, Mapping):
            raise TypeError(f"from_tensordict: expected a collection, got a {type(tensordict).__name__}")
        return cls._from_mapping({**tensordict, **(non_tensordict or {})}, None, None, None)

    @classmethod
    def _from_mapping(cls, source: Mapping[Any, Any], batch_size: Any, device: Any, names: Any) -> Self:
        known = {f.name: f for f in dataclasses.fields(cls)}
        unexpected = [key for key in source if key not in known]
        absent = [
            name
            for name, f in known.items()
            if name not in source
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
            and f.init
        ]
        missing = [name for name in absent if not cls._specs[name].optional]
        source = {key: None if _is_none(value) else value for key, value in source.items()}
        source.update((name, None) for name in absent if name not in missing)
        if unexpected or missing:
            raise ValueError(
                f"{cls.__name__}: the keys must be the fields {list(known)};"
                + (f" missing: {missing}" if missing else "")
                + (f" unexpected: {unexpected}" if unexpected else "")
            )
        if not getattr(cls.__init__, "__generated__", False):  # what it takes is its own affair
            record = object.__new__(cls)
            record._set_up(source, batch_size, device, names)
            return record
        metadata = {"batch_size": batch_size, "device": device, "names": names}
        values = {key: value for key, value in source.items() if known[key].init}
        record = cls(**values, **{key: value for key, value in metadata.items() if key not in cls._specs})
        for key, value in source.items():
            if not known[key].init and value is not None:
                record._store[key] = record._spec(key).fit(record, value)
        if "device" in cls._specs and device is not None:  # fields of a class with shadow=True
            record = TensorCollection.to(record, device)
        if "names" in cls._specs and names is not None:
            record._set_names(shapes.as_names(names, len(record._batch_size)))
        return record

    @classmethod
    def fromkeys(cls, keys: Any, value: Any = 0) -> Self:
        """A record without batch dimensions that has ``value`` in each of the fields named."""
        return cls._from_mapping(dict.fromkeys(keys, value), None, None, None)

    def _items_for_export(self, retain_none: bool) -> Any:
        for name in self._specs:
            if name in self._store:
                yield name, self._store[name]
            elif retain_none:
                yield name, NonTensorData(None, batch_size=self._batch_size, device=self._device)

    def __repr__(self) -> str:
        store = self._store
        shown = [
            f.name for f in dataclasses.fields(self) if f.repr and (f.name in store or self._specs[f.name].optional)
        ]
        parts = [f"{name}={_shown(store.get(name))}" for name in shown]
        parts += [f"batch_size={self._batch_size}", f"device={self._device}"]
        if self._names is not None:
            parts.append(f"names={list(self._names)}")
        parts.append(f"is_shared={TensorCollection.is_shared(self)}")
        return f"{type(self).__name__}(\n    " + ",\n    ".join(part.replace("\n", "\n    ") for part in parts) + ")"


def _is_none(value: Any) -> bool:
    """Whether a value is what stands for ``None`` in a collection."""
    return type(value) is NonTensorData and value._objects[0] is None


def _shown(value: Any) -> str:
    return described(value._unwrapped() if isinstance(value, NonTensorData) else value)


# ---------------------------------------------------------------------------------------------------------------------
# what is different in a frozen class


class _Frozen:
    """Members that :func:`_define` puts into every frozen class, so that other classes do not pay for them."""

    def _check_unlocked(self: Any) -> None:
        if getattr(self, "_context", None) is not _IN_POST_INIT:
            raise dataclasses.FrozenInstanceError(
                f"{type(self).__name__} is frozen: its fields cannot be set, replaced or removed; "
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


# ---------------------------------------------------------------------------------------------------------------------
# defining a class


def _define(cls: Any, given: Mapping[str, bool]) -> None:
    """Turns the annotations of a new class into fields, properties and ``__init__``."""
    options, kw_only = _combined_options(cls, given)
    cls._options = options
    own = vars(cls)
    annotations = _annotations(cls)
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
            spec = FieldSpec(cls.__name__, f.name, f.type, cls.__module__, scope, options, f.default is None)
            setattr(cls, f.name, _property(spec, options["frozen"]))
        else:
            spec = _inherited(cls, f).under(options)
            if not _has_property(cls, spec):
                setattr(cls, f.name, _property(spec, options["frozen"]))
        specs[f.name] = spec
    is_new = "_specs" not in own
    cls._specs = specs
    if not _has_own_init(cls):
        cls.__init__ = _generate_init(cls, specs)
    if options["frozen"]:
        for name, member in _FROZEN_MEMBERS.items():
            setattr(cls, name, member)
    if cls.__abstractmethods__:
        abc.update_abstractmethods(cls)  # a field makes an abstract property of a base concrete
    if cls.__dictoffset__ and cls.__setattr__ is object.__setattr__:
        cls.__setattr__ = _strict_setattr
    if is_new:
        pytree.register(cls)


def redefine(cls: Any, given: Mapping[str, bool]) -> None:
    """Gives a class that is defined already more options, as a decorator over a class derived from a record does."""
    _check_options(cls, given)
    own = vars(cls)
    for name in _annotations(cls):
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
    _define(cls, {**{name: True for name, on in cls._options.items() if on}, **given})


def _check_options(cls: Any, given: Mapping[str, Any]) -> None:
    if unknown := [name for name in given if name not in OPTIONS]:
        raise TypeError(f"{cls.__name__}: unknown options {unknown}; there are {list(OPTIONS)}")
    for name, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{cls.__name__}: the option {name} is True or False, got {value!r}")


def _combined_options(cls: Any, given: Mapping[str, bool]) -> tuple[dict[str, bool], bool]:
    """The options that hold for a class and its subclasses, and ``kw_only``, which is about the fields of one class."""
    _check_options(cls, given)
    options = {**OPTIONS}
    for base in reversed(cls.__mro__[1:]):
        inherited = base.__dict__.get("_options")
        if isinstance(inherited, dict):
            options.update({name: True for name, on in inherited.items() if on})
    if options["frozen"] and not given.get("frozen", True):
        raise TypeError(f"{cls.__name__}: frozen=False, but a class that it derives from is frozen")
    kw_only = given.get("kw_only", any(vars(base).get("_options", OPTIONS)["kw_only"] for base in cls.__bases__))
    options.update(given)
    options["kw_only"] = False
    if options["autocast"] and options["nocast"]:
        raise ValueError(f"{cls.__name__}: the options autocast and nocast exclude each other")
    return options, kw_only


def _annotations(cls: Any) -> dict[str, Any]:
    """The annotations of this class alone, without evaluating those that are text."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return dict(cls.__dict__.get("__annotations__", {}))


def _refuse_hidden(cls: Any, annotations: Mapping[str, Any]) -> None:
    """A class attribute of the name of an inherited field would hide the field."""
    own = vars(cls)
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
        inherited = next(
            (b.__dataclass_fields__[name] for b in bases if name in getattr(b, "__dataclass_fields__", ())), None
        )
        if inherited is not None:
            kwargs: dict[str, Any] = {"default": inherited.default}
            if inherited.default_factory is not dataclasses.MISSING:
                kwargs = {"default_factory": inherited.default_factory}
            setattr(cls, name, dataclasses.field(**kwargs))
            continue
        base = next((base for base in bases if name in base.__dict__), None)
        # an attribute of a plain base is a default, as in dataclasses; a method or property of it, or of records, is none
        if base is not None and (name in _RESERVED or hasattr(base.__dict__[name], "__get__")):
            setattr(cls, name, dataclasses.field())


def _make_dataclass(cls: Any, annotations: Mapping[str, Any], kw_only: bool) -> None:
    has_match_args = "__match_args__" in vars(cls)
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    if any(name in annotations for name in _METADATA):
        # a field of that name (with shadow=True) comes where it is declared, not where the argument stands in the bases
        fields = cls.__dataclass_fields__
        inherited = {name for base in cls.__bases__ for name in getattr(base, "_specs", ())}
        new = [name for name in annotations if name in fields and name not in inherited]
        cls.__dataclass_fields__ = {k: f for k, f in fields.items() if k not in new} | {name: fields[name] for name in new}
        if not has_match_args:
            cls.__match_args__ = tuple([f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only])


def _refuse_reserved(cls: Any, fields: Sequence[dataclasses.Field[Any]], annotations: Mapping[str, Any]) -> None:
    names = [f.name for f in fields]
    for name in annotations:  # what is given to __post_init__ has a name too
        f = cls.__dataclass_fields__.get(name)
        if f is not None and f._field_type is dataclasses._FIELD_INITVAR:
            if name in _METADATA:
                raise AttributeError(
                    f"{cls.__name__}: {name} is an argument of every record's constructor; rename yours"
                )
            names.append(name)
    taken = _RESERVED.intersection(names)
    if taken and not cls._options["shadow"]:
        raise AttributeError(
            f"{cls.__name__}: records have members of their own with the names {sorted(taken)}, which operations need; rename "
            f"the fields, or hide the members with the option shadow=True: class {cls.__name__}(..., shadow=True)"
        )
    if "batch_size" in taken:
        raise AttributeError(
            f"{cls.__name__}: no field can be called batch_size: the constructor takes it; rename the field"
        )


def _scope(cls: Any, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The names that annotations which are text can use beside those of the module: those of the function around the
    class statement, and of the class itself.
    """
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _DEFINING:
        frame = frame.f_back
    while frame is not None and not frame.f_code.co_flags & _OPTIMIZED and frame.f_code.co_name != "<module>":
        frame = frame.f_back  # the body of a class around this one: its names are not seen from within
    module = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    scope: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if name not in annotations and name not in module and not name.startswith("__"):
            scope[name] = value
    if frame is not None and frame.f_globals is not module:  # code that was run with names of its own
        scope.update(frame.f_globals)
    if frame is not None and frame.f_locals is not frame.f_globals:
        scope.update(frame.f_locals)
    scope[cls.__name__] = cls
    return scope


#: the modules between the place where a class is written and _scope
_DEFINING = (__name__, f"{__package__}.decorator", "types")
_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: the code of a function


def _inherited(cls: Any, f: dataclasses.Field[Any]) -> FieldSpec:
    """The spec of a field that a base declared."""
    for base in cls.__mro__[1:]:
        specs: dict[str, FieldSpec] = base.__dict__.get("_specs", {})
        if f.name in specs and base.__dataclass_fields__[f.name] is f:
            return specs[f.name]
    raise AssertionError(f"{cls.__name__}: no base declares the field {f.name!r}")


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

    def get_value(self: TensorClass) -> Any:
        try:
            return self._store[name]
        except KeyError:
            raise AttributeError(removed) from None

    def get_optional(self: TensorClass) -> Any:
        return self._store.get(name)

    def get_object(self: TensorClass) -> Any:
        value = self._store.get(name)
        if value is None:
            if not spec.optional:
                raise AttributeError(removed)
            return None
        return value if isinstance(value, Tensor) else value._unwrapped()

    def set_tensor(self: TensorClass, value: Any) -> None:
        if (
            self._lock is None
            and isinstance(value, Tensor)
            and value.shape[: len(self._batch_size)] == self._batch_size
            and (self._device is None or value.device == self._device)
        ):
            self._store[name] = value
        else:
            self._set(name, value)

    def set_value(self: TensorClass, value: Any) -> None:
        self._set(name, value)

    def delete(self: TensorClass) -> None:
        self._check_unlocked()
        if name in self._store:
            del self._store[name]
        elif not spec.optional:
            raise AttributeError(removed)

    getter = get_object if not tensor else get_optional if spec.optional else get_value
    if name in _RESERVED:
        getter = _hiding(name, getter, frozen)
    setter = set_tensor if spec.kind is Kind.TENSOR and not frozen else set_value
    return property(getter, setter, delete)


def _hiding(name: str, getter: Callable[[Any], Any], frozen: bool) -> Callable[[Any], Any]:
    """The getter of a field that hides a member of records: the engine, which needs the member, still sees that."""
    member = _FROZEN_MEMBERS[name] if frozen and name in _FROZEN_MEMBERS else inspect.getattr_static(TensorClass, name)

    def get(self: TensorClass) -> Any:
        # (torch.compile cannot trace the question who asks)
        if is_dynamo_compiling() or not sys._getframe(1).f_globals.get("__name__", "").startswith(_ENGINE):
            return getter(self)
        return member.__get__(self, type(self))

    return get


_ENGINE = f"{__package__}.td."


def _has_own_init(cls: Any) -> bool:
    """Whether this class, or a record that it derives from, defines ``__init__`` by hand: as a method, it is inherited."""
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
        "__as_names": shapes.as_names,
        "__as_device": as_device,
        "__mismatch": batch_mismatch,
        "__FACTORY": _FACTORY,
        "__IN_POST_INIT": _IN_POST_INIT,
    }
    metadata = [name for name in _METADATA if name not in specs]
    me = "__self" if "self" in cls.__dataclass_fields__ else "self"
    device = "device" if "device" in metadata else "__device"
    positional: list[str] = []
    keyword: list[str] = []
    body: list[str] = []
    post: list[str] = []
    parameters: dict[str, Any] = {}
    seen_default = ""
    for f in cls.__dataclass_fields__.values():
        kind = f._field_type
        name = f.name
        if kind is dataclasses._FIELD_CLASSVAR or (name in _METADATA and name not in specs):  # type: ignore[attr-defined]
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
                        f"{cls.__name__}: the field {name!r} without a default follows {seen_default!r}, which has one; give "
                        f"it one too, or make it keyword-only: class {cls.__name__}(..., kw_only=True)"
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
            body += [f"if {name} is __FACTORY:", f"    {name} = __factory_{name}()"]
        body += _enter(specs[name], space, me, device)
    signature = ", ".join([me, *positional, "*", *keyword, *[f"{name}=None" for name in metadata]])
    lines = [
        f"def __init__({signature}):",
        "    __size = batch_size if __type(batch_size) is __Size else __as_size(batch_size)",
        "    __ndim = __len(__size)",
        *(
            ["    if device is not None:", "        device = __as_device(device)"]
            if device in metadata
            else ["    __device = None"]
        ),
        f"    {me}._batch_size = __size",
        f"    {me}._device = {device}",
        f"    {me}._names = "
        + ("None if names is None else __as_names(names, __ndim)" if "names" in metadata else "None"),
        f"    {me}._lock = None",
        f"    {me}._store = __store = {{}}",
        *(f"    {line}" for line in body),
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


def _enter(spec: FieldSpec, space: dict[str, Any], me: str, device: str) -> list[str]:
    """The lines of ``__init__`` that check one field and store it."""
    name = spec.name
    own = f"__spec_{name}"
    space[own] = spec
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
    else:
        lines = [f"if {name} is not None:", f"    __store[{name!r}] = {own}.fit({me}, {name})"]
    if spec.kind is None:  # what it names is not defined yet
        lines += [f"elif not {own}.allows_none({me}):", f"    raise {own}.mismatch({name})"]
    elif not spec.optional:
        lines += ["else:", f"    raise {own}.mismatch({name})"]
    return lines


def _strict_setattr(self: Any, name: str, value: Any) -> None:
    """For classes whose plain bases bring a ``__dict__`` along: only what the class has a place for can be assigned."""
    if not hasattr(getattr(type(self), name, None), "__set__"):
        raise AttributeError(f"{type(self).__name__} has no field {name!r}; its fields are {list(self._specs)}")
    object.__setattr__(self, name, value)


_RESERVED = frozenset(name for name in dir(TensorClass) if not name.startswith("__")) | set(_METADATA)
# batch_size, device and names are arguments of __init__ that are no fields: what dataclasses call InitVar. Declared so,
# dataclasses.replace passes them on.
TensorClass.__dataclass_fields__ = {}
TensorClass.__dataclass_params__ = dataclasses._DataclassParams(  # type: ignore[attr-defined]
    **dict.fromkeys(dataclasses._DataclassParams.__slots__, False)  # type: ignore[attr-defined]
)
for _name in _METADATA:
    _field: Any = dataclasses.field(default=None, kw_only=True)
    _field.name = _name
    _field.type = dataclasses.InitVar
    _field._field_type = dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
    TensorClass.__dataclass_fields__[_name] = _field
