"""Buffers of messages: small tensors are copied into one buffer, large ones are sent as they are.

The copy is one call of ``torch._foreach_copy_``. A copy by the kernel (``pwritev`` to an unnamed file, called through
``ctypes``) was tried: 5 us instead of 23 for 50 tensors of 128 bytes, but 30 us instead of 29 for 50 parameters of
16 KB, and 2 instead of 4 us for the gradients of ``examples/training.py``, a step of which takes 2,500 us.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Size, Tensor

from .byte_tensors import padded
from .record_layout import TensorSpec, copy

#: bytes from which a tensor is a message of its own: copying it would take longer than another message
LARGE = 2**18

TensorForm: TypeAlias = "tuple[torch.dtype, Size]"
_as_memoryview: Callable[[Any], memoryview] = memoryview


class Packing:
    """Assignment of the tensors of a message: small ones share a buffer at fixed offsets, large ones are separate.

    Args:
        forms: dtype and shape of each tensor.
        separate_large: leave tensors of :data:`LARGE` bytes and more out of the buffer.

    Attributes:
        small: indices of the tensors in the buffer.
        large: indices of the tensors that are sent as they are.
        size: bytes of the buffer.
    """

    __slots__ = ("_slots", "forms", "large", "size", "small")

    def __init__(self, forms: Iterable[TensorForm], separate_large: bool = True) -> None:
        self.forms: tuple[TensorForm, ...] = tuple(forms)
        self.large: list[int] = []
        self.small: list[int] = []
        #: of each small tensor: dtype, shape, strides, offset in items
        self._slots: list[tuple[torch.dtype, Sequence[int], Sequence[int], int]] = []
        end = 0
        for at, (dtype, shape) in enumerate(self.forms):
            nbytes = shape.numel() * dtype.itemsize
            if separate_large and nbytes >= LARGE:
                self.large.append(at)
                continue
            self.small.append(at)
            self._slots.append((dtype, shape, contiguous_strides(shape), end // dtype.itemsize))
            end += padded(nbytes)
        self.size: int = end

    def views(self, memory: Tensor) -> list[Tensor]:
        """Return the small tensors as views of memory (uint8, :attr:`size` bytes, aligned to 16)."""
        if not self.size:
            return [torch.empty(shape, dtype=dtype, device=memory.device) for dtype, shape, _, _ in self._slots]
        by_dtype: dict[torch.dtype, tuple[Tensor, int]] = {}
        views: list[Tensor] = []
        for dtype, shape, strides, offset in self._slots:
            if dtype not in by_dtype:
                items = memory[: self.size].view(dtype)
                by_dtype[dtype] = items, int(items.storage_offset())
            items, start = by_dtype[dtype]
            views.append(items.as_strided(shape, strides, start + offset))
        return views

    @property
    def large_forms(self) -> list[TensorForm]:
        """The forms of the large tensors."""
        return [self.forms[at] for at in self.large]

    def small_of(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the small ones of all tensors."""
        return [tensors[at] for at in self.small] if self.large else tensors

    def merge(self, small: Iterable[Tensor], large: Iterable[Tensor]) -> list[Tensor]:
        """Return all tensors in order, from the small and the large ones."""
        smalls, larges, is_large = iter(small), iter(large), set(self.large)
        return [next(larges) if at in is_large else next(smalls) for at in range(len(self.forms))]


def packing_of(specs: Iterable[TensorSpec], separate_large: bool = True) -> Packing:
    """Return the packing for the tensors of a layout."""
    return Packing([(spec.dtype, spec.shape) for spec in specs], separate_large)


def contiguous_strides(shape: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor.

    >>> contiguous_strides([2, 3, 4])
    [12, 4, 1]
    """
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


class MessageBuffer:
    """Memory of a message: a header of bytes, then the small tensors of a packing.

    Args:
        header: bytes of the header, a multiple of 16.
        packing: the tensors.
        device: device of the memory.

    Attributes:
        memory: all bytes (uint8).
        header: the header, writable, if the memory is on the CPU.
    """

    __slots__ = ("header", "memory", "views")

    def __init__(self, header: int, packing: Packing, device: torch.device) -> None:
        self.memory: Tensor = torch.zeros(header + packing.size, dtype=torch.uint8, device=device)
        self.header: memoryview = _as_memoryview(self.memory[:header].numpy() if device.type == "cpu" else b"")
        self.views: list[Tensor] = packing.views(self.memory[header:])

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.memory)

    def gather(self, tensors: Sequence[Tensor]) -> None:
        """Copy tensors into the buffer."""
        copy(self.views, tensors)

    def scatter(self, tensors: Sequence[Tensor]) -> None:
        """Copy the buffer into tensors."""
        copy(tensors, self.views)


class BufferPool:
    """Buffers to use again: making one for 50 tensors takes 45 us.

    Args:
        max_bytes: how many bytes are kept.
        max_buffers: how many buffers are kept.
    """

    def __init__(self, max_bytes: int = 2**26, max_buffers: int = 32) -> None:
        self._max_bytes = max_bytes
        self._max_buffers = max_buffers
        self.reset()

    def reset(self) -> None:
        """Forget all buffers, as a forked process must: its parent has the same memory."""
        self._free: list[tuple[Any, MessageBuffer]] = []
        self._bytes: int = 0
        self._lock = threading.Lock()

    def take(self, key: Any, make: Callable[[], MessageBuffer]) -> MessageBuffer:
        """Take a free buffer of a key, or make one."""
        with self._lock:
            for at in range(len(self._free) - 1, -1, -1):
                if self._free[at][0] is key:
                    buffer = self._free.pop(at)[1]
                    self._bytes -= buffer.size
                    return buffer
        return make()

    def give(self, key: Any, buffer: MessageBuffer) -> None:
        """Return a buffer."""
        with self._lock:
            self._free.append((key, buffer))
            self._bytes += buffer.size
            while self._bytes > self._max_bytes or len(self._free) > self._max_buffers:
                self._bytes -= self._free.pop(0)[1].size
