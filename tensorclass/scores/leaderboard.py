"""Several models on several tasks: figures, averages, ranks, groups of models, and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isnan, nan
from typing import Any, Final

import numpy as np

from tensorclass.scores.corrected_differences import check_correction, corrected_differences
from tensorclass.scores.estimate import Difference, Estimate
from tensorclass.scores.families import BattleScoreData
from tensorclass.scores.grid_figures import GridFigures
from tensorclass.scores.paired import is_significant
from tensorclass.scores.ranking import RankInterval, compact_letters, rank_intervals
from tensorclass.scores.readers import Run
from tensorclass.scores.report import difference_dict, estimate_dict
from tensorclass.scores.run_grid import GridTask, run_grid, task_figures
from tensorclass.scores.usage import mean_usage
from tensorclass.td.delegated.declaration import delegated

__all__ = ["MACRO", "Leaderboard", "PairedRuns", "leaderboard"]

MACRO: Final = "macro"
"""The macro average, in the place of a task's name."""


@dataclass(frozen=True, eq=False)
class PairedRuns:
    """The difference ``b - a`` of two models on a task, or of their macro averages.

    Attributes:
        a: the first model; the baseline if there is one.
        b: the second model.
        task: the task, or ``"macro"``.
        difference: the difference, over the prompts that both hold.
        p_adjusted: its p-value, corrected for all differences of tasks, or for all of macro averages; NaN where there
            is none.
        low_adjusted: lower end of its interval, corrected for the same differences; NaN where there is none.
        high_adjusted: upper end.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run, leaderboard
        >>> right = {"old": [0.0, 0, 0, 0, 1], "new": [1.0, 1, 1, 0, 1]}
        >>> runs = [
        ...     Run(model, ExactMatchScoreData(torch.tensor(one), batch_size=[5]), (), "memory", task="sums")
        ...     for model, one in right.items()
        ... ]
        >>> one = leaderboard(runs, baseline="old").differences[0]
        >>> one.a, one.b, one.task, one.difference.value.item(), one.p_adjusted
        ('old', 'new', 'macro', 0.6000000000000001, 0.25)
    """

    a: str
    b: str
    task: str
    difference: Difference
    p_adjusted: float
    low_adjusted: float = nan
    high_adjusted: float = nan


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard:
    """Models on tasks: the result of :func:`leaderboard`.

    Attributes:
        models: the models, the best first.
        tasks: the tasks, in the order of the runs.
        metrics: by task, the name of its figure.
        higher_is_better: by task, whether a larger figure is better.
        figures: by task and model, the figure with its interval. A model may lack tasks.
        averaged: the tasks that the averages are over: those that all models have, of one unit and one direction.
        macro: by model, the mean of the figures of the averaged tasks.
        micro: by model, the mean over all that the averaged tasks count: a task weighs as much as it counts.
        ranks: by model, its rank by macro average, and the ranks that the tests of all pairs leave possible.
        letters: by model, its groups: models that share a letter can't be told apart.
        differences: paired differences of the macro averages, then task by task: to the baseline, or of all pairs.
        baseline: the model to which the others are compared; None for all pairs.
        correction: ``"holm"``, ``"bh"`` or ``"none"``.
        confidence: the level of the intervals, and one less the level of the tests.
        seed: the seed of the random draws.
        notes: what a reader should know, in sentences.
        usage: by model, what an answer took in the mean of the averaged tasks: ``cost`` (US dollars), ``tokens``,
            ``seconds``. Only what the logs of all these tasks say is there.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run, leaderboard
        >>> right = {"old": [0.0, 0, 0, 0, 1], "new": [1.0, 1, 1, 0, 1]}
        >>> board = leaderboard(
        ...     Run(model, ExactMatchScoreData(torch.tensor(one), batch_size=[5]), (), "memory", task="sums")
        ...     for model, one in right.items()
        ... )
        >>> board.models, board.tasks, board.letters
        (('new', 'old'), ('sums',), {'new': 'a', 'old': 'a'})
    """

    models: tuple[str, ...]
    tasks: tuple[str, ...]
    metrics: Mapping[str, str]
    higher_is_better: Mapping[str, bool]
    figures: Mapping[str, Mapping[str, Estimate]]
    averaged: tuple[str, ...]
    macro: Mapping[str, Estimate]
    micro: Mapping[str, Estimate]
    ranks: Mapping[str, RankInterval]
    letters: Mapping[str, str]
    differences: tuple[PairedRuns, ...]
    baseline: str | None = None
    correction: str = "holm"
    confidence: float = 0.95
    seed: int = 0
    notes: tuple[str, ...] = ()
    usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    @delegated("tensorclass.scores.shown_results", "shown_as_text")
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return str(self)

    @delegated("tensorclass.scores.shown_results", "shown_as_html")
    def _repr_html_(self) -> str: ...

    @delegated("tensorclass.scores.shown_results", "shown_as_frame")
    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row for each model and task.

        The averages are the tasks ``macro`` and ``micro``.

        Raises:
            ImportError: pandas is not installed.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, Run, leaderboard
            >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
            >>> frame = leaderboard([Run("gpt", scores, (), "memory", task="sums")]).to_pandas()
            >>> frame[["model", "task", "value"]].values.tolist()
            [['gpt', 'macro', 0.5], ['gpt', 'micro', 0.5], ['gpt', 'sums', 0.5]]
        """

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values that JSON can hold; None where a number is NaN.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, Run, leaderboard
            >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
            >>> plain = leaderboard([Run("gpt", scores, (), "memory", task="sums")]).to_dict()
            >>> plain["models"][0]["model"], plain["models"][0]["macro"]["value"]
            ('gpt', 0.5)
        """
        return {
            "confidence": self.confidence,
            "seed": self.seed,
            "correction": self.correction,
            "baseline": self.baseline,
            "averaged": list(self.averaged),
            "tasks": [
                {"task": task, "metric": self.metrics[task], "higher_is_better": self.higher_is_better[task]}
                for task in self.tasks
            ],
            "models": [
                {
                    "model": model,
                    "rank": self.ranks[model].rank,
                    "rank_low": self.ranks[model].low,
                    "rank_high": self.ranks[model].high,
                    "letters": self.letters[model],
                    "macro": estimate_dict(self.macro[model]),
                    "micro": estimate_dict(self.micro[model]),
                    "usage": dict(self.usage.get(model, {})),
                    "tasks": {
                        task: estimate_dict(self.figures[task][model])
                        for task in self.tasks
                        if model in self.figures[task]
                    },
                }
                for model in self.models
            ],
            "differences": [
                {
                    "a": one.a,
                    "b": one.b,
                    "task": one.task,
                    **difference_dict(one.difference),
                    **{
                        name: None if (value := getattr(one, name)) != value else value
                        for name in ("p_adjusted", "low_adjusted", "high_adjusted")
                    },
                }
                for one in self.differences
            ],
            "notes": list(self.notes),
        }


def leaderboard(
    runs: Iterable[Run],
    *,
    metric: str | None = None,
    baseline: str | None = None,
    correction: str = "holm",
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int | None = None,
    cluster: str | None = None,
) -> Leaderboard:
    """Rank models by their runs on one or several tasks.

    Runs of the same model belong together, and so do runs on the same task. Models are compared prompt by prompt within
    a task, never across tasks, and ranked by the macro average over the tasks that all of them have.

    The intervals of averages are over the prompts of each task; the tasks themselves are fixed. Ranks and letters
    follow from the tests of all pairs of macro averages, with corrected p-values: with ``"holm"``, all intervals of
    ranks hold at once with the given confidence.

    Args:
        runs: the runs, one for each model and task.
        metric: the name of the figure to rank by; by default the first one of each task.
        baseline: the model to which the differences are; by default they are of all pairs.
        correction: of the p-values: ``"holm"`` (Holm, 1979), ``"bh"`` (Benjamini and Hochberg, 1995) or ``"none"``.
        confidence: the level of the intervals.
        seed: the seed of the tests that draw.
        resamples: the number of draws; by default as in :meth:`~tensorclass.scores.ScoreData.aggregate`.
        cluster: the field that says which prompts belong together, as in
            :meth:`~tensorclass.scores.ScoreData.aggregate`.

    Returns:
        The models, the best first, with figures, averages, ranks and differences.

    Raises:
        ValueError: there is no run; two runs of a model are on the same task; no run has the metric; no task is common
            to all models; there is no such baseline; runs on a task share no prompt.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run, leaderboard
        >>> def run(model, task, right, of):
        ...     verdicts = torch.arange(of) < right
        ...     return Run(model, ExactMatchScoreData(verdicts, batch_size=[of]), (), "memory", model=model, task=task)
        >>> board = leaderboard(
        ...     [
        ...         run("old", "sums", 20, 100),
        ...         run("new", "sums", 60, 100),
        ...         run("old", "words", 50, 80),
        ...         run("new", "words", 52, 80),
        ...     ]
        ... )
        >>> {model: str(rank) for model, rank in board.ranks.items()}, board.letters
        ({'new': '1 [1, 1]', 'old': '2 [2, 2]'}, {'new': 'a', 'old': 'b'})
        >>> f"{board.macro['new'].value:.3f} {board.micro['new'].value:.3f}"
        '0.625 0.622'
    """
    check_correction(correction)
    grid = run_grid(list(runs))
    found = {task: task_figures(task, models, metric, cluster) for task, models in grid.items()}
    tasks = {task: one for task, one in found.items() if one is not None}
    if not tasks:
        wanted = "a figure that all models have" if metric is None else repr(metric)
        problem = f"metric: expected {wanted}, got a task without it: {', '.join(grid)}"
        if all(isinstance(run.scores, BattleScoreData) for run in runs):
            problem += "; battles rate their models by themselves: leave the leaderboard out"
        raise ValueError(problem)
    notes = [
        f"{task}: left out, since not all of its runs have {metric or 'a figure in common'}"
        for task in grid
        if task not in tasks
    ]
    notes += [note for one in tasks.values() for note in one.notes]
    models = tuple(dict.fromkeys(model for one in tasks.values() for model in one.tallies))
    if baseline is not None and baseline not in models:
        raise ValueError(f"baseline: expected one of the models {', '.join(models)}, got {baseline!r}")
    averaged, reasons = _averaged(tasks, models)
    notes += reasons
    tests = GridFigures(averaged, seed=seed, resamples=resamples, confidence=confidence)
    sign = 1.0 if averaged[0].higher_is_better else -1.0
    macro = {model: tests.macro(model) for model in models}
    values = {model: sign * float(macro[model].value) for model in models}
    order = sorted(models, key=lambda model: (isnan(values[model]), -values[model], model))

    def difference(a: str, b: str, task: str, level: float | None = None) -> Difference:
        return tests.difference(a, b, level) if task == MACRO else tests.task_difference(tasks[task], a, b, level)

    every = _corrected(correction, confidence, [(a, b, MACRO) for a, b in combinations(order, 2)], difference)
    ahead = np.zeros((len(order), len(order)), dtype=np.bool_)
    for one in every:
        if is_significant(one.p_adjusted, confidence):
            better, worse = (one.b, one.a) if sign * float(one.difference.value) > 0 else (one.a, one.b)
            ahead[order.index(better), order.index(worse)] = True
    ranks = rank_intervals([values[model] for model in order], ahead)
    letters = compact_letters(ahead | np.transpose(ahead))
    if baseline is not None:
        others = [model for model in order if model != baseline]
        every = _corrected(correction, confidence, [(baseline, model, MACRO) for model in others], difference)
    by_task = [
        (pair.a, pair.b, one.task)
        for one in tasks.values()
        for pair in every
        if pair.a in one.tallies and pair.b in one.tallies
    ]
    return Leaderboard(
        models=tuple(order),
        tasks=tuple(tasks),
        metrics={task: one.figure for task, one in tasks.items()},
        higher_is_better={task: one.higher_is_better for task, one in tasks.items()},
        figures={
            task: {model: tests.figure(one, model) for model in order if model in one.tallies}
            for task, one in tasks.items()
        },
        averaged=tuple(one.task for one in averaged),
        macro={model: macro[model] for model in order},
        micro={model: tests.micro(model) for model in order},
        ranks=dict(zip(order, ranks, strict=True)),
        letters=dict(zip(order, letters, strict=True)),
        differences=(*every, *_corrected(correction, confidence, by_task, difference)),
        baseline=baseline,
        correction=correction,
        confidence=confidence,
        seed=seed,
        notes=tuple(notes),
        usage={model: mean_usage([grid[one.task][model].usage for one in averaged]) for model in order},
    )


def _averaged(tasks: Mapping[str, GridTask], models: Sequence[str]) -> tuple[list[GridTask], list[str]]:
    """The tasks to average over, and why others are not among them."""
    notes: list[str] = []
    common: list[GridTask] = []
    for one in tasks.values():
        lacking = [model for model in models if model not in one.tallies]
        if lacking:
            notes.append(f"{one.task}: not in the averages, since there is no run of {', '.join(lacking)}")
        else:
            common.append(one)
    if not common:
        held = "; ".join(f"{one.task}: {', '.join(one.tallies)}" for one in tasks.values())
        raise ValueError(f"runs: expected a task that all models have, got none ({held})")
    alike: dict[tuple[str, bool], list[GridTask]] = {}
    for one in common:
        alike.setdefault((one.unit, one.higher_is_better), []).append(one)
    (unit, higher), averaged = max(alike.items(), key=lambda item: len(item[1]))
    for one in common:
        if one.unit != unit:
            notes.append(f"{one.task}: not in the averages, since its unit is {one.unit!r} and not {unit!r}")
        elif one.higher_is_better != higher:
            better = "higher" if higher else "lower"
            notes.append(f"{one.task}: not in the averages, which are of figures that are better when {better}")
    return averaged, notes


def _corrected(
    correction: str,
    confidence: float,
    pairs: Sequence[tuple[str, str, str]],
    difference: Callable[[str, str, str, float | None], Difference],
) -> list[PairedRuns]:
    """Differences by models and task, with p-values and intervals corrected for all of them together."""
    found = [difference(*pair, None) for pair in pairs]
    corrected = corrected_differences(
        found, correction, confidence, lambda place, level: difference(*pairs[place], level)
    )
    return [PairedRuns(*pair, one, *own) for pair, one, own in zip(pairs, found, corrected, strict=True)]
