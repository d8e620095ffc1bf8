"""Property tests: :func:`records` is a hypothesis strategy that draws valid records of a class."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.support.printable import class_name

from .contracts.contract import Contract
from .contracts.dims import Dim, evaluate, parse
from .contracts.dtype_names import name_of, usual
from .contracts.ranges import finite, whole
from .contracts.row_contract import RowContract
from .records.column_factories import LONGEST, SHORTEST, LengthPlan
from .records.factories import tensor_or_collection
from .records.record import TensorClass
from .support.extras import require
from .td.columns.column import Column
from .td.columns.ragged import Ragged
from .td.columns.text import Text
from .td.shapes import as_size
from .td.tensordict import TensorDict

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from .records.fields import FieldSpec

__all__ = ["records"]

R = TypeVar("R", bound=TensorClass)

# torch's stub is untyped
_from_numpy: Callable[[Any], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: the most batch dimensions and the largest size of a dimension
_MOST_DIMS, _LARGEST = 2, 4


def records(
    cls: type[R],
    batch_size: SearchStrategy[Any] | Sequence[int] | int | None = None,
    *,
    sizes: Mapping[str, Any] | None = None,
    **given: Any,
) -> SearchStrategy[R]:
    """Return a strategy for valid records: all fields satisfy their contracts.

    Dimensions of one name have one size, and expressions of names follow. A dtype is drawn among the common ones of its
    category. Elements are finite and in their range. Fields that allow ``None`` are sometimes ``None``. Examples shrink
    to few and small dimensions, and to zeros. Needs hypothesis: ``pip install 'tensorclass[testing]'``.

    Args:
        cls: the class of the records.
        batch_size: the batch size, or a strategy for it; up to two dimensions of sizes 1 to 4 by default.
        sizes: the sizes of named dimensions, or strategies for them: integers, or several for a ``*name``. They hold
            for nested records too. By default 1 to 4.
        **given: named dimensions by keyword; or, for fields, their values: a strategy, a value, or a function from the
            batch size to a strategy. A nested record also takes a mapping with such arguments of its own.

    Raises:
        TypeError: a keyword is neither a field nor the name of a dimension; a field cannot be drawn.
        ImportError: hypothesis is not installed.

    Example:
        >>> from typing import Annotated
        >>> from hypothesis import given, settings
        >>> from torch import Tensor
        >>> from tensorclass import Shape, TensorClass
        >>> from tensorclass.testing import records
        >>> class Sample(TensorClass):
        ...     image: Annotated[Tensor, Shape("3 h w")]
        >>> @settings(max_examples=5, deadline=None, database=None)
        ... @given(records(Sample, batch_size=[2], h=8))
        ... def check_shape(sample):
        ...     assert sample.image.shape[:3] == (2, 3, 8)
        >>> check_shape()
    """
    st: Any = require("hypothesis.strategies", "testing", "testing.records")
    cls = getattr(cls, "_dense", cls)
    fields = {name: value for name, value in given.items() if name in cls._specs}
    named = {**(sizes or {}), **{name: value for name, value in given.items() if name not in fields}}
    unknown = set(named) - _dimension_names(cls, ())
    if unknown:
        raise TypeError(
            f"records({class_name(cls)}): {', '.join(sorted(unknown))}: neither a field nor the name of a dimension"
        )
    if batch_size is None:
        batch_size = st.lists(st.integers(1, _LARGEST), max_size=_MOST_DIMS)

    def draw_record(draw: DrawFn) -> Any:
        given_size: Any = batch_size
        size = draw(given_size) if _is_strategy(given_size) else given_size
        return _RecordDrawing(draw, st).record(cls, as_size(size), named, fields)

    draw_record.__name__ = f"records_of_{cls.__name__}"  # the name in hypothesis's output
    strategy: SearchStrategy[R] = st.composite(draw_record)()
    return strategy


def _is_strategy(value: object) -> TypeGuard[SearchStrategy[Any]]:
    from hypothesis.strategies import SearchStrategy

    return isinstance(value, SearchStrategy)


def _dimension_names(cls: type[Any], path: tuple[type, ...]) -> set[str]:
    """Return the names of dimensions in a class and its nested records; variadic names with and without their star."""
    found: set[str] = set()
    for spec in cls._specs.values():
        target = tensor_or_collection(spec, cls)
        contract = spec.contract
        for row in spec.row_contract or ():
            found.update(row.names, [name.removeprefix("*") for name in row.names])
        for one in () if contract is None else (contract, *contract.others):
            found.update(one.names, [name.removeprefix("*") for name in one.names])
        if target is not None and hasattr(target, "_specs") and target not in (*path, cls):
            found |= _dimension_names(target, (*path, cls))
    return found


class _DrawnSizes:
    """The drawn sizes of the named dimensions of one record."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.several: dict[str, tuple[int, ...]] = {}


class _RecordDrawing:
    """Draws one record."""

    def __init__(self, draw: DrawFn, st: Any) -> None:
        self.draw, self.st = draw, st

    def record(
        self,
        cls: type[Any],
        batch_size: Size,
        named: Mapping[str, Any],
        fields: Mapping[str, Any],
        path: tuple[type, ...] = (),
    ) -> Any:
        specs: Mapping[str, FieldSpec] = cls._specs
        drawn = {name: spec for name, spec in specs.items() if spec.init and name not in fields}
        for spec in drawn.values():
            spec.target(cls)  # resolves annotations that were unknown when the class was defined
        here = [spec for spec in drawn.values() if spec.contract is not None]
        contracts = {spec.name: self._one_of(spec.contract) for spec in here if spec.contract is not None}
        rows = {
            spec.name: self.draw(self.st.sampled_from(list(spec.row_contract)))
            for spec in drawn.values()
            if spec.row_contract is not None
        }
        sizes = self._sizes([*contracts.values(), *[row.item for row in rows.values()]], named)
        lengths = self._lengths([*rows.values()], batch_size, named, sizes.numbers)
        values: dict[str, Any] = {}
        for name, spec in drawn.items():
            if spec.allows_none_in(cls) and (spec.kind is None or not self.draw(self.st.booleans())):
                values[name] = None
                continue
            if spec.column is not None:
                values[name] = self._column(cls, spec, rows.get(name), batch_size, sizes, lengths)
                continue
            target = tensor_or_collection(spec, cls)
            contract = contracts.get(name, Contract())
            if target in (*path, cls) and not spec.optional:
                raise TypeError(
                    f"records: {name}: a {class_name(cls)} requires another one, endlessly; make the field optional or "
                    "give its values"
                )
            if target is Tensor:
                values[name] = self._tensor(contract, batch_size, sizes)
            elif target is None:
                values[name] = self.draw(self._objects(cls, spec))
            else:
                size = batch_size + self._shape(contract.dims or (), sizes)
                if target is TensorDict:
                    values[name] = TensorDict({}, size)
                else:
                    values[name] = self.record(target, Size(size), named, {}, (*path, cls))
        for name, value in fields.items():
            values[name] = self._given(cls, name, value, batch_size, named)
        return cls._from_mapping(values, batch_size, None, None)

    def _one_of(self, contract: Contract) -> Contract:
        return self.draw(self.st.sampled_from((contract, *contract.others)))  # type: ignore[no-any-return]

    def _given(self, cls: type[Any], name: str, value: Any, batch_size: Size, named: Mapping[str, Any]) -> Any:
        target: Any = tensor_or_collection(cls._specs[name], cls)
        made: Any = value(batch_size) if isinstance(value, types.FunctionType) else value
        if _is_strategy(made):
            return self.draw(made)
        if not (hasattr(target, "_specs") and issubclass(type(made), Mapping)):
            return made
        arguments: dict[str, Any] = {**made}
        below = {key: arguments.pop(key) for key in [*arguments] if key in target._specs}
        return self.record(target, batch_size, {**named, **arguments}, below)

    # -- shapes -------------------------------------------------------------------------------------------------------

    def _sizes(self, contracts: Sequence[Contract], named: Mapping[str, Any]) -> _DrawnSizes:
        sizes = _DrawnSizes()
        dims = [dim for contract in contracts for dim in contract.dims or ()]
        for name in dict.fromkeys(name for dim in dims for name in dim.names):
            plain = name.removeprefix("*")
            value = named.get(name, named.get(plain))
            if plain == name:
                value = self.st.integers(1, _LARGEST) if value is None or isinstance(value, tuple) else value
                sizes.numbers[name] = self.draw(value) if _is_strategy(value) else value
            else:
                value = self.st.lists(self.st.integers(1, 3), max_size=2) if value is None else value
                sizes.several[plain] = tuple(self.draw(value) if _is_strategy(value) else value)
        formulas = [dim.formula for dim in dims if dim.formula is not None]
        free = [name for name in sizes.numbers if name not in named]
        for _ in range(_TRIES):
            if all(_holds(formula, sizes.numbers) for formula in formulas):
                return sizes
            for name in free:  # larger sizes may satisfy expressions such as "h-2"
                sizes.numbers[name] += 1
        require("hypothesis", "testing", "testing.records").reject()
        raise AssertionError  # reject() raises

    def _shape(self, dims: Sequence[Dim], sizes: _DrawnSizes) -> tuple[int, ...]:
        shape: list[int] = []
        for dim in dims:
            if dim.variadic and dim.name is None:
                shape += self.draw(self.st.lists(self.st.integers(1, 3), max_size=2))
            elif dim.variadic:
                several = sizes.several[dim.name or ""]
                shape += [1 if dim.broadcastable and self.draw(self.st.booleans()) else size for size in several]
            else:
                size = dim.resolved(sizes.numbers)
                if size is None:
                    size = self.draw(self.st.integers(1, 3))
                shape.append(1 if dim.broadcastable and self.draw(self.st.booleans()) else size)
        return tuple(shape)

    def _lengths(
        self, rows: Sequence[RowContract], batch_size: Size, named: Mapping[str, Any], fixed: Mapping[str, int]
    ) -> LengthPlan:
        """Draw the lengths of ragged rows."""

        def given(name: str) -> Any:
            value = named.get(name)
            return self.draw(value) if _is_strategy(value) else value

        def drawn(low: int, high: int, count: int) -> list[int]:
            least, most = (0, _LARGEST) if low == SHORTEST and high == LONGEST else (low, high)
            numbers: list[int] = self.draw(self.st.lists(self.st.integers(least, most), min_size=count, max_size=count))
            return numbers

        plan = LengthPlan(batch_size, given, fixed, drawn)
        plan.name(rows)
        return plan

    def _column(
        self,
        cls: type[Any],
        spec: FieldSpec,
        row: RowContract | None,
        batch_size: Size,
        sizes: _DrawnSizes,
        lengths: LengthPlan,
    ) -> Any:
        """Draw a column. Rows of a field that can be ``None`` are sometimes ``None``."""
        st, declared = self.st, spec.column
        assert declared is not None
        count = batch_size.numel()
        if issubclass(declared.cls, Ragged):
            levels = lengths.of(row, declared.ragged_dims)
            item = Contract() if row is None else row.item
            dims = () if item.dims is None else item.dims
            total = sum(levels[-1])
            made: Any = self._tensor(dataclasses.replace(item, dims=dims), Size((total,)), sizes)
            for level in reversed(levels[1:]):
                made = Ragged.from_lengths(made, level)
            outer = list(levels[0])
            column: Any = Ragged.from_lengths(made, torch.tensor(outer, dtype=torch.int64).reshape(batch_size))
            if spec.optional and count:
                missing = torch.tensor(self.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
                spans = column.spans.clone()
                spans[..., 1][missing.reshape(batch_size)] = -1
                column = Ragged(column.values, spans)
            return declared.in_class(column)
        if issubclass(declared.cls, Text):
            # surrogates are no characters: UTF-8 has no bytes for them
            row_strategy = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
            row_strategy = st.one_of(st.none(), row_strategy) if spec.optional else row_strategy
            strings = self.draw(st.lists(row_strategy, min_size=count, max_size=count))
            return declared.cls.from_list(strings).reshape(batch_size)
        objects = st.from_type(declared.item_type) if declared.item_type is not Any else st.text(max_size=5)
        try:
            listed = self.draw(st.lists(objects, min_size=count, max_size=count))
        except require("hypothesis.errors", "testing", "testing.records").ResolutionFailed:
            raise TypeError(
                f"records({class_name(cls)}): nothing says how to draw {spec.name} ({spec.shown}); give a strategy: "
                f"records({class_name(cls)}, {spec.name}=...)"
            ) from None
        return declared.made(Column(listed, declared.item_type).reshape(batch_size), batch_size)

    # -- values -------------------------------------------------------------------------------------------------------

    def _tensor(self, contract: Contract, batch_size: Size, sizes: _DrawnSizes) -> Tensor:
        arrays: Callable[..., Any] = require("hypothesis.extra.numpy", "testing", "testing.records").arrays
        item = self._shape(parse("...") if contract.dims is None else contract.dims, sizes)
        dtypes = usual(contract.dtypes)
        if contract.bounded:
            dtypes = [dtype for dtype in dtypes if not dtype.is_complex and _has_values(contract, dtype)] or dtypes
        dtype: torch.dtype = self.draw(self.st.sampled_from(dtypes))
        exact, elements = self._elements(contract, dtype)
        array = self.draw(arrays(exact, (*batch_size, *item), elements=elements))
        return _from_numpy(np.asarray(array)).to(dtype=dtype, device=contract.device)

    def _elements(self, contract: Contract, dtype: torch.dtype) -> tuple[Any, Any]:
        """Return a NumPy dtype that holds all values of ``dtype``, and a strategy for the elements."""
        st = self.st
        if dtype is torch.bool:
            least, most = whole(contract.low, contract.high, dtype)
            return np.dtype(bool), st.sampled_from([False, True][least : most + 1])
        if dtype.is_complex:
            double = dtype is torch.complex128
            largest = 1e4 if dtype is torch.complex32 else None
            elements = st.complex_numbers(
                max_magnitude=largest, allow_nan=False, allow_infinity=False, width=128 if double else 64
            )
            return np.dtype(np.complex128 if double else np.complex64), elements
        if dtype.is_floating_point:
            width = 64 if dtype is torch.float64 else 32
            low, high = finite(contract.low, contract.high, dtype)
            elements = st.floats(low, high, allow_nan=False, allow_infinity=False, width=width)
            return np.dtype(f"float{width}"), elements
        least, most = whole(contract.low, contract.high, dtype)
        return np.dtype(name_of(dtype)), st.integers(least, most)

    def _objects(self, cls: type[Any], spec: FieldSpec) -> Any:
        """Return a strategy for the values of a field of objects."""
        st = self.st
        if spec.literals:
            return st.sampled_from(spec.literals)
        strategies = [self._of_class(one) for one in spec.types]
        known = [strategy for strategy in strategies if strategy is not None]
        if spec.default is not None:
            known.append(st.builds(spec.default))
        if not known and spec.allows_none_in(cls):
            return st.none()
        if not known:
            raise TypeError(
                f"records({class_name(cls)}): nothing says how to draw {spec.name} ({spec.shown}); give a strategy: "
                f"records({class_name(cls)}, {spec.name}=...)"
            )
        return st.one_of(known)

    def _of_class(self, cls: type[Any]) -> Any:
        st = self.st
        if issubclass(cls, enum.Enum):
            return st.sampled_from(cls)
        simple: dict[type, Any] = {
            str: st.text(), int: st.integers(), bool: st.booleans(), bytes: st.binary(),
            float: st.floats(allow_nan=False), complex: st.complex_numbers(allow_nan=False),
        }  # fmt: skip
        return simple.get(cls)


#: attempts to enlarge sizes until all expressions are at least 0
_TRIES = 32


def _holds(formula: str, sizes: Mapping[str, int]) -> bool:
    try:
        return evaluate(formula, sizes) >= 0
    except ZeroDivisionError:
        return False


def _has_values(contract: Contract, dtype: torch.dtype) -> bool:
    try:
        (finite if dtype.is_floating_point else whole)(contract.low, contract.high, dtype)
    except ValueError:
        return False
    return True
