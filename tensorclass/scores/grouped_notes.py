"""Notes on many runs, a line for each kind: with the runs that it is about, and as many as a reader reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tensorclass.support.printable import printable

__all__ = ["grouped_notes"]

_MOST: Final = 10
_MOST_NAMES: Final = 3
_DETAIL: Final = re.compile(r"\d[\d.,]*|'[^']*'|\S*/\S+")


def grouped_notes(notes: Iterable[tuple[str, str]], most: int = _MOST) -> list[str]:
    """Group notes that differ in whom they are about, or in numbers and names.

    Args:
        notes: whom each note is about, and the note; nobody is the empty text.
        most: how many lines to give; the others are counted.

    Example:
        >>> grouped_notes([("a", "2 rows left out"), ("b", "2 rows left out"), ("c", "31 rows left out")])
        ['a, b: 2 rows left out (and the like of c)']
    """
    kinds: dict[str, dict[str, dict[str, None]]] = {}
    for who, note in notes:
        kinds.setdefault(_DETAIL.sub("#", note), {}).setdefault(note, {})[who] = None
    lines: list[str] = []
    for texts in kinds.values():
        (note, about), *others = texts.items()
        alike = dict.fromkeys(who for _, own in others for who in own if who not in about)
        line = f"{_listed(about)}: {note}" if any(about) else note
        if others:
            names = _listed(alike) if any(alike) else f"{len(others)} more"
            line += f" (and the like of {names})"
        lines.append(printable(line))
    left = len(lines) - most
    if left > 0:
        lines[most - 1 :] = [f"and {left + 1} more notes: --json has them all"]
    return lines


def _listed(names: Iterable[str]) -> str:
    held = [name for name in names if name]
    more = len(held) - _MOST_NAMES
    return ", ".join(held[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
