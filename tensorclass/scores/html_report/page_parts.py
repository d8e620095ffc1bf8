"""Parts of the page that its sections share: tables that sort and scroll, cells, folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from tensorclass.scores.estimate import Difference, Estimate, show, show_interval
from tensorclass.scores.html_report.markup import Child, Markup, element, join
from tensorclass.scores.score_sheets import shown_p_value

__all__ = [
    "Column",
    "cell",
    "figure_cell",
    "fold",
    "interval_cell",
    "list_of",
    "name_cell",
    "notes_of",
    "number_cell",
    "number_columns",
    "p_value_cell",
    "plural",
    "section",
    "table",
]

_MANY_NOTES = 12
_MANY_ROWS = 10  # from which a field to filter them helps


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


def number_columns(*heads: Child) -> list[Column]:
    """Columns of numbers, by which rows can be sorted."""
    return [Column(head, "number", "number") for head in heads]


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
        filter: what the rows are, in the plural, for the field to filter them that many rows have.
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
        data_filter=filter if len(rows) >= _MANY_ROWS else None,
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


def interval_cell(one: Estimate | Difference, *, sign: bool = False) -> Markup:
    """A cell with the interval of a figure or a difference."""
    return cell(show_interval(one.low, one.high, one.unit, sign=sign), class_="number")


def p_value_cell(p_value: float) -> Markup:
    """A cell with a p-value."""
    return number_cell(p_value, shown_p_value(p_value))


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
