"""Fields with the name of a member are refused, or hide it with ``shadow=True``."""

import copy
import dataclasses
import warnings
from dataclasses import InitVar
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree

from tensorclass import TensorClass, TensorDict
from tensorclass.td.pointwise import Pointwise
from tests.calls import CALLS, INTEGER
from tests.records.classes import MakeForm


@pytest.mark.parametrize("name", ["device", "names", "shape", "sum", "values", "clone", "_store", "fields"])
def test_a_field_with_the_name_of_a_member_is_refused(form: MakeForm, name: str) -> None:
    decorate, base, _ = form()
    with pytest.raises(AttributeError, match=rf"Wrong: records have members .*\['{name}'\].*shadow=True"):

        @decorate
        class Wrong(base):
            __annotations__ = {name: Tensor}


def test_an_init_var_with_the_name_of_a_member_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"\['sum'\]"):

        class Wrong(TensorClass):
            x: Tensor
            sum: InitVar[float] = 1.0


@pytest.mark.parametrize("declared", [Tensor, InitVar[Any]])
def test_batch_size_cannot_be_declared_even_with_shadow(declared: Any) -> None:
    with pytest.raises(AttributeError, match="batch_size"):

        class Wrong(TensorClass, shadow=True):
            batch_size: declared


def test_shadow_allows_fields_with_the_names_of_members(option_form: MakeForm) -> None:
    decorate, base, options = option_form(shadow=True)

    @decorate
    class Shadow(base, **options):
        sum: Tensor
        values: Tensor
        type: str = "kind"

    record = Shadow(torch.zeros(2), torch.ones(2), batch_size=[2])
    assert (record.sum.tolist(), record.values.tolist(), record.type) == ([0, 0], [1, 1], "kind")


def test_fields_called_device_and_names_take_the_place_of_the_arguments(option_form: MakeForm) -> None:
    decorate, base, options = option_form(shadow=True)

    @decorate
    class Shadow(base, **options):
        x: Tensor
        names: str
        device: Tensor

    record = Shadow(torch.zeros(2), "a name", torch.ones(2), batch_size=[2])[0]
    assert (record.names, record.device.item()) == ("a name", 1)
    assert dataclasses.replace(record, names="b").names == "b"
    assert Shadow.from_tensordict(record.to_tensordict()).names == "a name"


#: the calls of operations other than the many functions of single elements, which all go one way
STRUCTURAL = {
    name for name in CALLS if getattr(getattr(TensorClass, name, None), "__module__", "") != Pointwise.__module__
}


HIDEABLE = sorted(name for name in dir(TensorClass) if not name.startswith("_") and name not in {"batch_size"})


@pytest.mark.parametrize("at", range(32))
def test_hidden_members_are_still_there_for_the_operations_of_an_outer_record(at: int) -> None:
    names = HIDEABLE[at::32]  # several at once, as all operations run for each of them

    class Shadow(TensorClass, shadow=True):
        value: Tensor
        __annotations__.update(dict.fromkeys(names, Tensor))

    class Outer(TensorClass):
        image: Tensor
        label: Tensor
        inner: Shadow | None = None
        text: str = "a"
        spare: Tensor | None = None
        extra: TensorDict | None = None

    def make(integer: bool) -> Outer:
        value = torch.arange(1, 7).reshape(2, 3)
        value = value if integer else value / 10
        inner = Shadow(**dict.fromkeys(("value", *names), value), batch_size=[2, 3])
        return Outer(value, value, inner, batch_size=[2, 3])

    failed = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for call in STRUCTURAL.union(names) & CALLS.keys():
            try:
                CALLS[call](make(call in INTEGER))
            except Exception as error:
                failed[call] = error
    assert failed == {}


@pytest.mark.parametrize("name", HIDEABLE)
def test_a_record_with_a_hidden_member_can_be_operated_on(name: str) -> None:
    class Shadow(TensorClass, shadow=True):
        value: Tensor
        __annotations__[name] = Tensor

    record = Shadow(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), batch_size=[2])
    results = {
        "index": record[0],
        "mask": record[torch.tensor([True, False])],
        "iterate": next(iter(record)),
        "stack": torch.stack([record, record])[0, 0],
        "cat": torch.cat([record, record])[0],
        "arithmetic": (record * 2 - record)[0],
        "reduce": torch.sum(record[:1], 0),
        "reshape": torch.reshape(record, (2, 1))[0, 0],
        "copy": copy.copy(record)[0],
        "deepcopy": copy.deepcopy(record)[0],
        "clone": torch.clone(record)[0],
        "pytree": _pytree.tree_map(torch.clone, record)[0],
    }
    assert {key: result["value"].item() for key, result in results.items()} == dict.fromkeys(results, 1)
    assert {key: result[name].item() for key, result in results.items()} == dict.fromkeys(results, 3)
    assert name in repr(record)
    record[0] = record[1]
    assert record[name].tolist() == [4, 4]
