"""A running call of ``map``: sends tasks, watches workers, and turns what is lost into errors that name the chunk.

:class:`.task_queue.TaskQueue` decides what is sent and what is repeated; this module has its input and output: futures,
clocks, processes, shared memory and messages.

Why one ``ProcessPoolExecutor`` of several workers is not enough. When one of its processes dies, it kills the others
and gives all pending futures the same ``BrokenProcessPool``, which does not name a process or a call. It cannot end a
call that runs, and does not tell which process runs which future. ``executor.map(chunksize=...)`` loses the results of
a whole group if one call fails. So each worker is an executor of its own (:mod:`.worker_pool`), and workers note
their current chunk in shared memory (:mod:`.task_table`), because a task has many chunks.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import time
import uuid
from collections.abc import Callable
from collections.abc import Generator as Yielding
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Generator, Tensor

from tensorclass.distributed.shared_pickle import Packed, packed
from tensorclass.distributed.worker_errors import NotSendable, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import type_name
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.memory.shared_memory import NoSharedMemory, share
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked

from . import worker_pool, worker_task
from .executors import Location, Runner
from .row_chunks import Chunks, Joined, Target
from .task_queue import Task, TaskLimits, TaskQueue
from .task_table import ChunkNote, TaskTable
from .worker_task import Failure, Job, TaskResult

#: wanted seconds of a task by where it runs; short chunks are grouped
_TASK_SECONDS: dict[Location, float] = {"threads": 0.02, "processes": 0.02, "machines": 0.1}
_START_SECONDS = 60.0  #: that a process may take to start, beside the time-out
_POLL_SECONDS = 0.1  #: between two checks of the processes
_UNSET: Any = object()
T = TypeVar("T")

#: first chunk, number of chunks, their results
Results: TypeAlias = "Yielding[tuple[int, int, Any], None, None]"


class MapOptions(NamedTuple):
    """Arguments of ``map`` and ``map_iter``."""

    dim: int
    num_workers: int | None
    chunksize: int | None = None
    num_chunks: int | None = None
    pool: Any = None
    generator: Generator | None = None
    max_tasks_per_child: int | None = None
    worker_threads: int = 1
    mp_start_method: str | None = None
    executor: Any = None
    timeout: float | None = None
    retries: int = 0


@dataclass
class _RunningTask:
    """A task that a worker has."""

    task: Task
    submitted: float = field(default_factory=time.monotonic)
    is_late: bool = False


class Scheduler:
    """A running call: its tasks under way, its workers, and its results.

    Args:
        what: ``"map"`` or ``"map_iter"``, for messages.
        data: the rows.
        job: the function and how to call it.
        target: where this process writes results.
        runner: runs the tasks; ``None`` starts processes.
        workers: number of tasks that can run at the same time.
        options: arguments of the call.
    """

    def __init__(
        self,
        what: str,
        data: Any,
        job: Job,
        target: Target | None,
        runner: Runner | None,
        workers: int,
        options: MapOptions,
    ) -> None:
        self.what: str = what
        self.chunks: Chunks = job.chunks
        self.target: Target | None = target
        self.writes_here: bool = target is not None
        self.held: int = 0  #: returned tasks whose results wait for those of earlier chunks
        self._data: Any = data
        self._job: Job = job
        self._given: Runner | None = runner
        self._workers: int = max(1, min(workers, job.chunks.total))
        self._options: MapOptions = options
        self._location: Location = "processes" if runner is None else runner.place
        # two tasks for each worker, so that none waits while a result and the next task travel
        exact = options.max_tasks_per_child is not None or (
            self._location == "machines" and options.timeout is not None
        )
        self._slots: int = self._workers * (1 if exact else 2)
        limits = TaskLimits(
            self._workers, self._slots, options.retries, _TASK_SECONDS[self._location], options.max_tasks_per_child,
            notes_chunks=self._location != "machines",
        )  # fmt: skip
        self._queue: TaskQueue = TaskQueue(job.chunks.total, limits)
        self._running: dict[Future[Any], _RunningTask] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._last_result: float = 0.0  #: when a task returned last
        self._call_id: int = uuid.uuid4().int >> 64
        self._runner: Any = None
        self._own_pool: worker_pool.WorkerPool | None = None
        self._table: TaskTable | None = None
        self._call: Callable[[int, int, int], Future[Any]] = _UNSET

    def run(self) -> Results:
        """Yield results as they arrive: first chunk, number of chunks, their results.

        The result of a chunk that failed is a :class:`WorkerError`. The caller raises it.
        """
        if not self.chunks.length and self.chunks.single:
            return
        ended = False
        try:
            self._begin()
            self._last_result = time.monotonic()
            while True:
                self._submit_tasks()
                if not self._running:
                    break
                future = self._next_ended()
                running = self._running.pop(future, None)
                if running is None:  # given up earlier
                    continue
                self._last_result = time.monotonic()
                yield from self._collect(future, running)
            ended = True
        finally:
            self.end(ended)

    # -- start and end ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._location != "machines":
            with uninterrupted():
                self._table = TaskTable(self._slots, self._location == "threads")
        table = self._table
        job = self._job._replace(table=table)
        runner: Runner
        if self._given is None:
            runner = self._start_processes(job)
            self._call = lambda first, last, slot: runner.submit(worker_pool.run, first, last, slot)
        elif self._location == "threads":
            job = self._job = job._replace(in_threads=True, data=self._data, ended=threading.Event())
            runner = self._given
            self._call = lambda first, last, slot: runner.submit(worker_task.run_here, job, first, last, slot)
        elif self._location == "processes":
            runner = self._given
            packed_job = self._packed(job)
            runner.kept.append(packed_job)
            kept = runner.keep(packed_job.by_handles())
            call_id, chunks, data = self._call_id, self.chunks, self._data
            _share(data)
            rows_of_slot: dict[int, Packed] = {}  #: keeps the memory of the rows until the task is over

            def call(first: int, last: int, slot: int) -> Future[Any]:
                rows = rows_of_slot[slot] = packed(chunks.part(data, first, last))
                return runner.submit(worker_task.run_sent, call_id, kept, rows.by_handles(), first, last, slot)

            self._call = call
        else:  # Ray and Dask pickle for themselves: functions of the program by value, memory without a copy
            runner = self._given
            kept = self._sent(lambda: runner.keep(job), job)
            call_id, chunks, data = self._call_id, self.chunks, self._data

            def call(first: int, last: int, slot: int) -> Future[Any]:
                rows = chunks.part(data, first, last)
                return self._sent(
                    lambda: runner.submit(worker_task.run_sent, call_id, kept, rows, first, last, slot), job
                )

            self._call = call
        self._runner = runner

    def _start_processes(self, job: Job) -> worker_pool.WorkerPool:
        options = self._options
        context: Any = torch.multiprocessing.get_context(options.mp_start_method)
        forks = context.get_start_method() == "fork"
        if forks and any(leaf.is_cuda for leaf in _tensors(self._data)):
            raise RuntimeError(
                f"{self.what}: forked processes cannot use tensors on a GPU; give mp_start_method='spawn'"
            )
        _share(self._data)
        job = job._replace(data=self._data)
        inherits = forks and _is_plain(self._data)
        given: Job | Packed = job if inherits else self._packed(job)
        self._own_pool = worker_pool.WorkerPool(
            self._workers, context, given, options.worker_threads, options.max_tasks_per_child
        )
        return self._own_pool

    def _sent(self, send: Callable[[], T], job: Job) -> T:
        """Call ``send``. Raise a clear error if the executor cannot pickle its arguments."""
        try:
            return send()
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            name = getattr(job.fn, "__qualname__", repr(job.fn))
            raise NotSendable(f"{self.what}: the function {name}, or the data, cannot be sent: {error}") from error

    def _packed(self, job: Job) -> Packed:
        try:
            return packed(job)
        except NoSharedMemory:
            raise
        except Exception as error:
            name = getattr(job.fn, "__qualname__", repr(job.fn))
            try:
                packed(job.fn)
            except Exception as found:
                raise NotSendable(
                    f"{self.what}: the function {name} cannot be sent to another process: {found}. Define it at the "
                    "top level of a module, not in a function and not as a lambda; functools.partial gives it further "
                    "arguments; executor=ThreadPoolExecutor(...) runs any function in threads"
                ) from found
            raise NotSendable(f"{self.what}: the data cannot be sent to another process: {error}") from error

    def end(self, ended: bool = False) -> None:
        """Release all resources of the call. Can be called again, also after an interrupt.

        Args:
            ended: all tasks are over, so that processes exit by themselves. Otherwise they are killed.
        """
        with uninterrupted():
            if self._job.ended is not None:
                self._job.ended.set()
            if self._own_pool is not None:
                self._own_pool.close(kill=not ended)
            else:
                runner, self._runner = self._runner, None
                if runner is not None:
                    runner.leave(list(self._running))
                    runner.release()
            self._running.clear()
            if self._table is not None:
                self._table.close()

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _submit_tasks(self) -> None:
        while True:
            task = self._queue.next_task(self.held)
            if task is None:
                return
            if self._table is not None:
                self._table.clear(task.slot)
            running = _RunningTask(task)
            future: Future[Any]
            with uninterrupted():  # a task that was submitted is noted, too
                try:
                    future = self._call(*task)
                except BrokenExecutor as error:  # a process died since the last task ended
                    future = Future()
                    future.set_exception(error)
                self._running[future] = running
            future.add_done_callback(self._done.put)

    def _next_ended(self) -> Future[Any]:
        """Wait for the next task that returned, was lost, or is late."""
        while True:
            try:
                return self._done.get(timeout=self._poll_seconds())
            except queue.Empty:
                late = self._late_or_lost()
                if late is not None:
                    return late

    def _poll_seconds(self) -> float:
        timeout = self._options.timeout
        if timeout is None:
            return _POLL_SECONDS
        end = min(self._deadline(running, timeout) for running in self._running.values())
        return max(0.001, min(_POLL_SECONDS, end - time.monotonic()))

    def _deadline(self, running: _RunningTask, timeout: float) -> float:
        task = running.task
        if self._table is None:
            return running.submitted + timeout * (task.last - task.first)
        note = self._table.note(task.slot)
        if note is not None:
            return note.since + timeout
        started = max(running.submitted, self._last_result)
        return started + timeout + (_START_SECONDS if self._own_pool is not None else 0.0)

    def _late_or_lost(self) -> Future[Any] | None:
        """Return a task that takes too long, which is ended, or whose process is gone."""
        timeout, now = self._options.timeout, time.monotonic()
        table = self._table
        begun = table is not None and any(table.note(running.task.slot) for running in self._running.values())
        for future, running in self._running.items():
            if future.done():
                continue
            note = table.note(running.task.slot) if table is not None else None
            is_process = self._own_pool is None and self._location == "processes"
            if is_process and note is not None and not _is_alive(note.worker):
                return future
            if timeout is not None and now >= self._deadline(running, timeout):
                if note is None and begun:
                    continue  # it waits behind another task
                running.is_late = True
                if self._own_pool is None:
                    self._runner.cancel(future)
                    return future
                self._own_pool.end(future)
                end = time.monotonic() + 5.0
                while not future.done() and time.monotonic() < end:  # until the executor has ended the future
                    time.sleep(0.002)
                return future
        return None

    # -- results ------------------------------------------------------------------------------------------------------

    def _collect(self, future: Future[Any], running: _RunningTask) -> Results:
        """Yield the results of a task that ended."""
        task = running.task
        note = self._table.note(task.slot) if self._table is not None else None
        error: BaseException | None = None
        result: Any = None
        if not future.done():
            error = CancelledError()
        else:
            try:
                result = future.result()
            except (CancelledError, Exception) as raised:  # by the executor: errors of the function are results
                error = raised
        if isinstance(result, TaskResult):
            yield from self._returned(result, task)
            return
        if not self._runner.survives:
            running, note = self._blamed(running, note)
            task = running.task
            raise self._fault(running, task.first if note is None else note.chunk, task.last, note, error) from error
        failed = self._queue.lost(task, None if note is None else note.chunk, running.is_late)
        if failed is not None:
            fault = self._fault(running, failed.first, failed.last, note, error)
            fault.__cause__ = error
            yield failed.first, 1, fault

    def _returned(self, result: TaskResult, task: Task) -> Results:
        failed = self._queue.returned(task, result.done, result.seconds, result.failure is not None)
        if result.done:
            values = result.results
            values = values.opened() if isinstance(values, Packed) else values
            if self.writes_here:
                values = Joined(None, values)
            yield task.first, result.done, values
        if failed is not None and result.failure is not None:
            yield failed, 1, self._raised(failed, result.worker, result.failure)

    def _raised(self, chunk: int, worker: str, failure: Failure) -> WorkerError:
        """Return the error for a chunk whose function raised."""
        return WorkerRaised.of(
            failure.raised(),
            f"{self.what}: {self.chunks.shown(chunk)} failed in {worker}: {failure.text}{self._tried(chunk)}\n\n"
            f"{worker}:\n{failure.trace}",
            worker=worker,
            chunk=chunk,
            rows=self.chunks.rows(chunk),
            trace=failure.trace,
        )

    def _blamed(self, running: _RunningTask, note: ChunkNote | None) -> tuple[_RunningTask, ChunkNote | None]:
        """Find the task whose process died, in an executor that ends all its processes when one dies."""
        table = self._table
        others = [] if table is None else [(other, table.note(other.task.slot)) for other in self._running.values()]
        for other, other_note in [(running, note), *others]:
            code = None if other_note is None else self._runner.exit_code(other_note.worker)
            if code not in (None, 0, -signal.SIGTERM):
                return other, other_note
        return running, note

    def _fault(
        self, running: _RunningTask, chunk: int, last: int, note: ChunkNote | None, error: BaseException | None
    ) -> WorkerError:
        """Return the error for a chunk that was lost, or for the chunks up to ``last`` if workers note nothing."""
        task = running.task
        worker = self._runner.name if note is None else self._worker_name(note)
        last = chunk + 1 if self._table is not None else last
        shown, rows = self.chunks.shown(chunk, last), self.chunks.rows(chunk, last)
        tried = self._tried(chunk)
        if running.is_late:
            seconds = f"{self._options.timeout:g} s"
            if self._table is None:
                if task.last - task.first > 1:
                    seconds = f"{(task.last - task.first) * (self._options.timeout or 0):g} s, {seconds} for each"
                text = f"{self.what}: {shown} did not come back from {worker} within {seconds}{tried}"
            elif note is None:
                text = f"{self.what}: {shown} was not begun within {seconds} by {worker}{tried}"
            else:
                ended = "; the process was killed" if self._own_pool is not None else ""
                text = f"{self.what}: {shown} is not done after {seconds} in {worker}{ended}{tried}"
            return WorkerTimeout(text, worker=worker, chunk=chunk, rows=rows)
        how = self._cause(note, error)
        begun = "with" if self._table is None else "before it began" if note is None else "while it worked on"
        text = f"{self.what}: {worker} {how} {begun} {shown}{tried}"
        return WorkerDied(text, worker=worker, chunk=chunk, rows=rows)

    def _worker_name(self, note: ChunkNote) -> str:
        if self._location != "threads":
            return f"process {note.worker}"
        names = [thread.name for thread in threading.enumerate() if thread.ident == note.worker]
        return f"thread {names[0] if names else note.worker}"

    def _cause(self, note: ChunkNote | None, error: BaseException | None) -> str:
        code = None if note is None else self._runner.exit_code(note.worker)
        if code is not None and code < 0:
            names = {number.value: number.name for number in signal.Signals}
            return f"was killed by {names.get(-code, f'signal {-code}')}"
        if code is not None:
            return f"ended with exit code {code}"
        if note is None and self._own_pool is not None:
            return (
                "could not start and ended (processes that are not forked import the program: it must be a file whose "
                "statements stand below `if __name__ == '__main__':`)"
            )
        if self._location == "processes":
            return "ended"
        return f"failed ({type_name(error)}: {error})"

    def _tried(self, chunk: int) -> str:
        tries = self._queue.earlier_tries(chunk)
        return f", as did {tries} tries before" if tries > 1 else ", as did one try before" if tries else ""


# ---------------------------------------------------------------------------------------------------------------------
# the data


def _is_plain(data: Any) -> bool:
    """Return whether all of a collection is in memory."""
    if type(data._store) is not dict and not isinstance(data, LazyStacked):
        return False
    return all(_is_plain(node) for node in data._nodes())


def _tensors(data: Any) -> list[Tensor]:
    return list(data._leaves()) if _is_plain(data) else []


def _share(data: Any) -> None:
    """Move tensors to shared memory, so that this process sees what a function writes into its chunk."""
    for leaf in _tensors(data):
        is_strided = leaf.device.type == "cpu" and leaf.layout is torch.strided and not leaf.is_nested
        is_own = leaf.numel() and not isinstance(leaf, MemoryMappedTensor)
        if is_strided and is_own and not leaf.untyped_storage().is_shared():
            share(leaf)


def _is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
