"""Records made from the contracts of their fields: ``Sample.zeros``, ``ones``, ``empty``, ``random``.

First a plan of shapes is made, which collects everything that is missing. Then the plan is filled with tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

import torch
from torch import Size, Tensor

from tensorclass.contracts.contract import Contract
from tensorclass.contracts.dtype_names import usual
from tensorclass.contracts.ranges import finite, whole
from tensorclass.contracts.row_contract import RowContract
from tensorclass.contracts.validation_mode import validation
from tensorclass.records.fields import FieldSpec, Kind
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.shapes import as_size
from tensorclass.td.tensordict import TensorDict

from .column_factories import Fill, Integers, LengthPlan, PlannedColumn, can_be_made, filled_column

if TYPE_CHECKING:
    from .contracted import Contracted

R = TypeVar("R", bound="Contracted")
R_co = TypeVar("R_co", bound="Contracted", covariant=True)

#: size of a dimension; sizes of a variadic dimension; for a field that holds a record, sizes for that record
SizeLike = int | Sequence[int] | Mapping[str, Any]

_ANY = Contract()


class PlannedTensor(NamedTuple):
    """A tensor of the plan."""

    shape: tuple[int, ...]
    contract: Contract


class PlannedCollection(NamedTuple):
    """A record, or another collection, of the plan."""

    cls: type[Any]
    batch_size: Size
    fields: dict[str, Any]


def make(
    cls: type[R],
    what: str,
    fill: Fill,
    batch_size: Sequence[int] | int,
    device: DeviceLike | None,
    names: Sequence[str | None] | None,
    sizes: Mapping[str, SizeLike] | None,
    named: Mapping[str, SizeLike],
) -> R:
    """Make a record whose tensors come from ``fill``.

    Args:
        cls: the record class.
        what: the name of the method, for messages.
        fill: makes a tensor.
        batch_size: the batch size of the record.
        device: the device of the record and of all tensors; by default that of each contract, or torch's default.
        names: the names of the batch dimensions.
        sizes: the sizes of the dimensions that contracts name.
        named: more sizes, by keyword.

    Raises:
        TypeError: sizes are missing or unused, or a required field has no contract to make a value from.
    """
    cls = getattr(cls, "_dense", cls)
    if twice := [name for name in named if sizes and name in sizes]:
        raise TypeError(
            f"{class_name(cls)}.{what}: got the sizes of {', '.join(twice)} twice, by keyword and in sizes="
        )
    draw = fill.integers if isinstance(fill, Drawn) else None
    plan = _Planner(cls, what, draw).planned(as_size(batch_size), {**(sizes or {}), **named})
    where = None if device is None else torch.device(device)
    made: R = _filled(plan, fill, where, names, draw)
    return made


def _filled(
    plan: PlannedCollection,
    fill: Fill,
    device: torch.device | None,
    names: Sequence[str | None] | None,
    draw: Integers | None,
) -> Any:
    values: dict[str, Any] = {}
    for key, part in plan.fields.items():
        if isinstance(part, PlannedTensor):
            contract = part.contract
            values[key] = fill(part.shape, usual(contract.dtypes)[0], device or contract.device, contract)
        elif isinstance(part, PlannedColumn):
            values[key] = filled_column(part, fill, device, draw)
        else:
            values[key] = _filled(part, fill, device, None, draw)
    return plan.cls._from_mapping(values, plan.batch_size, device, names)


# ---------------------------------------------------------------------------------------------------------------------
# the plan


class _Sizes:
    """The sizes given for a record; names that are not given there are looked up in those of the outer record."""

    def __init__(self, given: Mapping[str, SizeLike], above: _Sizes | None = None, path: str = "") -> None:
        self.given, self.above, self.path = given, above, path
        self.used: set[str] = set()

    def find(self, name: str, kind: type) -> Any:
        """Return the size given for a name, here or for an outer record; ``None`` if there is none."""
        around = None if self.above is None or kind is Mapping else self.above.find(name, kind)
        value = self.given.get(name)
        if not isinstance(value, kind):
            return around
        self.used.add(name)
        return value


class _Planner:
    """Plans a record and its nested records; collects what is missing."""

    def __init__(self, cls: type[Contracted], what: str, draw: Integers | None) -> None:
        self.cls, self.what, self.draw = cls, what, draw
        self.scopes: list[_Sizes] = []
        self.missing: dict[str, None] = {}
        self.unknown: list[str] = []

    def planned(self, batch_size: Size, given: Mapping[str, SizeLike]) -> PlannedCollection:
        plan = self._record(self.cls, batch_size, _Sizes(given), ())
        call = f"{class_name(self.cls)}.{self.what}"
        if self.unknown:
            raise TypeError(
                f"{call}: nothing says what to put into {', '.join(self.unknown)}; give such a field a default, "
                "or make the record with its constructor"
            )
        if self.missing:
            example = ", ".join([f"{name}=..." for name in self.missing])
            unused = [name for scope in self.scopes for name in scope.given if name not in scope.used]
            raise TypeError(
                f"{call}: the sizes of the dimensions {', '.join(self.missing)} are not given; give them by keyword: "
                f"{call}({list(batch_size)}, {example})"
                + (f"; there is no dimension {', '.join(unused)}" if unused else "")
            )
        if unused := [scope.path + name for scope in self.scopes for name in scope.given if name not in scope.used]:
            raise TypeError(
                f"{call}: no field that is made has the dimensions {', '.join(unused)}, for which sizes are given"
            )
        return plan

    def _record(self, cls: type[Any], batch_size: Size, scope: _Sizes, path: tuple[type, ...]) -> PlannedCollection:
        self.scopes.append(scope)
        specs: Mapping[str, FieldSpec] = cls._specs
        parts: dict[str, tuple[type[Any], Contract]] = {}
        columns: dict[str, FieldSpec] = {}
        for name, spec in specs.items():
            if not spec.init or spec.default is not None:
                continue
            target = tensor_or_collection(spec, cls)
            if spec.optional:
                continue
            if spec.column is not None and can_be_made(spec.column, self.draw is not None):
                columns[name] = spec
                parts[name] = Tensor, _ANY if spec.row_contract is None else spec.row_contract.item
                continue
            if target is None or (target is not Tensor and target in path):
                self.unknown.append(f"{scope.path}{name} ({spec.shown})")
            else:
                parts[name] = target, spec.contract or _ANY
        shapes, sizes = self._shapes({name: contract for name, (_, contract) in parts.items()}, scope)
        lengths = self._lengths([spec.row_contract for spec in columns.values()], batch_size, scope, sizes)
        fields: dict[str, Any] = {}
        for name, (target, contract) in parts.items():
            if name in columns:
                declared, row = columns[name].column, columns[name].row_contract
                assert declared is not None
                try:
                    own_lengths = lengths.of(row, declared.ragged_dims) if issubclass(declared.cls, Ragged) else []
                except ValueError as error:
                    raise ValueError(f"{class_name(self.cls)}.{self.what}: {scope.path}{name}: {error}") from None
                fields[name] = PlannedColumn(declared, row, batch_size, own_lengths, shapes[name])
                continue
            shape = batch_size + shapes[name]
            if target is Tensor:
                fields[name] = PlannedTensor(shape, contract)
                continue
            if target is TensorDict:
                fields[name] = PlannedCollection(TensorDict, shape, {})
                continue
            own: Mapping[str, SizeLike] = scope.find(name, Mapping) or {}
            fields[name] = self._record(target, shape, _Sizes(own, scope, f"{scope.path}{name}."), (*path, cls))
        return PlannedCollection(cls, batch_size, fields)

    def _lengths(
        self, rows: Sequence[RowContract | None], batch_size: Size, scope: _Sizes, sizes: Mapping[str, int]
    ) -> LengthPlan:
        """Return the lengths of ragged rows; names without a size are noted as missing."""

        def given(name: str) -> int | Sequence[int] | None:
            found: Any = scope.find(name, int)
            if found is None:
                found = scope.find(name, Sequence)
            for size in (found,) if found is None or isinstance(found, int) else found:
                if size is not None:
                    self._size(name, size)
            return found  # type: ignore[no-any-return]

        plan = LengthPlan(batch_size, given, sizes, self.draw)
        try:
            plan.name([row for row in rows if row is not None])
        except ValueError as error:
            raise ValueError(f"{class_name(self.cls)}.{self.what}: {error}") from None
        self.missing.update(dict.fromkeys(plan.missing))
        return plan

    def _shapes(
        self, contracts: Mapping[str, Contract], scope: _Sizes
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
        """Return the shape of one item of each field, and the sizes of names."""
        sizes: dict[str, int] = {}
        variadic: dict[str, tuple[int, ...]] = {}
        for name in dict.fromkeys(name for contract in contracts.values() for name in contract.names):
            plain = name.removeprefix("*")
            found: Any = scope.find(name, int if plain == name else Sequence)
            if found is None and plain != name:
                found = scope.find(plain, Sequence)
            if found is None:
                self.missing[plain] = None
            elif plain == name:
                sizes[name] = self._size(name, found)
            else:
                variadic[plain] = tuple([self._size(name, size) for size in found])
        shapes = {
            key: () if self.missing else contract.item_shape(sizes, variadic) for key, contract in contracts.items()
        }
        return shapes, sizes

    def _size(self, name: str, size: Any) -> int:
        if not isinstance(size, int) or size < 0:
            raise TypeError(f"{class_name(self.cls)}.{self.what}: the size of {name} is a whole number, not {size!r}")
        return size


def tensor_or_collection(spec: FieldSpec, cls: type[Contracted]) -> type[Any] | None:
    """Return what can be made for a field of ``cls``: ``Tensor``, a record class or ``TensorDict``; else ``None``."""
    target = spec.target(cls)
    if target is None:
        return Tensor if spec.contract is not None and spec.kind is Kind.ANY else None
    if target is Tensor or target is TensorDict:
        return target
    return target if getattr(target, "_specs", None) else None


# ---------------------------------------------------------------------------------------------------------------------
# functions that fill the plan


def _by(maker: Callable[..., Tensor]) -> Fill:
    """Return a :data:`Fill` by a function of torch, whatever the contract is."""
    return lambda shape, dtype, device, contract: maker(shape, dtype=dtype, device=device)


zeros: Fill = _by(torch.zeros)
ones: Fill = _by(torch.ones)
uninitialised: Fill = _by(torch.empty)


class Drawn:
    """A :data:`Fill` of random values.

    Args:
        generator: the generator; torch's default one if ``None``.
        seed: the seed of new generators, one for each device, instead of ``generator``.
    """

    def __init__(self, generator: torch.Generator | None, seed: int | None) -> None:
        if generator is not None and seed is not None:
            raise TypeError("random: a generator has its own seed; give one of the two")
        self._generator, self._seed = generator, seed
        self._seeded: dict[torch.device, torch.Generator] = {}

    def __call__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | None, contract: Contract
    ) -> Tensor:
        generator = self._on(device)
        # (torch.compile takes sizes that vary only without a generator)
        options: dict[str, Any] = {"device": device, **({} if generator is None else {"generator": generator})}
        if dtype.is_complex:
            return torch.randn(shape, dtype=dtype, **options)
        if not dtype.is_floating_point:
            return _integers(shape, dtype, contract, options)
        low, high = finite(contract.low, contract.high, dtype)
        # wide enough to hold the bounds exactly, so that the final rounding cannot cross them
        exact = torch.float64 if dtype is torch.float64 else torch.float32
        if contract.low is not None and contract.high is not None:
            share = torch.rand(shape, dtype=exact, **options)
            values = low * (1 - share) + high * share
        else:
            values = torch.randn(shape, dtype=exact, **options)
            if contract.low is not None:
                values = low + values.abs()
            elif contract.high is not None:
                values = high - values.abs()
        return values.clamp(low, high).to(dtype)

    def integers(self, low: int, high: int, count: int) -> list[int]:
        """Draw whole numbers from ``low`` to ``high``, both included."""
        generator = self._on(None if self._generator is None else self._generator.device)
        device = torch.device("cpu") if generator is None else generator.device
        return to_lists(torch.randint(low, high + 1, (count,), generator=generator, device=device))

    def _on(self, device: torch.device | None) -> torch.Generator | None:
        if self._seed is None:
            return self._generator
        drawn_on = torch.get_default_device() if device is None else device
        if drawn_on.type == "meta":
            return None
        if drawn_on not in self._seeded:
            self._seeded[drawn_on] = torch.Generator(drawn_on).manual_seed(self._seed)
        return self._seeded[drawn_on]


#: number of different integers to draw from if the range is open
_SPAN = 100


def _integers(shape: tuple[int, ...], dtype: torch.dtype, contract: Contract, options: dict[str, Any]) -> Tensor:
    least, most = whole(contract.low, contract.high, dtype)
    if dtype is not torch.bool:
        if contract.high is None:
            least = max(least, 0) if contract.low is None else least
            most = min(most, least + _SPAN - 1)
        elif contract.low is None:
            least = max(least, most - _SPAN + 1)
    last = torch.iinfo(torch.int64).max  # which torch cannot draw
    drawn = torch.randint(min(least, last - 1), min(most, last - 1) + 1, shape, dtype=torch.int64, **options)
    return drawn.to(dtype)


# ---------------------------------------------------------------------------------------------------------------------
# ``empty``, which a collection has as well


def make_empty(
    cls: type[R],
    batch_size: Sequence[int] | int = (),
    *,
    device: DeviceLike | None = None,
    names: Sequence[str | None] | None = None,
    sizes: Mapping[str, SizeLike] | None = None,
    **named: SizeLike,
) -> R:
    """Make a record of uninitialised tensors: each has the shape and dtype of its field's contract.

    On an instance, ``record.empty()`` returns a record without values: see :meth:`TensorDict.empty`.

    Args:
        batch_size: the batch size; none by default.
        device: the device of the record and of its tensors, as for :meth:`TensorClass.zeros`.
        names: a name or ``None`` for each batch dimension.
        sizes: sizes of dimensions that contracts name, for names that cannot be keywords.
        named: sizes by keyword, as for :meth:`TensorClass.zeros`.

    Returns:
        A record with new tensors. Their values may break the ranges of contracts.

    Raises:
        TypeError: as for :meth:`TensorClass.zeros`.

    Example:
        >>> import torch
        >>> from typing import Annotated
        >>> from tensorclass import Shape, TensorClass
        >>> class Image(TensorClass):
        ...     pixels: Annotated[torch.Tensor, Shape("3 h w")]
        >>> Image.empty([8], h=32, w=16).pixels.shape
        torch.Size([8, 3, 32, 16])
    """
    with validation(False):
        return make(cls, "empty", uninitialised, batch_size, device, names, sizes, named)


make_empty.__name__ = "empty"
make_empty.__qualname__ = "TensorClass.empty"


class MakesEmpty(Protocol[R_co]):
    """The signature of ``Sample.empty``."""

    def __call__(
        self,
        batch_size: Sequence[int] | int = ...,
        *,
        device: DeviceLike | None = ...,
        names: Sequence[str | None] | None = ...,
        sizes: Mapping[str, SizeLike] | None = ...,
        **named: SizeLike,
    ) -> R_co: ...


class Emptied(Protocol[R_co]):
    """The signature of ``record.empty``."""

    def __call__(
        self,
        recurse: bool = ...,
        *,
        batch_size: Sequence[int] | None = ...,
        device: DeviceLike | None = ...,
        names: Sequence[str | None] | None = ...,
    ) -> R_co: ...


class Empty:
    """Descriptor: :func:`make_empty` on the class, ``TensorDict.empty`` on instances."""

    __doc__ = make_empty.__doc__

    @overload
    def __get__(self, record: None, owner: type[R]) -> MakesEmpty[R]: ...
    @overload
    def __get__(self, record: R, owner: type[R] | None = None) -> Emptied[R]: ...
    def __get__(self, record: Any, owner: Any = None) -> Any:
        if record is None:
            return make_empty.__get__(owner)  # (torch.compile traces this, and no types.MethodType)
        return TensorCollection.empty.__get__(record)
