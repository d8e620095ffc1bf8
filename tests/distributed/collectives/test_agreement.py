"""Ranks that do not call the same when a call is expected, and messages that are on their way meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.distributed.messages.record_layout import layout_of
from tensorclass.distributed.worker_errors import RecordsDiffer, WorkerRaised
from tests.distributed.processes import Group

ROUNDS = 4  #: after which a call is expected


def record(size: int = 3, value: float = 1.0) -> TensorDict:
    return TensorDict({"a": torch.full((size,), value)})


def waited(data: TensorDict) -> None:
    for message in data.all_reduce(async_op=True) or ():
        message.wait()


def the_group_is_whole() -> None:
    for _ in range(3):
        good = record()
        good.all_reduce()
        assert good["a"].tolist() == [2.0] * 3


#: what comes after broadcasts or scatters of rank 0, on rank 1
OTHERS: dict[str, Any] = {
    "all_reduce": lambda: record().all_reduce(),
    "all_reduce, later": lambda: record().all_reduce(async_op=True),
    "all_gather": lambda: record().all_gather(),
    "gather_and_stack": lambda: record().gather_and_stack(0),
    "broadcast": lambda: record().broadcast(1),
}


def what_the_sender_does_not_hear_of(rank: int, call: str, size: int) -> str:
    def spread() -> Any:
        if call == "broadcast":
            return record(size, rank).broadcast(0)
        return record(size).scatter(0, [record(size, 0.0)] * 2 if rank == 0 else None)

    told = ""
    for other in OTHERS.values():
        for _ in range(ROUNDS):
            assert spread()["a"].eq(0).all()
        if rank == 0:
            spread()
        else:
            with pytest.raises(RecordsDiffer) as caught:
                other()
            told = str(caught.value)
        the_group_is_whole()
        for _ in range(ROUNDS):
            spread()
        if rank == 0:
            spread()
        else:
            with pytest.raises(TypeError, match="sparse"):
                TensorDict({"a": torch.ones(3).to_sparse()}).all_reduce()
        the_group_is_whole()
    return told


@pytest.mark.parametrize("size", [3, 2**17], ids=["small", "large"])
@pytest.mark.parametrize("call", ["broadcast", "scatter"])
def test_a_rank_that_calls_something_else_than_the_sender_raises(pair: Group, call: str, size: int) -> None:
    told = pair.run(what_the_sender_does_not_hear_of, call, size)[1]
    text = f"the ranks do not call the same: {call}(src=0) on rank 0; broadcast on rank 1. Nothing was written"
    assert told == f"broadcast: {text}"


def several_are_on_their_way(rank: int) -> None:
    for _ in range(ROUNDS):
        every = [TensorDict({"a": torch.full((3,), float(rank + at))}) for at in range(4)]
        pending = [data.all_reduce(async_op=True) for data in every]
        assert every[0]["a"].tolist() == [float(rank)] * 3
        for messages in reversed(pending):
            for message in messages or ():
                message.wait()
                message.wait()
        assert [data["a"][0].item() for data in every] == [1.0, 3.0, 5.0, 7.0]
        other = TensorDict({"b": torch.ones(2)})  # not what is expected, on all ranks
        for message in other.all_reduce(async_op=True) or ():
            message.wait()
        assert other["b"].tolist() == [2.0, 2.0]


def what_differs_is_found_when_it_is_waited_for(rank: int) -> str:
    for _ in range(ROUNDS):
        for message in TensorDict({"a": torch.ones(3)}).all_reduce(async_op=True) or ():
            message.wait()
    data = TensorDict({"a": torch.ones(3 + rank)})
    with pytest.raises(RecordsDiffer) as caught:
        waited(data)
    assert data["a"].eq(1).all()
    good = TensorDict({"a": torch.ones(3)})
    good.all_reduce()
    assert good["a"].tolist() == [2.0] * 3
    return str(caught.value)


def each_rank_waits_when_it_likes(rank: int) -> None:
    for size in (3, 4):  # what is expected, and what is not
        for _ in range(ROUNDS):
            for message in record().all_reduce(async_op=True) or ():
                message.wait()
        first, second = record(size), record(size, 10.0)
        pending = [first.all_reduce(async_op=True), second.all_reduce(async_op=True)]
        for messages in pending[:: 1 if rank else -1]:
            for message in messages or ():
                message.wait()
        assert first["a"].eq(2).all()
        assert second["a"].eq(20).all()
        third = record(size)
        messages = third.all_reduce(async_op=True) or []
        if rank:
            for message in messages:
                message.wait()
        assert [item["a"][0].item() for item in record(2, rank).all_gather()] == [0.0, 1.0]
        for message in messages:
            message.wait()
        assert third["a"].eq(2).all()


def one_rank_waits_at_once_and_the_other_later(rank: int) -> None:
    for _ in range(2 * ROUNDS):
        data = TensorDict({"a": torch.ones(3), "b": torch.ones(2).double(), "l": torch.ones(2**17)})
        for message in data.all_reduce(async_op=bool(rank)) or ():
            message.wait()
        assert all(value.eq(2).all() for value in data.values())
        data = record()
        for message in data.all_reduce(async_op=bool(rank)) or ():
            message.wait()
        assert data["a"].eq(2).all()


def one_rank_is_refused_while_others_went_on(rank: int) -> str:
    for _ in range(ROUNDS):
        for message in record().all_reduce(async_op=True) or ():
            message.wait()
    if rank:
        with pytest.raises(TypeError, match="sparse") as refused:
            TensorDict({"a": torch.ones(3).to_sparse()}).all_reduce(async_op=True)
        the_group_is_whole()
        return str(refused.value)
    first, second = record(), record()
    [message] = first.all_reduce(async_op=True) or ()
    with pytest.raises(WorkerRaised) as caught:
        second.all_reduce(async_op=True)
    with pytest.raises(WorkerRaised):
        message.wait()
    assert first["a"].eq(1).all()
    assert second["a"].eq(1).all()
    the_group_is_whole()
    return str(caught.value)


def what_is_known_of_forms_is_forgotten(rank: int) -> None:
    def step() -> None:
        data = TensorDict({"a": torch.ones(3), "b": torch.ones(2).double(), "l": torch.ones(2**17)})
        data.all_reduce()
        assert all(value.eq(2).all() for value in data.values())
        assert all(value.eq(2).all() for found in data.all_gather() for value in found.values())
        assert all(value.eq(2).all() for value in data.broadcast(0).values())

    for forgetful in ([0], [1], [0, 1]):
        for _ in range(ROUNDS):
            step()
        if rank in forgetful:
            for size in range(400):
                layout_of(TensorDict({"other": torch.zeros(size)}))
        for _ in range(ROUNDS):
            step()


def messages_that_nobody_waits_for(rank: int) -> None:
    for _ in range(2 * ROUNDS):
        record().all_reduce(async_op=True)
    the_group_is_whole()


def test_messages_that_are_on_their_way(pair: Group) -> None:
    pair.run(several_are_on_their_way)
    told = pair.run(what_differs_is_found_when_it_is_waited_for)
    assert all("a: float32 [3] on rank 0, float32 [4] on rank 1" in text for text in told)


@pytest.mark.parametrize(
    "check",
    [
        each_rank_waits_when_it_likes,
        one_rank_waits_at_once_and_the_other_later,
        what_is_known_of_forms_is_forgotten,
        messages_that_nobody_waits_for,
    ],
    ids=lambda check: check.__name__,
)
def test_ranks_that_mean_the_same(pair: Group, check: Any) -> None:
    pair.run(check)


def test_an_error_of_one_rank_comes_before_the_next_call_of_the_others(pair: Group) -> None:
    told = pair.run(one_rank_is_refused_while_others_went_on)[0]
    assert "rank 1: TypeError: a: a tensor of the layout torch.sparse_coo" in told


def left_to_settle(rank: int) -> float:
    for _ in range(ROUNDS):
        for message in record().all_reduce(async_op=True) or ():
            message.wait()
    record().all_reduce(async_op=True)
    if rank == 0:
        record().init_remote(use_broadcast=True)
        return 1.0
    found = TensorDict.from_remote_init(0, use_broadcast=True)
    return float(found["a"].sum()) / 3


def test_a_record_is_sent_to_all_after_a_sum_that_is_on_its_way(pair: Group) -> None:
    assert pair.run(left_to_settle) == [1.0, 1.0]
