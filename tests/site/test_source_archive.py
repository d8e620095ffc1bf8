"""The source archive holds the guides, what they link to, and what builds the site."""

import re
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_source_archive_holds_the_site(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    (archive,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    pages = [path for path in (ROOT / "docs").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(pages) > 60
    assert {str(path.relative_to(ROOT)) for path in pages} - held == set()
    linked = {
        str((page.parent / link).resolve().relative_to(ROOT))
        for page in pages
        if page.suffix == ".md"
        for link in re.findall(r"\]\(((?:\.\./)[^)#\s]+)", page.read_text(encoding="utf-8"))
    }
    assert {link for link in linked if (ROOT / link).is_file()} - held == set()
    assert len(linked) > 5
