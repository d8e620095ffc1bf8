"""Operators of Python: ``data + 1``, ``data == other``, ``-data``."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from . import native
from .collection import Collection, call_on_value
from .foreach import kernel_of
from .operands import Operands

_ADD, _ADD_ = kernel_of("add"), kernel_of("add_")
_SUB, _SUB_ = kernel_of("sub"), kernel_of("sub_")
_MUL, _MUL_ = kernel_of("mul"), kernel_of("mul_")
_DIV, _DIV_ = kernel_of("div"), kernel_of("div_")
_POW, _POW_ = kernel_of("pow"), kernel_of("pow_")


class Operators(Operands):
    """The operators of tensors."""

    __slots__ = ()

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

    def __pos__(self) -> Self:
        return self

    def __invert__(self) -> Self:
        return self._same({key: call_on_value(_inverted, value) for key, value in self._now().items()})

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        """Compare element by element, to a collection of booleans. ``False`` for objects that cannot be compared."""
        return self._pairwise(operator.eq, other) if isinstance(other, COMPARANDS) else _NO_OPERAND

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        """Compare element by element, to a collection of booleans. ``True`` for objects that cannot be compared."""
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


#: second operands that the operators take
OPERANDS: tuple[Any, ...] = (int, float, Collection, Tensor, complex, torch.SymInt, torch.SymFloat)
COMPARANDS: tuple[Any, ...] = (*OPERANDS, Mapping)
_NO_OPERAND: Any = NotImplemented  # typed Any, so that checkers accept it as the result of an operator


def _inverted(value: Any) -> Any:
    return value.__invert__()  # torch.compile does not know operator.invert


def _rdiv(value: Any, other: Any) -> Any:
    return other / value


def _rpow(value: Any, other: Any) -> Any:
    return other**value


def _rfloordiv(value: Any, other: Any) -> Any:
    return other // value


def _rmod(value: Any, other: Any) -> Any:
    return torch.remainder(other, value)


for _function, _name in ((operator.eq, "eq"), (operator.ne, "ne"), (_rdiv, "rdiv")):
    native.tell("bind_function", _function, _name)
