"""Sheets laid out for a terminal of any width: no column is dropped, and no number is cut.

The first layout that fits is taken: the sheet as it is, with folded labels and headings; the sheet turned around. If
neither fits, the one of fewest lines is taken among several pages of columns, with the labels on each; pages of the
sheet turned around; and a block of lines for each row.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from tensorclass.scores.sheet import Sheet, SheetColumn

__all__ = ["Piece", "fold", "lay_out", "text_width"]

_GAPS = (2, 1)  # between columns; the narrow one where the wide one doesn't fit
_NARROWEST_LABEL = 12
_HEADINGS = (20, 12, 8)  # words of headings up to the first of these stay whole, if that fits, else up to the next
_TEXT = 100  # columns of titles and captions where nobody says how wide the output is
_BREAKS = " /_-:.,|="
_SPACE = " "


class Piece(NamedTuple):
    """Some text of a line, and its style: ``""``, ``"title"``, ``"head"``, ``"dim"``, ``"good"`` or ``"bad"``."""

    text: str
    style: str = ""


_Line = list[Piece]


def lay_out(sheet: Sheet, width: int | None = None) -> list[list[Piece]]:
    """Lay out a sheet as lines of text.

    Args:
        sheet: the table.
        width: of the terminal, in columns; None for as wide as the sheet is.

    Returns:
        The lines, each a list of pieces. None is wider than ``width``, unless that is narrower than a number.

    Example:
        >>> from tensorclass.scores.sheet import Sheet, SheetColumn
        >>> sheet = Sheet("Scores", [SheetColumn("model", is_label=True), SheetColumn("acc"), SheetColumn("f1")])
        >>> sheet.add("gpt", "71.00", "65.20")
        >>> for line in lay_out(sheet, 80):
        ...     print("".join(piece.text for piece in line).rstrip())
        Scores
        model    acc     f1
        ───────────────────
        gpt    71.00  65.20
    """
    wide = _TEXT if width is None else width
    head = [[Piece(line, "title")] for line in fold(sheet.title, wide, _SPACE)] if sheet.title else []
    foot = [[Piece(line, "dim")] for line in fold(sheet.caption, wide, _SPACE)] if sheet.caption else []
    if not sheet.rows:
        return [*head, *foot]
    for one in (sheet, sheet.turned()):
        if (widths := _fitted(one, width)) is not None:
            return [*head, *_drawn(one, *widths), *foot]
    assert width is not None
    split = [lines for one in (sheet, sheet.turned()) if (lines := _column_pages(one, width)) is not None]
    return [*head, *min([*split, _blocks(sheet, width)], key=len), *foot]


def text_width(text: str) -> int:
    """The number of terminal columns that a text takes.

    Example:
        >>> text_width("acc"), text_width("精度"), text_width("e\\u0301")
        (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


class _Widths(NamedTuple):
    each: list[int]
    gap: int


def _fitted(sheet: Sheet, width: int | None) -> _Widths | None:
    """The widths of the columns, so that the sheet fits; None if it can't."""
    cells = [
        max((text_width(row.cells[place]) for row in sheet.rows), default=0) for place in range(len(sheet.columns))
    ]
    natural = [max(own, text_width(column.heading)) for own, column in zip(cells, sheet.columns, strict=True)]
    if width is None:
        return _Widths(natural, _GAPS[0])
    for narrowest in _HEADINGS:
        least = [_least(own, column, narrowest) for own, column in zip(cells, sheet.columns, strict=True)]
        fitting = [
            _Widths(_grown_widths(least, natural, sheet.labels, room), gap)
            for gap in _GAPS
            if (room := width - gap * (len(least) - 1) - sum(least)) >= 0
        ]
        if fitting:
            return min(fitting, key=lambda one: len(_drawn(sheet, *one)))
    return None


def _least(cells: int, column: SheetColumn, narrowest: int) -> int:
    heading = max((text_width(part.rstrip(" ")) for part in _split(column.heading, _BREAKS)), default=0)
    least = max(min(cells, _NARROWEST_LABEL) if column.is_label else cells, min(heading, narrowest))
    return max(least, 1)


def _grown_widths(least: Sequence[int], natural: Sequence[int], labels: int, room: int) -> list[int]:
    """Grow the least widths to the natural ones, as far as there is room: labels first, then headings of numbers."""
    widths = list(least)
    for columns in (range(labels), range(labels, len(widths))):
        wanting: list[int] = [one for one in columns if widths[one] < natural[one]]
        while room and wanting:
            share = max(room // len(wanting), 1)
            for one in wanting:
                more = min(share, natural[one] - widths[one], room)
                widths[one] += more
                room -= more
            wanting = [one for one in wanting if widths[one] < natural[one]]
    return widths


def _drawn(sheet: Sheet, widths: Sequence[int], gap: int) -> list[_Line]:
    """The heading, a rule and the rows."""
    head = [fold(column.heading, width) for column, width in zip(sheet.columns, widths, strict=True)]
    height = max(map(len, head))
    head = [[""] * (height - len(lines)) + lines for lines in head]  # headings stand on the rule
    lines = [_line(sheet, cells, widths, gap, ["head"] * len(widths)) for cells in zip(*head, strict=True)]
    lines.append([Piece("─" * (sum(widths) + gap * (len(widths) - 1)), "dim")])
    above: tuple[str, ...] | None = None
    for row in sheet.rows:
        shown = [
            "" if column.is_merged and above is not None and above[: place + 1] == row.cells[: place + 1] else cell
            for place, (column, cell) in enumerate(zip(sheet.columns, row.cells, strict=True))
        ]
        if above is not None and sheet.columns[0].is_merged and shown[0]:
            lines.append([])
        folded = [fold(cell, width) for cell, width in zip(shown, widths, strict=True)]
        styles = [row.styles.get(place, "") for place in range(len(widths))]
        # Numbers stand beside the last line of a folded label.
        height = max(map(len, folded))
        folded = [
            [*([] if column.is_label else [""] * (height - len(cell))), *cell]
            for column, cell in zip(sheet.columns, folded, strict=True)
        ]
        lines += [_line(sheet, cells, widths, gap, styles) for cells in zip_longest(*folded, fillvalue="")]
        above = row.cells
    return lines


def _line(sheet: Sheet, cells: Iterable[str], widths: Sequence[int], gap: int, styles: Sequence[str]) -> _Line:
    line: _Line = []
    for place, (column, cell) in enumerate(zip(sheet.columns, cells, strict=True)):
        space = " " * (widths[place] - text_width(cell))
        before, after = ("", space) if column.is_label else (space, "")
        if place == len(widths) - 1:
            after = ""
        line += [Piece(" " * gap * (place > 0) + before), Piece(cell, styles[place]), Piece(after)]
    while line and not line[-1].text.strip(" "):
        line.pop()
    return [piece for piece in line if piece.text]


def _column_pages(sheet: Sheet, width: int) -> list[_Line] | None:
    """Pages of columns, each with the labels; None if no number fits beside the labels."""
    labels = list(range(sheet.labels))
    numbers = list(range(sheet.labels, len(sheet.columns)))
    pages: list[list[int]] = []
    while numbers:
        count = next(
            (count for count in range(len(numbers), 0, -1) if _fitted(sheet.part(labels + numbers[:count]), width)), 0
        )
        if not count:
            return None
        pages.append(numbers[:count])
        numbers = numbers[count:]
    lines: list[_Line] = []
    for place, page in enumerate(pages):
        part = sheet.part(labels + page)
        widths = _fitted(part, width)
        assert widths is not None
        lines += [*([[]] if place else []), *_drawn(part, *widths)]
    return lines


def _blocks(sheet: Sheet, width: int) -> list[_Line]:
    """A block for each row: its labels, then a line for each number."""
    lines: list[_Line] = []
    numbers = range(sheet.labels, len(sheet.columns))
    names = max((text_width(sheet.columns[place].heading) for place in numbers), default=0)
    values = max((text_width(row.cells[place]) for row in sheet.rows for place in numbers), default=0)
    for row in sheet.rows:
        label = " / ".join(cell for cell in row.cells[: sheet.labels] if cell)
        lines += [[Piece(line, "head")] for line in fold(label, width)]
        for place in numbers:
            heading, cell = sheet.columns[place].heading, row.cells[place]
            style = row.styles.get(place, "")
            if names + values + 4 <= width:
                space = " " * (names - text_width(heading) + values - text_width(cell))
                lines.append([Piece(f"  {heading}  {space}"), Piece(cell, style)])
                continue
            lines += [[Piece(f"  {line}")] for line in fold(heading, max(width - 2, 1))]
            lines.append([Piece(" " * max(width - text_width(cell), 0)), Piece(cell, style)])
    return lines


def fold(text: str, width: int | None, breaks: str = _BREAKS) -> list[str]:
    """Fold a text into lines of so many columns.

    Args:
        text: the text.
        width: of the lines; None for one line.
        breaks: the characters after which a line may end. Longer parts are broken at parts of names, then anywhere.

    Example:
        >>> fold("prompt_level_strict_acc", 14)
        ['prompt_level_', 'strict_acc']
    """
    if width is None or text_width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for chunk in _split(text, breaks):
        if text_width(line + chunk.rstrip(" ")) <= width:
            line += chunk
            continue
        if line:
            lines.append(line.rstrip(" "))
        word = chunk.rstrip(" ")
        *full, line = fold(word, width) if breaks != _BREAKS else _cut(word, width)
        lines += full
        line += chunk[len(word) :]
    return [*lines, line.rstrip(" ")]


def _split(text: str, breaks: str) -> list[str]:
    """The parts of a text, each with the character at which a line may end."""
    chunks = [""]
    for char in text:
        chunks[-1] += char
        if char in breaks:
            chunks.append("")
    return [chunk for chunk in chunks if chunk]


def _cut(chunk: str, width: int) -> list[str]:
    """A chunk without a place to break, in lines of so many columns."""
    lines = [""]
    for char in chunk:
        if lines[-1] and char != " " and text_width(lines[-1] + char) > width:
            lines.append("")
        lines[-1] += char
    return lines
