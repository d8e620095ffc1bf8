"""The figures of runs as they were read: their seeds, if they have several, are a level of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from tensorclass.scores.comparison import ComparedFigures, compare, compare_figures
from tensorclass.scores.estimate import Estimate, IntervalKwargs, estimate
from tensorclass.scores.identity import paired_keys, prompt_keys
from tensorclass.scores.readers.run import Run
from tensorclass.scores.repeated_runs import RepeatedTally, repeated_run
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.score_arrays import RecordRows, RunRows, tallies
from tensorclass.scores.tally import Sample, Tally

__all__ = ["aggregate_run", "compare_runs", "run_figures", "with_seed_level"]


def run_figures(run: Run, keys: NDArray[np.int64] | None, cluster: str | None = None) -> ComparedFigures:
    """The contributions of the prompts of a run to its figures; of several seeds, seed by seed.

    Figures that are no ratio of sums are left out of runs with seeds.

    Args:
        run: the run.
        keys: ``[rows]``, a number for the prompt of each row; None without ids.
        cluster: the field that says which prompts belong together.
    """
    if not run.seeds:
        (rows,) = RecordRows(run.scores, -1, keys).each()
        return ComparedFigures(rows.keys, rows.prompts, tallies(rows, cluster=cluster))
    each: list[RunRows] = []
    first = 0
    for _, count in run.seeds:
        part = slice(first, first + count)
        each += RecordRows(run.scores[part], -1, None if keys is None else keys[part]).each()
        first += count
    found = [tallies(rows, cluster=cluster) for rows in each]
    repeated = repeated_run(each, found, same_prompts=False, ratios_only=True)
    return ComparedFigures(repeated.keys, repeated.prompts, repeated)


def aggregate_run(run: Run, *, cluster: str | None = None, **settings: Unpack[IntervalKwargs]) -> Report:
    """Compute the figures of a run, as :meth:`~tensorclass.scores.ScoreData.aggregate`; its seeds are random.

    Args:
        run: the run.
        cluster: the field that says which prompts belong together.
        settings: of intervals.
    """
    if not run.seeds:
        return run.scores.aggregate(cluster=cluster, **settings)
    found = run_figures(run, prompt_keys(run.scores), cluster).found

    def one_of(part: Tally | Sample | RepeatedTally) -> Estimate:
        if isinstance(part, RepeatedTally):
            return part.estimate(confidence=settings["confidence"])
        return estimate(part, **settings)

    return Report(
        figures={name: one_of(part) for name, part in found.figures.items()},
        groups={
            name: {group: one_of(part) for group, part in sorted(own.items())} for name, own in found.groups.items()
        },
        family=type(run.scores).__name__,
        **settings,
    )


def compare_runs(a: Run, b: Run, *, cluster: str | None = None, **settings: Unpack[IntervalKwargs]) -> Comparison:
    """Compare two runs, as :func:`~tensorclass.scores.compare`; seeds are random if one of the runs has several.

    Args:
        a: the first run.
        b: the second run.
        cluster: the field that says which prompts belong together.
        settings: of intervals and tests.
    """
    if not a.seeds and not b.seeds:
        return compare(a.scores, b.scores, cluster=cluster, **settings)
    keys = paired_keys(a.scores, b.scores)
    runs = [run_figures(one, own, cluster) for one, own in zip(with_seed_level(a, b), keys, strict=True)]
    return compare_figures(*runs, family=type(a.scores).__name__, **settings)


def with_seed_level(*runs: Run) -> Sequence[Run]:
    """The runs, each with seeds: a run without has a single one."""
    if not any(run.seeds for run in runs):
        return runs
    return [run if run.seeds else replace(run, seeds=(("", len(run.scores)),)) for run in runs]
