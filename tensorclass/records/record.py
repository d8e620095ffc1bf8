"""Records: collections whose keys are declared as fields."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Size, Tensor
from typing_extensions import Self, dataclass_transform

from tensorclass.contracts.validation_mode import validation
from tensorclass.support.exact_types import DICT
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import class_name, type_name
from tensorclass.td import native
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.dataframe_names import DataFrameNames, own_names
from tensorclass.td.inherited_members import copy_inherited
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.leaves.linked_list import LinkedList
from tensorclass.td.leaves.nontensor import NonTensorData
from tensorclass.td.printing.long_form import collection_facts, value_repr
from tensorclass.td.same_named_classes import not_of_class
from tensorclass.td.tensordict import TensorDict

from .field_specifier import field
from .from_values import FromValues, is_none
from .name_errors import unknown_options

if TYPE_CHECKING:
    from tensorclass.td.collection import Store, Value
    from tensorclass.td.dtype_casts import CastFilter
    from tensorclass.td.keys import NestedKey
    from tensorclass.td.same_named_classes import DefinitionSite

#: the options of a record class, with their defaults
OPTIONS: dict[str, bool] = {
    "autocast": False,
    "nocast": False,
    "frozen": False,
    "tensor_only": False,
    "shadow": False,
    "kw_only": False,
    "skip_post_init_on_rebuild": True,
    "validate": True,
    "stack_objects": False,
}

#: the keywords of a class statement
KEYWORDS: tuple[str, ...] = (*OPTIONS, "cast_filter")

#: arguments of every constructor that are not fields
METADATA = ("batch_size", "device", "names")


def _take_keywords(bases: tuple[type, ...]) -> bool:
    """Return whether a base class has an ``__init_subclass__`` of its own, which may take keywords of the class."""
    own = {base for one in bases for base in one.__mro__ if "__init_subclass__" in vars(base)}
    return any(base.__module__ not in ("builtins", "typing", "typing_extensions") for base in own)


@dataclass_transform(field_specifiers=(field, dataclasses.field, dataclasses.Field), eq_default=False)
class RecordMeta(abc.ABCMeta):
    """Metaclass of records: turns fields into properties, and generates ``__init__``, once for each class."""

    @staticmethod
    def _define(new: Any, given: Mapping[str, Any]) -> None:
        """Make the fields of a new class: :func:`.definition.define` comes here, which needs ``TensorClass``."""
        raise NotImplementedError

    if not TYPE_CHECKING:
        # records have no virtual subclasses: the checks of abstract base classes would only cost time
        __instancecheck__ = type.__instancecheck__
        __subclasscheck__ = type.__subclasscheck__

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, is_base: bool = False, **kwargs: Any
    ) -> RecordMeta:
        given = {key: kwargs.pop(key) for key in kwargs.keys() & set(KEYWORDS)}
        # without a __dict__ an instance is small, and assigning an unknown attribute is an error
        namespace.setdefault("__slots__", ())
        if kwargs and not _take_keywords(bases):
            raise TypeError(unknown_options(name, sorted(kwargs), KEYWORDS))
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        if not is_base:
            RecordMeta._define(cls, given)
            cls._NATIVE = native.overrides_nothing(cls)  # type: ignore[attr-defined]
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace)

    def __dir__(cls) -> list[str]:
        return own_names(cls, super().__dir__())


if TYPE_CHECKING:
    # types of an attribute when it is read, and when the constructor or an assignment sets it

    class _BatchSize:
        def __get__(self, record: object, owner: object) -> Size: ...
        def __set__(self, record: object, value: Sequence[int] | int | None) -> None: ...

    class _Device:
        def __get__(self, record: object, owner: object) -> torch.device | None: ...
        def __set__(self, record: object, value: DeviceLike | None) -> None: ...

    class _Names:
        def __get__(self, record: object, owner: object) -> list[str | None]: ...
        def __set__(self, record: object, value: Sequence[str | None] | None) -> None: ...


class TensorClass(FromValues, DataFrameNames, metaclass=RecordMeta, is_base=True):
    """Base class of records: fields hold tensors, other records, or objects that share one batch size.

    Declare fields as for a dataclass. An instance behaves like a dataclass, and like one tensor of the shape of its
    batch size. A cast to a floating or complex dtype leaves integer and boolean tensors as they are.

    Fields are given by position or by keyword, in the order of their declaration. These arguments follow, by keyword:

    Args:
        batch_size: the leading dimensions that all values share; none by default.
        device: the device that values are moved to when they are written; by default they stay where they are.
        names: a name or ``None`` for each batch dimension.

    Options are class keywords, ``class Sample(TensorClass, frozen=True)``, or ``TensorClass["frozen"]``:

    - ``autocast``: convert values to the type of the annotation (``int``, ``str``, ...).
    - ``nocast``: take only tensors for tensor fields; by default numbers, arrays and lists of numbers become tensors.
    - ``frozen``: fields cannot be set, replaced or removed, except by ``__post_init__``; tensors can be written to.
    - ``tensor_only``: every field holds a tensor (or a collection), whatever its annotation.
    - ``shadow``: allow fields called ``device``, ``names`` or ``shape``. They hide the attributes, as a field with any
      other name of a member does.
    - ``kw_only``: fields are given by keyword only.
    - ``cast_filter``: a function, called with a key (a tuple) and its tensor. It returns whether casts to another dtype
      (``half()``, ``to(dtype)``) cast the tensor, if they are given no filter of their own. A class keyword only.
    - ``validate``: ``False`` accepts values that break the contracts of their fields.
    - ``skip_post_init_on_rebuild``: results of operations do not run ``__post_init__``. They never do.

    Example:
        >>> import torch
        >>> from tensorclass import TensorClass
        >>> class Sample(TensorClass):
        ...     image: torch.Tensor
        ...     label: torch.Tensor
        ...     source: str = ""
        >>> batch = Sample(torch.zeros(32, 3, 8, 8), label=torch.arange(32), batch_size=[32])
        >>> rows = batch[:8].reshape(2, 4)
        >>> rows.image.shape, rows[1, 0].label
        (torch.Size([2, 4, 3, 8, 8]), tensor(4))
    """

    __slots__ = ()
    _NATIVE = True

    if TYPE_CHECKING:
        # Arguments of every constructor that are not fields. Not as InitVars, which checkers would expect in
        # __post_init__; not in a base class, which would conflict in each class that has several bases.
        _: dataclasses.KW_ONLY
        batch_size: _BatchSize = dataclasses.field(default=None)  # type: ignore[assignment, override]
        device: _Device = dataclasses.field(default=None)  # type: ignore[assignment, override]
        names: _Names = dataclasses.field(default=None)  # type: ignore[assignment, override]
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    # not fields; without annotations, which typing.get_type_hints would find
    _options = dict(OPTIONS)
    _defined_at = cast("DefinitionSite | None", None)  # for messages about classes of one name
    _cast_filter = cast("CastFilter | None", None)
    _CASTS_INTEGERS = False  # ids and masks are not cast

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Set the given fields. Classes with a hand-written ``__init__`` call it; others have a generated one.

        Fields that are neither given nor have a default stay unset, to be assigned afterwards.

        Args:
            args: values of fields, in the order of their declaration.
            kwargs: values of fields by name, and ``batch_size``, ``device``, ``names``.

        Raises:
            TypeError: an argument is unexpected, or given twice.
        """
        cls = type(self)
        taken = [name for name, spec in cls._specs.items() if spec.init]
        names = [name for name in taken if not cls._specs[name].kw_only]
        if len(args) > len(names):
            raise TypeError(f"{class_name(cls)}: expected at most {len(names)} positional arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        if twice := sorted(given.keys() & kwargs.keys()):
            raise TypeError(f"{class_name(cls)}: got multiple values for {twice}")
        given.update(kwargs)
        metadata = {name: given.pop(name, None) for name in METADATA if name not in cls._specs}
        if unexpected := [name for name in given if name not in taken]:
            known = f"its fields are {list(cls._specs)}{did_you_mean(unexpected, (*taken, *metadata))}"
            raise TypeError(f"{class_name(cls)}: got unexpected arguments {unexpected}; {known}")
        self._set_up(given, **metadata)

    def __class_getitem__(cls, item: Any) -> Any:
        given = item
        options: tuple[Any, ...] = given if isinstance(item, tuple) else (item,)
        generic = getattr(super(), "__class_getitem__", None)
        if options and all(isinstance(option, str) for option in options) and not cls._specs:
            unknown = [option for option in options if option not in OPTIONS]
            if not unknown:
                base = RecordMeta(cls.__name__, (cls,), {"__module__": cls.__module__}, is_base=True)
                base._options = {**cls._options, **dict.fromkeys(options, True)}  # type: ignore[attr-defined]
                return base
            if generic is None:
                raise ValueError(unknown_options(f"{class_name(cls)}[...]", unknown, OPTIONS))
        if generic is None:
            raise TypeError(f"{class_name(cls)} is not generic: it cannot be subscripted with {item!r}")
        return generic(item)

    # -- fields -------------------------------------------------------------------------------------------------------

    @classmethod
    def fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """Return the declared fields, as ``dataclasses.fields`` does.

        Returns:
            A ``dataclasses.Field`` per field, in the order of declaration. The batch size, device and dimension names
            are not fields.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Sample(TensorClass):
            ...     x: torch.Tensor
            ...     source: str = "web"
            >>> [(field.name, field.default) for field in Sample.fields()][1]
            ('source', 'web')
        """
        return dataclasses.fields(cls)

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        return self._spec(key).fit(self, value, non_blocking)

    def _out(self, value: Any, key: NestedKey) -> Any:
        read = super()._out(value, key)
        if type(read) is LinkedList and type(key) is str:
            read.check = self._spec(key).check_items
        return read

    def _check_new_key(self, key: str) -> None:
        self._spec(key)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        self._check_unlocked()
        spec = self._specs.get(key) or self._spec(key)
        if type(value) is not Tensor and (value is None or is_none(value)):
            if not spec.allows_none(self):
                raise spec.mismatch(value)
            self._store.pop(key, None)
            return
        fitted = spec.fit(self, value, non_blocking)
        if self._checks is not None:
            self._checks.check_entries(self, {key: fitted})
        self._store[key] = fitted

    def _put(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if self._checks is None or (inplace and key in self._store) or value is None or is_none(value):
            self._set(key, value, inplace, non_blocking)
        else:
            self._check_unlocked()
            self._store[key] = self._spec(key).fit(self, value, non_blocking)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _as_rows(self, rows: Mapping[Any, Any], batch_size: Size) -> Self:
        result = self._like({}, batch_size)
        result._device = None
        for key, value in rows.items():
            name, *rest = unravel_key_to_tuple(key)
            entry: Any = {tuple(rest): value} if rest else value
            is_mapping = issubclass(type(entry), Mapping)
            spec = result._spec(name)
            current: Any = self._store.get(name)
            if is_mapping and isinstance(current, TensorCollection) and current._is_tree():
                part = current._as_rows(entry, batch_size)
                already = result._store.get(name)
                if isinstance(already, Collection):
                    part._store = {**already._store, **part._store}
                result._store[name] = part  # type: ignore[assignment]
            elif entry is not None:
                result._store[name] = spec.fit(result, entry)
            elif not spec.allows_none(result):
                raise spec.mismatch(entry)
        return result

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        super()._check_rows(rows, ndim, row_ndim, path)
        for key, row in rows._now().items():
            if type(row) is not Tensor or key not in self._store:
                self._spec(key).check(self, row, key not in self._store)
                if key not in self._store and self._checks is not None:
                    self._checks.check_entries(self, {key: row}, row.shape[:row_ndim])

    def set(  # type: ignore[override]
        self,
        key: NestedKey,
        value: Any,
        inplace: bool = False,
        non_blocking: bool = False,
        *,
        validate: bool = True,
    ) -> Self:
        """Write a field, or a value nested in it.

        See :meth:`TensorDict.set`. If the value does not fit, nothing changes.

        Args:
            key: the name of a field, or a nested key that begins with one.
            value: what the field takes. ``None`` removes the value of an optional field.
            inplace: copy the value into the present one, if there is one. Default: ``False``.
            non_blocking: do not wait for the transfer to the record's device. Default: ``False``.
            validate: ``False`` accepts a value that breaks the contract of its field. Default: ``True``.

        Returns:
            The record itself. A tensor that needs no transfer is stored as it is, so both share memory.

        Raises:
            AttributeError: there is no such field.
            TypeError: the field takes values of another type.
            RuntimeError: the record is locked, or the value's shape does not begin with the batch size.
            ContractError: the value breaks the contract of its field.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Sample(TensorClass):
            ...     x: torch.Tensor
            >>> Sample(torch.zeros(3), batch_size=[3]).set("x", torch.ones(3, 2)).x.shape
            torch.Size([3, 2])
        """
        if not validate:
            with validation(False):
                return self.set(key, value, inplace, non_blocking)
        if type(key) is str:
            self._set(key, value, inplace, non_blocking)
        else:
            self._set_nested(unravel_key_to_tuple(key), value, inplace, non_blocking)
        return self

    def set_at_(self, key: NestedKey, value: Any, index: Any, *, non_blocking: bool = False) -> Self:
        """Write into rows of the value of a field: ``record[key][index] = value``.

        Contracts are not checked: see :meth:`validate`.

        Args:
            key: the name of a field, or a nested key that begins with one.
            value: a tensor, a number or a list of numbers that broadcasts to the shape of ``record[key][index]``; for a
                field of objects, an object of the declared type.
            index: an index, as tensors take it.
            non_blocking: has no effect: writing to rows waits for transfers between devices.

        Returns:
            The record itself. A tensor is written in place.

        Raises:
            KeyError: the field has no value.
            TypeError: the field takes objects of another type.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, Text
            >>> class Sample(TensorClass):
            ...     x: torch.Tensor
            ...     label: Text
            >>> data = Sample(torch.zeros(3), "a", batch_size=[3])
            >>> _ = data.set_at_("x", 1.0, slice(1, None)).set_at_("label", "b", 0)
            >>> data.x, data.label.tolist()
            (tensor([0., 1., 1.]), ['b', 'a', 'a'])
        """
        *path, last = unravel_key_to_tuple(key)
        holder: Any = self._find(tuple(path))
        current = holder._store.get(last) if isinstance(holder, TensorClass) else None
        if holds_objects(current):
            item = value if holds_objects(value) else NonTensorData(value)
            holder._spec(last).check(holder, item)
        return super().set_at_(key, value, index, non_blocking=non_blocking)

    def _holds_none(self, key: str) -> bool:
        return key in self._specs and self._specs[key].optional

    def _holds_tensor(self, key: str) -> bool:
        return key in self._specs and self._specs[key].target(type(self)) is Tensor

    def _merges(self, source: object) -> bool:
        # a record of another class is not merged, even if its fields have the same names: writing it raises the error
        return super()._merges(source) and (type(source) is type(self) or not isinstance(source, TensorClass))

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Move the value of a field to another field.

        The other field must take the value; the first is unset afterwards.

        Args:
            old_key: the name of the field, or a nested key.
            new_key: the name of the other field, or a nested key. Its present value is replaced.
            safe: raise instead of replacing a value. Default: ``False``.

        Returns:
            The record itself. The value is shared, not copied.

        Raises:
            KeyError: there is no value under ``old_key``; or ``safe`` is set and ``new_key`` has one.
            AttributeError: ``new_key`` is not a field.
            RuntimeError: the record is locked.
            ContractError: the value breaks the contract of the other field.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Step(TensorClass):
            ...     now: torch.Tensor | None = None
            ...     before: torch.Tensor | None = None
            >>> step = Step(now=torch.ones(2), batch_size=[2]).rename_key_("now", "before")
            >>> step.now, step.before
            (None, tensor([1., 1.]))
        """
        self._check_unlocked()
        if type(old_key) is not str or type(new_key) is not str or old_key not in self._store:
            return super().rename_key_(old_key, new_key, safe)
        value = self._spec(new_key).fit(self, self._store[old_key])
        if self._checks is not None:
            self._checks.check_entries(self, {new_key: value})
        super().rename_key_(old_key, new_key, safe)
        self._store[new_key] = value
        return self

    # -- as a dataclass -----------------------------------------------------------------------------------------------

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """Return a record with other values in some fields: ``record.replace({"x": 1})`` or ``record.replace(x=1)``.

        The constructor and ``__post_init__`` do not run.

        Args:
            args: at most one mapping or record with new values.
            kwargs: more new values by field. ``None`` removes the value of an optional field.

        Returns:
            A new record. All other values are shared.

        Raises:
            TypeError: there is more than one positional argument, or a field takes values of another type.
            AttributeError: a key is not a field.
            RuntimeError: a value's shape does not begin with the batch size.
            ContractError: values break the contracts of their fields.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Sample(TensorClass):
            ...     x: torch.Tensor
            ...     label: str
            >>> data = Sample(torch.zeros(3), "a", batch_size=[3])
            >>> new = data.replace(label="b")
            >>> new.label, data.label, new.x is data.x
            ('b', 'a', True)
        """
        if len(args) > 1:
            raise TypeError(
                f"replace: expected one mapping or record and keywords, got {len(args)} positional arguments"
            )
        new = self._shallow()
        for source in (*args, kwargs):
            for key, value in (source._store if isinstance(source, Collection) else source).items():
                spec = new._spec(key)
                if value is not None and not is_none(value):
                    new._store[key] = spec.fit(new, value)
                elif spec.allows_none(new):
                    new._store.pop(key, None)
                else:
                    raise spec.mismatch(value)
        new._check_changed(self._store)
        return new

    def __replace__(self, /, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    # -- with others --------------------------------------------------------------------------------------------------

    def _check_classes(self, what: str, items: Sequence[Any]) -> None:
        cls: Any = type(self)
        cls = getattr(cls, "_dense", cls)  # on another store
        for position, item in enumerate(items):
            if not isinstance(item, cls):
                raise not_of_class(what, cls, position, item) from None

    # -- results with other keys are TensorDicts ----------------------------------------------------------------------

    def _untyped(self, store: Store) -> TensorCollection:
        return TensorDict._of(self, store)

    def flatten_keys(  # type: ignore[override]
        self, separator: str = ".", inplace: bool = False, is_leaf: Callable[[type], bool] | None = None
    ) -> TensorDict:
        """Return the leaves on one level, under keys joined by a separator.

        Args:
            separator: the string between the names of a nested key. Default: ``"."``.
            inplace: must be ``False``: the keys of a record are declared.
            is_leaf: called with the class of a nested collection. If it returns ``True``, the collection is kept whole.

        Returns:
            A :class:`TensorDict` that shares the tensors.

        Raises:
            TypeError: ``inplace`` is set.
            KeyError: two keys become the same.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> class Line(TensorClass):
            ...     start: Point
            ...     end: Point
            >>> line = Line(Point(torch.zeros(())), Point(torch.ones(())))
            >>> line.flatten_keys("/").to_dict()
            {'start/x': tensor(0.), 'end/x': tensor(1.)}
        """
        self._refuse_inplace("flatten_keys", inplace)
        return super().flatten_keys(separator, False, is_leaf)  # type: ignore[return-value]

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> TensorDict:  # type: ignore[override]
        """Return a collection in which keys that contain a separator are nested.

        Args:
            separator: the string between the names of a nested key. Default: ``"."``.
            inplace: must be ``False``: the keys of a record are declared.

        Returns:
            A :class:`TensorDict` that shares the tensors.

        Raises:
            TypeError: ``inplace`` is set.
            KeyError: a key has two values, or lies below a leaf.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Sample(TensorClass):
            ...     image_left: torch.Tensor
            ...     image_right: torch.Tensor
            >>> sample = Sample(torch.zeros(()), torch.ones(()))
            >>> sample.unflatten_keys("_")["image", "right"]
            tensor(1.)
        """
        self._refuse_inplace("unflatten_keys", inplace)
        return super().unflatten_keys(separator, False)  # type: ignore[return-value]

    def _refuse_inplace(self, what: str, inplace: bool) -> None:
        if inplace:
            raise TypeError(f"{what}(inplace=True): the keys of a {type_name(self)} are declared, they cannot change")

    # -- shown and exported -------------------------------------------------------------------------------------------

    def _exports_store(self) -> bool:
        store = self._store
        return type(store) is DICT and [*store] == [*self._specs]

    def _items_for_export(self, retain_none: bool) -> Any:
        for name in self._specs:
            if name in self._store:
                yield name, self._store[name]
            elif retain_none:
                yield name, NonTensorData(None, batch_size=self._batch_size, device=self._device)

    def _items_for_repr(self) -> Any:
        store = self._store
        return [
            (f.name, store.get(f.name))
            for f in dataclasses.fields(self)
            if f.repr and (f.name in store or self._specs[f.name].optional)
        ]

    def _names_for_repr(self) -> list[str]:
        return [name for name, _ in self._items_for_repr()]

    def _value_for_repr(self, key: str) -> Any:
        return self._store.get(key)

    def _long(self) -> str:
        parts = [f"{name}={_shown(value)}" for name, value in self._items_for_repr()] + collection_facts(self)
        return f"{type_name(self)}(\n    " + ",\n    ".join(part.replace("\n", "\n    ") for part in parts) + ")"


def _shown(value: Any) -> str:
    return value_repr(value._unwrapped() if holds_objects(value) and value._is_uniform else value)


# batch_size, device and names are arguments of __init__ that are not fields. dataclasses.replace passes them on because
# they are declared as InitVars.
TensorClass.__dataclass_fields__ = {}
TensorClass.__dataclass_params__ = dataclasses._DataclassParams(  # type: ignore[attr-defined]
    **dict.fromkeys(dataclasses._DataclassParams.__slots__, False)  # type: ignore[attr-defined]
)
for _name in METADATA:
    _field: Any = dataclasses.field(default=None, kw_only=True)
    _field.name = _name
    _field.type = dataclasses.InitVar
    _field._field_type = dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
    TensorClass.__dataclass_fields__[_name] = _field

copy_inherited(TensorClass)
