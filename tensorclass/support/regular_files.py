"""Open regular files only: reading a pipe, a device or a socket may block, or never end.

A pointer of git-LFS is refused as well: it stands in a checkout in the place of content that was not fetched.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO

from tensorclass.support.interrupts import uninterrupted

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)

_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_SIZES = range(100, 1024)  # the hash alone has 64 bytes; a pointer of 1024 bytes or more is none


class NotRegular(ValueError, OSError):
    """A pipe, a device or a socket was found where a file is expected, or a link where links are not followed."""


class LfsPointer(NotRegular):
    """A pointer of git-LFS was found where the content of a file is expected."""


def file_type(mode: int) -> str:
    """Return the type of a file in words.

    Args:
        mode: the mode of the file, from ``os.stat``.

    >>> file_type(os.stat("/dev/null").st_mode), file_type(os.stat(".").st_mode)
    ('a device', 'a folder')
    """
    return next((name for is_of, name in _KINDS if is_of(mode)), "a device")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Check the file at a path before a library opens the path. A missing file passes.

    Links are followed. The file may be replaced between this check and the opening; :func:`open_regular` has no such
    gap.

    Raises:
        NotRegular: the path is that of a pipe, a device or a socket.
        LfsPointer: the file is a pointer of git-LFS.
        IsADirectoryError: it is that of a folder.
    """
    try:
        found = os.stat(path)
    except OSError:  # the library will raise
        return
    _check(found.st_mode, os.fspath(path))
    if found.st_size in _POINTER_SIZES:
        with suppress(PermissionError), reading_regular(path):
            pass


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, folder: int | None = None, shown: str | None = None
) -> int:
    """Open a regular file without blocking; return its descriptor, which the caller closes.

    Args:
        path: the file.
        flags: flags of ``os.open``.
        folder: the descriptor of an open folder. ``path`` is then a name in it, and a link is not followed.
        shown: the path for errors, by default ``path``.

    Raises:
        NotRegular: the path is that of a pipe, a device or a socket, or of a link in ``folder``.
        LfsPointer: the file is a pointer of git-LFS.
        IsADirectoryError: it is that of a folder.
        OSError: the file cannot be opened.
    """
    name = os.fspath(path) if shown is None else shown
    follows = folder is None
    # stat first: opening a pipe would look to its writer like a reader
    _check(os.stat(path, dir_fd=folder, follow_symlinks=follows).st_mode, name)
    try:
        handle = os.open(path, flags | _FLAGS | (0 if follows else _NO_LINK), dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follows:  # a link has replaced the file since
            raise NotRegular(f"{name}: expected a file, found a link, which is not followed") from None
        raise
    try:
        opened = os.fstat(handle)
        _check(opened.st_mode, name)
        if opened.st_size in _POINTER_SIZES:
            _check_content(handle, name)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def reading_regular(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a regular file for reading bytes in a ``with`` block; see :func:`open_regular`."""
    with uninterrupted() as section, os.fdopen(open_regular(path), "rb") as file, section.interruptible():
        yield file


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Read the whole content of a regular file; see :func:`open_regular`."""
    with reading_regular(path) as file:
        return file.read()


def _check(mode: int, name: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder", name)
    followed = ", which is not followed" if stat.S_ISLNK(mode) else ""
    raise NotRegular(f"{name}: expected a file, found {file_type(mode)}{followed}")


def _check_content(handle: int, name: str) -> None:
    if os.pread(handle, len(_POINTER), 0) == _POINTER:
        raise LfsPointer(
            f"{name}: expected a file, found a pointer of git-LFS to its content, which was not fetched; run "
            "`git lfs pull` in the repository"
        )
