"""Reports as a picture, with matplotlib: scores with intervals, paired differences, and groups run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tensorclass.scores.comparison import compare
from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.estimate import show
from tensorclass.scores.readers import Run
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import require
from tensorclass.support.printable import plot_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["plot"]

# Not matplotlib's own class: its stubs leave **kwargs without a type, which strict checkers refuse at every call.
_Axes: TypeAlias = Any

# Okabe and Ito's palette, told apart by most colour-blind readers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_PANEL = 4.2  # inches
_INK, _FAINT = "#222222", "#DDDDDD"


def plot(
    *runs: ScoreData | Run | ScoredRun | Sequence[ScoreData | Run | ScoredRun] | ComparedRuns,
    names: Sequence[str] | None = None,
    comparison: ComparedRuns | None = None,
    title: str = "",
    subtitle: str = "",
    groups: str | None = None,
) -> Figure:
    """A figure of a few runs of one family: scores with their intervals, and below them the paired differences.

    To the right, the groups of one metric (instruction types), a line for each with every run's score, those in which
    the runs differ most at the top.

    Args:
        runs: the runs, at least one: records of one batch dimension, runs as they are read, or runs with their figures;
            or a list of them, and a comparison of two. Two records, or two runs as they are read, are compared.
            Figures in percent are shown, those with other units are left out.
        names: the names of the runs; by default those of their files, or a, b, c, ...
        comparison: of two of the runs.
        title: a headline.
        subtitle: a line below it.
        groups: the metric whose groups are shown; by default the first that has any.

    Returns:
        A figure to save: ``plot(a, b).savefig("scores.png")``.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: no run, or more or fewer names than runs.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> from tensorclass.scores.plot import plot
        >>> a = ExactMatchScoreData(torch.tensor([1.0, 0, 0, 0, 1]), batch_size=[5])
        >>> b = ExactMatchScoreData(torch.tensor([1.0, 1, 1, 0, 1]), batch_size=[5])
        >>> figure = plot(a, b, names=["before", "after"])
        >>> [axes.get_title(loc="left") for axes in figure.axes]
        ['Scores, %, with 95 % intervals', 'after - before, points, paired on 5 prompts']
    """
    given = [one for item in runs for one in (item if isinstance(item, Sequence) else [item])]
    for one in given:
        if isinstance(one, ComparedRuns):
            comparison = one
    plain = [one for one in given if not isinstance(one, ComparedRuns)]
    scored = _named(plain, names)
    if comparison is None and len(plain) == 2 and not any(isinstance(one, ScoredRun) for one in plain):
        a, b = scored
        comparison = ComparedRuns(a.run.name, b.run.name, compare(a.run.scores, b.run.scores))
    return _drawn(scored, comparison, title=title, subtitle=subtitle, groups=groups)


def _named(runs: Sequence[ScoreData | Run | ScoredRun], names: Sequence[str] | None) -> list[ScoredRun]:
    """The runs with their figures and the names to show."""
    if not runs:
        raise ValueError("runs: expected at least one, got none")
    if names is not None and len(names) != len(runs):
        raise ValueError(f"names: expected one for each of {len(runs)} runs, got {len(names)}: {', '.join(names)}")
    scored: list[ScoredRun] = []
    for place, one in enumerate(runs):
        if isinstance(one, ScoreData):
            one = Run(_letter(place), one, files=(), format="record")
        if isinstance(one, Run):
            one = ScoredRun(one, one.scores.aggregate())
        scored.append(one if names is None else ScoredRun(replace(one.run, name=names[place]), one.report))
    return scored


def _letter(place: int) -> str:
    return ascii_lowercase[place] if place < len(ascii_lowercase) else f"run {place + 1}"


def _drawn(
    runs: Sequence[ScoredRun], comparison: ComparedRuns | None, *, title: str, subtitle: str, groups: str | None
) -> Figure:
    figure_module = require("matplotlib.figure", "plotting scores")
    if groups is None:
        groups = next((name for one in runs for name, found in one.report.groups.items() if found), None)
    rows = _group_rows(runs, groups) if groups is not None else []
    names = [name for name, one in runs[0].report.items() if one.unit == "%"]

    # All in inches, so that text keeps its room however many metrics, runs and groups there are.
    head = 0.55 + (0.3 if title else 0.0) + (0.25 if subtitle else 0.0)
    label = 0.25 + 0.085 * max(map(len, names), default=0)
    scores = 0.22 * len(names) * (len(runs) + 1)
    differences = 0.0 if comparison is None else 0.2 + 0.42 * len(names)
    below = 0.0 if comparison is None else differences + 1.0
    height = max(head + 0.3 + scores + below, head + 0.3 + 0.25 * len(rows)) + 0.5
    stretch = (height - head - 0.8 - (1.0 if below else 0.0)) / (scores + differences)  # all columns end level
    scores, differences = stretch * scores, stretch * differences
    group_label = 0.45 + 0.075 * max((len(group) for group, _, _ in rows), default=0)
    width = label + _PANEL + 0.6 + (group_label + _PANEL + 0.4 if rows else 0.0)
    figure: Any = figure_module.Figure(figsize=(width, height))

    def panel(left: float, top: float, size: float) -> _Axes:
        return figure.add_axes((left / width, 1 - (top + size) / height, _PANEL / width, size / height))

    if title:
        figure.text(0.15 / width, 1 - 0.15 / height, title, va="top", fontsize=15, fontweight="bold", color=_INK)
    if subtitle:
        place = 0.5 if title else 0.15
        figure.text(0.15 / width, 1 - place / height, subtitle, va="top", fontsize=10, color="#555555")
    top = head + 0.3
    handles = _scores(panel(label, top, scores), runs, names)
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.05 / width, 1 - (head - 0.3) / height),
        ncols=len(handles),
        frameon=False,
        handletextpad=0.1,
        borderaxespad=0.0,
    )
    if comparison is not None:
        _differences(panel(label, top + scores + 1.0, differences), comparison, names)
    if rows and groups is not None:
        _groups(figure, panel(label + _PANEL + 0.6 + group_label, top, height - top - 0.5), groups, rows)
    return cast("Figure", figure)


def _scores(axes: _Axes, runs: Sequence[ScoredRun], names: Sequence[str]) -> list[Line2D]:
    handles: list[Line2D] = []
    for place, one in enumerate(runs):
        colour = _COLOURS[place % len(_COLOURS)]
        for row, name in enumerate(names):
            figure = one.report.figures.get(name)
            if figure is None:
                continue
            value, low, high = (100 * float(number) for number in (figure.value, figure.low, figure.high))
            height = row * (len(runs) + 1) + place
            axes.plot([low, high], [height, height], color=colour, linewidth=2.2, solid_capstyle="round")
            (point,) = axes.plot([value], [height], "o", color=colour, markersize=7, label=plot_label(one.run.name))
            if row == 0:
                handles.append(point)
            _annotate(axes, f"{value:.1f}", (high if high == high else value, height), (6, 0), "left", colour)
    axes.set_yticks(
        [row * (len(runs) + 1) + (len(runs) - 1) / 2 for row in range(len(names))], list(map(plot_label, names))
    )
    axes.set_ylim(len(names) * (len(runs) + 1) - 1.3, -0.9)
    axes.margins(x=0.12)
    _finish(axes, f"Scores, %, with {100 * runs[0].report.confidence:g} % intervals")
    return handles


def _differences(axes: _Axes, compared: ComparedRuns, names: Sequence[str]) -> None:
    axes.axvline(0, color=_INK, linewidth=1)
    shown = [name for name in names if name in compared.comparison]
    for row, name in enumerate(shown):
        one = compared.comparison[name]
        value, low, high = (100 * float(number) for number in (one.value, one.low, one.high))
        colour = _INK if low > 0 or high < 0 else "#777777"
        axes.plot([low, high], [row, row], color=colour, linewidth=2.2, solid_capstyle="round")
        axes.plot([value], [row], "D", color=colour, markersize=6)
        p = float(one.p_value)
        chance = "-" if p != p else "< 0.001" if p < 0.001 else f"= {p:.3f}"
        text = f"{show(float(one.value), '%', sign=True)}   p {chance}"
        _annotate(axes, text, (value, row), (0, 11), "center", colour)
    axes.set_yticks(range(len(shown)), list(map(plot_label, shown)))
    axes.set_ylim(len(shown) - 0.5, -0.9)
    axes.margins(x=0.12)
    _finish(
        axes,
        f"{plot_label(compared.b)} - {plot_label(compared.a)}, points, paired on {compared.comparison.prompts} prompts",
    )


def _groups(figure: Any, axes: _Axes, name: str, rows: Sequence[tuple[str, list[float], str]]) -> None:
    transforms = require("matplotlib.transforms", "plotting scores")
    for row, (_, values, count) in enumerate(rows):
        present = [value for value in values if value == value]
        axes.plot([min(present), max(present)], [row, row], color="#BBBBBB", linewidth=2.5, zorder=1)
        for place, value in enumerate(values):
            # Runs with the same score stand below each other rather than on top: across, they would seem to differ.
            same = [other for other, its in enumerate(values) if its == value]
            points = 6.5 * (same.index(place) - (len(same) - 1) / 2) if value == value else 0.0
            beside = axes.transData + transforms.ScaledTranslation(0, -points / 72, figure.dpi_scale_trans)
            colour = _COLOURS[place % len(_COLOURS)]
            axes.plot([value], [row], "o", color=colour, markersize=7, zorder=2, transform=beside)
        axes.annotate(count, (1.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8, color="#777777")
    axes.annotate("n", (1.02, -1), xycoords=("axes fraction", "data"), va="center", fontsize=8, color="#777777")
    axes.set_yticks(range(len(rows)), [plot_label(group) for group, _, _ in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -1.2)
    _finish(axes, f"{plot_label(name)} by type, %")


def _annotate(axes: _Axes, text: str, at: tuple[float, float], by: tuple[float, float], side: str, colour: str) -> None:
    axes.annotate(
        text,
        at,
        by,
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize=9,
        color=colour,
        annotation_clip=False,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
    )


def _group_rows(runs: Sequence[ScoredRun], name: str) -> list[tuple[str, list[float], str]]:
    """Name of each group, the runs' percentages, how many were counted; the largest rise to the last run on top."""
    found = [one.report.groups.get(name, {}) for one in runs]
    rows: list[tuple[str, list[float], str]] = []
    for group in sorted({group for groups in found for group in groups}):
        held = [groups.get(group) for groups in found]
        counts = [f"{float(one.count):g}" for one in held if one is not None]
        values = [float("nan") if one is None else 100 * float(one.value) for one in held]
        rows.append((group, values, counts[0] if len(set(counts)) == 1 else "/".join(counts)))

    def rise(row: tuple[str, list[float], str]) -> float:
        difference = row[1][-1] - row[1][0] if len(row[1]) > 1 else row[1][0]
        return difference if difference == difference else float("-inf")

    return sorted(rows, key=rise, reverse=True)


def _finish(axes: _Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=_INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#AAAAAA")
