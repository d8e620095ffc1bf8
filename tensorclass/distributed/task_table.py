"""A few bytes that processes share, in which each task notes what it is at.

So the process that waits knows which one has which chunk, and since when, also of one that was killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
import time
from typing import Any, NamedTuple

_SLOT = struct.Struct("qqd")
_BY_HANDLE = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


class Note(NamedTuple):
    """What a task noted when it began a chunk."""

    who: int  #: the process, or the thread of this one
    chunk: int
    since: float  #: of ``time.monotonic()``, which is one clock for all processes of a machine


class TaskTable:
    """A slot for each task that can be under way at the same time.

    Args:
        slots: how many.
        here: the tasks run in threads of this process.
    """

    def __init__(self, slots: int, here: bool = False) -> None:
        self.slots: int = slots
        self._file: int = -1
        self._size: int = slots * _SLOT.size
        self._token: int = time.monotonic_ns()  # files come and go under one path
        self._path: str = ""
        if here:
            self._memory: mmap.mmap | bytearray = bytearray(self._size)
            return
        if _BY_HANDLE:  # a file without a name: nothing is left, however this process ends
            self._file = os.memfd_create("tensorclass-map", os.MFD_CLOEXEC)
            self._path = f"/proc/{os.getpid()}/fd/{self._file}"
        else:
            self._file, self._path = tempfile.mkstemp(prefix="tensorclass-map-")
        try:
            os.ftruncate(self._file, self._size)
            self._memory = mmap.mmap(self._file, self._size)
        except BaseException:
            self._close_file()
            raise

    def __reduce__(self) -> Any:
        return _opened, (self._path, self._token, self.slots)

    def begin(self, slot: int, chunk: int, who: int) -> None:
        """A process, or a thread, begins a chunk of the task that has a slot."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, who, chunk, time.monotonic())

    def clear(self, slot: int) -> None:
        """Nothing of the task that has a slot has begun."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, 0, 0, 0.0)

    def note(self, slot: int) -> Note | None:
        """What the task that has a slot noted last; ``None`` where it has not begun."""
        found = Note(*_SLOT.unpack_from(self._memory, slot * _SLOT.size))
        return found if found.who else None

    def close(self) -> None:
        """Gives the memory back, once."""
        if not isinstance(self._memory, bytearray):
            self._memory.close()
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
            if not _BY_HANDLE:
                os.unlink(self._path)


class _Opened:
    """The table of another process."""

    def __init__(self, path: str, slots: int) -> None:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._memory: mmap.mmap = mmap.mmap(file, slots * _SLOT.size)
        finally:
            os.close(file)

    def begin(self, slot: int, chunk: int, who: int) -> None:
        """See :class:`TaskTable`."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, who, chunk, time.monotonic())


_last: tuple[str, int, Any] = ("", 0, None)
_lock = threading.Lock()


def _opened(path: str, token: int, slots: int) -> Any:
    """The table at a path; the last one is kept, since many tasks have the same.

    ``None`` where it cannot be opened: on another machine, or where one program may not look into another.
    """
    global _last
    with _lock:
        if _last[:2] != (path, token):
            try:
                _last = (path, token, _Opened(path, slots))
            except OSError:
                _last = (path, token, None)
        return _last[2]
