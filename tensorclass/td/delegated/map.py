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

    #: what can be put together along a dimension
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
        pbar: bool = ...,
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
        pbar: bool = ...,
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
        pbar: bool = ...,
        executor: Any = ...,
        timeout: float | None = ...,
        retries: int = ...,
    ) -> list[Result]: ...
    @delegated("tensorclass.distributed.mapping")
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
        pbar: bool = False,
        executor: Any = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> Any:
        """What a function gives for chunks of the rows, put together; the chunks are done in other processes.

        The results come in the order of the chunks: tensors and collections are concatenated along ``dim``, or stacked
        where the function got single rows. ``None`` is left out. Other objects, such as numbers, stay in a list with
        one for each chunk.

        The tensors of the collection are moved to shared memory first, where they are not there already. So what the
        function writes into its chunk in place shows here, as it does for files that are mapped to memory. Only tensors
        on the CPU are.

        Args:
            fn: a function of a chunk, a collection of this class. Processes that are not forked import it: it stands at
                the top level of a module then, and the program does its work under ``if __name__ == "__main__":``.
            dim: the batch dimension that is cut into chunks.
            num_workers: how many processes; by default as many as this one may use cores.
            chunksize: the rows of a chunk. With 0 the function gets single rows, without the dimension.
            num_chunks: how many chunks there are, instead; by default one for each worker. Chunks that take little time
                are sent several at a time.
            pool: a pool of ``multiprocessing``, as for ``executor``.
            generator: draws the number that random numbers begin from; torch's own by default. Each chunk is seeded by
                itself (torch, NumPy and ``random``), so that it has the same random numbers whichever process does it.
                Workers of a ``pool`` or ``executor`` are seeded only if it is given.
            max_tasks_per_child: after how many chunks a process is replaced by a new one.
            worker_threads: the threads that torch has in each process.
            mp_start_method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by default that of ``torch.multiprocessing``.
            out: where the results go: a collection, or a tensor, with the batch size of the result. Workers write into
                one that is shared or mapped to memory, and send nothing back. Values are cast to its dtypes. Rows whose
                function gives ``None`` stay.
            index_with_generator: of no effect here: chunks are cut where they are needed in any case.
            pbar: show a progress bar.
            executor: where the chunks are done instead of in processes made for the call: an executor of
                ``concurrent.futures``, such as ``ThreadPoolExecutor``; a client of ``dask.distributed``; the module
                ``ray``.
            timeout: the seconds that a chunk may take.
            retries: how often a chunk is done again that failed: an error, a process that died, a time-out. It has the
                same random numbers.

        Raises:
            WorkerRaised: the function raised an error; this one is of its class, too, and has its traceback.
            WorkerDied: a process ended, or was killed.
            WorkerTimeout: a chunk took too long. Its process is ended; those of an executor are not.
            NotSendable: the function cannot be pickled.
            ValueError: arguments that do not fit each other or the batch size. Nothing was done.
            IndexError: there is no such dimension.

        The first three name the worker, the chunk and its rows. All processes that the call made have ended when it
        returns or raises.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.arange(4.0)}, [4])
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(2) as threads:
        ...     data.map(lambda chunk: chunk + 1, chunksize=2, executor=threads)["x"]
        tensor([1., 2., 3., 4.])
        """
        ...

    @delegated("tensorclass.distributed.mapping")
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
        pbar: bool = False,
        mp_start_method: str | None = None,
        executor: Any = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> Iterator[Result]:
        """What a function gives for chunks of the rows, one by one; as :meth:`map`, but nothing is put together.

        Chunks are done some steps in front of what is taken, and no further. When the iteration ends, or is left (the
        iterator is closed, or nothing refers to it any more), the processes end.

        Args:
            fn: a function of a chunk.
            dim: the batch dimension that is cut into chunks.
            num_workers: how many processes; by default as many as this one may use cores.
            shuffle: take the rows of each chunk at random from all of them, and give the results as they are done.
                ``generator`` draws the order.
            chunksize: the rows of a chunk. With 0 the function gets single rows, without the dimension.
            num_chunks: how many chunks there are, instead; by default one for each worker.
            pool: a pool of ``multiprocessing``, as for ``executor``.
            generator: draws the number that random numbers begin from, as for :meth:`map`.
            max_tasks_per_child: after how many chunks a process is replaced by a new one.
            worker_threads: the threads that torch has in each process.
            index_with_generator: ``False`` forbids ``shuffle``, and is of no effect else.
            pbar: show a progress bar.
            mp_start_method: how processes are made, as for :meth:`map`.
            executor: where the chunks are done instead, as for :meth:`map`.
            timeout: the seconds that a chunk may take.
            retries: how often a chunk is done again that failed.

        Raises:
            RuntimeError: ``shuffle`` without ``index_with_generator``; and what :meth:`map` raises, when the result of
                the chunk is due. Arguments that do not fit raise at once.

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
