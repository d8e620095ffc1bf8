"""``map`` and ``map_iter``: a function on chunks of a collection, in other processes.

This module checks the arguments and plans the call. The :class:`.scheduler.Scheduler` runs it.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, TypeVar, overload
from weakref import WeakSet, finalize

import torch
from torch import Tensor
from typing_extensions import TypedDict, Unpack

from tensorclass.distributed.worker_errors import WorkerError
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import type_name
from tensorclass.support.progress import bar, progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.leaves.content import Content
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked

from .executors import Location, Runner, runner_of
from .row_chunks import Chunks, Joined, Target, join_all
from .scheduler import MapOptions, Scheduler
from .worker_task import Job

METHODS_OF = "Map"
C = TypeVar("C", bound=TensorCollection)
#: results that can be joined along a dimension
Rows = TypeVar("Rows", bound="Tensor | TensorCollection | None")
Out = TypeVar("Out", bound="Tensor | TensorCollection")
Result = TypeVar("Result")


@overload
def map(data: C, fn: Callable[[C], Any], *, out: Out) -> Out: ...
@overload
def map(data: C, fn: Callable[[C], Rows], *, out: None = ...) -> Rows: ...  # type: ignore[overload-overlap]
@overload
def map(data: C, fn: Callable[[C], Result], *, out: None = ...) -> list[Result]: ...
def map(
    data: TensorCollection,
    fn: Callable[[Any], Any],
    dim: int = 0,
    num_workers: int | None = None,
    chunksize: int | None = None,
    num_chunks: int | None = None,
    pool: Any = None,
    generator: torch.Generator | None = None,
    max_tasks_per_child: int | None = None,
    worker_threads: int = 1,
    mp_start_method: str | None = None,
    *,
    out: Any = None,
    index_with_generator: bool = False,
    progress: bool | None = None,
    pbar: bool | None = None,
    executor: Any = None,
    timeout: float | None = None,
    retries: int = 0,
) -> Any:
    """Call a function on chunks of the rows, in other processes, and join the results.

    Results come in the order of the chunks. Tensors and collections are concatenated along ``dim``, or stacked if
    the function gets single rows. ``None`` is dropped. Other objects, such as numbers, are returned as a list with
    one item per chunk.

    The tensors of the collection are first moved to shared memory, unless they are there already. So if the
    function writes to its chunk in place, the collection changes; this also holds for memory-mapped tensors. Only
    CPU tensors are shared.

    Args:
        fn: a function of a chunk, which is a collection of this class. Processes that are not forked import the
            function: define it at the top level of a module, and start the program under ``if __name__ ==
            "__main__":``.
        dim: the batch dimension that is split into chunks.
        num_workers: the number of processes; by default the number of cores that this process may use.
        chunksize: the number of rows per chunk. With 0 the function gets single rows, without the dimension.
        num_chunks: the number of chunks, instead of ``chunksize``; by default one per worker. Chunks that take
            little time are sent several at once.
        pool: a pool of ``multiprocessing``; see ``executor``.
        generator: draws the seed; by default torch's own generator. Each chunk is seeded separately (torch, NumPy
            and ``random``), so it gets the same random numbers in whichever process it runs. Workers of a ``pool``
            or ``executor`` are seeded only if a generator is given.
        max_tasks_per_child: the number of chunks after which a process is replaced; unlimited by default.
        worker_threads: the number of threads that torch uses in each process.
        mp_start_method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by default that of ``torch.multiprocessing``.
        out: where the results are written: a collection or a tensor with the batch size of the result. If it is
            shared or memory-mapped, the workers write into it and send nothing back. Values are cast to its dtypes.
            Rows for which the function returns ``None`` keep their values.
        index_with_generator: has no effect here: chunks are always cut when they are needed.
        progress: show a progress bar. Default: none is shown.
        pbar: another name of ``progress``.
        executor: what runs the chunks instead of new processes: an executor of ``concurrent.futures``, such as
            ``ThreadPoolExecutor``, a client of ``dask.distributed``, or the module ``ray``.
        timeout: the number of seconds that a chunk may take; unlimited by default.
        retries: how often a chunk is repeated after an error, the death of a process or a timeout. It gets the same
            random numbers.

    Returns:
        The joined results; ``out`` if it is given. When ``map`` returns or raises, all processes that it started
        have ended.

    Raises:
        WorkerRaised: the function raised an error. This one is also of that error's class, and has its traceback.
        WorkerDied: a process ended or was killed. This error, the one above and the next name the worker, the chunk and
            its rows.
        WorkerTimeout: a chunk took too long. Its process is ended, unless it belongs to an executor.
        NotSendable: the function cannot be pickled.
        ValueError: the arguments do not fit each other or the batch size. Nothing was run.
        IndexError: the dimension does not exist.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.arange(4.0)}, [4])
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(2) as threads:
        ...     data.map(lambda chunk: chunk + 1, chunksize=2, executor=threads)["x"]
        tensor([1., 2., 3., 4.])
    """
    options = MapOptions(
        dim, num_workers, chunksize, num_chunks, pool, generator, max_tasks_per_child, worker_threads,
        mp_start_method, executor, timeout, retries,
    )  # fmt: skip
    shown = bool(progress_of("map", progress, pbar))
    scheduler = _plan("map", data, fn, out, options, shuffle=False)
    results: dict[int, Joined] = {}  #: by first chunk
    with uninterrupted() as section:
        try:
            with (
                section.interruptible(),
                bar(scheduler.chunks.total, "map", unit="chunk", progress=shown) as bar_shown,
            ):
                for first, done, values in scheduler.run():
                    if isinstance(values, WorkerError):
                        raise values
                    results[first] = values
                    if scheduler.writes_here and scheduler.target is not None:
                        for chunk, value in enumerate(values.each or (), first):
                            if value is not None:
                                scheduler.target.write(chunk, value)
                        results.clear()
                    bar_shown.advance(done)
        finally:
            scheduler.end()
    if out is not None:
        return out
    return join_all([results[first] for first in sorted(results)], scheduler.chunks.dim, scheduler.chunks.single)


class MapKwargs(TypedDict, total=False):
    """Arguments of :func:`map` that :func:`map_iter` has, too."""

    chunksize: int | None
    num_chunks: int | None
    pool: Any
    generator: torch.Generator | None
    max_tasks_per_child: int | None
    worker_threads: int
    mp_start_method: str | None
    executor: Any
    timeout: float | None
    retries: int


def map_iter(
    data: C,
    fn: Callable[[C], Result],
    dim: int = 0,
    num_workers: int | None = None,
    *,
    shuffle: bool = False,
    index_with_generator: bool = True,
    progress: bool | None = None,
    pbar: bool | None = None,
    **kwargs: Unpack[MapKwargs],
) -> Iterator[Result]:
    """Call a function on chunks of the rows, in other processes, and iterate over the results.

    A limited number of chunks is computed ahead of the iteration. The processes end when the iteration ends, when
    the iterator is closed, or when nothing refers to it any more.

    Args:
        fn: a function of a chunk, which is a collection of this class.
        map: dim, num_workers
        shuffle: draw the rows of each chunk at random from all rows, and return results as they complete.
            ``generator`` draws the order.
        map: chunksize
        num_chunks: the number of chunks, instead of ``chunksize``; by default one per worker.
        map: pool
        generator: draws the seed, as in :meth:`map`.
        map: max_tasks_per_child, worker_threads
        index_with_generator: ``False`` forbids ``shuffle``, and has no other effect.
        map: progress, pbar
        mp_start_method: how processes are started, as in :meth:`map`.
        executor: what runs the chunks instead of new processes, as in :meth:`map`.
        map: timeout
        retries: how often a failed chunk is repeated.

    Returns:
        An iterator over the results, one per chunk.

    Raises:
        RuntimeError: ``shuffle`` without ``index_with_generator``.
        ValueError, IndexError, NotSendable: as in :meth:`map`, at once.
        WorkerRaised, WorkerDied, WorkerTimeout: as in :meth:`map`, when the result of the chunk is due.

    Example:
        >>> import torch
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.arange(4.0)}, [4])
        >>> with ThreadPoolExecutor(2) as threads:
        ...     for total in data.map_iter(lambda chunk: float(chunk["x"].sum()), chunksize=2, executor=threads):
        ...         print(total)
        1.0
        5.0
    """
    if shuffle and not index_with_generator:
        raise RuntimeError(
            "map_iter: shuffle=True indexes the rows of each chunk, which cannot be split in advance: leave "
            "index_with_generator=True"
        )
    shown = bool(progress_of("map_iter", progress, pbar))
    scheduler = _plan("map_iter", data, fn, None, MapOptions(dim, num_workers, **kwargs), shuffle=shuffle)
    results = _MapIterator(scheduler, _one_by_one(scheduler, shuffle, shown))
    _open_iterators.add(results)
    return results


class _MapIterator(Iterator[Any]):
    """Results of a call, one by one. However the iteration ends, its processes end, too."""

    def __init__(self, scheduler: Scheduler, results: Generator[Any, None, None]) -> None:
        self._scheduler: Scheduler = scheduler
        self._results: Generator[Any, None, None] = results
        # Not __del__: Python drops exceptions raised there, and so an interrupt that arrives in it.
        self._finalizer: finalize[Any, _MapIterator] = finalize(self, _end, results, scheduler)
        self._finalizer.atexit = False  # _close_all runs earlier

    def __iter__(self) -> _MapIterator:
        return self

    def __next__(self) -> Any:
        with uninterrupted() as section:
            try:
                with section.interruptible():
                    return next(self._results)
            except BaseException:
                self._scheduler.end()
                self._finalizer.detach()
                raise

    def close(self) -> None:
        """End the processes. Remaining results are lost."""
        with uninterrupted():
            _end(self._results, self._scheduler)
            self._finalizer.detach()


def _end(results: Generator[Any, None, None], scheduler: Scheduler) -> None:
    with uninterrupted():
        results.close()
        scheduler.end()


def _one_by_one(scheduler: Scheduler, shuffle: bool, shown: bool) -> Generator[Any, None, None]:
    held: dict[int, list[Any] | WorkerError] = {}  #: by first chunk
    next_chunk = 0
    results = scheduler.run()
    try:
        with bar(scheduler.chunks.total, "map_iter", unit="chunk", progress=shown) as bar_shown:
            for first, done, values in results:
                held[first] = values
                if shuffle:
                    next_chunk = first
                while next_chunk in held:
                    ready = held.pop(next_chunk)
                    if isinstance(ready, WorkerError):
                        raise ready
                    next_chunk += len(ready)
                    scheduler.held = len(held)
                    yield from ready
                bar_shown.advance(done)
                scheduler.held = len(held)
    finally:
        results.close()


_open_iterators: WeakSet[_MapIterator] = WeakSet()


def _close_all() -> None:
    for iterator in list(_open_iterators):
        with suppress(ValueError):  # another thread runs it
            iterator.close()


# Runs at exit before concurrent.futures waits for all tasks: callbacks run in reverse order of registration.
_at_exit: Callable[[Callable[[], None]], Any] = getattr(threading, "_register_atexit", atexit.register)
_at_exit(_close_all)


# ---------------------------------------------------------------------------------------------------------------------
# arguments


def _plan(what: str, data: Any, fn: Any, out: Any, options: MapOptions, shuffle: bool) -> Scheduler:
    """Check the arguments of a call and make its scheduler."""
    if not callable(fn):
        raise TypeError(f"{what}: expected a function of a chunk, got {fn!r}")
    runner = _runner(what, options)
    workers = _workers(what, options) if runner is None else runner.workers
    _check_limits(what, options)
    chunks = _chunks(what, data, options, workers)
    seed = _seed(what, options, runner)
    if shuffle and chunks.length:
        order = torch.randperm(chunks.length, generator=options.generator)
        chunks = chunks._replace(order=order)
    target = None if out is None else _target(what, out, chunks)
    location: Location = "processes" if runner is None else runner.place
    writes_here = target is not None and not _workers_write(out, location)
    joins, packs = what == "map" and not writes_here, location == "processes"
    job = Job(fn, chunks, None if writes_here else target, seed, joins, packs, torch.get_num_threads())
    return Scheduler(what, data, job, target if writes_here else None, runner, workers, options)


def _runner(what: str, options: MapOptions) -> Runner | None:
    """Return the runner of ``executor`` or ``pool``, or ``None`` if processes are to be started."""
    given = {"pool": options.pool, "executor": options.executor}
    names = [name for name, value in given.items() if value is not None]
    if not names:
        return None
    if len(names) > 1:
        raise ValueError(f"{what}: expected a pool or an executor, got both")
    owned = {
        "num_workers": options.num_workers is not None,
        "max_tasks_per_child": options.max_tasks_per_child is not None,
        "mp_start_method": options.mp_start_method is not None,
        "worker_threads": options.worker_threads != 1,
    }
    if wrong := [name for name, is_given in owned.items() if is_given]:
        raise ValueError(
            f"{what}: {', '.join(wrong)} cannot change the workers of {names[0]}=, which run already; give it to the "
            f"{names[0]} when you create it"
        )
    return runner_of(given[names[0]])


def _workers(what: str, options: MapOptions) -> int:
    workers = options.num_workers
    if workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if type(workers) is not int or workers < 1:
        raise ValueError(
            f"{what}: num_workers: expected a number of processes, at least 1, got {workers!r}; to stay in this "
            "process, call the function itself, or give executor=ThreadPoolExecutor(1)"
        )
    return workers


def _chunks(what: str, data: Any, options: MapOptions, workers: int) -> Chunks:
    ndim = data.ndim
    dim = options.dim
    if type(dim) is not int:
        raise TypeError(f"{what}: dim: expected an int, got {dim!r}")
    if not -ndim <= dim < ndim:
        hint = "" if ndim else "; to have rows, construct the record with batch_size=[rows]"
        raise IndexError(f"{what}: dim: the batch size {list(data.batch_size)} has no dimension {dim}{hint}")
    dim %= ndim
    length = data.batch_size[dim]
    size, count = options.chunksize, options.num_chunks
    if size is not None and count is not None:
        raise ValueError(f"{what}: expected chunksize or num_chunks, got both ({size} and {count})")
    for name, value in (("chunksize", size), ("num_chunks", count)):
        if value is not None and type(value) is not int:
            raise TypeError(f"{what}: {name}: expected an int, got {value!r}")
    if size is not None:
        if size < 0:
            raise ValueError(f"{what}: chunksize: expected a number of rows, or 0 for single ones, got {size}")
        return Chunks(dim, length, size or 1, size == 0)
    if count is None:
        count = workers
    if count < 1:
        raise ValueError(f"{what}: num_chunks: expected at least one, got {count}")
    return Chunks(dim, length, max(1, -(-length // count)), False)


def _check_limits(what: str, options: MapOptions) -> None:
    start = options.mp_start_method
    if start is not None and start not in multiprocessing.get_all_start_methods():
        known = ", ".join([repr(name) for name in multiprocessing.get_all_start_methods()])
        raise ValueError(f"{what}: mp_start_method: expected one of {known}, got {start!r}")
    if options.timeout is not None and not options.timeout > 0:
        raise ValueError(f"{what}: timeout: expected seconds, more than 0, got {options.timeout!r}")
    for name, value, least in (
        ("retries", options.retries, 0),
        ("worker_threads", options.worker_threads, 1),
        ("max_tasks_per_child", options.max_tasks_per_child, 1),
    ):
        if value is not None and (type(value) is not int or value < least):
            raise ValueError(f"{what}: {name}: expected an int, at least {least}, got {value!r}")


def _seed(what: str, options: MapOptions, runner: Runner | None) -> int | None:
    """Draw the seed of the first chunk; ``None`` leaves the generators of the workers alone."""
    generator = options.generator
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"{what}: generator: expected a torch.Generator, got {generator!r}")
    if runner is not None and generator is None:
        return None
    if runner is not None and runner.place == "threads":
        raise ValueError(
            f"{what}: generator: threads share one global generator, so chunks cannot have their own seeds; leave it "
            "out, or draw the numbers in advance and add them to the data as a field"
        )
    return int(torch.empty((), dtype=torch.int64).random_(0, 2**62, generator=generator))


def _target(what: str, out: Any, chunks: Chunks) -> Target:
    """Check that ``out`` has room for the results."""
    if not isinstance(out, (Tensor, TensorCollection)):
        raise TypeError(f"{what}: out: expected a collection or a tensor, got a {type_name(out)}")
    size = out.shape
    if len(size) <= chunks.dim:
        raise ValueError(f"{what}: out: expected a dimension {chunks.dim}, got the batch size {list(size)}")
    target = Target(out, chunks, size[chunks.dim])
    if chunks.single or not chunks.length:
        fits = target.length == chunks.length
    else:
        fits = all(chunks.rows(at)[1] * target.length % chunks.length == 0 for at in range(chunks.total))
    if not fits:
        raise ValueError(
            f"{what}: out: expected {chunks.length} rows in dimension {chunks.dim}, as the data has (or a multiple or "
            f"fraction of it that divides each chunk evenly), got {target.length}"
        )
    return target


def _workers_write(out: Any, location: Location) -> bool:
    """Return whether workers can write into ``out``: it is shared memory or a file, and has no objects."""
    if location == "machines" or not (isinstance(out, Tensor) or not _has_objects(out)):
        return False
    if location == "threads" or out.is_shared():
        return True
    return not isinstance(out, Tensor) and out.is_memmap()


def _has_objects(node: Any) -> bool:
    if node._CONTENT is Content.OBJECTS or (type(node._store) is not dict and not isinstance(node, LazyStacked)):
        return True
    return any(_has_objects(below) for below in node._nodes())
