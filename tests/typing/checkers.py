"""The four type checkers: how each is run on a project as its users have one, and what it reports."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
PYTHON = "3.10"  # the oldest that the package promises

#: where mypy keeps what it knows of torch, with the plugin of the package and without
CACHE = REPOSITORY / "build" / "types" / "mypy"
PLUGIN = Path(__file__).with_name("switched_plugin.py")
#: node's default of 16 MB for new objects has it collect garbage for an eighth of pyright's time
NODE = {"NODE_OPTIONS": "--max-semi-space-size=128"}

CHECKERS = ("mypy", "pyright", "pyrefly", "ty")


@dataclass(frozen=True)
class Report:
    """What a checker reports of one line."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Outcome:
    """The reports of one run; `failure` holds the reason where the checker could not run."""

    reports: tuple[Report, ...] = ()
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True)
class Project:
    """A user's project: a folder of modules with a `pyproject.toml`, and an environment that holds the package.

    Args:
        folder: where the modules are.
        inline: the types are read from the package itself, not from the stubs that are shipped with it.
        decorated: it has decorated classes: mypy takes the plugin then, the others the stubs in `typings`.
    """

    folder: Path
    inline: bool = False
    decorated: bool = False

    @property
    def environment(self) -> Path:
        return self.folder / ".venv"

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    def install(self) -> None:
        """Makes the environment: that of this process, with the package as a wheel would install it.

        Where a package comes from decides what checkers read of it, so a search path would not show what users see.
        """
        shutil.rmtree(self.environment, ignore_errors=True)
        site = self.environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        site.mkdir(parents=True)
        self.python.parent.mkdir()
        for name in ("python", "python3"):
            self.python.with_name(name).symlink_to(Path(sys.executable).resolve())
        home = Path(sys.executable).resolve().parent
        (self.environment / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.startswith(("tensorclass", "__editable__")) and entry.suffix != ".pth":
                (site / entry.name).symlink_to(entry)
        # a copy: where pyright verifies a package, it looks past links
        shutil.copytree(REPOSITORY / "tensorclass", site / "tensorclass", ignore=shutil.ignore_patterns("__pycache__"))
        stubs = REPOSITORY / "stubs" / "tensorclass-stubs"
        if stubs.is_dir() and not self.inline:
            shutil.copytree(stubs, site / stubs.name)


def settings(*, decorated: bool = False) -> str:
    """The `pyproject.toml` of a project that is checked as strictly as can be, with decorated classes or without."""
    # in the corpus expressions stand alone, and comparisons have no purpose
    return f"""\
[tool.mypy]
strict = true
python_version = "{PYTHON}"
plugins = ["{PLUGIN}"]

[tool.pyright]
typeCheckingMode = "strict"
pythonVersion = "{PYTHON}"
venvPath = "."
venv = ".venv"
reportUnusedExpression = false
reportUnnecessaryComparison = false

[tool.pyrefly]
python-version = "{PYTHON}.0"
{'search-path = ["typings", "."]' if decorated else ""}

[tool.ty.environment]
python-version = "{PYTHON}"
{'extra-paths = ["typings"]' if decorated else ""}
"""


def check(checker: str, project: Project, files: Sequence[str]) -> Outcome:
    """Runs a checker on files of a project: the command is the one that its users type."""
    return {"mypy": _mypy, "pyright": _pyright, "pyrefly": _pyrefly, "ty": _ty}[checker](project, files)


def _run(
    project: Project, command: Iterable[object], parse: Callable[[str], Iterable[Report]], **environment: str
) -> Outcome:
    start = time.perf_counter()
    done = subprocess.run(
        [str(part) for part in command],
        cwd=project.folder,
        env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **environment},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    reports: tuple[Report, ...] = ()
    failure = ""
    try:
        reports = tuple(parse(done.stdout))
    except (ValueError, KeyError) as error:
        failure = repr(error)
    if done.returncode > 1 or (done.returncode == 1 and not reports) or failure:  # 1 says that there are errors
        failure = f"exit code {done.returncode} {failure}\n{done.stderr}\n{done.stdout}"
    return Outcome(reports, seconds, failure)


def _mypy(project: Project, files: Sequence[str]) -> Outcome:
    # what decides whether a cache is read is the same for all projects, whatever their settings say
    options = ["--python-version", PYTHON, "--cache-fine-grained", "--cache-dir", CACHE]
    options += ["--python-executable", project.python, "--output", "json"]

    def parse(output: str) -> Iterable[Report]:
        for line in filter(None, output.splitlines()):  # one that is empty, where there is nothing to report
            found = json.loads(line)
            if found["severity"] == "error":
                yield Report(Path(found["file"]).name, found["line"], found["message"])

    environment = {"PYTHONPATH": str(REPOSITORY), "TENSORCLASS_PLUGIN": str(int(project.decorated))}
    return _run(project, [SCRIPTS / "mypy", *options, *files], parse, **environment)


def _pyright(project: Project, files: Sequence[str]) -> Outcome:
    def parse(output: str) -> Iterable[Report]:
        for found in json.loads(output)["generalDiagnostics"]:
            if found["severity"] == "error" and Path(found["file"]).name in files:
                yield Report(Path(found["file"]).name, found["range"]["start"]["line"] + 1, found["message"])

    return _run(project, [SCRIPTS / "pyright", "--outputjson"], parse, **NODE)


def _pyrefly(project: Project, files: Sequence[str]) -> Outcome:
    options = ["--python-interpreter-path", project.python, "--output-format", "json"]

    def parse(output: str) -> Iterable[Report]:
        for found in json.loads(output)["errors"]:
            if found["severity"] == "error":
                yield Report(Path(found["path"]).name, found["line"], found["description"])

    return _run(project, [SCRIPTS / "pyrefly", "check", *options, *files], parse)


def _ty(project: Project, files: Sequence[str]) -> Outcome:
    options = ["--python", project.environment, "--output-format", "concise", "--color", "never"]

    def parse(output: str) -> Iterable[Report]:
        for found in re.finditer(r"^(\S+?):(\d+):\d+: error\[\S+\] (.*)$", output, re.MULTILINE):
            yield Report(Path(found[1]).name, int(found[2]), found[3])

    return _run(project, [SCRIPTS / "ty", "check", *options, *files], parse)
