"""The section that follows tasks over runs."""

from __future__ import annotations

from tensorclass.scores.estimate import show_interval
from tensorclass.scores.history import History, TaskHistory, drops_in_words
from tensorclass.scores.html_report.interval_drawings import axis_of, ends_of
from tensorclass.scores.html_report.markup import Markup, breakable, element
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    interval_cell,
    list_of,
    name_cell,
    number_cell,
    number_columns,
    p_value_cell,
    section,
    table,
)
from tensorclass.scores.html_report.report_data import ReportData

__all__ = ["history_section"]


def history_section(data: ReportData) -> Markup | None:
    """The section; None if the page is of no history."""
    found = data.options.history
    if found is None:
        return None
    lead = list_of([breakable(one) for one in drops_in_words(found)], "lead")
    tables = [_table(found, task, place) for place, task in enumerate(found.tasks)]
    return section("history", "History", lead, *tables, list_of(found.notes, "notes"))


def _table(found: History, task: TaskHistory, place: int) -> Markup:
    figures = [point.figure for point in task.points]
    axis = axis_of(f"history-axis-{place}", ends_of(figures), figures[0].unit)
    columns = [
        Column("run"),
        *number_columns("prompts", breakable(task.metric)),
        Column(axis.scale(), None, "drawing"),
        Column("interval", None, "number"),
        *number_columns("change"),
        Column("interval, corrected", None, "number"),
        *number_columns("p corrected"),
    ]
    rows: list[Markup] = []
    for point in task.points:
        one, change = point.figure, point.change
        mark = None
        if change is not None and found.is_real(point):
            is_better = (float(change.value) > 0) == task.higher_is_better
            mark = element("span", " ▲" if is_better else " ▼", class_="better" if is_better else "worse")
        row = element(
            "tr",
            name_cell(breakable(point.label), mark),
            number_cell(float(one.prompts)),
            figure_cell(float(one.value), one.unit),
            cell(axis.interval(float(one.value), float(one.low), float(one.high)), class_="drawing"),
            interval_cell(one),
            cell("-", class_="number") if change is None else figure_cell(float(change.value), change.unit, sign=True),
            cell(
                "-"
                if change is None
                else show_interval(point.low_adjusted, point.high_adjusted, change.unit, sign=True),
                class_="number",
            ),
            cell("-", class_="number") if change is None else p_value_cell(point.p_adjusted),
        )
        rows.append(row)
    about = ", ".join(part for part in (task.task, task.model) if part)
    caption = f"{about}: runs in their order; changes are from the run above, ▲ and ▼ mark those beyond noise."
    return table(f"history-table-{place}", breakable(caption), columns, rows)
