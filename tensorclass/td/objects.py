"""Objects and codes: the functions under non-tensor data.

Several objects over a batch are held as a categorical column is: a tuple of them, and a tensor over the batch that says
which one stands where (the codes, ``int64``, in main memory). Codes are never written to: what changes them makes new.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor

CPU: torch.device = torch.device("cpu")

#: what a copy of need not be made
_IMMUTABLE = frozenset((str, bytes, int, float, complex, bool, type(None), type(...), type))


def same_object(a: Any, b: Any) -> bool:
    """Whether two objects count as one; those whose comparison has no plain answer do when they are identical."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:  # comparing arbitrary objects can raise anything; then they are not known to be equal
        return False


def copied(objects: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of objects, all the way down. What is one object stays one."""
    if all(type(value) in _IMMUTABLE for value in objects):
        return objects
    memo: dict[int, Any] = {}
    return tuple([copy.deepcopy(value, memo) for value in objects])


def on_cpu(value: Any) -> Any:
    """A tensor where the codes are: objects stay in main memory, wherever the tensors beside them are."""
    return value.cpu() if isinstance(value, Tensor) else value


# -- codes ------------------------------------------------------------------------------------------------------------


def along(dim: int, size: Size) -> Tensor:
    """Codes that count along one dimension, and are the same along the others."""
    strides = [0] * len(size)
    strides[dim] = 1
    return torch.arange(size[dim], device=CPU).as_strided(size, strides)


def row_by_row(size: Size) -> Tensor:
    """Codes that count all positions of a batch."""
    return torch.arange(size.numel(), device=CPU).view(size)


def compact(objects: tuple[Any, ...], codes: Tensor, slack: int = 0) -> tuple[tuple[Any, ...], Tensor]:
    """The objects that are used and no others, where there are (by ``slack``) more of them than positions.

    So a row of a large column does not keep all of it in memory, or send all of it to another process.
    """
    if len(objects) <= codes.numel() + slack:
        return objects, codes
    return tuple([objects[code] for code in listed(codes.flatten())]), row_by_row(codes.shape)


def joined(items: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> tuple[tuple[Any, ...], Tensor]:
    """Several pieces of non-tensor data made one: their objects one behind the other, and their codes joined.

    Pieces with the same objects, such as parts of one column, have them once.
    """
    objects: list[Any] = []
    codes: list[Tensor] = []
    last: tuple[Any, ...] | None = None
    start = 0
    for item in items:
        own = item._objects
        if own is not last:
            start = len(objects)
            objects.extend(own)
            last = own
        codes.append(item._codes(start))
    merged = last if last is not None and len(last) == len(objects) else tuple(objects)
    result = join(codes)
    return compact(merged, result, result.numel() + 16)


# -- nested lists -----------------------------------------------------------------------------------------------------


def listed(codes: Tensor) -> list[Any]:
    """The codes, or other numbers, as (nested) lists."""
    return codes.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def looked_up(codes: Any, objects: tuple[Any, ...]) -> Any:
    """Nested lists of objects, from nested lists of codes."""
    below = codes
    return [looked_up(code, objects) for code in below] if isinstance(codes, list) else objects[codes]


def filled(value: Any, shape: Sequence[int]) -> Any:
    """Nested lists of one object."""
    return [filled(value, shape[1:]) for _ in range(shape[0])] if shape else value


def flattened(value: Any, depth: int | None = None) -> tuple[list[Any], list[int]]:
    """The items of nested lists, and the lengths of the lists on each level, as far down as they are equal.

    >>> flattened([["a", "b"], ["c", "d"]])
    (['a', 'b', 'c', 'd'], [2, 2])
    >>> flattened([["a"], ["b", "c"]])
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
