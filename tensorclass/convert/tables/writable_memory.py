"""Make read-only memory of other libraries writable, as tensors need it."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any


def make_writable(address: int, size: int) -> bool:
    """Ask the operating system to make memory writable. Return whether it is.

    Torch has no read-only tensors, and writing to read-only pages kills the process. Arrow maps files privately: a
    written page becomes a copy, and the file does not change. Shared mappings (of numpy and of Ray's object store) and
    systems without ``mprotect`` do not allow this; the memory must be copied then.

    Args:
        address: start of the memory.
        size: its size in bytes.

    >>> make_writable(id(object()), 0)
    True
    """
    if not size:
        return True
    protect = _of_libc("mprotect", ctypes.c_int)
    begin = address - address % mmap.PAGESIZE
    if protect is None or _is_shared(begin):
        return False
    return protect(begin, address + size - begin, mmap.PROT_READ | mmap.PROT_WRITE) == 0  # type: ignore[no-any-return]


class WritableView:
    """A writable view of a read-only array: pandas marks its own arrays read-only."""

    def __init__(self, array: Any) -> None:
        self.array = array  # keeps the memory alive
        place: int = array.__array_interface__["data"][0]
        self.__array_interface__: Mapping[str, Any] = {**array.__array_interface__, "data": (place, False)}


def is_shareable(array: Any) -> bool:
    """Return whether a tensor can share the memory of an array of NumPy, which is made writable if it is not."""
    native = array.dtype.isnative and array.dtype.kind in "biufc"
    if not native or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        return False
    if array.flags.writeable or not array.size:
        return True
    place: int = array.__array_interface__["data"][0]  # a column of a mapped file is not always writable
    return make_writable(place, (len(array) - 1) * array.strides[0] + array.itemsize)


def _is_shared(page: int) -> bool:
    """Return whether other processes see writes to a page."""
    if not sys.platform.startswith("linux"):
        return False
    # with an old size of 0, Linux maps shared pages once more, and refuses private ones
    remap = _of_libc("mremap", ctypes.c_size_t, ctypes.c_int, returns=ctypes.c_void_p)
    again = remap(page, 0, mmap.PAGESIZE, 1)
    if again in (None, ctypes.c_void_p(-1).value):
        return False
    _of_libc("munmap")(again, mmap.PAGESIZE)
    return True


@cache
def _of_libc(name: str, *further: type, returns: type = ctypes.c_int) -> Any:
    """Return a function of libc that takes an address, a size and further arguments; ``None`` on Windows."""
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):
        return None
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_size_t, *further), returns
    return found
