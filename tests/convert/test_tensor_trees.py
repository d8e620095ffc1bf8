"""Trees of tensors are converted in one pass; the result is what the steps for all other objects would give."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.convert import tensor_trees
from tensorclass.convert.conversion_errors import ConversionError

Pair = namedtuple("Pair", ["a", "b"])


class Inner(TensorClass):
    a: Tensor
    b: Tensor


class Outer(TensorClass):
    inner: Inner
    extra: TensorDict
    x: Tensor


class Checked(TensorClass):
    x: Tensor

    def __post_init__(self) -> None:
        if self.x.sum() > 100:
            raise ValueError("x: too large")


def _pair(rows: int = 3) -> dict[str, Tensor]:
    return {"a": torch.arange(rows), "b": torch.ones(rows, 2)}


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one.batch_size == other.batch_size and bool((one == other).all())


def test_named_tuples_below_dicts_and_tuples_become_collections() -> None:
    source = Pair(Pair(**_pair()), {"c": (torch.zeros(3), torch.ones(3))})
    made = TensorDict.from_namedtuple(source, batch_size=3)
    expected = TensorDict({"a": _pair(), "b": {"c": {"0": torch.zeros(3), "1": torch.ones(3)}}}, [3])
    assert _same(made, expected)
    assert made["b", "c"].batch_size == (3,)


def test_nested_dicts_become_the_classes_of_the_fields() -> None:
    made = Outer.from_dict({"inner": _pair(), "extra": {"deep": _pair()}, "x": torch.zeros(3)}, batch_size=[3])
    assert type(made.inner) is Inner
    assert type(made.extra) is TensorDict
    assert made.inner.batch_size == made.extra["deep"].batch_size == (3,)
    assert list(made.keys()) == ["inner", "extra", "x"]


def test_mistakes_in_nested_dicts_are_all_told_with_their_paths() -> None:
    wrong = {"inner": _pair(2), "extra": {"deep": _pair(2)}, "x": torch.zeros(3)}
    with pytest.raises(ConversionError, match=r"(?s)inner\.a.*inner\.b.*extra\.deep"):
        Outer.from_dict(wrong, batch_size=[3])


def test_an_error_of_post_init_comes_through() -> None:
    with pytest.raises(ValueError, match="x: too large"):
        Checked.from_dict({"x": torch.full((3,), 100.0)}, batch_size=[3])


def test_rows_are_stacked_key_by_key() -> None:
    rows = [{"a": torch.tensor(i), "b": {"c": torch.full((2,), i)}} for i in range(4)]
    made = TensorDict.from_list(rows)
    assert _same(made, TensorDict.from_list(rows, lazy=True).contiguous())
    assert made["b"].batch_size == (4,)
    assert TensorDict.from_list([{"c": torch.zeros(3)}] * 4, batch_size=[4, 3]).batch_size == (4, 3)


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": torch.zeros(2)}, {"a": torch.zeros(3)}],
        [{"a": torch.zeros(2)}, {"b": torch.zeros(2)}],
        [{"a": torch.zeros(2)}, {"a": 1.0}],
        [{("a", "b"): torch.zeros(2)}] * 2,
        [Pair(1, 2)] * 2,
    ],
    ids=["shapes", "keys", "numbers", "nested keys", "other rows"],
)
def test_other_rows_are_left_to_the_general_steps(rows: list[Any]) -> None:
    assert tensor_trees.of_rows(rows, torch.Size([len(rows)])) is None
    assert len(TensorDict.from_list(rows)) == 2


def test_fields_of_an_array_are_on_its_memory_whatever_its_dtype_object() -> None:
    for _ in range(2):
        array = np.zeros(3, [("a", "f4"), ("b", "i4", (2,)), ("c", "u1")])
        made = TensorDict.from_struct_array(array)
        made["b"][1] = 5
        assert array["b"][1].tolist() == [5, 5]
        assert (made.batch_size, made["b"].shape) == ((3,), (3, 2))
