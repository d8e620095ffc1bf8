"""The same messages with both libraries, over the same kind of group."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tests.distributed.processes import Failed, Group, group_of
from tests.parity.distributed_differences import DISTRIBUTED

pytestmark = pytest.mark.parity

LIBRARIES = ["tensorclass", "tensordict"]


@pytest.fixture(scope="module")
def pair() -> Iterator[Group]:
    with group_of(2) as group:
        yield group


def made(m: Any, kind: str, rank: int) -> Any:
    data = m.TensorDict({"a": torch.full((3,), 1.0 + rank), "n": {"b": torch.full((3, 2), 3 + rank)}}, batch_size=[3])
    if kind == "lazy":
        return m.lazy_stack([data, data + 1])
    if kind == "dtypes":
        return m.TensorDict({str(dtype): torch.full((2,), rank, dtype=dtype) for dtype in (torch.bool, torch.int16)})
    return data.consolidate() if kind == "consolidated" else data


def outcome(data: Any, given: Any) -> Any:
    return {str(key): data[key].tolist() for key in sorted(data.keys(True, True), key=str)}, given


def send(rank: int, library: str, kind: str, options: dict[str, Any], calls: tuple[str, str]) -> Any:
    m: Any = importlib.import_module(library)
    data = made(m, kind, rank)
    given = getattr(data, calls[rank])(1 - rank, **options)
    if isinstance(given, list):
        for transfer in given:
            transfer.wait()
        given = type(given)
    return outcome(data, given)


@pytest.mark.parametrize("calls", [("send", "recv"), ("isend", "irecv"), ("send", "irecv")], ids="-".join)
@pytest.mark.parametrize("kind", ["nested", "lazy", "dtypes"])
@pytest.mark.parametrize("options", [{}, {"init_tag": 5}], ids=["plain", "tag"])
def test_values_and_results_are_those_of_the_peer(
    pair: Group, kind: str, options: dict[str, Any], calls: tuple[str, str]
) -> None:
    ours, peers = [pair.run(send, library, kind, options, calls) for library in LIBRARIES]
    assert ours == peers


def test_consolidated_values_are_those_of_the_peer(pair: Group) -> None:
    options = {"consolidated": True}
    ours, peers = [pair.run(send, library, "consolidated", options, ("send", "recv")) for library in LIBRARIES]
    assert [values for values, _ in ours] == [values for values, _ in peers]


def test_scattered_tags_bring_the_values_of_the_peer(pair: Group) -> None:
    options = {"init_tag": 3, "pseudo_rand": True}
    ours, peers = [pair.run(send, library, "nested", options, ("send", "recv")) for library in LIBRARIES]
    assert [values for values, _ in ours] == [values for values, _ in peers]
    assert [type(given) for _, given in ours] == [type(given) for _, given in peers]


def to_one_who_knows_nothing(rank: int, library: str, kind: str, use_broadcast: bool) -> Any:
    m: Any = importlib.import_module(library)
    if rank == 0:
        return made(m, kind, 0).init_remote(**({"use_broadcast": True} if use_broadcast else {"dst": 1}))
    data = m.TensorDict.from_remote_init(0, use_broadcast=use_broadcast)
    return outcome(data, list(data.batch_size)), data.is_consolidated(), type(data).__name__


@pytest.mark.parametrize("use_broadcast", [False, True], ids=["one", "all"])
@pytest.mark.parametrize("kind", ["nested", "lazy", "consolidated"])
def test_what_comes_to_one_who_knows_nothing_is_what_the_peer_gives(
    pair: Group, kind: str, use_broadcast: bool
) -> None:
    ours, peers = [pair.run(to_one_who_knows_nothing, library, kind, use_broadcast) for library in LIBRARIES]
    assert ours == peers


def refused(rank: int, library: str, how: str) -> Any:
    data = made(importlib.import_module(library), "nested", rank)
    if how == "none":
        return data.send() if rank == 0 else data.recv()
    if how == "itself":
        return data.send(rank)
    return data.send(group_dst=1) if rank == 0 else data.recv(group_src=0)


@pytest.mark.parametrize("how", ["none", "itself", "no group"])
def test_what_the_peer_refuses_is_refused_with_the_same_class(pair: Group, how: str) -> None:
    ours, peers = [pair.outcomes(refused, library, how) for library in LIBRARIES]
    assert [item.kind for item in ours] == [item.kind for item in peers]


# ---------------------------------------------------------------------------------------------------------------------
# what docs/differences.md says


def going(rank: int, library: str) -> int:
    data = made(importlib.import_module(library), "nested", rank)
    given = data.isend(1, return_early=True) if rank == 0 else data.irecv(0, return_premature=True)
    for transfer in given:
        transfer.wait()
    return len(given)


def test_a_record_is_one_message_and_what_is_on_its_way_is_one_object(pair: Group) -> None:
    assert "A record is one message." in DISTRIBUTED
    assert "A message in transit is one object." in DISTRIBUTED
    ours, peers = [pair.run(going, library) for library in LIBRARIES]
    assert (ours, peers) == ([1, 1], [2, 2])


def with_text(rank: int, library: str, turned: bool) -> Any:
    m: Any = importlib.import_module(library)
    values = {"a": torch.tensor(1.0 + rank), "b": torch.tensor(3.0 + rank)}
    data = m.TensorDict(dict(reversed(values.items())) if turned and rank else values, batch_size=[])
    data["o"] = f"of {rank}"
    data.send(1) if rank == 0 else data.recv(0)
    return data["a"].item(), data["o"]


def test_a_record_is_one_message_in_which_text_goes_along_and_keys_have_no_order(pair: Group) -> None:
    assert pair.run(with_text, "tensorclass", True)[1] == (1.0, "of 0")
    values, text = pair.run(with_text, "tensordict", False)[1]
    assert (values, text) != (1.0, "of 0")


def differing(rank: int, library: str) -> Any:
    m: Any = importlib.import_module(library)
    dtype = torch.float32 if rank == 0 else torch.int32
    data = m.TensorDict({"a": torch.ones(3, dtype=dtype)}, batch_size=[])
    data.send(1) if rank == 0 else data.recv(0)
    return data["a"].tolist()


def test_two_sides_that_differ_are_told_so(pair: Group) -> None:
    assert "Both sides report a mismatch." in DISTRIBUTED
    ours = pair.outcomes(differing, "tensorclass")
    assert all(isinstance(item, Failed) and item.kind.__name__ == "RecordsDiffer" for item in ours)
    peers = pair.outcomes(differing, "tensordict")
    assert peers[1] == [1065353216] * 3  # bytes of another dtype


class OurRecord(tensorclass.TensorClass):
    x: torch.Tensor


class PeerRecord(tensordict.TensorClass):  # type: ignore[misc]
    x: torch.Tensor


def record(rank: int, library: str) -> Any:
    cls: Any = OurRecord if library == "tensorclass" else PeerRecord
    if rank == 0:
        return cls(torch.zeros(3), batch_size=[3]).init_remote(1)
    return type(importlib.import_module(library).TensorDict.from_remote_init(0)).__name__


def test_the_class_that_asks_decides(pair: Group) -> None:
    assert "The receiver chooses the class." in DISTRIBUTED
    ours, peers = [pair.run(record, library)[1] for library in LIBRARIES]
    assert (ours, peers) == ("TensorDict", "PeerRecord")


def unpicklable(rank: int, library: str) -> Any:
    m: Any = importlib.import_module(library)
    if rank == 0:
        m.TensorDict({"o": m.NonTensorData(Group)}, batch_size=[]).init_remote(1)
        return None
    return m.TensorDict.from_remote_init(0)["o"].__name__


def test_nothing_is_unpickled(pair: Group) -> None:
    assert "Nothing is unpickled." in DISTRIBUTED
    assert pair.run(unpicklable, "tensordict")[1] == "Group"
    ours = pair.outcomes(refuses, "tensorclass")
    assert ours[0].kind is TypeError
    assert "allow_pickle" in ours[0].message


def refuses(rank: int, library: str) -> None:
    m: Any = importlib.import_module(library)
    if rank == 0:
        m.TensorDict({"o": m.NonTensorData(Group)}, batch_size=[]).init_remote(1)
