"""Links from pages to files of the repository outside of ``docs/``: on the site they lead to the repository's pages."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from tensorclass.support.project_links import SOURCE

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)")

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace relative paths that leave ``docs/`` by addresses; warn about those of files that do not exist."""
    folder = (Path(app.srcdir) / docname).parent

    def address(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        if path.is_relative_to(app.srcdir):
            return link[1]
        if not path.exists():
            _log.warning("no such file: %s", link[1], location=docname, type="repository_links")
            return link[1]
        return f"{SOURCE}/{'tree' if path.is_dir() else 'blob'}/main/{path.relative_to(_ROOT)}"

    source[0] = _LINK.sub(address, source[0])
