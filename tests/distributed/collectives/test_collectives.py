"""Collectives of records: what each rank has afterwards, what goes over the wire, what happens when ranks differ."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass import NonTensorData, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.distributed import process_groups
from tensorclass.distributed.worker_errors import RecordsDiffer, WorkerDied, WorkerRaised, WorkerTimeout
from tests.distributed.processes import Failed, Group, group_of


class Point(TensorClass):
    x: Tensor
    y: Tensor
    label: str = "none"


class Other(TensorClass):
    z: Tensor


LARGE = 2**17  # items of float32: a tensor that goes alone

#: each is done so often, as a call that is expected takes another way
ROUNDS = 4


def nested(rank: int) -> TensorDict:
    return TensorDict(
        {
            "b": torch.full((3,), float(rank + 1)),
            "a": {"c": torch.full((3, 2), rank + 1), "none": torch.zeros(3, 0)},
            "d.e": torch.full((3,), rank + 1, dtype=torch.float16).unsqueeze(-1).expand(3, 4),
            "large": torch.full((3, LARGE), float(rank)),
            "turned": torch.arange(6.0).view(2, 3).t() + rank,
            "one": UnbatchedTensor(torch.tensor([rank])),
            "name": NonTensorData(f"rank {rank}", batch_size=[3]),
        },
        [3],
    )


def point(rank: int) -> Point:
    return Point(torch.full((2,), float(rank)), torch.arange(2), f"rank {rank}", batch_size=[2])


def uneven(rank: int) -> Any:
    return lazy_stack([TensorDict({"v": torch.full((at + 1,), float(rank))}) for at in range(2)])


# ---------------------------------------------------------------------------------------------------------------------
# all_reduce and reduce


def all_values_are_summed(rank: int) -> None:
    for _ in range(ROUNDS):
        data = nested(rank)
        before = data["turned"]
        assert data.all_reduce() is None
        assert data["b"].tolist() == [3.0] * 3
        assert data["a", "c"].tolist() == [[3, 3]] * 3
        assert data["d.e"].tolist() == [[3.0] * 4] * 3
        assert data["turned"] is before
        assert torch.equal(before, 2 * torch.arange(6.0).view(2, 3).t() + 1)
        assert data["large"].eq(1).all()
        assert data["one"].tolist() == [1]
        assert data["name"] == f"rank {rank}"


def every_operation_is_that_of_torch(rank: int) -> None:
    ops: list[Any] = [dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT]
    floats = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    integers = [torch.int64, torch.int32, torch.int8, torch.uint8]
    for op in ops:
        for dtype in [*floats, *([] if op == dist.ReduceOp.AVG else integers)]:
            for _ in range(3):
                data = TensorDict(
                    {"a": torch.tensor([1, 2, 3]).to(dtype) + rank, "b": torch.tensor(5).to(dtype) - rank}
                )
                expected = [value.clone() for value in data.values()]
                for value in expected:
                    dist.all_reduce(value, op)
                data.all_reduce(op)
                assert all(torch.equal(a, b) for a, b in zip(data.values(), expected, strict=True)), (op, dtype)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        data = TensorDict({"a": torch.tensor([3 + rank])})
        one = torch.tensor([3 + rank])
        dist.all_reduce(one, op)
        data.all_reduce(op)
        assert data["a"].tolist() == one.tolist()
    for _ in range(3):
        data = TensorDict({"c": torch.tensor([1 + 1j * rank]), "b": torch.tensor([rank == 1, False])})
        data.all_reduce()
        assert data["c"].tolist() == [2 + 1j]
        assert data["b"].tolist() == [True, False]


def an_asynchronous_sum_is_there_when_it_was_waited_for(rank: int) -> None:
    for _ in range(ROUNDS):
        data = nested(rank)
        pending = data.all_reduce(async_op=True)
        assert pending is not None
        assert len(pending) == 4  # three dtypes, and a large tensor
        assert all(message.wait() for message in pending)
        assert all(message.is_completed() for message in pending)
        assert data["b"].tolist() == [3.0] * 3
        assert data["large"].eq(1).all()
    assert TensorDict({}).all_reduce(async_op=True) == []


def tensors_that_share_memory_are_reduced_once(rank: int) -> None:
    for size in (6, 2 * LARGE):
        for options in ({}, {"async_op": True}, {"bucket_bytes": 8}):
            for _ in range(ROUNDS):
                whole = torch.ones(size)
                values = {"whole": whole, "again": whole, "first": whole[:3], "half": whole[: size // 2]}
                data = TensorDict({**values, "every second": whole[::2], "alone": torch.ones(size)})
                for message in data.all_reduce(**options) or ():  # type: ignore[call-overload]
                    message.wait()
                assert all(value.eq(2).all() for value in data.values()), (size, options)
                data.reduce(1)
                assert all(value.eq(2 + 2 * rank).all() for value in data.values()), (size, options)


def what_torch_cannot_reduce_is_refused_before_anything_is_written(rank: int) -> None:
    ops: list[Any] = [dist.ReduceOp.SUM, dist.ReduceOp.BAND, dist.ReduceOp.MAX]
    for op in ops:
        for dtype in (torch.int16, torch.uint16, torch.float8_e4m3fn, torch.float32, torch.complex64, torch.bool):
            one = torch.tensor([1, 0]).to(dtype)
            data = TensorDict({"a": torch.ones(2, dtype=torch.int64), "l": torch.ones(LARGE).int(), "z": one.clone()})
            try:
                dist.all_reduce(one, op)
            except (ValueError, RuntimeError) as error:
                with pytest.raises(type(error), match="z: "):
                    data.all_reduce(op)
                assert data["a"].eq(1).all()
                assert data["l"].eq(1).all()
            else:
                data.all_reduce(op)
                assert torch.equal(data["z"], one)
    data = TensorDict({"a": torch.ones(2)})
    data.all_reduce(dist.ReduceOp(dist.ReduceOp.SUM))
    assert data["a"].tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="PREMUL_SUM"):
        data.all_reduce(dist._make_nccl_premul_sum(2.0))  # type: ignore[attr-defined]
    assert data["a"].tolist() == [2.0, 2.0]


def buckets_hold_no_more_than_was_said(rank: int) -> None:
    sent: list[int] = []
    whole = process_groups.GroupCall.all_reduce

    def noted(self: Any, tensor: Tensor, op: Any) -> Any:
        sent.extend([tensor.numel()] * tensor.is_floating_point())  # the others are numbers that ranks compare
        return whole(self, tensor, op)

    process_groups.GroupCall.all_reduce = noted  # type: ignore[method-assign]
    try:
        for limit, count in ((1, 10), (40, 10), (80, 5), (10_000, 1)):
            data = TensorDict({str(at): torch.full((10,), float(at)) for at in range(10)})
            for message in data.all_reduce(async_op=True, bucket_bytes=limit) or ():
                message.wait()
            assert data["7"].tolist() == [14.0] * 10
            assert len(sent) == count, (limit, sent)
            sent.clear()
    finally:
        process_groups.GroupCall.all_reduce = whole  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="bucket_bytes: expected a positive number"):
        data.all_reduce(bucket_bytes=0)


def one_message_is_enough_once_a_form_is_known(rank: int) -> None:
    sent: list[str] = []
    begin = process_groups.GroupCall._begin

    def noted(self: Any, send: Any, *args: Any) -> Any:
        sent.append(send.__name__)
        return begin(self, send, *args)

    process_groups.GroupCall._begin = noted  # type: ignore[method-assign]
    try:
        data = TensorDict({str(at): torch.ones(at) for at in range(50)})
        for _ in range(3):
            data.all_reduce()
        sent.clear()
        data.all_reduce()
        assert sent == ["allreduce"]
        for _ in range(6):  # in turn, each is known, too
            data.all_gather()
            data.broadcast(0)
        sent.clear()
        data.all_gather()
        data.broadcast(0)
        assert len(sent) == 2, sent
    finally:
        process_groups.GroupCall._begin = begin  # type: ignore[method-assign]


def only_the_destination_changes(rank: int) -> None:
    for _ in range(ROUNDS):
        data, before = nested(rank), nested(rank)
        assert data.reduce(1) is None
        if rank == 1:
            assert data["b"].tolist() == [3.0] * 3
            assert data["large"].eq(1).all()
        else:
            assert (data == before).all()
        small = TensorDict({"x": torch.ones(2)})
        pending = small.reduce(0, dist.ReduceOp.SUM, True, True)
        assert pending is not None
        for message in pending:
            message.wait()
        assert small["x"].tolist() == ([1.0, 1.0] if rank else [2.0, 2.0])
        assert small.reduce(0, async_op=True) is None


def the_order_of_keys_does_not_matter(rank: int) -> None:
    for _ in range(ROUNDS):
        pairs = [("a", torch.ones(2)), ("b", torch.full((2,), 10.0))]
        data = TensorDict(dict(pairs[::-1] if rank else pairs))
        data.all_reduce()
        assert data["a"].tolist() == [2.0, 2.0]
        assert [item["b"].tolist() for item in data.all_gather()] == [[20.0, 20.0]] * 2


def lazy_stacks_locked_and_consolidated_ones_are_reduced_in_place(rank: int) -> None:
    for _ in range(ROUNDS):
        stack = uneven(rank)
        stack.all_reduce()
        assert stack[1]["v"].tolist() == [1.0, 1.0]
        packed = nested(rank).consolidate()
        packed.all_reduce()
        assert packed.is_consolidated()
        assert packed["b"].tolist() == [3.0] * 3
        jagged = TensorDict({"j": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)}, [2])
        jagged.all_reduce()
        assert jagged["j"].values().tolist() == [2.0] * 5
        store = {"a": torch.ones(2)}
        TensorDict.from_store(store).all_reduce()
        assert store["a"].tolist() == [2.0, 2.0]
        weights = TensorDict({"w": torch.ones(2, requires_grad=True)})
        weights.all_reduce()
        assert weights["w"].tolist() == [2.0, 2.0]
        assert weights["w"].requires_grad


# ---------------------------------------------------------------------------------------------------------------------
# broadcast and scatter


def a_record_comes_to_ranks_that_have_none(rank: int) -> None:
    for _ in range(ROUNDS):
        for receiver in (TensorDict({}), Other(torch.zeros(1)), Point(torch.zeros(2), torch.zeros(2))):
            found: Any = (point(0) if rank == 0 else receiver).broadcast(0)
            assert type(found) is Point
            assert found.x.tolist() == [0.0, 0.0]
            assert found.label == "rank 0"
            assert found.batch_size == (2,)
        data = nested(rank)
        found = data.broadcast(1)
        assert (found is data) == (rank == 1)
        assert found["name"] == "rank 1"
        assert (found == nested(1)).all()
        assert found["large"].shape == (3, LARGE)
        assert data["b"].tolist() == [rank + 1.0] * 3
        found["b"] = torch.zeros(3)
        named = TensorDict({"a": torch.ones(2)}, [2], names=["time"])
        assert (named if rank == 0 else TensorDict({})).broadcast(0).names == ["time"]
        stack = uneven(rank).broadcast(0)
        assert stack[1]["v"].tolist() == [0.0, 0.0]
        rows: Any = TensorDict({}, [3])
        rows["text"] = [f"{rank}", "b", "c"]
        assert rows.broadcast(1)["text"] == ["1", "b", "c"]
        assert TensorDict({}, [4]).broadcast(0).batch_size == (4,)


def each_rank_gets_its_own(rank: int) -> None:
    for _ in range(ROUNDS):
        given = [nested(5), point(6)] if rank == 0 else None
        found: Any = TensorDict({}).scatter(0, given)
        if rank == 0:
            assert (found == nested(5)).all()
            assert given is not None
            assert found is not given[0]
        else:
            assert type(found) is Point
            assert found.label == "rank 6"
        assert TensorDict({}, device="cpu").scatter(1, [nested(1), nested(2)] if rank else None).device == torch.device(
            "cpu"
        )


# ---------------------------------------------------------------------------------------------------------------------
# all_gather and gather_and_stack


def all_have_all(rank: int) -> None:
    for _ in range(ROUNDS):
        data = nested(rank)
        found = data.all_gather()
        assert [item["name"] for item in found] == ["rank 0", "rank 1"]
        assert all((item == nested(at)).all() for at, item in enumerate(found))
        found[rank]["b"].zero_()
        assert data["b"].tolist() == [rank + 1.0] * 3
        every = TensorDict({"o": NonTensorData([1])}).all_gather()
        every[0]["o"].append(2)
        assert every[1]["o"] == [1]
        records = point(rank).all_gather()
        assert [type(record) for record in records] == [Point, Point]
        assert [record.label for record in records] == ["rank 0", "rank 1"]
        assert [item[1]["v"].tolist() for item in uneven(rank).all_gather()] == [[0.0, 0.0], [1.0, 1.0]]


def the_others_are_stacked_where_they_are_asked_for(rank: int) -> None:
    for _ in range(ROUNDS):
        holder = TensorDict({}, [1]) if rank == 1 else nested(rank)
        found = holder.gather_and_stack(1)
        if rank == 1:
            assert found is holder
            assert (holder == nested(0).unsqueeze(0)).all()
            assert holder["name"] in ("rank 0", [["rank 0"] * 3])
        else:
            assert found is None
        record: Any = Point(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.int64), batch_size=[1, 2])
        stacked: Any = (point(rank) if rank else record).gather_and_stack(0)
        if rank == 0:
            assert type(stacked) is Point
            assert stacked.x.tolist() == [[1.0, 1.0]]
        locked = TensorDict({"a": torch.full((1, 2) if rank == 0 else (2,), 5.0 * rank)}).lock_()
        kept = locked["a"]
        locked.gather_and_stack(0)
        assert locked["a"] is kept
        assert kept.eq(5).all()
    if rank == 0:
        kept = point(0)
        with pytest.raises(RuntimeError, match=r"expected .* of the stack, \[1, 2\], on rank 0, got \[2\]"):
            kept.gather_and_stack(0)
        assert (kept == point(0)).all()
    else:
        point(1).gather_and_stack(0)


def the_default_device_does_not_matter(rank: int) -> None:
    made = [nested(rank) for _ in range(8 * ROUNDS)]
    holders = [TensorDict({}, [1, 3]) for _ in range(ROUNDS)]
    torch.set_default_device("meta")
    try:
        for _ in range(ROUNDS):
            made.pop().all_reduce()
            for message in made.pop().all_reduce(async_op=True) or ():
                message.wait()
            made.pop().reduce(0)
            found: list[Any] = [*made.pop().all_gather(), made.pop().broadcast(0)]
            found.append(TensorDict({}).scatter(0, [made[0], made[1]] if rank == 0 else None))
            (holders.pop() if rank == 0 else made.pop()).gather_and_stack(0)
            assert all(item["b"].device.type == "cpu" for item in found)
            data = made.pop().select("a", "b", "name")
            data.send(1) if rank == 0 else data.recv(0)
            assert data["b"].tolist() == [1.0] * 3
            if rank == 0:
                data.init_remote(1)
            else:
                assert TensorDict.from_remote_init(0)["b"].tolist() == [1.0] * 3
    finally:
        torch.set_default_device(None)


PAIRED = [
    all_values_are_summed,
    every_operation_is_that_of_torch,
    an_asynchronous_sum_is_there_when_it_was_waited_for,
    tensors_that_share_memory_are_reduced_once,
    what_torch_cannot_reduce_is_refused_before_anything_is_written,
    buckets_hold_no_more_than_was_said,
    one_message_is_enough_once_a_form_is_known,
    only_the_destination_changes,
    the_order_of_keys_does_not_matter,
    lazy_stacks_locked_and_consolidated_ones_are_reduced_in_place,
    a_record_comes_to_ranks_that_have_none,
    each_rank_gets_its_own,
    all_have_all,
    the_others_are_stacked_where_they_are_asked_for,
    the_default_device_does_not_matter,
]


@pytest.mark.parametrize("check", PAIRED, ids=lambda check: check.__name__)
def test_on_two_ranks(pair: Group, check: Any) -> None:
    pair.run(check)


# ---------------------------------------------------------------------------------------------------------------------
# four ranks, and some of them


def on_four_ranks_and_on_some_of_them(rank: int) -> None:
    some, rest = dist.new_group([1, 2]), dist.new_group([3, 0])
    for _ in range(ROUNDS):
        data = TensorDict({"a": torch.tensor([float(rank)]), "n": {"b": torch.tensor([rank, 1])}})
        data.all_reduce()
        assert data["a"].item() == 6.0
        assert data["n", "b"].tolist() == [6, 4]
        data = TensorDict({"a": torch.tensor([float(rank)])})
        mine = some if rank in (1, 2) else rest
        data.all_reduce(dist.ReduceOp.MAX, group=mine)
        assert data["a"].item() == (2.0 if rank in (1, 2) else 3.0)
        one, source = TensorDict({"a": torch.tensor(rank)}), 2 if mine is some else 3
        assert one.broadcast(source, group=mine)["a"].item() == source
        assert [item["a"].item() for item in one.all_gather(group=mine)] == ([1, 2] if mine is some else [0, 3])
        given = [TensorDict({"a": torch.tensor(at)}) for at in range(4)]
        assert TensorDict({}).scatter(3, given if rank == 3 else None)["a"].item() == rank
        holder = TensorDict({}) if rank == 2 else TensorDict({"a": torch.tensor(rank), "s": f"{rank}"})
        holder.gather_and_stack(2)
        if rank == 2:
            assert holder["a"].tolist() == [0, 1, 3]
            assert holder["s"] == ["0", "1", "3"]


def a_rank_outside_of_the_group_is_warned(rank: int) -> None:
    some = dist.new_group([1, 2])
    data = TensorDict({"a": torch.tensor([float(rank)])})
    if rank in (1, 2):
        data.all_reduce(group=some)
        return
    with pytest.warns(UserWarning, match="is not in the group"):
        assert data.all_reduce(group=some) is None
    with pytest.warns(UserWarning, match="is not in the group"):
        assert data.broadcast(1, group=some) is data
    with pytest.warns(UserWarning, match="is not in the group"):
        assert data.all_gather(group=some) == []


def ranks_that_are_right_are_told_from_those_that_are_not(rank: int) -> list[str]:
    data = TensorDict({"a": torch.ones(2 if rank == 2 else 3), **({"b": torch.ones(1)} if rank == 3 else {})})
    with pytest.raises(RecordsDiffer) as caught:
        data.all_reduce()
    return caught.value.differences


def test_on_four_ranks(four: Group) -> None:
    four.run(on_four_ranks_and_on_some_of_them)
    four.run(a_rank_outside_of_the_group_is_warned)
    told = four.run(ranks_that_are_right_are_told_from_those_that_are_not)
    assert (
        told
        == [
            [
                "a: float32 [3] on ranks 0-1, float32 [2] on rank 2",
                "b: absent on ranks 0-1, float32 [1] on rank 3",
            ]
        ]
        * 4
    )


# ---------------------------------------------------------------------------------------------------------------------
# ranks that differ


def differing(rank: int, kind: str, ready: int) -> tuple[str, str]:
    """Return the error after some good calls, so that a call is predicted, or none is."""
    for _ in range(ready):
        TensorDict({"a": torch.ones(3)}).all_reduce()
    data: Any = TensorDict({"a": torch.ones(3)})
    if rank:
        data = {
            "shape": TensorDict({"a": torch.ones(4)}),
            "dtype": TensorDict({"a": torch.ones(3, dtype=torch.float64)}),
            "more": TensorDict({"a": torch.ones(3), "b": torch.ones(1)}),
            "nested": TensorDict({"a": {"a": torch.ones(3)}}),
            "object": TensorDict({"a": "text"}),
            "sparse": TensorDict({"a": torch.ones(3).to_sparse()}),
        }[kind]
    before = data.clone() if kind != "sparse" else data
    with pytest.raises((RecordsDiffer, WorkerRaised, TypeError)) as caught:
        data.all_reduce()
    if kind != "sparse":
        with pytest.raises(RecordsDiffer):
            data.all_gather()
        with pytest.raises(RecordsDiffer):
            data.reduce(0)
        assert (data == before).all()
    good = TensorDict({"a": torch.ones(3)})
    good.all_reduce()  # the group is as good as before
    assert good["a"].tolist() == [2.0] * 3
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.parametrize("ready", [0, 3])
@pytest.mark.parametrize(
    "kind, told",
    [
        ("shape", "a: float32 [3] on rank 0, float32 [4] on rank 1"),
        ("dtype", "a: float32 [3] on rank 0, float64 [3] on rank 1"),
        ("more", "b: absent on rank 0, float32 [1] on rank 1"),
        ("nested", "a: float32 [3] on rank 0, absent on rank 1; a.a: absent on rank 0, float32 [3] on rank 1"),
        ("object", "a: float32 [3] on rank 0, an object on rank 1"),
    ],
)
def test_ranks_that_differ_all_raise_what_differs(pair: Group, kind: str, told: str, ready: int) -> None:
    found = pair.run(differing, kind, ready)
    text = f"all_reduce: the records of the ranks differ: {told}. Nothing was written"
    assert found == [("RecordsDiffer", text)] * 2


def test_an_error_on_one_rank_is_one_on_all(pair: Group) -> None:
    ours, theirs = pair.run(differing, "sparse", 3)
    assert ours[0] == "WorkerRaised"
    assert "rank 1: TypeError: a: a tensor of the layout torch.sparse_coo" in ours[1]
    assert theirs[0] == "TypeError"


def what_the_sender_cannot_send(rank: int) -> list[str]:
    told: list[str] = []
    calls: list[Any] = [
        lambda: TensorDict({"a": object()}).broadcast(0),
        lambda: TensorDict({}).scatter(0, [TensorDict({})] if rank == 0 else None),
        lambda: TensorDict({}).scatter(0),
        lambda: TensorDict({}).scatter(0, [{}, {}] if rank == 0 else None),  # type: ignore[list-item]
        lambda: TensorDict({}).all_gather() if rank else TensorDict({}).all_reduce(),
        lambda: TensorDict({"a": torch.ones(2, dtype=torch.int64)}).all_reduce(dist.ReduceOp.AVG),
        lambda: TensorDict({"a": torch.ones(2) * 1j}).all_reduce(dist.ReduceOp.MAX),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            call()
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    with pytest.raises(ValueError, match="src: expected a rank of the world that is in the group, one of 0-1, got 7"):
        TensorDict({}).broadcast(7)
    with pytest.raises(TypeError, match=r"group: expected a process group, .* got a list"):
        TensorDict({}).all_gather(group=[0, 1])  # type: ignore[arg-type]
    for op in ("sum", dist.ReduceOp):
        with pytest.raises(TypeError, match=r"op: expected one of torch\.distributed\.ReduceOp, got "):
            TensorDict({}).all_reduce(op)  # type: ignore[arg-type]
    found = TensorDict({"a": {1, 2} if rank == 0 else None, "b": Odd()}).broadcast(0, allow_pickle=True)
    assert isinstance(found["b"], Odd)
    return told


class Odd:
    """An object that JSON cannot hold."""


def test_what_cannot_be_sent_is_an_error_on_all_ranks(pair: Group) -> None:
    ours, theirs = pair.run(what_the_sender_cannot_send)
    kinds = [line.partition(":")[0] for line in ours]
    assert kinds == ["TypeError", "ValueError", "TypeError", "TypeError", "RecordsDiffer", "RuntimeError", "ValueError"]
    assert "expected records, a collection for each rank, got a dict" in ours[3]
    for mine, other in zip(ours[:4], theirs[:4], strict=True):
        assert other.startswith("WorkerRaised: ")
        assert f"rank 0: {mine}" in other
    assert "the ranks do not call the same: all_reduce(SUM" in ours[4]
    assert ours[4].partition("(")[2] == theirs[4].partition("(")[2]


# ---------------------------------------------------------------------------------------------------------------------
# ranks that are missing


def late(rank: int, missing: list[int], ready: int) -> tuple[str, float]:
    data = TensorDict({"a": torch.ones(3)})
    for _ in range(ready):
        data.all_reduce()
    if rank in missing:
        time.sleep(2)
        return "", 0.0
    begin = time.monotonic()
    with pytest.raises(WorkerTimeout) as caught:
        data.all_reduce(timeout=1.0)
    assert isinstance(caught.value, TimeoutError)
    return str(caught.value), time.monotonic() - begin


@pytest.mark.parametrize("ready", [0, 3])
def test_a_rank_that_hangs_is_named_within_the_time_out(ready: int) -> None:
    with group_of(2) as group:
        told, seconds = group.run(late, [1], ready)[0]
    assert told.startswith("all_reduce: rank 1 did not take part within 1 s. This is rank 0 of 0-1")
    assert told.endswith("The group cannot be used any more: make a new one, or start the processes anew")
    assert seconds < 15  # the group has 20


def dying(rank: int, missing: list[int]) -> str:
    import os

    data = TensorDict({"a": torch.ones(3)})
    data.all_reduce()
    if rank in missing:
        os._exit(1)
    with pytest.raises((WorkerDied, WorkerTimeout)) as caught:
        data.all_reduce(timeout=30.0)
    return str(caught.value)


def test_ranks_that_died_are_named_on_all_others() -> None:
    with group_of(4) as group:
        found = group.outcomes(dying, [2, 3])
    assert found[2] is None
    assert found[3] is None
    for told in found[:2]:
        assert not isinstance(told, Failed), told.traceback
        assert told.startswith("all_reduce: ranks 2-3 did not take part")


def the_first_rank_is_gone(rank: int) -> str:
    import os

    if rank == 0:
        os._exit(1)
    with pytest.raises((WorkerDied, WorkerTimeout)) as caught:
        TensorDict({"a": torch.ones(3)}).broadcast(1, timeout=30.0)
    return str(caught.value)


def test_where_the_store_is_gone_the_error_says_so() -> None:
    with group_of(2) as group:
        found = group.outcomes(the_first_rank_is_gone)
    assert "the store of the group does not answer" in found[1]


def test_a_time_out_is_positive(pair: Group) -> None:
    found = pair.outcomes(no_time)
    assert all(isinstance(item, Failed) and item.kind is ValueError for item in found)


def no_time(rank: int) -> None:
    TensorDict({}).all_reduce(timeout=0)
