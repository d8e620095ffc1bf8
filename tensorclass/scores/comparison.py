"""Comparing two runs prompt by prompt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.estimate import Difference, estimate_difference
from tensorclass.scores.identity import paired_keys
from tensorclass.scores.metrics import Tally
from tensorclass.scores.record import ScoreData
from tensorclass.scores.report import Comparison
from tensorclass.scores.rows import RecordRows, tallies

__all__ = ["compare", "pair"]


def compare(
    a: ScoreData, b: ScoreData, *, seed: int = 0, resamples: int | None = None, confidence: float = 0.95
) -> Comparison:
    """How far run ``b`` is ahead of run ``a``, on the prompts that both hold.

    Every figure that both runs have gets its difference ``b - a`` with a paired bootstrap interval and p-value; a
    figure with one verdict of 0 or 1 a prompt also gets McNemar's test. What has groups (instruction types) is
    compared by group too; these are many tests at once, so read their p-values as a ranking.

    Prompts are paired by ``prompt_id``, a prompt that a run holds several times in order of occurrence. Where neither
    run has ids, both must hold the same number of prompts, and the i-th of one goes with the i-th of the other.

    Args:
        a: the first run, of one batch dimension.
        b: the second run, of the same class.
        seed: of the bootstrap.
        resamples: how many; by default as in :meth:`~tensorclass.scores.ScoreData.aggregate`.
        confidence: the level of the intervals.

    Raises:
        TypeError: runs of different classes.
        ValueError: a run with several batch dimensions; no prompt that both hold; ids in only one of the runs.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
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
    if type(a) is not type(b):
        raise TypeError(f"expected two runs of one class, got {type(a).__name__} and {type(b).__name__}")
    for name, run in (("a", a), ("b", b)):
        if len(run.batch_size) != 1:
            raise ValueError(
                f"{name}: expected one batch dimension, which holds the prompts, got {list(run.batch_size)}; "
                f"take one run of a stack by its index"
            )
    place_a, place_b = pair(a, b)
    (run_a,), (run_b,) = RecordRows(a, -1).each(), RecordRows(b, -1).each()
    found_a, found_b = tallies(run_a), tallies(run_b)

    def difference(one: Tally, other: Tally) -> Difference:
        return estimate_difference(
            _at(one, place_a), _at(other, place_b), seed=seed, resamples=resamples, confidence=confidence
        )

    figures = {
        name: difference(tally, found_b.figures[name])
        for name, tally in found_a.figures.items()
        if name in found_b.figures
    }
    groups: dict[str, dict[str, Difference]] = {}
    for name, own in found_a.groups.items():
        other = found_b.groups.get(name, {})
        groups[name] = {group: difference(own[group], other[group]) for group in sorted(own) if group in other}
    return Comparison(
        figures=figures,
        groups=groups,
        family=type(a).__name__,
        seed=seed,
        resamples=resamples,
        confidence=confidence,
        prompts=len(place_a),
        only_a=run_a.whole.prompts - len(place_a),
        only_b=run_b.whole.prompts - len(place_b),
    )


def pair(a: ScoreData, b: ScoreData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each prompt that both runs hold stands in the first and in the second run.

    Returns:
        Two index arrays of the same length, in an order that the ids fix.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> a = ExactMatchScoreData(torch.ones(3), prompt_id=torch.tensor([7, 8, 9]), batch_size=[3])
        >>> b = ExactMatchScoreData(torch.ones(2), prompt_id=torch.tensor([9, 7]), batch_size=[2])
        >>> [places.tolist() for places in pair(a, b)]
        [[0, 2], [1, 0]]
    """
    ids_a, ids_b = a.prompt_id, b.prompt_id
    count_a, count_b = a.batch_size[0], b.batch_size[0]
    if ids_a is None and ids_b is None:
        if count_a != count_b:
            raise ValueError(
                f"prompt_id: neither run has ids, so both must hold the same prompts in the same order, "
                f"got {count_a} and {count_b}; give both their prompt_id to pair what they share"
            )
        return np.arange(count_a), np.arange(count_b)
    values_a, values_b = paired_keys(a, b)
    # A prompt's key is its id's rank among all ids and its number among equal ids of its run: all keys are distinct.
    rank = np.unique(np.concatenate([values_a, values_b]), return_inverse=True)[1]
    number_a, number_b = _occurrence(values_a), _occurrence(values_b)
    most = max(number_a.max(initial=0), number_b.max(initial=0)) + 1
    keys_a, keys_b = rank[:count_a] * most + number_a, rank[count_a:] * most + number_b
    _, place_a, place_b = np.intersect1d(keys_a, keys_b, assume_unique=True, return_indices=True)
    if not len(place_a):
        raise ValueError(f"prompt_id: expected prompts that both runs hold, got none among {count_a} and {count_b}")
    return place_a.astype(np.int64), place_b.astype(np.int64)


def _occurrence(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many equal ids stand before each."""
    order = np.argsort(ids, kind="stable")
    places = np.arange(len(ids))
    first = np.flatnonzero(np.diff(ids[order], prepend=ids[order][:1] - 1))
    number = np.empty(len(ids), dtype=np.int64)
    number[order] = places - np.repeat(first, np.diff(first, append=len(ids)))
    return number


def _at(tally: Tally, places: NDArray[np.int64]) -> Tally:
    return Tally(tally.name, tally.numerator[places], tally.denominator[places], tally.unit)
