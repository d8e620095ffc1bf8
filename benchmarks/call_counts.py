"""`python -m benchmarks.call_counts [--write | --check]`: how many calls the package makes for each workload.

Counts do not depend on the load of the machine, so a test compares them with those in `call_counts.json`, which it does
not do with times. A count that grows is a slower workload, before anybody measures it. Calls are those of functions
that are written in Python, and of functions and methods of torch, as `sys.setprofile` reports them; operators,
attributes and what torch itself calls in C++ are not among them. Native code is off,
so that all machines count the same.
"""

import argparse
import gc
import json
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from benchmarks.modes import in_python
from benchmarks.timing import Call
from benchmarks.workloads import WORKLOADS
from tensorclass.td import native

STORED = Path(__file__).with_suffix(".json")


class Counts(NamedTuple):
    """Calls of one run of a workload."""

    python: int
    torch: int


def versions() -> dict[str, str]:
    """The versions that counts depend on."""
    return {"python": ".".join(platform.python_version_tuple()[:2]), "torch": torch.__version__.partition("+")[0]}


def count(call: Call) -> Counts:
    """Count the calls of one run, after runs that fill caches: the fewest of three."""
    for _ in range(3):
        call()
    with _no_collection():
        return min(_counted(call) for _ in range(3))


def stored() -> tuple[dict[str, str], dict[str, Counts]]:
    """Return the versions and the counts of the file."""
    document = json.loads(STORED.read_text())
    return document["versions"], {name: Counts(*counts) for name, counts in document["counts"].items()}


def growth(name: str, before: Counts, now: Counts) -> str:
    """Describe a count that has grown by more than a tenth and two calls; empty for one that has not."""
    grown = [
        f"{kind} {old} -> {new}"
        for kind, old, new in zip(Counts._fields, before, now, strict=True)
        if new > old * 1.1 + 2
    ]
    return f"{name}: calls of {', of '.join(grown)}" if grown else ""


def _counted(call: Call) -> Counts:
    python = of_torch = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal python, of_torch
        if event == "call":
            python += 1
        elif event == "c_call" and _is_of_torch(argument):
            of_torch += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Counts(python, of_torch)


def _is_of_torch(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor):
        return True
    named = owner if isinstance(owner, type) else type(owner)
    module = getattr(function, "__module__", None) or named.__module__ or ""
    return module.startswith("torch") or named.__module__.startswith("torch")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep finalizers of other objects out of the counts."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check(found: dict[str, Counts]) -> int:
    """Print what has grown, and what is not stored. Return the exit status."""
    made_with, before = stored()
    if made_with != versions():
        print(f"counts are stored for {made_with}, and this is {versions()}")
        return 0
    if set(before) != set(found):
        print(
            f"other workloads than stored: {sorted(set(before) ^ set(found))}; python -m benchmarks.call_counts --write"
        )
        return 1
    grown = [text for name, now in found.items() if (text := growth(name, before[name], now))]
    for text in grown:
        print(text)
    if grown:
        print("If that is meant to be: python -m benchmarks.call_counts --write")
    return 1 if grown else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.call_counts", description="Calls a workload, beside the stored.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="store the counts")
    what.add_argument("--check", action="store_true", help="fail if counts have grown")
    options = parser.parse_args()
    if not native.WHY_OFF:  # methods would ask for it
        print(in_python("benchmarks.call_counts", *sys.argv[1:]), end="")
        return 0
    found = {workload.name: count(workload.ours()) for workload in WORKLOADS}
    if options.check:
        return _check(found)
    if options.write:
        lines = [f"    {json.dumps(name)}: {json.dumps(counts)}" for name, counts in found.items()]
        STORED.write_text(
            f'{{\n  "versions": {json.dumps(versions())},\n  "counts": {{\n' + ",\n".join(lines) + "\n  }\n}\n"
        )
        print(f"{len(found)} workloads written to {STORED}")
        return 0
    _, before = stored()
    for name, now in found.items():
        old = before.get(name)
        mark = "  new" if old is None else "" if now == old else f"  was {old.python} {old.torch}"
        print(f"{name:60}{now.python:8}{now.torch:8}{mark}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
