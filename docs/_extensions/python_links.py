"""Links to Python names: to their entries in the reference, or to the pages of Python, torch and numpy.

A name in a docstring that leads nowhere is left to Sphinx, which warns. Types in signatures are then shown as text. In
guides, the first ``code`` on a page that is the full name of something is a link, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from docutils import nodes
from python_names import meanings
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import find_pending_xref_condition, get_node_source, make_refnode

#: code that can hardly mean anything but a public name: dotted, with an underscore, or with several capitals
_CLEARLY_A_NAME = re.compile(
    r"(?:[A-Za-z]\w*\.)+[a-z]\w*|[a-z]+(?:_[a-z0-9]+)+_?|[A-Z][a-z]+[A-Z]\w*|Text|Ragged|Column"
)
_RUNNING_TEXT = (nodes.paragraph, nodes.emphasis, nodes.strong, nodes.entry)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(PythonLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class PythonLinks(SphinxPostTransform):
    """Replace references to Python names by links."""

    default_priority = 5  # before Sphinx resolves references

    def run(self, **_: Any) -> None:
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") == "py":
                self._resolve(node)
        if self.env.doc2path(self.env.docname).suffix == ".md":
            self._link_code()

    def _resolve(self, node: addnodes.pending_xref) -> None:
        short = find_pending_xref_condition(node, "resolved")  # of a type: without its module
        content = (short or node)[0].deepcopy()
        names = meanings(
            node["reftarget"],
            modules=_modules(node),
            cls=node.get("py:class") or "",
            is_method=node["reftype"] == "meth",
        )
        if link := self._link(chain(names, self._classes_named(node["reftarget"])), content):
            node.replace_self(link)
        elif "refwarn" not in node:  # a type in a signature or in a list of errors
            node.replace_self(content)

    def _classes_named(self, name: str) -> Iterator[str]:
        """Yield the described classes of a name, wherever they are: annotations name them without their module."""
        objects = self.env.domains.python_domain.objects
        for known, entry in objects.items():
            if entry.objtype == "class" and known.endswith(f".{name}"):
                yield known

    def _link_code(self) -> None:
        linked: set[str] = set()
        for node in list(self.document.findall(nodes.literal)):
            name = node.astext().removesuffix("()").removesuffix("(...)")
            if name in linked or not _CLEARLY_A_NAME.fullmatch(name) or not isinstance(node.parent, _RUNNING_TEXT):
                continue
            if link := self._link(meanings(name, is_method=True), node.deepcopy()):
                linked.add(name)
                node.replace_self(link)

    def _link(self, names: Iterable[str], content: nodes.Node) -> nodes.Node | None:
        """Return a link to the first of some names, or addresses, that there is."""
        objects = self.env.domains.python_domain.objects
        for name in names:
            if entry := objects.get(name):
                here = self.env.docname
                return make_refnode(self.app.builder, here, entry.docname, entry.node_id, content, name)
            if name.startswith("https://"):
                return nodes.reference("", "", content, internal=False, refuri=name)
        return None


def _modules(node: addnodes.pending_xref) -> tuple[str, ...]:
    """Return the module that the page is about, and those around the object whose docstring has the reference."""
    page = node.get("py:module")
    found = re.search(r"docstring of (tensorclass[\w.]*)", get_node_source(node) or "")
    parts = found[1].split(".") if found else []
    around = [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]
    return tuple(dict.fromkeys(([page] if page else []) + around))
