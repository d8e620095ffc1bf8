"""Fields that are columns: what they give, what constructors and assignments take."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from records import Question
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import Column, Ragged, TensorDict, Text, cat, pad_sequence, stack


def fields(question: Question) -> None:
    assert_type(question.prompt, Text)
    assert_type(question.tokens, Ragged[Int[Tensor, "n"]])
    assert_type(question.tags, Column[list[str]])
    assert_type(question.mask, Ragged[Bool[Tensor, "n"]] | None)
    assert_type(question.note, Text | None)
    assert_type(question.answers, Column[list[str]] | None)
    assert_type(question.words, Ragged[Ragged[Tensor]] | None)
    assert_type(question.remarks, Column[list[str]])
    assert_type(question.level[0], int)
    if question.note is not None:
        assert_type(question.note, Text)
        assert_type(question.note[0], str)
    if question.mask is not None:
        assert_type(question.mask.lengths, Tensor)


def text(question: Question) -> None:
    assert_type(question.prompt[3], str)
    assert_type(question.prompt[3].upper(), str)
    assert_type(question.prompt[1:], Text)
    assert_type(question.prompt[torch.arange(2)], Text)
    for prompt in question.prompt:
        assert_type(prompt, str)
    assert_type([prompt.upper() for prompt in question.prompt], list[str])
    assert_type(question.prompt == "yes", Tensor)
    assert_type(question.prompt.startswith("y"), Tensor)
    assert_type(question.prompt.isin(["yes", "no"]), Tensor)
    assert_type(question.prompt.lengths, Tensor)
    assert_type(question.prompt.missing, Tensor)
    assert_type(question.prompt.map(str.upper), Text)
    assert_type(question[0].prompt.item(), str | None)
    assert_type(question[0].prompt, Text)


def ragged(question: Question) -> None:
    assert_type(question.tokens[3], Ragged[Int[Tensor, "n"]])
    assert_type(question.tokens[1:], Ragged[Int[Tensor, "n"]])
    assert_type(question.tokens[3].tensor(), Tensor)
    for row in question.tokens:
        assert_type(row, Ragged[Int[Tensor, "n"]])
    assert_type(question.tokens.lengths, Tensor)
    assert_type(question.tokens.dtype, torch.dtype)
    assert_type(question.tokens.to_padded().values, Tensor)
    assert_type(question.tokens.to_padded().mask, Tensor)
    assert_type(question.tokens.compact(), Ragged[Int[Tensor, "n"]])
    assert_type(question.tokens.tensors(), list[Tensor])


def objects(question: Question) -> None:
    assert_type(question.tags[1], list[str])
    assert_type(question.tags[1:], Column[list[str]])
    assert_type(question.tags[1][0], str)
    for tags in question.tags:
        assert_type(tags, list[str])
    assert_type(question[0].tags.item(), list[str])
    assert_type(Column([1, 2])[0], int)
    assert_type(Column([Path("a")])[:1], Column[Path])


def operations(question: Question) -> None:
    assert_type(question[1:].prompt, Text)
    assert_type(question.reshape(-1).tokens, Ragged[Int[Tensor, "n"]])
    assert_type(question.prompt.reshape(-1), Text)
    assert_type(question.tokens.flip(0), Ragged[Int[Tensor, "n"]])
    assert_type(question.to("cpu").tags, Column[list[str]])
    assert_type(question.to_tensordict(), TensorDict)


def combining(question: Question, text: Text, tokens: Ragged[Tensor], tags: Column[list[str]]) -> None:
    assert_type(cat([text, text]), Text)
    assert_type(stack([text, text]), Text)
    assert_type(cat([tokens, tokens]), Ragged[Tensor])
    assert_type(stack([tokens, tokens], 1), Ragged[Tensor])
    assert_type(cat([tags, tags[1:]]), Column[list[str]])
    assert_type(cat([question.prompt, question[1:].prompt]), Text)
    assert_type(cat([question, question]).tokens, Ragged[Int[Tensor, "n"]])
    assert_type(pad_sequence([question, question]).prompt, Text)


def constructors(
    text: Text,
    tokens: Ragged[Any],
    tags: Column[list[str]],
    array: NDArray[np.int64],
    numbers: Tensor,
    strings: list[str],
) -> None:
    assert_type(Question(["a", "b"], [[1], [2, 3]], [["u"], []]), Question)
    Question(text, tokens, tags)
    Question(prompt=strings, tokens=[array[0], array[1]], tags=[strings, strings])
    Question(prompt=["a"], tokens=[numbers[0]], tags=[["u"]], batch_size=[1])
    Question(prompt=np.array(["a", "b"]), tokens=array, tags=tags)
    Question(prompt=("a", "b"), tokens=((1,), (2, 3)), tags=(["u"], ["v"]))
    Question(prompt=["a", "b"], tokens=numbers, tags=[["u"], ["v"]])
    Question("a", [1, 2], ["u"], batch_size=[])
    Question(text, tokens, tags, mask=Ragged([[True], [False, True]]), note=Text(["a", None]))
    Question(text, tokens, tags, answers=Column([["yes"], ["no"]]))


def writes(question: Question, text: Text, array: NDArray[np.int64]) -> None:
    two = question[:2].clone()
    two.mask = None
    two.prompt = ["c", "d"]
    two.prompt = text
    two.tokens = [[1], [2, 3]]
    two.tokens = [array[0], array[1]]
    two.tags = [["u"], ["v"]]
    two.note = Text(["a", None])
    two.note = None
    assert_type(two.prompt, Text)
    two.prompt[0] = "a"
    two.tokens[0] = [1, 2]
