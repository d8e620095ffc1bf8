"""Classes with the option ``frozen``."""

import dataclasses
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass
from tests.records.classes import Frozen, MakeForm, Point, frozen, point


def delete(record: Any, name: str) -> None:
    delattr(record, name)


@pytest.mark.parametrize(
    "change",
    {
        "setattr": lambda r: setattr(r, "x", torch.ones(2)),
        "setattr of text": lambda r: setattr(r, "tag", "u"),
        "setattr of an optional field": lambda r: setattr(r, "y", torch.ones(2)),
        "delattr": lambda r: delete(r, "x"),
        "set": lambda r: r.set("x", torch.ones(2)),
        "set of a nested key": lambda r: r.set(("point", "x"), torch.ones(2)),
        "[key] =": lambda r: r.__setitem__("x", torch.ones(2)),
        "[nested key] =": lambda r: r.__setitem__(("point", "x"), torch.ones(2)),
        "[rows] = with a new key": lambda r: r.__setitem__(0, Frozen(torch.ones(()), torch.ones(()))),
        "del [key]": lambda r: r.__delitem__("x"),
        "update": lambda r: r.update({"x": torch.ones(2)}),
        "update of a nested record": lambda r: r.update({"point": {"x": torch.ones(2)}}),
        "update ignoring the lock": lambda r: r.update({"x": torch.ones(2)}, ignore_lock=True),
        "set_non_tensor": lambda r: r.set_non_tensor("tag", "u"),
        "setdefault": lambda r: r.setdefault("y", torch.ones(2)),
        "del_": lambda r: r.del_("x"),
        "pop": lambda r: r.pop("x"),
        "popitem": lambda r: r.popitem(),
        "clear": lambda r: r.clear(),
        "rename_key_": lambda r: r.rename_key_("x", "y"),
        "select in place": lambda r: r.select("x", inplace=True),
        "exclude in place": lambda r: r.exclude("x", inplace=True),
        "split_keys in place": lambda r: r.split_keys(["x"], inplace=True),
        "unlock_": lambda r: r.unlock_(),
        "is_locked =": lambda r: setattr(r, "is_locked", False),
        "batch_size =": lambda r: setattr(r, "batch_size", []),
        "shape =": lambda r: setattr(r, "shape", []),
        "load_state_dict": lambda r: r.load_state_dict(r.clone().state_dict(), assign=True),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_frozen_record_refuses_to_be_changed(change: tuple[str, Callable[[Any], Any]]) -> None:
    record = frozen()
    values = dict(record.items())
    inner = dict(record.point.items())
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"Frozen is frozen: .*dataclasses\.replace"):
        change[1](record)
    assert record.batch_size == record.shape == (2,)
    assert dict(record.items()).keys() == values.keys()
    assert all(record.get(key) is value for key, value in values.items())
    assert all(record.point.get(key) is value for key, value in inner.items())


def test_all_forms_of_the_option_frozen_refuse_assignment(option_form: MakeForm) -> None:
    decorate, base, options = option_form(frozen=True)

    @decorate
    class One(base, **options):
        x: Tensor

    with pytest.raises(dataclasses.FrozenInstanceError):
        One(torch.zeros(2)).x = torch.ones(2)


def test_a_field_of_a_frozen_record_hides_what_frozen_records_refuse_to_set() -> None:
    class Hiding(TensorClass, frozen=True, shadow=True):
        shape: Tensor
        is_locked: Tensor

    record = Hiding(torch.ones(2), torch.zeros(2), batch_size=[2])
    assert record[0].shape == 1
    assert record[0].is_locked == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.shape = torch.zeros(2)


def test_a_frozen_record_is_locked() -> None:
    record = frozen()
    assert record.is_locked
    with record.lock_():
        assert record.is_locked
    record.is_locked = True
    assert record.is_locked


def test_a_frozen_record_can_be_operated_on() -> None:
    record = frozen()
    result = torch.stack([record[0], record.reshape(2, 1)[1, 0] + 1])
    assert (type(result), result.x.tolist()) == (Frozen, [0, 1])


def test_the_values_of_a_frozen_record_can_be_written_in_place() -> None:
    record = frozen()
    x = record.x
    record[0] = 1.0
    record.set_("x", record.x + 1)
    assert record.x is x
    assert x.tolist() == [2, 1]


@pytest.mark.parametrize("replace", [lambda r, **k: r.replace(**k), dataclasses.replace], ids=["method", "dataclasses"])
def test_a_frozen_record_is_replaced_by_a_changed_one(replace: Callable[..., Any]) -> None:
    record = frozen()
    changed = replace(record, x=torch.ones(2), tag="u")
    assert (changed.x.tolist(), changed.tag, record.x.tolist(), record.tag) == ([1, 1], "u", [0, 0], "t")


def test_post_init_can_set_the_fields_of_a_frozen_record(option_form: MakeForm) -> None:
    decorate, base, options = option_form(frozen=True)

    @decorate
    class Normal(base, **options):
        x: Tensor
        length: Tensor = field(init=False)

        def __post_init__(self) -> None:
            self.length = self.x.norm()
            self.x = self.x / self.length

    record = Normal(torch.tensor([3.0, 4.0]))
    assert record.length == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.x = torch.zeros(2)


def test_a_frozen_child_makes_inherited_fields_frozen() -> None:
    class Child(Point, frozen=True):
        pass

    with pytest.raises(dataclasses.FrozenInstanceError):
        Child(torch.zeros(2)).x = torch.ones(2)
    point().x = torch.ones(2)


def test_frozen_records_are_keys_of_dicts() -> None:
    class Sample(TensorClass, frozen=True):
        x: Tensor

    class Named(Sample, frozen=True):
        def __hash__(self) -> int:
            return 7

    sample = Sample(x=torch.ones(2))
    assert {sample: 1}[sample] == 1
    assert hash(sample) != hash(sample.clone())
    assert hash(Named(x=torch.ones(2))) == 7
