"""Messages of collections between two processes: ``send``, ``recv``, ``isend``, ``irecv``.

The small tensors are one message (:mod:`.message_buffer`), with a header of 16 bytes and the non-tensor data. Tensors
of :data:`~.message_buffer.LARGE` bytes and more are messages of their own, without a copy. All messages start at once.

Recognising a record that is sent repeatedly by the identity of its tensors was tried, instead of reading keys, dtypes
and shapes each time: 11 us instead of 14 for 50 tensors. A step of data-parallel training of ``examples/training.py``
takes 2,500 us; in runs of it on two processes no effect could be told from noise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import torch
from torch import Size, Tensor
from typing_extensions import TypedDict, Unpack

from tensorclass.distributed.process_groups import as_timeout
from tensorclass.distributed.worker_errors import WorkerError
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.td.base import TensorCollection
from tensorclass.td.buffer_operations import buffer_of
from tensorclass.td.memory.consolidated_buffer import flat_of, joined

from .byte_tensors import as_bytes, as_message, digest_of, to_bytes
from .exchange import Exchange, endpoint_of, peer_of
from .message_buffer import BufferPool, MessageBuffer, Packing, packing_of
from .record_layout import (
    FlatRecord,
    RecordLayout,
    TensorSpec,
    allocate,
    content_of,
    flatten_record,
    path_name,
    read_content,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

METHODS_OF = "PointToPoint"

_HEADER = 16  #: bytes: the digest, and the length of the text of non-tensor data
_INLINE_TEXT = 496  #: bytes of that text that fit into the first message

_pool = BufferPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.reset)


class SendPlan:
    """Plan of the messages of a layout."""

    __slots__ = ("device", "header", "mark", "packing")

    def __init__(self, layout: RecordLayout, device: torch.device) -> None:
        self.device: torch.device = device
        self.packing: Packing = packing_of(layout.specs)
        self.header: int = _HEADER + (_INLINE_TEXT if layout.has_content else 0)
        self.mark: bytes = layout.digest.to_bytes(8, "little")

    def buffer(self) -> MessageBuffer:
        """Take a buffer for the first message from the pool."""
        return _pool.take(self, lambda: MessageBuffer(self.header, self.packing, self.device))


def plan_of(layout: RecordLayout, device: torch.device) -> SendPlan:
    """Return the plan of a layout, which is cached."""
    plan: SendPlan | None = layout.plans.get(device)
    if plan is None:
        plan = layout.plans[device] = SendPlan(layout, device)
    return plan


class Transfer:
    """A collection under way, returned by ``isend(return_early=True)`` and ``irecv(return_premature=True)``.

    ``wait()`` must be called. Until then, do not write to a collection that is sent; a collection that is received does
    not have its values.
    """

    __slots__ = ("_error", "_exchange", "_finish", "_keep", "_over", "_works", "count")

    def __init__(
        self, exchange: Exchange, works: list[Any], finish: Callable[[float | None], None], keep: Any, count: int
    ) -> None:
        self._exchange: Exchange = exchange
        self._works: list[Any] = works
        self._finish = finish
        self._keep: Any = keep
        #: number of tensors
        self.count: int = count
        self._over: bool = False
        self._error: BaseException | None = None

    def is_completed(self) -> bool:
        """Return whether ``wait()`` has returned. ``False`` does not tell whether the transfer is still running."""
        return self._over

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until the collection has been sent, or received and written.

        Args:
            timeout: seconds. Default: the time-out of the group.

        Returns:
            ``True``.

        Raises:
            RecordsDiffer: the other side has another record. Both sides raise, and nothing was written.
            WorkerTimeout: the other side did not come in time. It is a TimeoutError.
            WorkerDied: the other side is gone.
        """
        if self._error is not None:
            raise self._error
        if self._over:
            return True
        limit = as_timeout(timeout, self._exchange.what)
        seconds = None if limit is None else limit.total_seconds()
        end = None if seconds is None else time.monotonic() + seconds
        exchange = self._exchange
        try:
            exchange.agree(end)
            for at, work in enumerate(self._works):
                exchange.wait(work() if callable(work) else work, end, seconds)
                if not at:
                    exchange.end()
            self._finish(end)
        except BaseException as error:
            exchange.stop()
            self._error = error
            raise
        finally:
            self._keep = None
            self._works = []
        self._over = True
        return True


# ---------------------------------------------------------------------------------------------------------------------
# the two sides


def begin_send(call: _Call) -> Transfer:
    """Start to send a collection."""
    what, data = call.what, call.data
    tag = tag_of(call.init_tag, call.pseudo_rand)
    pg, endpoint = endpoint_of(call.group, what)
    peer = peer_of(endpoint, call.peer, call.group, call.group_peer, what, "dst")
    flat = _flatten_consolidated(data, what, True) if call.consolidated else flatten_record(data)
    layout, tensors = flat.layout, flat.tensors
    plan = plan_of(layout, endpoint.device)
    text = content_of(data, layout, what, call.allow_pickle) if layout.has_content else b""
    buffer = plan.buffer()
    buffer.gather(plan.packing.small_of(tensors))
    on_cpu = endpoint.device.type == "cpu"
    if on_cpu:
        buffer.header[:8] = plan.mark
        buffer.header[8:16] = len(text).to_bytes(8, "little")
        if len(text) <= _INLINE_TEXT:
            buffer.header[16 : 16 + len(text)] = text
    attachment = b"" if on_cpu else str(len(text)).encode() if layout.columns else text
    exchange = Exchange(what, pg, endpoint, peer, True, tag, layout.digest, layout.entries, buffer.size, attachment)
    messages = [buffer.memory, *[as_message(tensors[at], endpoint.device) for at in plan.packing.large]]
    if (len(text) > _INLINE_TEXT and on_cpu) or (layout.columns and not on_cpu):
        messages.append(as_bytes(text).to(endpoint.device))

    def finish(end: float | None) -> None:
        _pool.give(plan, buffer)

    return Transfer(exchange, _post(exchange, messages), finish, (data, messages), len(layout.specs))


def begin_receive(call: _Call) -> Transfer:
    """Start to receive into a collection."""
    what, data = call.what, call.data
    tag = tag_of(call.init_tag, call.pseudo_rand)
    pg, endpoint = endpoint_of(call.group, what)
    peer = peer_of(endpoint, call.peer, call.group, call.group_peer, what, "src")
    flat = _flatten_consolidated(data, what, False) if call.consolidated else flatten_record(data)
    layout, tensors = flat.layout, flat.tensors
    if not flat.is_plain:
        _check_writable(layout, tensors, what)
    plan = plan_of(layout, endpoint.device)
    buffer = plan.buffer()
    exchange = Exchange(what, pg, endpoint, peer, False, tag, layout.digest, layout.entries, buffer.size)
    targets = [_target(tensors[at], endpoint.device) for at in plan.packing.large]
    large = [memory for memory, _ in targets]

    def finish(end: float | None) -> None:
        text = _receive_text(exchange, layout, plan, buffer, end)
        origin = f"{what}: the record of {exchange.name}"
        write_objects = read_content(text, data, layout, origin, call.allow_pickle) if layout.has_content else None
        buffer.scatter(plan.packing.small_of(tensors))
        with torch.no_grad():
            for memory, tensor in targets:
                if tensor is not None:
                    tensor.copy_(memory)
        if write_objects is not None:
            write_objects()
        if flat.tree_leaves is not None:
            _mark_written(data, flat.tree_leaves)
        _pool.give(plan, buffer)

    return Transfer(exchange, _post(exchange, [buffer.memory, *large]), finish, (data, large), len(layout.specs))


def _receive_text(
    exchange: Exchange, layout: RecordLayout, plan: SendPlan, buffer: MessageBuffer, end: float | None
) -> bytes:
    """Check the first message, and return the text of non-tensor data, which is in it, beside it or after the rest."""
    device, origin = exchange.endpoint.device, f"{exchange.what}: the record of {exchange.name}"
    if device.type == "cpu":
        if bytes(buffer.header[:8]) != plan.mark:
            raise WorkerError(
                f"{exchange.what}: the message of {exchange.name} is not for this record; nothing was written",
                worker=exchange.name,
            )
        length = int.from_bytes(buffer.header[8:16], "little")
        if length <= _INLINE_TEXT:
            return bytes(buffer.header[16 : 16 + length])
    else:
        text = exchange.attachment()
        if not layout.columns:
            return text
        if not text.isdigit() or len(text) > 18:
            raise FileError(f"{origin}: the length of its text and ragged rows is damaged")
        length = int(text)
    memory = allocate(length, torch.uint8, device, origin)
    exchange.wait(exchange.post(memory, 1 + len(plan.packing.large)), end)
    return to_bytes(memory)


def _post(exchange: Exchange, messages: Sequence[Tensor]) -> list[Any]:
    """Start the messages. Without tags, return functions that start them, because both sides must agree first."""
    if exchange.endpoint.tagged:
        return [exchange.post(message, at) for at, message in enumerate(messages)]

    def later(at: int, message: Tensor) -> Callable[[], Any]:
        return lambda: exchange.post(message, at)

    return [later(at, message) for at, message in enumerate(messages)]


def _target(tensor: Tensor, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the memory to receive a large tensor into, and the tensor to copy it to if that is another."""
    target = tensor.detach()
    if tensor.is_contiguous() and tensor.device == device and not (tensor.is_conj() or tensor.is_neg()):
        return target, None
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=device), target


def _check_writable(layout: RecordLayout, tensors: Sequence[Tensor], what: str) -> None:
    for spec, tensor in zip(layout.specs, tensors, strict=True):
        if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
            raise RuntimeError(
                f"{what}: {path_name(spec.path)} is expanded: several of its items share memory, so it cannot be "
                "written; clone it first. Nothing was received"
            )


def _mark_written(data: TensorCollection, tree_leaves: Sequence[Tensor]) -> None:
    """Tell a collection that its tensors were written, such as jagged tensors and tensors in files."""
    buffers, leaves = iter(tree_leaves), list[Tensor]()
    for leaf in data._leaves():
        ragged: Any = leaf
        if leaf.is_nested:
            ragged._metadata_cache.clear()  # it has the lengths of the old rows
        leaves.append(joined(leaf, buffers))
    data._put_leaves(iter(leaves))


# ---------------------------------------------------------------------------------------------------------------------
# consolidated collections


def _memory_of(data: TensorCollection) -> Tensor | None:
    """Return the buffer of a consolidated collection without columns, as bytes; ``None`` for others."""
    marked = buffer_of(data)
    if marked is not None:
        return marked.memory.view(torch.uint8)
    flat = flat_of(data._leaves())
    return None if flat is None else flat.memory


def _flatten_consolidated(data: TensorCollection, what: str, copies: bool) -> FlatRecord:
    """Return a consolidated collection as one tensor, its memory.

    Args:
        data: the collection.
        what: the name of the call, for errors.
        copies: consolidate a collection that is not consolidated.
    """
    record = flatten_record(data)
    if record.layout.columns:  # the memory has the rows, too, whose lengths the other side does not know
        return record
    buffer = _memory_of(data)
    if buffer is None:
        if not any(leaf.numel() for leaf in data._leaves()):
            return record  # it has no memory
        if copies:
            return _flatten_consolidated(data.consolidate(), what, False)
        raise RuntimeError(
            f"{what}: with consolidated=True the collection must be consolidated: its tensors lie one behind the "
            "other in one piece of memory, as consolidate() and from_remote_init make it"
        )
    layout, tensors, *_ = record
    starts = tuple([int(tensor.storage_offset()) * tensor.dtype.itemsize for tensor in tensors])
    size = max([start + spec.nbytes for start, spec in zip(starts, layout.specs, strict=True)])
    one_tensor: RecordLayout | None = layout.plans.get(starts)
    if one_tensor is None:
        entries = dict(layout.entries)
        for spec, start in zip(layout.specs, starts, strict=True):
            entries[path_name(spec.path)] += f"{f', {spec.component}' if spec.component else ''} at byte {start}"
        memory = TensorSpec((), "", torch.uint8, Size([size]))
        one_tensor = layout.plans[starts] = RecordLayout([memory], entries, layout.objects)
    return FlatRecord(one_tensor, [buffer[:size]], buffer.is_cpu, None)


# ---------------------------------------------------------------------------------------------------------------------
# calls of users


def last_tag(count: int, init_tag: int, pseudo_rand: bool) -> int:
    """Return the tag that the last tensor would have if each were a message of its own, to continue counting from."""
    return init_tag + max(count - 1, 0) if not pseudo_rand else (_scattered(init_tag) + count) % 2**31


def _scattered(init_tag: int) -> int:
    """Return a number that is far from those of other tags.

    >>> [_scattered(tag) for tag in range(3)]
    [306774810, 60181118, 163865595]
    """
    return digest_of(str(init_tag).encode(), 4) >> 1


def tag_of(init_tag: int, pseudo_rand: bool) -> int:
    """Return the number that tells apart messages that are under way at the same time."""
    if not isinstance(init_tag, int):
        raise TypeError(f"init_tag: expected an int, got {init_tag!r}")
    return -1 - _scattered(init_tag) if pseudo_rand else init_tag


class MessageKwargs(TypedDict, total=False):
    """Arguments of all calls.

    Args:
        group: the process group; by default that of the world.
        init_tag: a number that distinguishes records that are sent between two processes at the same time; the same in
            both. Records with the same number arrive in the order in which they were sent.
        pseudo_rand: use tags that are far from those of other numbers, as tensordict does. Both processes must agree.
        consolidated: send the buffer of a consolidated collection as it is. Both processes must agree. The sender
            copies a collection that is not consolidated; the receiver must have one that is.
        timeout: the time limit in seconds; by default that of the group.
        allow_pickle: send objects that JSON cannot hold as pickles, and read such pickles, which can run any code. Both
            processes must allow them. By default nothing is unpickled.
    """

    group: ProcessGroup | None
    init_tag: int
    pseudo_rand: bool
    consolidated: bool
    timeout: float | timedelta | None
    allow_pickle: bool


class _Call(NamedTuple):
    """Arguments of a call: those that each has, then :class:`MessageKwargs`."""

    what: str
    data: Any
    peer: int | None
    group_peer: int | None
    group: ProcessGroup | None = None
    init_tag: int = 0
    pseudo_rand: bool = False
    consolidated: bool = False
    timeout: float | timedelta | None = None
    allow_pickle: bool = False

    def finish(self, begin: Callable[[_Call], Transfer]) -> int:
        """Send or receive and wait. Return the last tag."""
        limit = as_timeout(self.timeout, self.what)
        transfer = begin(self)
        transfer.wait(limit)
        return last_tag(transfer.count, self.init_tag, self.pseudo_rand)

    def started(self, begin: Callable[[_Call], Transfer], option: str) -> list[Transfer]:
        """Send or receive without waiting, as an option of the call says."""
        if self.timeout is not None:
            raise ValueError(f"{self.what}: {option}=True does not wait: give timeout to wait()")
        return [begin(self)]


def send(
    data: TensorCollection, dst: int | None = None, *, group_dst: int | None = None, **kwargs: Unpack[MessageKwargs]
) -> None:
    """Send the values to a process that has a collection of the same form and calls :meth:`recv`.

    All small values are one message. Each large tensor is another message, sent at the same time without a copy.
    The receiver's collection can have another class, batch size or order of keys. Names, dtypes and shapes of the
    values must match: otherwise both processes raise an error that lists the differences, and nothing is written.
    ``send`` returns only after the other process has called :meth:`recv` for this record.

    Args:
        dst: the rank of the receiver in the world.
        MessageKwargs: group
        group_dst: the rank of the receiver within ``group``, instead of ``dst``.
        MessageKwargs: init_tag, pseudo_rand, consolidated, timeout, allow_pickle

    Raises:
        RecordsDiffer: the receiver has another record; it raises too. It is a RuntimeError.
        WorkerTimeout: the receiver did not call in time. It is a TimeoutError. Gloo then closes all connections of
            this process in the group.
        WorkerDied: the receiver has ended, or has stopped waiting.
        ValueError: no rank is given, or two are, or this process.
        TypeError: a message cannot hold some values. Nothing was sent.

    Example:
        On each of two processes of one group:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank()))}, [3])
        >>> if dist.get_rank() == 0:
        ...     data.send(dst=1)
        ... else:
        ...     tag = data.recv(src=0)
        >>> data["x"]
        tensor([0., 0., 0.])
    """
    _Call("send", data, dst, group_dst, **kwargs).finish(begin_send)


def recv(
    data: TensorCollection, src: int | None = None, *, group_src: int | None = None, **kwargs: Unpack[MessageKwargs]
) -> int:
    """Receive the values of a collection of the same form that another process sends, into the tensors of this one.

    If the sender dies while it sends, small values and non-tensor data keep their values. Large tensors (256 KB and
    more) are received in place, so some of their values can be new.

    Args:
        src: the rank of the sender in the world.
        MessageKwargs: group
        group_src: the rank of the sender within ``group``, instead of ``src``.
        MessageKwargs: init_tag, pseudo_rand, consolidated, timeout, allow_pickle

    Returns:
        ``init_tag`` plus the number of tensors, minus one: the last tag if each tensor were a message.

    Raises:
        RecordsDiffer: the sender has another record. See :meth:`send` for this and other errors.
        RuntimeError: a tensor is expanded and cannot be written, and nothing was received; or objects arrived that
            do not belong to the files of a memory-mapped collection. Nothing was written.
        TypeError: an object arrived that the field of a record cannot hold. Nothing was written.
        ValueError: an object was sent as a pickle, and ``allow_pickle`` is ``False``. Nothing was written.

    Example:
        On each of two processes of one group:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank())), "below": {"y": torch.ones(3)}}, [3])
        >>> if dist.get_rank() == 0:
        ...     data.send(dst=1)
        ... else:
        ...     tag = data.recv(src=0)
        ...     assert tag == 1
        >>> data["x"]
        tensor([0., 0., 0.])
    """
    return _Call("recv", data, src, group_src, **kwargs).finish(begin_receive)


@overload
def isend(data: TensorCollection, *, return_early: Literal[False] = ...) -> int: ...
@overload
def isend(data: TensorCollection, *, return_early: Literal[True]) -> list[Transfer]: ...
def isend(
    data: TensorCollection,
    dst: int | None = None,
    *,
    group_dst: int | None = None,
    return_early: bool = False,
    **kwargs: Unpack[MessageKwargs],
) -> int | list[Transfer]:
    """Send the values as :meth:`send` does, optionally without waiting.

    Args:
        dst: the rank of the receiver in the world.
        MessageKwargs: group
        send: group_dst
        MessageKwargs: init_tag, pseudo_rand
        return_early: return at once. Small values are copied by then. Do not write to large tensors before ``wait()``
            of the returned transfers returns; it raises the errors of :meth:`send`.
        MessageKwargs: consolidated
        timeout: the time limit in seconds. With ``return_early``, give it to ``wait()`` instead.
        MessageKwargs: allow_pickle

    Returns:
        The last tag, see :meth:`recv`. With ``return_early``, a list of transfers with ``wait(timeout=None)`` and
        ``is_completed()``.

    Raises:
        ValueError: ``timeout`` together with ``return_early``. See :meth:`send` for other errors.

    Example:
        On each of two processes of one group:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank()))}, [3])
        >>> if dist.get_rank() == 0:
        ...     for transfer in data.isend(dst=1, return_early=True):
        ...         _ = transfer.wait()
        ... else:
        ...     tag = data.recv(src=0)
        >>> data["x"]
        tensor([0., 0., 0.])
    """
    call = _Call("isend", data, dst, group_dst, **kwargs)
    return call.started(begin_send, "return_early") if return_early else call.finish(begin_send)


@overload
def irecv(data: TensorCollection, *, return_premature: Literal[False] = ...) -> None: ...
@overload
def irecv(data: TensorCollection, *, return_premature: Literal[True]) -> list[Transfer]: ...
def irecv(
    data: TensorCollection,
    src: int | None = None,
    *,
    group_src: int | None = None,
    return_premature: bool = False,
    **kwargs: Unpack[MessageKwargs],
) -> list[Transfer] | None:
    """Receive values as :meth:`recv` does, optionally without waiting.

    Args:
        src: the rank of the sender in the world.
        MessageKwargs: group
        recv: group_src
        return_premature: return at once. The values have arrived when ``wait()`` of the returned transfers returns; it
            raises the errors of :meth:`recv`.
        MessageKwargs: init_tag, pseudo_rand, consolidated
        timeout: the time limit in seconds. With ``return_premature``, give it to ``wait()`` instead.
        MessageKwargs: allow_pickle

    Returns:
        ``None``. With ``return_premature``, a list of transfers with ``wait(timeout=None)`` and ``is_completed()``.

    Raises:
        ValueError: ``timeout`` together with ``return_premature``. See :meth:`recv` for other errors.

    Example:
        On each of two processes of one group:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank()))}, [3])
        >>> if dist.get_rank() == 0:
        ...     data.send(dst=1)
        ... else:
        ...     for transfer in data.irecv(src=0, return_premature=True):
        ...         _ = transfer.wait()
        >>> data["x"]
        tensor([0., 0., 0.])
    """
    call = _Call("irecv", data, src, group_src, **kwargs)
    if return_premature:
        return call.started(begin_receive, "return_premature")
    call.finish(begin_receive)
    return None
