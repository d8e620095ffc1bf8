"""The sign-flip permutation test of two runs on the same prompts: exact where it can be, else sampled.

Where two runs don't differ, either could have given each prompt's outcomes. So each prompt's outcomes, what it adds
above and below the line together, are swapped between the runs or not, with chance 1/2 each and apart from all other
prompts. The p-value is the share of all ``2**N`` ways in which the runs come out at least as far apart as they are. No
p-value is below ``2**(1 - N)``: the outcomes themselves and their complete swap are among the ways.

Source: Fisher, 1935, "The Design of Experiments", section 21; Pitman, 1937, "Significance tests which may be applied to
samples from any populations", Supplement to the JRSS 4:119-130. With one verdict of 0 or 1 a prompt it is McNemar's
exact test.

The distance of the runs is measured in standard errors (Janssen, 1997, "Studentized permutation tests for non-i.i.d.
hypotheses and the generalized Behrens-Fisher problem", Statistics & Probability Letters 36:9-21), so that with many
prompts the test also holds for runs with equal figures whose spreads differ. Where the denominators of a prompt are the
same in both runs, or in one proportion in all prompts, this orders the ways as the plain difference does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, exp, lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.resampling import DistinctRows, distinct_places

__all__ = ["SignFlips", "lower_tail", "sign_flips"]

_Numbers = NDArray[np.float64]

_STATES = 1 << 17  # up to so many ways are enumerated
_STEPS = 200_000_000  # sums of a convolution at most: about a fifth of a second
_FINEST = 4096  # steps of the finest lattice that differences may lie on
_CHUNK = 1_000_000  # numbers held at a time while sampling
_TIE = 1e-9  # relative; ways that tie stay on one side, whatever the rounding


class SignFlips(NamedTuple):
    """The result of a sign-flip test.

    Attributes:
        p_value: two-sided.
        method: ``"exact"``; ``"sampled"`` where it is counted among drawn ways, the observed one counted in;
            ``"bound"`` where it is smaller than drawn ways can show: then it is an upper bound (Hoeffding, 1963,
            "Probability inequalities for sums of bounded random variables", JASA 58:13-30, theorem 2).
    """

    p_value: float
    method: str


def sign_flips(table: DistinctRows, resamples: int, rng: np.random.Generator) -> SignFlips:
    """The sign-flip test from the distinct outcomes of prompts.

    Args:
        table: rows of what a prompt adds in the first run above and below the line, and in the second run.
        resamples: how many ways to draw where they can't all be counted.
        rng: draws them.

    Example:
        >>> from tensorclass.scores.resampling import distinct_rows
        >>> table = distinct_rows([np.zeros(3), np.ones(3), np.full(3, 0.5), np.ones(3)])
        >>> sign_flips(table, 1000, np.random.default_rng(0))
        SignFlips(p_value=0.25, method='exact')
    """
    rows, counts = table.rows, table.counts
    # One run may hold five repeats of each prompt and the other three: then their means are swapped.
    ratio = float(counts @ rows[:, 1]) / float(counts @ rows[:, 3])
    if np.allclose(rows[:, 1], ratio * rows[:, 3], rtol=1e-12, atol=0):
        above_a, above_b = rows[:, 0], ratio * rows[:, 2]
        return _differences(above_b - above_a, np.maximum(np.abs(above_a), np.abs(above_b)), counts, resamples, rng)
    return _ratios(rows, counts, resamples, rng)


def _differences(
    differences: _Numbers, scale: _Numbers, counts: NDArray[np.int64], resamples: int, rng: np.random.Generator
) -> SignFlips:
    """The test on sums of differences, each of which keeps its size and may change its sign."""
    differ = np.abs(differences) > 1e-12 * scale
    if not differ.any():
        return SignFlips(1.0, "exact")
    widest = float(np.abs(differences).max())
    shares: _Numbers = np.round(np.abs(differences[differ]) / widest, 12)
    sizes, place = np.unique(shares, return_inverse=True)
    signed = np.where(differences[differ] > 0, counts[differ], -counts[differ])
    total = np.bincount(place, weights=counts[differ]).astype(np.int64)
    ahead = np.bincount(place, weights=signed)
    if len(sizes) == 1:
        rarer = (int(total[0]) - abs(int(ahead[0]))) // 2
        return SignFlips(min(1.0, 2 * lower_tail(rarer, int(total[0]))), "exact")
    steps = _lattice(sizes)
    if steps is not None:
        p_value = _convolved(steps, total, abs(int(np.rint(steps @ ahead))))
        if p_value is not None:
            return SignFlips(p_value, "exact")
    observed = abs(float(sizes @ ahead)) * (1 - _TIE) - 1e-15
    bound = 2 * exp(-(max(observed, 0.0) ** 2) / (2 * float(sizes**2 @ total)))
    if not _are_few(total) and bound * (1 + resamples) < 1:
        return SignFlips(bound, "bound")
    start, change = np.array([-float(sizes @ total)]), 2 * np.stack([sizes], 1)

    def beyond(sums: _Numbers) -> NDArray[np.bool_]:
        return np.abs(sums[:, 0]) >= observed

    return _counted(start, change, total, beyond, resamples, rng)


def _ratios(rows: _Numbers, counts: NDArray[np.int64], resamples: int, rng: np.random.Generator) -> SignFlips:
    """The test on the difference of two ratios in standard errors, where a prompt's denominators differ."""
    above_a, below_a, above_b, below_b = rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]
    pooled = float(counts @ (above_a + above_b)) / float(counts @ (below_a + below_b))
    # The contributions of a prompt to the second run's sums, kept and swapped.
    error_a, error_b = above_a - pooled * below_a, above_b - pooled * below_b
    kept, swapped = np.stack([error_b, below_b, error_b**2], 1), np.stack([error_a, below_a, error_a**2], 1)
    weights = counts.astype(np.float64)
    sums: _Numbers = weights @ kept
    whole: _Numbers = sums + weights @ swapped  # of both runs
    both = float(counts @ (error_a * error_b))

    def distance(second: _Numbers) -> _Numbers:
        first = whole - second
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = second[:, 0] / second[:, 1] - first[:, 0] / first[:, 1]
            variance = second[:, 2] / second[:, 1] ** 2 + first[:, 2] / first[:, 1] ** 2
            variance -= 2 * both / (second[:, 1] * first[:, 1])
            found = np.where(np.abs(apart) > 1e-12 * (1 + abs(pooled)), apart**2 / variance, 0.0)
        # A way that leaves a run nothing below the line has no difference: it counts as far, which is the safe side.
        some = np.minimum(second[:, 1], first[:, 1]) > 1e-9 * whole[1]
        return np.where(some, found, np.inf)

    observed = float(distance(sums[None, :])[0]) * (1 - _TIE)

    def beyond(second: _Numbers) -> NDArray[np.bool_]:
        return distance(second) >= observed

    # Prompts that are each other's swap are of one kind, and a swap that changes nothing needs no look.
    turned = (above_a > above_b) | ((above_a == above_b) & (below_a > below_b))
    ordered = np.where(turned[:, None], np.stack([above_b, below_b, above_a, below_a], 1), rows)
    changes = (above_a != above_b) | (below_a != below_b)
    if not changes.any():
        return SignFlips(1.0, "exact")
    _, first, place = distinct_places([ordered[changes, column] for column in range(4)])
    number = np.bincount(place, weights=counts[changes]).astype(np.int64)
    step = np.where(turned[:, None], kept - swapped, swapped - kept)[changes][first]
    low = np.where(turned[:, None], swapped, kept)
    start: _Numbers = weights @ low
    return _counted(start, step, number, beyond, resamples, rng)


def _counted(
    start: _Numbers,
    changes: _Numbers,
    counts: NDArray[np.int64],
    beyond: Callable[[_Numbers], NDArray[np.bool_]],
    resamples: int,
    rng: np.random.Generator,
) -> SignFlips:
    """The share of ways that lie beyond: of all, where these are few, else of drawn ones.

    Args:
        start: ``[sums]``, where no prompt is swapped.
        changes: ``[kinds, sums]``, how each swap of a prompt of a kind changes them.
        counts: ``[kinds]``, how many prompts there are of each kind.
        beyond: says of ``[ways, sums]`` for each way whether it counts.
        resamples: how many ways are drawn where there are too many.
        rng: draws them.
    """
    if _are_few(counts):
        sums, chances = start[None, :], np.ones(1)
        for change, count in zip(changes, counts.tolist(), strict=True):
            each = np.arange(count + 1, dtype=np.float64)
            sums = (sums[:, None, :] + each[:, None] * change).reshape((-1, len(start)))
            chances = np.outer(chances, np.exp(_log_chances(count))).ravel()
        return SignFlips(min(1.0, float(chances[beyond(sums)].sum())), "exact")
    if resamples < 1:
        raise ValueError(f"resamples: expected a whole number of at least 1, got {resamples}")
    single = counts == 1
    several, ones = counts[~single], int(single.sum())
    found, step = 0, max(1, _CHUNK // len(counts))
    for first in range(0, resamples, step):
        ways = min(step, resamples - first)
        bits = np.unpackbits(rng.integers(0, 256, (ways, -(-ones // 8)), dtype=np.uint8), axis=1, count=ones)
        sums = start + bits.astype(np.float64) @ changes[single]
        if len(several):
            sums += rng.binomial(several, 0.5, (ways, len(several))) @ changes[~single]
        found += int(np.count_nonzero(beyond(sums)))
    return SignFlips((1 + found) / (1 + resamples), "sampled")


def _are_few(counts: NDArray[np.int64]) -> bool:
    """Return whether all sign flips can be enumerated. ``counts``: the number of equal prompts of each kind."""
    return bool(np.log2(counts + 1.0).sum() <= log(_STATES, 2))


def _lattice(sizes: _Numbers) -> NDArray[np.int64] | None:
    """Express sizes, of which the largest is 1, as whole multiples of a common step; None if there is none."""
    step = 1.0
    for size in sizes.tolist():
        rest = size
        while rest > 1e-7:  # Euclid's algorithm; rounding leaves rests near 0 and near the step
            step, rest = rest, step % rest
            rest = 0.0 if step - rest < 1e-7 else rest
        if step < 1 / _FINEST:
            return None
    steps = np.rint(sizes / step)
    return steps.astype(np.int64) if np.all(np.abs(steps * step - sizes) < 1e-9 * steps) else None


def _convolved(steps: NDArray[np.int64], counts: NDArray[np.int64], observed: int) -> float | None:
    """Compute the chance that a sum of steps with random signs is at least so large either way; None if costly.

    Outcomes whose chance is below 1e-30 are left out, and counted as beyond.
    """
    chances, first, dropped, work = np.ones(1), 0, 0.0, 0
    for step, count in sorted(zip(steps.tolist(), counts.tolist(), strict=True), reverse=True):
        own = np.exp(_log_chances(count))
        kept = np.flatnonzero(own > 1e-30)
        dropped += 1e-30 * (count + 1 - len(kept))
        own = own[kept[0] : kept[-1] + 1]
        work += len(own) * len(chances)
        if work > _STEPS:
            return None
        wider = np.zeros(len(chances) + step * (len(own) - 1))
        for place, chance in enumerate(own.tolist()):
            wider[place * step : place * step + len(chances)] += chance * chances
        chances, first = wider, first + step * int(kept[0])
    sums = 2 * (first + np.arange(len(chances))) - int(steps @ counts)
    return min(1.0, float(np.sort(chances[np.abs(sums) >= observed]).sum()) + dropped)


def _log_chances(count: int) -> _Numbers:
    """The logarithms of the chances of 0, 1, ... heads in so many throws of a coin."""
    steps = np.concatenate([[0.0], np.cumsum(np.log(np.arange(count, 0, -1) / np.arange(1.0, count + 1)))])
    logs: _Numbers = steps - count * log(2.0)
    return logs


def lower_tail(successes: int, trials: int) -> float:
    """P(X <= successes) of a binomial with chance 1/2, for at most half as many successes as trials.

    Example:
        >>> lower_tail(1, 3)
        0.5
    """
    if trials <= 64:
        return float(sum(comb(trials, each) for each in range(successes + 1)) / 2**trials)
    # Summed from the largest term down, so that the rest can stop mattering; logs, since 2**-trials underflows.
    term = lgamma(trials + 1) - lgamma(successes + 1) - lgamma(trials - successes + 1) - trials * log(2.0)
    ratios = np.arange(successes, 0, -1, dtype=np.float64)
    steps = np.cumsum(np.log(ratios / (trials - ratios + 1)))
    return exp(term) * (1.0 + float(np.exp(steps).sum()))
