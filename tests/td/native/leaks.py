"""Objects that operations leave behind: ``python -m tests.td.native.leaks --repeats 50``.

Each operation of the searches runs several times on the same forms of collections, also where it ends in an error. The
number of objects that the garbage collector knows, and of blocks of memory that Python has taken, may not grow with the
runs. Under the sanitizers (:mod:`tests.td.native.sanitizers`) memory that nobody refers to is reported, too.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from tests.native_code import native_code
from tests.td.native.intruder import Intruder
from tests.td.native.reentrancy import HOOKS, ONE, TWO, WHOLE
from tests.td.native.test_native_comparison import COLLECTIONS, OPERATIONS

#: a leak shows in every round; dicts and caches of the interpreter that grow when things are new do not
ROUNDS = 40


def runs() -> dict[str, Callable[[], object]]:
    """All operations, each with collections of its own."""
    found: dict[str, Callable[[], object]] = {}
    for form, table in itertools.product(WHOLE, (ONE, TWO, HOOKS)):
        for name, operation in table.items():
            found[f"{name} of {form}"] = lambda form=form, table=table, operation=operation: _run(  # type: ignore[misc]
                form, table is TWO, table is HOOKS, operation
            )
    for turn, (kind, build) in enumerate(COLLECTIONS.items()):
        for name, operation in itertools.islice(OPERATIONS.items(), turn % 3, None, 3):
            found[f"{name} of {kind}"] = lambda build=build, operation=operation: operation(build())  # type: ignore[misc]
    return found


def _run(form: str, two: bool, hook: bool, operation: Callable[..., Any]) -> None:
    intruder = Intruder("leaks")
    collections = [intruder.collection(form) for _ in range(1 + two)]
    operation(*collections, *([intruder] if hook else []))


def _held() -> tuple[int, int]:
    """The number of objects that the collector knows, and of blocks that Python has taken."""
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def growth(run: Callable[[], object], repeats: int) -> tuple[int, int]:
    """By how many objects and blocks a number of runs grows what is held: the least of some rounds."""
    least = (sys.maxsize, sys.maxsize)
    before = _held()
    for _ in range(ROUNDS):
        for _ in range(repeats):
            with suppress(Exception):
                run()
        after = _held()
        least = min(least[0], after[0] - before[0]), min(least[1], after[1] - before[1])
        if least[0] < repeats and least[1] < repeats:
            break
        before = after
    return least


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--native", type=int, choices=(0, 1), default=1, help="with native code or without")
    parser.add_argument("--only", default="", help="operations with this text")
    parser.add_argument("--every", type=int, default=1, help="one operation of so many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wrong: dict[str, tuple[int, int]] = {}
    chosen = [name for name in runs() if options.only in name][:: options.every]
    everything = runs()
    with native_code(bool(options.native)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in chosen:
            with suppress(Exception):
                everything[name]()
        gc.collect()
        gc.freeze()
        for name in chosen:
            objects, blocks = growth(everything[name], options.repeats)
            if objects >= options.repeats or blocks >= options.repeats:
                wrong[name] = (objects, blocks)
                print(f"{name}: {objects} objects and {blocks} blocks more after {options.repeats} runs", flush=True)
    print(json.dumps({"operations": len(chosen), "wrong": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
