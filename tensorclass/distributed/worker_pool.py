"""The processes of a call: an executor of ``concurrent.futures`` with one process for each.

So it is known which process has which task. One that dies, or is ended because it takes too long, takes no other one
with it, and is replaced alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from tensorclass.interrupts import uninterrupted

from .executors import Runner
from .sharing import Packed
from .working import Job, Outcome, is_forked

_GRACE = 5.0  #: seconds for a process to end by itself


class _Context:
    """A context of ``multiprocessing`` that keeps the processes it makes."""

    def __init__(self, context: Any) -> None:
        self._context: Any = context
        self.made: list[BaseProcess] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:
        process: BaseProcess = self._context.Process(*args, **kwargs)
        self.made.append(process)
        return process


@contextmanager
def _deaf() -> Generator[None, None, None]:
    """A block whose new processes get no SIGINT, as terminals send to all, before they say what to do with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """One process, with the executor that feeds it."""

    def __init__(self, context: Any, job: Job | Packed, threads: int) -> None:
        self.context = _Context(context)
        given: Any = self.context
        self.executor: ProcessPoolExecutor = ProcessPoolExecutor(
            1, mp_context=given, initializer=begin, initargs=(job, threads)
        )
        self.tasks: set[Future[Any]] = set()  #: that are under way
        self.chunks: int = 0  #: that it was given so far
        self.is_gone: bool = False
        self.codes: dict[int, int | None] = {}  #: how processes ended
        self._ending: threading.Thread | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        if self.context.made:
            return self.executor.submit(function, *args)
        with _deaf(), warnings.catch_warnings():
            # the threads beside this one feed other processes, and hold nothing that the new one asks for
            warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
            return self.executor.submit(function, *args)

    def end(self) -> None:
        """Lets the process end, which it does when it has nothing to do."""
        if self._ending is None:
            self._ending = threading.Thread(target=self._end, daemon=True)
            self._ending.start()

    def _end(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        while self.context.made:
            process = self.context.made[-1]
            if process.pid is not None:
                process.join()
                # where another thread asked for its end at the same time, that one is told
                end = time.monotonic() + 1.0
                while process.exitcode is None and time.monotonic() < end:
                    time.sleep(0.001)
                self.codes[process.pid] = process.exitcode
                with suppress(ValueError):
                    process.close()
            self.context.made.pop()

    def join(self, end: float) -> None:
        """Waits for :meth:`end` to be done, until a time."""
        if self._ending is not None:
            self._ending.join(max(0.0, end - time.monotonic()))

    def kill(self) -> None:
        for process in list(self.context.made):
            with suppress(ValueError):  # it is closed
                if process.pid is not None and process.is_alive():
                    process.kill()

    def exit_code(self, pid: int) -> int | None:
        """How a process ended; ``None`` where it is not one of these, or has not."""
        for process in list(self.context.made):
            with suppress(ValueError):
                if process.pid == pid:
                    return process.exitcode
        return self.codes.get(pid)


class WorkerPool(Runner):
    """Processes that know the job from their beginning, so that a task is a few numbers.

    Args:
        workers: how many.
        context: that of ``multiprocessing`` that makes them.
        job: what they do; packed where they do not inherit it.
        threads: those of torch in each.
        most: after how many chunks a process is replaced by a new one.
    """

    def __init__(self, workers: int, context: Any, job: Job | Packed, threads: int, most: int | None) -> None:
        super().__init__("a process", workers, "processes", survives=True)
        self._make: Callable[[], _Worker] = lambda: _Worker(context, job, threads)
        self._workers: list[_Worker] = []
        self._gone: list[_Worker] = []
        self._most: int | None = most
        self._of: dict[Future[Any], _Worker] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        first, last, _ = args
        with uninterrupted():  # a worker is known here, or is not there
            while True:
                worker = self._free(last - first)
                try:
                    future = worker.submit(function, *args)
                except BrokenExecutor:  # its process died while it had nothing to do
                    worker.is_gone = True
                    continue
                worker.chunks += last - first
                worker.tasks.add(future)
                self._of[future] = worker
                future.add_done_callback(self._done)
                return future

    def _free(self, chunks: int) -> _Worker:
        """The worker that has the fewest tasks; a new one where there are too few of them."""
        for worker in list(self._workers):
            spent = self._most is not None and worker.chunks + chunks > self._most
            if worker.is_gone or (spent and not worker.tasks):
                self._workers.remove(worker)
                self._gone.append(worker)
                worker.end()
        if len(self._workers) < self.workers and all(worker.tasks for worker in self._workers):
            self._workers.append(self._make())
        return min(self._workers, key=lambda worker: len(worker.tasks))

    def _done(self, future: Future[Any]) -> None:
        worker = self._of.pop(future)
        worker.tasks.discard(future)
        if not future.cancelled() and isinstance(future.exception(), BrokenExecutor):
            worker.is_gone = True

    def end(self, future: Future[Any]) -> None:
        """Kills the process that has a task. The future gets an error then."""
        worker = self._of.get(future)
        if worker is not None:
            worker.kill()

    def exit_code(self, pid: int) -> int | None:
        """How a process ended, as soon as that is known."""
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            for worker in (*self._workers, *self._gone):
                code = worker.exit_code(pid)
                if code is not None:
                    return code
            time.sleep(0.002)
        return None

    def close(self, *, kill: bool) -> None:
        """Ends the processes, and waits for that.

        Args:
            kill: at once, whatever they do. Otherwise they end by themselves, and those that do not are killed.
        """
        workers = [*self._workers, *self._gone]
        try:
            for worker in workers:
                if kill:
                    worker.kill()
                worker.end()
            end = time.monotonic() + _GRACE
            for worker in workers:
                worker.join(end)
        finally:
            end = time.monotonic() + _GRACE
            for worker in workers:
                worker.kill()
                worker.end()
            for worker in workers:
                worker.join(end)


# ---------------------------------------------------------------------------------------------------------------------
# in the process

_job: Any = None
_apart: ThreadPoolExecutor | None = None


def begin(job: Job | Packed, threads: int) -> None:
    """The first that a process does."""
    global _job, _apart
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits is interrupted, and ends this one
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what the program does before it ends is not for its workers to do
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    if threads > 1 and is_forked():
        # this thread would wait for the threads of torch that were its own before the fork; another one makes new ones
        _apart = ThreadPoolExecutor(1)
    _job = job.opened() if isinstance(job, Packed) else job


def _end_with(parent: Any) -> None:
    """Ends this process when its parent is gone, however that ended."""
    wait([parent.sentinel])
    os._exit(1)


def run(first: int, last: int, slot: int) -> Outcome:
    """Runs a task of the job that the process was made for."""
    return _run(first, last, slot) if _apart is None else _apart.submit(_run, first, last, slot).result()


def _run(first: int, last: int, slot: int) -> Outcome:
    job: Job = _job
    return job.run(job.chunks.part(job.data, first, last), first, last, slot)
