"""A collection is no value of its own, neither directly nor through others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorData, NonTensorStack, TensorClass, TensorDict, TypedTensorDict, lazy_stack
from tests.checks import assert_equal


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
    "as an object": lambda d: d.set("s", NonTensorData(d)),
    "as an object of a value": lambda d: d.set("s", TensorDict(x=NonTensorData(d))),
    "as an object for each row": lambda d: d.set("s", NonTensorStack(d, d)),
    "by set_non_tensor": lambda d: d.set_non_tensor("s", d),
    "by set_non_tensor below": lambda d: d.set_non_tensor(("n", "s"), d),
    "as its rows": lambda d: d.set("s", d.get_sub_tensordict(())),
    "as its rows below": lambda d: d.set(("n", "s"), d.get_sub_tensordict(())),
    "through its rows, by themselves": lambda d: (rows := d.get_sub_tensordict(())).set("s", rows),
    "as an object at an index": lambda d: d.__setitem__((), TensorDict(s=NonTensorData(d))),
    "by a view": lambda d: d.set("s", TypedTensorDict.from_tensordict(d)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_collection_is_no_value_of_its_own(write: Callable[[Any], Any]) -> None:
    made = data()
    before = repr(made)
    with pytest.raises(ValueError, match=r"cannot be, or be below, one of its own values; write a copy"):
        write(made)
    assert repr(made) == before


#: what is written at an index is copied
COPIES: dict[str, Callable[[Any], Any]] = {
    "through its rows": lambda d: d.get_sub_tensordict(()).set("s", d),
    "through its rows below": lambda d: d.get_sub_tensordict(())["n"].set("s", d),
    "through its rows, by update": lambda d: d.get_sub_tensordict(()).update({"s": d}),
    "at an index": lambda d: d.__setitem__((), TensorDict(s=d)),
    "at an index below": lambda d: d.__setitem__((), TensorDict(n=TensorDict(s=d))),
}


@pytest.mark.parametrize("write", COPIES.values(), ids=COPIES)
def test_what_is_written_at_an_index_is_a_copy_of_what_was_there(write: Callable[[Any], Any]) -> None:
    made, before = data(), data()
    write(made)
    below = made["n"] if "s" in made["n"] else made
    assert_equal(below["s"], before)
    assert_equal(below.exclude("s") if below is made else made.exclude(("n", "s")), before)


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


def test_an_object_holds_not_the_collection_that_holds_it() -> None:
    made = data().set("o", "text")
    held: Any = made.get("o")
    for write in (
        lambda: setattr(held, "data", made),
        lambda: held.update(NonTensorData(TensorDict(x=made))),
        lambda: setattr(held, "data", held),
        lambda: made.set_("o", NonTensorData(made)),
    ):
        with pytest.raises(ValueError, match="one of its own values"):
            write()
    assert made["o"] == "text"
    held.data = made.clone(False)
    assert held.update(held).data["o"] == "text"
    made.set_non_tensor("rows", made["n"])
    assert made["rows"] is made["n"]


def test_rows_of_a_lazy_stack_hold_it_not() -> None:
    stack = lazy_stack([data(), data()])
    with pytest.raises(ValueError, match="one of its own values"):
        stack[:] = TensorDict(s=stack, batch_size=[2])
    assert sorted(stack.keys()) == ["a", "n"]


def test_rows_take_other_rows_of_their_source() -> None:
    made = TensorDict({"a": torch.arange(4)}, [4])
    made.get_sub_tensordict(slice(2))["s"] = made[2:]
    assert made["s", "a"].tolist() == [2, 3, 0, 0]


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


def test_a_list_among_objects_that_holds_the_collection_is_printed_and_refused_by_files(tmp_path: Path) -> None:
    """Lists can change at any time, so that nobody looks into them; what walks them must come to an end."""
    made = data()
    items: list[Any] = [1]
    made.set_non_tensor("items", items)
    items.append(made)
    assert "[1, TensorDict(batch_size=[])]" in repr(made)
    assert made.to_dict()["items"] is items
    assert (made == copy.deepcopy(made)).batch_size == ()
    for save in (made.memmap, made.to_h5, made.to_safetensors, made.consolidate):
        with pytest.raises(TypeError, match=r"items: a .*TensorDict cannot be written as JSON"):
            save(tmp_path / "saved")
