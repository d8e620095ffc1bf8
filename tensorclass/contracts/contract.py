"""Contracts: shape, dtype, range and device that an annotation requires of a tensor."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
import typing_extensions
from torch import Tensor

from tensorclass.support.printable import class_name
from tensorclass.td.collection import Collection

from .dims import Dim, parse
from .dtype_names import matching
from .markers import Device, DType, Marker, Range, Shape

_UNIONS = (typing.Union, types.UnionType)
_ALIASES = ("__supertype__", "__value__")  # NewType; a type alias


@dataclasses.dataclass(frozen=True)
class Contract:
    """Requirements on the value of a field: those of ``Float[Tensor, "3 h w"]``, or of the package's markers.

    It is the ``contract`` of a ``FieldSpec``, which is ``None`` for fields without requirements.

    Attributes:
        dims: the dimensions of one item, after those of the batch; ``None`` for any.
        dtypes: the allowed dtypes; ``None`` for any.
        low: the smallest value of the elements; ``None`` for any.
        high: the largest value of the elements; ``None`` for any.
        device: the device; one without an index stands for all of its type. ``None`` for any.
        others: alternatives: a value may keep one of these contracts instead. They come from a union of annotations.
        shown: the annotation, for messages.
        dtype_name: the category of dtypes, for messages and schemas, such as ``"float"``; empty if any dtype is
            allowed.

    Example:
        >>> from typing import Annotated
        >>> from torch import Tensor
        >>> from tensorclass import DType, Range, Shape
        >>> from tensorclass.contracts import Contract
        >>> contract = Contract.of(Annotated[Tensor, Shape("3 h w"), DType("float32"), Range(0, 1)])
        >>> [dim.text for dim in contract.dims], contract.rank, contract.names, contract.dtypes, contract.high
        (['3', 'h', 'w'], 3, ('h', 'w'), frozenset({torch.float32}), 1)
    """

    dims: tuple[Dim, ...] | None = None
    dtypes: frozenset[torch.dtype] | None = None
    low: float | None = None
    high: float | None = None
    device: torch.device | None = None
    others: tuple[Contract, ...] = ()
    shown: str = dataclasses.field(default="", compare=False)
    dtype_name: str = dataclasses.field(default="", compare=False)

    @property
    def rank(self) -> int | None:
        """The number of dimensions of one item; ``None`` if it varies.

        Example:
            >>> from tensorclass import Shape
            >>> from tensorclass.contracts import Contract
            >>> Contract(Shape("3 h w").dims).rank, Contract(Shape("3 ...").dims).rank
            (3, None)
        """
        if self.dims is None or any(dim.variadic for dim in self.dims):
            return None
        ranks = {len(self.dims), *(other.rank for other in self.others)}
        return len(self.dims) if len(ranks) == 1 else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of dimensions, including those in expressions. Variadic names have their star.

        Example:
            >>> from tensorclass import Shape
            >>> from tensorclass.contracts import Contract
            >>> Contract(Shape("3 h w+1 *n").dims).names
            ('h', 'w', '*n')
        """
        return tuple(dict.fromkeys(name for dim in self.dims or () for name in dim.names))

    @property
    def bounded(self) -> bool:
        """``True`` if there is a range, so that checking has to read the elements.

        Example:
            >>> from tensorclass.contracts import Contract
            >>> Contract().bounded, Contract(low=0).bounded
            (False, True)
        """
        return not (self.low is None and self.high is None) or any(other.bounded for other in self.others)

    @property
    def expected(self) -> str:
        """The contract and its alternatives, for messages.

        Example:
            >>> from tensorclass.contracts import Contract
            >>> Contract(shown="Shape('3')", others=(Contract(shown="Shape('4')"),)).expected
            "Shape('3') or Shape('4')"
        """
        return " or ".join([self.shown, *(other.shown for other in self.others)])

    def item_shape(
        self, sizes: Mapping[str, int], variadic: Mapping[str, tuple[int, ...]] | None = None
    ) -> tuple[int, ...]:
        """Return the shape of one item for given sizes of names. Dimensions of any size get size one.

        Args:
            sizes: a size for each name.
            variadic: the sizes for each ``*name``, without the star; none by default, as for ``...``.

        Example:
            >>> from tensorclass import Shape
            >>> from tensorclass.contracts import Contract
            >>> Contract(Shape("3 h w h+1 *n _").dims).item_shape({"h": 8, "w": 4})
            (3, 8, 4, 9, 1)
        """
        shape: list[int] = []
        for dim in self.dims or ():
            if dim.variadic:
                shape += (variadic or {}).get(dim.name or "", ())
            else:
                size = dim.resolved(sizes)
                shape.append(1 if size is None else size)
        return tuple(shape)

    @classmethod
    def of(cls, annotation: Any, evaluate: Callable[[str], Any] | None = None) -> Contract | None:
        """Return the contract of an annotation, or ``None`` if it has none.

        Args:
            annotation: jaxtyping's ``Float[Tensor, "3 h w"]``, ``Annotated[Tensor, Shape("3 h w")]``, and both inside
                unions, ``Optional``, aliases, ``Final``. Any other annotation has no contract.
            evaluate: evaluates an annotation that is text. Without it, text has no contract.

        Raises:
            ValueError: a shape is malformed, or no tensor can keep the contract.
            TypeError: markers contradict each other, or annotate something other than a tensor.

        Example:
            >>> from typing import Annotated
            >>> from torch import Tensor
            >>> from tensorclass import Shape
            >>> from tensorclass.contracts import Contract
            >>> Contract.of(Annotated[Tensor, Shape("3 h w")]).rank, Contract.of(str)
            (3, None)
        """
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            return None if evaluate is None else cls.of(evaluate(annotation), evaluate)
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            inner, *marks = typing.get_args(annotation)
            return _marked(inner, cls.of(inner, evaluate), marks)
        if origin in (typing.Final, typing.ClassVar, typing_extensions.Required, typing_extensions.NotRequired):
            return cls.of(typing.get_args(annotation)[0], evaluate)
        if origin in _UNIONS:
            return _either(typing.get_args(annotation), evaluate)
        if isinstance(annotation, TypeVar):
            if annotation.__constraints__:
                return _either(annotation.__constraints__, evaluate)
            return None if annotation.__bound__ is None else cls.of(annotation.__bound__, evaluate)
        if isinstance(annotation, type):
            return _of_array(annotation)
        for alias in _ALIASES:
            if hasattr(annotation, alias):
                return cls.of(getattr(annotation, alias), evaluate)
        return None


def described_array(annotation: Any) -> type | None:
    """Return the array class of a jaxtyping annotation, ``Float[Tensor, "..."]``; ``None`` for others."""
    array = getattr(annotation, "array_type", None)  # recognised by its attribute: jaxtyping need not be installed
    return array if isinstance(array, type) and hasattr(annotation, "dim_str") else None


def _of_array(annotation: type) -> Contract | None:
    array = described_array(annotation)
    if array is None or not issubclass(array, (Tensor, Collection)):
        return None
    given: Any = annotation
    names: object = given.dtypes
    category = getattr(given.dtype, "__name__", "") if hasattr(given, "dtype") else given.__name__.split("[")[0]
    shown = f'{category}[{array.__name__}, "{given.dim_str}"]'
    dtypes: frozenset[torch.dtype] | None = None
    if isinstance(names, (list, tuple)):
        dtypes = matching(given.dtypes)
        if not dtypes:
            raise ValueError(f"{shown}: no tensor has one of the dtypes {list(given.dtypes)}")
    return Contract(parse(given.dim_str), dtypes, shown=shown, dtype_name="" if dtypes is None else category.lower())


def _marked(inner: Any, contract: Contract | None, marks: list[Any]) -> Contract | None:
    """Return the contract of ``Annotated[inner, *marks]``, given the contract of ``inner``."""
    for mark in marks:
        if isinstance(mark, type) and issubclass(mark, Marker):
            raise TypeError(f"{class_name(mark)} says nothing by itself; write {class_name(mark)}(...)")
    ours = [mark for mark in marks if isinstance(mark, Marker)]
    if not ours:
        return contract
    result = contract or Contract(shown=_shown(inner))
    for mark in ours:
        result = _with(result, mark)
    return _annotated(result, ", ".join([repr(mark) for mark in ours]))


def _annotated(contract: Contract, marks: str) -> Contract:
    others = tuple([_annotated(other, marks) for other in contract.others])
    return dataclasses.replace(contract, others=others, shown=f"Annotated[{contract.shown}, {marks}]")


def _with(contract: Contract, mark: Marker) -> Contract:
    """Add a marker to a contract and its alternatives."""
    changes: dict[str, Any]
    if isinstance(mark, Shape):
        changes = {"dims": mark.dims}
    elif isinstance(mark, DType):
        changes = {"dtypes": mark.allowed, "dtype_name": mark.name}
    elif isinstance(mark, Range):
        changes = {"low": mark.low, "high": mark.high}
    else:
        assert isinstance(mark, Device)
        changes = {"device": mark.device}
    for name in changes:
        if name != "dtype_name" and getattr(contract, name) is not None:
            raise TypeError(f"{contract.shown} and {mark!r} both say what the {_WHAT[name]} is; leave one of them out")
    others = tuple([_with(other, mark) for other in contract.others])
    return dataclasses.replace(contract, **changes, others=others)


_WHAT = {"dims": "shape", "dtypes": "dtype", "low": "range", "high": "range", "device": "device"}


def _either(parts: tuple[Any, ...], evaluate: Callable[[str], Any] | None) -> Contract | None:
    """Return the contract of a union: ``None`` if it has a member that is a tensor without a contract."""
    contracts: list[Contract] = []
    for part in parts:
        contract = Contract.of(part, evaluate)
        if contract is not None:
            contracts += [dataclasses.replace(contract, others=()), *contract.others]
        elif not _is_no_tensor(part):
            return None
    if not contracts:
        return None
    first, *rest = dict.fromkeys(contracts)
    return dataclasses.replace(first, others=tuple(rest))


def _is_no_tensor(annotation: Any) -> bool:
    """Return whether no value of an annotation is a tensor."""
    origin = typing.get_origin(annotation) or annotation
    if origin in (Any, object):
        return False
    return origin in (None, typing.Literal) or (
        isinstance(origin, type) and not issubclass(origin, (Tensor, Collection))
    )


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
