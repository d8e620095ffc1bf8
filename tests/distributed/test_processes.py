"""The group of processes that these tests use."""

from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.distributed.processes import Failed, Group, RemoteError


def summed(rank: int, start: int) -> int:
    total = torch.tensor(start + rank)
    dist.all_reduce(total)
    return int(total)


def fails_on_one(rank: int) -> int:
    if rank == 1:
        raise ValueError("no")
    return rank


def test_a_function_runs_on_all_ranks(pair: Group) -> None:
    assert pair.run(summed, 10) == [21, 21]


def test_an_error_has_the_traceback_of_the_rank(pair: Group) -> None:
    with pytest.raises(RemoteError, match=r"rank 1:[\s\S]*fails_on_one[\s\S]*ValueError: no"):
        pair.run(fails_on_one)
    found: list[Any] = pair.outcomes(fails_on_one)
    assert found[0] == 0
    assert isinstance(found[1], Failed)
    assert found[1].kind is ValueError
