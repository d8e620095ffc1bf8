"""Consolidated collections: native code cuts buffers up and puts trees together as the Python code does."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorData, TensorClass, TensorDict, Text
from tensorclass.td import buffer_operations
from tensorclass.td.memory.buffer_layout import BufferLayout, layout_of
from tensorclass.td.memory.consolidated_buffer import spans_of
from tests.native_code import in_both_modes


class Row(TensorClass):
    x: Tensor
    y: Tensor


def tree(data: Any) -> Any:
    """All of a collection but the identity of its tensors."""
    if isinstance(data, Tensor):
        shown = None if data.is_meta else data.tolist()
        return shown, data.shape, data.stride(), data.dtype, data.device, data.requires_grad, data._base is None
    held = {key: tree(value) for key, value in data._store.items()}
    marked = getattr(data, "_buffer", None) is not None
    return (
        type(data),
        held,
        data.batch_size,
        data._device,
        data._names,
        None if data._lock is None else len(data._lock),
        marked,
    )


COLLECTIONS: dict[str, Any] = {
    "floats": lambda: TensorDict({"a": torch.arange(6.0).view(3, 2), "b": torch.zeros(3)}, [3]),
    "record": lambda: Row(x=torch.ones(2, 3), y=torch.zeros(2, dtype=torch.uint8), batch_size=[2]),
    "several dtypes": lambda: TensorDict({
        "a": torch.tensor([True, False, True]),
        "b": torch.arange(3, dtype=torch.int16),
        "c": torch.zeros(3, 0),
        "d": torch.ones(3, dtype=torch.complex128),
        "e": torch.tensor(7.0).expand(3),
    }, [3]),
    "nested": lambda: TensorDict({"n": {"a": torch.ones(2), "m": {"b": torch.arange(2)}}, "c": torch.ones(2, 2)}, [2]),
    "names": lambda: TensorDict({"a": torch.ones(2, 3), "n": {"b": torch.ones(2, 3)}}, [2, 3], names=["t", None]),
    "gradients": lambda: TensorDict({"a": torch.ones(2, requires_grad=True), "b": torch.ones(2)}, [2]),
    "device": lambda: TensorDict({"a": torch.ones(2), "n": TensorDict({"b": torch.ones(2)}, [2])}, [2], device="cpu"),
    "views": lambda: TensorDict({"a": torch.arange(12.0).view(3, 4).t(), "b": torch.arange(8)[::2]}, [4]),
    "text and objects": lambda: TensorDict(
        {"t": Text(["a", "é"]), "o": NonTensorData("x", batch_size=[2]), "a": torch.ones(2)}, [2]
    ).select("a", "t"),
    "one": lambda: TensorDict({"a": torch.ones(2)}, [2]),
    "empty": lambda: TensorDict({}, [2]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_collection_is_consolidated_the_same(name: str) -> None:
    compiled, python = in_both_modes(lambda: tree(COLLECTIONS[name]().consolidate()))
    assert compiled == python
    assert isinstance(compiled[1], dict), compiled


@pytest.mark.parametrize("name", COLLECTIONS)
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_collection_is_moved_the_same(name: str, device: str, whole: bool) -> None:
    def moved() -> Any:
        data = COLLECTIONS[name]()
        data = data.consolidate() if whole else data
        there = data.to(device)
        shared = [there._store[key] is value for key, value in data._store.items() if isinstance(value, Tensor)]
        return tree(there), shared

    compiled, python = in_both_modes(moved)
    assert compiled == python
    assert isinstance(compiled[0][1], dict), compiled


def test_the_tensors_of_a_buffer_can_be_written_and_shared() -> None:
    def written() -> Any:
        data = COLLECTIONS["several dtypes"]().consolidate()
        data["b"].add_(1)
        storages = {leaf.untyped_storage().data_ptr() for leaf in data._arrays() if leaf.numel()}
        return data["b"].tolist(), data["a"].tolist(), len(storages), buffer_operations.buffer_of(data) is not None

    compiled, python = in_both_modes(written)
    assert compiled == python
    assert compiled == ([1, 2, 3], [True, False, True], 1, True)


def test_layouts_of_the_same_tensors_are_made_once() -> None:
    tensors = [torch.ones(3, 5), torch.arange(2)]
    assert layout_of(tensors) is layout_of([torch.zeros(3, 5), torch.arange(2, 4)])
    spans, size = spans_of(tensors)
    fresh = BufferLayout(spans, size)
    assert (layout_of(tensors).spans, layout_of(tensors).size) == (fresh.spans, fresh.size)
    assert layout_of([torch.ones(3, 5).double(), torch.arange(2)]) is not layout_of(tensors)
    for size in range(200):  # a program with many shapes keeps few of them
        layout_of([torch.empty(size)])
    assert layout_of(tensors).spans == fresh.spans
