"""Do the tests of a module notice mistakes in it? ``python -m tests.mutate tensorclass/td/packing.py``.

Each mutant of the module (:mod:`tests.mutants`) runs with the tests that :mod:`tests.which` names for it and the
examples in its docstrings. The command prints how many were killed, that is, failed a test, and shows the survivors.
Those that no test can kill stand in ``tests/equal_mutants.txt`` with the reason.

    python -m tests.mutate tensorclass/td/packing.py --sample 30 --seed 1
    python -m tests.mutate tensorclass/td/packing.py --function pack
    python -m tests.mutate tensorclass/td/packing.py --replace "self._check_unlocked()" "pass"

All happens in a copy of the repository in a temporary folder, in Python alone (``TENSORCLASS_NATIVE=0``). A first run
without a mistake measures which test runs which line. A mutant runs in a fork of this process, which has imported torch
and what else the tests import, and with the tests that run its lines: a second or two for each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.which import ROOT, files_of, relative

if TYPE_CHECKING:
    import pytest

    from tests.mutants import Mutant

EQUAL = ROOT / "tests" / "equal_mutants.txt"

#: pytest's exit codes that say that a mutant was noticed: a test failed, or the module cannot be imported
_NOTICED = (1, 2, 3, 4)


# -- one run of tests, in a fork ---------------------------------------------------------------------------------------


@dataclass
class Measured:
    """What the run without a mistake found.

    Args:
        seconds: the time of each test.
        lines: the tests that run each line of the module; ``""`` stands for its import.
        modules: what was imported.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[int, list[str]] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)

    def tests(self, mutant: Mutant) -> list[str] | None:
        """Return the tests that run what a mutant changes, fastest first; ``None`` if no test does."""
        for lines in mutant.lines:
            found = {test for line in lines for test in self.lines.get(line, [])}
            if found:
                chosen = self.seconds if "" in found else found
                return sorted(chosen, key=lambda test: (test not in found, self.seconds[test]))
        return None


class _Measure:
    """Plugin of pytest: what each test runs, and for how long."""

    def __init__(self, module: Path) -> None:
        from coverage import Coverage

        self.module = module
        self.result = Measured()
        self._coverage = Coverage(data_file=None, include=[str(module)], config_file=False)
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self.result.seconds[nodeid] = -time.perf_counter()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.result.seconds[nodeid] += time.perf_counter()

    def measured(self) -> Measured:
        self._coverage.stop()
        lines = self._coverage.get_data().contexts_by_lineno(str(self.module))
        self.result.lines = {line: list(tests) for line, tests in lines.items()}
        self.result.modules = list(sys.modules)
        return self.result


class _Select:
    """Plugin of pytest: only these tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(found, key=lambda item: self.order[item.nodeid])


def _forked(work: Callable[[], int], output: Path, limit: float) -> int | None:
    """Run a function in a fork with its output in a file; return the exit code, or ``None`` if it takes too long."""
    sys.stdout.flush()
    process = os.fork()
    if not process:
        code = 3
        try:
            os.setsid()
            stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(stream, number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + limit
    try:
        while time.monotonic() < end:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                process = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        return None
    finally:
        if process:
            _kill(process)
            os.waitpid(process, 0)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it has not come to its session yet
        os.kill(process, signal.SIGKILL)


class Copy:
    """A copy of the repository, where modules can be changed.

    Args:
        folder: empty folder for the copy.
        module: path of the module, relative to the repository.
        files: its test files.
    """

    def __init__(self, folder: Path, module: str, files: list[str]) -> None:
        self.root = folder / "copy"
        self.module = self.root / module
        self.files = list(dict.fromkeys([*files, module]))
        self.output = folder / "output"
        left_out = shutil.ignore_patterns(".*", "__pycache__", "*.so", "*.pyd", "build", "dist", "node_modules")
        shutil.copytree(ROOT, self.root, ignore=left_out, symlinks=True)
        self.measured = Measured()

    def _pytest(self, plugin: object, arguments: list[str]) -> int:
        """Run pytest on the copy, in this process."""
        import pytest

        os.environ.setdefault("TENSORCLASS_TEST_DATA", str(ROOT.parent / "shared" / "data"))
        os.environ |= {"TENSORCLASS_NATIVE": "0", "PYTHONPATH": str(self.root)}
        os.chdir(self.root)
        sys.path[:] = [str(self.root), *(path for path in sys.path if path not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "tensorclass", "conftest")]:
            del sys.modules[name]
        options = ["-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header", "--tb=short"]
        options += ["--basetemp", str(self.root.parent / "t")]  # removed with the copy
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that are imported already
        return int(pytest.main([*options, *arguments], plugins=[plugin]))

    def measure(self, limit: float) -> None:
        """Run the tests without a mistake.

        Raises:
            RuntimeError: a test fails.
        """
        result = self.root.parent / "measured.json"

        def work() -> int:
            plugin = _Measure(self.module)
            code = self._pytest(plugin, self.files)
            result.write_text(json.dumps(vars(plugin.measured())))
            return code

        code = _forked(work, self.output, limit)
        if code:
            raise RuntimeError(f"the tests fail without a mistake:\n{self.output.read_text()[-3000:]}")
        if code is None:
            raise RuntimeError(f"the tests take more than {limit:.0f} s; raise --limit, or name others with --tests")
        found = json.loads(result.read_text())
        found["lines"] = {int(line): tests for line, tests in found["lines"].items()}
        self.measured = Measured(**found)
        for name in self.measured.modules:
            if name.partition(".")[0] not in ("tests", "tensorclass", "conftest", "__main__", "_pytest", "coverage"):
                with suppress(BaseException):
                    import_module(name)
        for path in self.module.parent.glob(f"__pycache__/{self.module.stem}.*"):
            path.unlink()
        sys.dont_write_bytecode = True  # of the next mutants
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        some = self.fastest()[:20]
        if _forked(lambda: self._pytest(_Select(some), self.files), self.output, limit):
            raise RuntimeError(f"the tests fail in a fork without a mistake:\n{self.output.read_text()[-3000:]}")

    def fastest(self) -> list[str]:
        """Return all tests, fastest first."""
        return sorted(self.measured.seconds, key=self.measured.seconds.__getitem__)

    def survives(self, mutant: Mutant) -> bool:
        """Return whether the tests that run the changed lines pass; all of them, if none is known to."""
        tests = self.measured.tests(mutant) or self.fastest()
        files = [file for file in self.files if any(test.startswith(f"{file}::") for test in tests)]
        self.module.write_text(mutant.after, encoding="utf-8")
        try:
            limit = 30 + 5 * sum(self.measured.seconds[test] for test in tests)
            code = _forked(lambda: self._pytest(_Select(tests), ["-x", *files]), self.output, limit)
        finally:
            self.module.write_text(mutant.before, encoding="utf-8")
        if code and code > 0 and code not in _NOTICED:
            raise RuntimeError(f"pytest ends with {code}:\n{self.output.read_text()[-3000:]}")
        return code == 0


@contextmanager
def copied(module: str, files: list[str]) -> Iterator[Copy]:
    """A copy of the repository, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        yield Copy(Path(folder), module, files)


# -- mutants that no test can kill -------------------------------------------------------------------------------------


def equal_mutants(text: str | None = None) -> dict[tuple[str, str, tuple[str, ...]], str]:
    """Return the reason for each mutant of ``tests/equal_mutants.txt``, by its key."""
    text = EQUAL.read_text(encoding="utf-8") if text is None else text
    found: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for block in re.split(r"\n{2,}", text.strip()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            path, _, function = lines[0].partition(" ")
            changes = tuple(line.strip() for line in lines[1:] if line.strip()[0] in "-+")
            reason = " ".join(line.strip()[1:].strip() for line in lines[1:] if line.strip()[0] == "=")
            found[path, function, changes] = reason
    return found


# -- the command ------------------------------------------------------------------------------------------------------


def chosen(mutants: list[Mutant], sample: int | None, seed: int, functions: list[str]) -> list[Mutant]:
    """Return the mutants to run, in the order of their lines."""
    from tests.mutants import compiles

    parts = [set(mutant.function.split(".")) | {mutant.function} for mutant in mutants]
    left = [mutant for mutant, names in zip(mutants, parts, strict=True) if not functions or names & set(functions)]
    random.Random(seed).shuffle(left)
    found = []
    for mutant in left:
        if len(found) == sample:
            break
        if compiles(mutant):
            found.append(mutant)
    return sorted(found, key=lambda mutant: mutant.lines[0].start)


def run(module: str, options: Any) -> tuple[int, int, int]:
    """Run the mutants of a module; return the number of those that ran, that survived, and that are equal."""
    from tests.mutants import mutants_of, replaced

    source = (ROOT / module).read_text(encoding="utf-8")
    if options.replace:
        mutants = [replaced(module, source, *options.replace)]
    else:
        mutants = chosen(mutants_of(module, source), options.sample, options.seed, options.function)
    equal = equal_mutants()
    counted = [mutant for mutant in mutants if mutant.key not in equal]
    survived = 0
    with copied(module, options.tests or files_of(module)) as copy:
        begin = time.monotonic()
        copy.measure(options.limit)
        files = " ".join(copy.files[:-1])
        print(f"{module}: {len(counted)} mutants, {len(copy.measured.seconds)} tests of {files}", flush=True)
        for number, mutant in enumerate(counted, 1):
            if copy.survives(mutant):
                unseen = "" if copy.measured.tests(mutant) else "    no test runs the line\n"
                survived += 1
                print(f"survived, {number} of {len(counted)}: {mutant}\n{unseen}", flush=True)
            elif options.verbose:
                print(f"killed, {number} of {len(counted)}: {mutant}", flush=True)
        print(f"{module}: {time.monotonic() - begin:.0f} s", flush=True)
    return len(counted), survived, len(mutants) - len(counted)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="path, or dotted name")
    parser.add_argument("--sample", type=int, metavar="N", help="this many mutants, drawn by chance; all by default")
    parser.add_argument("--seed", type=int, default=0, help="which are drawn")
    parser.add_argument("--function", nargs="+", default=[], metavar="NAME", help="those of functions or classes")
    parser.add_argument("--replace", nargs=2, metavar=("OLD", "NEW"), help="one mutant: a text in the place of another")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="other test files")
    parser.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds for the run without a mistake")
    parser.add_argument("--verbose", action="store_true", help="show the killed mutants, too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the copy
    try:
        modules = [f"tensorclass/{relative(name)}" for name in options.modules]
        rows = [(module, *run(module, options)) for module in modules]
    except (ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    width = max(len(module) for module, *_ in rows)
    print(f"{'module':{width}}  mutants  killed  survived    rate   equal")
    for module, count, survived, equal in rows:
        rate = (count - survived) / max(1, count)
        print(f"{module:{width}}  {count:7}  {count - survived:6}  {survived:8}  {rate:6.1%}  {equal:6}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
