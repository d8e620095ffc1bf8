"""Text: comparison with other values, and errors."""

from __future__ import annotations

import io
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tensorclass import NonTensorStack, Ragged, TensorDict, Text, assert_close


@pytest.mark.parametrize("name", ["eq", "ne"])
def test_methods_of_comparison_name_what_cannot_be_compared(name: str) -> None:
    with pytest.raises(TypeError, match=r"expected a string, a Text, strings or None .* got a int"):
        getattr(Text(["a", "b"]), name)(3)


def test_operators_of_comparison_leave_other_objects_to_them() -> None:
    text = Text(["a", "b"])
    other = object()
    assert (text == other) is False
    assert (text != other) is True


@pytest.mark.parametrize("number", [3, 1.5, torch.tensor([1, 2])], ids=repr)
def test_no_text_equals_a_number(number: Any) -> None:
    data = TensorDict({"x": torch.tensor([3, 4]), "below": {"text": Text(["3", "b"])}}, [2])
    assert (data == number)["below", "text"].tolist() == [False, False]
    assert (data != number)["below", "text"].tolist() == [True, True]


@pytest.mark.parametrize(
    "read",
    [
        lambda data: data.to_dict(),
        lambda data: data.numpy(),
        lambda data: data.to_struct_array(),
        lambda data: data.to_pandas(separator="."),
        lambda data: data.to_json(io.BytesIO()),
    ],
    ids=["to_dict", "numpy", "to_struct_array", "to_pandas", "to_json"],
)
def test_bytes_that_are_not_utf8_are_reported_with_key_and_row(read: Callable[[TensorDict], object]) -> None:
    broken = Text._of(torch.tensor([97, 195], dtype=torch.uint8), torch.tensor([[0, 1], [1, 1]]))
    with pytest.raises(ValueError, match=r"^inner\.text: row 1: the bytes are not UTF-8") as caught:
        read(TensorDict({"inner": {"text": broken}}, [2]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ValueError, match=r"^Text: row 1: the bytes are not UTF-8"):
        broken[1]


REDUCTIONS = ["sum", "nansum", "mean", "nanmean", "prod", "std", "var", "amax", "amin", "max", "min", "logsumexp"]


@pytest.mark.parametrize("name", [*REDUCTIONS, "all", "any"])
def test_a_reduction_of_a_collection_keeps_the_first_row_of_text(name: str) -> None:
    data = TensorDict({"x": torch.rand(2, 3, 4), "text": Text([["a", "b", "c"], ["d", "e", "f"]])}, [2, 3])
    for dim, keepdim, expected in (
        (0, False, ["a", "b", "c"]),
        (1, False, ["a", "d"]),
        ((0, 1), False, "a"),
        (0, True, [["a", "b", "c"]]),
        (1, True, [["a"], ["d"]]),
        ("feature", False, data["text"].tolist()),
    ):
        options: dict[str, Any] = {"return_indices": False} if name in ("max", "min") else {}
        reduced = getattr(data, name)(dim, keepdim, **options)
        assert reduced["text"].tolist() == expected
        assert reduced["text"].batch_size == reduced.batch_size
    if name not in ("all", "any"):
        assert getattr(data, name)()["text"].tolist() == "a"


def test_a_reduction_of_no_rows_of_text_has_no_string() -> None:
    data = TensorDict({"x": torch.rand(0, 2), "text": Text.from_list([]).reshape(0, 1).expand(0, 2)}, [0, 2])
    assert data.sum(0)["text"].tolist() == [None, None]


@pytest.mark.parametrize("name", ["max", "cummax"])
def test_values_and_indices_of_a_collection_with_text(name: str) -> None:
    values, indices = getattr(TensorDict({"x": torch.tensor([1.0, 2.0]), "text": Text(["a", "b"])}, [2]), name)(0)
    assert values["text"].tolist() == indices["text"].tolist() == ("a" if name == "max" else ["a", "b"])


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "softmax"])
def test_operations_along_a_dimension_leave_text_as_it_is(name: str) -> None:
    data = TensorDict({"x": torch.rand(2), "text": Text(["a", "b"])}, [2])
    assert getattr(data, name)(0)["text"].tolist() == ["a", "b"]


@pytest.mark.parametrize("name", ["startswith", "endswith", "contains"])
def test_searches_take_strings(name: str) -> None:
    search = getattr(Text(["a", None, ""]), name)
    assert search("\ud800").tolist() == [False, False, False]
    assert search("").tolist() == [True, False, True]
    for wrong in (None, ("a", "b"), b"a", 3):
        with pytest.raises(TypeError, match=f"{name}: expected a string, got a {type(wrong).__name__}"):
            search(wrong)


@pytest.mark.parametrize("count", [1, 40])
def test_isin_takes_strings(count: int) -> None:
    with pytest.raises(TypeError, match="isin: expected a string, got a int"):
        Text(["a"]).isin([*["b"] * count, 3])


@pytest.mark.parametrize("operation", [operator.add, operator.mul, operator.lt, operator.ge])
def test_strings_have_no_arithmetic_or_order_with_text(operation: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"compared with strings by == and !=; map\(\) changes"):
        operation(Text(["a"]), "b")


def test_text_has_no_keys() -> None:
    with pytest.raises(KeyError, match="key 'a' not found: a Text has no keys"):
        Text(["a"])["a"]


def test_assert_close_compares_text() -> None:
    first = TensorDict({"below": {"text": Text(["a", None, "c"])}}, [3])
    assert assert_close(first, first.clone())
    for other, message in (
        (Text(["a", None, "d"]), "the texts of row 2 differ: 'c' and 'd'"),
        (Text(["a", "", "c"]), "the texts of row 1 differ: None and ''"),
        (Ragged([[1], [2], [3]]), "one is a Text, the other a Ragged"),
        (Text([["a"], [None], ["c"]]), r"the batch sizes are \[3\] and \[3, 1\]"),
    ):
        with pytest.raises(AssertionError, match=rf"key \('below', 'text'\) does not match\n{message}"):
            assert_close(first, TensorDict({"below": {"text": other}}, [3]))


@pytest.mark.parametrize("pads", [[0, 1], [1, 0], [-1, 2], [1, 0, 0, 1]], ids=str)
def test_padding_adds_rows_at_the_dimensions_that_it_names(pads: list[int]) -> None:
    strings = np.array([["a", "b"], ["c", "d"], ["e", "f"]], dtype=object)
    lengths = [[[1], [2, 2]], [[], [3]], [[4], []]]
    rows = Ragged.from_list([row for pair in lengths for row in pair]).reshape(3, 2)
    data = TensorDict({"text": Text(strings), "rows": rows, "x": torch.ones(3, 2)}, [3] if len(pads) == 2 else [3, 2])
    padded = data.pad(pads)
    before, after = pads[0], pads[1]
    widths = [(max(before, 0), max(after, 0)), (pads[2], pads[3]) if len(pads) > 2 else (0, 0)]
    kept = strings[max(-before, 0) :]
    assert padded["text"].tolist() == np.pad(kept, widths, constant_values=None).tolist()  # type: ignore[call-overload]
    assert padded["rows"].lengths.shape == padded["x"].shape
    assert (padded["rows"].lengths[padded["x"] == 0] == 0).all()
    assert not padded["rows"].missing.any()


def test_rows_of_text_are_written_from_stacks_of_strings() -> None:
    data = TensorDict({"below": {"text": Text(["a", "b", "c"])}}, [3])
    data[:2] = TensorDict({"below": {"text": ["x", "y"]}}, [2])
    assert data["below", "text"].tolist() == ["x", "y", "c"]
    data.get_sub_tensordict(torch.tensor([2, 0]))["below", "text"] = ["p", None]
    assert data["below", "text"].tolist() == [None, "y", "p"]
    with data.unsqueeze(0) as more:
        more["below", "text"] = [["1", "2", "3"]]
    assert type(data["below", "text"]) is Text
    assert data["below", "text"].tolist() == ["1", "2", "3"]
    with pytest.raises(TypeError, match=r"below\.text: Text: row 1: expected a string .* nothing was written"):
        data[:2] = TensorDict({"below": {"text": NonTensorStack("x", 3)}}, [2])
    assert data["below", "text"].tolist() == ["1", "2", "3"]


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_leaves_of_two_kinds_are_named_where_they_are_joined(join: Callable[[Any], Any]) -> None:
    one, other = TensorDict({"t": NonTensorStack("a")}, [1]), TensorDict({"t": Text(["a"])}, [1])
    with pytest.raises(RuntimeError, match=r"t: item 0 is a NonTensorStack, item 1 a Text"):
        join([one, other])
