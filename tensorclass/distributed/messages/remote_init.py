"""Send a collection to a process that does not know its keys: ``init_remote`` and ``from_remote_init``.

There are three messages: a header of fixed size, with the lengths of the others, and the text if it is short; the text
(JSON, as in files) if it is long; and the memory of the tensors, one after the other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.distributed import distributed_c10d as c10d

from tensorclass.distributed.process_groups import as_timeout, finish_pending
from tensorclass.storage.common import collection_tree, describe_collection, rebuild_collection, sealed_json
from tensorclass.storage.common.collection_tree import FileError, TreeSource, as_list
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.memory.consolidated_buffer import flat_of, gathered, spans_of

from .byte_tensors import as_bytes, digest_of, to_bytes
from .exchange import Endpoint, Exchange, endpoint_of, peer_of, translate
from .record_layout import allocate, as_json

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from tensorclass.td.base import TensorCollection

METHODS_OF = "PointToPoint"
C = TypeVar("C", bound="TensorCollection")

_HEADER = 4096  #: bytes of the first message
_NUMBERS = 24  #: bytes of its numbers: a mark, the length of the text, the length of the memory
_ENTRIES = {"the whole collection": "from init_remote to from_remote_init"}
_DIGEST = digest_of(json.dumps(_ENTRIES).encode())
_MARK = _DIGEST.to_bytes(8, "little")


def init_remote(
    data: TensorCollection,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: DeviceLike | None = None,
    use_broadcast: bool = False,
    *,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> None:
    """Send the whole collection to a process that does not know its form; see :meth:`from_remote_init`.

    Keys, dtypes, shapes, batch sizes, dimension names and non-tensor data are sent as JSON, and the tensors as one
    buffer: that of a consolidated collection, otherwise a copy.

    Args:
        dst: the rank of the receiver in the world.
        group: the process group; by default that of the world.
        device: the device whose backend carries the messages, if the group has several: ``"cuda"`` for NCCL.
        use_broadcast: send to all other processes of the group, without ``dst``.
        timeout: the time limit of each message in seconds; by default that of the group.
        allow_pickle: send objects that JSON cannot hold as pickles. The receiver must allow them too.

    Raises:
        WorkerTimeout: the receiver did not call in time. See :meth:`send` for this and other errors.
        RecordsDiffer: the receiver made another call, such as :meth:`recv`.
        TypeError: a message cannot hold some values. Lists all of them. Nothing was sent.

    Example:
        On each of two processes of one group:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> if dist.get_rank() == 0:
        ...     data = TensorDict({"x": torch.arange(3), "text": ["a", "b", "c"]}, [3])
        ...     data.init_remote(dst=1)
        ... else:
        ...     data = TensorDict.from_remote_init(src=0)
        >>> data[2].to_dict()
        {'x': tensor(2), 'text': 'c'}
    """
    what = "init_remote"
    limit = as_timeout(timeout, what)
    pg, endpoint = endpoint_of(group, what, as_device(device))
    if use_broadcast and dst is not None:
        raise ValueError(f"{what}: use_broadcast=True sends to all processes of the group; leave out dst")
    if not use_broadcast and dst is None:
        raise ValueError(f"{what}: give dst, or send to all other processes with use_broadcast=True")
    peer = None if use_broadcast else peer_of(endpoint, dst, group, None, what, "dst")
    text, memory = _serialize(data, what, allow_pickle)
    header = bytearray(_HEADER)
    header[:_NUMBERS] = _MARK + len(text).to_bytes(8, "little") + len(memory).to_bytes(8, "little")
    short = len(text) <= _HEADER - _NUMBERS
    if short:
        header[_NUMBERS : _NUMBERS + len(text)] = text
    messages = [as_bytes(header), *([] if short else [as_bytes(text)]), *([memory] if len(memory) else [])]
    messages = [message.to(endpoint.device) for message in messages]
    transport = (
        _BroadcastTransport(what, pg, endpoint, endpoint.rank, limit)
        if peer is None
        else _PeerTransport(what, pg, endpoint, peer, True, limit)
    )
    transport.move(messages)


def from_remote_init(
    cls: type[C],
    src: int,
    group: ProcessGroup | None = None,
    device: DeviceLike | None = None,
    use_broadcast: bool = False,
    *,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> C:
    """Receive a collection that another process sends with :meth:`init_remote`.

    Args:
        src: the rank of the sender in the world.
        group: the process group; by default that of the world.
        device: where the tensors are moved. The messages use the backend of this device if the group has one. In a
            group with several backends, both processes must give the same device.
        use_broadcast: as the sender gives it.
        init_remote: timeout
        allow_pickle: read objects that were sent as pickles, which can run any code. By default nothing is unpickled.

    Returns:
        An instance of this class, whatever the sender's class is; a record must get its fields. It is consolidated:
        more collections of the same form can follow with ``recv(consolidated=True)``.

    Raises:
        FileError: what arrived does not fit the record, or is damaged. It is a ValueError.
        WorkerTimeout: the sender did not call in time. See :meth:`send` for this and other errors.

    Example:
        On each of two processes of one group, which send the form once and then values:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> if dist.get_rank() == 0:
        ...     data = TensorDict({"x": torch.zeros(3)}, [3]).consolidate()
        ...     data.init_remote(dst=1)
        ...     _ = data["x"].fill_(1.0)
        ...     data.send(dst=1, consolidated=True)
        ... else:
        ...     data = TensorDict.from_remote_init(src=0)
        ...     tag = data.recv(src=0, consolidated=True)
        >>> data["x"]
        tensor([1., 1., 1.])
    """
    what = "from_remote_init"
    limit = as_timeout(timeout, what)
    target = as_device(device)
    pg, endpoint = endpoint_of(group, what)
    if target is not None and target.type in {found.type for found in getattr(pg, "_device_types", ())}:
        pg, endpoint = endpoint_of(group, what, target)
    peer = peer_of(endpoint, src, group, None, what, "src")
    transport = (
        _BroadcastTransport(what, pg, endpoint, peer, limit)
        if use_broadcast
        else _PeerTransport(what, pg, endpoint, peer, False, limit)
    )
    (first,) = transport.move([torch.empty(_HEADER, dtype=torch.uint8, device=endpoint.device)])
    header = to_bytes(first)
    if header[:8] != _MARK:
        raise FileError(f"{what}: the message of {transport.name} does not come from init_remote")
    length, size = int.from_bytes(header[8:16], "little"), int.from_bytes(header[16:24], "little")
    short = length <= _HEADER - _NUMBERS
    sizes = ([] if short else [length]) + ([size] if size else [])
    origin = f"{what}: the record of {transport.name}"
    rest = transport.move([allocate(count, torch.uint8, endpoint.device, origin) for count in sizes])
    text = header[_NUMBERS : _NUMBERS + length] if short else to_bytes(rest[0])
    memory = rest[-1] if size else torch.empty(0, dtype=torch.uint8, device=endpoint.device)
    if target is not None:
        memory = memory.to(target)
    return _deserialize(text, memory, cls, origin, target, allow_pickle)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------------------------------------
# serialization


def _serialize(data: Any, what: str, allow_pickle: bool) -> tuple[bytes, Tensor]:
    """Return a collection as text and the memory of its tensors."""
    node, leaves = describe_collection.describe(data, what, allow_pickle)
    tensors = [leaf.tensor for leaf in leaves]
    flat = flat_of(tensors)
    if flat is None:
        spans, size = spans_of(tensors)
        devices = {tensor.device for tensor in tensors}
        memory = torch.zeros(size, dtype=torch.uint8, device=devices.pop() if len(devices) == 1 else "cpu")
        for write in gathered(tensors, memory, spans):
            write()
    else:
        spans, memory = flat.spans, flat.memory
    starts = [span[2] for span in spans]
    return as_json({"tree": node, "starts": starts}), memory


def _deserialize(
    text: bytes, memory: Tensor, cls: Any, origin: str, device: torch.device | None, allow_pickle: bool
) -> Any:  # fmt: skip
    document = sealed_json.parse_json(text, origin)
    node, starts = document.get("tree"), as_list(document.get("starts"))
    keys = [(path, component) for path, component, _ in collection_tree.tensor_nodes(node)]
    if starts is None or len(starts) != len(keys):
        raise FileError(f"{origin}: its description is damaged")
    start_of = dict(zip(keys, starts, strict=True))
    tensors = collection_tree.BufferReader(origin, memory, len(memory), start_of, "its values were not sent")
    received = rebuild_collection.rebuild(node, cls, TreeSource(origin, tensors.read, device, allow_pickle))
    tensors.check_disjoint()
    return received


# ---------------------------------------------------------------------------------------------------------------------
# transport


class _PeerTransport:
    """Messages to one process, or from it."""

    def __init__(
        self, what: str, group: Any, endpoint: Endpoint, peer: int, sends: bool, limit: timedelta | None
    ) -> None:  # fmt: skip
        self._exchange = Exchange(what, group, endpoint, peer, sends, 0, _DIGEST, _ENTRIES, _HEADER)
        self._seconds: float | None = None if limit is None else limit.total_seconds()
        self._end: float | None = None if self._seconds is None else time.monotonic() + self._seconds
        self._count: int = 0
        self.name: str = self._exchange.name

    def move(self, messages: list[Tensor]) -> list[Tensor]:
        """Send or receive messages, all at the same time."""
        exchange = self._exchange
        try:
            if not self._count:
                exchange.agree(self._end)
            works = [exchange.post(message, self._count + at) for at, message in enumerate(messages)]
            for work in works:
                exchange.wait(work, self._end, self._seconds)
                if not self._count:
                    exchange.end()
                self._count += 1
        except BaseException:
            exchange.stop()
            raise
        return messages


class _BroadcastTransport:
    """Messages of one process to all others of the group."""

    def __init__(self, what: str, group: Any, endpoint: Endpoint, root: int, limit: timedelta | None) -> None:
        finish_pending(group)
        self._what = what
        self._options: Any = c10d.BroadcastOptions()
        self._options.rootRank, self._options.rootTensor = root, 0
        if limit is not None:
            self._options.timeout = limit
        self._run: Callable[..., Any] = group.broadcast
        self.name: str = f"rank {endpoint.ranks[root]}"

    def move(self, messages: list[Tensor]) -> list[Tensor]:
        """Send or receive messages, one after another."""
        for message in messages:
            try:
                self._run([message], self._options).wait()
            except RuntimeError as error:
                raise translate(
                    error,
                    f"{self._what}: not all processes of the group received in time what {self.name} sends",
                    f"{self._what}: a process of the group has ended, or has given up receiving from {self.name}",
                    "the group",
                ) from error
        return messages
