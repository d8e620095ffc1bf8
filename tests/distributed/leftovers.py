"""Leaks of tests: processes, segments of shared memory, open files, threads."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.distributed.processes import children


class Held(NamedTuple):
    """Resources that this process holds."""

    processes: frozenset[int]
    segments: frozenset[str]
    files: int
    threads: int

    @classmethod
    def now(cls) -> Held:
        """Counts them."""
        multiprocessing.active_children()  # forgets those that have ended, as each new process does
        staying = {  # one of each, for all of the program
            getattr(multiprocessing.resource_tracker._resource_tracker, "_pid", None),
            getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None),
        }
        pids = children() - staying
        mine = {str(os.getpid()), *map(str, pids)}
        names = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
        segments = {name for name in names if mine & set(name.split("_"))}  # other test runs have some, too
        files = len(os.listdir("/proc/self/fd"))
        files -= getattr(multiprocessing.forkserver._forkserver, "_forkserver_alive_fd", None) is not None
        return cls(frozenset(pids), frozenset(segments), files, threading.active_count())

    def left_since(self, before: Held) -> list[str]:
        """Return the resources that were added."""
        found = [f"process {pid}" for pid in self.processes - before.processes]
        found += [f"segment {name}" for name in self.segments - before.segments]
        if self.files > before.files:
            found.append(f"{self.files - before.files} open files")
        if self.threads > before.threads:
            found.append(f"{self.threads - before.threads} threads")
        return found


def left_since(before: Held, seconds: float = 60.0) -> list[str]:
    """Return what is left, after a while in which threads may end."""
    end = time.monotonic() + seconds
    while True:
        found = Held.now().left_since(before)
        if not found or time.monotonic() > end:
            return found
        gc.collect()
        time.sleep(0.01)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fails where a block leaves anything, whether it raises or not."""
    multiprocessing.resource_tracker.ensure_running()  # it outlives the block
    gc.collect()
    before = Held.now()
    try:
        yield
    finally:
        found = left_since(before)
    assert not found, f"left behind: {', '.join(found)}"
