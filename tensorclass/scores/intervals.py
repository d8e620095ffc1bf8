"""Confidence intervals of one figure: Wilson for a single proportion, the bootstrap over prompts for the rest."""

from __future__ import annotations

from math import nan, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.resampling import default_resamples, distinct_rows, generator, resample_sums

__all__ = ["Interval", "check_confidence", "interval_of_ratio", "percentile_interval", "wilson"]


class Interval(NamedTuple):
    """A figure and its confidence interval.

    Attributes:
        value: the figure; NaN where nothing was counted.
        low: lower end; NaN where there is no interval (nothing counted, or one prompt under the bootstrap).
        high: upper end.
        method: ``"wilson"``, ``"bootstrap"`` or, without an interval, ``"none"``.
    """

    value: float
    low: float
    high: float
    method: str


def check_confidence(confidence: float) -> None:
    """Raise unless ``confidence`` lies strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: expected a fraction between 0 and 1 (0.95 for 95 %), got {confidence}")


def wilson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a single proportion, without continuity correction.

    Source: Wilson, 1927, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22:209-212.
    Unlike the normal interval it stays within 0..1 and has a width at 0 and at 1.

    Args:
        successes: how many trials came out 1.
        trials: how many there were.
        confidence: the level, 0.95 for 95 %.

    Returns:
        Lower and upper end, fractions 0..1; NaN twice without a trial.

    Example:
        >>> low, high = wilson(80, 100)
        >>> f"{low:.4f} {high:.4f}"
        '0.7112 0.8666'
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

    Where each prompt counts one verdict of 0 or 1, the figure is a single proportion and the interval is Wilson's.
    Else it is the bootstrap percentile interval over prompts: a prompt is drawn with all it holds, so the instructions
    of one prompt stay together (they are not independent). Where all verdicts are 0, or all are 1, every resample is
    the same and the bootstrap would claim certainty; there it is Wilson's interval with each prompt counted once, as
    if its verdicts were one. Prompts that count nothing (denominator 0) are left out.

    Args:
        numerator: ``[N]``, what each prompt adds above the line.
        denominator: ``[N]``, what it adds below, at least 0.
        name: the figure's name; with the seed it fixes the resamples.
        seed: of the bootstrap.
        resamples: how many; by default 10,000, or fewer (at least 1,000) where more than 20,000 rows are nearly all
            distinct.
        confidence: the level.
        interval: ``"auto"``, or ``"bootstrap"`` for the bootstrap in every case.
        share: whether the figure is a share, 0..1; Wilson's interval is for these only.

    Example:
        >>> interval_of_ratio(np.array([2.0, 1.0, 0.0, 3.0]), np.array([2.0, 2.0, 1.0, 3.0])).value
        0.75
        >>> interval_of_ratio(np.array([1.0, 1.0, 0.0]), np.ones(3)).method
        'wilson'
    """
    if interval not in ("auto", "bootstrap"):
        raise ValueError(f"interval: expected 'auto' or 'bootstrap', got {interval!r}")
    check_confidence(confidence)
    held = denominator > 0
    numerator, denominator = numerator[held], denominator[held]
    if not len(numerator):
        return Interval(nan, nan, nan, "none")
    table = distinct_rows([numerator, denominator])
    above, below = (float(total) for total in table.sums())
    value = above / below
    if interval == "auto" and share:
        if is_single_proportion(numerator, denominator):
            return Interval(value, *wilson(above, below, confidence), "wilson")
        if not numerator.any() or np.array_equal(numerator, denominator):
            return Interval(value, *wilson(value * len(numerator), len(numerator), confidence), "wilson")
    if len(numerator) == 1:
        return Interval(value, nan, nan, "none")
    sums = resample_sums(table, default_resamples(table) if resamples is None else resamples, generator(seed, name))
    return Interval(value, *percentile_interval(sums[:, 0] / sums[:, 1], confidence), "bootstrap")


def is_single_proportion(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> bool:
    """Whether each prompt that counts holds one verdict, and that is 0 or 1."""
    return bool(np.all(denominator == 1) and np.all((numerator == 0) | (numerator == 1)))
