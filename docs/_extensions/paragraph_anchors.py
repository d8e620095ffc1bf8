"""Anchors of paragraphs: ``<a id="name"></a>``, as GitHub takes them, becomes a target for links of the site."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _to_targets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _to_targets(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = _ANCHOR.sub(r"(\1)=", source[0])
