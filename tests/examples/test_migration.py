"""A project in both forms: ``tensorclass migrate`` makes the second of the first, and the tests of both pass."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

from tensorclass.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "migration"
TESTS = "tests/test_rollouts.py"
NAMES = re.findall(r"^def (test_\w+)", (EXAMPLE / "before" / TESTS).read_text(), re.MULTILINE)


def sources(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.py"))}


def test_the_command_makes_the_second_form_of_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXAMPLE / "before", tmp_path / "project")
    assert main(["migrate", "--check", str(tmp_path)]) == 1
    assert sources(tmp_path / "project") == sources(EXAMPLE / "before")
    assert main(["migrate", str(tmp_path)]) == 0
    assert sources(tmp_path / "project") == sources(EXAMPLE / "after")
    told = capsys.readouterr().out
    assert "5 files rewritten, " in told
    assert "records.py:28: stack_objects=True keeps an object for each row" in told
    assert main(["migrate", "--check", str(tmp_path)]) == 0
    assert "0 files would be rewritten, " in capsys.readouterr().out


@pytest.fixture(scope="module", params=["before", "after"])
def project(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The tests of one form as a module; its package is imported from the folder of that form."""
    folder = EXAMPLE / request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location(f"tests_of_rollouts_{request.param}", folder / TESTS)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name in [name for name in sys.modules if name.partition(".")[0] == "rollouts"]:
            del sys.modules[name]
        yield module


@pytest.mark.parametrize("name", NAMES)
def test_the_tests_of_the_project_pass(project: ModuleType, name: str, tmp_path: Path) -> None:
    test: Callable[..., None] = getattr(project, name)
    test(**({"tmp_path": tmp_path} if signature(test).parameters else {}))
