"""The content of the page, computed once: figures, leaderboard, comparisons, and prompts that changed sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorclass.scores.comparison import compare
from tensorclass.scores.html_report.shown_prompts import ShownPrompts, TaskPair, shown_prompts
from tensorclass.scores.leaderboard import Leaderboard, leaderboard
from tensorclass.scores.model_names import short_names
from tensorclass.scores.readers import Run
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.run_grid import run_grid

__all__ = ["ReportData", "ReportOptions", "report_data"]


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
        if len(others) == 1 and reference in models and others[0] in models
    }
    pairs = [
        TaskPair(
            task=task,
            a=grid[task][reference],
            b=grid[task][model],
            model_a=reference,
            model_b=model,
            figure=board.metrics[task],
            higher_is_better=board.higher_is_better[task],
        )
        for model in others
        for task in board.tasks
        if reference in board.figures[task] and model in board.figures[task]
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
        prompts=shown_prompts(pairs, number=options.prompts, texts=options.texts, characters=options.characters),
    )
