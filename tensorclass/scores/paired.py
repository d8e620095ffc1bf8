"""Two runs on the same prompts: the paired bootstrap of a difference, and McNemar's test."""

from __future__ import annotations

from math import erfc, lgamma, log, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorclass.scores.intervals import check_confidence, percentile_interval
from tensorclass.scores.resampling import default_resamples, distinct_rows, generator, resample_sums

__all__ = ["McNemar", "PairedDifference", "mcnemar", "mcnemar_p_value", "paired_difference"]


class PairedDifference(NamedTuple):
    """The difference of a figure between two runs, over the prompts that both hold.

    Attributes:
        a: the figure of the first run.
        b: the figure of the second.
        value: ``b - a``.
        low: lower end of the confidence interval of ``value``; NaN with fewer than two prompts.
        high: upper end.
        p_value: two-sided, of no difference; NaN with fewer than two prompts.
        prompts: the number of prompts.
    """

    a: float
    b: float
    value: float
    low: float
    high: float
    p_value: float
    prompts: int


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
    numerator_a: NDArray[np.float64],
    denominator_a: NDArray[np.float64],
    numerator_b: NDArray[np.float64],
    denominator_b: NDArray[np.float64],
    *,
    name: str = "",
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
) -> PairedDifference:
    """The difference of two ratios of sums over the same prompts, by the paired bootstrap.

    A resample draws prompts, each with its values in both runs, so what makes a prompt hard for both cancels. The
    interval is the percentile interval; the p-value is the share of resamples whose difference lies at least as far
    from the observed one as that lies from 0, with the observed sample counted in.

    Source: Efron and Tibshirani, 1993, "An Introduction to the Bootstrap", sections 13.3 and 16.4; for paired system
    comparison, Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation".

    Args:
        numerator_a: ``[N]``, what each prompt adds above the line in the first run.
        denominator_a: ``[N]``, what it adds below.
        numerator_b: ``[N]``, the second run on the same prompts in the same order.
        denominator_b: ``[N]``.
        name: the figure's name; with the seed it fixes the resamples.
        seed: of the bootstrap.
        resamples: how many; by default as in :func:`~tensorclass.scores.intervals.interval_of_ratio`.
        confidence: the level of the interval.

    Prompts with a denominator of 0 in either run are left out.

    Example:
        >>> right_a, right_b, one = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 0]), np.ones(4)
        >>> paired_difference(right_a, one, right_b, one).value
        0.5
    """
    check_confidence(confidence)
    held = (denominator_a > 0) & (denominator_b > 0)
    prompts = int(held.sum())
    if not prompts:
        return PairedDifference(nan, nan, nan, nan, nan, nan, 0)
    table = distinct_rows([column[held] for column in (numerator_a, denominator_a, numerator_b, denominator_b)])
    above_a, below_a, above_b, below_b = (float(total) for total in table.sums())
    a, b = above_a / below_a, above_b / below_b
    value = b - a
    if prompts == 1:
        return PairedDifference(a, b, value, nan, nan, nan, prompts)
    sums = resample_sums(table, default_resamples(table) if resamples is None else resamples, generator(seed, name))
    differences = sums[:, 2] / sums[:, 3] - sums[:, 0] / sums[:, 1]
    low, high = percentile_interval(differences, confidence)
    # The tolerance keeps resamples that tie with the observed difference on the same side whatever the rounding.
    beyond = np.count_nonzero(np.abs(differences - value) >= abs(value) - 1e-12)
    return PairedDifference(a, b, value, low, high, (1 + beyond) / (1 + len(differences)), prompts)


def mcnemar(right_a: ArrayLike, right_b: ArrayLike) -> McNemar:
    """McNemar's test of whether two runs are right equally often, on the prompts where they differ.

    Source: McNemar, 1947, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12:153-157.

    Args:
        right_a: bool ``[N]``, the verdicts of the first run.
        right_b: bool ``[N]``, those of the second, on the same prompts.

    Raises:
        TypeError: verdicts that are not bools (what holds NaN has to lose it first).
        ValueError: runs of different lengths.

    Example:
        >>> mcnemar(np.array([True, True, False, False]), np.array([True, False, True, True]))
        McNemar(only_a=1, only_b=2, p_value=1.0)
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
    return min(1.0, 2.0 * _lower_tail(min(only_a, only_b), differing))


def _lower_tail(successes: int, trials: int) -> float:
    """P(X <= successes) of a binomial with chance 1/2."""
    # Summed from the largest term down, so that the rest can stop mattering; logs, since 2**-trials underflows.
    term = lgamma(trials + 1) - lgamma(successes + 1) - lgamma(trials - successes + 1) - trials * log(2.0)
    ratios = np.arange(successes, 0, -1, dtype=np.float64)
    steps = np.cumsum(np.log(ratios / (trials - ratios + 1)))
    return float(np.exp(term) * (1.0 + np.exp(steps).sum()))
