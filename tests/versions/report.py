"""The rows of ``make versions``: kept as JSON, printed as a table, failures grouped by their cause."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from tests.versions.environments import ROOT, Environment
from tests.versions.trials import TRIALS, Outcome

HEADINGS = (
    "Python",
    "torch",
    "packages",
    "README",
    "demo",
    "native code",
    "tests in Python",
    "tests with native",
    "run",
)

Row = dict[str, Any]


def save(rows: Path, environment: Environment, outcomes: Mapping[str, Outcome], tests: str) -> Row:
    """Keep the outcomes of an environment; those of trials that did not run this time stay, with their dates."""
    file = rows / f"{environment.name}.json"
    before: Row = json.loads(file.read_text()) if file.exists() else {"trials": {}}
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    for name, outcome in outcomes.items():
        run = {"date": date.today().isoformat(), "commit": commit, "tests": tests if "tests" in name else ""}
        before["trials"][name] = asdict(outcome) | run
    version = environment.run("-c", "import platform; print(platform.python_version())", stdout=subprocess.PIPE)
    before |= {
        "name": environment.name,
        "python": version.stdout.strip(),
        "torch": environment.version("torch"),
        "packages": environment.installed_packages,
    }
    rows.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(before, indent=1))
    return before


def load_rows(rows: Path) -> list[Row]:
    """Return all rows that were kept, by versions."""
    found = [json.loads(file.read_text()) for file in rows.glob("*.json")]

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)]

    return sorted(found, key=lambda row: (numbers(row["python"]), numbers(row["torch"]), row["packages"]))


def row(found: Row) -> str:
    """Return a row of the table."""
    cells = [found["python"], found["torch"], found["packages"]]
    for name in TRIALS:
        trial = found["trials"].get(name)
        part = " (a part of the suite)" if trial and trial["tests"] not in ("", "-n 2") else ""
        cells.append(f"{trial['summary']}{part}".replace("|", r"\|") if trial else "not run")
    cells.append(", ".join(sorted({f"{trial['date']} {trial['commit']}" for trial in found["trials"].values()})))
    return f"| {' | '.join(cells)} |"


def table(rows: list[Row]) -> str:
    """Return the table of docs/installation.md."""
    return "\n".join([f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}", *map(row, rows)])


def cause(message: str) -> str:
    """Return an error's message without what differs from test to test.

    >>> cause("ValueError: expected [3] at 0x7f00, got 'left'")
    "ValueError: expected [#] at #, got '...'"
    """
    message = re.sub(r"0x[0-9a-f]+|\d+", "#", message)
    return re.sub(r"'[^']*'", "'...'", message)[:160]


def failures_by_cause(found: Row, names: Iterable[str]) -> str:
    """Return the failures of trials as Markdown: each cause with its number of tests and the first of them."""
    lines: list[str] = []
    for name in names:
        trial = found["trials"][name]
        groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for test, message in trial["failures"].items():
            groups[cause(message)].append((test, message))
        if groups or not trial["good"]:
            lines.append(f"\n### {found['name']}: {name}: {trial['summary']}\n")
        if not trial["good"] and not groups and trial["details"]:
            lines.append(f"```text\n{trial['details'].strip()[-1500:]}\n```")
        for tests in sorted(groups.values(), key=len, reverse=True):
            test, message = tests[0]
            lines.append(f"- {len(tests)} tests: `{message[:300]}`\n  first: `{test}`")
    return "\n".join(lines)


def fill(page: Path, text: str) -> None:
    """Replace what stands between ``<!-- versions -->`` and ``<!-- end of versions -->`` of a page.

    Raises:
        ValueError: the page has no such comments.
    """
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(r"(<!-- versions -->\n).*?(\n<!-- end of versions -->)", re.DOTALL)
    if not pattern.search(before):
        raise ValueError(f"{page}: expected a table between <!-- versions --> and <!-- end of versions -->")
    page.write_text(pattern.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", before), encoding="utf-8")
