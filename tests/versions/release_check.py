"""Try a release before it is uploaded: ``make release-check``.

The command builds what a release uploads (``make wheels``), checks the metadata, the types and the changelog, and
installs each file in an environment of its own with nothing but PyTorch: README's example, the demo and native code run
from there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tensorclass.support.version import VERSION
from tests.versions import wheels
from tests.versions.environments import ROOT
from tests.versions.trials import readme_example


class NotReady(Exception):
    """A check failed; the message says which and why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Its exit code is 1 if a check failed."""
    parser = argparse.ArgumentParser(
        "make release-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER", help="of the files (default: dist)")
    parser.add_argument("--environment", action="append", metavar="NAME", help="as for `make wheels`")
    options = parser.parse_args(arguments)
    wrong = 0
    for name, check in checks(options.to.resolve(), wheels.pythons(options.environment or [])):
        try:
            print(f"{name}: {check()}", flush=True)
        except NotReady as error:
            wrong += 1
            print(f"{name}: FAILS: {error}", flush=True)
    return 1 if wrong else 0


def checks(target: Path, pythons: Sequence[Path]) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks of a release, in order, with their names."""
    yield "version", version
    yield "changelog", changelog
    yield "build", lambda: ", ".join([file.name for file in wheels.build(target, pythons)])
    yield "metadata", lambda: metadata(target)
    yield "types", types
    for python in pythons:
        for file in sorted([*target.glob("tensorclass-*")]):
            yield f"{file.name} in {python.parent.parent.name}", lambda f=file, p=python: installed(f, target, p)  # type: ignore[misc]


def version() -> str:
    """Check that the version stands in one place."""
    named = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "pyproject.toml", ROOT / "native" / "pyproject.toml", ROOT / "docs" / "conf.py")
        if re.search(rf'version = "{re.escape(VERSION)}"', path.read_text(encoding="utf-8"))
    ]
    if named:
        raise NotReady(f"{', '.join(named)}: the version is written again; it stands in tensorclass/support/version.py")
    return VERSION


def changelog() -> str:
    """Check that the changelog has a section for the version, or unreleased changes that will become one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\](.*)$", text, flags=re.MULTILINE)
    for name, rest in sections:
        if name == VERSION:
            if not re.search(r"\d{4}-\d{2}-\d{2}", rest):
                raise NotReady(f"CHANGELOG.md: [{VERSION}] has no date")
            return f"[{VERSION}]{rest}"
    if sections and sections[0][0] == "Unreleased" and re.search(r"\[Unreleased\][^\[]*\n- ", text):
        return f"unreleased changes; [{VERSION}] gets its section with the date of the release"
    raise NotReady(f"CHANGELOG.md: expected a section [{VERSION}] or [Unreleased] with changes")


def metadata(target: Path) -> str:
    """Check the metadata as the index does (``twine check``), and what the archives hold."""
    done = _run([sys.executable, "-m", "twine", "check", "--strict", *target.iterdir()])
    [wheel] = target.glob("tensorclass-*-py3-none-any.whl")
    names = _run([sys.executable, "-m", "zipfile", "-l", wheel])
    for needed in ("tensorclass/py.typed", "tensorclass/td/native/source/module.cpp", "tensorclass-stubs/__init__.pyi"):
        if needed not in names:
            raise NotReady(f"{wheel.name} lacks {needed}")
    return f"{done.count('PASSED')} files pass"


def types() -> str:
    """Check that every exported symbol has a known type (``pyright --verifytypes``)."""
    _run([sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/typing/test_completeness.py"])
    return "pyright --verifytypes: all exported symbols, of the sources and of the stubs, have a known type"


def installed(file: Path, target: Path, python: Path) -> str:
    """Install a file in an environment with nothing but PyTorch, and run README's example, the demo and native code."""
    with tempfile.TemporaryDirectory(prefix="tensorclass-release-") as name:
        place = Path(name)
        base = _run([python, "-c", "import sys; print(sys.base_prefix)"]).strip()
        _run([Path(base, "bin", python.resolve().name), "-m", "venv", place / "env"])
        runs = place / "env" / "bin" / "python"
        [site] = place.glob("env/lib/python3.*/site-packages")
        _lend_torch(python, site)
        requirement = f"{file}[typing,scores]"  # what README and the demo import
        _run([runs, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement])
        for native in target.glob(f"tensorclass_native-*-{_tag(runs)}-*.whl"):
            _run([runs, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", native])
        code, expected = readme_example((ROOT / "README.md").read_text(encoding="utf-8"))
        (place / "readme.py").write_text(code, encoding="utf-8")
        shutil.copy(ROOT / "examples" / "demo.py", place)
        shutil.copytree(ROOT / "examples" / "data", place / "data")
        printed = _silent([runs, "readme.py"], place)
        if printed.split() != expected.split():
            raise NotReady(f"README's example prints {printed!r}")
        _silent([runs, "demo.py", "scores.png"], place)
        state = _silent([runs, "-m", "tensorclass", "native"], place).splitlines()
        if state[0] != "native code: on":
            raise NotReady(state[0])
        return f"README, demo; {state[0]}, {state[-1]}"


def _tag(python: Path) -> str:
    return _run([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"]).strip()


def _lend_torch(python: Path, site: Path) -> None:
    """Let an environment have the PyTorch of another one, and what PyTorch needs, but no other package of it.

    Installing it again would take minutes and gigabytes.
    """
    lent = {"torch", "torchgen", "functorch", "nvidia", "triton"}
    code = "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"
    there = Path(_run([python, "-c", code]).strip())
    for item in there.iterdir():
        if item.name in lent or item.name.startswith("torch-"):
            (site / item.name).symlink_to(item)


def _run(command: Sequence[str | Path], may_fail: bool = False) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TENSORCLASS"))}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise NotReady(f"{' '.join(map(str, command[:6]))} ...: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def _silent(command: Sequence[str | Path], place: Path) -> str:
    """Run a program that must succeed and write nothing to standard error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TENSORCLASS"))}
    done = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True)
    if done.returncode or done.stderr.strip():
        raise NotReady(f"{' '.join(map(str, command[1:]))}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
