"""The two libraries, and what of a result is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensordict
import torch
from torch import Tensor

import tensorclass
from tests.checks import objects, shares_memory

OURS, PEER = tensorclass, tensordict


def is_collection(value: object) -> bool:
    return isinstance(value, (tensorclass.TensorCollection, tensordict.TensorDictBase)) or is_object(value)


def is_object(value: object) -> bool:
    return tensorclass.is_non_tensor(value) or tensordict.is_non_tensor(value)


def described(result: Any) -> Any:
    """A result as plain data: equal for the two libraries when they agree."""
    if isinstance(result, Exception):
        # the class that users catch: either library has classes of its own below it
        return next(cls for cls in type(result).__mro__ if cls.__module__ == "builtins")
    if isinstance(result, Tensor):
        return "tensor", result.dtype, tuple(result.shape), [_digits(value) for value in result.flatten().tolist()]
    if is_object(result):
        return "objects", tuple(result.batch_size), objects(result)
    if is_collection(result):
        values = {key: described(result.get(key)) for key in result.keys()}  # noqa: SIM118
        return "collection", tuple(result.batch_size), list(result.names), result.device, values
    if isinstance(result, torch.Size):
        return tuple(result)
    if isinstance(result, dict):
        return {key: described(value) for key, value in result.items()}
    if isinstance(result, (tuple, list)):
        return [described(value) for value in result]
    return result


def _digits(value: Any) -> Any:
    """A number as far as it does not depend on the order of a sum; nan is equal to itself here."""
    if isinstance(value, complex):
        return f"{value + 0:.5g}"
    return f"{value + 0.0:.5g}" if isinstance(value, float) else value


def shared(result: Any, source: Any) -> Any:
    """For each tensor of the result, whether it lies in the memory of a tensor of the source."""
    if isinstance(result, Tensor):
        return not result.numel() or any(shares_memory(result, leaf) for leaf in source.values(True, True))
    if isinstance(result, (tuple, list)):
        return [shared(part, source) for part in result]
    if is_collection(result) and not is_object(result):
        return {key: shared(value, source) for key, value in result.items(True, True)}
    return None


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return error
