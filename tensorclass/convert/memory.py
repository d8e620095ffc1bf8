"""Memory that other libraries have for reading alone, as tensors need it: it can be written to."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any


def make_writable(address: int, size: int) -> bool:
    """Whether memory can be written to, after that was asked of the operating system.

    Torch has no tensors for reading alone, and a write to pages that are for reading ends the process. Files that
    Arrow maps are private mappings: pages that are written become copies, and the file stays as it is. Where that
    cannot be (shared mappings, as of numpy and of the object store of Ray; systems without ``mprotect``), the memory
    must be copied.

    Args:
        address: where it begins.
        size: how many bytes it has.

    >>> make_writable(id(object()), 0)
    True
    """
    protect = _protect()
    if not size:
        return True
    begin = address - address % mmap.PAGESIZE
    if protect is None or _is_shared(begin):
        return False
    return protect(begin, address + size - begin, mmap.PROT_READ | mmap.PROT_WRITE) == 0  # type: ignore[no-any-return]


@cache
def _protect() -> Any:
    try:
        found = ctypes.CDLL(None).mprotect
    except (OSError, TypeError, AttributeError):  # Windows
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


def _is_shared(page: int) -> bool:
    """Whether other processes see what is written to a page."""
    remap = _remap()
    if remap is None:
        return False
    again = remap(page, 0, mmap.PAGESIZE, 1)  # asked for a part of no size, Linux maps what is shared once more
    if again in (None, ctypes.c_void_p(-1).value):
        return False
    _unmap()(again, mmap.PAGESIZE)
    return True


@cache
def _remap() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    found = ctypes.CDLL(None).mremap
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    found.restype = ctypes.c_void_p
    return found


@cache
def _unmap() -> Any:
    found = ctypes.CDLL(None).munmap
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return found
