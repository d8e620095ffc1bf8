"""The layout of a buffer that holds the tensors of a collection.

With the layout known, an operation on the buffer is one for all tensors. The bytes between two tensors and after the
last one have any value. An operation may compute with them, but no result may depend on them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.td.tracing import may_cache

from .consolidated_buffer import TensorSpan, spans_of

_below_autograd: Any = torch._C._AutoDispatchBelowADInplaceOrView  # pyright: ignore[reportPrivateUsage]
_is_contiguous: Any = Tensor.is_contiguous
_is_conj: Any = Tensor.is_conj
_requires_grad: Any = operator.attrgetter("requires_grad")
_set_to: Any = Tensor.set_
_ONLY_TENSORS = {Tensor}


class _Run(NamedTuple):
    """Tensors of one dtype and shape that follow each other without a gap."""

    number: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int  #: first element, in a buffer of this dtype


#: layouts by the dtypes and shapes of their tensors: those of a program's batches are mostly the same
_KNOWN: dict[tuple[tuple[torch.dtype, Size], ...], BufferLayout] = {}
_MANY_KNOWN = 64


def layout_of(tensors: Sequence[Tensor]) -> BufferLayout:
    """Return the layout in which dense tensors lie one after the other; see ``spans_of``."""
    if not may_cache():
        return BufferLayout(*spans_of(tensors))
    kinds = tuple([(tensor.dtype, tensor.shape) for tensor in tensors])
    known = _KNOWN.get(kinds)
    if known is None:
        if len(_KNOWN) >= _MANY_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[kinds] = BufferLayout(*spans_of(tensors))
    return known


class BufferLayout:
    """The positions of tensors in their buffer.

    Args:
        spans: dtype, shape and first byte of each tensor.
        size: bytes of the buffer.

    Example:
        >>> import torch
        >>> layout = BufferLayout([(torch.float32, torch.Size([3]), 0), (torch.float32, torch.Size([2]), 16)], 24)
        >>> layout.tensors_in(torch.arange(6.0))
        [tensor([0., 1., 2.]), tensor([4., 5.])]
    """

    def __init__(self, spans: Sequence[TensorSpan], size: int) -> None:
        self.spans: list[TensorSpan] = list(spans)
        self.size: int = size  #: bytes of the buffer
        self._dtypes: list[torch.dtype] = [dtype for dtype, _, _ in spans]
        self._shapes: list[Size] = [shape for _, shape, _ in spans]
        #: position of the first tensor that is not empty
        self._first: int | None = next((at for at, (_, shape, _) in enumerate(spans) if shape.numel()), None)
        self._is_complex: bool = any(dtype.is_complex for dtype in self._dtypes)
        self._runs: list[_Run] = _runs_of(spans)
        self._description: tuple[tuple[torch.dtype, ...], str] | None = None
        self._with_dtypes: dict[torch.dtype, BufferLayout] = {}
        uniform = len(set(self._dtypes)) == 1 and not size % self._dtypes[0].itemsize
        #: the dtype of the buffer as a tensor: that of all tensors, or uint8
        self.dtype: torch.dtype = self._dtypes[0] if uniform else torch.uint8

    @property
    def is_uniform(self) -> bool:
        """Return whether all tensors have the dtype of the buffer."""
        return all(run.dtype is self.dtype for run in self._runs)

    def fits(self, leaves: list[Tensor]) -> bool:
        """Return whether tensors have the dtypes and shapes of the layout, and are as plain as those that made it."""
        return (
            {*map(type, leaves)} == _ONLY_TENSORS
            and [leaf.shape for leaf in leaves] == self._shapes
            and [leaf.dtype for leaf in leaves] == self._dtypes
            and all(map(_is_contiguous, leaves))
            and not any(map(_requires_grad, leaves))
            and not (self._is_complex and any(map(_is_conj, leaves)))
        )

    def whole(self, leaves: list[Tensor]) -> Tensor | None:
        """Return the buffer as one tensor; ``None`` if the first one of its tensors is elsewhere."""
        at = self._first
        if at is None:
            return None
        first, start = leaves[at], self.spans[at][2]
        storage = first.untyped_storage()
        if int(first.storage_offset()) * first.dtype.itemsize != start or storage.nbytes() != self.size:
            return None
        with _below_autograd():
            if first.dtype is self.dtype:
                return first.as_strided((self.size // self.dtype.itemsize,), (1,), 0)
            memory: Tensor = _set_to(torch.empty(0, dtype=torch.uint8, device=first.device), storage)
            return memory

    def tensors_in(self, memory: Tensor) -> list[Tensor]:
        """Return the tensors at their positions in another buffer of this size.

        They share the memory, but are no views of it to autograd: one can require a gradient, or be written while
        another is saved for the backward pass.
        """
        made: list[Tensor] = []
        typed = {memory.dtype: memory}
        with _below_autograd():  # the bookkeeping of views takes twice as long as all else here
            for count, dtype, shape, strides, start in self._runs:
                flat = typed.get(dtype)
                if flat is None:
                    flat = typed[dtype] = memory[: self.size // dtype.itemsize * dtype.itemsize].view(dtype)
                if count == 1:
                    made.append(flat.as_strided(shape, strides, start))
                else:
                    step = shape[0] * strides[0] if shape else 1
                    made += flat.as_strided((count, *shape), (step, *strides), start).unbind()
        return made

    def described(self) -> tuple[tuple[torch.dtype, ...], str]:
        """Return the dtypes, and a text: for each tensor the number of its dtype, first byte and shape.

        A text is one object of a pickle, which takes time for each.
        """
        if self._description is None:
            dtypes = tuple(dict.fromkeys(self._dtypes))
            words = [" ".join(map(str, (dtypes.index(dtype), start, *shape))) for dtype, shape, start in self.spans]
            self._description = dtypes, ",".join(words)
        return self._description

    @classmethod
    def from_description(cls, dtypes: Sequence[torch.dtype], text: str, size: int) -> BufferLayout:
        """Return the layout of a buffer that :meth:`described` describes.

        Raises:
            ValueError: a tensor is not in the buffer.
        """
        spans: list[TensorSpan] = []
        for words in text.split(","):
            number, start, *shape = [int(word) for word in words.split()]
            dtype, tensor = dtypes[number], Size(shape)
            end = start + tensor.numel() * dtype.itemsize
            if end > start and (start < 0 or end > size or start % dtype.itemsize):
                raise ValueError(f"the pickle is damaged: a tensor of shape {shape} is not in its memory")
            spans.append((dtype, tensor, start))
        return cls(spans, size)

    def with_dtype(self, dtype: torch.dtype) -> BufferLayout:
        """Return the layout of the result of a function of each element of the buffer."""
        known = self._with_dtypes.get(dtype)
        if known is None:
            own = self.dtype.itemsize
            spans = [(dtype, shape, start // own * dtype.itemsize) for _, shape, start in self.spans]
            known = self._with_dtypes[dtype] = BufferLayout(spans, self.size // own * dtype.itemsize)
        return known


def _runs_of(spans: Sequence[TensorSpan]) -> list[_Run]:
    """Group adjacent spans of the same dtype and shape."""
    runs: list[_Run] = []
    end = -1
    for dtype, shape, start in spans:
        size = shape.numel() * dtype.itemsize
        last = runs[-1] if runs else None
        if last is not None and start == end and size and last.shape == shape and last.dtype is dtype:
            runs[-1] = _Run(last.number + 1, *last[1:])
        else:
            strides, step = list[int](), 1
            for n in reversed(shape):
                strides.insert(0, step)
                step *= max(n, 1)
            runs.append(_Run(1, dtype, tuple(shape), tuple(strides), start // dtype.itemsize))
        end = start + size
    return runs
