"""Map the read-only memory that processes share again, copy-on-write, so that tensors can write to it."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

WORTH = 2**20  #: size in bytes from which finding the file behind memory takes less time than copying it

_array: Any = ctypes.c_char


class _MappedFile(NamedTuple):
    """The file that a range of memory maps."""

    inode: int
    start: int  #: offset in the file, in bytes
    path: str  #: as the system shows it, with a note if the file is deleted


def copy_on_write(view: memoryview) -> Any:
    """Map the same pages again, copy-on-write; return ``None`` if the system cannot.

    Ray keeps objects in a deleted file that every process of a machine maps. Another process of the user has it open,
    and on Linux the open files of a process can be opened through ``/proc``. Reading then costs no memory, and no
    process can change the contents of the store.

    Args:
        view: read-only memory. It is kept as long as the result.

    Returns:
        An array of bytes over private pages.
    """
    libc = _libc()
    if libc is None or not view.nbytes:
        return None
    address = _address(view)
    mapped = _mapped_file(address, view.nbytes)
    if mapped is None:
        return None
    into = mapped.start % mmap.PAGESIZE
    handle = _opened(mapped)
    if handle is None:
        return None
    try:
        begin = libc.mmap(
            None, view.nbytes + into, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, handle, mapped.start - into
        )
    finally:
        os.close(handle)  # a map needs no open file, and a process may have only some 1,000
    if begin in (None, _FAILED):
        return None
    pages = (_array * view.nbytes).from_address(begin + into)
    # the finalizer keeps the view: without it, the store could reuse the memory
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


def _mapped_file(address: int, size: int) -> _MappedFile | None:
    """Find the file behind a range of memory; ``None`` if it is not a shared map."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            bounds, modes, offset, _, file, *path = line.rstrip("\n").split(None, 5)
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            if low <= address < high:
                if address + size > high or modes[3] != "s" or file == "0" or not path:
                    return None
                return _MappedFile(int(file), int(offset, 16) + address - low, path[0])
    return None


#: path at which a file was opened last, by inode
_found: dict[int, str] = {}


def _opened(mapped: _MappedFile) -> int | None:
    """Open the file of a map for reading, and return the descriptor."""
    known = _found.get(mapped.inode)
    if known is not None:
        handle = _same(known, mapped)
        if handle is not None:
            return handle
        del _found[mapped.inode]
    for path in _candidates(mapped):
        handle = _same(path, mapped)
        if handle is not None:
            _found[mapped.inode] = path
            return handle
    return None


def _same(path: str, mapped: _MappedFile) -> int | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(handle).st_ino == mapped.inode:
        return handle
    os.close(handle)
    return None


def _candidates(mapped: _MappedFile) -> Iterator[str]:
    """Yield paths at which the file may be opened, those of this process and its parent first."""
    if not mapped.path.endswith(" (deleted)"):
        yield mapped.path
    first = ["self", str(os.getppid())]
    for process in first + [name for name in os.listdir("/proc") if name.isdecimal() and name not in first]:
        try:
            handles = os.listdir(f"/proc/{process}/fd")
        except OSError:  # a process of another user, or one that has ended
            continue
        for number in handles:
            path = f"/proc/{process}/fd/{number}"
            try:
                if os.readlink(path) == mapped.path:
                    yield path
            except OSError:
                continue
