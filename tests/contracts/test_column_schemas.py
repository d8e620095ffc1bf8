"""Schemas of records with columns, and records with columns that hypothesis draws."""

import enum
from typing import Annotated, Literal

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tensorclass import Column, DType, Ragged, Range, Shape, TensorClass, Text
from tensorclass.testing import records


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Question(TensorClass):
    """Columns of all kinds."""

    prompt: Text
    tokens: Ragged[Int[Tensor, "n"]]
    mask: Ragged[Bool[Tensor, "n"]] | None
    boxes: Ragged[Annotated[Tensor, Shape("_ k"), DType("float32"), Range(0, 1)]]
    words: Ragged[Ragged[Int[Tensor, "3"]]]
    tags: Column[list[str]]
    answer: Column[Literal["yes", "no"]]
    colour: Column[Colour]
    head: Float[Tensor, "k"]
    note: Text | None = None


def test_the_plain_schema() -> None:
    fields = Question.schema()["fields"]
    kinds = {
        name: {key: field[key] for key in ("row", "item", "ragged_dims") if key in field}
        for name, field in fields.items()
    }
    assert kinds == {
        "prompt": {},
        "tokens": {"row": {"shape": "n", "dtype": ["int"]}},
        "mask": {"row": {"shape": "n", "dtype": ["bool"]}},
        "boxes": {"row": {"shape": "_ k", "dtype": ["float32"], "low": 0, "high": 1}},
        "words": {"row": {"shape": "3", "dtype": ["int"]}, "ragged_dims": 2},
        "tags": {"item": "list[str]"},
        "answer": {"item": "typing.Literal['yes', 'no']"},
        "colour": {"item": "Colour"},
        "head": {},
        "note": {},
    }  # fmt: skip
    assert (fields["tokens"]["kind"], fields["note"]["optional"]) == ("column", True)


def test_the_json_schema_of_a_batch() -> None:
    properties = Question.json_schema(batch_dims=1)["properties"]
    integers = {"type": "array", "items": {"type": "integer"}, "title": "n"}
    number = {"type": "number", "minimum": 0, "maximum": 1}
    assert properties["prompt"] == {"type": "array", "items": {"type": "string"}}
    assert properties["tokens"] == {"type": "array", "items": integers}
    boxes = {"type": "array", "items": {"type": "array", "items": number, "title": "k"}}
    assert properties["boxes"] == {"type": "array", "items": boxes}
    three = {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3}
    assert properties["words"] == {"type": "array", "items": {"type": "array", "items": three}}
    assert properties["tags"] == {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}
    assert properties["answer"] == {"type": "array", "items": {"enum": ["yes", "no"]}}
    assert properties["colour"] == {"type": "array", "items": {}}
    assert properties["note"] == {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}


def test_the_json_schema_of_a_row() -> None:
    assert Question.json_schema()["properties"]["prompt"] == {"type": "string"}
    assert Question.json_schema()["properties"]["tokens"]["items"] == {"type": "integer"}


@settings(max_examples=15)
@given(records(Question))
def test_drawn_records_keep_their_contracts(drawn: Question) -> None:
    drawn.validate()
    assert drawn.prompt.batch_size == drawn.tokens.batch_size == drawn.tags.batch_size == drawn.batch_size
    assert not drawn.prompt.missing.any()


def test_rows_of_an_optional_field_are_sometimes_missing() -> None:
    def has_missing(drawn: Question) -> bool:
        return drawn.mask is not None and drawn.note is not None and bool(drawn.mask.missing.any())

    search = settings(max_examples=2000, phases=[Phase.generate])  # the first one found will do
    found = find(records(Question, batch_size=[2]), has_missing, settings=search)
    assert found.batch_size == (2,)


@settings(max_examples=10)
@given(records(Question, batch_size=[3], n=2, k=st.integers(1, 2)))
def test_sizes_that_are_given(drawn: Question) -> None:
    assert drawn.tokens.lengths.tolist() == [2, 2, 2]
    assert drawn.boxes.item_shape == drawn.head.shape[1:]


@settings(max_examples=5)
@given(records(Question, batch_size=[2], prompt=["a", "b"], tags=st.just([["u"], []])))
def test_fields_that_are_given(drawn: Question) -> None:
    assert (drawn.prompt.tolist(), drawn.tags.tolist()) == (["a", "b"], [["u"], []])


def test_objects_that_cannot_be_drawn() -> None:
    class Opaque:
        def __init__(self, value): ...  # type: ignore[no-untyped-def]

    class Holder(TensorClass):
        held: Column[Opaque]

    with pytest.raises(TypeError, match=r"records\(Holder\): nothing says how to draw held"):
        find(records(Holder, batch_size=[1]), lambda drawn: True)
