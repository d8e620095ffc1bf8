"""The declarations of a record class as plain data: ``Sample.schema()`` and ``Sample.json_schema()``."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin

import torch

from tensorclass.contracts.contract import Contract
from tensorclass.contracts.dims import Dim
from tensorclass.contracts.dtype_names import CATEGORIES, spelled, usual
from tensorclass.contracts.row_contract import RowContract
from tensorclass.records.fields import FieldSpec, Kind
from tensorclass.td.columns.column import Column
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.columns.item_types import shown
from tensorclass.td.columns.text import Text

if TYPE_CHECKING:
    from .contracted import Contracted

#: version of the plain schema; increased whenever its form changes
VERSION = 1

Json = dict[str, Any]


class SchemaRecords:
    """The record classes of a schema, each under a name of its own, in the order in which they occur.

    Args:
        cls: the first class.
        describe: makes the description of a class.
    """

    def __init__(self, cls: type[Contracted], describe: Callable[[type[Contracted], SchemaRecords], Json]) -> None:
        self.names: dict[type[Contracted], str] = {}
        self.described: dict[str, Json] = {}
        #: names that occur more than once
        self.again: set[str] = set()
        self._describe = describe
        self.name(cls)

    def name(self, cls: type[Contracted]) -> str:
        """Return the name of a class. Classes that share a name get their module in front."""
        if cls not in self.names:
            name = cls.__qualname__
            if name in self.described:
                name = f"{cls.__module__}.{name}"
            while name in self.described:
                name += "_"
            self.names[cls] = name
            self.described[name] = {}  # so that a class can hold records of itself
            self.described[name] = self._describe(cls, self)
        else:
            self.again.add(self.names[cls])
        return self.names[cls]


# ---------------------------------------------------------------------------------------------------------------------
# the plain schema


def schema(cls: type[Contracted]) -> Json:
    """See :meth:`TensorClass.schema`."""
    records = SchemaRecords(cls, _plain)
    first, *others = records.described
    nested = {name: records.described[name] for name in others}
    return {"version": VERSION, **records.described[first], **({"records": nested} if nested else {})}


def _plain(cls: type[Contracted], records: SchemaRecords) -> Json:
    fields = {name: _plain_field(spec, cls, records) for name, spec in cls._specs.items()}
    return {"name": cls.__qualname__, "module": cls.__module__, "fields": fields}


def _plain_field(spec: FieldSpec, cls: type[Contracted], records: SchemaRecords) -> Json:
    record = _record(spec, cls)
    kind = spec.kind
    result: Json = {"kind": "any" if kind is None else kind.name.lower(), "optional": spec.optional}
    if record is not None:
        result.update(kind="record", record=records.name(record))
    elif kind is None:
        result["types"] = [spec.shown]
    elif kind is not Kind.TENSOR and spec.types:
        result["types"] = [_type_name(one) for one in spec.types]
    if spec.literals:
        result["values"] = [_json_or_repr(value) for value in spec.literals]
    contract = spec.contract
    if contract is not None:
        result["contract"] = _plain_contract(contract)
        if contract.others:
            result["contract"]["or"] = [_plain_contract(other) for other in contract.others]
    if spec.row_contract is not None:
        result["row"] = _plain_row(spec.row_contract)
        if spec.row_contract.others:
            result["row"]["or"] = [_plain_row(other) for other in spec.row_contract.others]
    elif spec.column is not None and issubclass(spec.column.cls, Column) and spec.column.item_type is not Any:
        result["item"] = shown(spec.column.item_type)
    if spec.column is not None and spec.column.ragged_dims > 1:
        result["ragged_dims"] = spec.column.ragged_dims
    if spec.stored_name != spec.name:
        result["stored_name"] = spec.stored_name
    if not spec.init:
        result["init"] = False
    if spec.kw_only:
        result["kw_only"] = True
    return {**result, **_plain_default(spec)}


def _plain_contract(contract: Contract) -> Json:
    result: Json = {}
    if contract.dims is not None:
        result["shape"] = " ".join([dim.text for dim in contract.dims])
    if contract.dtypes is not None:
        result["dtype"] = _dtypes(contract.dtypes, contract.dtype_name)
    if contract.low is not None:
        result["low"] = _number(contract.low)
    if contract.high is not None:
        result["high"] = _number(contract.high)
    if contract.device is not None:
        result["device"] = str(contract.device)
    return result


def _plain_row(row: RowContract) -> Json:
    result = _plain_contract(row.item)
    if row.length is not None:
        result["shape"] = " ".join([row.length.text, *[dim.text for dim in row.item.dims or ()]])
    return {"shape": result.pop("shape"), **result} if "shape" in result else result


def _dtypes(dtypes: frozenset[torch.dtype], name: str) -> list[str]:
    # jaxtyping and torch know different exotic dtypes, which do not make it another category
    known = name in CATEGORIES and usual(dtypes) == usual(CATEGORIES[name])
    return [name] if known else spelled(dtypes)


def _number(bound: float) -> float | str:
    return bound if math.isfinite(bound) else str(bound)  # JSON has no numbers for infinity


def _plain_default(spec: FieldSpec) -> Json:
    if spec.factory is not None:
        return {"default_factory": _type_name(spec.factory)}
    if spec.default is None:
        return {}
    value = spec.default()
    return {"default": value} if _is_json(value) else {"default_repr": _json_or_repr(value)}


def _is_json(value: Any) -> bool:
    """Return whether JSON can hold the value exactly, so that reading it returns an equal one."""
    kind: Any = cast("Any", type(value))
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(_is_json, value))
    if kind is dict:
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    return value is None or kind in (str, int, bool)


def _json_or_repr(value: Any) -> Any:
    if _is_json(value):
        return value
    shown = repr(value)
    # the address differs between runs
    return f"<{_type_name(type(value))}>" if f"0x{id(value):x}" in shown.lower() else shown


def _type_name(one: Any) -> str:
    name = getattr(one, "__qualname__", type(one).__qualname__)
    module = getattr(one, "__module__", "builtins")
    return name if module == "builtins" else f"{module}.{name}"


def _record(spec: FieldSpec, cls: type[Contracted]) -> type[Contracted] | None:
    """Return the record class that a field of ``cls`` holds, if any."""
    target: Any = spec.target(cls)  # (evaluates the annotation again, if its class was not defined before)
    return target if getattr(target, "_specs", None) else None


# ---------------------------------------------------------------------------------------------------------------------
# JSON Schema


def json_schema(cls: type[Contracted], batch_dims: int = 0, *, stored_names: bool = False) -> Json:
    """See :meth:`TensorClass.json_schema`."""
    if isinstance(batch_dims, bool) or not isinstance(batch_dims, int) or batch_dims < 0:
        raise ValueError(f"json_schema: batch_dims is the number of batch dimensions, 0 or more, got {batch_dims!r}")
    shapes: dict[str, Json] = {}

    def name_of(spec: FieldSpec) -> str:
        return spec.stored_name if stored_names else spec.name

    def described(one: type[Contracted], records: SchemaRecords) -> Json:
        properties = {
            name_of(spec): _json_field(f"{one.__qualname__}.{name}", spec, one, records, batch_dims, shapes)
            for name, spec in one._specs.items()
        }
        return {
            "title": one.__qualname__,
            "type": "object",
            "properties": properties,
            "required": [name_of(spec) for spec in one._specs.values() if not spec.allows_none_in(one)],
            "additionalProperties": False,
        }

    records = SchemaRecords(cls, described)
    first, *others = records.described
    definitions = {**{name: records.described[name] for name in others}, **shapes}
    top = records.described[first]
    if first in records.again:
        definitions = {first: top, **definitions}
        top = {"$ref": _reference(first)}
    return {"$schema": _DRAFT, **top, **({"$defs": definitions} if definitions else {})}


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _reference(name: str) -> str:
    return "#/$defs/" + name.replace("~", "~0").replace("/", "~1")


def _json_field(
    path: str, spec: FieldSpec, cls: type[Contracted], records: SchemaRecords, batch_dims: int, shapes: dict[str, Json]
) -> Json:
    record = _record(spec, cls)
    kinds: list[Json] = []
    if record is not None:
        kinds = [{"$ref": _reference(records.name(record))}]
    elif spec.kind is Kind.COLLECTION:
        kinds = [{"type": "object"}]
    elif spec.kind is Kind.TENSOR or spec.contract is not None:
        contract = spec.contract or Contract()
        for i, one in enumerate((contract, *contract.others)):
            found = _json_tensor(one, batch_dims, f"{path}.{i}" if i else path, shapes)
            kinds += [found] if found not in kinds else []
    elif spec.column is not None:
        kinds = _json_column(path, spec.column, spec.row_contract, batch_dims, shapes)
    objects = [one for one in spec.types if one in _OBJECTS] if spec.kind in (Kind.OBJECT, Kind.ANY) else []
    if spec.literals and all(map(_is_json, spec.literals)):
        objects, kinds = [], [*kinds, _rows({"enum": list(spec.literals)}, batch_dims)]
    elif not objects and not kinds:
        return {}  # any value
    elif spec.kind is Kind.ANY and len(objects) + len(kinds) < len(spec.types):
        return {}
    kinds += [_rows({"type": _OBJECTS[one]}, batch_dims) for one in objects]
    kinds += [{"type": "null"}] if spec.allows_none_in(cls) else []
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


_OBJECTS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", tuple: "array", dict: "object",
    type(None): "null",
}  # fmt: skip


def _json_column(
    path: str, column: Declared, contract: RowContract | None, batch_dims: int, shapes: dict[str, Json]
) -> list[Json]:
    """Return the schemas of the lists of a column, one for each alternative of its contract."""
    rows: list[Json] = []
    if issubclass(column.cls, Text):
        rows = [{"type": "string"}]
    elif issubclass(column.cls, Column):
        rows = [_json_object(column.item_type)]
    else:
        for i, one in enumerate(contract or (RowContract(None, Contract(), column.ragged_dims),)):
            row = _json_tensor(one.item, 0, f"{path}.{i}" if i else path, shapes)
            length = {} if one.length is None else _json_size(one.length)
            rows.append({"type": "array", "items": row, **length})
            for _ in range(column.ragged_dims - 1):
                rows[-1] = {"type": "array", "items": rows[-1]}
    for _ in range(batch_dims):
        rows = [{"type": "array", "items": row} for row in rows]
    return rows


def _json_object(annotation: Any) -> Json:
    """Return the schema of an object of a type; any value for types that JSON does not have."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is None:
        return {"type": "null"}
    if origin is None:
        return {"type": _OBJECTS[annotation]} if annotation in _OBJECTS else {}
    if origin is Literal:
        return {"enum": list(args)} if all(map(_is_json, args)) else {}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_json_object(arg) for arg in args]}
    if origin is list:
        return {"type": "array", "items": _json_object(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _json_object(args[1])}
    return {}


def _rows(value: Json, batch_dims: int) -> Json:
    """Return the schema of one object for all rows, or of lists with one for each."""
    if not batch_dims:
        return value
    nested = value
    for _ in range(batch_dims):
        nested = {"type": "array", "items": nested}
    return {"anyOf": [value, nested]}


def _json_tensor(contract: Contract, batch_dims: int, name: str, shapes: dict[str, Json]) -> Json:
    found = _json_element(contract)
    dims: Sequence[Dim] = (Dim("...", variadic=True),) if contract.dims is None else contract.dims
    for dim in reversed(dims):
        if dim.variadic:
            # nested in any number of lists
            shapes[name] = {"anyOf": [found, {"type": "array", "items": {"$ref": _reference(name)}}]}
            found = {"$ref": _reference(name)}
        else:
            found = {"type": "array", "items": found, **_json_size(dim)}
    for _ in range(batch_dims):
        found = {"type": "array", "items": found}
    return found


def _json_size(dim: Dim) -> Json:
    if dim.size is None:
        return {"title": dim.text} if dim.names else {}  # JSON Schema cannot say that sizes are equal
    if dim.broadcastable and dim.size != 1:
        return {"anyOf": [{"minItems": size, "maxItems": size} for size in (1, dim.size)]}
    return {"minItems": dim.size, "maxItems": dim.size}


def _json_element(contract: Contract) -> Json:
    """Return the schema of one number. JSON has no complex numbers: they may be any value."""
    dtypes = contract.dtypes
    if dtypes is None:
        kinds = ["number", "boolean"]
    elif any(dtype.is_complex for dtype in dtypes):
        return {}
    else:
        kinds = ["number" if any(dtype.is_floating_point for dtype in dtypes) else "integer"]
        if torch.bool in dtypes:
            kinds = ["boolean"] if len(dtypes) == 1 else [*kinds, "boolean"]
    result: Json = {"type": kinds[0] if len(kinds) == 1 else kinds}
    low, high = contract.low, contract.high
    if dtypes is not None and all(str(dtype).startswith("torch.uint") for dtype in dtypes):
        low = max(low or 0, 0)
    if low is not None and math.isfinite(low):
        result["minimum"] = low
    if high is not None and math.isfinite(high):
        result["maximum"] = high
    return result
