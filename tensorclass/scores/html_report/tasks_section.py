"""The section with the figure of each model on each task."""

from __future__ import annotations

from tensorclass.scores.html_report.figure_matrix import FigureRow, figure_matrix
from tensorclass.scores.html_report.markup import Markup, element
from tensorclass.scores.html_report.page_parts import plural, section
from tensorclass.scores.html_report.report_data import ReportData
from tensorclass.scores.leaderboard import MACRO, Leaderboard
from tensorclass.scores.paired import is_significant

__all__ = ["tasks_section"]


def tasks_section(data: ReportData) -> Markup | None:
    """The section; None for one task, which the leaderboard shows."""
    board = data.board
    if board is None or len(board.tasks) < 2:
        return None
    marks = _marks(board)
    names = set(board.metrics.values())
    rows = [
        FigureRow(
            name=task,
            figures=board.figures[task],
            higher_is_better=board.higher_is_better[task],
            detail=board.metrics[task] if len(names) > 1 else "",
            marks=marks.get(task, {}),
        )
        for task in board.tasks
    ]
    count = "" if len(board.averaged) == len(board.tasks) else f"of {plural(len(board.averaged), 'task')}"
    foot = FigureRow("macro average", board.macro, board.higher_is_better[board.averaged[0]], detail=count)
    figure = f"{names.pop()} on " if len(names) == 1 else ""
    caption = f"{figure}{len(board.tasks)} tasks."
    if len(board.models) > 1:
        caption = f"{figure}{len(board.tasks)} tasks by model, the best model first. The darker a cell, the better."
    if board.baseline is not None:
        level = f"at the level of {1 - board.confidence:.2g}, {_CORRECTED[board.correction]}"
        caption += f" ▲ better, ▼ worse than the baseline {data.short[board.baseline]} {level}."
    models = {model: data.short[model] for model in board.models}
    return section(
        "tasks",
        "Tasks",
        figure_matrix("tasks-table", caption, "task", models, rows, foot=foot, filter="tasks"),
        _groups(data, board),
    )


def _groups(data: ReportData, board: Leaderboard) -> Markup | None:
    """The averages over groups of tasks that results files name."""
    if not data.groups:
        return None
    higher = board.higher_is_better[board.averaged[0]]
    rows = [
        FigureRow(one.name, figures, higher, detail=f"{kind} average of {len(one.tasks)} tasks")
        for one in data.groups
        for kind, figures in (("macro", one.macro), ("micro", one.micro))
    ]
    caption = "Groups of tasks that results files name: macro averages weigh tasks the same, micro averages by size."
    models = {model: data.short[model] for model in board.models}
    return figure_matrix("task-groups-table", caption, "group", models, rows, filter="groups")


_CORRECTED = {
    "holm": "corrected for all tasks and models by Holm's method",
    "bh": "corrected for all tasks and models by Benjamini and Hochberg's method",
    "none": "not corrected for the number of tests",
}


def _marks(board: Leaderboard) -> dict[str, dict[str, Markup]]:
    """By task and model, whether it is better or worse than the baseline by test."""
    marks: dict[str, dict[str, Markup]] = {}
    if board.baseline is None:
        return marks
    for one in board.differences:
        if one.task == MACRO or not is_significant(one.p_adjusted, board.confidence):
            continue
        is_better = (float(one.difference.value) > 0) == board.higher_is_better[one.task]
        sign, meaning = ("▲", "better than the baseline") if is_better else ("▼", "worse than the baseline")
        marks.setdefault(one.task, {})[one.b] = element(
            "span",
            element("span", sign, aria_hidden="true"),
            element("span", meaning, class_="unseen"),
            class_="better" if is_better else "worse",
        )
    return marks
