"""What a process remembers of a group for its messages."""

import gc
import multiprocessing
import time

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.distributed import RecordsDiffer, link
from tensorclass.distributed.layout import layout_of
from tensorclass.distributed.link import Link
from tensorclass.distributed.point_to_point import _pool, plan_of
from tests.distributed.processes import group_of


def test_tags_that_are_in_use_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_MOST_TAGS", 4)
    ends = [object.__new__(Link), object.__new__(Link)]
    for end in ends:
        end.counts = {}
    server, client = ends
    for step in range(20):
        for other in range(2, 6):  # the server has other clients, too
            server.next(True, other, step)
        assert server.next(True, 1, 0) == client.next(False, 0, 0) == step  # a tag that is used all the time
        assert server.next(True, 1, 1 + step) == client.next(False, 0, 1 + step) == 0  # and new ones
    assert max(len(counts) for counts in server.counts.values()) == 4


def differing(rank: int) -> float:
    data = TensorDict({"a": torch.zeros(3 + rank)})
    begin = time.monotonic()
    with pytest.raises(RecordsDiffer):
        data.send(1) if rank == 0 else data.recv(0)
    return time.monotonic() - begin


def nobody_waits(rank: int) -> tuple[bool, int]:
    kept = [record(0.0).irecv(1 - rank, return_premature=True, init_tag=100 + tag) for tag in range(5)]
    began = len(link._watch._turns) == 5
    del kept
    gc.collect()
    time.sleep(3 * link.PATIENCE)
    return began, len(link._watch._turns)


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
    kept = [plan.staging() for _ in range(4)]
    for staging in kept:
        _pool.give(plan, staging)
    link._watch._begin()
    with group_of(2, 10.0, multiprocessing.get_context("fork")) as group:
        assert all(seconds < 5 for seconds in group.run(differing))
        assert group.run(crossing) == [[1.0] * 20, [0.0] * 20]


def test_messages_that_nobody_waits_for_are_let_go_of() -> None:
    with group_of(2, 10.0, multiprocessing.get_context("fork")) as group:
        assert group.run(nobody_waits) == [(True, 0)] * 2
