"""What the README, the tutorial, docs/training.md and the examples of training show satisfies four type checkers."""

import re
import shutil
from pathlib import Path

import pytest

from tests.test_docs import blocks
from tests.typing.checkers import CHECKERS, REPOSITORY, Project, check, settings

pytestmark = pytest.mark.xdist_group("type checkers")  # projects that share mypy's cache

EXAMPLES = ("training.py", "ensemble.py")
PAGES = {"page.py": "docs/training.md", "digits.py": "docs/tutorial.md", "readme.py": "README.md"}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_reports_nothing_but_what_torch_has_not_annotated(checker: str, tmp_path: Path) -> None:
    for name in EXAMPLES:
        shutil.copy(REPOSITORY / "examples" / name, tmp_path)
    for name, page in PAGES.items():
        script = [block for block in blocks(page) if not block.startswith(">>>")]
        (tmp_path / name).write_text("\n\n".join(script))
    quiet = re.findall(r"^reportUnknown.*$", (REPOSITORY / "docs" / "typing.md").read_text(), flags=re.MULTILINE)
    assert len(quiet) == 3
    (tmp_path / "pyproject.toml").write_text(
        settings().replace("[tool.pyright]", "\n".join(["[tool.pyright]", *quiet]))
    )
    project = Project(tmp_path)
    project.install()
    outcome = check(checker, project, (*EXAMPLES, *PAGES))
    assert not outcome.failure
    # mypy has an option for them, too; with it all of torch would be read again, and once more for the next test
    untyped = 'Call to untyped function "backward"'
    assert [report for report in outcome.reports if not report.text.startswith(untyped)] == []
