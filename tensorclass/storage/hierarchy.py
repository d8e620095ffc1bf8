"""Formats that hold groups of arrays under names, as HDF5 and zarr do: what :mod:`.persistent` asks of one."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from tensorclass.atomic import whole_path

from .paths import above
from .tree import DTYPES, FileError

#: what a file says of a group or an array: a node of :mod:`.tree`, without entries
Said: TypeAlias = dict[str, Any]
Texts: TypeAlias = str | list[str]

NOTE = "tensorclass"  #: the attribute that has it
DRAFT = "%draft"  #: how the name begins of what is written to take the place of something; that of no key does
BEFORE = "%before"  #: the name of what a draft takes the place of, in that instant
STACK = "__tensordict_stack__"  #: of the peer: an array holds objects, and not a tensor


class DamagedFile(FileError, OSError):
    """A file cannot be opened, or read, because it is damaged or of another format."""


class NotWritable(FileError, OSError):
    """A file is open for reading alone."""


class Replaced(FileError):
    """What was open has been written over by another process."""


class Format(ABC):
    """Groups and arrays of a file. What it raises for a damaged one becomes a ``FileError``."""

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]]  #: that arrays are made with
    keeps_order: ClassVar[bool] = True  #: names come in the order in which they were written
    can_stop: ClassVar[bool] = True  #: an interrupt in the midst of a call of the library is one of its errors
    has_seals: ClassVar[bool] = True  #: what is said of an array has a checksum without a note

    @abstractmethod
    def open(self, path: str, mode: str) -> Any:
        """The root group of a file."""

    def create(self, path: str) -> Any:
        """The root group of a new file that is filled, and closed."""
        return self.open(path, "w")

    def whole(self, path: str) -> AbstractContextManager[Path]:
        """A place to write a file to, that takes its own when it is whole."""
        above(path)
        return whole_path(path)

    def lent(self, root: Any) -> Any:
        """A group that was opened elsewhere, as this format reads it."""
        return root

    @abstractmethod
    def close(self, root: Any) -> OSError | None:
        """Close the file. Return the error that kept the last change from being written, which says what was undone."""

    @abstractmethod
    def settle(self, root: Any, whole: bool) -> OSError | None:
        """Gives what kept a change from being written.

        Args:
            root: the root group.
            whole: write what is not in the file yet; the next change that fails leaves the file as it is then.
        """

    def moved(self, root: Any, path: str) -> None:  # noqa: B027  # most need no path
        """Take note of the path to which the open file was moved."""

    def check_there(self, root: Any) -> None:  # noqa: B027  # most hold what they have open
        """Raises an error where another file has taken the place of the one that is open."""

    @abstractmethod
    def is_open(self, root: Any) -> bool:
        """Whether it is open."""

    @abstractmethod
    def names(self, group: Any) -> list[str]:
        """What is in a group."""

    @abstractmethod
    def find(self, group: Any, name: str) -> Any:
        """A group or an array; ``KeyError`` where there is none, ``ValueError`` where it is not in this file."""

    def has(self, group: Any, name: str) -> bool:
        """Return whether a name is taken, by whatever it is; no link is followed."""
        return name in group

    @abstractmethod
    def address(self, node: Any) -> object:
        """What tells groups apart, however they were reached."""

    @abstractmethod
    def is_group(self, node: Any) -> bool:
        """Whether a node is a group, and not an array."""

    @abstractmethod
    def said(self, node: Any) -> Said | None:
        """What this package has noted of it."""

    def is_ours(self, group: Any) -> bool:
        """Whether this package has made the names in a group, where some characters stand for others."""
        return self.said(group) is not None

    @abstractmethod
    def say(self, node: Any, said: Said) -> None:
        """Notes something of it."""

    @abstractmethod
    def make_group(self, parent: Any, name: str) -> Any:
        """A new group."""

    @abstractmethod
    def make_array(
        self,
        parent: Any,
        name: str,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        values: Any,
        options: dict[str, Any],
        resizable: bool,
    ) -> Any:
        """A new array with values, or with zeros where these are ``None``."""

    @abstractmethod
    def replaced(self, parent: Any, name: str, make: Callable[[Any, str], Any]) -> Any:
        """What ``make(parent, name)`` makes, in the place of what is there; that stays where making it fails."""

    @abstractmethod
    def remove(self, parent: Any, name: str) -> None:
        """Removes a group or an array."""

    @abstractmethod
    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        """The values in a box (:class:`.partial.Part`)."""

    @abstractmethod
    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        """Writes the values of a box."""

    @abstractmethod
    def resize(self, array: Any, length: int) -> None:
        """Gives an array another number of rows."""

    @abstractmethod
    def can_resize(self, array: Any) -> bool:
        """Whether it can be given one."""

    @abstractmethod
    def make_texts(self, parent: Any, name: str, texts: Texts, said: Said) -> Any:
        """Text, one for all rows or one for each."""

    @abstractmethod
    def texts(self, array: Any) -> Any:
        """What :meth:`make_texts` wrote; from another program: text, or nested lists of it."""

    def shape_of_texts(self, array: Any, said: Said) -> Sequence[int]:
        """The batch size of objects, one for each row."""
        return tuple(array.shape)

    @abstractmethod
    def is_text(self, array: Any) -> bool:
        """Whether an array of which nothing is noted holds text."""

    @abstractmethod
    def can_hold_text(self, text: str) -> bool:
        """Whether text can be written as it is."""

    def check_options(self, options: dict[str, Any]) -> None:
        """Raises an error for arguments that are none of arrays."""
        if unknown := [name for name in options if name not in self.options]:
            raise TypeError(f"unknown arguments {unknown}; arrays of the format {self.name} take {list(self.options)}")


# ---------------------------------------------------------------------------------------------------------------------
# objects, one for each row


def flat(given: Any, ndim: int) -> list[Any]:
    """The items of lists in lists.

    >>> flat([["a", "b"], ["c", "d"]], 2)
    ['a', 'b', 'c', 'd']
    """
    items: list[Any] = [given]
    for _ in range(ndim):
        if not all(type(item) is list for item in items):
            raise ValueError(f"expected lists {ndim} deep of objects, got {str(given)[:80]}")
        items = [inner for item in items for inner in item]
    return items


# ---------------------------------------------------------------------------------------------------------------------
# dtypes

_RAW = {1: "u1", 2: "u2", 4: "u4"}  # of bfloat16, the floats of eight bits, complex numbers of halves


def _native() -> dict[torch.dtype, np.dtype[Any]]:
    found: dict[torch.dtype, np.dtype[Any]] = {}
    for dtype in DTYPES.values():
        if dtype is torch.complex32:  # torch warns of it
            continue
        try:
            found[dtype] = torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
        except (TypeError, RuntimeError):
            continue
    return found


#: dtypes that numpy has too; others are written as unsigned integers of their size, with a note
NATIVE: dict[torch.dtype, np.dtype[Any]] = _native()
TORCH: dict[np.dtype[Any], torch.dtype] = {theirs: ours for ours, theirs in NATIVE.items()}


def stored_as(dtype: torch.dtype) -> np.dtype[Any]:
    """The dtype of an array that holds tensors of a dtype.

    >>> stored_as(torch.float32), stored_as(torch.bfloat16)
    (dtype('float32'), dtype('uint16'))
    """
    return NATIVE[dtype] if dtype in NATIVE else np.dtype(_RAW[dtype.itemsize])


def dtype_of(dtype: np.dtype[Any], said: Said | None) -> torch.dtype:
    """The dtype of a tensor that is stored in an array of a dtype.

    Raises:
        ValueError: torch has none for it, or the note does not fit.
    """
    named = None if said is None else said.get("dtype")
    given: Any = dtype
    native: np.dtype[Any] = given.newbyteorder("=")
    if named is not None:
        found = DTYPES.get(named) if isinstance(named, str) else None
        if found is None or stored_as(found) != native:
            raise ValueError(f"an array of the dtype {dtype} cannot hold tensors of the dtype {str(named)[:40]}")
        return found
    if native not in TORCH:
        raise ValueError(
            f"torch has no dtype for an array of the dtype {dtype}; select() leaves it out, as does a record without a "
            "field for it that is opened with strict=False"
        )
    return TORCH[native]


def chunk_shape(chunks: Any, shape: Sequence[int], option: str = "chunks", cut: bool = True) -> Any:
    """The chunks of an array of a shape: the rows of one, or its first dimensions, go for all arrays of a file.

    Args:
        chunks: what was asked for.
        shape: of the array.
        option: its name, for errors.
        cut: whether a chunk is no larger than the array.

    >>> chunk_shape(100, (1000, 3)), chunk_shape((100, 2), (50, 3)), chunk_shape(True, (5,))
    ((100, 3), (50, 2), True)
    """
    given: Any = chunks
    if given is None or isinstance(chunks, (bool, dict)) or given == "auto":
        return given
    try:
        front = (operator.index(chunks),) if hasattr(chunks, "__index__") else tuple(map(operator.index, chunks))
    except TypeError:
        front = ()
    if not front or min(front) < 1:
        raise ValueError(f"expected {option} to be True, the rows of a chunk, or its first dimensions, got {chunks!r}")
    full = (*front, *shape[len(front) :])[: len(shape)]
    return tuple([min(wanted, length) for wanted, length in zip(full, shape, strict=True)]) if cut else full
