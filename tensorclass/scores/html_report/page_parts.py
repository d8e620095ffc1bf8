"""Parts of the page that its sections share: tables that sort and scroll, cells, folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from tensorclass.scores.estimate import show
from tensorclass.scores.html_report.markup import Child, Markup, element, join

__all__ = [
    "Column",
    "cell",
    "figure_cell",
    "fold",
    "list_of",
    "name_cell",
    "notes_of",
    "number_cell",
    "p_value_text",
    "plural",
    "section",
    "table",
]


_MANY_NOTES = 12


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its heading.
        sort: ``"number"`` or ``"text"``; None for a column that rows can't be sorted by.
        class_: a class of the heading for the style sheet.
        note: a longer heading for screen readers and pointers.

    Example:
        >>> from tensorclass.scores.html_report.page_parts import Column
        >>> Column("model", sort="text").head
        'model'
    """

    head: Child
    sort: str | None = None
    class_: str | None = None
    note: str | None = None


def section(id_: str, heading: str, *content: Child) -> Markup:
    """A section with a heading, which the page's navigation links to."""
    head = element("h2", heading, id=f"{id_}-heading")
    return element("section", head, *content, id=id_, aria_labelledby=f"{id_}-heading")


def table(
    id_: str,
    caption: Child,
    columns: Sequence[Column],
    rows: Sequence[Markup],
    *,
    foot: Markup | None = None,
    class_: str = "",
    filter: str | None = None,
) -> Markup:
    """A table in a region that scrolls by itself.

    Args:
        id_: the id of the table.
        caption: what it shows.
        columns: its columns.
        rows: a ``tr`` each.
        foot: a ``tr`` below, which is not sorted.
        class_: classes for the style sheet.
        filter: what the rows are, in the plural, if a field to filter them is wanted.
    """
    heads = [
        element("th", one.head, scope="col", class_=one.class_, data_sort=one.sort, title=one.note) for one in columns
    ]
    whole = element(
        "table",
        element("caption", element("span", caption), id=f"{id_}-caption"),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        None if foot is None else element("tfoot", foot),
        id=id_,
        class_=class_ or None,
        data_filter=filter,
    )
    region = element("div", whole, class_="scroll", role="region", aria_labelledby=f"{id_}-caption", tabindex=0)
    return element("div", region, class_="table")


def cell(*content: Child, class_: str | None = None, value: float | str | None = None) -> Markup:
    """A cell; ``value`` is what rows are sorted by, if that isn't the text."""
    if isinstance(value, float):
        value = f"{value:.9g}" if isfinite(value) else ""
    return element("td", *content, class_=class_, data_value=value)


def name_cell(*content: Child, value: str | None = None) -> Markup:
    """The cell that names its row."""
    return element("th", *content, scope="row", data_value=value)


def number_cell(value: float, text: Child = None) -> Markup:
    """A cell with a number; ``-`` where there is none."""
    shown = text if text is not None else f"{value:,.10g}" if isfinite(value) else "-"
    return cell(shown, class_="number", value=value)


def figure_cell(value: float, unit: str, *, sign: bool = False) -> Markup:
    """A cell with a figure or a difference, in its unit."""
    return number_cell(value, f"{show(value, unit, sign=sign)} {unit}" if isfinite(value) else "-")


def p_value_text(p_value: float) -> str:
    """A p-value as text; ``-`` where there is none.

    Example:
        >>> p_value_text(0.0004), p_value_text(0.0312), p_value_text(float("nan"))
        ('<0.001', '0.031', '-')
    """
    return "-" if p_value != p_value else "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def plural(number: int, noun: str) -> str:
    """A number with a noun.

    Example:
        >>> plural(1, "task"), plural(1200, "row")
        ('1 task', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def fold(summary: Child, *content: Child, open_: bool = False) -> Markup:
    """Content that opens at a click on its summary. What is open is printed."""
    return element("details", element("summary", summary), *content, open=open_, class_="fold")


def notes_of(sentences: Sequence[Child]) -> Markup:
    """A list of notes, in a fold if there are many."""
    notes = list_of(sentences, "notes")
    return notes if len(sentences) <= _MANY_NOTES else fold(f"Notes: {len(sentences):,}", notes)


def list_of(sentences: Sequence[Child], class_: str | None = None) -> Markup:
    """A list; empty for no sentences."""
    if not sentences:
        return join(())
    return element("ul", *(element("li", one) for one in sentences), class_=class_)
