"""``assert_close`` says what differs, and where."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, assert_close
from tests.samples import mixed, nested


class Sample(TensorClass):
    a: Tensor
    text: str = "a"


def test_a_collection_is_close_to_its_copy() -> None:
    for data in (nested(), mixed(), Sample(torch.zeros(3), batch_size=[3])):
        assert assert_close(data, data.clone())


def test_a_record_is_compared_with_a_tensordict() -> None:
    record = Sample(torch.zeros(3), batch_size=[3])
    assert assert_close(record, record.to_tensordict())


def test_the_error_names_the_nested_key_the_message_and_how_far_apart() -> None:
    data = nested()
    other = data.clone()
    other["b", "c"] += 0.5
    with pytest.raises(AssertionError, match=r"key \('p', 'b', 'c'\).*0\.5000 \(here\)"):
        assert_close(other, data, msg="here", prefix="p")


@pytest.mark.parametrize(
    "other",
    [torch.zeros(3, dtype=torch.float64), torch.zeros(4), torch.zeros(3, device="meta"), {"x": torch.zeros(3)}],
    ids=["dtype", "shape", "device", "kind"],
)
def test_other_forms_are_not_close(other: Any) -> None:
    with pytest.raises(AssertionError, match="'a'"):
        assert_close(TensorDict({"a": torch.zeros(3)}), TensorDict({"a": other}))


@pytest.mark.parametrize("a, b", [("a", "ab"), ("ab", "a")])
def test_other_keys_are_an_error_unless_the_common_ones_are_asked_for(a: str, b: str) -> None:
    first, second = (TensorDict({key: torch.zeros(3) for key in keys}) for keys in (a, b))
    with pytest.raises(KeyError, match="'b'"):
        assert_close(first, second)
    assert assert_close(first, second, intersection=True)
