"""The tree: each module is found by its name, and the guide of the architecture lists each folder."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from tensorclass import TensorDict

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


def test_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    paths: list[str] = re.findall(r"`([a-z_0-9]+(?:/\w+)+/?(?:\.py|\.md)?|[a-z_0-9]+/)`", text)
    assert len(paths) > 100
    assert [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


def test_the_architecture_lists_each_module_of_the_engine_once() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split("| module of `td/` | content |", 1)[1].split("\n\n", 1)[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    listed: list[str] = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(path.stem for path in _modules() if path.parent == Path("td"))


def test_the_layers_in_the_guide_are_those_that_are_checked() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split("| layer, top first | packages |", 1)[1].split("\n\n", 1)[0]
    told = [set(re.findall(r"`(\w+)`", row.split("|")[2])) for row in table.splitlines()[2:]]
    contract = (ROOT / "pyproject.toml").read_text().split('id = "layers"', 1)[1]
    layers = contract.split("layers = [", 1)[1].split("]", 1)[0]
    checked = [set(re.findall(r"tensorclass\.(\w+)", line)) for line in layers.splitlines()]
    assert told == [layer for layer in checked if layer - {"__main__"}]


def test_each_table_of_a_readme_names_modules_that_exist() -> None:
    missing: list[str] = []
    count = 0
    for page in sorted(PACKAGE.rglob("README.md")):
        for heads, body in re.findall(r"^\| ([^|]*)\|.*\n\| ?-.*\n((?:\|.*\n?)+)", page.read_text(), re.MULTILINE):
            if not re.search("module|folder|file", heads):
                continue
            for row in body.splitlines():
                names: list[str] = re.findall(r"`([\w/.]+)`", row.split("|")[1])
                count += len(names)
                found = [name for name in names for end in ("", ".py") if (page.parent / (name + end)).exists()]
                missing += [f"{page.relative_to(PACKAGE)}: {name}" for name in names if name not in found]
    assert count > 100
    assert missing == []


def test_the_readme_of_the_package_names_the_module_that_does_it() -> None:
    collections: Any = TensorDict
    does = {
        "batch[mask]": collections.__getitem__.__module__,
        "torch.stack(rows)": collections.stack.__func__.__module__,
        "to_h5": collections.to_h5.__delegated__[0],
        "from_pandas": collections.from_pandas.__func__.__delegated__[0],
        "to_parquet": collections.to_parquet.__delegated__[0],
        "all_reduce": collections.all_reduce.__delegated__[0],
        "append_memmap": collections.append_memmap.__func__.__delegated__[0],
        "map": collections.map.__delegated__[0],
    }
    rows = [row.split("|") for row in (PACKAGE / "README.md").read_text().splitlines() if row.startswith("|")]
    named = {
        example: {f"tensorclass.{name.replace('/', '.')}" for name in re.findall(r"`([\w/]+)`", row[1])}
        for row in rows
        for example in re.findall(r"`([^`]+)`", row[2])
    }
    assert {what: module for what, module in does.items() if module not in named[what]} == {}


#: folders of tests that no folder of the package has: the peer beside this package, benchmarks, type checkers, scripts,
#: the site, other versions
_OWN_FOLDERS = (
    "benchmarks",
    "distributed/ray",
    "examples",
    "parity",
    "site",
    "typing/corpus",
    "typing/stubs/example",
    "versions",
)


def _test_files() -> list[Path]:
    """Return the test files of folders that the package has, too, relative to ``tests``."""
    paths = sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py"))
    return [path for path in paths if not any(str(path).startswith(f"{folder}/") for folder in _OWN_FOLDERS)]


def test_folders_of_tests_are_folders_of_the_package() -> None:
    folders = {str(path.parent) for path in _test_files()} - {"."}
    assert folders - set(_folders()) == set()
    assert len(folders) > 20


def test_a_test_file_with_the_name_of_a_module_is_in_the_folder_of_the_module() -> None:
    modules = {path.stem: path.parent for path in _modules()}
    named = {path: modules[name] for path in _test_files() if (name := path.stem.removeprefix("test_")) in modules}
    assert [f"{path}: {folder}" for path, folder in named.items() if path.parent != folder] == []
    assert len(named) > 60
