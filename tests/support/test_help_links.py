"""Errors link to the page of mistakes: each address exists there, and each entry belongs to an error."""

import ast
import re
from pathlib import Path

from tensorclass.support.help_links import help_link
from tensorclass.support.project_links import DOCUMENTATION

ROOT = Path(__file__).parents[2]


def anchors_in_the_code() -> set[str]:
    """Return the arguments of all calls of ``help_link`` in the package."""
    found: set[str] = set()
    for path in (ROOT / "tensorclass").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "help_link(" not in text or path.name == "help_links.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "help_link":
                (argument,) = node.args
                assert isinstance(argument, ast.Constant), f"{path}:{node.lineno}: the anchor is no literal"
                found.add(argument.value)
    return found


def anchors_on_the_page() -> set[str]:
    """Return the addresses of the entries: headings of the third level, as GitHub and MyST make anchors of them."""
    headings = re.findall(r"^### (.+)$", (ROOT / "docs/mistakes.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_anchor_in_the_code_is_an_entry_of_the_page_and_each_entry_is_named_in_the_code() -> None:
    assert anchors_in_the_code() == anchors_on_the_page()


def test_links_lie_in_the_documentation() -> None:
    assert help_link("nulls") == f" (see {DOCUMENTATION}mistakes.html#nulls)"
