"""Links from pages to files of the repository outside of ``docs/``: on the site they lead to the repository's pages.

Files and modules of the folders that no wheel has, such as ``benchmarks/scores.py`` or ``python -m benchmarks.scores``,
are links wherever they stand as code in a text.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from tensorclass.support.project_links import SOURCE

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)")

_PATH = re.compile(r"(?:^|(?<=python ))(?:benchmarks|examples|tests)/[\w./-]*")
_MODULE = re.compile(r"(?:^|(?<=python -m ))(?:benchmarks|tests)(?:\.\w+)+$|(?<=python -m )(?:benchmarks|tests)[\w.]*")

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _rewrite)
    app.connect("doctree-read", _link_code)
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
        return _address(path)

    source[0] = _LINK.sub(address, source[0])


def _link_code(app: Sphinx, doctree: nodes.document) -> None:
    """Make links of code that names files of the repository; warn about those that do not exist."""
    for code in [*doctree.findall(nodes.literal)]:
        path = _named(code.astext())
        if path is None or isinstance(code.parent, nodes.reference):
            continue
        if not path.exists():
            _log.warning("no such file: %s", path.relative_to(_ROOT), location=code, type="repository_links")
            continue
        link = nodes.reference("", "", refuri=_address(path), internal=False)
        code.replace_self(link)
        link += code


def _named(text: str) -> Path | None:
    """Return the file or folder of the repository that code in a text names."""
    if found := _PATH.search(text):
        return _ROOT / found[0]
    found = _MODULE.search(text)
    if found is None:
        return None
    path = _ROOT / found[0].replace(".", "/")
    return path if path.is_dir() else path.with_suffix(".py")


def _address(path: Path) -> str:
    return f"{SOURCE}/{'tree' if path.is_dir() else 'blob'}/main/{path.relative_to(_ROOT)}"
