"""Rounds of faults in groups of processes: a rank dies, hangs, raises or comes with another record.

They join the table of :mod:`tests.distributed.faults`: ``python -m tests.distributed.faults --only group``.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import torch

from tensorclass import TensorDict
from tensorclass.distributed import RecordsDiffer, WorkerDied, WorkerError, WorkerTimeout
from tests.distributed.processes import Failed, group_of

SECONDS = 2.0  #: the time-out of the calls that wait for a rank that does not come


def record(rank: int, differs: bool = False) -> TensorDict:
    """Make the record of a rank: small tensors, a large one, text."""
    values: dict[str, Any] = {"a": torch.full((3,), float(rank)), "l": torch.full((100_000,), float(rank)), "s": "text"}
    if differs:
        values["a"] = torch.zeros(4)
    return TensorDict(values)


def _take_part(call: str, data: TensorDict, rank: int, size: int) -> None:
    other = size - 1
    if call == "send":
        if rank in (0, other):
            data.send(other, timeout=SECONDS) if rank == 0 else data.recv(0, timeout=SECONDS)
    elif call == "recv":
        if rank in (0, other):
            data.send(0, timeout=SECONDS) if rank == other else data.recv(other, timeout=SECONDS)
    elif call == "all_reduce":
        data.exclude("s").all_reduce(timeout=SECONDS)
    elif call == "reduce":
        data.exclude("s").reduce(0, timeout=SECONDS)
    elif call == "all_gather":
        data.all_gather(timeout=SECONDS)
    else:
        target = TensorDict({}) if rank == 0 else data
        target.gather_and_stack(0, timeout=SECONDS)


#: of each call: which ranks wait for the last one
CALLS = ("send", "recv", "all_reduce", "reduce", "all_gather", "gather_and_stack")


def round_of(rank: int, size: int, call: str, fault: str, ready: int, after: float) -> tuple[str, str, float]:
    """Takes part some times, and then with a fault of the last rank; the error that this rank got, and when."""
    for _ in range(ready):
        _take_part(call, record(rank), rank, size)
    if rank == size - 1:
        time.sleep(after)
        if fault == "dies":
            os._exit(3)
        if fault == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hangs":
            time.sleep(SECONDS + 60)
        if fault == "raises":
            raise KeyError("of the program")
    data = record(rank, fault == "differs" and rank == size - 1)
    begin = time.monotonic()
    try:
        _take_part(call, data, rank, size)
    except (WorkerError, RecordsDiffer) as error:
        assert data["a"].tolist() == record(rank, fault == "differs" and rank == size - 1)["a"].tolist()
        return type(error).__name__, str(error), time.monotonic() - begin
    return "", "", time.monotonic() - begin


def _round(rng: random.Random, call: str, fault: str) -> None:
    size = rng.choice([2, 2, 3])
    ready = rng.choice([0, 1, 3])
    with group_of(size, 20.0, multiprocessing.get_context("fork")) as group:  # which begin at once
        group.start(round_of, size, call, fault, ready, rng.choice([0.0, 0.05, 0.3]))
        for rank in range(size - 1) if fault != "differs" else range(size):
            if call in ("send", "recv") and rank not in (0, size - 1):
                continue
            found = group.result(rank, 30.0)
            assert not isinstance(found, Failed), found.traceback
            name, told, seconds = found
            if fault == "differs":
                assert name == RecordsDiffer.__name__, (rank, name, told)
                assert "a: " in told, told
            else:
                assert name in (WorkerDied.__name__, WorkerTimeout.__name__), (rank, name, told)
                assert f"rank {size - 1}" in told, told
            assert seconds < SECONDS + 6, seconds
        for pid in group.pids if fault == "hangs" else ():
            os.kill(pid, signal.SIGKILL)


def _made(call: str, fault: str) -> Callable[[random.Random], None]:
    return lambda rng: _round(rng, call, fault)


#: all_gather takes whatever record comes, and of two ranks one sends to gather_and_stack
ROUNDS = {
    f"group: {call}: a rank {fault}": _made(call, fault)
    for call in CALLS
    for fault in ("dies", "is killed", "hangs", "raises", "differs")
    if not (fault == "differs" and call in ("all_gather", "gather_and_stack"))
}
