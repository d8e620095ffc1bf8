"""Differences of two texts, word by word, as marked HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from tensorclass.scores.html_report.markup import Markup, element, join, text_of_log

__all__ = ["marked_differences"]

_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS: Final = 1_500  # of both texts, beyond what they begin and end with: comparing takes their product
_ALIKE: Final = 0.2  # share of the words: texts with less in common are not marked, for all would be


def marked_differences(a: str, b: str) -> tuple[Markup, Markup]:
    """Two texts of logs, in which the words that the other one lacks are marked.

    Texts that have little in common, or are long and differ everywhere, are not marked.

    Example:
        >>> marked_differences("the answer is 4", "the answer is <5>")[1]
        'the answer is <mark>&lt;5&gt;</mark>'
    """
    first, second = _WORDS.findall(a), _WORDS.findall(b)
    start = _shared(first, second)
    end = _shared(first[start:][::-1], second[start:][::-1])
    middle_a, middle_b = first[start : len(first) - end], second[start : len(second) - end]
    if len(middle_a) + len(middle_b) > _MOST_WORDS:
        return text_of_log(a), text_of_log(b)
    matcher = SequenceMatcher(None, middle_a, middle_b, autojunk=False)
    blocks = matcher.get_matching_blocks()
    same = 2 * (start + end + sum(block.size for block in blocks))
    if same < _ALIKE * (len(first) + len(second)):
        return text_of_log(a), text_of_log(b)
    codes = matcher.get_opcodes()
    marked_a = [(tag != "equal", middle_a[low:high]) for tag, low, high, _, _ in codes]
    marked_b = [(tag != "equal", middle_b[low:high]) for tag, _, _, low, high in codes]
    before, after = first[:start], first[len(first) - end :]
    return _markup(before, marked_a, after), _markup(before, marked_b, after)


def _shared(a: Sequence[str], b: Sequence[str]) -> int:
    """The number of words that both begin with."""
    return next(
        (place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b))
    )


def _markup(before: Sequence[str], parts: Sequence[tuple[bool, Sequence[str]]], after: Sequence[str]) -> Markup:
    middle = [
        element("mark", text_of_log("".join(words))) if is_marked else text_of_log("".join(words))
        for is_marked, words in parts
        if words
    ]
    return join([text_of_log("".join(before)), *middle, text_of_log("".join(after))])
