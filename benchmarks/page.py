"""The tables of docs/performance.md: each command that measures one writes it there with `--page`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. The first column is text, all others are numbers."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "\n".join([f"| {' | '.join(line)} |" for line in lines])


def fill(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between the comments ``<!-- name -->`` and ``<!-- end of name -->`` of the page.

    Raises:
        ValueError: the page has no such comments.
    """
    before = page.read_text(encoding="utf-8")
    start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(before):
        raise ValueError(f"{page}: expected a table between {start.strip()} and {end.strip()}")
    page.write_text(pattern.sub(lambda _: f"{start}\n{text}\n{end}", before), encoding="utf-8")


def number(value: float) -> str:
    """Return a figure with three digits, and separators of thousands.

    >>> number(0.01234), number(3.456), number(1234567.0)
    ('0.0123', '3.46', '1,230,000')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:,.3g}"
