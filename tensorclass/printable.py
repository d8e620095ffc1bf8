"""Text that comes from data, as terminals may show it: control characters would be commands to them."""

from __future__ import annotations

import unicodedata

__all__ = ["printable"]

#: what no terminal obeys, though Unicode calls it a control or format character: the joiners of Persian and of emoji
_KEPT = frozenset("\u200c\u200d")
#: control characters (C0, C1), format characters (marks of direction among them), lone surrogates, ends of lines
_ESCAPED = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: object, *, lines: bool = False) -> str:
    r"""The text with an escape, as in string literals, for each character that a terminal would obey.

    A name in a file may hold what moves the cursor, colours or hides what else is printed, rings the bell, or turns the
    direction of the text around. Everything that is printed and comes from data goes through here, unless it goes
    through ``repr`` or JSON in ASCII, which do the same.

    Args:
        text: keys, names of files and metrics, labels; of a path, its ``str``.
        lines: keep newlines: the text has several lines.

    Example:
        >>> printable("\x1b[31mred\n"), printable("naïve 模型"), printable("a\nb\t", lines=True)
        ('\\x1b[31mred\\n', 'naïve 模型', 'a\nb\\t')
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(_escaped(char) if _is_command(char) and not (lines and char == "\n") else char for char in text)


def _is_command(char: str) -> bool:
    return unicodedata.category(char) in _ESCAPED and char not in _KEPT


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
