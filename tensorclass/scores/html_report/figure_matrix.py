"""A table of figures with a column for each model, whose cells are the darker the better the figure is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from tensorclass.scores.estimate import Difference, Estimate, show, show_interval
from tensorclass.scores.html_report.interval_drawings import Axis, axis_of
from tensorclass.scores.html_report.markup import Child, Markup, breakable, element, join
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    name_cell,
    number_cell,
    p_value_text,
    table,
)

__all__ = ["FigureRow", "figure_matrix"]

_SHADES = 10  # classes shade-0 to shade-9 of the style sheet
_FEW = 4  # models whose intervals are shown at once


@dataclass(frozen=True)
class FigureRow:
    """A row of the table.

    Attributes:
        name: what the figures are of: a task, a metric, a group.
        figures: the figure of each model; a model may lack one.
        higher_is_better: whether a larger figure is better.
        detail: a note below the name.
        marks: by model, a mark beside its figure.
        difference: the difference of two models.
    """

    name: str
    figures: Mapping[str, Estimate]
    higher_is_better: bool = True
    detail: str = ""
    marks: Mapping[str, Markup] = field(default_factory=dict[str, Markup])
    difference: Difference | None = None


def figure_matrix(
    id_: str,
    caption: Child,
    kind: str,
    models: Mapping[str, str],
    rows: Sequence[FigureRow],
    *,
    foot: FigureRow | None = None,
    filter: str | None = None,
) -> Markup:
    """The table, with the figures' intervals below them, which a reader can hide.

    Args:
        id_: the id of the table.
        caption: what it shows.
        kind: what a row is.
        models: the models, each of which has a column, with their short names.
        rows: the rows.
        foot: a last row, of averages.
        filter: what the rows are, in the plural, if a field to filter them is wanted.
    """
    units = {one.unit for row in rows for one in row.figures.values()}
    differences = [row.difference for row in rows if row.difference is not None]
    axis = _axis(f"{id_}-axis", differences)
    columns = [
        Column(kind, "text"),
        Column("n", "number", "number", note="what the figure counts"),
        *(Column(breakable(short), "number", "number model", note=model) for model, short in models.items()),
    ]
    if differences:
        columns += [
            Column("difference", "number", "number"),
            *([] if axis is None else [Column(axis.scale(), None, "drawing")]),
            Column("interval", None, "number"),
            Column("p", "number", "number"),
        ]
    shade = _shades(rows)
    body = [_row(row, models, shade, axis, len(columns), show_unit=len(units) > 1) for row in rows]
    last = None if foot is None else _row(foot, models, _unshaded, axis, len(columns), show_unit=len(units) > 1)
    classes = "matrix" if len(models) <= _FEW else "matrix many"
    unit = f" Figures in {units.copy().pop()}." if len(units) == 1 else ""
    return table(id_, join([caption, unit]), columns, body, foot=last, class_=classes, filter=filter)


def _row(
    row: FigureRow,
    models: Iterable[str],
    shade: Callable[[FigureRow, Estimate], str | None],
    axis: Axis | None,
    width: int,
    *,
    show_unit: bool,
) -> Markup:
    details = [row.detail] if row.detail else []
    unit = next((one.unit for one in row.figures.values()), "")
    if show_unit and unit:
        details.append(unit)
    if not row.higher_is_better:
        details.append("lower is better")
    counts = {float(one.count) for one in row.figures.values()}
    least, most = min(counts, default=0.0), max(counts, default=0.0)
    cells = [
        name_cell(breakable(row.name), element("small", ", ".join(details)) if details else None, value=row.name),
        number_cell(most, f"{most:,.10g}" if least == most else f"{least:,.10g} to {most:,.10g}"),
        *(_figure(row.figures.get(model), row.marks.get(model), shade, row) for model in models),
    ]
    if row.difference is not None:
        one = row.difference
        value, low, high = float(one.value), float(one.low), float(one.high)
        cells += [
            figure_cell(value, one.unit, sign=True),
            *([] if axis is None else [cell(axis.interval(value, low, high), class_="drawing")]),
            cell(show_interval(low, high, one.unit, sign=True), class_="number"),
            number_cell(float(one.p_value), p_value_text(float(one.p_value))),
        ]
    elif len(cells) < width:
        cells.append(element("td", colspan=width - len(cells)))
    return element("tr", *cells)


def _figure(
    one: Estimate | None,
    mark: Markup | None,
    shade: Callable[[FigureRow, Estimate], str | None],
    row: FigureRow,
) -> Markup:
    if one is None:
        return cell("-", class_="number", value="")
    value, low, high = float(one.value), float(one.low), float(one.high)
    return cell(
        show(value, one.unit),
        mark,
        element("small", show_interval(low, high, one.unit) if isfinite(low) else "no interval", class_="range"),
        class_=" ".join(filter(None, ("number", shade(row, one)))),
        value=value,
    )


def _shades(rows: Sequence[FigureRow]) -> Callable[[FigureRow, Estimate], str | None]:
    """The class of a figure's shade: among all figures of its unit that are better in the same direction."""
    held: dict[tuple[str, bool], list[float]] = {}
    for row in rows:
        for one in row.figures.values():
            if isfinite(value := float(one.value)):
                held.setdefault((one.unit, row.higher_is_better), []).append(value)
    ends = {key: (min(values), max(values)) for key, values in held.items()}

    def shade(row: FigureRow, one: Estimate) -> str | None:
        low, high = ends.get((one.unit, row.higher_is_better), (0.0, 0.0))
        value = float(one.value)
        if not isfinite(value) or low == high:
            return None
        share = (value - low) / (high - low)
        if not row.higher_is_better:
            share = 1 - share
        return f"shade-{min(int(share * _SHADES), _SHADES - 1)}"

    return shade


def _unshaded(row: FigureRow, one: Estimate) -> None:
    """No shade, for averages."""


def _axis(name: str, differences: Sequence[Difference]) -> Axis | None:
    """One axis for differences of one unit; none where units differ."""
    units = {one.unit for one in differences}
    if len(units) != 1:
        return None
    ends = [float(number) for one in differences for number in (one.value, one.low, one.high)]
    return axis_of(name, ends, units.pop(), zero=True)
