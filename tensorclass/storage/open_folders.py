"""Open folders, from which files are opened: all of one version, and none from outside."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from tensorclass.atomic import is_swapped
from tensorclass.interrupts import Uninterrupted, uninterrupted
from tensorclass.printable import printable
from tensorclass.regular import NotRegular, kind_of, open_regular

from .layout import INSIDE, LONGEST, META, file_name, tensor_file
from .tree import FileError

T = TypeVar("T")


class Opened(NamedTuple):
    """An open folder, of which files are opened: whatever takes its place in the meantime, they are of one version."""

    handle: int
    name: str  #: for errors

    def content(self, name: str) -> bytes | bytearray:
        """What a file in it says."""
        try:
            handle = open_regular(name, folder=self.handle, shown=f"{self.name}/{name}")
        except FileNotFoundError:
            raise
        except NotRegular as error:
            raise FileError(str(error)) from None
        except OSError as error:
            raise FileError(f"{self.name}/{name}: {error.strerror}") from None
        try:
            info = os.fstat(handle)
            if info.st_size > LONGEST:
                raise FileError(f"{self.name}/{name}: it is longer than {LONGEST} bytes")
            text = bytearray(os.read(handle, info.st_size + 1))
            while len(text) != info.st_size and (piece := os.read(handle, 2**20)):  # it is being written
                text += piece
                if len(text) > LONGEST:
                    raise FileError(f"{self.name}/{name}: it is longer than {LONGEST} bytes")
        finally:
            _closed(handle)
        return text

    def names(self) -> set[str]:
        """Those of its files and folders."""
        return set(os.listdir(self.handle))


def _opened(folder: Opened, name: str) -> Opened:
    """A folder in a folder; symbolic links are not followed, so that nothing outside is opened."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
    except FileNotFoundError:
        raise FileNotFoundError(2, "missing", f"{folder.name}/{name}") from None
    except OSError as error:
        found = error.strerror
        with suppress(OSError):
            mode = os.stat(name, dir_fd=folder.handle, follow_symlinks=False).st_mode
            found = f"found {kind_of(mode)}" + (", which is not followed" if stat.S_ISLNK(mode) else "")
        raise FileError(f"{folder.name}/{name}: expected a folder, {found}") from None
    return Opened(handle, f"{folder.name}/{name}")


@contextmanager
def open_folder(path: str) -> Generator[Opened, None, None]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Opened(handle, path)
    finally:
        _closed(handle)


def retried(path: str, work: Callable[[Opened, Uninterrupted], T]) -> T:
    """Call a function with an open folder, again if another has taken the folder's place in the meantime.

    The function runs in a block of :func:`uninterrupted`, which it gets: interrupts would leave folders open. It looks
    for them from time to time.
    """
    with uninterrupted() as section:
        return _retried(path, work, section)


def _retried(path: str, work: Callable[[Opened, Uninterrupted], T], section: Uninterrupted) -> T:
    end = time.monotonic() + 1.0
    while True:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            found = kind_of(os.stat(path).st_mode)
            raise NotADirectoryError(
                f"{printable(path)} is {found}; a folder was expected, as memmap() makes it"
            ) from None
        except FileNotFoundError:
            if not (is_swapped(path) or os.path.lexists(path)):  # the latter: it came in between
                raise FileNotFoundError(f"there is no folder {printable(path)}") from None
            if time.monotonic() > end:
                raise FileNotFoundError(
                    f"there is no folder {printable(path)}: a process was killed while it put another one there; the "
                    "one before is put back when something is saved there again"
                ) from None
            with section.interruptible():
                time.sleep(0.001)
            continue
        try:
            return work(Opened(handle, path), section)
        except FileNotFoundError as error:
            if same_folder(handle, path):
                raise _missing(path, error) from None
        finally:
            _closed(handle)


def _closed(handle: int) -> None:
    """Close a descriptor that was read from: it is closed also where that is an error, which says nothing of values."""
    with suppress(OSError):
        os.close(handle)


def _missing(path: str, error: FileNotFoundError) -> Exception:
    if str(error.filename) == META and error.args:
        return FileNotFoundError(f"nothing is saved in {printable(path)}: it has no {META}")
    return FileError(f"{path}: the file {error.filename} is missing")


def same_folder(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return True  # it is gone: nothing to try again


def of_file(error: OSError, path: str) -> Exception:
    """An error of an open folder's file as one of the path that users know."""
    if error.errno == errno.ELOOP:
        return FileError(f"{path}: a link; what it leads to is not opened")
    if error.errno in _NO_FILE:
        return FileError(f"{path}: expected a file ({error.strerror})")
    return type(error)(error.errno, error.strerror, path)


_NO_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG, errno.EINVAL)


class Folders:
    """The folders of a tree, by their path in it. The last few stay open: a process may open some 1,000 files only."""

    def __init__(self, root: Opened, as_keys: bool = False, pickles: bool = False) -> None:
        self._root = root
        self.pickles: bool = pickles  #: whether objects that were written as pickles are read
        self._as_keys = as_keys  # look first for files named as the keys are
        self._foreign: set[tuple[str, ...]] = set()
        self._open: dict[tuple[str, ...], Opened] = {}
        self._inside: set[tuple[str, ...]] = set()
        self._last: tuple[tuple[str, ...], Opened] | None = None

    def at(self, path: tuple[str, ...]) -> Opened:
        """An open folder, until another one is asked for."""
        if self._last is not None and path == self._last[0]:
            return self._last[1]
        above = len(path) - 1
        while above > 0 and path[:above] not in self._open:
            above -= 1
        for length in range(above + 1, len(path)):  # one after the other: calls in calls would end at some depth
            self._found(path[:length])
        found = self._found(path)
        self._last = path, found
        return found

    def _found(self, path: tuple[str, ...]) -> Opened:
        found = self._open.pop(path, None)
        if found is None:
            found = _opened(*self.find(path, None)) if path else self._root
            if path in self._inside:
                found = self._replaced(found, path)
            elif not path:
                return found
            if len(self._open) >= _MOST_OPEN:
                _closed(self._open.pop(next(iter(self._open))).handle)
        self._open[path] = found  # as the last one
        return found

    def enter(self, path: tuple[str, ...]) -> None:
        """What is in a folder stands in the folder ``_tensordict`` in it."""
        if path in self._inside:
            raise FileError(f"{self.at(path).name}/{META}: its shape is missing")
        self._inside.add(path)
        self._last = None
        outer = self._open.pop(path, None)
        if outer is not None:
            _closed(outer.handle)

    def say_foreign(self, path: tuple[str, ...]) -> None:
        """The peer wrote a folder; its files may be named as the keys are."""
        self._foreign.add(path)

    def find(self, path: tuple[str, ...], part: str | None) -> tuple[Opened, str]:
        """The open folder that a value is in, and the name there of its folder, or of the file of a part of it."""
        *_, key = path
        folder, written = self.at(path[:-1]), file_name(key)
        name = written if part is None else tensor_file(key, part)
        if path[:-1] not in self._foreign or written == key or "/" in key or "\0" in key or key in _NO_NAMES:
            return folder, name
        plain = name.replace(written, key, 1)
        first, second = (plain, name) if self._as_keys else (name, plain)
        return folder, second if not _is_there(folder, first) and _is_there(folder, second) else first

    def _replaced(self, outer: Opened, path: tuple[str, ...]) -> Opened:
        try:
            return _opened(outer, INSIDE)
        finally:
            if path:
                _closed(outer.handle)

    def close(self) -> None:
        """Closes all but the root."""
        while self._open:
            _closed(self._open.popitem()[1].handle)


_MOST_OPEN = 64
_NO_NAMES = ("", ".", "..", META)  #: keys that no file can have as its name


def _is_there(folder: Opened, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
    except OSError:
        return False
    return True
