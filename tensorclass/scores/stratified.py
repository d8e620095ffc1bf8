"""Averages over tasks: weighted means of ratios with intervals over the prompts of each task, and their differences.

The tasks are the strata of a stratified sample: they are fixed, and their prompts vary. So the variance of the average
is the sum of the tasks' own variances, each with the square of its weight (Cochran, 1977, "Sampling Techniques", third
edition, sections 5.3 and 5.4), and its degrees of freedom are those of Satterthwaite, 1946, "An approximate
distribution of estimates of variance components", Biometrics Bulletin 2:110-114.

Prompts are added before the interval of a share as in :func:`~tensorclass.scores.intervals.share_interval`, as many in
all tasks together as there would be in one. So an average of one task has the interval of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, nan
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
    standard_error,
    varies,
)
from tensorclass.scores.paired import (
    NO_VARIANCE_OF_DIFFERENCES,
    PairedDifference,
    difference_moments,
    share_difference_moments,
)
from tensorclass.scores.resampling import default_resamples, distinct_rows, generator
from tensorclass.scores.signflips import sign_flips
from tensorclass.scores.students_t import check_confidence

__all__ = ["PairedTask", "average_difference", "average_interval"]

_Numbers = NDArray[np.float64]

# A task with one prompt has no variance to measure, so it counts with the largest that there can be.
_OF_SHARE, _OF_DIFFERENCE = 0.25, 1.0


class PairedTask(NamedTuple):
    """A task in two runs: the same prompts in the same order. A prompt may count in one run alone."""

    a: Sums
    b: Sums


def average_interval(
    tasks: Sequence[Sums], weights: Sequence[float], *, confidence: float = 0.95, share: bool = True
) -> Interval:
    """The weighted mean of the figures of several tasks, and its confidence interval.

    Args:
        tasks: the sums of each task, ``[prompts]`` above and below the line.
        weights: of each task; they add up to 1.
        confidence: the level.
        share: whether the figures are meant as shares, 0..1.

    Example:
        >>> easy = Sums(np.array([1.0] * 90 + [0.0] * 10), np.ones(100))
        >>> hard = Sums(np.array([1.0] * 20 + [0.0] * 80), np.ones(100))
        >>> found = average_interval([easy, hard], [0.5, 0.5])
        >>> f"{found.value:.2f} [{found.low:.3f}, {found.high:.3f}]"
        '0.55 [0.499, 0.599]'
    """
    check_confidence(confidence)
    held = [_counting(one) for one in tasks]
    if not all(len(one.below) for one in held):
        return Interval(nan, nan, nan, "none", NOTHING)
    value = float(sum(weight * one.value for weight, one in zip(weights, held, strict=True)))
    stderr = _combined([float(standard_error(*one)) for one in held], weights)
    if share and all(is_share(*one) for one in held):
        added = added_prompts(confidence)
        each = [
            _cautious(share_moments(*one, added * weight), len(one.below), len(held), _OF_SHARE)
            for weight, one in zip(weights, held, strict=True)
        ]
        low, high = _ends(each, weights, confidence)
        return Interval(value, max(min(low, value), 0.0), min(max(high, value), 1.0), "adjusted t", stderr=stderr)
    if min(len(one.below) for one in held) == 1:
        return Interval(value, nan, nan, "none", ONE_PROMPT, stderr)
    if not any(varies(one.above, one.below, one.value) for one in held):
        return Interval(value, nan, nan, "none", NO_VARIANCE, stderr)
    low, high = _ends([ratio_moments(*one) for one in held], weights, confidence)
    return Interval(value, low, high, "t", stderr=stderr)


def average_difference(
    tasks: Sequence[PairedTask],
    weights: Sequence[float],
    *,
    name: str = "",
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    share: bool = True,
    clusters: bool = False,
) -> PairedDifference:
    """The difference ``b - a`` of the weighted means of two runs over tasks, its interval, and the sign-flip test.

    Prompts are compared within their task. The test swaps the outcomes of each prompt between the runs, in all tasks
    at once; a prompt weighs as its task does, divided by the task's sum below the line.

    Args:
        tasks: the sums of both runs, task by task.
        weights: of each task; they add up to 1.
        name: the figure's name; with the seed it fixes the ways that the test draws.
        seed: the seed of the test, where it can't count all ways.
        resamples: how many ways it draws then; by default as in
            :func:`~tensorclass.scores.intervals.interval_of_ratio`.
        confidence: the level of the interval.
        share: whether the figures are meant as shares, 0..1.
        clusters: whether the prompts are clusters of prompts; see :func:`~tensorclass.scores.paired.paired_difference`.

    Example:
        >>> one = np.ones(4)
        >>> arc = PairedTask(Sums(np.array([1.0, 0, 0, 0]), one), Sums(np.array([1.0, 1, 1, 0]), one))
        >>> piqa = PairedTask(Sums(np.array([0.0, 0, 1, 1]), one), Sums(np.array([1.0, 1, 1, 1]), one))
        >>> found = average_difference([arc, piqa], [0.5, 0.5])
        >>> found.value, found.p_value
        (0.5, 0.125)
    """
    check_confidence(confidence)
    held = [_counting_pair(one) for one in tasks]
    counts = [(len(one.a.below), int((one.a.below > 0).sum()), int((one.b.below > 0).sum())) for one in held]
    prompts, prompts_a, prompts_b = (sum(column) for column in zip(*counts, strict=True))
    if not all(of_a and of_b for _, of_a, of_b in counts):
        return PairedDifference(nan, nan, nan, nan, nan, nan, prompts, prompts_a, prompts_b, "none", "none", NOTHING)
    a, b = (
        float(sum(weight * getattr(one, run).value for weight, one in zip(weights, held, strict=True)))
        for run in ("a", "b")
    )
    value = b - a
    moments = [difference_moments(one.a, one.b) for one in held]
    stderrs = [float(np.sqrt(one.variance)) if own[0] > 1 else nan for one, own in zip(moments, counts, strict=True)]
    stderr = _combined(stderrs, weights)
    p_value, test = _flipped(held, weights, generator(seed, name), resamples)

    numbers = prompts, prompts_a, prompts_b

    def found(low: float, high: float, method: str, reason: str = "") -> PairedDifference:
        return PairedDifference(a, b, value, low, high, p_value, *numbers, method, test, reason, stderr)

    varied = any(float(one.variance) > 1e-24 for one in moments) and min(min(own) for own in counts) > 1
    if share and not (clusters and varied) and all(is_share(*run) for one in held for run in one):
        added = added_prompts(confidence)
        each = [
            _cautious(share_difference_moments(a, b, added * weight), min(own[1:]), len(held), _OF_DIFFERENCE)
            for weight, (a, b), own in zip(weights, held, counts, strict=True)
        ]
        low, high = _ends(each, weights, confidence)
        return found(max(min(low, value), -1.0), min(max(high, value), 1.0), "adjusted t")
    if min(min(own) for own in counts) == 1:
        return found(nan, nan, "none", ONE_PROMPT)
    if not any(float(one.variance) > 1e-24 for one in moments):
        return found(nan, nan, "none", NO_VARIANCE_OF_DIFFERENCES)
    return found(*_ends(moments, weights, confidence), "t")


def _ends(each: Sequence[Moments], weights: Sequence[float], confidence: float) -> tuple[float, float]:
    weight = np.asarray(weights, dtype=np.float64)
    values, variances, freedoms = (np.array([float(moments[place]) for moments in each]) for place in range(3))
    parts = weight**2 * variances
    variance = parts.sum()
    spread = (parts**2 / freedoms).sum()
    freedom = variance**2 / spread if spread else freedoms.sum()
    half = float(Moments(values, variance, np.asarray(freedom)).half_width(confidence))
    centre = float(weight @ values)
    return centre - half, centre + half


def _combined(stderrs: Sequence[float], weights: Sequence[float]) -> float:
    """The standard error of a weighted mean from those of its terms."""
    return hypot(*(weight * stderr for weight, stderr in zip(weights, stderrs, strict=True)))


def _cautious(moments: Moments, prompts: int, tasks: int, largest: float) -> Moments:
    """The moments of a task. A task of one prompt gets the largest variance of all tasks, unless it is the only one."""
    if prompts > 1 or tasks == 1:
        return moments
    return Moments(moments.value, np.asarray(largest), moments.freedom)


def _flipped(
    tasks: Sequence[PairedTask], weights: Sequence[float], rng: np.random.Generator, resamples: int | None
) -> tuple[float, str]:
    columns: list[list[_Numbers]] = [[], [], [], []]
    for weight, (a, b) in zip(weights, tasks, strict=True):
        scales = weight / float(a.below.sum()), weight / float(b.below.sum())
        for column, own, scale in zip(columns, (*a, *b), (scales[0], scales[0], scales[1], scales[1]), strict=True):
            column.append(own * scale)
    table = distinct_rows([np.concatenate(column) for column in columns])
    return sign_flips(table, default_resamples(table) if resamples is None else resamples, rng)


def _counting(one: Sums) -> Sums:
    held = one.below > 0
    return Sums(one.above[held], one.below[held])


def _counting_pair(one: PairedTask) -> PairedTask:
    held_a, held_b = one.a.below > 0, one.b.below > 0
    held = held_a | held_b
    a, b = (
        Sums(np.where(own, run.above, 0.0)[held], np.where(own, run.below, 0.0)[held])
        for run, own in ((one.a, held_a), (one.b, held_b))
    )
    return PairedTask(a, b)
