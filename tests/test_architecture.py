"""The tree: each module is found by its name, and the guide of the architecture lists each folder."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tensorclass"


def _modules() -> list[Path]:
    return [
        path.relative_to(PACKAGE)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    ]


def _folders() -> list[str]:
    return sorted(
        str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE
    )


def test_no_two_modules_have_the_same_name() -> None:
    places = defaultdict[str, list[str]](list)
    for path in _modules():
        places[path.stem].append(str(path))
    for folder in _folders():
        places[Path(folder).name].append(folder)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_guide_lists_each_folder_once() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `([\w/]+)/` \|", text, re.MULTILINE)
    assert sorted(rows) == _folders()


def test_paths_of_modules_in_the_guides_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages += sorted(PACKAGE.rglob("README.md"))
    missing: list[str] = []
    for page in pages:
        paths: list[str] = re.findall(r"(?<![\w/.])(tensorclass/[\w/]+\.py)\b", page.read_text())
        missing += [f"{page.name}: {path}" for path in paths if not (ROOT / path).exists()]
    assert missing == []
