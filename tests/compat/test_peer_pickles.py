"""Pickles that tensordict wrote are read: those of peer_pickles.json, which peer_pickles_file.py writes."""

from __future__ import annotations

import base64
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass.compat import peer_pickles
from tensorclass.compat.peer_records import TensorClass
from tensorclass.nn import TensorDictModule, TensorDictParams

PICKLES: dict[str, str] = json.loads(Path(__file__).with_name("peer_pickles.json").read_text())


class Step(TensorClass):
    x: Tensor
    text: str | None = None


@pytest.fixture
def read(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType("peer_pickle_records")
    vars(module)["Step"] = Step
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return lambda name: pickle.loads(base64.b64decode(PICKLES[name]))


@pytest.mark.parametrize("name", ["data", "locked"])
def test_collections(read: Any, name: str) -> None:
    data = read(name)
    assert type(data) is tc.TensorDict
    assert (data.batch_size, data.names, data.is_locked) == (torch.Size([2]), ["t"], name == "locked")
    assert data["x"].tolist() == [0.0, 1.0]
    assert data["nested", "text"] == "a"


def test_rows_write_through(read: Any) -> None:
    rows = read("rows")
    assert type(rows) is type(tc.TensorDict(x=torch.zeros(2), batch_size=[2]).get_sub_tensordict([0]))
    rows["x"] = torch.tensor([5.0])
    assert (rows.batch_size, rows["nested", "text"]) == (torch.Size([1]), "a")
    assert rows.get_parent_tensordict()["x"].tolist() == [0.0, 5.0]


def test_lazy_stacks(read: Any) -> None:
    lazy = read("lazy")
    assert type(lazy) is tc.LazyStackedTensorDict
    assert (lazy.batch_size, lazy.stack_dim, lazy.names) == (torch.Size([2, 2]), 1, ["t", None])


def test_records(read: Any) -> None:
    step = read("record")
    assert type(step) is Step
    assert (step.text, step.x.tolist(), step.batch_size) == ("a", [1.0, 1.0], torch.Size([2]))
    assert read("record with None").text is None


def test_objects(read: Any) -> None:
    assert read("object").data == "a"
    assert read("object").batch_size == torch.Size([2])
    assert read("objects").tolist() == ["a", "b"]
    assert type(read("metadata")) is tc.MetaData
    assert type(read("unbatched")) is tc.UnbatchedTensor


def test_parameters_and_modules(read: Any) -> None:
    parameters = read("parameters")
    assert type(parameters) is TensorDictParams
    assert [name for name, _ in parameters.named_parameters()] == ["w"]
    module = read("module")
    assert type(module) is TensorDictModule
    assert module(tc.TensorDict(a=1.0))["b"] == 1


def test_consolidated_collections(read: Any) -> None:
    data = read("consolidated")
    assert data["a"].tolist() == [0.0, 1.0, 2.0]
    assert data["b", "c"] == "x"
    assert data["b", "d"].tolist() == [True, True]


def test_a_class_that_is_not_known_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"holds a Step with \['_other'\]"):
        peer_pickles._make_td(Step, {"_other": 1})


def test_pickles_of_this_package_stay_as_they_are(stand_in: Any) -> None:
    data = tc.TensorDict(a=1, b="x", c=tc.NonTensorStack("a", "b"))
    again = pickle.loads(pickle.dumps(data))
    assert again["b"] == "x"
    assert again["c"] == ["a", "b"]
