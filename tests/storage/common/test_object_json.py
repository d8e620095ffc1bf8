"""Pytrees of dicts, lists and tuples in files: the state of an optimiser, say, with its numbers as they were."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tensorclass import TensorDict
from tensorclass.convert.python.pytree_node import PytreeNode
from tensorclass.storage.common.object_json import TAG, decode, encode

Point = namedtuple("Point", ["x", "y"])


def by_torch(data: TensorDict, path: Path) -> Any:
    torch.save(data, path)
    return torch.load(path, weights_only=True)


def by_folder(data: TensorDict, path: Path) -> TensorDict:
    data.save(path)
    return TensorDict.load(path)


def by_safetensors(data: TensorDict, path: Path) -> TensorDict:
    data.save_safetensors(path)
    return TensorDict.load_safetensors(path)


def by_consolidated_file(data: TensorDict, path: Path) -> TensorDict:
    data.consolidate(path)
    return TensorDict.from_consolidated(path)


WAYS = [by_torch, by_folder, by_safetensors, by_consolidated_file]


@pytest.mark.parametrize("way", WAYS)
def test_the_state_of_an_optimiser_comes_back_as_it_was(way: Any, tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.8, 0.95))
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    again = way(TensorDict.from_pytree(state), tmp_path / "state").to_pytree()
    assert again["param_groups"] == state["param_groups"]
    assert [type(value) for value in again["param_groups"][0].values()] == [
        type(value) for value in state["param_groups"][0].values()
    ]
    assert list(again["state"]) == list(state["state"]) == [0, 1]
    for old, new in zip(state["state"].values(), again["state"].values(), strict=True):
        assert all(torch.equal(old[key], new[key]) for key in old)
    other = torch.optim.AdamW(model.parameters())
    other.load_state_dict(again)
    other.step()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["MultiStepLR", "SequentialLR", "ReduceLROnPlateau"])
def test_the_state_of_a_schedule_comes_back_as_it_was(way: Any, name: str, tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
    schedules = torch.optim.lr_scheduler
    schedule: Any = {
        "MultiStepLR": lambda: schedules.MultiStepLR(optimizer, [1, 2, 2]),  # has a Counter
        "SequentialLR": lambda: schedules.SequentialLR(
            optimizer, [schedules.ConstantLR(optimizer), schedules.CosineAnnealingLR(optimizer, 5)], [2]
        ),
        "ReduceLROnPlateau": lambda: schedules.ReduceLROnPlateau(optimizer),  # has an infinity
    }[name]()
    state = schedule.state_dict()
    again = way(TensorDict.from_pytree(state), tmp_path / "state").to_pytree()
    assert same(again, state)
    schedule.load_state_dict(again)


SCALARS = st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.none() | st.text(max_size=3)
KEYS = st.text(max_size=3) | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text(max_size=2))
TREES = st.recursive(
    SCALARS | st.sampled_from([np.float32(1.5), np.int16(-3), np.arange(3, dtype="<i2"), np.zeros((2, 0))]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return [*map(repr, left)] == [*map(repr, right)] and all(map(same, left.values(), right.values()))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return bool(left == right)


@given(st.dictionaries(KEYS, TREES, max_size=3))
def test_any_tree_of_pythons_own_kinds_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[Any, Any]
) -> None:
    path = tmp_path_factory.mktemp("tree") / "tree"
    TensorDict.from_pytree(tree).save_safetensors(path)
    assert same(TensorDict.load_safetensors(path).to_pytree(), tree)


@pytest.mark.parametrize("tree", [Point(1, 2), defaultdict(list, a=1)], ids=["named tuple", "defaultdict"])
def test_what_needs_a_class_or_a_function_is_refused_before_anything_is_written(tree: Any, tmp_path: Path) -> None:
    data = TensorDict.from_pytree({"x": tree})
    with pytest.raises(TypeError, match=r"x\._pytree_type: the pytree has a .* use dicts, lists and tuples"):
        data.save(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []
    if isinstance(tree, Point):
        data.save(tmp_path / "tree", allow_pickle=True)
        assert TensorDict.load(tmp_path / "tree", allow_pickle=True).to_pytree() == {"x": tree}


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"kind": "system"},
        {"kind": "dict", "keys": {"a": [[]]}},
        {"kind": "dict", "keys": {"a": [TAG, "dict", []]}},
        {"kind": "dict", "keys": {"a": 1, "b": 1}},
        {"kind": "list", "numbers": {"0": "1"}},
        {"kind": "list", "arrays": {"0": "O"}},
        {"kind": "list", "arrays": {"0": 3}},
        {"kind": "list", "leaves": 3},
        [],
        None,
    ],
    ids=repr,
)
def test_a_damaged_form_is_an_error(form: Any) -> None:
    with pytest.raises(ValueError, match="an object of the type 'pytree' is damaged"):
        decode([TAG, "pytree", form])


def test_a_form_is_json() -> None:
    node = TensorDict.from_pytree({1: 2.5, "a": np.ones(2)})["_pytree_type"]
    form = json.loads(json.dumps(encode(node)))
    again = decode(form)
    assert isinstance(again, PytreeNode)
    assert (again.kind, again.keys, again.leaves) == (dict, {"<0>": 1}, {"<0>": 2.5, "a": np.dtype("float64")})
