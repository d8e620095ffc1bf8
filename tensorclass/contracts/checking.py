"""Checks of contracts, when values enter a record.

A class with contracts has a :class:`Checks` in ``_checks``. Its ``fits``, a function generated for the class, confirms
values that keep their contracts, which nearly all do. Only when it returns ``False``, the functions here find out what
is wrong, and whether the checks are switched on.

Names of dimensions are bound once for each record: ``h`` is one number in all its fields. A nested record binds its
own. Compiled code checks nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Size, Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.compiler import is_compiling

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection, functorch
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.spans import counts_of
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.value_checks import as_tensor, batch_mismatch

from .contract import Contract
from .contract_error import Broken, ContractError
from .dims import Dim, evaluate
from .dtype_names import category, name_of
from .generated_checks import writer_of
from .ranges import rounded
from .row_contract import RowContract
from .row_lengths import RowLengths, check_names, is_readable, length_mismatches, rows_of
from .validation_mode import VALIDATION

if TYPE_CHECKING:
    from tensorclass.records.contracted import Contracted
    from tensorclass.records.fields import FieldSpec

# torch has no types for these
_broadcast: Callable[..., Size] = torch.broadcast_shapes  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: size of each named dimension (a tuple for a variadic one), and the field that it was read from
Sizes = dict[str, tuple[Any, str]]


class Checks:
    """The checks of a record class."""

    __slots__ = ("_fits", "_name", "bounded", "late", "lengths", "specs")

    def __init__(self, name: str, specs: Mapping[str, FieldSpec]) -> None:
        self.specs: Mapping[str, FieldSpec] = specs
        _check_formulas(name, specs)
        self._name = name
        self._fits: Callable[[Callable[[str], Any], Size], bool] | None = None
        #: fields with a range: their elements are read
        self.bounded: list[str] = [
            key
            for key, spec in specs.items()
            if (spec.contract is not None and spec.contract.bounded)
            or (spec.row_contract is not None and spec.row_contract.bounded)
        ]
        #: ragged fields whose row lengths depend on each other, or are fixed; ``None`` if there are none
        self.lengths: RowLengths | None = None
        if any(spec.row_contract is not None for spec in specs.values()):
            check_names(name, specs)
            lengths = RowLengths(specs)
            self.lengths = lengths if lengths.fields else None
        #: fields that may have a contract: their annotations name a class that is defined later
        self.late: list[str] = [key for key, spec in specs.items() if spec.kind is None]

    @property
    def fits(self) -> Callable[[Callable[[str], Any], Size], bool]:
        """The function ``fits(get, size)``: whether the values keep their contracts; ``False`` also if it cannot tell.

        ``get`` returns the value of a field by name, ``size`` is the batch size.
        """
        if self._fits is None:  # most classes never need it
            self._fits = writer_of(self.specs).function(self._name)
        return self._fits

    def check_entries(self, record: Contracted, entries: Mapping[str, Any], size: Size | None = None) -> None:
        """Raise if entries that are about to be written would break contracts of a record.

        Args:
            record: the record.
            entries: values by field, as they would be stored.
            size: the batch size that the record is about to have; by default the one that it has.
        """
        if is_compiling():
            return
        values = {**record._store, **entries}
        size = record._batch_size if size is None else size
        unsure = [key for key in self.bounded if key in entries]
        unsure += [key for key in self.late if self.specs[key].has_contract]
        lengths = self.lengths
        if (
            not unsure
            and self.fits(values.get, size)
            and (lengths is None or lengths.fields.isdisjoint(entries) or lengths.fit(values))
        ) or VALIDATION.current() is False:
            return
        found = broken(self.specs, values, size, entries, record._batch_size)
        if found:
            raise ContractError(type_name(record), found)

    def check_new(
        self, record: Contracted, inferred: bool, nested: Sequence[ContractError] = (), elements: bool = True
    ) -> None:
        """Raise if a new record breaks contracts. Called when the generated comparisons have failed.

        Args:
            record: the record. Its values may lack the batch size, too.
            inferred: whether the batch size was inferred from the values.
            nested: the errors of nested records that could not be made.
            elements: whether to read elements, for ranges.
        """
        values, size = record._store, record._batch_size
        if VALIDATION.current() is not False:
            self._require(record, inferred, nested, elements)
        unfit = [key for key, value in values.items() if value.shape[: len(size)] != size]
        if unfit:
            raise batch_mismatch(unfit[0], size, values[unfit[0]].shape)

    def contents(self, record: Contracted, inferred: bool) -> None:
        """:meth:`made` for a record of which only the elements and the lengths of rows are left to check."""
        if not self.bounded and (self.lengths is None or self.lengths.fit(record._store)):
            return
        if VALIDATION.current() is not False:
            self._require(record, inferred)

    def _require(
        self, record: Contracted, inferred: bool, nested: Sequence[ContractError] = (), elements: bool = True
    ) -> None:
        """Raise one error for all contracts that a new record breaks.

        If the batch size was inferred, the field that it was inferred from may be the wrong one: the error assumes the
        batch size with which the fewest fields are wrong.
        """
        found, hint = self._wrong(record, record._batch_size, elements), ""
        if inferred and found:
            told = implied_sizes(record._item_ranks, record._store)
            sizes = dict.fromkeys(told.values())
            others = [self._wrong(record, size) for size in sizes]
            found = min([found, *[other for other in others if other]], key=len)
            if not told:
                hint = "No batch size was given, and no field tells it; give batch_size="
            elif len(sizes) > 1:
                shown = ", ".join([f"{key} {list(size)}" for key, size in told.items()])
                hint = f"No batch size was given, and the fields tell different ones: {shown}"
        found += [problem for error in nested for problem in error.broken]
        if found:
            found.sort(key=lambda problem: [*self.specs].index(problem.path[0]))
            raise ContractError(type_name(record), found, hint)

    def _wrong(self, record: Contracted, size: Size, elements: bool = True) -> list[Broken]:
        """Return the fields that break contracts; if there are any, also those that lack the batch size."""
        values = record._store
        found = broken(self.specs, values, size, values, elements=elements)
        expected, why = f"the batch dimensions {list(size)} in front", "they do not come first"
        return found and found + [
            Broken((key,), expected, _got(value), why)
            for key, value in values.items()
            if not self.specs[key].has_contract and _can_keep(value) and value.shape[: len(size)] != size
        ]


def entered(spec: FieldSpec, record: Contracted, value: Any, errors: list[ContractError]) -> Any:
    """Return the value that a new record stores for a nested one; ``None`` if it breaks contracts: see ``errors``."""
    try:
        return spec.fit(record, value)
    except ContractError as error:
        errors.append(error)
        return None


def _check_formulas(owner: str, specs: Mapping[str, FieldSpec]) -> None:
    """Raise if an expression has a name that is not a dimension of any field."""
    contracts = {key: spec.contract for key, spec in specs.items() if spec.contract is not None}
    if any(spec.kind is None for spec in specs.values()):
        return  # an annotation names a class that is defined later
    dims = {key: [dim for one in (c, *c.others) for dim in one.dims or ()] for key, c in contracts.items()}
    for key, row in rows_of(specs):
        dims.setdefault(key, []).extend([*([row.length] if row.length is not None else []), *(row.item.dims or ())])
    names = {dim.name for below in dims.values() for dim in below if not dim.variadic}
    for key, below in dims.items():
        for dim in below:
            if dim.formula is not None and (unknown := [name for name in dim.names if name not in names]):
                raise ValueError(
                    f"{owner}.{key}: the dimension {dim.text!r} follows from {unknown}, and no field of the class has "
                    "a dimension of that name"
                )


# ---------------------------------------------------------------------------------------------------------------------
# the batch size


#: the source of a value's batch size: the number of dimensions of one item, or the declaration of a column
ItemRank = int | Declared


def item_ranks(specs: Mapping[str, FieldSpec]) -> dict[str, ItemRank]:
    """Return the number of dimensions of one item, for each field whose contract fixes it, and the columns.

    Such a field tells the batch size: the dimensions in front of those of the item.
    """
    ranks = {
        key: spec.column or (spec.contract.rank if spec.contract is not None else None) for key, spec in specs.items()
    }
    return {key: rank for key, rank in ranks.items() if rank is not None}


def implied_sizes(ranks: Mapping[str, ItemRank], values: Mapping[str, Any]) -> dict[str, Size]:
    """Return the batch size that each value implies, by field."""
    found: dict[str, Size] = {}
    for key, rank in ranks.items():
        value = values.get(key)
        if value is None:
            continue
        if not isinstance(rank, int):
            size = rank.implied_size(value)
            if size is not None:
                found[key] = size
            continue
        shaped: Any = value if isinstance(value, (Tensor, Collection)) else as_tensor(value)
        if shaped is not None and len(shaped.shape) >= rank:
            found[key] = shaped.shape[: len(shaped.shape) - rank]
    return found


def inferred_size(ranks: Mapping[str, ItemRank], values: Mapping[str, Any]) -> Size | None:
    """Return the batch size that the first value with an item rank implies; ``None`` if there is none."""
    return next(iter(implied_sizes(ranks, values).values()), None)


# ---------------------------------------------------------------------------------------------------------------------
# descriptions of what is wrong


def broken(
    specs: Mapping[str, FieldSpec],
    values: Mapping[str, Any],
    size: Size,
    changed: Iterable[str],
    size_before: Size | None = None,
    elements: bool = True,
) -> list[Broken]:
    """Return the fields among ``changed`` whose values break their contracts.

    Args:
        specs: the fields of the class.
        values: the values of all fields that have one.
        size: the batch size.
        changed: the fields to check. The others only bind names of dimensions.
        size_before: the batch size of the others, if it differs.
        elements: whether to read elements, for ranges.
    """
    wanted = set(changed)
    names = _Names({}, [])
    rows: list[tuple[str, RowContract, Any]] = []
    found: dict[str, list[str]] = {}
    for key in sorted(specs, key=wanted.__contains__):  # (a stable sort: unchanged fields come first)
        contract, row_contract, value = specs[key].contract, specs[key].row_contract, values.get(key)
        if value is None or not specs[key].has_contract or not _can_keep(value):
            continue
        own = size if key in wanted or size_before is None else size_before
        tried: list[tuple[list[str], _Names]] = []
        alternatives = (
            (contract, *contract.others) if contract is not None else [row.item for row in row_contract or ()]
        )
        for one in alternatives:
            depth, known = (0 if row_contract is None else row_contract.depth), names.copy()
            if depth and value.ragged_dims != depth:
                why = [f"{depth} of its dimensions must be ragged, here are {value.ragged_dims}"]
            else:
                shape = Size((*value._batch_size, *value.item_shape)) if depth else value.shape
                why = _shape_mismatch(one, key, shape, own, known, depth) + _kind_mismatch(one, value)
            if elements and key in wanted and not why:
                why = _row_range_mismatch(one, value) if depth else _range_mismatch(one, value)
            tried.append((why, known))
            if not why:
                break
        # a value that keeps none of them is reported for the first; it still binds names
        why, names = tried[0] if tried[-1][0] else tried[-1]
        if row_contract is not None and value.ragged_dims == row_contract.depth:
            rows.append((key, [*row_contract][0 if tried[-1][0] else len(tried) - 1], value))
        if why and key in wanted:
            found[key] = why
    bound = names.sizes
    for key, at, actual, dim in names.waiting:
        why = _formula_mismatch(dim, at, actual, bound)
        if why and key in wanted:
            found.setdefault(key, []).extend(why)
        elif why:  # a changed size no longer fits the formula of another field
            for field in {bound[name][1]: None for name in dim.names}:
                if field in wanted:
                    found.setdefault(field, []).extend([f"in the field {key}, {one}" for one in why])
    in_batch = [one for one in rows if one[2]._batch_size == (size if one[0] in wanted else size_before or size)]
    for mismatch in length_mismatches(in_batch, bound):
        if mismatch.field in wanted:
            found.setdefault(mismatch.field, []).append(mismatch.why)
        else:  # a changed field no longer fits the lengths of another one
            for field in mismatch.others:
                if field in wanted:
                    found.setdefault(field, []).append(f"in the field {mismatch.field}, {mismatch.why}")
    return [_described(specs, key, values[key], size, found[key]) for key in specs if key in found]


def problems_below(data: Any, path: tuple[str, ...] = ()) -> list[Broken]:
    """Return the values that break contracts, in a record and in the collections below it."""
    found: list[Broken] = []
    if not data._holds_values():
        for i, part in enumerate(data._nodes()):
            found += problems_below(part, (*path, f"[{i}]"))
        return found
    specs: Mapping[str, FieldSpec] = getattr(data, "_specs", {})
    values: dict[str, Any] = dict(data._store)
    if specs:
        own = broken(specs, values, data._batch_size, values)
        found += [problem._replace(path=(*path, *problem.path)) for problem in own]
    for key, value in values.items():
        if isinstance(value, Collection) and value._is_tree():
            found += problems_below(value, (*path, key))
    return found


def _can_keep(value: Any) -> bool:
    return isinstance(value, Tensor) or content_kind(value) in (Content.RAGGED, Content.TREE)


def _described(specs: Mapping[str, FieldSpec], key: str, value: Any, size: Size, why: list[str]) -> Broken:
    contract = specs[key].contract or specs[key].row_contract
    assert contract is not None
    behind = f" behind the batch dimensions {list(size)}" if size else ""
    return Broken((key,), contract.expected + behind, _got(value), "; ".join(why))


def _got(value: Any) -> str:
    if content_kind(value) is Content.RAGGED:
        depth = value.ragged_dims
        levels = f", {depth} ragged dimensions" if depth > 1 else ""
        shape = f", item shape {list(value.item_shape)}" if value.item_shape else ""
        return f"rows of {name_of(value.dtype)}{shape}{levels}, batch size {list(value._batch_size)}, {value.device}"
    shape = f"shape {list(value.shape)}"
    return (
        f"{shape}, {name_of(value.dtype)}, {value.device}" if isinstance(value, Tensor) else f"batch size {shape[6:]}"
    )


def _unflattening(dims: Sequence[Dim], item: Size) -> str:
    """Return what makes items of a flat column, as tables have them, items of the shape that a contract requires."""
    sizes = Size(dim.size for dim in dims if dim.size is not None)
    if len(item) != 1 or len(sizes) != len(dims) or len(sizes) < 2 or sizes.numel() != item[0]:
        return ""
    return f"; .unflatten(-1, {tuple(sizes)}) gives its {item[0]} values that shape"


class _Names(NamedTuple):
    """The names of dimensions that are known so far."""

    sizes: Sizes
    #: dimensions that are formulas, which are checked when all names are known: field, dimension, its size
    waiting: list[tuple[str, int, int, Dim]]

    def copy(self) -> _Names:
        return _Names({**self.sizes}, [*self.waiting])


def _shape_mismatch(contract: Contract, key: str, shape: Size, size: Size, names: _Names, ragged: int) -> list[str]:
    """Return what is wrong with a shape.

    It is that of a tensor, or the batch size and the item shape of a column with ``ragged`` dimensions between them.

    New names are bound in ``sizes``. Formulas are appended to ``waiting``: they need the sizes of all names.
    """
    ndim = len(size)
    if shape[:ndim] != size:
        return [f"the batch dimensions {list(size)} do not come first"]
    dims = contract.dims
    if dims is None:
        return []
    item = shape[ndim:]
    open_at = next((i for i, dim in enumerate(dims) if dim.variadic), None)
    if len(item) != len(dims) if open_at is None else len(item) < len(dims) - 1:
        least, count = ("", len(dims)) if open_at is None else ("at least ", len(dims) - 1)
        if ragged:
            return [f"a row has {least}{count + 1} dimension{'s' * (count > 0)}, it has {len(item) + 1} here"]
        hint = _unflattening(dims, item)
        return [f"an item has {least}{count} dimension{'s' * (count != 1)}, it has {len(item)} here{hint}"]
    wrong: list[str] = []
    at = 0
    for dim in dims:
        if dim.variadic:
            several = item[at : at + len(item) - len(dims) + 1]
            wrong += [] if dim.name is None else _several_mismatch(dim, key, tuple(several), names.sizes)
            at += len(several)
            continue
        actual, where = item[at], ndim + ragged + at
        at += 1
        if dim.broadcastable and actual == 1:
            continue
        if dim.formula is not None:
            names.waiting.append((key, where, actual, dim))
        elif dim.name is not None:
            known = names.sizes.setdefault(dim.key, (actual, key))
            if known[0] != actual:
                wrong.append(f"{dim.name} is {known[0]} ({_from(known[1], key)}), but dimension {where} is {actual}")
        elif dim.size is not None and actual != dim.size:
            wrong.append(f"dimension {where} must be {dim.size}, it is {actual}")
    return wrong


def _row_range_mismatch(contract: Contract, value: Ragged[Any]) -> list[str]:
    """Return what is wrong with the items of a ragged column."""
    if contract.low is None and contract.high is None:
        return []
    items: Any = value
    spans = value._spans()
    while not isinstance(items, Tensor):
        if not is_readable(items._spans()):
            return []
        items, spans = (items._items, items._spans()) if items._is_compact else items._packed()
    wrong = _range_mismatch(contract, items)
    if not wrong or value.ragged_dims > 1:
        return wrong
    low, high = contract.low, contract.high
    bounded = items.detach().double()
    outside = ~(
        (bounded >= _in_dtype(-math.inf if low is None else low, items.dtype))
        & (bounded <= _in_dtype(math.inf if high is None else high, items.dtype))
    )
    item = int(outside.flatten(1).any(1).nonzero()[0] if outside.ndim > 1 else outside.nonzero()[0])
    row = int(torch.searchsorted(counts_of(spans).reshape(-1).cumsum(0), item, right=True))
    at = [int(one) for one in np.unravel_index(row, tuple(value._batch_size))]
    return [f"row {at[0] if len(at) == 1 else at}: {wrong[0]}", *wrong[1:]] if at else wrong


def _from(field: str, key: str) -> str:
    return "above" if field == key else f"in the field {field}"


def _several_mismatch(dim: Dim, key: str, actual: tuple[int, ...], sizes: Sizes) -> list[str]:
    known, field = sizes.setdefault(dim.key, (actual, key))
    if dim.broadcastable:
        try:
            sizes[dim.key] = tuple(_broadcast(known, actual)), field
        except RuntimeError:
            return [f"*{dim.name} is {list(known)} ({_from(field, key)}), which {list(actual)} does not broadcast with"]
    elif known != actual:
        return [f"*{dim.name} is {list(known)} ({_from(field, key)}), but {list(actual)} here"]
    return []


def _formula_mismatch(dim: Dim, where: int, actual: int, bound: Sizes) -> list[str]:
    assert dim.formula is not None
    if any(name not in bound for name in dim.names):
        return []  # a field with one of the names is None
    sizes = {name: bound[name][0] for name in dim.names}
    given = ", ".join([f"{name} = {bound[name][0]} (in the field {bound[name][1]})" for name in dim.names])
    try:
        expected = evaluate(dim.formula, sizes)
    except ZeroDivisionError:
        return [f"dimension {where} must be {dim.formula}, which divides by zero with {given}"]
    if expected != actual:
        return [f"dimension {where} must be {dim.formula}, which is {expected} with {given}; it is {actual}"]
    return []


def _kind_mismatch(contract: Contract, value: Any) -> list[str]:
    """Return what is wrong with the dtype and the device."""
    wrong: list[str] = []
    if contract.dtypes is not None and value.dtype not in contract.dtypes:
        wrong.append(f"the dtype {name_of(value.dtype)} is not {contract.dtype_name}; cast the tensor with .to(dtype)")
    device = contract.device
    index: int | None = None if device is None else device.index
    if device is not None and (value.device.type != device.type or index not in (None, value.device.index)):
        wrong.append(f'it is on {value.device}; move the tensor with .to("{device}")')
    return wrong


#: dtypes that ``torch.aminmax`` does not support
_WITHOUT_KERNELS = {torch.uint16, torch.uint32, torch.uint64, *[one for one in category("float") if one.itemsize == 1]}


def _range_mismatch(contract: Contract, value: Any) -> list[str]:
    """Return what is wrong with the elements. Tensors without data, or inside ``vmap``, are not read."""
    low, high = contract.low, contract.high
    if low is None and high is None:
        return []
    if value.is_meta or isinstance(value, FakeTensor) or functorch.is_functorch_wrapped_tensor(value):
        return []
    elements = value.detach()
    if elements.is_nested:
        elements = torch.cat([row.flatten() for row in elements.unbind()])
    if elements.layout is not torch.strided:
        elements = elements.to_dense()
    if not elements.numel():
        return []
    if elements.is_complex():
        return ["complex numbers have no order, so that no range holds them"]
    if elements.is_quantized:
        elements = elements.dequantize()
    if elements.dtype in _WITHOUT_KERNELS:
        elements = elements.double()
    if type(elements) is Tensor:
        ends: Any = torch.stack(torch.aminmax(elements))
        least, most = ends.tolist()  # in one tensor, which synchronises with the device once
    else:  # a DTensor, a MaskedTensor, ...: they support fewer functions
        least, most = elements.amin().item(), elements.amax().item()
    if least != least:
        return ["an element is nan"]
    wrong: list[str] = []
    # 0.1 as a float32 is above 0.1: bounds are rounded to the dtype before they are compared
    if low is not None and least < low and least < _in_dtype(low, value.dtype):
        wrong.append(f"the smallest element is {_digits(least)}, below {low}")
    if high is not None and most > high and most > _in_dtype(high, value.dtype):
        wrong.append(f"the largest element is {_digits(most)}, above {high}")
    return wrong


def _in_dtype(bound: float, dtype: torch.dtype) -> float:
    return rounded(bound, dtype) if dtype.is_floating_point else bound


def _digits(number: float) -> str:
    return f"{number:.9g}" if isinstance(number, float) else str(number)
