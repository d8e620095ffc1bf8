"""Addresses of the entries of the page "Common mistakes", for errors whose cure takes more than a sentence."""

from __future__ import annotations

from .printable import type_name
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


def no_dataset(collection: object) -> str:
    """Return the error message for a collection without batch dimensions whose rows are counted or loaded."""
    return (
        f"this {type_name(collection)} has the batch size [], so it is one sample and has no rows to count or load. "
        f"Give it the batch size of its values, {type_name(collection)}(..., batch_size=[n]) or .auto_batch_size_(1), "
        "or put it into a list of samples"
    ) + help_link("no-batch-size")
