"""Collections of parameters put in the place of a module's own, for good and for a block."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict, UnbatchedTensor
from tensorclass.nn import TensorDictParams
from tensorclass.td.module_parameters import ModuleMismatch


class Counting(nn.Module):
    """Computes a buffer anew in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return x * self.weight


class Tied(nn.Module):
    """A submodule in two places, and a parameter in two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = self.first
        self.third = nn.Linear(3, 3)
        self.third.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


class Weights(TensorClass):
    weight: Tensor
    bias: Tensor


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False)))


def state(module: nn.Module) -> dict[str, Tensor]:
    """The tensors of a module, by identity and in their order."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def assert_same_tensors(module: nn.Module, before: dict[str, Tensor]) -> None:
    now = state(module)
    assert list(now) == list(before)
    assert all(now[name] is before[name] for name in before)


# -- as a call --------------------------------------------------------------------------------------------------------


def test_values_take_the_place_of_parameters_and_what_was_there_is_given() -> None:
    module = nn.Linear(3, 4)
    own = module.weight
    params = TensorDict.from_module(nn.Linear(3, 4))
    old = params.to_module(module)
    assert module.weight is params["weight"]
    assert module.bias is params["bias"]
    assert isinstance(old, TensorDict)
    assert old["weight"] is own


def test_what_is_given_brings_the_module_back() -> None:
    module = net()
    before = state(module)
    TensorDict.from_module(net()).to_module(module).to_module(module)
    assert_same_tensors(module, before)


def test_without_return_swap_nothing_is_given() -> None:
    module = nn.Linear(3, 4)
    params = TensorDict.from_module(nn.Linear(3, 4))
    assert params.to_module(module, return_swap=False) is None
    assert module.weight is params["weight"]


def test_a_plain_tensor_becomes_a_parameter_that_shares_its_memory() -> None:
    module = nn.Linear(3, 4)
    params = TensorDict.from_module(module).data.clone().zero_()
    params.to_module(module)
    assert isinstance(module.weight, nn.Parameter)
    assert module.weight.requires_grad
    params["weight"].fill_(3)
    assert module.weight.sum() == 36


def test_a_plain_tensor_is_frozen_where_the_parameter_was() -> None:
    module = nn.Linear(3, 4).requires_grad_(False)
    TensorDict.from_module(module).data.clone().to_module(module)
    assert isinstance(module.weight, nn.Parameter)
    assert not module.weight.requires_grad


def test_without_preserving_the_module_has_the_tensor_itself() -> None:
    module = nn.Linear(3, 4)
    params = TensorDict.from_module(module).data.clone()
    params.to_module(module, preserve_module_state=False)
    assert module.weight is params["weight"]


def test_a_frozen_parameter_stays_itself() -> None:
    module = nn.Linear(3, 4)
    params = TensorDict.from_module(nn.Linear(3, 4).requires_grad_(False))
    params.to_module(module)
    assert module.weight is params["weight"]
    assert not module.weight.requires_grad


def test_gradients_flow_to_what_the_values_were_computed_from() -> None:
    module = nn.Linear(3, 1, bias=False)
    source = torch.ones(1, 3, requires_grad=True)
    with TensorDict({"weight": source * 2}).to_module(module):
        module(torch.ones(3)).sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [[2.0] * 3]
    assert module.weight.grad is None


def test_some_of_the_parameters_are_enough() -> None:
    module = net()
    before = state(module)
    with TensorDict({"0": {"weight": torch.zeros(4, 3)}}).to_module(module):
        assert module[0].weight.abs().sum() == 0
        assert module[0].bias is before["0.bias"]
    assert_same_tensors(module, before)


def test_a_slice_of_a_model_takes_a_slice_of_the_parameters() -> None:
    module = net()
    params = TensorDict.from_module(net())
    params["2"].to_module(module[2])
    assert module[2][1].weight is params["2", "1", "weight"]
    assert module[0].weight is not params["0", "weight"]


def test_a_bias_that_is_none_can_come_and_goes_again() -> None:
    module = nn.Linear(3, 2, bias=False)
    with TensorDict({"bias": torch.ones(2)}).to_module(module) as old:
        assert module(torch.zeros(3)).tolist() == [1.0, 1.0]
        assert old.is_empty()
    assert module.bias is None


def test_swap_dest_gets_what_was_there() -> None:
    module = nn.Linear(3, 4)
    own, dest = module.weight, TensorDict()
    assert TensorDict.from_module(nn.Linear(3, 4)).to_module(module, swap_dest=dest) is dest
    assert dest["weight"] is own


def test_swap_dest_that_takes_nothing_leaves_the_module_as_it_was() -> None:
    module = nn.Linear(3, 4)
    before = state(module)
    with pytest.raises(RuntimeError, match="locked"):
        TensorDict.from_module(nn.Linear(3, 4)).to_module(module, swap_dest=TensorDict().lock_())
    assert_same_tensors(module, before)


def test_an_unbatched_tensor_is_a_parameter_by_its_tensor() -> None:
    module = nn.Linear(3, 2, bias=False)
    params = TensorDict({"weight": UnbatchedTensor(torch.zeros(2, 3))})
    with params.to_module(module):
        assert module(torch.ones(3)).tolist() == [0.0, 0.0]


# -- for a block ------------------------------------------------------------------------------------------------------


def test_a_block_ends_with_the_module_as_it_was() -> None:
    module = net()
    before = state(module)
    params = TensorDict.from_module(module).data.clone().zero_()
    with params.to_module(module) as old:
        assert old["0", "weight"] is before["0.weight"]
        assert module[0].weight.abs().sum() == 0
        assert list(module.state_dict()) == list(net().state_dict())
    assert_same_tensors(module, before)


def test_an_exception_in_the_block_brings_the_parameters_back() -> None:
    module = net()
    before = state(module)
    with pytest.raises(ValueError, match="inside"), TensorDict.from_module(net()).to_module(module):
        raise ValueError("inside")
    assert_same_tensors(module, before)


def test_blocks_nest() -> None:
    module = nn.Linear(1, 1, bias=False)
    own = module.weight
    one, two = (TensorDict({"weight": torch.full((1, 1), float(n))}) for n in (1, 2))
    with one.to_module(module):
        with two.to_module(module):
            assert module.weight.item() == 2
        assert module.weight.item() == 1
        with pytest.raises(RuntimeError), two.to_module(module):
            raise RuntimeError
        assert module.weight.item() == 1
    assert module.weight is own


def test_a_buffer_that_a_call_replaces_is_in_the_collection_afterwards() -> None:
    module = Counting()
    own = module.count
    params = TensorDict.from_module(module).data.clone()
    for n in (1, 2):
        with params.to_module(module):
            module(torch.ones(()))
        assert params["count"] == n
    assert module.count is own
    assert own == 0


def test_a_lock_does_not_keep_a_replaced_buffer_out() -> None:
    module = Counting()
    params = TensorDict.from_module(module).clone().lock_()
    with params.to_module(module):
        module(torch.ones(()))
    assert params["count"] == 1
    assert params.is_locked


def test_an_exception_keeps_replaced_buffers_out_of_the_collection() -> None:
    module = Counting()
    params = TensorDict.from_module(module).clone()

    def interrupted() -> None:
        with params.to_module(module):
            module(torch.ones(()))
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        interrupted()
    assert params["count"] == 0
    assert module.count == 0


def test_what_is_written_into_a_buffer_in_place_is_written_into_the_collection() -> None:
    module = nn.BatchNorm1d(2)
    params = TensorDict.from_module(module).data.clone()
    with params.to_module(module):
        module(torch.rand(8, 2))
    assert params["num_batches_tracked"] == 1
    assert module.num_batches_tracked == 0


def test_optimizers_in_the_block_change_the_collection() -> None:
    module = nn.Linear(1, 1, bias=False)
    params = TensorDict({"weight": torch.ones(1, 1)})
    with params.to_module(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        module(torch.ones(1)).sum().backward()
        optimizer.step()
    assert params["weight"].item() == 0


def test_neither_the_module_nor_the_parameters_are_kept_after_the_block() -> None:
    module, params = nn.Linear(1, 1), TensorDict.from_module(nn.Linear(1, 1))
    refs = [weakref.ref(module), weakref.ref(params["weight"])]
    gc.disable()
    try:
        with params.to_module(module):
            pass
        del module, params
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


# -- tied parameters --------------------------------------------------------------------------------------------------


def test_a_module_in_two_places_is_swapped_once_and_comes_back() -> None:
    module = Tied()
    before = state(module)
    params = TensorDict.from_module(module).data.clone().zero_()
    with params.to_module(module):
        assert module.first is module.second
        assert module(torch.ones(3)).tolist() == [0.0, 0.0, 0.0]
    assert_same_tensors(module, before)
    assert module.third.weight is module.first.weight


def test_of_two_trees_for_one_module_the_first_holds() -> None:
    module = Tied()
    params = TensorDict({"first": {"bias": torch.zeros(3)}, "second": {"bias": torch.ones(3)}})
    with params.to_module(module) as old:
        assert module.second.bias.tolist() == [0.0] * 3
        assert old["first"] is old["second"]


def test_a_tree_for_the_second_place_alone_is_enough() -> None:
    module = Tied()
    with TensorDict({"second": {"bias": torch.ones(3)}}).to_module(module):
        assert module.first.bias.tolist() == [1.0] * 3


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_modules_run_on_what_was_swapped_in(kind: type[nn.RNNBase]) -> None:
    module, other = kind(3, 4), kind(3, 4)
    x = torch.rand(5, 2, 3)
    before = module(x)[0]
    with TensorDict.from_module(other).to_module(module):
        assert torch.equal(module(x)[0], other(x)[0])
    assert torch.equal(module(x)[0], before)
    flat: Any = module._flat_weights
    assert all(a is b for a, b in zip(flat, module.parameters(), strict=True))


# -- in place ---------------------------------------------------------------------------------------------------------


def test_inplace_writes_into_the_tensors_of_the_module() -> None:
    module = nn.Linear(3, 4)
    own, before = module.weight, module.weight.detach().clone()
    params = TensorDict.from_module(module).data.clone().zero_()
    with params.to_module(module, inplace=True) as old:
        assert module.weight is own
        assert own.abs().sum() == 0
        assert torch.equal(old["weight"], before)
    assert module.weight is own
    assert torch.equal(own, before)
    assert params["weight"].abs().sum() == 0


def test_inplace_brings_back_what_changed_in_the_block() -> None:
    module = Counting()
    params = TensorDict.from_module(module).data.clone()
    own = module.count
    with params.to_module(module, inplace=True):
        module(torch.ones(()))
        with torch.no_grad():
            module.weight.add_(1)
    assert params["count"] == 1
    assert params["weight"] == 2
    assert module.count is own
    assert own == 0
    assert module.weight == 1


def test_inplace_brings_tied_parameters_back() -> None:
    module = Tied()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    params = TensorDict.from_module(module).data.clone().zero_()
    with params.to_module(module, inplace=True) as old:
        assert module(torch.ones(3)).tolist() == [0.0] * 3
        assert torch.equal(old["third", "weight"], before["first.weight"])
    torch.testing.assert_close(dict(module.state_dict()), before)


def test_inplace_into_another_shape_is_an_error_that_names_it_and_writes_nothing() -> None:
    module = nn.Linear(3, 4)
    before = module.weight.detach().clone()
    params = TensorDict({"weight": torch.zeros(4, 3), "bias": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"bias: expected shape \[4\], got \[1\]"):
        params.to_module(module, inplace=True)
    assert torch.equal(module.weight, before)


# -- state dicts ------------------------------------------------------------------------------------------------------


def renamed(module: nn.Module) -> nn.Module:
    """Writes ``w`` for ``weight`` into state dicts, and reads it."""

    def writing(_: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        state[f"{prefix}w"] = state.pop(f"{prefix}weight")

    def reading(_: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        state[f"{prefix}weight"] = state.pop(f"{prefix}w")

    module.register_state_dict_post_hook(writing)
    module.register_load_state_dict_pre_hook(reading)
    return module


def test_use_state_dict_calls_the_hooks_of_state_dicts() -> None:
    module = nn.Sequential(renamed(nn.Linear(3, 4)))
    before = state(module)
    params = TensorDict.from_module(module, use_state_dict=True)
    assert sorted(params["0"].keys()) == ["bias", "w"]
    new = params.clone().zero_()
    with new.to_module(module, use_state_dict=True) as old:
        assert module[0].weight.abs().sum() == 0
        assert old["0", "w"] is before["0.weight"]
    assert_same_tensors(module, before)


def test_use_state_dict_without_hooks_is_the_swap_itself() -> None:
    module = nn.Linear(3, 4)
    before = state(module)
    params = TensorDict.from_module(nn.Linear(3, 4))
    old = params.to_module(module, use_state_dict=True)
    assert module.weight is params["weight"]
    assert old["weight"] is before["weight"]
    old.to_module(module, use_state_dict=True)
    assert_same_tensors(module, before)


# -- what does not fit ------------------------------------------------------------------------------------------------


def test_all_differences_stand_in_one_error_and_nothing_changes() -> None:
    module = net()
    before = state(module)
    params = TensorDict(
        {
            "0": {"weight": torch.zeros(4, 3), "scale": torch.ones(4)},
            "1": torch.zeros(3),
            "2": {"1": {"weight": {"deep": torch.ones(1)}}},
            "7": {},
            "text": "a",
        }
    )
    with pytest.raises(ModuleMismatch) as error:
        params.to_module(module)
    assert isinstance(error.value, KeyError)
    message = str(error.value)
    for line in (
        "0.scale: the module has nothing of this name, the collection a tensor",
        "1: the module has a BatchNorm1d there, the collection a tensor",
        "2.1.weight: the module has a parameter there, the collection a TensorDict",
        "7: the module has nothing of this name, the collection a TensorDict",
        "text: the module has nothing of this name, the collection a NonTensorData",
        "The module has ['0', '1', '2']",
    ):
        assert line in message
    assert "0.weight" not in message
    assert_same_tensors(module, before)


def test_the_flat_keys_of_a_state_dict_are_an_error_that_says_how_to_nest_them() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    flat = TensorDict(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).state_dict())
    with pytest.raises(ModuleMismatch, match=r'the keys of a state dict are nested by unflatten_keys\("\."\)$'):
        flat.to_module(model)
    flat.unflatten_keys(".").to_module(model)
    assert torch.equal(model[1].weight, flat["1.weight"])
    with pytest.raises(ModuleMismatch) as error:
        TensorDict({"7.weight": torch.ones(3)}).to_module(model)  # nothing has that name, nested or not
    assert "unflatten_keys" not in str(error.value)


def test_an_error_of_torch_in_the_middle_brings_the_first_values_back() -> None:
    module = nn.Linear(3, 4)
    before = state(module)
    with pytest.raises(RuntimeError, match="gradient"):
        TensorDict({"weight": torch.zeros(4, 3), "bias": torch.zeros(4, dtype=torch.int64)}).to_module(module)
    assert_same_tensors(module, before)


def test_what_is_no_module_is_a_type_error() -> None:
    wrong: Any = {"weight": 1}
    with pytest.raises(TypeError, match=r"to_module: expected an nn\.Module, got dict"):
        TensorDict({"weight": 1.0}).to_module(wrong)


def test_a_memo_cannot_be_given() -> None:
    memo: Any = {}
    with pytest.raises(RuntimeError, match="memo"):
        TensorDict().to_module(nn.ReLU(), memo=memo)


# -- records ----------------------------------------------------------------------------------------------------------


def test_a_record_of_parameters_is_swapped_in_and_gives_a_record() -> None:
    module = nn.Linear(3, 4)
    own = module.weight
    weights = Weights.from_module(nn.Linear(3, 4))
    assert isinstance(weights, Weights)
    with weights.to_module(module) as old:
        assert module.weight is weights.weight
        assert type(old) is Weights
        assert old.weight is own
    assert module.weight is own


def test_the_parameters_of_a_module_can_stand_in_another_module() -> None:
    module = nn.Linear(3, 4)
    params = TensorDictParams(TensorDict.from_module(nn.Linear(3, 4)))
    with params.to_module(module):
        assert module.weight is params["weight"]


def test_parameters_are_swapped_into_a_collection_that_is_a_module() -> None:
    holder = nn.Module()
    holder.params = TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(3)}}))
    new = TensorDict.from_module(holder).data.clone().zero_()
    with new.to_module(holder):
        assert holder.params["b", "c"].sum() == 0
        assert holder.params["a"].sum() == 0
    assert holder.params["b", "c"].sum() == 3
