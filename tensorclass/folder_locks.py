"""Writers of a folder take turns.

Whoever changes what is in a folder, or puts another one in its place, holds the lock of the folder (``flock``), which
the system gives back when a process dies. A folder that has taken the place of another has a lock of its own: whoever
got the lock of one that is no longer at the path tries again. Readers need none: they see one folder or the other.

A collection may lie in the folder of another one. A writer of the inner one shares the locks of the outer ones, so that
none of them moves meanwhile. Locks are taken from the outside to the inside, and so no two writers wait for each other.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from types import TracebackType
from typing import Final

from tensorclass.interrupts import Uninterrupted

try:
    import fcntl
except ImportError:  # it is none of Unix
    fcntl = None  # type: ignore[assignment]

__all__ = ["FolderLock", "is_at"]

#: what tells that a folder is that of a collection, in which others may lie
_MARKS: Final = ("/meta.json", "/zarr.json", "/.zgroup")

#: what file systems without locks say; NFS has none of folders that are open for reading
_NO_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS))

#: what is locked in this process: by which folder_lock, its handle, the folder, the thread, whether for itself alone
_held: list[tuple[int, int, tuple[int, int], int, bool]] = []
_locks: weakref.WeakSet[FolderLock] = weakref.WeakSet()


class FolderLock:
    """The lock of a folder, which one writer has at a time.

    Use it in an :func:`~tensorclass.interrupts.uninterrupted` block: no interrupt falls between a lock and its keeping.
    Waiting for others is interruptible.

    Args:
        section: the block that it is in.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, FolderLock() as folder_lock:
    ...     folder_lock.acquire(folder), folder_lock.acquire(folder + "/none")
    (True, False)
    """

    def __init__(self, section: Uninterrupted | None = None) -> None:
        _locks.add(self)
        self._section = section
        self._handles: list[int] = []
        self.handle: int | None = None  #: the folder that is taken, open
        self.is_locked: bool = False  #: whether no other writer can have it; some file systems have no locks

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others have all that was taken."""
        while self._handles:
            self._drop(self._handles[-1])
        self.handle, self.is_locked = None, False

    def share_above(self, path: str | os.PathLike[str]) -> None:
        """Keep the collections in whose folders a path lies where they are."""
        for folder in _collections_above(os.path.abspath(path)):
            while True:
                try:
                    handle = self._open(folder)
                except OSError:
                    break  # it may not be read, or is gone
                self._lock(handle, folder, exclusive=False)
                if is_at(handle, folder):
                    break
                self._drop(handle)

    def acquire(self, path: str | os.PathLike[str]) -> bool:
        """Take the folder at a path, when those that have it are done; ``False`` where there is none.

        A second call looks whether it is still the same, and takes the one that is there now.

        Raises:
            RuntimeError: the thread has it already: a handler of signals, say, writes in the middle of writing.
            NotADirectoryError: it is a file.
        """
        while True:
            if self.handle is not None:
                if is_at(self.handle, path):
                    return True
                self._drop(self.handle)
                self.handle, self.is_locked = None, False
            try:
                handle = self._open(path)
            except FileNotFoundError:
                return False
            self.is_locked = self._lock(handle, path, exclusive=True)
            self.handle = handle

    def acquire_new(self, folder: str | os.PathLike[str]) -> None:
        """Have a new folder, too, that nobody else has seen yet."""
        self._lock(self._open(folder), folder, exclusive=True)

    def _open(self, folder: str | os.PathLike[str]) -> int:
        handle = os.open(folder, os.O_RDONLY | _FLAGS)
        self._handles.append(handle)
        return handle

    def _lock(self, handle: int, folder: str | os.PathLike[str], exclusive: bool) -> bool:
        """Lock an open folder; ``False`` where there are no locks."""
        if fcntl is None:
            return False
        info, thread = os.fstat(handle), threading.get_ident()
        place = info.st_dev, info.st_ino
        if any(place == other and thread == owner and (exclusive or alone) for _, _, other, owner, alone in _held):
            raise RuntimeError(
                f"{os.fspath(folder)}: this thread is writing to that folder already, and was interrupted by what "
                "writes to it again: write to another folder, or when the first is done"
            )
        how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            try:
                fcntl.flock(handle, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._section is None:
                    fcntl.flock(handle, how)
                else:
                    with self._section.interruptible():
                        fcntl.flock(handle, how)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
        _held.append((id(self), handle, place, thread, exclusive))
        return True

    def _drop(self, handle: int) -> None:
        self._handles.remove(handle)
        _held[:] = [held for held in _held if held[:2] != (id(self), handle)]
        with contextlib.suppress(OSError):
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_UN)  # also where a process that was forked has it
        with contextlib.suppress(OSError):
            os.close(handle)


_FLAGS: Final[int] = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


def _collections_above(path: str) -> list[str]:
    """The folders above a path that are those of collections, the outermost first."""
    found: list[str] = []
    folder = path
    while True:
        if os.path.islink(folder):
            return _collections_above(os.path.realpath(path))
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return found[::-1]
        for mark in _MARKS:
            if os.access(folder + mark, os.F_OK):  # half the time that os.stat() takes where there is none
                found.append(folder)
                break


def is_at(handle: int, path: str | os.PathLike[str]) -> bool:
    """Return whether an open folder is the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _leave_all() -> None:
    """Close what another thread had locked when a process was forked: the lock is its parent's."""
    for folder_lock in list(_locks):
        for handle in folder_lock._handles:
            with contextlib.suppress(OSError):
                os.close(handle)
        folder_lock._handles.clear()
        folder_lock.handle = None
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
