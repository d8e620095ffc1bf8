"""Comparing two runs prompt by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from tensorclass import stack
from tensorclass.scores.estimate import Difference, IntervalKwargs, estimate_difference
from tensorclass.scores.identity import paired_keys
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.repeated_runs import RepeatedRun, RepeatedTally, check_repeats, repeated_runs
from tensorclass.scores.report import Comparison
from tensorclass.scores.score_arrays import RecordRows, Tallies, pooling_notes, tallies
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.tally import Sample, Tally
from tensorclass.support.printable import type_name
from tensorclass.support.project_links import guide

__all__ = ["ComparedFigures", "compare", "compare_figures", "pair"]

_Part: TypeAlias = Tally | Sample | RepeatedTally


def compare(
    a: ScoreData,
    b: ScoreData,
    *,
    seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    cluster: str | None = None,
    dim: int | Sequence[int] = -1,
    repeats: str = "pooled",
) -> Comparison:
    """Compare run ``b`` with run ``a`` on the prompts that both hold.

    Every figure that both runs have gets its difference ``b - a`` with an interval and the p-value of a sign-flip test;
    a figure with one verdict of 0 or 1 a prompt also gets McNemar's test, which is the same test there. The figures of
    each run are those of ``aggregate()`` on the shared prompts. Figures with groups (instruction types) are compared by
    group too; these are many tests at once, so read their p-values as a ranking.

    Prompts are paired by ``prompt_id``; rows of a run with the same id are repeats of one prompt and pooled. Where
    neither run has ids, both must hold the same number of prompts, and the i-th of one goes with the i-th of the other.

    Args:
        a: the first run; of several batch dimensions, see ``dim``.
        b: the second run, of the same class. Classes made for the metrics of a log may differ: the metrics that both
            runs have are compared.
        seed: the seed of the test, where it can't count all ways to flip.
        resamples: the number of draws in that case; by default as in :meth:`~tensorclass.scores.ScoreData.aggregate`.
        confidence: the level of the intervals.
        cluster: the field that says which prompts belong together, as in
            :meth:`~tensorclass.scores.ScoreData.aggregate`. Intervals, standard errors and the test are then over
            clusters: the test swaps all outcomes of a cluster at once, and there is no McNemar's test.
        dim: the batch dimensions to reduce, as in :meth:`~tensorclass.scores.ScoreData.aggregate`: the last one given
            holds the prompts, those before it repeats of them. The other dimensions are broadcast against each other,
            so ``compare(models[:1], models)`` compares each of ``[models, prompts]`` with the first.
        repeats: ``"pooled"`` within their prompts, or ``"random"``: a level of their own, as in
            :meth:`~tensorclass.scores.ScoreData.aggregate`. The test is then a t test
            (:func:`~tensorclass.scores.crossed.crossed_difference`).

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
        >>> models = torch.stack([a, b, a])
        >>> compare(models[:1], models)["exact_match"].value
        tensor([0.0000, 0.4000, 0.0000], dtype=torch.float64)
    """
    for name, run in (("a", a), ("b", b)):
        if not isinstance(run, ScoreData):
            raise TypeError(
                f"{name}: expected the scores of a run, as read_scores(path) or read_run(path).scores gives them, "
                f"got {type_name(run)}"
            )
    if type(a) is not type(b) and not (isinstance(a, LoggedScoreData) and isinstance(b, LoggedScoreData)):
        raise TypeError(f"expected two runs of one class, got {type_name(a)} and {type_name(b)}")
    keys_a, keys_b = paired_keys(a, b)
    random = check_repeats(repeats)
    runs_a, runs_b = _runs("a", a, dim, keys_a, cluster, random), _runs("b", b, dim, keys_b, cluster, random)
    try:
        shape = np.broadcast_shapes(runs_a.shape, runs_b.shape)
    except ValueError:
        raise ValueError(
            f"expected runs that go together, in dimensions of the same size or of size 1, got {list(runs_a.shape)} "
            f"and {list(runs_b.shape)} beside those that are reduced (dim={dim})"
        ) from None
    places_a, places_b = (np.ravel(np.broadcast_to(runs.places, shape)) for runs in (runs_a, runs_b))
    settings: IntervalKwargs = {"seed": seed, "resamples": resamples, "confidence": confidence}
    pairs = [
        _PairOfRuns(runs_a.each[one], runs_b.each[other], settings)
        for one, other in zip(map(int, places_a), map(int, places_b), strict=True)
    ]
    figures = _stacked([one.figures() for one in pairs], shape)
    held_a, held_b = ({name: None for run in runs.each for name in run.found.figures} for runs in (runs_a, runs_b))
    if not figures and held_a and held_b:
        raise ValueError(f"expected a metric that both runs have, got {', '.join(held_a)} and {', '.join(held_b)}")
    each = [one.groups() for one in pairs]
    groups = {
        name: _stacked([own[name] for own in each], shape)
        for name in dict.fromkeys(name for own in each for name in own)
        if all(name in own for own in each)
    }
    return Comparison(
        figures=figures,
        groups=groups,
        family=type(a).__name__,
        prompts=min(len(one.positions_a) for one in pairs),
        only_a=max(one.a.prompts - len(one.positions_a) for one in pairs),
        only_b=max(one.b.prompts - len(one.positions_b) for one in pairs),
        batch_size=tuple(shape),
        notes=(*runs_a.notes, *runs_b.notes),
        **settings,
    )


def compare_figures(
    a: ComparedFigures, b: ComparedFigures, *, family: str, **settings: Unpack[IntervalKwargs]
) -> Comparison:
    """Compare two runs by the contributions of their prompts.

    Args:
        a: the first run.
        b: the second run.
        family: the class of the scores.
        settings: of intervals and tests.
    """
    pair_of_runs = _PairOfRuns(a, b, settings)
    shared = len(pair_of_runs.positions_a)
    return Comparison(
        figures=pair_of_runs.figures(),
        groups=pair_of_runs.groups(),
        family=family,
        prompts=shared,
        only_a=a.prompts - shared,
        only_b=b.prompts - shared,
        **settings,
    )


@dataclass(frozen=True, eq=False)
class ComparedFigures:
    """A run: its prompts, and the contributions of each to its figures.

    Attributes:
        keys: a number for each prompt, all different; None if they are paired by position.
        prompts: the number of prompts.
        found: the contributions.
    """

    keys: NDArray[np.int64] | None
    prompts: int
    found: Tallies | RepeatedRun


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of a record, in the order of their (flattened) dimensions."""

    shape: tuple[int, ...]
    each: list[ComparedFigures]
    notes: list[str]

    @property
    def places(self) -> NDArray[np.int64]:
        return np.reshape(np.arange(len(self.each)), self.shape)


def _runs(
    name: str,
    record: ScoreData,
    dim: int | Sequence[int],
    keys: NDArray[np.int64] | None,
    cluster: str | None,
    random: bool,
) -> _Runs:
    if random:
        shape, repeated = repeated_runs(record, dim, keys, cluster=cluster)
        return _Runs(shape, [ComparedFigures(one.keys, one.prompts, one) for one in repeated], [])
    rows = RecordRows(record, dim, keys)
    each = rows.each()
    notes = [f"{name}{place}: {note}" for place, note in pooling_notes(each)]
    return _Runs(
        rows.runs, [ComparedFigures(one.keys, one.prompts, tallies(one, cluster=cluster)) for one in each], notes
    )


class _PairOfRuns:
    """Two runs and the prompts that both hold."""

    def __init__(self, a: ComparedFigures, b: ComparedFigures, settings: IntervalKwargs) -> None:
        self.a, self.b = a, b
        self._settings = settings
        self.positions_a, self.positions_b = pair(a.keys, b.keys, a.prompts, b.prompts)

    def figures(self) -> dict[str, Difference]:
        """The differences by name, in the order of the fields."""
        return self._differences(self.a.found.figures, self.b.found.figures)

    def groups(self) -> dict[str, dict[str, Difference]]:
        """The differences by the name of the figure and of the group."""
        others = self.b.found.groups
        return {
            name: self._differences(dict(sorted(own.items())), others.get(name, {}))
            for name, own in self.a.found.groups.items()
        }

    def _differences(self, a: Mapping[str, _Part], b: Mapping[str, _Part]) -> dict[str, Difference]:
        return {name: self._difference(a[name], b[name]) for name in a if name in b}

    def _difference(self, one: _Part, other: _Part) -> Difference:
        a, b = one.at(self.positions_a), other.at(self.positions_b)
        if isinstance(a, RepeatedTally):
            assert isinstance(b, RepeatedTally)
            return a.difference(b, confidence=self._settings["confidence"])
        assert not isinstance(b, RepeatedTally)
        return estimate_difference(a, b, **self._settings)


def _stacked(each: Sequence[Mapping[str, Difference]], shape: tuple[int, ...]) -> dict[str, Difference]:
    """The differences that all pairs have, with the dimensions of the pairs."""
    names = [name for name in each[0] if all(name in own for own in each)]
    if not shape:
        return {name: each[0][name] for name in names}
    found: dict[str, Difference] = {}
    for name in names:
        own = [one[name] for one in each]
        if any(one.mcnemar_p is None for one in own):  # the test applies to all of them or is left out
            own = [one.replace(only_a=None, only_b=None, mcnemar_p=None) for one in own]
        found[name] = stack(own).reshape(shape)
    return found


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
            f"other tasks, or other versions of their documents; what a prompt is known by: {guide('scores')}"
        )
    return positions_a.astype(np.int64), positions_b.astype(np.int64)
