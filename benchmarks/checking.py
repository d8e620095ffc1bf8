"""Are the results of the sides equal? So that no row of the table compares different work."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass.convert.python.pytree_converter import PytreeNode

NON_TENSOR = (
    tensorclass.NonTensorData,
    tensorclass.NonTensorStack,
    tensordict.NonTensorData,
    tensordict.NonTensorStack,
)


@dataclass(frozen=True)
class Tree:
    """A collection of either library, or a plain dict: a hand-written inner dict carries no batch size of its own."""

    size: tuple[int, ...] | None
    values: dict[str, Any]


def normal(result: Any) -> Any:
    """`result` without what tells a library: trees, lists, tensors and plain objects are left."""
    if isinstance(result, Tensor):
        return result
    if isinstance(result, NON_TENSOR):
        return normal(result.tolist())
    if isinstance(result, PytreeNode):  # what a node of a tree was; in the peer the class alone
        return result.kind
    if isinstance(result, np.ndarray):
        if result.dtype.names is None:
            return torch.from_numpy(result)
        return Tree(result.shape, {name: normal(np.ascontiguousarray(result[name])) for name in result.dtype.names})
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], dict):  # a hand-written collection
        values, size = result
        return Tree(tuple(size), {key: normal(value) for key, value in values.items()})
    if isinstance(result, dict):
        return Tree(None, {key: normal(value) for key, value in result.items()})
    if hasattr(result, "batch_size") and hasattr(result, "keys"):
        return Tree(tuple(result.batch_size), {key: normal(result.get(key)) for key in result.keys()})  # noqa: SIM118
    if isinstance(result, (list, tuple)):
        return [normal(item) for item in result]
    return result


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """What differs between two normal results, a line each."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            yield f"{where}: {one.dtype} {tuple(one.shape)} and {other.dtype} {tuple(other.shape)}"
        elif not torch.allclose(one.double(), other.double(), equal_nan=True):
            yield f"{where}: other numbers"
    elif isinstance(one, Tree) and isinstance(other, Tree):
        if one.size is not None and other.size is not None and one.size != other.size:
            yield f"{where}: batch sizes {one.size} and {other.size}"
        if one.values.keys() != other.values.keys():
            yield f"{where}: keys {sorted(one.values)} and {sorted(other.values)}"
        else:
            for key, value in one.values.items():
                yield from differences(value, other.values[key], f"{where}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and not _plain(one) and len(one) == len(other):
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{where}[{i}]")
    elif not _same_objects(one, other):
        yield f"{where}: {one!r} and {other!r}"


def _plain(value: Any) -> bool:
    """Is it an object, or lists of objects, without tensors?"""
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    return not isinstance(value, (Tensor, Tree))


def _same_objects(one: Any, other: Any) -> bool:
    """Equal objects; one object stands for any list of its equals, as non-tensor data stands at every position."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same_objects(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, list):
        return bool(one) and all(_same_objects(item, other) for item in one)
    if isinstance(other, list):
        return _same_objects(other, one)
    return _plain(one) and _plain(other) and bool(one == other)
