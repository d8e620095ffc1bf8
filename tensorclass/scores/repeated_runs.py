"""Runs whose repeats (seeds) are a level of their own: tallies by repeat and prompt, their figures and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tensorclass import TensorClass
from tensorclass.scores.crossed import CrossedVariance, crossed_difference, crossed_interval, crossed_variance
from tensorclass.scores.estimate import Difference, Estimate, check_same_clusters, difference_of, estimate_of
from tensorclass.scores.metrics import Metric
from tensorclass.scores.score_arrays import RecordRows, RunRows, Tallies, tallies
from tensorclass.scores.tally import Sample, Tally

__all__ = ["RepeatedRun", "RepeatedTally", "check_repeats", "repeated_runs"]


@dataclass(frozen=True, eq=False)
class RepeatedTally:
    """The contributions of each repeat and prompt to one figure; the prompts come in the same order.

    Attributes:
        each: a tally for each repeat.
    """

    each: tuple[Tally, ...]

    @property
    def pooled(self) -> Tally:
        """The tally of prompts, in which repeats are pooled."""
        first = self.each[0]
        numerator, denominator = (np.sum(side, axis=0) for side in self._sides(self.each))
        return Tally(first.name, numerator, denominator, first.unit, first.cluster)

    def at(self, positions: NDArray[np.int64]) -> RepeatedTally:
        """Return the tally of the prompts at these positions."""
        return RepeatedTally(tuple(one.at(positions) for one in self.each))

    def cells(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The contributions above and below the line, ``[repeats, prompts]``, or of clusters of prompts."""
        above, below = self._sides([one.by_cluster() for one in self.each])
        return np.stack(above), np.stack(below)

    def variance(self) -> CrossedVariance:
        """The variance of the figure over prompts (or clusters) and repeats."""
        return crossed_variance(*self.cells())

    def estimate(self, *, confidence: float) -> Estimate:
        """The figure with an interval that covers other repeats."""
        pooled = self.pooled
        return estimate_of(
            crossed_interval(*self.cells(), confidence=confidence, share=pooled.unit == "%"),
            count=float(pooled.denominator.sum()),
            prompts=pooled.prompts,
            unit=pooled.unit,
            clusters=None if pooled.cluster is None else pooled.by_cluster().prompts,
        )

    def difference(self, other: RepeatedTally, *, confidence: float) -> Difference:
        """The difference of another run to this one, on the same prompts in the same order."""
        a, b = self.pooled, other.pooled
        check_same_clusters(a, b)
        found = crossed_difference(*self.cells(), *other.cells(), confidence=confidence, share=a.unit == "%")
        clusters = None
        if a.cluster is not None:
            clusters = found.prompts
            held = int(((a.denominator > 0) | (b.denominator > 0)).sum())
            found = found._replace(prompts=held, prompts_a=a.prompts, prompts_b=b.prompts)
        return difference_of(found, a.unit, clusters=clusters)

    @staticmethod
    def _sides(each: Sequence[Tally]) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        return [one.numerator for one in each], [one.denominator for one in each]


@dataclass(frozen=True, eq=False)
class RepeatedRun:
    """The figures of one run and of its groups, and its prompts.

    Attributes:
        figures: by name.
        groups: by the name of the figure and of the group.
        keys: a number for each prompt, rising; None without ids.
        prompts: the number of prompts.
    """

    figures: Mapping[str, RepeatedTally]
    groups: Mapping[str, Mapping[str, RepeatedTally]]
    keys: NDArray[np.int64] | None
    prompts: int


def check_repeats(repeats: str) -> bool:
    """Return whether repeats are a level of their own, or raise if the argument is neither ``"pooled"`` nor that."""
    if repeats not in ("pooled", "random"):
        raise ValueError(f"repeats: expected 'pooled' or 'random', got {repeats!r}")
    return repeats == "random"


def repeated_runs(
    record: TensorClass,
    dim: int | Sequence[int],
    keys: NDArray[np.int64] | None,
    metrics: Mapping[str, Metric | Sequence[Metric]] | None = None,
    cluster: str | None = None,
) -> tuple[tuple[int, ...], list[RepeatedRun]]:
    """Take a record apart into runs, and each of them into repeats.

    Args:
        record: the scores.
        dim: the batch dimensions of the repeats, and last that of the prompts.
        keys: in the shape of the batch, a number for the prompt of each row; None without ids.
        metrics: metrics by field, in place of the declared ones.
        cluster: the field of clusters.

    Returns:
        The dimensions of the runs, and the runs in their (flattened) order.

    Raises:
        ValueError: fewer than two repeats, repeats with other prompts, or a figure that is no ratio of sums.
    """
    if isinstance(dim, int) or len(dim) < 2:
        raise ValueError(
            f"dim: expected the dimensions of the repeats before that of the prompts, such as dim=(0, 1), since "
            f"repeats are a level of their own, got {dim}"
        )
    whole = RecordRows(record, dim)  # checks dim
    size = len(record.batch_size)
    reduced = [one % size for one in dim]
    cells = RecordRows(record, dim[-1], keys)
    left = [one for one in range(size) if one != reduced[-1]]
    order = [left.index(one) for one in [*(one for one in left if one not in reduced), *reduced[:-1]]]
    count = prod(tuple(record.batch_size)[one] for one in reduced[:-1])
    if count < 2:
        raise ValueError(f"dim: expected at least two repeats, since they are a level of their own, got {count}")
    grid = np.reshape(np.transpose(np.reshape(np.arange(prod(cells.runs)), cells.runs), order), (-1, count))
    places = [[int(place) for place in row] for row in grid]
    each = cells.each()
    found = [tallies(one, metrics, cluster) for one in each]
    return whole.runs, [_run([each[one] for one in row], [found[one] for one in row]) for row in places]


def _run(each: Sequence[RunRows], found: Sequence[Tallies]) -> RepeatedRun:
    """One run from its repeats, with the prompts of all in the order of their keys."""
    known = [one.keys for one in each if one.keys is not None]
    sortings = [np.argsort(keys, kind="stable") for keys in known]
    shared = known[0][sortings[0]] if known else None
    for keys, sorting in zip(known, sortings, strict=True):
        if shared is not None and not np.array_equal(keys[sorting], shared):
            raise ValueError("prompt_id: expected the same prompts in all repeats, since repeats='random'")

    def together(name: str, parts: Sequence[Tally | Sample | None]) -> RepeatedTally:
        if any(isinstance(part, Sample) for part in parts):
            raise ValueError(
                f"{name}: expected a ratio of sums, since repeats='random'; pool the repeats, or leave the figure out "
                "with metrics={field: []}"
            )
        first = next(part for part in parts if isinstance(part, Tally))
        nothing = replace(first, numerator=0 * first.numerator, denominator=0 * first.denominator)
        full = [part if isinstance(part, Tally) else nothing for part in parts]
        if known:
            full = [part.at(place) for part, place in zip(full, sortings, strict=True)]
        return RepeatedTally(tuple(full))

    figures = dict.fromkeys(name for one in found for name in one.figures)
    groups: dict[str, dict[str, RepeatedTally]] = {}
    for name in dict.fromkeys(name for one in found for name in one.groups):
        members = [one.groups.get(name, {}) for one in found]
        names = sorted({group for own in members for group in own})
        groups[name] = {group: together(name, [own.get(group) for own in members]) for group in names}
    every = {name: together(name, [one.figures.get(name) for one in found]) for name in figures}
    return RepeatedRun(every, groups, shared, each[0].prompts)
