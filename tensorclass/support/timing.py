"""Named timers."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import ClassVar, TypeVar

from typing_extensions import ParamSpec, Self

from .log import logger

P = ParamSpec("P")
R = TypeVar("R")


class timeit:
    """Context manager and decorator that adds up the time of a block or function under a name, for the whole program.

    Does not wait for work that a GPU still has to do when the block ends.

    Args:
        name: key under which the time is added.

    Example:
        >>> from tensorclass.utils import timeit
        >>> timeit.forget()
        >>> with timeit("sum"):
        ...     total = sum(range(100))
        >>> @timeit("double")
        ... def double(x):
        ...     return 2 * x
        >>> double(1) + double(2)
        6
        >>> list(timeit.todict()), timeit.count("double")
        (['sum', 'double'], 2)
    """

    #: seconds and number of calls by name
    _measured: ClassVar[dict[str, tuple[float, int]]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun: list[float] = []  # a stack, because blocks can be nested

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            with timeit(self.name):  # a new one: calls in threads and recursive calls overlap
                return function(*args, **kwargs)

        return measured

    def __enter__(self) -> Self:
        self._begun.append(time.perf_counter())
        return self

    def __exit__(self, *exc: object) -> None:
        elapsed = time.perf_counter() - self._begun.pop()
        with timeit._guard:
            total, count = timeit._measured.get(self.name, (0.0, 0))
            timeit._measured[self.name] = total + elapsed, count + 1

    @staticmethod
    def todict(percall: bool = True, prefix: str | None = None) -> dict[str, float]:
        """Return the seconds by name.

        Args:
            percall: return the mean of a call; otherwise the sum. Default: ``True``.
            prefix: put in front of each name, followed by ``/``.

        Example:
            >>> from tensorclass.utils import timeit
            >>> timeit.forget()
            >>> with timeit("sum"):
            ...     total = sum(range(100))
            >>> list(timeit.todict(prefix="demo"))
            ['demo/sum']
        """
        start = f"{prefix}/" if prefix else ""
        return {
            start + name: total / max(count, 1) if percall else total
            for name, (total, count) in list(timeit._measured.items())
        }

    @staticmethod
    def count(name: str) -> int:
        """Return the number of calls measured under a name; 0 for an unknown name.

        Args:
            name: the name.

        Example:
            >>> from tensorclass.utils import timeit
            >>> timeit.forget()
            >>> for _ in range(3):
            ...     with timeit("sum"):
            ...         total = sum(range(100))
            >>> timeit.count("sum")
            3
        """
        return timeit._measured.get(name, (0.0, 0))[1]

    @staticmethod
    def print(prefix: str | None = None) -> None:
        """Log the mean in milliseconds and the sum in seconds, a line for each name in alphabetical order.

        Args:
            prefix: put in front of each line.

        Example:
            >>> from tensorclass.utils import timeit
            >>> timeit.forget()
            >>> timeit.print()  # there is nothing to log
        """
        start = f"{prefix} -- " if prefix else ""
        for name, (total, count) in sorted(timeit._measured.items()):
            mean = 1000 * total / max(count, 1)
            logger.info(f"{start}{name} took {mean:.4g} msec (total = {total} sec)")

    @staticmethod
    def erase() -> None:
        """Set all times to 0. Keep the names.

        Example:
            >>> from tensorclass.utils import timeit
            >>> timeit.forget()
            >>> with timeit("sum"):
            ...     total = sum(range(100))
            >>> timeit.erase()
            >>> timeit.todict()
            {'sum': 0.0}
        """
        with timeit._guard:
            timeit._measured.update(dict.fromkeys(timeit._measured, (0.0, 0)))

    @staticmethod
    def forget() -> None:
        """Remove all times and names.

        Example:
            >>> from tensorclass.utils import timeit
            >>> with timeit("sum"):
            ...     total = sum(range(100))
            >>> timeit.forget()
            >>> timeit.todict()
            {}
        """
        with timeit._guard:
            timeit._measured.clear()
