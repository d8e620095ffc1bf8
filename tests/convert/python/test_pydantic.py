"""from_pydantic: models, and record classes of models; to_pydantic."""

from __future__ import annotations

import functools
import pickle
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import pydantic
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorClass, TensorDict
from tests import fresh_python
from tests.convert.samples import Inner, Plain, values

T = TypeVar("T")


class Row(BaseModel):
    score: float
    count: int
    flag: bool = False
    name: str = "a"
    kind: Literal["u", "v"] = "u"
    maybe: float | None = None


class Point(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    x: Tensor
    label: str = "a"


class Shape(Point):
    kind: ClassVar[str] = "shape"
    tags: list[str] = []
    counts: list[int] = Field(default_factory=list)
    scale: float = Field(default=1.0, alias="SCALE", gt=0)
    point: Point | None = None
    points: list[Point] = []
    named: dict[str, Point] = {}
    pair: tuple[int, Point] | None = None
    array: np.ndarray | None = None
    either: Annotated[Row | Point | None, Field(title="either")] = None
    _cache: int = 3

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> Tensor:
        return 2 * self.x

    @functools.cached_property
    def tripled(self) -> Tensor:
        return 3 * self.x

    @pydantic.field_validator("label")
    @classmethod
    def _lower(cls, value: str) -> str:
        return value.lower()

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Shape:
        if self.label == "wrong":
            raise ValueError("the label is wrong")
        return self

    @classmethod
    def of(cls, x: Tensor) -> Any:
        return cls(x=x)


class Open(BaseModel, extra="allow"):
    x: int


class Fixed(BaseModel, frozen=True):
    x: int
    kind: Literal["u", "v"] = "u"


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Box(BaseModel, Generic[T]):
    content: T


class Node(BaseModel):
    value: int
    next: Node | None = None


class Left(BaseModel):
    value: int
    right: Right | None = None


class Right(BaseModel):
    value: int
    left: Left | None = None


class Computed(BaseModel):
    x: int
    more: int = Field(default_factory=lambda data: data["x"] + 1)


@pydantic.dataclasses.dataclass(config=ConfigDict(arbitrary_types_allowed=True))
class Checked:
    x: Tensor
    count: int = Field(default=2, alias="COUNT")
    tags: list[str] = Field(default_factory=list)
    scale: float = Field(default=1.0, gt=0, kw_only=True)

    def doubled(self) -> Tensor:
        return 2 * self.x


class RowRecord(TensorClass, stack_objects=True):
    score: Tensor
    count: Tensor
    flag: Tensor
    name: str
    kind: str
    maybe: Tensor | None = None


class ShapeRecord(TensorClass, stack_objects=True):
    x: Tensor
    label: str
    point: Inner | None = None


def full() -> Shape:
    return Shape(
        x=values(3), label="b", tags=["u"], counts=[1, 2], SCALE=2, point=Point(x=values(3)),
        points=[Point(x=values(2))], named={"k": Point(x=values(2))}, pair=(1, Point(x=values(1))),
        array=np.arange(3), either=Row(score=0.5, count=1),
    )  # fmt: skip


# -- a model as a collection ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [TensorDict.from_pydantic, tc.from_pydantic, TensorDict.from_any], ids=["method", "function", "any"]
)
@pytest.mark.parametrize(
    "source",
    [Point(x=values(3)), Shape(x=values(3)), full(), Row(score=0.5, count=2, maybe=1.5), Fixed(x=1), Numbers([1, 2]),
     Box[int](content=1), Node(value=1, next=Node(value=2)), Left(value=1, right=Right(value=2, left=Left(value=3))),
     Computed(x=1), Checked(values(3), COUNT=3, tags=["u"])],
    ids=lambda source: type(source).__name__,
)  # fmt: skip
def test_a_model_comes_back(make: Any, source: Any) -> None:
    back = make(source).to_pydantic(type(source))
    assert type(back) is type(source)
    assert repr(back) == repr(source)


@given(
    st.builds(
        Row,
        score=st.floats(width=32, allow_nan=False),
        count=st.integers(-(2**63), 2**63 - 1),
        flag=st.booleans(),
        name=st.text(max_size=3),
        kind=st.sampled_from(["u", "v"]),
        maybe=st.none() | st.floats(width=32, allow_nan=False),
    )
)
def test_any_row_of_scalars_comes_back(row: Row) -> None:
    assert TensorDict.from_pydantic(row).to_pydantic(Row) == row
    assert tc.from_pydantic(row).to_pydantic(Row) == row
    assert RowRecord.from_pydantic(row).to_pydantic(Row) == row


def test_rows_become_a_batch_of_tensors_and_come_back() -> None:
    rows = [Row(score=0.5, count=1, name="x"), Row(score=1.5, count=2, flag=True, kind="v")]
    batch = RowRecord.from_list(rows)
    assert (batch.batch_size, batch.count.tolist(), batch.name) == ((2,), [1, 2], ["x", "a"])
    assert [row.to_pydantic(Row) for row in batch] == rows
    assert [row.to_pydantic(Row) for row in tc.from_pydantic(Row).from_list(rows)] == rows


def test_the_keys_are_the_names_of_the_fields_and_not_their_aliases() -> None:
    data = TensorDict.from_pydantic(full())
    assert set(data.keys()) == set(Shape.model_fields)
    assert (data["scale"], data["point", "label"]) == (2, "a")


def test_values_that_are_no_fields_are_kept_where_the_model_takes_them() -> None:
    source = Open(x=1, more=2)
    data = TensorDict.from_pydantic(source)
    assert set(data.keys()) == {"x", "more"}
    assert data.to_pydantic(Open).model_extra == {"more": 2}
    with pytest.raises(tc.ConversionError, match="more: expected one of the fields 'x', got"):
        tc.from_pydantic(source)
    with pytest.warns(UserWarning, match="left out what is no field: 'more'"):
        assert tc.from_pydantic(source, strict=False).x == 1


def test_what_is_asked_for_is_done() -> None:
    source = Shape(x=values(3, 4), point=Point(x=values(3, 4)))
    assert TensorDict.from_pydantic(source.point, auto_batch_size=True).batch_size == (3, 4)
    assert TensorDict.from_pydantic(source.point, batch_dims=1).batch_size == (3,)
    assert tc.from_pydantic(source, batch_size=[3]).point.batch_size == (3,)
    assert TensorDict.from_pydantic(source.point, batch_size=[3], device="cpu").device == torch.device("cpu")
    with pytest.raises(TypeError, match="batch_size"):
        TensorDict.from_pydantic(source, batch_size=[3], auto_batch_size=True)


def test_a_record_is_checked_against_its_fields() -> None:
    source = Shape(x=values(2), point=Point(x=values(2)))
    with pytest.raises(tc.ConversionError) as caught:
        ShapeRecord.from_pydantic(source)
    assert ("tags",) in {problem.path for problem in caught.value.problems}
    assert ("point", "label") in {problem.path for problem in caught.value.problems}
    with pytest.warns(UserWarning, match="'point.label'"):
        assert type(ShapeRecord.from_pydantic(source, strict=False).point) is Inner


def test_only_models_are_taken() -> None:
    for bad in (Row, Plain(values(2)), {"x": 1}, 3):
        with pytest.raises(TypeError, match="from_pydantic: expected an instance of a model of pydantic, got"):
            TensorDict.from_pydantic(bad)
    for bad in (int, Plain, 3):
        with pytest.raises(TypeError, match="from_pydantic: expected a model of pydantic"):
            tc.from_pydantic(bad)


def test_a_model_that_was_not_validated_lacks_what_was_not_given() -> None:
    left = TensorDict.from_pydantic(Row.model_construct(count=1))
    assert (set(left.keys()) >= {"count"}, "score" in set(left.keys())) == (True, False)


# -- the class --------------------------------------------------------------------------------------------------------


def test_a_record_class_keeps_fields_defaults_methods_and_bases() -> None:
    made = tc.from_pydantic(Shape)
    assert made is tc.from_pydantic(Shape)
    assert [f.name for f in made.fields()] == list(Shape.model_fields)
    assert issubclass(made, tc.from_pydantic(Point))
    record = made(x=values(2, 3), batch_size=[2])
    assert (record.label, record.tags, record.counts, record.scale, record.kind) == ("a", [], [], 1, "shape")
    assert record[1].doubled.tolist() == record[1].x.mul(2).tolist()
    assert record[1].tripled.tolist() == record[1].x.mul(3).tolist()
    assert type(made.of(values(2))) is made
    assert made(x=1).tags is not made(x=1).tags
    assert repr(record).startswith("Shape_tc(batch_size=[2], ")


def test_fields_that_hold_models_hold_records() -> None:
    record = tc.from_pydantic(full(), batch_size=[])
    assert type(record.point) is tc.from_pydantic(Point)
    assert type(record.either) is tc.from_pydantic(Row)


def test_models_that_name_each_other_give_records_that_do() -> None:
    record = tc.from_pydantic(Left(value=1, right=Right(value=2, left=Left(value=3))))
    assert type(record.right) is tc.from_pydantic(Right)
    assert type(record.right.left) is tc.from_pydantic(Left)


def test_a_model_of_a_derived_class_in_a_field_stays_one() -> None:
    record = tc.from_pydantic(Shape(x=values(3), point=Shape(x=values(3), tags=["u"])))
    assert type(record.point) is tc.from_pydantic(Shape)
    assert record.to_pydantic(Shape).point.tags == ["u"]  # type: ignore[union-attr]


def test_a_frozen_model_gives_a_frozen_record() -> None:
    record = tc.from_pydantic(Fixed(x=1))
    with pytest.raises(AttributeError, match="is frozen"):
        record.x = 2


def test_fields_of_records_are_checked_by_their_annotations() -> None:
    with pytest.raises(TypeError, match=r"Fixed_tc.kind: expected Literal\['u', 'v'\], got str 'w'"):
        tc.from_pydantic(Fixed)(x=1, kind="w")


def test_a_default_computed_from_other_values_is_an_error_where_it_is_needed() -> None:
    made = tc.from_pydantic(Computed)
    assert made(x=1, more=5).more == 5
    with pytest.raises(TypeError, match=r"more: a record cannot make this default: .* give it a value"):
        made(x=1)


def test_a_dataclass_of_pydantic_is_taken_as_a_model_and_as_a_dataclass() -> None:
    made = tc.from_pydantic(Checked)
    assert made is tc.from_dataclass(Checked)
    record = made(values(3), batch_size=[3])
    assert (record.count, record.tags, record.scale, record[1].doubled()) == (2, [], 1, 2)
    assert record.to_dataclass(Checked).count == 2
    record.scale = -1.0
    with pytest.raises(pydantic.ValidationError, match="greater than 0"):
        record.to_pydantic(Checked)


def test_records_are_pickled_by_the_name_of_the_model() -> None:
    record = tc.from_pydantic(Shape(x=values(3), point=Point(x=values(3))))
    again = pickle.loads(pickle.dumps(record))
    assert type(again) is type(record)
    assert again.point.x.tolist() == [0, 1, 2]


# -- back -------------------------------------------------------------------------------------------------------------


def test_pydantic_validates_on_the_way_out() -> None:
    assert TensorDict({"x": values(2), "label": "LOUD"}).to_pydantic(Shape).label == "loud"
    assert TensorDict({"x": values(2)}).to_pydantic(Shape)._cache == 3
    with pytest.raises(pydantic.ValidationError, match="the label is wrong"):
        TensorDict({"x": values(2), "label": "wrong"}).to_pydantic(Shape)
    with pytest.raises(pydantic.ValidationError, match="greater than 0"):
        tc.from_pydantic(Shape)(x=values(2), scale=-1.0).to_pydantic(Shape)


def test_keys_that_are_not_the_fields_are_an_error_that_lists_them() -> None:
    with pytest.raises(tc.ConversionError, match=r"(?s)2 problems.* x: expected Tensor, got nothing.* y: expected one"):
        TensorDict({"y": 1}).to_pydantic(Point)
    for bad in (int, Plain, 3):
        with pytest.raises(TypeError, match="to_pydantic: expected a model of pydantic, got"):
            TensorDict({"x": 1}).to_pydantic(bad)  # type: ignore[type-var]


def test_without_pydantic_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import tensorclass as tc\n"
        "for call in (lambda: tc.TensorDict.from_pydantic(1), lambda: tc.from_pydantic(int),\n"
        "             lambda: tc.to_pydantic(1, int)):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "print(tc.TensorDict.from_any({'a': [1], 'b': object})['a'])\n"
    )
    shown = fresh_python.run(["-c", code], check=True).stdout.splitlines()
    hint = "needs pydantic, which is not installed: pip install 'tensorclass[pydantic]'"
    assert shown == [f"from_pydantic {hint}", f"from_pydantic {hint}", f"to_pydantic {hint}", "tensor([1])"]
