"""Ctrl-C at every line of what works with other processes: ``python -m tests.distributed.interrupts --all``.

The same work is done again and again, each time interrupted before another line of the package, or with an error of
another call of the system. After each, no process, thread, descriptor, memory file, segment of shared memory or changed
handler is left, and the work can be done again.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import gc
import io
import multiprocessing.resource_tracker
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing

from tensorclass import DataLoader, TensorDict
from tensorclass.distributed import WorkerError
from tensorclass.distributed.shared_pickle import SMALL, packed
from tests.distributed import work
from tests.interrupting import Held, Outcome, failing, interrupted

SECONDS = 300  #: that a call may take, where all cores are busy and processes are spawned
FAULTS = {"SIGINT": None, "EIO": errno.EIO, "EMFILE": errno.EMFILE}
PATIENCE = 60.0  #: seconds in which threads and processes that are ending may end

Work = Callable[[], object]


def _untraced() -> None:
    """A process that is forked is not interrupted by what was meant for this one."""
    if threading.current_thread() is threading.main_thread():
        sys.settrace(None)


os.register_at_fork(after_in_child=_untraced)


def _checked(found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{found}, not {expected}")


def _mapped(**options: Any) -> None:
    found = work.rows(4).map(work.plus, chunksize=1, **options)
    _checked(found["n"].tolist(), [0, 1, 2, 3])


def _iterated(**options: Any) -> None:
    found: Any = work.rows(4).map_iter(work.first_number, chunksize=1, **options)
    try:
        _checked(next(found), 0)  # and is left
    finally:
        found.close()


def _written() -> None:
    data = work.rows(4)
    out = TensorDict({"x": torch.zeros(4, 2), "n": torch.zeros(4, dtype=torch.int64)}, [4])
    data.map(work.plus, chunksize=1, num_workers=1, out=out)
    _checked(out["n"].tolist(), [0, 1, 2, 3])


def _large() -> TensorDict:
    return TensorDict({"x": torch.ones(SMALL), "y": torch.zeros(4)})


def _shared() -> None:
    data = _large().share_memory_()
    _checked(data.is_shared(), True)


def _packed() -> None:
    kept = packed(_large(), small=0)
    found = kept.by_handles().opened()
    _checked(float(found["x"][0]), 1.0)


def _pickled() -> None:
    file = io.BytesIO()
    ForkingPickler(file, 4).dump(TensorDict({"x": torch.ones(3)}))
    _checked(ForkingPickler.loads(file.getvalue())["x"].tolist(), [1.0] * 3)


def _queued() -> None:
    queue: Any = torch.multiprocessing.get_context("fork").SimpleQueue()
    try:
        queue.put(TensorDict({"x": torch.ones(3)}))
        _checked(queue.get()["x"].tolist(), [1.0] * 3)
    finally:
        queue.close()


def _loaded() -> None:
    loader: Any = DataLoader(
        list(_samples(8).unbind(0)), batch_size=2, num_workers=2, collate_fn=torch.stack, multiprocessing_context="fork"
    )
    _checked([batch["n"].tolist() for batch in loader], [[0, 1], [2, 3], [4, 5], [6, 7]])


def _samples(count: int) -> TensorDict:
    return TensorDict({"n": torch.arange(count), "text": [str(at) for at in range(count)]}, [count])


def _in_threads() -> Executor:
    return ThreadPoolExecutor(2)


def _in_processes() -> Executor:
    return ProcessPoolExecutor(1, mp_context=torch.multiprocessing.get_context("fork"))


@contextmanager
def _alone(call: Work) -> Iterator[Work]:
    yield call


@contextmanager
def _on(make: Callable[[], Executor], call: Callable[..., object]) -> Iterator[Work]:
    """On an executor of the user's, which stays."""
    with make() as executor:
        executor.submit(int).result()
        yield lambda: call(executor=executor)


#: what is interrupted
WORKS: dict[str, Callable[[], Any]] = {
    "map": lambda: _alone(lambda: _mapped(num_workers=2)),
    "map, a process for each chunk": lambda: _alone(lambda: _mapped(num_workers=2, max_tasks_per_child=1)),
    "map, time-outs": lambda: _alone(lambda: _mapped(num_workers=1, timeout=30, retries=1)),
    "map, spawned": lambda: _alone(lambda: _mapped(num_workers=1, mp_start_method="spawn")),
    "map into a target": lambda: _alone(_written),
    "map on threads": lambda: _on(_in_threads, _mapped),
    "map on processes": lambda: _on(_in_processes, _mapped),
    "map_iter that is left": lambda: _alone(lambda: _iterated(num_workers=2)),
    "map_iter on threads": lambda: _on(_in_threads, _iterated),
    "share_memory_": lambda: _alone(_shared),
    "in shared memory": lambda: _alone(_packed),
    "a pickle": lambda: _alone(_pickled),
    "a queue": lambda: _alone(_queued),
    "a loader": lambda: _alone(_loaded),
}


def left_since(before: Held) -> list[str]:
    """Return what is left, after a while in which things may end."""
    end = time.monotonic() + PATIENCE
    while True:
        multiprocessing.active_children()
        found = [item for item in Held.now().beyond(before) if "cpython" not in item]
        if not found or time.monotonic() > end:
            return found
        gc.collect()
        time.sleep(0.01)


def tried(name: str, samples: int | None, rng: random.Random, fault: str = "SIGINT") -> tuple[int, list[str]]:
    """Disturbs a work at all lines (or calls of the system), or at some: how often that was, and what went wrong."""
    multiprocessing.resource_tracker.ensure_running()
    wrong: list[str] = []
    with WORKS[name]() as call:
        for _ in range(2):
            call()
        gc.collect()
        gc.freeze()  # what is imported is not looked through again and again
        count = _disturbed(call, 0, fault).count
        left_since(Held.now())
        points = (
            range(1, count + 1) if samples is None else sorted(rng.sample(range(1, count + 1), min(samples, count)))
        )
        for at in points:
            gc.collect()
            before = Held.now()
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            outcome = _disturbed(call, at, fault)
            left = left_since(before)
            again = _disturbed(call, 0, fault)
            faulthandler.cancel_dump_traceback_later()
            if outcome.where is None:
                continue  # other lines ran this time
            where = f"{name}: {fault} at {outcome.where}"
            wrong += [f"{where}: left {item}" for item in left]
            wrong += [f"{where}: {item}" for item in outcome.noticed]
            if fault == "SIGINT" and outcome.is_lost:
                wrong.append(f"{where} was lost")
            elif not isinstance(outcome.error, KeyboardInterrupt if fault == "SIGINT" else _BY_ERRORS):
                wrong.append(f"{where} gave {outcome.error!r}")
            if again.error is not None:
                wrong.append(f"{name}: after {fault} at {outcome.where} it cannot be done again: {again.error!r}")
        gc.unfreeze()
    return len(points), wrong


#: what may come of an error of the system: it, what it is the reason of, or nothing, where work can go on without
_BY_ERRORS = (OSError, WorkerError, type(None))


def _disturbed(call: Work, at: int, fault: str) -> Outcome:
    number = FAULTS[fault]
    outcome = interrupted(call, at) if number is None else failing(call, at, number)
    return outcome._replace(result=None)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all lines; else --samples of each work")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", action="append", choices=FAULTS, help="all by default")
    parser.add_argument("--only", default="", help="works whose name has this text")
    options = parser.parse_args()
    failed = 0
    for name in [name for name in WORKS if options.only in name]:
        for fault in options.fault or FAULTS:
            begin = time.monotonic()
            count, wrong = tried(name, None if options.all else options.samples, random.Random(options.seed), fault)
            failed += len(wrong)
            for line in wrong:
                print(line, file=sys.stderr, flush=True)
            print(f"{name}: {count} of {fault}, {len(wrong)} wrong, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
