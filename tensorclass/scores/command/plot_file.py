"""``--plot FILE``: ratings of models, quality against cost, or scores with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from tensorclass.scores.bradley_terry import RATING
from tensorclass.scores.command.exit_codes import CommandError
from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.estimate import Estimate
from tensorclass.scores.leaderboard import Leaderboard
from tensorclass.scores.plot import plot
from tensorclass.scores.score_errors import require
from tensorclass.scores.usage import USAGE
from tensorclass.support.atomic import whole_file
from tensorclass.support.printable import plot_label

__all__ = ["check_plot_file", "write_plot"]

_FORMATS: Final = (".png", ".svg", ".pdf")
_INK, _RANGE = "#222222", "#0072B2"


def check_plot_file(path: str | None) -> None:
    """Raise if a file has no suffix of a format of pictures."""
    if path is not None and Path(path).suffix.lower() not in _FORMATS:
        raise CommandError(f"--plot {path}: expected a file that ends with {', '.join(_FORMATS)}")


def write_plot(
    path: str, runs: Sequence[ScoredRun], comparisons: Sequence[ComparedRuns], board: Leaderboard | None
) -> None:
    """Draw runs to a file.

    Args:
        path: the file, whose suffix is the format.
        runs: the runs. The ratings of the first one that has any are drawn.
        comparisons: of the runs; the first one is drawn.
        board: the leaderboard: with it, quality is drawn against cost, tokens or time, where all models have them.
    """
    ratings = next((one.report.groups[RATING] for one in runs if one.report.groups.get(RATING)), None)
    used = [] if board is None else [name for name in USAGE if all(name in one for one in board.usage.values())]
    figure: Any
    if ratings is not None:
        figure = _ratings(ratings)
    elif board is not None and used:
        figure = _against(board, used[0])
    else:
        figure = plot(list(runs), comparison=comparisons[0] if comparisons else None)
    content = BytesIO()
    figure.savefig(content, format=Path(path).suffix[1:].lower(), dpi=150)
    with whole_file(path) as file:
        file.write(content.getvalue())


def _axes(height: float) -> tuple[Any, Any]:
    figure = require("matplotlib.figure", "plotting scores").Figure(figsize=(7, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _ratings(ratings: Mapping[str, Estimate]) -> Any:
    """The ratings of models with their intervals, the best on top."""
    known = {name: one for name, one in ratings.items() if float(one.value) == float(one.value)}
    order = sorted(known, key=lambda name: -float(known[name].value))
    figure, axes = _axes(0.8 + 0.25 * max(len(order), 2))
    for place, name in enumerate(order):
        one = known[name]
        axes.plot([float(one.low), float(one.high)], [place, place], color=_RANGE, linewidth=4, alpha=0.45)
        axes.plot([float(one.value)], [place], "o", color=_INK, markersize=4)
    axes.set_yticks(range(len(order)), list(map(plot_label, order)), fontsize=8)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_title("Ratings of Bradley and Terry (Elo scale) with intervals", loc="left", fontsize=10)
    return figure


def _against(board: Leaderboard, name: str) -> Any:
    """Averages with their intervals against what an answer took."""
    usage = {model: one[name] for model, one in board.usage.items()}
    figure, axes = _axes(4.5)
    scale = 100 if board.macro[board.models[0]].unit == "%" else 1
    for model in board.models:
        one, at = board.macro[model], usage[model]
        axes.plot([at, at], [scale * float(one.low), scale * float(one.high)], color=_RANGE, linewidth=4, alpha=0.45)
        axes.plot([at], [scale * float(one.value)], "o", color=_INK, markersize=5)
        axes.annotate(plot_label(model), (at, scale * float(one.value)), (6, 4), textcoords="offset points", fontsize=8)
    if min(usage.values()) > 0 and max(usage.values()) > 20 * min(usage.values()):
        axes.set_xscale("log")
    axes.margins(x=0.2)
    axes.set_xlabel(USAGE[name])
    axes.set_title(
        f"Average, {board.macro[board.models[0]].unit or 'score'}, against {USAGE[name]}", loc="left", fontsize=10
    )
    return figure
