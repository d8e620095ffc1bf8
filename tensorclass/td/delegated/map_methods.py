"""A function on chunks of rows, run in other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass.td.collection import Collection

from .declaration import delegated

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

    #: results that can be joined along a dimension
    Rows = TypeVar("Rows", bound="Tensor | TensorCollection | None")
    Target = TypeVar("Target", bound="Tensor | TensorCollection")
    Result = TypeVar("Result")


class Map(Collection):
    """``map`` and ``map_iter``."""

    __slots__ = ()

    @overload
    def map(
        self,
        fn: Callable[[Self], Any],
        dim: int = ...,
        num_workers: int | None = ...,
        chunksize: int | None = ...,
        num_chunks: int | None = ...,
        pool: Any = ...,
        generator: torch.Generator | None = ...,
        max_tasks_per_child: int | None = ...,
        worker_threads: int = ...,
        mp_start_method: str | None = ...,
        *,
        out: Target,
        index_with_generator: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
        executor: Any = ...,
        timeout: float | None = ...,
        retries: int = ...,
    ) -> Target: ...
    @overload
    def map(  # type: ignore[overload-overlap]
        self,
        fn: Callable[[Self], Rows],
        dim: int = ...,
        num_workers: int | None = ...,
        chunksize: int | None = ...,
        num_chunks: int | None = ...,
        pool: Any = ...,
        generator: torch.Generator | None = ...,
        max_tasks_per_child: int | None = ...,
        worker_threads: int = ...,
        mp_start_method: str | None = ...,
        *,
        out: None = ...,
        index_with_generator: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
        executor: Any = ...,
        timeout: float | None = ...,
        retries: int = ...,
    ) -> Rows: ...
    @overload
    def map(
        self,
        fn: Callable[[Self], Result],
        dim: int = ...,
        num_workers: int | None = ...,
        chunksize: int | None = ...,
        num_chunks: int | None = ...,
        pool: Any = ...,
        generator: torch.Generator | None = ...,
        max_tasks_per_child: int | None = ...,
        worker_threads: int = ...,
        mp_start_method: str | None = ...,
        *,
        out: None = ...,
        index_with_generator: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
        executor: Any = ...,
        timeout: float | None = ...,
        retries: int = ...,
    ) -> list[Result]: ...
    @delegated("tensorclass.distributed.map.parallel_map")
    def map(
        self,
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
            WorkerDied: a process ended or was killed.
            WorkerTimeout: a chunk took too long. Its process is ended, unless it belongs to an executor.
            NotSendable: the function cannot be pickled.
            ValueError: the arguments do not fit each other or the batch size. Nothing was run.
            IndexError: the dimension does not exist.

        The first three name the worker, the chunk and its rows.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.arange(4.0)}, [4])
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> with ThreadPoolExecutor(2) as threads:
            ...     data.map(lambda chunk: chunk + 1, chunksize=2, executor=threads)["x"]
            tensor([1., 2., 3., 4.])
        """
        ...

    @delegated("tensorclass.distributed.map.parallel_map")
    def map_iter(
        self,
        fn: Callable[[Self], Result],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        shuffle: bool = False,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = True,
        progress: bool | None = None,
        pbar: bool | None = None,
        mp_start_method: str | None = None,
        executor: Any = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> Iterator[Result]:
        """Call a function on chunks of the rows, in other processes, and iterate over the results.

        A limited number of chunks is computed ahead of the iteration. The processes end when the iteration ends, when
        the iterator is closed, or when nothing refers to it any more.

        Args:
            fn: a function of a chunk, which is a collection of this class.
            dim: the batch dimension that is split into chunks.
            num_workers: the number of processes; by default the number of cores that this process may use.
            shuffle: draw the rows of each chunk at random from all rows, and return results as they complete.
                ``generator`` draws the order.
            chunksize: the number of rows per chunk. With 0 the function gets single rows, without the dimension.
            num_chunks: the number of chunks, instead of ``chunksize``; by default one per worker.
            pool: a pool of ``multiprocessing``; see ``executor``.
            generator: draws the seed, as in :meth:`map`.
            max_tasks_per_child: the number of chunks after which a process is replaced; unlimited by default.
            worker_threads: the number of threads that torch uses in each process.
            index_with_generator: ``False`` forbids ``shuffle``, and has no other effect.
            progress: show a progress bar. Default: none is shown.
            pbar: another name of ``progress``.
            mp_start_method: how processes are started, as in :meth:`map`.
            executor: what runs the chunks instead of new processes, as in :meth:`map`.
            timeout: the number of seconds that a chunk may take; unlimited by default.
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
        ...
