"""The text of ``repr`` in colours, for rich."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_HEAD = re.compile(r"\A([^\W\d]\w*)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r"^( +(?:'[^']*'|[^:\n]+):)( +\S+)", re.MULTILINE)


def rich_text(shown: str) -> Text:
    """Return the short form of a collection with class and keys in bold, and types in grey.

    >>> rich_text("Sample(batch_size=[2])\\n  x: f32  [0.0, 1.0]").plain
    'Sample(batch_size=[2])\\n  x: f32  [0.0, 1.0]'
    """
    from rich.text import Text

    text = Text(shown)
    if found := _HEAD.search(shown):
        text.stylize("bold magenta", *found.span(1))
        text.stylize("dim", *found.span(2))
    for field in _FIELD.finditer(shown):
        text.stylize("bold", *field.span(1))
        text.stylize("cyan", *field.span(2))
    return text
