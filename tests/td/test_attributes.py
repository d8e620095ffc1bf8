"""What is known of tensors, as a collection of the same form; on records too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tensorclass import Ragged, TensorAttrs, TensorClass, TensorDict, Text, lazy_stack
from tests.samples import mixed, nested


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


# -- size -------------------------------------------------------------------------------------------------------------


def test_bytes_and_count_are_those_of_the_tensors() -> None:
    data = mixed()
    assert data.bytes() == 6 * 4 + 3 * 8 + 3
    assert data.param_count() == 6 + 3 + 3
    assert TensorDict({"t": "text"}).bytes() == TensorDict().param_count() == 0


def test_a_tensor_that_is_there_twice_can_count_once() -> None:
    tensor = torch.zeros(4)
    data = TensorDict({"a": tensor, "b": {"c": tensor}})
    assert (data.bytes(), data.bytes(count_duplicates=False)) == (32, 16)
    assert (data.param_count(), data.param_count(count_duplicates=False)) == (8, 4)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_memory_that_tensors_share_can_count_once(device: str) -> None:
    base, other = torch.zeros(8, device=device), torch.zeros(2, device=device)
    for views, size in (
        ({"a": base, "b": base[:4]}, 32),
        ({"a": base[:4], "b": base}, 32),
        ({"a": base[:2], "b": base[4:6]}, 16),
        ({"a": base[:2], "b": base[:2]}, 8),
        ({"a": base.expand(5, 8)}, 32),
        ({"a": base[:0], "b": other}, 8),
        ({"a": base, "b": other}, 40),
    ):
        assert TensorDict(views).bytes(count_duplicates=False) == size


def test_bytes_are_also_those_of_text_and_ragged_rows() -> None:
    text, rows = Text(["é", "b", "c"]), Ragged([[1], [], [2, 3]])
    data = TensorDict({"text": text, "below": {"rows": rows, "same": rows}}, [3])
    spans = 3 * 16
    assert data.bytes() == (4 + spans) + 2 * (3 * 8 + spans)
    assert data.bytes(count_duplicates=False) == (4 + spans) + (3 * 8 + spans)
    assert data[:1].bytes() == (2 + 16) + 2 * (8 + 16)
    assert data[:1].bytes(count_duplicates=False) == (4 + 16) + (3 * 8 + 16)
    assert lazy_stack([data, data]).bytes() == 2 * data.bytes()
    assert data.to("meta").bytes() == data.bytes()


def test_depth_counts_the_levels_below() -> None:
    assert TensorDict().depth == 0
    assert mixed().depth == 1
    assert nested().depth == 2
    assert TensorDict({"a": "text"}).depth == 0
