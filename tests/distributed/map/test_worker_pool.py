"""The processes of ``map``: which of them gets a task, and what their start leaves behind."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tensorclass.distributed.map.worker_pool import WorkerPool
from tests import fresh_python


class _EndsMeanwhile(set[Any]):
    """The tasks of a worker whose only task ends between two looks at it."""

    looks = 0

    def __bool__(self) -> bool:
        self.looks += 1
        return self.looks == 1

    def __len__(self) -> int:
        return 1 if self.looks == 0 else 0


class _Worker:
    is_gone = False

    def __init__(self, chunks: int = 0, tasks: set[Any] | None = None) -> None:
        self.chunks = chunks
        self.tasks = set[Any]() if tasks is None else tasks
        self.is_ended = False

    def end(self) -> None:
        self.is_ended = True


def _pool(*workers: _Worker, max_chunks: int | None) -> WorkerPool:
    pool: Any = WorkerPool(2, None, None, 1, max_chunks)  # type: ignore[arg-type]
    pool._new_worker = _Worker
    pool._workers = list(workers)
    return pool  # type: ignore[no-any-return]


def test_a_worker_that_had_its_chunks_gets_no_more_although_its_task_ends_meanwhile() -> None:
    spent = _Worker(2, _EndsMeanwhile())
    pool = _pool(spent, max_chunks=2)
    assert pool._least_busy(1).chunks == 0
    full = _pool(_Worker(2, _EndsMeanwhile()), _Worker(2, {"a task"}), max_chunks=2)
    assert full._least_busy(1).chunks == 0


def test_idle_workers_that_had_their_chunks_are_ended() -> None:
    spent, fresh = _Worker(2), _Worker(1)
    pool = _pool(spent, fresh, max_chunks=2)
    assert pool._least_busy(1) is fresh
    assert spent.is_ended
    assert not fresh.is_ended


def test_without_a_limit_the_worker_with_the_fewest_tasks_is_taken() -> None:
    busy, less = _Worker(9, {1, 2}), _Worker(9, {3})
    assert _pool(busy, less, max_chunks=None)._least_busy(1) is less


_MASK_OF_A_LATER_PROCESS = """
import multiprocessing, signal, torch
from tensorclass import TensorDict

TensorDict({"x": torch.zeros(4)}, [4]).map(torch.neg, num_workers=1, mp_start_method="forkserver")
with multiprocessing.get_context("forkserver").Pool(1) as pool:
    print(pool.apply(signal.pthread_sigmask, (signal.SIG_BLOCK, ())))
    pool.close()
    pool.join()  # to terminate a process that has sent its result a moment ago can hang
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of POSIX")
def test_the_fork_server_blocks_no_signals_of_processes_that_it_starts_later() -> None:
    assert fresh_python.run(("-c", _MASK_OF_A_LATER_PROCESS), check=True).stdout.strip() == "set()"
