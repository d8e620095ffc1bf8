"""The same collectives with both libraries, over the same kind of group."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import tensordict
import torch
import torch.distributed as dist
from torch import Tensor

import tensorclass
from tests.distributed.processes import Failed, Group, group_of
from tests.parity.distributed_differences import DISTRIBUTED

pytestmark = pytest.mark.parity

LIBRARIES = ["tensorclass", "tensordict"]


@pytest.fixture(scope="module")
def pair() -> Iterator[Group]:
    with group_of(2) as group:
        yield group


@pytest.fixture(scope="module")
def broken() -> Iterator[Group]:
    """A group for what the peer does not come back from."""
    with group_of(2, 3.0) as group:
        yield group


def made(m: Any, kind: str, rank: int) -> Any:
    data = m.TensorDict({"a": torch.full((3,), 1.0 + rank), "n": {"b": torch.full((3, 2), 3.0 + rank)}}, batch_size=[3])
    if kind == "lazy":
        return m.lazy_stack([data, data + 1])
    if kind == "strided":
        return m.TensorDict({"a": torch.arange(12.0).view(3, 4).t()[:, :2] + rank}, batch_size=[4])
    if kind == "locked":
        return data.lock_()
    return data


def told(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [told(item) for item in data]
    if not hasattr(data, "batch_size"):
        return data
    return {str(key): data[key].tolist() for key in sorted(data.keys(True, True), key=str)}, list(data.batch_size)


OPS = ["SUM", "AVG", "MAX", "MIN", "PRODUCT"]


def reduced(rank: int, library: str, kind: str, call: str, op: str, options: dict[str, Any]) -> Any:
    data = made(importlib.import_module(library), kind, rank)
    arguments: Any = (getattr(dist.ReduceOp, op),) if call == "all_reduce" else (0, getattr(dist.ReduceOp, op))
    given = getattr(data, call)(*arguments, **options)
    for message in given or ():
        message.wait()
    if call == "reduce" and rank:
        return None, data.is_locked  # what the peer leaves there is neither the sum nor what was there
    return told(data), given is None, data.is_locked


@pytest.mark.parametrize("call", ["all_reduce", "reduce"])
@pytest.mark.parametrize("kind", ["nested", "lazy", "strided", "locked"])
def test_reductions_are_those_of_the_peer(pair: Group, kind: str, call: str) -> None:
    every: list[dict[str, Any]] = [{}, {"bucket_bytes": 16}, {"bucket_bytes": 4096}, {"async_op": True}]
    for options in every:
        for op in OPS:
            ours, peers = [pair.run(reduced, library, kind, call, op, options) for library in LIBRARIES]
            assert ours == peers, (options, op)


def premature(rank: int, library: str) -> Any:
    data = made(importlib.import_module(library), "nested", rank)
    given = data.reduce(0, async_op=True, return_premature=True)
    for message in given:
        message.wait()
    empty = importlib.import_module(library).TensorDict({}, batch_size=[]).all_reduce(async_op=True)
    return type(given), empty, told(data) if rank == 0 else None


def test_messages_that_are_waited_for_are_a_list_as_in_the_peer(pair: Group) -> None:
    ours, peers = [pair.run(premature, library) for library in LIBRARIES]
    assert ours == peers


def moved(rank: int, library: str, kind: str) -> Any:
    m: Any = importlib.import_module(library)
    data = made(m, kind, rank)
    found = [told(data.all_gather())] if kind != "strided" else []
    found.append(told(data.broadcast(0)))
    found.append(told((data if rank == 0 else m.TensorDict({}, batch_size=[])).broadcast(0)))
    if kind != "lazy":
        found.append(told(data.scatter(0, [data * 10, data * 20] if rank == 0 else None)))
        holder = m.TensorDict({}, batch_size=[1]) if rank == 0 else data
        given = holder.gather_and_stack(0)
        found += [told(given), given is holder]
    return found


@pytest.mark.parametrize("kind", ["nested", "lazy", "strided"])
def test_what_moves_is_what_the_peer_moves(pair: Group, kind: str) -> None:
    ours, peers = [pair.run(moved, library, kind) for library in LIBRARIES]
    assert ours == peers


def refused(rank: int, library: str, how: str) -> Any:
    m: Any = importlib.import_module(library)
    data = made(m, "nested", rank)
    if how == "no rank":
        return data.reduce(None)
    if how == "bucket":
        return data.all_reduce(bucket_bytes=0)
    if how == "op":
        return data.all_reduce("sum")
    if how == "mean":
        return m.TensorDict({"a": torch.tensor([rank])}, batch_size=[]).all_reduce(dist.ReduceOp.AVG)
    return m.TensorDict({"a": torch.ones(2) * 1j}, batch_size=[]).all_reduce(dist.ReduceOp.MAX)


@pytest.mark.parametrize("how", ["no rank", "bucket", "op", "mean", "complex"])
def test_what_the_peer_refuses_is_refused_with_the_same_class(pair: Group, how: str) -> None:
    ours, peers = [pair.outcomes(refused, library, how) for library in LIBRARIES]
    assert [item.kind for item in ours] == [item.kind for item in peers]


# ---------------------------------------------------------------------------------------------------------------------
# what docs/differences.md says


def turned(rank: int, library: str) -> Any:
    m: Any = importlib.import_module(library)
    pairs = [("a", torch.ones(2)), ("b", torch.full((2,), 10.0))]
    data = m.TensorDict(dict(pairs[::-1] if rank else pairs), batch_size=[])
    data.all_reduce()
    return data["a"].tolist()


def test_keys_have_no_order(pair: Group) -> None:
    assert "All ranks report a mismatch." in DISTRIBUTED
    assert pair.run(turned, "tensorclass") == [[2.0, 2.0]] * 2
    assert pair.run(turned, "tensordict") == [[11.0, 11.0]] * 2


def differing(rank: int, library: str) -> Any:
    m: Any = importlib.import_module(library)
    data = m.TensorDict({"a": torch.ones(3), **({"b": torch.ones(3)} if rank else {})}, batch_size=[])
    data.all_reduce()
    return data["a"].tolist()


def test_ranks_that_differ_all_raise(pair: Group, broken: Group) -> None:
    ours = pair.outcomes(differing, "tensorclass")
    assert all(isinstance(item, Failed) and item.kind.__name__ == "RecordsDiffer" for item in ours)
    peers = broken.outcomes(differing, "tensordict")
    assert peers[0] == [2.0] * 3  # one side knows of nothing
    assert isinstance(peers[1], Failed)


def written_on_others(rank: int, library: str) -> Any:
    data = made(importlib.import_module(library), "nested", rank)
    data.reduce(0)
    return data["a"].tolist()


def test_only_the_destination_of_a_reduction_changes(pair: Group) -> None:
    assert "Only the destination of `reduce` changes." in DISTRIBUTED
    assert pair.run(written_on_others, "tensorclass") == [[3.0] * 3, [2.0] * 3]
    assert pair.run(written_on_others, "tensordict")[1] != [2.0] * 3


def tied(rank: int, library: str) -> Any:
    one = torch.ones(2)
    data = importlib.import_module(library).TensorDict({"a": one, "b": one}, batch_size=[])
    data.all_reduce()
    return data["a"].tolist()


def test_tensors_that_share_memory_are_reduced_once(pair: Group) -> None:
    assert "Tensors that share memory are reduced once." in DISTRIBUTED
    assert pair.run(tied, "tensorclass") == [[2.0, 2.0]] * 2
    assert pair.run(tied, "tensordict") == [[4.0, 4.0]] * 2


class Ours(tensorclass.TensorClass):
    a: Tensor
    text: str


class Peers(tensordict.TensorClass):
    a: Tensor
    text: str


def gathered_records(rank: int, library: str) -> Any:
    kind: Any = Ours if library == "tensorclass" else Peers
    record = kind(a=torch.ones(2) * rank, text=f"{rank}", batch_size=[2])
    gathered = record.all_gather()
    scattered = record.scatter(0, [record, record] if rank == 0 else None)
    return [type(item) for item in (*gathered, scattered)], [getattr(item, "text", None) for item in gathered]


def test_records_stay_records_with_their_text(pair: Group) -> None:
    assert "Records stay records." in DISTRIBUTED
    assert pair.run(gathered_records, "tensorclass") == [([Ours] * 3, ["0", "1"])] * 2
    assert pair.run(gathered_records, "tensordict") == [([tensordict.TensorDict] * 3, [None, None])] * 2


def given_back(rank: int, library: str) -> Any:
    data = made(importlib.import_module(library), "nested", rank)
    found = data.broadcast(0)
    return found is data, found.is_locked


def test_who_broadcasts_has_what_it_had(pair: Group) -> None:
    assert "`broadcast` returns the sender's own collection." in DISTRIBUTED
    assert pair.run(given_back, "tensorclass") == [(True, False), (False, False)]
    assert pair.run(given_back, "tensordict") == [(False, True), (False, False)]
