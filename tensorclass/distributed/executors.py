"""Where calls run: one face for the executors that users have.

:class:`Runner` is what :func:`map` asks of them. :func:`runner_of` finds the one for an executor of
``concurrent.futures``, for a pool of ``multiprocessing``, for a client of Dask and for Ray.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.pool import Pool, ThreadPool
from typing import Any, Literal, TypeAlias

#: threads of this process; processes that share memory with it; others, such as those of other machines
Place: TypeAlias = Literal["threads", "processes", "machines"]


class Runner(ABC):
    """Runs calls somewhere else, at most a number of them at a time.

    One for a kind of executors is made by deriving from it; :meth:`submit` is all that it must have.

    Args:
        name: what stands in messages: ``"Dask"``.
        workers: how many calls run at the same time.
        place: where they run.
        survives: whether it takes calls after one of its processes died, so that one can be made again.
    """

    def __init__(self, name: str, workers: int, place: Place, *, survives: bool) -> None:
        self.name: str = name
        self.workers: int = max(1, workers)
        self.place: Place = place
        self.survives: bool = survives
        #: what is held until the call is over
        self.kept: list[Any] = []

    @abstractmethod
    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Begins a call, and gives the future of its result.

        The function is one of this package, which catches all that the user's function raises. So an error in the
        future is one of the executor: a process died, or something could not be sent.
        """

    def keep(self, value: Any) -> Any:
        """What each call of a series is given in place of an argument that is the same in all of them.

        The function gets the value itself. An executor that can have it where the calls run gives what refers to it.
        """
        return value

    def exit_code(self, pid: int) -> int | None:
        """How a process ended; ``None`` where that is not known."""
        return None

    def cancel(self, future: Future[Any]) -> None:
        """Ends a call that is not needed any more, as far as that can be done."""
        future.cancel()

    def leave(self, futures: list[Future[Any]]) -> None:
        """Ends all calls that are under way: a series of calls is over before its end."""
        for future in futures:
            self.cancel(future)

    def release(self) -> None:
        """Lets go of what was kept for a series of calls, which is over."""
        del self.kept[:]


class FuturesRunner(Runner):
    """An executor of ``concurrent.futures``, or another one that is like it."""

    def __init__(self, executor: Executor) -> None:
        threads = isinstance(executor, ThreadPoolExecutor)
        workers: int = getattr(executor, "_max_workers", 0) or os.cpu_count() or 1
        # only those of the standard library are known to have their processes here
        here = type(executor).__module__.startswith("concurrent.futures")
        place: Place = "threads" if threads else "processes" if here else "machines"
        super().__init__(type(executor).__name__, workers, place, survives=threads or not here)
        self._executor: Executor = executor

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future = self._executor.submit(function, *args)
        processes: dict[int, Any] = getattr(self._executor, "_processes", None) or {}
        # it forgets those that die
        self.kept.extend([process for process in processes.values() if process not in self.kept])
        return future

    def exit_code(self, pid: int) -> int | None:
        process: Any = next((kept for kept in self.kept if getattr(kept, "pid", None) == pid), None)
        end = time.monotonic() + 1.0
        while process is not None and process.exitcode is None and time.monotonic() < end:
            time.sleep(0.002)
        code: int | None = None if process is None else process.exitcode
        return code


class PoolRunner(Runner):
    """A pool of ``multiprocessing`` or ``torch.multiprocessing``."""

    def __init__(self, pool: Pool) -> None:
        threads = isinstance(pool, ThreadPool)
        workers: int = getattr(pool, "_processes", 0) or os.cpu_count() or 1
        super().__init__(type(pool).__name__, workers, "threads" if threads else "processes", survives=True)
        self._pool: Pool = pool

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._pool.apply_async(function, args, callback=future.set_result, error_callback=future.set_exception)
        return future


class DaskRunner(Runner):
    """A client of ``dask.distributed``."""

    def __init__(self, client: Any) -> None:
        threads: dict[str, int] = client.nthreads()
        super().__init__("Dask", sum(threads.values()), "machines", survives=True)
        self._client: Any = client
        self._running: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        # pure: what was computed before is not looked up. retries are counted here
        there = self._client.submit(function, *args, pure=False, retries=0)
        self._running[future] = there

        def done(there: Any) -> None:
            self._running.pop(future, None)
            try:
                future.set_result(there.result())
            except BaseException as error:
                future.set_exception(error)

        there.add_done_callback(done)
        return future

    def cancel(self, future: Future[Any]) -> None:
        there = self._running.pop(future, None)
        if there is not None:
            there.cancel(force=True)


def runner_of(executor: Any) -> Runner:
    """The runner for an executor.

    Args:
        executor: a :class:`Runner`; a ``concurrent.futures.Executor``, such as ``ProcessPoolExecutor`` and
            ``ThreadPoolExecutor``; a pool of ``multiprocessing``; a client of ``dask.distributed``; or the module
            ``ray``.

    Raises:
        TypeError: it is none of them.
    """
    if isinstance(executor, Runner):
        return executor
    if isinstance(executor, Pool):
        return PoolRunner(executor)
    if executor is sys.modules.get("ray", runner_of):
        ours: Any = importlib.import_module("tensorclass.distributed.ray")
        runner: Runner = ours.RayRunner(executor)
        return runner
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "nthreads"):
        return DaskRunner(executor)
    if isinstance(executor, Executor):
        return FuturesRunner(executor)
    raise TypeError(
        "executor: expected an executor of concurrent.futures, a pool of multiprocessing, a client of "
        f"dask.distributed, the module ray, or a tensorclass.distributed.Runner; got {executor!r}"
    )
