"""Reading with several threads: values are read before they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Size, Tensor

from . import tree
from .tree import FileError, Node, Path, Source


@contextmanager
def reading_ahead(
    node: Node,
    source: Source,
    opened: Callable[[Path, str, torch.dtype, Size], Callable[[], Tensor]],
    num_threads: int,
) -> Generator[Source, None, None]:
    """A source whose tensors are read by threads, from now on, in the order in which they will be asked for.

    What cannot be opened is left to the source, which says what is wrong.

    Args:
        node: the tree that will be put together.
        source: where its tensors come from.
        opened: opens a file, in this thread; what it gives runs in another one.
        num_threads: how many.
    """
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="reading")
    ready: dict[tuple[Path, str], Future[tuple[Tensor, int | None]]] = {}
    sums: dict[int, int] = {}

    def read(path: Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        found = ready.pop((path, part), None)
        if found is None:
            return source.read(path, part, dtype, shape)
        tensor, checksum = found.result()
        if checksum is not None:
            sums[id(tensor)] = checksum
        return tensor

    def job(work: Callable[[], Tensor]) -> tuple[Tensor, int | None]:
        tensor = work()
        return tensor, tree.checksum_of(tensor) if source.verify else None

    def checksum_of(tensor: Tensor) -> int:
        known = sums.pop(id(tensor), None)
        return tree.checksum_of(tensor) if known is None else known

    try:
        try:
            for path, part, known in tree.tensors_of(node):
                if not part:  # the offsets of jagged ones are few
                    dtype = tree.dtype_of(known.get("dtype"), source, path)
                    ready[path, part] = pool.submit(
                        job, opened(path, part, dtype, tree.size_of(known.get("shape"), source, path))
                    )
        except (FileError, OSError):
            pass
        yield source._replace(read=read, checksum=checksum_of)
    finally:
        pool.shutdown(cancel_futures=True)


def check_threads(num_threads: object, what: str) -> None:
    """Raises an error for what is no number of threads."""
    if not isinstance(num_threads, int):
        raise TypeError(f"{what}: expected num_threads to be an int, got {num_threads!r}")
    if num_threads < 0:
        raise ValueError(f"{what}: expected num_threads to be 0 or more, got {num_threads}")


def copy_into(target: Any, loaded: Any, num_threads: int) -> Any:
    """``target.update(loaded, inplace=True)``, for which threads copy the tensors where all of them fit."""
    own: dict[Path, Tensor] = dict(target._named_leaves())
    given: dict[Path, Tensor] = dict(loaded._named_leaves())

    def copy(path: Path) -> None:
        own[path].copy_(given[path])

    if num_threads > 1 and own.keys() == given.keys() and all(_fits(own[path], given[path]) for path in own):
        with ThreadPoolExecutor(num_threads, thread_name_prefix="copying") as pool:
            list(pool.map(copy, own))
        loaded = loaded._with_leaves(iter([own[path] for path in given]))  # of those update copies nothing
    return target.update(loaded, inplace=True)


def _fits(own: Tensor, given: Tensor) -> bool:
    plain = own.layout == given.layout == torch.strided and not (own.is_nested or given.is_nested)
    return plain and own.shape == given.shape and not own.requires_grad and not own.is_meta
