"""Addresses of the entries of the page "Common mistakes", for errors whose cure takes more than a sentence."""

from __future__ import annotations

from .project_links import DOCUMENTATION

#: the page: ``docs/mistakes.md``
_PAGE = f"{DOCUMENTATION}mistakes.html"


def help_link(anchor: str) -> str:
    """Return the end of a message: the address of an entry of the page.

    Args:
        anchor: the heading of the entry in lower case, with hyphens. ``tests/support/test_help_links.py`` compares the
            anchors in the code with the headings of the page.

    >>> help_link("no-batch-size")
    ' (see https://tensorclass.readthedocs.io/en/stable/mistakes.html#no-batch-size)'
    """
    return f" (see {_PAGE}#{anchor})"
