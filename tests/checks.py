"""What tests ask of a collection, in terms of the positions of its batch.

Where an operation moves items and computes nothing, a tensor that numbers the positions of the batch,
``positions(batch_size)``, says all of it: torch does the operation on this tensor, and the collection must hold, at
each position of the result, the item of the source that the number there names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tensorclass import NonTensorData, NonTensorStack, TensorCollection, is_non_tensor


def positions(batch_size: Sequence[int]) -> Tensor:
    """The positions of a batch, numbered in order."""
    return torch.arange(math.prod(batch_size)).reshape(tuple(batch_size))


def objects(value: NonTensorData | NonTensorStack) -> list[Any]:
    """The objects of non-tensor data, one for each position of its batch, in order."""

    def flat(item: Any, depth: int) -> list[Any]:
        return [obj for below in item for obj in flat(below, depth - 1)] if depth else [item]

    return flat(value.tolist(), value.ndim)


def assert_consistent(collection: TensorCollection) -> None:
    """Every value has the batch size in front, nested collections the names, and all the device."""
    size = collection.batch_size
    assert isinstance(size, torch.Size)
    assert len(collection.names) == len(size)
    for key, value in collection.items():
        assert value.shape[: len(size)] == size, key
        if collection.device is not None:
            assert value.device == collection.device, key
        if isinstance(value, TensorCollection):
            assert_consistent(value)
            if any(collection.names):
                assert value.names[: len(size)] == collection.names, key


def assert_taken(result: TensorCollection, source: TensorCollection, where: Tensor) -> None:
    """The result holds, at each position, the item that the source holds at the position numbered there."""
    assert result.batch_size == where.shape
    assert_consistent(result)
    _assert_taken(result, source, where, source.ndim)


def _assert_taken(result: TensorCollection, source: TensorCollection, where: Tensor, ndim: int) -> None:
    assert type(result) is type(source)
    assert list(result.keys()) == list(source.keys())
    assert result.device == source.device
    count = math.prod(source.batch_size[:ndim])
    for key, value in source.items():
        got = result.get(key)
        rest = value.shape[ndim:]
        assert got.shape == where.shape + rest, key
        if isinstance(value, Tensor):
            assert got.dtype == value.dtype, key
            assert torch.equal(got, value.reshape((count, *rest))[where]), key
        elif is_non_tensor(value):
            assert is_non_tensor(got), key
            own, each = objects(value), math.prod(rest)
            assert objects(got) == [own[i * each + j] for i in where.flatten().tolist() for j in range(each)], key
        else:
            _assert_taken(got, value, where, ndim)


def assert_equal(result: TensorCollection, expected: TensorCollection) -> None:
    """The same keys in the same order, values, dtypes, batch sizes and names, at every level."""
    assert result.names == expected.names
    assert_taken(result, expected, positions(expected.batch_size))


def shares_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors lie in one piece of memory."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def leaf_pairs(result: TensorCollection, source: TensorCollection) -> list[tuple[Tensor, Tensor]]:
    """The tensors of two collections with the same keys, side by side."""
    keys = list(source.keys(True, True))
    return [(result.get(key), source.get(key)) for key in keys]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return error
