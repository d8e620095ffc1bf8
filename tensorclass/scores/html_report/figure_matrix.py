"""A table of figures with a column for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

from tensorclass.scores.estimate import Difference, Estimate, show, show_interval
from tensorclass.scores.html_report.interval_drawings import Axis, axis_of_figures
from tensorclass.scores.html_report.markup import Child, Markup, breakable, element, join
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    figure_cell,
    interval_cell,
    name_cell,
    number_cell,
    number_columns,
    p_value_cell,
    table,
)
from tensorclass.scores.score_sheets import common_unit

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


_Shade: TypeAlias = Callable[[FigureRow, Estimate], "str | None"]


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
        filter: what the rows are, in the plural, for the field to filter them that many rows have.
    """
    matrix = _Matrix(id_, models, [*rows, *([] if foot is None else [foot])], _shades(rows))
    body = [matrix.row(row) for row in rows]
    last = None if foot is None else matrix.row(foot, shaded=False)
    classes = "matrix" if len(models) <= _FEW else "matrix many"
    unit = f" Figures in {matrix.unit}." if matrix.unit else ""
    return table(id_, join([caption, unit]), matrix.columns(kind), body, foot=last, class_=classes, filter=filter)


class _Matrix:
    """The columns of a matrix and their cells.

    A single model's figures are drawn, and so are the differences of two models, where all have one unit.
    """

    def __init__(self, id_: str, models: Mapping[str, str], rows: Sequence[FigureRow], shade: _Shade) -> None:
        figures = [one for row in rows for one in row.figures.values()]
        differences = [row.difference for row in rows if row.difference is not None]
        self.unit = common_unit(figures)
        self._models = models
        self._shade = shade
        self._axis = axis_of_figures(f"{id_}-axis", figures) if len(models) == 1 else None
        self._has_differences = bool(differences)
        self._has_rows = any(float(one.count) != float(one.prompts) for one in figures)
        self._difference_axis = axis_of_figures(f"{id_}-differences-axis", differences, zero=True)

    def columns(self, kind: str) -> list[Column]:
        """The columns; ``kind`` is what a row is."""
        columns = [
            Column(kind, "text"),
            Column("n", "number", "number", note="prompts"),
            *[Column("rows", "number", "number", note="what the figure counts, if a prompt has several")]
            * self._has_rows,
            *(Column(breakable(short), "number", "number model", note=model) for model, short in self._models.items()),
            *_drawing_column(self._axis),
        ]
        if self._has_differences:
            columns += [*number_columns("difference", "p"), Column("interval", None, "number")]
            columns += _drawing_column(self._difference_axis)
        return columns

    def row(self, row: FigureRow, *, shaded: bool = True) -> Markup:
        """The cells of a row."""
        return element(
            "tr",
            self._name(row),
            _counts_cell([float(one.prompts) for one in row.figures.values()]),
            *[_counts_cell([float(one.count) for one in row.figures.values()])] * self._has_rows,
            *(self._figure(row, model, shaded) for model in self._models),
            *(_drawn(self._axis, row.figures.get(model)) for model in self._models if self._axis is not None),
            *self._difference(row.difference),
        )

    def _name(self, row: FigureRow) -> Markup:
        unit = next((one.unit for one in row.figures.values()), "") if self.unit is None else ""
        direction = "" if row.higher_is_better else "lower is better"
        details = ", ".join(one for one in (row.detail, unit, direction) if one)
        return name_cell(breakable(row.name), element("small", details) if details else None, value=row.name)

    def _figure(self, row: FigureRow, model: str, shaded: bool) -> Markup:
        one = row.figures.get(model)
        if one is None:
            return cell("-", class_="number", value="")
        shade = self._shade(row, one) if shaded and self._axis is None else None
        interval = show_interval(one.low, one.high, one.unit) if isfinite(float(one.low)) else "no interval"
        return cell(
            show(one.value, one.unit),
            row.marks.get(model),
            element("small", interval, class_="range"),
            class_="number" if shade is None else f"number {shade}",
            value=float(one.value),
        )

    def _difference(self, one: Difference | None) -> list[Markup]:
        if not self._has_differences:
            return []
        if one is None:
            return [element("td", colspan=3 if self._difference_axis is None else 4)]
        return [
            figure_cell(float(one.value), one.unit, sign=True),
            p_value_cell(float(one.p_value)),
            interval_cell(one, sign=True),
            *([] if self._difference_axis is None else [_drawn(self._difference_axis, one)]),
        ]


def _counts_cell(counts: Sequence[float]) -> Markup:
    """A cell with the count of all models, or with its range."""
    least, most = min(counts, default=0.0), max(counts, default=0.0)
    return number_cell(most, f"{most:,.10g}" if least == most else f"{least:,.10g} to {most:,.10g}")


def _drawing_column(axis: Axis | None) -> list[Column]:
    return [] if axis is None else [Column(axis.scale(), None, "drawing")]


def _drawn(axis: Axis, one: Estimate | Difference | None) -> Markup:
    if one is None:
        return cell(class_="drawing")
    return cell(axis.interval(float(one.value), float(one.low), float(one.high)), class_="drawing")


def _shades(rows: Sequence[FigureRow]) -> _Shade:
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
