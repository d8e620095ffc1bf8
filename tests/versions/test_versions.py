"""What ``make versions`` reads and writes; that it installs and runs is for the command itself to show."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.versions import environments, report
from tests.versions.environments import Environment, Failed, distribution
from tests.versions.trials import read_report, readme_example

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_passes"/>
<testcase classname="tests.test_a" name="test_skipped"><skipped message="no zarr"/></testcase>
<testcase classname="tests.test_a" name="test_fails[1]"><failure message="assert 3 == 4&#10;!">text</failure></testcase>
<testcase classname="tests.test_a" name="test_fails[2]"><failure message="assert 5 == 6">text</failure></testcase>
<testcase classname="tests.test_b" name="test_of_a_fixture"><error message="OSError: full">text</error></testcase>
</testsuite></testsuites>"""


def trial(good: bool, summary: str, **failures: str) -> dict[str, object]:
    about = {"date": "2026-11-23", "commit": "abc", "tests": ""}
    return {"good": good, "summary": summary, "failures": failures, "details": "", **about}


ROW = {
    "name": "3.12-torch-2.15",
    "python": "3.12.1",
    "torch": "2.15.0",
    "packages": "pinned",
    "trials": {"README": trial(True, "works"), "demo": trial(False, "fails: a|b")},
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORCLASS_VERSIONS", str(tmp_path))


def test_the_lowest_torch_is_the_bound_of_the_project() -> None:
    pytest.importorskip("tomllib")
    [bound] = [text for text in environments.project()["dependencies"] if distribution(text) == "torch"]
    lowest = Environment("3.11", None, "lowest")
    assert lowest.torch_requirement == f"{bound.replace('>=', '==')}.0"
    assert lowest.name.endswith("-lowest")


def test_requirements_name_every_extra_and_neither_torch_nor_the_package_itself() -> None:
    pytest.importorskip("tomllib")
    names = {distribution(text) for text in Environment("3.12", "2.15", "pinned").requirements()}
    assert {"numpy", "jaxtyping", "pyarrow", "ray", "libcst", "pytest"} <= names
    assert not names & {"torch", "tensorclass", "tensordict", "pyright"}


@pytest.mark.parametrize("asked, expected", [("2.15", "torch==2.15.*"), ("2.13.0", "torch==2.13.0")])
def test_a_version_of_torch_is_one_of_its_releases(asked: str, expected: str) -> None:
    pytest.importorskip("tomllib")
    assert Environment("3.12", asked, "pinned").torch_requirement == expected


def test_a_python_that_is_not_there_is_named() -> None:
    with pytest.raises(Failed, match=r"no Python 3\.99: expected python3\.99 on PATH"):
        environments.interpreter("3.99")


def test_the_interpreter_is_of_the_version_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    found = environments.interpreter(version)
    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    assert subprocess.check_output([found, "-c", code], text=True).strip() == version


def test_the_example_of_the_readme_is_a_script_with_its_output() -> None:
    code, output = readme_example((environments.ROOT / "README.md").read_text(encoding="utf-8"))
    compile(code, "README.md", "exec")
    assert "class Sample(TensorClass)" in code
    assert output.startswith("tensor([16, 16])")


def test_tests_are_counted_from_the_report(tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    file.write_text(REPORT)
    passed, failures = read_report(file)
    assert passed == 1
    assert failures == {
        "tests.test_a::test_fails[1]": "assert 3 == 4",
        "tests.test_a::test_fails[2]": "assert 5 == 6",
        "tests.test_b::test_of_a_fixture": "OSError: full",
    }
    text = report.failures_by_cause(
        ROW | {"trials": {"tests": trial(False, "3 of 4 fail") | {"failures": failures}}}, ["tests"]
    )
    assert "- 2 tests: `assert 3 == 4`\n  first: `tests.test_a::test_fails[1]`" in text


def test_a_row_has_every_column_and_says_what_was_not_run() -> None:
    *_, row = report.table([ROW]).splitlines()
    assert row == (r"| 3.12.1 | 2.15.0 | pinned | works | fails: a\|b | not run | not run | not run | 2026-11-23 abc |")
    assert row.replace(r"\|", "").count("|") == report.table([]).splitlines()[0].count("|")


def test_no_class_gives_a_keyword_that_abc_meta_of_python_3_10_takes_for_itself() -> None:
    own = {"mcls", "name", "bases", "namespace"}  # positional-only since 3.11
    package = Path(__file__).parents[2] / "tensorclass"
    found = [
        f"{path.name}:{node.lineno}: {keyword.arg}="
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg in own
    ]
    assert found == []
