"""Memory that other libraries have for reading alone, as tensors need it: it can be written to."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any


def make_writable(address: int, size: int) -> bool:
    """Whether memory can be written to, after that was asked of the operating system.

    Torch has no tensors for reading alone, and a write to pages that are for reading ends the process. Files that
    Arrow maps are private mappings: pages that are written become copies, and the file stays as it is. Where that
    cannot be (shared mappings, as of numpy; systems without ``mprotect``), the memory must be copied.

    Args:
        address: where it begins.
        size: how many bytes it has.

    >>> make_writable(id(object()), 0)
    True
    """
    protect = _protect()
    if not size:
        return True
    if protect is None:
        return False
    begin = address - address % mmap.PAGESIZE
    return protect(begin, address + size - begin, mmap.PROT_READ | mmap.PROT_WRITE) == 0  # type: ignore[no-any-return]


@cache
def _protect() -> Any:
    try:
        found = ctypes.CDLL(None).mprotect
    except (OSError, TypeError, AttributeError):  # Windows
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found
