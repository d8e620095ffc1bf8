"""Point-wise operations: a table with a line for each operation.

If torch has a *foreach* kernel for an operation, all values of a level go through one call of it: one launch instead of
one per tensor on an accelerator, and less overhead on a CPU. See ``foreach.py`` for kernels and ``operands.py`` for the
second operand, and ``pointwise_factories.py`` for the functions that make a method of each line.

A second operand is a number, a tensor that broadcasts to the batch size (aligned with the batch dimensions of each
value), or a collection with the same keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from . import in_place_checks, native
from .collection import Collection, has_no_numbers
from .foreach import kernel_of, run_kernel
from .hidden_members import member_items, member_values, with_members
from .indexing import _broadcasts
from .operands import WiderOperand
from .operators import Operators
from .pointwise_factories import (
    BOOLEANS,
    INTEGERS,
    SIGNED,
    WITH_INFINITY,
    Binary,
    BinaryInPlace,
    Unary,
    binary,
    binary_,
    pairwise,
    single,
    unary,
    unary_,
)
from .stack_and_cat import _append_dims
from .value_checks import ShapeMismatch


class Pointwise(Operators):
    """Arithmetic, comparison, logic, and other functions of each element."""

    __slots__ = ()

    # -- the table ----------------------------------------------------------------------------------------------------

    abs: Unary = unary("abs", "Absolute value", "[1.5000, 2.0000]", SIGNED)
    abs_: Unary = unary_("abs_")
    acos: Unary = unary("acos", "Arc cosine, in radians", "[1.3181, 0.0000]")
    acos_: Unary = unary_("acos_")
    asin: Unary = unary("asin", "Arc sine, in radians", "[0.2527, 1.5708]")
    asin_: Unary = unary_("asin_")
    atan: Unary = unary("atan", "Arc tangent, in radians", "[0.2450, 0.7854]")
    atan_: Unary = unary_("atan_")
    ceil: Unary = unary("ceil", "Smallest integer that is not smaller", "[-1.,  2.]", SIGNED)
    ceil_: Unary = unary_("ceil_")
    cos: Unary = unary("cos", "Cosine, of radians", "[0.9689, 0.5403]")
    cos_: Unary = unary_("cos_")
    cosh: Unary = unary("cosh", "Hyperbolic cosine", "[1.0314, 1.5431]")
    cosh_: Unary = unary_("cosh_")
    erf: Unary = unary("erf", "Error function", "[0.2763, 0.8427]")
    erf_: Unary = unary_("erf_")
    erfc: Unary = unary("erfc", "Complementary error function, ``1 - erf(x)``", "[0.7237, 0.1573]")
    erfc_: Unary = unary_("erfc_")
    exp: Unary = unary("exp", "Exponential function", "[1.2840, 2.7183]")
    exp_: Unary = unary_("exp_")
    expm1: Unary = unary("expm1", "``exp(x) - 1``, precise for small ``x``", "[0.2840, 1.7183]")
    expm1_: Unary = unary_("expm1_")
    floor: Unary = unary("floor", "Largest integer that is not larger", "[-2.,  2.]", SIGNED)
    floor_: Unary = unary_("floor_")
    frac: Unary = unary("frac", "Fractional part, with the sign of the element", "[-0.5000,  0.0000]", SIGNED)
    frac_: Unary = unary_("frac_")
    lgamma: Unary = unary("lgamma", "Logarithm of the absolute value of the gamma function", "[1.2880, 0.0000]")
    lgamma_: Unary = unary_("lgamma_")
    log: Unary = unary("log", "Natural logarithm", "[-1.3863,  0.0000]")
    log_: Unary = unary_("log_")
    log10: Unary = unary("log10", "Logarithm to base 10", "[-0.6021,  0.0000]")
    log10_: Unary = unary_("log10_")
    log1p: Unary = unary("log1p", "``log(1 + x)``, precise for small ``x``", "[0.2231, 0.6931]")
    log1p_: Unary = unary_("log1p_")
    log2: Unary = unary("log2", "Logarithm to base 2", "[-2.,  0.]")
    log2_: Unary = unary_("log2_")
    neg: Unary = unary("neg", "Negative", "[ 1.5000, -2.0000]", SIGNED)
    neg_: Unary = unary_("neg_")
    reciprocal: Unary = unary("reciprocal", "``1 / x``", "[4., 1.]")
    reciprocal_: Unary = unary_("reciprocal_")
    round: Unary = unary("round", "Nearest integer; of two, the even one", "[-2.,  2.]", SIGNED)
    round_: Unary = unary_("round_")
    rsqrt: Unary = unary("rsqrt", "``1 / sqrt(x)``", "[2., 1.]")
    rsqrt_: Unary = unary_("rsqrt_")
    sigmoid: Unary = unary("sigmoid", "``1 / (1 + exp(-x))``", "[0.5622, 0.7311]")
    sigmoid_: Unary = unary_("sigmoid_")
    sign: Unary = unary("sign", "Sign: -1, 0 or 1", "[-1.,  1.]", SIGNED)
    sign_: Unary = unary_("sign_")
    sin: Unary = unary("sin", "Sine, of radians", "[0.2474, 0.8415]")
    sin_: Unary = unary_("sin_")
    sinh: Unary = unary("sinh", "Hyperbolic sine", "[0.2526, 1.1752]")
    sinh_: Unary = unary_("sinh_")
    sqrt: Unary = unary("sqrt", "Square root", "[0.5000, 1.0000]")
    sqrt_: Unary = unary_("sqrt_")
    tan: Unary = unary("tan", "Tangent, of radians", "[0.2553, 1.5574]")
    tan_: Unary = unary_("tan_")
    tanh: Unary = unary("tanh", "Hyperbolic tangent", "[0.2449, 0.7616]")
    tanh_: Unary = unary_("tanh_")
    trunc: Unary = unary("trunc", "Integer part", "[-1.,  2.]", SIGNED)
    trunc_: Unary = unary_("trunc_")
    zero_: Unary = unary_("zero_", "Zero", "[0., 0.]")

    bitwise_not: Unary = single("bitwise_not", "Bitwise NOT; logical NOT of booleans", "[-2, -7]", INTEGERS)
    isfinite: Unary = single("isfinite", "Mask of finite elements", "[ True, False]", WITH_INFINITY)
    isinf: Unary = single("isinf", "Mask of infinite elements", "[False,  True]", WITH_INFINITY)
    isnan: Unary = single("isnan", "Mask of NaN", "[False, False]", WITH_INFINITY)
    isneginf: Unary = single("isneginf", "Mask of negative infinity", "[False, False]", WITH_INFINITY)
    isposinf: Unary = single("isposinf", "Mask of positive infinity", "[False,  True]", WITH_INFINITY)
    isreal: Unary = single("isreal", "Mask of elements whose imaginary part is zero", "[True, True]", WITH_INFINITY)
    logical_not: Unary = single("logical_not", "Mask of elements that are zero or false", "[False,  True]", BOOLEANS)
    square: Unary = single("square", "Square", "[2.2500, 4.0000]", SIGNED)

    mul: Binary = binary("mul", "Product", "[2., 8.]")
    mul_: BinaryInPlace = binary_("mul_")
    div: Binary = binary("div", "Quotient", "[0.5000, 2.0000]")
    div_: BinaryInPlace = binary_("div_")
    pow: Binary = binary("pow", "Power, ``self ** other``", "[ 1., 16.]")
    pow_: BinaryInPlace = binary_("pow_")
    maximum: Binary = binary("maximum", "Larger one of two elements", "[2., 4.]")
    maximum_: BinaryInPlace = binary_("maximum_")
    minimum: Binary = binary("minimum", "Smaller one of two elements", "[1., 2.]")
    minimum_: BinaryInPlace = binary_("minimum_")
    clamp_max: Binary = binary("clamp_max", "Elements, at most ``other``", "[1., 2.]")
    clamp_max_: BinaryInPlace = binary_("clamp_max_")
    clamp_min: Binary = binary("clamp_min", "Elements, at least ``other``", "[2., 4.]")
    clamp_min_: BinaryInPlace = binary_("clamp_min_")

    bitwise_and: Binary = pairwise("bitwise_and", "Bitwise AND; logical AND of booleans", "[0, 2]", INTEGERS)
    bitwise_or: Binary = pairwise("bitwise_or", "Bitwise OR; logical OR of booleans", "[3, 6]", INTEGERS)
    bitwise_xor: Binary = pairwise("bitwise_xor", "Bitwise XOR; logical XOR of booleans", "[3, 4]", INTEGERS)
    floor_divide: Binary = pairwise("floor_divide", "Quotient, rounded down", "[0., 2.]")
    fmod: Binary = pairwise(
        "fmod", "Remainder of the division, with the sign of the dividend", "[-1.5000,  0.0000]", SIGNED
    )
    logical_and: Binary = pairwise("logical_and", "Logical AND", "[ True, False]", BOOLEANS, other="torch.tensor(True)")
    logical_or: Binary = pairwise("logical_or", "Logical OR", "[True, True]", BOOLEANS, other="torch.tensor(True)")
    logical_xor: Binary = pairwise("logical_xor", "Logical XOR", "[False,  True]", BOOLEANS, other="torch.tensor(True)")
    remainder: Binary = pairwise(
        "remainder", "Remainder of the division, with the sign of the divisor", "[0.5000, 0.0000]", SIGNED
    )

    eq: Binary = pairwise("eq", "Mask of equal elements", "[False, False]")
    ne: Binary = pairwise("ne", "Mask of elements that differ", "[True, True]")
    lt: Binary = pairwise("lt", "Mask of elements less than ``other``", "[ True, False]")
    le: Binary = pairwise("le", "Mask of elements less than or equal to ``other``", "[ True, False]")
    gt: Binary = pairwise("gt", "Mask of elements greater than ``other``", "[False,  True]")
    ge: Binary = pairwise("ge", "Mask of elements greater than or equal to ``other``", "[False,  True]")

    # -- with a factor or several operands ----------------------------------------------------------------------------

    def __neg__(self) -> Self:
        return with_members(self).neg()

    def __abs__(self) -> Self:
        return with_members(self).abs()

    def add(self, other: Collection | Tensor | complex, *, alpha: complex | None = None, default: Any = None) -> Self:
        """``self + alpha * other``, element by element; ``torch.add``.

        Args:
            other: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.
            alpha: a number that ``other`` is multiplied by. Default: 1.
            default: a number or a tensor, the value of a key that only one of two collections has. ``"intersection"``
                drops such keys. Default: both collections must have the same keys.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: ``other`` is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.add(3, alpha=2)["x"]
            tensor([7., 8.])
        """
        return self._binary(_ADD, other if alpha is None else _times(other, alpha), default)

    def add_(self, other: Collection | Tensor | complex, *, alpha: complex | None = None) -> Self:
        """``self + alpha * other``, in place; ``torch.Tensor.add_``.

        Args:
            other: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.
            alpha: a number that ``other`` is multiplied by. Default: 1.

        Returns:
            This collection.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: ``other`` is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast, or torch cannot write the result to a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.add_(3, alpha=2)["x"]
            tensor([7., 8.])
        """
        return self._binary_(_ADD_, other if alpha is None else _times(other, alpha))

    def sub(self, other: Collection | Tensor | complex, *, alpha: complex | None = None, default: Any = None) -> Self:
        """``self - alpha * other``, element by element; ``torch.sub``.

        Args:
            other: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.
            alpha: a number that ``other`` is multiplied by. Default: 1.
            default: a number or a tensor, the value of a key that only one of two collections has. ``"intersection"``
                drops such keys. Default: both collections must have the same keys.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: ``other`` is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.sub(3, alpha=2)["x"]
            tensor([-5., -4.])
        """
        return self._binary(_SUB, other if alpha is None else _times(other, alpha), default)

    def sub_(self, other: Collection | Tensor | complex, alpha: complex | None = None) -> Self:
        """``self - alpha * other``, in place; ``torch.Tensor.sub_``.

        Args:
            other: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.
            alpha: a number that ``other`` is multiplied by. Default: 1.

        Returns:
            This collection.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: ``other`` is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast, or torch cannot write the result to a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.sub_(3, alpha=2)["x"]
            tensor([-5., -4.])
        """
        return self._binary_(_SUB_, other if alpha is None else _times(other, alpha))

    def rsub(self, other: Collection | Tensor | complex, *, alpha: complex | None = None, default: Any = None) -> Self:
        """``other - alpha * self``, element by element; ``torch.rsub``.

        Args:
            other: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.
            alpha: a number that the tensors are multiplied by. Default: 1.
            default: a number or a tensor, the value of a key that only one of two collections has. ``"intersection"``
                drops such keys. Default: both collections must have the same keys.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: ``other`` is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.rsub(10)["x"]
            tensor([9., 8.])
        """
        return self._pairwise(torch.rsub if alpha is None else _rsub(alpha), other, default)

    def mod(self, other: Collection | Tensor | complex) -> Self:
        """Remainder of the division, with the sign of the divisor; ``torch.remainder``.

        Args:
            other: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: ``other`` is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([-1.0, 4.0])}, batch_size=[2])
            >>> data.mod(3)["x"]
            tensor([2., 1.])
        """
        return self._pairwise(torch.remainder, other)

    def lerp(self, end: Collection | Tensor, weight: Collection | Tensor | float) -> Self:
        """Linear interpolation, ``self + weight * (end - self)``; ``torch.lerp``.

        Args:
            end: a tensor that broadcasts to the batch size, or a collection with the same keys.
            weight: 0 gives ``self``, 1 gives ``end``; a number, or one of these.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: an argument is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.lerp(torch.zeros(2), 0.5)["x"]
            tensor([0.5000, 1.0000])
        """
        return self._three(_LERP, end, weight)

    def lerp_(self, end: Collection | Tensor, weight: Collection | Tensor | float) -> Self:
        """Linear interpolation in place, ``self + weight * (end - self)``; ``torch.Tensor.lerp_``.

        Args:
            end: a tensor that broadcasts to the batch size, or a collection with the same keys.
            weight: 0 keeps ``self``, 1 gives ``end``; a number, or one of these.

        Returns:
            This collection.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: an argument is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast, or torch cannot write the result to a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.lerp_(torch.zeros(2), 0.5)["x"]
            tensor([0.5000, 1.0000])
        """
        return self._in_place(_LERP_, (end, weight))

    def addcmul(self, other1: Collection | Tensor, other2: Collection | Tensor, *, value: float | None = 1) -> Self:
        """``self + value * other1 * other2``, element by element; ``torch.addcmul``.

        Args:
            other1: a tensor that broadcasts to the batch size, or a collection with the same keys.
            other2: the same.
            value: factor of the product. Default: 1.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: an argument is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.addcmul(torch.full((2,), 1.0), torch.full((2,), 3.0), value=2)["x"]
            tensor([7., 8.])
        """
        return self._three(_ADDCMUL, other1, other2, value=1 if value is None else value)

    def addcdiv(self, other1: Collection | Tensor, other2: Collection | Tensor, value: float | None = 1) -> Self:
        """``self + value * other1 / other2``, element by element; ``torch.addcdiv``.

        Args:
            other1: a tensor that broadcasts to the batch size, or a collection with the same keys.
            other2: the same.
            value: factor of the quotient. Default: 1.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: an argument is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.addcdiv(torch.full((2,), 1.0), torch.full((2,), 3.0), value=2)["x"]
            tensor([1.6667, 2.6667])
        """
        return self._three(_ADDCDIV, other1, other2, value=1 if value is None else value)

    def _three(self, kernel: Callable[..., Any], other1: Any, other2: Any, **options: Any) -> Self:
        store = self._now()
        try:
            first = self._required(other1, store)
            args = (first, first if other2 is other1 else self._required(other2, store))
        except WiderOperand as error:
            return self._expanded_for(error)._three(kernel, other1, other2, **options)
        if not store:
            return self._same({})
        results = run_kernel(kernel, [*store.values()], args, options)
        return self._same(dict(zip(store, results, strict=True)))

    def addcmul_(self, other1: Collection | Tensor, other2: Collection | Tensor, *, value: float | None = 1) -> Self:
        """``self + value * other1 * other2``, in place; ``torch.Tensor.addcmul_``.

        Args:
            other1: a tensor that broadcasts to the batch size, or a collection with the same keys.
            other2: the same.
            value: factor of the product. Default: 1.

        Returns:
            This collection.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: an argument is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast, or torch cannot write the result to a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.addcmul_(torch.full((2,), 1.0), torch.full((2,), 3.0), value=2)["x"]
            tensor([7., 8.])
        """
        return self._in_place(_ADDCMUL_, (other1, other2), value=1 if value is None else value)

    def addcdiv_(self, other1: Collection | Tensor, other2: Collection | Tensor, *, value: float | None = 1) -> Self:
        """``self + value * other1 / other2``, in place; ``torch.Tensor.addcdiv_``.

        Args:
            other1: a tensor that broadcasts to the batch size, or a collection with the same keys.
            other2: the same.
            value: factor of the quotient. Default: 1.

        Returns:
            This collection.

        Raises:
            KeyError: the keys of two collections differ.
            TypeError: an argument is not a collection, tensor or number.
            RuntimeError: shapes do not broadcast, or torch cannot write the result to a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([1.0, 2.0])}, batch_size=[2])
            >>> data.addcdiv_(torch.full((2,), 1.0), torch.full((2,), 3.0), value=2)["x"]
            tensor([1.6667, 2.6667])
        """
        return self._in_place(_ADDCDIV_, (other1, other2), value=1 if value is None else value)

    def clamp(
        self,
        min: Collection | Tensor | float | None = None,
        max: Collection | Tensor | float | None = None,
        *,
        out: Self | None = None,
    ) -> Self:
        """Elements limited to a range; ``torch.clamp``.

        Args:
            min: lower bound: a number, a tensor that broadcasts to the batch size, or a collection with the same keys.
                Default: none. One of the two bounds is required.
            max: upper bound, likewise.
            out: collection that the result is written to, and that is returned.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            KeyError: the keys of two collections differ.
            RuntimeError: neither bound is given, or shapes do not broadcast.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([-1.5, 2.0])}, batch_size=[2])
            >>> data.clamp(min=0, max=1)["x"]
            tensor([0., 1.])
        """
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
        """Copy with ``value`` at the rows where a mask is true.

        Args:
            mask: boolean tensor over the leading batch dimensions.
            value: a number or bool.

        Returns:
            A collection of the same class, keys and batch size. Non-tensor data is kept.

        Raises:
            RuntimeError: the mask does not fit the shape of a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}, batch_size=[2])
            >>> data.masked_fill(torch.tensor([True, False]), 0.0)["x"]
            tensor([[0., 0.],
                    [3., 4.]])
        """
        return self._same(
            {
                key: item._shallow() if has_no_numbers(item) else item.masked_fill(_append_dims(mask, item.ndim), value)
                for key, item in member_items(self._now())
            }
        )

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """:meth:`masked_fill` in place.

        Args:
            mask: boolean tensor over the leading batch dimensions.
            value: a number or bool.

        Returns:
            This collection.

        Raises:
            ShapeMismatch: the mask does not fit the shape of a tensor. Nothing is changed.
            RuntimeError: torch cannot write to a tensor, for instance a leaf that requires a gradient.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}, batch_size=[2])
            >>> data.masked_fill_(torch.tensor([True, False]), 0.0)["x"]
            tensor([[0., 0.],
                    [3., 4.]])
        """
        self._check_mask(mask, value, ())
        for item in member_values(self._now().values()):
            if not has_no_numbers(item):
                item.masked_fill_(_append_dims(mask, item.ndim), value)
        return self

    def _check_mask(self, mask: Tensor, value: Any, path: tuple[str, ...]) -> None:
        """Raise if a mask does not fit a tensor: torch would notice only after it has written others."""
        fits_reals = mask.dtype is torch.bool and type(value) in (bool, int, float)
        for key, item in self._now().items():
            if isinstance(item, Pointwise):
                if item._is_tree():
                    item._check_mask(mask, value, (*path, key))
                continue
            if item.shape[: mask.ndim] != mask.shape and not _broadcasts(
                _append_dims(mask, item.ndim).shape, item.shape
            ):
                raise ShapeMismatch(
                    (*path, key),
                    f"a mask of the shape {list(mask.shape)} does not fit a value of the shape {list(item.shape)}; "
                    f"expected a mask over the batch, {list(self._batch_size)}. Nothing was changed",
                )
            if item.requires_grad:
                in_place_checks.check_history((*path, key), item)
            if not (fits_reals and item.is_floating_point()):
                in_place_checks.check("masked_fill_", [item], [_append_dims(mask, item.ndim), value])


_ADD, _ADD_ = kernel_of("add"), kernel_of("add_")
_SUB, _SUB_ = kernel_of("sub"), kernel_of("sub_")
_LERP, _LERP_ = kernel_of("lerp"), kernel_of("lerp_")
_ADDCMUL, _ADDCMUL_ = kernel_of("addcmul"), kernel_of("addcmul_")
_ADDCDIV, _ADDCDIV_ = kernel_of("addcdiv"), kernel_of("addcdiv_")
_CLAMP_MIN, _CLAMP_MAX = kernel_of("clamp_min"), kernel_of("clamp_max")


def _times(other: Any, alpha: complex) -> Any:
    return other * alpha


def _rsub(alpha: complex) -> Callable[..., Any]:
    def subtracted(value: Any, other: Any) -> Any:
        return torch.rsub(value, other, alpha=alpha)

    return subtracted


native.tell("bind_function", torch.rsub, "rsub")
