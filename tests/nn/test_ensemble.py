"""Copies of a module that run as one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import EnsembleModule, TensorDictModule, TensorDictSequential


class Sample(TensorClass):
    a: Tensor
    b: Tensor | None = None


def module() -> TensorDictModule:
    torch.manual_seed(0)
    return TensorDictModule(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), in_keys=["a"], out_keys=["b"])


def data() -> TensorDict:
    return TensorDict({"a": torch.linspace(-1, 1, 40).view(10, 4)}, [10])


def test_every_copy_gives_what_its_parameters_give() -> None:
    ensemble = EnsembleModule(module(), 3)
    result = ensemble(data())
    assert result.batch_size == (3, 10)
    own: Any = ensemble.module
    for i in range(3):
        with ensemble.params_td[i].to_module(own):
            torch.testing.assert_close(result["b"][i], own(data())["b"])


def test_copies_start_apart_and_the_module_stays_as_it_is() -> None:
    inner = module()
    before = copy.deepcopy(inner.state_dict())
    ensemble = EnsembleModule(inner, 3)
    weight = ensemble.params_td["module", "0", "weight"]
    assert weight.shape == (3, 8, 4)
    assert not torch.equal(weight[0], weight[1])
    torch.testing.assert_close(dict(inner.state_dict()), dict(before))


def test_the_input_stays_as_it_is() -> None:
    given = data()
    EnsembleModule(module(), 2)(given)
    assert list(given.keys()) == ["a"]


def test_keys_and_state_dict_are_those_of_the_module_and_of_the_copies() -> None:
    ensemble = EnsembleModule(module(), 2)
    assert (list(ensemble.in_keys), list(ensemble.out_keys)) == (["a"], ["b"])
    names = list(ensemble.module.state_dict())
    expected = [f"{owner}.{name}" for owner in ("module", "params_td") for name in names]
    assert list(ensemble.state_dict()) == expected
    twin = EnsembleModule(module(), 2)
    twin.load_state_dict(ensemble.state_dict())
    torch.testing.assert_close(twin(data())["b"], ensemble(data())["b"])


def test_an_ensemble_behind_another_one_takes_its_copies() -> None:
    last = TensorDictModule(nn.Linear(2, 1), in_keys=["b"], out_keys=["c"])
    sequence = TensorDictSequential(EnsembleModule(module(), 3), EnsembleModule(last, 3, expand_input=False))
    assert sequence(data())["c"].shape == (3, 10, 1)


def test_an_input_that_has_not_the_copies_in_front_is_an_error() -> None:
    ensemble = EnsembleModule(module(), 3, expand_input=False)
    with pytest.raises(ValueError, match=r"begins with the number of copies, 3, got \[10\]"):
        ensemble(data())
    with pytest.raises(ValueError, match="begins with the number of copies"):
        ensemble(torch.ones(2, 4))


def test_an_ensemble_is_called_with_tensors() -> None:
    ensemble = EnsembleModule(module(), 3)
    expected = ensemble(data())["b"]
    torch.testing.assert_close(ensemble(data()["a"]), expected)
    torch.testing.assert_close(ensemble(a=data()["a"]), expected)
    assert EnsembleModule(module(), 3, expand_input=False)(torch.ones(3, 5, 4)).shape == (3, 5, 2)
    with pytest.raises(TypeError, match=r"unknown keywords \['scale'\]"):
        ensemble(torch.ones(2, 4), scale=2)
    with pytest.raises(TypeError, match="expected one collection, got 1 more"):
        ensemble(data(), 2)


def test_records_are_taken_and_given() -> None:
    result = EnsembleModule(module(), 2)(Sample(a=data()["a"], batch_size=[10]))
    assert type(result) is Sample
    assert result.b is not None
    assert result.b.shape == (2, 10, 2)


def test_the_copies_are_trained_and_the_module_is_not() -> None:
    ensemble = EnsembleModule(module(), 3)
    optimizer = torch.optim.Adam(ensemble.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = ensemble(data())["b"].square().mean((1, 2))
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
    assert (losses[-1] < losses[0]).all()
    assert all(parameter.grad is None for parameter in ensemble.module.parameters())


def test_buffers_of_the_copies_change_apart_from_the_module() -> None:
    ensemble = EnsembleModule(TensorDictModule(nn.BatchNorm1d(4), ["a"], ["b"]), 2)
    ensemble(data())
    assert ensemble.params_td["module", "num_batches_tracked"].tolist() == [1, 1]
    assert ensemble.module.module.num_batches_tracked == 0  # type: ignore[attr-defined]


def test_every_copy_draws_for_itself() -> None:
    result = EnsembleModule(TensorDictModule(nn.Dropout(0.5), ["a"], ["b"]), 2)(TensorDict(a=torch.ones(64)))
    assert not torch.equal(result["b"][0], result["b"][1])


def test_parameters_are_initialised_anew_in_place_or_apart() -> None:
    ensemble = EnsembleModule(module(), 2)
    weight = ensemble.params_td["module", "0", "weight"]
    before = weight.detach().clone()
    fresh = ensemble.reset_parameters_recursive(ensemble.params_td)
    assert torch.equal(weight, before)
    assert not torch.equal(fresh["module", "0", "weight"], before)
    assert fresh.batch_size == (2,)
    assert ensemble.reset_parameters_recursive() is None
    assert ensemble.params_td["module", "0", "weight"] is weight
    assert not torch.equal(weight, before)
    with pytest.raises(ValueError, match=r"batch size \[2\].* got \[\]"):
        ensemble.reset_parameters_recursive(TensorDict.from_module(ensemble.module))


def test_out_keys_can_be_selected_and_taken_back() -> None:
    two = TensorDictModule(lambda a: (a, a + 1), in_keys=["a"], out_keys=["b", "c"])
    ensemble = EnsembleModule(two, 2).select_out_keys("c")
    assert set(ensemble(data()).keys()) == {"a", "c"}
    assert set(ensemble.reset_out_keys()(data()).keys()) == {"a", "b", "c"}


def test_wrong_arguments_are_errors() -> None:
    wrong: Any = nn.Linear(1, 1)
    with pytest.raises(TypeError, match="expected a module with in_keys and out_keys, got Linear"):
        EnsembleModule(wrong, 2)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        EnsembleModule(module(), 0)


def test_an_ensemble_is_one_graph() -> None:
    ensemble = EnsembleModule(module(), 2)
    torch._dynamo.reset()
    compiled = torch.compile(ensemble, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(data())["b"], ensemble(data())["b"])


@pytest.mark.parity
@pytest.mark.parametrize("network", [lambda: nn.Linear(2, 2), lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))])
def test_copies_start_as_those_of_the_peer(network: Any) -> None:
    from tensordict.nn import EnsembleModule as PeerEnsemble
    from tensordict.nn import TensorDictModule as PeerModule

    states = []
    for ensemble, wrapper in ((EnsembleModule, TensorDictModule), (PeerEnsemble, PeerModule)):
        torch.manual_seed(0)
        states.append(ensemble(wrapper(network(), ["a"], ["b"]), 3).state_dict())  # type: ignore[operator]
    ours, theirs = ({key: value for key, value in state.items() if isinstance(value, Tensor)} for state in states)
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert torch.equal(value, theirs[key]), key


@pytest.mark.parity
def test_the_peer_gives_the_same_for_the_same_state() -> None:
    import tensordict
    from tensordict.nn import EnsembleModule as PeerEnsemble
    from tensordict.nn import TensorDictModule as PeerModule

    theirs = PeerEnsemble(PeerModule(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), ["a"], ["b"]), 3)
    ours = EnsembleModule(module(), 3)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    expected = theirs(tensordict.TensorDict({"a": data()["a"]}, [10]))
    result = ours(data())
    assert set(result.keys()) == set(expected.keys())
    assert result.batch_size == expected.batch_size
    torch.testing.assert_close(result["b"], expected["b"])
    torch.testing.assert_close(result["a"], expected["a"])
    for loss in (result["b"].square().sum(), expected["b"].square().sum()):
        loss.backward()
    names = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, names[name].grad)
