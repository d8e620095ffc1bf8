"""Printing the results of a command, as wide as the terminal and in its colours, or in a format of files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tensorclass.scores.document import to_json
from tensorclass.scores.score_rows import to_csv
from tensorclass.scores.sheet import Sheet
from tensorclass.scores.sheet_formats import to_html, to_latex, to_markdown
from tensorclass.scores.sheet_layout import Piece, fold, lay_out

__all__ = ["print_result"]

_STYLES = {"title": "1", "head": "1", "dim": "2", "good": "32", "bad": "31"}
"""Codes of ECMA-48, by the style of a piece."""

_WRITERS: dict[str, Callable[[Iterable[Sheet | str]], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "html": to_html,
}


def print_result(
    form: str, sheets: Iterable[Sheet | str], *, rows: Iterator[dict[str, Any]], document: dict[str, Any]
) -> None:
    """Print a result.

    Args:
        form: ``"table"``, ``"json"``, ``"csv"``, ``"markdown"``, ``"latex"`` or ``"html"``.
        sheets: what people read: sheets, and notes as text.
        rows: the result as rows, for CSV.
        document: the result for JSON.
    """
    if form == "json":
        text = to_json(document)
    elif form == "csv":
        text = to_csv(rows)
    elif form == "table":
        text = "\n".join(_drawn(sheets))
    else:
        text = _WRITERS[form](sheets)
    sys.stdout.write(_encodable(text))
    sys.stdout.flush()


def _drawn(sheets: Iterable[Sheet | str]) -> Iterator[str]:
    """The lines, with a blank one after each sheet and each paragraph of several lines, and after the notes."""
    width, is_coloured = _width(), _is_coloured()
    is_note = False
    for one in sheets:
        if is_note and not _is_note(one):
            yield ""
        is_note = _is_note(one)
        lines = _paragraphs(one, width) if isinstance(one, str) else lay_out(one, width)
        for line in lines:
            yield "".join(_coloured(piece) if is_coloured else piece.text for piece in line)
        if not is_note:
            yield ""
    if is_note:
        yield ""
    yield ""


def _is_note(one: Sheet | str) -> bool:
    return isinstance(one, str) and "\n" not in one


def _paragraphs(text: str, width: int | None) -> list[list[Piece]]:
    return [[Piece(line)] for paragraph in text.split("\n") for line in fold(paragraph, width, " ")]


def _width() -> int | None:
    """The terminal's width; None, as wide as tables are, if the output is no terminal and nobody says."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return max(shutil.get_terminal_size().columns, 1)


def _is_coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(piece: Piece) -> str:
    code = _STYLES.get(piece.style)
    return f"\x1b[{code}m{piece.text}\x1b[0m" if code and piece.text.strip() else piece.text


def _encodable(text: str) -> str:
    """The text with escapes for what the output can't encode."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("─", "-").encode(encoding, "backslashreplace").decode(encoding)
    return text
