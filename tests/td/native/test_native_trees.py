"""Pytrees: native code makes the collections that the Python code makes, and the trees of them."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorData, TensorDict
from tensorclass.td import native
from tests.native_code import native_code

pytestmark = pytest.mark.skipif(bool(native.WHY_OFF), reason=f"native code: {native.WHY_OFF}")

X = torch.zeros(3)
LEAVES = st.sampled_from(
    [
        X,
        X,
        torch.ones(2),
        1.5,
        "words",
        None,
        torch.nn.Parameter(torch.ones(1)),
        TensorDict({"a": X}, [3]),
        NonTensorData("a"),
    ]
)
KEYS = st.sampled_from(["a", "0", "1", "", "_pytree_type", 3])
TREES = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.lists(below, max_size=3).map(tuple),
        st.dictionaries(KEYS, below, max_size=3),
        st.dictionaries(KEYS, below, max_size=2).map(collections.OrderedDict),
    ),
    max_leaves=8,
)


def described(value: Any) -> Any:
    """A collection or a tree as lists; tensors by identity."""
    if isinstance(value, TensorDict):
        made = (type(value), value._batch_size, value._device, value._names, value._lock)
        return made, [(key, described(entry)) for key, entry in value._store.items()]
    if isinstance(value, dict):
        return type(value), [(key, described(entry)) for key, entry in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [described(entry) for entry in value]
    if isinstance(value, NonTensorData):
        return type(value), value._batch_size, repr(value._objects)
    return (id(value) if isinstance(value, Tensor) and value.ndim else None), repr(value)


@given(tree=TREES)
@settings(max_examples=100)
def test_a_tree_there_and_back(tree: Any) -> None:
    found: list[Any] = []
    for on in (True, False):
        with native_code(on):
            made = TensorDict.from_pytree(tree)
            found.append((described(made), described(made.to_pytree()) if isinstance(made, TensorDict) else None))
    assert found[0] == found[1]


@given(tree=TREES.filter(lambda tree: isinstance(tree, (list, tuple, dict))), removed=st.sampled_from(["0", "1", "a"]))
@settings(max_examples=50)
def test_a_tree_of_a_changed_collection(tree: Any, removed: str) -> None:
    found: list[Any] = []
    for on in (True, False):
        with native_code(on):
            made = TensorDict.from_pytree(tree)
            made.pop(removed, None)
            made["new"] = {"a": X}
            try:
                found.append(described(made.to_pytree()))
            except ValueError as error:
                found.append(str(error))
    assert found[0] == found[1]


def test_a_long_list_keeps_its_order() -> None:
    tree = [torch.full((), float(i)) for i in range(40)]
    made = TensorDict.from_pytree(tree)
    assert [*made.keys()][:40] == [str(i) for i in range(40)]
    assert all(a is b for a, b in zip(made.to_pytree(), tree, strict=True))
    assert TensorDict.from_pytree([]).to_pytree() == []


def test_a_tree_that_contains_itself_raises() -> None:
    tree: list[Any] = [X]
    tree.append(tree)
    with pytest.raises(RecursionError):
        TensorDict.from_pytree(tree)
