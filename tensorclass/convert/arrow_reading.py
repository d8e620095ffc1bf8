"""Columns of Arrow as values: tensors, non-tensor data, and dicts of them for structs.

What a column becomes depends on what it is for (``declared.py``): a field of a record says whether it takes a tensor, a
collection or objects; a :class:`TensorDict` takes numbers as tensors, structs as collections, the rest as objects. A
column that cannot be read is noted in the plan, and left out.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.nontensor import NonTensorData, stack_of
from tensorclass.td.objects import Deferred, compact, row_by_row
from tensorclass.td.unbatched import UnbatchedTensor
from tensorclass.td.values import as_tensor

from .arrow_extensions import check_extensions
from .arrow_numbers import Deep, NumberReader, Numbers, Reading, Unreadable, compute, nulls_of, shared
from .arrow_text import HEAD, Text, is_text, repeats
from .arrow_writing import about, noted_size
from .declared import NOTHING, Declared
from .tree import FAILED, Plan, part, target_class

#: torch can choose among values of these only as signed ones
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


#: what is made of a list where a field takes it; a dict, of a map
_LISTED: dict[type, Callable[[Any], Any]] = {one: one for one in (tuple, set, frozenset, dict)}


class Objects(list[Any]):
    """A column of objects that Arrow cannot hold."""


class Given(NamedTuple):
    """A column as it is given: with any number of chunks, and with what is noted in the metadata of its field."""

    #: a ``pyarrow.ChunkedArray``, :class:`Objects`, or why it is none
    column: Any
    note: Mapping[str, Any] = MappingProxyType({})


class Column(NamedTuple):
    """A value, and where it was given: ``True`` for what is not null. ``None`` where nothing is."""

    value: Any
    mask: Any = None


class Rows(list[Tensor]):
    """Tensors of different shapes, one a row: what ``ragged="lazy"`` makes a lazy stack of."""


class ColumnReader(NumberReader):
    """Reads columns as a plan and options say."""

    def __init__(self, pa: Any, plan: Plan, reading: Reading) -> None:
        super().__init__(pa, reading)
        self.plan = plan
        self._counted_rows: Tensor | None = None
        #: how many of its list levels a column of objects gives to the batch
        self.levels: int | None = None if plan.auto else len(plan.batch_size or (0,)) - 1

    # -- columns by name ----------------------------------------------------------------------------------------------

    def values(
        self, columns: Mapping[str, Any], target: type[TensorCollection] | TensorCollection, path: tuple[str, ...] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of (nested dicts of) columns by name, and their masks. Columns that cannot be read are noted."""
        cls = target_class(target)
        values: dict[str, Any] = {}
        masks: dict[str, Any] = {}
        refused = self._refused(cls, columns, path)
        for name, column in columns.items():
            wanted = Declared.of(cls, (name,))
            if wanted is None:  # no field: what comes next says so, and need not know the values
                values[name] = None
                continue
            where = (*path, name)
            if name in refused:
                continue
            try:
                found = self.column(column, wanted, where)
            except Unreadable as error:
                self.plan.problems.add(where, *error.problem)
                continue
            if found.value is FAILED:
                continue
            values[name] = found.value
            if found.mask is not None:
                masks[name] = found.mask
        return values, masks

    def _refused(self, cls: Any, columns: Mapping[str, Any], path: tuple[str, ...]) -> set[str]:
        """The columns with types that are not read, which are noted: of all columns, before a value of one is read."""
        found: set[str] = set()
        for name, given in columns.items():
            if isinstance(given, Given) and hasattr(given.column, "type") and Declared.of(cls, (name,)) is not None:
                try:
                    check_extensions(self.pa, given.column.type)
                except Unreadable as error:
                    self.plan.problems.add((*path, name), *error.problem)
                    found.add(name)
        return found

    def column(self, given: Any, wanted: Declared, path: tuple[str, ...]) -> Column:
        """A column, or a dict of columns for a nested collection."""
        types, purpose = self.pa.types, wanted.kind
        nests = purpose == "collection" or wanted.spec is None
        if isinstance(given, dict):
            columns = cast("dict[str, Any]", given)
            if not nests:
                raise Unreadable(wanted.shown, f"nested columns {sorted(columns)}")
            return self._collection(columns, wanted.target, path)
        column, note = given
        if isinstance(column, Unreadable):
            raise column
        if isinstance(column, Objects):
            return self._of_objects(column, wanted)
        if note.get("none") and _takes_none(wanted) and column.null_count == len(column):
            return Column(None)
        if note.get("objects") and purpose == "any":
            return self._objects(column, wanted, note)
        if isinstance(column.type, self.pa.BaseExtensionType):
            column = self._unextended(column)
        kind = column.type
        if types.is_null(kind) and purpose != "object":
            return self._nothing(len(column), wanted)
        if nests and types.is_struct(kind):
            made = self._struct(column, wanted, path)
            return self._with_dims(made, wanted, noted_size(len(column), note), path) if "batch_size" in note else made
        if purpose == "collection":
            return self._structs_in_lists(column, wanted, path)
        if purpose != "object" and self.is_numeric(kind, times=purpose == "tensor"):
            try:
                return self._settled(self.numbers(self.joined(column)), wanted, note)
            except Deep:
                if self.reading.ragged == "lazy":
                    return self._deep_rows(self.joined(column), wanted, note)
                if purpose == "tensor" or self.reading.ragged == "raise":
                    raise
        if purpose == "tensor":
            raise Unreadable(wanted.shown, f"a column of {kind}")
        return self._objects(column, wanted, note)

    # -- where numbers are null ---------------------------------------------------------------------------------------

    def _settled(self, found: Numbers, wanted: Declared, note: Mapping[str, Any]) -> Column:
        """Numbers with what stands for nulls, ragged ones in the form that was asked for."""
        if "dtype" in note:
            self.must_copy(f"{note['dtype']}, which Arrow does not have")
            found = _in_dtype(found, note["dtype"])
        value, mask, lengths, rows = found
        if mask is None and rows is None:
            value = value.clone() if self.reading.copy else value
        else:
            self._check_nulls(mask, rows, wanted)
            self.must_copy("nulls that are filled")
            if self.reading.nulls == "default":
                if rows is not None and lengths is not None:
                    return self._ragged_default(found, wanted)
                assert mask is not None
                value = _with_default(value, mask, wanted)
            elif mask is not None:
                value = _chosen(mask, value, torch.tensor(float("nan") if value.is_floating_point() else 0))
        if note.get("unbatched") and lengths is None and len(value) and bool((value == value[:1]).all()):
            return Column(UnbatchedTensor(value[0]))
        if lengths is None:
            return Column(value, mask if self.reading.nulls == "mask" else None)
        if self.reading.nulls != "mask":
            return Column(self._ragged(value, lengths))
        if mask is not None and rows is not None:
            raise Unreadable(
                "lists, or items of lists, that are null", "both", "one mask cannot say where; use nulls='fill'"
            )
        return Column(self._ragged(value, lengths), rows if mask is None else self._ragged(mask, lengths))

    def _check_nulls(self, mask: Tensor | None, rows: Tensor | None, wanted: Declared) -> None:
        count = sum(int((~one).sum()) for one in (mask, rows) if one is not None)
        if self.reading.nulls == "raise":
            raise Unreadable("no nulls", nulls_of(count), _HINT)
        if self.reading.nulls != "default":
            return
        if wanted.spec is None or wanted.spec.default is None:
            what = "no nulls" if wanted.spec is None else "no nulls, as it has no default"
            raise Unreadable(what, nulls_of(count), _HINT)

    def _ragged_default(self, found: Numbers, wanted: Declared) -> Column:
        value, mask, lengths, rows = found
        assert lengths is not None
        assert rows is not None
        if mask is not None:
            value = _with_default(value, mask, wanted)
        default = _default_tensor(wanted, value.dtype)
        if default is None or default.ndim != value.ndim or default.shape[1:] != value.shape[1:]:
            shown = "None" if default is None else f"of shape {list(default.shape)}"
            raise Unreadable("a list as default, to stand for lists that are null", f"one {shown}", _HINT)
        given = iter(_split(value, lengths[rows]))
        parts = [next(given) if there else default for there in rows.tolist()]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        lengths = torch.where(rows, lengths, len(default))
        return Column(self._ragged(torch.cat(parts), lengths))

    def _ragged(self, value: Tensor, lengths: Tensor) -> Any:
        if self.reading.ragged == "lazy":
            return Rows(_split(value, lengths))
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return torch.nested.nested_tensor_from_jagged(value, offsets)

    def _deep_rows(self, array: Any, wanted: Declared, note: Mapping[str, Any]) -> Column:
        rows = Rows()
        for position in range(len(array)):
            found = self.numbers(array.slice(position, 1).flatten())
            if found.mask is not None or found.rows is not None or not array[position].is_valid:
                raise Unreadable("no nulls in lists of lists of different lengths", "some")
            made = self._settled(found, wanted, note).value
            rows.append(self._jagged_row(found) if isinstance(made, Rows) else made)
        return Column(rows)

    def _jagged_row(self, found: Numbers) -> Tensor:
        assert found.lengths is not None
        offsets = torch.cat([found.lengths.new_zeros(1), found.lengths.cumsum(0)])
        return torch.nested.nested_tensor_from_jagged(found.value, offsets)

    # -- nested collections -------------------------------------------------------------------------------------------

    def _collection(self, columns: Mapping[str, Any], target: Any, path: tuple[str, ...]) -> Column:
        values, masks = self.values(columns, target, path)
        return Column(values, masks or None)

    def _struct(self, column: Any, wanted: Declared, path: tuple[str, ...]) -> Column:
        kind = column.type
        if len(column) and column.null_count == len(column) and self._may_be_none(wanted):
            return Column(None)
        names = [kind.field(position).name for position in range(kind.num_fields)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Unreadable("one value for each name", f"several values for {twice}")
        if not names:
            return Column({})
        notes = [about(kind.field(position).metadata) for position in range(kind.num_fields)]
        given = [Given(child, note) for child, note in zip(column.flatten(), notes, strict=True)]
        return self._collection(dict(zip(names, given, strict=True)), wanted.target, path)

    def _with_dims(self, made: Column, wanted: Declared, size: Size, path: tuple[str, ...]) -> Column:
        """A nested collection that has more batch dimensions than what is around it."""
        asked = self.plan._replace(auto=False, batch_dims=None, batch_size=size, names=None)
        return made._replace(value=part(wanted.target, made.value, asked, path))

    def _may_be_none(self, wanted: Declared) -> bool:
        return self.reading.nulls == "default" and wanted.spec is not None and _takes_none(wanted)

    def _structs_in_lists(self, column: Any, wanted: Declared, path: tuple[str, ...]) -> Column:
        """Lists of structs, as many in each row: a nested collection with more batch dimensions."""
        kind, shape = column.type, [len(column)]
        while self.is_list(kind):
            kind = kind.value_type
        if not self.pa.types.is_struct(kind):
            raise Unreadable(wanted.shown, f"a column of {column.type}")
        while self.is_list(column.type):
            column, size = self.opened(column)
            shape.append(size)
        made = self._struct(column, wanted, path)
        if made.mask is not None:
            made = made._replace(mask=_reshaped(made.mask, shape))
        return made._replace(value=_reshaped(made.value, shape))

    # -- objects ------------------------------------------------------------------------------------------------------

    def _nothing(self, count: int, wanted: Declared) -> Column:
        """A column that has nothing but nulls."""
        mask = torch.zeros(count, dtype=torch.bool)
        if self._may_be_none(wanted) and wanted.spec is not None and wanted.spec.default is None:
            return Column(None)
        default = _default(wanted) if self.reading.nulls == "default" and count else None
        if (tensor := _as_tensor(default)) is not None and wanted.kind == "tensor":
            return Column(tensor.expand(count, *tensor.shape).clone())
        if default is None and self._may_be_none(wanted):
            return Column(None)
        return self._coded((None,), torch.zeros(count, dtype=torch.long), mask, wanted)

    def _of_objects(self, column: Objects, wanted: Declared) -> Column:
        if wanted.kind == "tensor":
            raise Unreadable(wanted.shown, "a column of objects")
        mask = torch.tensor([item is not None for item in column], dtype=torch.bool)
        return self._coded(tuple(column), row_by_row(mask.shape), None if bool(mask.all()) else mask, wanted)

    def _objects(self, column: Any, wanted: Declared, note: Mapping[str, Any]) -> Column:
        shape = [len(column)]
        while self.is_list(column.type) and self._opens(len(shape), wanted):
            try:
                column, size = self.opened(column)
            except Unreadable:
                if self.levels is None or self.levels < len(shape):
                    break
                raise
            shape.append(size)
        objects, codes = self._coded_column(column)
        if len(shape) > 1:
            codes = codes.reshape(shape)
        mask = None
        if column.null_count and (missing := [code for code, value in enumerate(objects) if value is None]):
            mask = ~torch.isin(codes, torch.tensor(missing)) if len(missing) < len(objects) else codes < 0
        if note.get("uniform") and len(column) and mask is None and all(value == objects[0] for value in objects):
            objects, codes = objects[:1], torch.zeros_like(codes)
            made = self._coded(objects, codes, mask, wanted)
            return made._replace(value=NonTensorData(made.value._objects[0], batch_size=codes.shape))
        return self._coded(objects, codes, mask, wanted)

    def _opens(self, levels: int, wanted: Declared) -> bool:
        """Whether another level of lists of objects is a dimension of the batch."""
        if wanted.spec is not None and wanted.spec.types:
            return not any(issubclass(one, (list, tuple)) for one in wanted.spec.types)
        return self.levels is None or levels <= self.levels

    def _coded_column(self, column: Any) -> tuple[Sequence[Any], Tensor]:
        """The objects of a column, and a code for each of its rows."""
        types, kind = self.pa.types, column.type
        if types.is_run_end_encoded(kind):
            column = compute(self.pa).run_end_decode(column)
        elif types.is_string_view(kind) or types.is_binary_view(kind):  # for which Arrow can do less
            column = column.cast(self.pa.large_string() if types.is_string_view(kind) else self.pa.large_binary())
        if is_text(self.pa, column.type) and not column.null_count and not self.reading.copy:
            return Text(self.pa, column), self._row_by_row(len(column))
        if repeats(self.pa, column):
            column = column.dictionary_encode()
        column = self.unified(column)
        if not types.is_dictionary(column.type):
            return tuple(self._listed(column)), self._row_by_row(len(column))
        codes: list[Tensor] = []
        objects: list[Any] = []
        for chunk in column.chunks:
            if not objects:
                objects = self._listed(chunk.dictionary)
            indices = chunk.indices
            if indices.null_count:
                if len(objects) == len(chunk.dictionary):
                    objects.append(None)
                indices = indices.cast(self.pa.int64()).fill_null(len(chunk.dictionary))
            if len(chunk):
                codes.append(shared(indices.cast(self.pa.int64())))
        if not codes:
            return (), row_by_row(Size([0]))
        return compact(tuple(objects), codes[0] if len(codes) == 1 else torch.cat(codes), HEAD)

    def _row_by_row(self, count: int) -> Tensor:
        """Codes that count the rows: one tensor for all columns, as codes are never written to."""
        if self._counted_rows is None or len(self._counted_rows) != count:
            self._counted_rows = row_by_row(Size((count,)))
        return self._counted_rows

    def _listed(self, column: Any) -> list[Any]:
        kind = column.type
        if self.pa.types.is_timestamp(kind) and kind.unit == "ns":  # those of Python count microseconds
            with contextlib.suppress(self.pa.ArrowInvalid):
                column = column.cast(self.pa.timestamp("us", kind.tz))
        return column.to_pylist()  # type: ignore[no-any-return]

    def _coded(self, objects: Sequence[Any], codes: Tensor, mask: Tensor | None, wanted: Declared) -> Column:
        """Objects with what stands for nulls."""
        spec, nulls = wanted.spec, self.reading.nulls
        if not codes.numel():
            empty = spec is None or spec.types == (str,)
            return Column(NonTensorData("", batch_size=codes.shape) if empty else stack_of((), codes, None, None))
        stands: Any = None
        if mask is not None:
            count = int((~mask).sum())
            if nulls == "raise" or (nulls == "default" and spec is None):
                raise Unreadable("no nulls", nulls_of(count), _HINT)
            if nulls == "default" and spec is not None:
                if spec.default is None and not _takes_none(wanted):
                    raise Unreadable(f"{spec.shown}, as it has no default", nulls_of(count), _HINT)
                stands = _default(wanted)
        convert = _conversion(wanted)
        if convert is not None and not (
            isinstance(objects, Deferred) and spec is not None and objects.kind in spec.types
        ):
            objects = tuple([None if value is None else convert(value) for value in objects])
        if mask is not None and stands is not None:
            objects = tuple([stands if value is None else value for value in objects])
        given = mask if nulls == "mask" else None
        if not isinstance(objects, Deferred) and all(value is None for value in objects):
            return Column(NonTensorData(None, batch_size=codes.shape), given)
        return Column(stack_of(objects, codes, None, None), given)


_HINT = "nulls='fill' fills them (with 0, nan or None), nulls='mask' also says where they were"


def _in_dtype(found: Numbers, name: str) -> Numbers:
    """Numbers in the dtype from which they were written, which Arrow does not have."""
    dtype, value, mask = getattr(torch, name, None), found.value, found.mask
    if not isinstance(dtype, torch.dtype):
        raise Unreadable("a dtype of torch in the metadata of the column", repr(name))
    if not dtype.is_complex:
        return found._replace(value=value.to(dtype))
    if not value.ndim or value.shape[-1] != 2:
        raise Unreadable("two numbers for each complex one", f"items of the shape {list(value.shape[1:])}")
    if mask is not None and mask.ndim == value.ndim:
        mask = mask.all(-1)
    return found._replace(value=torch.view_as_complex(value.contiguous()), mask=mask)


def _chosen(mask: Tensor, value: Tensor, other: Tensor) -> Tensor:
    """``value`` where the mask is ``True``, over its leading dimensions; ``other`` elsewhere."""
    mask = mask.reshape(*mask.shape, *(1,) * (value.ndim - mask.ndim))
    signed = _SIGNED.get(value.dtype)
    other = other.to(value.dtype)
    if signed is None:
        return torch.where(mask, value, other)
    return torch.where(mask, value.view(signed), other.view(signed)).view(value.dtype)


def _takes_none(wanted: Declared) -> bool:
    """Whether ``None`` can stand for a value, and in a row of objects."""
    return wanted.spec is not None and wanted.spec.optional


def _default(wanted: Declared) -> Any:
    found = wanted.default()
    return None if found is NOTHING else found


def _as_tensor(default: Any) -> Tensor | None:
    return default.detach().cpu() if isinstance(default, Tensor) else as_tensor(default)


def _default_tensor(wanted: Declared, dtype: torch.dtype) -> Tensor | None:
    """The default of a field in the dtype of the column that it stands in."""
    default = _default(wanted)
    tensor = _as_tensor(default)
    if tensor is None:
        return None
    made = tensor.to(dtype)
    back = made.to(tensor.dtype)
    if not dtype.is_floating_point and not bool(((back == tensor) | tensor.isnan()).all() & ~tensor.isnan().any()):
        raise Unreadable(f"a default that is {dtype}, as the column is", f"{default!r}", _HINT)
    return made


def _with_default(value: Tensor, mask: Tensor, wanted: Declared) -> Tensor:
    default = _default_tensor(wanted, value.dtype)
    if default is None:
        raise Unreadable("a default that is a tensor or a number", f"{_default(wanted)!r} for single rows", _HINT)
    try:
        return _chosen(mask, value, default.expand(value.shape[1:]))
    except RuntimeError:
        rows = list(value.shape[1:])
        raise Unreadable(f"a default that can be broadcast to {rows}", f"shape {list(default.shape)}", _HINT) from None


def _split(value: Tensor, lengths: Tensor) -> Sequence[Tensor]:
    return value.split_with_sizes(lengths.tolist())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _reshaped(value: Any, shape: Sequence[int]) -> Any:
    """Values over the items of lists as values over rows and items."""
    if isinstance(value, dict):
        return {key: _reshaped(item, shape) for key, item in cast("dict[str, Any]", value).items()}
    if value is None:
        return None
    if isinstance(value, Rows) or (isinstance(value, Tensor) and value.is_nested):
        raise Unreadable("lists of one length", "lists of several, in structs in lists")
    if isinstance(value, Tensor):
        return value.reshape(*shape, *value.shape[1:])
    return value.reshape(*shape)


def _conversion(wanted: Declared) -> Callable[[Any], Any] | None:
    """How an object of a column becomes what the field takes: a list a tuple, a name a member of an enumeration."""
    types: tuple[Any, ...] = () if wanted.spec is None else wanted.spec.types
    if not types:
        return None

    def convert(value: Any) -> Any:
        if isinstance(value, types):
            return value
        is_list: bool = isinstance(value, list)
        one: Any
        for one in types:
            if issubclass(one, enum.Enum):
                return _member(one, value)
            if is_list and one in _LISTED:
                return _LISTED[one](value)
        return value

    return convert


def _member(cls: type[enum.Enum], value: Any) -> Any:
    """The member of an enumeration with a name, or with a value; the value where there is none."""
    found = cls.__members__.get(value) if isinstance(value, str) else None
    if found is not None:
        return found
    try:
        return cls(value)
    except ValueError:
        return value
