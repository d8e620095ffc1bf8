"""How large the house is, and how often its code says the same by hand: ``python -m tests.house``.

The command prints a count for each line of :data:`COUNTS`, beside the goal, and exits with 1 where one is missed.
``tests/test_house.py`` keeps the counts from growing again.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.import_graph import cycles, graph, parsed

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tensorclass"

#: classes of leaves, which only the code of leaves and columns should know by name
LEAVES = frozenset({
    "NonTensorData", "NonTensorDataBase", "NonTensorStack", "MetaData", "BatchObject", "UnbatchedTensor", "Uniform",
    "PackedTensor", "Column", "BufferColumn", "Ragged", "Text",
})  # fmt: skip

#: the longest module, in lines
LONGEST = 700


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def modules(folder: Path = PACKAGE) -> list[Path]:
    """Return the files with code of a folder."""
    return sorted(folder.rglob("*.py"))


@cache
def code_lines(path: Path) -> int:
    """Count the lines that hold code: no docstrings, comments and blank lines.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
    ...     _ = file.write('\"\"\"Docstring.\"\"\"\\n\\n# comment\\nx = (\\n    1\\n)\\n')
    >>> code_lines(Path(file.name))
    3
    """
    text = enumerate(_source(path).split("\n"), 1)
    lines = {number for number, line in text if line.strip() and not line.lstrip().startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(parsed(path)):
        holder = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, (ast.Constant, ast.JoinedStr)):  # with its lines that are blank or look like comments
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif holder and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines - docstrings)


def places(pattern: str, folder: Path = PACKAGE, without: tuple[str, ...] = ()) -> list[str]:
    """Return ``file:line`` of each line of code with a pattern, imports and definitions apart."""
    found = []
    for path in modules(folder):
        name = str(path.relative_to(ROOT if path.is_relative_to(ROOT) else folder))
        if name.startswith(without or ("\0",)):
            continue
        docstrings = _docstring_lines(path)
        for number, line in enumerate(_source(path).splitlines(), 1):
            text = line.split("#")[0]
            if (
                number not in docstrings
                and re.search(pattern, text)
                and not re.match(r"\s*(from|import|def|class) ", text)
            ):
                found.append(f"{name}:{number}")
    return found


@cache
def _docstring_lines(path: Path) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def leaf_checks() -> list[str]:
    """Return where ``isinstance`` names a class of leaves outside of ``leaves/`` and ``columns/``."""
    return list(_leaf_checks())


def _leaf_checks() -> Iterator[str]:
    for path in modules():
        name = str(path.relative_to(ROOT))
        if name.startswith(("tensorclass/td/leaves/", "tensorclass/td/columns/")):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
                named = {child.id for child in ast.walk(node.args[1]) if isinstance(child, ast.Name)}
                if named & LEAVES:
                    yield f"{name}:{node.lineno}"


def circles() -> list[str]:
    """Return the modules in the largest circle of imports, calls of delegated methods apart."""
    found = cycles(graph())
    return found[0] if found else []


def long_modules() -> list[str]:
    """Return the modules that are longer than :data:`LONGEST` lines."""
    return [
        f"{path.relative_to(ROOT)}: {count}"
        for path in modules()
        if (count := len(_source(path).splitlines())) > LONGEST
    ]


def glossary() -> list[str]:
    """Return the words of the glossary in docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("## Glossary")[1].split("\n## ")[0]
    return [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][2:]


def native_lines() -> int:
    """Count the lines of C++."""
    return sum(len(path.read_text().splitlines()) for path in (PACKAGE / "td" / "native" / "source").iterdir())


NATIVE = "tensorclass/td/native/"


@dataclass(frozen=True)
class Count:
    """A line of the table.

    Attributes:
        what: what is counted.
        goal: the most that there should be.
        now: counts it: a number, or the places.
    """

    what: str
    goal: int
    now: Callable[[], int | list[str]]

    def number(self) -> int:
        """Return the count."""
        found = self.now()
        return found if isinstance(found, int) else len(found)


COUNTS = (
    Count("places that ask whether native code is on", 1, lambda: places(r"\bnative\.ON\b", without=(NATIVE,))),
    Count("places that ask whether a compiler traces", 15, lambda: places(r"\bis_dynamo_compiling\(\)")),
    Count(
        "places that look behind fields with names of members", 0,
        lambda: places(r"\b(with_members|member_items|member_values)\("),
    ),
    Count("isinstance with the class of a leaf, outside of leaves/ and columns/", 30, leaf_checks),
    Count("modules in the largest circle of imports", 0, circles),
    Count("lines of code of the package", 58_000, lambda: sum(map(code_lines, modules()))),
    Count("lines of code of td/", 17_000, lambda: sum(map(code_lines, modules(PACKAGE / "td")))),
    Count("lines of C++", 2_700, native_lines),
    Count(f"modules of more than {LONGEST} lines", 0, long_modules),
    Count("words of the glossary", 20, glossary),
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print the table; with ``--places`` where each of the counted things is."""
    sys.setrecursionlimit(10_000)
    print(f"| {'count':<72} | {'now':>7} | {'goal':>7} |\n| {'-' * 72} | {'-' * 6}: | {'-' * 6}: |")
    missed = 0
    for count in COUNTS:
        number = count.number()
        missed += number > count.goal
        print(f"| {count.what:<72} | {number:>7,} | {count.goal:>7,} |")
        found = count.now()
        if "--places" in arguments and isinstance(found, list):
            print(*[f"    {place}" for place in found], sep="\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
