"""Point-wise operations: one table, in which an operation is a line.

Where torch has a *foreach* kernel for an operation, all values of a level go through one call of it (one launch instead
of one a tensor on an accelerator, and less overhead on a CPU). A nested collection among them makes torch hand the call
to ``__torch_function__``, and :func:`foreach_over_trees` then makes one call for the tensors of all levels: so the
plain case never asks whether a value is nested.

Functions of two operands take a number, a tensor that broadcasts against the batch size (each value sees it aligned
with the batch dimensions), or a collection with the same keys.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from . import rehearsal, shapes
from .collection import Collection
from .combining import _right
from .indexing import _broadcasts
from .values import ShapeMismatch

if TYPE_CHECKING:
    from .collection import Store

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
# applying a function to all values


def _undispatched(error: Exception) -> bool:
    """Whether torch has no such kernel for these tensors, so that nothing was done yet.

    For nested ones, inside vmap, for subclasses of tensors that do not know it, and where one of them in the list
    answers for the collections in it too.
    """
    text = str(error)
    return (
        isinstance(error, NotImplementedError)
        or "Batching rule not implemented" in text
        or "expected Tensor as element" in text
        or "__torch_dispatch__ handlers returned NotImplemented" in text
    )


def foreach_over_trees(kernel: Callable[..., Any], first: list[Any], *rest: Any, **kwargs: Any) -> Any:
    """A foreach kernel on a list in which some items are collections: one call for the tensors of all of them."""
    leaves: list[Tensor] = []
    lists_of: list[Any] = [arg for arg in rest if isinstance(arg, (list, tuple))]
    lists: list[list[Any]] = [[] for _ in lists_of]
    for position, item in enumerate(first):
        operands: list[Any] = [arg[position] for arg in lists_of]
        if isinstance(item, Collection):
            own = list(item._leaves())
            leaves.extend(own)
            for target, operand in zip(lists, operands, strict=True):
                target.extend(_aligned(item, operand))
        else:
            leaves.append(item)
            for target, operand in zip(lists, operands, strict=True):
                target.append(_leaf(operand))
    flat = iter(lists)
    args = [next(flat) if isinstance(arg, (list, tuple)) else arg for arg in rest]
    if SINGLE[kernel][-1] == "_":
        if leaves:
            _apply(kernel, leaves, args, kwargs)
        written = iter(leaves)
        for item in first:
            if isinstance(item, Collection):
                item._put_leaves(written)
            else:
                next(written)
        return None
    results = iter(_apply(kernel, leaves, args, kwargs) if leaves else ())
    return [item._with_leaves(results) if isinstance(item, Collection) else next(results) for item in first]


def _aligned(tree: Any, operand: Any) -> Iterator[Any]:
    """The operand's tensors, one for each leaf of ``tree`` in the order of its leaves."""
    if not tree._is_tree():
        yield from tree._own_operands(operand)
        return
    if not isinstance(operand, Collection):
        if not isinstance(operand, Tensor) or not operand.ndim:
            # without dimensions it takes part in type promotion as a number does, and must go on so
            for _ in tree._leaves():
                yield operand
            return
        operand = _right(operand, len(tree._batch_size))
    parts = tree._aligned_parts(operand)
    if parts is not None:
        for part, own in parts:
            if isinstance(own, Tensor) and not own.ndim:  # of one with dimensions: it promotes dtypes as such
                for leaf in part._leaves():
                    yield own.reshape((1,) * leaf.ndim)
            else:
                yield from _aligned(part, own)
        return
    if isinstance(operand, Tensor):
        for value in tree._store.values():
            if isinstance(value, Collection):
                yield from _aligned(value, operand)
            else:
                yield _right(operand, value.ndim)
        return
    _check_same_keys(tree, operand)
    for key, value in tree._store.items():
        if isinstance(value, Collection):
            yield from _aligned(value, operand._store[key])
        else:
            yield _leaf(operand._store[key])


def _leaf(operand: Any) -> Any:
    """What meets a tensor: no collection, for which torch would only ask again."""
    if isinstance(operand, Collection):
        raise TypeError(f"one of the two collections has a tensor where the other has a {type(operand).__name__}")
    return operand


def _check_same_keys(left: Collection, right: Collection) -> None:
    if left._store.keys() != right._store.keys():
        ours, theirs = (
            sorted(left._store.keys() - right._store.keys()),
            sorted(right._store.keys() - left._store.keys()),
        )
        raise KeyError(
            f"the two collections differ in their keys: the first has {ours}, the second {theirs} beyond the other's; "
            "select() the common keys, or give default= a value (or 'intersection') to a method such as .add()"
        )


def _apply(kernel: Callable[..., Any], values: list[Any], args: Any = (), kwargs: Any = {}) -> Any:  # noqa: B006
    """The kernel on the values; where it cannot run on them, its method of each value."""
    if not is_dynamo_compiling() and not _transforms_active():
        if kernel in IN_PLACE and not rehearsal.check(SINGLE[kernel], values, args, kwargs):
            return foreach_over_trees(kernel, values, *args, **kwargs)
        try:
            return kernel(values, *args, **kwargs)
        except (RuntimeError, TypeError) as error:
            if not _undispatched(error):
                raise
    return _one_by_one(kernel, values, args, kwargs)


def _one_by_one(kernel: Callable[..., Any], values: list[Any], args: Any, kwargs: Any) -> list[Any]:
    name = SINGLE[kernel]
    return [
        getattr(value, name)(*[arg[i] if isinstance(arg, list) else arg for arg in args], **kwargs)
        for i, value in enumerate(values)
    ]


#: a foreach kernel -> the method of a tensor that does the same
SINGLE: dict[Callable[..., Any], str] = {}
#: the kernels that write into the tensors of their first list
IN_PLACE: set[Callable[..., Any]] = set()


def _kernel(name: str) -> Callable[..., Any]:
    kernel: Callable[..., Any] = getattr(torch, f"_foreach_{name}")
    # of one tensor, clamp_min and clamp_max are the same, in place too and with numbers
    SINGLE[kernel] = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
    if name.endswith("_"):
        IN_PLACE.add(kernel)
    return kernel


def _document(method: Any, name: str, what: str) -> Any:
    method.__name__ = name
    method.__qualname__ = f"Pointwise.{name}"
    method.__doc__ = what
    NAMES.append(name)
    return method


def unary(name: str) -> Unary:
    """The method for a function of one tensor that has a foreach kernel."""
    kernel = _kernel(name)

    def method(self: Pointwise) -> Pointwise:
        store = self._store
        if not store:
            return self._same({})
        return self._same(dict(zip(store, _apply(kernel, [*store.values()]))))  # noqa: B905

    result: Unary = _document(method, name, f"``torch.{name}`` of each tensor.")
    return result


def unary_(name: str) -> Unary:
    """The method for a function of one tensor in place that has a foreach kernel."""
    kernel = _kernel(name)

    def method(self: Pointwise) -> Pointwise:
        if self._store:
            _apply(kernel, [*self._store.values()])
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
    kernel = _kernel(name)

    def method(self: Pointwise, other: Any, *, default: Any = None) -> Pointwise:
        return self._binary(kernel, other, default)

    result: Binary = _document(method, name, f"``torch.{name}`` of each tensor and ``other``.")
    return result


def binary_(name: str) -> BinaryInPlace:
    """The method for a function of two operands in place that has a foreach kernel."""
    kernel = _kernel(name)

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


class Pointwise(Collection):
    """Arithmetic, comparison, logic, and functions of each element."""

    __slots__ = ()

    # -- the table ----------------------------------------------------------------------------------------------------

    abs, abs_ = unary("abs"), unary_("abs_")
    acos, acos_ = unary("acos"), unary_("acos_")
    asin, asin_ = unary("asin"), unary_("asin_")
    atan, atan_ = unary("atan"), unary_("atan_")
    ceil, ceil_ = unary("ceil"), unary_("ceil_")
    cos, cos_ = unary("cos"), unary_("cos_")
    cosh, cosh_ = unary("cosh"), unary_("cosh_")
    erf, erf_ = unary("erf"), unary_("erf_")
    erfc, erfc_ = unary("erfc"), unary_("erfc_")
    exp, exp_ = unary("exp"), unary_("exp_")
    expm1, expm1_ = unary("expm1"), unary_("expm1_")
    floor, floor_ = unary("floor"), unary_("floor_")
    frac, frac_ = unary("frac"), unary_("frac_")
    lgamma, lgamma_ = unary("lgamma"), unary_("lgamma_")
    log, log_ = unary("log"), unary_("log_")
    log10, log10_ = unary("log10"), unary_("log10_")
    log1p, log1p_ = unary("log1p"), unary_("log1p_")
    log2, log2_ = unary("log2"), unary_("log2_")
    neg, neg_ = unary("neg"), unary_("neg_")
    reciprocal, reciprocal_ = unary("reciprocal"), unary_("reciprocal_")
    round, round_ = unary("round"), unary_("round_")
    rsqrt, rsqrt_ = unary("rsqrt"), unary_("rsqrt_")
    sigmoid, sigmoid_ = unary("sigmoid"), unary_("sigmoid_")
    sign, sign_ = unary("sign"), unary_("sign_")
    sin, sin_ = unary("sin"), unary_("sin_")
    sinh, sinh_ = unary("sinh"), unary_("sinh_")
    sqrt, sqrt_ = unary("sqrt"), unary_("sqrt_")
    tan, tan_ = unary("tan"), unary_("tan_")
    tanh, tanh_ = unary("tanh"), unary_("tanh_")
    trunc, trunc_ = unary("trunc"), unary_("trunc_")
    zero_ = unary_("zero_")

    bitwise_not = single("bitwise_not")
    isfinite = single("isfinite")
    isinf = single("isinf")
    isnan = single("isnan")
    isneginf = single("isneginf")
    isposinf = single("isposinf")
    isreal = single("isreal")
    logical_not = single("logical_not")
    square = single("square")

    mul, mul_ = binary("mul"), binary_("mul_")
    div, div_ = binary("div"), binary_("div_")
    pow, pow_ = binary("pow"), binary_("pow_")
    maximum, maximum_ = binary("maximum"), binary_("maximum_")
    minimum, minimum_ = binary("minimum"), binary_("minimum_")
    clamp_max, clamp_max_ = binary("clamp_max"), binary_("clamp_max_")
    clamp_min, clamp_min_ = binary("clamp_min"), binary_("clamp_min_")

    bitwise_and = pairwise("bitwise_and")
    bitwise_or = pairwise("bitwise_or")
    bitwise_xor = pairwise("bitwise_xor")
    floor_divide = pairwise("floor_divide")
    fmod = pairwise("fmod")
    logical_and = pairwise("logical_and")
    logical_or = pairwise("logical_or")
    logical_xor = pairwise("logical_xor")
    remainder = pairwise("remainder")

    eq, ne = pairwise("eq"), pairwise("ne")
    lt, le = pairwise("lt"), pairwise("le")
    gt, ge = pairwise("gt"), pairwise("ge")

    # -- how two operands meet ----------------------------------------------------------------------------------------

    def _operands(self, other: Any) -> Any:
        """``other`` as a foreach kernel takes it: a list with one operand for each value, or a number.

        ``NotImplemented`` for what is no operand, which operators pass on.
        """
        if isinstance(other, Collection):
            theirs = other._store
            if len(theirs) == len(self._store):
                try:
                    return [theirs[key] for key in self._store]
                except KeyError:
                    pass
            _check_same_keys(self, other)
        if isinstance(other, Tensor):
            return self._spread(other)
        if isinstance(other, (int, float, complex, torch.SymInt, torch.SymFloat)):
            return other
        source: Any = other
        if isinstance(other, Mapping):
            from .tensordict import TensorDict

            return self._operands(TensorDict(source, self._batch_size))
        return NotImplemented

    def _in_place(self, kernel: Callable[..., Any], others: tuple[Any, ...], **kwargs: Any) -> Self:
        """A kernel in place, with these operands."""
        operands = tuple([self._required(other) for other in others])
        if self._store:
            try:
                _apply(kernel, [*self._store.values()], operands, kwargs)
            except RuntimeError:
                self._check_all_operands(others, operands)
                raise
        return self

    def _check_all_operands(self, others: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
        """Raises an error that names the key of the value that an operand does not fit, if that is what went wrong."""
        for other, own in zip(others, operands, strict=True):
            if isinstance(other, Collection):
                self._check_operands(own, ())

    def _check_operand(self, operand: Collection, path: tuple[str, ...]) -> None:
        """Raises an error where a value of another collection does not fit the one here in place."""
        operands: Any = self._required(operand)
        self._check_operands(operands, path)

    def _check_operands(self, operands: list[Any], path: tuple[str, ...]) -> None:
        """Raises an error where an operand does not fit a value in place."""
        for (key, value), operand in zip(self._store.items(), operands, strict=True):
            if isinstance(value, Pointwise):
                if value._is_tree() and isinstance(operand, Collection):
                    value._check_operand(operand, (*path, key))
            elif isinstance(_leaf(operand), Tensor):
                if operand.is_meta and not value.is_meta:
                    raise ShapeMismatch((*path, key), "cannot be changed by an operand on the device meta")
                if not _broadcasts(operand.shape, value.shape):
                    raise ShapeMismatch(
                        (*path, key),
                        f"cannot be changed in place: expected an operand of the shape {list(value.shape)}, or of one "
                        f"that broadcasts to it, got {list(operand.shape)}; nothing was changed",
                    )

    def _required(self, other: Any) -> list[Any] | complex | torch.SymInt | torch.SymFloat:
        """:meth:`_operands`, where no other side could answer."""
        operands: list[Any] | complex | torch.SymInt | torch.SymFloat = self._operands(other)
        if operands is NotImplemented:
            raise TypeError(f"expected a collection, a tensor or a number, got {other!r} ({type(other).__name__})")
        return operands

    def _spread(self, other: Tensor) -> list[Any]:
        """A tensor over the batch, with dimensions behind so that it broadcasts against each value."""
        ndim = len(self._batch_size)
        if other.ndim == 0:
            return [other] * len(self._store)
        try:
            fits = shapes.broadcast(other.shape, self._batch_size) == self._batch_size
        except RuntimeError:
            fits = False
        if not fits:
            raise RuntimeError(
                f"a tensor operand is aligned with the batch dimensions: expected a shape that broadcasts to "
                f"{list(self._batch_size)}, got {list(other.shape)}; for other shapes use .apply()"
            )
        if other.ndim < ndim:
            other = other.reshape((1,) * (ndim - other.ndim) + other.shape)
        return [
            other.reshape(other.shape + (1,) * (value.ndim - ndim)) if value.ndim > ndim else other
            for value in self._store.values()
        ]

    def _binary(self, kernel: Callable[..., Any], other: Any, default: Any = None) -> Self:
        if default is not None and isinstance(other, Collection):
            return self._with_default(getattr(torch, SINGLE[kernel]), other, default)
        return self._operate(kernel, other, self._required(other))

    def _operate(self, kernel: Callable[..., Any], other: Any, operands: Any = None) -> Self:
        """``kernel`` on the values and ``other``; ``NotImplemented`` for what is no operand, as operators want it."""
        store = self._store
        if operands is None:
            operands = other if type(other) in _NUMBERS else self._operands(other)
            if operands is NotImplemented:
                return NotImplemented  # type: ignore[no-any-return]
        if not store:
            return self._same({})
        if not is_dynamo_compiling() and not _transforms_active():  # inside vmap there are no such kernels
            try:
                return self._same(dict(zip(store, kernel([*store.values()], operands))))  # noqa: B905
            except (RuntimeError, TypeError) as error:
                if not _undispatched(error):
                    raise
        return self._same(dict(zip(store, _one_by_one(kernel, [*store.values()], (operands,), {}))))  # noqa: B905

    def _binary_(self, kernel: Callable[..., Any], other: Any) -> Self:
        return self._in_place(kernel, (other,))

    def _pairwise(self, function: Callable[..., Any], other: Any, default: Any = None) -> Self:
        if default is not None and isinstance(other, Collection):
            return self._with_default(function, other, default)
        store = self._store
        if isinstance(other, Collection) and len(other._store) == len(store):
            theirs = other._store
            try:
                return self._same({key: function(value, theirs[key]) for key, value in store.items()})
            except KeyError:
                _check_same_keys(self, other)
                raise
        operands = self._required(other)
        if type(operands) is list:
            return self._same({key: function(value, operand) for (key, value), operand in zip(store.items(), operands)})  # noqa: B905
        return self._same({key: function(value, operands) for key, value in store.items()})

    def _with_default(self, function: Callable[..., Any], other: Collection, default: Any) -> Self:
        """Two collections whose keys may differ."""
        common = isinstance(default, str)
        if common and default != "intersection":
            raise ValueError(f"default: expected a number, a tensor or 'intersection', got {default!r}")
        if not common and not isinstance(default, Tensor):
            default = torch.as_tensor(default)
        store: Store = {}
        theirs = other._store
        for key, value in self._store.items():
            if key in theirs:
                operand = theirs[key]
                if isinstance(value, Pointwise) and isinstance(operand, Collection):
                    store[key] = value._with_default(function, operand, default)
                else:
                    store[key] = function(value, operand)
            elif isinstance(value, Collection) and not value._is_tree():
                store[key] = value
            elif not common:
                store[key] = function(value, default if isinstance(value, Collection) else _met(default, value))
        if not common:
            for key, operand in theirs.items():
                if key not in self._store:
                    store[key] = _swapped(function, operand, default)
        return self._same(store)

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
        results = _apply(_LERP, [*self._store.values()], (ends, weights))
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
        results = _apply(kernel, [*self._store.values()], args, {"value": 1 if value is None else value})
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

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

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

    def __eq__(self, other: Any) -> Any:
        """Element by element: a collection of booleans. ``False`` for what cannot be compared."""
        return self._pairwise(operator.eq, other) if isinstance(other, COMPARANDS) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        """Element by element: a collection of booleans. ``True`` for what cannot be compared."""
        return self._pairwise(operator.ne, other) if isinstance(other, COMPARANDS) else NotImplemented

    def __lt__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.lt, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __le__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.le, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __gt__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.gt, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    def __ge__(self, other: Collection | Tensor | float) -> Self:
        return self._pairwise(torch.ge, other) if isinstance(other, OPERANDS) else _NO_OPERAND

    __hash__ = None


#: what the operators take as their other side
OPERANDS: tuple[Any, ...] = (int, float, Collection, Tensor, complex, torch.SymInt, torch.SymFloat)
COMPARANDS: tuple[Any, ...] = (*OPERANDS, Mapping)
_NO_OPERAND: Any = NotImplemented  # of a type that checkers take for the result of an operator, in an expression too

_NUMBERS = frozenset((int, float, complex, bool))


_ADD, _ADD_ = _kernel("add"), _kernel("add_")
_SUB, _SUB_ = _kernel("sub"), _kernel("sub_")
_MUL, _MUL_ = _kernel("mul"), _kernel("mul_")
_DIV, _DIV_ = _kernel("div"), _kernel("div_")
_POW, _POW_ = _kernel("pow"), _kernel("pow_")
_LERP, _LERP_ = _kernel("lerp"), _kernel("lerp_")
_ADDCMUL, _ADDCMUL_ = _kernel("addcmul"), _kernel("addcmul_")
_ADDCDIV, _ADDCDIV_ = _kernel("addcdiv"), _kernel("addcdiv_")
_CLAMP_MIN, _CLAMP_MAX = _kernel("clamp_min"), _kernel("clamp_max")
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


def _swapped(function: Callable[..., Any], operand: Any, default: Any) -> Any:
    """``function(default, operand)``, also where the operand is a tree."""
    if isinstance(operand, Collection):
        return operand._with_leaves(iter([_swapped(function, leaf, default) for leaf in operand._leaves()]))
    return function(_met(default, operand), operand)


def _met(default: Any, value: Tensor) -> Tensor:
    return _right(default, value.ndim) if default.ndim else default
