"""What ``make versions`` runs in an environment: README's example, the demo, the build of native code, the tests."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.versions.environments import ROOT, Environment

#: seconds after which a program or a run of the tests is ended
LIMIT, LIMIT_OF_TESTS = 900, 3 * 3600

#: tests of what is not installed here: type checkers and the site
WITHOUT = ("tests/typing", "tests/site", "tensorclass/typing/mypy_plugin.py")


@dataclass
class Outcome:
    """The result of one trial.

    Attributes:
        good: nothing failed and nothing warned.
        summary: one line for the table.
        failures: names of tests with the first line of their error.
        details: what else is worth keeping, such as the end of an output.
    """

    good: bool
    summary: str
    failures: dict[str, str] = field(default_factory=dict)
    details: str = ""


def copy_checkout(environment: Environment) -> Path:
    """Copy the checkout beside the environment, with the installed package in the place of its own.

    Tests read the sources and the pages of the checkout they run in; the package in it has to be the wheel's.
    """
    tree = environment.path / "checkout"
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file() and not name.startswith("tensorclass/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    (tree / "tensorclass").symlink_to(environment.site_packages / "tensorclass")
    shared = environment.path / "shared"  # results and lists of names that some tests compare with
    shared.unlink(missing_ok=True)
    shared.symlink_to(ROOT.parent / "shared")
    return tree


def ended(code: int) -> str:
    """Say how a process ended that failed.

    >>> ended(-11), ended(1)
    ('ended by SIGSEGV', 'exit code 1')
    """
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_line(text: str) -> str:
    """Return the last line with text, which names the error in a traceback."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def in_empty_folder(environment: Environment, *arguments: str | Path, native: str = "0") -> Outcome:
    """Run a program outside of the checkout; it must succeed and write nothing to standard error."""
    empty = environment.path / "empty"
    shutil.rmtree(empty, ignore_errors=True)
    empty.mkdir()
    try:
        done = environment.run(
            *arguments, cwd=empty, env={"TENSORCLASS_NATIVE": native}, capture_output=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return Outcome(False, f"fails: not done after {LIMIT} s")
    if done.returncode:
        return Outcome(False, f"fails: {ended(done.returncode)}: {last_line(done.stderr)}", details=done.stderr[-4000:])
    if done.stderr.strip():
        warning = next((line for line in done.stderr.splitlines() if "Warning" in line), last_line(done.stderr))
        return Outcome(False, f"warns: {warning.strip()}", details=done.stderr[-4000:])
    return Outcome(True, "works", details=done.stdout)


def readme_example(page: str) -> tuple[str, str]:
    """Return README's first example, and the output that README shows behind it."""
    found = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", page, flags=re.DOTALL)
    if not found:
        raise ValueError("README.md: expected a block ```python with a block ```text behind it")
    return found[1], found[2]


def run_readme(environment: Environment, tree: Path, native: str = "0") -> Outcome:
    """Run README's example and compare its output."""
    code, expected = readme_example((tree / "README.md").read_text(encoding="utf-8"))
    script = environment.path / "readme.py"
    script.write_text(code, encoding="utf-8")
    outcome = in_empty_folder(environment, script, native=native)
    if outcome.good and outcome.details.split() != expected.split():
        return Outcome(False, f"prints {outcome.details.strip()!r}, README has {expected.strip()!r}")
    return outcome


def try_readme(environment: Environment, tree: Path, _: Sequence[str]) -> Outcome:
    """README's example, without native code."""
    return run_readme(environment, tree)


def try_demo(environment: Environment, tree: Path, _: Sequence[str]) -> Outcome:
    """``make demo``, without native code."""
    outcome = in_empty_folder(environment, tree / "examples" / "demo.py", "scores.png")
    if outcome.good and not (environment.path / "empty" / "scores.png").exists():
        return Outcome(False, "fails: no picture was written", details=outcome.details)
    return outcome


def try_native(environment: Environment, tree: Path, _: Sequence[str]) -> Outcome:
    """Build native code, load it, and run README's example with it."""
    remove_native(environment)
    begin = time.monotonic()
    built = in_empty_folder(environment, "-m", "tensorclass", "native", "--build")
    seconds = time.monotonic() - begin
    gigabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20  # Linux counts in KiB
    if built.summary.startswith("fails"):
        return Outcome(False, f"does not build: {built.summary}", details=built.details)
    check = "from tensorclass.td import native; assert native.ON, native.WHY_OFF"
    loaded = in_empty_folder(environment, "-c", check, native="1")
    outcome = run_readme(environment, tree, native="1") if loaded.good else loaded
    if not outcome.good:
        remove_native(environment)  # the import of the package may crash with it
        return Outcome(False, f"builds; then {outcome.summary}", details=outcome.details)
    return Outcome(built.good, f"{built.summary}: built in {seconds:.0f} s, {gigabytes:.1f} GB", details=built.details)


def remove_native(environment: Environment) -> None:
    """Remove what a build left, without running the package, which may crash."""
    for file in environment.site_packages.glob("tensorclass/td/native/_native_torch_*"):
        file.unlink()


def native_is_built(environment: Environment) -> bool:
    """Say whether a build succeeded here since the wheel was installed."""
    return any(environment.site_packages.glob("tensorclass/td/native/_native_torch_*"))


def run_tests(environment: Environment, tree: Path, arguments: Sequence[str], native: str) -> Outcome:
    """Run the tests in the copy of the checkout."""
    report = environment.path / f"tests-{native}.xml"
    report.unlink(missing_ok=True)
    output = environment.path / f"tests-{native}.log"
    jobs = [] if any(argument.startswith("-n") for argument in arguments) else ["-n", "auto"]
    left_out = [f"--ignore={name}" for name in WITHOUT]
    command = ["-m", "pytest", "-v", *jobs, "--dist", "loadgroup", f"--junitxml={report}", *left_out, *arguments]
    with output.open("w") as log:
        try:
            code = environment.run(
                *command,
                cwd=tree,
                env={"TENSORCLASS_NATIVE": native},
                stdout=log,
                stderr=log,
                timeout=LIMIT_OF_TESTS,
            ).returncode
        except subprocess.TimeoutExpired:
            return Outcome(False, f"fails: not done after {LIMIT_OF_TESTS} s")
    text = output.read_text(errors="replace")
    if not report.exists():
        return Outcome(False, f"pytest stops: {ended(code)}: {last_line(text)}", details=text[-4000:])
    passed, failures = read_report(report)
    if not passed and not failures:
        return Outcome(False, f"no test ran: {last_line(text)}", details=text[-4000:])
    summary = f"{passed:,} pass" if not failures else f"{len(failures):,} of {passed + len(failures):,} fail"
    return Outcome(code == 0, summary, failures)


def read_report(report: Path) -> tuple[int, dict[str, str]]:
    """Return the number of passed tests, and the error of each that failed, from pytest's file of JUnit's format."""
    passed, failures = 0, {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        wrong = [child for child in case if child.tag in ("failure", "error")]
        if wrong:
            lines = (wrong[0].get("message") or wrong[0].text or "").strip().splitlines()
            failures[f"{case.get('classname')}::{case.get('name')}"] = lines[0] if lines else "no message"
        elif case.find("skipped") is None:
            passed += 1
    return passed, failures


def try_python_tests(environment: Environment, tree: Path, arguments: Sequence[str]) -> Outcome:
    """The tests in Python alone."""
    return run_tests(environment, tree, arguments, "0")


def try_native_tests(environment: Environment, tree: Path, arguments: Sequence[str]) -> Outcome:
    """The tests with native code."""
    if not native_is_built(environment):
        return Outcome(False, "not run: native code is not built")
    return run_tests(environment, tree, arguments, "1")


#: the trials of a row, in their order
TRIALS: dict[str, Callable[[Environment, Path, Sequence[str]], Outcome]] = {
    "README": try_readme,
    "demo": try_demo,
    "native": try_native,
    "tests": try_python_tests,
    "native-tests": try_native_tests,
}
