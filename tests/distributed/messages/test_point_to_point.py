"""A collection from one process to another."""

import doctest
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tensorclass import MemoryMappedTensor, NonTensorData, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.distributed import RecordsDiffer, WorkerDied, WorkerTimeout
from tensorclass.distributed.messages.exchange import endpoint_of
from tensorclass.distributed.messages.record_layout import layout_of
from tests.distributed.processes import Failed, Group, group_of
from tests.docstring_examples import examples_that_need, run


class Inner(TensorClass):
    y: Tensor


class Sample(TensorClass):
    x: Tensor
    inner: Inner
    name: str = "none"


def numbers(shape: list[int], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def rows(seed: int) -> Tensor:
    values = [numbers([2 + seed % 2, 3], seed), numbers([3 - seed % 2, 3], seed + 1)]
    ragged: Tensor = torch.nested.nested_tensor(values, layout=torch.jagged)
    return ragged


#: collections by name; a seed gives the values
MADE: dict[str, Callable[[int], Any]] = {
    "flat": lambda seed: TensorDict({"b": numbers([3], seed), "a": numbers([3, 2], seed + 1)}, [3]),
    "nested": lambda seed: TensorDict({"a": numbers([3], seed), "n": {"m": {"b": numbers([3, 4], seed + 1)}}}, [3]),
    "dtypes": lambda seed: TensorDict(
        {
            str(dtype): numbers([5, 3], seed + at, dtype)
            for at, dtype in enumerate(
                [torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.complex128, torch.float64]
            )
        }
    ),
    "scalars and nothing": lambda seed: TensorDict({"a": numbers([], seed), "b": numbers([0, 3], seed)}),
    "empty": lambda seed: TensorDict({}, [3]),
    "large": lambda seed: TensorDict(
        {"a": numbers([300_000], seed), "b": numbers([2], seed), "c": numbers([70_000], 1)}
    ),
    "record": lambda seed: Sample(
        numbers([3], seed), Inner(numbers([3, 2], 1), batch_size=[3]), f"at {seed}", batch_size=[3]
    ),
    "objects": lambda seed: TensorDict({"a": numbers([2], seed), "o": {"k": [seed, (1, None)]}}, [2]).set(
        "t", [f"x{seed}", "y"]
    ),
    "many objects": lambda seed: TensorDict({"t": [f"row {seed + at}" for at in range(200)]}, [200]),
    "lazy": lambda seed: lazy_stack([TensorDict({"a": numbers([at + 1], seed + at)}) for at in range(3)]),
    "unbatched": lambda seed: TensorDict({"a": numbers([3], seed), "u": UnbatchedTensor(numbers([2], seed))}, [3]),
    "jagged": lambda seed: TensorDict({"j": rows(seed)}, [2]),
    "with gaps": lambda seed: TensorDict(
        {"a": numbers([4, 3], seed).T, "b": numbers([6], seed)[::2], "l": numbers([600, 600], seed).T}
    ),
    "conjugate": lambda seed: TensorDict({"a": torch.complex(numbers([], seed), numbers([], 3)).conj()}),
    "parameters": lambda seed: TensorDict({"a": nn.Parameter(numbers([3], seed)), "b": numbers([3], 1)}),
    "memory-mapped": lambda seed: TensorDict({"a": MemoryMappedTensor.from_tensor(numbers([3], seed))}),
    "rows of another": lambda seed: TensorDict({"a": numbers([4, 2], seed)}, [4]).get_sub_tensordict(
        torch.tensor([0, 2])
    ),
    "consolidated": lambda seed: TensorDict({"b": numbers([3], seed), "a": numbers([3, 2], seed)}, [3]).consolidate(),
}


def shown(data: Any) -> Any:
    """Values, dtypes and objects of a collection, as plain Python."""
    if isinstance(data, Tensor):
        if data.is_nested:
            return [shown(row) for row in data.unbind()]
        return str(data.dtype), data.resolve_conj().tolist() if data.numel() < 1000 else float(data.double().sum())
    if isinstance(data, list):
        return data
    if not hasattr(data, "keys"):
        return repr(data)
    if type(data).__name__.startswith("Lazy"):
        return [shown(part) for part in data.unbind(0)]
    return {key: shown(data[key]) for key in sorted(data.keys())}


def exchange(rank: int, name: str, options: dict[str, Any]) -> Any:
    data = MADE[name](10 + rank)
    given = data.send(1, **options) if rank == 0 else data.recv(0, **options)
    return shown(data), given


@pytest.mark.parametrize("name", MADE)
def test_what_is_received_is_what_was_sent(pair: Group, name: str) -> None:
    (sent, none), (received, tag) = pair.run(exchange, name, {})
    assert received == sent == shown(MADE[name](10))
    assert none is None
    assert tag == max(len(layout_of(MADE[name](10)).specs) - 1, 0)


OPTIONS: dict[str, dict[str, Any]] = {
    "tag": {"init_tag": 7},
    "scattered": {"init_tag": 7, "pseudo_rand": True},
    "time": {"timeout": 5.0},
    "consolidated": {"consolidated": True},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_arguments(pair: Group, option: str) -> None:
    (sent, _), (received, _) = pair.run(exchange, "consolidated", OPTIONS[option])
    assert received == sent


@pytest.mark.parametrize("name", ["flat", "objects", "large", "lazy", "many objects"])
def test_backends_without_tags(pair: Group, name: str) -> None:
    pair.run(without_tags, True)
    try:
        (sent, _), (received, _) = pair.run(exchange, name, {})
        assert received == sent
        found = pair.outcomes(differing, "dtype")
        assert [item.kind for item in found] == [RecordsDiffer, RecordsDiffer]
    finally:
        pair.run(without_tags, False)


def without_tags(rank: int, without: bool) -> None:
    endpoint_of(None, "test")[1].tagged = not without


def test_a_side_that_comes_late_is_waited_for(pair: Group) -> None:
    assert pair.run(late, 0) == [2.0, 2.0]
    assert pair.run(late, 1) == [2.0, 2.0]


def packed(rank: int, name: str) -> Any:
    data = MADE[name](10 + rank).consolidate()
    data.send(1, consolidated=True) if rank == 0 else data.recv(0, consolidated=True)
    return shown(data)


@pytest.mark.parametrize("name", ["nested", "dtypes", "record", "lazy", "jagged", "large"])
def test_consolidated_collections_of_every_kind(pair: Group, name: str) -> None:
    assert pair.run(packed, name) == [shown(MADE[name](10))] * 2


def late(rank: int, who: int) -> float:
    data = TensorDict({"a": torch.tensor(2.0 - rank)})
    if rank == who:
        time.sleep(0.4)
    data.send(1) if rank == 0 else data.recv(0)
    return float(data["a"])


# ---------------------------------------------------------------------------------------------------------------------
# the same record again and again


def again(rank: int) -> list[Any]:
    data = TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(3, 2, dtype=torch.int64)}}, [3])
    kept = data["a"]
    found: list[Any] = []

    def step(at: int) -> None:
        if rank == 0:
            data["a"].fill_(at)
            data["n", "b"].fill_(-at)
            data.send(1)
        else:
            data.recv(0)
            found.append((data["a"].tolist(), data["n", "b"].tolist()))

    for at in range(5):
        step(at)
    assert data["a"] is kept
    data["a"] = torch.zeros(3)  # another tensor
    step(5)
    data["n"] = TensorDict({"b": torch.zeros(3, 2, dtype=torch.int64)}, [3])
    step(6)
    step(7)
    data["a"].data = torch.zeros(3)  # another memory
    step(8)
    data["a"] = torch.zeros(6)[::2]  # with gaps
    step(9)
    step(10)
    return found


def test_a_record_that_goes_again_and_again(pair: Group) -> None:
    assert pair.run(again)[1] == [([float(at)] * 3, [[-at, -at]] * 3) for at in range(11)]


def changed(rank: int, how: str) -> Any:
    data = TensorDict({"a": torch.full((4, 2), float(rank))})
    for _ in range(3):
        data.send(1) if rank == 0 else data.recv(0)
    if rank == 0:
        if how == "shape":
            data["a"].resize_(2, 2)
        elif how == "dtype":
            data["a"] = torch.zeros(4, 2, dtype=torch.int32)
        else:
            data["b"] = torch.zeros(1)
    try:
        data.send(1) if rank == 0 else data.recv(0)
    except RecordsDiffer as error:
        return error.differences
    return "none"


@pytest.mark.parametrize("how", ["shape", "dtype", "key"])
def test_a_record_that_has_changed_is_not_taken_for_the_old_one(pair: Group, how: str) -> None:
    ours, theirs = pair.run(changed, how)
    assert len(ours) == len(theirs) == 1
    assert pair.run(exchange, "flat", {})[1][0] == shown(MADE["flat"](10))


def renamed(rank: int) -> Any:
    data = TensorDict({"a": torch.full((3,), float(rank)), "n": {"b": torch.zeros(2)}})
    for _ in range(3):
        data.send(1) if rank == 0 else data.recv(0)
    data.rename_key_("a", "z")
    data["n"].rename_key_("b", "y")
    other = data if rank == 0 else data.clone()
    other.send(1) if rank == 0 else other.recv(0)  # both know
    if rank == 0:
        data.rename_key_("z", "x")
    try:
        data.send(1) if rank == 0 else data.recv(0)
    except RecordsDiffer as error:
        return error.differences
    return "none"


def test_a_record_whose_keys_were_renamed_is_not_taken_for_the_old_one(pair: Group) -> None:
    told = ["x: float32 [3] on rank 0, absent on rank 1", "z: absent on rank 0, float32 [3] on rank 1"]
    assert pair.run(renamed) == [told, told]


def converted(rank: int) -> Any:
    data = TensorDict({"a": torch.full((4,), 1.0 - rank, dtype=torch.float16)})
    for _ in range(3):
        data.send(1) if rank == 0 else data.recv(0)
    for dtype in (torch.float32, torch.float16):  # what modules do in half() and float(), to the same tensors
        data["a"].data = torch.full((4,), 1.0 - rank, dtype=dtype)
        data.send(1) if rank == 0 else data.recv(0)
    found: list[Any] = []
    for other in (torch.zeros(4, dtype=torch.bfloat16), torch.zeros(2, 2, dtype=torch.float16)):
        data["a"].data = other if rank else torch.zeros(4, dtype=torch.float16)
        try:
            data.send(1) if rank == 0 else data.recv(0)
        except RecordsDiffer as error:
            found += error.differences
    return found


def test_a_record_whose_tensors_were_converted_is_not_taken_for_the_old_one(pair: Group) -> None:
    told = ["a: float16 [4] on rank 0, bfloat16 [4] on rank 1", "a: float16 [4] on rank 0, float16 [2, 2] on rank 1"]
    assert pair.run(converted) == [told] * 2


def consolidated_again(rank: int) -> list[Any]:
    data = TensorDict({"b": torch.zeros(3), "n": {"a": torch.zeros(2, dtype=torch.int64)}}).consolidate()
    found: list[Any] = []
    for at in range(5):
        if rank == 0:
            data["b"].fill_(at)
            data["n", "a"].fill_(-at)
        data.send(1, consolidated=True) if rank == 0 else data.recv(0, consolidated=True)
        found.append([*data["b"].tolist(), *data["n", "a"].tolist()])
    data["b"].data = torch.full((3,), 9.0)  # so it is no piece of that memory any more
    if rank == 0:
        data.send(1, consolidated=True)  # a copy is sent
        return found
    try:
        data.recv(0, consolidated=True)
    except RuntimeError as error:
        found.append(str(error))
    data.consolidate().recv(0, consolidated=True)
    return found


def test_a_consolidated_record_goes_the_same_way_again_and_again(pair: Group) -> None:
    sent, received = pair.run(consolidated_again)
    assert sent == [[at, at, at, -at, -at] for at in range(5)]
    assert received[:5] == sent
    assert "must be consolidated" in received[5]


def both_ways(rank: int) -> list[float]:
    """Rank 2 sends to 1 and receives from 0: by numbers that are the same, but for what they mean."""
    data, found = TensorDict({"a": torch.full((2,), float(rank))}), list[float]()
    for _ in range(4):
        if rank == 2:
            data.send(1)
        elif rank == 1:
            data.recv(2)
    if rank == 0:
        for _ in range(4):
            data.send(2, init_tag=1)
    elif rank == 2:
        for _ in range(4):
            data.recv(group=dist.group.WORLD, group_src=0, init_tag=1)
            found.append(float(data["a"][0]))
    return found


def test_a_record_goes_to_one_and_comes_from_another(four: Group) -> None:
    assert four.run(both_ways)[2] == [0.0] * 4


# ---------------------------------------------------------------------------------------------------------------------
# at the same time


def both_first(rank: int) -> float:
    other, mine = 1 - rank, TensorDict({"a": torch.tensor(float(rank))})
    theirs = mine.clone()
    going = mine.isend(other, return_early=True)
    coming = theirs.irecv(other, return_premature=True)
    for transfer in (*going, *coming):
        assert not transfer.is_completed()
        assert transfer.wait(60.0)
        assert transfer.wait()
        assert transfer.is_completed()
    return float(theirs["a"])


def test_both_sides_can_send_first(pair: Group) -> None:
    assert pair.run(both_first) == [1.0, 0.0]


def several(rank: int) -> list[float]:
    records = [TensorDict({"a": torch.full((size,), size * (1.0 - rank))}) for size in (1, 2, 1, 3)]
    tags = [0, 0, 5, 9]
    if rank == 0:
        going = [data.isend(1, return_early=True, init_tag=tag)[0] for data, tag in zip(records, tags, strict=True)]
    else:
        order = [3, 0, 2, 1]  # those of one tag in the order of sending
        going = [records[at].irecv(0, return_premature=True, init_tag=tags[at])[0] for at in order]
    for transfer in going:
        transfer.wait()
    return [float(data["a"].sum()) for data in records]


def test_several_records_on_their_way_are_told_apart_by_their_tags(pair: Group) -> None:
    assert pair.run(several) == [[1.0, 4.0, 1.0, 9.0]] * 2


def very_many(rank: int) -> tuple[bool, int]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 40, before[1]))
    try:
        records = [TensorDict({"a": torch.full((3,), at * (1.0 - rank))}) for at in range(300)]
        if rank == 0:
            going = [data.isend(1, return_early=True, init_tag=at)[0] for at, data in enumerate(records)]
        else:
            going = [data.irecv(0, return_premature=True, init_tag=at)[0] for at, data in enumerate(records)]
        for transfer in going:
            transfer.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    return all(data["a"].eq(at).all() for at, data in enumerate(records)), len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted there")
def test_more_are_on_their_way_than_files_can_be_open(pair: Group) -> None:
    for right, opened in pair.run(very_many):
        assert right
        assert opened < 300


def returned(rank: int, tag: int, scattered: bool) -> Any:
    data = MADE["flat"](rank)
    if rank == 0:
        return data.isend(1, init_tag=tag, pseudo_rand=scattered)
    return data.irecv(0, init_tag=tag, pseudo_rand=scattered)


def test_isend_gives_the_last_tag_and_irecv_nothing(pair: Group) -> None:
    assert pair.run(returned, 4, False) == [5, None]
    scattered, _ = pair.run(returned, 4, True)
    assert scattered > 100


# ---------------------------------------------------------------------------------------------------------------------
# two sides that differ

DIFFER: dict[str, Callable[[], Any]] = {
    "dtype": lambda: TensorDict({"a": torch.zeros(3, dtype=torch.int32)}),
    "shape": lambda: TensorDict({"a": torch.zeros(3, 2)}),
    "missing": lambda: TensorDict({}),
    "more": lambda: TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(1)}}),
    "large": lambda: TensorDict({"a": torch.zeros(100_000)}),
    "object": lambda: TensorDict({"a": "text"}),
    "lazy": lambda: lazy_stack([TensorDict({"a": torch.zeros(())})] * 3),
}


def differing(rank: int, how: str, asynchronous: bool = False) -> Any:
    data = TensorDict({"a": torch.full((3,), 5.0)}) if rank == 0 else DIFFER[how]()
    if asynchronous:
        transfer = data.isend(1, return_early=True) if rank == 0 else data.irecv(0, return_premature=True)
        return transfer[0].wait()
    return data.send(1) if rank == 0 else data.recv(0)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["now", "later"])
@pytest.mark.parametrize("how", DIFFER)
def test_both_sides_raise_where_they_differ(pair: Group, how: str, asynchronous: bool) -> None:
    found = pair.outcomes(differing, how, asynchronous)
    assert [item.kind for item in found] == [RecordsDiffer, RecordsDiffer]
    assert found[0].message.partition(":")[2] == found[1].message.partition(":")[2]
    for item in found:
        assert "a: " in item.message or "n.b: absent on rank 0, float32 [1] on rank 1" in item.message
        assert "rank 0" in item.message
        assert "rank 1" in item.message
    assert pair.run(exchange, "flat", {})[1][0] == shown(MADE["flat"](10))  # the group is whole


def untouched(rank: int) -> Any:
    data = TensorDict({"a": torch.full((3,), 5.0 * rank), "l": torch.full((100_000,), 5.0 * rank)})
    if rank == 0:
        data["b"] = torch.zeros(1)
    try:
        data.send(1) if rank == 0 else data.recv(0)
    except RecordsDiffer:
        return data["a"].tolist(), float(data["l"].min())
    return None


def test_nothing_is_written_where_the_sides_differ(pair: Group) -> None:
    assert pair.run(untouched)[1] == ([5.0] * 3, 5.0)


def unfit(rank: int, where: str) -> Any:
    """If a field does not accept an object that comes, the record is unchanged."""
    values: dict[str, Any] = {"x": torch.full((3,), float(rank)), "inner": {"y": torch.zeros(3, 2)}, "name": "before"}
    data: Any = TensorDict(values, [3])
    if rank == 0:
        data["name"] = NonTensorData(3, batch_size=[3])
        return data.send(1)
    if where == "record":
        data = Sample(values["x"], Inner(torch.zeros(3, 2), batch_size=[3]), "before", batch_size=[3])
    else:
        data = data.memmap(where)
    try:
        data.recv(0)
    except (TypeError, RuntimeError) as error:
        return type(error), str(error), data["x"].tolist(), data["name"]
    return "none"


def test_objects_that_do_not_fit_are_not_written(pair: Group, tmp_path: Path) -> None:
    kind, message, *rest = pair.run(unfit, "record")[1]
    assert kind is TypeError
    assert message.startswith("recv: the record of rank 0: Sample.name: expected str, got int 3")
    assert rest == [[1.0] * 3, "before"]
    kind, message, *rest = pair.run(unfit, str(tmp_path / "files"))[1]
    assert kind is RuntimeError
    assert "memory-mapped" in message
    assert rest == [[1.0] * 3, "before"]
    assert pair.run(exchange, "flat", {})[1][0] == shown(MADE["flat"](10))


def nothing_but_objects(rank: int) -> list[Any]:
    found: list[Any] = []
    for values in ({"s": f"rank {rank}"}, {}, {"a": torch.zeros(0, 3)}):
        data = TensorDict(values).consolidate()  # type: ignore[arg-type]
        data.send(1, consolidated=True) if rank == 0 else data.recv(0, consolidated=True)
        found += [data[key] for key in ("s",) if key in values]
    return found


def test_consolidated_collections_without_values(pair: Group) -> None:
    assert pair.run(nothing_but_objects) == [["rank 0"]] * 2


# ---------------------------------------------------------------------------------------------------------------------
# refused on one side


def refused(rank: int, call: str) -> Any:
    data = TensorDict({"a": torch.zeros(3)})
    calls: dict[str, Callable[[], Any]] = {
        "none": lambda: data.send(),
        "both": lambda: data.send(1, group_dst=1),
        "no group": lambda: data.recv(group_src=1),
        "ranks": lambda: data.send(1 - rank, group=[0, 1]),  # type: ignore[arg-type]
        "itself": lambda: data.send(rank),
        "tag": lambda: data.send(1 - rank, init_tag="a"),  # type: ignore[arg-type]
        "unknown": lambda: data.recv(7),
        "unknown in group": lambda: data.recv(group=dist.group.WORLD, group_src=7),
        "time": lambda: data.recv(1 - rank, timeout=0),
        "endless time": lambda: data.send(1 - rank, timeout=float("inf")),
        "time early": lambda: data.isend(1 - rank, return_early=True, timeout=1),
        "time premature": lambda: data.irecv(1 - rank, return_premature=True, timeout=1),
        "expanded": lambda: TensorDict({"a": torch.zeros(1).expand(3)}).recv(1 - rank),
        "not consolidated": lambda: TensorDict({"a": torch.zeros(3), "b": torch.zeros(3)}).recv(
            1 - rank, consolidated=True
        ),
        "sparse": lambda: TensorDict({"a": torch.zeros(3).to_sparse()}).send(1 - rank),
        "object": lambda: TensorDict({"a": object}).send(1 - rank),
    }
    calls[call]()


@pytest.mark.parametrize(
    "call, kind, message",
    [
        ("none", ValueError, "dst or by group_dst"),
        ("both", ValueError, "exactly one of them"),
        ("no group", ValueError, "give group= as well"),
        ("itself", ValueError, "to itself; this is rank [01]"),
        ("tag", TypeError, "init_tag: expected an int, got 'a'"),
        ("ranks", TypeError, "group: expected a process group, .* got a list"),
        ("unknown", ValueError, r"one of 0-1, got 7"),
        ("unknown in group", ValueError, "2 ranks, got 7"),
        ("time", ValueError, "positive number of seconds"),
        ("endless time", ValueError, "timeout: expected a positive number of seconds or a timedelta, got inf"),
        ("time early", ValueError, "give timeout to wait"),
        ("time premature", ValueError, "give timeout to wait"),
        ("expanded", RuntimeError, "a is expanded.*clone it first"),
        ("not consolidated", RuntimeError, "must be consolidated"),
        ("sparse", TypeError, "sparse"),
        ("object", TypeError, "allow_pickle"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    pair: Group, call: str, kind: type[Exception], message: str
) -> None:
    for item in pair.outcomes(refused, call):
        assert isinstance(item, Failed)
        with pytest.raises(kind, match=message):
            raise item.kind(item.message)
    assert pair.run(exchange, "flat", {})[1][0] == shown(MADE["flat"](10))


def pickled(rank: int, allowed: bool) -> Any:
    data = TensorDict({"o": {"k": 1}, "a": torch.tensor(float(rank))})
    data.set_non_tensor("f", time.sleep if rank == 0 else None)
    if rank == 0:
        return data.send(1, allow_pickle=True)
    try:
        data.recv(0, allow_pickle=allowed)
    except ValueError as error:
        return float(data["a"]), data["f"], str(error)
    return data["f"]


def test_nothing_is_unpickled_unless_it_is_asked_for(pair: Group) -> None:
    number, function, message = pair.run(pickled, False)[1]
    assert (number, function) == (1.0, None)  # nothing was written
    assert "pickle" in message
    assert pair.run(pickled, True)[1] is time.sleep


def test_without_a_group_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="process group"):
        TensorDict({"a": torch.zeros(1)}).send(1)


# ---------------------------------------------------------------------------------------------------------------------
# groups


def grouped(rank: int) -> Any:
    group = dist.new_group([1, 3])
    if rank not in (1, 3):
        try:
            TensorDict({"a": torch.zeros(1)}).send(1, group=group)
        except ValueError as error:
            return str(error)
    data = TensorDict({"a": torch.full((3,), float(rank))})
    data.send(3, group=group) if rank == 1 else data.recv(group=group, group_src=0)
    found = float(data["a"][0])
    data["a"].fill_(rank)
    data.recv(3, group=group) if rank == 1 else data.send(group=group, group_dst=0)
    return found, float(data["a"][0])


def test_ranks_of_the_world_and_those_of_a_group(four: Group) -> None:
    found = four.run(grouped)
    assert [found[1], found[3]] == [(1.0, 3.0), (1.0, 3.0)]
    assert all("not in the group" in found[at] for at in (0, 2))


def ring(rank: int) -> float:
    mine = TensorDict({"a": torch.tensor(float(rank)), "b": torch.zeros(100_000)})
    theirs = mine.clone()
    going = mine.isend((rank + 1) % 4, return_early=True)
    theirs.recv((rank - 1) % 4)
    going[0].wait()
    return float(theirs["a"])


def test_four_processes_in_a_ring(four: Group) -> None:
    assert four.run(ring) == [3.0, 0.0, 1.0, 2.0]


def alone(rank: int, meeting: Path) -> float:
    from datetime import timedelta

    group: Any = dist.ProcessGroupGloo(dist.FileStore(str(meeting), 2), rank, 2, timedelta(seconds=60))
    data = TensorDict({"a": torch.tensor(float(rank))})
    for _ in range(4):
        data.send(group=group, group_dst=1) if rank == 0 else data.recv(group=group, group_src=0)
        if rank:
            endpoint_of(None, "test")  # this process has to do with another group, too
    with pytest.raises(TypeError, match=r"group: expected a process group, .* got a ProcessGroupGloo"):
        data.all_reduce(group=group)
    return float(data["a"])


def test_a_group_that_is_not_registered(pair: Group, tmp_path: Path) -> None:
    assert pair.run(alone, tmp_path / "meeting") == [0.0, 0.0]


# ---------------------------------------------------------------------------------------------------------------------
# faults

LONG = 120.0  #: seconds, which nothing here takes, however busy the machine is


def receive(rank: int, other: int, seconds: float | None) -> Any:
    data = TensorDict({"a": torch.full((3,), 7.0), "l": torch.zeros(100_000), "o": "before"})
    try:
        data.recv(other, timeout=seconds)
    except RuntimeError as error:
        return type(error), str(error), data["a"].tolist(), data["o"]
    return None


def give(rank: int, other: int, seconds: float | None) -> Any:
    try:
        TensorDict({"a": torch.zeros(3)}).send(other, timeout=seconds)
    except RuntimeError as error:
        return type(error), str(error)
    return None


def test_a_process_that_is_killed_or_hangs_is_named_within_the_time() -> None:
    with group_of(4, LONG) as group:
        group.start(receive, 3, LONG, ranks=[0])
        time.sleep(0.3)
        os.kill(group.pids[3], signal.SIGKILL)
        kind, message, values, text = group.result(0)
        assert kind is WorkerDied
        assert "rank 3" in message
        assert (values, text) == ([7.0] * 3, "before")
        group.start(give, 3, LONG, ranks=[0])  # and at once from then on
        assert group.result(0, LONG / 2)[0] is WorkerDied
        # the others are there
        group.start(receive, 0, LONG, ranks=[1])
        group.start(send_whole, 1, ranks=[0])
        assert (group.result(1), group.result(0)) == (None, None)
        os.kill(group.pids[2], signal.SIGSTOP)
        try:
            group.start(give, 2, 0.5, ranks=[1])
            kind, message = group.result(1, LONG / 2)
            assert kind is WorkerTimeout
            assert "rank 2" in message
            assert "0.5 s" in message
        finally:
            os.kill(group.pids[2], signal.SIGKILL)


def send_whole(rank: int, other: int) -> None:
    TensorDict({"a": torch.zeros(3), "l": torch.ones(100_000), "o": "new"}).send(other)


def raises(rank: int) -> Any:
    if rank == 0:
        os._exit(3)
    return receive(rank, 0, LONG)


def test_a_process_that_ends_is_named() -> None:
    with group_of(2) as group:
        kind, message, *_ = group.outcomes(raises)[1]
        assert kind is WorkerDied
        assert "rank 0" in message


# ---------------------------------------------------------------------------------------------------------------------
# examples in docstrings

EXAMPLES = examples_that_need("two processes")


def run_example(rank: int, name: str, docstring: str) -> None:
    run(name, docstring)


def test_the_examples_of_two_processes_are_found() -> None:
    names = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert {"send", "recv", "isend", "irecv", "init_remote", "from_remote_init", "gather_and_stack"} <= names


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_of_two_processes_runs_on_both(pair: Group, example: doctest.DocTest) -> None:
    pair.run(run_example, example.name, example.docstring or "")
