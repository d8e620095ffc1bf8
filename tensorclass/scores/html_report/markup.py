"""HTML from Python: elements whose text and attributes are escaped. Everything on the page is made here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from tensorclass.support.printable import printable

__all__ = ["Child", "Markup", "breakable", "element", "join", "text_of_log"]


class Markup(str):
    """Text that is HTML already. Any other string is escaped when it becomes a child of an element.

    Example:
        >>> element("p", "1 < 2", Markup("<br>"))
        '<p>1 &lt; 2<br></p>'
    """

    __slots__ = ()


Child: TypeAlias = str | int | None
_Value: TypeAlias = str | int | float | bool | None

#: elements without content and closing tag
_VOID = frozenset(("br", "col", "input", "meta", "wbr"))


def element(tag: str, *children: Child, **attributes: _Value) -> Markup:
    """An element.

    Args:
        tag: its name.
        children: its content: markup as it is, other strings escaped, None left out.
        attributes: by name, without a closing underscore (``class_``) and with ``-`` for other underscores. True is an
            attribute without a value; False and None are left out.

    Example:
        >>> element("td", "<script>", class_="figure", data_value=0.5, hidden=False)
        '<td class="figure" data-value="0.5">&lt;script&gt;</td>'
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        parts.append(f" {name}" if value is True else f' {name}="{escape(printable(value))}"')
    parts.append(">")
    if tag not in _VOID:
        parts += [_child(child) for child in children]
        parts.append(f"</{tag}>")
    return Markup("".join(parts))


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Several children in a row, with a text between them.

    Example:
        >>> join(["a&b", element("b", "c")], ", ")
        'a&amp;b, <b>c</b>'
    """
    return Markup(escape(between).join(map(_child, children)))


def breakable(name: str) -> Markup:
    """A name from a file, which may be broken into lines after ``/``, ``_``, ``-`` and ``:``.

    Example:
        >>> breakable("meta/llama<3>")
        'meta/<wbr>llama&lt;3&gt;'
    """
    parts = re.split(r"(?<=[/_:-])(?=[^/_:-])", printable(name))
    return Markup("<wbr>".join(map(escape, parts)))


def text_of_log(text: str) -> Markup:
    r"""A text of several lines from a log, in which control characters other than newline and tab are escaped.

    Example:
        >>> text_of_log("a\r\n\tb\x1b<i>")
        'a\n\tb\\x1b&lt;i&gt;'
    """
    text = text.replace("\r\n", "\n")
    return Markup(escape("\t".join(printable(part, lines=True) for part in text.split("\t"))))


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else escape(printable(child))
