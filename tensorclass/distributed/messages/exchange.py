"""Messages between two processes of a group, and how both notice that they expect different records.

Gloo delivers a message only when the receiver has asked for one with the same tag. The tag is computed from the digest
of the record, ``init_tag``, and the number of earlier messages. If both sides expect the same, the first message has
the values and nothing else is sent. If they differ, so do the tags, and neither message moves. A side that has waited
for :data:`PATIENCE` seconds writes a note about its record into the store of the group, and looks for the note of the
other side. When both notes are there and differ, each side releases the pending message of the other with a dummy, and
both raise an error. The group stays usable.

Backends without tags (NCCL) cannot hold messages back. There both sides exchange notes before each message.

Gloo notices at once when a process dies, because its connections close. A process that hangs is noticed when the
time-out is over; gloo then closes all connections of the group in this process.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import weakref
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Backend
from torch.distributed import distributed_c10d as c10d

from tensorclass.distributed.process_groups import NO_GROUP, device_of, rank_within
from tensorclass.distributed.worker_errors import (
    GROUP_IS_BROKEN,
    WorkerDied,
    WorkerError,
    WorkerTimeout,
    error_class_of,
    records_differ,
)
from tensorclass.storage.common import collection_tree, sealed_json
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.printable import type_name

from .record_layout import differences

#: seconds that a message may take before the store of the group is asked about it
PATIENCE = 0.1
_DEFAULT_TIMEOUT = timedelta(minutes=30)  #: of backends that do not report theirs
_GROUPS = (dist.ProcessGroup, Backend)  #: a backend need not be registered
_LONGEST_PAUSE = 1.0  #: seconds between two looks into the store
_IDLE_SECONDS = 5.0  #: how long the watching thread stays awake without messages
_NO_NOTE = "-"  #: a value that no note has, as notes are JSON objects
_TAG_BIT = 2**30  #: set in our tags, so that they differ from those of the program's own messages
#: values of init_tag between two processes for which messages are counted. The least recently used is forgotten, which
#: is the same on both sides
_MOST_TAGS = 2**14


class Endpoint:
    """State of a group for messages between two processes. Does not keep the group alive.

    Attributes:
        ranks: ranks in the world, or in the group if it is not registered.
        rank: rank of this process in the group.
        device: device of message buffers.
        tagged: whether messages wait for one with the same tag.
    """

    __slots__ = ("counts", "device", "rank", "ranks", "registered", "store", "tagged", "timeout")

    def __init__(self, group: Any, device: torch.device | None) -> None:
        self.rank: int = group.rank()
        self.registered: bool = isinstance(group, dist.ProcessGroup) and group in c10d._world.pg_map
        self.ranks: list[int] = dist.get_process_group_ranks(group) if self.registered else list(range(group.size()))
        self.device: torch.device = device_of(group, device)
        backend: Any = group._get_backend(self.device) if self.registered else group
        self.tagged: bool = backend.name() == "gloo"
        if self.tagged:
            self.device = torch.device("cpu")
        limit: timedelta = getattr(getattr(backend, "options", None), "_timeout", _DEFAULT_TIMEOUT)
        self.timeout: float = limit.total_seconds()
        self.store: Any = group.get_group_store() if self.registered else None
        if not self.tagged and self.store is None:
            raise ValueError("a group of this backend must be registered: make it with torch.distributed.new_group")
        self.counts: dict[tuple[bool, int], dict[int, int]] = {}

    def next(self, sends: bool, peer: int, init_tag: int) -> int:
        """Count a message. Return how many there were before."""
        counts = self.counts.get((sends, peer))
        if counts is None:
            counts = self.counts.setdefault((sends, peer), {})
        number = counts.pop(init_tag, 0)
        counts[init_tag] = number + 1
        if len(counts) > _MOST_TAGS:
            del counts[next(iter(counts))]
        return number


#: the endpoint of the last call, as most programs use one group
_latest: tuple[weakref.ref[Any], Endpoint] | None = None
_endpoints: weakref.WeakKeyDictionary[Any, dict[str, Endpoint]] = weakref.WeakKeyDictionary()


def endpoint_of(group: Any, what: str, device: torch.device | None = None) -> tuple[Any, Endpoint]:
    """Return a group (the default group for ``None``) and its endpoint.

    Raises:
        ValueError: there is no default group yet, or this process is not in the group.
        TypeError: ``group`` is not a process group.
    """
    global _latest
    pg: Any = c10d._get_default_group() if group is None else group
    if device is None and _latest is not None and _latest[0]() is pg:
        return pg, _latest[1]
    endpoints = _endpoints.get(pg) if isinstance(pg, _GROUPS) else None
    if endpoints is None:
        if pg is not dist.GroupMember.NON_GROUP_MEMBER and not isinstance(pg, _GROUPS):
            raise TypeError(f"{what}: group: {NO_GROUP}, got a {type_name(pg)}")
        if pg is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(f"{what}: this process is not in the group")
        endpoints = _endpoints[pg] = {}
    name = device.type if device is not None else ""
    endpoint = endpoints.get(name)
    if endpoint is None:
        endpoint = Endpoint(pg, device)
        # one endpoint for all device names of a backend
        endpoint = endpoints[name] = endpoints.setdefault(f"memory: {endpoint.device}", endpoint)
    if device is None:
        _latest = weakref.ref(pg), endpoint
    return pg, endpoint


def peer_of(endpoint: Endpoint, rank: int | None, group: Any, group_rank: int | None, what: str, name: str) -> int:
    """Return the rank of the other side in the group.

    Raises:
        ValueError: not exactly one rank is given, it is not in the group, or it is this process.
    """
    if (rank is None) == (group_rank is None):
        raise ValueError(f"{what}: name the other side by {name} or by group_{name}; exactly one of them")
    if group_rank is not None:
        if group is None:
            raise ValueError(f"{what}: group_{name} is a rank within a group: give group= as well")
        peer = group_rank
        if not 0 <= peer < len(endpoint.ranks):
            raise ValueError(f"{what}: group_{name}: expected one of the {len(endpoint.ranks)} ranks, got {group_rank}")
    else:
        peer = rank_within(endpoint.ranks, rank, what, name)
    if peer == endpoint.rank:
        raise ValueError(f"{what}: {name}: a process cannot send to itself; this is rank {endpoint.ranks[peer]}")
    return peer


class Exchange:
    """One message, or several that belong together, as one side sees them.

    Args:
        what: the operation, for error messages.
        group: the group.
        endpoint: its endpoint.
        peer: rank of the other side in the group.
        sends: whether this side sends.
        init_tag: tag of the user, which tells apart messages that are under way at the same time.
        digest: digest of the record, which must be the same on both sides.
        entries: what the digest is computed from, for error messages.
        size: bytes of the first message.
        attachment: sent with the note, on backends without tags.
    """

    __slots__ = (
        "__weakref__", "differing", "digest", "done", "endpoint", "entries", "group", "init_tag", "look_at", "note",
        "number", "pause", "peer", "sends", "size", "tag", "told", "what",
    )  # fmt: skip

    def __init__(
        self, what: str, group: Any, endpoint: Endpoint, peer: int, sends: bool, init_tag: int, digest: int,
        entries: dict[str, str], size: int, attachment: bytes = b"",
    ) -> None:  # fmt: skip
        self.what: str = what
        self.group: Any = group
        self.endpoint: Endpoint = endpoint
        self.peer: int = peer
        self.sends: bool = sends
        self.init_tag: int = init_tag
        self.digest: int = digest
        self.entries: dict[str, str] = entries
        self.size: int = size
        self.number: int = endpoint.next(sends, peer, init_tag)
        self.tag: int = (digest + init_tag * 0x9E3779B1 + self.number * 0x85EBCA6B) % _TAG_BIT
        self.pause: float = PATIENCE
        self.look_at: float = 0.0  # when the watching thread looks next
        self.told: bool = False  # whether our note is in the store
        self.done: bool = False
        self.note: dict[str, Any] | None = None  # of the other side
        self.differing: list[str] | None = None  # differences between the two records
        if endpoint.tagged:
            _watch.add(self)
        else:
            self._tell(attachment=attachment)

    # -- messages -----------------------------------------------------------------------------------------------------

    def post(self, tensor: Tensor, at: int) -> Any:
        """Start to send or receive the message number ``at``."""
        run = self.group.send if self.sends else self.group.recv
        try:
            return run([tensor], self.peer, _TAG_BIT + (self.tag + at * 0xC2B2AE35) % _TAG_BIT)
        except RuntimeError as error:
            self.fail(error, None)

    def wait(self, work: Any, end: float | None, seconds: float | None = None) -> None:
        """Wait for a message.

        Args:
            work: the message.
            end: time of ``time.monotonic()`` until which to wait; ``None`` for the time-out of the group.
            seconds: the time-out, for error messages.

        Raises:
            WorkerTimeout: it did not come in time.
            WorkerDied: the other side is gone.
        """
        try:
            if end is None:
                work.wait()
            else:
                work.wait(timedelta(seconds=max(0.001, end - time.monotonic())))
        except RuntimeError as error:
            self.fail(error, seconds)

    def agree(self, end: float | None) -> None:
        """On backends without tags, wait for the note of the other side and compare.

        Raises:
            RecordsDiffer: the other side expects another record.
            WorkerTimeout: there was no note in time.
        """
        if self.endpoint.tagged:
            return
        end, pause = end or time.monotonic() + self.endpoint.timeout, 5e-5
        try:
            while not self._read_note():
                if time.monotonic() > end:
                    self._tell(gone="it had given up, as its time was up")
                    raise WorkerTimeout(self._late(None), worker=self.name)
                time.sleep(pause)
                pause = min(pause * 1.5, 0.01)
            self.endpoint.store.delete_key(self._key(not self.sends))
        except RuntimeError as error:
            if isinstance(error, WorkerError):
                raise
            raise WorkerDied(
                f"{self.what}: the store of the group does not answer ({error})", worker="the store"
            ) from error
        self._compare()
        self._raise()

    def end(self) -> None:
        """Note that the first message has come, and check that it was not a dummy.

        Raises:
            RecordsDiffer: it was a dummy: the other side expects another record.
        """
        self.done = True
        if self.endpoint.tagged:
            _watch.remove(self)
            if self.told:
                with _watch.lock:
                    self._remove_note()
            if self.differing:
                self._raise()

    def _remove_note(self) -> None:
        try:
            self._release()
            self.endpoint.store.delete_key(self._key(self.sends))
        except RuntimeError:  # the store is gone, but the message came
            pass

    def stop(self) -> None:
        """Give up, because something else failed."""
        self.done = True
        _watch.remove(self)

    # -- notes in the store -------------------------------------------------------------------------------------------

    def _key(self, sends: bool) -> str:
        ends = (self.endpoint.rank, self.peer) if self.sends else (self.peer, self.endpoint.rank)
        side = "send" if sends else "recv"
        return f"tensorclass/{ends[0]}>{ends[1]}/{self.init_tag}/{self.number}/{side}"

    def _tell(self, gone: str = "", attachment: bytes = b"") -> None:
        note = {
            "digest": self.digest, "tag": self.tag, "size": self.size, "entries": self.entries, "gone": gone,
            "beside": attachment.decode(),
        }  # fmt: skip
        self.told = True
        self.endpoint.store.set(self._key(self.sends), json.dumps(note))

    def _read_note(self) -> bool:
        """Read the note of the other side. Return whether there is one.

        Both sides delete their notes when the message has come. ``get`` on a key that was deleted after ``check`` waits
        until the store times out, and blocks the store's connection meanwhile. ``compare_set`` with a value that no
        note has reads without waiting.
        """
        text: bytes = self.endpoint.store.compare_set(self._key(not self.sends), _NO_NOTE, _NO_NOTE)
        if text == _NO_NOTE.encode():
            return False
        self.note = _parse_note(text, f"{self.what}: the note of {self.name}")
        return True

    def attachment(self) -> bytes:
        """Return the attachment of the other side's note."""
        text: str = (self.note or {}).get("beside", "")
        return text.encode()

    def _compare(self) -> None:
        note = self.note or {}
        if note["gone"]:
            raise WorkerDied(f"{self.what}: {self.name} does not take part: {note['gone']}", worker=self.name)
        if note["digest"] != self.digest:
            ranks = self.endpoint.ranks
            sides = [(ranks[self.endpoint.rank], self.entries), (ranks[self.peer], note["entries"])]
            (one, entries), (other, others) = sorted(sides, key=lambda side: side[0])  # the same list on both sides
            self.differing = differences(entries, others, f"rank {one}", f"rank {other}") or ["the digests"]

    def look(self) -> None:
        """Exchange notes about a message that takes long. Called by the watching thread."""
        if not self.told:
            self._tell()
        self._release()

    def _release(self) -> None:
        """Compare the notes of both sides. If they differ, unblock the other side: send or receive a dummy message."""
        if self.differing is not None or not self._read_note():
            return
        self._compare()
        if self.differing:
            note: dict[str, Any] = self.note or {}
            dummy = torch.zeros(note["size"], dtype=torch.uint8, device="cpu")
            run = self.group.send if self.sends else self.group.recv
            run([dummy], self.peer, _TAG_BIT + note["tag"]).wait()

    # -- errors -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the other side, for error messages."""
        return f"rank {self.endpoint.ranks[self.peer]}"

    def _raise(self) -> None:
        if self.differing:
            raise records_differ(f"{self.what}: the two sides do not have the same record", self.differing)

    def _late(self, seconds: float | None) -> str:
        verb = "taken" if self.sends else "sent"
        begun = (
            "It had begun to" if self.note is not None
            else f"It has not called {'recv' if self.sends else 'send'} for it (init_tag={self.init_tag})"
        )  # fmt: skip
        within = f" within {seconds:g} s" if seconds else " in time"
        return f"{self.what}: {self.name} has not {verb} the record{within}. {begun}"

    def fail(self, error: RuntimeError, seconds: float | None) -> NoReturn:
        """Raise the error for a message that did not come, with the name of the other side."""
        self.stop()
        raise translate(
            error, self._late(seconds), f"{self.what}: the connection to {self.name} has ended", self.name
        ) from error


def _parse_note(text: bytes, origin: str) -> dict[str, Any]:
    """Parse and check the note of the other side about its record."""
    note = sealed_json.parse_json(text, origin)
    entries = collection_tree.as_dict(note.get("entries"))
    if (
        any(type(note.get(name)) is not int for name in ("digest", "tag", "size"))
        or any(type(note.get(name)) is not str for name in ("gone", "beside"))
        or entries is None
        or any(type(entry) is not str for entry in entries.values())
        or not 0 <= note["size"] < 2**62
    ):
        raise FileError(f"{origin} is damaged, or of another version of this package")
    return note


def translate(error: RuntimeError, late: str, gone: str, who: str) -> RuntimeError:
    """Return the error to raise for an error of a backend.

    Args:
        error: the error of the backend.
        late: message if it is a time-out.
        gone: message if a process has ended.
        who: the other side.
    """
    error_class = error_class_of(error)
    if error_class is WorkerTimeout:
        return WorkerTimeout(f"{late}. {GROUP_IS_BROKEN}", worker=who)
    if error_class is WorkerDied:
        why = re.sub(r"^\[\S*\] ", "", str(error).splitlines()[0]).partition(". This is")[0][-120:]
        return WorkerDied(
            f"{gone}: its process did, or one of the two had given up ({why}). {GROUP_IS_BROKEN}", worker=who
        )
    return error


class _Watch:
    """A thread that exchanges notes about messages that take long."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all, as a forked process must: it does not inherit the thread."""
        self.lock: threading.Lock = threading.Lock()
        self._exchanges: dict[int, weakref.ref[Exchange]] = {}
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, exchange: Exchange) -> None:
        """Watch an exchange until it ends or is garbage."""
        if exchange.endpoint.store is None:
            return
        exchange.look_at = time.monotonic() + PATIENCE
        self._exchanges[id(exchange)] = weakref.ref(exchange)
        if not self._awake.is_set():
            self._start()

    def _start(self) -> None:
        with self.lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tensorclass messages", daemon=True)
                self._thread.start()
            self._awake.set()

    def remove(self, exchange: Exchange) -> None:
        """Stop watching an exchange."""
        self._exchanges.pop(id(exchange), None)

    def _run(self) -> None:
        idle = 0.0
        while True:
            self._awake.wait()
            time.sleep(PATIENCE / 2)
            idle = 0.0 if self._look_at_all() else idle + PATIENCE / 2
            if idle > _IDLE_SECONDS:
                self._awake.clear()
                if self._exchanges:
                    self._awake.set()
                idle = 0.0

    def _look_at_all(self) -> bool:
        """Look at all exchanges that are due. Return whether there are any exchanges."""
        now, any_left = time.monotonic(), False
        for key, ref in list(self._exchanges.items()):
            exchange = ref()
            if exchange is None:
                if self._exchanges.get(key) is ref:
                    self._exchanges.pop(key, None)
                continue
            any_left = True
            if exchange.look_at <= now and not exchange.done:
                self._look(exchange, now)
        return any_left

    def _look(self, exchange: Exchange, now: float) -> None:
        with self.lock:
            if exchange.done:
                return
            exchange.pause = min(exchange.pause * 1.5, _LONGEST_PAUSE)
            exchange.look_at = now + exchange.pause
            try:
                exchange.look()
            except Exception:
                # the store or the connection is gone; whoever waits for the message gets an error
                exchange.look_at = now + 10 * _LONGEST_PAUSE


_watch = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.reset)
