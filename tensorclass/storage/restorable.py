"""A file that is open for writing, and can be taken back to its last state that was whole.

HDF5 writes where it likes, in any order, and ends the process where that fails: then it cannot close the file either.
So it never hears of an error. The file keeps what is overwritten until all of a change is written. Where the disk is
full, later writes go nowhere, and what was there before is put back when the library has closed the file.
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

from tensorclass.interrupts import uninterrupted
from tensorclass.printable import printable

from .tree import FileError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_BLOCK = 4096
_LARGEST = 2**20  #: bytes of a write that can be more than values: HDF5 writes no more at once of what it says of them
_MOST = 2**26  #: bytes that are kept
_HEAVY = 2**24  #: bytes that are kept when it is time to write all, and to forget them


class RestorableFile:
    """A file for the library; see the module.

    Args:
        path: of the file.
        mode: as that of ``h5py``, for writing.

    Raises:
        BlockingIOError: another one has it open.
        FileError: it is no regular file.
    """

    def __init__(self, path: str, mode: str) -> None:
        self.path: str = path
        self.error: OSError | None = None  #: that of the first write that failed
        self.is_whole: bool = True  #: all that is overwritten is kept, but for values that are written in large pieces
        self._is_exact = True  #: those, too
        self._pid = os.getpid()
        self._at = 0
        self._kept: dict[int, bytes] = {}
        self._lost: list[tuple[int, bytes]] = []  #: what was written after the error
        creates = {"r+": 0, "a": os.O_CREAT, "w": os.O_CREAT}.get(mode, os.O_CREAT | os.O_EXCL)
        flags = os.O_RDWR | creates | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        self._handle = -1
        self._size = self._there = self._before = 0
        self._handle = os.open(path, flags, 0o666)
        try:
            found = os.fstat(self._handle)
            if not stat.S_ISREG(found.st_mode):
                raise FileError(f"{path}: it is no regular file")
            self.key: tuple[int, int] = (found.st_dev, found.st_ino)
            self._take_lock()
            if mode == "w":
                os.ftruncate(self._handle, 0)
        except BaseException:
            os.close(self._handle)
            self._handle = -1
            raise
        self._size = self._there = self._before = os.fstat(self._handle).st_size

    def _take_lock(self) -> None:
        """Lock the file as HDF5 does, which this keeps from doing it."""
        if fcntl is None or os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() in ("FALSE", "0"):
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks, on which HDF5 goes on, too
            pass

    @property
    def is_empty(self) -> bool:
        """Whether the file had no content when it was opened."""
        return not self._size

    @property
    def is_here(self) -> bool:
        """Whether this process has opened it, and not the one that it was forked from."""
        return self._pid == os.getpid()

    @property
    def is_closed(self) -> bool:
        return self._handle < 0

    @property
    def is_heavy(self) -> bool:
        """Whether much of what was overwritten is kept."""
        return len(self._kept) * _BLOCK >= _HEAVY

    # -- for the library ----------------------------------------------------------------------------------------------

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        self._at = at + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, place: Any) -> int:
        view = memoryview(place).cast("B")
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
        place = bytearray(max(0, self._size - self._at) if count < 0 else count)
        return bytes(place[: self.readinto(place)])

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._put(self._at, view)
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def truncate(self, size: int) -> int:
        if size > self._size and self.error is None:
            zeros = min(size, self._there) - self._size
            if zeros > 0:  # what was cut before is still in the file
                self._put(self._size, memoryview(bytes(zeros)))
            self._try(lambda: os.ftruncate(self._handle, max(size, self._there)))
        self._size = size  # a shorter one is cut when the change is whole
        return size

    def flush(self) -> None:
        """Nothing is held here."""

    def _put(self, at: int, view: memoryview) -> None:
        def put() -> None:
            self._keep(at, len(view))
            done = 0
            while done < len(view):
                done += os.pwrite(self._handle, view[done:], at + done)
            self._there = max(self._there, at + len(view))

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
        """Keep what stands where something is written."""
        stop = min(at + count, self._before)
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
            length = min(_BLOCK, self._before - block * _BLOCK)
            self._kept[block] = os.pread(self._handle, length, block * _BLOCK)

    # -- for whoever has opened it ------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Note that what is in the file is whole: the library has written all that it holds."""
        if self._size < self._there:
            self._try(lambda: os.ftruncate(self._handle, self._size))
        self._there = self._before = self._size
        self._kept.clear()
        self.is_whole = self._is_exact = True

    @property
    def outcome(self) -> str:
        """The state of the closed file, and of the change that failed, in words."""
        if not self.is_whole:
            return "the last change was written in part and could not be undone: write the file anew"
        if not self._is_exact:
            return (
                "the last change was not written, and the file was closed as it was before, but for values that it "
                "wrote over: these may be new, old or both"
            )
        return "the last change was not written, and the file was closed as it was before"

    def finish(self) -> None:
        """Close the file, which the library has closed: as it is, or as it was before the change that failed."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        try:
            if not self.is_here:
                return
            if self.error is None:
                if self._size < self._there:
                    os.ftruncate(handle, self._size)
            elif self.is_whole:
                try:
                    for block, content in self._kept.items():
                        os.pwrite(handle, content, block * _BLOCK)
                    os.ftruncate(handle, self._before)
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
# files of the process


class _Open(NamedTuple):
    """A file that this process has open, and its root groups: one that is opened twice has two, and one state."""

    file: weakref.ref[RestorableFile]
    roots: list[weakref.ref[Any]]

    def held(self) -> list[Any]:
        """The root groups that are open."""
        found = [reference() for reference in self.roots]
        return [root for root in found if root is not None and root]


_OPEN: dict[tuple[int, int], _Open] = {}


class AlreadyOpen(OSError):
    """The process has the file open, in another mode."""

    def __init__(self) -> None:
        super().__init__("the file is already open")


def open_root(library: Any, path: str, mode: str, **options: Any) -> tuple[Any, RestorableFile]:
    """The root group of an HDF5 file that is open for writing.

    Args:
        library: ``h5py``.
        path: of the file.
        mode: ``"r+"``, ``"a"``, ``"w"``, ``"w-"`` or ``"x"``.
        options: of ``h5py.File``.

    Raises:
        AlreadyOpen: in another mode, by this process.
        BlockingIOError: by another one.
    """
    if (known := _found(path)) is not None:
        file, opened = known
        if mode not in ("r+", "a"):
            raise AlreadyOpen
        root = library.File(opened.held()[0].id.reopen())
        opened.roots.append(weakref.ref(root))
        return root, file
    try:
        file = RestorableFile(path, mode)
    except BlockingIOError:
        library.File(path, mode, **options).close()  # the library knows why, and says it
        raise
    try:
        root = library.File(file, "w" if file.is_empty else "r+", **options)
    except BaseException:
        file.finish()
        raise
    _OPEN[file.key] = _Open(weakref.ref(file), [weakref.ref(root)])
    return root, file


def check_unopened(path: str) -> None:
    """Raise if this process has a file open for writing: another one would not see what it holds."""
    if _found(path) is not None:
        raise AlreadyOpen


def close_root(root: Any, file: RestorableFile) -> OSError | None:
    """Close a root group, and the file with the last one.

    Returns:
        The error that kept values from being written. Its message says what has become of the file.
    """
    opened = _OPEN.get(file.key)
    others = [other for other in opened.held() if other is not root] if opened is not None else []
    if others and root:
        root.flush()
        if file.error is None:
            file.commit()
    root.close()
    if file.error is not None:  # none of them can write any more
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
    """The open file of a path."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    opened = _OPEN.get((found.st_dev, found.st_ino))
    file = None if opened is None else opened.file()
    return None if opened is None or file is None or file.is_closed or not opened.held() else (file, opened)


@atexit.register
def _close_all() -> None:
    """Close files that the program has left open: when the library does, there is no Python to write for it."""
    for opened in [*_OPEN.values()]:
        with uninterrupted():
            file = opened.file()
            for root in opened.held():
                if file is not None and (error := close_root(root, file)) is not None:
                    print(f"{printable(file.path)}: {error}", file=sys.stderr)
