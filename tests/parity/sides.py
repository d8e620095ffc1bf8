"""The two libraries, and what of a result is compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, NamedTuple

import numpy as np
import tensordict
import torch
from torch import Tensor

import tensorclass
from tests.checks import objects

OURS, PEER = tensorclass, tensordict

_COLLECTIONS = (tensorclass.TensorCollection, tensordict.TensorDictBase)


def is_collection(value: object) -> bool:
    return isinstance(value, _COLLECTIONS) or is_object(value) or tensordict.is_tensor_collection(value)


def is_object(value: object) -> bool:
    return tensorclass.is_non_tensor(value) or tensordict.is_non_tensor(value)


def is_record(value: object) -> bool:
    return (tensordict.is_tensorclass(value) or tensorclass.is_tensorclass(value)) and not is_object(value)


def is_lazy(value: object) -> bool:
    return hasattr(value, "stack_dim") and not is_object(value)


class Values:
    """A tensor as it was: equal to one with the same dtype, shape and values, up to the order of a sum."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach().clone()
        self.requires_grad = tensor.requires_grad

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Values):
            return False
        a, b = self.tensor, other.tensor
        if (a.dtype, a.shape, a.device, self.requires_grad) != (b.dtype, b.shape, b.device, other.requires_grad):
            return False
        if a.is_meta:
            return True
        if a.dtype is torch.complex32:  # which has no comparison
            a, b = a.to(torch.complex64), b.to(torch.complex64)
        if torch.equal(a, b):
            return True
        close = a.is_floating_point() or a.is_complex()
        return close and torch.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"{self.tensor.dtype} {list(self.tensor.shape)} {self.tensor.tolist() if not self.tensor.is_meta else ''}"
        )


class Objects(NamedTuple):
    """Non-tensor data as it was: an object for each position."""

    size: tuple[int, ...]
    objects: list[Any]


class Raised:
    """An error: equal to one that the same ``except`` clause catches; either library has classes of its own."""

    def __init__(self, *classes: type) -> None:
        self.classes = {cls for cls in classes if cls.__module__ == "builtins"} - {Exception, BaseException, object}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and bool(self.classes & other.classes)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return " and ".join(sorted(cls.__name__ for cls in self.classes))


class Collected(NamedTuple):
    """A collection as it was."""

    size: tuple[int, ...]
    names: list[str | None] | Raised
    device: torch.device | None
    locked: bool
    values: dict[str, Any]
    record: str = ""  # the name of its class, if that has fields


def described(result: Any) -> Any:
    """A result as plain data: equal for the two libraries when they agree."""
    if isinstance(result, Exception):
        return Raised(*type(result).__mro__)
    if isinstance(result, Tensor):
        return Values(result)
    if isinstance(result, tensorclass.Text):  # tables give it where the peer has an object for each row
        return Objects(tuple(result.batch_size), result.reshape(-1).tolist())
    if is_object(result):
        return Objects(tuple(result.batch_size), described(objects(result)))
    if is_collection(result):
        # what a node of a tree was, each library says in its own way
        values = {key: _read(result, key) for key in result.keys() if key != "_pytree_type"}  # noqa: SIM118
        names = described(outcome(lambda: list(result.names)))  # the parts of a lazy stack can have others
        record = type(result).__name__ if is_record(result) else ""
        return Collected(tuple(result.batch_size), names, result.device, result.is_locked, values, record)
    if isinstance(result, torch.Size):
        return tuple(result)
    if isinstance(result, np.ndarray):
        return "array", result.dtype, result.shape, repr(result.tolist())  # of which some hold arrays
    if isinstance(result, dict):
        return {key: described(value) for key, value in result.items()}
    if isinstance(result, (tuple, list, GeneratorType)):
        return [described(value) for value in result]
    return result


def _read(data: Any, key: str) -> Any:
    """What stands under a key, or why it cannot be read; of a record the field."""
    if not is_record(data):
        return _entry(outcome(lambda: data.get(key)))
    value = outcome(lambda: getattr(data, key))
    if isinstance(value, (Exception, Tensor)) or is_collection(value):
        return _entry(value)
    size = tuple(data.batch_size)  # an object for all rows, or lists of one for each
    return Objects(size, _flat(value, size) if isinstance(value, list) else [value] * math.prod(size))


def _flat(value: Any, size: tuple[int, ...]) -> list[Any]:
    """The objects in lists of these lengths."""
    if not size:
        return [value]
    return [part for below in value for part in _flat(below, size[1:])] if len(value) == size[0] else [value]


def _entry(value: Any) -> Any:
    described_value = outcome(lambda: described(value))  # objects of the peer can have keys, and no object
    if isinstance(value, Exception) or isinstance(described_value, Exception):
        return "cannot be read"  # such as values of a lazy stack that differ
    # get() gives some objects as they are
    return described_value if isinstance(described_value, (Values, Objects, Collected)) else Objects((), [value])


def memory(source: Any) -> dict[int, Tensor]:
    """The pieces of memory that the tensors of a collection lie in; the tensors keep them from being used again."""
    leaves = outcome(lambda: list(source.values(True, True)))
    if isinstance(leaves, Exception):  # values of a lazy stack that differ
        return {}
    return {leaf.untyped_storage().data_ptr(): leaf for leaf in leaves if isinstance(leaf, Tensor)}


class Anything:
    """Equal to what the other side has."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def shared(result: Any, pieces: dict[int, Tensor]) -> Any:
    """For each tensor of the result, whether it lies in one of the pieces of memory."""
    if isinstance(result, Tensor):
        return not result.numel() or result.untyped_storage().data_ptr() in pieces
    if isinstance(result, (tuple, list)):
        return [shared(part, pieces) for part in result]
    if is_collection(result) and not is_object(result):
        if is_lazy(result):  # reading it stacks its values
            return Anything()
        return {key: shared(outcome(lambda key=key: result.get(key)), pieces) for key in result.keys()}  # noqa: SIM118
    return None


@dataclass(frozen=True)
class Seen:
    """What an operation did: its result or error, and the collection that it was done on, afterwards."""

    result: Any
    itself: bool
    shared: Any
    source: Any
    source_shared: Any


def apart(ours: Any, peers: Any, where: str = "") -> str:
    """Where two descriptions differ first, for messages."""
    if isinstance(ours, Seen) and isinstance(peers, Seen):
        for name in ("result", "shared", "source", "source_shared", "itself"):
            if getattr(ours, name) != getattr(peers, name):
                return apart(getattr(ours, name), getattr(peers, name), name)
    if isinstance(ours, dict) and isinstance(peers, dict) and ours.keys() == peers.keys():
        key = next(key for key in ours if ours[key] != peers[key])
        return apart(ours[key], peers[key], f"{where}[{key!r}]")
    if isinstance(ours, Collected) and isinstance(peers, Collected):
        name = next(name for name in Collected._fields if getattr(ours, name) != getattr(peers, name))
        return apart(getattr(ours, name), getattr(peers, name), f"{where}.{name}")
    if isinstance(ours, (list, tuple)) and type(ours) is type(peers) and len(ours) == len(peers) and where:
        at = next(i for i, (a, b) in enumerate(zip(ours, peers, strict=True)) if a != b)
        return apart(ours[at], peers[at], f"{where}[{at}]")
    return f"{where}: here {ours!r}, there {peers!r}"


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return error
