"""Contracts of the rows of ragged fields: dtype, item shape, range, and lengths that are equal row by row."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tensorclass import (
    Column,
    ContractError,
    DType,
    Ragged,
    Range,
    Shape,
    TensorClass,
    TensorDict,
    Text,
    tensorclass,
    validation,
)


class Question(TensorClass):
    """Two fields of one length, one of a shorter length, others of their own."""

    tokens: Ragged[Int[Tensor, "n"]]
    mask: Ragged[Bool[Tensor, "n"]] | None = None
    steps: Ragged[Int[Tensor, "n-1"]] | None = None
    boxes: Ragged[Float[Tensor, "m 3"]] | None = None
    ids: Ragged[Annotated[Tensor, Shape("k"), DType("int64"), Range(0, 50)]] | None = None


class Deep(TensorClass):
    """Rows of rows."""

    words: Ragged[Ragged[Int[Tensor, "n"]]]
    weights: Ragged[Ragged[Float[Tensor, "n"]]] | None = None


class Fixed(TensorClass):
    """The name of a length that is a dimension of a tensor, too; a dimension of items that is one of a tensor."""

    weight: Float[Tensor, "n"]
    rows: Ragged[Int[Tensor, "n h"]]
    head: Float[Tensor, "h"] | None = None


def tokens_and_mask() -> Question:
    return Question(tokens=[[1], [2, 3]], mask=[[True], [False, True]])


def test_rows_that_keep_their_contracts() -> None:
    made = Question(
        tokens=[[1], [2, 3], []],
        mask=[[True], [False, True], []],
        boxes=[torch.zeros(2, 3), torch.zeros(0, 3), torch.zeros(1, 3)],
        ids=[[50], [0, 1, 2], []],
    )
    assert made.batch_size == (3,)
    assert Question(tokens=[[1], [2, 3]], steps=[[], [4]]).steps is not None


def test_lengths_are_equal_in_every_row() -> None:
    with pytest.raises(ContractError, match=r"Question\.mask: .*row 1: n is 2 in the field tokens, but 1 here"):
        Question(tokens=[[1], [2, 3]], mask=[[True], [False]])


def test_one_error_lists_all_fields() -> None:
    with pytest.raises(ContractError) as caught:
        Question(
            tokens=[[1.0], [2.0, 3.0]],
            mask=[[True], [False]],
            boxes=[torch.zeros(1, 2), torch.zeros(2, 2)],
            ids=[[3], [60]],
        )
    told = {problem.path[0]: problem.why for problem in caught.value.broken}
    assert told == {
        "tokens": "the dtype float32 is not int; cast the tensor with .to(dtype)",
        "mask": "row 1: n is 2 in the field tokens, but 1 here",
        "boxes": "dimension 2 must be 3, it is 2",
        "ids": "row 1: the largest element is 60, above 50",
    }


WRITES: dict[str, Callable[[Question], Any]] = {
    "constructor": lambda old: Question(tokens=[[1], [2]], mask=old.mask),
    "attribute": lambda old: setattr(old, "tokens", [[1], [2]]),
    "set": lambda old: old.set("tokens", Ragged([[1], [2]])),
    "update": lambda old: old.update({"tokens": [[1], [2]]}),
    "replace": lambda old: old.replace(tokens=[[1], [2]]),
    "from_dict": lambda old: Question.from_dict({"tokens": [[1], [2]], "mask": old.mask}, batch_size=[2]),
    "from_list": lambda old: Question.from_list([{"tokens": [1], "mask": [True]}, {"tokens": [1], "mask": [True] * 2}]),
}


@pytest.mark.parametrize("way", WRITES)
def test_lengths_are_compared_where_data_enters(way: str) -> None:
    old = tokens_and_mask()
    with pytest.raises(ContractError, match=r"row.*: n is"):
        WRITES[way](old)
    assert old.tokens.tolist() == [[1], [2, 3]]
    with validation(False):
        WRITES[way](old)


def test_fields_that_change_together() -> None:
    old = tokens_and_mask().update({"tokens": [[1, 2], [3]], "mask": [[True, True], [False]]})
    assert old.tokens.lengths.tolist() == [2, 1]


def test_operations_do_not_check() -> None:
    made = Question.unchecked(tokens=[[1], [2, 3]], mask=[[True], [False]])
    assert torch.stack([made, made])[0][1:].clone().tokens.tolist() == [[2, 3]]
    with pytest.raises(ContractError, match="row 1"):
        made.validate()


def test_a_class_that_does_not_check() -> None:
    @tensorclass(validate=False)
    class Loose:
        tokens: Ragged[Int[Tensor, "n"]]
        mask: Ragged[Bool[Tensor, "n"]]

    assert Loose(tokens=[[1]], mask=[[True, True]]).batch_size == (1,)


def test_a_row_without_a_value_has_no_length() -> None:
    assert Question(tokens=[[1], [2, 3]], mask=[None, [True, False]]).mask is not None
    with pytest.raises(ContractError, match="row 1"):
        Question(tokens=[[1], [2, 3]], mask=[None, [True]])


def test_a_length_that_follows_from_another() -> None:
    with pytest.raises(
        ContractError,
        match=r"row 1: its length must be n-1, which is 1 with n = 2 \(in the field tokens\); it is 2",
    ):
        Question(tokens=[[1], [2, 3]], steps=[[], [1, 2]])


def test_the_length_of_rows_of_rows() -> None:
    words = [[[1], [2, 3]], [[4]]]
    assert Deep(words=words, weights=[[[1.0], [2.0, 3.0]], [[4.0]]]).words.ragged_dims == 2
    with pytest.raises(ContractError, match=r"row \[0, 1\]: n is 2 in the field words, but 1 here"):
        Deep(words=words, weights=[[[1.0], [2.0]], [[4.0]]])
    with pytest.raises(ContractError, match=r"row 0: the number of rows in it is 2 in the field words, but 1 here"):
        Deep(words=words, weights=[[[1.0]], [[4.0]]])
    with pytest.raises(ContractError, match=r"2 of its dimensions must be ragged, here are 1"):
        Deep(words=Ragged([[1], [2]]))


def test_a_name_with_one_size_is_the_length_of_every_row() -> None:
    rows = [torch.zeros(3, 4, dtype=torch.int64)] * 2
    made = Fixed(weight=torch.zeros(2, 3), rows=rows, head=torch.zeros(2, 4))
    assert made.batch_size == (2,)
    with pytest.raises(ContractError, match=r"rows: .*row 0: its length must be 3: n in the field weight; it is 2"):
        Fixed(weight=torch.zeros(2, 3), rows=[row[:2] for row in rows])
    with pytest.raises(ContractError, match=r"weight: .*in the field rows, row 0: its length must be 2"):
        made.weight = torch.zeros(2, 2)
    with pytest.raises(ContractError, match=r"head: .*h is 4 \(in the field rows\), but dimension 1 is 5"):
        made.head = torch.zeros(2, 5)


def test_rows_of_a_fixed_length() -> None:
    @tensorclass
    class Triples:
        rows: Ragged[Int[Tensor, "3"]]

    with pytest.raises(ContractError, match=r"row 1: its length must be 3; it is 2"):
        Triples(rows=[[1, 2, 3], [1, 2]])


def test_a_length_of_one_where_it_broadcasts() -> None:
    @tensorclass
    class Scaled:
        scale: Ragged[Int[Tensor, "#n"]]
        rows: Ragged[Int[Tensor, "n"]]

    assert Scaled(scale=[[1], [1, 2]], rows=[[1, 2, 3], [1, 2]]).batch_size == (2,)
    with pytest.raises(ContractError, match=r"row 1: n is 3 in the field scale, but 2 here"):
        Scaled(scale=[[1], [1, 2, 3]], rows=[[1, 2, 3], [1, 2]])


def test_one_of_several_contracts() -> None:
    @tensorclass
    class Either:
        rows: Ragged[Int[Tensor, "n"] | Float[Tensor, "n 2"]]
        mask: Ragged[Bool[Tensor, "n"]]

    mask = [[True], [True, False]]
    assert Either(rows=[[1], [2, 3]], mask=mask).batch_size == (2,)
    assert Either(rows=[torch.zeros(1, 2), torch.zeros(2, 2)], mask=mask).batch_size == (2,)
    with pytest.raises(ContractError, match=r'Ragged\[Int\[Tensor, "n"\]\] or Ragged\[Float\[Tensor, "n 2"\]\]'):
        Either(rows=[[1.0], [2.0, 3.0]], mask=mask)
    with pytest.raises(ContractError, match="row 0: n is 2"):
        Either(rows=[torch.zeros(2, 2), torch.zeros(2, 2)], mask=mask)


def test_rows_without_items_have_the_dtype_of_the_contract() -> None:
    made = Question(tokens=[[], []], mask=[[], []])
    assert (made.tokens.dtype, made.batch_size) == (torch.int64, (2,))
    assert made.mask is not None
    assert made.mask.dtype is torch.bool


def test_rows_without_a_contract() -> None:
    @tensorclass
    class Plain:
        a: Ragged
        b: Ragged[Any]
        c: Ragged[Tensor] | None = None

    assert Plain(a=[[1], [2.0, 3.0]], b=[[True], []]).batch_size == (2,)
    assert Plain._checks is None


def test_the_item_shape_tells_a_row_from_rows() -> None:
    @tensorclass
    class Boxes:
        boxes: Ragged[Float[Tensor, "n 2"]]

    assert Boxes(boxes=[[0.0, 1.0], [2.0, 3.0]]).batch_size == ()
    assert Boxes(boxes=[[[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0]]]).batch_size == (2,)


def test_several_batch_dimensions() -> None:
    tokens = Ragged([[1], [2, 3]]).reshape(2, 1)
    with pytest.raises(ContractError, match=r"row \[1, 0\]: n is 2 in the field tokens, but 1 here"):
        Question(tokens=tokens, mask=Ragged([[True], [False]]).reshape(2, 1), batch_size=[2, 1])
    with pytest.raises(ContractError, match=r"tokens: .*batch size \[2, 1\].*a row has 1 dimension, it has 2 here"):
        Question(tokens=tokens, batch_size=[2])


def test_a_range_reads_the_rows_and_not_the_rest_of_the_buffer() -> None:
    ids = Ragged([[1], [99], [2]])[[0, 2]]
    assert Question(tokens=[[1], [2]], ids=ids).ids is not None


def test_compiled_code_checks_nothing() -> None:
    made = Question.unchecked(tokens=[[1], [2, 3]], mask=[[True], [False]])

    @torch.compile(backend="eager")
    def rebuilt(tokens: Any, mask: Any) -> Any:
        return Question(tokens=tokens, mask=mask, batch_size=[2])

    assert rebuilt(made.tokens, made.mask).mask.lengths.tolist() == [1, 1]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "contract of a text": ({"a": Annotated[Text, Shape("2")]}, "the contract of a column is one of its rows"),
    "contract of objects": ({"a": Column[Annotated[int, Range(0, 3)]]}, "declare the field as Ragged"),
    "rows of numbers": ({"a": Ragged[int]}, "the annotation of a row is a tensor"),
    "rows without a dimension": ({"a": Ragged[Int[Tensor, ""]]}, "expected the length of a row"),
    "a length of several": ({"a": Ragged[Int[Tensor, "*n"]]}, "expected the length of a row"),
    "one size from a length": (
        {"a": Ragged[Int[Tensor, "n"]], "b": Int[Tensor, "n+1"]},
        r"A\.b: the dimension 'n\+1' has one size, and n is a length that each row of the field a has",
    ),
    "two depths": (
        {"a": Ragged[Int[Tensor, "n"]], "b": Ragged[Ragged[Int[Tensor, "n"]]]},
        "n is the length of rows 2 ragged dimensions deep, and in the field a 1 deep",
    ),
    "an unknown name": ({"a": Ragged[Int[Tensor, "m+1"]]}, "no field of the class has"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_declarations_without_a_meaning(mistake: str) -> None:
    annotations, message = WRONG[mistake]
    with pytest.raises((TypeError, ValueError), match=message):
        type("A", (TensorClass,), {"__annotations__": annotations})


def test_a_nested_record_is_listed_below_its_field() -> None:
    @tensorclass
    class Outer:
        question: Question
        label: Int[Tensor, ""]

    with pytest.raises(ContractError) as caught:
        Outer(
            question=TensorDict({"tokens": Ragged([[1], [2]]), "mask": Ragged([[True], []], dtype=torch.bool)}, [2]),
            label=torch.zeros(2),
        )
    assert [problem.path for problem in caught.value.broken] == [("question", "mask"), ("label",)]


rows = st.lists(st.one_of(st.none(), st.lists(st.integers(0, 1), max_size=3)), min_size=1, max_size=4)


@given(rows, st.data())
def test_lengths_against_lists(first: list[Any], data: st.DataObject) -> None:
    second = [
        row if data.draw(st.booleans()) else data.draw(st.one_of(st.none(), st.lists(st.just(0), max_size=3)))
        for row in first
    ]
    order = data.draw(st.permutations(range(len(first))))
    tokens = Ragged([first[at] for at in order], dtype=torch.int64)[torch.tensor([order.index(i) for i in order])]
    tokens = Ragged(first, dtype=torch.int64) if data.draw(st.booleans()) else tokens
    listed = tokens.tolist()
    equal = all(a is None or b is None or len(a) == len(b) for a, b in zip(listed, second, strict=True))

    @tensorclass
    class Pair:
        tokens: Ragged[Int[Tensor, "n"]] | None
        mask: Ragged[Bool[Tensor, "n"]] | None

    mask = Ragged(second, dtype=torch.bool)
    if equal:
        assert Pair(tokens=tokens, mask=mask).batch_size == (len(first),)
    else:
        wrong = next(
            i for i, (a, b) in enumerate(zip(listed, second, strict=True)) if None not in (a, b) and len(a) != len(b)
        )
        with pytest.raises(ContractError, match=f"row {wrong}: n is {len(listed[wrong])} .*, but {len(second[wrong])}"):
            Pair(tokens=tokens, mask=mask)


@pytest.mark.parametrize("rows", [[[], []], [[], None], []], ids=repr)
def test_rows_without_items_get_the_declared_item_shape(rows: list[Any]) -> None:
    class Boxed(TensorClass):
        boxes: Ragged[Float[Tensor, "n 2 3"]] | None
        deep: Ragged[Ragged[Int[Tensor, "m 4"]]] | None = None

    record = Boxed(boxes=rows, deep=[[[]] if row is not None else None for row in rows], batch_size=[len(rows)])
    assert record.boxes is not None
    assert record.deep is not None
    assert (record.boxes.item_shape, record.boxes.dtype) == ((2, 3), torch.float32)
    assert (record.deep.item_shape, record.deep.dtype) == ((4,), torch.int64)
    assert torch.cat([record, record]).boxes.tolist() == [*rows, *rows]
