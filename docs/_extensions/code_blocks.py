"""Indented blocks of guides that are Python sessions are coloured as such."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(CodeBlocks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class CodeBlocks(SphinxTransform):
    """Set the language of blocks that begin with a prompt."""

    default_priority = 200

    def apply(self, **_: Any) -> None:
        for block in self.document.findall(nodes.literal_block):
            if block.astext().startswith(">>> "):
                block["language"] = "pycon"
