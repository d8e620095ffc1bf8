"""One interface for executors: :class:`Runner`, which ``map`` calls.

:func:`runner_of` adapts executors of ``concurrent.futures``, pools of ``multiprocessing``, clients of Dask, and Ray.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.pool import Pool, ThreadPool
from typing import Any, Literal, TypeAlias

from tensorclass.support.printable import type_name

#: threads of this process; processes that can share memory with it; processes that cannot, as on other machines
Location: TypeAlias = Literal["threads", "processes", "machines"]


class Runner(ABC):
    """Base class for adapters of executors. Subclasses must implement :meth:`submit`.

    Args:
        name: name in messages, such as ``"Dask"``.
        workers: number of calls that run at the same time.
        place: where calls run: in ``"threads"`` of this process, in ``"processes"`` that can share memory with it, or
            on ``"machines"``, in processes that cannot.
        survives: whether the executor takes calls after one of its processes died, so that calls can be repeated.

    Example:
        >>> import torch
        >>> from concurrent.futures import Future
        >>> from tensorclass import TensorDict
        >>> from tensorclass.distributed import Runner
        >>> class AtOnce(Runner):
        ...     def __init__(self):
        ...         super().__init__("at once", 1, "threads", survives=True)
        ...
        ...     def submit(self, function, /, *args):
        ...         future = Future()
        ...         future.set_result(function(*args))
        ...         return future
        >>> data = TensorDict({"x": torch.arange(4)}, [4])
        >>> data.map(lambda rows: rows + 1, chunksize=2, executor=AtOnce())["x"]
        tensor([1, 2, 3, 4])
    """

    def __init__(self, name: str, workers: int, place: Location, *, survives: bool) -> None:
        self.name: str = name
        self.workers: int = max(1, workers)
        self.place: Location = place
        self.survives: bool = survives
        #: objects kept alive until the series of calls is over
        self.kept: list[Any] = []

    @abstractmethod
    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Start a call and return its future.

        The function is one of this package and catches all errors of the user's function. So an error in the future
        comes from the executor: a process died, or something could not be sent.

        Args:
            function: the function.
            *args: its arguments. One that :meth:`keep` returned must arrive as the value that was kept.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> from tensorclass.distributed.map.executors import runner_of
            >>> with ThreadPoolExecutor(1) as executor:
            ...     runner_of(executor).submit(max, 1, 2).result()
            2
        """

    def keep(self, value: Any) -> Any:
        """Return what to pass instead of an argument that all calls of a series share. Default: the value itself.

        An executor that can store the value near its workers returns a reference. The function gets the value.

        Args:
            value: an argument of all calls.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> from tensorclass.distributed.map.executors import runner_of
            >>> with ThreadPoolExecutor(1) as executor:
            ...     runner_of(executor).keep("value")
            'value'
        """
        return value

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a process, or ``None`` if it is unknown.

        Args:
            pid: the id of the process.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> from tensorclass.distributed.map.executors import runner_of
            >>> with ThreadPoolExecutor(1) as executor:
            ...     runner_of(executor).exit_code(1) is None
            True
        """
        return None

    def cancel(self, future: Future[Any]) -> None:
        """Cancel a call, as far as the executor can.

        Args:
            future: the future that :meth:`submit` returned.

        Example:
            >>> from concurrent.futures import Future, ThreadPoolExecutor
            >>> from tensorclass.distributed.map.executors import runner_of
            >>> future = Future()
            >>> with ThreadPoolExecutor(1) as executor:
            ...     runner_of(executor).cancel(future)
            >>> future.cancelled()
            True
        """
        future.cancel()

    def leave(self, futures: list[Future[Any]]) -> None:
        """Cancel all calls under way, because the series of calls ends early.

        Args:
            futures: the futures of these calls.

        Example:
            >>> from concurrent.futures import Future, ThreadPoolExecutor
            >>> from tensorclass.distributed.map.executors import runner_of
            >>> futures = [Future(), Future()]
            >>> with ThreadPoolExecutor(1) as executor:
            ...     runner_of(executor).leave(futures)
            >>> [future.cancelled() for future in futures]
            [True, True]
        """
        for future in futures:
            self.cancel(future)

    def release(self) -> None:
        """Release what was kept for a series of calls.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> from tensorclass.distributed.map.executors import runner_of
            >>> with ThreadPoolExecutor(1) as executor:
            ...     runner = runner_of(executor)
            ...     runner.kept.append("value")
            ...     runner.release()
            >>> runner.kept
            []
        """
        del self.kept[:]


class FuturesRunner(Runner):
    """Adapter for executors with the interface of ``concurrent.futures``."""

    def __init__(self, executor: Executor) -> None:
        threads = isinstance(executor, ThreadPoolExecutor)
        workers: int = getattr(executor, "_max_workers", 0) or os.cpu_count() or 1
        # only executors of the standard library are known to run on this machine
        is_local = type(executor).__module__.startswith("concurrent.futures")
        place: Location = "threads" if threads else "processes" if is_local else "machines"
        super().__init__(type_name(executor), workers, place, survives=threads or not is_local)
        self._executor: Executor = executor

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future = self._executor.submit(function, *args)
        processes: dict[int, Any] = getattr(self._executor, "_processes", None) or {}
        # the executor forgets processes that die; their exit codes are needed
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
    """Adapter for pools of ``multiprocessing`` and ``torch.multiprocessing``."""

    def __init__(self, pool: Pool) -> None:
        threads = isinstance(pool, ThreadPool)
        workers: int = getattr(pool, "_processes", 0) or os.cpu_count() or 1
        super().__init__(type_name(pool), workers, "threads" if threads else "processes", survives=True)
        self._pool: Pool = pool

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._pool.apply_async(function, args, callback=future.set_result, error_callback=future.set_exception)
        return future


class ClusterRunner(Runner, metaclass=ABCMeta):
    """Base class for adapters of clusters, whose futures are of classes of their own."""

    def __init__(self, name: str, workers: int) -> None:
        super().__init__(name, workers, "machines", survives=True)
        self._running: dict[Future[Any], Any] = {}

    def _future_of(self, call: Any, ending: Any) -> Future[Any]:
        """Return a future for a call of the cluster; ``ending`` is the future that the cluster gives for it."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._running[future] = call

        def done(ended: Any) -> None:
            self._running.pop(future, None)
            try:
                future.set_result(ended.result())
            except BaseException as error:
                future.set_exception(error)

        ending.add_done_callback(done)
        return future

    def cancel(self, future: Future[Any]) -> None:
        call = self._running.pop(future, None)
        if call is not None:
            self._cancel(call)

    @abstractmethod
    def _cancel(self, call: Any) -> None:
        """Cancel a call of the cluster, also if it runs."""


class DaskRunner(ClusterRunner):
    """Adapter for clients of ``dask.distributed``."""

    def __init__(self, client: Any) -> None:
        threads: dict[str, int] = client.nthreads()
        super().__init__("Dask", sum(threads.values()))
        self._client: Any = client

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        # pure=False: results of earlier calls are not reused. map counts retries itself
        call = self._client.submit(function, *args, pure=False, retries=0)
        return self._future_of(call, call)

    def _cancel(self, call: Any) -> None:
        call.cancel(force=True)


def runner_of(executor: Any) -> Runner:
    """Return the runner for an executor.

    Args:
        executor: a :class:`Runner`; a ``concurrent.futures.Executor``, such as ``ProcessPoolExecutor`` and
            ``ThreadPoolExecutor``; a pool of ``multiprocessing``; a client of ``dask.distributed``; or the module
            ``ray``.

    Raises:
        TypeError: ``executor`` is none of these.
    """
    if isinstance(executor, Runner):
        return executor
    if isinstance(executor, Pool):
        return PoolRunner(executor)
    if executor is sys.modules.get("ray", runner_of):
        module: Any = importlib.import_module("tensorclass.distributed.ray")
        runner: Runner = module.RayRunner(executor)
        return runner
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "nthreads"):
        return DaskRunner(executor)
    if isinstance(executor, Executor):
        return FuturesRunner(executor)
    raise TypeError(
        "executor: expected an executor of concurrent.futures, a pool of multiprocessing, a client of "
        f"dask.distributed, the module ray, or a tensorclass.distributed.Runner; got {executor!r}"
    )
