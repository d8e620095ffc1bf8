"""Parameters as collections: of the class that reads them, and back in their module."""

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorDict, from_modules
from tensorclass.nn import (
    CompositeDistribution,
    EnsembleModule,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictParams,
    TensorDictSequential,
    make_functional,
    set_interaction_type,
)


class Layer(TensorClass):
    weight: Tensor
    bias: Tensor


class Held(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.params = TensorDictParams(TensorDict(weight=torch.ones(3)))

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.params["weight"]
        return weight * x


def read() -> None:
    model = nn.Linear(3, 4)
    assert_type(TensorDict.from_module(model), TensorDict)
    assert_type(TensorDict.from_module(model, lock=True), TensorDict)
    assert_type(Layer.from_module(model), Layer)
    assert_type(Layer.from_module(model).weight, Tensor)
    assert_type(TensorDict.from_modules(model, model), TensorDict)
    assert_type(Layer.from_modules(model, model), Layer)
    assert_type(from_modules(model, model), TensorDict)
    assert_type(make_functional(nn.Linear(3, 4)), TensorDict)


def swapped() -> None:
    model = nn.Linear(3, 4)
    params = TensorDict.from_module(model)
    assert_type(params.to_module(model), TensorDict)
    layer = Layer.from_module(model)
    with layer.to_module(model) as old:
        assert_type(old, Layer)


def held() -> None:
    params = TensorDictParams(TensorDict(weight=torch.ones(3)))
    assert_type(params.clone(), TensorDictParams)
    assert_type(params.lock_(), TensorDictParams)
    assert_type(params.requires_grad_(False), TensorDictParams)
    assert_type([*params.parameters()], list[Parameter])
    assert_type(params.to_tensordict(), TensorDict)
    assert_type([name for name, _ in params.named_parameters()], list[str])
    torch.optim.SGD(params.parameters(), lr=0.1)
    nn.ModuleList([params])
    Held()(torch.ones(3))


def probabilistic() -> None:
    data = TensorDict(loc=torch.zeros(3), scale=torch.ones(3))
    draw = ProbabilisticTensorDictModule(["loc", "scale"], "x", distribution_class=torch.distributions.Normal)
    assert_type(draw(data), TensorDict)
    assert_type(draw.get_dist(data), torch.distributions.Distribution)
    policy = ProbabilisticTensorDictSequential(TensorDictModule(torch.neg, "loc", "loc"), draw)
    assert_type(policy(data), TensorDict)
    assert_type(policy.det_part, TensorDictSequential)
    with set_interaction_type("mode"):
        assert_type(policy(data, tensordict_out=TensorDict()), TensorDict)
    both = CompositeDistribution(TensorDict({"x": data.select("loc", "scale")}), {"x": torch.distributions.Normal})
    assert_type(both.sample(), TensorDict)


def ensembles() -> None:
    ensemble = EnsembleModule(TensorDictModule(nn.Linear(3, 2), "a", "b"), 3)
    assert_type(ensemble(TensorDict(a=torch.ones(2, 3))), TensorDict)
    assert_type(ensemble.params_td, TensorDictParams)
    assert_type(ensemble.num_copies, int)
    assert_type(ensemble.select_out_keys("b"), EnsembleModule)
