"""The searches that take long, one after the other: ``python -m tests.long`` (``make test-long``).

Each is a command of its own, of which the suite runs a sample. ``--list`` shows the commands, ``--only`` picks some.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time

#: modules of :mod:`tests` with their arguments
COMMANDS: tuple[str, ...] = (
    "tests.scores.simulate --comparisons 100000",
    "tests.scores.hostile_files --all",
    "tests.storage.bombs --check",
    "tests.storage.special_files",
    "tests.storage.notes",
    "tests.storage.writers --rounds 1000",
    "tests.storage.interrupts --all",
    "tests.storage.kills --kills 1000 --readers 1",
    "tests.storage.fuzz --files 100000",
    "tests.td.native.reentrancy --count 200000",
    "tests.td.native.threads --seconds 600",
    "tests.td.native.threads --standing",
    "tests.td.native.leaks",
    "tests.distributed.interrupts --all",
    "tests.distributed.interrupted_groups --all",
    "tests.distributed.hostile",
    "tests.distributed.faults --rounds 500",
    "tests.distributed.killed --rounds 10",
    "tests.takers",
)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the commands")
    parser.add_argument("--only", default="", help="commands with this text")
    options = parser.parse_args()
    failed: list[str] = []
    for command in COMMANDS:
        if options.only not in command:
            continue
        if options.list:
            print(f"python -m {command}")
            continue
        print(f"== python -m {command}", flush=True)
        begin = time.monotonic()
        code = subprocess.run([sys.executable, "-m", *shlex.split(command)]).returncode
        print(f"== exit code {code} after {time.monotonic() - begin:.0f} s", flush=True)
        if code:
            failed.append(command)
    for command in failed:
        print(f"failed: python -m {command}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
