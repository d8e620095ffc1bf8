"""Tasks of one model over several runs: figures with intervals, changes from run to run, and which drops are real."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any, Final, TypeAlias

from tensorclass.scores.corrected_differences import check_correction, corrected_differences
from tensorclass.scores.estimate import Difference, Estimate, show, show_interval
from tensorclass.scores.grid_figures import GridFigures
from tensorclass.scores.model_names import told_apart
from tensorclass.scores.readers import Run
from tensorclass.scores.report import difference_dict, estimate_dict
from tensorclass.scores.run_grid import GridTask, model_of, runs_by_task, task_figures
from tensorclass.scores.score_sheets import shown_p_value

__all__ = ["History", "HistoryPoint", "TaskHistory", "drops_in_words", "history"]

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T_ ]\d\d[-:.]?\d\d(?:[-:.]?\d\d)?)?")
_NUMBER: Final = re.compile(r"(\d+)")

_Wider: TypeAlias = Callable[[float], Difference]


@dataclass(frozen=True, eq=False)
class HistoryPoint:
    """A run of a task.

    Attributes:
        label: the date of the run, or what tells its model or folder from the others.
        run: the run.
        figure: its figure, with the interval.
        change: the difference from the run before, on the prompts that both hold; None for the first run, and where
            they share no prompt.
        p_adjusted: the p-value of the change, corrected for all changes of the history; NaN where there is none.
        low_adjusted: the lower end of its interval, corrected likewise.
        high_adjusted: the upper end.
    """

    label: str
    run: Run
    figure: Estimate
    change: Difference | None
    p_adjusted: float = nan
    low_adjusted: float = nan
    high_adjusted: float = nan


@dataclass(frozen=True, eq=False)
class TaskHistory:
    """The runs of a task, in their order.

    Attributes:
        task: the task.
        model: the model; empty if the runs are of models with different names (checkpoints).
        metric: the name of the figure.
        higher_is_better: whether a larger figure is better.
        points: the runs.
    """

    task: str
    model: str
    metric: str
    higher_is_better: bool
    points: tuple[HistoryPoint, ...]


@dataclass(frozen=True, eq=False)
class History:
    """Tasks over runs: the result of :func:`history`.

    Attributes:
        tasks: the tasks.
        confidence: the level of the intervals, and one less the level of the tests.
        seed: the seed of the random draws.
        correction: of the p-values.
        notes: what a reader should know, in sentences.
    """

    tasks: tuple[TaskHistory, ...]
    confidence: float
    seed: int
    correction: str
    notes: tuple[str, ...] = ()

    def is_real(self, point: HistoryPoint) -> bool:
        """Return whether a change is more than noise."""
        return point.p_adjusted <= (1 - self.confidence) * (1 + 1e-9)

    def drops(self) -> list[tuple[TaskHistory, HistoryPoint]]:
        """The runs that are worse than the one before by more than noise."""
        return [
            (task, point)
            for task in self.tasks
            for point in task.points
            if point.change is not None
            and self.is_real(point)
            and (float(point.change.value) < 0) == task.higher_is_better
        ]

    def runs(self) -> list[Run]:
        """The runs, with their labels as models."""
        several = len({task.model for task in self.tasks}) > 1
        return [
            replace(point.run, model=f"{task.model}/{point.label}" if several else point.label)
            for task in self.tasks
            for point in task.points
        ]

    def rows(self) -> Iterable[dict[str, Any]]:
        """A row of plain values for each run of a task."""
        for task in self.tasks:
            for point in task.points:
                change = {} if point.change is None else difference_dict(point.change)
                yield {
                    "task": task.task,
                    "model": task.model or None,
                    "run": point.label,
                    "metric": task.metric,
                    **estimate_dict(point.figure),
                    "change": change.get("difference"),
                    "change_low": change.get("low"),
                    "change_high": change.get("high"),
                    "p_value": change.get("p_value"),
                    "p_adjusted": _known(point.p_adjusted),
                    "change_low_adjusted": _known(point.low_adjusted),
                    "change_high_adjusted": _known(point.high_adjusted),
                    "more_than_noise": self.is_real(point),
                }


def history(
    runs: Sequence[Run],
    *,
    metric: str | None = None,
    correction: str = "holm",
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int | None = None,
    cluster: str | None = None,
) -> History:
    """Follow the tasks of a model over its runs.

    Runs are ordered by the dates in the names of their files or folders, else by the names of their folders, in which
    numbers count as numbers. Runs of models with different names are of one history if no model has two runs of a task:
    they are checkpoints. Each run is compared with the one before, prompt by prompt.

    Args:
        runs: the runs, as :func:`~tensorclass.scores.read_runs` reads them.
        metric: the figure to follow; by default the first one of each task.
        correction: of the p-values of all changes: ``"holm"``, ``"bh"`` or ``"none"``.
        confidence: the level of the intervals.
        seed: the seed of the tests that draw.
        resamples: the number of draws; by default as in :meth:`~tensorclass.scores.ScoreData.aggregate`.
        cluster: the field that says which prompts belong together.

    Raises:
        ValueError: no task has two runs, or none has the metric.
    """
    check_correction(correction)
    notes: list[str] = []
    tasks: list[TaskHistory] = []
    wider: list[_Wider] = []
    for task, model, own in _series(runs, notes):
        ordered = _ordered(own)
        grid = task_figures(task, ordered, metric, cluster)
        if grid is None:
            notes.append(f"{task}: left out, since not all of its runs have {metric or 'a figure in common'}")
            continue
        notes += grid.notes
        figures = GridFigures([grid], seed=seed, resamples=resamples, confidence=confidence)
        tasks.append(_followed(grid, model, ordered, figures, notes))
        wider += _wider(grid, tasks[-1], figures)
    if not tasks:
        raise ValueError("history: expected a task with at least two runs of one model, or of checkpoints, got none")
    return History(tuple(_corrected(tasks, wider, correction, confidence)), confidence, seed, correction, tuple(notes))


def drops_in_words(found: History) -> Sequence[str]:
    """A sentence for each drop that is more than noise, or one that there is none."""
    drops = found.drops()
    if not drops:
        return (f"No run is worse than the one before by more than noise ({100 * found.confidence:g} %).",)
    sentences: list[str] = []
    for task, point in drops:
        assert point.change is not None
        one, before = point.change, task.points[task.points.index(point) - 1].label
        change = f"{show(one.value, one.unit, sign=True)} {_points(one.unit)}".rstrip()
        interval = show_interval(point.low_adjusted, point.high_adjusted, one.unit, sign=True)
        p_value = shown_p_value(point.p_adjusted)
        sentences.append(
            f"{task.task}: {point.label} is worse than {before} by more than noise: {change} {interval}, "
            f"p {p_value if p_value.startswith('<') else f'= {p_value}'}"
        )
    return sentences


def _points(unit: str) -> str:
    return "points" if unit == "%" else unit


def _series(runs: Sequence[Run], notes: list[str]) -> Iterable[tuple[str, str, list[Run]]]:
    """The runs of each task that belong together, with their model."""
    for task, own in runs_by_task(runs).items():
        models: dict[str, list[Run]] = {}
        for run in own:
            models.setdefault(model_of(run), []).append(run)
        if any(len(one) > 1 for one in models.values()):
            for model, one in models.items():
                if len(one) > 1:
                    yield task, model, one
                else:
                    notes.append(f"{task}: there is only one run of {model}")
        elif len(own) > 1:
            yield task, "", own
        else:
            notes.append(f"{task}: there is only one run")


def _ordered(runs: Sequence[Run]) -> dict[str, Run]:
    """The runs in their order, by label: their dates if all have different ones, else what tells them apart."""
    dates = [_date(run) for run in runs]
    labels = [date or "" for date in dates]
    if not all(dates) or len(set(dates)) < len(runs):
        apart = told_apart(runs)
        labels = [model_of(run) for run in apart]
        if len(set(labels)) < len(runs):
            labels = [run.name for run in apart]
    if len(set(labels)) < len(runs):
        labels = [f"{label}, {place + 1}" for place, label in enumerate(labels)]
    found = dict(zip(labels, runs, strict=True))
    return {label: found[label] for label in sorted(found, key=_natural)}


def _date(run: Run) -> str | None:
    """The last date in the name of the run's file, else in those of its folders."""
    for part in reversed(Path(run.files[0]).parts if run.files else ()):
        dates: list[str] = _DATE.findall(part)
        if dates:
            return dates[-1]
    return None


def _natural(label: str) -> list[tuple[int, int, str]]:
    """Sort numbers in names by their size."""
    parts = _NUMBER.split(label)
    return [(1, int(part), "") if part.isdigit() and len(part) < 19 else (0, 0, part) for part in parts if part]


def _followed(
    grid: GridTask, model: str, ordered: Mapping[str, Run], figures: GridFigures, notes: list[str]
) -> TaskHistory:
    points: list[HistoryPoint] = []
    for label, run in ordered.items():
        change = None
        if points:
            try:
                change = figures.task_difference(grid, points[-1].label, label)
            except ValueError as error:
                notes.append(str(error))
        points.append(HistoryPoint(label, run, figures.figure(grid, label), change))
    return TaskHistory(grid.task, model, grid.figure, grid.higher_is_better, tuple(points))


def _wider(grid: GridTask, task: TaskHistory, figures: GridFigures) -> Iterator[_Wider]:
    """Functions that compute each change of a task at another confidence."""
    for before, point in pairwise(task.points):
        if point.change is not None:
            yield partial(figures.task_difference, grid, before.label, point.label)


def _corrected(
    tasks: Sequence[TaskHistory], wider: Sequence[_Wider], correction: str, confidence: float
) -> Iterable[TaskHistory]:
    """Correct the p-values and intervals of all changes together."""
    changes = [point.change for task in tasks for point in task.points if point.change is not None]
    corrected = iter(
        corrected_differences(changes, correction, confidence, lambda place, level: wider[place](level))
        if changes
        else ()
    )
    for task in tasks:
        points: list[HistoryPoint] = []
        for point in task.points:
            if point.change is not None:
                p_value, low, high = next(corrected)
                point = replace(point, p_adjusted=p_value, low_adjusted=low, high_adjusted=high)
            points.append(point)
        yield replace(task, points=tuple(points))


def _known(number: float) -> float | None:
    return None if number != number else number
