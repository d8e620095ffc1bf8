"""Results as data frames and as tables: the methods of reports, comparisons and leaderboards, which declare them.

The classes of results don't import the modules that lay them out, which know these classes.
"""

from __future__ import annotations

from typing import Any

from tensorclass.scores.leaderboard import Leaderboard
from tensorclass.scores.leaderboard_sheets import leaderboard_sheets
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.score_rows import comparison_rows, data_frame, leaderboard_rows, report_rows
from tensorclass.scores.score_sheets import comparison_sheets, report_sheets
from tensorclass.scores.sheet_formats import to_html, to_text

__all__ = [
    "comparison_frame",
    "comparison_html",
    "leaderboard_frame",
    "leaderboard_html",
    "leaderboard_text",
    "report_frame",
    "report_html",
]


def report_frame(report: Report) -> Any:
    """Return the figures of a report as a data frame."""
    return data_frame(report_rows(report))


def report_html(report: Report) -> str:
    """Return the figures of a report as a table for notebooks."""
    return to_html(report_sheets(report))


def comparison_frame(comparison: Comparison) -> Any:
    """Return the differences of a comparison as a data frame."""
    return data_frame(comparison_rows(comparison))


def comparison_html(comparison: Comparison) -> str:
    """Return the differences of a comparison as a table for notebooks."""
    return to_html(comparison_sheets(comparison))


def leaderboard_frame(leaderboard: Leaderboard) -> Any:
    """Return the figures of a leaderboard as a data frame."""
    return data_frame(leaderboard_rows(leaderboard))


def leaderboard_html(leaderboard: Leaderboard) -> str:
    """Return a leaderboard as tables for notebooks."""
    return to_html(leaderboard_sheets(leaderboard))


def leaderboard_text(leaderboard: Leaderboard) -> str:
    """Return a leaderboard as tables for a terminal."""
    return to_text(leaderboard_sheets(leaderboard))
