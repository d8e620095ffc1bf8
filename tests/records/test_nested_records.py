"""Fields that hold records and collections."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tests.records.classes import Decorated, Point, nested, point


def test_a_nested_record_is_read_and_written() -> None:
    record = nested()
    record.point.x = torch.ones(2)
    assert record["point", "x"].tolist() == [1, 1]
    record["point", "x"] = torch.zeros(2)
    assert record.point.x.tolist() == [0, 0]


def test_a_nested_record_is_indexed_with_its_owner() -> None:
    result = nested()[0]
    assert type(result.point) is Point
    assert result.point.batch_size == torch.Size([])


def test_a_nested_record_may_have_more_batch_dimensions() -> None:
    inner = Point(torch.zeros(2, 3), batch_size=[2, 3])
    record = Decorated(torch.zeros(2), inner, batch_size=[2])
    assert record.point is inner
    assert record[0].point.batch_size == torch.Size([3])


def test_a_nested_record_with_fewer_batch_dimensions_gets_those_of_its_owner() -> None:
    inner = Point(torch.zeros(2, 3))
    record = Decorated(torch.zeros(2), inner, batch_size=[2])
    assert record.point.batch_size == torch.Size([2])
    assert inner.batch_size == torch.Size([])


def test_a_nested_record_gets_the_names_of_its_owner() -> None:
    record = Decorated(torch.zeros(2), point(), batch_size=[2], names=["a"])
    assert record.point.names == ["a"]


@pytest.mark.parametrize(
    "write",
    [
        lambda r, v: Decorated(torch.zeros(2), v, batch_size=[2]),
        lambda r, v: setattr(r, "point", v),
        lambda r, v: r.set("point", v),
        lambda r, v: r.update({"point": v}),
        lambda r, v: r.replace(point=v),
    ],
    ids=["construct", "setattr", "set", "update", "replace"],
)
def test_a_nested_record_of_another_class_is_a_type_error(write: Callable[[Any, Any], Any]) -> None:
    class Twin(TensorClass):  # the same fields
        x: Tensor
        y: Tensor | None = None
        tag: str = "t"

    record = nested()
    before = record.point
    with pytest.raises(TypeError, match=r"Decorated\.point: expected Point, got Twin"):
        write(record, Twin(torch.zeros(2), batch_size=[2]))
    assert record.point is before


def test_an_instance_of_a_subclass_is_stored_as_it_is() -> None:
    class Child(Point):
        z: Tensor | None = None

    child = Child(torch.zeros(2), batch_size=[2])
    record = nested()
    record.point = child
    assert record.point is child


@pytest.mark.parametrize("make", [dict, lambda d: TensorDict(d, [2])], ids=["dict", "TensorDict"])
def test_a_dict_or_a_tensordict_becomes_the_nested_record(make: Callable[[Any], Any]) -> None:
    record = Decorated(torch.zeros(2), make({"x": torch.ones(2), "tag": "made"}), batch_size=[2])
    assert type(record.point) is Point
    assert (record.point.x.tolist(), record.point.tag, record.point.y) == ([1, 1], "made", None)
    assert record.point.batch_size == torch.Size([2])


def test_a_dict_with_other_keys_than_the_fields_is_an_error_that_lists_them() -> None:
    with pytest.raises(ValueError, match=r"Decorated\.point: Point: .*missing: \['x'\]; unexpected: \['q'\]"):
        Decorated(torch.zeros(2), {"q": torch.ones(2)}, batch_size=[2])


def test_an_error_in_a_dict_names_the_whole_path() -> None:
    with pytest.raises(RuntimeError, match=r"point\.x: .*got shape \[3\]"):
        Decorated(torch.zeros(2), {"x": torch.ones(3)}, batch_size=[2])


def test_a_field_of_the_type_tensordict_takes_any_keys() -> None:
    class Free(TensorClass):
        content: TensorDict

    record = Free({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, batch_size=[2])
    assert record[0]["content", "b", "c"] == 1


def test_a_record_in_a_tensordict_field_becomes_one_that_does_not_share_its_keys() -> None:
    class Free(TensorClass):
        content: TensorDict

    source = point()
    record = Free(source, batch_size=[2])
    record.content["more"] = torch.zeros(2)
    assert type(record.content) is TensorDict
    assert "more" not in source


def test_update_merges_into_a_nested_record() -> None:
    record = nested()
    before = record.point
    record.update({"point": {"tag": "new"}})
    assert record.point is before
    assert record.point.tag == "new"


def test_a_record_can_hold_records_of_its_own_class() -> None:
    class Node(TensorClass):
        value: Tensor
        child: "Node | None" = None

    node = Node(torch.ones(2), Node(torch.zeros(2), batch_size=[2]), batch_size=[2])
    assert type(node[0].child) is Node
    assert node.child.child is None
    with pytest.raises(TypeError, match=r"Node\.child: expected Node \| None, got str 'x'"):
        Node(torch.ones(2), "x")
