"""A collection to a process that does not know what it looks like."""

import json
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict
from tensorclass.distributed import RecordsDiffer, WorkerTimeout
from tensorclass.distributed.messages import remote_init
from tensorclass.distributed.messages.exchange import endpoint_of
from tensorclass.storage import FileError
from tests.distributed.messages.test_point_to_point import MADE, Sample, shown
from tests.distributed.processes import Group, group_of


class Other(TensorClass):
    z: Tensor


def whole(rank: int, name: str, options: dict[str, Any]) -> Any:
    if rank == 0:
        data = MADE[name](3)
        dst = {} if options.get("use_broadcast") else {"dst": 1}
        return shown(data), data.init_remote(**dst, **options), data.batch_size, data.names, True
    found = TensorDict.from_remote_init(0, **options)
    return shown(found), None, found.batch_size, found.names, found.is_consolidated()


@pytest.mark.parametrize(
    "name", [name for name in MADE if name not in ("empty", "scalars and nothing", "many objects")]
)
def test_what_comes_is_what_was_sent(pair: Group, name: str) -> None:
    sent, received = pair.run(whole, name, {})
    assert received == sent


@pytest.mark.parametrize("name", ["empty", "scalars and nothing", "many objects"])
def test_collections_without_values(pair: Group, name: str) -> None:
    sent, received = pair.run(whole, name, {})
    assert received[:4] == sent[:4]


OPTIONS: dict[str, dict[str, Any]] = {
    "broadcast": {"use_broadcast": True},
    "broadcast with time": {"use_broadcast": True, "timeout": 5.0},
    "time": {"timeout": 5.0},
    "device": {"device": "cpu"},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_arguments(pair: Group, option: str) -> None:
    for name in ("flat", "objects", "large"):
        sent, received = pair.run(whole, name, OPTIONS[option])
        assert received == sent


def test_backends_without_tags(pair: Group) -> None:
    pair.run(without_tags, True)
    try:
        for name in ("large", "many objects"):
            sent, received = pair.run(whole, name, {})
            assert received[:4] == sent[:4]
    finally:
        pair.run(without_tags, False)


def without_tags(rank: int, without: bool) -> None:
    endpoint_of(None, "test")[1].tagged = not without


def record(rank: int, wrong: bool) -> Any:
    if rank == 0:
        MADE["record"](5).rename("rows").init_remote(1)
        return None
    if wrong:
        try:
            Other.from_remote_init(0)
        except ValueError as error:
            return str(error)
    found: Sample = Sample.from_remote_init(0)
    return type(found).__name__, type(found.inner).__name__, found.name, found.names, shown(found)


def test_a_record_class_gives_its_records(pair: Group) -> None:
    assert pair.run(record, False)[1] == ("Sample", "Inner", "at 5", ["rows"], shown(MADE["record"](5)))


def test_what_does_not_fit_the_record_is_an_error_that_says_why(pair: Group) -> None:
    message = pair.run(record, True)[1]
    assert "rank 0" in message
    assert "fields of Other are ['z']" in message


def lazy(rank: int) -> bool:
    if rank == 0:
        MADE["lazy"](1).init_remote(1)
        return True
    return isinstance(TensorDict.from_remote_init(0), LazyStackedTensorDict)


def test_a_lazy_stack_comes_as_one(pair: Group) -> None:
    assert pair.run(lazy) == [True, True]


def then_more(rank: int) -> list[float]:
    if rank == 0:
        data = TensorDict({"b": torch.ones(3), "a": torch.ones(3, 2)}, [3]).consolidate()
        data.init_remote(1)
        for at in (2, 3):
            data["a"].fill_(at)
            data.send(1, consolidated=True)
        return []
    found = TensorDict.from_remote_init(0)
    numbers = [float(found["a"][0, 0])]
    for _ in range(2):
        found.recv(0, consolidated=True)
        numbers.append(float(found["a"][0, 0]))
    return numbers


def test_more_of_the_same_form_can_follow(pair: Group) -> None:
    assert pair.run(then_more)[1] == [1.0, 2.0, 3.0]


def pickled(rank: int, allowed: bool) -> Any:
    if rank == 0:
        data = TensorDict({"a": torch.zeros(1)})
        data.set_non_tensor("f", time.sleep)
        data.init_remote(1, allow_pickle=True)
        return None
    try:
        return TensorDict.from_remote_init(0, allow_pickle=allowed)["f"]
    except ValueError as error:
        return str(error)


def test_nothing_is_unpickled_unless_it_is_asked_for(pair: Group) -> None:
    assert "pickle" in pair.run(pickled, False)[1]
    assert pair.run(pickled, True)[1] is time.sleep


def not_the_same_call(rank: int) -> None:
    if rank == 0:
        TensorDict({"a": torch.zeros(1)}).init_remote(1)
    else:
        TensorDict({"a": torch.zeros(1)}).recv(0)


def test_two_sides_with_other_calls_both_raise(pair: Group) -> None:
    found = pair.outcomes(not_the_same_call)
    assert [item.kind for item in found] == [RecordsDiffer, RecordsDiffer]
    assert all("init_remote" in item.message for item in found)
    sent, received = pair.run(whole, "flat", {})
    assert received == sent


def refused(rank: int, how: str) -> None:
    data = TensorDict({"a": torch.zeros(1), "f": time.sleep})
    if how == "nobody":
        data.init_remote()
    elif how == "two":
        data.init_remote(1 - rank, use_broadcast=True)
    elif how == "itself":
        TensorDict.from_remote_init(rank)
    elif how == "device":
        data.init_remote(1 - rank, device="meta")
    else:
        data.init_remote(1 - rank)


@pytest.mark.parametrize(
    "how, kind, message",
    [
        ("nobody", ValueError, "give dst, or send to all other processes with use_broadcast=True"),
        ("two", ValueError, "use_broadcast"),
        ("itself", ValueError, "itself"),
        ("device", ValueError, "no backend for meta"),
        ("object", TypeError, "f: .*allow_pickle"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    pair: Group, how: str, kind: type[Exception], message: str
) -> None:
    for item in pair.outcomes(refused, how):
        with pytest.raises(kind, match=message):
            raise item.kind(item.message)


def waits(rank: int) -> Any:
    if rank == 1:
        return None
    try:
        TensorDict.from_remote_init(1, timeout=0.3)
    except WorkerTimeout as error:
        return str(error)
    return "none"


def test_a_process_that_does_not_send_is_named_in_time() -> None:
    with group_of(2) as group:
        assert "rank 1 has not sent the record within 0.3 s" in group.run(waits)[0]


def test_tensors_that_share_bytes_are_refused() -> None:
    data = TensorDict(a=torch.ones(4), z=torch.zeros(0), b=torch.ones(4))
    text, memory = remote_init._serialize(data, "init_remote", False)
    known = json.loads(text)
    assert remote_init._deserialize(text, memory, TensorDict, "here", None, False)["b"].tolist() == [1.0] * 4
    changed = json.dumps({**known, "starts": [0, 5, 8]}).encode()
    with pytest.raises(FileError, match="here: a and b have 8 bytes in common"):
        remote_init._deserialize(changed, memory, TensorDict, "here", None, False)
