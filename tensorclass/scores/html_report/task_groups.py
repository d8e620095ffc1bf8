"""Averages of models over the groups of tasks that results files name, such as the four areas of MMLU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorclass.scores.estimate import Estimate
from tensorclass.scores.grid_figures import GridFigures
from tensorclass.scores.html_report.report_options import ReportOptions
from tensorclass.scores.leaderboard import Leaderboard
from tensorclass.scores.readers import Run
from tensorclass.scores.run_grid import task_figures

__all__ = ["TaskGroup", "task_groups"]


@dataclass(frozen=True, eq=False)
class TaskGroup:
    """A group of tasks.

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


def task_groups(board: Leaderboard, grid: Mapping[str, Mapping[str, Run]], options: ReportOptions) -> list[TaskGroup]:
    """Average over the groups of at least two tasks that don't hold all tasks of the leaderboard's averages.

    Args:
        board: the leaderboard.
        grid: by task, the run of each model.
        options: the settings of intervals.
    """
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
        held = [one for task in tasks if (one := figures[task]) is not None]
        averages = GridFigures(held, seed=options.seed, resamples=options.resamples, confidence=options.confidence)
        groups.append(_group(name, tasks, averages, board.models))
    return groups


def _group(name: str, tasks: tuple[str, ...], averages: GridFigures, models: Sequence[str]) -> TaskGroup:
    return TaskGroup(
        name,
        tasks,
        {model: averages.macro(model) for model in models},
        {model: averages.micro(model) for model in models},
    )
