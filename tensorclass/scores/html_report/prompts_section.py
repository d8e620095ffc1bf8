"""The section with the prompts that changed sides between the reference model and each other one."""

from __future__ import annotations

from tensorclass.scores.html_report.markup import Markup, breakable, element, join, text_of_log
from tensorclass.scores.html_report.page_parts import (
    Column,
    cell,
    fold,
    list_of,
    name_cell,
    number_cell,
    number_columns,
    plural,
    section,
    table,
)
from tensorclass.scores.html_report.report_data import ReportData
from tensorclass.scores.html_report.shown_prompts import ShownPrompt
from tensorclass.scores.html_report.text_differences import marked_differences

__all__ = ["prompt_beginnings", "prompt_item", "prompt_notes", "prompts_section"]

_EXCERPT = 140  # characters of a prompt in its summary


def prompts_section(data: ReportData) -> Markup | None:
    """The section; None for a single model."""
    found = data.prompts
    if data.board is None or not found.totals:
        return None
    columns = [
        Column("a", "text"),
        Column("b", "text"),
        *number_columns("prompts compared", "b better", "b worse", "shown below"),
    ]
    rows = [
        element(
            "tr",
            name_cell(breakable(data.short[one.model_a])),
            cell(breakable(data.short[one.model_b]), class_="name"),
            *(number_cell(number) for number in (one.compared, one.better, one.worse, one.shown)),
        )
        for one in found.totals
    ]
    of = "baseline" if data.board.baseline is not None else "best model"
    return section(
        "prompts",
        "Prompts that changed sides",
        table("prompts-table", f"How many prompts each model, b, scores differently from a, the {of}.", columns, rows),
        list_of(prompt_notes(data), "notes"),
        _pages(data),
        prompt_beginnings(data),
        element("ul", *(prompt_item(one, data) for one in found.prompts), class_="prompts", id="prompts-list")
        if found.prompts
        else None,
    )


def _pages(data: ReportData) -> Markup | None:
    """Links to the pages with all prompts of the tasks."""
    links = [
        element("a", breakable(task), href=f"{data.options.pages}/{file}") for task, file in data.transcripts.items()
    ]
    return element("p", "All prompts of ", join(links, ", "), ".") if links else None


def prompt_beginnings(data: ReportData) -> Markup | None:
    """The instructions and examples that the prompts of a task share, in one fold."""
    shared = data.prompts.beginnings
    if not shared:
        return None
    texts = [join([element("h3", breakable(task)), _text(text)]) for task, text in shared.items()]
    return fold(f"What all prompts of a task begin with, left out below: {plural(len(shared), 'task')}", *texts)


def prompt_notes(data: ReportData, *, all_prompts: bool = False) -> list[str]:
    """Notes on the prompts shown: how many are left out, and which texts are missing or cut."""
    found, options = data.prompts, data.options
    changed = sum(one.better + one.worse for one in found.totals)
    notes: list[str] = []
    if changed > len(found.prompts) and not all_prompts:
        notes.append(
            f"{len(found.prompts):,} of {changed:,} are shown: of each model and task those with the largest "
            "differences, better and worse in turn."
        )
    if not options.texts:
        notes.append("The texts of prompts and responses were left out on request.")
    elif found.without_texts:
        files = found.without_texts
        more = f" and {plural(len(files) - 3, 'more file')}" if len(files) > 3 else ""
        notes.append(f"No texts of prompts could be read from {', '.join(files[:3])}{more}.")
    if found.shortened:
        notes.append(
            f"{plural(found.shortened, 'text')} of more than {options.characters:,} characters lost the middle."
        )
    return notes


def prompt_item(one: ShownPrompt, data: ReportData, *, verdicts: bool = False) -> Markup:
    """A prompt, which opens to its texts.

    Args:
        one: the prompt.
        data: the content of the page.
        verdicts: whether to filter by the verdicts of both models, in place of better and worse.
    """
    sign, word = ("▲", "better") if one.is_better else ("▼", "worse")
    if one.a == one.b:
        sign, word = "=", "same"
    a, b = (f"{100 * score if one.unit == '%' else score:.4g}" for score in (one.a, one.b))
    heading = [
        element("span", element("span", f"{sign} ", aria_hidden="true"), word, class_=word),
        element("span", breakable(one.figure), f" {a} → {b} {one.unit}", class_="scores"),
        element("span", breakable(data.short[one.model_b]), class_="model") if len(data.prompts.totals) > 1 else None,
        element("span", join([breakable(one.task), f", row {one.row + 1:,}"]), class_="place"),
    ]
    texts = _texts(one, data)
    attributes = {"data_model": data.short[one.model_b], "data_task": one.task}
    attributes |= {"data_verdicts": _verdicts(one, data, word)} if verdicts else {"data_change": word}
    if texts is None:
        return element("li", element("div", *heading, class_="summary"), **attributes)
    excerpt = element("span", _excerpt(one.prompt or ""), class_="excerpt", dir="auto")
    return element("li", element("details", element("summary", *heading, excerpt), texts), **attributes)


def _verdicts(one: ShownPrompt, data: ReportData, word: str) -> str:
    """The verdicts on both models; for scores that are no verdicts, better, worse or same."""
    if one.unit != "%" or not {one.a, one.b} <= {0.0, 1.0}:
        return word
    if one.a == one.b:
        return "both right" if one.a else "both wrong"
    a, b = data.short[one.model_a], data.short[one.model_b]
    return f"{a} right, {b} wrong" if one.a else f"{a} wrong, {b} right"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"


def _texts(one: ShownPrompt, data: ReportData) -> Markup | None:
    parts = [
        ("Prompt", one.prompt, "whole"),
        ("Expected", one.target, "whole"),
        (f"Response of {data.short[one.model_a]}", one.response_a, None),
        (f"Response of {data.short[one.model_b]}", one.response_b, None),
    ]
    marked: tuple[Markup | None, Markup | None] = None, None
    if one.response_a is not None and one.response_b is not None:
        marked = marked_differences(one.response_a, one.response_b)
    held = [
        element("div", element("h3", breakable(name)), _text(text, markup), class_=class_)
        for (name, text, class_), markup in zip(parts, (None, None, *marked), strict=True)
        if text is not None
    ]
    return element("div", *held, class_="texts") if held else None


def _text(text: str, marked: Markup | None = None) -> Markup:
    if not text.strip():
        return element("p", "(empty)", class_="empty")
    return element("pre", text_of_log(text) if marked is None else marked, dir="auto")
