"""A TensorDict with declared keys: ``data.image`` beside ``data["image"]``, and any other keys as well."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import typing_extensions
from torch import Tensor
from typing_extensions import Self, dataclass_transform

from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.td import pytree
from tensorclass.td.collection import Collection
from tensorclass.td.hidden_members import hide_member, with_members
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.stores.lazy import LazyStacked
from tensorclass.td.stores.store_classes import OnStore, on_store
from tensorclass.td.tensordict import TensorDict

from .definition import annotations_of, scope_of
from .field_names import NEED_SHADOW, unusable
from .field_specifier import field, has_name
from .fields import FieldSpec, Kind, Unresolved, classify, evaluated
from .record import OPTIONS

if TYPE_CHECKING:
    from tensorclass.td.collection import DeviceLike, Value


@dataclass_transform(
    kw_only_default=True, field_specifiers=(field, dataclasses.field, dataclasses.Field), eq_default=False
)
class TypedMeta(type):
    """Makes a class of typed TensorDicts: the declared keys become properties."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        given = {key: kwargs.pop(key) for key in (*_OPTIONS, *_OF_RECORDS) if key in kwargs}
        # without a __dict__ assigning an attribute that is no key is an error
        namespace.setdefault("__slots__", ())
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        if any(isinstance(base, TypedMeta) for base in bases) and not issubclass(cls, OnStore):
            _declare(cls, given)
            pytree.register(cls)  # type: ignore[arg-type]
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace)


if TYPE_CHECKING:

    class _Declared(metaclass=TypedMeta):
        # arguments of every constructor that are no keys
        batch_size: dataclasses.InitVar[Sequence[int] | int | None] = dataclasses.field(default=None)
        device: dataclasses.InitVar[DeviceLike | None] = dataclasses.field(default=None)
        names: dataclasses.InitVar[Sequence[str | None] | None] = dataclasses.field(default=None)
        non_blocking: dataclasses.InitVar[bool | None] = dataclasses.field(default=None)
        lock: dataclasses.InitVar[bool] = dataclasses.field(default=False)
else:
    _Declared = object

# typing has one of its own from Python 3.11 on; typing_extensions' differs from it in some versions
_NOT_REQUIRED = (typing_extensions.NotRequired, getattr(typing, "NotRequired", typing_extensions.NotRequired))
_ARGUMENTS = ("batch_size", "device", "names", "non_blocking", "lock")
_OPTIONS = ("shadow", "frozen")
#: options of records, which look at what is written
_OF_RECORDS = ("autocast", "nocast", "tensor_only")


class TypedTensorDict(  # pyright: ignore[reportIncompatibleVariableOverride]  # arguments named as properties are
    TensorDict, _Declared, metaclass=TypedMeta
):
    """A :class:`TensorDict` whose keys are declared, as those of a ``TypedDict`` are.

    The declared keys are attributes, and the constructor requires them. Otherwise it is a TensorDict: it takes further
    keys and any values, and operations return its class whatever keys the result has. Only lists and other rows under
    the key of a column (:class:`Text`, :class:`Ragged`, :class:`Column`) are converted. To check types and to refuse
    other keys, declare a record: a :class:`TensorClass`.

    ``NotRequired[...]`` marks a key that may be missing, as a default does. A class inherits the keys of its bases.

    Args:
        source: a mapping or a collection with the required keys, and any others; or give the values of declared keys by
            keyword.
        batch_size: the leading dimensions that all values share; none by default.
        device: the device that values are moved to when they are written; by default they stay where they are.
        names: a name or ``None`` for each batch dimension.
        non_blocking: do not wait for transfers to the device.
        lock: lock the keys. Default: ``False``.
        values: values of declared keys, instead of ``source``.

    Options are class keywords, ``class State(TypedTensorDict, frozen=True)``, or ``TypedTensorDict["frozen"]``:

    - ``shadow``: allow a key called ``shape``, which hides the attribute, as a key with any other name of a member
      does.
    - ``frozen``: the constructor locks the collection.

    Raises:
        TypeError: a required key is missing, or a keyword is not a declared key.

    Example:
        >>> import torch
        >>> from torch import Tensor
        >>> from typing_extensions import NotRequired
        >>> from tensorclass import TypedTensorDict
        >>> class State(TypedTensorDict):
        ...     observation: Tensor
        ...     reward: NotRequired[Tensor]
        >>> state = State(observation=torch.zeros(3, 4), batch_size=[3])
        >>> state.observation is state["observation"], "reward" in state
        (True, False)
        >>> state.reward = torch.ones(3)
        >>> state[0].reward
        tensor(1.)
    """

    __slots__ = ()

    _columns = cast("Mapping[str, FieldSpec]", {})
    _defaults = cast("Mapping[str, Any]", {})
    _typed_options = frozenset[str]()
    if TYPE_CHECKING:  # for stubs, which show them
        __required_keys__: ClassVar[frozenset[str]]
        __optional_keys__: ClassVar[frozenset[str]]
    else:
        __required_keys__ = __optional_keys__ = frozenset()

    def __class_getitem__(cls, item: Any) -> Any:
        generic = getattr(super(), "__class_getitem__", None)
        given: Any = item
        names: tuple[Any, ...] = given if isinstance(item, tuple) else (item,)
        if generic is None or all(isinstance(name, str) for name in names):
            if not all(isinstance(name, str) for name in names):
                raise TypeError(f"{class_name(cls)} is not generic: it cannot be subscripted with {item!r}")
            options: dict[str, Any] = dict.fromkeys(names, True)
            return TypedMeta(cls.__name__, (cls,), {"__module__": cls.__module__}, **options)
        return generic(item)

    def __init__(
        self,
        source: Mapping[Any, Any] | Collection | None = None,
        /,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **values: Any,
    ) -> None:
        cls = type(self)
        if source is None:
            declared = cls.__required_keys__ | cls.__optional_keys__
            if unexpected := [name for name in values if name not in declared]:
                raise TypeError(
                    f"{class_name(cls)}: got values for {unexpected}, which are no declared keys; those are "
                    f"{sorted(declared)}; other keys can be set afterwards{did_you_mean(unexpected, declared)}"
                )
            cls._check_required(values)
            for name, default in cls._defaults.items():
                if name not in values:
                    value = cls._columns[name].default_value() if name in cls._columns else default()
                    if value is not None:
                        values[name] = value
            super().__init__(values, batch_size, device, names, non_blocking)
        else:
            if isinstance(source, (Mapping, Collection)):
                cls._check_required(source._store if isinstance(source, Collection) else source)
            super().__init__(source, batch_size, device, names, non_blocking, **values)
        if lock or "frozen" in cls._typed_options:
            self.lock_()

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        """Return ``value`` as it is stored under ``key``: rows under the key of a column as that column."""
        spec = self._columns.get(key)
        is_held = isinstance(value, (Tensor, Collection)) and not holds_objects(value)
        if spec is None or value is None or is_held:
            return super()._fit(key, value, non_blocking)
        return spec.fit_column(self, value, non_blocking)

    @classmethod
    def _check_required(cls, keys: Iterable[str]) -> None:
        if missing := sorted(cls.__required_keys__.difference(keys)):
            raise TypeError(
                f"{class_name(cls)}: {missing} must be given; the declared keys are {sorted(cls.__required_keys__)}, "
                f"and {sorted(cls.__optional_keys__)} which need not"
            )

    @classmethod
    def _from_mapping(cls, source: Any, batch_size: Any, device: Any, names: Any) -> Self:
        new = object.__new__(cls)  # values of converters are not checked
        TensorDict.__init__(new, source, batch_size, device, names)
        return new

    @classmethod
    def from_tensordict(cls, td: Collection, *, check: bool = True) -> Self:
        """Return the same collection with the attributes of this class: a key set in one of the two is set in both.

        Batch size, dimension names and lock are its own. A lazy stack stays one.

        Args:
            td: the collection.
            check: raise if a required key is missing. Other keys are allowed. Default: ``True``.

        Returns:
            A collection of this class, with the same store of values as ``td``.

        Raises:
            TypeError: a required key is missing, or ``td`` is not a collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict, TypedTensorDict
            >>> class State(TypedTensorDict):
            ...     reward: torch.Tensor
            >>> data = TensorDict({"reward": torch.zeros(2)}, [2])
            >>> state = State.from_tensordict(data)
            >>> state.reward = torch.ones(2)
            >>> data["reward"]
            tensor([1., 1.])
        """
        if not isinstance(td, Collection):
            raise TypeError(f"{class_name(cls)}.from_tensordict: expected a collection, got a {type_name(td)}")
        if check:
            cls._check_required(td._store)
        if isinstance(td, LazyStacked) and td.tensordicts:
            parts = [cls.from_tensordict(part, check=False) for part in td.tensordicts]
            stacked: Any = td._with_parts(parts)
            return stacked  # type: ignore[no-any-return]
        # the class of the store's methods is the first base of the source's class: see on_store
        target = on_store(type(td).__bases__[0], cls) if isinstance(td, OnStore) else cls
        new = object.__new__(target)
        new._store = td._store
        new._batch_size = td._batch_size
        new._device = td._device
        new._names = td._names
        new._lock = None if td._lock is None else ()
        return new

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[Any, Any] | Collection,
        *,
        auto_batch_size: bool | None = None,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
        check: bool = True,
        strict: bool = True,
    ) -> Self:
        """Convert a mapping with the declared keys, which may be nested.

        See :meth:`TensorDict.from_dict` for how values are converted.

        Args:
            input_dict: the values. Keys are strings, or tuples of strings for nested values. Further keys are allowed.
            auto_batch_size: infer the batch size from the leading dimensions that all values share; by default only if
                ``batch_dims`` is given.
            batch_size: the batch size; ``[]`` by default.
            device: where the values are moved; by default they stay where they are.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            names: a name or ``None`` for each batch dimension.
            check: raise if a required key is missing. Default: ``True``.
            strict: with ``False``, drop keys that are not fields of a nested record, and warn about them.

        Returns:
            A collection of this class, locked if the class is frozen. Its tensors share memory with those of the
            mapping.

        Raises:
            TypeError: a required key is missing.
            ConversionError: values do not fit the batch size, or the fields of a nested record. Lists everything that
                is wrong.

        Example:
            >>> import torch
            >>> from tensorclass import TypedTensorDict
            >>> class State(TypedTensorDict):
            ...     reward: torch.Tensor
            >>> State.from_dict({"reward": [0.0, 1.0]}, batch_size=[2]).reward
            tensor([0., 1.])
        """
        if check:
            cls._check_required(input_dict._store if isinstance(input_dict, Collection) else input_dict)
        made = super().from_dict(
            input_dict, auto_batch_size=auto_batch_size, batch_size=batch_size, device=device, batch_dims=batch_dims,
            names=names, strict=strict,
        )  # fmt: skip
        return made.lock_() if "frozen" in cls._typed_options else made


_RESERVED = frozenset(name for name in dir(TypedTensorDict) if not name.startswith("__")) | set(_ARGUMENTS)


def _declare(cls: Any, given: Mapping[str, Any]) -> None:
    """Makes properties of the annotations of a new class."""
    if of_records := [name for name in _OF_RECORDS if given.get(name)]:
        raise TypeError(
            f"{class_name(cls)}: a typed TensorDict does not look at values, and has no options {of_records}; those "
            "are of records (TensorClass)"
        )
    options = {name for name in _OPTIONS if given.get(name)}
    required: set[str] = set()
    optional: set[str] = set()
    defaults: dict[str, Callable[[], Any]] = {}
    columns: dict[str, FieldSpec] = {}
    for base in reversed(cls.__mro__[1:]):
        if issubclass(base, TypedTensorDict):
            options |= base._typed_options
            required |= base.__required_keys__
            optional |= base.__optional_keys__
            defaults.update(base._defaults)
            columns.update(base._columns)
    annotations = annotations_of(cls)
    for name, annotation in annotations.items():
        mark = _mark(annotation)
        if mark == "ClassVar":
            continue
        _check_key(cls, name, "shadow" in options)
        if name in vars(cls):
            defaults[name] = _default(vars(cls)[name])
        can_be_left_out = mark == "NotRequired" or name in defaults
        (optional if can_be_left_out else required).add(name)
        (required if can_be_left_out else optional).discard(name)
        setattr(cls, name, _property(cls.__name__, name, name in defaults and defaults[name]() is None))
        if name in _RESERVED:
            hide_member(cls, name, inspect.getattr_static(TensorDict, name))
    cls._typed_options = frozenset(options)
    cls.__required_keys__, cls.__optional_keys__ = frozenset(required), frozenset(optional)
    columns = {name: spec for name, spec in columns.items() if name not in annotations}
    columns.update(_declared_columns(cls, annotations, defaults))
    cls._defaults, cls._columns = defaults, columns


def _check_key(cls: Any, name: str, shadows: bool) -> None:
    """Raise if a name cannot be declared as a key."""
    if why := unusable(name):
        raise AttributeError(f"{class_name(cls)}: no key can be declared as {name!r}: {why}; rename the key")
    if name in _RESERVED and name.startswith("_"):
        raise AttributeError(
            f"{class_name(cls)}: collections keep what they hold under the name {name!r}, which cannot be hidden; "
            "rename it"
        )
    if name in _ARGUMENTS or (name in NEED_SHADOW and not shadows):
        raise AttributeError(
            f"{class_name(cls)}: collections have a member of their own with the name {name!r}, which most code "
            "reads; rename the key" + ("" if name in _ARGUMENTS else ", or hide the member with the option shadow=True")
        )
    if has_name(getattr(cls, name, None)):
        raise TypeError(
            f"{class_name(cls)}.{name}: field(name=...) is for records (TensorClass); the keys of a typed "
            "TensorDict are its names in files and tables"
        )


def _mark(annotation: Any) -> str | None:
    """The outermost of the marks around an annotation: ``NotRequired``, ``ClassVar``."""
    if isinstance(annotation, str):
        found = re.match(r"(?:\w+\.)*(\w+)", annotation)
        return found[1] if found is not None else None
    origin = typing.get_origin(annotation) or annotation
    if origin in _NOT_REQUIRED:
        return "NotRequired"
    return "ClassVar" if origin is ClassVar else None


def _declared_columns(cls: Any, annotations: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, FieldSpec]:
    """Return the fields among annotations that declare columns, by key.

    Args:
        cls: the class with the annotations.
        annotations: an annotation of each key. Text that names what is not defined yet declares no column.
        defaults: makes the default of a key that has one.

    Raises:
        TypeError: the annotation of a column contradicts itself.
    """
    scope = scope_of(cls, annotations)
    space = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    found: dict[str, FieldSpec] = {}
    for name, annotation in annotations.items():
        declared: Any = evaluated(annotation, space, scope) if isinstance(annotation, str) else annotation
        if typing.get_origin(declared) in _NOT_REQUIRED:
            (declared,) = typing.get_args(declared)
        try:
            if classify(declared, space, scope).kind is not Kind.COLUMN:
                continue
        except Unresolved:
            continue
        field: Any = dataclasses.field(default_factory=defaults[name]) if name in defaults else dataclasses.field()
        field.name, field.type = name, declared
        found[name] = FieldSpec(cls.__name__, field, cls.__module__, scope, OPTIONS)
    return found


def _default(value: Any) -> Callable[[], Any]:
    given: Any = value
    if not isinstance(value, dataclasses.Field):
        return lambda: given
    factory: Any = given.default_factory
    return (lambda: given.default) if factory is dataclasses.MISSING else factory


def _property(owner: str, name: str, is_none: bool) -> property:
    """The property of a declared key; ``is_none`` where its default is ``None``, which is not stored."""

    def get(self: TypedTensorDict) -> Any:
        value = self._store.get(name)
        if value is None:
            if is_none:
                return None
            raise AttributeError(f"{printable(owner)}.{name} is not set: the key is declared, but not there")
        return value if isinstance(value, Tensor) else self._out(value, name)

    def put(self: TypedTensorDict, value: Any) -> None:
        if is_none and value is None:
            if name in self._store:
                with_members(self).del_(name)
        else:
            with_members(self).set(name, value)

    def delete(self: TypedTensorDict) -> None:
        with_members(self).del_(name)

    return property(get, put, delete)
