"""Locks of folders, so that writers of the same folder take turns.

A process that changes the content of a folder, or replaces the folder, holds its lock (``flock``), which the system
releases when the process dies. A folder that replaces another has its own lock: if the locked folder is no longer at
the path, the writer tries again. Readers need no lock: they see the old folder or the new one.

A collection may be saved in the folder of another one. A writer of the inner one holds shared locks of the outer ones,
so that these are not replaced meanwhile. Outer locks are taken first, so that no two writers wait for each other.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from typing import Final

from tensorclass.support.interrupts import Uninterrupted

try:
    import fcntl
except ImportError:  # not Unix
    fcntl = None  # type: ignore[assignment]

__all__ = ["FolderLock", "is_at"]

#: files of a folder that holds a collection
_MARKS: Final = ("/meta.json", "/zarr.json", "/.zgroup")

#: the errors of file systems without locks; NFS has none for folders that are open for reading
_NO_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS))

#: the locks of this process: id of the FolderLock, handle, folder (device, inode), thread, whether exclusive
_held: list[tuple[int, int, tuple[int, int], int, bool]] = []
_locks: weakref.WeakSet[FolderLock] = weakref.WeakSet()


class FolderLock:
    """The lock of a folder, which one writer at a time holds.

    Use it in an :func:`~tensorclass.support.interrupts.uninterrupted` block, so that no interrupt comes between taking
    the lock and storing its handle. Waiting for other writers is interruptible.

    Args:
        section: the uninterrupted block.

    Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, FolderLock() as folder_lock:
    ...     folder_lock.acquire(folder), folder_lock.acquire(folder + "/none")
    (True, False)
    """

    def __init__(self, section: Uninterrupted | None = None) -> None:
        _locks.add(self)
        self._section = section
        self._handles: list[int] = []
        self.handle: int | None = None  #: the descriptor of the folder
        self.is_locked: bool = False  #: whether other writers are kept out; some file systems have no locks

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def release(self) -> None:
        """Release all locks."""
        while self._handles:
            self._drop(self._handles[-1])
        self.handle, self.is_locked = None, False

    def share_above(self, path: str | os.PathLike[str]) -> None:
        """Take shared locks of the collections in whose folders a path is, so that they are not replaced."""
        self._share(_collections_above(os.path.abspath(path)))

    def share(self, folder: str | os.PathLike[str]) -> None:
        """Take shared locks of the collection in a folder, and of those in whose folders that one is."""
        self._share(_collections_above(os.path.join(os.path.realpath(folder), "file"), resolved=True))

    def _share(self, folders: list[str]) -> None:
        for folder in folders:
            while True:
                try:
                    handle = self._open(folder)
                except OSError:
                    break  # it is not readable, or removed
                self._lock(handle, folder, exclusive=False)
                if is_at(handle, folder):
                    break
                self._drop(handle)

    def acquire(self, path: str | os.PathLike[str]) -> bool:
        """Lock the folder at a path, after waiting for other writers. Return ``False`` if there is no folder.

        A second call checks that the same folder is at the path, and else locks the new one.

        Raises:
            RuntimeError: the thread has locked it already, for example because a signal handler writes while the thread
                is writing.
            NotADirectoryError: the path is that of a file.
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
        """Lock a new folder too, before it is visible to others."""
        self._lock(self._open(folder), folder, exclusive=True)

    def _open(self, folder: str | os.PathLike[str]) -> int:
        handle = os.open(folder, os.O_RDONLY | _FLAGS)
        self._handles.append(handle)
        return handle

    def _lock(self, handle: int, folder: str | os.PathLike[str], exclusive: bool) -> bool:
        """Lock an open folder. Return ``False`` if the file system has no locks."""
        if fcntl is None:
            return False
        info, thread = os.fstat(handle), threading.get_ident()
        file_id = info.st_dev, info.st_ino
        if any(
            file_id == other and thread == owner and (exclusive or is_exclusive)
            for _, _, other, owner, is_exclusive in _held
        ):
            raise RuntimeError(
                f"{os.fspath(folder)}: this thread is writing to that folder already, and a signal handler or "
                "finalizer writes to it again: write to another folder, or after the first write has ended"
            )
        operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            try:
                fcntl.flock(handle, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._section is None:
                    fcntl.flock(handle, operation)
                else:
                    with self._section.interruptible():
                        fcntl.flock(handle, operation)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
        _held.append((id(self), handle, file_id, thread, exclusive))
        return True

    def _drop(self, handle: int) -> None:
        self._handles.remove(handle)
        _held[:] = [held for held in _held if held[:2] != (id(self), handle)]
        with contextlib.suppress(OSError):
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_UN)  # close() alone would not unlock if a forked process has the handle
        with contextlib.suppress(OSError):
            os.close(handle)


_FLAGS: Final[int] = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


def _collections_above(path: str, resolved: bool = False) -> list[str]:
    """Return the folders above a path that hold collections, the outermost first.

    Links are followed, unless the path is ``resolved``: a link that is left then leads to itself.
    """
    found: list[str] = []
    folder = path
    while True:
        if not resolved and os.path.islink(folder):
            return _collections_above(os.path.realpath(path), True)
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return found[::-1]
        for mark in _MARKS:
            if os.access(folder + mark, os.F_OK):  # takes half the time of os.stat() if there is none
                found.append(folder)
                break


def is_at(handle: int, path: str | os.PathLike[str]) -> bool:
    """Return whether an open folder is at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _leave_all() -> None:
    """Close the locked folders in a forked process: the locks belong to its parent."""
    for folder_lock in list(_locks):
        for handle in folder_lock._handles:
            with contextlib.suppress(OSError):
                os.close(handle)
        folder_lock._handles.clear()
        folder_lock.handle = None
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
