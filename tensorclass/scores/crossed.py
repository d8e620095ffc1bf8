"""Prompts crossed with repeats (seeds): shares of variance, and intervals that cover other prompts and other seeds.

Each repeat answers all prompts. What a cell adds to the figure is taken apart into the prompt's part, the repeat's part
and the rest. Pooling the repeats within their prompts covers other prompts; it is right where repeats of a prompt vary
independently (sampled answers). Where a repeat shifts all of its prompts (a training run, a judge, a shuffled set of
examples), the variance of the repeats adds to that, and the number of prompts doesn't lessen it.

Source: Searle, Casella and McCulloch, 1992, "Variance Components", section 4.3 (the two-way crossed classification,
estimates from the analysis of variance); Brennan, 2001, "Generalizability Theory", chapter 3. Degrees of freedom:
Satterthwaite, 1946, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2:110-114.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.intervals import (
    NO_VARIANCE,
    NOTHING,
    ONE_PROMPT,
    Interval,
    Moments,
    Sums,
    added_prompts,
    is_share,
    ratio_moments,
    share_moments,
)
from tensorclass.scores.paired import (
    NO_VARIANCE_OF_DIFFERENCES,
    PairedDifference,
    difference_moments,
    share_difference_moments,
)
from tensorclass.scores.students_t import check_confidence, t_p_value, t_quantile

__all__ = [
    "CrossedVariance",
    "crossed_average",
    "crossed_average_difference",
    "crossed_difference",
    "crossed_interval",
    "crossed_variance",
]

_Numbers = NDArray[np.float64]

_NONE = 1e-24  # a variance that rounding leaves


class CrossedVariance(NamedTuple):
    """The variance of a figure over crossed prompts and repeats: mean squares over the number of cells.

    Attributes:
        of_prompts: from the sums of prompts; expects the prompts' part and the rest.
        of_repeats: from the sums of repeats; expects the repeats' part and the rest.
        rest: from the residuals of both.
        prompts: the number of prompts that count.
        repeats: the number of repeats.
    """

    of_prompts: float
    of_repeats: float
    rest: float
    prompts: int
    repeats: int

    @property
    def seeds(self) -> float:
        """The variance of the figure that repeats add to that of the prompts; never below 0."""
        return max(0.0, self.of_repeats - self.rest)

    @property
    def components(self) -> tuple[float, float, float]:
        """The variances of one verdict over prompts, over repeats, and of the rest."""
        over_prompts = max(0.0, self.of_prompts - self.rest) * self.prompts
        return over_prompts, self.seeds * self.repeats, self.rest * self.prompts * self.repeats

    def squares_by_freedom(self) -> float:
        """The squared mean squares of the repeats' part over their degrees of freedom, for Satterthwaite's formula."""
        if not self.seeds:
            return 0.0
        freedom = (self.prompts - 1) * (self.repeats - 1)
        return self.of_repeats**2 / (self.repeats - 1) + self.rest**2 / freedom


def crossed_variance(above: _Numbers, below: _Numbers) -> CrossedVariance:
    """Take the variance of a ratio of sums apart.

    The ratio is linearised, so the parts are exact for a mean of one value a cell, where none is missing.

    Args:
        above: ``[repeats, prompts]``, what each cell adds above the line.
        below: of the same shape, what it adds below; prompts with 0 in all repeats don't count.

    Returns:
        The variances; NaN where there are fewer than two prompts or repeats.

    Example:
        >>> above = np.array([[1.0, 0, 1, 1], [1, 0, 0, 1], [1, 0, 1, 1]])
        >>> [round(one, 3) for one in crossed_variance(above, np.ones((3, 4))).components]
        [0.194, 0.0, 0.083]
    """
    held = below.sum(0) > 0
    return _variance_of(_influence(above[:, held], below[:, held]))


def _influence(above: _Numbers, below: _Numbers) -> _Numbers:
    total = below.sum()
    value = above.sum() / total if total else nan
    influence = (above - value * below) / total if total else np.full(above.shape, nan)
    # Rounding alone leaves no spread.
    return np.where(np.abs(influence) > 1e-12 * (np.abs(above) + abs(value) * below) / (total or 1.0), influence, 0.0)


def _variance_of(influence: _Numbers) -> CrossedVariance:
    repeats, prompts = influence.shape
    if prompts < 2 or repeats < 2:
        return CrossedVariance(nan, nan, nan, prompts, repeats)
    of_prompt, of_repeat = influence.sum(0), influence.sum(1)
    rest = influence - of_prompt / repeats - of_repeat[:, None] / prompts
    return CrossedVariance(
        float((of_prompt**2).sum()) * prompts / (prompts - 1),
        float((of_repeat**2).sum()) * repeats / (repeats - 1),
        float((rest**2).sum()) * prompts * repeats / ((prompts - 1) * (repeats - 1)),
        prompts,
        repeats,
    )


def crossed_interval(above: _Numbers, below: _Numbers, *, confidence: float = 0.95, share: bool = True) -> Interval:
    """A ratio of sums over crossed prompts and repeats, with an interval that covers other prompts and other repeats.

    It is the interval of the repeats pooled within their prompts (:func:`~tensorclass.scores.intervals.share_interval`
    or :func:`~tensorclass.scores.intervals.t_interval`), with the variance of the repeats added.

    Args:
        above: ``[repeats, prompts]``, what each cell adds above the line.
        below: of the same shape, what it adds below.
        confidence: the level.
        share: whether the figure is meant as a share, 0..1.

    Example:
        >>> above = np.array([[1.0] * 14 + [0.0] * 6, [1.0] * 8 + [0.0] * 12, [1.0] * 11 + [0.0] * 9])
        >>> found = crossed_interval(above, np.ones((3, 20)))
        >>> f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
        '0.55 [0.25, 0.83]'
    """
    check_confidence(confidence)
    held = below.sum(0) > 0
    if not held.any():
        return Interval(nan, nan, nan, "none", NOTHING)
    above, below = above[:, held], below[:, held]
    pooled, counts = above.sum(0), below.sum(0)
    value = float(pooled.sum() / counts.sum())
    parts = crossed_variance(above, below)
    if len(counts) == 1:
        return Interval(value, nan, nan, "none", ONE_PROMPT)
    raw = parts.of_prompts + parts.seeds
    as_share = share and is_share(pooled, counts)
    if not raw and not as_share:
        return Interval(value, nan, nan, "none", NO_VARIANCE, 0.0)
    moments = share_moments(pooled, counts, added_prompts(confidence)) if as_share else ratio_moments(pooled, counts)
    low, high = _ends(value, _combined(moments, *_of_seeds([parts])), confidence)
    if as_share:
        low, high = max(low, 0.0), min(high, 1.0)
    return Interval(value, low, high, "crossed t", stderr=sqrt(raw))


def crossed_difference(
    above_a: _Numbers,
    below_a: _Numbers,
    above_b: _Numbers,
    below_b: _Numbers,
    *,
    confidence: float = 0.95,
    share: bool = True,
    clusters: bool = False,
) -> PairedDifference:
    """The difference of two ratios over the same prompts, each crossed with repeats of its own run, and its t test.

    Prompts are paired; repeats are not: the first seed of a run has nothing to do with the first of the other. A run
    with a single repeat is taken to vary over repeats as the other one does.

    Args:
        above_a: ``[repeats, prompts]``, what each cell of the first run adds above the line.
        below_a: of the same shape, what it adds below.
        above_b: ``[repeats, prompts]``, the second run on the same prompts; its number of repeats may be another.
        below_b: of the same shape.
        confidence: the level of the interval.
        share: whether the figures are meant as shares, 0..1.
        clusters: whether the prompts are clusters of prompts; their means are compared.

    Example:
        >>> a = np.array([[1.0] * 14 + [0.0] * 6, [1.0] * 8 + [0.0] * 12, [1.0] * 11 + [0.0] * 9])
        >>> b, one = np.minimum(a + np.eye(3, 20, k=17), 1), np.ones((3, 20))
        >>> found = crossed_difference(a, one, b, one)
        >>> f"{found.value:.3f} [{found.low:.2f}, {found.high:.2f}], p = {found.p_value:.2f}"
        '0.050 [-0.29, 0.38], p = 0.69'
    """
    check_confidence(confidence)
    held = (below_a.sum(0) > 0) | (below_b.sum(0) > 0)
    sides = [(above[:, held], below[:, held]) for above, below in ((above_a, below_a), (above_b, below_b))]
    sums_a, sums_b = (Sums(above.sum(0), below.sum(0)) for above, below in sides)
    numbers = int(held.sum()), int((sums_a.below > 0).sum()), int((sums_b.below > 0).sum())
    a, b = (float(above.sum() / below.sum()) if below.any() else nan for above, below in (sums_a, sums_b))
    value = b - a
    if value != value:
        return PairedDifference(a, b, value, nan, nan, nan, *numbers, "none", "none", NOTHING)
    (first, second) = (crossed_variance(above, below) for above, below in sides)
    if numbers[0] == 1:
        return PairedDifference(a, b, value, nan, nan, nan, *numbers, "none", "none", ONE_PROMPT)
    plain, seeds = difference_moments(sums_a, sums_b), _of_seeds([first], [second])
    _, raw, freedom = _combined(plain, *seeds)
    p_value = t_p_value(value / sqrt(raw), freedom) if raw > _NONE else (1.0 if value == 0 else nan)
    as_share = share and is_share(*sums_a) and is_share(*sums_b)
    is_adjusted = as_share and not (clusters and raw > _NONE)
    if raw <= _NONE and not as_share:
        reason = NO_VARIANCE_OF_DIFFERENCES
        return PairedDifference(a, b, value, nan, nan, p_value, *numbers, "none", "none", reason, 0.0)
    moments = share_difference_moments(sums_a, sums_b, added_prompts(confidence)) if is_adjusted else plain
    low, high = _ends(value, _combined(moments, *seeds), confidence)
    if as_share:
        low, high = max(low, -1.0), min(high, 1.0)
    test = "none" if p_value != p_value else "t"
    return PairedDifference(a, b, value, low, high, p_value, *numbers, "crossed t", test, "", sqrt(raw))


def _ends(value: float, combined: tuple[float, float, float], confidence: float) -> tuple[float, float]:
    """The ends of the t interval, which holds the value."""
    centre, variance, freedom = combined
    half = float(t_quantile(freedom, confidence)) * sqrt(variance)
    return min(centre - half, value), max(centre + half, value)


def crossed_average(
    tasks: Sequence[Sums], weights: Sequence[float], *, confidence: float = 0.95, share: bool = True
) -> Interval:
    """The weighted mean of the figures of several tasks, each crossed with repeats, with an interval for other repeats.

    A repeat (a training seed) shifts the figures of all tasks, so the tasks share its part of the variance if they
    have the same number of repeats, which then come in the same order.

    Args:
        tasks: the sums of each task, ``[repeats, prompts]`` above and below the line.
        weights: of each task; they add up to 1.
        confidence: the level.
        share: whether the figures are meant as shares, 0..1.

    Example:
        >>> above = np.array([[1.0] * 14 + [0.0] * 6, [1.0] * 8 + [0.0] * 12, [1.0] * 11 + [0.0] * 9])
        >>> found = crossed_average([Sums(above, np.ones((3, 20)))] * 2, [0.5, 0.5])
        >>> f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
        '0.55 [0.27, 0.83]'
    """
    check_confidence(confidence)
    if not all(one.below.any() for one in tasks):
        return Interval(nan, nan, nan, "none", NOTHING)
    pooled = [_pooled(one) for one in tasks]
    value = sum(weight * one.value for weight, one in zip(weights, pooled, strict=True))
    moments = _weighted([ratio_moments(*one) for one in pooled], weights)
    centre, variance, freedom = _combined(moments, *_of_seeds(_seed_variances(tasks, weights)))
    if not variance > _NONE:
        return Interval(value, nan, nan, "none", NO_VARIANCE, 0.0)
    low, high = _ends(value, (centre, variance, freedom), confidence)
    if share and all(is_share(*one) for one in pooled):
        low, high = max(low, 0.0), min(high, 1.0)
    return Interval(value, low, high, "crossed t", stderr=sqrt(variance))


def crossed_average_difference(
    tasks: Sequence[tuple[Sums, Sums]], weights: Sequence[float], *, confidence: float = 0.95
) -> PairedDifference:
    """The difference of the weighted means of two runs over tasks, each crossed with repeats, and its t test.

    Args:
        tasks: the sums of both runs in each task, ``[repeats, prompts]``, on the same prompts.
        weights: of each task; they add up to 1.
        confidence: the level of the interval.

    Example:
        >>> a = np.array([[1.0] * 14 + [0.0] * 6, [1.0] * 8 + [0.0] * 12, [1.0] * 11 + [0.0] * 9])
        >>> one = Sums(a, np.ones((3, 20)))
        >>> found = crossed_average_difference([(one, one), (one, one)], [0.5, 0.5])
        >>> found.value, found.p_value
        (0.0, 1.0)
    """
    check_confidence(confidence)
    pooled = [(_pooled(a), _pooled(b)) for a, b in tasks]
    counts = [tuple(int((one.below > 0).sum()) for one in both) for both in pooled]
    prompts = sum(int(((a.below > 0) | (b.below > 0)).sum()) for a, b in pooled)
    numbers = prompts, sum(a for a, _ in counts), sum(b for _, b in counts)
    if not all(a and b for a, b in counts):
        return PairedDifference(nan, nan, nan, nan, nan, nan, *numbers, "none", "none", NOTHING)
    a, b = (sum(weight * both[run].value for weight, both in zip(weights, pooled, strict=True)) for run in (0, 1))
    value = b - a
    moments = _weighted([difference_moments(*both) for both in pooled], weights)
    runs = [_seed_variances([both[run] for both in tasks], weights) for run in (0, 1)]
    centre, variance, freedom = _combined(moments, *_of_seeds(*runs))
    if not variance > _NONE:
        p_value, reason = (1.0 if value == 0 else nan), NO_VARIANCE_OF_DIFFERENCES
        return PairedDifference(a, b, value, nan, nan, p_value, *numbers, "none", "none", reason, 0.0)
    low, high = _ends(value, (centre, variance, freedom), confidence)
    p_value = t_p_value(value / sqrt(variance), freedom)
    return PairedDifference(a, b, value, low, high, p_value, *numbers, "crossed t", "t", "", sqrt(variance))


def _pooled(cells: Sums) -> Sums:
    held = cells.below.sum(0) > 0
    return Sums(cells.above.sum(0)[held], cells.below.sum(0)[held])


def _seed_variances(tasks: Sequence[Sums], weights: Sequence[float]) -> list[CrossedVariance]:
    """The variances of the repeats of one run: of all tasks together where they share the repeats, else of each."""
    each = [weight * _influence(*one) for weight, one in zip(weights, tasks, strict=True)]
    if len({len(one) for one in each}) == 1:
        return [_variance_of(np.concatenate(each, axis=1))]
    return [_variance_of(one) for one in each]


def _weighted(each: Sequence[Moments], weights: Sequence[float]) -> Moments:
    """The moments of a weighted mean of independent figures."""
    values, variances, freedoms = (np.array([float(one[place]) for one in each]) for place in range(3))
    weight = np.asarray(weights, dtype=np.float64)
    parts = weight**2 * variances
    spread = float((parts**2 / freedoms).sum())
    freedom = float(parts.sum()) ** 2 / spread if spread else float(freedoms.sum())
    return Moments(np.asarray(weight @ values), parts.sum(), np.asarray(freedom))


def _of_seeds(*runs: Sequence[CrossedVariance]) -> tuple[float, float]:
    """The variance that the repeats of one or two runs add, and its squares over the degrees of freedom.

    A run with a single repeat takes the variance of the other run's repeats.
    """
    variance, squares = 0.0, 0.0
    for own, other in zip(runs, runs[::-1], strict=True):
        for place, part in enumerate(own):
            if part.repeats > 1:
                lends = len(own) == len(other) and other[place].repeats == 1
                factor = 1.0 + (part.repeats if lends else 0.0)
                variance += factor * part.seeds
                squares += factor**2 * part.squares_by_freedom()
    return variance, squares


def _combined(moments: Moments, seeds: float, squares_of_seeds: float) -> tuple[float, float, float]:
    """The centre, its variance with that of the repeats, and Satterthwaite's degrees of freedom, at least 1."""
    own = float(moments.variance)
    variance = own + seeds
    squares = own**2 / float(moments.freedom) + squares_of_seeds
    return float(moments.value), variance, max(variance**2 / squares, 1.0) if squares > 0 else 1.0
