"""Tell the system which rows of a large memory-mapped file will be read, before they are read at random.

On a missing page of a memory map, the system also reads the pages around it, up to megabytes for a row of a kilobyte,
and waits for each. That is wasted on rows in shuffled order. If it is told of all rows at once, it reads only these, in
parallel. For a file that fits into memory, reading the surroundings is faster.
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

from tensorclass.td.leaves.object_codes import to_lists

_WILLNEED: int | None = getattr(mmap, "MADV_WILLNEED", None)
_WHOLE = frozenset((torch.int64, torch.int32, torch.int16, torch.int8))


@functools.cache
def limit() -> int:
    """Return the size in bytes above which maps are advised: half of the memory of the machine or container."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    except (AttributeError, ValueError, OSError):  # the system does not tell
        return 1 << 34
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return memory // 2
    return min(memory, int(allowed)) // 2 if allowed.isdigit() else memory // 2


@functools.cache
def advise() -> Callable[[int, int, int], int] | None:
    """Return the ``madvise`` of the system; ``None`` if it has none."""
    if _WILLNEED is None:
        return None
    found: Any = getattr(ctypes.CDLL(None), "madvise", None)
    if found is not None:
        found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found  # type: ignore[no-any-return]


def want(tensor: Tensor, rows: Tensor) -> None:
    """Tell the system that some rows of a large memory-mapped tensor will be read.

    Args:
        tensor: tensor on memory that is mapped from a file.
        rows: index of its first dimension. Anything but integers is ignored here; indexing reports it.
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
