"""The addresses that the package names are those of its metadata."""

import re
from pathlib import Path

from tensorclass.support import project_links

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_addresses_are_those_of_the_metadata() -> None:
    table = PROJECT.read_text(encoding="utf-8").partition("[project.urls]\n")[2].partition("\n\n")[0]
    urls = dict(re.findall(r'^(\w+) = "(https://[^"]+)"$', table, flags=re.MULTILINE))
    assert sorted(urls) == ["Changelog", "Documentation", "Issues", "Source"]
    assert urls["Documentation"] == project_links.DOCUMENTATION
    assert urls["Source"] == project_links.SOURCE
