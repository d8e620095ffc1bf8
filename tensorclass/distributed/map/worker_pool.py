"""The processes of a ``map`` call, each in a ``ProcessPoolExecutor`` of its own.

So it is known which process has which task. A process that dies, or is killed because it takes too long, does not take
others with it, and is replaced alone.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from tensorclass.distributed.shared_pickle import Packed
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.parent_process import end_with_parent

from .executors import Runner
from .worker_task import Job, TaskResult, is_forked

_GRACE = 5.0  #: seconds that a process has to exit by itself


class _RecordingContext:
    """A context of ``multiprocessing`` that remembers the processes it starts."""

    def __init__(self, context: Any) -> None:
        self._context: Any = context
        self.processes: list[BaseProcess] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:
        process: BaseProcess = self._context.Process(*args, **kwargs)
        self.processes.append(process)
        return process


@contextmanager
def _sigint_blocked() -> Generator[None, None, None]:
    """Block SIGINT, which terminals send to all processes, until a new process has set its own handler."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_servers(method: str) -> None:
    """Start the processes that :mod:`multiprocessing` keeps for a start method, before SIGINT is blocked.

    The fork server would keep it blocked, in all processes that it starts later. The start of the tracker of resources
    would let it through again.
    """
    if method in ("spawn", "forkserver"):
        resource_tracker.ensure_running()
    if method == "forkserver":
        from multiprocessing import forkserver  # not on Windows

        forkserver.ensure_running()


class _Worker:
    """One process and its executor."""

    def __init__(self, context: Any, job: Job | Packed, threads: int) -> None:
        self.context = _RecordingContext(context)
        mp_context: Any = self.context
        self.executor: ProcessPoolExecutor = ProcessPoolExecutor(
            1, mp_context=mp_context, initializer=begin, initargs=(job, threads)
        )
        self.tasks: set[Future[Any]] = set()  #: under way
        self.chunks: int = 0  #: sent to it so far
        self.is_gone: bool = False
        self.exit_codes: dict[int, int | None] = {}  #: by process id
        self._ending: threading.Thread | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        if self.context.processes:
            return self.executor.submit(function, *args)
        _start_servers(self.context.get_start_method())
        with _sigint_blocked(), warnings.catch_warnings():
            # the warning is about locks of other threads; ours feed other workers and hold none that a fork needs
            warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
            return self.executor.submit(function, *args)

    def end(self) -> None:
        """Let the process exit after its last task."""
        if self._ending is None:
            self._ending = threading.Thread(target=self._end, daemon=True)
            with suppress(RuntimeError):  # Python 3.12 starts no thread at the end of the program: join() does the work
                self._ending.start()

    def _end(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        while self.context.processes:
            process = self.context.processes[-1]
            if process.pid is not None:
                process.join()
                # if two threads join it at once, only one gets the exit code, and sets it a moment later
                end = time.monotonic() + 1.0
                while process.exitcode is None and time.monotonic() < end:
                    time.sleep(0.001)
                self.exit_codes[process.pid] = process.exitcode
                with suppress(ValueError):
                    process.close()
            self.context.processes.pop()

    def join(self, end: float) -> None:
        """Wait for :meth:`end` until a time of ``time.monotonic()``."""
        if self._ending is None:
            return
        if self._ending.ident is None:
            self._end()
        else:
            self._ending.join(max(0.0, end - time.monotonic()))

    def kill(self) -> None:
        for process in list(self.context.processes):
            with suppress(ValueError):  # closed
                if process.pid is not None and process.is_alive():
                    process.kill()

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a process; ``None`` if it is unknown or runs."""
        for process in list(self.context.processes):
            with suppress(ValueError):
                if process.pid == pid:
                    return process.exitcode
        return self.exit_codes.get(pid)


class WorkerPool(Runner):
    """Processes that are started with the job, so that a task is three numbers.

    Args:
        workers: number of processes.
        context: a context of ``multiprocessing``.
        job: the job; packed if processes do not inherit it.
        threads: torch's threads in each process.
        max_chunks: replace a process after this many chunks.
    """

    def __init__(self, workers: int, context: Any, job: Job | Packed, threads: int, max_chunks: int | None) -> None:
        super().__init__("a process", workers, "processes", survives=True)
        self._new_worker: Callable[[], _Worker] = lambda: _Worker(context, job, threads)
        self._workers: list[_Worker] = []
        self._retired: list[_Worker] = []
        self._max_chunks: int | None = max_chunks
        self._worker_of: dict[Future[Any], _Worker] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        first, last, _ = args
        with uninterrupted():  # every started worker is in the list
            while True:
                worker = self._least_busy(last - first)
                try:
                    future = worker.submit(function, *args)
                except BrokenExecutor:  # its process died while idle
                    worker.is_gone = True
                    continue
                worker.chunks += last - first
                worker.tasks.add(future)
                self._worker_of[future] = worker
                future.add_done_callback(self._done)
                return future

    def _least_busy(self, chunks: int) -> _Worker:
        """Return the worker with the fewest tasks. Start a new one if all are busy and there is room."""
        while True:
            usable: list[_Worker] = []
            for worker in list(self._workers):
                is_spent = self._max_chunks is not None and worker.chunks + chunks > self._max_chunks
                if worker.is_gone or (is_spent and not worker.tasks):
                    self._workers.remove(worker)
                    self._retired.append(worker)
                    worker.end()
                elif not is_spent:
                    usable.append(worker)
            if len(self._workers) < self.workers and all(worker.tasks for worker in usable):
                usable.append(self._new_worker())
                self._workers.append(usable[-1])
            if usable:
                return min(usable, key=lambda worker: len(worker.tasks))
            # all are spent, and one has become idle since it was looked at: a limit of chunks means one task a worker

    def _done(self, future: Future[Any]) -> None:
        worker = self._worker_of.pop(future)
        worker.tasks.discard(future)
        if not future.cancelled() and isinstance(future.exception(), BrokenExecutor):
            worker.is_gone = True

    def end(self, future: Future[Any]) -> None:
        """Kill the process that has a task. Its future then gets an error."""
        worker = self._worker_of.get(future)
        if worker is not None:
            worker.kill()

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a process; wait up to 2 s for it."""
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            for worker in (*self._workers, *self._retired):
                code = worker.exit_code(pid)
                if code is not None:
                    return code
            time.sleep(0.002)
        return None

    def close(self, *, kill: bool) -> None:
        """End the processes and wait for them.

        Args:
            kill: kill them at once. Otherwise they exit by themselves, and those that do not are killed.
        """
        try:
            self._end_all(kill)
        finally:
            self._end_all(kill=True)

    def _end_all(self, kill: bool) -> None:
        workers, end = [*self._workers, *self._retired], time.monotonic() + _GRACE
        for worker in workers:
            if kill:
                worker.kill()
            worker.end()
        for worker in workers:
            worker.join(end)


# ---------------------------------------------------------------------------------------------------------------------
# in the process

_job: Any = None
_task_thread: ThreadPoolExecutor | None = None


def begin(job: Job | Packed, threads: int) -> None:
    """Initialize a process."""
    global _job, _task_thread
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the calling process is interrupted, and ends this one
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # workers do not run the cleanup of the program
    end_with_parent()
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    if threads > 1 and is_forked():
        # the main thread would wait for torch's threads, which a fork does not copy; a new thread starts new ones
        _task_thread = ThreadPoolExecutor(1)
    _job = job.opened() if isinstance(job, Packed) else job


def run(first: int, last: int, slot: int) -> TaskResult:
    """Run a task of the job that the process was started with."""
    return _run(first, last, slot) if _task_thread is None else _task_thread.submit(_run, first, last, slot).result()


def _run(first: int, last: int, slot: int) -> TaskResult:
    job: Job = _job
    return job.run(job.chunks.part(job.data, first, last), first, last, slot)
