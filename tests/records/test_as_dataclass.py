"""A record behaves as a dataclass: ``replace``, ``asdict``, ``copy``, patterns, signature, ``repr``."""

import copy
import dataclasses
import inspect
import typing
from dataclasses import field
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, set_printoptions
from tests.records.classes import Decorated, Inner, MakeForm, Point, nested, point


def test_a_record_is_a_dataclass(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        a: Tensor
        b: str = "b"

    assert dataclasses.is_dataclass(Pair)
    assert [(f.name, f.default) for f in dataclasses.fields(Pair)] == [("a", dataclasses.MISSING), ("b", "b")]
    assert Pair.fields() == dataclasses.fields(Pair)
    assert dataclasses.fields(Pair(torch.zeros(2))) == dataclasses.fields(Pair)


def test_dataclasses_replace_keeps_the_metadata() -> None:
    record = Point(torch.zeros(2), tag="a", batch_size=[2], device="cpu", names=["n"])
    changed = dataclasses.replace(record, tag="b")
    assert (changed.tag, changed.x is record.x) == ("b", True)
    assert (changed.batch_size, changed.device, changed.names) == (record.batch_size, record.device, record.names)


def test_dataclasses_replace_can_change_the_metadata() -> None:
    assert dataclasses.replace(point(), batch_size=[], names=None).batch_size == torch.Size([])


def test_dataclasses_replace_refuses_what_is_no_field() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        dataclasses.replace(point(), unknown=1)


def test_asdict_goes_into_nested_records() -> None:
    result = dataclasses.asdict(nested())
    assert result["point"]["tag"] == "t"
    assert result["point"]["y"] is None
    assert result["x"].tolist() == [0, 0]


def test_astuple_gives_the_values_in_field_order() -> None:
    x, (inner, y, tag) = dataclasses.astuple(nested())
    assert (x.tolist(), inner.tolist(), y, tag) == ([0, 0], [0, 1], None, "t")


def test_replace_shares_the_other_values_and_keeps_the_metadata() -> None:
    record = Decorated(torch.zeros(2), point(), batch_size=[2], names=["n"])
    changed = record.replace(x=torch.ones(2))
    assert changed.point.x is record.point.x
    assert (changed.batch_size, changed.names) == (record.batch_size, ["n"])
    assert record.x.tolist() == [0, 0]


@pytest.mark.parametrize("source", [{"tag": "a"}, TensorDict({"tag": "a"}, [2])], ids=["dict", "TensorDict"])
def test_replace_takes_a_mapping_or_a_collection(source: Any) -> None:
    assert point().replace(source).tag == "a"


def test_replace_takes_one_mapping_only() -> None:
    with pytest.raises(TypeError, match="one mapping or record"):
        point().replace({}, {})


def test_replace_sets_optional_fields_to_none() -> None:
    assert point(y=torch.zeros(2)).replace(y=None).y is None
    with pytest.raises(TypeError, match=r"Point\.x: expected Tensor, got NoneType"):
        point().replace(x=None)


def test_the_protocol_of_copy_replace() -> None:
    assert point().__replace__(tag="new").tag == "new"


def test_copy_makes_a_record_on_the_same_values() -> None:
    record = nested()
    copied = copy.copy(record)
    assert copied.x is record.x
    copied.point.x = torch.ones(2)
    assert record.point.x.tolist() == [0, 1]


def test_deepcopy_copies_values_and_objects() -> None:
    class Holder(TensorClass):
        x: Tensor
        notes: list

    record = Holder(torch.zeros(2), [[1]], batch_size=[2], names=["n"])
    copied = copy.deepcopy(record)
    copied.x[0] = 1
    copied.notes[0].append(2)
    assert (record.x.tolist(), record.notes) == ([0, 0], [[1]])
    assert (type(copied), copied.names) == (Holder, ["n"])


def test_patterns_match_by_position_and_by_keyword(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        a: Tensor
        b: str = "b"
        c: int = field(default=3, kw_only=True)

    match Pair(torch.zeros(2)):
        case Pair(a, "b", c=c):
            assert (a.tolist(), c) == ([0, 0], 3)
        case _:
            pytest.fail("no pattern matched")
    assert Pair.__match_args__ == ("a", "b")


def test_the_signature_is_that_of_the_fields_and_the_metadata(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        a: Tensor
        b: str = "b"
        c: list = field(default_factory=list)

    assert str(inspect.signature(Pair)) == (
        "(a: torch.Tensor, b: str = 'b', c: list = <factory>, *, "
        "batch_size: collections.abc.Sequence[int] | int | None = None, "
        "device: torch.device | str | int | None = None, "
        "names: collections.abc.Sequence[str | None] | None = None) -> None"
    )


def test_the_type_hints_are_those_of_the_fields() -> None:
    assert typing.get_type_hints(Point) == {"x": Tensor, "y": Tensor | None, "tag": str}
    assert list(typing.get_type_hints(Decorated)) == ["x", "point"]


def test_the_generated_init_has_a_source() -> None:
    assert "def __init__(self, x=__REQUIRED, y=None, tag=__default_tag" in inspect.getsource(Point.__init__)
    assert Point.__init__.__qualname__ == "Point.__init__"


def test_a_class_without_docstring_gets_one() -> None:
    assert Point.__doc__ == "A record with the fields x, y, tag."


def test_repr_shows_the_fields_by_their_form(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor
        y: Tensor | None
        tag: str
        inner: Inner

    record = One(torch.zeros(2, 3), None, "text", Inner(torch.zeros(2), batch_size=[2]), batch_size=[2], names=["n"])
    tensor = "Tensor(shape=torch.Size([{}]), device=cpu, dtype=torch.float32, is_shared=False)"
    assert repr(record) == (
        "One(batch_size=[2], names=['n'], on cpu, 32 bytes)\n"
        "  x:     f32[3]  [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]\n"
        "  y:     None\n"
        "  tag:   str     'text' for all rows\n"
        "  inner: Inner\n"
        "    value: f32  [0.0, 0.0]"
    )
    with set_printoptions(style="long"):
        shown = repr(record)
    assert shown == (
        "One(\n"
        f"    x={tensor.format('2, 3')},\n"
        "    y=None,\n"
        "    tag='text',\n"
        "    inner=Inner(\n"
        f"        value={tensor.format('2')},\n"
        "        batch_size=torch.Size([2]),\n"
        "        device=None,\n"
        "        names=['n'],\n"
        "        is_shared=False),\n"
        "    batch_size=torch.Size([2]),\n"
        "    device=None,\n"
        "    names=['n'],\n"
        "    is_shared=False)"
    )


def test_repr_leaves_out_what_is_not_set() -> None:
    assert "x:" not in repr(point().exclude("x"))
