"""``torch.*`` functions on collections: a table from function to handler."""

from __future__ import annotations

import functools
import inspect
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
from .operations import OPERATIONS

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


def _method(name: str, renamed: Mapping[str, str]) -> Callable[..., Any]:
    """Make a handler that calls the method of the first argument, which must be a collection.

    Args:
        name: of the method.
        renamed: keywords of the function -> arguments of the method.
    """

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


def _either_side(name: str, reflected: str) -> Callable[..., Any]:
    """Make a handler for two operands: with a tensor on the left it calls the reflected method of the other.

    Torch dispatches here before Python tries that method.
    """

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


def _handle(handler: Callable[..., Any], *names: str) -> None:
    """Let all functions of torch of some names, and methods of tensors, call a handler."""
    for name in names:
        for owner in (Tensor,) if name.startswith("__") else (Tensor, torch, torch.special):
            function = getattr(owner, name, None)
            if function is not None:
                HANDLERS[function] = handler


for _row in OPERATIONS:
    if not _row.in_torch:
        continue
    if _row.reflected:
        _handle(_either_side(_row.name, _row.reflected), _row.name, *_row.aliases, _row.operator)
        if _row.has_reflected_operator:
            _handle(_either_side(_row.reflected, _row.operator), _row.reflected)
    else:
        _handle(_method(_row.name, _row.keywords), _row.name, *_row.aliases)
    if _row.in_place:
        _handle(_method(f"{_row.name}_", _row.keywords), f"{_row.name}_")

# -- functions that take other arguments than the method --------------------------------------------------------------


def _softmax(input: Any, dim: Any, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return with_members(input).softmax(dim, dtype)


def _take(input: Any, index: Any) -> Any:
    # torch.take indexes the flattened input
    return with_members(input).reshape(-1)[index]


HANDLERS[torch.nn.functional.softmax], HANDLERS[torch.take] = _softmax, _take


def _extreme(name: str, of_two: Callable[..., Any]) -> Callable[..., Any]:
    """Make a handler for ``torch.max`` or ``torch.min``: along a dimension, or of two operands."""
    along = HANDLERS[getattr(torch, name)]

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
    along = HANDLERS[getattr(torch, name)]

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


_handle(_extreme("max", torch.maximum), "max")
_handle(_extreme("min", torch.minimum), "min")
_handle(_norm, "norm")
_handle(_rsub, "rsub")
_handle(_spread("std"), "std")
_handle(_spread("var"), "var")
_handle(_with_option(torch.div, "rounding_mode"), "div", "divide", "true_divide")
_handle(_with_option(torch.round, "decimals"), "round")


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
