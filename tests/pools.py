"""Pools of :mod:`multiprocessing` that end without a race.

``Pool.terminate``, so also the end of ``with context.Pool()``, kills the processes. One of them may have sent the last
result a moment ago and still hold the lock of the queue, for which threads of the pool then wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from typing import Any

_terminate = Pool.terminate


def terminate(pool: Any) -> None:
    """Terminate a pool that has no more tasks, once no process holds the lock of the results."""
    with pool._outqueue._wlock:
        pass
    _terminate(pool)


@contextmanager
def pool_of(processes: int, context: Any, *, has_lost_tasks: bool = False) -> Iterator[Any]:
    """Start a pool that ends with the block.

    Args:
        processes: their number.
        context: of :mod:`multiprocessing`.
        has_lost_tasks: processes die or hang in the block; otherwise they end by themselves.
    """
    pool = context.Pool(processes)
    try:
        yield pool
    finally:
        if has_lost_tasks:
            terminate(pool)
        else:
            pool.close()
        pool.join()
