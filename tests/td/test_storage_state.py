"""Moving collections to shared memory."""

from __future__ import annotations

import torch

from tensorclass import TensorDict
from tests.samples import nested


def test_sharing_memory_moves_the_tensors_in_place_and_locks_the_keys() -> None:
    data = nested()
    tensors = list(data.values(True, True))
    assert not data.is_shared()
    assert data.share_memory_() is data
    assert data.is_shared()
    assert data.is_locked
    assert all(a is b for a, b in zip(data.values(True, True), tensors, strict=True))
    assert data["b"].is_shared()


def test_a_collection_is_shared_when_all_its_tensors_are() -> None:
    data = nested()
    data["a"].share_memory_()
    assert not data.is_shared()
    assert not TensorDict().is_shared()


def _add_one(data: TensorDict) -> None:
    data.add_(1)


def test_another_process_writes_into_shared_memory() -> None:
    data = TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(3)}}, [3]).share_memory_()
    process = torch.multiprocessing.get_context("fork").Process(target=_add_one, args=(data,))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert data["b", "c"].tolist() == [1, 1, 1]
