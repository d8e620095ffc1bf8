"""Names of fields in state dicts, and of nested keys."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, Text, field
from tensorclass.td.stored_names import StoredNames, key_path, stored_path


class Point(TensorClass):
    lat: Tensor = field(name="latitude")


class Sample(TensorClass):
    x: Tensor
    at: Point = field(name="where")
    part: Text = field(name="split")


def sample() -> Sample:
    return Sample(torch.ones(2), Point(torch.ones(2), batch_size=[2]), ["a", "b"], batch_size=[2])


def test_a_class_whose_fields_have_their_own_names_has_none() -> None:
    assert StoredNames.of("Sample", {"a": "a"}) is None


def test_a_nested_key_has_a_path_of_names_and_back() -> None:
    data = TensorDict({"in": sample()}, [2])
    names = stored_path(data, ("in", "at", "lat"))
    assert names == ("in", "where", "latitude")
    assert key_path(data, names) == ("in", "at", "lat")


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("assign", [True, False])
def test_a_state_dict_has_the_stored_names(flatten: bool, assign: bool) -> None:
    state = sample().state_dict(flatten=flatten)
    assert list(state) == (
        ["x", "where.latitude", "split.values", "split.spans"] if flatten else ["x", "where", "split"]
    )
    zeros = sample()
    zeros.at.lat = torch.zeros(2)
    zeros.load_state_dict(state, assign=assign)
    assert zeros.at.lat.tolist() == [1, 1]
    assert zeros.part.tolist() == ["a", "b"]


def test_a_state_dict_of_another_batch_size_is_loaded() -> None:
    larger = Sample(torch.ones(3), Point(torch.ones(3), batch_size=[3]), ["a", "b", "c"], batch_size=[3])
    assert sample().load_state_dict(larger.state_dict(), assign=True).at.batch_size == (3,)


def test_a_state_dict_with_the_names_of_the_fields_is_loaded() -> None:
    state = sample().state_dict()
    older = {"x": state["x"], "at.lat": torch.zeros(2), "part.values": state["split.values"]}
    older["part.spans"] = state["split.spans"]
    assert sample().load_state_dict(older).at.lat.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match=r"at.lat is there twice, as 'where.latitude' and as 'at.lat'"):
        sample().load_state_dict({**state, "at.lat": torch.zeros(2)})
