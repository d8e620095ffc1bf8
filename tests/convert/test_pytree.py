"""from_pytree and to_pytree: each other's inverse."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import NonTensorData, TensorDict
from tests.convert.samples import Inner, Pair, Sample, values
from tests.convert.sides import both


class Key:
    """A key that is no string."""


class Missing(dict[Any, Any]):
    """A kind of dict that no registry knows."""


def same(ours: Any, source: Any) -> bool:
    """Whether a tree that came back is the one that went in: numbers and arrays come back as tensors."""
    if isinstance(source, Tensor):
        return ours is source
    if tc.is_tensor_collection(source):
        return ours is source or (type(ours) is type(source) and ours.to_dict() == source.to_dict())
    if (
        isinstance(source, (bool, int, float, complex, np.ndarray, np.generic))
        and np.asarray(source).dtype.kind in "biufc"
    ):
        expected = torch.as_tensor(source) if isinstance(source, np.ndarray) else torch.tensor(source)
        return isinstance(ours, Tensor) and ours.dtype == expected.dtype and torch.equal(ours, expected)
    if type(ours) is not type(source):
        return False
    if isinstance(source, dict):
        return list(ours) == list(source) and all(same(ours[key], source[key]) for key in source)
    if isinstance(source, (list, tuple, collections.deque)) and not isinstance(source, torch.Size):
        return len(ours) == len(source) and all(map(same, ours, source))
    return bool(ours == source)


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(allow_nan=False, width=32),
    st.text("ab", max_size=2),
    st.binary(max_size=2),
    st.builds(lambda n: torch.arange(n), st.integers(0, 3)),
    st.builds(lambda n: np.arange(n), st.integers(0, 3)),
    st.builds(lambda n: TensorDict({"a": torch.zeros(n)}, [n]), st.integers(0, 3)),
    st.builds(lambda n: Inner(torch.zeros(n), "t", batch_size=[n]), st.integers(0, 3)),
    st.just(torch.Size([2, 3])),
)
keys = st.one_of(
    st.text("ab_", max_size=2),
    st.sampled_from(["_pytree_type", "_pytree_context", "<NON_NESTED>0", "value", "key", "0"]),
    st.integers(0, 3),
    st.booleans(),
    st.none(),
    st.tuples(st.text("ab", max_size=1), st.text("ab", max_size=1)),
    st.frozensets(st.integers(0, 3), max_size=2),
)


def nodes(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.dictionaries(keys, below, max_size=3)
    return st.one_of(
        st.lists(below, max_size=3),
        st.lists(below, max_size=3).map(tuple),
        st.builds(Pair, below, below),
        plain,
        plain.map(collections.OrderedDict),
        plain.map(lambda items: collections.defaultdict(list, items)),
        st.lists(below, max_size=3).map(collections.deque),
    )


@given(tree=st.recursive(leaves, nodes, max_leaves=12))
def test_a_tree_comes_back_as_it_was(tree: Any) -> None:
    if isinstance(tree, (type(None), str, bytes, torch.Size)) or tc.is_tensor_collection(tree):
        return  # a single leaf has no node around it
    data = TensorDict.from_pytree(tree)
    back = data.to_pytree() if tc.is_tensor_collection(data) else data
    assert same(back, tree)
    # also when it went through an operation, and twice
    if tc.is_tensor_collection(data):
        assert same(TensorDict.from_pytree([data]).to_pytree()[0].to_pytree(), tree)


@pytest.mark.parity
@pytest.mark.parametrize(
    "tree",
    [
        [1, 2],
        (1, values(2)),
        {"a": 1, "b": {"c": [1, (2,)]}},
        Pair(1, {"a": 2}),
        collections.OrderedDict(a=1),
        [],
        (),
        {},
        [np.zeros(2), [[1.5]]],
        {"a": {}, "b": ()},
    ],
    ids=str,
)
def test_the_collection_is_that_of_the_peer(tree: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_pytree(tree))
    assert ours == peers
    ours, peers = both(lambda m: m.from_pytree(tree).to_pytree())
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"auto_batch_size": True},
        {"batch_size": [3]},
        {"auto_batch_size": True, "batch_dims": 1},
        {"batch_size": [4]},
    ],
    ids=str,
)
def test_the_batch_size_is_that_of_the_peer(options: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.from_pytree([values(3, 4), {"a": values(3, 5)}], **options))
    assert ours == peers


def test_keys_that_are_no_strings_come_back_as_themselves() -> None:
    key = Key()
    back = TensorDict.from_pytree({key: values(2), 1: 2, ("a", "b"): 3, "s": 4}).to_pytree()
    assert list(back) == [key, 1, ("a", "b"), "s"]


@pytest.mark.parity
@pytest.mark.parametrize("leaf", [1, 2.5, values(2), np.zeros(2)], ids=str)
def test_a_single_leaf_is_a_tensor_as_in_the_peer(leaf: Any) -> None:
    ours, peers = both(lambda m: m.from_pytree(leaf))
    assert ours == peers


def test_leaves_of_other_kinds_are_objects() -> None:
    tree = {"s": "text", "none": None, "object": Missing(a=1), "size": torch.Size([2]), "holder": NonTensorData("x")}
    back = TensorDict.from_pytree(tree).to_pytree()
    assert back["object"] is tree["object"]
    assert (back["s"], back["none"], back["size"]) == ("text", None, torch.Size([2]))
    assert back["holder"] is tree["holder"]


def test_rows_of_a_tree_are_trees() -> None:
    data = TensorDict.from_pytree([values(3), {"a": (values(3, 2), "text")}], batch_size=[3])
    first, second = data[1].to_pytree()
    assert first == 1
    assert second["a"][0].tolist() == [2, 3]
    assert second["a"][1] == "text"
    stacked = torch.stack([data[0], data[1]]).to_pytree()
    assert stacked[0].tolist() == [0, 1]


def test_what_torch_has_registered_comes_back() -> None:
    pair = torch.max(values(3, 2), 0)
    back = TensorDict.from_pytree({"max": pair, "deque": collections.deque([1, 2])}).to_pytree()
    assert type(back["max"]) is type(pair)
    assert back["max"].indices is pair.indices
    assert type(back["deque"]) is collections.deque


def test_a_collection_that_was_not_made_of_a_tree_is_a_leaf() -> None:
    data, record = TensorDict({"a": {"b": 1}}), Sample(values(2))
    assert data.to_pytree() is data
    assert record.to_pytree() is record


def test_a_record_takes_a_tree_by_its_fields() -> None:
    class Trees(tc.TensorClass):
        x: Tensor
        tree: TensorDict
        inner: Inner | None = None
        pair: tuple[Any, ...] = ()

    record = Trees.from_pytree({"x": values(2), "tree": [1, {"a": 2}], "inner": {"x": values(2)}, "pair": (1, 2)})
    assert same(record.tree.to_pytree(), [1, {"a": 2}])
    assert (type(record.inner), record.pair) == (Inner, (1, 2))
    assert Trees.from_pytree(record) is record
    with pytest.raises(TypeError, match=r"Trees\.from_pytree: expected a mapping or a named tuple with the fields"):
        Trees.from_pytree([1, 2])
    with pytest.raises(ValueError, match=r"1: expected one of the fields"):
        Trees.from_pytree({"x": 1, "tree": [], 1: 2})
