"""The memory in which the small tensors of a message lie one behind the other.

A message costs some 50 us, and torch takes 20 us to copy 50 tensors into one, whatever their size: a call of its own
for each. The kernel copies between a list of places in memory and a file by one call, in a third of that. So on Linux
the memory of a message is a file without a name, in memory only, which is mapped: tensors are written to the file, and
what is in the mapping is the message. Elsewhere, and for tensors that the kernel cannot read (on other devices, or with
gaps between their items), torch copies.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.interrupts import uninterrupted
from tensorclass.td.consolidated import view

from .layout import copy

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: from how many bytes on a tensor is a message of its own: copying it takes longer than another message
LARGE = 2**18

_pointer = Tensor.data_ptr
_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]
_Copy = Callable[[int, int, int, int], int]
_MOST_PLACES = 1024  #: that the kernel takes in one call


def _calls() -> tuple[_Copy, _Copy] | None:
    """Writes to a file from places in memory, and reads from one to them; ``None`` where there are no such calls."""
    if not hasattr(os, "memfd_create"):
        return None
    library = ctypes.CDLL(None)
    found: list[Any] = [library.pwritev, library.preadv]
    for call in found:
        call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_long)
        call.restype = ctypes.c_ssize_t
    return found[0], found[1]


_CALLS = _calls()
#: how many messages have their memory in files, which are two open ones each; a process may often have 1,024
_FILES = 128
_files = threading.BoundedSemaphore(_FILES)


def _mapped(size: int) -> tuple[int, mmap.mmap] | None:
    """A file in memory, and its bytes; ``None`` where there are no such files, or enough of them."""
    if _CALLS is None or not _files.acquire(blocking=False):
        return None
    fd: int | None = None
    try:
        fd = os.memfd_create("tensorclass")
        os.ftruncate(fd, size)
        return fd, mmap.mmap(fd, size)
    except OSError:  # the process, or the system, has no more of them
        if fd is not None:
            os.close(fd)
        _files.release()
        return None


def _closed(
    fd: int, close: Callable[[int], None] = os.close, release: Callable[[], None] = _files.release
) -> None:  # fmt: skip
    close(fd)
    release()


def _as_buffer(memory: Tensor) -> Any:
    return memory.numpy()


class Staging:
    """Memory for tensors one behind the other.

    Args:
        head: how many bytes are in front of them, a multiple of 16.
        forms: dtype and shape of each.
        device: where the memory is.

    Attributes:
        memory: the bytes.
        size: how many they are.
    """

    __slots__ = (
        "_address", "_aimed", "_count", "_fd", "_forms", "_places", "_pointers", "_start", "_views", "bytes", "memory",
        "size",
    )  # fmt: skip

    def __init__(self, head: int, forms: Sequence[tuple[torch.dtype, Size]], device: torch.device) -> None:
        lengths = [shape.numel() * dtype.itemsize for dtype, shape in forms]
        starts = list(itertools.accumulate((-(-length // 16) * 16 for length in lengths), initial=head))
        self.size: int = starts.pop()
        self._forms = [(dtype, shape, start) for (dtype, shape), start in zip(forms, starts, strict=True)]
        self._views: list[Tensor] | None = None
        self._fd: int | None = None
        #: the bytes on the CPU as Python has them
        self.bytes: memoryview | mmap.mmap
        mapped: tuple[int, mmap.mmap] | None = None
        if device.type == "cpu":
            with uninterrupted():  # a file that is open is known to this object, which closes it
                mapped = _mapped(max(self.size, 1))
                if mapped is not None:
                    self._fd = mapped[0]
        if mapped is not None:
            self.bytes = mapped[1]
            self.memory: Tensor = _frombuffer(self.bytes, dtype=torch.uint8)[: self.size]
            # a place for each tensor, and one for the bytes behind it, which nobody reads
            self._places: NDArray[np.uintp] = np.zeros((len(forms) * 2, 2), np.uintp)
            self._places[0::2, 1] = lengths
            self._places[1::2, 0] = _NOWHERE.ctypes.data
            self._places[1::2, 1] = [-length % 16 for length in lengths]
            self._pointers = self._places[0::2, 0]
            self._address: int = self._places.ctypes.data
            self._count = len(self._places)
            self._start = starts[0] if starts else head
            self._aimed: list[int] = []
        else:
            self.memory = torch.zeros(self.size, dtype=torch.uint8, device=device)
            self.bytes = memoryview(_as_buffer(self.memory)) if device.type == "cpu" else memoryview(b"")

    def __del__(self, closed: Callable[[int], None] = _closed) -> None:  # as a process ends, modules go first
        fd: int | None = getattr(self, "_fd", None)
        if fd is not None:
            closed(fd)

    def gather(self, tensors: Sequence[Tensor], plain: bool) -> None:
        """Copies tensors here.

        Args:
            tensors: as many as there are forms, of these dtypes and shapes: this is not looked at.
            plain: they are on the CPU, and the items of each lie one behind the other.
        """
        if not (plain and self.aim(tensors) and self._at_once(0)):
            copy(self.views(), tensors)

    def scatter(self, tensors: Sequence[Tensor], plain: bool) -> None:
        """Copies what is here to tensors; see :meth:`gather`."""
        if not (plain and self.aim(tensors) and self._at_once(1)):
            copy(tensors, self.views())

    def aim(self, tensors: Sequence[Tensor]) -> bool:
        """Notes where plain tensors are, for :meth:`scatter_aimed`; whether the kernel can copy at all."""
        if self._fd is None:
            return False
        pointers = list(map(_pointer, tensors))
        if pointers != self._aimed:
            self._aimed = pointers
            self._pointers[:] = pointers
        return bool(pointers)

    def scatter_aimed(self, tensors: Sequence[Tensor]) -> None:
        """:meth:`scatter` to the tensors of :meth:`aim`."""
        if self._fd is None or not self._at_once(1):
            copy(tensors, self.views())

    def _at_once(self, call: int) -> bool:
        run, start = _CALLS[call], self._start  # type: ignore[index]
        if self._count <= _MOST_PLACES:
            return run(self._fd, self._address, self._count, start) == self.size - start  # type: ignore[arg-type]
        for first in range(0, self._count, _MOST_PLACES):
            some = self._places[first : first + _MOST_PLACES]
            length = int(some[:, 1].sum())
            if run(self._fd, some.ctypes.data, len(some), start) != length:  # type: ignore[arg-type]
                return False
            start += length
        return True

    def views(self) -> list[Tensor]:
        """The tensors as views of the memory."""
        if self._views is None:
            self._views = [view(self.memory, *form) for form in self._forms]
        return self._views


_NOWHERE = np.zeros(16, np.uint8)


class Pool:
    """Memory that was used and can be used again, as the kernel takes a while to give new one.

    Args:
        most: how many bytes are kept.
    """

    def __init__(self, most: int = 2**26) -> None:
        self._most = most
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets all: a process that was forked shares the memory with the one that it comes from."""
        self._free: list[tuple[Any, Staging]] = []
        self._size: int = 0
        self._lock = threading.Lock()

    def take(self, key: Any, make: Callable[[], Staging]) -> Staging:
        """Memory that was given back under a key, or new one."""
        with self._lock:
            for at in range(len(self._free) - 1, -1, -1):
                if self._free[at][0] is key:
                    found = self._free.pop(at)[1]
                    self._size -= found.size
                    return found
        return make()

    def give(self, key: Any, staging: Staging) -> None:
        """Takes memory back that nobody uses any more."""
        with self._lock:
            self._free.append((key, staging))
            self._size += staging.size
            while self._size > self._most or len(self._free) > _FILES // 4:
                self._size -= self._free.pop(0)[1].size
