"""The content of the page, computed once: figures, leaderboard, comparisons, and prompts that changed sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorclass.scores.changed_prompts import prompt_figures
from tensorclass.scores.comparison import compare
from tensorclass.scores.html_report.shown_prompts import ShownPrompts, TaskPair, shown_prompts
from tensorclass.scores.html_report.task_groups import TaskGroup, task_groups
from tensorclass.scores.leaderboard import Leaderboard, leaderboard
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.model_names import short_names
from tensorclass.scores.readers import Run
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.run_grid import run_grid

__all__ = ["ReportData", "ReportOptions", "is_better_when_higher", "report_data"]


@dataclass(frozen=True)
class ReportOptions:
    """The arguments of :func:`~tensorclass.scores.html_report.write_html_report`."""

    title: str = "Evaluation scores"
    metric: str | None = None
    baseline: str | None = None
    correction: str = "holm"
    confidence: float = 0.95
    seed: int = 0
    resamples: int | None = None
    cluster: str | None = None
    texts: bool = True
    prompts: int = 200
    characters: int = 2_000


@dataclass(frozen=True, eq=False)
class ReportData:
    """The content of the page.

    Attributes:
        options: the arguments.
        runs: the runs, in the order given.
        board: the leaderboard.
        short: by model, a short name for tables.
        grid: by task, the run of each model.
        reports: by task, all figures of each model.
        comparisons: by task, all differences of the two models, if there are two.
        reference: the model whose prompts are compared with those of the others: the baseline, else the best.
        groups: averages over groups of tasks.
        prompts: the prompts that changed sides.
    """

    options: ReportOptions
    runs: Sequence[Run]
    board: Leaderboard
    short: Mapping[str, str]
    grid: Mapping[str, Mapping[str, Run]]
    reports: Mapping[str, Mapping[str, Report]]
    comparisons: Mapping[str, Comparison]
    reference: str
    groups: Sequence[TaskGroup]
    prompts: ShownPrompts


def report_data(runs: Sequence[Run], options: ReportOptions) -> ReportData:
    """Compute the content of the page. See :func:`~tensorclass.scores.html_report.write_html_report`."""
    seed, resamples, confidence, cluster = options.seed, options.resamples, options.confidence, options.cluster
    board = leaderboard(
        runs,
        metric=options.metric,
        baseline=options.baseline,
        correction=options.correction,
        confidence=confidence,
        seed=seed,
        resamples=resamples,
        cluster=cluster,
    )
    grid = run_grid(runs)
    reports = {
        task: {
            model: models[model].scores.aggregate(
                seed=seed, resamples=resamples, confidence=confidence, cluster=cluster
            )
            for model in board.models
            if model in models
        }
        for task, models in grid.items()
    }
    reference = board.models[0] if board.baseline is None else board.baseline
    others = [model for model in board.models if model != reference]
    comparisons = {
        task: compare(
            models[reference].scores,
            models[others[0]].scores,
            seed=seed,
            resamples=resamples,
            confidence=confidence,
            cluster=cluster,
        )
        for task, models in grid.items()
        if len(others) == 1 and _comparable(models.get(reference), models.get(others[0]))
    }
    pairs = [
        TaskPair(
            task=task,
            a=grid[task][reference],
            b=grid[task][model],
            model_a=reference,
            model_b=model,
            figure=figure,
            higher_is_better=is_better_when_higher(grid[task].values(), figure),
        )
        for model in others
        for task in board.tasks
        if reference in board.figures[task] and model in board.figures[task]
        for figure in _prompt_figure(grid[task][reference], grid[task][model], board.metrics[task])
    ]
    return ReportData(
        options=options,
        runs=runs,
        board=board,
        short=short_names(board.models),
        grid=grid,
        reports=reports,
        comparisons=comparisons,
        reference=reference,
        groups=task_groups(board, grid, seed=seed, resamples=resamples, cluster=cluster),
        prompts=shown_prompts(pairs, number=options.prompts, texts=options.texts, characters=options.characters),
    )


def is_better_when_higher(runs: Iterable[Run], figure: str) -> bool:
    """The direction that runs give for a figure; a figure without one is better when higher."""
    return next((run.higher_is_better[figure] for run in runs if figure in run.higher_is_better), True)


def _comparable(a: Run | None, b: Run | None) -> bool:
    """Return whether :func:`compare` takes two runs of a task."""
    if a is None or b is None:
        return False
    scores = a.scores, b.scores
    return type(a.scores) is type(b.scores) or all(isinstance(one, LoggedScoreData) for one in scores)


def _prompt_figure(a: Run, b: Run, figure: str) -> list[str]:
    """The figure by which prompts of two runs are compared: the given one, else the first that scores prompts."""
    names = prompt_figures(a.scores, b.scores)
    return [figure] if figure in names else names[:1]
