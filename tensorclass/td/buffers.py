"""Tensors in pickles of protocol 5: their memory goes beside the pickle, which Ray, Dask and others do not copy again.

Whoever pickles with a ``buffer_callback`` gets the memory of each tensor as it is; others have it in the pickle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from pickle import PickleBuffer
from typing import Any, cast
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from .shared_pages import WORTH, copy_on_write

_SMALL = 1024  #: bytes of a tensor that are not worth a buffer of their own

_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]


class Held:
    """Stands for a tensor in a pickle of protocol 5, from which it comes back as a tensor."""

    __slots__ = ("__weakref__", "tensor")
    tensor: Tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        tensor = self.tensor.detach()
        memory, stride = _memory(tensor)
        array: Any = memory.view(torch.uint8).numpy()
        held = array.tobytes() if array.nbytes < _SMALL else PickleBuffer(array)
        return restored, (held, tensor.dtype, tuple(tensor.shape), stride, self.tensor.requires_grad)


#: by the id of its tensor: what stands in two places of a tree is one in the pickle, which keeps what it has seen
_held: WeakValueDictionary[int, Held] = WeakValueDictionary()


def held(value: Any) -> Any:
    """What stands for a value in a pickle of protocol 5: for a tensor in main memory its :class:`Held`.

    Dicts, lists and tuples are looked into; collections in them are pickled by themselves.
    """
    kind = value.__class__
    if kind is Tensor:
        if not _plain(value):
            return value
        known = _held.get(id(value))
        if known is None:
            known = _held[id(value)] = Held()
            known.tensor = value
        return known
    if kind is dict:
        return {key: held(one) for key, one in cast("dict[Any, Any]", value).items()}
    if kind is tuple:
        return tuple([held(one) for one in cast("tuple[Any, ...]", value)])
    if kind is list:
        return [held(one) for one in cast("list[Any]", value)]
    return value


def _plain(tensor: Tensor) -> bool:
    """Whether a tensor is numbers in main memory and nothing more."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.__dict__)
    )


def _memory(tensor: Tensor) -> tuple[Tensor, tuple[int, ...] | None]:
    """The items as they lie in memory, and how far apart those of each dimension are there, where that says more."""
    if tensor.is_contiguous():
        return tensor.view(-1), None
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if span <= tensor.numel():  # other orders of dimensions; rows that are one in memory
        return tensor.as_strided((span,), (1,)), tensor.stride()
    return tensor.contiguous().view(-1), None


def restored(
    buffer: Any, dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int] | None, requires_grad: bool
) -> Tensor:
    """What unpickling calls: a tensor that can be written to, and no other process sees it.

    Its memory is that of the buffer where this one alone has it, or where pages that are written become copies; else a
    copy.
    """
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype, requires_grad=requires_grad)
    memory = memoryview(buffer)
    if memory.readonly:
        pages = copy_on_write(memory) if memory.nbytes >= WORTH else None
        memory = memoryview(bytearray(memory) if pages is None else pages)
    flat: Tensor = _frombuffer(memory, dtype=torch.uint8)
    if flat.data_ptr() % dtype.itemsize:
        flat = flat.clone()
    flat = flat.view(dtype)
    tensor = flat.view(tuple(shape)) if stride is None else flat.as_strided(tuple(shape), tuple(stride))
    return tensor.requires_grad_() if requires_grad else tensor


def _shared(stands: Held) -> Any:
    """What a pickle between processes of one program has instead: the tensor, whose memory goes as a handle."""
    return _itself, (stands.tensor,)


def _itself(tensor: Tensor) -> Tensor:
    return tensor


ForkingPickler.register(Held, _shared)
