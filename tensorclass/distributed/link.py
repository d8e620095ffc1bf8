"""Messages between two processes of a group, and how both learn that they do not mean the same.

Gloo gives a message away only when the other side has begun to receive one with the same tag. So the tag of a message
is made of the form of the record, of ``init_tag``, and of how many messages there were before: where both sides mean
the same, the first message is the values, and nothing else goes between them. Where they do not, the tags differ, and
none of the two moves. A side that has waited for a while (:data:`PATIENCE`) writes what it waits for into the store of
the group, and looks there for what the other side waits for. When both are there and differ, each side knows; it lets
the message of the other end with one that nobody reads, and both raise an error. The group stays whole.

Backends without tags (NCCL) give no such hold. There both sides write and read these notes before each message.

A process that died ends its connections, which gloo sees at once. One that hangs is seen when the time is up; gloo then
closes all connections of the group in this process.
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

from tensorclass.storage import sealing, tree
from tensorclass.storage.tree import FileError

from .faults import BROKEN, RecordsDiffer, WorkerDied, WorkerError, WorkerTimeout, kind_of
from .groups import NO_GROUP, device_of, rank_within
from .layout import differences

#: how long a message is waited for before the store of the group is asked about it, in seconds
PATIENCE = 0.1
_GROUPS = (dist.ProcessGroup, Backend)  #: those of a backend need not be registered
_LONGEST = 1.0  #: between two looks into the store
_REST = 5.0  #: how long the thread that looks stays awake without a message
_TOP = 2**30  #: tags have this bit, so that they are none that a program would give to its own messages
#: values of init_tag between two processes, of which it is known how many messages there were. Those that were not used
#: for longest are forgotten, which are the same on both sides
_MOST_TAGS = 2**14


class Link:
    """What a process remembers of a group for its messages. It does not hold the group.

    Attributes:
        ranks: of the world, or those within the group where it is not registered.
        rank: that of this process within the group.
        device: where the memory of messages is.
        tagged: messages wait for one with the same tag.
    """

    __slots__ = ("counts", "device", "rank", "ranks", "registered", "routes", "store", "tagged", "timeout")

    def __init__(self, group: Any, device: torch.device | None) -> None:
        self.rank: int = group.rank()
        self.registered: bool = isinstance(group, dist.ProcessGroup) and group in c10d._world.pg_map
        self.ranks: list[int] = dist.get_process_group_ranks(group) if self.registered else list(range(group.size()))
        self.device: torch.device = device_of(group, device)
        backend: Any = group._get_backend(self.device) if self.registered else group
        self.tagged: bool = backend.name() == "gloo"
        if self.tagged:
            self.device = torch.device("cpu")
        self.timeout: float = _timeout_of(backend)
        self.store: Any = group.get_group_store() if self.registered else None
        if not self.tagged and self.store is None:
            raise ValueError("a group of this backend must be registered: make it with torch.distributed.new_group")
        self.counts: dict[tuple[bool, int], dict[int, int]] = {}
        self.routes: dict[Any, Any] = {}  #: see :mod:`.routes`

    def next(self, sends: bool, peer: int, init_tag: int) -> int:
        """How many messages there were before."""
        counts = self.counts.get((sends, peer))
        if counts is None:
            counts = self.counts.setdefault((sends, peer), {})
        found = counts.pop(init_tag, 0)
        counts[init_tag] = found + 1
        if len(counts) > _MOST_TAGS:
            del counts[next(iter(counts))]
        return found


def _timeout_of(backend: Any) -> float:
    try:
        found: timedelta = backend.options._timeout
    except AttributeError:
        return 1800.0
    return found.total_seconds()


#: the last one that was asked for, as most programs use one
_latest: tuple[weakref.ref[Any], Link] | None = None
_links: weakref.WeakKeyDictionary[Any, dict[str, Link]] = weakref.WeakKeyDictionary()


def link_of(group: Any, what: str, device: torch.device | None = None) -> tuple[Any, Link]:
    """A group, the default one for ``None``, and what is remembered of it.

    Raises:
        ValueError: there is no default group yet, or this process is not in the group.
        TypeError: it is no group.
    """
    global _latest
    pg: Any = c10d._get_default_group() if group is None else group
    if device is None and _latest is not None and _latest[0]() is pg:
        return pg, _latest[1]
    links = _links.get(pg) if isinstance(pg, _GROUPS) else None
    if links is None:
        if pg is not dist.GroupMember.NON_GROUP_MEMBER and not isinstance(pg, _GROUPS):
            raise TypeError(f"{what}: group: {NO_GROUP}, got a {type(pg).__name__}")
        if pg is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(f"{what}: this process is not in the group")
        links = _links[pg] = {}
    name = device.type if device is not None else ""
    link = links.get(name)
    if link is None:
        link = Link(pg, device)
        link = links[name] = links.setdefault(f"memory: {link.device}", link)  # one for all names of a backend
    if device is None:
        _latest = weakref.ref(pg), link
    return pg, link


def peer_of(link: Link, rank: int | None, group: Any, group_rank: int | None, what: str, name: str) -> int:
    """The other side as a rank within the group.

    Raises:
        ValueError: no rank is named, or two are, or one that is not in the group, or this process.
    """
    if (rank is None) == (group_rank is None):
        raise ValueError(f"{what}: name the other side by {name} or by group_{name}; one of them, and not both")
    if group_rank is not None:
        if group is None:
            raise ValueError(f"{what}: group_{name} is a rank within a group, which group= says")
        found = group_rank
        if not 0 <= found < len(link.ranks):
            raise ValueError(f"{what}: group_{name}: expected one of the {len(link.ranks)} ranks, got {group_rank}")
    else:
        found = rank_within(link.ranks, rank, what, name)
    if found == link.rank:
        raise ValueError(f"{what}: {name}: a process sends nothing to itself; this is rank {link.ranks[found]}")
    return found


class Turn:
    """One message, or several that go together, as one side sees it.

    Args:
        group: the group.
        link: what is remembered of it.
        peer: the other side, within the group.
        sends: this side sends.
        init_tag: what the user gave to tell messages apart.
        digest: of what the message is; both sides must have the same.
        entries: what the digest is of, for errors.
        size: how many bytes the first message has.
        beside: what the note of this side has for the other, where messages have no tags.
    """

    __slots__ = (
        "__weakref__", "answer", "digest", "done", "entries", "group", "init_tag", "link", "look", "number", "pause",
        "peer", "sends", "size", "tag", "told", "what", "wrong",
    )  # fmt: skip

    def __init__(
        self, what: str, group: Any, link: Link, peer: int, sends: bool, init_tag: int, digest: int,
        entries: dict[str, str], size: int, beside: bytes = b"",
    ) -> None:  # fmt: skip
        self.what: str = what
        self.group: Any = group
        self.link: Link = link
        self.peer: int = peer
        self.sends: bool = sends
        self.init_tag: int = init_tag
        self.digest: int = digest
        self.entries: dict[str, str] = entries
        self.size: int = size
        self.number: int = link.next(sends, peer, init_tag)
        self.tag: int = (digest + init_tag * 0x9E3779B1 + self.number * 0x85EBCA6B) % _TOP
        self.pause: float = PATIENCE
        self.look: float = 0.0
        self.told: bool = False  # whether the store of the group has a note
        self.done: bool = False
        self.answer: dict[str, Any] | None = None  # the note of the other side
        self.wrong: list[str] | None = None  # in what the sides differ
        if link.tagged:
            _watch.add(self)
        else:
            self._tell(beside=beside)

    # -- messages -----------------------------------------------------------------------------------------------------

    def post(self, tensor: Tensor, at: int) -> Any:
        """Begins to send or to receive a message of this turn."""
        run = self.group.send if self.sends else self.group.recv
        try:
            return run([tensor], self.peer, _TOP + (self.tag + at * 0xC2B2AE35) % _TOP)
        except RuntimeError as error:
            self.fail(error, None)

    def wait(self, work: Any, end: float | None, seconds: float | None = None) -> None:
        """Waits for a message.

        Args:
            work: the message.
            end: when the time is up, of ``time.monotonic()``; that of the group for ``None``.
            seconds: how long that was in the beginning, for errors.

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

    def exchange(self, tensor: Tensor, limit: timedelta | None) -> None:
        """The one message of a turn, with a tag: begins it, waits for it, and looks whether it was the right one."""
        try:
            if self.sends:
                work = self.group.send([tensor], self.peer, _TOP + self.tag)
            else:
                work = self.group.recv([tensor], self.peer, _TOP + self.tag)
            if limit is None:
                work.wait()
            else:
                work.wait(limit)
        except RuntimeError as error:
            self.fail(error, None if limit is None else limit.total_seconds())
        self.end()

    def agree(self, end: float | None) -> None:
        """Where messages have no tags: waits for the note of the other side, and compares.

        Raises:
            RecordsDiffer: it means something else.
            WorkerTimeout: there was none in time.
        """
        if self.link.tagged:
            return
        end, pause = end or time.monotonic() + self.link.timeout, 5e-5
        try:
            while not self._ask():
                if time.monotonic() > end:
                    self._tell(gone="it had given up, as its time was up")
                    raise WorkerTimeout(self._late(None), worker=self.name)
                time.sleep(pause)
                pause = min(pause * 1.5, 0.01)
            self.link.store.delete_key(self._key(not self.sends))
        except RuntimeError as error:
            if isinstance(error, WorkerError):
                raise
            raise WorkerDied(
                f"{self.what}: the store of the group does not answer ({error})", worker="the store"
            ) from error
        self._compare()
        self._raise()

    def end(self) -> None:
        """Says that the first message has come, and looks whether it was the right one.

        Raises:
            RecordsDiffer: it was none: the other side means something else.
        """
        self.done = True
        if self.link.tagged:
            _watch.remove(self)
            if self.told:
                with _watch.lock:
                    self._settle()
            if self.wrong:
                self._raise()

    def _settle(self) -> None:
        try:
            self._release()
            self.link.store.delete_key(self._key(self.sends))
        except RuntimeError:  # the store has gone, and the message came
            pass

    def stop(self) -> None:
        """Lets go of the turn: something else went wrong."""
        self.done = True
        _watch.remove(self)

    # -- notes --------------------------------------------------------------------------------------------------------

    def _key(self, sends: bool) -> str:
        ends = (self.link.rank, self.peer) if self.sends else (self.peer, self.link.rank)
        side = "send" if sends else "recv"
        return f"tensorclass/{ends[0]}>{ends[1]}/{self.init_tag}/{self.number}/{side}"

    def _tell(self, gone: str = "", beside: bytes = b"") -> None:
        note = {
            "digest": self.digest, "tag": self.tag, "size": self.size, "entries": self.entries, "gone": gone,
            "beside": beside.decode(),
        }  # fmt: skip
        self.told = True
        self.link.store.set(self._key(self.sends), json.dumps(note))

    def _ask(self) -> bool:
        """Whether the other side has a note."""
        key = self._key(not self.sends)
        if not self.link.store.check([key]):
            return False
        self.answer = _answer(self.link.store.get(key), f"{self.what}: the note of {self.name}")
        return True

    def beside(self) -> bytes:
        """What the note of the other side has for this one."""
        found: str = (self.answer or {}).get("beside", "")
        return found.encode()

    def _compare(self) -> None:
        answer = self.answer or {}
        if answer["gone"]:
            raise WorkerDied(f"{self.what}: {self.name} does not take part: {answer['gone']}", worker=self.name)
        if answer["digest"] != self.digest:
            sides = [(self.link.ranks[self.link.rank], self.entries), (self.link.ranks[self.peer], answer["entries"])]
            (one, entries), (other, others) = sorted(sides, key=lambda side: side[0])  # the same list on both sides
            self.wrong = differences(entries, others, f"rank {one}", f"rank {other}") or ["the digests"]

    def look_around(self) -> None:
        """What the thread that watches does with a message that takes long."""
        if not self.told:
            self._tell()
        self._release()

    def _release(self) -> None:
        """Compares the notes of both sides. Where they differ, the other side gets the message that it waits for."""
        if self.wrong is not None or not self._ask():
            return
        self._compare()
        if self.wrong:
            answer: dict[str, Any] = self.answer or {}
            last = torch.zeros(answer["size"], dtype=torch.uint8, device="cpu")
            run = self.group.send if self.sends else self.group.recv
            run([last], self.peer, _TOP + answer["tag"]).wait()

    # -- errors -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The other side, for errors."""
        return f"rank {self.link.ranks[self.peer]}"

    def _raise(self) -> None:
        if self.wrong:
            listed = "; ".join(self.wrong[:20])
            more = f"; and {len(self.wrong) - 20} more" if len(self.wrong) > 20 else ""
            raise RecordsDiffer(
                f"{self.what}: the two sides do not have the same record: {listed}{more}. Nothing was written",
                differences=self.wrong,
            )

    def _late(self, seconds: float | None) -> str:
        verb = "taken" if self.sends else "sent"
        begun = (
            "It had begun to" if self.answer is not None
            else f"It has not called {'recv' if self.sends else 'send'} for it (init_tag={self.init_tag})"
        )  # fmt: skip
        within = f" within {seconds:g} s" if seconds else " in time"
        return f"{self.what}: {self.name} has not {verb} the record{within}. {begun}"

    def fail(self, error: RuntimeError, seconds: float | None) -> NoReturn:
        """Raises the error of a message that did not come, with the name of the other side."""
        self.stop()
        raise failure(
            error, self._late(seconds), f"{self.what}: the connection to {self.name} has ended", self.name
        ) from error


def _answer(text: bytes, origin: str) -> dict[str, Any]:
    """Parse and check the note of the other side about its record."""
    found = sealing.parse_json(text, origin)
    entries = tree.as_dict(found.get("entries"))
    if (
        any(type(found.get(name)) is not int for name in ("digest", "tag", "size"))
        or any(type(found.get(name)) is not str for name in ("gone", "beside"))
        or entries is None
        or any(type(entry) is not str for entry in entries.values())
        or not 0 <= found["size"] < 2**62
    ):
        raise FileError(f"{origin} is damaged, or of another version of this package")
    return found


def failure(error: RuntimeError, late: str, gone: str, who: str) -> RuntimeError:
    """The error to raise for one of a backend: what it means, where that is known.

    Args:
        error: that of the backend.
        late: what to say where the time was up.
        gone: what to say where a process has ended.
        who: who it was.
    """
    kind = kind_of(error)
    if kind is WorkerTimeout:
        return WorkerTimeout(f"{late}. {BROKEN}", worker=who)
    if kind is WorkerDied:
        why = re.sub(r"^\[\S*\] ", "", str(error).splitlines()[0]).partition(". This is")[0][-120:]
        return WorkerDied(f"{gone}: its process did, or one of the two had given up ({why}). {BROKEN}", worker=who)
    return error


class _Watch:
    """A thread that looks after messages that take long."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """As there is no thread in a process that was forked."""
        self.lock: threading.Lock = threading.Lock()
        self._turns: dict[int, weakref.ref[Turn]] = {}
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, turn: Turn) -> None:
        """Begins to look after a message, until it is over or nobody holds it any more."""
        if turn.link.store is None:
            return
        turn.look = time.monotonic() + PATIENCE
        self._turns[id(turn)] = weakref.ref(turn)
        if not self._awake.is_set():
            self._begin()

    def _begin(self) -> None:
        with self.lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tensorclass messages", daemon=True)
                self._thread.start()
            self._awake.set()

    def remove(self, turn: Turn) -> None:
        """Ends to look after a message."""
        self._turns.pop(id(turn), None)

    def _run(self) -> None:
        idle = 0.0
        while True:
            self._awake.wait()
            time.sleep(PATIENCE / 2)
            idle = 0.0 if self._look_at_all() else idle + PATIENCE / 2
            if idle > _REST:
                self._awake.clear()
                if self._turns:
                    self._awake.set()
                idle = 0.0

    def _look_at_all(self) -> bool:
        """Looks after the messages whose time it is; whether there are any."""
        now, found = time.monotonic(), False
        for key, ref in list(self._turns.items()):
            turn = ref()
            if turn is None:
                if self._turns.get(key) is ref:
                    self._turns.pop(key, None)
                continue
            found = True
            if turn.look <= now and not turn.done:
                self._look(turn, now)
        return found

    def _look(self, turn: Turn, now: float) -> None:
        with self.lock:
            if turn.done:
                return
            turn.pause = min(turn.pause * 1.5, _LONGEST)
            turn.look = now + turn.pause
            try:
                turn.look_around()
            except Exception:
                # the store, or the connection, has gone; who waits for the message will see
                turn.look = now + 10 * _LONGEST


_watch = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.begin_anew)
