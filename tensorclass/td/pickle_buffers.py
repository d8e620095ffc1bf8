"""Pickling of tensors with protocols 4 and 5, without the archive that torch writes for each tensor.

Protocol 4, the default of Python up to 3.13, gives what torch gives, several times as fast: a pickle has the memory
that tensors share once, and they share it afterwards. With protocol 5, the memory of tensors travels beside the pickle,
so Ray, Dask and others do not copy it: with a ``buffer_callback`` the pickler passes it on as it is, without one the
pickle contains it.
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

from .memory.copy_on_write import WORTH, copy_on_write

_SMALL = 1024  #: bytes; smaller tensors are not worth a buffer of their own

_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]


#: the protocol from which on tensors have a form of their own
FIRST_PROTOCOL = 4


class PickledStorage:
    """The form of a storage in a pickle of protocol 4. Unpickling returns the storage."""

    __slots__ = ("__weakref__", "storage")
    storage: torch.UntypedStorage

    def __reduce_ex__(self, protocol: Any) -> Any:
        whole: Any = torch.empty(0, dtype=torch.uint8).set_(self.storage)
        return restored_storage, (whole.numpy().tobytes(),)


class PickledTensor:
    """The form of a tensor in a pickle. Unpickling returns the tensor."""

    __slots__ = ("__weakref__", "tensor")
    tensor: Tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        tensor = self.tensor.detach()
        if protocol < 5:
            span = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
            return restored_view, (_form_of(tensor.untyped_storage()), tensor.dtype, *span, self.tensor.requires_grad)
        memory, stride = _dense_memory(tensor)
        array: Any = memory.view(torch.uint8).numpy()
        with_pickled_tensors = array.tobytes() if array.nbytes < _SMALL else PickleBuffer(array)
        return restored, (with_pickled_tensors, tensor.dtype, tuple(tensor.shape), stride, self.tensor.requires_grad)


#: by the id of the tensor: a tensor that occurs twice in a tree is pickled once, because the pickler sees one object
_pickled: WeakValueDictionary[int, PickledTensor] = WeakValueDictionary()


#: by the address of the storage: tensors that share one bring it into the pickle once
_storages: WeakValueDictionary[int, PickledStorage] = WeakValueDictionary()


def _form_of(storage: torch.UntypedStorage) -> PickledStorage:
    known = _storages.get(storage._cdata)
    if known is None:
        known = _storages[storage._cdata] = PickledStorage()
        known.storage = storage
    return known


def with_pickled_tensors(value: Any) -> Any:
    """Return the form of a value in a pickle: a :class:`PickledTensor` for a tensor in main memory.

    Dicts, lists and tuples are searched for tensors. Collections in them are pickled by themselves.
    """
    kind = value.__class__
    if kind is Tensor:
        if not _is_plain_cpu(value):
            return value
        known = _pickled.get(id(value))
        if known is None:
            known = _pickled[id(value)] = PickledTensor()
            known.tensor = value
        return known
    if kind is dict:
        return {key: with_pickled_tensors(one) for key, one in cast("dict[Any, Any]", value).items()}
    if kind is tuple:
        return tuple([with_pickled_tensors(one) for one in cast("tuple[Any, ...]", value)])
    if kind is list:
        return [with_pickled_tensors(one) for one in cast("list[Any]", value)]
    return value


def _is_plain_cpu(tensor: Tensor) -> bool:
    """Return whether a tensor is plain numbers in main memory."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.__dict__)
    )


def _dense_memory(tensor: Tensor) -> tuple[Tensor, tuple[int, ...] | None]:
    """Return the elements in memory order, and their strides unless the tensor is contiguous."""
    if tensor.is_contiguous():
        return tensor.as_strided((tensor.numel(),), (1,)), None  # it may have any stride in a dimension of size 1
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if span <= tensor.numel():  # permuted dimensions, or expanded rows that share memory
        return tensor.as_strided((span,), (1,)), tensor.stride()
    return tensor.contiguous().view(-1), None


def restored(
    buffer: Any, dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int] | None, requires_grad: bool
) -> Tensor:
    """Rebuild a tensor from a buffer: writable, and not shared with other processes.

    The tensor uses the buffer's memory if it is writable, or if its pages can be mapped copy-on-write; otherwise a
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


def restored_storage(content: bytes) -> torch.UntypedStorage:
    """Rebuild a storage from its bytes."""
    made: Any = torch.UntypedStorage
    return made.from_buffer(content, byte_order="native", dtype=torch.uint8) if content else made(0)  # type: ignore[no-any-return]


def restored_view(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    offset: int,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
) -> Tensor:
    """Rebuild a tensor on a storage."""
    tensor: Tensor = torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _reduce_for_process(stands: PickledTensor) -> Any:
    """Reduce a tensor for another process of the same program: its memory is passed as a handle."""
    return _identity, (stands.tensor,)


def _identity(tensor: Tensor) -> Tensor:
    return tensor


ForkingPickler.register(PickledTensor, _reduce_for_process)
