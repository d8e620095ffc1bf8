"""Examples in docstrings that need more than this process: a cluster of Ray, a second process, a Redis server.

``conftest.py`` leaves them out when pytest collects doctests. Tests of ``tests/distributed`` and
``tests/storage/key_value`` run them.
"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Literal

PACKAGE = Path(__file__).parents[1] / "tensorclass"

Need = Literal["ray", "two processes", "redis"]

#: code that shows what an example needs
_CODE: dict[Need, str] = {
    "ray": ">>> import ray",
    "two processes": "dist.get_rank()",
    "redis": 'unix_socket_path="redis.sock"',
}

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def need_of(example: doctest.DocTest) -> Need | None:
    """Return what the example of a docstring needs, or ``None`` if it runs in any process."""
    text = example.docstring or ""
    if _CODE["ray"] in text:
        return "ray"
    if _CODE["redis"] in text:
        return "redis"
    if _CODE["two processes"] in text and "init_process_group" not in text:  # a group of one process is made at once
        return "two processes"
    return None


def examples_that_need(need: Need) -> list[doctest.DocTest]:
    """Return the examples of the package that need a cluster, a second process or a server, sorted by name."""
    found: dict[str, doctest.DocTest] = {}
    finder = doctest.DocTestFinder(exclude_empty=True)
    for path in PACKAGE.rglob("*.py"):
        if _CODE[need] in path.read_text(encoding="utf-8"):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
            found.update({test.name: test for test in finder.find(module) if test.examples and need_of(test) == need})
    return [found[name] for name in sorted(found)]


def run(name: str, docstring: str) -> None:
    """Run the example of a docstring in an empty namespace.

    Raises:
        AssertionError: it shows something else; the message has what it showed.
    """
    test = doctest.DocTestParser().get_doctest(docstring, {}, name, None, 0)
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=lines.append)
    assert result.attempted
    assert not result.failed, "".join(lines)
