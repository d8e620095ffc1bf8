"""State of a group for messages between two processes, and the thread that watches slow ones."""

import gc
import multiprocessing
import time
from datetime import timedelta
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.distributed import RecordsDiffer
from tensorclass.distributed.messages import exchange as link
from tensorclass.distributed.messages.exchange import Endpoint
from tensorclass.distributed.messages.point_to_point import _pool, plan_of
from tensorclass.distributed.messages.record_layout import layout_of
from tests.distributed.processes import group_of


def test_tags_that_are_in_use_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_MOST_TAGS", 4)
    ends = [object.__new__(Endpoint), object.__new__(Endpoint)]
    for end in ends:
        end.counts = {}
    server, client = ends
    for step in range(20):
        for other in range(2, 6):  # the server has other clients, too
            server.next(True, other, step)
        assert server.next(True, 1, 0) == client.next(False, 0, 0) == step  # a tag that is used all the time
        assert server.next(True, 1, 1 + step) == client.next(False, 0, 1 + step) == 0  # and new ones
    assert max(len(counts) for counts in server.counts.values()) == 4


class Untagged:
    """A group of one process whose backend has no tags."""

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    def name(self) -> str:
        return "mpi"


def test_a_backend_without_tags_must_be_registered() -> None:
    with pytest.raises(ValueError, match=r"make it with torch\.distributed\.new_group"):
        Endpoint(Untagged(), torch.device("cpu"))


def differing(rank: int) -> float:
    data = TensorDict({"a": torch.zeros(3 + rank)})
    begin = time.monotonic()
    with pytest.raises(RecordsDiffer):
        data.send(1) if rank == 0 else data.recv(0)
    return time.monotonic() - begin


def nobody_waits(rank: int) -> tuple[bool, int]:
    kept = [record(0.0).irecv(1 - rank, return_premature=True, init_tag=100 + tag) for tag in range(5)]
    began = len(link._watch._exchanges) == 5
    del kept
    gc.collect()
    end = time.monotonic() + 60
    while link._watch._exchanges and time.monotonic() < end:
        time.sleep(link.PATIENCE)
    return began, len(link._watch._exchanges)


def record(value: float) -> TensorDict:
    return TensorDict({"a": torch.full((1000,), value), "b": torch.zeros(2)})


def crossing(rank: int) -> list[float]:
    found: list[float] = []
    for at in range(20):
        mine, theirs = record(2.0 * at + rank), record(-1.0)
        going = mine.isend(1 - rank, return_early=True)
        theirs.irecv(1 - rank)
        going[0].wait()
        found.append(float(theirs["a"].mean()) - 2 * at)
    return found


def test_forked_processes_share_neither_memory_nor_the_thread_that_watches() -> None:
    plan = plan_of(layout_of(record(0.0)), torch.device("cpu"))
    kept = [plan.buffer() for _ in range(4)]
    for buffer in kept:
        _pool.give(plan, buffer)
    link._watch._start()
    with group_of(2, 60.0, multiprocessing.get_context("fork")) as group:
        assert all(seconds < 30 for seconds in group.run(differing))
        assert group.run(crossing) == [[1.0] * 20, [0.0] * 20]


class DeletedMeanwhile:
    """A store in which a key that was seen a moment ago is gone, as the other side deletes its note."""

    def __init__(self) -> None:
        self.store = torch.distributed.HashStore()
        self.store.set_timeout(timedelta(seconds=120))

    def __getattr__(self, name: str) -> Any:
        return (lambda keys: True) if name == "check" else getattr(self.store, name)


def test_a_note_that_was_deleted_meanwhile_is_not_waited_for() -> None:
    exchange: Any = object.__new__(link.Exchange)
    end: Any = object.__new__(Endpoint)
    end.store, end.rank, end.ranks = DeletedMeanwhile(), 0, [0, 1]
    exchange.endpoint, exchange.peer, exchange.sends, exchange.init_tag, exchange.number, exchange.what = (
        end,
        1,
        True,
        0,
        0,
        "send",
    )
    begin = time.monotonic()
    assert not exchange._read_note()
    assert time.monotonic() - begin < 60
    exchange.digest, exchange.tag, exchange.size, exchange.entries = 5, 6, 7, {"a": "float32 [3]"}
    exchange._tell()
    exchange.sends, exchange.peer, end.rank = False, 0, 1
    assert exchange._read_note()
    assert exchange.note["entries"] == exchange.entries


def test_messages_that_nobody_waits_for_are_let_go_of() -> None:
    with group_of(2, 60.0, multiprocessing.get_context("fork")) as group:
        assert group.run(nobody_waits) == [(True, 0)] * 2
