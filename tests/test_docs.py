"""The examples of the README and the docs run, and show what is true."""

import doctest
import multiprocessing.context
import pkgutil
import re
import runpy
import shlex
import shutil
import sys
import types
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main
from tensorclass.support.project_links import DOCUMENTATION, SOURCE

ROOT = Path(__file__).parents[1]
GUIDES = [
    f"docs/{name}.md"
    for name in (
        "records",
        "columns",
        "contracts",
        "collections",
        "seeing-data",
        "convert",
        "pipelines",
        "modules",
        "probabilistic",
        "stores",
        "storage",
        "tensordict",
        "mistakes",
    )
]

COOKBOOK = [f"docs/cookbook/{page.name}" for page in sorted((ROOT / "docs/cookbook").glob("*.md"))]
SCRIPTS = ["README.md", "docs/tutorial.md", *(page for page in COOKBOOK if page != "docs/cookbook/index.md")]
#: their numbers are random, or come from training and differ in the last digits from machine to machine
RANDOM = ["README.md", "docs/tutorial.md", "docs/cookbook/multi-gpu.md"]


@pytest.mark.parametrize("guide", GUIDES)
def test_the_examples_of_a_guide_give_what_it_shows(guide: str) -> None:
    result = doctest.testfile(
        str(ROOT / guide), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 10
    assert result.failed == 0


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_script_of_the_training_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # from Python 3.14 on, workers import the module of a data set, which here is no file
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing.context._default_context, "_actual_context", fork)
    script = blocks("docs/training.md")
    assert len(script) > 7
    module = types.ModuleType("training_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in script:
        exec(compile(block, "docs/training.md", "exec"), module.__dict__)
    assert "320 texts: loss 0." in capsys.readouterr().out


@pytest.mark.parametrize("page", SCRIPTS)
def test_the_script_of_a_page_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.endswith("from-pandas.md") and int(version("pandas").partition(".")[0]) < 3:
        pytest.skip("the page shows what pandas 3 prints")
    shutil.copytree(ROOT / "examples/data", tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    words = without_numbers if page in RANDOM else str.split
    module = types.ModuleType("__main__")  # as the script that a reader makes of the blocks
    monkeypatch.setitem(sys.modules, module.__name__, module)
    shown = 0
    for language, block in re.findall(r"^```(python|console|text)\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S):
        if language == "text":
            printed = capsys.readouterr().out
            assert words(printed) == words(block)
            shown += 1
        elif language == "console":
            run_commands(block)
        elif block.startswith(">>>"):
            run_session(block, module.__dict__)
        else:
            exec(compile(block, page, "exec"), module.__dict__)
    assert shown > 0
    assert capsys.readouterr().out == ""  # all that is printed is on the page


def test_names_and_commands_of_the_pages_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text() for page in pages)
    names = set(re.findall(r"(?<![\w/.-])tensorclass(?:\.\w+)+", text))
    assert len(names) > 20
    assert [name for name in sorted(names) if not name.startswith("tensorclass.readthedocs") and not found(name)] == []
    modules = [ROOT / name.replace(".", "/") for name in re.findall(r"python -m ((?:tests|benchmarks)[\w.]*)", text)]
    assert len(modules) > 20
    missing = [path for path in modules if not path.with_suffix(".py").exists()]
    assert [path for path in missing if not (path / "__main__.py").exists()] == []


def test_links_of_the_readme_are_absolute_and_lead_to_pages() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    pages = [link.removeprefix(DOCUMENTATION) for link in links if link.startswith(DOCUMENTATION)]
    files = [re.sub(r"^/(blob|tree)/main/", "", link.removeprefix(SOURCE)) for link in links if link.startswith(SOURCE)]
    assert len(pages) > 8
    assert len(pages) + len(files) == len(links)
    assert [page for page in pages if not (ROOT / "docs" / page).with_suffix(".md").exists()] == []
    assert [file for file in files if not (ROOT / file).exists()] == []


def found(name: str) -> bool:
    """Whether a dotted name is a module of the package, or an attribute of one."""
    try:
        pkgutil.resolve_name(name)
        return True
    except (AttributeError, ImportError):
        with suppress(ModuleNotFoundError):  # a module that needs an extra is there
            return find_spec(name) is not None
        return False


def test_the_picture_of_the_landing_page_is_what_its_script_draws() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/_pictures/record.py"))
    for name, theme in drawn["THEMES"].items():
        assert drawn["draw"](theme) == (ROOT / f"docs/_static/record-{name}.svg").read_text()


def without_numbers(text: str) -> list[str]:
    """Return the words of a text, with # for each number."""
    return re.sub(r"[-+]?\d[\d.,]*(e[-+]\d+)?", "#", text).split()


def run_commands(block: str) -> None:
    """Run the commands of the package in a block."""
    for line in block.splitlines():
        if line.startswith("$ tensorclass "):
            assert main(shlex.split(line)[2:]) == 0


def run_session(block: str, space: dict[str, Any]) -> None:
    """Evaluate each line of a session. It gives the value, or raises the error, that is shown below it."""
    for call, shown in re.findall(r"^>>> (.*)\n((?:(?!>>> ).*\n)*)", block, flags=re.MULTILINE):
        if error := re.match(r"(?:tensorclass\.)?(\w+): (.*)", shown):
            with pytest.raises(Exception, match=re.escape(error[2].rstrip(". "))) as raised:
                eval(call, space)
            assert error[1] in [cls.__name__ for cls in type(raised.value).__mro__]
        else:
            assert without_numbers(repr(eval(call, space))) == without_numbers(shown)
