"""The examples of pipelines and columns run; the mistake in one is found when its pipeline is built."""

import importlib.util
import runpy
import sys
from types import ModuleType

import pytest

from tests.typing.checkers import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("typed_pipeline", EXAMPLES / "typed_pipeline.py")
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
    name = "typed_pipeline_mistake.py"
    source = (EXAMPLES / name).read_text()
    space: dict[str, object] = {"__name__": "__main__"}
    with pytest.raises(TypeError, match=r"tokenize >> Classify: .* Tokens lacks 'vector' \(Tensor\)"):
        exec(compile(source, name, "exec"), space)


def test_the_example_of_columns_comes_back_to_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "columns.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "row 5: 'why is the sky so blue?', tokens [0, 1, 2, 3, 4, 5], tags ['color']" in shown
    assert "all prompts equal: True" in shown
