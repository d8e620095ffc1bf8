"""Escape control characters in text from untrusted data before it is printed: terminals would obey them."""

from __future__ import annotations

import unicodedata

__all__ = ["class_name", "plot_label", "printable", "type_name"]

#: the joiners of Persian and of emoji: format characters in Unicode, but harmless to terminals
_KEPT = frozenset("\u200c\u200d")
#: control characters (C0, C1), format characters such as marks of direction, lone surrogates, line separators
_ESCAPED = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: object, *, lines: bool = False) -> str:
    r"""Return the text with escapes, as in string literals, for characters that a terminal would obey.

    A name in a file may contain characters that move the cursor, colour or hide other text, ring the bell, or reverse
    the direction of text. All text from data is printed through this function, ``repr`` or JSON in ASCII.

    Args:
        text: the text, or an object whose ``str`` is taken: keys, paths, names of metrics, labels.
        lines: keep newlines.

    Example:
        >>> printable("\x1b[31mred\n"), printable("naïve 模型"), printable("a\nb\t", lines=True)
        ('\\x1b[31mred\\n', 'naïve 模型', 'a\nb\\t')
    """
    text = str(text)
    if text.isprintable() or (lines and text.replace("\n", "").isprintable()):
        return text
    return "".join(_escaped(char) if _is_command(char) and not (lines and char == "\n") else char for char in text)


def class_name(cls: type) -> str:
    r"""Return the name of a class for a message. Classes that data or programs make can have any.

    >>> class_name(type("A\x07", (), {}))
    'A\\x07'
    """
    return printable(cls.__name__)


def type_name(value: object) -> str:
    """Return the name of an object's class for a message.

    >>> type_name(3)
    'int'
    """
    return printable(type(value).__name__)


def plot_label(text: object) -> str:
    r"""Return the text for a label of matplotlib, which takes what stands between dollar signs for a formula.

    >>> plot_label("$x_$\x07")
    '\\$x_\\$\\x07'
    """
    return printable(text).replace("$", r"\$")


def _is_command(char: str) -> bool:
    return unicodedata.category(char) in _ESCAPED and char not in _KEPT


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
