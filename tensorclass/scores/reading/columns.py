"""Columns that grow row by row, in a few bytes a value: what is kept of a log while it streams by."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from tensorclass.scores.labels import Vocabulary
from tensorclass.scores.ragged import pad_rows

__all__ = ["Column", "LabelColumn", "NumberColumn", "PromptColumn", "RaggedColumn", "RaggedLabelColumn", "prompt_id"]

_NAN = float("nan")
_LARGEST = float(np.finfo(np.float32).max)  # what the record can hold


class Column(Protocol):
    """One field of the rows read so far."""

    def add(self, value: object) -> None:
        """Take the value of the next row; TypeError, saying what was expected, where it doesn't fit."""

    def tensor(self, width: int) -> Tensor:
        """The values of all rows, ragged ones padded to at least ``width``."""
        ...


class NumberColumn:
    """A number or verdict a row; ``null`` is NaN. A bool tensor where every row held true or false, else float32."""

    def __init__(self) -> None:
        self._values = array("d")
        self._bool = True

    def add(self, value: object) -> None:
        if value is True or value is False:
            self._values.append(value)
            return
        self._bool = False
        if value is None:
            value = _NAN
        if not isinstance(value, (int, float)) or abs(value) > _LARGEST:
            raise TypeError(f"a finite number or true or false, got {_shown(value)}")
        self._values.append(value)

    def tensor(self, width: int) -> Tensor:
        values = torch.as_tensor(np.array(self._values, dtype=np.float64), device="cpu")
        return values.to(torch.bool if self._bool else torch.float32)


class RaggedColumn:
    """A list of numbers or verdicts a row: float32, padded with NaN."""

    def __init__(self) -> None:
        self._values = array("d")
        self.lengths: array[int] = array("i")

    def add(self, value: object) -> None:
        if not isinstance(value, list):
            raise TypeError(f"a list of verdicts, got {_shown(value)}")
        numbers = cast("list[float]", value)  # else the next lines raise
        try:
            self._values.extend(numbers)
            finite = not numbers or max(map(abs, numbers)) <= _LARGEST
        except (TypeError, OverflowError):
            finite = False
        if not finite:
            raise TypeError(f"a list of finite numbers or true or false, got {_shown(numbers)}")
        self.lengths.append(len(numbers))

    def tensor(self, width: int) -> Tensor:
        return pad_rows(self._values, self.lengths, max(width, max(self.lengths, default=0))).to(torch.float32)


class _Names:
    """Names as codes, in order of first occurrence after those that are there from the start."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._codes = {name: code for code, name in enumerate(vocabulary)}

    def code(self, name: object) -> int:
        if not isinstance(name, str):
            raise TypeError(f"a name, got {_shown(name)}")
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

    def tensor(self, width: int) -> Tensor:
        return torch.as_tensor(np.array(self._values, dtype=np.int32), device="cpu")


class RaggedLabelColumn(_Names):
    """A list of names a row, as int32 codes, padded with -1."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._values = array("i")
        self.lengths: array[int] = array("i")

    def add(self, value: object) -> None:
        if not isinstance(value, list):
            raise TypeError(f"a list of names, got {_shown(value)}")
        names = cast("list[object]", value)
        self._values.extend(map(self.code, names))
        self.lengths.append(len(names))

    def tensor(self, width: int) -> Tensor:
        width = max(width, max(self.lengths, default=0))
        return pad_rows(self._values, self.lengths, width, fill=-1).to(torch.int32)


class PromptColumn:
    """The id of each row's prompt, int64."""

    def __init__(self) -> None:
        self._values = array("q")

    def add(self, value: object) -> None:
        if not isinstance(value, str):
            raise TypeError(f"the prompt's text, got {_shown(value)}")
        self._values.append(prompt_id(value))

    def tensor(self, width: int) -> Tensor:
        return torch.as_tensor(np.array(self._values, dtype=np.int64), device="cpu")


def prompt_id(text: str) -> int:
    """A number for a prompt, the same in every run and on every machine: 64 bits of BLAKE2b (RFC 7693) of its UTF-8.

    Example:
        >>> prompt_id("Write a poem.") == prompt_id("Write a poem."), prompt_id("a") == prompt_id("b")
        (True, False)
    """
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
