"""WrapModule, as_tensordict_module, TensorDictModuleWrapper."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tensorclass import TensorDict
from tensorclass.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictModuleWrapper,
    WrapModule,
    as_tensordict_module,
)


def test_a_wrapped_function_gives_what_it_gives() -> None:
    data = TensorDict(a=1)
    result = WrapModule(lambda source: source + 1, in_keys=["a"], out_keys="a")(data)
    assert (result["a"].item(), data["a"].item()) == (2, 1)
    assert list(WrapModule(nn.Linear(1, 1)).state_dict()) == ["func.weight", "func.bias"]


def test_a_wrapped_function_can_write_into_what_it_gets() -> None:
    data = TensorDict(a=1)
    assert WrapModule(lambda source: TensorDict(b=2), inplace=True)(data) is data
    assert data.to_dict() == {"a": 1, "b": 2}
    with pytest.raises(TypeError, match="must give a collection, gave a Tensor"):
        WrapModule(lambda source: source["a"], inplace=True)(data)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a function or a module"):
        WrapModule(3)  # type: ignore[arg-type]


def test_a_function_on_tensors_becomes_one_on_collections() -> None:
    @as_tensordict_module(in_keys=["a", "b"], out_keys="c")
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Adds."""
        return x + y

    assert add(TensorDict(a=1, b=2))["c"].item() == 3
    assert add(torch.tensor(1), b=torch.tensor(2)).item() == 3
    assert add.__doc__ == "Adds."


def test_a_method_on_tensors_becomes_one_on_collections() -> None:
    class Scaling:
        factor = 3

        @as_tensordict_module(in_keys="a", out_keys="b")
        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return self.factor * x

    assert Scaling().scale(TensorDict(a=1))["b"].item() == 3


def test_a_module_becomes_a_module_on_collections() -> None:
    module: Any = as_tensordict_module(in_keys="a", out_keys="b")(nn.Linear(1, 1))
    assert isinstance(module, TensorDictModule)


def around() -> tuple[TensorDictModule, TensorDictModuleWrapper]:
    inner = TensorDictModule(lambda x: (x, x * 2), ["a"], ["b", "c"])
    return inner, TensorDictModuleWrapper(inner)


def test_a_wrapper_has_the_keys_and_attributes_of_the_module_inside() -> None:
    module = TensorDictModuleWrapper(TensorDictModule(nn.Linear(3, 4), "a", "b"))
    assert (module.in_keys, module.out_keys, module.in_features) == (["a"], ["b"], 3)
    assert list(module.state_dict()) == ["td_module.module.weight", "td_module.module.bias"]
    assert module(torch.ones(3)).shape == (4,)
    assert module(TensorDict(a=torch.ones(3)))["b"].shape == (4,)
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing


def test_a_wrapper_selects_for_itself() -> None:
    inner, outer = around()
    assert outer.select_out_keys("c") is outer
    assert (inner.out_keys, outer.out_keys, outer.out_keys_source) == (["b", "c"], ["c"], ["b", "c"])
    assert outer(TensorDict(a=1)).to_dict() == {"a": 1, "c": 2}
    assert outer(torch.tensor(1)).item() == 2
    assert inner(TensorDict(a=1)).to_dict() == {"a": 1, "b": 1, "c": 2}
    assert outer.reset_out_keys()(TensorDict(a=1)).to_dict() == {"a": 1, "b": 1, "c": 2}


def test_setting_the_keys_of_a_wrapper_sets_those_inside() -> None:
    inner, outer = around()
    outer.out_keys = ["y", "z"]
    assert inner.out_keys == ["y", "z"]
    assert outer(TensorDict(a=1)).to_dict() == {"a": 1, "y": 1, "z": 2}


def test_a_wrapper_needs_a_module_with_keys() -> None:
    linear: Any = nn.Linear(1, 1)
    with pytest.raises(AttributeError, match="with in_keys and out_keys, got Linear"):
        TensorDictModuleWrapper(linear)
    assert not TensorDictModuleBase.is_tdmodule_compatible(linear)


def test_a_function_that_is_not_written_in_python_becomes_one_on_collections() -> None:
    assert as_tensordict_module(in_keys="a", out_keys="b")(torch.neg)(TensorDict(a=1.0))["b"] == -1


def test_the_keys_of_a_wrapped_function_can_stand_in_a_tuple() -> None:
    assert WrapModule(lambda data: data, in_keys=("a", "b")).in_keys == ["a", "b"]
