"""What runs where the chunks go: the user's function, on the chunks of one task."""

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

from .chunks import Chunks, Target, joined
from .faults import brought, carried
from .sharing import Packed, packed
from .task_table import TaskTable

_default_generator: Any = torch.default_generator
_cuda: Any = torch.cuda
_manual_seed: Any = torch.manual_seed  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Failure(NamedTuple):
    """An error of the user's function, in a form that can be sent."""

    text: str  #: its class and message
    trace: str
    error: BaseException | bytes | None  #: itself, or a pickle of it

    @staticmethod
    def of(error: BaseException, here: bool) -> Failure:
        """That of an error that is being handled."""
        below = error.__traceback__ and error.__traceback__.tb_next  # without the line of this package
        trace = "".join(traceback.format_exception(type(error), error, below))
        text = traceback.format_exception_only(type(error), error)[-1].strip()
        return Failure(text, trace, error if here else carried(error))

    def raised(self) -> BaseException | None:
        """The error; ``None`` where it could not be sent."""
        return brought(self.error) if isinstance(self.error, bytes) else self.error


class Outcome(NamedTuple):
    """What a task gives."""

    worker: str
    seconds: float  #: for all chunks
    done: int  #: how many chunks, from the first on
    results: Any  #: of these: a :class:`Joined` or a list, or one that is packed
    failure: Failure | None  #: of the chunk behind them


class Job(NamedTuple):
    """What all tasks of a call have in common."""

    fn: Callable[[Any], Any]
    chunks: Chunks
    target: Target | None  #: what workers write results to
    seed: int | None
    joins: bool  #: put results together
    packs: bool  #: put the tensors of results into shared memory; else they are sent as they are
    threads: int  #: those of torch in the process that makes the call
    table: Any = None
    here: bool = False  #: the tasks run in threads of this process
    data: Any = None
    ended: threading.Event | None = None  #: the call is over: whatever is still to be done is not wanted

    def run(self, part: Any, first: int, last: int, slot: int) -> Outcome:
        """Calls the function on the chunks of a part of the data."""
        begin = time.perf_counter()
        who = threading.get_ident() if self.here else os.getpid()
        table: TaskTable | None = self.table
        results: list[Any] = []
        failure: Failure | None = None
        at = first
        try:
            for at, piece in enumerate(self.chunks.cut(part), first):
                if self.ended is not None and self.ended.is_set():
                    break
                if table is not None:
                    table.begin(slot, at, who)
                if self.seed is not None:
                    seed_all(self.seed + at)
                result = self.fn(piece)
                if self.target is not None and result is not None:
                    self.target.write(at, result)
                    result = None
                results.append(result)
        except BaseException as error:  # SystemExit of the function is none of this process
            failure = Failure.of(error, self.here)
        return self._outcome(begin, results, failure)

    def _outcome(self, begin: float, results: list[Any], failure: Failure | None) -> Outcome:
        done = len(results)
        given: Any = joined(results, self.chunks.dim, self.chunks.single) if self.joins else results
        if self.packs:
            try:
                given = packed(given, copies=True)
            except Exception as error:  # one of the results cannot be sent
                done, kind, error = self._unsendable(results, error)
                failure = Failure.of(error, self.here)
                failure = failure._replace(text=f"what the function gave, {kind}, cannot be sent back: {failure.text}")
                results = results[:done]
                given = joined(results, self.chunks.dim, self.chunks.single) if self.joins else results
                given = packed(given, copies=True)
        return Outcome(self._name(), time.perf_counter() - begin, done, given, failure)

    def _unsendable(self, results: list[Any], error: Exception) -> tuple[int, str, Exception]:
        """Which result is the first that cannot be sent, its class, and why it cannot."""
        for at, result in enumerate(results):
            try:
                packed(result, copies=True)
            except Exception as found:
                found.__context__ = None
                return at, f"a {type(result).__name__}", found
        return 0, "put together", error

    def _name(self) -> str:
        if self.here:
            return f"thread {threading.current_thread().name}"
        if self.table is None:
            return f"process {os.getpid()} on {socket.gethostname()}"
        return f"process {os.getpid()}"


def seed_all(seed: int) -> None:
    """Seeds torch, NumPy and Python."""
    if _cuda.is_initialized():
        _manual_seed(seed)
    else:
        _default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed((seed * 0x9E3779B1 + (seed >> 32)) & 0xFFFFFFFF)
    random.seed(seed)


# ---------------------------------------------------------------------------------------------------------------------
# where a task has all that it needs with it

_known: dict[int, Job] = {}  #: the last job, by its number
_lock = threading.Lock()


def run_sent(number: int, job: Packed | Job, part: Any, first: int, last: int, slot: int) -> Outcome:
    """Runs a task in a process that knows nothing of the call.

    Args:
        number: that of the call.
        job: a :class:`Job` without the data, packed or as it is.
        part: the rows of the chunks, too.
        first: the first chunk.
        last: the one behind the last.
        slot: that of the task in the table.
    """
    with _lock:
        known = _known.get(number)
        if known is None:
            known = job.opened() if isinstance(job, Packed) else job
            if is_forked() and torch.get_num_threads() == known.threads > 1:
                torch.set_num_threads(1)  # it has inherited the number, but not the threads, and would wait for them
            _known.clear()
            _known[number] = known
    return known.run(part.opened() if isinstance(part, Packed) else part, first, last, slot)


def is_forked() -> bool:
    """Whether this process has begun as a copy of another one."""
    return getattr(multiprocessing.current_process(), "_start_method", None) == "fork"


def run_here(job: Job, first: int, last: int, slot: int) -> Outcome:
    """Runs a task in a thread."""
    return job.run(job.chunks.part(job.data, first, last), first, last, slot)
