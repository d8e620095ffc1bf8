"""Comparing two runs prompt by prompt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.estimate import Difference, estimate_difference
from tensorclass.scores.identity import paired_keys
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.report import Comparison
from tensorclass.scores.score_arrays import RecordRows, pooling_note, tallies
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.tally import Tally

__all__ = ["compare", "pair"]


def compare(
    a: ScoreData,
    b: ScoreData,
    *,
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    cluster: str | None = None,
) -> Comparison:
    """Compare run ``b`` with run ``a`` on the prompts that both hold.

    Every figure that both runs have gets its difference ``b - a`` with an interval and the p-value of a sign-flip test;
    a figure with one verdict of 0 or 1 a prompt also gets McNemar's test, which is the same test there. The figures of
    each run are those of ``aggregate()`` on the shared prompts. Figures with groups (instruction types) are compared by
    group too; these are many tests at once, so read their p-values as a ranking.

    Prompts are paired by ``prompt_id``; rows of a run with the same id are repeats of one prompt and pooled. Where
    neither run has ids, both must hold the same number of prompts, and the i-th of one goes with the i-th of the other.

    Args:
        a: the first run, of one batch dimension.
        b: the second run, of the same class. Classes made for the metrics of a log may differ: the metrics that both
            runs have are compared.
        seed: the seed of the test, where it can't count all ways to flip.
        resamples: the number of draws in that case; by default as in :meth:`~tensorclass.scores.ScoreData.aggregate`.
        confidence: the level of the intervals.
        cluster: the field that says which prompts belong together, as in
            :meth:`~tensorclass.scores.ScoreData.aggregate`. Intervals, standard errors and the test are then over
            clusters: the test swaps all outcomes of a cluster at once, and there is no McNemar's test.

    Returns:
        The differences by the name of the figure.

    Raises:
        TypeError: runs of different classes.
        ValueError: a run with several batch dimensions; no prompt that both hold; ids in only one of the runs; no
            metric that both have.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, compare
        >>> a = ExactMatchScoreData(torch.tensor([1.0, 0, 0, 0, 1]), batch_size=[5])
        >>> b = ExactMatchScoreData(torch.tensor([1.0, 1, 1, 0, 1]), batch_size=[5])
        >>> one = compare(a, b)["exact_match"]
        >>> f"{one.value:+.2f}, only b right: {int(one.only_b)}, McNemar p = {one.mcnemar_p:.2f}"
        '+0.40, only b right: 2, McNemar p = 0.50'
    """
    for name, run in (("a", a), ("b", b)):
        if not isinstance(run, ScoreData):
            raise TypeError(
                f"{name}: expected the scores of a run, as read_scores(path) or read_run(path).scores gives them, "
                f"got {type(run).__name__}"
            )
    if type(a) is not type(b) and not (isinstance(a, LoggedScoreData) and isinstance(b, LoggedScoreData)):
        raise TypeError(f"expected two runs of one class, got {type(a).__name__} and {type(b).__name__}")
    for name, run in (("a", a), ("b", b)):
        if len(run.batch_size) != 1:
            raise ValueError(
                f"{name}: expected one batch dimension, which holds the prompts, got {list(run.batch_size)}; "
                f"take one run of a stack by its index"
            )
    without = a.prompt_id is None and b.prompt_id is None
    keys_a, keys_b = (None, None) if without else paired_keys(a, b)
    (run_a,), (run_b,) = RecordRows(a, -1, keys_a).each(), RecordRows(b, -1, keys_b).each()
    positions_a, positions_b = pair(run_a.keys, run_b.keys, run_a.prompts, run_b.prompts)
    tallies_a, tallies_b = tallies(run_a, cluster=cluster), tallies(run_b, cluster=cluster)

    def difference(one: Tally, other: Tally) -> Difference:
        return estimate_difference(
            one.at(positions_a), other.at(positions_b), seed=seed, resamples=resamples, confidence=confidence
        )

    figures = {
        name: difference(tally, tallies_b.figures[name])
        for name, tally in tallies_a.figures.items()
        if name in tallies_b.figures
    }
    if not figures and tallies_a.figures and tallies_b.figures:
        held_a, held_b = (", ".join(found.figures) for found in (tallies_a, tallies_b))
        raise ValueError(f"expected a metric that both runs have, got {held_a} and {held_b}")
    groups: dict[str, dict[str, Difference]] = {}
    for name, own in tallies_a.groups.items():
        other = tallies_b.groups.get(name, {})
        groups[name] = {group: difference(own[group], other[group]) for group in sorted(own) if group in other}
    return Comparison(
        figures=figures,
        groups=groups,
        family=type(a).__name__,
        seed=seed,
        resamples=resamples,
        confidence=confidence,
        prompts=len(positions_a),
        only_a=run_a.prompts - len(positions_a),
        only_b=run_b.prompts - len(positions_b),
        notes=tuple(
            f"{name}: {note}" for name, run in (("a", run_a), ("b", run_b)) if (note := pooling_note(run)) is not None
        ),
    )


def pair(
    keys_a: NDArray[np.int64] | None, keys_b: NDArray[np.int64] | None, prompts_a: int, prompts_b: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions in both runs of each prompt that both hold.

    Args:
        keys_a: a number for each prompt of the first run, all different; None pairs by position.
        keys_b: the same for the second run.
        prompts_a: the number of prompts of the first run.
        prompts_b: the number of prompts of the second run.

    Returns:
        Two index arrays of the same length, in an order that the keys fix.

    Raises:
        ValueError: there are no keys and the numbers differ, or no prompt is in both runs.

    Example:
        >>> [positions.tolist() for positions in pair(np.array([7, 8, 9]), np.array([9, 7]), 3, 2)]
        [[0, 2], [1, 0]]
    """
    if keys_a is None or keys_b is None:
        if prompts_a != prompts_b:
            raise ValueError(
                f"prompt_id: neither run has ids, so both must hold the same prompts in the same order, "
                f"got {prompts_a} and {prompts_b}; give both their prompt_id to pair what they share"
            )
        return np.arange(prompts_a), np.arange(prompts_b)
    _, positions_a, positions_b = np.intersect1d(keys_a, keys_b, assume_unique=True, return_indices=True)
    if not len(positions_a):
        raise ValueError(
            f"prompt_id: expected prompts that both runs hold, got none among {prompts_a} and {prompts_b}; these are "
            "other tasks, or other versions of their documents (docs/scores.md says what a prompt is known by)"
        )
    return positions_a.astype(np.int64), positions_b.astype(np.int64)
