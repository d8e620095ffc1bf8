"""Point-wise operations: one table, in which an operation is a line.

Where torch has a *foreach* kernel for an operation, all values of a level go through one call of it (one launch instead
of one a tensor on an accelerator, and less overhead on a CPU): see ``foreach.py``, and ``operands.py`` for the others.

Functions of two operands take a number, a tensor that broadcasts against the batch size (each value sees it aligned
with the batch dimensions), or a collection with the same keys.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from . import rehearsal
from .collection import Collection
from .combining import _right
from .foreach import kernel_of, run
from .indexing import _broadcasts
from .operands import Operands
from .values import ShapeMismatch

C = TypeVar("C", bound="Pointwise")
R = TypeVar("R", covariant=True)

# ---------------------------------------------------------------------------------------------------------------------
# the three shapes of an operation's method, for type checkers


class Unary(Protocol):
    """``data.f()``."""

    def __get__(self, instance: C, owner: Any) -> Callable[[], C]: ...


class BoundBinary(Protocol[R]):
    def __call__(self, other: Collection | Tensor | complex, *, default: Any = None) -> R: ...


class Binary(Protocol):
    """``data.f(other)``; ``default`` stands for a key that one side lacks, ``"intersection"`` drops such keys."""

    def __get__(self, instance: C, owner: Any) -> BoundBinary[C]: ...


class BoundBinaryInPlace(Protocol[R]):
    def __call__(self, other: Collection | Tensor | complex) -> R: ...


class BinaryInPlace(Protocol):
    """``data.f_(other)``."""

    def __get__(self, instance: C, owner: Any) -> BoundBinaryInPlace[C]: ...


#: the names of the methods in the table; torch has functions, or tensors have methods, of the same names
NAMES: list[str] = []


# ---------------------------------------------------------------------------------------------------------------------
# what makes the methods


def _document(method: Any, name: str, what: str) -> Any:
    method.__name__ = name
    method.__qualname__ = f"Pointwise.{name}"
    method.__doc__ = what
    NAMES.append(name)
    return method


def unary(name: str) -> Unary:
    """The method for a function of one tensor that has a foreach kernel."""
    kernel = kernel_of(name)

    def method(self: Pointwise) -> Pointwise:
        store = self._store
        if not store:
            return self._same({})
        return self._same(dict(zip(store, run(kernel, [*store.values()]))))  # noqa: B905

    result: Unary = _document(method, name, f"``torch.{name}`` of each tensor.")
    return result


def unary_(name: str) -> Unary:
    """The method for a function of one tensor in place that has a foreach kernel."""
    kernel = kernel_of(name)

    def method(self: Pointwise) -> Pointwise:
        if self._store:
            run(kernel, [*self._store.values()])
        return self

    result: Unary = _document(method, name, f"``torch.Tensor.{name}`` of each tensor, in place.")
    return result


def single(name: str) -> Unary:
    """The method for a function of one tensor that has no foreach kernel."""
    function: Callable[..., Any] = getattr(torch, name)

    def method(self: Pointwise) -> Pointwise:
        return self._same({key: function(value) for key, value in self._store.items()})

    result: Unary = _document(method, name, f"``torch.{name}`` of each tensor.")
    return result


def binary(name: str) -> Binary:
    """The method for a function of two operands that has a foreach kernel."""
    kernel = kernel_of(name)

    def method(self: Pointwise, other: Any, *, default: Any = None) -> Pointwise:
        return self._binary(kernel, other, default)

    result: Binary = _document(method, name, f"``torch.{name}`` of each tensor and ``other``.")
    return result


def binary_(name: str) -> BinaryInPlace:
    """The method for a function of two operands in place that has a foreach kernel."""
    kernel = kernel_of(name)

    def method(self: Pointwise, other: Any) -> Pointwise:
        return self._binary_(kernel, other)

    what = f"``torch.Tensor.{name}`` of each tensor and ``other``, in place."
    result: BinaryInPlace = _document(method, name, what)
    return result


def pairwise(name: str) -> Binary:
    """The method for a function of two operands that has no foreach kernel."""
    function: Callable[..., Any] = getattr(torch, name)

    def method(self: Pointwise, other: Any, *, default: Any = None) -> Pointwise:
        return self._pairwise(function, other, default)

    result: Binary = _document(method, name, f"``torch.{name}`` of each tensor and ``other``.")
    return result


class Pointwise(Operands):
    """Arithmetic, comparison, logic, and functions of each element."""

    __slots__ = ()

    # -- the table ----------------------------------------------------------------------------------------------------

    abs: Unary = unary("abs")
    abs_: Unary = unary_("abs_")
    acos: Unary = unary("acos")
    acos_: Unary = unary_("acos_")
    asin: Unary = unary("asin")
    asin_: Unary = unary_("asin_")
    atan: Unary = unary("atan")
    atan_: Unary = unary_("atan_")
    ceil: Unary = unary("ceil")
    ceil_: Unary = unary_("ceil_")
    cos: Unary = unary("cos")
    cos_: Unary = unary_("cos_")
    cosh: Unary = unary("cosh")
    cosh_: Unary = unary_("cosh_")
    erf: Unary = unary("erf")
    erf_: Unary = unary_("erf_")
    erfc: Unary = unary("erfc")
    erfc_: Unary = unary_("erfc_")
    exp: Unary = unary("exp")
    exp_: Unary = unary_("exp_")
    expm1: Unary = unary("expm1")
    expm1_: Unary = unary_("expm1_")
    floor: Unary = unary("floor")
    floor_: Unary = unary_("floor_")
    frac: Unary = unary("frac")
    frac_: Unary = unary_("frac_")
    lgamma: Unary = unary("lgamma")
    lgamma_: Unary = unary_("lgamma_")
    log: Unary = unary("log")
    log_: Unary = unary_("log_")
    log10: Unary = unary("log10")
    log10_: Unary = unary_("log10_")
    log1p: Unary = unary("log1p")
    log1p_: Unary = unary_("log1p_")
    log2: Unary = unary("log2")
    log2_: Unary = unary_("log2_")
    neg: Unary = unary("neg")
    neg_: Unary = unary_("neg_")
    reciprocal: Unary = unary("reciprocal")
    reciprocal_: Unary = unary_("reciprocal_")
    round: Unary = unary("round")
    round_: Unary = unary_("round_")
    rsqrt: Unary = unary("rsqrt")
    rsqrt_: Unary = unary_("rsqrt_")
    sigmoid: Unary = unary("sigmoid")
    sigmoid_: Unary = unary_("sigmoid_")
    sign: Unary = unary("sign")
    sign_: Unary = unary_("sign_")
    sin: Unary = unary("sin")
    sin_: Unary = unary_("sin_")
    sinh: Unary = unary("sinh")
    sinh_: Unary = unary_("sinh_")
    sqrt: Unary = unary("sqrt")
    sqrt_: Unary = unary_("sqrt_")
    tan: Unary = unary("tan")
    tan_: Unary = unary_("tan_")
    tanh: Unary = unary("tanh")
    tanh_: Unary = unary_("tanh_")
    trunc: Unary = unary("trunc")
    trunc_: Unary = unary_("trunc_")
    zero_: Unary = unary_("zero_")

    bitwise_not: Unary = single("bitwise_not")
    isfinite: Unary = single("isfinite")
    isinf: Unary = single("isinf")
    isnan: Unary = single("isnan")
    isneginf: Unary = single("isneginf")
    isposinf: Unary = single("isposinf")
    isreal: Unary = single("isreal")
    logical_not: Unary = single("logical_not")
    square: Unary = single("square")

    mul: Binary = binary("mul")
    mul_: BinaryInPlace = binary_("mul_")
    div: Binary = binary("div")
    div_: BinaryInPlace = binary_("div_")
    pow: Binary = binary("pow")
    pow_: BinaryInPlace = binary_("pow_")
    maximum: Binary = binary("maximum")
    maximum_: BinaryInPlace = binary_("maximum_")
    minimum: Binary = binary("minimum")
    minimum_: BinaryInPlace = binary_("minimum_")
    clamp_max: Binary = binary("clamp_max")
    clamp_max_: BinaryInPlace = binary_("clamp_max_")
    clamp_min: Binary = binary("clamp_min")
    clamp_min_: BinaryInPlace = binary_("clamp_min_")

    bitwise_and: Binary = pairwise("bitwise_and")
    bitwise_or: Binary = pairwise("bitwise_or")
    bitwise_xor: Binary = pairwise("bitwise_xor")
    floor_divide: Binary = pairwise("floor_divide")
    fmod: Binary = pairwise("fmod")
    logical_and: Binary = pairwise("logical_and")
    logical_or: Binary = pairwise("logical_or")
    logical_xor: Binary = pairwise("logical_xor")
    remainder: Binary = pairwise("remainder")

    eq: Binary = pairwise("eq")
    ne: Binary = pairwise("ne")
    lt: Binary = pairwise("lt")
    le: Binary = pairwise("le")
    gt: Binary = pairwise("gt")
    ge: Binary = pairwise("ge")

    # -- with a factor or several operands ----------------------------------------------------------------------------

    def add(self, other: Collection | Tensor | complex, *, alpha: complex | None = None, default: Any = None) -> Self:
        """``torch.add`` of each tensor and ``other`` times ``alpha``."""
        return self._binary(_ADD, other if alpha is None else _times(other, alpha), default)

    def add_(self, other: Collection | Tensor | complex, *, alpha: complex | None = None) -> Self:
        """``torch.Tensor.add_`` of each tensor and ``other`` times ``alpha``, in place."""
        return self._binary_(_ADD_, other if alpha is None else _times(other, alpha))

    def sub(self, other: Collection | Tensor | complex, *, alpha: complex | None = None, default: Any = None) -> Self:
        """``torch.sub`` of each tensor and ``other`` times ``alpha``."""
        return self._binary(_SUB, other if alpha is None else _times(other, alpha), default)

    def sub_(self, other: Collection | Tensor | complex, alpha: complex | None = None) -> Self:
        """``torch.Tensor.sub_`` of each tensor and ``other`` times ``alpha``, in place."""
        return self._binary_(_SUB_, other if alpha is None else _times(other, alpha))

    def rsub(self, other: Collection | Tensor | complex, *, alpha: complex | None = None, default: Any = None) -> Self:
        """``other`` minus each tensor times ``alpha``."""
        return self._pairwise(torch.rsub if alpha is None else _rsub(alpha), other, default)

    def mod(self, other: Collection | Tensor | complex) -> Self:
        """``torch.remainder`` of each tensor and ``other``."""
        return self._pairwise(torch.remainder, other)

    def lerp(self, end: Collection | Tensor, weight: Collection | Tensor | float) -> Self:
        """``torch.lerp``: ``self + weight * (end - self)``."""
        ends, weights = self._required(end), self._required(weight)
        if not self._store:
            return self._same({})
        results = run(_LERP, [*self._store.values()], (ends, weights))
        return self._same(dict(zip(self._store, results, strict=True)))

    def lerp_(self, end: Collection | Tensor, weight: Collection | Tensor | float) -> Self:
        """``torch.Tensor.lerp_``, in place."""
        return self._in_place(_LERP_, (end, weight))

    def addcmul(self, other1: Collection | Tensor, other2: Collection | Tensor, *, value: float | None = 1) -> Self:
        """``torch.addcmul``: ``self + value * other1 * other2``."""
        return self._three(_ADDCMUL, other1, other2, value)

    def addcdiv(self, other1: Collection | Tensor, other2: Collection | Tensor, value: float | None = 1) -> Self:
        """``torch.addcdiv``: ``self + value * other1 / other2``."""
        return self._three(_ADDCDIV, other1, other2, value)

    def _three(self, kernel: Callable[..., Any], other1: Any, other2: Any, value: float | None) -> Self:
        if not self._store:
            return self._same({})
        args = (self._required(other1), self._required(other2))
        results = run(kernel, [*self._store.values()], args, {"value": 1 if value is None else value})
        return self._same(dict(zip(self._store, results, strict=True)))

    def addcmul_(self, other1: Collection | Tensor, other2: Collection | Tensor, *, value: float | None = 1) -> Self:
        """``torch.Tensor.addcmul_``, in place."""
        return self._three_(_ADDCMUL_, other1, other2, value)

    def addcdiv_(self, other1: Collection | Tensor, other2: Collection | Tensor, *, value: float | None = 1) -> Self:
        """``torch.Tensor.addcdiv_``, in place."""
        return self._three_(_ADDCDIV_, other1, other2, value)

    def _three_(self, kernel: Callable[..., Any], other1: Any, other2: Any, value: float | None) -> Self:
        return self._in_place(kernel, (other1, other2), value=1 if value is None else value)

    def clamp(
        self,
        min: Collection | Tensor | float | None = None,
        max: Collection | Tensor | float | None = None,
        *,
        out: Self | None = None,
    ) -> Self:
        """Each tensor limited to the range from ``min`` to ``max``; at least one of them is needed."""
        if min is None and max is None:
            raise RuntimeError("clamp: give min, max or both")
        result = self
        if min is not None:
            result = result._binary(_CLAMP_MIN, min)
        if max is not None:
            result = result._binary(_CLAMP_MAX, max)
        if out is None:
            return result
        out._copy(result)  # type: ignore[attr-defined]
        return out

    def masked_fill(self, mask: Tensor, value: float | bool) -> Self:
        """Copies of the values with ``value`` where ``mask``, over the leading batch dimensions, is true."""
        return self._same({key: item.masked_fill(_right(mask, item.ndim), value) for key, item in self._store.items()})

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """:meth:`masked_fill` in place."""
        self._check_mask(mask, value, ())
        for item in self._store.values():
            item.masked_fill_(_right(mask, item.ndim), value)
        return self

    def _check_mask(self, mask: Tensor, value: Any, path: tuple[str, ...]) -> None:
        """Raises an error where a mask does not fit a tensor: torch would find out when others have been written."""
        fits_reals = mask.dtype is torch.bool and type(value) in (bool, int, float)
        for key, item in self._store.items():
            if isinstance(item, Pointwise):
                if item._is_tree():
                    item._check_mask(mask, value, (*path, key))
                continue
            if item.shape[: mask.ndim] != mask.shape and not _broadcasts(_right(mask, item.ndim).shape, item.shape):
                raise ShapeMismatch(
                    (*path, key),
                    f"a mask of the shape {list(mask.shape)} does not fit a value of the shape {list(item.shape)}; "
                    f"expected a mask over the batch, {list(self._batch_size)}. Nothing was changed",
                )
            if item.requires_grad:
                rehearsal.check_history((*path, key), item)
            if not (fits_reals and item.is_floating_point()):
                rehearsal.check("masked_fill_", [item], [_right(mask, item.ndim), value])

    # -- operators ----------------------------------------------------------------------------------------------------

    def __add__(self, other: Collection | Tensor | complex) -> Self:
        return self._operate(_ADD, other)

    def __radd__(self, other: Tensor | complex) -> Self:
        return self._operate(_ADD, other)

    def __sub__(self, other: Collection | Tensor | complex) -> Self:
        return self._operate(_SUB, other)

    def __rsub__(self, other: Tensor | complex) -> Self:
        return self._pairwise(torch.rsub, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __mul__(self, other: Collection | Tensor | complex) -> Self:
        return self._operate(_MUL, other)

    def __rmul__(self, other: Tensor | complex) -> Self:
        return self._operate(_MUL, other)

    def __truediv__(self, other: Collection | Tensor | complex) -> Self:
        return self._operate(_DIV, other)

    def __rtruediv__(self, other: Tensor | complex) -> Self:
        return self._pairwise(_rdiv, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __pow__(self, other: Collection | Tensor | complex) -> Self:
        return self._operate(_POW, other)

    def __rpow__(self, other: Tensor | complex) -> Self:
        return self._pairwise(_rpow, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __floordiv__(self, other: Collection | Tensor | complex) -> Self:
        return self._pairwise(torch.floor_divide, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __rfloordiv__(self, other: Tensor | complex) -> Self:
        return self._pairwise(_rfloordiv, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __mod__(self, other: Collection | Tensor | complex) -> Self:
        return self._pairwise(torch.remainder, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __rmod__(self, other: Tensor | complex) -> Self:
        return self._pairwise(_rmod, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __and__(self, other: Collection | Tensor | int) -> Self:
        return self._pairwise(torch.bitwise_and, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __or__(self, other: Collection | Tensor | int) -> Self:
        return self._pairwise(torch.bitwise_or, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __xor__(self, other: Collection | Tensor | int) -> Self:
        return self._pairwise(torch.bitwise_xor, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __rand__(self, other: Tensor | int) -> Self:
        return self.__and__(other)

    def __ror__(self, other: Tensor | int) -> Self:
        return self.__or__(other)

    def __rxor__(self, other: Tensor | int) -> Self:
        return self.__xor__(other)

    def __iadd__(self, other: Collection | Tensor | complex) -> Self:
        return self._binary_(_ADD_, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __isub__(self, other: Collection | Tensor | complex) -> Self:
        return self._binary_(_SUB_, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __imul__(self, other: Collection | Tensor | complex) -> Self:
        return self._binary_(_MUL_, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __itruediv__(self, other: Collection | Tensor | complex) -> Self:
        return self._binary_(_DIV_, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __ipow__(self, other: Collection | Tensor | complex) -> Self:
        return self._binary_(_POW_, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.abs()

    def __invert__(self) -> Self:
        return self._same({key: value.__invert__() for key, value in self._store.items()})

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        """Element by element: a collection of booleans. ``False`` for what cannot be compared."""
        return self._pairwise(operator.eq, other) if isinstance(other, COMPARANDS) else _NO_OPERAND

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        """Element by element: a collection of booleans. ``True`` for what cannot be compared."""
        return self._pairwise(operator.ne, other) if isinstance(other, COMPARANDS) else _NO_OPERAND

    def __lt__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.lt, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __le__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.le, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __gt__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.gt, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __ge__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.ge, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


#: what the operators take as their other side
OPERANDS: tuple[Any, ...] = (int, float, Collection, Tensor, complex, torch.SymInt, torch.SymFloat)
COMPARANDS: tuple[Any, ...] = (*OPERANDS, Mapping)
_NO_OPERAND: Any = NotImplemented  # of a type that checkers take for the result of an operator, in an expression too


_ADD, _ADD_ = kernel_of("add"), kernel_of("add_")
_SUB, _SUB_ = kernel_of("sub"), kernel_of("sub_")
_MUL, _MUL_ = kernel_of("mul"), kernel_of("mul_")
_DIV, _DIV_ = kernel_of("div"), kernel_of("div_")
_POW, _POW_ = kernel_of("pow"), kernel_of("pow_")
_LERP, _LERP_ = kernel_of("lerp"), kernel_of("lerp_")
_ADDCMUL, _ADDCMUL_ = kernel_of("addcmul"), kernel_of("addcmul_")
_ADDCDIV, _ADDCDIV_ = kernel_of("addcdiv"), kernel_of("addcdiv_")
_CLAMP_MIN, _CLAMP_MAX = kernel_of("clamp_min"), kernel_of("clamp_max")
NAMES.extend(["add", "add_", "sub", "sub_", "lerp", "lerp_", "addcmul", "addcmul_", "addcdiv", "addcdiv_"])


def _times(other: Any, alpha: complex) -> Any:
    return other * alpha


def _rsub(alpha: complex) -> Callable[..., Any]:
    def subtracted(value: Any, other: Any) -> Any:
        return torch.rsub(value, other, alpha=alpha)

    return subtracted


def _rdiv(value: Any, other: Any) -> Any:
    return other / value


def _rpow(value: Any, other: Any) -> Any:
    return other**value


def _rfloordiv(value: Any, other: Any) -> Any:
    return other // value


def _rmod(value: Any, other: Any) -> Any:
    return torch.remainder(other, value)
