"""The section with what was read, what was left out, and the figures that others published."""

from __future__ import annotations

from tensorclass.scores.html_report.markup import Markup, breakable, element, join
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    fold,
    list_of,
    name_cell,
    notes_of,
    number_cell,
    number_columns,
    plural,
    section,
    table,
)
from tensorclass.scores.html_report.report_data import ReportData
from tensorclass.scores.readers import Run

__all__ = ["sources_section"]

_OPEN = 20  # rows up to which the table of files is open


def sources_section(data: ReportData) -> Markup:
    """The section: notes, published figures, and every file."""
    rows = [_row(task, model, run) for task, model, run, _ in data.scored_runs()]
    columns = [
        Column("model", "text"),
        Column("task", "text"),
        Column("format", "text"),
        *number_columns("rows"),
        Column("files and notes"),
    ]
    files = table(
        "sources-table",
        "Every run: where its scores come from, and what the record doesn't hold.",
        columns,
        rows,
        filter="runs",
    )
    return section(
        "sources",
        "What was read",
        _repeated_notes(data),
        _published(data),
        fold(f"Files: {plural(len(rows), 'run')}", files, open_=len(rows) <= _OPEN),
    )


def _row(task: str, model: str, run: Run) -> Markup:
    return element(
        "tr",
        name_cell(breakable(model)),
        cell(breakable(task), class_="name"),
        cell(run.format if run.filter is None else f"{run.format}, filter {run.filter}"),
        number_cell(float(run.scores.batch_size.numel())),
        cell(list_of([*map(breakable, run.files)], "files"), list_of(_sentences(run), "notes")),
    )


def _sentences(run: Run) -> list[str]:
    """Notes on a run, and what its record doesn't hold."""
    explained = tuple(one.partition(":")[0] for one in run.left_out)
    unread = [name for name in run.ignored if name not in explained]
    ignored = [f"Not read: {', '.join(unread)}"] if unread else []
    return [*run.notes, *(f"Left out: {one}" for one in run.left_out), *ignored]


def _repeated_notes(data: ReportData) -> Markup:
    """Notes of runs and reports, each once with the number of its runs."""
    runs_of: dict[str, list[str]] = {}
    for task, model, run, report in data.scored_runs():
        for note in (*_sentences(run), *report.notes):
            runs_of.setdefault(note, []).append(model if len(data.grid) == 1 else f"{model} on {task}")
    sentences = [
        join([note, " ", element("small", names[0] if len(names) == 1 else plural(len(names), "run"))])
        for note, names in runs_of.items()
    ]
    if not sentences:
        return element("p", "Nothing was left out.")
    return join([element("h3", "Notes"), notes_of(sentences)])


def _published(data: ReportData) -> Markup | None:
    """The figures that results files say, beside those computed here."""
    nan = float("nan")
    rows: list[Markup] = []
    for task, model, run, report in data.scored_runs():
        for name, said in run.published.items():
            own = report.figures.get(name)
            unit = "" if own is None else own.unit
            value, stderr = (nan, nan) if own is None else (float(own.value), float(own.stderr))
            rows.append(
                element(
                    "tr",
                    name_cell(breakable(model)),
                    cell(breakable(task), class_="name"),
                    cell(breakable(name), class_="name"),
                    figure_cell(said.value, unit),
                    figure_cell(value, unit),
                    figure_cell(value - said.value, unit, sign=True),
                    figure_cell(nan if said.stderr is None else said.stderr, unit),
                    figure_cell(stderr, unit),
                )
            )
    if not rows:
        return None
    columns = [
        Column("model", "text"),
        Column("task", "text"),
        Column("figure", "text"),
        *number_columns("published", "here", "difference", "published standard error", "standard error here"),
    ]
    return fold(
        f"Published figures: {len(rows):,}",
        table(
            "published-table",
            "Figures that results files say, beside those computed here from the rows.",
            columns,
            rows,
            filter="figures",
        ),
        open_=len(rows) <= _OPEN,
    )
