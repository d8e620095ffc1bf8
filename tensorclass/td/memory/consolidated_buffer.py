"""Tensors that lie one after the other in one buffer, which is transferred and pickled as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Size, Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.autograd import forward_ad

_forward_ad: Any = forward_ad
ALIGN = 8  #: bytes; a tensor starts at a multiple of this or of its item size, whichever is larger
_LOOSE = 64  #: unused bytes tolerated for each tensor

#: dtype, shape and first byte of a tensor in the buffer
TensorSpan: TypeAlias = "tuple[torch.dtype, Size, int]"


def is_transformed() -> bool:
    """Return whether a transform of functorch or forward-mode differentiation is active."""
    return _transforms_active() or _forward_ad._current_level >= 0


class FlatBuffer(NamedTuple):
    """A buffer, and the position of each tensor in it."""

    memory: Tensor  #: the buffer, uint8
    spans: list[TensorSpan]

    def parts(self) -> list[Tensor]:
        """Return the tensors: views of the buffer, in order."""
        return [view(self.memory, *span) for span in self.spans]


def view(memory: Tensor, dtype: torch.dtype, shape: Sequence[int], start: int) -> Tensor:
    """Return a tensor that views a buffer of bytes.

    Args:
        memory: the buffer, uint8, of one dimension.
        dtype: dtype of the tensor.
        shape: shape of the tensor.
        start: first byte of the tensor in the buffer.

    Returns:
        A tensor that shares the memory, or a copy if the address does not suit the dtype. Autograd does not take it
        for a view: a result with a gradient can be written to it, and other tensors in the buffer get none.

    >>> buffer = torch.zeros(16, dtype=torch.uint8)
    >>> view(buffer, torch.int32, [2, 1], 8).shape
    torch.Size([2, 1])
    """
    size = Size(shape)
    count = size.numel()
    if not count:
        return torch.empty(size, dtype=dtype, device=memory.device)
    flat = memory[start : start + count * dtype.itemsize]
    if (memory.storage_offset() + start) % dtype.itemsize:
        flat = flat.clone()  # not aligned to its dtype: another program wrote the file
    flat = flat if dtype is torch.uint8 else flat.view(dtype)
    return (flat.view(*size) if size else flat.view(size)).data  # passing a Size to view() is slow


def is_sharded(leaf: Tensor) -> bool:
    """Return whether a tensor is a ``DTensor``, without importing its module, which is slow."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(leaf, module.DTensor)


#: part of error messages: a ``DTensor`` came where values are read
WHOLE = "a DTensor, of which each process has a part; take whole values, full_tensor(), or this process's, to_local()"


def parts_of(leaf: Tensor) -> tuple[Tensor, ...]:
    """Return the tensor's buffers: one, or (values, offsets) if it is jagged."""
    if leaf.is_nested and leaf.layout == torch.jagged:
        ragged: Any = leaf
        return ragged.values(), ragged.offsets()
    return (leaf,)


def joined(leaf: Tensor, parts: Iterator[Tensor]) -> Tensor:
    """Rebuild a tensor from its buffers. Inverse of :func:`parts_of`.

    Args:
        leaf: a tensor of the layout of the result.
        parts: the buffers. As many are consumed as the layout needs.
    """
    if leaf.is_nested and leaf.layout == torch.jagged:
        ragged: Any = torch.nested.nested_tensor_from_jagged(next(parts), next(parts))
        return ragged  # type: ignore[no-any-return]
    return next(parts)


def spans_of(parts: Iterable[Tensor]) -> tuple[list[TensorSpan], int]:
    """Lay out tensors one after the other in a buffer.

    Returns:
        The position of each tensor, and the size of the buffer in bytes, a multiple of :data:`ALIGN`.

    >>> spans, size = spans_of([torch.zeros(3, dtype=torch.uint8), torch.zeros(2)])
    >>> [start for _, _, start in spans], size
    ([0, 8], 16)
    """
    end, spans = 0, list[TensorSpan]()
    for part in parts:
        start = -(-end // max(ALIGN, part.dtype.itemsize)) * max(ALIGN, part.dtype.itemsize) if part.numel() else end
        spans.append((part.dtype, part.shape, start))
        end = start + part.numel() * part.dtype.itemsize
    return spans, -(-end // ALIGN) * ALIGN


def flat_of(leaves: Iterable[Tensor]) -> FlatBuffer | None:
    """Return the buffer that tensors fill one after the other, or ``None`` if they do not.

    The answer comes from the tensors alone, since a stored flag could become untrue. The first two tensors decide in
    most cases.
    """
    memory: Any = None
    spans: list[TensorSpan] = []
    end = 0
    for leaf in leaves:
        if leaf.__class__ is not Tensor and not leaf.is_nested:
            return None
        for part in parts_of(leaf):
            if part.layout != torch.strided or part.requires_grad or part.is_conj() or part.is_neg():
                return None
            size = part.dtype.itemsize
            if part.numel():
                storage = part.untyped_storage()
                if memory is None:
                    memory = storage
                start = int(part.storage_offset()) * size
                if storage._cdata != memory._cdata or start < end or not part.is_contiguous():
                    return None
                end = start + part.numel() * size
                spans.append((part.dtype, part.shape, start))
            else:
                spans.append((part.dtype, part.shape, 0))
    if memory is None or memory.nbytes() - end > _LOOSE:
        return None
    if is_transformed():  # the buffer has no tangents, nor what a transform adds
        return None
    used = sum(shape.numel() * dtype.itemsize for dtype, shape, _ in spans)
    if end - used > _LOOSE * len(spans):
        return None
    return FlatBuffer(torch.empty(0, dtype=torch.uint8, device=memory.device).set_(memory), spans)


def with_parts(data: Any, parts: Iterable[Tensor]) -> Any:
    """Rebuild a collection from the buffers of its tensors.

    Args:
        data: a collection of the structure of the result.
        parts: the buffers of all tensors, in the order of the leaves.
    """
    found = iter(parts)
    return data._with_leaves(iter([joined(leaf, found) for leaf in data._leaves()]))


def with_buffers(data: Any, parts: Iterable[Tensor]) -> Any:
    """Rebuild a collection from the buffers of its tensors and columns.

    Args:
        data: a collection of the structure of the result, with columns of the same lengths.
        parts: the buffers of all tensors and columns, in the order of ``data._leaves_and_buffers()``.
    """
    found = iter(parts)
    return data._with_leaves_and_buffers(iter([joined(leaf, found) for leaf in data._leaves_and_buffers()]))


Copy: TypeAlias = "Callable[[], None]"


def gathered(parts: Sequence[Tensor], memory: Tensor, spans: Sequence[TensorSpan]) -> list[Copy]:
    """Return functions that copy tensors to their positions in a buffer: one for each tensor that is not empty."""

    def copy(part: Tensor, span: TensorSpan) -> Copy:
        return lambda: _copy(part, view(memory, *span))

    return [copy(part, span) for part, span in zip(parts, spans, strict=True) if part.numel()]


def _copy(part: Tensor, target: Tensor) -> None:
    with torch.no_grad():
        target.copy_(part.detach())
