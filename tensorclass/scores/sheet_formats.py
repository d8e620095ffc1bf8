"""Sheets as text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable

from tensorclass.scores.sheet import Sheet, SheetColumn, SheetRow
from tensorclass.scores.sheet_layout import lay_out

__all__ = ["to_html", "to_latex", "to_markdown", "to_text"]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}
_COLOURS = {"good": "#1a7f37", "bad": "#c62828", "dim": "#6b7280"}


def to_text(sheets: Iterable[Sheet | str], width: int | None = None) -> str:
    """Sheets and notes as plain text, a blank line between them.

    Args:
        sheets: the sheets, and notes as text.
        width: of the output; None for as wide as they are.

    Example:
        >>> from tensorclass.scores.sheet import Sheet, SheetColumn
        >>> sheet = Sheet("", [SheetColumn("model", is_label=True), SheetColumn("acc")])
        >>> sheet.add("gpt", "71.00")
        >>> print(to_text([sheet, "gpt: a note"]))
        model    acc
        ────────────
        gpt    71.00
        <BLANKLINE>
        gpt: a note
    """

    def laid_out(sheet: Sheet) -> str:
        return "\n".join("".join(piece.text for piece in line) for line in lay_out(sheet, width))

    return _joined(sheets, str, laid_out)


def to_markdown(sheets: Iterable[Sheet | str]) -> str:
    """Sheets and notes as Markdown, with the tables of GitHub.

    Example:
        >>> from tensorclass.scores.sheet import Sheet, SheetColumn
        >>> sheet = Sheet("Scores, %", [SheetColumn("model", is_label=True), SheetColumn("acc")], caption="One run.")
        >>> sheet.add("gpt", "71.00")
        >>> print(to_markdown([sheet]), end="")
        **Scores, %**
        <BLANKLINE>
        | model | acc |
        | :--- | ---: |
        | gpt | 71.00 |
        <BLANKLINE>
        One run.
    """
    return _joined(sheets, _markdown, _markdown_table) + "\n"


def to_latex(sheets: Iterable[Sheet | str]) -> str:
    r"""Sheets and notes as LaTeX; the tables need ``\usepackage{booktabs}``.

    Example:
        >>> from tensorclass.scores.sheet import Sheet, SheetColumn
        >>> sheet = Sheet("Scores, %", [SheetColumn("model", is_label=True), SheetColumn("acc")])
        >>> sheet.add("gpt_4", "71.00")
        >>> print(to_latex([sheet]), end="")
        \begin{table}
        \caption{Scores, \%}
        \begin{tabular}{lr}
        \toprule
        model & acc \\
        \midrule
        gpt\_4 & 71.00 \\
        \bottomrule
        \end{tabular}
        \end{table}
    """
    return _joined(sheets, _latex, _latex_table) + "\n"


def to_html(sheets: Iterable[Sheet | str]) -> str:
    """Sheets and notes as HTML: tables and paragraphs, to stand in a page.

    Example:
        >>> from tensorclass.scores.sheet import Sheet, SheetColumn
        >>> sheet = Sheet("", [SheetColumn("model", is_label=True), SheetColumn("acc")])
        >>> sheet.add("<gpt>", "71.00")
        >>> "<th scope=\\"row\\" style=\\"text-align: left\\">&lt;gpt&gt;</th>" in to_html([sheet])
        True
    """
    return _joined(sheets, lambda note: f"<p>{html.escape(note)}</p>", _html_table, "\n") + "\n"


def _joined(
    sheets: Iterable[Sheet | str], note: Callable[[str], str], table: Callable[[Sheet], str], between: str = "\n\n"
) -> str:
    return between.join(note(one) if isinstance(one, str) else table(one) for one in sheets)


def _markdown_table(sheet: Sheet) -> str:
    rows = [
        [_markdown(column.heading) for column in sheet.columns],
        [":---" if column.is_label else "---:" for column in sheet.columns],
        *([_markdown(cell) for cell in row.cells] for row in sheet.rows),
    ]
    title = f"**{_markdown(sheet.title)}**" if sheet.title else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join(filter(None, [title, table, _markdown(sheet.caption)]))


def _latex_table(sheet: Sheet) -> str:
    title = f"{sheet.title}." if sheet.title and sheet.caption else sheet.title
    caption = " ".join(filter(None, [title, sheet.caption]))
    lines = [
        r"\begin{table}",
        *([f"\\caption{{{_latex(caption)}}}"] if caption else []),
        f"\\begin{{tabular}}{{{''.join('l' if column.is_label else 'r' for column in sheet.columns)}}}",
        r"\toprule",
        _latex_row([column.heading for column in sheet.columns]),
        r"\midrule",
        *(_latex_row(row.cells) for row in sheet.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _html_table(sheet: Sheet) -> str:
    looks = "text-align: left; font-weight: bold"
    title = f'<caption style="{looks}">{html.escape(sheet.title)}</caption>' if sheet.title else ""
    head = "".join(_html_cell("th", column, column.heading, ' scope="col"') for column in sheet.columns)
    body = "\n".join(f"<tr>{_html_cells(sheet, row)}</tr>" for row in sheet.rows)
    caption = f"\n<p>{html.escape(sheet.caption)}</p>" if sheet.caption else ""
    rows = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<table style="border-spacing: 1em 0">{title}\n{rows}\n</table>{caption}'


def _html_cells(sheet: Sheet, row: SheetRow) -> str:
    return "".join(
        _html_cell("th", column, cell, ' scope="row"', row.styles.get(place, ""))
        if column.is_label
        else _html_cell("td", column, cell, "", row.styles.get(place, ""))
        for place, (column, cell) in enumerate(zip(sheet.columns, row.cells, strict=True))
    )


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)


def _latex_row(cells: Iterable[str]) -> str:
    # A row must not begin with a bracket, which the line break before it would take for its argument.
    return " & ".join(f"{{{_latex(cell)}}}" if cell.startswith("[") else _latex(cell) for cell in cells) + r" \\"


def _html_cell(tag: str, column: SheetColumn, text: str, scope: str, style: str = "") -> str:
    looks = f"text-align: {'left' if column.is_label else 'right'}"
    if style in _COLOURS:
        looks += f"; color: {_COLOURS[style]}"
    elif style:
        looks += "; font-weight: bold"
    return f'<{tag}{scope} style="{looks}">{html.escape(text)}</{tag}>'
