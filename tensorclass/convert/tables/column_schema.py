"""Schema of the columns of a table: what the fields of a record declare about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.contracts.contract import Contract
from tensorclass.convert.conversion_steps import object_column
from tensorclass.convert.conversion_targets import entry_target, target_class
from tensorclass.records.fields import FieldSpec, Kind
from tensorclass.records.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind, holds_objects
from tensorclass.td.leaves.nontensor import NonTensorDataBase
from tensorclass.td.leaves.object_codes import Deferred, to_lists
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import as_tensor

#: marks a field without default
NOTHING: Any = object()


class ColumnSchema(NamedTuple):
    """The declared form of a column, known before it is read. Nothing is declared below a :class:`TensorDict`."""

    spec: FieldSpec | None = None
    #: the kind of value: a tensor, an object for each row, a collection, a column as declared, or ``"any"`` of these,
    #: as the data says
    holds: Literal["any", "tensor", "object", "collection", "column"] = "any"
    #: class of the collection
    target: type[TensorCollection] = TensorDict

    @classmethod
    def of(cls, owner: type[TensorCollection], path: Sequence[str]) -> ColumnSchema | None:
        """Look up the schema of the value under a (nested) key of a class; ``None`` if the class has no such field.

        >>> class Sample(TensorClass):
        ...     x: Tensor
        ...     name: str = "none"
        >>> [ColumnSchema.of(Sample, (key,)).holds for key in ("x", "name")], ColumnSchema.of(Sample, ("y",))
        (['tensor', 'object'], None)
        """
        found = cls(target=owner)
        for name in path:
            if found.holds not in ("any", "collection"):
                return cls()  # objects and tensors have no keys; the constructor raises
            holder = target_class(found.target)
            if not issubclass(holder, TensorClass):
                return cls()
            spec = holder._specs.get(name)
            if spec is None:
                return None
            inner: Any = entry_target(holder, name)
            if spec.column is not None:
                found = cls(spec, "column")
            elif inner is Tensor:
                found = cls(spec, "tensor")
            elif inner is not None:
                found = cls(spec, "collection", inner)
            elif spec.kind is Kind.OBJECT or (spec.types and not any(issubclass(one, Tensor) for one in spec.types)):
                found = cls(spec, "object")
            else:
                found = cls(spec)
        return found

    @property
    def is_undeclared(self) -> bool:
        """Return whether the data alone says what the value is: a :class:`TensorDict`, or a field of type ``Any``."""
        return self.spec is None or (self.holds == "any" and not self.spec.types and not self.spec.literals)

    @property
    def optional(self) -> bool:
        """Return whether the value may be ``None``."""
        return self.spec is None or self.spec.optional

    def default(self) -> Any:
        """Return the default of the field, ``NOTHING`` without one. Each call runs the factory, if there is one."""
        if self.spec is None or self.spec.default is None:
            return NOTHING
        return self.spec.default()

    @property
    def declared(self) -> Declared:
        """The declaration of a column."""
        assert self.spec is not None
        declared = self.spec.column
        assert declared is not None
        return declared

    def typed(self, rows: Any) -> Any:
        """Return ragged rows without items, which show no dtype, in one that the field allows."""
        is_ragged = content_kind(rows) is Content.RAGGED
        contract = row_contract(self.declared) if is_ragged else None
        if contract is None or contract.dtypes is None or rows.dtype in contract.dtypes or int(rows.lengths.sum()):
            return rows
        return rows.to(dtype=preferred_dtype(contract))

    @property
    def shown(self) -> str:
        """The annotation, for messages."""
        return "a value" if self.spec is None else self.spec.shown


def fit_columns(owner: type[TensorCollection], values: Mapping[str, Any], size: Sequence[int]) -> dict[str, Any]:
    """Convert the values of a table or array to what the fields of a record take.

    - A missing column of numbers becomes the default of its field in each row.
    - Numbers for a field of objects become objects, row by row.
    - With the class option ``autocast``, numbers get the dtype of the field's contract if all of them fit, and objects
      the class of the field.

    Args:
        owner: the record class, or another collection, whose values stay as they are.
        values: the values by key, nested ones as dicts.
        size: the shape of the table or array: its rows.

    >>> class Sample(TensorClass):
    ...     x: Tensor
    ...     id: int
    ...     weight: Tensor = torch.tensor(1.0)
    >>> made = fit_columns(Sample, {"x": torch.zeros(2), "id": torch.tensor([3, 4])}, [2])
    >>> made["weight"], made["id"].tolist()
    (tensor([1., 1.]), [3, 4])
    """
    made = dict(values)
    holder = target_class(owner)
    for name, spec in holder._specs.items() if issubclass(holder, TensorClass) else ():
        inner: Any = entry_target(holder, name)
        if name not in made:
            default = None if spec.default is None or inner is not Tensor else spec.default()
            tensor = default if isinstance(default, Tensor) else as_tensor(default)
            if tensor is not None:
                made[name] = tensor.expand((*size, *tensor.shape)).clone()
        elif isinstance(made[name], dict):
            if inner is not None and inner is not Tensor:
                made[name] = fit_columns(inner, made[name], size)
            elif inner is None and dict in spec.types:
                made[name] = _dicts(made[name], size)
        else:
            made[name] = _fitted(spec, made[name], len(size))
    return made


def _fitted(spec: FieldSpec, value: Any, depth: int) -> Any:
    given: Any = value
    if spec.kind is Kind.OBJECT and isinstance(value, Tensor):
        given = _rows_of(spec, value, depth)
    if not spec._options["autocast"]:
        return given
    return _cast_to(spec, given)


def _cast_to(spec: FieldSpec, given: Any) -> Any:
    column: Any = given
    content = content_kind(given)
    if content is Content.RAGGED and spec.column is not None and (contract := row_contract(spec.column)) is not None:
        return _cast_items(column, contract)
    if content is Content.OBJECTS and spec.kind is Kind.OBJECT:
        return _cast_objects(spec, given)
    if isinstance(given, Tensor) and spec.contract is not None:
        return _cast(given, spec.contract)
    return column


def _rows_of(spec: FieldSpec, value: Tensor, depth: int) -> Any:
    """Convert a tensor to objects row by row: numbers, or lists if the field takes lists."""
    if not value.is_nested and value.ndim == depth:
        return object_column(to_lists(value.reshape(-1)), value.shape)
    list_type = next((one for one in (list, tuple) if one in spec.types), None)
    if list_type is None:
        return value
    rows = value.unbind() if depth == 1 else value.flatten(0, depth - 1) if depth else [value]
    return object_column([list_type(to_lists(row)) for row in rows], value.shape[:depth])


def _dicts(columns: Mapping[str, Any], size: Sequence[int]) -> Any:
    """Convert columns to one dict for each row, for a field that holds dicts."""
    rows: list[dict[str, Any]] = [{} for _ in range(math.prod(size))]
    for key, column in columns.items():
        below_it: Any = column
        column = _dicts(below_it, size) if isinstance(column, dict) else column
        items = [None] * len(rows) if column is None else column.flatten(0, len(size) - 1) if len(size) > 1 else column
        listed_ones = items.tolist() if holds_objects(items) else items
        for row, item in zip(rows, listed_ones, strict=True):
            row[key] = to_lists(item) if isinstance(item, Tensor) else item
    return object_column(rows, Size(size))


def _cast_objects(spec: FieldSpec, value: NonTensorDataBase) -> NonTensorDataBase:
    if isinstance(value._objects, Deferred) and all(map(spec._is_item, spec._to_check(value))):
        return value
    try:
        cast_ones = [one if spec._is_item(one) else spec.types[0](one) for one in value._objects]
    except (TypeError, ValueError):  # the constructor says which one does not fit
        return value
    new = value._shallow()
    new._objects = tuple(cast_ones)
    return new


#: dtypes in order of preference, for contracts that allow several
_PREFERRED = (torch.int64, torch.bool, torch.float32, torch.complex64)


def row_contract(declared: Declared) -> Contract | None:
    """Return the contract of the rows of a ragged field; ``None`` if it has none."""
    return Contract.of(declared.item_type) if issubclass(declared.cls, Ragged) else None


def preferred_dtype(contract: Contract) -> torch.dtype | None:
    """Return the dtype of values that must keep a contract; ``None`` if it allows every dtype."""
    allowed = contract.dtypes
    if allowed is None:
        return None
    order = [dtype for dtype in (torch.get_default_dtype(), *_PREFERRED) if dtype in allowed]
    return order[0] if order else min(allowed, key=str)


def _cast_items(rows: Ragged[Any], contract: Contract) -> Ragged[Any]:
    """Cast ragged rows to the dtype of a contract, if no item changes."""
    items = rows.compact().values
    while not isinstance(items, Tensor):
        items = items.values
    made = _cast(items, contract)
    return rows if made.dtype == items.dtype else rows.to(dtype=made.dtype)


def _cast(values: Tensor, contract: Contract) -> Tensor:
    """Cast numbers to the dtype of a contract, if none of them changes."""
    allowed, dtype = contract.dtypes, preferred_dtype(contract)
    if dtype is None or allowed is None or contract.others or values.dtype in allowed or values.is_nested:
        return values
    made = values.to(dtype)
    if dtype.is_floating_point or dtype.is_complex or torch.equal(made.to(values.dtype), values):
        return made
    return values


def fill_rows(values: Tensor, given: Tensor, default: Any) -> Tensor | None:
    """Fill missing rows of a tensor with a default; ``None`` if the default does not fit.

    Args:
        values: the rows; missing rows may hold anything.
        given: ``True`` for each row that is not missing.
        default: a number, an array or a tensor, broadcast to the shape of a row.

    pandas turns integers with missing values into doubles. A default that is an integer turns them back.

    >>> fill_rows(torch.tensor([1.0, float("nan")], dtype=torch.float64), torch.tensor([True, False]), 7)
    tensor([1, 7])
    """
    fill = default.detach() if isinstance(default, Tensor) else as_tensor(default)
    if fill is None:
        return None
    try:
        fill = fill.to(values.device).expand(values.shape[1:])
    except RuntimeError:  # the shapes do not fit
        return None
    whole, dtype = _is_whole(fill), values.dtype
    if whole and dtype == torch.float64 and bool((values[given] % 1 == 0).all()):
        dtype = torch.int64 if fill.dtype == torch.bool else fill.dtype
    elif not whole and _is_whole(values):
        dtype = torch.promote_types(fill.dtype, torch.float64)
    shape = (-1, *(1,) * (values.ndim - 1))
    values = torch.where(given.reshape(shape), values, 0).to(dtype)  # nan has no integer value
    return torch.where(given.reshape(shape), values, fill.to(dtype))


def _is_whole(values: Tensor) -> bool:
    return not (values.is_floating_point() or values.is_complex())
