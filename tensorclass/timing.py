"""How long the parts of a program take, by name."""

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
    """Measures the time that a block or a function takes, and adds it up under a name: for the whole program.

    Work that a GPU still has to do when the block ends is not waited for.

    Args:
        name: what is measured.

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

    #: for each name the seconds and the number of times
    _measured: ClassVar[dict[str, tuple[float, int]]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun: list[float] = []  # a stack: a block can be entered within itself

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            with timeit(self.name):  # its own one: calls can overlap, in threads and in recursion
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
        """The seconds by name.

        Args:
            percall: the mean of all times, or else their sum.
            prefix: stands in front of each name, with a ``/``.
        """
        start = f"{prefix}/" if prefix else ""
        return {
            start + name: total / max(count, 1) if percall else total
            for name, (total, count) in list(timeit._measured.items())
        }

    @staticmethod
    def count(name: str) -> int:
        """How many times were measured under a name."""
        return timeit._measured.get(name, (0.0, 0))[1]

    @staticmethod
    def print(prefix: str | None = None) -> None:
        """Logs a line for each name, in alphabetical order: the mean in milliseconds, the sum in seconds.

        Args:
            prefix: stands in front of each line.
        """
        start = f"{prefix} -- " if prefix else ""
        for name, (total, count) in sorted(timeit._measured.items()):
            mean = 1000 * total / max(count, 1)
            logger.info(f"{start}{name} took {mean:.4g} msec (total = {total} sec)")

    @staticmethod
    def erase() -> None:
        """Sets all times to 0; the names stay."""
        with timeit._guard:
            timeit._measured.update(dict.fromkeys(timeit._measured, (0.0, 0)))

    @staticmethod
    def forget() -> None:
        """Forgets all times and names."""
        with timeit._guard:
            timeit._measured.clear()
