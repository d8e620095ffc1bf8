"""A page for each task with its prompts and the responses of two models at a time, beside the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tensorclass.scores.html_report.markup import Markup, breakable, element
from tensorclass.scores.html_report.page_parts import list_of, plural, section
from tensorclass.scores.html_report.prompts_section import prompt_beginnings, prompt_item, prompt_notes
from tensorclass.scores.html_report.report_data import ReportData, model_pairs
from tensorclass.scores.html_report.report_page import whole_page
from tensorclass.scores.html_report.shown_prompts import shown_prompts

__all__ = ["MOST_PROMPTS", "transcript_pages"]

MOST_PROMPTS: Final = 1_000
"""The prompts of a page at most; of several pairs of models all together."""


def transcript_pages(data: ReportData, report: str) -> dict[str, Markup]:
    """The pages by the name of their file, for the tasks of a leaderboard.

    Args:
        data: the content of the report.
        report: the address of the report, seen from the pages.
    """
    return (
        {} if data.board is None else {data.transcripts[task]: _page(data, task, report) for task in data.transcripts}
    )


def _page(data: ReportData, task: str, report: str) -> Markup:
    assert data.board is not None
    pairs = [pair for pair in model_pairs(data.board, data.grid) if pair.task == task]
    options = data.options
    found = shown_prompts(
        pairs, number=MOST_PROMPTS, texts=options.texts, characters=options.characters, with_equal=True
    )
    own = replace(data, prompts=found)
    compared = sum(one.compared for one in found.totals)
    reach = f"{len(found.prompts):,} of {plural(compared, 'comparison')}" if compared > len(found.prompts) else ""
    about = reach or plural(len(found.prompts), "comparison")
    items = [prompt_item(one, own, verdicts=True) for one in found.prompts]
    content = section(
        "prompts",
        "Prompts",
        list_of(prompt_notes(own, all_prompts=True), "notes"),
        prompt_beginnings(own),
        element("ul", *items, class_="prompts", id="prompts-list") if items else None,
    )
    lead = element("p", f"{about} of prompts, changed ones first. ", element("a", "The report", href=report))
    return whole_page(task, element("header", element("h1", breakable(task)), lead), element("main", content))
