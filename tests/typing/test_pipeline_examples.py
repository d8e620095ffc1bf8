"""The examples of pipelines and columns satisfy four type checkers; the mistake in one is reported by each of them."""

import importlib.util
import runpy
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.typing.checkers import CHECKERS, REPOSITORY, Project, check, settings

pytestmark = pytest.mark.xdist_group("type checkers")  # projects that share mypy's cache

EXAMPLES = REPOSITORY / "examples"
FILES = ("typed_pipeline.py", "typed_pipeline_mistake.py", "columns.py")
PLANTED = "# <- the mistake"


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_reports_the_planted_mistake_and_nothing_else(checker: str, tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(EXAMPLES / name, tmp_path)
    # torch itself has functions whose types pyright does not know in full
    (tmp_path / "pyproject.toml").write_text(settings().replace('"strict"', '"standard"'))
    project = Project(tmp_path)
    project.install()
    outcome = check(checker, project, FILES)
    assert not outcome.failure
    lines = (EXAMPLES / FILES[1]).read_text().splitlines()
    planted = [number for number, line in enumerate(lines, 1) if line.endswith(PLANTED)]
    assert len(planted) == 1
    assert {(report.file, report.line) for report in outcome.reports} == {(FILES[1], planted[0])}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("typed_pipeline", EXAMPLES / FILES[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "typed_pipeline", module)
    spec.loader.exec_module(module)
    return module


def test_the_example_runs(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    shown = capsys.readouterr().out
    assert shown.startswith("Pipeline(\n  Text -> Scores\n")
    assert "243 parameters" in shown


def test_the_mistake_is_found_when_the_pipeline_is_built(example: ModuleType) -> None:
    source = (EXAMPLES / FILES[1]).read_text()
    space: dict[str, object] = {"__name__": "__main__"}
    with pytest.raises(TypeError, match=r"tokenize >> Classify: .* Tokens lacks 'vector' \(Tensor\)"):
        exec(compile(source, FILES[1], "exec"), space)


def test_the_example_of_columns_comes_back_to_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "columns.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "row 5: 'why is the sky so blue?', tokens [0, 1, 2, 3, 4, 5], tags ['color']" in shown
    assert "all prompts equal: True" in shown
