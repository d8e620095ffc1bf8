"""Regular files, told from pipes, devices and sockets: these make whoever opens them wait, or never end."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

from tensorclass.interrupts import uninterrupted

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class NotRegular(ValueError, OSError):
    """A pipe, a device or a socket stands where a file is expected, or a link where none is followed."""


def kind_of(mode: int) -> str:
    """The kind of what is at a path, in words.

    >>> kind_of(os.stat("/dev/null").st_mode), kind_of(os.stat(".").st_mode)
    ('a device', 'a folder')
    """
    return next((name for is_of, name in _KINDS if is_of(mode)), "a device")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Look whether a file is at a path, or can be made there, before a library opens the path.

    Links are followed. What takes the place of the file between this and the opening is not seen:
    :func:`open_regular` has no such gap.

    Raises:
        NotRegular: a pipe, a device or a socket is there.
        IsADirectoryError: a folder is there.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:  # the library says it
        return
    _check(mode, os.fspath(path))


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, folder: int | None = None, shown: str | None = None
) -> int:
    """Open a file that is a regular one, without waiting for anything; the caller closes the descriptor.

    Args:
        path: the file.
        flags: as ``os.open`` takes them.
        folder: the descriptor of an open folder. Then ``path`` is a name in it, and a link there is not followed.
        shown: the path in errors.

    Raises:
        NotRegular: it is a pipe, a device or a socket, or a link in ``folder``.
        IsADirectoryError: it is a folder.
        OSError: it cannot be opened.
    """
    name = os.fspath(path) if shown is None else shown
    follows = folder is None
    # a pipe is not opened to see that it is one: its writer would take that for a reader
    _check(os.stat(path, dir_fd=folder, follow_symlinks=follows).st_mode, name)
    try:
        handle = os.open(path, flags | _FLAGS | (0 if follows else _NO_LINK), dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follows:  # it came in between
            raise NotRegular(f"{name}: expected a file, found a link, which is not followed") from None
        raise
    try:
        _check(os.fstat(handle).st_mode, name)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def reading_regular(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a file for reading bytes, as :func:`open_regular` does it, and close it."""
    with uninterrupted() as section, os.fdopen(open_regular(path), "rb") as file, section.interruptible():
        yield file


def _check(mode: int, name: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder", name)
    followed = ", which is not followed" if stat.S_ISLNK(mode) else ""
    raise NotRegular(f"{name}: expected a file, found {kind_of(mode)}{followed}")
