"""Modes of modules: a value for the whole program, and values of single threads over it."""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from tensorclass.td.modes import Setting

T = TypeVar("T")


class Mode(Generic[T]):
    """What a mode is now.

    Reading it is one attribute where no thread has a value of its own, so that ``torch.compile`` can trace it.
    """

    __slots__ = ("_guard", "_here", "_threads", "everywhere")

    def __init__(self, value: T) -> None:
        self.everywhere: T = value
        self._here: Any = threading.local()
        self._threads: int = 0  # how many blocks are open that hold for one thread
        self._guard: threading.Lock = threading.Lock()

    def current(self) -> T:
        if self._threads:
            values: list[T] | None = getattr(self._here, "values", None)
            if values:
                return values[-1]
        return self.everywhere

    def _own(self) -> list[T]:
        """The values of this thread, the innermost last."""
        values: list[T] | None = getattr(self._here, "values", None)
        if values is None:
            values = self._here.values = []
        return values

    def is_own(self) -> bool:
        """Whether this thread has a value of its own: blocks inside it hold for this thread, too."""
        return bool(self._threads) and bool(self._own())

    def push(self, value: T) -> None:
        """A value of this thread."""
        self._own().append(value)
        with self._guard:
            self._threads += 1

    def pop(self) -> None:
        self._own().pop()
        with self._guard:
            self._threads -= 1


class ModeSetting(Setting, Generic[T]):
    """The base of what sets a mode of modules: a context manager, a decorator, and ``set()``.

    A block holds for all threads, as long as it is open; with ``thread_local``, or inside a block that has it, for its
    own thread only.
    """

    thread_local: bool

    def _mode_and_value(self) -> tuple[Mode[T], T]:
        raise NotImplementedError

    def _begin(self, thread_local: bool) -> None:
        if type(thread_local) is not bool:
            raise TypeError(f"{type(self).__name__}: thread_local is True or False, got {thread_local!r}")
        self.thread_local = thread_local
        self._before: list[tuple[bool, T]] = []  # what each open block of this object has to bring back

    def __enter__(self) -> Self:
        mode, value = self._mode_and_value()
        own = self.thread_local or mode.is_own()
        self._before.append((own, mode.everywhere))
        if own:
            mode.push(value)
        else:
            mode.everywhere = value
        return self

    def __exit__(self, *exc: object) -> None:
        mode, _ = self._mode_and_value()
        own, before = self._before.pop()
        if own:
            mode.pop()
        else:
            mode.everywhere = before

    def set(self) -> None:
        """Sets the mode for the rest of the program, in all threads, wherever no block says another."""
        mode, value = self._mode_and_value()
        mode.everywhere = value
