"""Parameters that are put into modules, under ``torch.compile(fullgraph=True)``, export and checkpointing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import TensorDictParams

# dynamo looks at the gradients of all that comes in, also of tensors that are computed
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


class Layer(TensorClass):
    weight: Tensor
    bias: Tensor


class Hyper(nn.Module):
    """A module that keeps the parameters of another one."""

    def __init__(self, params: TensorDictParams, network: nn.Module) -> None:
        super().__init__()
        self.params = params
        self.__dict__["network"] = network

    def forward(self, x: Tensor) -> Tensor:
        with self.params.to_module(self.network):
            return self.network(x)  # type: ignore[no-any-return, operator]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def compiled(function: Any, backend: str = "eager") -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend)


X = torch.linspace(-1, 1, 15).view(5, 3)


@pytest.mark.parametrize("kind", ["TensorDict", "parameters", "TensorDictParams"])
def test_a_call_with_swapped_parameters_is_one_graph(kind: str) -> None:
    module = network()
    params: Any = TensorDict.from_module(module)
    params = params.data * 2 if kind == "TensorDict" else params.clone()
    if kind == "TensorDictParams":
        params = TensorDictParams(params)

    def call(params: Any, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x)  # type: ignore[no-any-return]

    own = module[0].weight
    torch.testing.assert_close(compiled(call)(params, X), call(params, X))
    assert module[0].weight is own


def test_records_of_parameters_are_swapped_in_one_graph() -> None:
    module = nn.Linear(3, 4)

    def call(params: Layer, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x)  # type: ignore[no-any-return]

    params = Layer.from_module(module).data * 2
    torch.testing.assert_close(compiled(call)(params, X), call(params, X))


def test_a_swap_for_good_is_one_graph() -> None:
    module, own = network(), network()
    params = TensorDict.from_module(module) * 2

    def call(x: Tensor) -> Tensor:
        old = params.to_module(own)
        y = own(x)
        old.to_module(own, return_swap=False)
        return y  # type: ignore[no-any-return]

    weight = own[0].weight
    torch.testing.assert_close(compiled(call)(X), call(X))
    assert own[0].weight is weight


def test_parameters_read_in_a_graph_are_those_of_the_module() -> None:
    module = network()

    def call(x: Tensor) -> Tensor:
        with (TensorDict.from_module(module) * 2).to_module(module):
            return module(x)  # type: ignore[no-any-return]

    torch.testing.assert_close(compiled(call)(X), call(X))


def test_vmap_over_parameters_is_one_graph() -> None:
    module = network()
    params = torch.stack([TensorDict.from_module(module).data * n for n in (1, 2)])

    def call(params: Any, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x)  # type: ignore[no-any-return]

    def ensemble(params: Any, x: Tensor) -> Tensor:
        return torch.vmap(call, (0, None))(params, x)

    torch.testing.assert_close(compiled(ensemble)(params, X), ensemble(params, X))


def test_gradients_of_swapped_parameters_are_one_graph() -> None:
    module = network()
    params = TensorDict.from_module(module).data.clone()

    def loss(params: Any, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x).square().sum()  # type: ignore[no-any-return]

    def gradients(params: Any, x: Tensor) -> Any:
        return torch.func.grad(loss)(params, x)

    ours, expected = compiled(gradients)(params, X), gradients(params, X)
    for key in expected.keys(True, True):
        torch.testing.assert_close(ours[key], expected[key])


def test_a_module_that_keeps_parameters_is_trained_compiled() -> None:
    losses = []
    for compile in (False, True):
        module = network()
        hyper = Hyper(TensorDictParams(TensorDict.from_module(module).clone()), module)
        optimizer = torch.optim.Adam(hyper.parameters(), lr=0.1)

        def loss(x: Tensor, hyper: Hyper = hyper) -> Tensor:
            return hyper(x).square().mean()  # type: ignore[no-any-return]

        run = compiled(loss, "aot_eager") if compile else loss
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            value = run(X)
            value.backward()
            optimizer.step()
            found.append(value.item())
        losses.append(found)
    assert losses[0] == pytest.approx(losses[1])
    assert losses[0][-1] < losses[0][0]


def test_a_whole_training_step_is_compiled() -> None:
    values = []
    for compile in (False, True):
        module = network()
        hyper = Hyper(TensorDictParams(TensorDict.from_module(module).clone()), module)
        optimizer = torch.optim.SGD(hyper.parameters(), lr=0.1)

        def step(x: Tensor, hyper: Hyper = hyper, optimizer: Any = optimizer) -> Tensor:
            loss = hyper(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()  # type: ignore[no-any-return]

        torch._dynamo.reset()
        run = torch.compile(step, backend="aot_eager") if compile else step
        values.append([run(X).item() for _ in range(3)])
    assert values[0] == pytest.approx(values[1])


@pytest.mark.slow
def test_a_compiled_call_has_the_numbers_of_the_eager_one_with_inductor() -> None:
    module = network()
    params = TensorDict.from_module(module).data * 2

    def call(params: Any, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x)  # type: ignore[no-any-return]

    torch.testing.assert_close(compiled(call, "inductor")(params, X), call(params, X))


def test_a_module_that_keeps_parameters_is_exported_with_any_batch() -> None:
    module = network()
    hyper = Hyper(TensorDictParams(TensorDict.from_module(module).clone()), module)
    program = torch.export.export(hyper, (X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.testing.assert_close(program.module()(torch.cat([X, X])), hyper(torch.cat([X, X])))
    assert "params.0.weight" in program.state_dict


def test_checkpointing_runs_the_swap_again() -> None:
    module = network()
    hyper = Hyper(TensorDictParams(TensorDict.from_module(module).clone()), module)
    hyper(X).sum().backward()
    expected = [parameter.grad for parameter in hyper.parameters()]
    hyper.zero_grad()
    checkpoint(hyper, X, use_reentrant=False).sum().backward()  # type: ignore[union-attr, operator]
    for parameter, value in zip(hyper.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, value)


def test_autocast_casts_swapped_parameters() -> None:
    module = network()
    hyper = Hyper(TensorDictParams(TensorDict.from_module(module).clone()), module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = hyper(X)
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert all(parameter.grad is not None for parameter in hyper.parameters())
