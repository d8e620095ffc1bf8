"""A user who follows docs/typing.md on a new project sees what the page says."""

import re
from pathlib import Path

import pytest

from tests.typing.checkers import CHECKERS, PLUGIN, REPOSITORY, Project, check
from tests.typing.editors import SERVERS, completions
from tests.typing.judging import judged

pytestmark = pytest.mark.xdist_group("type checkers")  # projects that share mypy's cache

PAGE = (REPOSITORY / "docs" / "typing.md").read_text()


def files() -> dict[str, str]:
    """The files of the project that the page describes; each block begins with the name of its file."""
    blocks = re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL)
    return {name: source for name, source in blocks if "/" not in name}


def with_facts(source: str) -> str:
    """`expression  # Type` as `assert_type(expression, Type)`, and `# error` as the corpus marks it; lines stay."""
    source = source.replace("  # error", "  # E")
    facts = re.sub(r"^( +)(\S.*?)  # (?!E)(.+)$", r"\1assert_type(\2, \3)", source, flags=re.M)
    more = "from torch import Tensor; from typing_extensions import assert_type\n"
    return facts if facts == source else facts.replace("from torch import Tensor\n", more)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    for name, source in files().items():
        (tmp_path / name).write_text(with_facts(source) if name.endswith(".py") else source)
    project.install()
    return project


def test_the_page_describes_a_project() -> None:
    assert list(files()) == ["pyproject.toml", "records.py", "pipeline.py", "mistakes.py"]
    assert with_facts(files()["pipeline.py"]).count("assert_type(") == 15


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_says_what_the_page_says(checker: str, project: Project) -> None:
    settings = project.folder / "pyproject.toml"
    # here expressions stand alone, which strict pyright reports
    text = settings.read_text() + "reportUnusedExpression = false\nreportUnnecessaryComparison = false\n"
    # a plugin that does nothing here, with which mypy's cache was written
    settings.write_text(text.replace("[tool.mypy]\n", f'[tool.mypy]\nplugins = ["{PLUGIN}"]\n'))
    sources = {name.removesuffix(".py"): with_facts(source) for name, source in files().items() if name.endswith(".py")}
    outcome = check(checker, project, [f"{name}.py" for name in sources])
    verdict = judged(checker, "page", sources, outcome)
    assert not verdict.failure
    assert not verdict.wrong, "\n".join(map(str, verdict.wrong))


FIELDS = {"image", "label", "source", "box"}


@pytest.mark.parametrize("server", SERVERS)
def test_an_editor_offers_what_the_page_says(server: str, project: Project) -> None:
    lines = ["from records import Sample", "def f(batch: Sample) -> None:", "    batch[0].to('cpu').", "    Sample("]
    (project.folder / "typed.py").write_text("\n".join(lines))
    ends = [(number, len(line)) for number, line in enumerate(lines)]
    attributes, keywords = completions(server, project, "typed.py", ends[2:])
    assert {*FIELDS, "batch_size", "reshape", "apply"} <= set(attributes)
    assert {f"{name}=" for name in (*FIELDS, "batch_size", "device", "names")} <= set(keywords)
