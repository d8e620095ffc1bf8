"""Which part of an array has to be read, or written, for an index."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor


class Part(NamedTuple):
    """A box in an array, and what of it an index asks for.

    The box has an entry for each dimension that the index has: a slice, or an array of positions that rise. At most one
    is such an array, which is what HDF5 can read.
    """

    box: tuple[Any, ...]
    rest: tuple[Any, ...]  #: the index into what the box holds
    exact: bool  #: the index asks for all that is in the box

    def shape(self, shape: Sequence[int]) -> list[int]:
        """The shape of the box in an array of some shape."""
        pairs: list[tuple[Any, int]] = list(zip(self.box, shape, strict=False))
        lengths = [len(range(*item.indices(size))) if type(item) is slice else len(item) for item, size in pairs]
        return [*lengths, *shape[len(lengths) :]]


def part_of(index: tuple[Any, ...], shape: Sequence[int]) -> Part:
    """The part of an array for a prepared index (:func:`tensorclass.td.indexing.prepare_index`).

    Raises:
        IndexError: a position is out of range.

    >>> part_of((slice(1, 3), 4), (5, 5))
    Part(box=(slice(1, 3, 1), slice(4, 5, 1)), rest=(slice(None, None, None), 0), exact=True)
    """
    box: list[Any] = []
    rest: list[Any] = []
    exact = True
    listed = False
    for item in index:
        if item is None or isinstance(item, bool):
            exact = exact and item is not False
            rest.append(item)
            continue
        size = shape[len(box)]
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            if step < 0:
                raise ValueError("step must be greater than zero")
            box.append(slice(start, max(start, stop), step))
            rest.append(slice(None))
        elif isinstance(item, Tensor):
            positions = item.to(device="cpu", dtype=torch.int64)
            _check(positions, size, len(box))
            positions = positions % size if size else positions
            if listed or not positions.numel():
                low = int(positions.min()) if positions.numel() else 0
                box.append(slice(low, int(positions.max()) + 1 if positions.numel() else 0, 1))
                rest.append(positions - low)
                exact = False
            else:
                unique: Any = torch.unique  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                distinct, inverse = unique(positions, return_inverse=True)
                low, high = int(distinct[0]), int(distinct[-1])
                box.append(slice(low, high + 1, 1) if high - low < len(distinct) else distinct.numpy())
                rest.append(inverse)
                listed = True
        else:
            at = operator.index(item)
            _check(torch.tensor([at], device="cpu"), size, len(box))
            at = at % size
            box.append(slice(at, at + 1, 1))
            rest.append(0)
    return Part(tuple(box), tuple(rest), exact)


def _check(positions: Tensor, size: int, dim: int) -> None:
    if positions.numel():
        low, high = (int(bound) for bound in positions.aminmax())
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def pieces(box: tuple[Any, ...], most: int = 1000) -> list[tuple[slice, tuple[Any, ...]]]:
    """A box whose array of positions is long in several: HDF5's time for one grows with the square of its length.

    Each comes with where it lies along that dimension.
    """
    for dim, item in enumerate(box):
        if not isinstance(item, slice) and len(item) > most:
            return [
                (slice(at, min(at + most, len(item))), (*box[:dim], item[at : at + most], *box[dim + 1 :]))
                for at in range(0, len(item), most)
            ]
    return [(slice(None), box)]


def along(box: tuple[Any, ...], where: slice) -> tuple[slice, ...]:
    """The index of a piece in the values of its box."""
    return tuple([slice(None) if isinstance(item, slice) else where for item in box])


def picked(value: Tensor, part: Part) -> Tensor:
    """What the index asks for, of the values in the box."""
    plain = all(isinstance(item, slice) for item in part.rest)
    result: Tensor = value if plain else value[part.rest]
    return result


def spread(rows: Any, part: Part, box: Tensor) -> Tensor:
    """The values of a box with rows, or a number, written into it."""
    box[part.rest or ...] = rows.to(device=box.device, dtype=box.dtype) if isinstance(rows, Tensor) else rows
    return box


def whole(shape: Sequence[int]) -> Part:
    """The part that is everything."""
    return Part(tuple([slice(0, length, 1) for length in shape]), (), True)


def size_after(part: Part, shape: Sequence[int]) -> Size:
    """The shape that an index gives."""
    return torch.zeros((), device="cpu").expand(part.shape(shape))[part.rest or ...].shape
