"""Results as data frames and as tables: the methods of reports, comparisons and leaderboards, which declare them.

The classes of results don't import the modules that lay them out, which know these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from tensorclass.scores.leaderboard import Leaderboard
from tensorclass.scores.leaderboard_sheets import leaderboard_sheets
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.score_rows import comparison_rows, data_frame, leaderboard_rows, report_rows
from tensorclass.scores.score_sheets import comparison_sheets, report_sheets
from tensorclass.scores.sheet import Sheet
from tensorclass.scores.sheet_formats import to_html, to_text

__all__ = ["shown_as_frame", "shown_as_html", "shown_as_text"]

_Result: TypeAlias = Report | Comparison | Leaderboard

_Layout: TypeAlias = tuple[Callable[[Any], Iterator[dict[str, Any]]], Callable[[Any], Iterator[Sheet | str]]]

_LAYOUTS: Final[Mapping[type, _Layout]] = {
    Report: (report_rows, report_sheets),
    Comparison: (comparison_rows, comparison_sheets),
    Leaderboard: (leaderboard_rows, leaderboard_sheets),
}
"""The functions that lay out a result as rows and as sheets."""


def shown_as_frame(result: _Result) -> Any:
    """Return the figures of a result as a data frame."""
    rows, _ = _layout(result)
    return data_frame(rows(result))


def shown_as_html(result: _Result) -> str:
    """Return a result as tables for notebooks."""
    _, sheets = _layout(result)
    return to_html(sheets(result))


def shown_as_text(result: _Result) -> str:
    """Return a result as tables for a terminal."""
    _, sheets = _layout(result)
    return to_text(sheets(result))


def _layout(result: _Result) -> _Layout:
    return next(layout for kind, layout in _LAYOUTS.items() if isinstance(result, kind))
