"""The worker's side of ``map``: call the user's function on the chunks of a task."""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tensorclass.distributed.shared_pickle import Packed, packed
from tensorclass.distributed.worker_errors import message_of, pickle_error, unpickle_error
from tensorclass.support.parent_process import end_with_parent
from tensorclass.support.printable import type_name

from .row_chunks import Chunks, Target, joined
from .task_table import TaskTable

_default_generator: Any = torch.default_generator
_cuda: Any = torch.cuda
_manual_seed: Any = torch.manual_seed  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Failure(NamedTuple):
    """An error of the user's function, in a form that can be sent."""

    text: str  #: class and message
    trace: str
    error: BaseException | bytes | None  #: the error or its pickle

    @staticmethod
    def of(error: BaseException, in_thread: bool) -> Failure:
        """Describe an error that is being handled."""
        below = error.__traceback__ and error.__traceback__.tb_next  # without the line of this package
        trace = "".join(traceback.format_exception(type(error), error, below))
        return Failure(message_of(error), trace, error if in_thread else pickle_error(error))

    def raised(self) -> BaseException | None:
        """Return the error, or ``None`` if it could not be sent."""
        return unpickle_error(self.error) if isinstance(self.error, bytes) else self.error


class TaskResult(NamedTuple):
    """The result of a task."""

    worker: str
    seconds: float  #: for all chunks
    done: int  #: number of chunks that are done, counted from the first
    results: Any  #: of these chunks: a :class:`Joined` or a list, packed or not
    failure: Failure | None  #: of the chunk after them


class Job(NamedTuple):
    """The function of a call, and all that its tasks share."""

    fn: Callable[[Any], Any]
    chunks: Chunks
    target: Target | None  #: workers write results to it
    seed: int | None
    joins: bool  #: concatenate results
    packs: bool  #: put the tensors of results into shared memory before they are sent
    threads: int  #: torch's threads in the calling process
    table: Any = None
    in_threads: bool = False  #: workers are threads of the calling process
    data: Any = None
    ended: threading.Event | None = None  #: set when the call is over and remaining chunks are not wanted

    def run(self, rows: Any, first: int, last: int, slot: int) -> TaskResult:
        """Call the function on the chunks of a task."""
        begin = time.perf_counter()
        worker = threading.get_ident() if self.in_threads else os.getpid()
        table: TaskTable | None = self.table
        results: list[Any] = []
        failure: Failure | None = None
        at = first
        try:
            for at, chunk in enumerate(self.chunks.cut(rows), first):
                if self.ended is not None and self.ended.is_set():
                    break
                if table is not None:
                    table.begin(slot, at, worker)
                if self.seed is not None:
                    seed_all(self.seed + at)
                result = self.fn(chunk)
                if self.target is not None and result is not None:
                    self.target.write(at, result)
                    result = None
                results.append(result)
        except BaseException as error:  # a SystemExit of the function must not end the worker
            failure = Failure.of(error, self.in_threads)
        return self._task_result(begin, results, failure)

    def _task_result(self, begin: float, results: list[Any], failure: Failure | None) -> TaskResult:
        done = len(results)
        value: Any = joined(results, self.chunks.dim, self.chunks.single) if self.joins else results
        if self.packs:
            try:
                value = packed(value, copies=True)
            except Exception as error:  # one of the results cannot be sent
                done, returned, error = self._unsendable(results, error)
                failure = Failure.of(error, self.in_threads)
                failure = failure._replace(
                    text=f"the function returned {returned}, which cannot be sent: {failure.text}"
                )
                results = results[:done]
                value = joined(results, self.chunks.dim, self.chunks.single) if self.joins else results
                value = packed(value, copies=True)
        return TaskResult(self._worker_name(), time.perf_counter() - begin, done, value, failure)

    def _unsendable(self, results: list[Any], error: Exception) -> tuple[int, str, Exception]:
        """Return the index of the first result that cannot be sent, its class, and the error."""
        for at, result in enumerate(results):
            try:
                packed(result, copies=True)
            except Exception as found:
                found.__context__ = None
                return at, f"a {type_name(result)}", found
        return 0, "results that were concatenated", error

    def _worker_name(self) -> str:
        if self.in_threads:
            return f"thread {threading.current_thread().name}"
        if self.table is None:
            return f"process {os.getpid()} on {socket.gethostname()}"
        return f"process {os.getpid()}"


def seed_all(seed: int) -> None:
    """Seed torch, NumPy and Python."""
    if _cuda.is_initialized():
        _manual_seed(seed)
    else:
        _default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed((seed * 0x9E3779B1 + (seed >> 32)) & 0xFFFFFFFF)
    random.seed(seed)


# ---------------------------------------------------------------------------------------------------------------------
# tasks in processes that were not started for the call

_jobs: dict[int, Job] = {}  #: the last job, by the id of its call
_lock = threading.Lock()


def run_sent(call_id: int, job: Packed | Job, rows: Any, first: int, last: int, slot: int) -> TaskResult:
    """Run a task that was sent with its job and rows.

    Args:
        call_id: identifies the call; the job of the last call is cached.
        job: a :class:`Job` without data, packed or not.
        rows: the rows of the chunks, packed or not.
        first: first chunk.
        last: last chunk, exclusive.
        slot: slot of the task in the table.
    """
    with _lock:
        cached = _jobs.get(call_id)
        if cached is None:
            if isinstance(job, Packed):  # sent by a process of this machine
                end_with_parent()
            cached = job.opened() if isinstance(job, Packed) else job
            if is_forked() and torch.get_num_threads() == cached.threads > 1:
                torch.set_num_threads(1)  # a fork inherits the number but not the threads, and would wait for them
            _jobs.clear()
            _jobs[call_id] = cached
    return cached.run(rows.opened() if isinstance(rows, Packed) else rows, first, last, slot)


def is_forked() -> bool:
    """Return whether this process was forked."""
    return getattr(multiprocessing.current_process(), "_start_method", None) == "fork"


def run_here(job: Job, first: int, last: int, slot: int) -> TaskResult:
    """Run a task in a thread."""
    return job.run(job.chunks.part(job.data, first, last), first, last, slot)
