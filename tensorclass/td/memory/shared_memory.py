"""Shared memory, and the error if the system has too little of it.

torch allocates it in ``/dev/shm``, each block in full: a block that does not fit is an error when it is made, not a
``SIGBUS`` when it is written to.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

_FOLDER = "/dev/shm"
_storage: Any = torch.UntypedStorage
_strategy: Any = torch.multiprocessing.get_sharing_strategy
_TORCHS = re.compile(r"<(/torch_\w+)>.*\((\d+)\)\s*$")  #: torch's errors about blocks of shared memory
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


class NoSharedMemory(RuntimeError):
    """The system has too little shared memory, or too few open files, to share tensors with other processes."""


def new_storage(size: int) -> torch.UntypedStorage:
    """Allocate shared memory.

    Args:
        size: in bytes.

    Raises:
        NoSharedMemory: there is too little.
    """
    try:
        return _storage._new_shared(size)  # type: ignore[no-any-return]
    except RuntimeError as error:
        explained = _explained(error, size)
        if explained is None:
            raise
        raise explained from error


def share(tensor: Tensor) -> None:
    """Move a tensor to shared memory, in place.

    Raises:
        NoSharedMemory: there is too little. The tensor is unchanged.
    """
    try:
        tensor.share_memory_()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        explained = _explained(error, tensor.untyped_storage().nbytes())
        if explained is None:
            raise
        raise explained from error


def check_shareable(tensors: Iterable[Tensor]) -> None:
    """Raise the error that :func:`share` would raise for one of some tensors, before any of them is moved.

    Raises:
        NoSharedMemory: there is too little for all of them, or too few files can be opened.
    """
    sizes: dict[int, int] = {}
    for tensor in tensors:
        if tensor.__class__ in (Tensor, Parameter):
            storage = tensor.untyped_storage()  # raises for tensors without a storage, such as sparse ones
            if not storage.is_shared():
                sizes[storage._cdata] = storage.nbytes()
        elif getattr(tensor.__class__, "_never_moves", False):
            tensor.share_memory_()  # type: ignore[no-untyped-call]  # returns or raises
    if not sizes:
        return
    with suppress(OSError, AttributeError, ImportError):  # other systems than Linux
        found = os.statvfs(_FOLDER)
        whole, page = sum(sizes.values()), found.f_frsize
        needed = sum(-(-size // page) * page for size in sizes.values())
        if found.f_blocks and needed > found.f_bavail * page:
            raise _no_memory(whole, errno.ENOSPC)
        if _strategy() == "file_descriptor":
            import resource

            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            if limit != resource.RLIM_INFINITY and len(os.listdir("/proc/self/fd")) + len(sizes) > limit:
                raise _no_memory(whole, errno.EMFILE)


def _explained(error: RuntimeError, size: int) -> NoSharedMemory | None:
    """Translate an error of torch to :class:`NoSharedMemory`, with advice; ``None`` if it has another reason."""
    found = _TORCHS.search(str(error))
    if found is None:
        return None
    with suppress(OSError):  # torch leaves an empty file behind if it gets no memory for it
        os.unlink(_FOLDER + found[1])
    return _no_memory(size, int(found[2]))


def _no_memory(size: int, number: int) -> NoSharedMemory:
    """The error for a number of bytes and the reason of the system, with advice."""
    if number in (errno.EMFILE, errno.ENFILE):
        return NoSharedMemory(
            f"no open file is left for {shown_size(size)} of shared memory: {os.strerror(number)}. Raise the limit "
            "(`ulimit -n`), hold fewer records at a time, or call "
            'torch.multiprocessing.set_sharing_strategy("file_system") when the program begins'
        )
    return NoSharedMemory(
        f"there is no shared memory for {shown_size(size)}: {os.strerror(number)}; {_space()}. Make it larger "
        "(docker run --shm-size=8g, or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm), send less "
        "at a time (smaller batches or chunks, a smaller prefetch_factor), or stay in this process (num_workers=0)"
    )


def _space() -> str:
    """Describe the size of the shared memory of the system, and its free part, for messages."""
    try:
        found = os.statvfs(_FOLDER)
    except (OSError, AttributeError):  # no such folder, or Windows
        return "its size is not known here"
    whole, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return f"{_FOLDER} has {shown_size(whole)}, of which {shown_size(free)} are free"


def shown_size(size: int) -> str:
    """Format a number of bytes for messages.

    Example:
        >>> shown_size(0), shown_size(67_108_864), shown_size(999_999)
        ('0 bytes', '67.1 MB', '1 MB')
    """
    number, unit = float(size), 0
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.3g} {_UNITS[unit]}"
