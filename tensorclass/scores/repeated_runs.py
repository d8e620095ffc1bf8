"""Runs whose repeats (seeds) are a level of their own: tallies by repeat and prompt, their figures and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tensorclass import TensorClass
from tensorclass.scores.crossed import CrossedVariance, crossed_difference, crossed_interval, crossed_variance
from tensorclass.scores.estimate import (
    Difference,
    Estimate,
    bounded_ends,
    check_same_clusters,
    difference_of,
    estimate_of,
)
from tensorclass.scores.metrics import Metric
from tensorclass.scores.score_arrays import RecordRows, RunRows, Tallies, tallies
from tensorclass.scores.tally import Sample, Tally

__all__ = ["RepeatedRun", "RepeatedTally", "check_repeats", "repeated_run", "repeated_runs"]


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
        lacking = [one.missing for one in self.each if one.missing is not None]
        missing = np.sum(lacking, axis=0) if lacking else None
        return Tally(first.name, numerator, denominator, first.unit, first.cluster, missing)

    @property
    def lacks(self) -> NDArray[np.bool_]:
        """``[prompts]``, whether a repeat lacks all verdicts of a prompt.

        Prompts that other repeats answered would weigh less than the others, so that a repeat without the hard ones
        would raise the figure.
        """
        found: NDArray[np.bool_] = np.any([one.lacks for one in self.each], axis=0)
        return found

    def at(self, positions: NDArray[np.int64]) -> RepeatedTally:
        """Return the tally of the prompts at these positions."""
        return RepeatedTally(tuple(one.at(positions) for one in self.each))

    def cells(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The contributions above and below the line, ``[repeats, prompts]``, or of clusters of prompts."""
        above, below = self._sides([one.by_cluster() for one in self.each])
        return np.stack(above), np.stack(below)

    @property
    def name(self) -> str:
        """The figure's name."""
        return self.each[0].name

    @property
    def unit(self) -> str:
        """Its unit."""
        return self.each[0].unit

    def variance(self) -> CrossedVariance:
        """The variance of the figure over prompts (or clusters) and repeats."""
        return crossed_variance(*self.cells())

    def estimate(self, *, confidence: float) -> Estimate:
        """The figure with an interval that covers other repeats."""
        missed = self.pooled.missed
        whole = self.at(np.flatnonzero(~self.lacks))
        pooled = whole.pooled
        return estimate_of(
            bounded_ends(crossed_interval(*whole.cells(), confidence=confidence, share=pooled.unit == "%"), pooled),
            count=float(pooled.denominator.sum()),
            prompts=pooled.prompts,
            unit=pooled.unit,
            clusters=None if pooled.cluster is None else pooled.by_cluster().prompts,
            missing=missed,
        )

    def difference(self, other: RepeatedTally, *, confidence: float) -> Difference:
        """The difference of another run to this one, on the same prompts in the same order."""
        lacks_a, lacks_b = self.lacks, other.lacks
        both = np.flatnonzero(~(lacks_a | lacks_b))
        first, second = self.at(both), other.at(both)
        a, b = first.pooled, second.pooled
        check_same_clusters(a, b)
        found = crossed_difference(
            *first.cells(),
            *second.cells(),
            confidence=confidence,
            share=a.unit == "%",
            clusters=a.cluster is not None,
        )
        clusters = None
        if a.cluster is not None:
            clusters = found.prompts
            held = int(((a.denominator > 0) | (b.denominator > 0)).sum())
            found = found._replace(prompts=held, prompts_a=a.prompts, prompts_b=b.prompts)
        lacking = int(lacks_a.sum()), int(lacks_b.sum())
        return difference_of(found, a.unit, clusters=clusters, lacking=lacking, confidence=confidence)

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
    return whole.runs, [repeated_run([each[one] for one in row], [found[one] for one in row]) for row in places]


def repeated_run(
    each: Sequence[RunRows], found: Sequence[Tallies], *, same_prompts: bool = True, ratios_only: bool = False
) -> RepeatedRun:
    """One run from its repeats, with the prompts of all in the order of their keys.

    Args:
        each: the rows of each repeat.
        found: the tallies of each repeat.
        same_prompts: raise unless all repeats have the same prompts; else a prompt is missing in those that lack it.
        ratios_only: leave out figures that are no ratio of sums; else they raise.
    """
    known = [one.keys for one in each if one.keys is not None]
    shared = np.unique(np.concatenate(known)) if known else None
    if shared is not None and same_prompts and any(len(keys) < len(shared) for keys in known):
        raise ValueError("prompt_id: expected the same prompts in all repeats, since repeats='random'")
    prompts = each[0].prompts if shared is None else len(shared)
    keys_of: list[NDArray[np.int64] | None] = [one.keys for one in each]
    if any(one.prompts > prompts or (shared is None and one.prompts < prompts) for one in each):
        raise ValueError("prompt_id: expected ids of prompts, since the repeats have different numbers of them")

    def spread(part: Tally | None, like: Tally, keys: NDArray[np.int64] | None) -> Tally:
        """The tally over the prompts of all repeats."""
        if part is not None and (keys is None or shared is None):
            return part
        above, below, missing = np.zeros(prompts), np.zeros(prompts), np.full(prompts, float(part is not None))
        if part is not None and keys is not None and shared is not None:
            place = np.searchsorted(shared, keys)
            above[place], below[place] = part.numerator, part.denominator
            missing[place] = 0.0 if part.missing is None else part.missing
        return replace(like, numerator=above, denominator=below, missing=missing)

    def clustered(parts: Sequence[Tally | None]) -> NDArray[np.int64] | None:
        """The cluster of each prompt, from any repeat that has it."""
        own = [(one.cluster, keys) for one, keys in zip(parts, keys_of, strict=True) if one]
        if shared is None or own[0][0] is None:
            return own[0][0]
        clusters = np.zeros(prompts, dtype=np.int64)
        for cluster, keys in own:
            if cluster is not None and keys is not None:
                clusters[np.searchsorted(shared, keys)] = cluster
        return clusters

    def together(name: str, parts: Sequence[Tally | Sample | None]) -> RepeatedTally:
        if any(isinstance(part, Sample) for part in parts):
            raise ValueError(
                f"{name}: expected a ratio of sums, since repeats='random'; pool the repeats, or leave the figure out "
                "with metrics={field: []}"
            )
        own = [part if isinstance(part, Tally) else None for part in parts]
        like = replace(next(part for part in own if part is not None), cluster=clustered(own))
        full = (spread(part, like, of) for part, of in zip(own, keys_of, strict=True))
        return RepeatedTally(tuple(replace(one, cluster=like.cluster) for one in full))

    if ratios_only:
        found = [Tallies({**one.sums}, one.group_sums) for one in found]
    figures = dict.fromkeys(name for one in found for name in one.figures)
    groups: dict[str, dict[str, RepeatedTally]] = {}
    for name in dict.fromkeys(name for one in found for name in one.groups):
        members = [one.groups.get(name, {}) for one in found]
        names = sorted({group for own in members for group in own})
        groups[name] = {group: together(name, [own.get(group) for own in members]) for group in names}
    every = {name: together(name, [one.figures.get(name) for one in found]) for name in figures}
    return RepeatedRun(every, groups, shared, prompts)
