"""Prefetch tensors of a file with threads, copy them with threads, and save in a thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from . import collection_tree
from .collection_tree import FileError, Node, Path, TensorOpener, TreeSource

T = TypeVar("T")


@contextmanager
def prefetching(
    node: Node, source: TreeSource, open_tensor: TensorOpener, num_threads: int
) -> Generator[TreeSource, None, None]:
    """Start threads that read the tensors of a tree in the order of :func:`.rebuild`; give a source of them.

    If a file cannot be opened, prefetching stops there, and the given source raises when it reads the tensor.

    Args:
        node: the tree that will be rebuilt.
        source: reads what was not prefetched.
        open_tensor: opens the file of a tensor, in the calling thread, and returns a function that reads it, which a
            thread calls.
        num_threads: the number of threads. For fewer than two, the source is given as it is.
    """
    if num_threads < 2:
        yield source
        return
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="reading")
    ready: dict[tuple[Path, str], Future[tuple[Tensor, int | None]]] = {}
    sums: dict[int, int] = {}

    def read(path: Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        future = ready.pop((path, buffer), None)
        if future is None:
            return source.read(path, buffer, dtype, shape)
        tensor, checksum = future.result()
        if checksum is not None:
            sums[id(tensor)] = checksum
        return tensor

    def prefetch(read_tensor: Callable[[], Tensor]) -> tuple[Tensor, int | None]:
        tensor = read_tensor()
        return tensor, collection_tree.checksum_of(tensor) if source.verify else None

    def checksum_of(tensor: Tensor) -> int:
        known = sums.pop(id(tensor), None)
        return collection_tree.checksum_of(tensor) if known is None else known

    try:
        try:
            for path, buffer, tensor_node in collection_tree.tensor_nodes(node):
                if not buffer:  # offsets of jagged tensors are small
                    dtype = collection_tree.parse_dtype(tensor_node.get("dtype"), source, path)
                    size = collection_tree.parse_size(tensor_node.get("shape"), source, path)
                    ready[path, buffer] = pool.submit(prefetch, open_tensor(path, buffer, dtype, size))
        except (FileError, OSError):
            pass
        yield source._replace(read=read, checksum=checksum_of)
    finally:
        pool.shutdown(cancel_futures=True)


def result_or_future(return_early: bool, what: str, work: Callable[[], T]) -> T | Future[T]:
    """Return the result of some work, or a future of it from a thread."""
    if not return_early:
        return work()
    pool = ThreadPoolExecutor(1, thread_name_prefix=what)
    future = pool.submit(work)
    pool.shutdown(wait=False)  # the thread ends with its work
    return future


def check_threads(num_threads: object, what: str) -> None:
    """Raise if ``num_threads`` is not an int of 0 or more. ``what`` is the caller, for errors."""
    if not isinstance(num_threads, int):
        raise TypeError(f"{what}: expected num_threads to be an int, got {num_threads!r}")
    if num_threads < 0:
        raise ValueError(f"{what}: expected num_threads to be 0 or more, got {num_threads}")


def copy_into(target: Any, loaded: Any, num_threads: int) -> Any:
    """Call ``target.update(loaded, inplace=True)``; threads copy the tensors if all of them fit."""
    targets: dict[Path, Tensor] = dict(target._named_leaves())
    sources: dict[Path, Tensor] = dict(loaded._named_leaves())

    def copy(path: Path) -> None:
        targets[path].copy_(sources[path])

    if (
        num_threads > 1
        and not target._named_columns()
        and targets.keys() == sources.keys()
        and all(_can_copy(targets[path], sources[path]) for path in targets)
    ):
        with ThreadPoolExecutor(num_threads, thread_name_prefix="copying") as pool:
            list(pool.map(copy, targets))
        loaded = loaded._with_leaves(iter([targets[path] for path in sources]))  # update copies no tensor to itself
    return target.update(loaded, inplace=True)


def _can_copy(target: Tensor, source: Tensor) -> bool:
    plain = target.layout == source.layout == torch.strided and not (target.is_nested or source.is_nested)
    return plain and target.shape == source.shape and not target.requires_grad and not target.is_meta
