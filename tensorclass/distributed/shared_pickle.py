"""Pickle objects for another process with all their tensors in one shared memory segment.

Queues, pipes and pools of ``multiprocessing`` pickle what they send. torch gives each tensor a segment of its own,
which the receiver opens by a handle; that takes some 0.2 ms and an open file for each tensor. Here all tensors of a
collection are copied into one segment, which is sent by one handle. Small tensors are sent with the text of the pickle,
without a handle.

The receiver gets a copy. Memory that is shared already is not copied: each segment is sent by its handle, and files
mapped to memory by their names.

The classes of collections are registered with the pickler of ``multiprocessing``
(:mod:`tensorclass.td.multiprocessing_reducers`).
:func:`packed` does the same for other objects, such as tuples of tensors.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import Parameter

from tensorclass.support.parent_process import end_with_parent
from tensorclass.td.columns.buffer_column import column_rebuild
from tensorclass.td.leaves.leaf import has_spans
from tensorclass.td.memory.shared_memory import new_storage
from tensorclass.td.pickle_buffers import PickledTensor

from . import queue_errors

#: bytes of tensors up to which they are sent with the text; measured with python -m benchmarks.mapping
SMALL = 2**17
_ALIGN = 16
_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]
_foreach_copy: Any = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]
_storage: Any = torch.UntypedStorage
_strategy: Any = torch.multiprocessing.get_sharing_strategy
_PLAIN = (Tensor, Parameter)
_BY_HANDLE = os.path.isdir("/proc/self/fd")  #: whether open files have a path

#: segment (0: the new one), dtype, shape, strides (``None``: contiguous), first byte
TensorLocation: TypeAlias = "tuple[int, torch.dtype, tuple[int, ...], tuple[int, ...] | None, int]"


class Handle(NamedTuple):
    """Path by which another process opens a shared memory segment, as long as this process holds it."""

    path: str
    size: int

    def opened(self) -> torch.UntypedStorage:
        """Map the segment. No file stays open for it."""
        return _storage.from_file(self.path, True, self.size)  # type: ignore[no-any-return]


class Packed(NamedTuple):
    """An object as a pickle without tensors, and the memory of its tensors."""

    text: bytes  #: a pickle, in which a tensor is a location in a segment
    memory: bytearray | torch.UntypedStorage | Handle | None  #: the copied tensors
    shared: Sequence[torch.UntypedStorage | Handle]  #: segments that were shared before
    others: list[Any]  #: tensors that torch pickles: on accelerators, sparse ones

    def by_handles(self) -> Packed:
        """Return the same with handles, for a process that may die before it opens the memory.

        torch keeps a segment open until the receiver has asked for it: forever, if the receiver died. A handle is a
        path that is gone when this object is. Without ``/proc`` there are no handles.
        """
        if not _BY_HANDLE or _strategy() != "file_descriptor":
            return self
        memory = self.memory if isinstance(self.memory, bytearray) else _handle(self.memory)
        return Packed(self.text, memory, [_handle(storage) for storage in self.shared], self.others)

    def opened(self) -> Any:
        """Rebuild the object. Its tensors share the memory and keep it alive."""
        memory = _OpenSegments([_bytes_of(self.memory), *[_bytes_of(storage) for storage in self.shared]], self.others)
        outer = getattr(_now, "opened", None)
        _now.opened = weakref.ref(memory)
        try:
            return pickle.loads(self.text)
        finally:
            _now.opened = outer


class _OpenSegments:
    """Segments of an object that is being opened."""

    __slots__ = ("__weakref__", "others", "pieces")

    def __init__(self, pieces: list[Tensor], others: list[Any]) -> None:
        self.pieces: list[Tensor] = pieces
        self.others: list[Any] = others


#: ``opened``: a weak reference to the memory of what is being opened. An interrupt right before the ``try`` or in the
#: ``finally`` of :meth:`Packed.opened` leaves it set; a strong one would keep the memory mapped until the next call.
_now: Any = threading.local()


def packed(value: Any, *, small: int | None = None, copies: bool = False) -> Packed:
    """Pickle an object, with its tensors apart.

    Args:
        value: the object.
        small: bytes of tensors up to which they are copied to a ``bytearray``; more go into shared memory. ``-1``: any.
        copies: copy tensors in shared memory as well.

    Raises:
        RuntimeError: a tensor requires a gradient and is the result of an operation.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, copies)
    pickler.dump(value)
    memory = pickler.filled(SMALL if small is None else small)
    return Packed(file.getvalue(), memory, pickler.shared, pickler.others)


def opened(text: bytes, memory: Any, shared: list[Any], others: list[Any]) -> Any:
    """Rebuild a collection; unpickling calls this."""
    return Packed(text, memory, shared, others).opened()


def opened_again(text: bytes, pieces: bytes) -> Any:
    """Rebuild a collection whose memory was pickled by itself; unpickling calls this."""
    return Packed(text, *pickle.loads(pieces)).opened()


def reduced(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Reduce a collection for the pickler of ``multiprocessing``.

    If an error would only be printed, it is sent instead; see :mod:`.queue_errors`. A daemon ends with its parent from
    now on: tensors up to :data:`SMALL` fill a pipe that nobody reads any more.
    """
    end_with_parent(if_daemon=True)
    try:
        found = packed(value)
        if isinstance(found.memory, bytearray) and not found.shared and not found.others:
            return opened, tuple(found)
        starting: Any = get_spawning_popen()
        if starting is not None:  # the process opens the memory by a file, which must stay open until then
            starting._tensorclass_memory = [*getattr(starting, "_tensorclass_memory", ()), found.memory]
        if queue_errors.current() is None:
            return opened, tuple(found)
        # opening files for the memory can fail as well, so it is done now
        return opened_again, (found.text, bytes(ForkingPickler.dumps(found[1:])))
    except Exception as error:
        fed = queue_errors.current()
        if fed is None:
            raise
        return queue_errors.instead(fed, value, error)


class _Pickler(pickle.Pickler):
    """Pickles tensors as locations in memory."""

    def __init__(self, file: io.BytesIO, copies: bool) -> None:
        super().__init__(file, 4)
        self.shared: list[torch.UntypedStorage] = []
        self.others: list[Any] = []
        self._copies: bool = copies
        self._sources: list[Tensor] = []
        self._locations: list[TensorLocation] = []
        self._end: int = 0
        self._segments: dict[int, int] = {}  #: number of a shared segment by storage
        self._known_tensors: dict[tuple[Any, ...], TensorLocation] = {}  #: so that tied tensors stay tied

    def reducer_override(self, obj: Any, /) -> Any:
        if obj.__class__ is PickledTensor:
            obj = obj.tensor
        kind = obj.__class__
        if kind not in _PLAIN:
            if has_spans(obj) and not self._copies and _is_shared(obj):
                return column_rebuild, (kind, obj._items, obj._spans(), obj._names, obj._lock is not None)
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                f"a tensor of shape {list(obj.shape)} requires a gradient and is the result of an operation; another "
                "process cannot have its history: send data.detach(), or compute it under torch.no_grad()"
            )
        if obj.layout is not torch.strided or obj.device.type != "cpu" or obj.is_quantized or obj.is_nested:
            self.others.append(obj)
            return _other, (len(self.others) - 1,)
        if obj.is_conj() or obj.is_neg():
            obj = obj.resolve_conj().resolve_neg()
        location = self._location_of(obj.detach() if obj.requires_grad else obj)
        if kind is Parameter or obj.requires_grad:
            return _tensor_at, (*location, kind is Parameter, obj.requires_grad)
        return _tensor_at, location

    def _location_of(self, tensor: Tensor) -> TensorLocation:
        storage = tensor.untyped_storage()
        offset, shape = int(tensor.storage_offset()), tensor.shape
        if not self._copies and storage.is_shared():
            at = self._segments.get(storage._cdata)
            if at is None:
                self.shared.append(storage)
                at = self._segments[storage._cdata] = len(self.shared)
            return at, tensor.dtype, tuple(shape), tensor.stride(), offset * tensor.dtype.itemsize
        key = (storage._cdata, offset, shape, tensor.dtype, tensor.stride())
        location = self._known_tensors.get(key)
        if location is None:
            location = self._known_tensors[key] = self._new_location(tensor)
        return location

    def _new_location(self, tensor: Tensor) -> TensorLocation:
        shape, strides = tensor.shape, None
        if not tensor.is_contiguous():
            repeated = [n > 1 and step == 0 for n, step in zip(shape, tensor.stride(), strict=True)]
            for dim, again in enumerate(repeated):
                if again:  # an expanded tensor stays one
                    tensor = tensor.narrow(dim, 0, 1)
            dense = torch.empty_like(tensor, device="meta").stride()
            strides = tuple(0 if again else step for again, step in zip(repeated, dense, strict=True))
        start = -(-self._end // _ALIGN) * _ALIGN
        self._end = start + tensor.numel() * tensor.dtype.itemsize
        self._sources.append(tensor)
        self._locations.append((0, tensor.dtype, tuple(tensor.shape), strides, start))
        return 0, tensor.dtype, tuple(shape), strides, start

    def filled(self, small: int) -> bytearray | torch.UntypedStorage | None:
        """Return memory with the values of the tensors."""
        if not self._sources:
            return None
        memory: Any
        memory = bytearray(self._end) if small < 0 or self._end <= small else new_storage(self._end)
        whole = _bytes_of(memory)
        targets = [_view(whole, *location) for location in self._locations]
        with torch.no_grad():
            _foreach_copy(targets, self._sources)
        return memory  # type: ignore[no-any-return]


def _is_shared(column: Any) -> bool:
    """Return whether the buffer of a column is in shared memory, so that it is sent whole, without a copy."""
    items = column._items
    return isinstance(items, Tensor) and items.is_cpu and items.untyped_storage().is_shared()


def _handle(memory: Any) -> Any:
    """Return the handle of a segment."""
    if not isinstance(memory, torch.UntypedStorage) or not memory.nbytes():
        return memory
    file, size = _storage._share_fd_cpu_(memory)
    return Handle(f"/proc/{os.getpid()}/fd/{file}", size)


def _bytes_of(memory: bytearray | torch.UntypedStorage | Handle | None) -> Tensor:
    """Return memory as a tensor of bytes."""
    if isinstance(memory, Handle):
        memory = memory.opened()
    if memory is None or not len(memory):
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    if isinstance(memory, bytearray):
        return _frombuffer(memory, dtype=torch.uint8)  # type: ignore[no-any-return]
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(memory)


def _view(
    whole: Any, piece: int, dtype: torch.dtype, shape: Sequence[int], strides: tuple[int, ...] | None, start: int
) -> Tensor:
    """Return a tensor as a view of memory."""
    count = math.prod(shape)
    if strides is None:
        flat = whole[start : start + count * dtype.itemsize].view(dtype)
        return flat if len(shape) == 1 else flat.view(shape)  # type: ignore[no-any-return]
    if not count:
        return torch.empty(0, dtype=dtype, device="cpu").as_strided(tuple(shape), strides)
    flat = torch.empty(0, dtype=dtype, device="cpu").set_(whole.untyped_storage())
    return flat.as_strided(tuple(shape), strides, start // dtype.itemsize)


def _tensor_at(
    piece: int,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    start: int,
    is_parameter: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the tensor at a location; unpickling calls this."""
    tensor = _view(_now.opened().pieces[piece], piece, dtype, shape, strides, start)
    if is_parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def _other(at: int) -> Any:
    return _now.opened().others[at]
