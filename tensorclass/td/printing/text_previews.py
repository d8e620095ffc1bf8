"""Texts and objects on a part of a line."""

from __future__ import annotations

import reprlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from tensorclass.support.printable import printable, type_name
from tensorclass.td.collection import Collection

#: the most characters of a string among others
_STRING = 24
#: rows of a column that a line shows
ROWS = 6


def width_of(text: str) -> int:
    """Return the number of columns that a text takes in a terminal.

    >>> width_of("ab"), width_of("模型")
    (2, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning and dots if it takes more columns than ``width``.

    >>> cut("abcdefgh", 6), cut("abc", 6)
    ('abc...', 'abc')
    """
    if len(text) * 2 <= width or width_of(text) <= width:
        return text
    taken, end = 0, 0
    for char in text:
        taken += width_of(char)
        if taken > width - 3:
            break
        end += 1
    return text[:end] + "..."[: max(width, 0)]


def cut_middle(text: str, width: int) -> str:
    """Return the text, or its beginning and its end if it takes more columns than ``width``.

    >>> cut_middle("abcdefghijklmnop", 10)
    'ab...lmnop'
    """
    room = max(width - 3, 0)
    if len(text) <= width:
        return cut(text, width)
    return cut(text[: room // 3] + "..." + text[len(text) - (room - room // 3) :], width)


def one_line(value: object) -> str:
    """Return the text of an object without line breaks and control characters.

    >>> one_line("a\\n  b")
    'a b'
    """
    return printable(" ".join(str(value).split()))


def string_text(text: str, width: int, *, is_cut: bool = False) -> str:
    """Return a string in quotes, cut after the closing quote so that the dots are no part of it.

    Args:
        text: the string.
        width: columns.
        is_cut: the string goes on after ``text``.

    >>> string_text("hello world", 10), string_text("hello", 10)
    ("'hello'...", "'hello'")
    """
    shown = printable(repr(text[: max(width, 1)]))
    if not is_cut and len(text) <= width and width_of(shown) <= width:
        return shown
    end = max(min(len(text), width - 5), 1)
    while end > 1 and width_of(printable(repr(text[:end]))) > width - 3:
        end -= 1
    return printable(repr(text[:end])) + "..."


def listed(items: Sequence[str], count: int, width: int) -> str:
    """Return items in brackets, as many as fit, and dots if there are more.

    Args:
        items: the first of them.
        count: how many there are.
        width: columns.

    >>> listed(["1", "2", "3"], 3, 20), listed(["1", "2", "3"], 9, 20), listed(["1", "2", "3"], 3, 10)
    ('[1, 2, 3]', '[1, 2, 3, ...]', '[1, ...]')
    """
    room = width - 2
    shown: list[str] = []
    for number, item in enumerate(items):
        is_last = number == count - 1
        room -= width_of(item) + (2 if shown else 0)
        if room < (0 if is_last else 5) and shown:
            break
        shown.append(item)
    dots = ["..."] if len(shown) < count else []
    return cut(f"[{', '.join(shown + dots)}]", width)


class _Bounded(reprlib.Repr):
    """``repr`` of objects of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = ROWS
        self.maxdict = 4
        self.maxstring = self.maxlong = self.maxother = 90

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Collection):  # which can be the one that is being shown
            return f"{type_name(x)}(batch_size={list(x._batch_size)})"
        if isinstance(x, Tensor):
            from .long_form import dtype_name

            return f"{dtype_name(x.dtype)}[{','.join(map(str, x.shape))}]"
        try:
            return super().repr1(x, level)
        except Exception as error:
            return f"<{type_name(x)} whose repr raises {type_name(error)}>"

    def repr_instance(self, x: Any, level: int) -> str:
        return cut(repr(x), 2 * self.maxother)


_BOUNDED = _Bounded()


def object_text(value: object, width: int) -> str:
    """Return an object on one line, cut to ``width``.

    >>> object_text(["a", 1], 20), object_text("a" * 30, 12), object_text(list(range(1000)), 40)
    ("['a', 1]", "'aaaaaaa'...", '[0, 1, 2, 3, 4, 5, ...]')
    """
    if type(value) is str:
        return string_text(value, width)
    return cut(one_line(_BOUNDED.repr(value)), width)


def for_all_rows(content: Callable[[int], str], width: int, ndim: int) -> str:
    """Return the content of a value that all rows share, and say so.

    >>> for_all_rows(lambda width: "'a'", 20, 1), for_all_rows(lambda width: "'a'", 20, 0)
    ("'a' for all rows", "'a'")
    """
    mark = " for all rows" if ndim else ""
    return content(width - len(mark)) + mark


def objects_text(values: Iterable[object], count: int, width: int) -> str:
    """Return objects of the first rows as a list on one line.

    >>> objects_text(["a", None], 2, 40), objects_text([{"k": 1}], 9, 40)
    ("['a', None]", "[{'k': 1}, ...]")
    """
    least = width - 7 if count == 1 else _STRING
    return listed([object_text(value, max(least, _STRING)) for value in values], count, width)
