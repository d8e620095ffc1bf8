"""Faults of workers, drawn at random, and what is left behind: ``python -m tests.distributed.faults --rounds 500``.

A round runs ``map`` or ``map_iter`` over drawn rows, chunks and workers, in which a worker raises, dies, hangs or is
killed, the caller is interrupted or killed, or whoever takes the results stops. It checks what the caller sees: the
error with worker, chunk and traceback; with retries the results of a run without a fault. Then processes, segments of
shared memory, open files and threads are counted.

Other modules add rounds: those named in ``SOURCES`` have a table ``ROUNDS`` of functions of a ``random.Random``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import multiprocessing.resource_tracker
import os
import random
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch

from tensorclass import TensorDict
from tensorclass.distributed import WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from tests.distributed import work
from tests.distributed.leftovers import Held, left_since
from tests.distributed.processes import children
from tests.distributed.time_outs import with_time_outs
from tests.distributed.work import At, Row, rows
from tests.pools import pool_of

Round: TypeAlias = Callable[[random.Random], None]

#: modules with further rounds
SOURCES = ("tests.distributed.group_faults",)
EXPECTED: dict[str, type[WorkerError]] = {
    "raises": WorkerRaised,
    "dies": WorkerDied,
    "is killed": WorkerDied,
    "hangs": WorkerTimeout,
}
SECONDS = 0.8  #: that a chunk may take where one hangs; rounds that fail are tried with more
LONG = 120.0  #: seconds that a chunk may take elsewhere


class Drawn:
    """A call with a fault at one row."""

    def __init__(self, rng: random.Random, fault: str, flag: Path | None, seconds: float = LONG) -> None:
        self.data: Row = rows(rng.randint(2, 40))
        self.row = rng.randrange(len(self.data))
        self.fn = At(work.FAULTS[fault], self.row, flag)
        self.seed = rng.randrange(2**40)
        self.options: dict[str, Any] = {"chunksize": rng.choice([0, 1, 3, 10]), "timeout": seconds}
        self.iterates = rng.random() < 0.5
        self.workers = rng.randint(1, 3)

    def call(self, **more: Any) -> TensorDict:
        """Return the results of the call as one collection."""
        options: dict[str, Any] = {**self.options, "generator": torch.Generator().manual_seed(self.seed), **more}
        if not self.iterates:
            return self.data.map(self.fn, **options)
        found = list(self.data.map_iter(self.fn, **options))
        return torch.stack(found) if options["chunksize"] == 0 else torch.cat(found)

    def check(self, error: WorkerError, fault: str) -> None:
        """Return whether an error names the fault and the worker."""
        assert isinstance(error, EXPECTED[fault]), repr(error)
        chunk = self.row // max(1, self.options["chunksize"])
        assert error.chunk == chunk, (error.chunk, chunk)
        assert error.rows is not None
        assert error.rows[0] <= self.row < error.rows[1]
        assert f"chunk {chunk} of" in str(error)
        assert "process" in error.worker, error.worker
        if fault == "raises":
            assert isinstance(error, KeyError)
            assert "in raises" in error.trace


@contextmanager
def _flag() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "flag"


def _fault(rng: random.Random, fault: str, seconds: float) -> None:
    """Without retries the caller gets an error."""
    drawn = Drawn(rng, fault, None, seconds)
    drawn.check(_error(lambda: drawn.call(num_workers=drawn.workers)), fault)


def _within(run: Callable[[random.Random, str, float], None], fault: str) -> Round:
    """A round in which a worker has a fault, with more time if it hangs and the machine is busy."""

    def round_(rng: random.Random) -> None:
        if fault != "hangs":
            run(rng, fault, LONG)
            return
        state = rng.getstate()

        def check(seconds: float) -> None:
            rng.setstate(state)
            run(rng, fault, seconds)

        with_time_outs(check, SECONDS)

    return round_


def _error(call: Callable[[], Any]) -> WorkerError:
    """The error of a call."""
    try:
        call()
    except WorkerError as error:
        return error
    raise AssertionError("no error, though there was a fault")


def _retried(rng: random.Random, fault: str, seconds: float) -> None:
    """With retries the caller gets the results of a run without a fault."""
    with _flag() as flag:
        drawn = Drawn(rng, fault, flag, seconds)
        found = drawn.call(num_workers=drawn.workers, retries=1)
        assert flag.exists()
        again = drawn.call(num_workers=drawn.workers)
        assert bool((found == again).all())
        assert found["n"].tolist() == list(range(len(drawn.data)))


def _pooled(rng: random.Random, fault: str, seconds: float) -> None:
    """The processes are those of an executor, or of a pool."""
    drawn = Drawn(rng, fault, None, seconds)
    others = children()
    if rng.random() < 0.5:
        with ProcessPoolExecutor(drawn.workers, mp_context=multiprocessing.get_context("fork")) as executor:
            drawn.check(_error(lambda: drawn.call(executor=executor)), fault)
            _kill_children(fault, others)
    else:
        context = multiprocessing.get_context("fork")
        with pool_of(drawn.workers, context, has_lost_tasks=fault != "raises") as pool:
            drawn.check(_error(lambda: drawn.call(pool=pool)), fault)


def _kill_children(fault: str, others: set[int]) -> None:
    """Ends what hangs in an executor, which waits for it."""
    if fault == "hangs":
        for pid in children() - others:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"resource_tracker" not in file.read():
                    os.kill(pid, signal.SIGKILL)


def _in_threads(rng: random.Random) -> None:
    drawn = Drawn(rng, "raises", None)
    drawn.options.pop("timeout")
    with ThreadPoolExecutor(drawn.workers) as executor:
        error = _error(lambda: drawn.data.map(drawn.fn, executor=executor, **drawn.options))
    assert isinstance(error, WorkerRaised)
    assert "thread" in error.worker
    assert drawn.row in range(*(error.rows or (0, 0)))


def _interrupted(rng: random.Random) -> None:
    """The caller, and as from a terminal its workers, get SIGINT."""
    drawn = Drawn(rng, rng.choice(["hangs", "raises"]), None)
    drawn.fn.fault = work.hangs if rng.random() < 0.5 else work.slowly
    after = rng.random() * 0.1
    done = threading.Event()
    others = children()  # such as those of a cluster

    def interrupt() -> None:
        time.sleep(after)
        if not done.is_set():
            for pid in children() - others:
                if rng.random() < 0.5:
                    _signal(pid)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        try:
            drawn.call(num_workers=drawn.workers, timeout=LONG)
            done.set()
        finally:
            thread.join()
            time.sleep(0.01)  # an interrupt that comes late comes here
    except KeyboardInterrupt:
        pass
    while thread.is_alive():
        thread.join(0.01)


def _signal(pid: int) -> None:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"resource_tracker" not in file.read():
                os.kill(pid, signal.SIGINT)
    except (FileNotFoundError, ProcessLookupError):
        pass


def _stopped(rng: random.Random) -> None:
    """Whoever takes the results stops, or raises."""
    data = rows(rng.randint(5, 60))
    last, how = rng.randrange(5), rng.choice(["break", "raise", "close"])
    iterator = data.map_iter(work.first_number, chunksize=1, num_workers=rng.randint(1, 3))
    try:
        for number in iterator:
            if number == last:
                if how == "raise":
                    raise ZeroDivisionError
                if how == "close":
                    iterator.close()  # type: ignore[attr-defined]
                break
    except ZeroDivisionError:
        pass


def _caller_killed(rng: random.Random) -> None:
    """The process that called is killed; its workers end by themselves."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a worker may begin before it ends
        process = multiprocessing.get_context("fork").Process(target=_calls, args=(folder, rng.randint(1, 3)))
        process.start()
        end = time.monotonic() + LONG
        while not os.listdir(folder) and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.02)
        process.kill()
        process.join()
        process.close()
        end = time.monotonic() + LONG / 2  # at which those that hang would end by themselves
        while (left := [pid for pid in os.listdir(folder) if _is_running(int(pid))]) and time.monotonic() < end:
            time.sleep(0.005)
        for pid in left:
            os.kill(int(pid), signal.SIGKILL)
        assert not left, f"workers of a process that was killed are left: {left}"


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _calls(folder: str, workers: int) -> None:
    rows().map(_Hanging(folder), num_workers=workers, chunksize=1)


class _Hanging:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, chunk: Any) -> None:
        Path(self.folder, str(os.getpid())).touch()
        time.sleep(LONG)


def _rounds() -> dict[str, Round]:
    """The table of all rounds."""
    table: dict[str, Round] = {}
    for fault in EXPECTED:
        table[f"map: a worker {fault}"] = _within(_fault, fault)
        table[f"map: a worker {fault}, with retries"] = _within(_retried, fault)
        table[f"map: a worker of a pool {fault}"] = _within(_pooled, fault)
    table["map: a function raises in a thread"] = _in_threads
    table["map: the caller is interrupted"] = _interrupted
    table["map: the caller is killed"] = _caller_killed
    table["map_iter: whoever takes the results stops"] = _stopped
    for source in SOURCES:
        if importlib.util.find_spec(source) is not None:
            table |= importlib.import_module(source).ROUNDS
    return table


ROUNDS = _rounds()


def run(rounds: int, seed: int, only: str = "") -> int:
    """Runs rounds, and prints what they found and left.

    Returns:
        how many failed or left something.
    """
    multiprocessing.resource_tracker.ensure_running()
    table = {name: function for name, function in ROUNDS.items() if only in name}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells take away from what runs behind them
    counts: Counter[str] = Counter()
    leaks: Counter[str] = Counter()
    wrong = 0
    slowest = (0.0, "")
    begin = time.monotonic()
    first = Held.now()
    for number in range(rounds):
        rng = random.Random(f"{seed} {number}")
        name = rng.choice(sorted(table))
        counts[name] += 1
        before, start = Held.now(), time.monotonic()
        try:
            table[name](rng)
        except Exception:
            wrong += 1
            print(f"round {number} ({name}) failed:\n{traceback.format_exc()}", flush=True)
        slowest = max(slowest, (time.monotonic() - start, f"round {number}: {name}"))
        left = left_since(before)
        if (number + 1) % 50 == 0:
            print(f"{number + 1} rounds, {time.monotonic() - begin:.0f} s", flush=True)
        for item in left:
            leaks[item.split()[0] if item[0].isalpha() else item.split(maxsplit=1)[1]] += 1
            print(f"round {number} ({name}) left {item}", flush=True)
    print(f"{rounds} rounds, seed {seed}, {time.monotonic() - begin:.0f} s; slowest {slowest[0]:.1f} s, {slowest[1]}")
    for name, count in sorted(counts.items()):
        print(f"  {count:4} {name}")
    last = Held.now()
    print(f"failed: {wrong}")
    print(
        f"left: processes {len(last.processes - first.processes)}, segments of shared memory "
        f"{len(last.segments - first.segments)}, open files {last.files - first.files}, "
        f"threads {last.threads - first.threads}; rounds that left something: {dict(leaks)}"
    )
    return wrong + sum(leaks.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="rounds whose name has this text")
    given = parser.parse_args()
    return min(1, run(given.rounds, given.seed, given.only))


if __name__ == "__main__":
    raise SystemExit(main())
