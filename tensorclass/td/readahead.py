"""Rows at random of files that are larger than memory: the system is told which, before they are read.

Where a page of a memory map is missing, the system reads what lies around it, too, up to megabytes for a row of a
kilobyte, and waits for each. Rows in a shuffled order want nothing of that. Told of all rows at once, the system reads
these alone, side by side. A file that fits into memory is better read around.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .objects import to_lists

_WILLNEED: int | None = getattr(mmap, "MADV_WILLNEED", None)
_WHOLE = frozenset((torch.int64, torch.int32, torch.int16, torch.int8))


@functools.cache
def limit() -> int:
    """Maps of more bytes are told which rows are wanted: half of the memory that there is, for this container, too."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    except (AttributeError, ValueError, OSError):  # a system that says nothing of it
        return 1 << 34
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return memory // 2
    return min(memory, int(allowed)) // 2 if allowed.isdigit() else memory // 2


@functools.cache
def advise() -> Callable[[int, int, int], int] | None:
    """``madvise`` of the system; ``None`` where it has none."""
    if _WILLNEED is None:
        return None
    found: Any = getattr(ctypes.CDLL(None), "madvise", None)
    if found is not None:
        found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found  # type: ignore[no-any-return]


def want(tensor: Tensor, rows: Tensor) -> None:
    """Tells the system that some rows of a large memory-mapped tensor are going to be read.

    Args:
        tensor: the tensor, on memory that is mapped from a file.
        rows: an index of its first dimension. Anything but whole numbers is left alone, and an error for indexing.
    """
    tell = advise()
    if tell is None or rows.dtype not in _WHOLE or rows.device.type != "cpu" or not tensor.is_contiguous():
        return
    count = len(tensor)
    start, size = tensor.data_ptr(), tensor.nbytes // count
    wanted: list[int] = to_lists(rows.reshape(-1))
    for row in wanted:
        if -count <= row < count:
            at = start + row % count * size
            page = at - at % mmap.PAGESIZE
            tell(page, at + size - page, _WILLNEED or 0)
