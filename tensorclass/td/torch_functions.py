"""``torch.*`` functions on collections: a table from function to handler."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter

from tensorclass.support.printable import class_name, type_name

from . import native, stack_and_cat
from .autograd_functions import AUTOGRAD
from .collection import Collection, call_on_value, has_no_numbers
from .foreach import SINGLE, foreach_over_trees
from .hidden_members import with_members
from .pointwise import NAMES

if TYPE_CHECKING:
    from .collection import Store

#: torch function -> handler that ``TorchFunctions.__torch_function__`` calls with its arguments
HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.stack: stack_and_cat.stack,
    torch.cat: stack_and_cat.cat,
    torch.concat: stack_and_cat.cat,
    torch.concatenate: stack_and_cat.cat,
    torch.where: stack_and_cat.where,
    **AUTOGRAD,
}


#: arguments whose names differ between torch's functions and the methods of collections
KEYWORDS: dict[str, dict[str, str]] = {
    "addcdiv": {"tensor1": "other1", "tensor2": "other2"},
    "addcmul": {"tensor1": "other1", "tensor2": "other2"},
    "broadcast_to": {"size": "shape"},
    "clamp_max": {"max": "other"},
    "clamp_min": {"min": "other"},
    "pow": {"exponent": "other"},
    "swapdims": {"dim0": "axis0", "dim1": "axis1"},
    "tensor_split": {"sections": "indices_or_sections", "indices": "indices_or_sections"},
    "unflatten": {"sizes": "unflattened_size"},
}


def _method(name: str) -> Callable[..., Any]:
    """Make a handler that calls the method of the first argument, which must be a collection."""
    renamed = KEYWORDS.get(name.rstrip("_"), {})

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
            args = args or (kwargs.pop("input"),)
        if not isinstance(args[0], Collection):
            return NotImplemented  # a tensor would dispatch to this function again
        result = getattr(with_members(args[0]), name)(*args[1:], **kwargs)
        return result if out is None else _written(result, out)

    return call


def _written(result: Any, out: Any) -> Any:
    """Write a result into ``out=``: a collection, or a tuple of collections for values and indices."""
    if isinstance(out, Collection):
        return stack_and_cat._write_out(result, out)
    items, targets, got = result, out, type_name(out)
    if not isinstance(result, tuple) or not isinstance(out, (tuple, list)) or len(targets) != len(items):
        raise TypeError(f"out: expected the form of the result, {class_name(items.__class__)}, got a {got}")
    return items.__class__(
        [stack_and_cat._write_out(item, target) for item, target in zip(items, targets, strict=True)]
    )


# Functions that take the same arguments, behind the first, as the method of the same name.
# fmt: off
_METHODS = [
    "all", "any", "amax", "amin", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "chunk", "clamp",
    "clone", "cummax", "cummin", "cumprod", "cumsum", "detach", "flatten", "flip", "fliplr", "flipud",
    "gather", "lerp", "logsumexp", "masked_fill", "masked_select", "max", "mean", "min", "moveaxis",
    "movedim", "nanmean", "nansum", "narrow", "norm", "numel", "permute", "prod", "quantile",
    "repeat_interleave", "reshape", "roll", "rot90", "softmax", "split", "squeeze", "std", "sum", "swapaxes",
    "swapdims", "tensor_split", "tile", "transpose", "unbind", "unflatten", "unsqueeze", "var",
    "is_floating_point",
]
# fmt: on

for _name in (*_METHODS, *NAMES):
    for _owner in (torch, Tensor):
        _function = getattr(_owner, _name, None)
        if _function is not None:
            HANDLERS.setdefault(_function, _method(_name))


def _reshape(input: Any, shape: Any) -> Any:
    return with_members(input).reshape(shape)


def _softmax(input: Any, dim: Any, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return with_members(input).softmax(dim, dtype)


def _take(input: Any, index: Any) -> Any:
    # torch.take indexes the flattened input
    return with_members(input).reshape(-1)[index]


HANDLERS[torch.reshape], HANDLERS[torch.nn.functional.softmax], HANDLERS[torch.take] = _reshape, _softmax, _take


def _extreme(name: str, of_two: Callable[..., Any]) -> Callable[..., Any]:
    """Make a handler for ``torch.max`` or ``torch.min``: along a dimension, or of two operands."""
    along = _method(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        other = kwargs.get("other", args[1] if len(args) > 1 else None)
        return (HANDLERS[of_two] if isinstance(other, (Tensor, Collection)) else along)(*args, **kwargs)

    return call


def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: Any = False, out: Any = None, dtype: Any = None) -> Any:
    return (
        with_members(input).norm(out=out, dtype=dtype)
        if p in ("fro", 2) and dim is None and not keepdim
        else NotImplemented
    )


def _rsub(input: Any, other: Any, *, alpha: complex = 1) -> Any:
    # other - alpha * input
    return (
        with_members(other).sub(input, alpha=alpha)
        if isinstance(input, Tensor)
        else with_members(input).rsub(other, alpha=alpha)
    )


def _spread(name: str) -> Callable[..., Any]:
    """Make a handler for ``torch.std`` or ``torch.var``, which take ``unbiased`` in three positions."""
    along = _method(name)

    def call(input: Any, dim: Any = None, *rest: Any, unbiased: bool | None = None, **kwargs: Any) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if rest:
            unbiased, *rest = rest  # type: ignore[assignment]
        if unbiased is not None:
            kwargs["correction"] = int(unbiased)
        if kwargs.get("correction", 1) is None:
            del kwargs["correction"]
        return along(input, dim, *rest, **kwargs)

    return call


def _with_option(function: Callable[..., Any], option: str) -> Callable[..., Any]:
    """Make a handler for a function with an option that the method lacks: it calls the function on each value."""
    plain = HANDLERS[function]

    def call(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if option not in kwargs:
            return plain(input, *args, out=out, **kwargs)
        single = functools.partial(function, **{option: kwargs.pop(option)})
        args += tuple(kwargs.values())
        if not isinstance(input, Collection):
            return NotImplemented
        if not input._is_tree() and input._wrapped_tensor() is None:
            return input
        given: Any = input
        result: Any = given._pairwise(single, *args) if args else given._each(single)
        return result if out is None else _written(result, out)

    return call


HANDLERS[torch.std], HANDLERS[torch.var] = _spread("std"), _spread("var")
HANDLERS[torch.max], HANDLERS[torch.min] = _extreme("max", torch.maximum), _extreme("min", torch.minimum)
HANDLERS[torch.norm], HANDLERS[torch.rsub] = _norm, _rsub  # pyright: ignore[reportUnknownMemberType]

# A tensor on the left of an operator: torch dispatches here before Python tries the reflected method.
REFLECTED = {
    "add": "__radd__",
    "sub": "__rsub__",
    "mul": "__rmul__",
    "div": "__rtruediv__",
    "true_divide": "__rtruediv__",
    "pow": "__rpow__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "eq": "__eq__",
    "ne": "__ne__",
    "lt": "__gt__",
    "le": "__ge__",
    "gt": "__lt__",
    "ge": "__le__",
    "maximum": "maximum",
    "minimum": "minimum",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}


def _either_side(name: str, reflected: str) -> Callable[..., Any]:
    def call(input: Any, other: Any = None, *, out: Any = None, **kwargs: Any) -> Any:
        other = kwargs.pop("exponent", other)
        if out is not None:
            return _written(call(input, other, **kwargs), out)
        if isinstance(input, Collection):
            return getattr(with_members(input), name)(other, **kwargs)
        alpha = kwargs.pop("alpha", None)
        scaled = other if alpha is None else other * alpha
        return getattr(with_members(scaled), reflected)(input, **kwargs)

    return call


_SYMBOLS = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "pow": "pow", "floor_divide": "floordiv",
            "remainder": "mod", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "eq": "eq", "ne": "ne",
            "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}  # fmt: skip
for _name, _reflected in REFLECTED.items():
    _call = _either_side("div" if _name == "true_divide" else _name, _reflected)
    for _owner, _known in ((torch, _name), (Tensor, _name), (Tensor, f"__{_SYMBOLS.get(_name)}__")):
        _function = getattr(_owner, _known, None)
        if _function is not None:
            HANDLERS[_function] = _call
for _name, _symbol in _SYMBOLS.items():
    _function = getattr(Tensor, f"__r{_symbol}__", None)
    if _function is not None:
        HANDLERS[_function] = _either_side(f"__r{_symbol}__", f"__{_symbol}__")


HANDLERS[torch.div] = _with_option(torch.div, "rounding_mode")
HANDLERS[torch.round] = _with_option(torch.round, "decimals")


def _like(function: Callable[..., Any]) -> Callable[..., Any]:
    native.tell("bind_function", function, function.__name__)

    @native.tries("unary", function)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not input._has_numbers:
            raise unsupported(function, input.__class__)
        store: Any = input._store
        if args or kwargs or type(store) is not dict or not input._is_tree():
            return input._each(function, *args, **kwargs)
        return input._same(
            {
                key: function(value) if value.__class__ is Tensor else call_on_value(function, value)
                for key, value in input._now().items()
            }
        )

    return call


for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"):
    HANDLERS[getattr(torch, _name)] = _like(getattr(torch, _name))


def _foreach(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(first: Any, *rest: Any, **kwargs: Any) -> Any:
        return foreach_over_trees(kernel, list(first), *rest, **kwargs)

    return call


for _kernel in SINGLE:
    HANDLERS[_kernel] = _foreach(_kernel)

# fmt: off
#: torch's aliases of functions
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "clip": "clamp", "divide": "div",
    "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "special.erf": "erf", "special.erfc": "erfc", "special.expit": "sigmoid", "special.expm1": "expm1",
    "special.gammaln": "lgamma", "special.log1p": "log1p", "special.logsumexp": "logsumexp",
    "special.round": "round", "special.softmax": "nn.functional.softmax",
}
# fmt: on
for _name, _known in ALIASES.items():
    HANDLERS[operator.attrgetter(_name)(torch)] = HANDLERS[operator.attrgetter(_known)(torch)]

# -- losses -----------------------------------------------------------------------------------------------------------


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a handler for a loss: it keeps the batch size with ``reduction="none"``, and has none otherwise."""
    names = tuple(inspect.signature(function).parameters)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args)), **kwargs}  # noqa: B905 - the others have defaults
        input, target = given.pop("input"), given.pop("target")
        average, reduce = given.pop("size_average", None), given.pop("reduce", None)
        reduction = given.pop("reduction", "mean")
        if average is not None or reduce is not None:  # torch's deprecated arguments
            reduction = "none" if reduce is False else "sum" if average is False else "mean"
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"reduction: expected 'none', 'mean' or 'sum', got {reduction!r}")
        if not isinstance(input, Collection):
            return NotImplemented
        if has_no_numbers(input):
            raise unsupported(function, type(input))
        if not isinstance(target, (Tensor, Collection)):
            raise TypeError(f"target: expected a collection, or a tensor over the batch, got {target!r}")
        return _losses(function, input, target, reduction, given)

    return call


def _losses(function: Callable[..., Any], input: Any, target: Any, reduction: str, options: dict[str, Any]) -> Any:
    values = input._now()
    targets = input._required(target, values)
    each = {name: _each_value(input, option, values) for name, option in options.items()}
    store: dict[str, Any] = {}
    for position, (key, value) in enumerate(values.items()):
        operand, own = targets[position], {name: values[position] for name, values in each.items()}
        if not isinstance(value, Collection):
            own = {name: _whole(option, value) for name, option in own.items()}
            store[key] = function(value, _whole(operand, value), reduction=reduction, **own)
        elif value._is_tree():
            store[key] = _losses(function, value, operand, reduction, own)
        else:  # non-tensor data is kept
            store[key] = value if reduction == "none" else value._reduce(function, None, False, {})  # type: ignore[attr-defined]
    return input._same(store) if reduction == "none" else input._like(store, torch.Size(()))


def _whole(operand: Any, value: Tensor) -> Any:
    # torch warns of operands that must be broadcast, or refuses them
    return operand.expand(value.shape) if isinstance(operand, Tensor) else operand


def _each_value(input: Any, option: Any, values: Store) -> Any:
    """Return an option for each value: from a tensor over the batch, a collection, or a number for all."""
    return input._required(option, values) if isinstance(option, (Tensor, Collection)) else [option] * len(values)


for _name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"):
    _function = getattr(torch.nn.functional, _name)
    HANDLERS[_function] = _loss(_function)

# -- unsupported functions --------------------------------------------------------------------------------------------


def unsupported(function: Callable[..., Any], cls: type) -> TypeError:
    """Return the error for a function, or for its arguments, that collections do not support."""
    name = str(torch.overrides.resolve_name(function) or getattr(function, "__name__", function))  # pyright: ignore[reportUnknownMemberType]
    short = name.replace("torch.functional.", "torch.")
    if short.startswith("torch.Tensor."):
        return TypeError(
            f"{short} of a tensor does not take a {class_name(cls)} as its argument; call the method of the "
            "collection, or use data.apply(lambda value: ...) to do this with each of its tensors"
        )
    what = f"these arguments of {short} are not supported" if function in HANDLERS else f"{short} is not defined"
    return TypeError(
        f"{what} for a {class_name(cls)}; give it tensors, or, to call it on each of them, use data.apply({short}), "
        f"with further arguments data.apply(lambda value: {short}(value, ...)), and give batch_size= where the leading "
        "dimensions change"
    )


class TorchFunctions(Collection):
    """``torch.f(data)``: calls the handler of a function."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        handler = HANDLERS.get(func)
        if handler is not None:
            result = handler(*args, **kwargs) if kwargs else handler(*args)
            if result is not NotImplemented:
                return result
        if all(issubclass(kind, Collection) or kind is Tensor or kind is Parameter for kind in types):
            raise unsupported(func, cls)
        return NotImplemented  # another type may have an implementation
