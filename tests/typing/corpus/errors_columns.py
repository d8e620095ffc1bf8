"""What columns do not take, and what they do not have, is reported."""

from records import Question
from torch import Tensor

from tensorclass import Column, Ragged, Text


def wrong_rows(x: Tensor, text: Text, tokens: Ragged[Tensor], tags: Column[list[str]]) -> None:
    Question([1, 2], tokens, tags)  # E: strings
    Question(x, tokens, tags)  # E: strings
    Question(text, ["a", "b"], tags)  # E: numbers
    Question(text, "a", tags)  # E: numbers
    Question(text, tokens, [[1], [2]])  # E: lists of strings
    Question(text, tokens, x)  # E: lists
    Question(text, tokens)  # E: tags
    Question(text, tokens, tags, note=3)  # E: strings or None
    Question(text, tokens, tags, answer=tags)  # E: no such field
    Question(tokens, text, tags)  # E: the other way round


def wrong_writes(question: Question) -> None:
    question.prompt = 3  # E: strings
    question.tokens = "a"  # E: numbers
    question.tags = [[1]]  # E: lists of strings
    question.prompts = ["a"]  # E: no such field


def wrong_uses(question: Question) -> None:
    question.prompt.upper()  # E: a method of one string
    question.prompt[0].tokens  # E: a string
    question.tokens[0].upper()  # E: no such method
    question.tags[0].lower()  # E: a list
    question.note[0]  # E: can be None
    n: int = question.prompt[0]  # E: a string
    text: str = question.prompt  # E: a column
    print(n, text)
