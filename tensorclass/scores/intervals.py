"""Confidence intervals of one figure: the t interval over prompts, for shares after a few prompts are added."""

from __future__ import annotations

from math import nan, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.limits import ROUNDING
from tensorclass.scores.resampling import default_resamples, distinct_rows, generator, resample_sums
from tensorclass.scores.students_t import check_confidence, t_quantile

__all__ = [
    "Interval",
    "Sums",
    "added_prompts",
    "interval_of_ratio",
    "is_share",
    "percentile_interval",
    "share_interval",
    "standard_error",
    "t_interval",
    "varies",
    "wilson",
]

_Numbers = NDArray[np.float64]

ONE_PROMPT = "a single prompt has no variance to measure"
NO_VARIANCE = "all prompts agree, which leaves no variance to measure"
NOTHING = "nothing was counted"


class Interval(NamedTuple):
    """A figure and its confidence interval.

    Attributes:
        value: the figure; NaN where nothing was counted.
        low: lower end; NaN where there is no interval.
        high: upper end.
        method: ``"adjusted t"``, ``"t"``, ``"bootstrap"`` or, without an interval, ``"none"``.
        reason: why there is no interval; empty where there is one.
        stderr: the standard error of ``value``, as :func:`standard_error` gives it.
    """

    value: float
    low: float
    high: float
    method: str
    reason: str = ""
    stderr: float = nan


class Sums(NamedTuple):
    """The contributions of prompts to a ratio of sums, above and below the line: ``[..., prompts]`` each."""

    above: _Numbers
    below: _Numbers

    @property
    def value(self) -> float:
        """The ratio."""
        return float(self.above.sum()) / float(self.below.sum())

    def influence(self, value: _Numbers, total: _Numbers) -> _Numbers:
        """The influence of each prompt on the ratio, to first order, for this value of it over this sum below."""
        found: _Numbers = (self.above - value[..., None] * self.below) / total[..., None]
        return found


def wilson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's score interval of a single proportion, without continuity correction.

    Unlike the normal interval it stays within 0..1 and has a width at 0 and at 1. Near 0 and 1 it covers less than it
    says (90.4 % at a rate of 0.01 and 10 trials), so reports have :func:`share_interval` instead.

    Args:
        successes: how many trials came out 1.
        trials: how many there were.
        confidence: the level, 0.95 for 95 %.

    Returns:
        Lower and upper end, fractions 0..1; NaN twice without a trial.

    Example:
        >>> from tensorclass.scores import wilson
        >>> low, high = wilson(80, 100)
        >>> f"{low:.4f} {high:.4f}"
        '0.7112 0.8666'

    Source: Wilson, 1927, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22:209-212.
    """
    check_confidence(confidence)
    if not 0 <= successes <= trials:
        raise ValueError(f"successes: expected between 0 and the {trials:g} trials, got {successes:g}")
    if trials == 0:
        return nan, nan
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, scale = successes / trials, 1 + z * z / trials
    center = (share + z * z / (2 * trials)) / scale
    half = z / scale * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # At 0 and 1 the ends are exact; rounding would leave them 1e-17 away.
    return (0.0 if successes == 0 else center - half), (1.0 if successes == trials else center + half)


def percentile_interval(resampled: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """The bootstrap percentile interval: the quantiles of the resampled figures that leave out half of the rest each.

    Source: Efron and Tibshirani, 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    check_confidence(confidence)
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def added_prompts(confidence: float) -> float:
    """Return the number of prompts added at each extreme before the interval of a share: z²/2, 1.92 at 95 %.

    Source: Agresti and Coull, 1998, "Approximate is better than 'exact' for interval estimation of binomial
    proportions", The American Statistician 52:119-126, section 2.

    Example:
        >>> f"{added_prompts(0.95):.2f}"
        '1.92'
    """
    check_confidence(confidence)
    return NormalDist().inv_cdf(0.5 + confidence / 2) ** 2 / 2


def share_interval(
    above: _Numbers, below: _Numbers, confidence: float = 0.95, *, counts: _Numbers | None = None
) -> tuple[_Numbers, _Numbers]:
    """The interval of a share, a ratio of sums over prompts of which none has more above the line than below.

    It is the t interval over prompts (:func:`t_interval`), after z²/2 prompts (about two) that have everything right
    and as many that have everything wrong were added to the observed ones. So it has a width where all prompts agree.
    An added prompt counts ``sum(below²) / sum(below)``: as much as the prompt that the average verdict belongs to.

    Source: for one verdict of 0 or 1 a prompt this is the interval of Agresti and Coull, 1998 (see
    :func:`added_prompts`), with the quantile of Student's t in place of the normal one.

    Args:
        above: ``[..., prompts]``, what each prompt adds above the line; all but the last dimension are data sets.
        below: of the same shape, what it adds below; prompts with 0 count nothing.
        confidence: the level.
        counts: of the same shape, how many prompts each entry represents; by default 1.

    Returns:
        Lower and upper ends, ``[...]``, within 0..1; NaN where nothing was counted.

    Example:
        >>> low, high = share_interval(np.array([1.0] * 80 + [0.0] * 20), np.ones(100))
        >>> f"{low:.4f} {high:.4f}"
        '0.7091 0.8687'
    """
    moments = share_moments(above, below, added_prompts(confidence), counts)
    half = moments.half_width(confidence)
    return np.maximum(moments.value - half, 0.0), np.minimum(moments.value + half, 1.0)


def t_interval(
    above: _Numbers, below: _Numbers, confidence: float = 0.95, *, counts: _Numbers | None = None
) -> tuple[_Numbers, _Numbers]:
    """The t interval over prompts of a ratio of sums, whatever the values.

    The variance is that of the linearised ratio, in which the verdicts of a prompt stay together; the degrees of
    freedom are one less than the effective number of prompts, ``sum(below)² / sum(below²)``, which is their number
    where all count alike.

    Source: Cochran, 1977, "Sampling Techniques", third edition, sections 2.11 and 6.4; the effective number: Kish,
    1965, "Survey Sampling", section 11.7.

    Args:
        above: ``[..., prompts]``, what each prompt adds above the line; all but the last dimension are data sets.
        below: of the same shape, what it adds below; prompts with 0 count nothing.
        confidence: the level.
        counts: of the same shape, how many prompts each entry represents; by default 1.

    Returns:
        Lower and upper ends, ``[...]``.

    Example:
        >>> low, high = t_interval(np.array([31.0, 40.0, 37.0]), np.ones(3))
        >>> f"{low:.2f} {high:.2f}"
        '24.62 47.38'
    """
    moments = ratio_moments(above, below, counts)
    half = moments.half_width(confidence)
    return moments.value - half, moments.value + half


def standard_error(above: _Numbers, below: _Numbers, *, counts: _Numbers | None = None) -> _Numbers:
    """The standard error of a ratio of sums over prompts, from the spread of the prompts around it.

    Of a mean of one value a prompt it is the sample standard deviation over the root of the number of prompts, as
    lm-evaluation-harness, inspect_ai and AlpacaEval report it. It is neither adjusted as :func:`share_interval` is, nor
    multiplied by a quantile.

    Source: Cochran, 1977, "Sampling Techniques", third edition, sections 2.4 (means) and 2.11 (ratios).

    Args:
        above: ``[..., prompts]``, what each prompt adds above the line; all but the last dimension are data sets.
        below: of the same shape, what it adds below; prompts with 0 count nothing.
        counts: of the same shape, how many prompts each entry represents; by default 1.

    Returns:
        ``[...]``; NaN where fewer than two prompts count.

    Example:
        >>> right = np.array([1.0] * 9 + [0.0] * 11)
        >>> f"{standard_error(right, np.ones(20)):.5f}"
        '0.11413'
    """
    number = (below > 0).astype(np.float64) if counts is None else counts * (below > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        prompts, total = number.sum(-1), (number * below).sum(-1)
        value = (number * above).sum(-1) / total
        residuals = above - value[..., None] * below
        # Rounding alone leaves no spread.
        scale = np.abs(above) + np.abs(value)[..., None] * below
        squares = (number * np.where(np.abs(residuals) > 1e-12 * scale, residuals, 0.0) ** 2).sum(-1)
        found: _Numbers = np.sqrt(squares * prompts / (prompts - 1)) / total
    return np.asarray(np.where(prompts > 1, found, nan))


def sizes(below: _Numbers, counts: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the weight of a typical prompt, and the effective number of prompts (Kish, 1965, section 11.7).

    The product of the two is the sum of ``below``; where all prompts count alike, they are that and their number.
    """
    total, squares = (counts * below).sum(-1), (counts * below**2).sum(-1)
    return squares / total, total**2 / squares


class Moments(NamedTuple):
    """The centre of a t interval over prompts, and how far it varies.

    Attributes:
        value: the centre; that of a share lies nearer to 1/2 than the share.
        variance: of the centre.
        freedom: degrees of freedom of the variance, at least 1.
    """

    value: _Numbers
    variance: _Numbers
    freedom: _Numbers

    def half_width(self, confidence: float) -> _Numbers:
        """Half the width of the t interval."""
        half: _Numbers = t_quantile(self.freedom, confidence) * np.sqrt(self.variance)
        return half


def moments_of(value: _Numbers, squares: _Numbers, prompts: _Numbers) -> Moments:
    """Return the moments from the sum of squared influences of the prompts and their effective number."""
    # Few prompts that count very differently leave less than one degree of freedom; t has no use there.
    freedom = np.maximum(prompts - 1, 1.0)
    return Moments(value, squares * prompts / freedom, freedom)


def share_moments(above: _Numbers, below: _Numbers, added: float, counts: _Numbers | None = None) -> Moments:
    """The moments of a share after prompts were added; see :func:`share_interval`.

    Args:
        above: ``[..., prompts]``.
        below: of the same shape.
        added: how many prompts are added that have everything right, and how many that have everything wrong.
        counts: how many prompts each entry represents.
    """
    number = np.ones_like(below) if counts is None else counts
    with np.errstate(invalid="ignore", divide="ignore"):
        size, prompts = sizes(below, number)
        total = size * (prompts + 2 * added)
        value = ((number * above).sum(-1) + added * size) / total
        squares = (number * (above - value[..., None] * below) ** 2).sum(-1)
        squares += added * size**2 * (value**2 + (1 - value) ** 2)
        return moments_of(value, squares / total**2, prompts + 2 * added)


def ratio_moments(above: _Numbers, below: _Numbers, counts: _Numbers | None = None) -> Moments:
    """The moments of a ratio of sums; see :func:`t_interval`."""
    number = np.ones_like(below) if counts is None else counts
    with np.errstate(invalid="ignore", divide="ignore"):
        _, prompts = sizes(below, number)
        total = (number * below).sum(-1)
        value = (number * above).sum(-1) / total
        squares = (number * (above - value[..., None] * below) ** 2).sum(-1)
        return moments_of(value, squares / total**2, prompts)


def interval_of_ratio(
    numerator: NDArray[np.float64],
    denominator: NDArray[np.float64],
    *,
    name: str = "",
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    interval: str = "auto",
    share: bool = True,
) -> Interval:
    """A ratio of sums over prompts, ``sum(numerator) / sum(denominator)``, and its confidence interval.

    A share has :func:`share_interval`, ``"adjusted t"``. Another figure has :func:`t_interval`, ``"t"``, and none where
    there is one prompt, or where all prompts agree. A prompt counts with all it holds, so the instructions of one
    prompt stay together (they are not independent). Prompts that count nothing (denominator 0) are left out.

    Args:
        numerator: ``[N]``, what each prompt adds above the line.
        denominator: ``[N]``, what it adds below, at least 0.
        name: the figure's name; with the seed it fixes the resamples.
        seed: of the bootstrap.
        resamples: how many; by default 10,000, or fewer (at least 1,000) where more than 20,000 rows are nearly all
            distinct.
        confidence: the level.
        interval: ``"auto"``, or ``"bootstrap"`` for the percentile bootstrap over prompts wherever they vary; it is
            too narrow for few prompts and for shares near 0 and 1.
        share: whether the figure is meant as a share, 0..1. One of whose prompts has more above the line than below,
            or less than 0, isn't taken for one.

    Example:
        >>> interval_of_ratio(np.array([2.0, 1.0, 0.0, 3.0]), np.array([2.0, 2.0, 1.0, 3.0])).value
        0.75
        >>> interval_of_ratio(np.array([5.0, 5.0, 5.0]), np.ones(3), share=False).reason
        'all prompts agree, which leaves no variance to measure'
    """
    if interval not in ("auto", "bootstrap"):
        raise ValueError(f"interval: expected 'auto' or 'bootstrap', got {interval!r}")
    check_confidence(confidence)
    held = denominator > 0
    if not held.all():
        numerator, denominator = numerator[held], denominator[held]
    if not len(numerator):
        return Interval(nan, nan, nan, "none", NOTHING)
    table = distinct_rows([numerator, denominator])
    above, below = (float(total) for total in table.sums())
    value = above / below
    rows, counts = table.rows, table.counts.astype(np.float64)
    some_vary = varies(rows[:, 0], rows[:, 1], value)
    stderr = float(standard_error(rows[:, 0], rows[:, 1], counts=counts))
    if interval == "bootstrap" and some_vary:
        sums = resample_sums(table, default_resamples(table) if resamples is None else resamples, generator(seed, name))
        return Interval(value, *percentile_interval(sums[:, 0] / sums[:, 1], confidence), "bootstrap", stderr=stderr)
    if share and is_share(rows[:, 0], rows[:, 1]):
        low, high = share_interval(rows[:, 0], rows[:, 1], confidence, counts=counts)
        return Interval(value, min(float(low), value), max(float(high), value), "adjusted t", stderr=stderr)
    if not some_vary:
        return Interval(value, nan, nan, "none", ONE_PROMPT if len(numerator) == 1 else NO_VARIANCE, stderr)
    low, high = t_interval(rows[:, 0], rows[:, 1], confidence, counts=counts)
    return Interval(value, float(low), float(high), "t", stderr=stderr)


def is_share(above: _Numbers, below: _Numbers) -> bool:
    """Return whether each prompt has between 0 and its denominator above the line, up to rounding."""
    return bool(np.all(above >= -ROUNDING * below) and np.all(above <= below * (1 + ROUNDING)))


def varies(above: _Numbers, below: _Numbers, value: float) -> bool:
    """Return whether some prompt has another ratio than all together, beyond rounding."""
    return bool(np.any(np.abs(above - value * below) > 1e-12 * (np.abs(above) + abs(value) * below)))
