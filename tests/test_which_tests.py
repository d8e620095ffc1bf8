"""Each module has one answer to "which tests do I run?": see :mod:`tests.which`."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

from tests import which
from tests.which import PACKAGE, ROOT, files_of, modules, own, table

#: a module with more test files than these is to be split, or gets a file of its own
MOST = 3


def test_each_module_has_one_answer() -> None:
    lines = Counter(module for module, _ in table())
    missing = [module for module in modules() if not own(module) and not lines[module]]
    assert missing == [], "add test_x.py beside them, or lines to tests/which_tests.txt"
    assert {module for module, count in lines.items() if count > 1} == set()


def test_lines_are_for_modules_without_a_test_file_of_their_own() -> None:
    known = set(modules())
    assert [module for module, _ in table() if module not in known or own(module)] == []


def test_lines_name_some_files_that_exist() -> None:
    for module, files in table():
        assert 1 <= len(set(files)) == len(files) <= MOST, module
        assert [file for file in files if not (ROOT / "tests" / file).is_file()] == [], module


def _names(module: str) -> set[str]:
    """Return what a test of a module may write: names that it defines or that are its own, and those of its folder."""
    path = PACKAGE / module
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return {name for name in (*defined, *PurePosixPath(module).with_suffix("").parts) if len(name) > 3}


def test_files_are_beside_the_module_or_use_what_it_defines() -> None:
    strangers: list[str] = []
    explained = {line.partition(":")[0] for line in which.TABLE.read_text().splitlines() if "#" in line}
    for module, files in table():
        names = _names(module)
        folder = PurePosixPath(module).parent
        if module in explained:
            continue
        for file in files:
            words = set(re.findall(r"\w+", (ROOT / "tests" / file).read_text(encoding="utf-8")))
            if PurePosixPath(file).parent != folder and not words & names:
                strangers.append(f"{module}: {file}")
    assert strangers == []


def test_a_module_has_many_names() -> None:
    own_file, listed = ["tests/td/test_packing.py"], files_of("td/update.py")
    for name in (
        "td/packing.py",
        "tensorclass/td/packing.py",
        "tensorclass.td.packing",
        str(PACKAGE / "td/packing.py"),
    ):
        assert files_of(name) == own_file
    assert files_of("tensorclass.scores.readers") == files_of("scores/readers/__init__.py")
    assert listed == [f"tests/{file}" for file in dict(table())["td/update.py"]]
    with pytest.raises(ValueError, match=r"td/nothing.py: there is no such module"):
        files_of("td/nothing.py")


def test_the_command_prints_each_file_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    modules = ["td/packing.py", "relational/row_joins.py", "relational/row_order.py"]
    monkeypatch.setattr(sys, "argv", ["which", *modules])
    assert which.main() == 0
    assert capsys.readouterr().out.split() == [*files_of(modules[0]), *files_of(modules[1])]
    monkeypatch.setattr(sys, "argv", ["which", "nothing"])
    assert which.main() == 2
    assert "no such module" in capsys.readouterr().err


def test_folders_without_code_of_their_own_have_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(which, "PACKAGE", tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "__init__.py").write_text("from .b import f\n")
    (tmp_path / "a" / "b.py").write_text("def f(): ...\n")
    assert which.modules() == ["a/b.py"]
    (tmp_path / "a" / "__init__.py").write_text("def g(): ...\n")
    assert which.modules() == ["a/__init__.py", "a/b.py"]
