"""A collection is no value of its own, neither directly nor through others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, TypedTensorDict, lazy_stack


class Node(TensorClass):
    x: Tensor
    child: Node | None = None
    other: Any = None


def data() -> TensorDict:
    return TensorDict(a=torch.zeros(2), n=TensorDict(b=torch.zeros(2)))


WRITES: dict[str, Callable[[Any], Any]] = {
    "by key": lambda d: d.__setitem__("s", d),
    "by a nested key": lambda d: d.__setitem__(("n", "s"), d),
    "through another": lambda d: d.set("s", TensorDict(x=TensorDict(y=d))),
    "in a dict": lambda d: d.set("s", {"x": {"y": d}}),
    "by update": lambda d: d.update({"s": d}),
    "by update below": lambda d: d.update(TensorDict(n=TensorDict(q=d))),
    "as a default": lambda d: d.setdefault("s", d),
    "in a stack": lambda d: d.set("s", lazy_stack([d, d])),
    "by a view": lambda d: d.set("s", TypedTensorDict.from_tensordict(d)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_collection_is_no_value_of_its_own(write: Callable[[Any], Any]) -> None:
    made = data()
    before = repr(made)
    with pytest.raises(ValueError, match=r"cannot be, or be below, one of its own values; write a copy"):
        write(made)
    assert repr(made) == before


def test_a_record_is_no_value_of_its_own() -> None:
    node = Node(torch.zeros(2))
    for field, value in (
        ("child", node),
        ("child", Node(torch.zeros(2), node)),
        ("other", node),
        ("other", {"x": node}),
    ):
        if field == "other" and isinstance(value, dict):
            value = TensorDict(x=node)
        with pytest.raises(ValueError, match=rf"{field}: a Node cannot be"):
            setattr(node, field, value)
    assert node.child is None


def test_a_lazy_stack_is_no_part_of_its_own() -> None:
    stack = lazy_stack([data(), data()])
    for part in (stack, TensorDict(q=stack)):
        with pytest.raises(ValueError, match="one of its own parts"):
            stack.append(part)
    assert len(stack) == 2
    with pytest.raises(ValueError, match="one of its own values"):
        stack[0]["s"] = stack
    for value in (stack, lazy_stack([stack[1], stack[0]])):  # part by part
        with pytest.raises(ValueError, match="one of its own values"):
            stack["s"] = value


def test_one_value_can_stand_under_several_keys_and_copies_can_stand_in_the_original() -> None:
    made = data()
    made["copy"] = made.clone(False)
    made["again"] = made["n"]
    made["both"] = TensorDict(x=made["n"], y=made["n"])
    assert made["both", "y"] is made["n"]
    node = Node(torch.zeros(2))
    assert node.replace(child=node).child is node
    wide: Any = TensorDict(a=torch.zeros(2))
    for _ in range(40):  # two to the power of forty ways down
        wide = TensorDict(l=wide, r=wide)
    made["wide"] = wide
    with pytest.raises(ValueError, match="one of its own values"):
        made["wide", "l"] = made
