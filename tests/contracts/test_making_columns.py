"""Records with columns from their declarations: zeros, ones, empty, random."""

import enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tensorclass import Column, Ragged, Range, Shape, TensorClass, Text


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Question(TensorClass):
    """Columns of all kinds."""

    prompt: Text
    tokens: Ragged[Int[Tensor, "n"]]
    mask: Ragged[Bool[Tensor, "n"]]
    steps: Ragged[Int[Tensor, "n-1"]]
    boxes: Ragged[Annotated[Tensor, Shape("m k"), Range(0, 1)]]
    head: Float[Tensor, "k"]
    words: Ragged[Ragged[Int[Tensor, "d"]]]
    weights: Ragged[Ragged[Float[Tensor, "d"]]]
    plain: Ragged
    tags: Column[list[str]]
    count: Column[int]
    note: Text | None = None


class Objects(TensorClass):
    """Objects that can be drawn."""

    colour: Column[Colour]
    answer: Column[Literal["yes", "no"]]
    counts: Column[dict[str, int] | None]
    pair: Column[tuple[str, float]]


class Path_(TensorClass):
    """Objects that nothing is known of."""

    path: Column[Path]


@pytest.mark.parametrize("method", ["zeros", "ones", "empty"])
@pytest.mark.parametrize("size", [(), (0,), (3,), (2, 2)], ids=str)
def test_lengths_are_given_by_name(method: str, size: tuple[int, ...]) -> None:
    made = getattr(Question, method)(size, n=2, m=1, k=3, d=2)
    assert made.batch_size == size
    assert made.tokens.lengths.tolist() == torch.full(size, 2).tolist()
    assert made.steps.lengths.tolist() == torch.full(size, 1).tolist()
    assert made.plain.lengths.tolist() == torch.full(size, 1).tolist()
    assert (made.boxes.item_shape, made.mask.dtype) == ((3,), torch.bool)
    assert made.note is None
    if method != "empty":  # whose elements can be anything
        made.validate()


def test_zeros_and_ones() -> None:
    zeros, ones = Question.zeros(2, n=2, m=1, k=1, d=1), Question.ones(2, n=2, m=1, k=1, d=1)
    assert (zeros.tokens.tolist(), ones.tokens.tolist()) == ([[0, 0], [0, 0]], [[1, 1], [1, 1]])
    assert (zeros.prompt.tolist(), zeros.tags.tolist(), zeros.count.tolist()) == (["", ""], [[], []], [0, 0])
    assert zeros.words.tolist() == [[[0]], [[0]]]


def test_a_length_for_each_row() -> None:
    made = Question.zeros(2, n=[1, 3], m=0, k=1, d=1)
    assert (made.tokens.lengths.tolist(), made.steps.lengths.tolist()) == ([1, 3], [0, 2])
    with pytest.raises(ValueError, match=r"Question\.zeros: the lengths of n: expected one number, or 2, got 3"):
        Question.zeros(2, n=[1, 2, 3], m=0, k=1, d=1)
    with pytest.raises(TypeError, match="the size of n is a whole number"):
        Question.zeros(2, n=[1, -2], m=0, k=1, d=1)


def test_lengths_that_are_not_given() -> None:
    with pytest.raises(TypeError, match=r"the sizes of the dimensions n, m, d are not given"):
        Question.zeros(2, k=1)
    with pytest.raises(TypeError, match=r"the sizes of the dimensions k, n, m, d are not given"):
        Question.zeros(2)
    with pytest.raises(ValueError, match=r"steps: the length n-1 is -1 with the given sizes"):
        Question.zeros(2, n=0, m=0, k=1, d=1)
    with pytest.raises(TypeError, match="no field that is made has the dimensions q"):
        Question.zeros(2, n=1, m=0, k=1, d=1, q=3)


def test_random_lengths() -> None:
    made = Question.random(50, k=2, seed=0).validate()
    assert made.tokens.lengths.tolist() == made.mask.lengths.tolist() == (made.steps.lengths + 1).tolist()
    assert made.words.lengths.tolist() == made.weights.lengths.tolist()
    assert len({*made.tokens.lengths.tolist()}) > 3
    assert made.boxes.min().min() >= 0
    assert all(1 <= len(prompt) <= 8 for prompt in made.prompt)
    assert {type(tag) for tags in made.tags for tag in tags} == {str}
    again = Question.random(50, k=2, seed=0)
    assert (again.tags.tolist(), again.tokens.tolist()) == (made.tags.tolist(), made.tokens.tolist())
    assert Question.random(2, k=2, n=4).tokens.lengths.tolist() == [4, 4]
    generator = torch.Generator().manual_seed(1)
    assert len({*Question.random(8, k=1, generator=generator).prompt.tolist()}) > 1


def test_random_objects() -> None:
    made = Objects.random(30, seed=0)
    assert {*made.colour.tolist()} == {*Colour}
    assert {*made.answer.tolist()} == {"yes", "no"}
    assert {type(counts) for counts in made.counts.tolist()} == {dict, type(None)}
    assert all(isinstance(name, str) and 0 <= share <= 1 for name, share in made.pair.tolist())


def test_objects_that_nothing_says_how_to_make() -> None:
    with pytest.raises(TypeError, match=r"Path_\.random: nothing says what to put into path"):
        Path_.random(2)
    with pytest.raises(TypeError, match=r"nothing says what to put into colour .*, answer"):
        Objects.zeros(2)


def test_a_device_holds_for_columns() -> None:
    made = Question.zeros(2, n=1, m=1, k=1, d=1, device="meta")
    assert {made.tokens.device.type, made.words.device.type, made.head.device.type} == {"meta"}


def test_a_nested_record_has_sizes_of_its_own() -> None:
    class Outer(TensorClass):
        tokens: Ragged[Int[Tensor, "n"]]
        inner: Inner

    made = Outer.zeros(2, n=2, inner={"n": 3})
    assert (made.tokens.lengths.tolist(), made.inner.tokens.lengths.tolist()) == ([2, 2], [3, 3])


class Inner(TensorClass):
    tokens: Ragged[Int[Tensor, "n"]]
