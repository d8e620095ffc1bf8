"""Rounds of messages at random moments, some of them between two sides that differ: TENSORCLASS_ROUNDS=500 for many."""

import os
import random
import time

import torch

from tensorclass import TensorDict
from tensorclass.distributed import RecordsDiffer
from tests.distributed.processes import group_of

ROUNDS = int(os.environ.get("TENSORCLASS_ROUNDS", "12"))


def rounds(rank: int, count: int) -> list[int]:
    """The rounds that went wrong."""
    both, mine = random.Random(0), random.Random(rank)
    wrong: list[int] = []
    for at in range(count):
        differ, early, large = (both.random() < share for share in (0.5, 0.5, 0.3))
        values = {"a": torch.full((3,), float(rank))}
        if large:
            values["l"] = torch.full((100_000,), float(rank))
        if differ and rank:
            values["x"] = torch.zeros(1)
        data = TensorDict(values)
        time.sleep(mine.choice([0, 0, 0.03, 0.1, 0.15, 0.2]))
        try:
            if early:
                way = data.isend(1, return_early=True) if rank == 0 else data.irecv(0, return_premature=True)
                time.sleep(mine.choice([0, 0, 0.1, 0.15]))
                way[0].wait(20)
            else:
                data.send(1, timeout=20) if rank == 0 else data.recv(0, timeout=20)
            right = not differ and data["a"].tolist() == [0.0] * 3
        except RecordsDiffer:
            right = differ and data["a"].tolist() == [float(rank)] * 3
        if not right:
            wrong.append(at)
    return wrong


def test_no_round_goes_wrong_and_nothing_is_left() -> None:
    with group_of(2, 60.0) as group:  # looks for what is left
        assert group.run(rounds, ROUNDS, seconds=60 + ROUNDS) == [[], []]
