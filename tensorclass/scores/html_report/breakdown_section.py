"""The section with all figures of all runs, and their groups."""

from __future__ import annotations

from collections.abc import Mapping

from tensorclass.scores.estimate import Difference, Estimate
from tensorclass.scores.html_report.figure_matrix import FigureRow, figure_matrix
from tensorclass.scores.html_report.markup import Markup
from tensorclass.scores.html_report.page_parts import fold, section
from tensorclass.scores.html_report.report_data import ReportData, is_better_when_higher, reference_of

__all__ = ["breakdown_section"]

_MANY = 10  # rows from which a filter helps
_OPEN = 40  # rows up to which a table is open
_MOST = 300  # groups of a figure on the page


def breakdown_section(data: ReportData) -> Markup:
    """The section: a table of all figures, and one for each figure that has groups."""
    rows = [
        FigureRow(
            name=name if len(data.reports) == 1 else f"{task}: {name}",
            figures=_of_models(data, task, name, None),
            higher_is_better=is_better_when_higher(data.grid[task].values(), name),
            difference=_difference(data, task, name, None),
        )
        for task, reports in data.reports.items()
        for name in dict.fromkeys(name for report in reports.values() for name in report)
    ]
    folds = [
        fold(
            f"All figures: {len(rows):,}",
            figure_matrix(
                "figures-table",
                f"Every figure of every run.{_compared(data)}",
                "figure",
                data.short,
                rows,
                filter="figures" if len(rows) >= _MANY else None,
            ),
            open_=len(rows) <= _OPEN,
        )
    ]
    folds += [_group_fold(data, number, task, name) for number, (task, name) in enumerate(_grouped(data))]
    return section("breakdown", "Breakdown", *folds)


def _group_fold(data: ReportData, number: int, task: str, name: str) -> Markup:
    """The groups of one figure: all of them, or the largest ones."""
    sizes: dict[str, float] = {}
    for report in data.reports[task].values():
        for group, one in report.groups.get(name, {}).items():
            sizes[group] = max(sizes.get(group, 0.0), float(one.count))
    shown = sorted(sorted(sizes, key=lambda group: (-sizes[group], group))[:_MOST])
    rows = [
        FigureRow(
            name=group,
            figures=_of_models(data, task, name, group),
            higher_is_better=is_better_when_higher(data.grid[task].values(), name),
            difference=_difference(data, task, name, group),
        )
        for group in shown
    ]
    of_task = "" if len(data.reports) == 1 else f" of {task}"
    cut = (
        ""
        if len(shown) == len(sizes)
        else f" The {_MOST} largest of {len(sizes):,} groups; the others are left out here."
    )
    return fold(
        f"{name}{of_task} by group: {len(shown):,}",
        figure_matrix(
            f"groups-{number}-table",
            f"{name}{of_task}, group by group.{_compared(data)}{cut}",
            "group",
            data.short,
            rows,
            filter="groups" if len(rows) >= _MANY else None,
        ),
        open_=number == 0,
    )


def _compared(data: ReportData) -> str:
    if data.board is None or not any(data.comparisons.values()):
        return ""
    reference = reference_of(data.board)
    other = next(model for model in data.board.models if model != reference)
    names = f"{data.short[other]} - {data.short[reference]}"
    return f" The difference is {names}, prompt by prompt. Its p-values are not corrected: read them as a ranking."


def _grouped(data: ReportData) -> list[tuple[str, str]]:
    """The tasks and names of figures that have groups."""
    return [
        (task, name)
        for task, reports in data.reports.items()
        for name in dict.fromkeys(name for report in reports.values() for name in report.groups)
    ]


def _of_models(data: ReportData, task: str, name: str, group: str | None) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for model, report in data.reports[task].items():
        figures: Mapping[str, Estimate] = report.figures if group is None else report.groups.get(name, {})
        one = figures.get(name if group is None else group)
        if one is not None:
            found[model] = one
    return found


def _difference(data: ReportData, task: str, name: str, group: str | None) -> Difference | None:
    comparison = data.comparisons.get(task)
    if comparison is None:
        return None
    return comparison.figures.get(name) if group is None else comparison.groups.get(name, {}).get(group)
