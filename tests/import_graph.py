"""Which module of the package imports which, read from the sources.

Imports inside functions count, as they happen at run time. Imports under ``if TYPE_CHECKING:`` do not. An import of a
package's name is an import of the module that the package takes it from, where that is a module of its own.

A method that is declared with ``@delegated("module")`` imports that module on its first call. These arrows go up from
the engine, where imports go down, and count only when asked for.

    python -m tests.import_graph                # the cycles, largest first
    python -m tests.import_graph --delegated    # those with delegated arrows, and the arrows that close them
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "tensorclass"


def sources(root: Path = ROOT) -> dict[str, Path]:
    """Return the file of each module, by its full name."""
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a module, which several tests read."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_for_types(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    test = node.test
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def _statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements that can run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif _is_for_types(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from _statements(ast.Module([other], []))
        else:
            yield from _statements(child)


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Yield each module of the package that a module imports, with the line."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in _statements(parsed(path)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            found = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
        for one in dict.fromkeys(found):
            if one in known and one != name:
                yield one, node.lineno


def delegated(path: Path, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Yield each module of the package that a module names in ``@delegated(...)``, with the line."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "delegated" and node.args:
            module = getattr(node.args[0], "value", None)
            if module in known:
                yield module, node.lineno


def graph(root: Path = ROOT, with_delegated: bool = False) -> dict[str, set[str]]:
    """Return the modules that each module imports; if asked, also those to which its methods are delegated."""
    known = sources(root)
    edges = {name: {one for one, _ in imports(name, path, known)} for name, path in known.items()}
    if with_delegated:
        for name, path in known.items():
            edges[name] |= {one for one, _ in delegated(path, known)}
    return edges


def closing(cycle: list[str], root: Path = ROOT) -> Iterator[tuple[str, str, int]]:
    """Yield the delegated arrows inside a cycle: from which module to which, and for how many methods."""
    known = sources(root)
    for name in cycle:
        found = Counter(one for one, _ in delegated(known[name], known) if one in cycle)
        yield from ((name, one, count) for one, count in sorted(found.items()))


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or through others, largest first.

    Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def main(arguments: list[str]) -> None:
    """Print the cycles; with ``--delegated`` also those that delegated methods close, and these arrows."""
    sys.setrecursionlimit(10_000)
    with_delegated = "--delegated" in arguments
    for cycle in cycles(graph(with_delegated=with_delegated)):
        print(len(cycle), *cycle)
        for name, other, count in closing(cycle) if with_delegated else ():
            print(f"    {name} -> {other}: delegated, {count} method{'s'[: count > 1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
