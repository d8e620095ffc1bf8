"""Sharded parameters: FSDP2 and DTensor leaves, on two processes with gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import TensorClassModuleBase, TensorDictModule, TensorDictParams, TensorDictSequential
from tests.distributed.processes import group_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch is built without gloo"),
]

X = torch.linspace(-1, 1, 24).view(8, 3)


class Holder(nn.Module):
    """Uses parameters that are a collection."""

    def __init__(self, params: TensorDictParams) -> None:
        super().__init__()
        self.params = params

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.params["first"].t()) @ self.params["nested", "second"].t()  # type: ignore[no-any-return]


def values() -> TensorDict:
    torch.manual_seed(0)
    return TensorDict({"first": torch.randn(4, 3), "nested": {"second": torch.randn(2, 4)}})


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def whole(value: Any) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value  # type: ignore[no-any-return]


def sharded_collection_is_trained_as_a_whole_one(mesh: Any) -> None:
    plain, sharded = Holder(TensorDictParams(values())), Holder(TensorDictParams(values()))
    fully_shard(sharded, mesh=mesh)
    assert all(isinstance(parameter, DTensor) for parameter in sharded.parameters())
    assert isinstance(sharded.params["nested", "second"], DTensor)
    assert [name for name, _ in sharded.named_parameters()] == ["params.first", "params.nested.second"]
    for module in (plain, sharded):
        optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            module(X).square().mean().backward()
            optimizer.step()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(whole(sharded.get_parameter(name)), parameter)
    state = {name: whole(value) for name, value in sharded.state_dict().items()}
    torch.testing.assert_close(state, dict(plain.state_dict()))


def parameters_of_a_sharded_module_are_swapped(mesh: Any) -> None:
    module = network()
    fully_shard(module, mesh=mesh)
    params = TensorDict.from_module(module)
    assert isinstance(params["0", "weight"], DTensor)
    doubled = params.data * 2
    own = module[0].weight
    with doubled.to_module(module) as old:
        assert isinstance(module[0].weight, nn.Parameter)
        torch.testing.assert_close(whole(module[0].weight), whole(params["0", "weight"]) * 2)
        assert old["0", "weight"] is own
    assert module[0].weight is own
    torch.testing.assert_close(module(X), network()(X))


def dtensors_are_leaves(mesh: Any) -> None:
    plain = network()
    params = TensorDict.from_module(plain).data
    shards = params.apply(lambda leaf: distribute_tensor(leaf, mesh, [Shard(0)]))
    assert isinstance(shards["0", "weight"], DTensor)
    held = TensorDictParams(shards)
    assert all(isinstance(parameter, DTensor) for parameter in held.parameters())
    module = network()
    x = distribute_tensor(X, mesh)
    with held.to_module(module):
        y = module(x)
        y.full_tensor().square().sum().backward()
    torch.testing.assert_close(y.full_tensor(), plain(X))
    plain(X).square().sum().backward()
    torch.testing.assert_close(whole(held["0", "weight"].grad), plain[0].weight.grad)
    copy = held.clone()
    assert isinstance(copy["2", "bias"], DTensor)
    torch.testing.assert_close(whole((held * 2)["0", "bias"]), params["0", "bias"] * 2)


class Sample(TensorClass):
    x: Tensor
    hidden: Tensor | None = None
    y: Tensor | None = None


def sequence() -> TensorDictSequential:
    torch.manual_seed(0)
    return TensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), "x", "hidden"), TensorDictModule(nn.Linear(4, 2), "hidden", "y")
    )


def a_sharded_sequence_is_trained_on_collections_records_and_tensors(mesh: Any) -> None:
    sample = Sample(x=X, batch_size=[len(X)])
    data = TensorDict(x=X, batch_size=[len(X)])
    for given, with_parts in ((data, True), (data, False), (sample, True)):
        plain, sharded = sequence(), sequence()
        if with_parts:
            fully_shard(sharded[0], mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        for module in (plain, sharded):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                result: Any = module(given.clone())
                assert type(result) is type(given)
                result["y"].square().mean().backward()
                optimizer.step()
        for name, parameter in plain.named_parameters():
            torch.testing.assert_close(whole(sharded.get_parameter(name)), parameter)
        torch.testing.assert_close(sharded(X)[1], plain(X)[1])


class Nested(TensorClass):
    inner: TensorDict


class Network(TensorClassModuleBase[Sample, Nested]):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Sample, /) -> Nested:
        return Nested(inner=TensorDict(y=self.linear(x.x)), batch_size=x.batch_size)


def a_sharded_module_from_record_to_record_is_trained(mesh: Any) -> None:
    plain, sharded = Network(), Network()
    fully_shard(sharded, mesh=mesh)
    for module in (plain, sharded):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        result = module(Sample(x=X, batch_size=[len(X)]))
        result.inner["y"].square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(whole(sharded.linear.weight), plain.linear.weight)


CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (
        sharded_collection_is_trained_as_a_whole_one,
        parameters_of_a_sharded_module_are_swapped,
        dtensors_are_leaves,
        a_sharded_sequence_is_trained_on_collections_records_and_tensors,
        a_sharded_module_from_record_to_record_is_trained,
    )
}


def run(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    for check in CHECKS.values():
        check(mesh)


def test_sharded_parameters_on_two_processes() -> None:
    with group_of(2, 60.0) as group:
        group.run(run, seconds=120.0)
