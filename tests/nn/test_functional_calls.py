"""``torch.func`` over parameters that are put into modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import TensorDictParams


class Layer(TensorClass):
    weight: Tensor
    bias: Tensor


class Net(TensorClass):
    first: Layer
    second: Layer


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())  # type: ignore[no-any-return]


def call(params: Any, module: nn.Module, x: Tensor) -> Tensor:
    with params.to_module(module):
        return module(x)  # type: ignore[no-any-return]


def by_name(params: Any) -> dict[str, Tensor]:
    return {key: value.detach() for key, value in params.flatten_keys(".").items()}


READ: list[Any] = [
    pytest.param(lambda module: TensorDict.from_module(module).data.clone(), id="TensorDict"),
    pytest.param(lambda module: Net.from_module(module).data.clone(), id="record"),
    pytest.param(lambda module: TensorDictParams(TensorDict.from_module(module).clone()), id="TensorDictParams"),
]

Read = Callable[[nn.Module], Any]


@pytest.fixture
def module() -> TwoLayers:
    torch.manual_seed(0)
    return TwoLayers()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("read", READ)
def test_a_call_gives_what_functional_call_gives(read: Read, module: nn.Module, x: Tensor) -> None:
    params = read(module).data * 2
    assert torch.equal(call(params, module, x), functional_call(module, by_name(params), x))


@pytest.mark.parametrize("read", READ)
def test_gradients_are_those_of_functional_call(read: Read, module: nn.Module, x: Tensor) -> None:
    params = read(module)
    ours = grad(lambda params: call(params, module, x).square().sum())(params)
    theirs = grad(lambda params: functional_call(module, params, x).square().sum())(by_name(params))
    for key, value in by_name(ours).items():
        torch.testing.assert_close(value, theirs[key])
    assert all(value.grad is None for value in module.parameters())


@pytest.mark.parametrize("read", READ)
def test_gradients_of_each_sample_are_those_of_a_loop(read: Read, module: nn.Module, x: Tensor) -> None:
    params = read(module)
    one = grad(lambda params, sample: call(params, module, sample).square().sum())
    each = vmap(one, (None, 0))(params, x)
    assert each.batch_size == (5,)
    for i, row in enumerate(x):
        for a, b in zip(by_name(each[i]).values(), by_name(one(params, row)).values(), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("over", ["parameters", "data", "both"])
def test_vmap_goes_over_parameters_over_data_and_over_both(read: Read, over: str, module: nn.Module) -> None:
    params = read(module)
    several = torch.stack([params.data, params.data * 2, params.data * 3])
    data = torch.randn(3, 5, 3)
    dims: Any = {"parameters": (0, None, None), "data": (None, None, 0), "both": (0, None, 0)}[over]
    given = params if over == "data" else several
    result = vmap(call, dims)(given, module, data[0] if over == "parameters" else data)
    for i in range(3):
        own = params if over == "data" else several[i]
        torch.testing.assert_close(result[i], call(own, module, data[0] if over == "parameters" else data[i]))


def test_vmap_over_a_later_dimension_and_in_two_levels(module: nn.Module, x: Tensor) -> None:
    params = TensorDict.from_module(module).data
    grid = torch.stack([torch.stack([params * (i + j) for i in range(2)]) for j in range(3)])
    result = vmap(vmap(call, (0, None, None)), (1, None, None))(grid, module, x)
    assert result.shape == (2, 3, 5, 2)
    torch.testing.assert_close(result[1, 2], call(grid[2, 1], module, x))


def test_an_ensemble_gives_what_stack_module_state_gives(x: Tensor) -> None:
    modules = [TwoLayers() for _ in range(4)]
    params = TensorDict.from_modules(*modules)
    empty = TwoLayers().to("meta")
    ours = vmap(call, (0, None, None))(params, empty, x)
    theirs = vmap(lambda p, b: functional_call(empty, (p, b), x))(*stack_module_state(modules))  # type: ignore[arg-type]
    torch.testing.assert_close(ours, theirs)
    assert not torch.equal(ours[0], ours[1])


def test_an_ensemble_of_records_is_trained(x: Tensor) -> None:
    params = TensorDictParams(Net.from_modules(*(TwoLayers() for _ in range(3)), lock=False))
    empty = TwoLayers().to("meta")
    optimizer = torch.optim.Adam(params.parameters(), lr=0.05)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = vmap(call, (0, None, None))(params, empty, x).square().mean((1, 2))
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
    assert (losses[-1] < losses[0]).all()
    assert params.first.weight.shape == (3, 4, 3)


def test_jacobians_and_hessians_are_those_of_functional_call(module: nn.Module, x: Tensor) -> None:
    params = TensorDict.from_module(module).data.clone()
    names = by_name(params)
    ours = jacrev(lambda params: call(params, module, x[0]))(params)
    theirs = jacrev(lambda params: functional_call(module, params, x[0]))(names)
    torch.testing.assert_close(ours["first", "weight"], theirs["first.weight"])
    bias = params["second"].select("bias")

    def loss(bias: Any) -> Tensor:
        with bias.to_module(module.second):  # type: ignore[arg-type]
            return module(x[0]).square().sum()  # type: ignore[no-any-return]

    second = hessian(loss)(bias)
    torch.testing.assert_close(second["bias"]["bias"], 2 * torch.eye(2))


def test_forward_mode_derivatives_are_those_of_functional_call(module: nn.Module, x: Tensor) -> None:
    params = TensorDict.from_module(module).data.clone()
    tangent = params.clone().apply(torch.ones_like)
    _, ours = jvp(lambda params: call(params, module, x), (params,), (tangent,))
    _, theirs = jvp(lambda p: functional_call(module, p, x), (by_name(params),), (by_name(tangent),))
    torch.testing.assert_close(ours, theirs)


def test_an_error_inside_of_vmap_brings_the_parameters_back(module: nn.Module) -> None:
    own = dict(module.named_parameters())
    params = torch.stack([TensorDict.from_module(module).data] * 2)
    with pytest.raises(RuntimeError):
        vmap(call, (0, None, None))(params, module, torch.ones(7))
    assert all(value is own[name] for name, value in module.named_parameters())


def test_buffers_that_change_inside_of_vmap_are_in_the_parameters_of_the_call() -> None:
    modules = [nn.BatchNorm1d(3) for _ in range(2)]
    params = TensorDict.from_modules(*modules)
    empty = nn.BatchNorm1d(3, device="meta")

    def step(params: Any, x: Tensor) -> Any:
        params = params.clone()
        with params.to_module(empty):
            y = empty(x)
        return y, params

    _, after = vmap(step, (0, None))(params, torch.randn(8, 3))
    assert after["num_batches_tracked"].tolist() == [1, 1]
    assert params["num_batches_tracked"].tolist() == [0, 0]


def test_dropout_draws_for_each_model(module: nn.Module) -> None:
    drop = nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5))
    params = torch.stack([TensorDict.from_module(drop).data] * 2)
    result = vmap(call, (0, None, None), randomness="different")(params, drop, torch.ones(3))
    assert not torch.equal(result[0], result[1])
