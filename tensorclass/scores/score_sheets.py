"""Sheets of scores and comparisons, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from torch import Tensor

from tensorclass.scores.bradley_terry import RATING
from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.estimate import Difference, Estimate, show, show_interval
from tensorclass.scores.estimate import compared as compared_prompts
from tensorclass.scores.grouped_notes import grouped_notes
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.report import Comparison, Report, positions
from tensorclass.scores.seeds import SEEDS_SAID
from tensorclass.scores.sheet import Sheet, SheetColumn
from tensorclass.support.printable import printable

__all__ = [
    "common_unit",
    "comparison_sheets",
    "interval_heading",
    "missed",
    "numbers_of",
    "report_sheets",
    "run_notes",
    "score_sheets",
    "shown_p_value",
    "verdict_style",
]

_METHODS = {
    "adjusted t": "t over prompts, two right and two wrong ones added,",
    "t": "t over prompts",
    "crossed t": "t over prompts and repeated runs",
    "bootstrap": "bootstrap over prompts",
    "BCa": "bootstrap over prompts (BCa)",
    "normal": "normal, from the tasks' standard errors",
}
_MOST_NAMES = 4  # of figures in a caption
_TESTS = {"t": "t test over prompts and repeated runs", "normal": "normal"}
"""Tests that are no sign flips."""

_DIFFERENCE_METHODS = {**_METHODS, "adjusted t": "t over prompts, with two added that each run alone has right,"}


def score_sheets(
    runs: Sequence[ScoredRun], comparisons: Sequence[ComparedRuns] = (), names: Mapping[str, str] | None = None
) -> Iterator[Sheet | str]:
    """Lay out a few runs for people: sheets, and notes as text.

    Scores with their intervals, task by task; comparisons; then groups (instruction types): compared where two runs
    were, else the runs beside each other.

    Args:
        runs: the runs with their figures.
        comparisons: of some of them.
        names: the names to show, by the names of the runs.
    """
    shown = names or {}
    yield _all_scores(runs, shown)
    kinds = list(dict.fromkeys((one.run.task, one.report.family) for one in runs))
    each = [
        [(_name(one, shown), one.report) for one in runs if (one.run.task, one.report.family) == kind] for kind in kinds
    ]
    tasks = {one.run.name: one.run.task for one in runs}
    for compared in comparisons:
        better = next((one.run.higher_is_better for one in runs if one.run.name == compared.b), None)
        sheet = comparison_sheet(compared.comparison, *_both(compared, shown), better)
        if len(set(tasks.values())) > 1 and (task := tasks[compared.b]) is not None:
            sheet.title = printable(f"{task}: {sheet.title}")
        yield sheet
    if len(comparisons) == 1:
        yield from compared_group_sheets(comparisons[0].comparison, *_both(comparisons[0], shown))
    else:
        for own in each:
            yield from group_sheets(own)
    yield from grouped_notes(run_notes(runs, shown))


def report_sheets(report: Report) -> Iterator[Sheet | str]:
    """Lay out the report of one run, or of stacked runs."""
    runs = [(str(list(run)), _result_of_run(report, run)) for run in positions(report.batch_size)]
    several = ["run"] if len(runs) > 1 else []
    yield scores_sheet(report.family, several, [([name] if several else [], own) for name, own in runs])
    yield from group_sheets(runs)
    yield from map(printable, report.notes)


def comparison_sheets(comparison: Comparison) -> Iterator[Sheet | str]:
    """Lay out the comparison of two runs, or of stacked pairs."""
    for run in positions(comparison.batch_size):
        own = _result_of_run(comparison, run)
        where = f" {list(run)}" if run else ""
        yield comparison_sheet(own, f"a{where}", f"b{where}")
        yield from compared_group_sheets(own, f"a{where}", f"b{where}")


def run_notes(runs: Sequence[ScoredRun], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the notes on each run, with its name: rows left out, other filters, repeats."""
    several = len({one.run.task for one in runs}) > 1
    for one in runs:
        where = f"{_name(one, names)}, {one.run.task}" if several and one.run.task is not None else _name(one, names)
        for note in (*one.run.notes, *one.run.left_out, *one.report.notes):
            # Seeds are those of a model, on whatever task.
            yield _name(one, names) if note.endswith(SEEDS_SAID) else where, note


def numbers_of(*headings: str) -> list[SheetColumn]:
    """Columns of numbers."""
    return [SheetColumn(heading) for heading in headings]


def shown_p_value(p_value: float) -> str:
    """A p-value as text.

    Example:
        >>> shown_p_value(0.0312), shown_p_value(0.0001), shown_p_value(float("nan"))
        ('0.031', '<0.001', '-')
    """
    return "-" if p_value != p_value else "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def verdict_style(low: float, high: float, *, higher_is_better: bool = True) -> str:
    """The style of a difference: plain unless its interval lies on one side of 0."""
    if low > 0 or high < 0:
        return "good" if (low > 0) == higher_is_better else "bad"
    return ""


def _name(one: ScoredRun, names: Mapping[str, str]) -> str:
    return names.get(one.run.name, one.run.name)


def _both(compared: ComparedRuns, names: Mapping[str, str]) -> tuple[str, str]:
    return names.get(compared.a, compared.a), names.get(compared.b, compared.b)


_Found = TypeVar("_Found", Report, Comparison)


def _result_of_run(found: _Found, run: tuple[int, ...]) -> _Found:
    """Return the results of one of several stacked runs."""
    if not run:
        return found
    return replace(
        found,
        figures={name: one[run] for name, one in found.figures.items()},
        groups={name: {group: one[run] for group, one in own.items()} for name, own in found.groups.items()},
        batch_size=(),
    )


def _all_scores(runs: Sequence[ScoredRun], names: Mapping[str, str]) -> Sheet:
    """The figures of all runs, with their tasks and names where there are several."""
    tasks = dict.fromkeys(one.run.task for one in runs)
    families = dict.fromkeys(one.report.family for one in runs if not isinstance(one.run.scores, LoggedScoreData))
    shown = [_name(one, names) for one in runs]
    has_tasks, has_runs = len(tasks) > 1, len(set(shown)) > 1
    about: list[str] = [] if has_runs else shown[:1]
    if not has_tasks:
        about += [task for task in tasks if task is not None]
    if len(families) == 1:
        about += families
    return scores_sheet(
        ", ".join(about) or "Scores",
        [*["task"] * has_tasks, *["run"] * has_runs],
        [
            ([*[one.run.task or "-"] * has_tasks, *[name] * has_runs], one.report)
            for one, name in zip(runs, shown, strict=True)
        ],
    )


def scores_sheet(title: str, labels: Sequence[str], runs: Sequence[tuple[Sequence[str], Report]]) -> Sheet:
    """Lay out the figures of runs: task by task, below each task metric by metric, then run by run.

    Args:
        title: of the sheet; the unit is added, if it is the same in all figures.
        labels: what tells the runs apart, in this order: ``"task"``, ``"run"``, or nothing.
        runs: the labels of each run, and its report.
    """
    unit = common_unit(figure for _, report in runs for figure in report.values())
    has_tasks, has_runs = "task" in labels, "run" in labels
    found = [(own, name, figure) for own, report in runs for name, figure in report.items()]
    metrics = {name: place for place, name in enumerate(dict.fromkeys(name for _, name, _ in found))}
    columns = [
        *[SheetColumn("task", is_label=True, is_merged=has_runs or any(len(report) > 1 for _, report in runs))]
        * has_tasks,
        SheetColumn("metric", is_label=True, is_merged=has_runs),
        *[SheetColumn("run", is_label=True)] * has_runs,
    ]
    has_clusters = any(figure.clusters is not None for _, report in runs for figure in report.values())
    level = interval_heading(runs[0][1].confidence)
    has_missing = any(missed(figure) for _, report in runs for figure in report.values())
    more = [*["clusters"] * has_clusters, *["missing"] * has_missing]
    headings = ["score", level, "std. error", "prompts", "counted", *more]
    sheet = Sheet(title + _after(unit), columns + numbers_of(*headings))
    by: dict[str, list[str]] = {}
    order = {task: place for place, task in enumerate(dict.fromkeys(own[0] if has_tasks else "" for own, _ in runs))}
    for own, name, figure in sorted(found, key=lambda one: (order[one[0][0] if has_tasks else ""], metrics[one[1]])):
        sheet.add(
            *own[:has_tasks],
            name,
            *own[has_tasks:],
            _value(figure, figure.value, unit),
            show_interval(figure.low, figure.high, figure.unit),
            show(figure.stderr, figure.unit),
            _whole(figure.prompts),
            _whole(figure.count),
            *[_whole(figure.clusters)] * has_clusters,
            *[str(missed(figure))] * has_missing,
        )
        _add_method(by, name, figure, _METHODS)
    sheet.caption = printable(_methods_caption(by))
    return sheet


def _add_method(by: dict[str, list[str]], name: str, one: Estimate | Difference, methods: Mapping[str, str]) -> None:
    """Add the name of a figure to the names of figures whose intervals are computed by the same method."""
    method = f"none ({one.reason})" if one.reason else methods.get(one.interval, one.interval)
    if one.clusters is not None:
        method = method.replace("over prompts", "over clusters of prompts")
    if name not in by.setdefault(method, []):
        by[method].append(name)


def _methods_caption(by: Mapping[str, Sequence[str]]) -> str:
    """The methods of the intervals, in a sentence; each with its figures, if there are several."""
    if len(by) == 1:
        return f"Intervals: {next(iter(by)).removesuffix(',')}."
    return f"Intervals: {'; '.join(f'{method} for {_listed(names)}' for method, names in by.items())}." if by else ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def group_sheets(runs: Sequence[tuple[str, Report]]) -> Iterator[Sheet]:
    """Lay out the figures by group, the runs beside each other: a sheet for each metric that has groups."""
    several = len(runs) > 1
    for name in dict.fromkeys(name for _, report in runs for name in report.groups):
        own = [report.groups.get(name, {}) for _, report in runs]
        columns = [run for run, _ in runs] if several else ["score", interval_heading(runs[0][1].confidence)]
        unit = common_unit(one for groups in own for one in groups.values())
        sheet = Sheet(
            f"{name} by {_grouped_by(name)}{_after(unit)}",
            [SheetColumn(_grouped_by(name), is_label=True), *numbers_of("counted", *columns)],
        )
        for group in _in_order(name, own):
            held = [groups.get(group) for groups in own]
            counts = ["0" if one is None else _whole(one.count) for one in held]
            values = ["-" if one is None else show(one.value, one.unit) for one in held]
            if not several:
                values += [show_interval(one.low, one.high, one.unit) for one in held if one is not None]
            sheet.add(group, counts[0] if len(set(counts)) == 1 else " / ".join(counts), *values)
        yield sheet


def _grouped_by(name: str) -> str:
    """The noun for the groups of a figure."""
    return "model" if name == RATING else "type"


def _in_order(name: str, runs: Sequence[Mapping[str, Estimate]]) -> list[str]:
    """The groups of a figure by name; of ratings, the best model of the first run on top, those without at the end."""
    groups = sorted({group for groups in runs for group in groups})
    if name != RATING:
        return groups
    values = {group: float(one.value) for group, one in runs[0].items()}
    known = sorted((group for group in groups if values.get(group) == values.get(group, 0.0)), key=lambda g: -values[g])
    return [*known, *(group for group in groups if group not in known)]


def comparison_sheet(found: Comparison, a: str, b: str, higher_is_better: Mapping[str, bool] | None = None) -> Sheet:
    """Lay out the differences of two runs, by their names.

    Args:
        found: the comparison.
        a: the name of the first run.
        b: that of the second.
        higher_is_better: by figure; those that are not there are better when higher.
    """
    better = higher_is_better or {}
    title = f"{b} beside {a}, on the {found.prompts} prompts that both hold"
    if found.only_a or found.only_b:
        title += f" ({found.only_a} + {found.only_b} left out)"
    unit = common_unit(found.values())
    has_verdicts = any(one.mcnemar_p is not None for one in found.values())
    has_clusters = any(one.clusters is not None for one in found.values())
    more = [*["clusters"] * has_clusters, *["right in one only"] * has_verdicts]
    columns = numbers_of("prompts", a, b, "difference", interval_heading(found.confidence), "p", "detects", *more)
    sheet = Sheet(title + _after(unit), [SheetColumn("metric", is_label=True), *columns])
    by: dict[str, list[str]] = {}
    for name, one in found.items():
        style = verdict_style(float(one.low), float(one.high), higher_is_better=better.get(name, True))
        right = "-" if one.mcnemar_p is None else f"{_whole(one.only_a)} / {_whole(one.only_b)}"
        sheet.add(
            name,
            compared_prompts(one),
            _value(one, one.a, unit),
            _value(one, one.b, unit),
            show(one.value, one.unit, sign=True),
            show_interval(one.low, one.high, one.unit, sign=True),
            shown_p_value(float(one.p_value)),
            "-" if one.detectable is None else show(one.detectable, one.unit),
            *[_whole(one.clusters)] * has_clusters,
            *[right] * has_verdicts,
            styles={4: style, 5: style},
        )
        _add_method(by, name, one, _DIFFERENCE_METHODS)
    tests = dict.fromkeys(_TESTS.get(one.test, "sign-flip test") for one in found.values() if one.test != "none")
    caption = f"{_methods_caption(by)} p-values: {', '.join(tests) or 'none'}"
    caption += ", for verdicts of 0 or 1 McNemar's exact test" if has_verdicts else ""
    caption += "; detects: the smallest difference that so many prompts show with a chance of 80 %."
    sheet.caption = printable(" ".join([caption, *(f"{note}." for note in found.notes)]))
    return sheet


def compared_group_sheets(found: Comparison, a: str, b: str) -> Iterator[Sheet]:
    """Lay out the differences of two runs by group: a sheet for each metric that has groups."""
    for name, groups in found.groups.items():
        sheet = Sheet(
            f"{name} by type{_after(common_unit(groups.values()))}",
            [SheetColumn("type", is_label=True), *numbers_of("prompts", a, b, "difference")],
        )
        for group, one in groups.items():
            sheet.add(
                group,
                compared_prompts(one),
                show(one.a, one.unit),
                show(one.b, one.unit),
                show(one.value, one.unit, sign=True),
                styles={4: verdict_style(float(one.low), float(one.high))},
            )
        yield sheet


def common_unit(found: Iterable[Estimate | Difference]) -> str | None:
    """The unit of all figures, to stand in a heading; None if they differ."""
    units = {one.unit for one in found}
    return units.pop() if len(units) == 1 else None


def _after(unit: str | None) -> str:
    return f", {unit}" if unit else ""


def _value(one: Estimate | Difference, value: Tensor, unit: str | None) -> str:
    text = show(value, one.unit)
    return f"{text} {one.unit}" if unit is None and one.unit else text


def interval_heading(confidence: float) -> str:
    """The heading of intervals."""
    return f"{100 * confidence:g} % interval"


def missed(one: Estimate) -> int:
    """The number of missing verdicts of a figure."""
    return 0 if one.missing is None else int(one.missing)


def _whole(count: Tensor | None) -> str:
    return "-" if count is None else f"{float(count):.10g}"
