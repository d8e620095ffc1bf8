"""The same operation in native code and in Python: equal results, and equal data afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tensorclass.td.collection import Collection
from tests.native_code import native_code


def _content(value: Tensor) -> Any:
    if value.is_meta or value.layout is not torch.strided:
        return None
    return value.tolist() if value.numel() < 1000 else value.detach().numpy().tobytes()


def _history(value: Tensor) -> tuple[Any, ...]:
    try:
        return type(value.grad_fn).__name__, value.is_leaf
    except RuntimeError as error:  # torch refuses to say
        return (str(error),)


def state(value: Any) -> Any:
    """Everything that tells two values apart, in a form that == compares."""
    if isinstance(value, Collection):
        kept = value._batch_size, value._device, value._names, value._lock is None, hasattr(value, "_buffer")
        entries = [(key, state(below)) for key, below in value._store.items()]
        if value._is_tree():  # tensors inside of a leaf are nobody's business
            entries += [(key, below._is_view()) for key, below in value._store.items() if type(below) is Tensor]
        return type(value), type(value._batch_size), kept, entries
    if isinstance(value, Tensor):
        history = *_history(value), value.requires_grad
        return type(value), value.dtype, value.device, value.shape, value.stride(), history, _content(value)
    if isinstance(value, dict):
        return [(key, state(below)) for key, below in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [state(item) for item in value]
    return type(value), value


def outcome(operation: Callable[..., Any], data: Any) -> Any:
    """The state of the result, or the error, and the state of the operands afterwards."""
    try:
        result = state(operation(*data))
    except Exception as error:
        result = type(error), str(error)
    return result, state(list(data))


def assert_same(make: Callable[[], tuple[Any, ...]], operation: Callable[..., Any], what: Any = "") -> None:
    """An operation on operands that `make` makes twice alike has the same outcome in native code and in Python.

    `what` is shown if it has not.
    """
    native_outcome = outcome(operation, make())
    with native_code(False):
        python_outcome = outcome(operation, make())
    assert native_outcome == python_outcome, what
