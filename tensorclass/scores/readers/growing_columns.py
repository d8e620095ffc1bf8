"""Columns that grow row by row, or many rows at a time, in a few bytes a value, while a log is streamed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorclass.scores.labels import Vocabulary, text_hash
from tensorclass.scores.limits import NOT_A_SHARE, ROUNDING, is_share
from tensorclass.scores.padded_verdicts import pad_rows

__all__ = [
    "AnyLabelColumn",
    "Column",
    "LabelColumn",
    "Misfit",
    "NumberColumn",
    "PromptColumn",
    "RaggedColumn",
    "RaggedLabelColumn",
    "TaskColumn",
    "prompt_id",
    "shared_texts",
    "shown",
]

_NAN = float("nan")
_LARGEST = float(np.finfo(np.float32).max)  # the largest number in the record
_NUMBERS = frozenset((bool, int, float, type(None)))


class Column(Protocol):
    """One field of the rows read so far."""

    def add(self, value: object) -> None:
        """Add the value of the next row. Raise a TypeError that says what was expected if it doesn't fit."""

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        """Check the values of the next rows, and return the function that adds them.

        Raises:
            Misfit: one of them doesn't fit. :meth:`add` says which and why.
        """
        ...

    def tensor(self, width: int) -> Tensor:
        """The values of all rows, ragged ones padded to at least ``width``."""
        ...


class Misfit(Exception):
    """Of many rows, one doesn't fit; they have to be added one by one."""


class NumberColumn:
    """A number or verdict a row; ``null`` is NaN. A bool tensor where every row held true or false, else float32.

    Args:
        share: expect fractions from 0 to 1.
    """

    def __init__(self, share: bool = False) -> None:
        self._share = share
        self._values = array("f")  # as in the record
        self._bool = True

    def add(self, value: object) -> None:
        if value is True or value is False:
            self._values.append(value)
            return
        self._bool = False
        if value is None:
            value = _NAN
        if not isinstance(value, (int, float)) or abs(value) > _LARGEST:
            raise TypeError(f"a finite number or true or false, got {shown(value)}")
        if self._share and not is_share(value):
            raise TypeError(f"a fraction from 0 to 1, since it is a share, got {shown(value)}; {NOT_A_SHARE}")
        self._values.append(value)

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        numbers = _checked(values, _NUMBERS, self._share)

        def add() -> None:
            self._bool = self._bool and set(map(type, values)) <= {bool}
            self._values.frombytes(numbers.astype(np.float32).tobytes())

        return add

    def fill(self, rows: int) -> None:
        """Fill up to so many rows with NaN."""
        missing = rows - len(self._values)
        if missing > 0:
            self._bool = False
            self._values.extend([_NAN] * missing)

    def last(self) -> float:
        """The value of the last row."""
        return self._values[-1]

    def numbers(self) -> NDArray[np.float32]:
        """The values of all rows, NaN where not scored."""
        return np.frombuffer(self._values, dtype=np.float32) if self._values else np.zeros(0, dtype=np.float32)

    def tensor(self, width: int) -> Tensor:
        values = _shared(self._values, torch.float32)
        return values.to(torch.bool) if self._bool else values


class RaggedColumn:
    """A list of numbers or verdicts a row: float32, padded with NaN.

    Args:
        share: expect fractions from 0 to 1.
    """

    def __init__(self, share: bool = False) -> None:
        self._share = share
        self._values = array("f")
        self.lengths: array[int] = array("i")

    def add(self, value: object) -> None:
        if not isinstance(value, list):
            raise TypeError(f"a list of verdicts, got {shown(value)}")
        numbers = cast("list[float]", value)  # else the next lines raise
        try:
            self._values.extend(numbers)
            finite = all(abs(number) <= _LARGEST for number in numbers)
        except (TypeError, OverflowError):
            finite = False
        if not finite:
            raise TypeError(f"a list of finite numbers or true or false, got {shown(numbers)}")
        if self._share and not all(map(is_share, numbers)):
            raise TypeError(
                f"a list of fractions from 0 to 1, since they are shares, got {shown(numbers)}; {NOT_A_SHARE}"
            )
        self.lengths.append(len(numbers))

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        flat, lengths = _flat(values)
        numbers = _checked(flat, _NUMBERS - {type(None)}, self._share)

        def add() -> None:
            self._values.frombytes(numbers.astype(np.float32).tobytes())
            self.lengths.extend(lengths)

        return add

    def numbers(self) -> NDArray[np.float32]:
        """The values of all rows, one row after the other."""
        return np.array(self._values, dtype=np.float32)

    def last(self) -> Sequence[float]:
        """The values of the last row."""
        return self._values[len(self._values) - self.lengths[-1] :]

    def tensor(self, width: int) -> Tensor:
        return pad_rows(self._values, self.lengths, max(width, max(self.lengths, default=0))).to(torch.float32)


class _Names:
    """Names as codes, in order of first occurrence after those that are there from the start."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._codes = {name: code for code, name in enumerate(vocabulary)}

    def code(self, name: object) -> int:
        if not isinstance(name, str):
            raise TypeError(f"a name, got {shown(name)}")
        return self._codes.setdefault(name, len(self._codes))

    @property
    def vocabulary(self) -> Vocabulary:
        return tuple(self._codes)


class LabelColumn(_Names):
    """A name a row, as an int32 code."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._values = array("i")

    def add(self, value: object) -> None:
        self._values.append(self.code(value))

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        names = _names(values)
        return lambda: self._values.extend(map(self.code, names))

    def tensor(self, width: int) -> Tensor:
        return _shared(self._values, torch.int32)


class TaskColumn(LabelColumn):
    """The task of each row, -1 where it isn't known."""

    def add(self, value: object) -> None:
        self._values.append(-1 if value is None else self.code(value))

    def repeat(self, value: str | None, count: int) -> None:
        """Add the same task for the next rows."""
        self._values.extend(array("i", [-1 if value is None else self.code(value)]) * count)


class AnyLabelColumn(LabelColumn):
    """A name, number or verdict a row, as the code of its text; -1 where there is none."""

    def add(self, value: object) -> None:
        self._values.append(self._code_of(value))

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        if not all(value is None or isinstance(value, (str, int, float)) for value in values):
            raise Misfit
        return lambda: self._values.extend(map(self._code_of, values))

    def _code_of(self, value: object) -> int:
        if value is None:
            return -1
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"a name or a number, got {shown(value)}")
        return self.code(str(value))


class RaggedLabelColumn(_Names):
    """A list of names a row, as int32 codes, padded with -1."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._values = array("i")
        self.lengths: array[int] = array("i")

    def add(self, value: object) -> None:
        if not isinstance(value, list):
            raise TypeError(f"a list of names, got {shown(value)}")
        names = cast("list[object]", value)
        self._values.extend(map(self.code, names))
        self.lengths.append(len(names))

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        flat, lengths = _flat(values)
        names = _names(flat)

        def add() -> None:
            self._values.extend(map(self.code, names))
            self.lengths.extend(lengths)

        return add

    def tensor(self, width: int) -> Tensor:
        width = max(width, max(self.lengths, default=0))
        return pad_rows(self._values, self.lengths, width, fill=-1).to(torch.int32)


class PromptColumn:
    """The id of each row's prompt, int64.

    A row is known by its document, and may have a text that is the same in files of other formats. The text is its id
    unless rows of other documents have the same text: a text that several documents share identifies none of them.
    """

    def __init__(self) -> None:
        self._documents = array("q")
        self._texts = array("q")  # of the rows with a text
        self._has_text = array("b")

    def add(self, document: str, text: str | None = None) -> None:
        """Add the next row: the identity of its document, and its text if that may identify the document."""
        self._documents.append(prompt_id(document))
        self._has_text.append(text is not None)
        if text is not None:
            self._texts.append(prompt_id(text))

    def add_all(self, documents: Sequence[str], texts: Sequence[str] | None = None) -> None:
        """Add the next rows, of which each has a text or none has."""
        self._documents.frombytes(_digests(documents))
        self._has_text.extend(array("b", [texts is not None]) * len(documents))
        if texts is not None:
            self._texts.frombytes(_digests(texts))

    def shared(self) -> int:
        """Count the rows whose text other documents have, too."""
        return int(self._is_shared().sum())

    def tensor(self, width: int) -> Tensor:
        if not self._texts:
            return _shared(self._documents, torch.int64)
        ids, shared = _int64(self._documents), self._is_shared()
        ids[np.flatnonzero(self._has_text)[~shared]] = _int64(self._texts)[~shared]
        return torch.as_tensor(ids, device="cpu")

    def _is_shared(self) -> NDArray[np.bool_]:
        """Return a mask of the rows with a text: whether several documents share it."""
        if not self._texts:
            return np.zeros(0, dtype=np.bool_)
        documents = _int64(self._documents)[np.flatnonzero(self._has_text)]
        _, text = np.unique(_int64(self._texts), return_inverse=True)
        _, document = np.unique(documents, return_inverse=True)
        of_both = np.unique(np.stack([text, document]), axis=1)  # each pair of a text and a document once
        documents_of_text = np.bincount(of_both[0], minlength=len(text))
        shared: NDArray[np.bool_] = documents_of_text[text] > 1
        return shared


def prompt_id(text: str) -> int:
    """A number for a prompt, the same in every run and on every machine: the hash of a text that identifies it.

    Example:
        >>> prompt_id("Write a poem.") == prompt_id("Write a poem."), prompt_id("a") == prompt_id("b")
        (True, False)
    """
    return text_hash(text)


def shared_texts(prompts: PromptColumn) -> list[str]:
    """The note of a run in which documents share their text; none where none do."""
    count = prompts.shared()
    if not count:
        return []
    return [f"{count} rows have the prompt of another document: these are told apart by their documents, not by text"]


def _flat(values: Sequence[object]) -> tuple[list[object], list[int]]:
    """The items of lists, one list after the other, and the length of each."""
    if not set(map(type, values)) <= {list}:
        raise Misfit
    lists = cast("Sequence[list[object]]", values)
    return list(chain.from_iterable(lists)), list(map(len, lists))


def _names(values: Sequence[object]) -> Sequence[str]:
    if not set(map(type, values)) <= {str}:
        raise Misfit
    return cast("Sequence[str]", values)


def _checked(values: Sequence[object], types: frozenset[object], share: bool) -> NDArray[np.float64]:
    """Values of these types as numbers, NaN for None."""
    if not set(map(type, values)) <= types:
        raise Misfit
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        raise Misfit from None
    low, high = (-ROUNDING, 1 + ROUNDING) if share else (-_LARGEST, _LARGEST)
    if ((numbers < low) | (numbers > high)).any():
        raise Misfit
    return numbers


def _digests(texts: Sequence[str]) -> bytes:
    """The hashes of texts as the bytes of int64; see :func:`prompt_id`."""
    try:
        digests = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in texts])
    except UnicodeEncodeError:  # half a surrogate pair
        return array("q", map(prompt_id, texts)).tobytes()
    return np.frombuffer(digests, dtype="<i8").astype(np.int64).tobytes()


def _shared(values: array[Any], dtype: torch.dtype) -> Tensor:
    """A tensor on the memory of an array, which can't grow any more."""
    if not values:
        return torch.empty(0, dtype=dtype, device="cpu")
    return torch.frombuffer(values, dtype=dtype)


def _int64(values: array[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def shown(value: object) -> str:
    """A value in an error, shortened."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
