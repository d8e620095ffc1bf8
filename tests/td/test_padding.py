"""Padding: compared with torch on the tensors; on records and lazy stacks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import Column, NonTensorStack, TensorClass, TensorDict, lazy_stack, pad, pad_sequence, unpad_sequence
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged, mixed


class Sample(TensorClass):
    tokens: Tensor
    text: str = "a"


def rows(*lengths: int) -> list[TensorDict]:
    return [
        TensorDict({"a": torch.randn(n, 2), "n": {"b": torch.arange(n)}, "t": NonTensorStack(*"x" * n)}, [n])
        for n in lengths
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=2))
def test_padding_pads_every_tensor_as_torch_does(pairs: list[tuple[int, int]]) -> None:
    data = TensorDict({"a": torch.randn(2, 3, 4), "n": {"b": torch.randn(2, 3)}}, [2, 3])
    size = [number for pair in pairs for number in pair]
    result = data.pad(size, value=7)
    assert_consistent(result)
    over_batch = [number for pair in reversed([*pairs, *[(0, 0)] * (2 - len(pairs))]) for number in pair]
    assert torch.equal(result["a"], torch.nn.functional.pad(data["a"], [0, 0, *over_batch], value=7))
    assert torch.equal(result["n", "b"], torch.nn.functional.pad(data["n", "b"], over_batch, value=7))


def test_objects_are_none_in_the_padding() -> None:
    result = mixed().pad([1, 1])
    assert result["labels"] == [None, "p", "q", "r", None]
    assert result["text"] == [None, "hello", "hello", "hello", None]


def test_padding_in_place_keeps_nested_collections() -> None:
    data = TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2])
    below = data["n"]
    assert pad(data, [0, 1], inplace=True) is data
    assert data["n"] is below
    assert (data.batch_size, below.batch_size, below["b"].shape) == ((3,), (3,), (3,))


def test_cutting_off_more_than_there_is_changes_nothing() -> None:
    data = TensorDict({"a": torch.zeros(2)}, [2])
    with Unchanged(data), pytest.raises(RuntimeError, match="more"):
        data.pad([-3, 0], inplace=True)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from(["left", "right"]))
def test_unpadding_undoes_padding(lengths: list[int], side: str) -> None:
    items = [item.exclude("t") for item in rows(*[max(n, 1) for n in lengths])]
    padded = pad_sequence(items, return_mask=True, padding_side=side)
    assert_consistent(padded)
    result = unpad_sequence(padded)
    for got, item in zip(result.unbind(0), items, strict=True):
        assert_equal(got, item)


def test_sequences_are_padded_as_torch_pads_them() -> None:
    items = rows(3, 1, 2)
    expected = torch.nn.utils.rnn.pad_sequence([item["a"] for item in items], batch_first=True, padding_value=5.0)
    assert torch.equal(pad_sequence(items, padding_value=5.0)["a"], expected)


def test_records_are_padded_to_records_but_have_no_field_for_masks() -> None:
    items = [Sample(torch.ones(n), batch_size=[n]) for n in (2, 1)]
    result = pad_sequence(items)
    assert isinstance(result, Sample)
    assert result.tokens.tolist() == [[1, 1], [1, 0]]
    with pytest.raises(RuntimeError, match="no field for the masks"):
        pad_sequence(items, return_mask=True)


def test_unpadded_values_are_views() -> None:
    padded = pad_sequence(rows(3, 2), return_mask=True)
    unpad_sequence(padded).unbind(0)[1]["a"].zero_()
    assert not padded["a"][1].any()


@pytest.mark.parametrize("keys", [("a",), ("a", "n", "t", "z")])
def test_sequences_need_the_same_keys(keys: tuple[str, ...]) -> None:
    first, second = rows(2, 2)
    second["z"] = torch.zeros(2)
    with pytest.raises(RuntimeError, match="same keys"):
        pad_sequence([first, second.select(*keys)])


def test_a_lazy_stack_is_padded_as_the_dense_one() -> None:
    parts = [TensorDict({"a": torch.full((2,), float(i))}, [2]) for i in range(3)]
    assert torch.equal(lazy_stack(parts).pad([0, 1, 1, 0])["a"], torch.stack(parts).pad([0, 1, 1, 0])["a"])


def test_rows_without_an_object_need_a_column_that_takes_none() -> None:
    rows = [TensorDict({"x": torch.zeros(n), "tags": Column([["u"]] * n, list[str])}, [n]) for n in (1, 2)]
    with pytest.raises(TypeError, match=r"pad_sequence: tags: Column\[list\[str\]\]: .* \| None\]"):
        pad_sequence(rows)
    with pytest.raises(TypeError, match=r"padding adds rows without an object"):
        rows[0].pad([0, 1], inplace=True)
    assert [value.shape for value in rows[0].values()] == [(1,), (1,)]
    assert pad(rows[1], [-1, 0])["tags"].tolist() == [["u"]]
    optional = TensorDict({"tags": Column([["u"]], list[str] | None)}, [1])
    assert pad(optional, [0, 1])["tags"].tolist() == [["u"], None]
