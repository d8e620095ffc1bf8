"""The interface that ``ArrayFile`` needs from a format with named groups of arrays; HDF5 and zarr implement it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from tensorclass.storage.common.collection_tree import DTYPES, FileError, as_list
from tensorclass.storage.common.file_paths import check_parent
from tensorclass.support.atomic import whole_path
from tensorclass.support.nearest import did_you_mean

#: the metadata of a group or an array: a node of ``collection_tree`` without its entries
Note: TypeAlias = dict[str, Any]
Texts: TypeAlias = str | list[str]

NOTE = "tensorclass"  #: the attribute that holds the note
DRAFT = "%draft"  #: prefix of the name of a replacement while it is written; no key has a name that begins so
BEFORE = "%before"  #: the name of the replaced value until the draft has taken its name
STACK = "__tensordict_stack__"  #: an attribute of the peer: the array holds objects, not a tensor


class DamagedFile(FileError, OSError):
    """The file cannot be opened or read: it is damaged, or of another format."""


class NotWritable(FileError, OSError):
    """The file is open for reading only."""


class Replaced(FileError):
    """Another process has replaced the open file."""


class ArrayBackend(ABC):
    """Groups and arrays of one file format.

    Its methods may raise any error for a damaged file: :meth:`.ArrayFile.reading` turns them into a ``FileError``.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]]  #: the arguments that the library accepts for new arrays
    keeps_order: ClassVar[bool] = True  #: groups list their names in the order of writing
    is_interruptible: ClassVar[bool] = True  #: the library survives an exception in the middle of a call
    protects_metadata: ClassVar[bool] = True  #: shape and dtype of an array have a checksum without a note

    @abstractmethod
    def open(self, path: str, mode: str) -> Any:
        """Open a file; return its root group."""

    def whole(self, path: str) -> AbstractContextManager[Path]:
        """Return a context that gives the path of a draft, which replaces ``path`` at its end."""
        check_parent(path)
        return whole_path(path)

    def borrow(self, root: Any) -> Any:
        """Return a group that the user has opened, in the form in which this backend reads it."""
        return root

    @abstractmethod
    def close(self, root: Any) -> OSError | None:
        """Close the file. Return the error that kept the last change from being written; it says what was undone."""

    def flush_changes(self, root: Any, complete: bool) -> OSError | None:
        """Return the error that kept a change from being written. By default, each is written at once, or raises.

        Args:
            root: the root group.
            complete: write all that the library holds. If a later change fails, the file returns to this state.
        """
        return None

    def moved(self, root: Any, path: str) -> None:  # noqa: B027  # most need no path
        """Note the path to which the open file was moved."""

    def check_unreplaced(self, root: Any) -> None:  # noqa: B027  # most hold the open file
        """Raise :class:`Replaced` if another file has taken the path of the open one."""

    @abstractmethod
    def is_open(self, root: Any) -> bool:
        """Return whether the file of a root group is open."""

    @abstractmethod
    def names(self, group: Any) -> list[str]:
        """Return the names of the groups and arrays in a group."""

    @abstractmethod
    def find(self, group: Any, name: str) -> Any:
        """Return a group or an array.

        Raises:
            KeyError: there is none of this name.
            ValueError: it is not in this file.
        """

    def find_all(self, group: Any) -> Mapping[str, Any]:
        """Return the groups and arrays in a group that are found faster together, for :meth:`checked`."""
        return {}

    def checked(self, group: Any, name: str, found: Any) -> Any:
        """Return what :meth:`find_all` has found, checked as :meth:`find` checks it."""
        return found

    def has(self, group: Any, name: str) -> bool:
        """Return whether a name is taken in a group. No link is followed."""
        return name in group

    @abstractmethod
    def address(self, node: Any) -> object:
        """Return a value that identifies a group, whatever path led to it."""

    @abstractmethod
    def is_group(self, node: Any) -> bool:
        """Return whether a node is a group, not an array."""

    @abstractmethod
    def read_note(self, node: Any) -> Note | None:
        """Return the note of a group or an array."""

    def has_escaped_names(self, group: Any) -> bool:
        """Return whether this package has named the entries of a group: then some characters are escaped."""
        return self.read_note(group) is not None

    @abstractmethod
    def write_note(self, node: Any, note: Note) -> None:
        """Set the note of a group or an array."""

    @abstractmethod
    def make_group(self, parent: Any, name: str) -> Any:
        """Create a group."""

    def make_array(
        self,
        parent: Any,
        name: str,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        values: np.ndarray[Any, Any] | None,
        options: Mapping[str, Any],
        resizable: bool,
    ) -> Any:
        """Create an array.

        Args:
            parent: the group.
            name: its name in the group.
            shape: its shape.
            dtype: its dtype.
            values: its values; ``None`` for zeros.
            options: ``chunks``, ``compression``, ... under the names of the library. Arrays without values or
                dimensions ignore them.
            resizable: whether rows can be appended.
        """
        settings = self.array_settings(dict(options) if len(shape) and all(shape) else {}, shape, resizable)
        if values is not None and all(shape) and self.is_created_with(values):
            return self.create_array(parent, name, {"data": values, **settings})
        if values is None:
            settings = self.zero_settings(settings)
        array = self.create_array(parent, name, {"shape": tuple(shape), "dtype": dtype, **settings})
        if values is not None and all(shape):
            self.write(array, (), values)
        return array

    def array_settings(self, options: dict[str, Any], shape: Sequence[int], resizable: bool) -> dict[str, Any]:
        """Return the library's arguments for an array of a shape. Changes ``options``."""
        return options

    def zero_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for an array of zeros whose values are not written."""
        return settings

    def is_created_with(self, values: np.ndarray[Any, Any]) -> bool:
        """Return whether values are passed when the array is created, which takes half the time, or written then."""
        return True

    @abstractmethod
    def create_array(self, parent: Any, name: str, settings: dict[str, Any]) -> Any:
        """Call the library to create an array: with ``data``, or of zeros with ``shape`` and ``dtype``."""

    @abstractmethod
    def replace(self, parent: Any, name: str, make: Callable[[Any, str], Any]) -> Any:
        """Put the result of ``make(parent, name)`` in the place of an entry, which stays if ``make`` fails."""

    @abstractmethod
    def remove(self, parent: Any, name: str) -> None:
        """Remove a group or an array."""

    @abstractmethod
    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        """Return the values in a box (:class:`.partial.Selection`)."""

    @abstractmethod
    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        """Write the values of a box."""

    @abstractmethod
    def resize(self, array: Any, length: int) -> None:
        """Set the number of rows of an array."""

    def can_resize(self, array: Any) -> bool:
        """Return whether the number of rows of an array can change."""
        return True

    @abstractmethod
    def write_texts(self, parent: Any, name: str, texts: Texts, note: Note) -> Any:
        """Create an array of text: one for all rows, or one for each. Adds a checksum to ``note``."""

    @abstractmethod
    def read_texts(self, array: Any) -> Any:
        """Return what :meth:`write_texts` wrote; from another program: text, or nested lists of it."""

    def shape_of_texts(self, array: Any, note: Note) -> Sequence[int]:
        """Return the batch size of objects, one for each row."""
        return [size for size in as_list(note.get("batch_size")) or [] if type(size) is int and size >= 0]

    @abstractmethod
    def is_text(self, array: Any) -> bool:
        """Return whether an array without a note holds text."""

    def can_hold_text(self, text: str) -> bool:
        """Return whether text can be written unchanged. Formats that write it as JSON can hold any."""
        return True

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise if the library has no such arguments for arrays."""
        if unknown := [name for name in options if name not in self.options]:
            known = f"arrays of the format {self.name} take {list(self.options)}{did_you_mean(unknown, self.options)}"
            raise TypeError(f"unknown arguments {unknown}; {known}")


# ---------------------------------------------------------------------------------------------------------------------
# objects, one for each row


def flat(given: Any, ndim: int) -> list[Any]:
    """Return the items of lists nested ``ndim`` deep.

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

_RAW = {1: "u1", 2: "u2", 4: "u4"}  # for bfloat16, floats of eight bits, complex numbers of halves


def _native() -> dict[torch.dtype, np.dtype[Any]]:
    found: dict[torch.dtype, np.dtype[Any]] = {}
    for dtype in DTYPES.values():
        if dtype.is_complex and dtype.itemsize == 4:  # torch warns about them, and numpy has neither
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
    """Return the dtype of the array that holds tensors of a dtype.

    >>> stored_as(torch.float32), stored_as(torch.bfloat16)
    (dtype('float32'), dtype('uint16'))
    """
    return NATIVE[dtype] if dtype in NATIVE else np.dtype(_RAW[dtype.itemsize])


def tensor_dtype(dtype: np.dtype[Any], note: Note | None) -> torch.dtype:
    """Return the dtype of the tensor in an array.

    Args:
        dtype: the dtype of the array.
        note: the note of the array.

    Raises:
        ValueError: torch has no such dtype, or the note does not fit.
    """
    named = None if note is None else note.get("dtype")
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
    """Return the chunk shape of an array, for an option that is given once for all arrays of a file.

    Args:
        chunks: the number of rows in a chunk, or the first dimensions of one; ``None``, a bool, a dict and ``"auto"``
            are returned as they are.
        shape: the shape of the array.
        option: the name of the option, for errors.
        cut: whether a chunk is at most as large as the array.

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
