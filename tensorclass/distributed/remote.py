"""A collection to a process that does not know what it looks like: ``init_remote`` and ``from_remote_init``.

There are three messages: a head of a size that both know, with the lengths of the others and the text where that is
short; the text, JSON as files have it, where it is long; and the memory of the tensors, one behind the other.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from torch.distributed import distributed_c10d as c10d

from tensorclass.storage import sealing, tree
from tensorclass.storage.tree import FileError, Source, as_list
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.consolidated import flat_of, view

from .groups import as_timeout, settle
from .layout import space
from .link import Link, Turn, failure, link_of, peer_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_HEAD = 4096  #: bytes of the first message
_WORDS = 24  #: bytes of it that are numbers: which message this is, the lengths of the text and of the memory
_ENTRIES = {"the whole collection": "from init_remote to from_remote_init"}
_DIGEST = int.from_bytes(hashlib.blake2b(json.dumps(_ENTRIES).encode(), digest_size=8).digest(), "little")
_MARK = _DIGEST.to_bytes(8, "little")


def init_remote(
    data: Any,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: DeviceLike | None = None,
    use_broadcast: bool = False,
    *,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> None:
    """See :meth:`TensorDict.init_remote`."""
    what = "init_remote"
    limit = as_timeout(timeout, what)
    pg, link = link_of(group, what, as_device(device))
    if use_broadcast and dst is not None:
        raise ValueError(f"{what}: with use_broadcast=True all processes of the group receive; dst names one")
    if not use_broadcast and dst is None:
        raise ValueError(f"{what}: name the other side by dst, or send it to all others with use_broadcast=True")
    peer = None if use_broadcast else peer_of(link, dst, group, None, what, "dst")
    text, memory = _written(data, what, allow_pickle)
    head = bytearray(_HEAD)
    head[:_WORDS] = _MARK + len(text).to_bytes(8, "little") + len(memory).to_bytes(8, "little")
    short = len(text) <= _HEAD - _WORDS
    if short:
        head[_WORDS : _WORDS + len(text)] = text
    messages = [_tensor(head), *([] if short else [_tensor(text)]), *([memory] if len(memory) else [])]
    messages = [message.to(link.device) for message in messages]
    way = _Broadcast(what, pg, link, link.rank, limit) if peer is None else _Way(what, pg, link, peer, True, limit)
    way.move(messages)


def from_remote_init(
    cls: Any,
    src: int,
    group: ProcessGroup | None = None,
    device: DeviceLike | None = None,
    use_broadcast: bool = False,
    *,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> Any:
    """See :meth:`TensorDict.from_remote_init`."""
    what = "from_remote_init"
    limit = as_timeout(timeout, what)
    target = as_device(device)
    pg, link = link_of(group, what)
    if target is not None and target.type in {found.type for found in getattr(pg, "_device_types", ())}:
        pg, link = link_of(group, what, target)
    peer = peer_of(link, src, group, None, what, "src")
    way = _Broadcast(what, pg, link, peer, limit) if use_broadcast else _Way(what, pg, link, peer, False, limit)
    (box,) = way.move([torch.empty(_HEAD, dtype=torch.uint8, device=link.device)])
    head = _bytes(box)
    if head[:8] != _MARK:
        raise FileError(f"{what}: the message of {way.name} is none of init_remote")
    length, size = int.from_bytes(head[8:16], "little"), int.from_bytes(head[16:24], "little")
    short = length <= _HEAD - _WORDS
    sizes = ([] if short else [length]) + ([size] if size else [])
    origin = f"{what}: the record of {way.name}"
    try:
        boxes = [space(count, torch.uint8, link.device, origin) for count in sizes]
    except FileError:
        way.leave()
        raise
    rest = way.move(boxes)
    text = head[_WORDS : _WORDS + length] if short else _bytes(rest[0])
    memory = rest[-1] if size else torch.empty(0, dtype=torch.uint8, device=link.device)
    if target is not None:
        memory = memory.to(target)
    return _read(text, memory, cls, origin, target, allow_pickle)


# ---------------------------------------------------------------------------------------------------------------------
# what is said of a collection


def _written(data: Any, what: str, allow_pickle: bool) -> tuple[bytes, Tensor]:
    """All of a collection: as a text, and the memory of its tensors."""
    node, leaves = tree.describe(data, what, allow_pickle)
    flat = flat_of(data._leaves())
    if flat is None and leaves:
        flat = flat_of(data.consolidate()._leaves())
    if flat is None:  # there are no values, as far as there are tensors
        starts, memory = [0] * len(leaves), torch.empty(0, dtype=torch.uint8, device="cpu")
    else:
        starts, memory = [place[2] for place in flat.places], flat.memory
    text = json.dumps({"tree": node, "starts": starts}, allow_nan=False, separators=(",", ":"))
    return text.encode(), memory


def _read(
    text: bytes, memory: Tensor, cls: Any, origin: str, device: torch.device | None, allow_pickle: bool
) -> Any:  # fmt: skip
    known = sealing.parse_json(text, origin)
    node, starts = known.get("tree"), as_list(known.get("starts"))
    keys = [(path, part) for path, part, _ in tree.tensor_nodes(node)]
    if starts is None or len(starts) != len(keys):
        raise FileError(f"{origin}: what it says of itself is damaged")
    places = dict(zip(keys, starts, strict=True))
    spans = tree.Spans(origin)

    def read(path: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        start, count = places.get((path, part)), shape.numel() * dtype.itemsize
        if type(start) is not int or not 0 <= start <= start + count <= len(memory):
            raise FileError(f"{origin}: {'.'.join(path)}: its values were not sent")
        spans.add(start, start + count, path)
        return view(memory, dtype, shape, start)

    received = tree.rebuild(node, cls, Source(origin, read, device, allow_pickle))
    spans.check()
    return received


def _tensor(text: bytes | bytearray) -> Tensor:
    found: Tensor = torch.frombuffer(bytearray(text), dtype=torch.uint8)  # pyright: ignore[reportUnknownMemberType]
    return found


def _bytes(tensor: Tensor) -> bytes:
    return tensor.cpu().numpy().tobytes()


# ---------------------------------------------------------------------------------------------------------------------
# how messages go


class _Way:
    """Messages to one process, or from one."""

    def __init__(
        self, what: str, group: Any, link: Link, peer: int, sends: bool, limit: timedelta | None
    ) -> None:  # fmt: skip
        self._turn = Turn(what, group, link, peer, sends, 0, _DIGEST, _ENTRIES, _HEAD)
        self._seconds: float | None = None if limit is None else limit.total_seconds()
        self._end: float | None = None if self._seconds is None else time.monotonic() + self._seconds
        self._count: int = 0
        self.name: str = self._turn.name

    def move(self, messages: list[Tensor]) -> list[Tensor]:
        """Sends messages, or receives them; all at the same time."""
        turn = self._turn
        try:
            if not self._count:
                turn.agree(self._end)
            works = [turn.post(message, self._count + at) for at, message in enumerate(messages)]
            for work in works:
                turn.wait(work, self._end, self._seconds)
                if not self._count:
                    turn.end()
                self._count += 1
        except BaseException:
            turn.stop()
            raise
        return messages

    def leave(self) -> None:
        """Ends this: the rest is not received."""
        self._turn.stop()


class _Broadcast:
    """Messages of one process to all others of the group."""

    def __init__(self, what: str, group: Any, link: Link, root: int, limit: timedelta | None) -> None:
        settle(group)
        self._what = what
        self._options: Any = c10d.BroadcastOptions()
        self._options.rootRank, self._options.rootTensor = root, 0
        if limit is not None:
            self._options.timeout = limit
        self._run: Callable[..., Any] = group.broadcast
        self.name: str = f"rank {link.ranks[root]}"

    def move(self, messages: list[Tensor]) -> list[Tensor]:
        """Sends messages, or receives them."""
        for message in messages:
            try:
                self._run([message], self._options).wait()
            except RuntimeError as error:
                raise failure(
                    error,
                    f"{self._what}: not all processes of the group took part in time in what {self.name} sends",
                    f"{self._what}: a process of the group has ended, or has given up, in what {self.name} sends",
                    "the group",
                ) from error
        return messages

    def leave(self) -> None:
        """Ends this: the rest is not received."""
