"""Records: collections whose keys are declared."""

from __future__ import annotations

import abc
import dataclasses
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Size, Tensor
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
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        if not is_base:
            _define(cls, given, "__init__" in namespace)
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

    _specs: ClassVar[dict[str, FieldSpec]] = {}
    _options: ClassVar[dict[str, bool]] = dict(OPTIONS)

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __class_getitem__(cls, item: Any) -> Any:
        options = item if isinstance(item, tuple) else (item,)
        if options and all(isinstance(option, str) for option in options) and not cls._specs:
            unknown = [option for option in options if option not in OPTIONS]
            if unknown:
                raise ValueError(f"TensorClass[...]: unknown options {unknown}; there are {list(OPTIONS)}")
            base = RecordMeta(cls.__name__, (cls,), {"__module__": cls.__module__}, is_base=True)
            base._options = {**cls._options, **dict.fromkeys(options, True)}  # type: ignore[attr-defined]
            return base
        generic = getattr(super(), "__class_getitem__", None)
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
        if value is None:
            if not (spec.optional or spec._known_kind(self) is Kind.ANY):
                raise spec.mismatch(value)
            self._store.pop(key, None)
        else:
            self._store[key] = spec.fit(self, value, non_blocking)

    def _check_unlocked(self) -> None:
        if self._options["frozen"]:
            raise dataclasses.FrozenInstanceError(
                f"{type(self).__name__} is frozen: its fields cannot be set, replaced or removed; "
                f"make a changed one with dataclasses.replace or .replace(...)"
            )
        super()._check_unlocked()

    @property
    def is_locked(self) -> bool:
        """Whether fields are protected from being set, replaced or removed."""
        return self._lock is not None or self._options["frozen"]

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def unlock_(self) -> Self:
        """Unlocks the fields; an error for a frozen class."""
        if self._options["frozen"]:
            self._check_unlocked()
        return super().unlock_()

    # -- as a dataclass -----------------------------------------------------------------------------------------------

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """A record that shares the values, but for those given: ``record.replace(label=...)``."""
        if len(args) > 1:
            raise TypeError(f"replace: expected one mapping or record and keywords, got {len(args)} positional arguments")
        new = self._shallow()
        for source in (*args, kwargs):
            for key, value in (source._store if isinstance(source, Collection) else source).items():
                spec = new._spec(key)
                if value is None and spec.optional:
                    new._store.pop(key, None)
                elif value is None:
                    raise spec.mismatch(value)
                else:
                    new._store[key] = spec.fit(new, value)
        return new

    def __replace__(self, /, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

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
            raise TypeError(f"{what}(inplace=True): the keys of a {type(self).__name__} are declared, they cannot change")

    # -- in and out ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_tensordict(
        cls, tensordict: Collection | Mapping[str, Any], non_tensordict: Mapping[str, Any] | None = None, safe: bool = True
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
        missing = [
            name
            for name, f in known.items()
            if name not in source and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and f.init
        ]
        if unexpected or missing:
            raise ValueError(
                f"{cls.__name__}: the keys must be the fields {list(known)};"
                + (f" missing: {missing}" if missing else "")
                + (f" unexpected: {unexpected}" if unexpected else "")
            )
        values = {key: value for key, value in source.items() if known[key].init}
        record = cls(**values, batch_size=batch_size, device=device, names=names)
        for key, value in source.items():
            if not known[key].init:
                record._store[key] = record._spec(key).fit(record, value)
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
        shown = [f.name for f in dataclasses.fields(self) if f.repr and (f.name in store or self._specs[f.name].optional)]
        parts = [f"{name}={_shown(store.get(name))}" for name in shown]
        parts += [f"batch_size={self._batch_size}", f"device={self._device}"]
        if self._names is not None:
            parts.append(f"names={self.names}")
        parts.append(f"is_shared={self.is_shared()}")
        return f"{type(self).__name__}(\n    " + ",\n    ".join(part.replace("\n", "\n    ") for part in parts) + ")"


def _shown(value: Any) -> str:
    return described(value._unwrapped() if isinstance(value, NonTensorData) else value)


# ---------------------------------------------------------------------------------------------------------------------
# defining a class


def _define(cls: Any, given: Mapping[str, Any], has_init: bool) -> None:
    """Turns the annotations of a new class into fields, properties and ``__init__``."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{cls.__name__}: the option {name} is True or False, got {value!r}")
    # kw_only is about the fields of one class, as in dataclasses; the other options hold for subclasses too
    options = {**OPTIONS}
    for base in reversed(cls.__mro__[1:]):
        inherited = base.__dict__.get("_options")
        if isinstance(inherited, dict):
            options.update({name: True for name, on in inherited.items() if on})
    kw_only = given.get("kw_only", options["kw_only"] and not _fields_of_bases(cls))
    options.update(given)
    options["kw_only"] = False
    if options["autocast"] and options["nocast"]:
        raise ValueError(f"{cls.__name__}: the options autocast and nocast exclude each other")
    cls._options = options
    annotations = _annotations(cls)
    _restore_defaults(cls, annotations)
    if cls.__doc__ is None:
        cls.__doc__ = f"A record with the fields {', '.join(annotations) or 'of its bases'}."
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    fields = [f for f in cls.__dataclass_fields__.values() if f._field_type is dataclasses._FIELD]  # type: ignore[attr-defined]
    if not options["shadow"]:
        _refuse_reserved(cls, fields)
    scope = _scope(cls)
    specs: dict[str, FieldSpec] = {}
    for f in fields:
        spec = cls._specs.get(f.name)
        if spec is None or f.name in annotations:
            spec = FieldSpec(cls.__name__, f.name, f.type, cls.__module__, scope, options, f.default is None)
        specs[f.name] = spec
        if f.name in annotations:
            setattr(cls, f.name, _property(spec, options["frozen"]))
        elif options["frozen"] and not _is_frozen(cls.__mro__[1:], f.name):
            setattr(cls, f.name, _property(spec, True))
    cls._specs = specs
    if not has_init and not _has_own_init(cls):
        cls.__init__ = _generate_init(cls, specs, options)
    if cls.__dictoffset__:
        cls.__setattr__ = _strict_setattr
    pytree.register(cls)


def _fields_of_bases(cls: Any) -> bool:
    return any(getattr(base, "_specs", None) for base in cls.__mro__[1:])


def _annotations(cls: Any) -> dict[str, Any]:
    """The annotations of this class alone, without evaluating those that are text."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return dict(cls.__dict__.get("__annotations__", {}))


def _restore_defaults(cls: Any, annotations: Mapping[str, Any]) -> None:
    """Keeps ``dataclasses`` from taking what a base class has under a field's name (its property) for a default."""
    own = cls.__dict__
    for name in annotations:
        if name in own:
            continue
        inherited = next((b.__dataclass_fields__[name] for b in cls.__mro__[1:] if name in getattr(b, "__dataclass_fields__", ())), None)
        if inherited is not None:
            kwargs: dict[str, Any] = {"default": inherited.default}
            if inherited.default_factory is not dataclasses.MISSING:
                kwargs = {"default_factory": inherited.default_factory}
            setattr(cls, name, dataclasses.field(**kwargs))
        elif hasattr(cls, name):
            setattr(cls, name, dataclasses.field())


def _refuse_reserved(cls: Any, fields: Sequence[dataclasses.Field[Any]]) -> None:
    taken = [f.name for f in fields if f.name in _RESERVED]
    if taken:
        raise AttributeError(
            f"{cls.__name__}: records have members of their own with the names {taken}, which operations need; rename the "
            "fields, or hide the members with the option shadow=True"
        )


def _scope(cls: Any) -> dict[str, Any]:
    """The names around a class statement inside a function, and the class itself, for annotations that are text."""
    scope: dict[str, Any] = {}
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(__package__ + "."):
        module = frame.f_globals["__name__"]
        if module not in (__name__, f"{__package__}.decorator"):
            break
        frame = frame.f_back
    if frame is not None and frame.f_code.co_name != "<module>":
        scope.update(frame.f_locals)
    scope[cls.__name__] = cls
    return scope


def _is_frozen(bases: Sequence[type], name: str) -> bool:
    found = next((base.__dict__[name] for base in bases if name in base.__dict__), None)
    return isinstance(found, property) and found.fset is not None and found.fset.__name__ == "refuse"


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

    def refuse(self: TensorClass, value: Any) -> None:
        self._check_unlocked()

    def delete(self: TensorClass) -> None:
        self.del_(name)

    getter = get_object if not tensor else get_optional if spec.optional else get_value
    setter = refuse if frozen else set_tensor if spec.kind is Kind.TENSOR else set_value
    return property(getter, setter, delete)


def _has_own_init(cls: Any) -> bool:
    """Whether a base other than a record defines ``__init__``, or a record base does by hand."""
    for base in cls.__mro__[1:]:
        if base is TensorClass:
            return False
        init = base.__dict__.get("__init__")
        if init is not None:
            return not getattr(init, "__generated__", False) and isinstance(base, RecordMeta)
    return False


def _generate_init(cls: Any, specs: Mapping[str, FieldSpec], options: Mapping[str, bool]) -> Callable[..., None]:
    """``__init__`` as text, compiled: each field's part is written for what the field holds."""
    space: dict[str, Any] = {
        "Tensor": Tensor,
        "Size": Size,
        "as_size": shapes.as_size,
        "as_names": shapes.as_names,
        "as_device": as_device,
        "batch_mismatch": batch_mismatch,
        "FACTORY": _FACTORY,
    }
    positional: list[str] = []
    keyword: list[str] = []
    body: list[str] = []
    post: list[str] = []
    seen_default = ""
    for f in cls.__dataclass_fields__.values():
        kind = f._field_type
        if kind is dataclasses._FIELD_CLASSVAR or (f.name in _METADATA and f.name not in specs):  # type: ignore[attr-defined]
            continue
        name = f.name
        default = ""
        if f.default is not dataclasses.MISSING:
            space[f"default_{name}"] = f.default
            default = f" = default_{name}"
        elif f.default_factory is not dataclasses.MISSING:
            space[f"factory_{name}"] = f.default_factory
            default = " = FACTORY"
        if f.init:
            if f.kw_only:
                keyword.append(f"{name}{default}")
            else:
                if seen_default and not default:
                    raise TypeError(f"{cls.__name__}: the field {name!r} without a default follows {seen_default!r}, which has one")
                seen_default = name if default else seen_default
                positional.append(f"{name}{default}")
        elif default:
            body.append(f"{name} = {default[3:]}")
        else:
            continue
        if kind is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            post.append(name)
            continue
        if f.default_factory is not dataclasses.MISSING:
            body += [f"if {name} is FACTORY:", f"    {name} = factory_{name}()"]
        body += _enter(specs[name], space)
    signature = ", ".join(["self", *positional, "*", *keyword, "batch_size=None", "device=None", "names=None"])
    lines = [
        f"def __init__({signature}):",
        "    size = batch_size if type(batch_size) is Size else as_size(batch_size)",
        "    ndim = len(size)",
        "    if device is not None:",
        "        device = as_device(device)",
        "    self._batch_size = size",
        "    self._device = device",
        "    self._names = None if names is None else as_names(names, ndim)",
        "    self._lock = None",
        "    self._store = store = {}",
        *(f"    {line}" for line in body),
    ]
    if hasattr(cls, "__post_init__"):
        lines.append(f"    self.__post_init__({', '.join(post)})")
    source = "\n".join(lines) + "\n"
    filename = f"<generated __init__ of {cls.__module__}.{cls.__qualname__}>"
    exec(compile(source, filename, "exec"), space)
    # so that a debugger and a traceback show the text
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    init: Any = space["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {
        f.name: f.type for f in cls.__dataclass_fields__.values() if f.init and f.name in specs
    } | {"return": None}
    init.__generated__ = True
    return init  # type: ignore[no-any-return]


def _enter(spec: FieldSpec, space: dict[str, Any]) -> list[str]:
    """The lines of ``__init__`` that check one field and store it."""
    name = spec.name
    space[f"spec_{name}"] = spec
    if spec.kind is Kind.TENSOR:
        lines = [
            f"if isinstance({name}, Tensor):",
            f"    shape = {name}.shape",
            "    if shape != size and shape[:ndim] != size:",
            f"        raise batch_mismatch({name!r}, size, shape)",
            f"    store[{name!r}] = {name} if device is None or {name}.device == device else {name}.to(device)",
            f"elif {name} is not None:",
            f"    store[{name!r}] = spec_{name}.fit(self, {name})",
        ]
    else:
        lines = [f"if {name} is not None:", f"    store[{name!r}] = spec_{name}.fit(self, {name})"]
    if not spec.optional and spec.kind is not None:
        lines += ["else:", f"    raise spec_{name}.mismatch({name})"]
    return lines


def _strict_setattr(self: Any, name: str, value: Any) -> None:
    """For classes whose plain bases bring a ``__dict__`` along: only what the class knows can be assigned."""
    if not hasattr(type(self), name):
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
