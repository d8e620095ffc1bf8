"""Swaps with use_state_dict: hooks of modules and their extra state, in the order of ``load_state_dict``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tensorclass import TensorDict
from tensorclass.nn import TensorDictParams


class Counted(nn.Module):
    """Has a parameter, and a count that state dicts carry as extra state."""

    def __init__(self, count: Any = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.count = count

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        if state["count"] < 0:
            raise ValueError("negative")
        self.count = state["count"]


class Noting(nn.Module):
    """Notes which of its hooks are called, with what."""

    def __init__(self, calls: list[Any], name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.bias = nn.Parameter(torch.ones(2))
        self.register_load_state_dict_pre_hook(lambda _, state, prefix, *rest: calls.append((name, sorted(state))))
        self.register_load_state_dict_post_hook(lambda _, keys: calls.append((name, list(keys.missing_keys))))


def model(calls: list[Any]) -> nn.Module:
    root = Noting(calls, "root")
    root.first, root.second = Noting(calls, "first"), Noting(calls, "second")
    return root


def test_hooks_are_called_as_load_state_dict_calls_them() -> None:
    calls: list[Any] = []
    model(calls).load_state_dict({"weight": torch.zeros(2), "first.weight": torch.zeros(2)}, strict=False)
    expected = [(name, sorted(found)) for name, found in calls]
    calls.clear()
    TensorDict(weight=torch.zeros(2), first={"weight": torch.zeros(2)}).to_module(model(calls), use_state_dict=True)
    before, after = calls[:3], calls[3:]
    assert [name for name, _ in before] == ["root", "first", "second"]
    assert [found for _, found in before] == [["first.weight", "weight"], ["first.weight"], []]
    assert [name for name, _ in after] == [
        name for name, found in expected if "bias" in found or "second.bias" in found
    ]
    assert all(sorted(found) == expected[-1][1] for _, found in after)


@pytest.mark.parametrize("inplace", [False, True])
def test_extra_state_goes_in_and_comes_back(inplace: bool) -> None:
    params = TensorDict.from_module(nn.Sequential(Counted(5)), use_state_dict=True)
    assert params["0", "_extra_state"] == {"count": 5}
    module = nn.Sequential(Counted(1))
    with params.to_module(module, use_state_dict=True, inplace=inplace) as old:
        assert module[0].count == 5
        assert old["0", "_extra_state"] == {"count": 1}
    assert module[0].count == 1
    params.to_module(module, use_state_dict=True, inplace=inplace)
    assert module[0].count == 5


def test_extra_state_can_be_a_nested_collection_or_a_tensor() -> None:
    module = Counted()
    TensorDict(weight=torch.zeros(2), _extra_state={"count": torch.tensor(3)}).to_module(module, use_state_dict=True)
    assert module.count == 3


def test_extra_state_that_is_refused_leaves_the_module_as_it_was() -> None:
    module = nn.Sequential(Counted(1), Counted(2))
    before = module[0].weight
    params = TensorDict.from_module(nn.Sequential(Counted(7), Counted(-1)), use_state_dict=True)
    for inplace in (False, True):
        with pytest.raises(ValueError, match="negative"):
            params.zero_().to_module(module, use_state_dict=True, inplace=inplace)
        assert (module[0].count, module[1].count) == (1, 2)
        assert module[0].weight is before
        assert before.tolist() == [1, 1]


def test_extra_state_stands_beside_parameters_of_a_module() -> None:
    held = TensorDict.from_module(Counted(5), as_module=True, use_state_dict=True)
    assert isinstance(held, TensorDictParams)
    assert held["_extra_state"] == {"count": 5}


def test_what_a_hook_renames_is_in_what_was_there() -> None:
    module = nn.Linear(2, 2)

    def rename(_: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        state["w"] = state.pop("weight")

    module.register_state_dict_post_hook(rename)
    weight = module.weight
    old = TensorDict(weight=torch.zeros(2, 2), bias=torch.zeros(2)).to_module(module, use_state_dict=True)
    assert sorted(old.keys()) == ["bias", "w"]
    assert old["w"] is weight


def test_what_was_there_is_copied_before_numbers_are_written() -> None:
    module = nn.Linear(2, 2)
    numbers = module.weight.detach().clone()
    old = TensorDict(weight=torch.zeros(2, 2)).to_module(module, use_state_dict=True, inplace=True)
    assert torch.equal(old["weight"], numbers)
    assert module.weight.abs().sum() == 0


def test_a_hook_that_fails_leaves_the_module_as_it_was() -> None:
    module = nn.Linear(2, 2)
    weight = module.weight

    def fail(_: nn.Module, keys: Any) -> None:
        raise ZeroDivisionError

    module.register_load_state_dict_post_hook(fail)
    with pytest.raises(ZeroDivisionError):
        TensorDict(weight=torch.zeros(2, 2)).to_module(module, use_state_dict=True)
    assert module.weight is weight


def test_errors_that_hooks_report_are_raised() -> None:
    module = nn.Linear(2, 2)
    module.register_load_state_dict_pre_hook(lambda *given: given[-1].append("too old"))
    with pytest.raises(RuntimeError, match="nothing was put into the Linear; too old"):
        TensorDict(weight=torch.zeros(2, 2)).to_module(module, use_state_dict=True)
