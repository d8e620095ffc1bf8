"""Open the files of a memory-mapped folder through handles of open folders: all of one version, none outside of it."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.atomic import is_swapped
from tensorclass.support.folder_locks import is_at
from tensorclass.support.interrupts import Uninterrupted, uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import NotRegular, file_type, open_regular

from .folder_layout import LONGEST, META, VALUES_FOLDER, file_name, tensor_file

T = TypeVar("T")


class OpenFolder(NamedTuple):
    """An open folder. Its files are opened through the handle, so that they are of one version if it is replaced."""

    handle: int
    name: str  #: the path, for errors

    def read_file(self, name: str) -> bytes | bytearray:
        """Return the content of a file in the folder."""
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
            close_quietly(handle)
        return text

    def names(self) -> set[str]:
        """Return the names of the files and folders in the folder."""
        return set(os.listdir(self.handle))


def _open_subfolder(folder: OpenFolder, name: str) -> OpenFolder:
    """Open a folder in a folder. Symbolic links are not followed, so that nothing outside is opened."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
    except FileNotFoundError:
        raise FileNotFoundError(2, "missing", f"{folder.name}/{name}") from None
    except OSError as error:
        found = error.strerror
        with suppress(OSError):
            mode = os.stat(name, dir_fd=folder.handle, follow_symlinks=False).st_mode
            found = f"found {file_type(mode)}" + (", which is not followed" if stat.S_ISLNK(mode) else "")
        raise FileError(f"{folder.name}/{name}: expected a folder, {found}") from None
    return OpenFolder(handle, f"{folder.name}/{name}")


@contextmanager
def open_folder(path: str) -> Generator[OpenFolder, None, None]:
    """Open a folder for the time of a block."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield OpenFolder(handle, path)
    finally:
        close_quietly(handle)


def with_open_folder(path: str, work: Callable[[OpenFolder, Uninterrupted], T]) -> T:
    """Call a function with an open folder; call it again if the folder was replaced meanwhile.

    The function runs in a block of :func:`uninterrupted`, since an interrupt would leave folders open. It gets the
    block, and should let interrupts in from time to time.
    """
    end = time.monotonic() + 1.0
    with uninterrupted() as section:
        while True:
            try:
                handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except NotADirectoryError:
                found = f"{printable(path)} is {file_type(os.stat(path).st_mode)}"
                raise NotADirectoryError(f"expected a folder that memmap() wrote; {found}") from None
            except FileNotFoundError:
                missing = f"there is no folder {printable(path)}"
                if not (is_swapped(path) or os.path.exists(path)):  # the latter: it was put there since
                    raise FileNotFoundError(missing) from None
                if time.monotonic() > end:
                    raise FileNotFoundError(
                        f"{missing}: a process was killed while it replaced the folder; the next writer of this path "
                        "puts the old folder back"
                    ) from None
                with section.interruptible():
                    time.sleep(0.001)
                continue
            try:
                return work(OpenFolder(handle, path), section)
            except FileNotFoundError as error:
                if is_at(handle, path) or not os.path.exists(path):  # if none is there, trying again is useless
                    raise _missing(path, error) from None
            finally:
                close_quietly(handle)


def close_quietly(handle: int) -> None:
    """Close a descriptor that was only read from. An error of that says nothing about the data, and it is closed."""
    with suppress(OSError):
        os.close(handle)


def _missing(path: str, error: FileNotFoundError) -> Exception:
    if str(error.filename) == META and error.args:
        return FileNotFoundError(f"nothing is saved in {printable(path)}: it has no {META}")
    return FileError(f"{path}: the file {error.filename} is missing")


def as_file_error(error: OSError, path: str) -> Exception:
    """Return an error of a file in an open folder as one that gives the path."""
    if error.errno == errno.ELOOP:
        return FileError(f"{path}: expected a file, found a link, which is not followed")
    if error.errno in _NO_FILE:
        return FileError(f"{path}: expected a file ({error.strerror})")
    return type(error)(error.errno, error.strerror, path)


_NO_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG, errno.EINVAL)


class OpenFolderTree:
    """The folders of a collection by key. The last few stay open, since a process may open only some 1,000 files.

    Args:
        root: the outermost folder, which stays open.
        unescaped_first: look first for files that have unescaped keys as names, in folders of the peer.
        allow_pickle: load objects that were pickled.
    """

    def __init__(self, root: OpenFolder, unescaped_first: bool = False, allow_pickle: bool = False) -> None:
        self._root = root
        self.allow_pickle: bool = allow_pickle
        self._unescaped_first = unescaped_first
        self._foreign: set[tuple[str, ...]] = set()
        self._open: dict[tuple[str, ...], OpenFolder] = {}
        self._with_values_folder: set[tuple[str, ...]] = set()
        self._last: tuple[tuple[str, ...], OpenFolder] | None = None

    def at(self, path: tuple[str, ...]) -> OpenFolder:
        """Return the open folder of a key. It is valid until another one is asked for."""
        if self._last is not None and path == self._last[0]:
            return self._last[1]
        above = len(path) - 1
        while above > 0 and path[:above] not in self._open:
            above -= 1
        for length in range(above + 1, len(path)):  # a loop, since recursion would be limited in depth
            self._open_at(path[:length])
        found = self._open_at(path)
        self._last = path, found
        return found

    def _open_at(self, path: tuple[str, ...]) -> OpenFolder:
        found = self._open.pop(path, None)
        if found is None:
            found = _open_subfolder(*self.find(path, None)) if path else self._root
            if path in self._with_values_folder:
                found = self._open_values_folder(found, path)
            elif not path:
                return found
            if len(self._open) >= _MOST_OPEN:
                close_quietly(self._open.pop(next(iter(self._open))).handle)
        self._open[path] = found  # moved to the end: the first one is closed first
        return found

    def use_values_folder(self, path: tuple[str, ...]) -> None:
        """Use the subfolder ``_tensordict`` of a folder in place of it."""
        if path in self._with_values_folder:
            raise FileError(f"{self.at(path).name}/{META}: its shape is missing")
        self._with_values_folder.add(path)
        self._last = None
        outer = self._open.pop(path, None)
        if outer is not None:
            close_quietly(outer.handle)

    def mark_foreign(self, path: tuple[str, ...]) -> None:
        """Note that the peer wrote a folder, so that its files may have the unescaped keys as names."""
        self._foreign.add(path)

    def find(self, path: tuple[str, ...], buffer: str | None) -> tuple[OpenFolder, str]:
        """Return the open folder that holds an entry, and a name in it.

        Args:
            path: the key of the entry.
            buffer: the buffer of the tensor whose file is named; ``None`` for the entry's folder.
        """
        *_, key = path
        folder, escaped_key = self.at(path[:-1]), file_name(key)
        name = escaped_key if buffer is None else tensor_file(key, buffer)
        if path[:-1] not in self._foreign or escaped_key == key or "/" in key or "\0" in key or key in _NO_NAMES:
            return folder, name
        unescaped = name.replace(escaped_key, key, 1)
        first, second = (unescaped, name) if self._unescaped_first else (name, unescaped)
        return folder, second if not _exists_in(folder, first) and _exists_in(folder, second) else first

    def _open_values_folder(self, outer: OpenFolder, path: tuple[str, ...]) -> OpenFolder:
        try:
            return _open_subfolder(outer, VALUES_FOLDER)
        finally:
            if path:
                close_quietly(outer.handle)

    def close(self) -> None:
        """Close all folders but the root."""
        while self._open:
            close_quietly(self._open.popitem()[1].handle)


_MOST_OPEN = 64
_NO_NAMES = ("", ".", "..", META)  #: keys that cannot be names of files


def _exists_in(folder: OpenFolder, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
    except OSError:
        return False
    return True
