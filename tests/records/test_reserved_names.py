"""Fields with the name of a member hide it; the shortest list of names needs ``shadow=True`` for that."""

import dataclasses
from dataclasses import InitVar
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass
from tests.records.classes import MakeForm


@pytest.mark.parametrize("name", ["device", "names", "shape"])
def test_a_field_with_the_name_of_an_attribute_that_most_code_reads_needs_the_option(form: MakeForm, name: str) -> None:
    decorate, base, _ = form()
    with pytest.raises(AttributeError, match=rf"Wrong: records have members .*\['{name}'\].*shadow=True"):

        @decorate
        class Wrong(base):
            __annotations__ = {name: Tensor}


def test_an_init_var_with_the_name_of_a_member_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"\['shape'\]"):

        class Wrong(TensorClass):
            x: Tensor
            shape: InitVar[float] = 1.0


@pytest.mark.parametrize("declared", [Tensor, InitVar[Any]])
def test_batch_size_cannot_be_declared_even_with_shadow(declared: Any) -> None:
    with pytest.raises(AttributeError, match="batch_size"):

        class Wrong(TensorClass, shadow=True):
            batch_size: declared


def test_fields_have_the_names_of_columns_of_data_sets(form: MakeForm) -> None:
    decorate, base, _ = form()
    names = ["data", "split", "type", "size", "values", "log", "select", "mean", "std", "min", "max", "text", "fields"]
    names += ["schema", "zeros", "ones", "random", "take", "validate", "keys", "items", "get", "set", "to", "clone"]

    @decorate
    class Row(base):
        __annotations__ = dict.fromkeys(names, Tensor)

    values = {name: torch.full((2,), float(i)) for i, name in enumerate(names)}
    rows = Row(**values, batch_size=[2])
    for name in names:
        assert getattr(rows, name) is values[name]
        setattr(rows, name, values[name] + 1)
    again = dataclasses.replace(torch.stack([rows, rows])[1] * 2)
    assert {name: getattr(again, name)[0].item() for name in names} == {n: 2 * i + 2 for i, n in enumerate(names)}


def test_fields_with_the_names_of_members(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Shadow(base):
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
