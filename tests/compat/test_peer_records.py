"""Records that are declared through tensordict take what those of tensordict take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorDict
from tensorclass.compat.peer_records import TensorClass, tensorclass
from tests.parity.sides import PEER, described, outcome


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


VALUES: list[Any] = [
    3, 2.5, True, "s", [1, 2], [1.5, 2.5], ["a", "b"], [1, "a"], (1, 2), np.ones(2), np.float32(3), b"x", 1j,
    np.array(["a", "b"]), [torch.ones(2), torch.ones(2)], [[1, 2], [3, 4]], {"k": 1}, {"k": torch.ones(2)},
    torch.ones(2), None,
]  # fmt: skip
ANNOTATIONS: list[Any] = [int, float, bool, str, Any, list, dict, Tensor, int | None, Tensor | None, Tensor | str]


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
@pytest.mark.parametrize("size", [[], [2]], ids=str)
@pytest.mark.parametrize("nocast", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_values_become_what_they_become_in_the_peer(annotation: Any, size: list[int], nocast: bool) -> None:
    def read(decorator: Any, value: Any) -> Any:
        cls = decorator(nocast=nocast)(
            type("Field", (), {"__annotations__": {"x": annotation}, "__module__": __name__})
        )
        given = outcome(lambda: cls(x=value, batch_size=size))
        if isinstance(given, Exception):
            return described(given)
        return described([given.x, given[0].x] if size else given.x)

    for value in VALUES:
        assert read(tensorclass, value) == read(PEER.tensorclass, value), value


def test_integers_are_cast_and_objects_of_rows_are_read() -> None:
    step = Step(torch.tensor([3]), ["a"], batch_size=[1])
    assert step.to(torch.bfloat16).x.dtype is torch.bfloat16
    assert step[0].text == step.get_at("text", 0) == "a"


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
