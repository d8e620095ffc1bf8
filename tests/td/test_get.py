"""What reading by key says of keys that are missing, and what a leaf is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tensorclass import (
    NonTensorData,
    TensorDict,
    default_is_leaf,
    get_defaults_to_none,
    is_leaf_nontensor,
    lazy_stack,
    set_get_defaults_to_none,
)


@pytest.fixture
def strict() -> Iterator[None]:
    set_get_defaults_to_none(False)
    yield
    set_get_defaults_to_none(True)


@pytest.mark.parametrize("key", ["x", ("n", "x"), ("a", "x"), ("x", "y")])
def test_a_missing_key_is_none(key: Any) -> None:
    data = TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2])
    assert get_defaults_to_none()
    assert data.get(key) is None
    assert data.get_at(key, 0) is None


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("key", ["x", ("n", "x"), ("a", "x"), ("x", "y")])
def test_a_missing_key_can_be_made_an_error(key: Any) -> None:
    data = TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2])
    assert not get_defaults_to_none()
    with pytest.raises(KeyError, match="the keys are"):
        data.get(key)
    with pytest.raises(KeyError, match="the keys are"):
        data.get_at(key, 0)


@pytest.mark.usefixtures("strict")
def test_a_default_is_given_whatever_a_missing_key_is_otherwise() -> None:
    data = TensorDict({"a": torch.zeros(2)}, [2])
    assert data.get("x", None) is None
    assert data.get("x", "y") == "y"
    assert data.get_at("x", 0, None) is None


@pytest.mark.usefixtures("strict")
def test_a_missing_key_of_a_lazy_stack_can_be_made_an_error() -> None:
    stack = lazy_stack([TensorDict({"a": torch.zeros(n)}) for n in (1, 2)])
    with pytest.raises(KeyError):
        stack.get("x")


def test_a_value_that_is_there_is_given_whatever_the_default() -> None:
    data = TensorDict({"a": torch.arange(2), "n": {"b": torch.zeros(2)}}, [2])
    assert torch.equal(data.get("a", "default"), torch.arange(2))
    assert data.get_at("a", 1, "default") == 1


def test_leaves_are_what_is_no_collection() -> None:
    kinds = [torch.Tensor, TensorDict, NonTensorData]
    assert [default_is_leaf(kind) for kind in kinds] == [True, False, False]
    assert [is_leaf_nontensor(kind) for kind in kinds] == [True, False, True]
