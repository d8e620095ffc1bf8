"""The section with the models' ranks, averages and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, nan

from tensorclass.scores.estimate import Estimate, show, show_interval
from tensorclass.scores.grouped_notes import grouped_notes
from tensorclass.scores.html_report.interval_drawings import Axis, axis_of, ends_of
from tensorclass.scores.html_report.markup import Markup, breakable, element, join
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    interval_cell,
    name_cell,
    notes_of,
    number_cell,
    number_columns,
    section,
    table,
)
from tensorclass.scores.html_report.report_data import ReportData
from tensorclass.scores.leaderboard import Leaderboard
from tensorclass.scores.score_sheets import missed
from tensorclass.scores.usage import USAGE, shown_usage, usage_names

__all__ = ["leaderboard_section"]


def leaderboard_section(data: ReportData) -> Markup:
    """The section, with a sentence on the best model."""
    board = data.board
    if board is None:
        reason = "No task has runs of all models, so they are not ranked. The breakdown shows all figures."
        return section("leaderboard", "Leaderboard", element("p", reason, class_="lead"))
    several, ranked = len(board.averaged) > 1, len(board.models) > 1
    # one axis for all: of a metric under a free name, the values of one model can be shares and those of another not
    figures = [board.macro[model] for model in board.models]
    axis = axis_of("leaderboard-axis", ends_of(figures), figures[0].unit)
    figure = "macro average" if several else board.metrics[board.averaged[0]]
    columns = [
        *number_columns(*["rank"] * ranked),
        Column("model", "text"),
        *number_columns(breakable(figure)),
        Column(axis.scale(), None, "drawing"),
        Column("interval", None, "number"),
        *[Column("micro average", "number", "number", note="every verdict counts the same")] * several,
        *number_columns("standard error"),
        *number_columns(*map(USAGE.__getitem__, usage_names(board.usage.values()))),
        *([Column("possible ranks", None, "number"), Column("groups", "text")] if ranked else []),
        *number_columns("prompts", "missing"),
    ]
    rows = [_row(board, data.short[model], model, axis, several) for model in board.models]
    return section(
        "leaderboard",
        "Leaderboard",
        element("p", _summary(board, data.short, figure), class_="lead"),
        table("leaderboard-table", _caption(board, figure, several), columns, rows),
        notes_of(grouped_notes([("", note) for note in board.notes])),
    )


def _row(board: Leaderboard, short: str, model: str, axis: Axis, several: bool) -> Markup:
    one, rank = board.macro[model], board.ranks[model]
    value, low, high = float(one.value), float(one.low), float(one.high)
    ranked = len(board.models) > 1
    possible = f"{rank.low} to {rank.high}" if rank.low < rank.high else f"{rank.low}"
    baseline = join([" ", element("span", "baseline", class_="tag")]) if model == board.baseline else None
    return element(
        "tr",
        *([number_cell(rank.rank)] if ranked else []),
        name_cell(
            breakable(short), baseline, element("small", breakable(model)) if short != model else None, value=short
        ),
        figure_cell(value, one.unit),
        cell(axis.interval(value, low, high), class_="drawing"),
        interval_cell(one),
        *([figure_cell(float(board.micro[model].value), one.unit)] if several else []),
        figure_cell(float(one.stderr), one.unit),
        *(
            number_cell(used.get(name, nan), shown_usage(used, name))
            for used in [board.usage.get(model, {})]
            for name in usage_names(board.usage.values())
        ),
        *([cell(possible, class_="number"), cell(board.letters[model], class_="letters")] if ranked else []),
        number_cell(float(one.prompts)),
        number_cell(float(missed(one))),
    )


def _summary(board: Leaderboard, short: Mapping[str, str], figure: str) -> Markup:
    best = board.models[0]
    if len(board.models) == 1:
        return join([element("strong", breakable(short[best])), f": {figure} {_figure(board.macro[best])}."])
    parts: list[Markup | str] = [
        element("strong", breakable(short[best])),
        f" has the best {figure}: {_figure(board.macro[best])}.",
    ]
    alike = [model for model in board.models[1:] if set(board.letters[model]) & set(board.letters[best])]
    if alike:
        parts += [" It can't be told apart from ", join((breakable(short[model]) for model in alike), ", "), "."]
    else:
        parts.append(" It is better than every other model by test.")
    return join(parts)


def _figure(one: Estimate) -> str:
    interval = f" {show_interval(one.low, one.high, one.unit)}" if isfinite(float(one.low)) else ""
    return f"{show(one.value, one.unit)} {one.unit}{interval}"


def _caption(board: Leaderboard, figure: str, several: bool) -> str:
    over = f" over {len(board.averaged)} tasks" if several else f" on {board.averaged[0]}"
    direction = "" if board.higher_is_better[board.averaged[0]] else " (lower is better)"
    what = f"Models by {figure}" if len(board.models) > 1 else figure
    text = f"{what}{over}{direction}, with {100 * board.confidence:g} % intervals."
    if len(board.models) > 1:
        text += " Possible ranks and groups follow from tests of all pairs: a shared letter means no proven difference."
    return text
