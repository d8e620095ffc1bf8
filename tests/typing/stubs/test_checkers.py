"""Type checkers that read the stubs know the decorated classes of `example/shop`, as `example/facts.py` says."""

import shutil
from pathlib import Path

import pytest

from tensorclass.cli import main
from tests.typing.checkers import Project, check, settings

EXAMPLE = Path(__file__).with_name("example")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("type checkers"),  # they share mypy's cache
]


def mistakes() -> set[int]:
    """The lines of `facts.py` that must be reported."""
    lines = (EXAMPLE / "facts.py").read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# WRONG")}


@pytest.mark.parametrize(
    "checker, out",
    [("pyright", "typings"), ("pyrefly", "typings"), ("ty", "typings"), ("mypy", "."), ("pyright", "."), ("ty", ".")],
)
def test_checkers_find_the_mistakes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checker: str, out: str
) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    # mypy gets no plugin, so that it reads the stubs; in strict mode pyright reports functions of torch
    project_settings = settings(decorated=checker != "mypy").replace('"strict"', '"standard"')
    (tmp_path / "pyproject.toml").write_text(project_settings)
    (tmp_path / "typings").mkdir()
    project = Project(tmp_path)
    project.install()
    assert main(["stubs", "shop", "--out", out]) == 0
    outcome = check(checker, project, ["facts.py"])
    assert not outcome.failure
    # strict mypy wants an __all__ in the package of the example, which has none on purpose
    found = [report for report in outcome.reports if "does not explicitly export" not in report.text]
    assert {report.line for report in found if report.file == "facts.py"} == mistakes()
