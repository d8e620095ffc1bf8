"""Modules that are called with their parameters."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorDict
from tensorclass.nn import make_functional


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))


X = torch.linspace(-1, 1, 30).view(10, 3)


def test_parameters_are_those_of_the_module_and_of_its_state_dict() -> None:
    module = model()
    params = make_functional(module)
    assert params["0", "weight"] is module[0].weight
    weights = [TensorDict(layer.state_dict(), []).unflatten_keys(separator=".") for layer in module]
    assert (params == TensorDict({"0": weights[0], "1": weights[1]}, [])).all()


@pytest.mark.parametrize("keyword", [True, False])
def test_a_call_takes_parameters_by_keyword_and_as_the_last_argument(keyword: bool) -> None:
    module = model()
    zeros = make_functional(module).data * 0
    own = module(X)
    result = module(X, params=zeros) if keyword else module(X, zeros)
    assert result.abs().sum() == 0
    assert torch.equal(module(X), own)


def test_vmap_goes_over_the_parameters() -> None:
    module = model()
    params = make_functional(module)
    stacked = torch.stack([params, params * 2], 0)
    y = torch.vmap(module, (None, 0))(X, stacked)
    assert y.shape == (2, 10, 4)
    torch.testing.assert_close(y[1], module(X, params=params * 2))


def test_hooks_and_copies_work_as_before() -> None:
    module = model()
    params = make_functional(module)
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin[0].weight.zero_()
    module(X, params=params)
    assert len(calls) == 1
    assert not torch.equal(twin(X), module(X))
    assert make_functional(twin)["0", "weight"] is twin[0].weight


def test_a_collection_that_is_an_input_is_no_parameter() -> None:
    class Total(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, data: Any, more: Any = None) -> Tensor:
            return self.weight * data["x"] + (0 if more is None else more["x"])  # type: ignore[no-any-return]

    module = Total()
    params = make_functional(module).data * 3
    data = TensorDict({"x": torch.ones(())})
    assert module(data) == 1
    assert module(data, data) == 2
    assert module(data, params) == 3
    assert module(data, data, params) == 4
    assert module(TensorDict({"x": 1.0, "weight": 2.0})) == 1


def test_what_is_no_module_is_a_type_error() -> None:
    wrong: Any = torch.sum
    with pytest.raises(TypeError, match=r"make_functional: expected an nn\.Module"):
        make_functional(wrong)
