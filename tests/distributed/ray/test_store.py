"""Records through Ray's object store, and as arguments and results of its tasks."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorData, TensorClass, TensorDict, lazy_stack
from tests.checks import assert_equal
from tests.samples import mixed, nested

pytestmark = [pytest.mark.xdist_group("ray")]


class Sample(TensorClass):
    x: Tensor
    y: Tensor
    text: str = ""


def sample(rows: int = 1000) -> Sample:
    return Sample(torch.arange(rows * 4.0).view(rows, 4), torch.arange(rows), text="t", batch_size=[rows])


def place(tensor: Tensor) -> str:
    """The line of the memory map where a tensor is."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(bound, 16) for bound in line.split()[0].split("-"))
        if low <= tensor.data_ptr() < high:
            return line
    raise AssertionError("nowhere")


@pytest.mark.parametrize(
    "data",
    [
        sample(),
        sample(3),
        mixed(),
        nested(device="cpu", names=["row"]),
        TensorDict({"x": torch.ones(3), "o": NonTensorData({"any": [1]})}, [3]).lock_(),
        lazy_stack([sample(2), sample(2)]),
    ],
    ids=["large", "small", "mixed", "nested", "locked", "lazy"],
)
def test_a_record_comes_back_from_the_object_store(cluster: Any, data: Any) -> None:
    back = cluster.get(cluster.put(data))
    assert type(back) is type(data)
    assert back.is_locked == data.is_locked
    assert_equal(back, data)


def test_tensors_in_the_object_store_are_not_copied(cluster: Any) -> None:
    data = sample(2**20)
    reference = cluster.put(data)
    back = cluster.get(reference)
    assert "plasma" in place(back.x)
    assert "plasma" in place(back.y)
    assert torch.equal(back.x, data.x)


def test_what_is_written_to_a_record_out_of_the_store_nobody_else_sees(cluster: Any) -> None:
    reference = cluster.put(sample(2**20))
    first = cluster.get(reference)
    first.x.zero_()
    first.y[:10] = -1
    second = cluster.get(reference)
    assert torch.equal(second.x, sample(2**20).x)
    assert torch.equal(second.y, torch.arange(2**20))
    assert first.x.sum() == 0


def test_a_record_outlives_its_reference(cluster: Any) -> None:
    back = cluster.get(cluster.put(sample(2**20)))
    gc.collect()
    others = [cluster.put(torch.zeros(2**22)) for _ in range(3)]
    assert torch.equal(back.y, torch.arange(2**20))
    del others


def test_tasks_take_and_give_records(cluster: Any) -> None:
    @cluster.remote
    def double(given: Sample, factor: int) -> tuple[str, Sample]:
        where = "plasma" in place(given.x)
        given.x.zero_()  # its own
        return f"{type(given).__name__} {where}", given.replace(y=given.y * factor)

    reference = cluster.put(sample(2**19))
    for _ in range(2):
        about, result = cluster.get(double.remote(reference, 2))
        assert about == "Sample True"
        assert type(result) is Sample
        assert torch.equal(result.y, torch.arange(2**19) * 2)
    assert torch.equal(cluster.get(reference).x, sample(2**19).x)


def test_a_class_of_a_function_goes_to_tasks(cluster: Any) -> None:
    class Local(TensorClass):
        x: Tensor

        def total(self) -> float:
            return float(self.x.sum())

    @cluster.remote
    def add(given: Local) -> tuple[float, Local]:
        return given.total(), Local(given.x + 1, batch_size=given.batch_size)

    total, result = cluster.get(add.remote(Local(torch.ones(3), batch_size=[3])))
    assert total == 3.0
    assert type(result) is Local
    assert result.total() == 6.0
