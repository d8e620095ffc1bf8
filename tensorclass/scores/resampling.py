"""Bootstrap resamples of sums: exact, seeded, the same in any order of the rows, in bounded memory.

A row here is one prompt with a few numbers (a numerator and a denominator, or two of each). Only sums of the numbers
over a resample are wanted, and scores take few distinct values, so a resample is drawn as how often each distinct row
occurs: a multinomial draw over the distinct rows has the distribution of drawing N rows with replacement, at a cost
that doesn't grow with N. Rows that are nearly all distinct are drawn by index instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RESAMPLES", "DistinctRows", "distinct_rows", "generator", "resample_sums"]

RESAMPLES = 10_000
"""Resamples drawn by default."""

FEWEST_RESAMPLES = 1_000
"""The default falls to this where every resample has to draw many rows one by one."""

_DRAWS_BY_DEFAULT = 200_000_000  # rows drawn by index at most by default: about two seconds
_CHUNK = 1_000_000  # numbers held at a time while resampling
_BLOCK = 1 << 16  # rows sorted at a time


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The distinct rows of a table in rising order, and how often each occurs.

    Attributes:
        rows: ``[distinct, columns]``.
        counts: ``[distinct]``, int64, each at least 1.
    """

    rows: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """The number of rows of the table."""
        return int(self.counts.sum())

    def sums(self) -> NDArray[np.float64]:
        """The sum of each column; the order of the rows in the table doesn't change a bit of it."""
        sums: NDArray[np.float64] = (self.rows * self.counts[:, None]).sum(axis=0)
        return sums


def distinct_rows(columns: Sequence[NDArray[np.float64]]) -> DistinctRows:
    """The distinct rows of a table given by its columns.

    Args:
        columns: at least one, each ``[N]``, without NaN.

    Example:
        >>> table = distinct_rows([np.array([1.0, 0.0, 1.0]), np.array([2.0, 2.0, 2.0])])
        >>> table.rows.tolist(), table.counts.tolist()
        ([[0.0, 2.0], [1.0, 2.0]], [1, 2])
    """
    if len(columns[0]) <= _BLOCK:
        counts, first, _ = distinct_places(columns)
        return DistinctRows(np.stack([column[first] for column in columns], axis=1), counts)
    # Block by block: in the processor's cache, and in little memory.
    starts = range(0, len(columns[0]), _BLOCK)
    tables = [distinct_rows([column[start : start + _BLOCK] for column in columns]) for start in starts]
    rows = np.concatenate([table.rows for table in tables])
    _, first, place = distinct_places([rows[:, column] for column in range(len(columns))])
    counts = np.bincount(place, weights=np.concatenate([table.counts for table in tables]))
    return DistinctRows(rows[first], counts.astype(np.int64))


def distinct_places(
    columns: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the distinct rows of a table; return first positions and the code of each row, too.

    Example:
        >>> counts, first, place = distinct_places([np.array([1.0, 0.0, 1.0])])
        >>> counts.tolist(), first.tolist(), place.tolist()
        ([1, 2], [1, 0], [1, 0, 1])
    """
    rank = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        if len(values) > 1:
            # Ranks stay below N at each step, so the product can't overflow.
            rank = np.unique(rank * len(values) + codes, return_inverse=True)[1]
    _, first, place, counts = np.unique(rank, return_index=True, return_inverse=True, return_counts=True)
    return counts.astype(np.int64), first.astype(np.int64), place.astype(np.int64)


def generator(seed: int, name: str) -> np.random.Generator:
    """The random generator of one figure: fixed by the seed and the figure's name, not by what else is aggregated."""
    if seed < 0:
        raise ValueError(f"seed: expected a whole number of at least 0, got {seed}")
    return np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "surrogatepass"))])


def default_resamples(table: DistinctRows) -> int:
    """Return the number of resamples if the caller gives none.

    10,000; where rows have to be drawn one by one and are more than 20,000, fewer, down to 1,000.
    """
    if _few(table):
        return RESAMPLES
    return max(FEWEST_RESAMPLES, min(RESAMPLES, _DRAWS_BY_DEFAULT // table.total))


def resample_sums(table: DistinctRows, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Column sums of ``resamples`` bootstrap resamples of the table's rows (Efron, 1979).

    Returns:
        ``[resamples, columns]``. Memory beyond it is bounded, whatever the number of rows.

    Example:
        >>> table = distinct_rows([np.array([0.0, 1.0, 1.0, 1.0])])
        >>> sums = resample_sums(table, 1000, np.random.default_rng(0))
        >>> sums.shape, sums.min() >= 0, sums.max() <= 4
        ((1000, 1), np.True_, np.True_)
    """
    if resamples < 1:
        raise ValueError(f"resamples: expected a whole number of at least 1, got {resamples}")
    return _by_counts(table, resamples, rng) if _few(table) else _by_index(table, resamples, rng)


def _few(table: DistinctRows) -> bool:
    # A multinomial draw costs about five times an index draw for each cell.
    return 5 * len(table.counts) <= table.total


def _by_counts(table: DistinctRows, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    total, shares = table.total, table.counts / table.total
    sums = np.empty((resamples, table.rows.shape[1]))
    step = max(1, _CHUNK // len(shares))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        sums[start:stop] = rng.multinomial(total, shares, size=stop - start) @ table.rows
    return sums


def _by_index(table: DistinctRows, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    total = table.total
    rows = np.repeat(table.rows, table.counts, axis=0)
    sums = np.zeros((resamples, rows.shape[1]))
    step = max(1, _CHUNK // total)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        for first in range(0, total, _CHUNK):
            drawn = rng.integers(0, total, size=(stop - start, min(_CHUNK, total - first)))
            for column in range(rows.shape[1]):
                sums[start:stop, column] += rows[:, column][drawn].sum(axis=1)
    return sums
