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

__all__ = ["CrossedVariance", "crossed_difference", "crossed_interval", "crossed_variance"]

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
    above, below = above[:, held], below[:, held]
    repeats, prompts = above.shape
    if prompts < 2 or repeats < 2:
        return CrossedVariance(nan, nan, nan, prompts, repeats)
    value = above.sum() / below.sum()
    influence = (above - value * below) / below.sum()
    influence = np.where(np.abs(influence) > 1e-12 * (np.abs(above) + abs(value) * below) / below.sum(), influence, 0.0)
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
    low, high = _ends(value, _combined(moments, parts), confidence)
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
) -> PairedDifference:
    """The difference of two ratios over the same prompts, each crossed with repeats of its own run, and its t test.

    Prompts are paired; repeats are not: the first seed of a run has nothing to do with the first of the other.

    Args:
        above_a: ``[repeats, prompts]``, what each cell of the first run adds above the line.
        below_a: of the same shape, what it adds below.
        above_b: ``[repeats, prompts]``, the second run on the same prompts; its number of repeats may be another.
        below_b: of the same shape.
        confidence: the level of the interval.
        share: whether the figures are meant as shares, 0..1.

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
    plain = difference_moments(sums_a, sums_b)
    _, raw, freedom = _combined(plain, first, second)
    p_value = t_p_value(value / sqrt(raw), freedom) if raw > _NONE else (1.0 if value == 0 else nan)
    as_share = share and is_share(*sums_a) and is_share(*sums_b)
    if raw <= _NONE and not as_share:
        reason = NO_VARIANCE_OF_DIFFERENCES
        return PairedDifference(a, b, value, nan, nan, p_value, *numbers, "none", "none", reason, 0.0)
    moments = share_difference_moments(sums_a, sums_b, added_prompts(confidence)) if as_share else plain
    low, high = _ends(value, _combined(moments, first, second), confidence)
    if as_share:
        low, high = max(low, -1.0), min(high, 1.0)
    test = "none" if p_value != p_value else "t"
    return PairedDifference(a, b, value, low, high, p_value, *numbers, "crossed t", test, "", sqrt(raw))


def _ends(value: float, combined: tuple[float, float, float], confidence: float) -> tuple[float, float]:
    """The ends of the t interval, which holds the value."""
    centre, variance, freedom = combined
    half = float(t_quantile(freedom, confidence)) * sqrt(variance)
    return min(centre - half, value), max(centre + half, value)


def _combined(moments: Moments, *parts: CrossedVariance) -> tuple[float, float, float]:
    """The centre, its variance with that of the repeats, and Satterthwaite's degrees of freedom, at least 1."""
    own = float(moments.variance)
    variance = own + sum(part.seeds for part in parts)
    squares = own**2 / float(moments.freedom) + sum(part.squares_by_freedom() for part in parts)
    return float(moments.value), variance, max(variance**2 / squares, 1.0) if squares > 0 else 1.0
