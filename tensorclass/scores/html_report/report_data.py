"""The content of the page, computed once: figures, leaderboard, comparisons, and prompts that changed sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorclass.scores.changed_prompts import prompt_figures
from tensorclass.scores.estimate import Estimate, IntervalKwargs
from tensorclass.scores.families import BattleScoreData
from tensorclass.scores.grid_figures import GridFigures
from tensorclass.scores.history import History
from tensorclass.scores.html_report.shown_prompts import ShownPrompts, TaskPair, shown_prompts
from tensorclass.scores.leaderboard import Leaderboard, leaderboard
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.model_names import short_names
from tensorclass.scores.readers import Run
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.run_figures import aggregate_run, compare_runs
from tensorclass.scores.run_grid import run_grid, task_figures

__all__ = [
    "ReportData",
    "ReportOptions",
    "compared_pair",
    "is_better_when_higher",
    "reference_of",
    "report_data",
]


@dataclass(frozen=True)
class ReportOptions:
    """The arguments of :func:`~tensorclass.scores.html_report.write_html_report`."""

    title: str
    metric: str | None
    baseline: str | None
    correction: str
    settings: IntervalKwargs
    cluster: str | None
    texts: bool
    prompts: int
    characters: int
    history: History | None = None
    pages: str | None = None
    """The address of the folder with a page for each task, seen from the report; None if there is none."""


@dataclass(frozen=True, eq=False)
class TaskGroup:
    """A group of tasks that results files name, such as one of the four areas of MMLU.

    Attributes:
        name: its name.
        tasks: its tasks, those of the leaderboard's averages.
        macro: by model, the mean of the figures of its tasks.
        micro: by model, the mean in which a task weighs as much as it counts.
    """

    name: str
    tasks: tuple[str, ...]
    macro: Mapping[str, Estimate]
    micro: Mapping[str, Estimate]


@dataclass(frozen=True, eq=False)
class ReportData:
    """The content of the page.

    Attributes:
        options: the arguments.
        runs: the runs, in the order given.
        board: the leaderboard; None if no task has runs of all models.
        models: the models, the best first, after them those that are not on the leaderboard.
        short: by model, a short name for tables.
        grid: by task, the run of each model.
        reports: by task, all figures of each model.
        comparisons: by task, all differences of the two models, if there are two.
        groups: averages over groups of tasks.
        prompts: the prompts that changed sides.
        transcripts: by task, the file of the page with all its prompts; empty if there are no pages.
    """

    options: ReportOptions
    runs: Sequence[Run]
    board: Leaderboard | None
    models: Sequence[str]
    short: Mapping[str, str]
    grid: Mapping[str, Mapping[str, Run]]
    reports: Mapping[str, Mapping[str, Report]]
    comparisons: Mapping[str, Comparison]
    groups: Sequence[TaskGroup]
    prompts: ShownPrompts
    transcripts: Mapping[str, str]

    def scored_runs(self) -> Iterator[tuple[str, str, Run, Report]]:
        """The task, the model, the run and its figures, task by task."""
        for task, models in self.grid.items():
            for model, run in models.items():
                yield task, model, run, self.reports[task][model]


def report_data(runs: Sequence[Run], options: ReportOptions) -> ReportData:
    """Compute the content of the page. See :func:`~tensorclass.scores.html_report.write_html_report`."""
    grid = run_grid(runs)
    board = _leaderboard(runs, grid, options)
    ranked = () if board is None else board.models
    models = tuple(dict.fromkeys([*ranked, *(model for own in grid.values() for model in own)]))
    reports = {
        task: {
            model: aggregate_run(own[model], cluster=options.cluster, **options.settings)
            for model in models
            if model in own
        }
        for task, own in grid.items()
    }
    return ReportData(
        options=options,
        runs=runs,
        board=board,
        models=models,
        short=short_names(models),
        grid=grid,
        reports=reports,
        comparisons={} if board is None else _comparisons(board, grid, options),
        groups=[] if board is None else _task_groups(board, grid, options),
        prompts=shown_prompts(
            [] if board is None else model_pairs(board, grid),
            number=options.prompts,
            texts=options.texts,
            characters=options.characters,
        ),
        transcripts={} if board is None or options.pages is None else _file_names(_paired_tasks(board, grid)),
    )


def reference_of(board: Leaderboard) -> str:
    """The model that the others are compared with: the baseline, else the best."""
    return board.models[0] if board.baseline is None else board.baseline


def compared_pair(board: Leaderboard) -> tuple[str, str]:
    """Of two models, the one that is subtracted and the other: the baseline, else the worse one, comes first."""
    best, other = board.models
    return (best, other) if board.baseline == best else (other, best)


def _leaderboard(
    runs: Sequence[Run], grid: Mapping[str, Mapping[str, Run]], options: ReportOptions
) -> Leaderboard | None:
    """The leaderboard; None if no task but battles has runs of all models, and nothing was asked for that needs it."""
    models = {model for own in grid.values() for model in own}
    is_possible = any(
        len(own) == len(models) and not any(isinstance(run.scores, BattleScoreData) for run in own.values())
        for own in grid.values()
    )
    if not is_possible and options.baseline is None and options.metric is None:
        return None
    return leaderboard(
        runs,
        metric=options.metric,
        baseline=options.baseline,
        correction=options.correction,
        cluster=options.cluster,
        **options.settings,
    )


def _comparisons(
    board: Leaderboard, grid: Mapping[str, Mapping[str, Run]], options: ReportOptions
) -> dict[str, Comparison]:
    """By task, the differences of all figures of two models; none of more models."""
    if len(board.models) != 2:
        return {}
    a, b = compared_pair(board)
    return {
        task: compare_runs(own[a], own[b], cluster=options.cluster, **options.settings)
        for task, own in grid.items()
        if a in own and b in own and _comparable(own[a], own[b])
    }


def _task_groups(board: Leaderboard, grid: Mapping[str, Mapping[str, Run]], options: ReportOptions) -> list[TaskGroup]:
    """Average over the groups of at least two tasks that don't hold all tasks of the leaderboard's averages."""
    tasks_of: dict[str, set[str]] = {}
    for models in grid.values():
        for run in models.values():
            for name, tasks in run.groups.items():
                tasks_of.setdefault(name, set()).update(tasks)
    members = {name: tuple(task for task in board.averaged if task in tasks) for name, tasks in tasks_of.items()}
    wanted = {name: tasks for name, tasks in members.items() if 2 <= len(tasks) < len(board.averaged)}
    figures = {
        task: task_figures(task, grid[task], board.metrics[task], options.cluster)
        for task in dict.fromkeys(task for tasks in wanted.values() for task in tasks)
    }
    groups: list[TaskGroup] = []
    for name, tasks in wanted.items():
        averages = GridFigures([one for task in tasks if (one := figures[task]) is not None], **options.settings)
        macro = {model: averages.macro(model) for model in board.models}
        micro = {model: averages.micro(model) for model in board.models}
        groups.append(TaskGroup(name, tasks, macro, micro))
    return groups


def _paired_tasks(board: Leaderboard, grid: Mapping[str, Mapping[str, Run]]) -> dict[str, None]:
    """The tasks of which prompts of two models can be compared."""
    return dict.fromkeys(pair.task for pair in model_pairs(board, grid))


def _file_names(tasks: Mapping[str, object]) -> dict[str, str]:
    """A file name for the page of each task, distinct where names differ in case or in what no file name holds."""
    names: dict[str, str] = {}
    for task in tasks:
        stem = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in task)[:80]
        stem = stem.strip(".") or "task"
        held = {name.lower() for name in names.values()}
        number = 1
        while f"{stem}{f'-{number}' * (number > 1)}.html".lower() in held:
            number += 1
        names[task] = f"{stem}{f'-{number}' * (number > 1)}.html"
    return names


def model_pairs(board: Leaderboard, grid: Mapping[str, Mapping[str, Run]]) -> list[TaskPair]:
    """The reference and each other model, on each task that both have."""
    a = reference_of(board)
    return [
        TaskPair(
            task=task,
            a=grid[task][a],
            b=grid[task][b],
            model_a=a,
            model_b=b,
            figure=figure,
            higher_is_better=is_better_when_higher(grid[task].values(), figure),
        )
        for b in board.models
        if b != a
        for task in board.tasks
        if a in board.figures[task] and b in board.figures[task]
        for figure in _prompt_figure(grid[task][a], grid[task][b], board.metrics[task])
    ]


def is_better_when_higher(runs: Iterable[Run], figure: str) -> bool:
    """The direction that runs give for a figure; a figure without one is better when higher."""
    return next((run.higher_is_better[figure] for run in runs if figure in run.higher_is_better), True)


def _comparable(a: Run, b: Run) -> bool:
    """Return whether :func:`compare_runs` takes two runs of a task."""
    return type(a.scores) is type(b.scores) or all(isinstance(one.scores, LoggedScoreData) for one in (a, b))


def _prompt_figure(a: Run, b: Run, figure: str) -> list[str]:
    """The figure by which prompts of two runs are compared: the given one, else the first that scores prompts."""
    names = prompt_figures(a.scores, b.scores)
    return [figure] if figure in names else names[:1]
