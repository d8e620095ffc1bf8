"""The section with all figures of all runs, and their groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tensorclass.scores.estimate import Difference, Estimate
from tensorclass.scores.html_report.figure_matrix import FigureRow, figure_matrix
from tensorclass.scores.html_report.markup import Markup
from tensorclass.scores.html_report.page_parts import fold, section
from tensorclass.scores.html_report.report_data import ReportData, compared_pair, is_better_when_higher

__all__ = ["breakdown_section"]

_OPEN = 40  # rows up to which a table is open
_MOST = 300  # groups of a figure on the page

_Result = TypeVar("_Result", Estimate, Difference)


def breakdown_section(data: ReportData) -> Markup:
    """The section: a table of all figures, and one for each figure that has groups."""
    rows = [
        _row(data, task, name, None)
        for task, reports in data.reports.items()
        for name in dict.fromkeys(name for report in reports.values() for name in report)
    ]
    caption = f"Every figure of every run.{_compared(data)}"
    figures = figure_matrix("figures-table", caption, "figure", data.short, rows, filter="figures")
    grouped = [
        (task, name)
        for task, reports in data.reports.items()
        for name in dict.fromkeys(name for report in reports.values() for name in report.groups)
    ]
    return section(
        "breakdown",
        "Breakdown",
        fold(f"All figures: {len(rows):,}", figures, open_=len(rows) <= _OPEN),
        *(_group_fold(data, number, task, name) for number, (task, name) in enumerate(grouped)),
    )


def _group_fold(data: ReportData, number: int, task: str, name: str) -> Markup:
    """The groups of one figure: all of them, or the largest ones."""
    sizes: dict[str, float] = {}
    for report in data.reports[task].values():
        for group, one in report.groups.get(name, {}).items():
            sizes[group] = max(sizes.get(group, 0.0), float(one.count))
    shown = sorted(sorted(sizes, key=lambda group: (-sizes[group], group))[:_MOST])
    rows = [_row(data, task, name, group) for group in shown]
    named = name if len(data.reports) == 1 else f"{name} of {task}"
    caption = f"{named}, group by group.{_compared(data)}"
    if len(shown) < len(sizes):
        caption += f" The {_MOST} largest of {len(sizes):,} groups; the others are left out here."
    groups = figure_matrix(f"groups-{number}-table", caption, "group", data.short, rows, filter="groups")
    return fold(f"{named} by group: {len(shown):,}", groups, open_=number == 0)


def _compared(data: ReportData) -> str:
    if data.board is None or not any(data.comparisons.values()):
        return ""
    a, b = compared_pair(data.board)
    names = f"{data.short[b]} - {data.short[a]}"
    return f" The difference is {names}, prompt by prompt. Its p-values are not corrected: read them as a ranking."


def _row(data: ReportData, task: str, name: str, group: str | None) -> FigureRow:
    """A figure of all models on a task, or that of one of its groups, and its difference."""
    comparison = data.comparisons.get(task)
    figures = {
        model: one
        for model, report in data.reports[task].items()
        if (one := _found(report.figures, report.groups, name, group)) is not None
    }
    return FigureRow(
        name=group if group is not None else name if len(data.reports) == 1 else f"{task}: {name}",
        figures=figures,
        higher_is_better=is_better_when_higher(data.grid[task].values(), name),
        difference=None if comparison is None else _found(comparison.figures, comparison.groups, name, group),
    )


def _found(
    figures: Mapping[str, _Result], groups: Mapping[str, Mapping[str, _Result]], name: str, group: str | None
) -> _Result | None:
    return figures.get(name) if group is None else groups.get(name, {}).get(group)
