"""Collections of parameters that are modules."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tensorclass.utils
from tensorclass import TensorClass, TensorDict, UnbatchedTensor, set_printoptions
from tensorclass.nn import Buffer, TensorDictParams


class Weights(TensorClass):
    weight: Tensor
    bias: Tensor

    def length(self) -> Tensor:
        return self.weight.norm()

    @property
    def total(self) -> Tensor:
        return self.weight.sum() + self.bias.sum()


class Model(nn.Module):
    def __init__(self, params: TensorDictParams) -> None:
        super().__init__()
        self.params = params
        self.layer = nn.Linear(1, 1)


def source() -> TensorDict:
    return TensorDict(
        {
            "weight": torch.ones(3),
            "nested": {"bias": torch.zeros(3), "steps": torch.zeros(3, dtype=torch.int64)},
            "mean": nn.Buffer(torch.ones(2)),
            "name": "text",
        }
    )


def names(items: Any) -> list[str]:
    return [name for name, _ in items]


# -- what is registered -----------------------------------------------------------------------------------------------


def test_floating_point_tensors_are_parameters_and_the_others_buffers() -> None:
    params = TensorDictParams(source())
    assert names(params.named_parameters()) == ["weight", "nested.bias"]
    assert names(params.named_buffers()) == ["mean", "nested.steps"]
    assert all(parameter.requires_grad for parameter in params.parameters())


def test_a_buffer_is_that_of_torch() -> None:
    assert Buffer is nn.Buffer
    assert tensorclass.utils.Buffer is nn.Buffer


def test_the_parameters_are_those_of_the_module_that_has_it_as_an_attribute() -> None:
    model = Model(TensorDictParams(source()))
    assert names(model.named_parameters()) == ["params.weight", "params.nested.bias", "layer.weight", "layer.bias"]
    assert list(model.state_dict())[:4] == ["params.weight", "params.mean", "params.nested.bias", "params.nested.steps"]


def test_the_source_stays_as_it_is_and_shares_its_memory() -> None:
    data = source()
    params = TensorDictParams(data)
    assert type(data["weight"]) is Tensor
    assert not data["weight"].requires_grad
    assert data["weight"].data_ptr() == params["weight"].data_ptr()


def test_parameters_and_their_frozen_state_stay_themselves() -> None:
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    params = TensorDictParams(TensorDict({"a": frozen}))
    assert params["a"] is frozen
    assert not frozen.requires_grad


def test_a_computed_tensor_becomes_a_leaf() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(3, requires_grad=True) * 2}))
    assert params["a"].is_leaf


@pytest.mark.parametrize("no_convert", [True, "skip"])
def test_without_converting_only_parameters_are_parameters(no_convert: Any) -> None:
    data = TensorDict({"a": nn.Parameter(torch.ones(1)), "b": torch.ones(1), "c": {"d": torch.ones(1)}})
    params = TensorDictParams(data, no_convert=no_convert)
    params["e"] = torch.ones(1)
    params["c", "f"] = torch.ones(1)
    assert names(params.named_parameters()) == ["a"]
    assert names(params.named_buffers()) == ["b", "e", "c.d", "c.f"]
    assert params["b"] is data["b"]


def test_a_mapping_or_keywords_are_taken_too() -> None:
    assert names(TensorDictParams({"a": torch.ones(1), "b": {"c": torch.ones(1)}}).named_parameters()) == ["a", "b.c"]
    assert names(TensorDictParams(a=torch.ones(1)).named_parameters()) == ["a"]
    assert TensorDictParams().is_empty()


def test_tied_parameters_are_one() -> None:
    one = nn.Parameter(torch.ones(1))
    params = TensorDictParams(TensorDict({"a": one, "b": {"c": one}}))
    assert names(params.named_parameters()) == ["a"]
    assert params["a"] is params["b", "c"]


def test_the_batch_size_is_that_of_the_source() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2, 3), "b": {"c": torch.ones(2)}}, [2], names=["models"]))
    assert params.batch_size == (2,)
    assert params.names == ["models"]
    assert params[0]["a"].shape == (3,)


def test_wrong_sources_are_errors() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="expected a collection or a mapping of parameters, got int"):
        TensorDictParams(wrong)
    with pytest.raises(TypeError, match="not both; keywords: \\['a'\\]"):
        TensorDictParams(TensorDict(), a=torch.ones(1))
    lazy = TensorDict.lazy_stack([TensorDict({"a": torch.ones(3)}) for _ in range(2)])
    for data in (lazy, TensorDict({"a": lazy}, [2])):
        with pytest.raises(RuntimeError, match="a lazy stack cannot hold parameters"):
            TensorDictParams(data)
    with pytest.raises(TypeError, match="a: an UnbatchedTensor cannot be a parameter"):
        TensorDictParams(TensorDict({"a": UnbatchedTensor(torch.ones(3))}))


# -- as a collection --------------------------------------------------------------------------------------------------


def test_operations_give_collections_that_gradients_flow_through() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(3), "b": {"c": torch.ones(2)}}))
    doubled = params * 2
    assert type(doubled) is TensorDict
    assert type(doubled["b"]) is TensorDict
    doubled["b", "c"].sum().backward()
    assert params["b", "c"].grad.tolist() == [2.0, 2.0]
    assert params.grad is not None
    assert params.grad["b", "c"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["detach", "double", "exp", "contiguous", "to_tensordict"])
def test_an_operation_gives_a_tensordict(name: str) -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(3), "b": {"c": torch.ones(2)}}))
    assert type(getattr(params, name)()) is TensorDict


def test_data_shares_memory_and_requires_no_gradient() -> None:
    params = TensorDictParams(source())
    assert type(params.data) is TensorDict
    params.data["weight"].fill_(5)
    assert params["weight"].sum() == 15


def test_what_is_set_is_registered() -> None:
    params = TensorDictParams(source())
    params["new"] = torch.ones(2)
    params["nested", "deep", "er"] = torch.ones(2)
    params.update({"count": torch.ones(2, dtype=torch.int64)})
    assert "new" in names(params.named_parameters())
    assert "nested.deep.er" in names(params.named_parameters())
    assert "count" in names(params.named_buffers())
    del params["new"]
    params.pop(("nested", "deep"))
    assert names(params.named_parameters()) == ["weight", "nested.bias"]


def test_a_key_changes_from_parameter_to_buffer_and_back() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))
    params["a"] = torch.ones(2, dtype=torch.int64)
    assert names(params.named_buffers()) == ["a"]
    params["a"] = {"b": torch.ones(2)}
    assert names(params.named_parameters()) == ["a.b"]
    params["a"] = torch.ones(2)
    assert names(params.named_parameters()) == ["a"]


def test_what_is_registered_is_a_key() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))
    params.register_parameter("b", nn.Parameter(torch.ones(1)))
    params.c = nn.Parameter(torch.ones(1))
    params.register_buffer("d", torch.ones(1))
    params.other = nn.Linear(1, 1)
    assert list(params.keys()) == ["a", "b", "c", "d"]
    del params.c
    assert list(params.keys()) == ["a", "b", "d"]


@pytest.mark.parametrize(
    "write",
    [
        lambda params: params.set_("a", torch.zeros(2, 3)),
        lambda params: params.update_({"a": torch.zeros(2, 3)}),
        lambda params: params.copy_(TensorDict({"a": torch.zeros(2, 3), "b": {"c": torch.zeros(2)}}, [2])),
        lambda params: params.set_at_("a", torch.zeros(3), slice(None)),
        lambda params: params.update_at_({"a": torch.zeros(2, 3)}, slice(None)),
        lambda params: params.set("a", torch.zeros(2, 3), inplace=True),
        lambda params: params.update({"a": torch.zeros(2, 3)}, inplace=True),
        lambda params: params.fill_("a", 0.0),
        lambda params: params.masked_fill_(torch.ones(2, dtype=torch.bool), 0.0),
        lambda params: params.zero_(),
    ],
)
def test_numbers_are_written_into_parameters_in_place(write: Any) -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2, 3), "b": {"c": torch.ones(2)}}, [2]))
    own = params["a"]
    assert write(params) is params
    assert params["a"] is own
    assert own.requires_grad
    assert own.sum() == 0


def test_rows_are_written_into_parameters_in_place() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2, 3), "b": {"c": torch.ones(2)}}, [2]))
    own = params["a"]
    params[0] = TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(())}})
    assert params["a"] is own
    assert own.sum() == 3
    assert params["b", "c"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("copied", [lambda p: p.clone(), lambda p: p.to(torch.float64), copy.deepcopy])
def test_copies_are_modules_with_parameters_of_their_own(copied: Any) -> None:
    params = TensorDictParams(source())
    params["nested", "bias"].requires_grad_(False)
    new = copied(params)
    assert type(new) is TensorDictParams
    assert names(new.named_parameters()) == names(params.named_parameters())
    assert names(new.named_buffers()) == names(params.named_buffers())
    assert isinstance(new["weight"], nn.Parameter)
    assert new["weight"].is_leaf
    assert new["weight"].data_ptr() != params["weight"].data_ptr()
    assert not new["nested", "bias"].requires_grad
    assert new["name"] == "text"


@pytest.mark.parametrize("copied", [lambda p: p.clone(False), lambda p: p.copy(), copy.copy])
def test_shallow_copies_share_the_parameters_and_have_keys_of_their_own(copied: Any) -> None:
    params = TensorDictParams(source())
    new = copied(params)
    assert type(new) is TensorDictParams
    assert new["weight"] is params["weight"]
    new["other"] = torch.ones(1)
    assert "other" not in params


def test_a_locked_one_keeps_its_keys_and_moves_all_the_same() -> None:
    params = TensorDictParams(source(), lock=True)
    with pytest.raises(RuntimeError, match="locked"):
        params["new"] = torch.ones(1)
    with pytest.raises(RuntimeError, match="locked"):
        params["nested", "new"] = torch.ones(1)
    Model(params).double()
    assert params["nested", "bias"].dtype == torch.float64
    with params.unlock_():
        params["new"] = torch.ones(1)
    assert params.is_locked


def test_an_error_of_an_update_leaves_the_tables_as_they_were() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2, 3)}, [2]))
    own = params["a"]
    with pytest.raises(RuntimeError, match="batch"):
        params.update({"b": torch.ones(2), "a": torch.zeros(3)})
    assert list(params.keys()) == ["a"]
    assert params["a"] is own


def test_vmap_takes_one_apart_and_gives_a_tensordict() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2, 3), "b": {"c": torch.ones(2)}}, [2]))
    assert torch.vmap(lambda p: p["a"] * p["b", "c"])(params).shape == (2, 3)
    assert type(torch.utils._pytree.tree_map(lambda x: x, params)) is TensorDict


def test_what_is_read_passes_the_hooks_for_reading() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}}))
    params.register_get_post_hook(lambda owner, value: value.detach())
    params.register_get_post_hook(lambda owner, value: None)
    assert not params["a"].requires_grad
    assert not params["b", "c"].requires_grad
    assert not params.get("a").requires_grad
    assert not any(value.requires_grad for value in params.values(True, True))
    assert not any(value.requires_grad for _, value in params.items(True, True))
    assert all(parameter.requires_grad for parameter in params.parameters())
    assert (params * 2)["a"].requires_grad


# -- as a module ------------------------------------------------------------------------------------------------------


def test_moving_the_module_keeps_the_parameters_themselves() -> None:
    params = TensorDictParams(source())
    own = params["weight"]
    Model(params).double()
    assert params["weight"] is own
    assert own.dtype == torch.float64
    assert params["mean"].dtype == torch.float64
    assert params["nested", "steps"].dtype == torch.int64


def test_moving_the_module_to_another_device_moves_the_collection() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}}, device="cpu"))
    Model(params).to("meta")
    assert params.device == torch.device("meta")
    assert params["b"].device == torch.device("meta")


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_optimizers_step_as_on_the_parameters_of_a_module(kind: Any, foreach: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    twin = copy.deepcopy(module)
    params = TensorDictParams(TensorDict.from_module(twin).clone())
    x = torch.randn(8, 3)
    optimizers = kind(module.parameters(), lr=0.1, foreach=foreach), kind(params.parameters(), lr=0.1, foreach=foreach)
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        module(x).square().mean().backward()
        with params.to_module(twin):
            twin(x).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    for name, parameter in params.named_parameters():
        torch.testing.assert_close(parameter, module.get_parameter(name))


def test_a_state_dict_is_loaded_into_the_parameters() -> None:
    params, other = TensorDictParams(source()), TensorDictParams(source())
    other.zero_()
    own = params["weight"]
    params.load_state_dict(other.state_dict())
    assert params["weight"] is own
    assert own.sum() == 0
    model = Model(TensorDictParams(source()))
    model.load_state_dict({**model.state_dict(), "params.nested.bias": torch.full((3,), 7.0)})
    assert model.params["nested", "bias"].sum() == 21


def test_a_nested_state_dict_is_loaded_too() -> None:
    params = TensorDictParams(source())
    nested = params.clone().zero_().state_dict(flatten=False)
    assert list(nested) == ["weight", "mean", "nested"]
    params.load_state_dict(nested)
    assert params["weight"].sum() == 0


def test_a_state_dict_can_be_assigned() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))
    new = torch.zeros(2)
    params.load_state_dict({"a": new}, assign=True)
    assert params["a"].data_ptr() == new.data_ptr()


def test_a_state_dict_that_does_not_fit_is_one_error_and_nothing_is_loaded() -> None:
    params = TensorDictParams(source())
    state = params.clone().zero_().state_dict()
    del state["mean"]
    state["nested.bias"] = torch.zeros(4)
    state["other"] = torch.zeros(1)
    with pytest.raises(RuntimeError) as error:
        params.load_state_dict(state)
    for line in ("missing key 'mean'", "nested.bias: expected shape [3], got [4]", "unexpected key 'other'"):
        assert line in str(error.value)
    assert params["weight"].sum() == 3


def test_hooks_of_state_dicts_are_called() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))

    def hook(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        state[f"{prefix}a"] = state.pop(f"{prefix}old")

    params.register_load_state_dict_pre_hook(hook)
    params.load_state_dict({"old": torch.zeros(2)})
    assert params["a"].sum() == 0


def test_only_parameters_are_frozen_and_trained() -> None:
    params = TensorDictParams(source())
    assert params.requires_grad_(False) is params
    assert not any(parameter.requires_grad for parameter in params.parameters())
    params.requires_grad_()
    assert not params["nested", "steps"].requires_grad
    assert params["nested", "bias"].requires_grad


def test_gradients_are_dropped() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}}))
    (params["a"] + params["b", "c"]).sum().backward()
    params.zero_grad()
    assert params["b", "c"].grad is None


def test_pickles_and_deep_copies_keep_ties_modes_and_locks() -> None:
    one = nn.Parameter(torch.ones(2))
    model = Model(TensorDictParams(TensorDict({"a": one, "b": {"c": one}, "s": "text"}), lock=True))
    model.eval()
    for new in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert new.params["a"] is new.params["b", "c"]
        assert new.params["a"] is not one
        assert not new.params.training
        assert new.params.is_locked
        assert new.params["s"] == "text"


def test_functional_call_of_torch_reaches_every_parameter() -> None:
    class Sum(Model):
        def forward(self) -> Tensor:
            return sum(value.sum() for value in self.params.values(True, True))  # type: ignore[return-value]

    model = Sum(TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}})))
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    assert torch.func.functional_call(model, zeros, ()) == 0
    assert model() == 4


def test_attributes_are_parameters_by_key_and_unknown_ones_an_error() -> None:
    params = TensorDictParams(source())
    assert params.weight is params["weight"]
    assert params.nested.bias is params["nested", "bias"]
    with pytest.raises(AttributeError, match="unknown"):
        _ = params.unknown


def test_a_print_shows_the_collection() -> None:
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))
    assert repr(params) == "TensorDictParams(batch_size=[], on cpu, 8 bytes, parameter)\n  a: f32[2]  [1.0, 1.0]"
    with set_printoptions(style="long"):
        assert repr(params).startswith("TensorDictParams(params=TensorDict(")


# -- records ----------------------------------------------------------------------------------------------------------


def test_a_record_of_parameters_gives_records_and_has_its_methods() -> None:
    params: Any = TensorDictParams(Weights(weight=torch.ones(3), bias=torch.zeros(3)))
    assert type(params * 2) is Weights
    assert params.weight is params["weight"]
    assert isinstance(params.weight, nn.Parameter)
    assert params.length() == params.weight.norm()
    assert params.total == 3


def test_a_record_of_parameters_takes_its_fields_only() -> None:
    params = TensorDictParams(Weights(weight=torch.ones(3), bias=torch.zeros(3)))
    with pytest.raises(AttributeError, match="no field 'other'"):
        params["other"] = torch.ones(3)
    params["bias"] = torch.ones(3)
    assert names(params.named_parameters()) == ["weight", "bias"]


def test_copies_and_swaps_of_a_record_of_parameters_keep_the_class() -> None:
    params = TensorDictParams(Weights(weight=torch.ones(4, 3), bias=torch.zeros(4)))
    assert type(params.clone() * 2) is Weights
    assert type(copy.deepcopy(params) * 2) is Weights
    with params.to_module(nn.Linear(3, 4)) as old:
        assert type(old) is Weights


def test_operations_take_integer_buffers_beside_parameters() -> None:
    params = TensorDictParams(TensorDict(w=torch.ones(3), n={"steps": torch.tensor([1, 2])}))
    doubled = params * 2
    assert doubled["n", "steps"].tolist() == [2, 4]
    assert torch.autograd.grad(doubled["w"].sum(), params["w"])[0].tolist() == [2, 2, 2]
    assert (-params + params)["n", "steps"].tolist() == [0, 0]
    assert params.abs().clamp(0, 1)["n", "steps"].tolist() == [1, 1]


def test_apply_in_place_fills_parameters() -> None:
    params = TensorDictParams(TensorDict(w=torch.zeros(2, 2), n={"b": torch.zeros(2)}))
    weight = params["w"]
    assert params.apply_(lambda value: value + 5) is params
    assert params["w"] is weight
    assert weight.tolist() == [[5, 5], [5, 5]]
    params.apply_(torch.nn.init.ones_)
    assert (params == 1).all()
    assert weight.requires_grad
