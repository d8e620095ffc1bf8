"""Ctrl-C at lines of what ranks do together: ``python -m tests.distributed.interrupted_groups --samples 50``.

Two ranks of gloo take part in a call in a group of its own; one of them is interrupted before a line of the package.
That one raises ``KeyboardInterrupt``, and the other has its result, or an error of :mod:`tensorclass.distributed`.
When the group is destroyed, no descriptor, thread, segment or handler is left on either.
"""

from __future__ import annotations

import argparse
import gc
import random
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tensorclass import TensorDict
from tensorclass.distributed import RecordsDiffer, WorkerError
from tensorclass.distributed.messages import point_to_point
from tests.distributed.interrupts import left_since
from tests.distributed.processes import Group, group_of
from tests.interrupting import Held, interrupted

SECONDS = 2.0  #: the time-out of a call that may have to wait for a rank that was interrupted
LONG = 120.0  #: that of others
CALLS = ("send", "recv", "init_remote", "broadcast", "all_reduce", "all_gather", "gather_and_stack")


def take_part(call: str, rank: int, group: Any, seconds: float) -> None:
    """Run a rank."""
    data = TensorDict({"x": torch.full((3,), float(rank)), "s": "text"})
    if call in ("send", "recv"):
        sends = (rank == 0) == (call == "send")
        data.send(1 - rank, group=group, timeout=seconds) if sends else data.recv(
            1 - rank, group=group, timeout=seconds
        )
    elif call == "init_remote":
        if rank:
            TensorDict.from_remote_init(0, group=group, timeout=seconds)
        else:
            data.init_remote(1, group=group, timeout=seconds)
    elif call == "all_reduce":
        data.exclude("s").all_reduce(group=group, timeout=seconds)
    elif call == "all_gather":
        data.all_gather(group=group, timeout=seconds)
    elif call == "gather_and_stack":
        target = torch.stack([data]) if rank == 0 else data
        target.gather_and_stack(0, group=group, timeout=seconds)
    else:
        data.broadcast(0, group=group, timeout=seconds)


def round_of(rank: int, call: str, at: int) -> tuple[int, list[str]]:
    """One call, in which rank 0 is interrupted before a line (0: none): how many lines there are, and what is wrong."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    point_to_point._pool.reset()
    gc.collect()
    before = Held.now()
    seconds = SECONDS if at else LONG
    group: Any = dist.new_group(timeout=timedelta(seconds=seconds + 2))
    dist.barrier(group)  # a rank that destroys it at once would fail the other, which is still connecting
    wrong: list[str] = []
    outcome = interrupted(lambda: take_part(call, rank, group, seconds), at if rank == 0 else 0)
    where = f"{call}: SIGINT at {outcome.where}" if rank == 0 else f"{call}: the other rank"
    if rank == 0 and at and outcome.where is not None and not isinstance(outcome.error, KeyboardInterrupt):
        wrong.append(f"{where}: gave {outcome.error!r}")
    if (rank or not at) and not (
        outcome.error is None or (at and isinstance(outcome.error, (WorkerError, RecordsDiffer)))
    ):
        wrong.append(f"{where}: raised {outcome.error!r}")
    dist.destroy_process_group(group)
    count = outcome.count
    del group, outcome
    point_to_point._pool.reset()  # memory that is kept for the next message
    return count, wrong + [f"{where}: left {item}" for item in left_since(before)]


def tried(group: Group, call: str, samples: int | None, rng: random.Random) -> tuple[int, list[str]]:
    """Interrupts a call at all lines, or at some: how often, and what went wrong."""
    for _ in range(2):
        found = group.run(round_of, call, 0, seconds=2 * LONG)
    wrong = [item for _, items in group.run(round_of, call, 0, seconds=2 * LONG) for item in items]
    count = found[0][0]
    points = (
        list(range(1, count + 1)) if samples is None else sorted(rng.sample(range(1, count + 1), min(samples, count)))
    )
    for at in points:
        for _, items in group.run(round_of, call, at, seconds=2 * LONG):
            wrong += items
    return len(points), wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all lines; else --samples of each call")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", choices=("", *CALLS))
    options = parser.parse_args()
    failed = 0
    with group_of(2, 30.0) as group:
        for call in [call for call in CALLS if call == options.only or not options.only]:
            begin = time.monotonic()
            count, wrong = tried(group, call, None if options.all else options.samples, random.Random(options.seed))
            failed += len(wrong)
            for line in wrong:
                print(line, file=sys.stderr, flush=True)
            print(f"{call}: {count} interrupts, {len(wrong)} wrong, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
