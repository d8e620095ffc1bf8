"""Run a point-wise operation of collections on one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Size, Tensor

from tensorclass.td.tensordict import TensorDict

_ONLY = "<tensor>"  # a key that no user writes
#: operations whose tensor is a mask, no operand
_OF_A_MASK = ("masked_fill", "masked_fill_")


def alone(tensor: Tensor) -> TensorDict:
    """Return a collection without batch dimensions that holds only the tensor."""
    new = object.__new__(TensorDict)
    new._begin({_ONLY: tensor}, Size(()), None, None)
    return new


def number_result(operation: Callable[..., Any], tensor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the tensor that an operation of :class:`Pointwise` gives for a tensor.

    Args:
        operation: the function of the method.
        tensor: the tensor; for another value, its method of that name is called.
        args: numbers and tensors.
        kwargs: likewise.
    """
    if not isinstance(tensor, Tensor):
        return getattr(tensor, operation.__name__)(*args, **kwargs)
    only = alone(tensor)
    if operation.__name__ in _OF_A_MASK:
        return operation(only, *args, **kwargs)._store[_ONLY]
    args = tuple([alone(arg) if isinstance(arg, Tensor) and arg.ndim else arg for arg in args])
    kwargs = {key: alone(arg) if isinstance(arg, Tensor) and arg.ndim else arg for key, arg in kwargs.items()}
    result = operation(only, *args, **kwargs)
    return result._store[_ONLY] if isinstance(result, TensorDict) else result
