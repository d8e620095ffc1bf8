"""Fields of records: their annotations, and the values that they accept."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import enum
import itertools
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import typing_extensions
from torch import Tensor
from torch.compiler import is_compiling

from tensorclass.contracts.checking import ItemRank, inferred_size
from tensorclass.contracts.contract import Contract, described_array
from tensorclass.contracts.contract_error import ContractError
from tensorclass.contracts.row_contract import RowContract
from tensorclass.support.help_links import help_link
from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.td import shapes, value_checks
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, is_tree
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.column import Column
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.spans import first_row
from tensorclass.td.leaves.batch_object import BatchObject, RowsDiffer, one_object
from tensorclass.td.leaves.leaf import Leaf, has_spans, holds_objects
from tensorclass.td.leaves.nontensor import NonTensorData, NonTensorDataBase, NonTensorStack
from tensorclass.td.leaves.object_codes import Deferred, drop_unused, flatten_lists
from tensorclass.td.modes import LIST_TO_STACK
from tensorclass.td.same_named_classes import namesake
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import BatchMismatch

from .field_specifier import stored_name

if TYPE_CHECKING:
    from tensorclass.td.collection import Value

    from .contracted import Contracted

_UNIONS = (typing.Union, types.UnionType)
_SELF: tuple[Any, ...] = tuple(vars(module).get("Self") for module in (typing, typing_extensions))


class Kind(enum.Enum):
    """The kind of value that a field holds."""

    TENSOR = enum.auto()  #: a tensor
    COLLECTION = enum.auto()  #: a record or another collection
    OBJECT = enum.auto()  #: an object, stored as non-tensor data
    COLUMN = enum.auto()  #: a row of text, of items, or an object for each row of the batch
    ANY = enum.auto()  #: any value


class Meaning(NamedTuple):
    """The meaning of an annotation."""

    kind: Kind
    #: the classes that a value must be an instance of; empty if any value will do
    types: tuple[type, ...] = ()
    #: whether ``None`` is allowed
    optional: bool = False
    #: the allowed values of a ``Literal``; empty for others
    literals: tuple[Any, ...] = ()
    #: the annotation of one row of a column: ``list[str]`` of ``Column[list[str]]``
    row: Any = Any


class Unresolved(Exception):
    """A string annotation that names something not defined yet."""


class FieldSpec:
    """One field: its name, kind and types, taken from its annotation.

    A string annotation may name a class that is defined later, or the class itself. It is then evaluated again when the
    first value is written.
    """

    __slots__ = (
        "_annotation", "_module", "_options", "column", "contract", "default", "factory", "init", "kind",
        "kw_only", "literals", "name", "optional", "owner", "row_contract", "stored_name", "types",
    )  # fmt: skip

    def __init__(
        self,
        owner: str,
        declared: dataclasses.Field[Any],
        module: str,
        scope: Mapping[str, Any],
        options: Mapping[str, bool],
    ) -> None:
        self.owner: str = printable(owner)
        self.name: str = declared.name
        #: the name in files and tables
        self.stored_name: str = stored_name(declared)
        self.init: bool = declared.init
        self.kw_only: bool = declared.kw_only is True
        #: returns the default; ``None`` if there is none
        self.default: Callable[[], Any] | None = None
        #: the ``default_factory`` of the declaration, if any
        self.factory: Callable[[], Any] | None = None
        if declared.default is not dataclasses.MISSING:
            self.default = lambda: declared.default
        elif declared.default_factory is not dataclasses.MISSING:
            self.default = self.factory = declared.default_factory
        self.optional: bool = declared.default is None
        self.types: tuple[type, ...] = ()
        #: shape, dtype, range and device that the annotation requires
        self.contract: Contract | None = None
        #: length, item shape, dtype, range and device that the annotation requires of the rows of a Ragged
        self.row_contract: RowContract | None = None
        #: the objects of a ``Literal``, the only ones that the field accepts; empty for other fields
        self.literals: tuple[Any, ...] = ()
        #: the declaration of a field that holds a column; ``None`` for other fields
        self.column: Declared | None = None
        self._annotation: Any = declared.type
        self._module = module
        self._options = options
        #: the kind of value; ``None`` while the annotation names a class that is not defined yet
        self.kind: Kind | None = None
        with contextlib.suppress(Unresolved):
            self._resolve(scope)

    def with_options(self, options: Mapping[str, bool]) -> FieldSpec:
        """Return the same field for a class with other options."""
        if self._options == options:
            return self
        new: FieldSpec = object.__new__(type(self))
        for slot in FieldSpec.__slots__:
            setattr(new, slot, getattr(self, slot))
        new._options = options
        new._only_tensors()
        return new

    def _resolve(self, scope: Mapping[str, Any]) -> None:
        module = sys.modules.get(self._module)
        space = {} if module is None else vars(module)
        try:
            self.kind, self.types, optional, self.literals, row = classify(
                self._annotation, space, scope, scope.get(self.owner)
            )
            self.optional = self.optional or optional
            self.contract = Contract.of(self._annotation, lambda text: _evaluated(text, space, scope))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.owner}.{self.name}: {error}") from None
        self._only_tensors()
        self._check_contract()
        if self.kind is Kind.COLUMN:
            self.column = self._declared_column(row, lambda text: _evaluated(text, space, scope))

    def _declared_column(self, row: Any, evaluate: Callable[[str], Any]) -> Declared:
        """Return the declaration of a column from the annotation of a row."""
        if len(self.types) != 1:
            raise TypeError(f"{self.owner}.{self.name}: {self.shown}: a field holds one kind of column, or None")
        cls: Any = self.types[0]
        ragged_dims = 1
        while issubclass(cls, Ragged) and typing.get_origin(row) is Ragged:
            ragged_dims += 1
            (row,) = typing.get_args(row)
        try:
            if issubclass(cls, Ragged):
                self.row_contract = RowContract.of(row, ragged_dims, evaluate)
            elif Contract.of(row, evaluate) is not None and typing.get_origin(row) is typing.Annotated:
                raise TypeError(
                    "Shape, DType, Range and Device speak of tensors; for rows of numbers declare the field as Ragged"
                )
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.owner}.{self.name}: {error}") from None
        contract = self.row_contract
        if contract is None:
            return Declared(cls, row, ragged_dims)
        return Declared(cls, row, ragged_dims, contract.dtype, contract.item.rank or 0, contract.item_shape)

    @property
    def has_contract(self) -> bool:
        """``True`` if the annotation requires something of a tensor, or of the rows of a Ragged."""
        return self.contract is not None or self.row_contract is not None

    @property
    def stored_class(self) -> type[TensorCollection] | None:
        """The collection class whose instances are stored as they are; ``None`` if there is none, or several."""
        return self.types[0] if self.kind is Kind.COLLECTION and len(self.types) == 1 else None

    @property
    def holder(self) -> type[NonTensorData]:
        """The class that holds an object in the store."""
        one = self.kind is Kind.OBJECT and not self._options["stack_objects"]
        return BatchObject if one else NonTensorData

    def default_value(self) -> Any:
        """Return the default for a new record. That of a column can be a row, which each row of the batch gets."""
        assert self.default is not None
        return self.default() if self.column is None else self.column.default(self.default)

    def _check_contract(self) -> None:
        """Raise if the contract is one for tensors and the field does not hold a tensor."""
        contract = self.contract
        if contract is None or self.kind in (Kind.TENSOR, Kind.ANY):
            return
        if self.kind is Kind.COLUMN:
            raise TypeError(
                f"{self.owner}.{self.name}: {contract.shown}: the contract of a column is one of its rows: write "
                "Ragged[Annotated[Tensor, ...]]"
            )
        if self.kind is Kind.OBJECT:
            raise TypeError(
                f"{self.owner}.{self.name}: {contract.shown}: Shape, DType, Range and Device speak of tensors, and the "
                "field holds none"
            )
        if contract.bounded or any((one.dtypes, one.device) != (None, None) for one in (contract, *contract.others)):
            raise TypeError(
                f"{self.owner}.{self.name}: {contract.shown}: the dtypes, ranges and devices of a record are declared "
                "at its own fields; here stands the shape of its batch alone"
            )

    def _only_tensors(self) -> None:
        if self._options["tensor_only"] and self.kind in (Kind.OBJECT, Kind.ANY):
            self.kind, self.types, self.literals = Kind.TENSOR, (Tensor,), ()

    @property
    def shown(self) -> str:
        """The annotation, for messages."""
        return self._annotation if isinstance(self._annotation, str) else shown_annotation(self._annotation)

    def _known_kind(self, cls: type[Contracted], value: object = None) -> Kind | None:
        """Return the kind. Evaluate the annotation again if it was not known before; ``None`` if it still is not.

        A value helps: its classes count as names that the annotation can use.
        """
        if self.kind is None:
            # finds a class that is local to a function, or imported for type checkers only
            scope: dict[str, Any] = {base.__name__: base for base in reversed(type(value).__mro__)}
            try:
                self._resolve({**scope, cls.__name__: cls})
            except Unresolved:
                if value is not None:
                    raise NameError(
                        f"{self.owner}.{self.name}: the annotation {self._annotation!r} names what is not defined, "
                        f"neither in the module {self._module!r} nor where the class is, and got a "
                        f"{type_name(value)}; correct it, import the name, or annotate the field with Any"
                    ) from None
        return self.kind

    def allows_none(self, record: Contracted) -> bool:
        """Return whether the field can be ``None``, which is then not stored."""
        return self.allows_none_in(type(record))

    def allows_none_in(self, cls: type[Contracted]) -> bool:
        """:meth:`allows_none` for the records of a class."""
        self._known_kind(cls)
        return self.optional or self.kind is None

    @property
    def can_be_missing(self) -> bool:
        """``True`` if a saved record may lack the field: it has a default, or can be ``None``."""
        return self.optional or self.kind is None or (self.init and self.default is not None)

    def target(self, cls: type[Contracted]) -> type[TensorCollection] | type[Tensor] | None:
        """Return the class that a converter makes of an object for this field of ``cls``.

        That is a collection class, or ``Tensor``, or ``None`` if the field takes the object unchanged.
        """
        kind = self._known_kind(cls)
        if kind is Kind.TENSOR:
            return Tensor
        collections = [t for t in self.types if issubclass(t, TensorCollection)]
        if kind in (Kind.OBJECT, Kind.COLUMN) or not collections:
            return None
        if not all(issubclass(t, (Tensor, *collections)) for t in self.types):
            return None
        return TensorDict if collections[0] is TensorCollection else collections[0]

    # -- values -------------------------------------------------------------------------------------------------------

    def fit(self, record: Contracted, value: Any, non_blocking: bool = False) -> Value:
        """Return the value to store for a value that is not ``None``: converted, moved and checked.

        Raises:
            TypeError: the value does not match the annotation.
            RuntimeError: the value does not have the record's batch size in front.
        """
        kind = self.kind or self._known_kind(type(record), value)
        if kind is Kind.TENSOR:
            if type(value) is Tensor and record._device is None:
                size = record._batch_size
                try:
                    shape = value.shape
                except RuntimeError:
                    shape = value_checks.shape_of(value, self.name)
                if len(size) == 1 and shape and shape[0] == size[0]:  # the usual case
                    return value
            return self._fit_tensor(record, value, non_blocking)
        if kind is Kind.COLUMN:
            return self.fit_column(record, value, non_blocking)
        if kind is Kind.COLLECTION:
            if not isinstance(value, self.types):
                value = self._as_collection(record, value)
            return value_checks.fit_collection(record, self.name, value, non_blocking)
        if holds_objects(value):
            value = self._with_checked_objects(value)
            if kind is Kind.OBJECT and not self._options["stack_objects"]:
                value = self._one_object(value)
            return value_checks.fit_collection(record, self.name, value, non_blocking)
        if kind is Kind.ANY:
            return self._fit_any(record, value, non_blocking)
        return self._fit_object(record, value)

    def check(self, record: Contracted, rows: Value, is_new: bool = False) -> None:
        """Raise if rows of a value cannot be rows of this field."""
        kind = self.kind or self._known_kind(type(record), rows)
        if kind is Kind.COLUMN:
            fits = isinstance(rows, self.types)
        elif holds_objects(rows) and type(rows) not in self.types:
            fits = kind in (Kind.OBJECT, Kind.ANY) and all(map(self._is_item, self._to_check(rows)))
        else:
            fits = not is_new or not self.types or isinstance(rows, self.types)
        if not fits:
            raise self.mismatch(rows._unwrapped() if holds_objects(rows) else rows)

    def check_items(self, value: Any, depth: int) -> None:
        """Raise if the field does not accept the objects in lists for rows, nested ``depth`` lists deep."""
        for item in flatten_lists(value, depth)[0]:
            held = self._to_check(item) if holds_objects(item) else (item,)
            for one in held:
                if not self._is_item(one):
                    raise self.mismatch(one)

    def fit_column(self, record: TensorCollection, value: Any, non_blocking: bool) -> Value:
        """:meth:`fit` for a field that holds a column."""
        declared = self.column
        assert declared is not None
        try:
            column = declared.made(value, record._batch_size)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.owner}.{self.name}: {error}") from None
        if not self.optional:
            self._check_all_present(column)
        return value_checks.fit_collection(record, self.name, column, non_blocking)

    def _check_all_present(self, column: Any) -> None:
        """Raise if a row has no value, which the annotation does not allow."""
        if has_spans(column) and not column._spans().is_meta and not is_compiling():
            missing = column.missing
            if bool(missing.any()):
                raise TypeError(
                    f"{self.owner}.{self.name}: row {first_row(missing)}: expected {self.shown}, got "
                    f"None; to allow rows without a value, annotate the field with {self.shown} | None"
                )

    def _fit_tensor(self, record: Contracted, value: Any, non_blocking: bool) -> Value:
        if not isinstance(value, Tensor):
            if self._options["tensor_only"] and (isinstance(value, Mapping) or is_tree(value)):
                return self._fit_tensors(record, value, non_blocking)
            tensor = None if self._options["nocast"] else value_checks.as_tensor(value, record._device)
            if tensor is None:
                raise self.mismatch(value)
            value = tensor
        return value_checks.fit(record, self.name, value, non_blocking)

    def _fit_tensors(self, record: Contracted, value: Any, non_blocking: bool) -> Value:
        """Convert a mapping for a field of a ``tensor_only`` class to a TensorDict; take collections as they are."""
        source: Any = value
        if isinstance(value, Mapping):
            try:
                value = TensorDict(source, record._batch_size, record._device)
            except BatchMismatch as error:
                raise error.below(self.name) from None
        return value_checks.fit_collection(record, self.name, value, non_blocking)

    def _as_collection(self, record: Contracted, value: Any) -> TensorCollection:
        """Convert a mapping or TensorDict to the class of the field; with ``autocast``, also another record."""
        targets = [target for target in self.types if issubclass(target, TensorCollection)]
        entries, size, device, names = value, record._batch_size, record._device, None
        if isinstance(value, TensorCollection) and value._is_tree():
            entries, size, device, names = value._store, value._batch_size, value._device, value._names
            if not isinstance(value, TensorDict) and not self._options["autocast"]:
                targets = [target for target in targets if issubclass(target, TensorDict)]
        elif type(value) is not dict and not isinstance(value, Mapping):
            raise self.mismatch(value)
        for position, target in enumerate(targets, 1):
            concrete = TensorDict if target is TensorCollection else target
            item_ranks: Mapping[str, ItemRank] = getattr(concrete, "_item_ranks", {})
            found = (
                inferred_size(item_ranks, entries) if item_ranks and not isinstance(value, TensorCollection) else None
            )
            try:
                return concrete._from_mapping(entries, size if found is None else found, device, names)
            except (BatchMismatch, ContractError) as error:
                raise error.below(self.name) from None
            except ValueError as error:  # the keys do not match the fields
                if position == len(targets):
                    raise ValueError(f"{self.owner}.{self.name}: {error}") from None
        raise self.mismatch(value)

    def _fit_any(self, record: Contracted, value: Any, non_blocking: bool) -> Value:
        given: object = value
        if not self.types:
            is_array = not self._options["nocast"] and isinstance(value, (np.ndarray, np.generic))
            if is_array or isinstance(value, (Tensor, Collection)):
                return value_checks.fit(record, self.name, value, non_blocking)
            return self._stored(record, value)
        if self._is_object(value):
            if isinstance(value, (Tensor, Collection)):
                return value_checks.fit(record, self.name, value, non_blocking)
            return self._stored(record, value)
        if isinstance(given, (Mapping, TensorCollection)) and any(issubclass(t, TensorCollection) for t in self.types):
            return value_checks.fit_collection(record, self.name, self._as_collection(record, value), non_blocking)
        if self._is_column(record, value):
            return self._stored_column(record, value)
        if any(issubclass(t, Tensor) for t in self.types):
            return self._fit_tensor(record, value, non_blocking)
        raise self.mismatch(value)

    def _fit_object(self, record: Contracted, value: Any) -> Value:
        if self._options["autocast"] and self.types[:1] == (float,) and type(value) is int:
            value = float(value)  # an int is an object of the annotation float, too
        if not self._is_object(value):
            if self._is_column(record, value):
                return self._stored_column(record, value)
            if not self._options["autocast"] or isinstance(value, TensorCollection):
                raise self.mismatch(value)
            try:
                value = np.asarray(value) if self.types[0] is np.ndarray else self.types[0](value)
            except (TypeError, ValueError) as error:
                raise self.mismatch(value, f" ({error})") from None
            if not self._is_object(value):
                raise self.mismatch(value)
        return self._stored(record, value)

    def _one_object(self, value: Any) -> BatchObject:
        """Return data with the same object in all rows as one object. Raise if rows differ."""
        if isinstance(value, BatchObject):
            return value
        try:
            held = one_object(value)
        except RowsDiffer as error:
            raise RowsDiffer(f"{self.owner}.{self.name}: {error}") from None
        return BatchObject(held, value._metadata, batch_size=value._batch_size, device=value._device)

    def _stored(self, record: Contracted, value: Any) -> Value:
        size = record._batch_size
        shapes.check_size(size)
        return self.holder._of_rows(value, size, record._device, record._names)

    def _stored_column(self, record: Contracted, value: list[Any]) -> Value:
        return self.fit(record, NonTensorStack.from_list(value))

    def _is_column(self, record: Contracted, value: Any) -> bool:
        """Return whether a value is a list with an object for each row."""
        column, size, mode = value, record._batch_size, LIST_TO_STACK.current()
        if not isinstance(value, list) or mode is False:
            return False
        return (mode or (len(size) > 0 and len(column) == size[0])) and self._are_items(column)

    def _are_items(self, items: list[Any]) -> bool:
        for item in items:
            row = item
            if not (self._are_items(row) if isinstance(item, list) else self._is_item(item)):
                return False
        return True

    def _to_check(self, value: Leaf) -> Sequence[Any]:
        """Return the objects to check: one is enough if all are known to be of one class."""
        if value._is_uniform:
            return (value._unwrapped(),)
        objects, codes = value._coded_objects()
        if isinstance(objects, Deferred) and len(objects) and not (self.literals or objects.kind is None):
            return (objects[0],)
        return objects if len(objects) == 1 else drop_unused(objects, codes)[0]

    def _with_checked_objects(self, value: Any) -> Any:
        """Return objects that are checked, or will be when they are read from a file."""
        objects = () if value._is_uniform else value._coded_objects()[0]
        if isinstance(objects, Deferred) and objects.kind is None and len(objects) <= value._batch_size.numel():
            new = value._shallow()
            new._objects = objects.checked(self._check_object)
            return new
        for item in self._to_check(value):
            self._check_object(0, item)
        return value

    def _check_object(self, position: int, item: Any) -> None:
        if not self._is_item(item):
            raise self.mismatch(item)

    def _is_item(self, value: Any) -> bool:
        return self.optional if value is None else self._is_object(value)

    def _is_object(self, value: Any) -> bool:
        if self.literals:
            return any(type(value) is type(literal) and value == literal for literal in self.literals)
        if not self.types or isinstance(value, self.types):
            return True
        # an int is accepted for a float, and both for a complex, as in type checkers
        return (float in self.types and type(value) is int) or (
            complex in self.types and isinstance(value, (int, float)) and not isinstance(value, bool)
        )

    def mismatch(self, value: Any, why: str = "") -> TypeError:
        """Return the error for a value that does not match the annotation."""
        hint = self.namesake(value) or self.hint(value) or "give it that type, or change the annotation of the field"
        return TypeError(f"{self.owner}.{self.name}: expected {self.shown}, got {shown_value(value)}{why}; {hint}")

    def namesake(self, value: Any) -> str:
        """Return advice for a value whose class only has the name of one that the field takes; empty for others."""
        cls: type = value.__class__
        return namesake(cls, self.types)

    def hint(self, value: Any) -> str:
        """Return advice for values that often come by mistake, such as lists of objects; empty for other values."""
        rows: Any = value
        if value is None:
            return f"to allow None, declare {self.name}: {self.shown} | None"
        if self.kind is Kind.TENSOR and (advice := _for_tensor_field(self.name, value)):
            return advice
        is_list = isinstance(value, list) and len(rows) > 0 and self.kind in (Kind.OBJECT, Kind.ANY)
        if not is_list or not self._are_items(rows):
            return ""
        if self.kind is Kind.OBJECT and not self._options["stack_objects"]:
            return "it has an object for each row of a batch: declare the field Text (strings) or Column[...]"
        return f"it has an object for each row of a batch: give batch_size=[{len(rows)}]"


def shown_value(value: Any) -> str:
    """Return a value for a message: its class, and its ``repr`` if that is short."""
    shown = repr(value)
    is_short = len(shown) < 40 and "\n" not in shown
    return printable(f"{type(value).__name__} {shown}" if is_short else type(value).__name__)


def _for_tensor_field(name: str, value: Any) -> str:
    """Return advice for a value of a field of tensors: text, rows of different lengths, tables. Empty for others."""
    given: Any = value
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        return "from_pandas, from_polars or from_arrow makes a record of the columns of a table"
    is_array = issubclass(type(value), np.ndarray) and given.ndim
    if not (is_array or issubclass(type(value), (list, tuple)) or hasattr(given, "to_numpy")):
        return ""
    rows: list[Any] = list(itertools.islice(given, 1000))
    if rows and all(isinstance(row, str) for row in rows):
        return f"a string for each row is declared {name}: Text{help_link('not-a-tensor')}"
    if rows and all(isinstance(row, (list, tuple, Tensor, np.ndarray)) for row in rows):
        return (
            f"rows of different lengths are declared {name}: Ragged[Tensor], or padded with pad_sequence; torch.stack "
            f"joins tensors of one shape{help_link('not-a-tensor')}"
        )
    return ""


def shown_annotation(annotation: Any) -> str:
    """Return an annotation for a message. Classes have no modules in front of their names.

    >>> from tensorclass import Ragged
    >>> shown_annotation(Ragged[Tensor])
    'Ragged[Tensor]'
    """
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", str(annotation))


def classify(annotation: Any, space: dict[str, Any], scope: Mapping[str, Any], owner: type | None = None) -> Meaning:
    """Return the meaning of an annotation.

    Args:
        annotation: the annotation, as an object or as text.
        space: the names of its module.
        scope: more names: those of the function around the class, and of the class itself.
        owner: the class that ``Self`` stands for.

    >>> classify(Tensor | None, {}, {})
    Meaning(kind=<Kind.TENSOR: 1>, types=(<class 'torch.Tensor'>,), optional=True, literals=(), row=typing.Any)
    """
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return classify(_evaluated(annotation, space, scope), space, scope, owner)
    if annotation is None or annotation is type(None):
        return Meaning(Kind.OBJECT, (type(None),), True)
    if annotation is Any:  # a class since Python 3.11
        return Meaning(Kind.ANY, optional=True)
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return _of_class(annotation)
    if annotation in _SELF:
        return Meaning(Kind.COLLECTION, (owner or TensorCollection,))
    origin = typing.get_origin(annotation)
    if origin in (typing.Annotated, typing.Final, typing.ClassVar):
        return classify(typing.get_args(annotation)[0], space, scope, owner)
    if origin in _UNIONS:
        return _union([classify(part, space, scope, owner) for part in typing.get_args(annotation)])
    if origin is typing.Literal:
        literals = typing.get_args(annotation)
        values_only = tuple([literal for literal in literals if literal is not None])
        classes: dict[type, None] = {type(literal): None for literal in values_only}
        return Meaning(Kind.OBJECT, tuple(classes), None in literals, values_only)
    if isinstance(origin, type):  # list[str], Node[int], ...
        meaning = _of_class(origin)
        return meaning._replace(row=typing.get_args(annotation)[0]) if meaning.kind is Kind.COLUMN else meaning
    if isinstance(annotation, typing.TypeVar):
        if annotation.__constraints__:
            return _union([classify(part, space, scope, owner) for part in annotation.__constraints__])
        if annotation.__bound__ is not None:
            return classify(annotation.__bound__, space, scope, owner)
    if isinstance(annotation, torch.dtype) or annotation is torch.tensor or annotation is np.array:
        raise TypeError(_not_a_type(annotation))
    for alias in ("__supertype__", "__value__"):  # NewType; a type alias
        if hasattr(annotation, alias):
            return classify(getattr(annotation, alias), space, scope, owner)
    return Meaning(Kind.ANY, optional=True)  # type variables, and annotations that are not known here


def _not_a_type(annotation: Any) -> str:
    """Return the message about an annotation that newcomers write for ``Tensor``."""
    link = help_link("bad-contract")
    if isinstance(annotation, torch.dtype):
        return f"{annotation} is a dtype and no type; declare Annotated[Tensor, DType({annotation})]{link}"
    return f"{class_name(annotation)} is a function and no type; declare torch.Tensor{link}"


def _evaluated(annotation: str, space: dict[str, Any], scope: Mapping[str, Any]) -> Any:
    """Evaluate an annotation that is text."""
    try:
        return eval(annotation, space, dict(scope))  # the same text that Python itself would evaluate
    except (NameError, AttributeError):
        raise Unresolved from None
    except TypeError:  # an expression that this Python version cannot evaluate
        return Any


def evaluated(annotation: str, space: dict[str, Any], scope: Mapping[str, Any]) -> Any:
    """Evaluate an annotation that is text; return the text if it names a class that is not defined yet."""
    try:
        found = _evaluated(annotation, space, scope)
    except Unresolved:
        return annotation
    return annotation if found is Any else found


def _of_class(cls: type) -> Meaning:
    plain = Meaning(Kind.OBJECT, (cls,)) if _checkable(cls) else Meaning(Kind.ANY)
    array = described_array(cls)
    if array is not None and issubclass(array, (Tensor, TensorCollection)):
        return _of_class(array)
    if issubclass(cls, Tensor):
        return Meaning(Kind.TENSOR, (cls,))
    if issubclass(cls, (BufferColumn, Column)):
        return Meaning(Kind.COLUMN, (cls,))
    if issubclass(cls, NonTensorDataBase) or cls is builtins.object:
        return Meaning(Kind.ANY, optional=True)
    if issubclass(cls, Collection):
        return Meaning(Kind.COLLECTION, (cls,))
    return plain


def _union(parts: list[Meaning]) -> Meaning:
    optional = any(part.optional for part in parts)
    rest = [part for part in parts if part.types != (type(None),)]
    if any(part.kind is Kind.ANY and not part.types for part in rest):
        return Meaning(Kind.ANY, (), optional)
    classes = tuple({cls: None for part in rest for cls in part.types})
    literals = tuple([literal for part in rest for literal in part.literals])
    kinds = {part.kind for part in rest}
    if not all(part.literals for part in rest):
        literals = ()
    row = next((part.row for part in rest if part.kind is Kind.COLUMN), Any)
    return Meaning(kinds.pop() if len(kinds) == 1 else Kind.ANY, classes, optional, literals, row)


def _checkable(cls: type) -> bool:
    """Return whether ``isinstance(x, cls)`` is allowed."""
    try:
        isinstance(None, cls)
    except TypeError:  # a protocol without @runtime_checkable, a TypedDict
        return False
    return True
