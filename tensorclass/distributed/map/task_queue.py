"""State machine of a ``map`` call: chunks to send, chunks to repeat, final errors. It has no input and output.

:class:`TaskQueue` has no clock, no futures and no processes. The scheduler reports what happened (a task returned, a
task was lost), and the queue decides: what is repeated, which error is final, how many chunks the next task has.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

_SPLIT_TASKS = 32  #: tasks to split a lost task into if nobody knows which of its chunks failed


class Task(NamedTuple):
    """Consecutive chunks for one worker."""

    first: int
    last: int  #: exclusive
    slot: int  #: where the worker notes its current chunk; no two tasks under way share one


class TaskLimits(NamedTuple):
    """Settings of a :class:`TaskQueue`."""

    workers: int
    slots: int  #: tasks under way at the same time
    retries: int  #: how often a chunk is repeated
    task_seconds: float  #: wanted duration of a task; short chunks are grouped
    task_chunks: int | None = None  #: chunks of a task at most
    notes_chunks: bool = True  #: workers note the chunk that they work on


class TaskQueue:
    """The chunks of a call: which are to be sent, which are under way, how often each was tried.

    Each chunk ends in one of two ways: it is returned, or its error is final. No new chunks are sent after one whose
    error is final.

    >>> queue = TaskQueue(3, TaskLimits(workers=1, slots=1, retries=0, task_seconds=0.02))
    >>> task = queue.next_task()
    >>> queue.returned(task, done=1, seconds=0.001, failed=False)
    >>> queue.next_task()
    Task(first=1, last=3, slot=0)
    """

    def __init__(self, chunks: int, limits: TaskLimits) -> None:
        self._limits: TaskLimits = limits
        self._total: int = chunks
        self._free_slots: list[int] = list(range(limits.slots))[::-1]
        self._next: int = 0  #: first chunk that was never sent
        self._stop: int = chunks  #: chunks from here on are not sent: one before them failed for good
        self._repeat: deque[tuple[int, int]] = deque()
        self._tries: dict[int, int] = {}
        self._chunk_seconds: float | None = None
        self._task_size: int = 1
        self._failed_starts: int = 0  #: tasks lost before they began, since the last that returned a chunk
        #: tasks under way, and returned tasks whose results wait for those of earlier chunks
        self._most_ahead: int = limits.slots + 2 * limits.workers

    def next_task(self, waiting_results: int = 0) -> Task | None:
        """Take the next task, or return ``None`` if there is nothing to send now.

        Args:
            waiting_results: returned tasks whose results the caller has not been given, because it wants them in order.
        """
        if not self._free_slots:
            return None
        under_way = self._limits.slots - len(self._free_slots)
        if self._repeat:
            first, last = self._repeat.popleft()
        elif self._next < self._stop and under_way + waiting_results < self._most_ahead:
            first, last = self._next, self._next + self._group_size()
            self._next = last
        else:
            return None
        return Task(first, last, self._free_slots.pop())

    def returned(self, task: Task, done: int, seconds: float, failed: bool) -> int | None:
        """A task came back.

        Args:
            task: the task.
            done: how many of its chunks are done, counted from the first.
            seconds: how long they took together.
            failed: whether the function raised for the chunk after them.

        Returns:
            The chunk whose error is final, if there is one.
        """
        self._free_slots.append(task.slot)
        behind = task.first + done
        if done:
            pace = seconds / done
            self._chunk_seconds = pace if self._chunk_seconds is None else 0.5 * (self._chunk_seconds + pace)
            self._failed_starts = 0
        if failed:
            return self._failed(behind, task.last)
        if behind < task.last:
            self._repeat.appendleft((behind, task.last))
        return None

    def lost(self, task: Task, chunk: int | None, is_late: bool) -> Task | None:
        """A task did not come back: its process died, or took too long.

        Args:
            task: the task.
            chunk: the chunk that the worker noted last, or ``None`` if it noted none.
            is_late: whether the task was ended because it took too long.

        Returns:
            The chunks whose error is final, if any: one, or all of the task if workers note nothing.
        """
        self._free_slots.append(task.slot)
        limits = self._limits
        if chunk is None and not is_late and limits.notes_chunks:
            # it waited behind a task whose process died; but a program whose processes never start must end
            self._failed_starts += 1
            if self._failed_starts <= 3 * limits.workers + limits.retries:
                self._repeat.appendleft((task.first, task.last))
                return None
        if limits.retries and not limits.notes_chunks and task.last - task.first > 1:
            self._split(task)
            return None
        blamed = task.first if chunk is None else chunk
        if blamed > task.first:  # results of earlier chunks are lost as well
            self._repeat.appendleft((task.first, blamed))
        if self._failed(blamed, task.last) is None:
            return None
        return task._replace(first=blamed, last=blamed + 1 if limits.notes_chunks else task.last)

    def earlier_tries(self, chunk: int) -> int:
        """Return how often a chunk failed and was repeated."""
        return self._tries.get(chunk, 0)

    def _failed(self, chunk: int, last: int) -> int | None:
        """Repeat a chunk, and the rest of its task; or return the chunk if it has no tries left."""
        tries = self._tries.get(chunk, 0)
        if tries >= self._limits.retries:
            self._stop = min(self._stop, chunk)
            return chunk
        self._tries[chunk] = tries + 1
        if chunk + 1 < last:
            self._repeat.appendleft((chunk + 1, last))
        self._repeat.appendleft((chunk, chunk + 1))
        return None

    def _split(self, task: Task) -> None:
        """Repeat a lost task as smaller tasks, to find out which chunk fails."""
        step = -(-(task.last - task.first) // _SPLIT_TASKS)
        smaller = [(first, min(first + step, task.last)) for first in range(task.first, task.last, step)]
        self._repeat.extendleft(reversed(smaller))

    def _group_size(self) -> int:
        """Return how many chunks the next task has, from the duration of those that returned."""
        left = self._total - self._next
        if self._chunk_seconds is not None:
            wanted = int(self._limits.task_seconds / max(self._chunk_seconds, 1e-7))
            self._task_size = max(1, min(wanted, self._task_size * 16))
        size = min(self._task_size, -(-left // self._limits.slots))
        if self._limits.task_chunks is not None:
            size = min(size, self._limits.task_chunks)
        return max(1, size)
