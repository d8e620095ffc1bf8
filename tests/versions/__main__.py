"""Try the package on a Python and a PyTorch: ``make versions ARGS="--python 3.12 --torch 2.15"``.

The command makes an environment, installs the wheel of the checkout with its extras, and runs README's example, the
demo, ``tensorclass native --build``, and the tests in Python alone and with native code. It prints a row of the table
in docs/installation.md, and keeps it, with all failures, in the folder of the environments.

Environments stay for the next run: ``--fresh`` makes one anew. They take some 3 GB each. CUDA libraries, another 3 GB,
are installed once for all of them. The folder is ``TENSORCLASS_VERSIONS``, or ``~/.cache/tensorclass-versions``.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.versions.environments import CHOICES, Environment, Failed, folder
from tests.versions.report import failures_by_cause, fill, load_rows, save, table
from tests.versions.trials import TRIALS, Outcome, copy_checkout

PAGE = Path(__file__).parents[2] / "docs" / "installation.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Its exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(
        "make versions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    running = ".".join(platform.python_version_tuple()[:2])
    parser.add_argument("--python", default=running, help=f"version of Python (default: {running})")
    parser.add_argument("--torch", help="version of PyTorch (default: as the packages)")
    bounds = parser.add_mutually_exclusive_group()
    for name, meaning in CHOICES.items():
        bounds.add_argument(f"--{name}", dest="packages", action="store_const", const=name, help=meaning)
    parser.add_argument("--only", action="append", choices=list(TRIALS), help="run this alone; may be repeated")
    parser.add_argument("--tests", default="", metavar="ARGS", help='for pytest: --tests "tests/records -k stack"')
    parser.add_argument("--fresh", action="store_true", help="make the environment anew")
    parser.add_argument("--list", action="store_true", help="print the table of all rows so far")
    parser.add_argument("--page", action="store_true", help=f"write the table of all rows to {PAGE.name}")
    options = parser.parse_args(arguments)
    if options.list or options.page:
        text = table(load_rows(folder() / "rows"))
        print(text)
        if options.page:
            fill(PAGE, text)
        return 0
    try:
        environment = Environment(options.python, options.torch, options.packages or "pinned")
        environment.prepare(fresh=options.fresh)
        tree = copy_checkout(environment)
    except Failed as error:
        print(f"make versions: {error}", file=sys.stderr)
        return 2
    outcomes: dict[str, Outcome] = {}
    for name, trial in TRIALS.items():
        if options.only and name not in options.only:
            continue
        print(f"== {environment.name}: {name}", flush=True)
        outcome = outcomes[name] = trial(environment, tree, shlex.split(options.tests))
        print(f"   {outcome.summary}", flush=True)
    found = save(folder() / "rows", environment, outcomes, options.tests)
    print(failures_by_cause(found, outcomes))
    print(table([found]))
    return 1 if any(not outcome.good for outcome in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
