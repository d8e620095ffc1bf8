"""The section with the paired differences of models and their p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorclass.scores.estimate import compared, show
from tensorclass.scores.html_report.interval_drawings import Axis, axis_of_figures
from tensorclass.scores.html_report.markup import Markup, breakable, element
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    fold,
    interval_cell,
    name_cell,
    number_cell,
    number_columns,
    p_value_cell,
    plural,
    section,
    table,
)
from tensorclass.scores.html_report.report_data import ReportData
from tensorclass.scores.leaderboard import MACRO, Leaderboard, PairedRuns

__all__ = ["comparison_section"]

_MOST = 600  # differences of single tasks on the page
_OPEN = 60  # rows up to which the differences of tasks are open

_CORRECTION = {
    "holm": "p-values are corrected by Holm's method, which limits the chance of any false finding in a table.",
    "bh": (
        "p-values are corrected by Benjamini and Hochberg's method, which limits the expected share of false findings "
        "in a table."
    ),
    "none": "p-values are not corrected for the number of tests: read many of them as a ranking.",
}


def comparison_section(data: ReportData) -> Markup | None:
    """The section; None for a single model."""
    board = data.board
    if board is None or len(board.models) < 2:
        return None
    several = len(board.tasks) > 1
    averages = [one for one in board.differences if one.task == MACRO]
    by_task = [one for one in board.differences if one.task != MACRO]
    pairs = "every pair of models" if board.baseline is None else "each model and the baseline"
    level = f"{100 * board.confidence:g} % intervals"
    if not several:
        (task,) = board.tasks
        caption = f"{board.metrics[task]} on {task}: differences b - a of {pairs}, prompt by prompt, with {level}."
        return section(
            "comparison", "Comparison", _note(board), _table("comparison-table", caption, by_task, data.short)
        )
    caption = f"Macro averages: differences b - a of {pairs}, prompt by prompt, with {level}."
    shown = sorted(
        by_task, key=lambda one: (one.p_adjusted != one.p_adjusted, one.p_adjusted, float(one.difference.p_value))
    )
    cut = ""
    if len(shown) > _MOST:
        cut = f" The {_MOST} differences with the smallest p-values, of {len(shown):,}; the others are left out here."
        shown = shown[:_MOST]
    tasks = _table(
        "comparison-tasks-table",
        f"Single tasks: differences b - a of {pairs}, with {level}.{cut}",
        shown,
        data.short,
        tasks=True,
    )
    return section(
        "comparison",
        "Comparison",
        _note(board),
        _table("comparison-table", caption, averages, data.short),
        fold(f"Task by task: {plural(len(shown), 'difference')}", tasks, open_=len(shown) <= _OPEN),
    )


def _note(board: Leaderboard) -> Markup:
    found = sum(one.p_adjusted <= 1 - board.confidence for one in board.differences if one.task == MACRO)
    total = sum(one.task == MACRO for one in board.differences)
    level = f"{1 - board.confidence:.2g}"
    pairs = "pair of models differs" if total == 1 else "pairs of models differ"
    counted = ("The" if found else "No") if total == 1 else f"{found or 'None'} of {total}"
    return element(
        "p",
        f"{counted} {pairs} at the level of {level}. {_CORRECTION[board.correction]} "
        '"Detectable" is the smallest true difference that the prompts show with a chance of 80 %.',
    )


def _table(
    id_: str, caption: str, found: Sequence[PairedRuns], short: Mapping[str, str], *, tasks: bool = False
) -> Markup:
    axis = axis_of_figures(f"{id_}-axis", [one.difference for one in found], zero=True)
    columns = [
        *[Column("task", "text")] * tasks,
        Column("a", "text", "name"),
        Column("b", "text", "name"),
        Column("figures of a and b", None, "number"),
        *number_columns("difference"),
        *([] if axis is None else [Column(axis.scale(), None, "drawing")]),
        Column("interval", None, "number"),
        Column("p", "number", "number", note="p-value of the paired sign-flip test"),
        *number_columns("p corrected", "detectable", "prompts"),
    ]
    return table(id_, caption, columns, [_row(one, short, axis, tasks) for one in found], filter="differences")


def _row(paired: PairedRuns, short: Mapping[str, str], axis: Axis | None, tasks: bool) -> Markup:
    one = paired.difference
    prompts = compared(one)
    value, low, high = float(one.value), float(one.low), float(one.high)
    models = [breakable(short[paired.a]), breakable(short[paired.b])]
    names = [*([cell(models[0], class_="name")] if tasks else [name_cell(models[0])]), cell(models[1], class_="name")]
    detectable = float("nan") if one.detectable is None else float(one.detectable)
    return element(
        "tr",
        *([name_cell(breakable(paired.task))] if tasks else []),
        *names,
        cell(f"{show(one.a, one.unit)} → {show(one.b, one.unit)}", class_="number"),
        figure_cell(value, one.unit, sign=True),
        *([] if axis is None else [cell(axis.interval(value, low, high), class_="drawing")]),
        interval_cell(one, sign=True),
        p_value_cell(float(one.p_value)),
        p_value_cell(paired.p_adjusted),
        figure_cell(detectable, one.unit),
        number_cell(float(one.prompts), prompts if "/" in prompts else None),
    )
