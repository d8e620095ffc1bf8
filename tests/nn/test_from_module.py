"""The parameters of modules as collections."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tensorclass
from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict
from tensorclass.nn import TensorDictParams
from tests.nn.test_to_module import Tied, net


class Layer(TensorClass):
    weight: Tensor
    bias: Tensor | None = None


class Net(TensorClass):
    inner: Layer
    outer: Layer


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.outer = nn.Linear(4, 1, bias=False)


def test_parameters_and_buffers_come_in_the_tree_of_the_module_uncopied() -> None:
    module = net()
    module.register_buffer("extra", torch.ones(2), persistent=False)
    params = TensorDict.from_module(module)
    leaves = {".".join(key): value for key, value in params.items(True, True) if isinstance(key, tuple)}
    leaves["extra"] = params["extra"]
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert leaves.keys() == own.keys()
    assert all(leaves[name] is own[name] for name in own)
    assert params.batch_size == ()
    assert params.device is None
    assert not params.is_locked


def test_submodules_without_parameters_are_left_out_unless_they_are_asked_for() -> None:
    module = net()
    assert "0" not in TensorDict.from_module(module)["2"]
    assert TensorDict.from_module(module, filter_empty=False)["2", "0"].is_empty()


def test_a_module_in_two_places_gives_one_collection() -> None:
    params = TensorDict.from_module(Tied())
    assert params["first"] is params["second"]
    assert params["third", "weight"] is params["first", "weight"]


def test_a_state_dict_has_detached_tensors_and_persistent_buffers_only() -> None:
    module = nn.BatchNorm1d(2)
    module.register_buffer("extra", torch.ones(2), persistent=False)
    params = TensorDict.from_module(module, use_state_dict=True)
    assert list(params.keys()) == list(module.state_dict())
    assert not params["weight"].requires_grad


def test_lock_locks_and_the_function_of_the_package_does_so_by_default() -> None:
    module = nn.Linear(3, 4)
    assert TensorDict.from_module(module, lock=True).is_locked
    assert tensorclass.from_module(module).is_locked
    assert not tensorclass.from_module(module, lock=False).is_locked


def test_as_module_gives_a_module_with_the_same_parameters() -> None:
    module = nn.BatchNorm1d(2)
    params: Any = TensorDict.from_module(module, as_module=True)
    assert isinstance(params, TensorDictParams)
    assert params["weight"] is module.weight
    assert [name for name, _ in params.named_buffers()] == [name for name, _ in module.named_buffers()]


def test_a_record_class_has_parameters_as_fields() -> None:
    module = TwoLayers()
    params = Net.from_module(module)
    assert type(params) is Net
    assert type(params.inner) is Layer
    assert params.inner.weight is module.inner.weight
    assert params.outer.bias is None
    assert Net.from_module(module, lock=True).is_locked


def test_a_record_class_that_lacks_a_field_for_a_parameter_is_an_error() -> None:
    module = nn.Linear(3, 4)
    module.register_buffer("extra", torch.ones(2))
    with pytest.raises(tensorclass.ConversionError, match="extra"):
        Layer.from_module(module)


def test_a_collection_among_the_submodules_is_part_of_the_tree() -> None:
    module = nn.Module()
    module.params = TensorDictParams(TensorDict({"a": torch.ones(2, 3)}, [2]))
    params = TensorDict.from_module(module)
    assert type(params["params"]) is TensorDict
    assert params["params"].batch_size == (2,)
    assert params["params", "a"] is module.params["a"]


def test_what_is_no_module_is_a_type_error() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"from_module: expected an nn\.Module, got int"):
        TensorDict.from_module(wrong)


# -- several ----------------------------------------------------------------------------------------------------------


def call(params: Any, module: nn.Module, x: Tensor) -> Tensor:
    with params.to_module(module):
        return module(x)  # type: ignore[no-any-return]


def test_several_modules_are_stacked_into_parameters_of_their_own() -> None:
    modules = [nn.Linear(3, 4) for _ in range(2)]
    params = TensorDict.from_modules(*modules)
    assert params.batch_size == (2,)
    assert params.is_locked
    assert isinstance(params["weight"], nn.Parameter)
    assert params["weight"].is_leaf
    empty, x = nn.Linear(3, 4, device="meta"), torch.randn(3)
    y = torch.vmap(call, (0, None, None))(params, empty, x)
    assert torch.allclose(y, torch.stack([module(x) for module in modules]))
    y.sum().backward()
    assert params["weight"].grad is not None
    assert modules[0].weight.grad is None


def test_a_lazy_stack_keeps_the_parameters_of_the_modules() -> None:
    modules = [nn.Linear(3, 4) for _ in range(2)]
    params = TensorDict.from_modules(*modules, lazy_stack=True)
    assert isinstance(params, LazyStackedTensorDict)
    assert params[0]["weight"] is modules[0].weight
    empty = nn.Linear(3, 4, device="meta")
    torch.vmap(call, (0, None, None))(params, empty, torch.randn(3)).sum().backward()
    assert modules[0].weight.grad is not None


def test_modules_that_differ_can_be_stacked_lazily() -> None:
    params = TensorDict.from_modules(nn.Linear(3, 4), nn.Linear(2, 5), lazy_stack=True)
    assert params[1]["weight"].shape == (5, 2)


def test_identical_parameters_are_expanded_where_that_is_asked_for() -> None:
    one, two = nn.Linear(3, 4), nn.Linear(3, 4)
    two.weight = one.weight
    params = TensorDict.from_modules(one, two, expand_identical=True)
    assert params["weight"].stride()[0] == 0
    assert not params["weight"].is_leaf
    assert isinstance(params["bias"], nn.Parameter)
    params["weight"].sum().backward()
    assert one.weight.grad is not None
    assert one.weight.grad[0, 0] == 2


def test_expanded_parameters_cannot_be_a_module() -> None:
    module = nn.Linear(3, 4)
    with pytest.raises(RuntimeError, match="views"):
        TensorDict.from_modules(module, module, expand_identical=True, as_module=True)


def test_stacked_buffers_are_buffers_of_a_module() -> None:
    params: Any = TensorDict.from_modules(nn.BatchNorm1d(2), nn.BatchNorm1d(2), as_module=True)
    assert isinstance(params, TensorDictParams)
    assert params.batch_size == (2,)
    assert params.is_locked
    assert [name for name, _ in params.named_parameters()] == ["weight", "bias"]
    assert params["num_batches_tracked"].shape == (2,)


def test_tied_parameters_stay_tied_in_the_stack() -> None:
    params = TensorDict.from_modules(Tied(), Tied())
    assert params["first", "weight"] is params["third", "weight"]


def test_frozen_modules_give_frozen_parameters_also_without_gradients() -> None:
    modules = [nn.Linear(3, 4).requires_grad_(False) for _ in range(2)]
    assert not TensorDict.from_modules(*modules)["weight"].requires_grad
    with torch.no_grad():
        assert TensorDict.from_modules(nn.Linear(1, 1), nn.Linear(1, 1))["weight"].requires_grad


def test_state_dicts_are_stacked_detached() -> None:
    params = TensorDict.from_modules(nn.Linear(3, 4), nn.Linear(3, 4), use_state_dict=True)
    assert not params["weight"].requires_grad
    assert params["weight"].shape == (2, 4, 3)


def test_records_are_stacked_as_records() -> None:
    params = Layer.from_modules(nn.Linear(3, 4), nn.Linear(3, 4))
    assert type(params) is Layer
    assert params.batch_size == (2,)
    assert params.weight.shape == (2, 4, 3)
    lazy = Layer.from_modules(nn.Linear(3, 4), nn.Linear(3, 4), lazy_stack=True)
    assert isinstance(lazy, Layer)
    assert isinstance(lazy[0], Layer)


def test_modules_with_other_keys_are_an_error_that_lists_them() -> None:
    with pytest.raises(RuntimeError, match=r"below '0' .* 0: \['bias', 'weight'\]; 1: \['weight'\]"):
        TensorDict.from_modules(nn.Sequential(nn.Linear(3, 4)), nn.Sequential(nn.Linear(3, 4, bias=False)))


def test_modules_with_other_shapes_are_an_error_that_names_the_parameter() -> None:
    with pytest.raises(RuntimeError, match=r"0\.weight: .*\[\[4, 3\], \[5, 3\]\]"):
        TensorDict.from_modules(nn.Sequential(nn.Linear(3, 4)), nn.Sequential(nn.Linear(3, 5)))


def test_no_module_and_two_options_that_exclude_each_other_are_errors() -> None:
    with pytest.raises(RuntimeError, match="at least one module"):
        TensorDict.from_modules()
    with pytest.raises(RuntimeError, match="not both"):
        TensorDict.from_modules(nn.Linear(1, 1), lazy_stack=True, as_module=True)
