"""Runs each type checker on the package and prints a table: checker, errors, seconds.

    python tests/typing/checkers.py [--verbose]

mypy and pyright must find nothing: the exit code is 1 where one of them finds an error or fails to run. The others are
listed to see how the package looks to their users.
"""

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Checker:
    """A command (its settings are in pyproject.toml) and what a line that reports an error looks like."""

    name: str
    command: tuple[str, ...]
    error_line: str
    must_pass: bool


@dataclass(frozen=True)
class Outcome:
    """What a checker said; `failure` holds the reason where it could not run."""

    checker: Checker
    errors: tuple[str, ...]
    seconds: float
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.errors and not self.failure


CHECKERS = (
    Checker("mypy", ("mypy",), r"^\S+: error: ", must_pass=True),
    Checker("pyright", ("pyright", "--project", "pyproject.toml"), r"^\s+\S+ - error: ", must_pass=True),
    Checker("pyrefly", ("pyrefly", "check", "--output-format=min-text"), r"^ERROR ", must_pass=False),
    Checker("ty", ("ty", "check", "--output-format=concise", "--color=never"), r"^\S+: error\[", must_pass=False),
)


def run(checker: Checker) -> Outcome:
    """Runs `checker` on the package. An exit code above 1 is the checker's own failure, not a finding."""
    program, *arguments = checker.command
    start = time.perf_counter()
    done = subprocess.run([SCRIPTS / program, *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    errors = tuple(line.strip() for line in done.stdout.splitlines() if re.match(checker.error_line, line))
    failure = ""
    if done.returncode > 1 or (done.returncode == 1 and not errors):
        failure = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
    return Outcome(checker, errors, seconds, failure)


def table(outcomes: list[Outcome]) -> str:
    """One line a checker, in the order they ran."""
    lines = [f"{'checker':<10}{'errors':>8}{'seconds':>10}   must be 0"]
    for outcome in outcomes:
        errors = "failed" if outcome.failure else str(len(outcome.errors))
        required = "yes" if outcome.checker.must_pass else "no"
        lines.append(f"{outcome.checker.name:<10}{errors:>8}{outcome.seconds:>10.1f}   {required}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Type errors in the package, by checker.")
    parser.add_argument("--verbose", action="store_true", help="print every error of every checker")
    verbose: bool = parser.parse_args().verbose

    outcomes = [run(checker) for checker in CHECKERS]
    print(table(outcomes))
    failed = [outcome for outcome in outcomes if outcome.checker.must_pass and not outcome.passed]
    for outcome in outcomes:
        for line in [*(outcome.errors if verbose else ()), *filter(None, [outcome.failure])]:
            print(f"{outcome.checker.name}: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
