"""A collection from one process to another: ``send``, ``recv``, ``isend``, ``irecv``.

The small tensors go as one message (:mod:`.staging`), with a head of 16 bytes and what there is of non-tensor data.
Large ones (:data:`~.staging.LARGE`) go as messages of their own behind it, without a copy. All of them begin at once.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.consolidated import flat_of, joined
from tensorclass.td.objects import CPU

from .faults import WorkerError
from .groups import as_timeout
from .layout import Layout, Part, Taken, named, objects_text, read_objects, space, taken
from .link import Link, Turn, link_of, peer_of
from .routes import Route, route_of
from .staging import LARGE, Pool, Staging

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_HEAD = 16  #: bytes: the digest, and how long the text of non-tensor data is
_INLINE = 496  #: bytes of that text which fit into the first message

_pool = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.begin_anew)
_MOST_ROUTES = 16  #: that are kept, a group


class Plan:
    """How the messages of a layout are made."""

    __slots__ = ("device", "forms", "head", "large", "mark", "small")

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.device: torch.device = device
        sizes = [part.nbytes for part in layout.parts]
        self.small: list[int] = [at for at, size in enumerate(sizes) if size < LARGE]
        self.large: list[int] = [at for at, size in enumerate(sizes) if size >= LARGE]
        self.forms: list[tuple[torch.dtype, Size]] = [
            (layout.parts[at].dtype, layout.parts[at].shape) for at in self.small
        ]
        self.head: int = _HEAD + (_INLINE if layout.objects else 0)
        self.mark: bytes = layout.digest.to_bytes(8, "little")

    def staging(self) -> Staging:
        """Memory for the first message."""
        return _pool.take(self, self._made)

    def _made(self) -> Staging:
        return Staging(self.head, self.forms, self.device)


def plan_of(layout: Layout, device: torch.device) -> Plan:
    """The plan of a layout, which is made once."""
    found: Plan | None = layout.plans.get(device)
    if found is None:
        found = layout.plans[device] = Plan(layout, device)
    return found


class Transfer:
    """A collection that is on its way: what ``isend(return_early=True)`` and ``irecv(return_premature=True)`` give.

    ``wait()`` has to be called in any case. Until then a collection that is sent must not be written to, and one
    that receives does not have its values.
    """

    __slots__ = ("_error", "_finish", "_keep", "_over", "_turn", "_works", "count")

    def __init__(
        self, turn: Turn, works: list[Any], finish: Callable[[float | None], None], keep: Any, count: int
    ) -> None:
        self._turn: Turn = turn
        self._works: list[Any] = works
        self._finish = finish
        self._keep: Any = keep
        #: how many tensors
        self.count: int = count
        self._over: bool = False
        self._error: BaseException | None = None

    def is_completed(self) -> bool:
        """Whether ``wait()`` has come back. Before, nobody knows."""
        return self._over

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Waits until the collection has been sent, or received and written.

        Args:
            timeout: how long at most, in seconds; by default the time-out of the group.

        Returns:
            ``True``.

        Raises:
            RecordsDiffer: the other side has another record. On both sides, and nothing was written.
            WorkerTimeout: the other side did not come in time. It is a TimeoutError.
            WorkerDied: the other side is gone.
        """
        if self._error is not None:
            raise self._error
        if self._over:
            return True
        limit = as_timeout(timeout, self._turn.what)
        seconds = None if limit is None else limit.total_seconds()
        end = None if seconds is None else time.monotonic() + seconds
        turn = self._turn
        try:
            turn.agree(end)
            for at, work in enumerate(self._works):
                turn.wait(work() if callable(work) else work, end, seconds)
                if not at:
                    turn.end()
            self._finish(end)
        except BaseException as error:
            turn.stop()
            self._error = error
            raise
        finally:
            self._keep = None
            self._works = []
        self._over = True
        return True


# ---------------------------------------------------------------------------------------------------------------------
# the two sides


def begin_send(
    data: Any, what: str, dst: int | None, group: ProcessGroup | None, group_dst: int | None,
    init_tag: int, consolidated: bool, allow_pickle: bool, key: Any = None,
) -> Transfer:  # fmt: skip
    """Begins to send a collection."""
    pg, link = link_of(group, what)
    peer = peer_of(link, dst, group, group_dst, what, "dst")
    found = _consolidated(data if _is_flat(data) else data.consolidate(), what) if consolidated else taken(data)
    layout, tensors = found.layout, found.tensors
    plan = plan_of(layout, link.device)
    text = objects_text(data, layout, what, allow_pickle) if layout.objects else b""
    staging = plan.staging()
    staging.gather(tensors if not plan.large else [tensors[at] for at in plan.small], found.plain)
    if link.device.type == "cpu":
        staging.bytes[:8] = plan.mark
        staging.bytes[8:16] = len(text).to_bytes(8, "little")
        if len(text) <= _INLINE:
            staging.bytes[16 : 16 + len(text)] = text
    beside = text if link.device.type != "cpu" else b""
    turn = Turn(what, pg, link, peer, True, init_tag, layout.digest, layout.entries, staging.size, beside)
    messages = [staging.memory, *[_message(tensors[at], link.device) for at in plan.large]]
    if len(text) > _INLINE and not beside:
        messages.append(_as_bytes(text))

    def finish(end: float | None) -> None:
        _note_route(link, key, data, found, plan, staging, peer)

    return Transfer(turn, _posted(turn, messages), finish, (data, messages), len(layout.parts))


def begin_receive(
    data: Any, what: str, src: int | None, group: ProcessGroup | None, group_src: int | None,
    init_tag: int, consolidated: bool, allow_pickle: bool, key: Any = None,
) -> Transfer:  # fmt: skip
    """Begins to receive into a collection."""
    pg, link = link_of(group, what)
    peer = peer_of(link, src, group, group_src, what, "src")
    found = _consolidated(data, what) if consolidated else taken(data)
    layout, tensors = found.layout, found.tensors
    if not found.plain:
        _check_writable(layout, tensors, what)
    plan = plan_of(layout, link.device)
    staging = plan.staging()
    turn = Turn(what, pg, link, peer, False, init_tag, layout.digest, layout.entries, staging.size)
    targets = [_target(tensors[at], link.device) for at in plan.large]
    boxes = [box for box, _ in targets]

    def finish(end: float | None) -> None:
        write: Callable[[], None] | None = None
        if link.device.type != "cpu":
            text = turn.beside()
        else:
            _check_mark(turn, staging, plan.mark)
            length = int.from_bytes(staging.bytes[8:16], "little")
            text = bytes(staging.bytes[16 : 16 + length]) if length <= _INLINE else b""
            if length > _INLINE:
                more = space(length, torch.uint8, CPU, f"{what}: the record of {turn.name}")
                turn.wait(turn.post(more, 1 + len(boxes)), end)
                text = more.numpy().tobytes()
        if layout.objects:
            write = read_objects(text, data, layout, f"{what}: the record of {turn.name}", allow_pickle)
        staging.scatter(tensors if not plan.large else [tensors[at] for at in plan.small], found.plain)
        with torch.no_grad():
            for box, own in targets:
                if own is not None:
                    own.copy_(box)
        if write is not None:
            write()
        if found.leaves is not None:
            _put_back(data, found.leaves)
        _note_route(link, key, data, found, plan, staging, peer)

    return Transfer(turn, _posted(turn, [staging.memory, *boxes]), finish, (data, boxes), len(layout.parts))


def _check_mark(turn: Turn, staging: Staging, mark: bytes) -> None:
    if staging.bytes[:8] != mark:
        raise WorkerError(
            f"{turn.what}: the message of {turn.name} is none of this record; nothing was written", worker=turn.name
        )


def _posted(turn: Turn, messages: Sequence[Tensor]) -> list[Any]:
    """The messages on their way; where they have no tags, each begins when it is waited for, as both agree first."""
    if turn.link.tagged:
        return [turn.post(message, at) for at, message in enumerate(messages)]

    def later(at: int, message: Tensor) -> Callable[[], Any]:
        return lambda: turn.post(message, at)

    return [later(at, message) for at, message in enumerate(messages)]


def _message(tensor: Tensor, device: torch.device) -> Tensor:
    """What is sent of a large tensor: itself, where its items lie one behind the other."""
    return tensor.detach().to(device).resolve_conj().resolve_neg().contiguous()


def _target(tensor: Tensor, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """What a large tensor is received into, and the tensor that gets a copy of it then."""
    own = tensor.detach()
    if tensor.is_contiguous() and tensor.device == device and not (tensor.is_conj() or tensor.is_neg()):
        return own, None
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=device), own


def _as_bytes(text: bytes) -> Tensor:
    found: Tensor = torch.frombuffer(bytearray(text), dtype=torch.uint8)  # pyright: ignore[reportUnknownMemberType]
    return found


def _check_writable(layout: Layout, tensors: Sequence[Tensor], what: str) -> None:
    for part, tensor in zip(layout.parts, tensors, strict=True):
        if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
            raise RuntimeError(
                f"{what}: {named(part.path)} is expanded: several of its items are one place in memory, which "
                "cannot be written; clone it first. Nothing was received"
            )


def _put_back(data: TensorCollection, parts: Sequence[Tensor]) -> None:
    """Tells a collection that tensors were written into, where it has to know."""
    found, leaves = iter(parts), list[Tensor]()
    for leaf in data._leaves():
        ragged: Any = leaf
        if leaf.is_nested:
            ragged._metadata_cache.clear()  # the lengths of rows are others now
        leaves.append(joined(leaf, found))
    data._put_leaves(iter(leaves))


# ---------------------------------------------------------------------------------------------------------------------
# consolidated collections


def _is_flat(data: TensorCollection) -> bool:
    return flat_of(data._leaves()) is not None


def _consolidated(data: TensorCollection, what: str) -> Taken:
    """A consolidated collection as the one tensor of its memory."""
    flat = flat_of(data._leaves())
    if flat is None:
        if not any(leaf.numel() for leaf in data._leaves()):
            return taken(data)  # there is no memory
        raise RuntimeError(
            f"{what}: with consolidated=True the collection must be consolidated: its tensors lie one behind the "
            "other in one piece of memory, as consolidate() and from_remote_init give it"
        )
    layout, tensors, *_ = taken(data)
    starts = tuple([int(tensor.storage_offset()) * tensor.dtype.itemsize for tensor in tensors])
    size = max([start + part.nbytes for start, part in zip(starts, layout.parts, strict=True)])
    whole: Layout | None = layout.plans.get(starts)
    if whole is None:
        entries = dict(layout.entries)
        for part, start in zip(layout.parts, starts, strict=True):
            entries[named(part.path)] += f"{f', {part.part}' if part.part else ''} at byte {start}"
        memory = Part((), "", torch.uint8, Size([size]), 0)
        whole = layout.plans[starts] = Layout([memory], entries, layout.objects)
    return Taken(whole, [flat.memory[:size]], flat.memory.is_cpu, None, tensors)


# ---------------------------------------------------------------------------------------------------------------------
# what users call


def last_tag(count: int, init_tag: int, pseudo_rand: bool) -> int:
    """The tag of the last tensor, were each a message of its own: what calls give, to count on from."""
    return init_tag + max(count - 1, 0) if not pseudo_rand else (_scattered(init_tag) + count) % 2**31


def _scattered(init_tag: int) -> int:
    """A number that is far from those of other tags.

    >>> [_scattered(tag) for tag in range(3)]
    [306774810, 60181118, 163865595]
    """
    return int.from_bytes(hashlib.blake2b(str(init_tag).encode(), digest_size=4).digest(), "little") >> 1


def tag_of(init_tag: int, pseudo_rand: bool) -> int:
    """What tells messages apart that are on their way at the same time."""
    if not isinstance(init_tag, int):
        raise TypeError(f"init_tag: expected an int, got {init_tag!r}")
    return -1 - _scattered(init_tag) if pseudo_rand else init_tag


def send(
    data: Any,
    dst: int | None = None,
    *,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
    init_tag: int = 0,
    pseudo_rand: bool = False,
    consolidated: bool = False,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> None:
    """See :meth:`TensorDict.send`."""
    _send(data, "send", dst, group, group_dst, init_tag, pseudo_rand, consolidated, timeout, allow_pickle)


def recv(
    data: Any,
    src: int | None = None,
    *,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
    init_tag: int = 0,
    pseudo_rand: bool = False,
    consolidated: bool = False,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> int:
    """See :meth:`TensorDict.recv`."""
    return _recv(data, "recv", src, group, group_src, init_tag, pseudo_rand, consolidated, timeout, allow_pickle)


def isend(
    data: Any,
    dst: int | None = None,
    *,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
    init_tag: int = 0,
    pseudo_rand: bool = False,
    return_early: bool = False,
    consolidated: bool = False,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> int | list[Transfer]:
    """See :meth:`TensorDict.isend`."""
    if return_early:
        if timeout is not None:
            raise ValueError("isend: with return_early=True nothing is waited for: give timeout to wait()")
        tag = tag_of(init_tag, pseudo_rand)
        return [begin_send(data, "isend", dst, group, group_dst, tag, consolidated, allow_pickle)]
    return _send(data, "isend", dst, group, group_dst, init_tag, pseudo_rand, consolidated, timeout, allow_pickle)


def irecv(
    data: Any,
    src: int | None = None,
    *,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
    return_premature: bool = False,
    init_tag: int = 0,
    pseudo_rand: bool = False,
    consolidated: bool = False,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> list[Transfer] | None:
    """See :meth:`TensorDict.irecv`."""
    if return_premature:
        if timeout is not None:
            raise ValueError("irecv: with return_premature=True nothing is waited for: give timeout to wait()")
        tag = tag_of(init_tag, pseudo_rand)
        return [begin_receive(data, "irecv", src, group, group_src, tag, consolidated, allow_pickle)]
    _recv(data, "irecv", src, group, group_src, init_tag, pseudo_rand, consolidated, timeout, allow_pickle)
    return None


def _send(
    data: Any, what: str, dst: int | None, group: ProcessGroup | None, group_dst: int | None, init_tag: int,
    pseudo_rand: bool, consolidated: bool, timeout: float | timedelta | None, allow_pickle: bool,
) -> int:  # fmt: skip
    """Send a collection and wait. Return the last tag."""
    limit = None if timeout is None else as_timeout(timeout, what)
    pg, link = link_of(group, what)
    key = "send", id(data), dst, group_dst, init_tag, pseudo_rand, consolidated
    route = link.routes.get(key)
    if isinstance(route, Route):
        tensors, staging = route.tensors_of(data), route.take()
        if tensors is not None and staging is not None:
            layout = route.layout
            staging.gather(tensors, True)
            staging.bytes[:16] = route.mark
            tag = init_tag if not pseudo_rand else tag_of(init_tag, True)
            turn = Turn(what, pg, link, route.peer, True, tag, layout.digest, layout.entries, staging.size)
            turn.exchange(staging.memory, limit)
            route.give(staging)
            return last_tag(len(tensors), init_tag, pseudo_rand)
    transfer = begin_send(
        data, what, dst, group, group_dst, tag_of(init_tag, pseudo_rand), consolidated, allow_pickle, key
    )
    transfer.wait(limit)
    return last_tag(transfer.count, init_tag, pseudo_rand)


def _recv(
    data: Any, what: str, src: int | None, group: ProcessGroup | None, group_src: int | None, init_tag: int,
    pseudo_rand: bool, consolidated: bool, timeout: float | timedelta | None, allow_pickle: bool,
) -> int:  # fmt: skip
    """Receive into a collection and wait. Return the last tag."""
    limit = None if timeout is None else as_timeout(timeout, what)
    pg, link = link_of(group, what)
    key = "recv", id(data), src, group_src, init_tag, pseudo_rand, consolidated
    route = link.routes.get(key)
    if isinstance(route, Route):
        tensors, staging = route.tensors_of(data), route.take()
        if tensors is not None and staging is not None:
            layout = route.layout
            tag = init_tag if not pseudo_rand else tag_of(init_tag, True)
            staging.aim(tensors)
            turn = Turn(what, pg, link, route.peer, False, tag, layout.digest, layout.entries, staging.size)
            turn.exchange(staging.memory, limit)
            _check_mark(turn, staging, route.mark[:8])
            staging.scatter_aimed(tensors)
            route.give(staging)
            return last_tag(len(tensors), init_tag, pseudo_rand)
    transfer = begin_receive(
        data, what, src, group, group_src, tag_of(init_tag, pseudo_rand), consolidated, allow_pickle, key
    )
    transfer.wait(limit)
    return last_tag(transfer.count, init_tag, pseudo_rand)


def _note_route(link: Link, key: Any, data: Any, found: Taken, plan: Plan, staging: Staging, peer: int) -> None:
    """Keeps a route where a record goes the same way for the second time; else the memory is free again."""
    if key is not None and link.tagged and not plan.large:
        if key in link.routes:
            route = route_of(data, found, staging, peer)
            if route is not None:
                link.routes[key] = route
                return
        else:
            while len(link.routes) >= _MOST_ROUTES:
                del link.routes[next(iter(link.routes))]
            link.routes[key] = None
    _pool.give(plan, staging)
