"""Records are made of collections and mappings, and become collections."""

from dataclasses import field
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorClass, TensorDict
from tests.records.classes import Decorated, Inner, MakeForm, Point, nested, point


def test_to_tensordict_copies_the_values() -> None:
    record = nested()
    result = record.to_tensordict()
    assert type(result) is type(result["point"]) is TensorDict
    result["point", "x"][0] = 5
    assert record.point.x.tolist() == [0, 1]
    assert result.batch_size == record.batch_size


@pytest.mark.parametrize("retain_none, keys", [(None, ["x", "tag"]), (False, ["x", "tag"]), (True, ["x", "y", "tag"])])
def test_to_tensordict_writes_none_where_asked(retain_none: bool | None, keys: list[str]) -> None:
    result = point().to_tensordict(retain_none=retain_none)
    assert list(result.keys()) == keys
    assert result.get("y") is None or result["y"] is None


def test_from_tensordict_shares_the_values_and_keeps_the_metadata() -> None:
    source = TensorDict({"x": torch.zeros(2), "tag": "a"}, [2], names=["n"], device="cpu")
    record = Point.from_tensordict(source)
    assert record.x is source["x"]
    assert (record.tag, record.y, record.batch_size, record.names) == ("a", None, torch.Size([2]), ["n"])
    assert record.device == torch.device("cpu")


@pytest.mark.parametrize("retain_none", [False, True])
def test_a_record_comes_back_from_its_tensordict(form: MakeForm, retain_none: bool) -> None:
    decorate, base, options = form(stack_objects=True)

    @decorate
    class Scores(base, **options):
        a: Tensor | None
        b: Inner
        tag: str

    record = Scores(None, Inner(torch.zeros(2), batch_size=[2]), ["x", "y"], batch_size=[2])
    back = Scores.from_tensordict(record.to_tensordict(retain_none=retain_none))
    assert (type(back), type(back.b), back.a, back.tag) == (Scores, Inner, None, ["x", "y"])


def test_from_tensordict_lists_missing_and_unexpected_keys() -> None:
    with pytest.raises(ValueError, match=r"missing: \['x'\]; unexpected: \['q', 'r'\]"):
        Point.from_tensordict(TensorDict({"q": 1, "r": 2}))


def test_from_tensordict_takes_more_values() -> None:
    record = Point.from_tensordict(TensorDict({"x": torch.zeros(2)}, [2]), {"tag": "more"})
    assert record.tag == "more"


def test_from_tensordict_takes_a_mapping_only_where_it_need_not_be_safe() -> None:
    with pytest.raises(TypeError, match="expected a collection, got a dict"):
        Point.from_tensordict({"x": torch.zeros(2)})
    assert Point.from_tensordict({"x": torch.zeros(2)}, safe=False).x.tolist() == [0, 0]


def test_from_tensordict_sets_fields_with_init_false() -> None:
    class Counted(TensorClass, stack_objects=True):
        x: Tensor
        count: int = field(default=3, init=False)

    assert Counted.from_tensordict(TensorDict({"x": torch.zeros(2), "count": tc.NonTensorData(4)})).count == 4


def test_from_dict_finds_the_batch_size() -> None:
    record = Decorated.from_dict({"x": torch.zeros(2, 3), "point": {"x": torch.zeros(2)}}, auto_batch_size=True)
    assert (record.batch_size, type(record.point)) == (torch.Size([2]), Point)


def test_from_dict_takes_lists_with_a_text_for_each_row() -> None:
    record = Point.from_dict({"x": torch.zeros(2, 3), "tag": ["a", "b"]}, auto_batch_size=True)
    assert (record.batch_size, record[1].tag) == (torch.Size([2]), "b")


def test_from_dict_leaves_lists_objects_where_the_field_holds_a_list() -> None:
    class Tagged(TensorClass, stack_objects=True):
        x: Tensor
        tags: list

    record = Tagged.from_dict({"x": torch.zeros(2, 3), "tags": ["a", "b", "c"]}, auto_batch_size=True)
    assert (record.batch_size, record[0, 1].tags) == (torch.Size([2, 3]), ["a", "b", "c"])


@pytest.mark.parametrize("options", [{"batch_size": [2]}, {"batch_dims": 1}], ids=str)
def test_from_dict_can_be_told_the_batch_size(options: dict[str, Any]) -> None:
    assert Point.from_dict({"x": torch.zeros(2, 3, 4)}, **options).batch_size == torch.Size([2])


def test_from_dict_finds_no_batch_size_unless_it_is_asked_to() -> None:
    assert Point.from_dict({"x": torch.zeros(2, 3)}).batch_size == torch.Size([])


def test_from_dict_keeps_device_and_names() -> None:
    record = Point.from_dict({"x": torch.zeros(2)}, batch_size=[2], device="meta", names=["n"])
    assert (record.x.device.type, record.names) == ("meta", ["n"])


def test_a_state_dict_is_loaded_in_place() -> None:
    source, target = nested(), nested()
    source.point.x += 5
    x = target.point.x
    assert list(source.state_dict()) == ["x", "point.x"]
    target.load_state_dict(source.state_dict())
    assert target.point.x is x
    assert x.tolist() == [5, 6]


def test_fromkeys_makes_a_record() -> None:
    assert Inner.fromkeys(["value"], 3).value == 3
