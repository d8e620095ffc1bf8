"""Who imports whom: the engine imports nothing from above, and modules do not import each other in circles.

``lint-imports`` checks the layers of the whole package (contracts in pyproject.toml), at the level of import statements
outside functions and inside them; here are the rules that it cannot say.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.import_graph import closing, cycles, graph, imports, sources

#: modules below the engine
SUPPORT = ("support",)

#: modules that run in a process of their own
SCRIPTS = ("tensorclass.td.native.check_library",)

#: of the modules in a circle outside the engine; smaller is better, larger needs a reason
LARGEST = 0


def test_the_engine_imports_nothing_from_above() -> None:
    known = sources()
    allowed = ("tensorclass.td", *(f"tensorclass.{name}" for name in SUPPORT))
    found = [
        f"{name}:{line} imports {other}"
        for name, path in known.items()
        if name.startswith("tensorclass.td") and name not in SCRIPTS
        for other, line in imports(name, path, known)
        if not other.startswith(allowed)
    ]
    assert found == []


def test_modules_of_the_engine_do_not_import_each_other_in_circles() -> None:
    assert [cycle for cycle in cycles(graph()) if any(name.startswith("tensorclass.td") for name in cycle)] == []


def test_circles_elsewhere_are_small() -> None:
    assert [cycle for cycle in cycles(graph()) if len(cycle) > LARGEST] == []


def _package(folder: Path, **modules: str) -> Path:
    root = folder / "package"
    root.mkdir()
    for name, text in {"__init__": "", **modules}.items():
        (root / f"{name}.py").write_text(text)
    return root


def test_imports_in_functions_count_and_those_for_types_do_not(tmp_path: Path) -> None:
    root = _package(
        tmp_path,
        a="def f():\n    from .b import x\n",
        b="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import f\nelse:\n    import package.c\n",
        c="from . import a\n",
    )
    edges = graph(root)
    assert edges["package.a"] == {"package.b"}
    assert edges["package.b"] == {"package.c"}
    assert cycles(edges) == [["package.a", "package.b", "package.c"]]


def test_modules_that_do_not_lead_back_are_in_no_circle(tmp_path: Path) -> None:
    root = _package(tmp_path, a="from .b import x\nfrom .c import y\n", b="from .c import y\n", c="y = x = 1\n")
    assert cycles(graph(root)) == []


def test_delegated_methods_count_when_asked_for_and_are_named(tmp_path: Path) -> None:
    root = _package(
        tmp_path,
        engine="@delegated('package.files')\ndef save(self): ...\n\n@delegated('package.files')\ndef load(self): ...\n",
        files="from .engine import save\n",
    )
    assert cycles(graph(root)) == []
    circle = ["package.engine", "package.files"]
    assert cycles(graph(root, with_delegated=True)) == [circle]
    assert [*closing(circle, root)] == [("package.engine", "package.files", 2)]


def test_each_module_of_the_package_is_in_a_layer() -> None:
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    layers = re.search(r'^id = "layers"$.*?^layers = \[$(.*?)^\]$', text, re.DOTALL | re.MULTILINE)
    assert layers is not None
    named = set(re.findall(r"tensorclass[\w.]*", layers[1]))
    modules = {".".join(name.split(".")[:2]) for name in sources()} - {"tensorclass"}
    assert modules == named
