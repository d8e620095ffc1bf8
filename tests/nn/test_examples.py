"""The examples of functional programming that users know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, vmap

from tensorclass import TensorDict
from tensorclass.nn import make_functional


def weights_of(model: nn.Sequential) -> TensorDict:
    layers = [TensorDict(layer.state_dict(), []).unflatten_keys(".") for layer in model]
    return TensorDict({"0": layers[0], "1": layers[1]}, [])


def test_parameters_are_zeroed_in_a_block() -> None:
    module = nn.Linear(3, 4)
    params = TensorDict.from_module(module).clone()
    with torch.no_grad():
        params.zero_()
    with params.to_module(module):
        y = module(torch.ones(3))
    assert y.tolist() == [0.0] * 4
    assert module(torch.ones(3)).abs().sum() > 0


def test_an_ensemble_of_two_models_by_vmap() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
    params = TensorDict.from_module(model)
    assert (params == weights_of(model)).all()
    x = torch.randn(10, 3)
    with params.to_module(model):
        out = model(x)
    assert torch.equal(out, model(x))

    def func(x: Tensor, params: Any) -> Tensor:
        with params.to_module(model):
            return model(x)  # type: ignore[no-any-return]

    y = vmap(func, (None, 0))(x, torch.stack([params, params], 0))
    assert y.shape == (2, 10, 4)
    torch.testing.assert_close(y[0], out)


def test_a_functional_module_takes_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
    params = make_functional(model)
    assert (params == weights_of(model)).all()
    x = torch.randn(10, 3)
    assert model(x, params=params).shape == (10, 4)
    y = vmap(model, (None, 0))(x, torch.stack([params, params], 0))
    assert y.shape == (2, 10, 4)


def test_parameters_of_several_modules_are_run_with_an_empty_one() -> None:
    empty = nn.Linear(3, 4, device="meta")
    modules = [nn.Linear(3, 4) for _ in range(2)]

    def exec_module(params: Any, x: Tensor) -> Tensor:
        with params.to_module(empty):
            return empty(x)  # type: ignore[no-any-return]

    x = torch.randn(3)
    params = TensorDict.from_modules(*modules)
    y = vmap(exec_module, (0, None))(params, x)
    assert y.shape == (2, 4)
    y.sum().backward()
    assert params["weight"].grad.norm() > 0
    assert modules[0].weight.grad is None

    lazy = TensorDict.from_modules(*modules, lazy_stack=True)
    y = vmap(exec_module, (0, None))(lazy, x)
    assert y.shape == (2, 4)
    y.sum().backward()
    assert modules[0].weight.grad is not None


def test_parameters_are_saved_loaded_and_put_into_a_model_and_a_slice_of_it(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    TensorDict.from_module(model).memmap(tmp_path / "saved", num_threads=2)
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    params = TensorDict.load_memmap(tmp_path / "saved")
    params.to_module(other)
    x = torch.randn(5, 3)
    assert torch.equal(other(x), model(x))
    part = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    params["0"].to_module(part[0])
    assert torch.equal(part[0](x), model[0](x))
    TensorDict.load_memmap(tmp_path / "saved" / "1").to_module(part[1])
    assert torch.equal(part(x), model(x))
    assert all(parameter.requires_grad for parameter in part.parameters())
