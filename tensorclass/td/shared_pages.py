"""Memory that processes share for reading alone, as tensors need it: what is written to it nobody else sees."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

WORTH = 2**20  #: bytes from where on finding the file of a piece of memory takes less time than copying it

_array: Any = ctypes.c_char


class _Place(NamedTuple):
    """Where the file is that a piece of memory shows."""

    file: int  #: its number
    start: int  #: the byte that the memory begins with
    path: str  #: with the note of the system that it is deleted


def copy_on_write(view: memoryview) -> Any:
    """The same pages once more, where one that is written becomes a copy; ``None`` where the system has no way to it.

    Ray keeps objects in a file that has no name any more, and that every process of a machine maps, to read and to
    write. Another process of the user has it open, and on Linux its files can be opened through ``/proc``. What is read
    then costs no memory, and no process can change what is in the store.

    Args:
        view: memory, for reading alone. It is kept as long as the result.
    """
    libc = _libc()
    if libc is None or not view.nbytes:
        return None
    address = _address(view)
    place = _place(address, view.nbytes)
    if place is None:
        return None
    into = place.start % mmap.PAGESIZE
    handle = _opened(place)
    if handle is None:
        return None
    try:
        begin = libc.mmap(
            None, view.nbytes + into, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, handle, place.start - into
        )
    finally:
        os.close(handle)  # a map keeps no file open, of which a process may have some 1,000
    if begin in (None, _FAILED):
        return None
    pages = (_array * view.nbytes).from_address(begin + into)
    # the memory of the other map is free for others when nobody has the view
    weakref.finalize(pages, _unmapped, libc, begin, view.nbytes + into, view).atexit = False
    return pages


_FAILED = ctypes.c_void_p(-1).value


def _unmapped(libc: Any, begin: int, size: int, view: memoryview) -> None:
    libc.munmap(begin, size)


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _address(view: memoryview) -> int:
    import numpy as np

    found: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return found


def _place(address: int, size: int) -> _Place | None:
    """The file behind memory that is a shared map of one."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            bounds, modes, offset, _, file, *path = line.rstrip("\n").split(None, 5)
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            if low <= address < high:
                if address + size > high or modes[3] != "s" or file == "0" or not path:
                    return None
                return _Place(int(file), int(offset, 16) + address - low, path[0])
    return None


#: where files were found the last time, by their number
_found: dict[int, str] = {}


def _opened(place: _Place) -> int | None:
    """The file of a map, opened for reading."""
    known = _found.get(place.file)
    if known is not None:
        handle = _same(known, place)
        if handle is not None:
            return handle
        del _found[place.file]
    for path in _candidates(place):
        handle = _same(path, place)
        if handle is not None:
            _found[place.file] = path
            return handle
    return None


def _same(path: str, place: _Place) -> int | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(handle).st_ino == place.file:
        return handle
    os.close(handle)
    return None


def _candidates(place: _Place) -> Iterator[str]:
    """Under which names the file may be open, in the process that started this one first."""
    if not place.path.endswith(" (deleted)"):
        yield place.path
    first = ["self", str(os.getppid())]
    for process in first + [name for name in os.listdir("/proc") if name.isdecimal() and name not in first]:
        try:
            handles = os.listdir(f"/proc/{process}/fd")
        except OSError:  # of another user; or it has ended
            continue
        for number in handles:
            path = f"/proc/{process}/fd/{number}"
            try:
                if os.readlink(path) == place.path:
                    yield path
            except OSError:
                continue
