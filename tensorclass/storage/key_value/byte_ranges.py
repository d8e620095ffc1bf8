"""Find the bytes of a box in an array of raw values in C order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: the most bytes that are read without need between two runs, since each command takes about as long
_MOST_BETWEEN = 4096


class ByteRuns(NamedTuple):
    """Equally long runs of bytes, in rising order: the values of a box, one run after the other."""

    starts: np.ndarray[Any, np.dtype[np.int64]]
    length: int  #: bytes of each run

    def merged(self) -> list[tuple[int, int]]:
        """Return few ranges ``(start, stop)`` that contain all runs, for reading.

        >>> ByteRuns(np.array([0, 8, 90_000]), 4).merged()
        [(0, 12), (90000, 90004)]
        """
        if not len(self.starts) or not self.length:
            return []
        breaks = np.flatnonzero(np.diff(self.starts) > self.length + _MOST_BETWEEN) + 1
        return [(int(group[0]), int(group[-1]) + self.length) for group in np.split(self.starts, breaks)]


def runs_of(box: Sequence[Any], shape: Sequence[int], itemsize: int) -> ByteRuns:
    """Return the runs of bytes of a box (:class:`~tensorclass.storage.hdf5_zarr.array_selection.Selection`).

    Args:
        box: slices, or arrays of rising positions, for the first dimensions.
        shape: the shape of the array.
        itemsize: the bytes of a value.

    >>> runs_of([slice(1, 3, 1)], [5, 2], 4)
    ByteRuns(starts=array([8]), length=16)
    >>> runs_of([slice(0, 2, 1), slice(1, 2, 1)], [5, 2], 4)
    ByteRuns(starts=array([ 4, 12]), length=4)
    """
    positions = [
        np.arange(size)[item] if isinstance(item, slice) else np.asarray(item, dtype=np.int64)
        for item, size in zip(box, shape, strict=False)
    ]
    length = itemsize * math.prod(shape[len(positions) :])
    starts = np.zeros(1, dtype=np.int64)
    stride = length
    for at in reversed(range(len(positions))):
        chosen, size = positions[at], shape[at]
        is_run = len(chosen) == 0 or int(chosen[-1]) - int(chosen[0]) == len(chosen) - 1
        if len(starts) == 1 and length == stride and is_run:  # one run so far, of whole inner dimensions
            first = int(chosen[0]) if len(chosen) else 0
            starts = starts + first * stride
            length *= len(chosen)
        else:
            starts = (chosen[:, None] * stride + starts).ravel()
        stride *= size
    return ByteRuns(starts, length)


def gather(runs: ByteRuns, pieces: Sequence[bytes], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the values of runs, given the bytes of :meth:`ByteRuns.merged`.

    >>> runs = ByteRuns(np.array([0, 2]), 1)
    >>> gather(runs, [b"abc"], np.dtype("u1")).tobytes()
    b'ac'
    """
    ranges = runs.merged()
    for (start, stop), piece in zip(ranges, pieces, strict=True):
        if len(piece) != stop - start:
            raise ValueError(f"expected {stop - start} bytes from byte {start} on, found {len(piece)}")
    if not ranges:
        return np.empty(0, dtype=dtype)
    held: np.ndarray[Any, Any] = np.frombuffer(b"".join(pieces), dtype=dtype)
    if len(runs.starts) == 1:
        return held
    firsts = np.array([start for start, _ in ranges])
    sizes = np.array([stop - start for start, stop in ranges])
    shift = np.cumsum(sizes) - sizes - firsts  # from a byte of the array to that of the pieces
    starts = runs.starts + shift[np.searchsorted(firsts, runs.starts, side="right") - 1]
    size = dtype.itemsize
    chosen = (starts // size)[:, None] + np.arange(runs.length // size)
    values: np.ndarray[Any, Any] = held[chosen.ravel()]
    return values
