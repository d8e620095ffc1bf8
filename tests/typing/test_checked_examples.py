"""Examples of pipelines, columns and training, and docs/training.md, satisfy four type checkers, in one project each.

The mistake that one example has on purpose is reported by each of them.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.test_docs import blocks
from tests.typing.checkers import CHECKERS, REPOSITORY, Project, check, settings

pytestmark = pytest.mark.xdist_group("type checkers")  # projects that share mypy's cache

EXAMPLES = REPOSITORY / "examples"
MISTAKE = "typed_pipeline_mistake.py"
FILES = ("typed_pipeline.py", MISTAKE, "columns.py", "training.py", "ensemble.py")
PLANTED = "# <- the mistake"


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_reports_the_planted_mistake_and_what_torch_has_not_annotated(checker: str, tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "page.py").write_text("\n\n".join(blocks("docs/training.md")))
    quiet = re.findall(r"^reportUnknown.*$", (REPOSITORY / "docs" / "typing.md").read_text(), flags=re.MULTILINE)
    assert len(quiet) == 3
    (tmp_path / "pyproject.toml").write_text(
        settings().replace("[tool.pyright]", "\n".join(["[tool.pyright]", *quiet]))
    )
    project = Project(tmp_path)
    project.install()
    outcome = check(checker, project, (*FILES, "page.py"))
    assert not outcome.failure
    lines = (EXAMPLES / MISTAKE).read_text().splitlines()
    planted = [number for number, line in enumerate(lines, 1) if line.endswith(PLANTED)]
    assert len(planted) == 1
    # mypy has an option for them, too; with it all of torch would be read again, and once more for the next test
    untyped = 'Call to untyped function "backward"'
    found = [report for report in outcome.reports if not report.text.startswith(untyped)]
    assert {(report.file, report.line) for report in found} == {(MISTAKE, planted[0])}
