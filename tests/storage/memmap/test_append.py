"""Rows that are appended to a folder of memory-mapped files."""

import contextlib
import dataclasses
import errno
import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import (
    Column,
    NonTensorData,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorDict,
    Text,
    UnbatchedTensor,
    append_memmap,
    lazy_stack,
)
from tensorclass.storage import FileError
from tensorclass.storage.common import describe_collection, sealed_json
from tensorclass.storage.memmap import append
from tensorclass.support import folder_locks
from tensorclass.support.atomic import swapped_folder
from tests.interrupting import Held, failing, interrupted, points
from tests.open_files import linux, open_files


class Row(TensorClass):
    x: Tensor
    text: str
    below: TensorDict
    note: Text | None = None
    tokens: Ragged | None = None


def jagged(*lengths: int) -> Tensor:
    return torch.nested.nested_tensor([torch.full((n,), float(n)) for n in lengths], layout=torch.jagged)


def rows_of(count: int, value: float) -> Row:
    below = TensorDict({"y": torch.full((count, 2), int(value))}, [count])
    return Row(x=torch.full((count, 3), value), text="a", below=below, batch_size=[count])


def rows_with_columns(count: int, value: float) -> Row:
    row = [int(value)] * 3
    return dataclasses.replace(rows_of(count, value), note=[f"{int(value)}é"] * count, tokens=[row] * count)


def saved_files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_rows_of_a_record_come_behind_those_that_are_there(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    loaded = Row.load_memmap(tmp_path / "rows")
    assert loaded.batch_size == (5,)
    assert loaded.x[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert loaded.below["y"][:, 1].tolist() == [0, 0, 1, 1, 1]
    assert loaded.text == "a"


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64]),
    inner=st.lists(st.integers(0, 3), max_size=2),
)
def test_appended_parts_are_what_cat_gives(counts: list[int], dtype: torch.dtype, inner: list[int]) -> None:
    parts = [
        TensorDict(
            {
                "a": torch.randint(0, 2, (count, *inner)).to(dtype),
                "n": {"b": torch.rand(count)},
                "s": [f"{at}-{row}" for row in range(count)],
                "t": str(at),
            },
            [count],
        )
        for at, count in enumerate(counts)
    ]
    with tempfile.TemporaryDirectory() as place:
        parts[0].memmap(f"{place}/rows")
        for part in parts[1:]:
            TensorDict.append_memmap(f"{place}/rows", part)
        loaded, whole = TensorDict.load_memmap(f"{place}/rows"), torch.cat(parts)
        assert loaded.batch_size == whole.batch_size
        assert loaded["a"].dtype == dtype
        assert torch.equal(loaded["a"], whole["a"])
        assert torch.equal(loaded["n", "b"], whole["n", "b"])
        assert list(loaded["s"]) == list(whole["s"])
        assert [loaded[row]["t"] for row in range(len(loaded))] == [whole[row]["t"] for row in range(len(whole))]


def test_rows_of_jagged_tensors_follow_each_other(tmp_path: Path) -> None:
    TensorDict({"j": jagged(1, 2)}, [2]).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", TensorDict({"j": jagged(0, 3)}, [2]))
    assert [row.tolist() for row in TensorDict.load_memmap(tmp_path / "rows")["j"].unbind()] == [
        [1.0],
        [2.0, 2.0],
        [],
        [3.0, 3.0, 3.0],
    ]


def test_an_unbatched_tensor_stays_and_is_not_written_again(tmp_path: Path) -> None:
    one = UnbatchedTensor(torch.ones(3))
    TensorDict({"one": one, "x": torch.zeros(2)}, [2]).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", TensorDict({"one": one, "x": torch.zeros(1)}, [1]))
    loaded = TensorDict.load_memmap(tmp_path / "rows")
    assert loaded["one"].tolist() == [1.0] * 3
    assert loaded.batch_size == (3,)


def test_rows_of_a_lazy_stack_are_further_parts(tmp_path: Path) -> None:
    lazy_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3)})]).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", lazy_stack([TensorDict({"a": torch.ones(4)})]))
    loaded = TensorDict.load_memmap(tmp_path / "rows")
    assert [loaded[row]["a"].shape[0] for row in range(3)] == [2, 3, 4]


def test_parts_along_another_dimension_get_rows_each(tmp_path: Path) -> None:
    def parts(count: int) -> TensorDict:
        return lazy_stack([TensorDict({"a": torch.ones(count, width)}, [count]) for width in (1, 2)], 1)

    parts(2).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", parts(3))
    loaded = TensorDict.load_memmap(tmp_path / "rows")
    assert loaded.batch_size == (5, 2)
    assert loaded[:, 1]["a"].sum() == 10


def test_what_does_not_fit_is_listed_and_nothing_changes(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    before = saved_files(tmp_path / "rows")
    wrong = TensorDict({"x": torch.zeros(1, 4), "text": torch.zeros(1), "below": {"z": torch.zeros(1)}}, [1])
    with pytest.raises(ValueError, match=r"x: expected torch.float32 of the shape \[\*, 3\], got .*\[1, 4\]") as raised:
        TensorDict.append_memmap(tmp_path / "rows", wrong)
    assert "text: expected objects, got a tensor of [1]" in str(raised.value)
    assert "missing: ['y']; unexpected: ['z']" in str(raised.value)
    assert saved_files(tmp_path / "rows") == before


def pairs(*rows: str) -> NonTensorStack:
    """A column of objects with two batch dimensions: ``"ab"`` is a row of two."""
    return NonTensorStack(*[NonTensorStack(*row) for row in rows])


def widths(count: int, *each: int, dim: int = 1) -> TensorDict:
    """A lazy stack of items of these widths."""
    return lazy_stack([TensorDict({"a": torch.ones(count, width)}, [count]) for width in each], dim)


ONE_FOR_ALL = UnbatchedTensor(torch.zeros(2))
DEEP = Ragged.from_list([[[1], [2, 3]], [[4]]], ragged_dims=2)
PAIRS = Ragged([[1], [2, 3], [4], []]).reshape(2, 2)


@pytest.mark.parametrize(
    "saved, given, message",
    [
        (
            TensorDict({"a": torch.zeros(2)}, [2]),
            torch.zeros(1),
            "k: expected a nested collection, got a tensor of [1]",
        ),
        (TensorDict({}, [2, 3]), TensorDict({}, [1, 2]), "k: expected rows of the batch size [*, 3], got [1, 2]"),
        (torch.zeros(2), TensorDict({}, [1]), "k: expected a tensor, got TensorDict"),
        (torch.zeros(2), jagged(1), "k: expected a tensor, got a jagged tensor"),
        (torch.zeros(2), torch.zeros(1).to_sparse(), "k: a tensor of the layout torch.sparse_coo"),
        (torch.zeros(2), torch.zeros(1).int(), "k: expected torch.float32 of the shape [*], got torch.int32 of [1]"),
        (jagged(1, 2), torch.zeros(1), "k: expected a jagged tensor, got a tensor of [1]"),
        (jagged(1, 2), jagged(2).int(), "k: expected torch.float32 with values of the shape [*], got torch.int32 with"),
        (ONE_FOR_ALL, torch.zeros(1, 2), "k: expected a tensor that is one for all rows, got a tensor of [1, 2]"),
        (
            ONE_FOR_ALL,
            UnbatchedTensor(torch.zeros(3)),
            "k: expected torch.float32 of the shape [2], got torch.float32 of",
        ),
        (ONE_FOR_ALL, UnbatchedTensor(torch.zeros(2).int()), "[2], got torch.int32 of [2]"),
        (PAIRS, Ragged([[1]]), "k: expected rows of the batch size [*, 2], got [1]"),
        (PAIRS, PAIRS[:1, :1], "k: expected rows of the batch size [*, 2], got [1, 1]"),
        (DEEP, Ragged([[1]]), "k: expected rows of ragged rows, got rows of items"),
        (pairs("ab", "cd"), NonTensorStack("e"), "k: expected rows of the batch size [*, 2], got [1]"),
        (pairs("ab", "cd"), pairs("efg"), "k: expected rows of the batch size [*, 2], got [1, 3]"),
        (NonTensorStack("a", "b"), NonTensorStack(slice(1)), "k: a builtins.slice cannot be written as JSON"),
        (widths(2, 1, 2), torch.zeros(1, 2), "k: expected a nested collection, got a tensor of [1, 2]"),
        (widths(2, 1, 2), widths(1, 1, 2, 3), "k: expected 2 items along the dimension 1, got 3"),
        (
            widths(2, 1, 2),
            TensorDict({}, [1]),
            "k: expected rows that can be taken apart along the dimension 1, got [1]",
        ),
        (
            widths(2, 1, 2),
            widths(1, 1, 3),
            "k.1.a: expected torch.float32 of the shape [*, 2], got torch.float32 of [1, 3]",
        ),
        (widths(2, 1, 2, dim=0), widths(3, 1, dim=0), "k: expected items of the batch size [2], got [[3]]"),
        (
            lazy_stack([widths(2, 1, 1), widths(2, 1, 1)]),
            lazy_stack([widths(2, 1)]),
            "k: expected items of the batch size [2, 2], got [[2, 1]]",
        ),
        (
            lazy_stack([TensorDict({"o": "a"}), TensorDict({"o": "b"})]),
            lazy_stack([TensorDict({"o": NonTensorData(slice(1))})]),
            "nothing was written; k.2.o: a builtins.slice cannot be written as JSON",
        ),
    ],
)
def test_rows_that_are_unlike_those_that_are_there_are_refused(
    tmp_path: Path, saved: Any, given: Any, message: str
) -> None:
    TensorDict({"k": saved}, [2]).memmap(tmp_path / "rows")
    before = saved_files(tmp_path / "rows")
    with pytest.raises(ValueError, match=re.escape(message)):
        TensorDict.append_memmap(tmp_path / "rows", TensorDict({"k": given}, [1]))
    assert saved_files(tmp_path / "rows") == before


MANY = NonTensorStack(*[f"row {at}" for at in range(1200)])  # in arrays, not in meta.json
LISTS = NonTensorStack(*[[f"row {at}"] for at in range(1200)])

#: parts of a column
KINDS: dict[str, list[Any]] = {
    "text": [Text(["a", "é"]), Text([None]), Text(["b", ""])],
    "ragged": [Ragged([[], []]), Ragged([[1], [2, 3]]), Ragged([[]])],
    "ragged of pairs": [Ragged([[], []]), Ragged([[[1, 2]], [[3, 4], [5, 6]]]), Ragged([[]])],
    "ragged of two dimensions": [PAIRS, PAIRS[:1], PAIRS],
    "ragged of ragged": [DEEP, DEEP[1:], DEEP],
    "jagged": [jagged(1, 2), jagged(0, 3), jagged(4)],
    "no values": [torch.zeros(2, 0), torch.zeros(3, 0)],
    "objects": [NonTensorStack(*"ab"), NonTensorStack(*"ab"), NonTensorStack(1, ["a"])],
    "column of objects": [Column([["a"], 1]), Column([{"b": 2}]), Column([None])],
    "objects of two dimensions": [pairs("ab", "cd"), pairs("ef"), pairs("ab")],
    "many strings": [MANY, NonTensorStack("é", "a"), MANY],
    "many strings, then others": [MANY, NonTensorStack(1, None, "row 3"), NonTensorStack("a")],
    "many objects": [LISTS, NonTensorStack(["é"], "a"), LISTS],
    "items beside each other": [widths(2, 1, 2), widths(1, 1, 2)],
    "items below each other": [widths(2, 1, 2, dim=0), widths(2, 3, dim=0), widths(2, 1, 1, dim=0)],
    "items of items": [lazy_stack([widths(1, 1, 2), widths(1, 2, 1)]), lazy_stack([widths(1, 1, 2)])],
}


def listed(column: Any) -> list[Any]:
    if isinstance(column, TensorDict):
        return [listed(row) for row in column.unbind(0)] if column.ndim else column["a"].tolist()
    return [row.tolist() for row in column.unbind(0)]


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_each_kind_follow_those_that_are_there(tmp_path: Path, kind: str, checksum: bool) -> None:
    parts = [TensorDict({"k": part}, [len(part)]) for part in KINDS[kind]]
    parts[0].memmap(tmp_path / "rows", checksum=checksum)
    for part in parts[1:]:
        TensorDict.append_memmap(tmp_path / "rows", part)
    loaded = TensorDict.load_memmap(tmp_path / "rows", verify=checksum)
    assert listed(loaded.get("k")) == [row for part in KINDS[kind] for row in listed(part)]


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ragged of pairs"])  # which cat does not take
def test_a_folder_that_grew_is_described_as_one_that_was_saved_whole(tmp_path: Path, kind: str, checksum: bool) -> None:
    parts = [TensorDict({"k": part}, [len(part)]) for part in KINDS[kind]]
    parts[0].memmap(tmp_path / "rows", checksum=checksum)
    for part in parts[1:]:
        TensorDict.append_memmap(tmp_path / "rows", part)
    torch.cat(parts).memmap(tmp_path / "whole", checksum=checksum)
    assert saved_files(tmp_path / "rows") == saved_files(tmp_path / "whole")


def test_objects_are_pickled_if_that_is_allowed(tmp_path: Path) -> None:
    parts = [TensorDict({"k": NonTensorStack(slice(at))}, [1]) for at in (1, 2)]
    parts[0].memmap(tmp_path / "rows", allow_pickle=True)
    TensorDict.append_memmap(tmp_path / "rows", parts[1], allow_pickle=True)
    loaded = TensorDict.load_memmap(tmp_path / "rows", allow_pickle=True)
    assert loaded.get("k").tolist() == [slice(1), slice(2)]


@pytest.mark.parametrize("objects_in_arrays", [False, True])
def test_items_of_a_lazy_stack_keep_all_that_they_hold(
    tmp_path: Path, objects_in_arrays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if objects_in_arrays:
        monkeypatch.setattr(describe_collection, "ARRAYS_FROM", 1)
    below = {"text": Text(["é", None]), "objects": NonTensorStack("a", 1), "deep": DEEP, "items": widths(2, 1, 2)}
    item = TensorDict({"jagged": jagged(1, 2), "one": ONE_FOR_ALL, "below": below}, [2])
    lazy_stack([item]).memmap(tmp_path / "rows", checksum=True)
    TensorDict.append_memmap(tmp_path / "rows", lazy_stack([item]))
    for loaded in TensorDict.load_memmap(tmp_path / "rows", verify=True).unbind(0):
        assert listed(loaded["jagged"]) == [[1.0], [2.0, 2.0]]
        assert loaded.get("one").tolist() == [0.0, 0.0]
        for key in ("text", "objects", "deep", "items"):
            assert listed(loaded.get(("below", key))) == listed(item.get(("below", key)))


def test_the_function_takes_rows_of_any_class(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    append_memmap(tmp_path / "rows", rows_of(1, 1.0))
    append_memmap(tmp_path / "rows", rows_of(1, 2.0).to_tensordict())
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [0.0, 0.0, 1.0, 2.0]


def test_rows_without_a_batch_dimension_are_refused(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    with pytest.raises(ValueError, match="first batch dimension"):
        TensorDict.append_memmap(tmp_path / "rows", rows_of(2, 0.0)[0])


def test_a_record_wants_rows_of_its_class(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    with pytest.raises(TypeError, match="expected rows of the class Row, got TensorDict"):
        Row.append_memmap(tmp_path / "rows", rows_of(2, 0.0).to_tensordict())  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_without_a_collection_is_refused(tmp_path: Path, made: bool) -> None:
    if made:
        (tmp_path / "rows").mkdir()
    with pytest.raises(ValueError, match="append_memmap appends to a folder"):
        TensorDict.append_memmap(tmp_path / "rows", TensorDict({"x": torch.zeros(2)}, [2]))


def test_a_file_that_is_too_short_is_damage(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    os.truncate(tmp_path / "rows" / "x.memmap", 5)
    with pytest.raises(FileError, match=r"x\.memmap: expected 24 bytes"):
        Row.append_memmap(tmp_path / "rows", rows_of(1, 0.0))


def test_collections_that_were_loaded_keep_their_rows_until_they_are_refreshed(tmp_path: Path) -> None:
    saved = rows_of(2, 0.0).memmap(tmp_path / "rows")
    Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    assert saved.x.shape == (2, 3)
    saved.x[0] = 5.0
    assert Row.load_memmap(tmp_path / "rows").x[0].tolist() == [5.0] * 3
    assert saved.memmap_refresh_() is saved
    assert saved.batch_size == saved.below.batch_size == (5,)
    assert saved.x.shape == (5, 3)
    assert saved.is_memmap()


def test_a_refreshed_lazy_stack_has_the_further_parts(tmp_path: Path) -> None:
    saved = lazy_stack([TensorDict({"a": torch.zeros(2)})]).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", lazy_stack([TensorDict({"a": torch.ones(4)})]))
    saved.memmap_refresh_()
    assert saved.batch_size == (2,)
    assert saved[1]["a"].tolist() == [1.0] * 4
    assert saved[1].is_locked


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    (tmp_path / "rows" / "notes.txt").write_text("mine")
    Row.append_memmap(tmp_path / "rows", rows_of(1, 0.0))
    assert (tmp_path / "rows" / "notes.txt").read_text() == "mine"
    assert os.listdir(tmp_path) == ["rows"]


def test_what_an_interrupted_append_left_is_written_over(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    with open(tmp_path / "rows" / "x.memmap", "ab") as file:
        file.write(b"\xff" * 100)
    Row.append_memmap(tmp_path / "rows", rows_of(1, 1.0))
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [0.0, 0.0, 1.0]


def test_a_failing_append_leaves_the_files_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    before, write = saved_files(tmp_path / "rows"), append.write_values
    calls: list[int] = []

    def full(file: int, tensor: Tensor, advance: Any) -> None:
        calls.append(file)
        write(file, tensor, advance)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(append, "write_values", full)
    with pytest.raises(OSError, match="No space left"):
        Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    assert saved_files(tmp_path / "rows") == before
    assert os.listdir(tmp_path) == ["rows"]


def test_threads_that_append_lose_no_row(tmp_path: Path) -> None:
    rows_of(1, 0.0).memmap(tmp_path / "rows")
    errors: list[BaseException] = []

    def work(value: float) -> None:
        try:
            for _ in range(10):
                Row.append_memmap(tmp_path / "rows", rows_of(2, value))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(float(at),)) for at in (1, 2, 3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):  # a reader sees whole appends only
        seen = Row.load_memmap(tmp_path / "rows")
        assert len(seen) % 2 == 1
        assert torch.equal(seen.x[:, 0].long(), seen.below["y"][:, 0])
    for thread in threads:
        thread.join()
    assert not errors
    loaded = Row.load_memmap(tmp_path / "rows")
    assert torch.bincount(loaded.x[:, 0].long()).tolist() == [1, 20, 20, 20]


def _append_forever(place: Path, at: int, started: Any) -> None:
    while True:
        n = 1000 * (at % 7 + 1)
        rows = TensorDict({"a": torch.full((n, 4), at), "b": {"c": torch.full((n,), at)}}, [n])
        TensorDict.append_memmap(place, rows)
        started.set()
        at += 1


def test_a_killed_append_leaves_the_old_rows_or_the_new_ones(tmp_path: Path) -> None:
    place, context = tmp_path / "rows", multiprocessing.get_context("fork")
    rows = TensorDict({"a": torch.zeros(3, 4, dtype=torch.int64), "b": {"c": torch.zeros(3, dtype=torch.int64)}}, [3])
    rows.memmap(place)
    done = 0
    for attempt in range(10):
        started = context.Event()
        process = context.Process(target=_append_forever, args=(place, 1 + 7000 * attempt, started), daemon=True)
        process.start()
        assert started.wait(60)
        time.sleep(0.0007 * attempt)
        process.kill()
        process.join()
        loaded = TensorDict.load_memmap(place)
        values = loaded["b", "c"]
        assert torch.equal(loaded["a"], values[:, None].expand(-1, 4))
        runs, counts = torch.unique_consecutive(values, return_counts=True)
        assert counts.tolist() == [3, *[1000 * (int(at) % 7 + 1) for at in runs[1:]]]
        done = len(loaded)
    TensorDict.append_memmap(place, TensorDict({"a": torch.full((1, 4), -1), "b": {"c": torch.full((1,), -1)}}, [1]))
    assert TensorDict.load_memmap(place)["a"].shape == (done + 1, 4)


@linux
def test_no_file_stays_open(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    for _ in range(3):
        Row.append_memmap(tmp_path / "rows", rows_of(2, 0.0))
        with pytest.raises(ValueError, match="nothing was written"):
            TensorDict.append_memmap(tmp_path / "rows", TensorDict({}, [2]))
    assert open_files(tmp_path) == []


def interrupt_after_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the old folder is removed: the new one is at its place already."""
    rmtree = shutil.rmtree

    def interrupted(folder: Any, ignore_errors: bool = False) -> None:
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        signal.raise_signal(signal.SIGINT)
        rmtree(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)


def test_an_append_that_is_interrupted_while_the_old_folder_goes_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    interrupt_after_exchange(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert os.listdir(tmp_path) == ["rows"]


def test_an_append_whose_old_folder_cannot_go_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")

    def fails(folder: Any, ignore_errors: bool = False) -> None:
        raise RuntimeError("the removal failed")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fails)
        with pytest.raises(RuntimeError, match="the removal failed"):
            Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    assert len(Row.load_memmap(tmp_path / "rows")) == 5
    Row.append_memmap(tmp_path / "rows", rows_of(1, 2.0))
    assert len(Row.load_memmap(tmp_path / "rows")) == 6


@pytest.mark.parametrize("part", range(2))
def test_an_append_that_is_interrupted_at_any_line_leaves_the_old_rows_or_the_new_ones(
    tmp_path: Path, part: int
) -> None:
    def appended(place: Path) -> None:
        Row.append_memmap(place, rows_with_columns(3, 1.0))

    rows_with_columns(2, 0.0).memmap(tmp_path / "first", checksum=True)
    total = points(lambda: appended(tmp_path / "first"))
    rng, place = random.Random(part), tmp_path / "sets" / "rows"
    for at in sorted(rng.sample(range(1, total), 25)):  # tests.storage.interrupts takes them all
        rows_with_columns(2, 0.0).memmap(place, checksum=True)
        before = Held.now()
        outcome = interrupted(lambda: appended(place), at)
        assert Held.now().beyond(before) == [], outcome
        assert isinstance(outcome.error, KeyboardInterrupt)
        assert not folder_locks._held, outcome
        found = Row.load_memmap(place, verify=True)
        assert found.x[:, 0].tolist() in ([0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0]), outcome
        assert found.below["y"][:, 0].tolist() == found.x[:, 0].tolist()
        assert found.note is not None
        assert found.tokens is not None
        assert found.note.tolist() == [f"{int(value)}é" for value in found.x[:, 0].tolist()]
        assert found.tokens.tolist() == [[int(value)] * 3 for value in found.x[:, 0].tolist()]
        for name, size in (("x", 12), ("note/values", 3), ("note/spans", 16), ("tokens/values", 24)):
            assert (place / f"{name}.memmap").stat().st_size == len(found) * size, outcome
        Row.append_memmap(place, rows_with_columns(1, 2.0))
        assert os.listdir(place.parent) == ["rows"]
        shutil.rmtree(place)


def test_an_append_whose_calls_of_the_system_fail_is_whole_or_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "sets" / "rows"
    for at in itertools.count(1, 3):
        rows_of(2, 0.0).memmap(place)
        before = Held.now()
        outcome = failing(lambda: Row.append_memmap(place, rows_of(3, 1.0)), at, errno.EIO)
        assert Held.now().beyond(before) == [], outcome
        assert not folder_locks._held, outcome
        found = Row.load_memmap(place)
        assert found.below["y"][:, 0].tolist() == found.x[:, 0].tolist()
        assert len(found) == (2 if outcome.error else 5), outcome
        Row.append_memmap(place, rows_of(1, 2.0))
        assert os.listdir(place.parent) == ["rows"]
        shutil.rmtree(place)
        if outcome.where is None:
            break


def in_another_thread(work: Callable[[], object]) -> threading.Thread:
    """A thread that has had the time to begin."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(0.3)
    return thread


@pytest.mark.parametrize("fails", [False, True])
def test_a_save_waits_for_the_append_that_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    write, threads = append.write_values, list[threading.Thread]()

    def saved_meanwhile(file: int, tensor: Tensor, advance: Any) -> None:
        write(file, tensor, advance)
        if not threads:
            threads.append(in_another_thread(lambda: rows_of(7, 7.0).memmap(tmp_path / "rows")))
            if fails:
                raise OSError(28, "No space left on device")

    monkeypatch.setattr(append, "write_values", saved_meanwhile)
    with pytest.raises(OSError, match="No space") if fails else contextlib.nullcontext():
        Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    threads[0].join(60)
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [7.0] * 7
    assert os.listdir(tmp_path) == ["rows"]


def test_rows_go_to_what_was_saved_while_an_append_waited(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    with folder_locks.FolderLock() as folder_lock:
        assert folder_lock.acquire(tmp_path / "rows")
        thread = in_another_thread(lambda: Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0)))
        assert thread.is_alive()
        with swapped_folder(tmp_path / "rows", folder_lock) as draft:
            rows_of(1, 5.0).memmap(tmp_path / "other")
            shutil.copytree(tmp_path / "other", draft, dirs_exist_ok=True)
    thread.join(60)
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [5.0, 1.0, 1.0, 1.0]


def test_a_handler_of_signals_that_saves_to_the_folder_of_an_append_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    write = append.write_values

    def interrupted(file: int, tensor: Tensor, advance: Any) -> None:
        write(file, tensor, advance)
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: rows_of(1, 1.0).memmap(tmp_path / "rows"))
    monkeypatch.setattr(append, "write_values", interrupted)
    try:
        with pytest.raises(RuntimeError, match="this thread is writing to that folder already"):
            Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [0.0, 0.0]


def test_an_append_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    before = saved_files(tmp_path / "rows")
    monkeypatch.setattr(folder_locks, "fcntl", None)
    with pytest.raises(OSError, match="needs file locks, which this file system does not have"):
        Row.append_memmap(tmp_path / "rows", rows_of(1, 1.0))
    assert saved_files(tmp_path / "rows") == before
    rows_of(1, 1.0).memmap(tmp_path / "rows")  # which needs none
    assert len(Row.load_memmap(tmp_path / "rows")) == 1


def linked_copy(path: Path, copy: Path) -> None:
    """What ``cp -al`` makes."""
    shutil.copytree(path, copy, copy_function=os.link)


def test_snapshots_of_hard_links_do_not_share_what_is_appended(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    linked_copy(tmp_path / "rows", tmp_path / "snapshot")
    before = saved_files(tmp_path / "snapshot")
    Row.append_memmap(tmp_path / "rows", rows_of(3, 1.0))
    assert saved_files(tmp_path / "snapshot") == before
    Row.append_memmap(tmp_path / "snapshot", rows_of(3, 2.0))
    assert Row.load_memmap(tmp_path / "rows").x[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert Row.load_memmap(tmp_path / "snapshot").x[:, 0].tolist() == [0.0, 0.0, 2.0, 2.0, 2.0]
    assert Row.load_memmap(tmp_path / "rows").below["y"][:, 1].tolist() == [0, 0, 1, 1, 1]


def test_files_are_copied_once_and_keep_their_mode_and_their_holes(tmp_path: Path) -> None:
    data = TensorDict({"x": torch.zeros(1 << 20)}, [1 << 20]).memmap_like(tmp_path / "rows")
    data["x"][1 << 19] = 5.0
    del data
    file = tmp_path / "rows" / "x.memmap"
    file.chmod(0o640)
    linked_copy(tmp_path / "rows", tmp_path / "snapshot")
    row = TensorDict({"x": torch.ones(1)}, [1])
    TensorDict.append_memmap(tmp_path / "rows", row)
    info = file.stat()
    assert info.st_ino != (tmp_path / "snapshot" / "x.memmap").stat().st_ino
    assert stat.S_IMODE(info.st_mode) == 0o640
    assert info.st_blocks * 512 < 1 << 17
    TensorDict.append_memmap(tmp_path / "rows", row)
    assert file.stat().st_ino == info.st_ino
    loaded = TensorDict.load_memmap(tmp_path / "rows")["x"]
    assert loaded[1 << 19] == 5.0
    assert loaded.sum() == 7.0
    assert len(loaded) == (1 << 20) + 2


def test_links_in_the_draft_of_a_killed_append_make_no_copy(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    file = tmp_path / "rows" / "x.memmap"
    before = file.stat().st_ino
    (tmp_path / ".rows.0.tmp").mkdir()
    linked_copy(tmp_path / "rows", tmp_path / ".rows.0.tmp" / "rows")
    Row.append_memmap(tmp_path / "rows", rows_of(1, 1.0))
    assert file.stat().st_ino == before
    assert file.stat().st_nlink == 1
    assert os.listdir(tmp_path) == ["rows"]


def test_an_append_does_not_follow_links(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    canary = tmp_path / "a file outside of the folder"
    canary.write_bytes(b"canary" * 10)
    (tmp_path / "rows" / "x.memmap").unlink()
    (tmp_path / "rows" / "x.memmap").symlink_to(canary)
    with pytest.raises(FileError, match=r"x\.memmap: expected a file, found a link"):
        Row.append_memmap(tmp_path / "rows", rows_of(1, 1.0))
    assert canary.read_bytes() == b"canary" * 10


def test_an_append_to_a_nested_collection_and_one_to_the_outer_one_take_turns(tmp_path: Path) -> None:
    rows_of(2, 0.0).memmap(tmp_path / "rows")
    with folder_locks.FolderLock() as folder_lock:
        folder_lock.share_above(tmp_path / "rows" / "below")
        thread = in_another_thread(lambda: Row.append_memmap(tmp_path / "rows", rows_of(1, 1.0)))
        assert thread.is_alive()
    thread.join(60)
    assert len(Row.load_memmap(tmp_path / "rows")) == 3


def damaged(folder: Path, key: str, node: Any) -> None:
    """Write another description of an entry into a ``meta.json``."""
    file = folder / "meta.json"
    meta = json.loads(file.read_bytes())
    own = next(key for key, value in meta.items() if isinstance(value, dict) and "version" in value)
    note = meta.pop(own)
    note.pop("crc32", None)
    meta[own] = {**note, "entries": {**note.get("entries", {}), key: node}}
    file.write_bytes(sealed_json.sealed(meta, 2))


@pytest.mark.parametrize("kind", [["x"], {}, "unknown", 3])
def test_a_damaged_type_of_an_entry_is_named_and_nothing_is_written(kind: Any, tmp_path: Path) -> None:
    data = TensorDict({"a": torch.arange(3)}, [3])
    data.memmap(tmp_path / "rows")
    damaged(tmp_path / "rows", "a", {"type": kind, "dtype": "int64", "shape": [3]})
    with pytest.raises(ValueError, match="nothing was written; a: expected rows"):
        TensorDict.append_memmap(tmp_path / "rows", data)


@pytest.mark.parametrize(
    "place, key, node, message",
    [
        ("a", "spans", {"shape": "x"}, "a: .*shape"),
        ("a", "values", {"shape": [-1]}, "a.values: .*shape"),
        ("a", "values", {"dtype": "text"}, "a.values: .*text"),
        ("o", "spans", {"shape": "x"}, "o.spans: .*shape"),
        (".", "b", {"shape": None}, "b: .*shape"),
        (".", "b", {"dtype": "text"}, "b: .*text"),
        (".", "b", {"crc32": [1, 2]}, "checksums .1, 2. are damaged"),
        (".", "b", {"crc32": ["x"]}, "checksums .'x'. are damaged"),
    ],
)
def test_a_damaged_description_is_named_and_nothing_is_written(
    place: str, key: str, node: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_collection, "ARRAYS_FROM", 1)
    data = TensorDict({"a": Ragged([[1], [2]]), "b": torch.arange(2), "o": NonTensorStack("x", "y")}, [2])
    data.memmap(tmp_path / "rows")
    damaged(tmp_path / "rows" / place, key, {"type": "tensor", "dtype": "int64", "shape": [2], **node})
    before = saved_files(tmp_path / "rows")
    with pytest.raises(ValueError, match=message):
        TensorDict.append_memmap(tmp_path / "rows", data)
    assert saved_files(tmp_path / "rows") == before
