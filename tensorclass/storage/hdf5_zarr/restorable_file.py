"""A file object for HDF5 that can be restored to the state before a change that failed.

HDF5 writes to any offset, in any order. If a write fails, it ends the process, since it cannot close the file either.
So it must not see an error: this file keeps the bytes that a change overwrites until all of the change is written.
After an error, on a full disk for example, it discards writes; when the library has closed the file, the old bytes are
put back.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import stat
import sys
import weakref
from typing import Any, NamedTuple

from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_BLOCK = 4096
_LARGEST = 2**20  #: the most bytes of a write of metadata; larger writes are values of arrays
_MOST = 2**26  #: the most overwritten bytes that are kept
_HEAVY = 2**24  #: kept bytes at which the library should flush, so that they can be dropped


class RestorableFile:
    """A file object for h5py that can be restored; see the module.

    Args:
        path: the path of the file.
        mode: a mode of ``h5py.File`` for writing.

    Raises:
        BlockingIOError: another process has the file open.
        FileError: it is not a regular file.
    """

    def __init__(self, path: str, mode: str) -> None:
        self.path: str = path
        self.error: OSError | None = None  #: the error of the first write that failed
        self.is_whole: bool = True  #: overwritten bytes are kept, except for values that are written in large pieces
        self._is_exact = True  #: no values were overwritten in large pieces
        self._pid = os.getpid()
        self._at = 0
        self._kept: dict[int, bytes] = {}  #: overwritten blocks by their number
        self._lost: list[tuple[int, bytes]] = []  #: writes after the error, which the library may read again
        creates = {"r+": 0, "a": os.O_CREAT, "w": os.O_CREAT}.get(mode, os.O_CREAT | os.O_EXCL)
        flags = os.O_RDWR | creates | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        self._handle = -1
        #: sizes: as the library sees it; on disk; before the change
        self._size = self._size_on_disk = self._size_before = 0
        self._handle = os.open(path, flags, 0o666)
        try:
            found = os.fstat(self._handle)
            if not stat.S_ISREG(found.st_mode):
                raise FileError(f"{path}: expected a regular file")
            self.key: tuple[int, int] = (found.st_dev, found.st_ino)
            self._take_lock()
            if mode == "w":
                os.ftruncate(self._handle, 0)
        except BaseException:
            os.close(self._handle)
            self._handle = -1
            raise
        self._size = self._size_on_disk = self._size_before = os.fstat(self._handle).st_size

    def _take_lock(self) -> None:
        """Lock the file, since HDF5 does not lock file objects."""
        if fcntl is None or os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() in ("FALSE", "0"):
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks, on which HDF5 continues too
            pass

    @property
    def is_here(self) -> bool:
        """True if this process has opened the file, not the process that it was forked from."""
        return self._pid == os.getpid()

    @property
    def is_closed(self) -> bool:
        return self._handle < 0

    @property
    def is_heavy(self) -> bool:
        """True if the library should flush, because too many overwritten bytes are kept."""
        return len(self._kept) * _BLOCK >= _HEAVY

    # -- called by the library ----------------------------------------------------------------------------------------

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        self._at = at + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        done = 0
        while done < count and (piece := os.pread(self._handle, count - done, self._at + done)):
            view[done : done + len(piece)] = piece
            done += len(piece)
        if done < count:
            view[done:count] = bytes(count - done)
        for at, piece in self._lost:
            start, stop = max(at, self._at), min(at + len(piece), self._at + count)
            if start < stop:
                view[start - self._at : stop - self._at] = piece[start - at : stop - at]
        self._at += count
        return count

    def read(self, count: int = -1) -> bytes:
        buffer = bytearray(max(0, self._size - self._at) if count < 0 else count)
        return bytes(buffer[: self.readinto(buffer)])

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._put(self._at, view)
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def truncate(self, size: int) -> int:
        if size > self._size and self.error is None:
            zeros = min(size, self._size_on_disk) - self._size
            if zeros > 0:  # bytes of an earlier truncation are still on disk
                self._put(self._size, memoryview(bytes(zeros)))
            self._try(lambda: os.ftruncate(self._handle, max(size, self._size_on_disk)))
        self._size = size  # commit() cuts the file on disk
        return size

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def _put(self, at: int, view: memoryview) -> None:
        def put() -> None:
            self._keep(at, len(view))
            done = 0
            while done < len(view):
                done += os.pwrite(self._handle, view[done:], at + done)
            self._size_on_disk = max(self._size_on_disk, at + len(view))

        if not self._try(put) and len(view) <= _LARGEST and sum(len(piece) for _, piece in self._lost) < _MOST:
            self._lost.append((at, bytes(view)))

    def _try(self, work: Any) -> bool:
        if self.error is not None:
            return False
        try:
            if not self.is_here:
                raise OSError(errno.EBUSY, "the process that this one was forked from has it open for writing")
            work()
        except OSError as error:
            self.error = error
            return False
        return True

    def _keep(self, at: int, count: int) -> None:
        """Keep the bytes that a write will overwrite."""
        stop = min(at + count, self._size_before)
        if at >= stop or not self.is_whole:
            return
        if count > _LARGEST:
            self._is_exact = False
            return
        wanted = [block for block in range(at // _BLOCK, -(-stop // _BLOCK)) if block not in self._kept]
        if (len(self._kept) + len(wanted)) * _BLOCK > _MOST:
            self.is_whole = False
            return
        for block in wanted:
            length = min(_BLOCK, self._size_before - block * _BLOCK)
            self._kept[block] = os.pread(self._handle, length, block * _BLOCK)

    # -- called by the backend ----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Note that a change is complete: the library has flushed. Drops the kept bytes."""
        if self._size < self._size_on_disk:
            self._try(lambda: os.ftruncate(self._handle, self._size))
        self._size_on_disk = self._size_before = self._size
        self._kept.clear()
        self.is_whole = self._is_exact = True

    @property
    def outcome(self) -> str:
        """The state of the closed file and of the change that failed, for errors."""
        if not self._size_before:
            return "nothing was written"
        if not self.is_whole:
            return "the last change was written in part and could not be undone: write the file again"
        if not self._is_exact:
            return (
                "the last change was not written, and the file was closed as it was before, except for the values that "
                "the change overwrites: these may be new, old or a mix"
            )
        return "the last change was not written, and the file was closed as it was before"

    def finish(self) -> None:
        """Close the file after the library has closed it. Restore the state before a change that failed."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        try:
            if not self.is_here:
                return
            if self.error is None:
                if self._size < self._size_on_disk:
                    os.ftruncate(handle, self._size)
            elif self.is_whole:
                try:
                    for block, content in self._kept.items():
                        os.pwrite(handle, content, block * _BLOCK)
                    os.ftruncate(handle, self._size_before)
                except OSError:
                    self.is_whole = False
        finally:
            os.close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:  # nobody has closed it
            with contextlib.suppress(OSError):
                self.finish()
            if self.error is not None and self.is_here:
                raise self.error


# ---------------------------------------------------------------------------------------------------------------------
# open files of the process


class _Open(NamedTuple):
    """A file that this process has open, and its root groups: one for each time it was opened."""

    file: weakref.ref[RestorableFile]
    roots: list[weakref.ref[Any]]

    def open_roots(self) -> list[Any]:
        """Return the root groups that are open."""
        found = [reference() for reference in self.roots]
        return [root for root in found if root is not None and root]


_OPEN: dict[tuple[int, int], _Open] = {}


class AlreadyOpen(OSError):
    """The process has the file open, in another mode."""

    def __init__(self) -> None:
        super().__init__("the file is already open")


def open_root(library: Any, path: str, mode: str, **options: Any) -> tuple[Any, RestorableFile]:
    """Open an HDF5 file for writing; return its root group and its file object.

    Args:
        library: ``h5py``.
        path: the path of the file.
        mode: ``"r+"``, ``"a"``, ``"w"``, ``"w-"`` or ``"x"``.
        options: arguments of ``h5py.File``.

    Raises:
        AlreadyOpen: this process has the file open in another mode.
        BlockingIOError: another process has it open.
    """
    if (known := _found(path)) is not None:
        file, opened = known
        if mode not in ("r+", "a"):
            raise AlreadyOpen
        root = library.File(opened.open_roots()[0].id.reopen())
        opened.roots.append(weakref.ref(root))
        return root, file
    try:
        file = RestorableFile(path, mode)
    except BlockingIOError:
        library.File(path, mode, **options).close()  # raises with a better message
        raise
    try:
        root = library.File(file, "r+" if file._size else "w", **options)
    except BaseException:
        file.finish()
        raise
    _OPEN[file.key] = _Open(weakref.ref(file), [weakref.ref(root)])
    return root, file


def check_unopened(path: str) -> None:
    """Raise if this process has a file open for writing: a second file object would not see buffered changes."""
    if _found(path) is not None:
        raise AlreadyOpen


def close_root(root: Any, file: RestorableFile) -> OSError | None:
    """Close a root group, and the file with the last one.

    Returns:
        The error that kept values from being written. Its message gives the state of the file.
    """
    opened = _OPEN.get(file.key)
    others = [other for other in opened.open_roots() if other is not root] if opened is not None else []
    if others and root:
        root.flush()
        if file.error is None:
            file.commit()
    root.close()
    if file.error is not None:  # the other handles of the file cannot write any more
        for other in others:
            other.close()
    if file.error is not None or not others:
        _OPEN.pop(file.key, None)
        file.finish()
    error = file.error
    if error is None or not file.is_here:
        return None
    return OSError(error.errno, f"{error.strerror or error}; {file.outcome}")


def _found(path: str) -> tuple[RestorableFile, _Open] | None:
    """Return the open file at a path."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    opened = _OPEN.get((found.st_dev, found.st_ino))
    file = None if opened is None else opened.file()
    return None if opened is None or file is None or file.is_closed or not opened.open_roots() else (file, opened)


@atexit.register
def _close_all() -> None:
    """Close files that are open at exit: the library would close them when Python cannot write for it any more."""
    for opened in [*_OPEN.values()]:
        with uninterrupted():
            file = opened.file()
            for root in opened.open_roots():
                if file is not None and (error := close_root(root, file)) is not None:
                    print(f"{printable(file.path)}: {error}", file=sys.stderr)
