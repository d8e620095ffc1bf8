"""The section with the paired differences of models and their p-values."""

from __future__ import annotations

from collections.abc import Sequence

from tensorclass.scores.estimate import compared, show, show_interval
from tensorclass.scores.html_report.interval_drawings import Axis, axis_of
from tensorclass.scores.html_report.markup import Markup, breakable, element, join
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    fold,
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
from tensorclass.scores.paired import is_significant
from tensorclass.scores.score_sheets import common_unit

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
    pairs = "better minus worse of every pair of models"
    if board.baseline is not None:
        pairs = f"each model minus the baseline {data.short[board.baseline]}"
    level = f"{100 * board.confidence:g} % intervals{' corrected as the p-values are' * (board.correction != 'none')}"
    if not several:
        (task,) = board.tasks
        caption = f"{board.metrics[task]} on {task}: {pairs}, prompt by prompt, with {level}."
        return section("comparison", "Comparison", _note(board), _table("comparison-table", caption, by_task, data))
    caption = f"Macro averages: {pairs}, prompt by prompt, with {level}."
    shown = sorted(
        by_task, key=lambda one: (one.p_adjusted != one.p_adjusted, one.p_adjusted, float(one.difference.p_value))
    )
    cut = ""
    if len(shown) > _MOST:
        cut = f" The {_MOST} differences with the smallest p-values, of {len(shown):,}; the others are left out here."
        shown = shown[:_MOST]
    tasks = _table(
        "comparison-tasks-table",
        f"Single tasks: {pairs}, with {level}.{cut}",
        shown,
        data,
        tasks=True,
    )
    return section(
        "comparison",
        "Comparison",
        _note(board),
        _table("comparison-table", caption, averages, data),
        fold(f"Task by task: {plural(len(shown), 'difference')}", tasks, open_=len(shown) <= _OPEN),
    )


def _note(board: Leaderboard) -> Markup:
    found = sum(is_significant(one.p_adjusted, board.confidence) for one in board.differences if one.task == MACRO)
    total = sum(one.task == MACRO for one in board.differences)
    level = f"{1 - board.confidence:.2g}"
    pairs = "pair of models differs" if total == 1 else "pairs of models differ"
    counted = ("The" if found else "No") if total == 1 else f"{found or 'None'} of {total}"
    return element(
        "p",
        f"{counted} {pairs} at the level of {level}. {_CORRECTION[board.correction]} "
        '"Detectable" is the smallest true difference that the prompts show with a chance of 80 %.',
    )


def _table(id_: str, caption: str, found: Sequence[PairedRuns], data: ReportData, *, tasks: bool = False) -> Markup:
    """The differences. What decides stands first, for narrow screens."""
    rows = [_Told(one, data) for one in found]
    unit = common_unit(one.difference for one in found)
    ends = [end for row in rows for end in (row.value, *row.ends)]
    axis = None if unit is None else axis_of(f"{id_}-axis", ends, unit, zero=True)
    columns = [
        *[Column("task", "text")] * tasks,
        Column("models", "text", "name"),
        *number_columns("difference"),
        Column("p corrected", "number", "number", note="p-value, corrected for the number of tests in this table"),
        Column("interval", None, "number"),
        *([] if axis is None else [Column(axis.scale(), None, "drawing")]),
        Column("figures", None, "number"),
        Column("p", "number", "number", note="p-value of the paired test, not corrected"),
        *number_columns("detectable", "prompts"),
    ]
    return table(id_, caption, columns, [row.markup(axis, tasks) for row in rows], filter="differences")


class _Told:
    """A difference as it is told: the better model minus the other one, or each model minus the baseline."""

    def __init__(self, paired: PairedRuns, data: ReportData) -> None:
        board = data.board
        assert board is not None
        self._paired, self._short = paired, data.short
        one = paired.difference
        higher = board.higher_is_better[board.averaged[0] if paired.task == MACRO else paired.task]
        is_kept = board.baseline is not None or (float(one.value) >= 0) == higher
        self._sign = 1.0 if is_kept else -1.0
        self.value = self._sign * float(one.value)
        low, high = sorted((self._sign * paired.low_adjusted, self._sign * paired.high_adjusted))
        self.ends = low, high

    def markup(self, axis: Axis | None, tasks: bool) -> Markup:
        paired, one, is_kept = self._paired, self._paired.difference, self._sign > 0
        first, second = (paired.b, paired.a) if is_kept else (paired.a, paired.b)
        figures = (one.b, one.a) if is_kept else (one.a, one.b)
        models = join([breakable(self._short[first]), " - ", breakable(self._short[second])])
        prompts = compared(one)
        detectable = float("nan") if one.detectable is None else float(one.detectable)
        return element(
            "tr",
            *([name_cell(breakable(paired.task)), cell(models, class_="name")] if tasks else [name_cell(models)]),
            figure_cell(self.value, one.unit, sign=True),
            p_value_cell(paired.p_adjusted),
            cell(show_interval(*self.ends, one.unit, sign=True), class_="number"),
            *([] if axis is None else [cell(axis.interval(self.value, *self.ends), class_="drawing")]),
            cell(" - ".join(show(figure, one.unit) for figure in figures), class_="number"),
            p_value_cell(float(one.p_value)),
            figure_cell(detectable, one.unit),
            number_cell(float(one.prompts), None if prompts.isdecimal() else prompts),
        )
