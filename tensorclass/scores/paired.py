"""Two runs on the same prompts: the difference of a figure, its interval and p-value, and McNemar's test."""

from __future__ import annotations

from math import erfc, nan, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorclass.scores.intervals import NOTHING, ONE_PROMPT, Moments, Sums, added_prompts, is_share, moments_of, sizes
from tensorclass.scores.resampling import default_resamples, distinct_rows, generator
from tensorclass.scores.signflips import lower_tail, sign_flips
from tensorclass.scores.students_t import check_confidence

__all__ = [
    "McNemar",
    "PairedDifference",
    "agreeing_ends",
    "difference_interval",
    "is_significant",
    "mcnemar",
    "mcnemar_p_value",
    "paired_difference",
    "share_difference_interval",
]

_Numbers: TypeAlias = NDArray[np.float64]

NO_VARIANCE_OF_DIFFERENCES = "the runs differ by the same in all prompts, which leaves no variance to measure"


class PairedDifference(NamedTuple):
    """The difference of a figure between two runs on the same prompts.

    Attributes:
        a: the figure of the first run; NaN where it counted nothing.
        b: the figure of the second.
        value: ``b - a``.
        low: lower end of the confidence interval of ``value``; NaN where there is none.
        high: upper end.
        p_value: two-sided, of no difference; NaN where there is no difference to test.
        prompts: the number of prompts that count in either run.
        prompts_a: the number of those that count in the first.
        prompts_b: the number of those that count in the second.
        method: of the interval: ``"adjusted t"``, ``"t"`` or ``"none"``.
        test: of the p-value: ``"exact"``, ``"sampled"``, ``"bound"`` (:class:`~tensorclass.scores.signflips.SignFlips`)
            or ``"none"``.
        reason: why there is no interval; empty where there is one.
        stderr: the standard error of ``value``; NaN where fewer than two prompts count.
    """

    a: float
    b: float
    value: float
    low: float
    high: float
    p_value: float
    prompts: int
    prompts_a: int
    prompts_b: int
    method: str
    test: str
    reason: str
    stderr: float = nan


class McNemar(NamedTuple):
    """McNemar's test on prompts with one verdict of 0 or 1 in each run.

    Attributes:
        only_a: prompts that only the first run got right.
        only_b: prompts that only the second got right.
        p_value: two-sided and exact.
    """

    only_a: int
    only_b: int
    p_value: float


def paired_difference(
    numerator_a: _Numbers,
    denominator_a: _Numbers,
    numerator_b: _Numbers,
    denominator_b: _Numbers,
    *,
    name: str = "",
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    share: bool = True,
    clusters: bool = False,
) -> PairedDifference:
    """The difference of two ratios of sums over the same prompts, its interval, and the sign-flip test.

    Each figure is computed from its run alone. A prompt counts with its values in both runs, so effects that make a
    prompt hard for both cancel. Differences of shares get :func:`share_difference_interval`, ``"adjusted t"``; those
    of other figures get :func:`difference_interval`, ``"t"``, and none where the prompts don't vary. The p-value is
    computed by :func:`~tensorclass.scores.signflips.sign_flips`.

    Args:
        numerator_a: ``[N]``, what each prompt adds above the line in the first run.
        denominator_a: ``[N]``, what it adds below; a prompt with 0 counts nothing in that run.
        numerator_b: ``[N]``, the second run on the same prompts in the same order.
        denominator_b: ``[N]``.
        name: the figure's name; with the seed it fixes the ways that the test draws.
        seed: the seed of the test, where it can't count all ways.
        resamples: how many ways it draws then; by default as in
            :func:`~tensorclass.scores.intervals.interval_of_ratio`.
        confidence: the level of the interval.
        share: whether the figure is meant as a share, 0..1.
        clusters: whether the prompts are clusters of prompts. A cluster that is added would weigh as much as many
            prompts, so that of clusters that vary is the t interval.

    Example:
        >>> right_a, right_b, one = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 0]), np.ones(4)
        >>> found = paired_difference(right_a, one, right_b, one)
        >>> found.value, found.p_value
        (0.5, 0.5)
    """
    check_confidence(confidence)
    held_a, held_b = denominator_a > 0, denominator_b > 0
    held = held_a | held_b
    numbers = int(held.sum()), int(held_a.sum()), int(held_b.sum())
    sides = (numerator_a, denominator_a, held_a), (numerator_b, denominator_b, held_b)
    columns = [np.where(own, column, 0.0)[held] for above, below, own in sides for column in (above, below)]
    table = distinct_rows(columns)
    above_a, below_a, above_b, below_b = (float(total) for total in table.sums())
    a, b = (above / below if below else nan for above, below in ((above_a, below_a), (above_b, below_b)))
    value = b - a
    if value != value:
        return PairedDifference(a, b, value, nan, nan, nan, *numbers, "none", "none", NOTHING)
    drawn = default_resamples(table) if resamples is None else resamples
    p_value, test = sign_flips(table, drawn, generator(seed, name))
    rows = table.rows[:, 0], table.rows[:, 1], table.rows[:, 2], table.rows[:, 3]
    counts = table.counts.astype(np.float64)
    influence = (rows[2] - b * rows[3]) / below_b - (rows[0] - a * rows[1]) / below_a
    scale = (np.abs(rows[2]) + abs(b) * rows[3]) / below_b + (np.abs(rows[0]) + abs(a) * rows[1]) / below_a
    influence = np.where(np.abs(influence) > 1e-12 * scale, influence, 0.0)  # rounding alone leaves no spread
    stderr = sqrt(float(counts @ influence**2) * numbers[0] / (numbers[0] - 1)) if numbers[0] > 1 else nan
    as_share = share and is_share(rows[0], rows[1]) and is_share(rows[2], rows[3])
    if as_share and not (clusters and influence.any() and numbers[0] > 1):
        ends = share_difference_interval(*rows, confidence, counts=counts)
        low, high = min(float(ends[0]), value), max(float(ends[1]), value)
        return PairedDifference(a, b, value, low, high, p_value, *numbers, "adjusted t", test, "", stderr)
    if not influence.any():
        reason = ONE_PROMPT if numbers[0] == 1 else NO_VARIANCE_OF_DIFFERENCES
        return PairedDifference(a, b, value, nan, nan, p_value, *numbers, "none", test, reason, stderr)
    ends = difference_interval(*rows, confidence, counts=counts)
    if as_share:
        ends = np.maximum(ends[0], -1.0), np.minimum(ends[1], 1.0)
    return PairedDifference(a, b, value, float(ends[0]), float(ends[1]), p_value, *numbers, "t", test, "", stderr)


def is_significant(p_value: float, confidence: float) -> bool:
    """Return whether a p-value is at most the level of the test, one less the confidence; not if it is NaN.

    Example:
        >>> is_significant(0.05, 0.95), is_significant(0.051, 0.95), is_significant(nan, 0.95)
        (True, False, False)
    """
    return p_value <= (1 - confidence) * (1 + 1e-9)


def agreeing_ends(value: float, low: float, high: float, p_value: float, confidence: float) -> tuple[float, float]:
    """The ends of an interval that excludes 0 exactly where the test finds a difference.

    The exact test of a few prompts and the t interval of the same difference may disagree if the p-value is near the
    level. The end that contradicts the test is then the test's own: the difference less its standard error by the
    p-value, times the quantile of the level.

    Source: Miettinen, 1976, "Estimability and estimation in case-referent studies", American Journal of Epidemiology
    103:226-235 (test-based limits).

    Args:
        value: the difference.
        low: lower end of its interval; NaN if there is none.
        high: upper end.
        p_value: two-sided, of no difference; NaN if there is no test.
        confidence: the level of the interval.

    Example:
        >>> [f"{end:+.3f}" for end in agreeing_ends(0.125, 0.002, 0.24, 0.053, 0.95)]
        ['-0.002', '+0.240']
        >>> agreeing_ends(0.125, 0.002, 0.24, 0.041, 0.95)
        (0.002, 0.24)
    """
    excludes = low > 0 or high < 0
    if not (low <= high) or p_value != p_value or excludes == is_significant(p_value, confidence):
        return low, high
    normal = NormalDist()
    of_test = abs(normal.inv_cdf(p_value / 2)) if p_value > 0 else float("inf")
    reach = abs(normal.inv_cdf((1 - confidence) / 2)) / max(of_test, 0.1)
    end = value * (min(1 - reach, 0.0) if excludes else max(1 - reach, 1e-6))
    return (end, max(high, value)) if value > 0 else (min(low, value), end)


def share_difference_interval(
    above_a: _Numbers,
    below_a: _Numbers,
    above_b: _Numbers,
    below_b: _Numbers,
    confidence: float = 0.95,
    *,
    counts: _Numbers | None = None,
) -> tuple[_Numbers, _Numbers]:
    """The interval of the difference ``b - a`` of two shares on the same prompts.

    It is the t interval over prompts, after z²/2 prompts (about two) that only the first run has right and as many
    that only the second has right were added to the observed ones. So it has a width where the runs agree on all
    prompts, or differ on all. In each run an added prompt counts as in
    :func:`~tensorclass.scores.intervals.share_interval`.

    Source: Bonett and Price, 2012, "Adjusted Wald confidence interval for a difference of binomial proportions based
    on paired data", Journal of Educational and Behavioral Statistics 37:479-488, who add half as many and take the
    normal quantile, for one verdict of 0 or 1 a prompt. With theirs, coverage falls to 87.5 % (4 prompts).

    Args:
        above_a: ``[..., prompts]``, what each prompt adds above the line in the first run; all but the last dimension
            are data sets.
        below_a: of the same shape, what it adds below.
        above_b: of the same shape, the second run.
        below_b: of the same shape.
        confidence: the level.
        counts: of the same shape, how many prompts each entry represents; by default 1.

    Returns:
        Lower and upper ends, ``[...]``, within -1..1; NaN where a run counted nothing.

    Example:
        >>> one = np.ones(2)
        >>> low, high = share_difference_interval(0 * one, one, one, one)
        >>> f"{low:+.3f} {high:+.3f}"
        '-0.766 +1.000'
    """
    moments = share_difference_moments(
        Sums(above_a, below_a), Sums(above_b, below_b), added_prompts(confidence), counts
    )
    half = moments.half_width(confidence)
    return np.maximum(moments.value - half, -1.0), np.minimum(moments.value + half, 1.0)


def difference_interval(
    above_a: _Numbers,
    below_a: _Numbers,
    above_b: _Numbers,
    below_b: _Numbers,
    confidence: float = 0.95,
    *,
    counts: _Numbers | None = None,
) -> tuple[_Numbers, _Numbers]:
    """The t interval over prompts of the difference ``b - a`` of two ratios of sums, whatever the values.

    The paired form of :func:`~tensorclass.scores.intervals.t_interval`, with the same source and arguments as
    :func:`share_difference_interval`; the degrees of freedom are those of the run with fewer effective prompts.

    Example:
        >>> one = np.ones(3)
        >>> low, high = difference_interval(np.array([31.0, 40.0, 37.0]), one, np.array([30.0, 38.0, 36.0]), one)
        >>> f"{low:.2f} {high:.2f}"
        '-2.77 0.10'
    """
    moments = difference_moments(Sums(above_a, below_a), Sums(above_b, below_b), counts)
    half = moments.half_width(confidence)
    return moments.value - half, moments.value + half


def share_difference_moments(a: Sums, b: Sums, added: float, counts: _Numbers | None = None) -> Moments:
    """The moments of :func:`share_difference_interval`, for ``added`` prompts that only one of the runs has right."""
    number = np.ones_like(a.below) if counts is None else counts
    with np.errstate(invalid="ignore", divide="ignore"):
        size_a, prompts_a = sizes(a.below, number)
        size_b, prompts_b = sizes(b.below, number)
        total_a, total_b = size_a * (prompts_a + 2 * added), size_b * (prompts_b + 2 * added)
        value_a = ((number * a.above).sum(-1) + added * size_a) / total_a
        value_b = ((number * b.above).sum(-1) + added * size_b) / total_b
        squares = (number * (b.influence(value_b, total_b) - a.influence(value_a, total_a)) ** 2).sum(-1)
        squares += added * ((1 - value_b) * size_b / total_b + value_a * size_a / total_a) ** 2
        squares += added * (value_b * size_b / total_b + (1 - value_a) * size_a / total_a) ** 2
        return moments_of(value_b - value_a, squares, np.minimum(prompts_a, prompts_b) + 2 * added)


def difference_moments(a: Sums, b: Sums, counts: _Numbers | None = None) -> Moments:
    """The moments of :func:`difference_interval`."""
    number = np.ones_like(a.below) if counts is None else counts
    with np.errstate(invalid="ignore", divide="ignore"):
        (_, prompts_a), (_, prompts_b) = sizes(a.below, number), sizes(b.below, number)
        total_a, total_b = (number * a.below).sum(-1), (number * b.below).sum(-1)
        value_a, value_b = (number * a.above).sum(-1) / total_a, (number * b.above).sum(-1) / total_b
        squares = (number * (b.influence(value_b, total_b) - a.influence(value_a, total_a)) ** 2).sum(-1)
        return moments_of(value_b - value_a, squares, np.minimum(prompts_a, prompts_b))


def mcnemar(right_a: ArrayLike, right_b: ArrayLike) -> McNemar:
    """Test whether two runs are right equally often, on the prompts where they differ: McNemar's test.

    Args:
        right_a: bool ``[N]``, the verdicts of the first run.
        right_b: bool ``[N]``, the verdicts of the second run, on the same prompts.

    Returns:
        The numbers of prompts that only one run got right, and the exact two-sided p-value.

    Raises:
        TypeError: verdicts that are not bools (drop prompts with NaN first).
        ValueError: runs of different lengths.

    Example:
        >>> import numpy as np
        >>> from tensorclass.scores import mcnemar
        >>> mcnemar(np.array([True, True, False, False]), np.array([True, False, True, True]))
        McNemar(only_a=1, only_b=2, p_value=1.0)

    Source: McNemar, 1947, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12:153-157.
    """
    a, b = np.asarray(right_a), np.asarray(right_b)
    for name, right in (("right_a", a), ("right_b", b)):
        if right.dtype != np.bool_:
            raise TypeError(f"{name}: expected bools, got {right.dtype}")
    if a.shape != b.shape:
        raise ValueError(f"expected verdicts on the same prompts, got shapes {list(a.shape)} and {list(b.shape)}")
    only_a, only_b = int(np.count_nonzero(a & ~b)), int(np.count_nonzero(b & ~a))
    return McNemar(only_a, only_b, mcnemar_p_value(only_a, only_b))


def mcnemar_p_value(only_a: int, only_b: int, *, exact: bool = True) -> float:
    """The two-sided p-value of McNemar's test from the two counts of prompts where the runs differ.

    Args:
        only_a: prompts that only the first run got right.
        only_b: prompts that only the second got right.
        exact: the binomial test of ``only_a`` among both with chance 1/2, right at any count. ``False``: the
            chi-squared statistic with one degree of freedom and Edwards' continuity correction,
            ``(|only_a - only_b| - 1)² / (only_a + only_b)`` (Edwards, 1948, Psychometrika 13:185-187).

    Returns:
        The p-value; 1 where the runs differ nowhere.

    Example:
        >>> f"{mcnemar_p_value(1, 5):.5f}"
        '0.21875'
    """
    if only_a < 0 or only_b < 0:
        raise ValueError(f"only_a, only_b: expected counts of at least 0, got {only_a} and {only_b}")
    differing = only_a + only_b
    if differing == 0:
        return 1.0
    if not exact:
        statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / differing
        return erfc(sqrt(statistic / 2))
    return min(1.0, 2.0 * lower_tail(min(only_a, only_b), differing))
