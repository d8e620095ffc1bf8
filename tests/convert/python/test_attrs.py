"""from_attrs: instances, and record classes of classes of attrs; to_attrs."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from typing import Any

import attr
import attrs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorClass, TensorDict
from tests import fresh_python
from tests.convert.samples import Inner, Plain, values


@attrs.define
class Point:
    x: Tensor
    label: str = "a"


@attrs.define
class Shape:
    x: Tensor
    _private: int = 3
    tags: list[str] = attrs.field(factory=list)
    scale: float = attrs.field(default=1, converter=float, alias="size", validator=attrs.validators.gt(0))
    point: Point | None = None
    points: list[Point] = attrs.field(factory=list, kw_only=True)

    @property
    def doubled(self) -> Tensor:
        return 2 * self.x

    @functools.cached_property
    def tripled(self) -> Tensor:
        return 3 * self.x

    @classmethod
    def of(cls, x: Tensor) -> Any:
        return cls(x)

    def name(self) -> str:
        return "shape"


@attrs.frozen
class Fixed(Shape):
    more: int = 0

    def name(self) -> str:
        return super().name() + "!"


@attr.s
class Old:
    x = attr.ib()
    shared = attr.ib(default=[])
    count = attr.ib(type=int, default=2)


@attr.s(auto_attribs=True, slots=True, frozen=True)
class OldFrozen:
    x: Tensor
    point: Point | None = None


@attrs.define
class Node:
    value: int
    next: Node | None = None


@attrs.define
class Computed:
    x: Tensor
    total: float = attrs.field(init=False)
    middle: float = attrs.field()

    @middle.default
    def _middle(self) -> float:
        return float(self.x.sum()) / 2

    def __attrs_post_init__(self) -> None:
        self.total = float(self.x.sum())


class ShapeRecord(TensorClass):
    x: Tensor
    _private: Tensor
    scale: float
    point: Inner | None = None


# -- an instance as a collection --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [TensorDict.from_attrs, tc.from_attrs, TensorDict.from_any], ids=["method", "function", "any"]
)
@pytest.mark.parametrize(
    "source",
    [Point(values(3)), Shape(values(3), 5, ["u"], size=2, point=Point(values(3), "b"), points=[Point(values(2))]),
     Fixed(values(3), more=4), Old(values(3), ["u"]), OldFrozen(values(3), Point(values(3))), Node(1, Node(2)),
     Computed(values(3))],
    ids=lambda source: type(source).__name__,
)  # fmt: skip
def test_an_instance_comes_back(make: Any, source: Any) -> None:
    back = make(source).to_attrs(type(source))
    assert type(back) is type(source)
    assert repr(back) == repr(source)
    if hasattr(source, "x"):
        assert back.x is source.x


@given(
    x=st.lists(st.integers(-5, 5), min_size=2, max_size=2),
    label=st.text(max_size=3),
    inner=st.none() | st.builds(Point, st.just(torch.ones(2)), st.text(max_size=3)),
    tags=st.lists(st.text(max_size=2), max_size=3),
    scale=st.sampled_from([0.5, 1.0, 2.0]),
    private=st.integers(-5, 5),
)
def test_any_instance_comes_back_from_a_record_and_from_a_tensordict(
    x: list[int], label: str, inner: Point | None, tags: list[str], scale: float, private: int
) -> None:
    source = Shape(torch.tensor(x), private, tags, scale, inner, points=[Point(torch.ones(2), label)])
    for made in (tc.from_attrs(source, batch_size=[2]), TensorDict.from_attrs(source)):
        assert repr(made.to_attrs(Shape)) == repr(source)


def test_the_keys_are_the_names_of_the_attributes() -> None:
    data = TensorDict.from_attrs(Shape(values(3), 5))
    assert set(data.keys()) == {"x", "_private", "tags", "scale", "points"} | {"point"}
    assert data["_private"] == 5
    assert data.to_attrs(Shape)._private == 5


def test_what_is_asked_for_is_done() -> None:
    source = OldFrozen(values(3, 4), Point(values(3, 4)))
    assert TensorDict.from_attrs(source, auto_batch_size=True).batch_size == (3, 4)
    assert TensorDict.from_attrs(source, batch_dims=1)["point"].batch_size == (3,)
    assert TensorDict.from_attrs(source, batch_size=[3], device="cpu").device == torch.device("cpu")
    with pytest.raises(TypeError, match="batch_size"):
        TensorDict.from_attrs(source, batch_size=[3], auto_batch_size=True)


def test_a_field_that_was_never_set_has_no_entry() -> None:
    @attrs.define
    class Partly:
        x: int
        y: int = attrs.field(init=False)

    assert list(TensorDict.from_attrs(Partly(1)).keys()) == ["x"]
    record = tc.from_attrs(Partly(1))
    with pytest.raises(AttributeError):
        _ = record.y
    assert not hasattr(record.to_attrs(Partly), "y")


def test_a_record_is_checked_against_its_fields() -> None:
    source = Shape(values(2), size=2, point=Point(values(2), "b"))
    with pytest.raises(tc.ConversionError) as caught:
        ShapeRecord.from_attrs(source)
    assert {problem.path for problem in caught.value.problems} == {("tags",), ("points",), ("point", "label")}
    with pytest.warns(UserWarning, match="left out what is no field: 'tags', 'point.label', 'points'"):
        record = ShapeRecord.from_attrs(source, strict=False, auto_batch_size=False)
    assert (record._private, record.scale, type(record.point)) == (torch.tensor(3), 2.0, Inner)


def test_only_instances_of_attrs_are_taken() -> None:
    for bad in (Point, Plain(values(2)), {"x": 1}, 3):
        with pytest.raises(TypeError, match="from_attrs: expected an instance of a class of attrs, got"):
            TensorDict.from_attrs(bad)
    for bad in (int, Plain, 3):
        with pytest.raises(TypeError, match="from_attrs: expected a class of attrs"):
            tc.from_attrs(bad)


def test_rows_become_a_batch_and_come_back() -> None:
    rows = [Point(values(2), "a"), Point(values(2) + 1, "b")]
    for cls in (TensorDict, tc.from_attrs(Point)):
        batch = cls.from_list(rows)
        assert batch.batch_size == (2,)
        assert [repr(row.to_attrs(Point)) for row in batch] == [repr(row) for row in rows]


# -- the class --------------------------------------------------------------------------------------------------------


def test_a_record_class_keeps_fields_defaults_methods_and_bases() -> None:
    made = tc.from_attrs(Fixed)
    assert made is tc.from_attrs(Fixed)
    assert [f.name for f in made.fields()] == [a.name for a in attrs.fields(Fixed)]
    assert issubclass(made, tc.from_attrs(Shape))
    record = made(values(2, 3), more=2, batch_size=[2])
    assert (record._private, record.tags, record.scale, record.more, record.name()) == (3, [], 1, 2, "shape!")
    assert record[1].doubled.tolist() == record[1].x.mul(2).tolist()
    assert record[1].tripled.tolist() == record[1].x.mul(3).tolist()
    assert type(made.of(values(2))) is made
    assert made(1).tags is not made(1).tags
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.more = 3


def test_fields_that_hold_instances_hold_records() -> None:
    record = tc.from_attrs(Shape(values(3), point=Point(values(3))), auto_batch_size=True)
    assert type(record.point) is tc.from_attrs(Point)
    assert record[1].point.x == 1


def test_special_methods_of_attrs_do_not_hide_those_of_records() -> None:
    record = tc.from_attrs(Point)(values(2), batch_size=[2])
    assert repr(record).startswith("Point_tc(batch_size=[2], ")
    assert (record == record).x.all()
    record.x = values(2) + 1
    assert record.x[0] == 1


def test_a_default_that_all_instances_share_is_shared_by_records() -> None:
    made = tc.from_attrs(Old)
    assert made(1).shared is attr.fields(Old).shared.default


def test_post_init_runs_for_the_constructor_alone() -> None:
    made = tc.from_attrs(Computed)
    assert made(values(3), middle=1.0).total == 3
    source = Computed(values(3))
    source.total = 7.0
    assert tc.from_attrs(source).total == 7


def test_a_default_computed_from_other_fields_is_an_error_where_it_is_needed() -> None:
    with pytest.raises(TypeError, match=r"middle: a record cannot make this default: .* give it a value"):
        tc.from_attrs(Computed)(values(3))


def test_converters_and_validators_run_on_the_way_out() -> None:
    record = tc.from_attrs(Shape)(values(3), scale=-1.0)
    with pytest.raises(ValueError, match="must be > 0"):
        record.to_attrs(Shape)
    assert type(TensorDict({"x": values(3), "scale": 2}).to_attrs(Shape).scale) is float


def test_records_are_pickled_by_the_name_of_the_class() -> None:
    record = tc.from_attrs(Shape(values(3), point=Point(values(3))))
    again = pickle.loads(pickle.dumps(record))
    assert type(again) is type(record)
    assert again.point.x.tolist() == [0, 1, 2]


# -- back -------------------------------------------------------------------------------------------------------------


def test_keys_that_are_not_the_fields_are_an_error_that_lists_them() -> None:
    with pytest.raises(tc.ConversionError, match=r"(?s)2 problems.* x: expected Tensor, got nothing.* y: expected one"):
        TensorDict({"y": 1}).to_attrs(Point)
    for bad in (int, Plain, 3):
        with pytest.raises(TypeError, match="to_attrs: expected a class of attrs, got"):
            TensorDict({"x": 1}).to_attrs(bad)  # type: ignore[type-var]


def test_without_attrs_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['attr'] = sys.modules['attrs'] = None\n"
        "import tensorclass as tc\n"
        "for call in (lambda: tc.TensorDict.from_attrs(1), lambda: tc.from_attrs(int), lambda: tc.to_attrs(1, int)):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "print(tc.TensorDict.from_any({'a': [1], 'b': object})['a'])\n"
    )
    shown = fresh_python.run(["-c", code], check=True).stdout.splitlines()
    hint = "needs attrs, which is not installed: pip install 'tensorclass[attrs]'"
    assert shown == [f"from_attrs {hint}", f"from_attrs {hint}", f"to_attrs {hint}", "tensor([1])"]
