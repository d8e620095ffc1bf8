"""``torch.*`` functions on collections: one table from function to what answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import combining
from .collection import Collection
from .pointwise import NAMES, SINGLE, foreach_over_trees

#: torch function -> what ``TensorCollection.__torch_function__`` calls with its arguments
HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.stack: combining.stack,
    torch.cat: combining.cat,
    torch.concat: combining.cat,
    torch.concatenate: combining.cat,
    torch.where: combining.where,
}


#: arguments that torch's functions and the methods of collections call differently
_KEYWORDS: dict[str, dict[str, str]] = {
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
    """The method of the first argument, which must be a collection."""
    renamed = _KEYWORDS.get(name.rstrip("_"), {})

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
            args = args or (kwargs.pop("input"),)
        # a tensor would come back here
        return getattr(args[0], name)(*args[1:], **kwargs) if isinstance(args[0], Collection) else NotImplemented

    return call


# Functions whose arguments behind the first are those of the method of the same name.
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
    return input.reshape(shape)


def _softmax(input: Any, dim: Any, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return input.softmax(dim, dtype)


def _take(input: Any, index: Any) -> Any:
    # torch counts the items in one row
    return input.reshape(-1)[index]


HANDLERS[torch.reshape], HANDLERS[torch.nn.functional.softmax], HANDLERS[torch.take] = _reshape, _softmax, _take


def _extreme(name: str, of_two: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.max``: along a dimension, or of two operands."""
    along = _method(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        other = kwargs.get("other", args[1] if len(args) > 1 else None)
        return (HANDLERS[of_two] if isinstance(other, (Tensor, Collection)) else along)(*args, **kwargs)

    return call


def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: Any = False, out: Any = None, dtype: Any = None) -> Any:
    return input.norm(out=out, dtype=dtype) if p in ("fro", 2) and dim is None and not keepdim else NotImplemented


def _rsub(input: Any, other: Any, *, alpha: complex = 1) -> Any:
    # other - alpha * input
    return other.sub(input, alpha=alpha) if isinstance(input, Tensor) else input.rsub(other, alpha=alpha)


HANDLERS[torch.max], HANDLERS[torch.min] = _extreme("max", torch.maximum), _extreme("min", torch.minimum)
HANDLERS[torch.norm], HANDLERS[torch.rsub] = _norm, _rsub  # pyright: ignore[reportUnknownMemberType]

# A tensor on the left of an operator: torch asks here before Python would try the reflected method.
_REFLECTED = {
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
    def call(input: Any, other: Any = None, **kwargs: Any) -> Any:
        other = kwargs.pop("exponent", other)
        if isinstance(input, Collection):
            return getattr(input, name)(other, **kwargs)
        alpha = kwargs.pop("alpha", None)
        return getattr(other if alpha is None else other * alpha, reflected)(input, **kwargs)

    return call


_SYMBOLS = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "pow": "pow", "floor_divide": "floordiv",
            "remainder": "mod", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "eq": "eq", "ne": "ne",
            "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}  # fmt: skip
for _name, _reflected in _REFLECTED.items():
    _call = _either_side("div" if _name == "true_divide" else _name, _reflected)
    for _owner, _known in ((torch, _name), (Tensor, _name), (Tensor, f"__{_SYMBOLS.get(_name)}__")):
        _function = getattr(_owner, _known, None)
        if _function is not None:
            HANDLERS[_function] = _call
for _name, _symbol in _SYMBOLS.items():
    _function = getattr(Tensor, f"__r{_symbol}__", None)
    if _function is not None:
        HANDLERS[_function] = _either_side(f"__r{_symbol}__", f"__{_symbol}__")


def _like(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or not input._is_tree():
            return input._each(function, *args, **kwargs)
        return input._same({key: function(value) for key, value in input._store.items()})

    return call


for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"):
    HANDLERS[getattr(torch, _name)] = _like(getattr(torch, _name))


def _foreach(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(first: Any, *rest: Any, **kwargs: Any) -> Any:
        return foreach_over_trees(kernel, list(first), *rest, **kwargs)

    return call


for _kernel in SINGLE:
    HANDLERS[_kernel] = _foreach(_kernel)
