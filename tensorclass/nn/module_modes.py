"""Modes of modules: one value for the whole program, which single threads can override."""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from tensorclass.td.modes import Setting

T = TypeVar("T")


class Mode(Generic[T]):
    """The current value of a mode.

    Reading it is one attribute access while no thread overrides it, so ``torch.compile`` can trace it.

    Args:
        value: the initial value of the program.
    """

    __slots__ = ("_guard", "_here", "_threads", "everywhere")

    def __init__(self, value: T) -> None:
        self.everywhere: T = value
        self._here: Any = threading.local()
        self._threads: int = 0  # the number of open blocks that hold for one thread only
        self._guard: threading.Lock = threading.Lock()

    def current(self) -> T:
        """Return the innermost value of this thread, or the value of the program."""
        if self._threads:
            values: list[T] | None = getattr(self._here, "values", None)
            if values:
                return values[-1]
        return self.everywhere

    def _own(self) -> list[T]:
        """Return the values of this thread, innermost last."""
        values: list[T] | None = getattr(self._here, "values", None)
        if values is None:
            values = self._here.values = []
        return values

    def is_own(self) -> bool:
        """Return whether this thread overrides the mode. Blocks inside then hold for this thread only, too."""
        return bool(self._threads) and bool(self._own())

    def push(self, value: T) -> None:
        """Override the mode in this thread."""
        self._own().append(value)
        with self._guard:
            self._threads += 1

    def pop(self) -> None:
        """Drop the innermost value of this thread."""
        self._own().pop()
        with self._guard:
            self._threads -= 1


class ModeSetting(Setting, Generic[T]):
    """Base class of the setters of modes: context manager, decorator, and ``set()``.

    A block holds for all threads while it is open. With ``thread_local``, or inside a block that has it, it holds for
    its own thread only.
    """

    thread_local: bool

    def _mode_and_value(self) -> tuple[Mode[T], T]:
        raise NotImplementedError

    def _begin(self, thread_local: bool) -> None:
        if type(thread_local) is not bool:
            raise TypeError(f"{type(self).__name__}: thread_local is True or False, got {thread_local!r}")
        self.thread_local = thread_local
        self._before: list[tuple[bool, T]] = []  # what each open block of this object restores

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
        """Set the mode for the rest of the program, in all threads. Open blocks take precedence.

        Example:
            >>> from tensorclass.nn import set_skip_existing, skip_existing
            >>> set_skip_existing(True).set()
            >>> skip_existing()
            True
            >>> set_skip_existing(False).set()
        """
        mode, value = self._mode_and_value()
        mode.everywhere = value
