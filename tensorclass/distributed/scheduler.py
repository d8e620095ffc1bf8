"""A call of ``map`` under way: which chunks are where, what came back, what is to be done again."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from collections.abc import Generator as Yielding
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Generator, Tensor

from tensorclass.interrupts import uninterrupted
from tensorclass.td.memmap import MemoryMappedTensor
from tensorclass.td.shared_memory import NoSharedMemory, share
from tensorclass.td.stores.lazy.stack import LazyStacked

from . import worker_pool, working
from .chunks import Chunks, Joined, Target
from .executors import Place, Runner
from .faults import NotSendable, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from .sharing import Packed, packed
from .task_table import Note, TaskTable
from .working import Failure, Job, Outcome

#: how many seconds a task shall take, by where it runs; chunks that take less go together
_TASK: dict[Place, float] = {"threads": 0.02, "processes": 0.02, "machines": 0.1}
_START = 60.0  #: seconds that a process may take to begin, beside the time-out
_LOOK = 0.1  #: seconds between two looks at the processes
_PARTS = 32  #: how many tasks are made of one that was lost where nobody noted what it was at
_UNSET: Any = object()
T = TypeVar("T")

#: the first of some chunks, how many they are, what they gave
Results: TypeAlias = "Yielding[tuple[int, int, Any], None, None]"


class Options(NamedTuple):
    """The arguments of a call."""

    dim: int
    num_workers: int | None
    chunksize: int | None
    num_chunks: int | None
    pool: Any
    generator: Generator | None
    max_tasks_per_child: int | None
    worker_threads: int
    index_with_generator: bool
    pbar: bool
    mp_start_method: str | None
    executor: Any
    timeout: float | None
    retries: int


class _Task:
    """Chunks that a worker has."""

    __slots__ = ("first", "is_late", "last", "slot", "submitted")

    def __init__(self, first: int, last: int, slot: int) -> None:
        self.first: int = first
        self.last: int = last
        self.slot: int = slot
        self.submitted: float = time.monotonic()
        self.is_late: bool = False


class Scheduler:
    """A call under way: which chunks are where, and how often each was tried.

    Args:
        what: ``"map"`` or ``"map_iter"``, for messages.
        data: the rows.
        job: what is done with them.
        target: what results are written to here.
        runner: where the tasks run; ``None`` makes processes.
        workers: how many can run at a time.
        options: the arguments of the call.
    """

    def __init__(
        self,
        what: str,
        data: Any,
        job: Job,
        target: Target | None,
        runner: Runner | None,
        workers: int,
        options: Options,
    ) -> None:
        self.what: str = what
        self.chunks: Chunks = job.chunks
        self.target: Target | None = target
        self.writes_here: bool = target is not None
        self.held: int = 0  #: tasks whose results wait for those in front of them
        self._data: Any = data
        self._job: Job = job
        self._given: Runner | None = runner
        self._workers: int = max(1, min(workers, job.chunks.total))
        self._options: Options = options
        self._place: Place = "processes" if runner is None else runner.place
        # two tasks for each worker, so that none waits for the way of a result and of the next task
        exact = options.max_tasks_per_child is not None or (self._place == "machines" and options.timeout is not None)
        self._window: int = self._workers * (1 if exact else 2)
        self._limit: int = self._window + 2 * self._workers
        self._next: int = 0
        self._again: deque[tuple[int, int]] = deque()
        self._tries: dict[int, int] = {}
        self._until: int = job.chunks.total  #: chunks from here on are not given out: one in front of them failed
        self._barren: int = 0  #: processes that died before they began
        self._pace: float | None = None  #: seconds for a chunk
        self._size: int = 1
        self._running: dict[Future[Any], _Task] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._heard: float = 0.0
        self._number: int = uuid.uuid4().int >> 64
        self._runner: Any = None
        self._own_pool: worker_pool.WorkerPool | None = None
        self._table: TaskTable | None = None
        self._call: Callable[[int, int, int], Future[Any]] = _UNSET

    def run(self) -> Results:
        """The results as they come: the first of some chunks, how many they are, and what they gave.

        What a chunk that failed gives is the error, a :class:`WorkerError`, which is raised by who takes it.
        """
        if not self.chunks.length and self.chunks.single:
            return
        ended = False
        try:
            self._begin()
            self._heard = time.monotonic()
            while True:
                self._give_out()
                if not self._running:
                    break
                future = self._waited()
                task = None if future is None else self._running.pop(future, None)
                if future is None or task is None:  # nothing came, or something that is not waited for any more
                    continue
                self._heard = time.monotonic()
                self._slots.append(task.slot)
                yield from self._taken(future, task)
            ended = True
        finally:
            self.end(ended)

    # -- beginning and end --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        slots = self._window
        self._slots: list[int] = list(range(slots))[::-1]
        if self._place != "machines":
            with uninterrupted():
                self._table = TaskTable(slots, self._place == "threads")
        table = self._table
        job = self._job._replace(table=table)
        runner: Runner
        if self._given is None:
            runner = self._made_pool(job)
            self._call = lambda first, last, slot: runner.submit(worker_pool.run, first, last, slot)
        elif self._place == "threads":
            job = self._job = job._replace(here=True, data=self._data, ended=threading.Event())
            runner = self._given
            self._call = lambda first, last, slot: runner.submit(working.run_here, job, first, last, slot)
        elif self._place == "processes":
            runner = self._given
            whole = self._packed(job)
            runner.kept.append(whole)
            kept = runner.keep(whole.by_handles())
            number, chunks, data = self._number, self.chunks, self._data
            _share(data)
            parts: dict[int, Packed] = {}  #: by slot, as long as the task needs its memory

            def call(first: int, last: int, slot: int) -> Future[Any]:
                part = parts[slot] = packed(chunks.part(data, first, last))
                return runner.submit(working.run_sent, number, kept, part.by_handles(), first, last, slot)

            self._call = call
        else:  # Ray and Dask pickle by themselves: they take what the program defines along, and memory as it is
            runner = self._given
            kept = self._sent(lambda: runner.keep(job), job)
            number, chunks, data = self._number, self.chunks, self._data

            def call(first: int, last: int, slot: int) -> Future[Any]:
                part = chunks.part(data, first, last)
                return self._sent(lambda: runner.submit(working.run_sent, number, kept, part, first, last, slot), job)

            self._call = call
        self._runner = runner

    def _made_pool(self, job: Job) -> worker_pool.WorkerPool:
        options = self._options
        context: Any = torch.multiprocessing.get_context(options.mp_start_method)
        forks = context.get_start_method() == "fork"
        if forks and any(leaf.is_cuda for leaf in _tensors(self._data)):
            raise RuntimeError(
                f"{self.what}: processes that are forked cannot use tensors of a GPU; give mp_start_method='spawn'"
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
        """What sending something gives; a clear error where the executor cannot pickle it."""
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
        """Give back all that the call has, once; a call of this that was interrupted can be made again.

        Args:
            ended: all is done, so that processes end by themselves. Otherwise they are killed.
        """
        with uninterrupted():
            self._end(ended)

    def _end(self, ended: bool) -> None:
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

    def _give_out(self) -> None:
        while self._slots:
            if self._again:
                first, last = self._again.popleft()
            elif self._next < self._until and len(self._running) + self.held < self._limit:
                first, last = self._next, self._next + self._group()
                self._next = last
            else:
                return
            slot = self._slots.pop()
            if self._table is not None:
                self._table.clear(slot)
            task = _Task(first, last, slot)
            future: Future[Any]
            with uninterrupted():  # what is under way is known
                try:
                    future = self._call(first, last, slot)
                except BrokenExecutor as error:  # a process died since the last task ended
                    future = Future()
                    future.set_exception(error)
                self._running[future] = task
            future.add_done_callback(self._done.put)

    def _group(self) -> int:
        """How many chunks the next task has: as many as take the time that one shall take, as far as that is known."""
        left = self.chunks.total - self._next
        if self._pace is not None:
            wanted = int(_TASK[self._place] / max(self._pace, 1e-7))
            self._size = max(1, min(wanted, self._size * 16))
        size = min(self._size, -(-left // self._window))
        if self._options.max_tasks_per_child is not None:
            size = min(size, self._options.max_tasks_per_child)
        return max(1, size)

    def _waited(self) -> Future[Any] | None:
        """The next task that ended; ``None`` after a look at those that did not."""
        while True:
            try:
                return self._done.get(timeout=self._patience())
            except queue.Empty:
                late = self._look()
                if late is not None:
                    return late

    def _patience(self) -> float:
        timeout = self._options.timeout
        if timeout is None:
            return _LOOK
        end = min(self._deadline(task, timeout) for task in self._running.values())
        return max(0.001, min(_LOOK, end - time.monotonic()))

    def _deadline(self, task: _Task, timeout: float) -> float:
        if self._table is None:
            return task.submitted + timeout * (task.last - task.first)
        note = self._table.note(task.slot)
        if note is not None:
            return note.since + timeout
        return max(task.submitted, self._heard) + timeout + (_START if self._own_pool is not None else 0.0)

    def _look(self) -> Future[Any] | None:
        """A task that takes too long, or whose process is gone without a word."""
        timeout, now = self._options.timeout, time.monotonic()
        begun = self._table is not None and any(self._table.note(task.slot) for task in self._running.values())
        for future, task in self._running.items():
            if future.done():
                continue
            note = self._table.note(task.slot) if self._table is not None else None
            if self._own_pool is None and self._place == "processes" and note is not None and not _is_alive(note.who):
                return future
            if timeout is not None and now >= self._deadline(task, timeout):
                if note is None and begun:
                    continue  # it waits for others
                task.is_late = True
                if self._own_pool is None:
                    self._runner.cancel(future)
                    return future
                self._own_pool.end(future)
                return self._ended(future)
        return None

    def _ended(self, future: Future[Any]) -> Future[Any]:
        """A future of a process that was killed, when its executor knows it."""
        end = time.monotonic() + 5.0
        while not future.done() and time.monotonic() < end:
            time.sleep(0.002)
        return future

    # -- results ------------------------------------------------------------------------------------------------------

    def _taken(self, future: Future[Any], task: _Task) -> Results:
        note = self._table.note(task.slot) if self._table is not None else None
        error: BaseException | None = None
        outcome: Any = None
        if not future.done():
            error = CancelledError()
        else:
            try:
                outcome = future.result()
            except (CancelledError, Exception) as found:  # of the executor: what the function raises is an outcome
                error = found
        if isinstance(outcome, Outcome):
            yield from self._results(outcome, task)
        else:
            yield from self._lost(task, note, error)

    def _results(self, outcome: Outcome, task: _Task) -> Results:
        behind = task.first + outcome.done
        if outcome.done:
            pace = outcome.seconds / outcome.done
            self._pace = pace if self._pace is None else 0.5 * (self._pace + pace)
            self._barren = 0
            found = outcome.results
            found = found.opened() if isinstance(found, Packed) else found
            if self.writes_here:
                found = Joined(None, found)
            yield task.first, outcome.done, found
        if outcome.failure is not None:
            yield from self._failed(behind, task.last, self._raised(behind, outcome.worker, outcome.failure))
        elif behind < task.last:
            self._again.appendleft((behind, task.last))

    def _raised(self, chunk: int, worker: str, failure: Failure) -> WorkerError:
        return WorkerRaised.of(
            failure.raised(),
            f"{self.what}: {self.chunks.shown(chunk)} failed in {worker}: {failure.text}{self._tried(chunk)}\n\n"
            f"{worker}:\n{failure.trace}",
            worker=worker,
            chunk=chunk,
            rows=self.chunks.rows(chunk),
            trace=failure.trace,
        )

    def _failed(self, chunk: int, last: int, error: WorkerError) -> Results:
        """A chunk failed; it is tried again, or its error is what it gives."""
        tries = self._tries[chunk] = self._tries.get(chunk, 0) + 1
        if tries > self._options.retries:
            self._until = min(self._until, chunk)
            yield chunk, 1, error
            return
        if chunk + 1 < last:
            self._again.appendleft((chunk + 1, last))
        self._again.appendleft((chunk, chunk + 1))

    def _lost(self, task: _Task, note: Note | None, error: BaseException | None) -> Results:
        """A task did not come back."""
        chunk = task.first if note is None else note.chunk
        if note is None and not task.is_late and self._table is not None and self._runner.survives:
            self._barren += 1
            if self._barren <= 3 * self._workers + self._options.retries:  # it waited behind one whose process died
                self._again.appendleft((task.first, task.last))
                return
        if not self._runner.survives:
            task, note = self._to_blame(task, note)
            raise self._fault(task, task.first if note is None else note.chunk, note, error) from error
        if self._options.retries and self._table is None and task.last - task.first > 1:
            self._split(task)
            return
        fault = self._fault(task, chunk, note, error)
        if chunk > task.first:  # what it had done is lost, too
            self._again.appendleft((task.first, chunk))
        fault.__cause__ = error
        yield from self._failed(chunk, task.last, fault)

    def _split(self, task: _Task) -> None:
        """Gives the chunks of a lost task out in smaller ones: nobody knows which of them it was."""
        step = -(-(task.last - task.first) // _PARTS)
        parts = [(first, min(first + step, task.last)) for first in range(task.first, task.last, step)]
        self._again.extendleft(reversed(parts))

    def _to_blame(self, task: _Task, note: Note | None) -> tuple[_Task, Note | None]:
        """The task whose process died, of an executor that ends all of them then."""
        noted = [(other, self._table.note(other.slot)) for other in self._running.values() if self._table is not None]
        for other, found in [(task, note), *noted]:
            code = None if found is None else self._runner.exit_code(found.who)
            if code not in (None, 0, -signal.SIGTERM):
                return other, found
        return task, note

    def _fault(self, task: _Task, chunk: int, note: Note | None, error: BaseException | None) -> WorkerError:
        worker = self._runner.name if note is None else self._named(note)
        last = chunk + 1 if self._table is not None else task.last  # it is one of these
        shown, rows = self.chunks.shown(chunk, last), self.chunks.rows(chunk, last)
        tried = self._tried(chunk)
        if task.is_late:
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
        how = self._how(note, error)
        begun = "with" if self._table is None else "before it began" if note is None else "while it worked on"
        text = f"{self.what}: {worker} {how} {begun} {shown}{tried}"
        return WorkerDied(text, worker=worker, chunk=chunk, rows=rows)

    def _named(self, note: Note) -> str:
        """Who made a note, as in other messages."""
        if self._place != "threads":
            return f"process {note.who}"
        names = [thread.name for thread in threading.enumerate() if thread.ident == note.who]
        return f"thread {names[0] if names else note.who}"

    def _how(self, note: Note | None, error: BaseException | None) -> str:
        code = None if note is None else self._runner.exit_code(note.who)
        if code is not None and code < 0:
            names = {number.value: number.name for number in signal.Signals}
            return f"was killed by {names.get(-code, f'signal {-code}')}"
        if code is not None:
            return f"ended with exit code {code}"
        if note is None and self._own_pool is not None:
            return (
                "could not begin (a program whose processes are not forked is a file, with "
                "`if __name__ == '__main__':` around what it does) and ended"
            )
        if self._place == "processes":
            return "ended"
        return f"failed ({type(error).__name__}: {error})"

    def _tried(self, chunk: int) -> str:
        tries = self._tries.get(chunk, 0)
        return f", as did {tries} tries before" if tries > 1 else ", as did one try before" if tries else ""


# ---------------------------------------------------------------------------------------------------------------------
# the data


def _is_plain(data: Any) -> bool:
    """Whether all of a collection is in memory."""
    if type(data._store) is not dict and not isinstance(data, LazyStacked):
        return False
    return all(_is_plain(node) for node in data._nodes())


def _tensors(data: Any) -> list[Tensor]:
    return list(data._leaves()) if _is_plain(data) else []


def _share(data: Any) -> None:
    """Moves tensors to shared memory, so that what a function writes into its chunk is seen here."""
    for leaf in _tensors(data):
        memory = leaf.device.type == "cpu" and leaf.layout is torch.strided and not leaf.is_nested
        if (
            memory
            and not isinstance(leaf, MemoryMappedTensor)
            and leaf.numel()
            and not leaf.untyped_storage().is_shared()
        ):
            share(leaf)


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended, and that nobody asked for yet, does not."""
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
