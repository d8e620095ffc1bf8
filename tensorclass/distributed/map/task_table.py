"""A few bytes of shared memory in which each worker notes its current chunk.

The process that waits reads from them which worker has which chunk, and since when, even if the worker was killed.
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


class ChunkNote(NamedTuple):
    """A worker's note that it began a chunk."""

    worker: int  #: process id, or thread id if workers are threads
    chunk: int
    since: float  #: ``time.monotonic()``, which is one clock for all processes of a machine


class TaskTable:
    """A slot for each task that can be under way at the same time.

    Args:
        slots: number of slots.
        in_threads: the workers are threads of this process.
    """

    def __init__(self, slots: int, in_threads: bool = False) -> None:
        self.slots: int = slots
        self._file: int = -1
        self._size: int = slots * _SLOT.size
        self._token: int = time.monotonic_ns()  # tells apart files that had the same path
        self._path: str = ""
        if in_threads:
            self._memory: mmap.mmap | bytearray = bytearray(self._size)
            return
        if _BY_HANDLE:  # an unnamed file leaves nothing behind, however this process ends
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
        return _open_table, (self._path, self._token, self.slots)

    def begin(self, slot: int, chunk: int, worker: int) -> None:
        """Note that a worker begins a chunk."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, worker, chunk, time.monotonic())

    def clear(self, slot: int) -> None:
        """Remove the note of a slot."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, 0, 0, 0.0)

    def note(self, slot: int) -> ChunkNote | None:
        """Return the last note of a slot, or ``None`` if its task has not begun."""
        note = ChunkNote(*_SLOT.unpack_from(self._memory, slot * _SLOT.size))
        return note if note.worker else None

    def close(self) -> None:
        """Release the memory. Does nothing the second time."""
        if not isinstance(self._memory, bytearray):
            self._memory.close()
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
            if not _BY_HANDLE:
                os.unlink(self._path)


class _RemoteTable:
    """The table of another process, to write to."""

    def __init__(self, path: str, slots: int) -> None:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._memory: mmap.mmap = mmap.mmap(file, slots * _SLOT.size)
        finally:
            os.close(file)

    def begin(self, slot: int, chunk: int, worker: int) -> None:
        """See :class:`TaskTable`."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, worker, chunk, time.monotonic())


_last: tuple[str, int, Any] = ("", 0, None)
_lock = threading.Lock()


def _open_table(path: str, token: int, slots: int) -> Any:
    """Open the table at a path; unpickling calls this. The last table is cached, as consecutive tasks share one.

    Return ``None`` if it cannot be opened: on another machine, or without access to the other process.
    """
    global _last
    with _lock:
        if _last[:2] != (path, token):
            try:
                _last = (path, token, _RemoteTable(path, slots))
            except OSError:
                _last = (path, token, None)
        return _last[2]
