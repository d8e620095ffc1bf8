"""Blocks of code in which Ctrl-C waits.

Python raises ``KeyboardInterrupt`` between any two instructions: also between opening a file and storing its handle, or
in the middle of a ``finally``. Code that must not stop there runs under :func:`uninterrupted`; its long-running part
runs under :meth:`Uninterrupted.interruptible`, with the cleanup outside of that block::

    with uninterrupted() as section:
        draft = make_draft()  # all of it or nothing
        try:
            with section.interruptible():
                write(draft)  # Ctrl-C stops this at once ...
        finally:
            remove(draft)  # ... and never this
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
from types import FrameType
from typing import Any, Final

__all__ = ["Uninterrupted", "uninterrupted"]

#: The signals that ask a program to stop: Ctrl-C, ``kill``, a time limit, a closed terminal.
_NAMES: Final = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP")
_SIGNALS: Final = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))

#: the module that ``signal`` wraps; the wrapper takes four times as long, since it turns numbers into enums
_system: Any = importlib.import_module("_signal")


class Uninterrupted:
    """A block at whose end pending signal handlers run; see :func:`uninterrupted`."""

    __slots__ = ("_handlers", "_pending")

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}  #: the replaced handlers, SIGINT's first
        self._pending: list[int] = []  #: signals that have arrived

    def __enter__(self) -> Uninterrupted:
        try:
            self._defer()
        except BaseException:
            self._resume()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._resume()

    def interruptible(self) -> Interruptible:
        """Return a block in which signals are handled at once, including those that have arrived before.

        Within an outer uninterrupted block they still wait, unless that one is interruptible too.
        """
        return Interruptible(self)

    def set_handler(self, number: int, handler: Any) -> Any:
        """Set a signal's handler inside the block, outside its interruptible parts, and return the one before.

        ``signal.signal`` does not do there: the block would put its own handler back. For the main thread only.
        """
        block = _active[0] if _active else None  # the outermost keeps the handlers; none after an interrupt in _defer
        handlers = {} if block is None else block._handlers
        before = handlers[number] if number in handlers else _system.getsignal(number)
        if block is not None and number in _SIGNALS and callable(handler):
            handlers[number] = handler
            _system.signal(number, block._note)
        else:
            handlers.pop(number, None)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set from Python
        return before

    def check(self) -> None:
        """Handle the signals that have arrived. Long blocks call this where they can be left."""
        if self._pending:
            with self.interruptible():
                pass

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number not in self._pending:
            self._pending.append(number)

    def _defer(self) -> None:
        """Replace the handlers. If a handler raises meanwhile, raise its error when all are replaced."""
        if threading.current_thread() is not threading.main_thread():
            return  # Python runs handlers in the main thread only
        if _active:
            return  # handlers wait for the end of the outer block
        raised: BaseException | None = None
        todo = [number for number in _SIGNALS if number not in self._handlers and callable(_system.getsignal(number))]
        _active.append(self)
        while todo:
            try:
                self._handlers[todo[0]] = _system.getsignal(todo[0])
                _system.signal(todo[0], self._note)
                del todo[0]
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def _resume(self) -> None:
        """Restore the handlers, SIGINT's last, then call them for the signals that have arrived."""
        raised: BaseException | None = None
        if self in _active:
            _active.remove(self)
        try:
            while self._handlers:
                try:
                    number, handler = next(reversed(self._handlers.items()))
                    _system.signal(number, handler)
                    del self._handlers[number]
                except BaseException as error:
                    raised = error
        finally:
            pending, self._pending = self._pending, []
            _deliver(pending)
        if raised is not None:
            raise raised


class Interruptible:
    """A block within an :class:`Uninterrupted` block in which signals are handled at once."""

    __slots__ = ("_section",)

    def __init__(self, section: Uninterrupted) -> None:
        self._section = section

    def __enter__(self) -> None:
        self._section._resume()

    def __exit__(self, *exception: object) -> None:
        self._section._defer()


#: the open blocks of the main thread, outer ones first
_active: list[Uninterrupted] = []


def _deliver(pending: list[int]) -> None:
    """Call the handlers of all signals, even if one raises."""
    if pending:
        try:
            signal.raise_signal(pending[0])
        finally:
            _deliver(pending[1:])


def _leave_all() -> None:
    """Restore the handlers in a process that was forked within a block; the block continues in its parent."""
    while _active:
        section = _active[-1]
        section._pending.clear()
        section._resume()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


def uninterrupted() -> Uninterrupted:
    """Return a block for whose end ``KeyboardInterrupt``, and any other error of a signal handler, waits.

    Python handlers of SIGINT, SIGTERM, SIGALRM and SIGHUP run when the block ends. Blocks can be nested. Keep them
    short: long-running code goes into ``interruptible()``. In threads other than the main one the block does nothing,
    since Python runs handlers only in the main thread. Never keep one open across a ``yield`` to a user's loop.

    Example:
        >>> import signal
        >>> done = []
        >>> try:
        ...     with uninterrupted():
        ...         signal.raise_signal(signal.SIGINT)
        ...         done.append("first half")
        ...         done.append("second half")
        ... except KeyboardInterrupt:
        ...     print(done)
        ['first half', 'second half']
    """
    return Uninterrupted()
