"""Objects and codes: the functions behind non-tensor data.

The objects of a batch are stored like a categorical column: a tuple of objects, and int64 codes over the batch in main
memory, which index the tuple. Codes are never written to; changes make new ones. The tuple can be replaced by
:class:`Deferred` objects, such as the text of a column that was read from a file.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import pathlib
import uuid
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, overload

import torch
from torch import Size, Tensor

CPU: torch.device = torch.device("cpu")

#: rows are few, and copied so that the others go, if there are so many times as many objects, or bytes, in memory
MANY_TIMES = 8
#: classes whose instances need no copies
_IMMUTABLE = frozenset((
    str, bytes, int, float, complex, bool, type(None), type(...), type, decimal.Decimal, uuid.UUID,
    datetime.date, datetime.time, datetime.datetime, datetime.timedelta, pathlib.PosixPath, pathlib.WindowsPath,
))  # fmt: skip
_IMMUTABLE_COLLECTIONS = frozenset((tuple, frozenset))


class Deferred(Sequence[Any], metaclass=ABCMeta):
    """Objects that are made on request: one of them, or all of them at once.

    Once all are made, they are kept in a tuple. The sequence is equal to this tuple and pickled as it.
    """

    __slots__ = ("_made",)

    #: the class of all objects; ``None`` if they may be of several
    kind: type | None

    def __init__(self) -> None:
        self._made: tuple[Any, ...] | None = None

    @abstractmethod
    def _one(self, position: int) -> Any:
        """Make one object."""

    @abstractmethod
    def _all(self) -> tuple[Any, ...]:
        """Make all objects. Their source is not needed afterwards."""

    def made(self) -> tuple[Any, ...]:
        """Return all objects; they are made once."""
        if self._made is None:
            self._made = self._all()
        return self._made

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._one(index) if self._made is None and isinstance(index, int) else self.made()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.made())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Deferred):
            return self is other or self.made() == other.made()
        return self.made() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.made())

    def __repr__(self) -> str:
        return repr(self.made())

    def __reduce__(self) -> Any:
        return tuple, (list(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Deferred:
        return self.copied(memo)

    def copied(self, memo: dict[int, Any]) -> Deferred:
        """Return deep copies of the objects; the same ones if they are immutable."""
        return self

    def checked(self, check: Callable[[int, Any], None]) -> Deferred:
        """Call a function with the position of each object and the object, which raises for one that is wrong.

        Returns:
            The objects. Those of a subclass can be checked later, when they are made.
        """
        for position, value in enumerate(self):
            check(position, value)
        return self


def realize(objects: Sequence[Any], count: int) -> Sequence[Any]:
    """Return the objects. Deferred ones are made at once if at least a quarter of them is needed."""
    return objects.made() if isinstance(objects, Deferred) and 4 * count > len(objects) else objects


def is_immutable(value: Any) -> bool:
    """Return whether an object is known not to change."""
    kind: Any = value.__class__
    return kind in _IMMUTABLE or (kind in _IMMUTABLE_COLLECTIONS and all(map(is_immutable, value)))


def same_object(a: Any, b: Any) -> bool:
    """Return whether two objects count as equal. If ``==`` has no plain answer, identity decides."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:  # comparing arbitrary objects can raise anything; treat them as different
        return False


def copy_objects(objects: Sequence[Any]) -> Sequence[Any]:
    """Return deep copies of objects. An object that occurs several times is copied once."""
    memo: dict[int, Any] = {}
    if isinstance(objects, Deferred):
        return objects.copied(memo)
    if all(type(value) in _IMMUTABLE for value in objects):
        return objects
    return tuple([copy.deepcopy(value, memo) for value in objects])


def on_cpu(value: Any) -> Any:
    """Move a tensor to the CPU, where codes and objects always are."""
    return value.cpu() if isinstance(value, Tensor) else value


# -- codes ------------------------------------------------------------------------------------------------------------


def codes_along(dim: int, size: Size) -> Tensor:
    """Return codes that count along one dimension and are constant along the others."""
    strides = [0] * len(size)
    strides[dim] = 1
    return torch.arange(size[dim], device=CPU).as_strided(size, strides)


def codes_row_by_row(size: Size) -> Tensor:
    """Return codes that count all positions of a batch."""
    return torch.arange(size.numel(), device=CPU).view(size)


def drop_unused(objects: Sequence[Any], codes: Tensor, slack: int = 0) -> tuple[Sequence[Any], Tensor]:
    """Drop unused objects if there are more objects than positions plus ``slack``.

    So a row of a large column does not keep all of it in memory, or send all of it to another process.
    """
    if len(objects) <= codes.numel() + slack:
        return objects, codes
    taken = realize(objects, codes.numel())
    return tuple([taken[code] for code in to_lists(codes.flatten())]), codes_row_by_row(codes.shape)


def join_objects(items: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> tuple[Sequence[Any], Tensor]:
    """Join several pieces of non-tensor data: concatenate their objects, and join their codes.

    Consecutive pieces that share their objects, such as slices of one column, contribute them once.
    """
    parts: list[Sequence[Any]] = []
    codes: list[Tensor] = []
    start = end = 0
    for item in items:
        own = item._objects
        if not parts or own is not parts[-1]:
            parts.append(own)
            start, end = end, end + len(own)
        codes.append(item._codes(start))
    merged = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
    result = join(codes)
    return drop_unused(merged, result, result.numel() + 16)


# -- nested lists -----------------------------------------------------------------------------------------------------


def to_lists(codes: Tensor) -> list[Any]:
    """Return codes, or other numbers, as (nested) lists."""
    return codes.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def look_up_lists(codes: Tensor, objects: Sequence[Any]) -> Any:
    """Return nested lists of the objects at codes; the object of a code without dimensions."""
    if codes.ndim > 1 and codes.shape[-1] and not codes.stride(-1):  # the same codes at each position
        below = look_up_lists(codes.select(-1, 0), objects)
        return _repeated(below, codes.ndim - 1, codes.shape[-1])
    return _looked_up(to_lists(codes), codes.ndim, objects)


def _looked_up(codes: Any, depth: int, objects: Sequence[Any]) -> Any:
    if depth > 1:
        return [_looked_up(below, depth - 1, objects) for below in codes]
    return [objects[code] for code in codes] if depth else objects[codes]


def _repeated(items: list[Any], depth: int, count: int) -> list[Any]:
    """Return nested lists with each item ``count`` times, in a list of its own."""
    if depth > 1:
        return [_repeated(below, depth - 1, count) for below in items]
    return [[item] * count for item in items]


def fill_lists(value: Any, shape: Sequence[int]) -> Any:
    """Return nested lists of one object."""
    return [fill_lists(value, shape[1:]) for _ in range(shape[0])] if shape else value


def nest_lists(items: Sequence[Any], size: Sequence[int]) -> list[Any]:
    """Arrange items in C order in nested lists, one level for each size, at least one.

    >>> nest_lists("abcd", [2, 2])
    [['a', 'b'], ['c', 'd']]
    """
    if len(size) < 2:
        return list(items)
    rows = len(items) // size[0] if size[0] else 0
    return [nest_lists(items[at * rows : (at + 1) * rows], size[1:]) for at in range(size[0])]


def flatten_lists(value: Any, depth: int | None = None) -> tuple[list[Any], list[int]]:
    """Return the items of nested lists and the list length at each level, down to the level at which lengths differ.

    >>> flatten_lists([["a", "b"], ["c", "d"]])
    (['a', 'b', 'c', 'd'], [2, 2])
    >>> flatten_lists([["a"], ["b", "c"]])
    ([['a'], ['b', 'c']], [2])
    """
    level = [value]
    lengths: list[int] = []
    count: Callable[[Any], int] = len
    while depth is None or len(lengths) < depth:
        if not all(isinstance(item, list) for item in level) or not level:
            break
        sizes = {count(item) for item in level}
        if len(sizes) > 1:
            break
        lengths.append(sizes.pop())
        level = [below for item in level for below in item]
    return level, lengths
