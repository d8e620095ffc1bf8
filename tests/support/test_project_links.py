"""The addresses that the package names are those of its metadata."""

import re
from pathlib import Path

import pytest

from tensorclass.cli import main
from tensorclass.support import project_links

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"


def test_the_addresses_are_those_of_the_metadata() -> None:
    table = PROJECT.read_text(encoding="utf-8").partition("[project.urls]\n")[2].partition("\n\n")[0]
    urls = dict(re.findall(r'^(\w+) = "(https://[^"]+)"$', table, flags=re.MULTILINE))
    assert sorted(urls) == ["Changelog", "Documentation", "Issues", "Source"]
    assert urls["Documentation"] == project_links.DOCUMENTATION
    assert urls["Source"] == project_links.SOURCE


def test_the_pages_that_messages_name_exist() -> None:
    named = {
        page
        for path in (ROOT / "tensorclass").rglob("*.py")
        for page in re.findall(r"\{guide\(['\"]([\w/-]+)['\"]\)\}", path.read_text(encoding="utf-8"))
    }
    assert {"scores", "typing", "reference/file-formats"} <= named
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.[mr]*")}
    assert named - pages == set()


def test_the_help_of_the_command_names_the_site(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["scores"], ["inspect"], ["convert"], ["stubs"]):
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        assert project_links.DOCUMENTATION in capsys.readouterr().out
