"""State dicts of collections."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tensorclass import TensorDict, lazy_stack
from tests import strategies as draw
from tests.checks import assert_equal
from tests.samples import Unchanged, mixed, nested

# -- state_dict -------------------------------------------------------------------------------------------------------


def test_a_state_dict_has_the_tensors_under_joined_keys() -> None:
    data = nested()
    state = data.state_dict()
    assert type(state) is OrderedDict
    assert list(state) == ["a", "b.c", "b.inner.d"]
    for key, leaf in data.flatten_keys().items():
        assert state[key].data_ptr() == leaf.data_ptr()


def test_a_state_dict_can_be_nested() -> None:
    data = nested()
    state = data.state_dict(flatten=False)
    assert list(state) == ["a", "b", "empty"]
    assert list(state["b"]) == ["c", "inner"]
    assert torch.equal(state["b"]["inner"]["d"], data["b", "inner", "d"])


def test_a_state_dict_is_detached_unless_asked_to_keep_the_tensors() -> None:
    data = nested(requires_grad=True)
    assert not any(value.requires_grad for value in data.state_dict().values())
    assert data.state_dict(keep_vars=True)["b.c"] is data["b", "c"]
    assert data.state_dict(keep_vars=True, flatten=False)["b"]["c"] is data["b", "c"]


def test_a_state_dict_takes_a_prefix_and_a_destination() -> None:
    destination: dict[str, Any] = {"first": 1}
    state = nested().state_dict(destination, prefix="model.")
    assert state is destination
    assert list(state) == ["first", "model.a", "model.b.c", "model.b.inner.d"]


def test_a_state_dict_leaves_objects_out() -> None:
    assert list(mixed().state_dict()) == ["x", "n", "nest.flag"]
    assert list(mixed().state_dict(flatten=False)["nest"]) == ["flag"]


# -- load_state_dict --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("from_flatten", [None, "as it is"])
def test_loading_writes_into_the_tensors(flatten: bool, from_flatten: Any) -> None:
    data, source = nested(), nested() * 2
    entries = list(data.values(True))
    state = source.state_dict(flatten=flatten)
    result = data.load_state_dict(state, from_flatten=None if from_flatten is None else flatten)
    assert result is data
    assert all(a is b for a, b in zip(data.values(True), entries, strict=True))
    assert_equal(data, source)


def test_loading_with_assign_stores_the_tensors_themselves() -> None:
    data, source = nested(), nested() * 2
    state = source.state_dict()
    data.load_state_dict(state, assign=True)
    assert data["b", "c"] is state["b.c"]
    assert data["b", "inner"].batch_size == (3, 2)
    assert_equal(data, source)


def test_loading_works_on_leaves_of_the_graph() -> None:
    data = nested(requires_grad=True)
    data.load_state_dict((nested() * 2).state_dict())
    assert data["a"].is_leaf
    assert data["a"].requires_grad
    assert torch.equal(data["a"].detach(), nested()["a"] * 2)


def test_a_key_that_holds_a_dot_is_found() -> None:
    data = TensorDict({"a.b": torch.zeros(3), "c": {"d.e": torch.zeros(3)}}, [3])
    data.load_state_dict((data + 1).state_dict())
    assert data["a.b"].tolist() == data["c", "d.e"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("flatten", [True, False])
def test_all_differences_are_listed_and_nothing_is_loaded(flatten: bool) -> None:
    data = nested()
    state = (
        (nested() * 2).exclude("a").update({"z": torch.ones(3), "b": {"y": torch.ones(3)}}).state_dict(flatten=flatten)
    )
    with Unchanged(data), pytest.raises(RuntimeError) as caught:
        data.load_state_dict(state)
    assert "nothing was loaded" in str(caught.value)
    assert "missing keys: ['a']" in str(caught.value)
    for key in ("'z'", "'b.y'"):
        assert key in str(caught.value).split("unexpected keys: ")[1]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("assign", [True, False])
def test_a_tensor_of_another_shape_is_listed_and_nothing_is_loaded(strict: bool, assign: bool) -> None:
    data = nested()
    state = (nested() * 2).state_dict() | {"b.c": torch.ones(4)}
    with Unchanged(data), pytest.raises(RuntimeError, match=r"b\.c: .*\[3\].*got.* \[4\]"):
        data.load_state_dict(state, strict=strict, assign=assign)


def test_loading_not_strictly_takes_the_keys_in_common() -> None:
    data, source = nested(), nested() * 2
    data.load_state_dict(source.exclude("a").update({"z": torch.ones(3)}).state_dict(), strict=False)
    assert "z" not in data
    assert torch.equal(data["a"], nested()["a"])
    assert torch.equal(data["b", "c"], source["b", "c"])


@pytest.mark.parametrize("assign", [True, False])
@pytest.mark.parametrize("flatten", [True, False])
def test_loading_takes_the_batch_sizes(flatten: bool, assign: bool) -> None:
    source = TensorDict({"a": torch.ones(3, 4), "n": TensorDict({"b": torch.ones(3, 4, 5)}, [3, 4])}, [3])
    data = TensorDict({"a": torch.zeros(3, 4), "n": TensorDict({"b": torch.zeros(3, 4, 5)}, [3, 4, 5])})
    data.load_state_dict(source.state_dict(flatten=flatten), assign=assign)
    assert (data.batch_size, data["n"].batch_size) == ((3,), (3, 4))
    assert_equal(data, source)


def test_loading_with_assign_takes_a_longer_batch() -> None:
    source = TensorDict({"n": TensorDict({"b": torch.ones(5, 4)}, [5, 4])}, [5])
    data = TensorDict({"n": {"b": torch.zeros(3, 4)}}, [3])
    data.load_state_dict(source.state_dict(), assign=True)
    assert_equal(data, source)


@pytest.mark.parametrize("assign", [True, False])
def test_a_batch_size_that_does_not_fit_what_stays_is_listed_and_nothing_is_loaded(assign: bool) -> None:
    data = TensorDict({"a": torch.zeros(3, 4), "b": torch.zeros(3)}, [3])
    state = TensorDict({"a": torch.ones(3, 4)}, [3, 4]).state_dict()
    with Unchanged(data), pytest.raises(RuntimeError, match=r"b: shape \[3\] .* batch size \[3, 4\]"):
        data.load_state_dict(state, strict=False, assign=assign)


def test_the_batch_sizes_of_a_state_dict_go_through_a_file() -> None:
    file = io.BytesIO()
    torch.save(nested().state_dict(), file)
    file.seek(0)
    data = nested().auto_batch_size_()
    data.load_state_dict(torch.load(file, weights_only=True))
    assert_equal(data, nested())


def test_loading_writes_through_stores_whose_values_are_copies() -> None:
    parts = [TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2]) for _ in range(3)]
    data = lazy_stack(parts)
    data.load_state_dict((data + 1).state_dict())
    assert all(part["a"].tolist() == part["n", "b"].tolist() == [1, 1] for part in parts)


def test_a_state_dict_goes_through_a_module() -> None:
    module = nn.Linear(2, 3)
    params = TensorDict({"weight": torch.zeros(3, 2), "bias": torch.zeros(3)}, [3])
    params.load_state_dict(module.state_dict())
    assert torch.equal(params["weight"], module.weight)
    module.load_state_dict((params * 2).state_dict())
    assert torch.equal(module.bias, params["bias"] * 2)


@given(draw.trees(objects=False), st.booleans())
def test_loading_undoes_state_dict(tree: Any, flatten: bool) -> None:
    data = tree.build((2,))
    other = data.apply(torch.zeros_like)
    other.load_state_dict(data.state_dict(flatten=flatten))
    assert_equal(other, data)
