"""Find the box of an array that must be read or written for an index."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Selection(NamedTuple):
    """A box in an array, and an index into the values of the box.

    The box has an item for each dimension of the index: a slice, or an array of rising positions. At most one item is
    an array, since HDF5 reads no more.
    """

    box: tuple[Any, ...]
    rest: tuple[Any, ...]  #: the index into the values of the box
    exact: bool  #: whether the index selects all values of the box


def box_shape(box: tuple[Any, ...], shape: Sequence[int]) -> list[int]:
    """Return the shape of a box in an array of a shape.

    >>> box_shape((slice(1, 3), [0, 4, 5]), (5, 6, 7))
    [2, 3, 7]
    """
    pairs = zip(box, shape, strict=False)
    lengths = [len(range(*item.indices(size))) if isinstance(item, slice) else len(item) for item, size in pairs]
    return [*lengths, *shape[len(lengths) :]]


def select(index: tuple[Any, ...], shape: Sequence[int]) -> Selection:
    """Return the selection of a prepared index (:func:`tensorclass.td.prepared_index.prepare_index`).

    Args:
        index: the index.
        shape: the shape of the array.

    Raises:
        IndexError: a position is out of range.

    >>> select((slice(1, 3), 4), (5, 5))
    Selection(box=(slice(1, 3, 1), slice(4, 5, 1)), rest=(slice(None, None, None), 0), exact=True)
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
    return Selection(tuple(box), tuple(rest), exact)


def _check(positions: Tensor, size: int, dim: int) -> None:
    if positions.numel():
        low, high = (int(bound) for bound in positions.aminmax())
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def split_box(box: tuple[Any, ...], most: int = 1000) -> list[tuple[slice, tuple[Any, ...]]]:
    """Split a box with many positions into boxes of ``most``: HDF5's time grows with the square of their number.

    Returns:
        The boxes, each with its slice along the dimension of the positions.
    """
    for dim, item in enumerate(box):
        if not isinstance(item, slice) and len(item) > most:
            return [
                (slice(at, min(at + most, len(item))), (*box[:dim], item[at : at + most], *box[dim + 1 :]))
                for at in range(0, len(item), most)
            ]
    return [(slice(None), box)]


def piece_index(box: tuple[Any, ...], where: slice) -> tuple[slice, ...]:
    """Return the index of a piece of :func:`split_box` in the values of the whole box."""
    return tuple([slice(None) if isinstance(item, slice) else where for item in box])


def take_selected(value: Tensor, selection: Selection) -> Tensor:
    """Return the selected values, given those of the box."""
    plain = all(isinstance(item, slice) for item in selection.rest)
    result: Tensor = value if plain else value[selection.rest]
    return result


def assign_rows(rows: Any, selection: Selection, box: Tensor) -> Tensor:
    """Write rows, or a number, to the selected values of a box; return the box."""
    box[selection.rest or ...] = rows.to(device=box.device, dtype=box.dtype) if isinstance(rows, Tensor) else rows
    return box
