"""A group of processes that tests share: functions run on all ranks at once, and nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from tests import forkserver

STARTING = 150.0  #: seconds that processes may take to start on a busy machine


class RemoteError(AssertionError):
    """A function failed on a rank; the message has its traceback."""


class Failed:
    """Result of a rank whose function raised."""

    def __init__(self, error: BaseException, text: str) -> None:
        self.kind, self.message, self.traceback = type(error), str(error), text

    def __repr__(self) -> str:
        return f"Failed({self.kind.__name__}: {self.message})"


class Group:
    """Processes of one gloo group, with ranks from 0 on."""

    def __init__(self, size: int, seconds: float, context: Any) -> None:
        self.size = size
        self.processes: list[Any] = []
        self.pipes: list[Connection] = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, rank, size, seconds), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(ours)
        self.pids = [process.pid for process in self.processes]
        port = self.result(0, STARTING)  # the system has chosen it as rank 0 began to listen
        for pipe in self.pipes[1:]:
            pipe.send_bytes(pickle.dumps(port))

    def start(self, function: Callable[..., Any], *args: Any, ranks: Sequence[int] | None = None) -> None:
        """Lets ranks call ``function(rank, *args)``."""
        for rank in range(self.size) if ranks is None else ranks:
            self.pipes[rank].send_bytes(pickle.dumps((function, args)))

    def result(self, rank: int, seconds: float = 60.0) -> Any:
        """Return the result of a rank: a :class:`Failed` if it raised, ``None`` if its process is gone."""
        try:
            if not self.pipes[rank].poll(seconds):
                raise RemoteError(f"rank {rank}: no answer within {seconds} s")
            return pickle.loads(self.pipes[rank].recv_bytes())
        except (EOFError, ConnectionError):
            return None

    def outcomes(self, function: Callable[..., Any], *args: Any, seconds: float = 60.0) -> list[Any]:
        """Return the results of all ranks, or a :class:`Failed` for each that raised."""
        self.start(function, *args)
        return [self.result(rank, seconds) for rank in range(self.size)]

    def run(self, function: Callable[..., Any], *args: Any, seconds: float = 60.0) -> list[Any]:
        """Run ``function(rank, *args)`` on each rank and return the results.

        Raises:
            RemoteError: it raised on one; the message has the traceback of each.
        """
        found = self.outcomes(function, *args, seconds=seconds)
        failed = [f"rank {rank}:\n{item.traceback}" for rank, item in enumerate(found) if isinstance(item, Failed)]
        if failed:
            raise RemoteError("\n".join(failed))
        return found

    def close(self) -> None:
        """Ends the processes."""
        for pipe in self.pipes:
            with suppress(BrokenPipeError, ConnectionError):
                pipe.send_bytes(pickle.dumps(None))
        end = time.monotonic() + 5
        for process in self.processes:
            process.join(max(0.1, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for pipe in self.pipes:
            pipe.close()


def _serve(pipe: Connection, rank: int, size: int, seconds: float) -> None:
    torch.set_num_threads(1)
    port = pickle.loads(pipe.recv_bytes()) if rank else 0
    store = dist.TCPStore(
        "127.0.0.1", port, size, rank == 0, timeout=timedelta(seconds=STARTING), wait_for_workers=False
    )
    if not rank:
        pipe.send_bytes(pickle.dumps(store.port))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))
    while True:
        try:
            task = pickle.loads(pipe.recv_bytes())
        except EOFError:
            break
        if task is None:
            break
        function, args = task
        try:
            found = function(rank, *args)
        except BaseException as error:
            found = Failed(error, traceback.format_exc())
        pipe.send_bytes(pickle.dumps(found))
    os._exit(0)  # peers may be gone: nothing is waited for


def _is_there(rank: int) -> int:
    return rank


def shared_memory() -> set[str]:
    """The segments of shared memory that are there."""
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def children(parent: int | str = "self") -> set[int]:
    """The processes that this one, or another, has started and that are there."""
    found: set[int] = set()
    for task in os.listdir(f"/proc/{parent}/task"):  # a thread may end meanwhile
        with suppress(FileNotFoundError), open(f"/proc/{parent}/task/{task}/children") as file:
            found.update(map(int, file.read().split()))
    return found


def started() -> set[int]:
    """The processes that this one has started, by itself or by the fork server."""
    server = forkserver.server()
    return children() | (set() if server is None else children(server))


@contextmanager
def group_of(size: int, seconds: float = 20.0, context: Any = None) -> Iterator[Group]:
    """A group that ends with the block, whatever happens in it; nothing of it is left.

    Args:
        size: the number of ranks.
        seconds: the time-out of the group.
        context: how its processes start; by default they are forked from a process that has torch loaded.
    """
    multiprocessing.resource_tracker.ensure_running()  # it outlives the group
    context = forkserver.context() if context is None else context
    memory, before = shared_memory(), started()
    group = Group(size, seconds, context)
    try:
        group.run(_is_there, seconds=STARTING)
        yield group
    finally:
        group.close()
    left = started() - before
    assert not left, f"processes are left: {left}"
    pids = [str(pid) for pid in (os.getpid(), *group.pids)]  # other test runs have segments there, too
    mine = {name for name in shared_memory() - memory if set(pids) & set(name.split("_"))}
    assert not mine, f"segments of shared memory are left: {mine}"
