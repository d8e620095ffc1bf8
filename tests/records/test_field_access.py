"""Fields are read, written and deleted, as attributes and by key."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.records.classes import Decorated, MakeForm, Point, nested, point


@pytest.mark.parametrize("access", [lambda one: one.unknown, lambda one: setattr(one, "unknown", 1)])
def test_an_unknown_attribute_cannot_be_read_or_assigned(form: MakeForm, access: Callable[[Any], Any]) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    with pytest.raises(AttributeError, match="unknown"):
        access(One(torch.zeros(2)))


def test_instances_have_no_dict(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    assert not hasattr(One(torch.zeros(2)), "__dict__")


def test_records_can_be_referred_to_weakly() -> None:
    record = point()
    assert weakref.ref(record)() is record


def test_a_locked_record_refuses_assignment() -> None:
    record = nested().lock_()
    for target, name in ((record, "x"), (record, "point"), (record.point, "tag")):
        with pytest.raises(RuntimeError, match="is locked"):
            setattr(target, name, target[name])
    with pytest.raises(RuntimeError, match="is locked"):
        del record.x


def test_an_assigned_value_goes_to_the_device() -> None:
    record = Point(torch.zeros(2), device="meta")
    record.x = torch.zeros(3)
    assert record.x.is_meta


def test_assigning_a_field_replaces_its_value() -> None:
    record, new = point(), torch.ones(2)
    record.x = new
    assert record.x is new


def test_deleting_a_field_unsets_it() -> None:
    record = point()
    del record.x
    with pytest.raises(AttributeError, match=r"Point\.x is not set: it was removed, or not selected"):
        record.x


def test_a_field_that_is_not_set_cannot_be_deleted() -> None:
    record = point().exclude("x")
    with pytest.raises(AttributeError, match=r"Point\.x is not set"):
        del record.x


def test_deleting_an_optional_field_makes_it_none() -> None:
    record = point(y=torch.zeros(2))
    del record.y
    del record.y
    assert record.y is None


def test_values_can_be_got_by_key() -> None:
    record = point(tag="text")
    assert record["x"] is record.x
    assert record["tag"] == "text"
    assert record.get("x") is record.x
    assert record.get("tag").data == "text"


def test_an_optional_field_that_is_none_is_none_by_key() -> None:
    record = Decorated(torch.zeros(2), point(), batch_size=[2])
    assert record.point["y"] is None
    assert record["point", "y"] is None


def test_a_key_that_is_no_field_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="unknown"):
        point()["unknown"]


@pytest.mark.parametrize(
    "write",
    [
        lambda r, v: setattr(r, "x", v),
        lambda r, v: r.set("x", v),
        lambda r, v: r.update({"x": v}),
        lambda r, v: r.update(x=v),
        lambda r, v: r.__setitem__("x", v),
        lambda r, v: r.set_("x", v),
        lambda r, v: r.update_({"x": v}),
        lambda r, v: r.set("x", v, inplace=True),
    ],
    ids=["setattr", "set", "update", "update keywords", "setitem", "set_", "update_", "set inplace"],
)
class TestWriting:
    def test_a_value_that_fits_is_written(self, write: Callable[[Any, Any], Any]) -> None:
        record = point()
        write(record, torch.ones(2))
        assert record.x.tolist() == [1, 1]

    def test_numbers_become_tensors(self, write: Callable[[Any, Any], Any]) -> None:
        record = point()
        write(record, [4, 5])
        assert isinstance(record.x, Tensor)
        assert record.x.tolist() == [4, 5]

    @pytest.mark.parametrize("value", ["text", None, torch.zeros(3), {"a": 1}], ids=["text", "None", "shape", "dict"])
    def test_a_value_that_does_not_fit_leaves_the_record_unchanged(
        self, write: Callable[[Any, Any], Any], value: Any
    ) -> None:
        record = point()
        before = record.x
        with pytest.raises((TypeError, RuntimeError), match="x: "):
            write(record, value)
        assert record.x is before
        assert before.tolist() == [0, 1]


def test_update_writes_nothing_where_one_value_does_not_fit() -> None:
    record = point()
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got int 3"):
        record.update({"x": torch.ones(2), "tag": 3})
    assert (record.x.tolist(), record.tag) == ([0, 1], "t")


@pytest.mark.parametrize(
    "write",
    [
        lambda r: r.set("unknown", 1),
        lambda r: r.update({"unknown": 1}),
        lambda r: r.__setitem__("unknown", 1),
        lambda r: r.replace(unknown=1),
        lambda r: r.rename_key_("x", "unknown"),
        lambda r: r.setdefault("unknown", 1),
        lambda r: r.create_nested("unknown"),
    ],
)
def test_a_key_that_is_no_field_cannot_be_written(write: Callable[[Any], Any]) -> None:
    record = point()
    with pytest.raises(AttributeError, match=r"Point has no field 'unknown'; its fields are \['x', 'y', 'tag'\]"):
        write(record)
    assert list(record.keys()) == ["x", "tag"]


def test_a_key_is_renamed_to_a_field_that_it_fits() -> None:
    record = point()
    record.rename_key_("x", "y")
    assert record.y.tolist() == [0, 1]
    assert "x" not in record


def test_a_key_is_not_renamed_to_a_field_that_it_does_not_fit() -> None:
    record = point()
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got Tensor"):
        record.rename_key_("x", "tag")
    assert (record.x.tolist(), record.tag) == ([0, 1], "t")


@pytest.mark.parametrize("library", ["here", pytest.param("peer", marks=pytest.mark.parity)])
def test_set_takes_a_value_by_name_and_its_options_by_position(library: str) -> None:
    if library == "peer":
        from tensordict import TensorClass as Base
    else:
        from tensorclass import TensorClass as Base  # type: ignore[assignment]

    class Row(Base):  # type: ignore[misc, valid-type]
        a: torch.Tensor

    row: Any = Row(torch.zeros(2), batch_size=[2])
    first = row.a
    assert row.set(key="a", value=torch.ones(2)) is row
    assert first.tolist() == [0, 0]
    second = row.a
    row.set("a", torch.zeros(2), True, False)
    assert second.tolist() == [0, 0]
