"""Type checkers that read the stubs know the decorated classes of `example/shop`, as `example/facts.py` says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensorclass.cli import main

EXAMPLE = Path(__file__).with_name("example")
REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = Path(sys.executable).parent

#: the command of each checker, and what it needs to find the stubs in `typings` (it runs where `facts.py` is)
COMMANDS = {
    "pyright": ["pyright"],
    "pyrefly": ["pyrefly", "check", "--output-format=min-text", "--search-path=typings", "--search-path=."],
    "ty": ["ty", "check", "--output-format=concise", "--color=never", "--extra-search-path=typings"],
    "mypy": ["mypy"],
}
PATHS = {"pyrefly": "--search-path", "ty": "--extra-search-path"}


def mistakes() -> set[int]:
    """The lines of `facts.py` that must be reported."""
    lines = (EXAMPLE / "facts.py").read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# WRONG")}


def reported(checker: str, folder: Path) -> set[int]:
    """The lines of `facts.py` in which a checker finds an error."""
    command = [*COMMANDS[checker]]
    if checker in PATHS:
        command.append(f"{PATHS[checker]}={REPOSITORY}")
    result = subprocess.run(
        [SCRIPTS / command[0], *command[1:], "facts.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{SCRIPTS}:/usr/bin:/bin", "HOME": str(folder), "MYPYPATH": f"typings:{REPOSITORY}"},
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    errors = [line for line in result.stdout.splitlines() if re.search(r"\berror\b|^ERROR", line)]
    return {int(match.group(1)) for line in errors if (match := re.search(r"facts\.py:(\d+)", line))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "checker, out",
    [("pyright", "typings"), ("pyrefly", "typings"), ("ty", "typings"), ("mypy", "."), ("pyright", "."), ("ty", ".")],
)
def test_checkers_find_the_mistakes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checker: str, out: str
) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{REPOSITORY}"]}}')
    (tmp_path / "pyrefly.toml").write_text("")  # without it only some kinds of errors are reported
    (tmp_path / "typings").mkdir()
    assert main(["stubs", "shop", "--out", out]) == 0
    assert reported(checker, tmp_path) == mistakes()
