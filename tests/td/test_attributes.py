"""What is known of tensors, as a collection of the same form; on records too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tensorclass import TensorAttrs, TensorClass, TensorDict
from tests.samples import mixed


class Sample(TensorClass):
    a: Tensor
    text: str = "a"


def test_attributes_of_a_record_stand_in_a_tensordict() -> None:
    result = Sample(torch.zeros(3, 2, dtype=torch.float64), batch_size=[3]).attrs()
    assert type(result) is TensorDict
    assert isinstance(result["a"], TensorAttrs)
    assert (result["a"].tgt_dtype, result["a"].tgt_shape, result["text"]) == (torch.float64, torch.Size([3, 2]), "a")


def test_attributes_that_were_not_asked_for_are_none() -> None:
    found = mixed().attrs(fields=["shape"])["x"]
    assert (found.tgt_device, found.tgt_dtype, found.tgt_shape) == (None, None, torch.Size([3, 2]))


def test_an_unknown_attribute_is_an_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        mixed().attrs(fields=["colour"])


def test_addresses_are_those_of_the_tensors() -> None:
    data = TensorDict({"a": torch.arange(6)[2:], "n": {"b": torch.zeros(4)}}, [4])
    assert data.data_ptr()["a"] == data["a"].data_ptr()
    assert data.data_ptr(storage=True)["a"] == data["a"].untyped_storage().data_ptr()
    assert data.data_ptr()["n", "b"] == data["n", "b"].data_ptr()


@pytest.mark.parametrize("make", [lambda: mixed(), lambda: Sample(torch.zeros(3), batch_size=[3])])
def test_a_cast_to_attributes_gives_their_dtypes(make: object) -> None:
    data = make()  # type: ignore[operator]
    result = data.to(data.double().attrs())
    assert type(result) is type(data)
    assert {leaf.dtype for _, leaf in result.items(True, True)} == {torch.float64}
