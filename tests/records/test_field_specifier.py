"""``field``: what ``dataclasses.field`` does, and names in files and tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, Text, TypedTensorDict, field, tensorclass


class Base(TensorClass):
    part: Text = field(name="split")
    x: Tensor
    count: int = field(default=3, name="n", kw_only=True)


def test_the_constructor_attributes_keys_and_dicts_have_the_name_of_the_field() -> None:
    record = Base(["a"], torch.zeros(1), count=4, batch_size=[1])
    assert list(record.keys()) == list(record.to_dict()) == ["part", "x", "count"]
    assert Base.from_dict(record.to_dict(), batch_size=[1]).part.tolist() == ["a"]
    assert record["part"] is record.part
    assert "stored" not in repr(record)


def test_dicts_with_the_names_of_a_table_are_read_too() -> None:
    row = {"split": ["a"], "x": [1.0], "n": 5}
    assert Base.from_dict(row, batch_size=[1]).part.tolist() == ["a"]
    assert Base.from_list([{"split": "a", "x": 1.0, "n": 5}, {"part": "b", "x": 1.0, "n": 5}]).part.tolist() == [
        "a",
        "b",
    ]
    with pytest.raises(ValueError, match=r"split: expected one of the fields 'part' \(stored as 'split'\)"):
        Base.from_dict({**row, "part": ["b"]}, batch_size=[1])


def test_a_subclass_keeps_the_name_unless_it_declares_the_field_with_another_specifier() -> None:
    class Narrower(Base):
        part: Text

    class Without(Base):
        part: Text = field()

    @tensorclass(frozen=True)
    class Decorated(Narrower):
        y: Tensor = field(name="z")

    def names(cls: Any) -> dict[str, str]:
        return {name: spec.stored_name for name, spec in cls._specs.items()}

    assert names(Narrower) == {"part": "split", "x": "x", "count": "n"}
    assert names(Without) == {"part": "part", "x": "x", "count": "n"}
    assert names(Decorated) == {"part": "split", "x": "x", "count": "n", "y": "z"}


def test_two_fields_may_swap_their_names() -> None:
    class Swapped(TensorClass):
        a: Tensor = field(name="b")
        b: Tensor = field(name="a")

    record = Swapped(torch.zeros(1), torch.ones(1), batch_size=[1])
    table = record.to_arrow()
    assert table.column("a").to_pylist() == [1]
    assert (Swapped.from_arrow(table) == record).all()
    assert Swapped.from_dict(record.to_dict(), batch_size=[1]).b.item() == 1


@pytest.mark.parametrize(
    "body, error, message",
    [
        ({"x": field(name="y"), "y": field()}, ValueError, "the fields 'x' and 'y' would both be called 'y' in files"),
        ({"x": field(name="z"), "y": field(name="z")}, ValueError, "'x' and 'y' would both be called 'z'"),
    ],
)
def test_names_that_collide_are_refused_at_the_definition(
    body: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        type(TensorClass)("Wrong", (TensorClass,), {**body, "__annotations__": {"x": Tensor, "y": Tensor}})


def test_mistakes_are_told() -> None:
    call: Any = field
    with pytest.raises(TypeError, match=r"argument 'alias'; the name in files and tables is name="):
        call(alias="split")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colour'$"):
        call(colour=3)
    with pytest.raises(TypeError, match=r"expected name to be .* a text, got 3"):
        call(name=3)
    with pytest.raises(ValueError, match=r"at least one character"):
        field(name="")
    with pytest.raises(ValueError, match=r"default_factory"):
        call(default=1, default_factory=int)
    with pytest.raises(TypeError, match=r"Init.count: .* an InitVar is in neither"):

        class Init(TensorClass):
            count: dataclasses.InitVar[int] = field(name="n")

    with pytest.raises(TypeError, match=r"Keys.x: field\(name=...\) is for records"):

        class Keys(TypedTensorDict):
            x: Tensor = field(name="y")


def test_errors_about_a_name_that_only_files_have_tell_the_field() -> None:
    record: Any = Base(["a"], torch.zeros(1), batch_size=[1])
    told = "; 'split' is the name of the field 'part' in files and tables"
    with pytest.raises(KeyError) as key:
        record["split"]
    with pytest.raises(AttributeError) as attribute:
        record.set("n", 3)
    call: Any = Base
    with pytest.raises(TypeError) as argument:
        call(split=["a"], x=torch.zeros(1))
    assert told in str(key.value)
    assert told in str(argument.value)
    assert "'n' is the name of the field 'count'" in str(attribute.value)


def test_schemas_know_the_names() -> None:
    assert [one.get("stored_name") for one in Base.schema()["fields"].values()] == ["split", None, "n"]
    assert list(Base.json_schema()["properties"]) == Base.json_schema()["required"] == ["part", "x", "count"]
    stored = Base.json_schema(stored_names=True)
    assert list(stored["properties"]) == stored["required"] == ["split", "x", "n"]
