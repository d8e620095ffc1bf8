"""Bootstrap intervals and permutation tests of any figure of rows: functions on arrays.

A figure here is a function of rows and their weights, where a weight of 2 counts a row twice. A resample draws units
(prompts, or clusters of them) with replacement: all rows of a unit get the weight of how often it was drawn.

The interval is the BCa interval (Efron, 1987, "Better bootstrap confidence intervals", JASA 82:171-185), which corrects
for bias and skewness, with the levels widened for few units (Hesterberg, 2015, "What teachers should know about the
bootstrap", The American Statistician 69:371-386, the expanded percentile interval). The test of two runs swaps the
outcomes of units at random (Fisher, 1935, section 21), as :mod:`tensorclass.scores.signflips` does for ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from math import nan, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.intervals import NO_VARIANCE, NOTHING, ONE_PROMPT, Interval
from tensorclass.scores.paired import NO_VARIANCE_OF_DIFFERENCES
from tensorclass.scores.resampling import generator
from tensorclass.scores.students_t import check_confidence, t_quantile

__all__ = ["DEFAULT_RESAMPLES", "MemberFigure", "WeightedFigure", "bootstrap_difference", "bootstrap_interval"]

_Numbers = NDArray[np.float64]

WeightedFigure: TypeAlias = Callable[[Sequence[_Numbers], _Numbers], _Numbers]
"""From columns, ``[rows]`` each, and weights, ``[resamples, rows]``, to figures, ``[resamples]``; NaN: undefined."""


@dataclass(frozen=True, eq=False)
class MemberFigure:
    """One of several figures that are computed together, such as the ratings of models: resamples are drawn once.

    Args:
        every: the function of columns and weights that computes all figures, ``[resamples, members]``.
        place: of the figure among them.
        stream: with the seed it fixes the resamples of all members.
        held: what was computed, the same dictionary for all members.
    """

    every: WeightedFigure
    place: int
    stream: str
    held: dict[Hashable, _Numbers]

    def __call__(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return self.every(columns, weights)[..., self.place]

    def remembered(self, key: Hashable, compute: Callable[[], tuple[Sequence[_Numbers], _Numbers]]) -> _Numbers:
        """The figures of the columns and weights that ``compute`` gives; it is called once for all members."""
        if key not in self.held:
            self.held[key] = self.every(*compute())
        return self.held[key][..., self.place]


DEFAULT_RESAMPLES = 2_000
FEWEST_RESAMPLES = 200
"""The default falls to this where every resample has to look at many rows."""

UNDEFINED = "the figure is not defined for these rows"
OFTEN_UNDEFINED = "the figure is not defined in more than a tenth of the resamples"

_WORK = 100_000_000  # weights in all resamples at most by default
_CHUNK = 4_000_000  # weights held at a time
_LEFT_OUT = 200  # groups of the jackknife at most
_TIE = 1e-9


class PairedFigures(NamedTuple):
    """A figure of two runs on the same prompts, and its difference ``b - a``.

    Attributes:
        a: the figure of the first run.
        b: that of the second.
        difference: with its interval.
        p_value: two-sided, of no difference; NaN where there is none.
    """

    a: float
    b: float
    difference: Interval
    p_value: float


@dataclass(frozen=True, eq=False)
class _Units:
    """The distinct units in an order that their content fixes, and their rows.

    Attributes:
        columns: ``[rows]`` each: the rows of the distinct units.
        unit: ``[rows]``, the distinct unit of each row.
        counts: ``[distinct units]``, how often each occurs.
    """

    columns: tuple[_Numbers, ...]
    unit: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """The number of units, equal ones counted each."""
        return int(self.counts.sum())

    def draws(self, resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw units with replacement: how often each distinct one comes, ``[resamples, distinct units]``."""
        if 5 * len(self.counts) <= self.total:
            return rng.multinomial(self.total, self.counts / self.total, size=resamples)
        every = np.repeat(np.arange(len(self.counts)), self.counts)
        drawn = (every[rng.integers(0, self.total, self.total)] for _ in range(resamples))
        return np.array([np.bincount(one, minlength=len(self.counts)) for one in drawn])

    def left_out(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Leave out groups of units in turn: how often each stays, and how many such groups there are."""
        kinds = len(self.counts)
        if kinds <= _LEFT_OUT:  # each unit in turn; equal ones give the same
            return self.counts - np.eye(kinds, dtype=np.int64), self.counts
        every = rng.permutation(np.repeat(np.arange(kinds), self.counts))
        groups = [np.bincount(every[first::_LEFT_OUT], minlength=kinds) for first in range(_LEFT_OUT)]
        return self.counts - np.array(groups), np.ones(_LEFT_OUT, dtype=np.int64)


def bootstrap_interval(
    figure: WeightedFigure,
    columns: Sequence[_Numbers],
    unit: NDArray[np.int64],
    *,
    name: str = "",
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    biased: bool = False,
    fewest: int = 2,
) -> Interval:
    """A figure of rows, its BCa interval and its bootstrap standard error.

    Args:
        figure: of rows and weights.
        columns: ``[rows]`` each.
        unit: ``[rows]``, the unit of each row: rows of one unit are drawn together.
        name: the figure's name; with the seed it fixes the resamples. The order of the units doesn't change them.
        seed: of the resamples.
        resamples: how many; by default 2,000, or fewer (at least 200) of many rows.
        confidence: the level.
        biased: whether the figure is a sum of distances, at least 0 and on average above its truth. Its interval is
            then the t interval with the bootstrap's standard error around the figure less the bootstrap's estimate of
            the bias (Efron and Tibshirani, 1993, section 10.6), widened to the figure: ``"bias-corrected t"``.
        fewest: the number of units below which there is no interval.

    Example:
        >>> def mean(columns, weights):
        ...     return weights @ columns[0] / weights.sum(-1)
        >>> found = bootstrap_interval(mean, [np.arange(20.0)], np.arange(20))
        >>> f"{found.value} [{found.low:.1f}, {found.high:.1f}] ± {found.stderr:.2f}"
        '9.5 [6.8, 12.3] ± 1.32'
    """
    check_confidence(confidence)
    if not len(unit):
        return Interval(nan, nan, nan, "none", NOTHING)
    units = _distinct_units(columns, unit)
    rng = generator(seed, figure.stream if isinstance(figure, MemberFigure) else name)
    # Members that are computed together make the same calls in the same order.
    rows, calls = hash((units.counts.tobytes(), *(column.tobytes() for column in units.columns))), count()

    def figures(draw: Callable[[], NDArray[np.int64]]) -> _Numbers:
        def weighted() -> tuple[Sequence[_Numbers], _Numbers]:
            return units.columns, draw()[:, units.unit].astype(np.float64)

        if isinstance(figure, MemberFigure):
            return figure.remembered((rows, seed, resamples, next(calls)), weighted)
        return figure(*weighted())

    found = _interval(figures, units, rng, resamples, confidence, NO_VARIANCE, biased)
    if 1 < units.total < fewest and found.low == found.low:
        reason = f"an interval at this level needs at least {fewest} prompts"
        return Interval(found.value, nan, nan, "none", reason, found.stderr)
    return found


def bootstrap_difference(
    figure: WeightedFigure,
    columns: Sequence[_Numbers],
    second: NDArray[np.bool_],
    unit: NDArray[np.int64],
    *,
    name: str = "",
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
) -> PairedFigures:
    """The difference of a figure between two runs on the same units, its BCa interval, and the permutation test.

    Args:
        figure: of rows and weights.
        columns: ``[rows]`` each, the rows of both runs.
        second: ``[rows]``, whether a row is of the second run.
        unit: ``[rows]``, the unit of each row; units are the same in both runs.
        name: the figure's name; with the seed it fixes the resamples.
        seed: of the resamples.
        resamples: how many; by default 2,000, or fewer (at least 200) of many rows.
        confidence: the level.

    Example:
        >>> def mean(columns, weights):
        ...     return weights @ columns[0] / weights.sum(-1)
        >>> both, unit = np.concatenate([np.zeros(12), np.tile([0.0, 1.0], 6)]), np.tile(np.arange(12), 2)
        >>> found = bootstrap_difference(mean, [both], np.arange(24) >= 12, unit)
        >>> found.difference.value, found.p_value < 0.05
        (0.5, True)
    """
    check_confidence(confidence)
    if not second.any() or second.all():
        return PairedFigures(nan, nan, Interval(nan, nan, nan, "none", NOTHING), nan)
    units, rng = _distinct_units([*columns, second.astype(np.float64)], unit), generator(seed, name)
    own, of_second = units.columns[:-1], units.columns[-1] == 1

    def each(first_run: _Numbers, second_run: _Numbers) -> _Numbers:
        return figure(own, second_run) - figure(own, first_run)

    def differences(draw: Callable[[], NDArray[np.int64]]) -> _Numbers:
        weights = draw()[:, units.unit].astype(np.float64)
        return each(np.where(of_second, 0.0, weights), np.where(of_second, weights, 0.0))

    found = _interval(differences, units, rng, resamples, confidence, NO_VARIANCE_OF_DIFFERENCES)
    whole = units.counts[None, units.unit].astype(np.float64)
    a, b = (float(figure(own, np.where(of_second == run, whole, 0.0))[0]) for run in (False, True))
    if found.value != found.value:
        return PairedFigures(a, b, found, nan)
    beyond, ways = 0, _number(units, resamples)
    for step in _steps(ways, len(units.unit)):
        swapped = rng.binomial(units.counts, 0.5, (step, len(units.counts)))[:, units.unit]
        kept = units.counts[units.unit] - swapped
        apart = each(np.where(of_second, swapped, kept) * 1.0, np.where(of_second, kept, swapped) * 1.0)
        # A way in which a run has no figure counts as far, which is the safe side.
        beyond += int(np.count_nonzero(~(np.abs(apart) < abs(found.value) * (1 - _TIE))))
    return PairedFigures(a, b, found, (1 + beyond) / (1 + ways))


def _interval(
    figures: Callable[[Callable[[], NDArray[np.int64]]], _Numbers],
    units: _Units,
    rng: np.random.Generator,
    resamples: int | None,
    confidence: float,
    no_variance: str,
    biased: bool = False,
) -> Interval:
    value = float(figures(lambda: units.counts[None, :])[0])
    if value != value:
        return Interval(value, nan, nan, "none", UNDEFINED)
    total = units.total
    if total == 1:
        return Interval(value, nan, nan, "none", ONE_PROMPT)
    rows = len(units.unit)
    number = _number(units, resamples)
    every = np.concatenate([figures(partial(units.draws, step, rng)) for step in _steps(number, rows)])
    drawn = every[~np.isnan(every)]
    if len(drawn) < 0.9 * number:
        return Interval(value, nan, nan, "none", OFTEN_UNDEFINED)
    spread = float(np.ptp(drawn))
    if spread <= 1e-12 * abs(value):
        return Interval(value, nan, nan, "none", no_variance, 0.0)
    stderr = float(np.std(drawn, ddof=1)) * sqrt(total / (total - 1))
    if biased:
        centre, half = 2 * value - float(np.mean(drawn)), float(t_quantile(total - 1.0, confidence)) * stderr
        low, high = max(centre - half, 0.0), centre + half
        return Interval(value, min(low, value), max(high, value), "bias-corrected t", stderr=stderr)
    left, weights = units.left_out(rng)
    parts = np.cumsum([0, *_steps(len(left), rows)])
    without = np.concatenate([figures(partial(left.__getitem__, slice(*ends))) for ends in pairwise(parts.tolist())])
    low, high = _bca_ends(value, drawn, without, weights, total, confidence)
    return Interval(value, min(low, value), max(high, value), "BCa", stderr=stderr)


def _bca_ends(
    value: float, drawn: _Numbers, without: _Numbers, weights: NDArray[np.int64], units: int, confidence: float
) -> tuple[float, float]:
    """The ends of the BCa interval from the resampled figures and those of the jackknife."""
    normal = NormalDist()
    number = len(drawn)
    near = 1e-12 * abs(value)
    ties = np.abs(drawn - value) <= near  # they count half
    below = float(np.mean(np.where(ties, 0.5, drawn < value)))
    bias = normal.inv_cdf(min(max(below, 1 / (number + 1)), number / (number + 1)))
    known = ~np.isnan(without)
    deviation = np.average(without[known], weights=weights[known]) - without[known]
    squares = float((weights[known] * deviation**2).sum())
    skew = float((weights[known] * deviation**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0
    reach = float(t_quantile(units - 1.0, confidence)) * sqrt(units / (units - 1))
    levels: list[float] = []
    for sign in (-1.0, 1.0):
        moved = bias + sign * reach
        # Beyond the pole of the correction lies the extreme.
        level = normal.cdf(bias + moved / (1 - skew * moved)) if skew * moved < 1 else (1.0 if sign > 0 else 0.0)
        levels.append(level)
    low, high = np.quantile(drawn, levels)
    return float(low), float(high)


def _number(units: _Units, resamples: int | None) -> int:
    if resamples is None:
        return max(FEWEST_RESAMPLES, min(DEFAULT_RESAMPLES, _WORK // len(units.unit)))
    if resamples < 1:
        raise ValueError(f"resamples: expected a whole number of at least 1, got {resamples}")
    return resamples


def _steps(number: int, rows: int) -> list[int]:
    """Split a number of resamples into parts whose weights fit into memory."""
    step = max(1, _CHUNK // rows)
    return [min(step, number - first) for first in range(0, number, step)]


def _distinct_units(columns: Sequence[_Numbers], unit: NDArray[np.int64]) -> _Units:
    """Sort units by their content, and keep one of each that are equal."""
    row = _hash_of_rows(columns)
    order = np.lexsort((row, unit))
    starts = np.flatnonzero(np.diff(unit[order], prepend=unit[order[0]] - 1))
    content = np.add.reduceat(row[order], starts)  # rows of a unit in any order
    _, first, counts = np.unique(content, return_index=True, return_counts=True)
    ends = np.append(starts[1:], len(order))
    kept = [order[starts[one] : ends[one]] for one in first.tolist()]
    place = np.repeat(np.arange(len(first)), [len(rows) for rows in kept])
    rows = np.concatenate(kept)
    return _Units(tuple(np.asarray(column)[rows] for column in columns), place, counts.astype(np.int64))


def _hash_of_rows(columns: Sequence[_Numbers]) -> NDArray[np.uint64]:
    """A number for the content of each row: splitmix64 (Steele, Lea and Flood, 2014) over the bits of its values."""
    found = np.full(len(columns[0]), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in columns:
        bits: NDArray[np.uint64] = np.frombuffer((column + 0.0).tobytes(), dtype=np.uint64)  # -0.0 is 0.0
        found = (found ^ bits) + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found = found ^ (found >> np.uint64(31))
    return found
