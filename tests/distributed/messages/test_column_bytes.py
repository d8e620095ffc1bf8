"""Text and ragged rows between two processes: messages, collectives, reductions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import Column, NonTensorStack, Ragged, TensorClass, TensorDict, Text, lazy_stack
from tensorclass.distributed import RecordsDiffer
from tensorclass.distributed.messages.column_bytes import ColumnForm, column_bytes, split_columns
from tensorclass.storage.common.collection_tree import FileError
from tests.distributed.processes import Failed, Group

Rows = list[list[int] | None]
Strings = list[str | None]


class Sample(TensorClass):
    text: Text | None
    tokens: Ragged | None
    deep: Ragged
    tags: Column[list[str]]
    x: Tensor


DEEP: list[list[Any]] = [[[[1.5], [2.0, 3.0]], [], [[4.0]]], [[], [[5.0]], [[], [6.0, 7.0, 8.0]]]]


def sample(rank: int) -> Sample:
    """A record of three rows, with other lengths on each rank."""
    strings, rows = [["a", "bc", None], ["ö", "", "a longer string" * 50]], [[[1], [], [2, 3]], [None, [4] * 300, [5]]]
    return Sample(
        text=strings[rank],
        tokens=rows[rank],
        deep=Ragged.from_list(DEEP[rank], ragged_dims=2),
        tags=[["u"] * rank, ["v"], []],
        x=torch.arange(3.0) + 10 * rank,
        batch_size=[3],
    )


def content(data: Any) -> dict[str, Any]:
    return {key: data[key].tolist() for key in ("text", "tokens", "deep", "tags", "x")}


def sent(rank: int, data: Any, target: Any, asynchronous: bool, **options: Any) -> Any:
    """Send from rank 0 into the record of rank 1, and return that."""
    if rank == 0:
        if asynchronous:
            for transfer in data.isend(dst=1, return_early=True, **options):
                transfer.wait()
        else:
            data.send(dst=1, **options)
        return None
    if asynchronous:
        for transfer in target.irecv(src=0, return_premature=True, **options):
            transfer.wait()
    else:
        target.recv(src=0, **options)
    return target


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("consolidated", [False, True])
def test_rows_of_other_lengths_are_received(pair: Group, asynchronous: bool, consolidated: bool) -> None:
    for source, target in ((sample(0), sample(1)), (sample(1), sample(0)), (sample(0)[[2, 0, 0]], sample(1))):
        received = pair.run(sent, source, target, asynchronous) if not consolidated else pair.run(
            _sent_consolidated, source, target, asynchronous
        )  # fmt: skip
        assert content(received[1]) == content(source)


def _sent_consolidated(rank: int, data: Any, target: Any, asynchronous: bool) -> Any:
    return sent(rank, data, target, asynchronous, consolidated=True)


def _received_twice(rank: int) -> Any:
    """Receive into a record of which others share the buffers."""
    if rank == 0:
        sample(0).send(dst=1)
        return None
    target = sample(1)
    shared = target[[1, 2]]
    before = content(shared)
    with torch.no_grad():
        target.lock_().recv(src=0)
    return content(target), before == {**content(shared), "x": before["x"]}


def test_others_that_share_the_buffers_keep_their_rows(pair: Group) -> None:
    assert pair.run(_received_twice)[1] == (content(sample(0)), True)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_rows(pair: Group, data: st.DataObject) -> None:
    """`send` and `recv`, and `all_gather`, of any rows."""
    count = data.draw(st.integers(0, 4))
    made: list[TensorDict] = []
    for _ in range(2):
        strings = data.draw(st.lists(st.none() | st.text(max_size=4), min_size=count, max_size=count))
        row = st.none() | st.lists(st.integers(-5, 5), max_size=4)
        rows = data.draw(st.lists(row, min_size=count, max_size=count))
        index = data.draw(st.lists(st.integers(0, count - 1), min_size=count, max_size=count)) if count else []
        order = torch.tensor(index, dtype=torch.int64)
        whole = TensorDict({"t": Text(strings), "r": Ragged(rows, dtype=torch.int32)}, [count])
        made.append(whole[order])
    received, gathered = pair.run(_exchanged, made)[1]
    assert _lists(received) == _lists(made[0])
    assert [_lists(item) for item in gathered] == [_lists(item) for item in made]


def _exchanged(rank: int, made: list[TensorDict]) -> Any:
    mine = made[rank].clone()
    gathered = mine.all_gather()
    return sent(rank, mine, mine, False), gathered


def _lists(data: TensorDict) -> Any:
    return data["t"].tolist(), data["r"].tolist(), data["r"].dtype


def _refused(rank: int) -> Any:
    values: Any = Text(["a", "b"]) if rank else Ragged([[1.0], [2.0]])
    data = TensorDict({"rows": values}, [2])
    data.send(dst=1) if rank == 0 else data.recv(src=0)


def test_other_columns_are_refused_on_both_sides(pair: Group) -> None:
    for failed in pair.outcomes(_refused):
        assert failed.kind is RecordsDiffer
        assert "rows: Ragged of [2] rows, float32 items of shape [] on rank 0, Text of [2] rows on rank 1" in str(
            failed
        )


# -- all_gather -------------------------------------------------------------------------------------------------------


def _gathered(rank: int, times: int) -> Any:
    return [
        [content(item) for item in (sample(rank) if at % 2 else sample(1 - rank)).all_gather()] for at in range(times)
    ]


def test_all_gather_of_different_lengths(pair: Group) -> None:
    """The calls are repeated: from the third on, they are predicted."""
    for results in pair.run(_gathered, 5):
        for at, result in enumerate(results):
            assert result == [content(sample(rank) if at % 2 else sample(1 - rank)) for rank in range(2)]


def _gathered_lazily(rank: int) -> Any:
    stack = lazy_stack([TensorDict({"t": Text(["a" * rank, "b"]), "x": torch.ones(2)}, [2]) for _ in range(2)])
    return [item["t"].tolist() for item in stack.all_gather()]


def test_all_gather_of_lazy_stacks(pair: Group) -> None:
    assert pair.run(_gathered_lazily)[0] == [[["", "b"]] * 2, [["a", "b"]] * 2]


# -- collections that ranks receive -----------------------------------------------------------------------------------


def _stacked(rank: int) -> Any:
    found = []
    for _ in range(4):  # the calls are repeated: later ones are predicted
        target = torch.stack([sample(0)]) if rank else sample(rank)
        target.gather_and_stack(1)
        found.append(content(target))
    return found


def test_gather_and_stack(pair: Group) -> None:
    expected = {key: [rows] for key, rows in content(sample(0)).items()}
    assert pair.run(_stacked)[1] == [expected] * 4


def _scattered(rank: int, times: int) -> Any:
    found = []
    for at in range(times):
        records = [sample(at % 2), sample(1 - at % 2)[[1, 0]]] if rank == 0 else None
        found.append(content(sample(rank).scatter(0, records)))
    return found


def test_scatter_of_different_lengths(pair: Group) -> None:
    first, second = pair.run(_scattered, 4)
    assert first == [content(sample(at % 2)) for at in range(4)]
    assert second == [content(sample(1 - at % 2)[[1, 0]]) for at in range(4)]


def _broadcast(rank: int, times: int) -> Any:
    return [content(sample((rank + at) % 2).broadcast(0)) for at in range(times)]


def test_broadcast_into_another_buffer(pair: Group) -> None:
    for found in pair.run(_broadcast, 4):
        assert found == [content(sample(at % 2)) for at in range(4)]


def _initialized(rank: int, use_broadcast: bool) -> Any:
    if rank == 0:
        sample(1)[[2, 1, 1]].init_remote(None if use_broadcast else 1, use_broadcast=use_broadcast)
        return None
    made = Sample.from_remote_init(0, use_broadcast=use_broadcast)
    memory = {part.untyped_storage().data_ptr() for part in (made.text.values, made.tokens.spans, made.x)}
    return content(made), len(memory)


@pytest.mark.parametrize("use_broadcast", [False, True])
def test_init_remote(pair: Group, use_broadcast: bool) -> None:
    assert pair.run(_initialized, use_broadcast)[1] == (content(sample(1)[[2, 1, 1]]), 1)


def _many_strings(rank: int) -> Any:
    """Many strings are arrays in descriptions."""
    names = [f"{at % 7} on {rank}" for at in range(1500)]
    data = TensorDict({"names": NonTensorStack(*names), "x": torch.ones(1500)}, [1500])
    found = [data.broadcast(0)["names"], [item["names"] for item in data.all_gather()][1]]
    scattered = data.scatter(0, [data, data] if rank == 0 else None)["names"]
    target = torch.stack([data])
    (target if rank else data).gather_and_stack(1)
    rows = [*found, scattered, target["names"][0]]
    return [row.tolist()[1499] if hasattr(row, "tolist") else row[1499] for row in rows]


def test_many_strings(pair: Group) -> None:
    last = f"{1499 % 7} on"
    assert pair.run(_many_strings)[1] == [f"{last} 0", f"{last} 1", f"{last} 0", f"{last} 0"]


# -- reductions -------------------------------------------------------------------------------------------------------


def _reduced(rank: int, lengths: list[int], to: int | None, async_op: bool) -> Any:
    tokens = Ragged.from_lengths(torch.arange(sum(lengths)).float() + rank, lengths)
    data = TensorDict({"r": tokens, "n": {"t": Text([str(rank)] * len(lengths))}, "x": torch.ones(len(lengths))},
                      [len(lengths)])  # fmt: skip
    shared = data["r"][:1]
    found = data.all_reduce(async_op=async_op) if to is None else data.reduce(to, async_op=async_op)
    for pending in found or ():
        pending.wait()
    return data["r"].tolist(), data["n", "t"].tolist(), data["x"].tolist(), shared.tolist()


@pytest.mark.parametrize("async_op", [False, True])
def test_items_are_reduced(pair: Group, async_op: bool) -> None:
    for _ in range(4):
        for rank, found in enumerate(pair.run(_reduced, [2, 0, 1], None, async_op)):
            assert found == ([[1.0, 3.0], [], [5.0]], [str(rank)] * 3, [2.0] * 3, [[0.0 + rank, 1.0 + rank]])
    first, second = pair.run(_reduced, [1, 1], 1, async_op)
    assert first[0] == [[0.0], [1.0]]
    assert second[0] == [[1.0], [3.0]]


def _reduced_with_other_lengths(rank: int) -> Any:
    data = TensorDict({"r": Ragged([[1.0, 2.0], [3.0]] if rank else [[1.0], [2.0, 3.0]])}, [2])
    try:
        data.all_reduce()
    finally:
        assert data["r"].values.tolist() == [1.0, 2.0, 3.0]


def test_other_lengths_are_refused_on_all_ranks(pair: Group) -> None:
    for failed in pair.outcomes(_reduced_with_other_lengths):
        assert isinstance(failed, Failed)
        assert failed.kind is RecordsDiffer
        assert "r: Ragged of [2] rows" in failed.message
        assert "lengths" in failed.message
    assert pair.run(_reduced, [1], None, False)[0][0] == [[1.0]]  # the group goes on


# -- bytes ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_bytes_are_an_error(data: st.DataObject) -> None:
    columns = [sample(1).text, sample(1).tokens, sample(0).deep]
    forms = [ColumnForm.of(column) for column in columns]
    content_bytes = bytearray(column_bytes(columns, b"[]"))
    text, read = split_columns(content_bytes, forms, "here")
    assert text == b"[]"
    assert [column.tolist() for column in read] == [column.tolist() for column in columns]
    if data.draw(st.booleans()):
        damaged = content_bytes[: data.draw(st.integers(0, len(content_bytes) - 1))]
    else:
        at = data.draw(st.integers(0, len(content_bytes) // 16 - 1)) * 16 + 7
        damaged = content_bytes
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        _, read = split_columns(damaged, forms, "here")
    except FileError as error:
        assert "here: " in str(error)  # noqa: PT017
    else:  # items differ, or lengths that still fit
        assert all(int(column.spans[..., 1].clamp(min=0).sum()) == len(column._items) for column in read)


def test_what_is_sent_is_compact() -> None:
    text = Text(["x" * 100_000, "y"])[1:]
    assert len(column_bytes([text], b"")) < 100


def _alive(rank: int) -> int:
    return dist.get_rank()


def test_the_group_is_usable_afterwards(pair: Group) -> None:
    assert pair.run(_alive) == [0, 1]
