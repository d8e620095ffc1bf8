"""The page: head, style sheet, script, navigation and sections, in one document that loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from tensorclass.scores.html_report.breakdown_section import breakdown_section
from tensorclass.scores.html_report.comparison_section import comparison_section
from tensorclass.scores.html_report.history_section import history_section
from tensorclass.scores.html_report.leaderboard_section import leaderboard_section
from tensorclass.scores.html_report.markup import Markup, element, join
from tensorclass.scores.html_report.page_parts import plural
from tensorclass.scores.html_report.prompts_section import prompts_section
from tensorclass.scores.html_report.report_data import ReportData
from tensorclass.scores.html_report.sources_section import sources_section
from tensorclass.scores.html_report.tasks_section import tasks_section
from tensorclass.support.project_links import guide

__all__ = ["report_page", "whole_page"]

_SECTIONS: Mapping[str, tuple[str, Callable[[ReportData], Markup | None]]] = {
    "history": ("History", history_section),
    "leaderboard": ("Leaderboard", leaderboard_section),
    "tasks": ("Tasks", tasks_section),
    "comparison": ("Comparison", comparison_section),
    "breakdown": ("Breakdown", breakdown_section),
    "prompts": ("Changed prompts", prompts_section),
    "sources": ("What was read", sources_section),
}
"""The heading and the maker of each section, by its id."""


def report_page(data: ReportData) -> Markup:
    """The whole document."""
    sections = {name: made for name, (_, make) in _SECTIONS.items() if (made := make(data)) is not None}
    links = [element("li", element("a", _SECTIONS[name][0], href=f"#{name}")) for name in sections]
    return whole_page(
        data.options.title,
        element("a", "Skip to the leaderboard", href="#leaderboard", class_="skip"),
        element("header", element("h1", data.options.title), element("p", _what(data))),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", *sections.values()),
        element("footer", element("p", _method(data))),
    )


def whole_page(title: str, *content: Markup) -> Markup:
    """A document with the style sheet and the script."""
    body = element("body", *content, element("script", _asset("report.js")))
    return join([Markup("<!DOCTYPE html>\n"), element("html", _head(title), body, lang="en"), Markup("\n")])


def _head(title: str) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", _asset("report.css")),
    )


@cache
def _policy() -> str:
    """Nothing is loaded, and only our own script and style sheet run, whatever a log holds."""
    script, style = (b64encode(sha256(_asset(name).encode()).digest()).decode() for name in ("report.js", "report.css"))
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _asset(name: str) -> Markup:
    """The style sheet or the script. They are elements of raw text: nothing in them is escaped."""
    return Markup(files("tensorclass.scores.html_report").joinpath(name).read_text(encoding="utf-8"))


def _what(data: ReportData) -> str:
    rows = sum(run.scores.batch_size.numel() for run in data.runs)
    return ", ".join(
        plural(number, noun) for number, noun in ((len(data.models), "model"), (len(data.grid), "task"), (rows, "row"))
    )


def _method(data: ReportData) -> str:
    methods: Sequence[str] = sorted(
        {one.interval for reports in data.reports.values() for report in reports.values() for one in report.values()}
    )
    settings = data.options.settings
    has_seeds = any(run.seeds for run in data.runs)
    tests = "t tests over prompts and seeds" if has_seeds else "sign-flip tests, prompt by prompt"
    return (
        f"Made by tensorclass scores. Intervals of {100 * settings['confidence']:g} % over prompts "
        f"({', '.join(methods)}); p-values of two models by {tests}; "
        f"seed {settings['seed']}. How figures are made: {guide('scores')}"
    )
