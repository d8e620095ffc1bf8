"""Records that are declared through tensordict take what those of tensordict take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorDict
from tensorclass.compat.peer_records import TensorClass, tensorclass


class Step(TensorClass):
    x: Tensor
    text: str
    nested: tc.TensorDict | None = None


@tensorclass
class Shadowing:
    data: Tensor
    device: str
    names: Any = None


def test_any_field_can_be_none() -> None:
    step = Step(None, None)
    assert step.x is None
    assert step.text is None
    step = Step(torch.ones(2), "a", batch_size=[2])
    step.x = None
    assert step.x is None
    assert step.get("x", "default") is None


def test_objects_are_not_checked() -> None:
    assert Step(torch.ones(2), {"a": 1}, batch_size=[2]).text == {"a": 1}
    assert Step("text", "a").x == "text"


def test_a_field_of_tensors_takes_a_collection() -> None:
    inner = TensorDict({"y": torch.zeros(2)}, [2])
    step = Step(inner, "a", batch_size=[2])
    assert step.x is inner
    assert (step + 1).x["y"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="batch"):
        Step(inner, "a", batch_size=[3])


def test_fields_that_were_deselected_are_none() -> None:
    step = Step(torch.ones(2), "a", batch_size=[2])
    assert step.select("x").text is None
    assert step.exclude("x").x is None


def test_fields_have_names_of_members() -> None:
    shadowing = Shadowing(torch.zeros(2), "gpu", batch_size=[2])
    assert shadowing[0].device == "gpu"
    assert shadowing.names is None
    assert shadowing.data.shape == (2,)


def test_rows_have_objects_of_their_own() -> None:
    a, b = (Step(torch.zeros(2), text, batch_size=[2]) for text in "ab")
    assert torch.cat([a, b]).text == ["a", "a", "b", "b"]
    assert a.get("text") == "a"


def test_records_of_this_package_are_instances() -> None:
    class Strict(tc.TensorClass):
        x: Tensor

    assert isinstance(Strict(torch.ones(1)), TensorClass)
    assert issubclass(Step, tc.TensorClass)
    assert not isinstance(Strict(torch.ones(1)), Step)
    assert tc.is_tensorclass(Step)
    with pytest.raises(TypeError, match="Strict"):
        Strict(None)


def test_a_class_can_replace_the_lookup_of_attributes() -> None:
    class Asking(TensorClass):
        x: Tensor

    known = Asking.__getattr__
    Asking.__getattr__ = lambda self, name: 7 if name == "extra" else known(self, name)
    assert Asking(torch.ones(1)).extra == 7
    with pytest.raises(AttributeError, match="Asking has no attribute 'other'"):
        _ = Asking(torch.ones(1)).other


def test_options_are_those_of_records() -> None:
    class Casting(TensorClass["autocast"]):
        i: int

    assert Casting("3").i == 3
    with pytest.raises(TypeError, match="unknown options"):
        tensorclass(colour=1)
