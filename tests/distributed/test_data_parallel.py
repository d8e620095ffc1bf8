"""Data-parallel training with records: ``DistributedDataParallel``, ``DistributedSampler``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as OfTorch
from torch.utils.data import DataLoader, DistributedSampler

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.distributed.data_parallel import DistributedDataParallel
from tensorclass.nn import TensorDictModule, TensorDictSequential
from tests.distributed.processes import Group


class Batch(TensorClass):
    x: Tensor
    y: Tensor


class Found(TensorClass):
    y: Tensor
    note: str = "none"


def whole() -> Batch:
    torch.manual_seed(1)
    return Batch(torch.randn(8, 3), torch.randn(8, 1), batch_size=[8])


class Network(nn.Module):
    """Gives the same values as a record, a TensorDict, or something that holds one."""

    def __init__(self, kind: str, spare: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 1)
        self.spare = nn.Linear(1, 1) if spare else None
        self.kind = kind

    def forward(self, batch: Batch) -> Any:
        found = Found(self.second(torch.tanh(self.first(batch.x))), batch_size=batch.batch_size)
        if self.kind == "record":
            return found
        data = TensorDict({"found": found}, batch.batch_size)
        if self.kind == "collection":
            return data
        return {"stack": [lazy_stack([data, data])]}


def values(output: Any) -> Tensor:
    if isinstance(output, dict):
        output = output["stack"][0][1]
    return output["found"].y if isinstance(output, TensorDict) else output.y  # type: ignore[no-any-return]


def gradients(module: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]


def step(module: nn.Module, batch: Batch) -> Any:
    output = module(batch)
    (values(output) - batch.y).square().mean().backward()
    return output


def alike(found: list[Tensor], wanted: list[Tensor], times: float = 1.0) -> bool:
    return all(torch.allclose(a, b * times, atol=1e-6) for a, b in zip(found, wanted, strict=True))


def gradients_are_those_of_the_whole_batch(rank: int, wrap: Any, kind: str, options: dict[str, bool]) -> None:
    one = Network(kind, False)
    step(one, whole())
    wanted = gradients(one)
    half = whole()[4 * rank : 4 * rank + 4]
    module = wrap(Network(kind, bool(options)), **options)
    for _ in range(2):
        module.zero_grad()
        output = step(module, half)
    assert alike(gradients(module.module)[:4], wanted)
    if kind == "record":
        assert type(output) is Found
        assert output.note == "none"
    assert next(name for name, _ in module.named_parameters()) == "module.first.weight"
    module.zero_grad()
    with module.no_sync():
        step(module, half)
    own = gradients(module.module)[:4]
    assert not alike(own, wanted)
    step(module, half)
    assert alike(gradients(module.module)[:4], wanted, 2.0)


OPTIONS: dict[str, dict[str, bool]] = {
    "plain": {},
    "unused": {"find_unused_parameters": True},
    "static": {"static_graph": True},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", ["record", "collection", "pytree"])
def test_gradients_are_those_of_the_whole_batch(pair: Group, kind: str, options: str) -> None:
    pair.run(gradients_are_those_of_the_whole_batch, DistributedDataParallel, kind, OPTIONS[options])


@pytest.mark.parametrize(
    "kind, options",
    [("record", "plain"), ("record", "unused"), ("record", "static"), ("collection", "plain"), ("pytree", "static")],
)
def test_torch_s_own_takes_records_too(pair: Group, kind: str, options: str) -> None:
    pair.run(gradients_are_those_of_the_whole_batch, OfTorch, kind, OPTIONS[options])


def torch_does_not_find_them(rank: int) -> str:
    module = OfTorch(Network("collection", True), find_unused_parameters=True)
    with pytest.raises(RuntimeError) as caught:
        step(module, whole())
    return str(caught.value)


def test_torch_s_own_does_not_look_into_collections(pair: Group) -> None:
    assert all("Expected to mark a variable ready only once" in text for text in pair.run(torch_does_not_find_them))


def modules_by_key(rank: int, options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    network = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 2), in_keys=["x"], out_keys=["hidden"]),
        TensorDictModule(nn.Linear(2, 1), in_keys=["hidden"], out_keys=["found"]),
    )
    data: Any = whole().to_tensordict()
    network(data.clone())["found"].sum().backward()
    wanted = gradients(network)
    module = DistributedDataParallel(network, **options)
    module.zero_grad()
    for _ in range(2):
        module.zero_grad()
        module(data[4 * rank : 4 * rank + 4])["found"].sum().backward()
    assert alike(gradients(network), wanted, 0.5)  # the mean of two sums


@pytest.mark.parametrize("options", OPTIONS)
def test_modules_that_read_and_write_by_key(pair: Group, options: str) -> None:
    pair.run(modules_by_key, OPTIONS[options])


def rows_of(rank: int, world: int) -> list[list[float]]:
    data = TensorDict({"row": torch.arange(10.0), "name": [f"{at}" for at in range(10)]}, [10])
    data["name"] = [f"{at}" for at in range(10)]
    dataset: Any = data
    sampler: Any = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=True, seed=3)
    loader: Any = DataLoader(dataset, batch_size=2, sampler=sampler, collate_fn=torch.stack)
    seen: list[list[float]] = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        rows: list[float] = []
        for batch in loader:
            assert isinstance(batch, TensorDict)
            assert [float(name) for name in batch["name"]] == batch["row"].tolist()
            rows += batch["row"].tolist()
        seen.append(rows)
    return seen


def test_the_rows_of_a_record_are_shared_out(pair: Group) -> None:
    ours, theirs = pair.run(rows_of, 2)
    for epoch in range(2):
        assert sorted(ours[epoch] + theirs[epoch]) == [float(at) for at in range(10)]
    assert ours[0] != ours[1]


def batches_of(rank: int) -> list[str]:
    sampler: Any = DistributedSampler(range(8), num_replicas=2, rank=rank, shuffle=False)  # type: ignore[arg-type]
    return [type(whole()[indices]).__name__ for indices in (list(sampler),)] + [str(whole()[list(sampler)].batch_size)]


def test_what_the_sampler_gives_is_an_index_of_a_record(pair: Group) -> None:
    assert pair.run(batches_of) == [["Batch", "torch.Size([4])"]] * 2
