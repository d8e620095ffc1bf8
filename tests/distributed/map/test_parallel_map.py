"""``map`` and ``map_iter``: chunks, results, random numbers, where results go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorclass import LazyStackedTensorDict, TensorDict, lazy_stack
from tensorclass.distributed.map import parallel_map
from tests.checks import assert_equal
from tests.distributed import work
from tests.distributed.leftovers import nothing_left
from tests.distributed.work import Row, Total, rows
from tests.interrupting import interrupted


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


two = {"num_workers": 2}


# -- chunks and results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"chunksize": 5}, {"chunksize": 0}, {"num_chunks": 5}, {"chunksize": 100}])
def test_results_come_in_the_order_of_the_rows(options: Any) -> None:
    data = rows()
    assert_equal(data.map(work.same, **two, **options), data)
    found = data.map(work.plus, **two, **options)
    assert type(found) is TensorDict
    assert found["x"].tolist() == (data.x + 1).tolist()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 9), st.integers(0, 5), st.integers(-2, 1))
def test_chunks_cover_all_rows_of_any_dimension(length: int, chunksize: int, dim: int) -> None:
    size = [length, 3] if dim in (0, -2) else [3, length]
    data = TensorDict({"a": torch.arange(3 * length).view(size)}, size)
    found = data.map(work.same, dim, 2, chunksize=chunksize)
    if chunksize or length:
        assert_equal(found, data)
    else:
        assert found is None
    sizes = [chunk.batch_size[dim] for chunk in data.map_iter(work.same, dim, 1, chunksize=chunksize or 2)]
    assert sum(sizes) == length
    assert set(sizes[:-1]) <= {chunksize or 2}


def test_as_many_chunks_as_workers_by_default() -> None:
    assert [len(chunk) for chunk in rows(7).map_iter(work.same, num_workers=3)] == [3, 3, 1]


def test_a_function_may_give_another_record_or_a_tensor() -> None:
    data = rows()
    found = data.map(work.total, **two)
    assert type(found) is Total
    assert found.total.tolist() == data.x.sum(-1).tolist()
    for chunksize in (0, 4):
        assert data.map(work.tensor, chunksize=chunksize, **two).tolist() == (2 * data.x).tolist()


def test_results_of_single_rows_are_stacked_at_the_dimension() -> None:
    data = TensorDict({"n": torch.arange(6).view(3, 2)}, [3, 2])
    assert_equal(data.map(work.same, 1, chunksize=0, **two), data)
    with pytest.raises(RuntimeError, match=r"along the dimension 1, .* shape \[\]; give results with that dimension"):
        data.map(_number, 1, chunksize=0, **two)


def _number(chunk: Any) -> Any:
    return chunk["n"].sum()


def test_single_rows_that_differ_in_shape_are_stacked_lazily() -> None:
    found = rows(4).map(_ragged, chunksize=0, **two)
    assert isinstance(found, LazyStackedTensorDict)
    assert [row["y"].shape[0] for row in found.unbind(0)] == [0, 1, 2, 3]


def _ragged(row: Row) -> TensorDict:
    return TensorDict({"y": torch.ones(int(row.n))})


def test_nothing_is_left_out_of_results_but_none() -> None:
    data = rows()
    assert data.map(work.nothing, **two) is None
    assert data.map(work.even_only, chunksize=2, **two).n.tolist() == [0, 1, 4, 5, 8, 9]
    found = list(data.map_iter(work.even_only, chunksize=2, **two))
    assert [item is None for item in found] == [False, True] * 3


def test_objects_stay_in_a_list() -> None:
    assert rows().map(work.first_number, chunksize=3, **two) == [0, 3, 6, 9]
    assert list(rows().map_iter(work.first_number, chunksize=3, **two)) == [0, 3, 6, 9]


def test_text_in_records_is_kept_row_by_row() -> None:
    found = rows(4).map(work.with_text, chunksize=2, **two)
    assert list(found.text) == ["from 0"] * 2 + ["from 2"] * 2
    found = rows(4).map(work.with_text, chunksize=0, **two)
    assert list(found.text) == [f"from {at}" for at in range(4)]


def test_tensors_and_collections_are_not_mixed() -> None:
    with pytest.raises(TypeError, match="map_iter gives them one by one"):
        rows().map(_mixed, chunksize=2, **two)


def _mixed(chunk: Row) -> Any:
    return chunk if int(chunk.n[0]) % 4 else chunk.x


def test_lazy_stacks_are_mapped(tmp_path: Path) -> None:
    data = lazy_stack([TensorDict({"n": torch.ones(3), "r": torch.ones(at)}) for at in range(4)])
    found = list(data.map_iter(work.same, chunksize=0, **two))
    assert [row["r"].shape[0] for row in found] == [0, 1, 2, 3]


def test_rows_in_files_are_not_sent(tmp_path: Path) -> None:
    data = rows().memmap(tmp_path / "rows")
    assert_equal(data.map(work.plus, chunksize=2, **two), rows().map(work.plus, chunksize=2, **two))
    assert data.map(work.in_place, chunksize=2, **two) is None
    assert Row.load_memmap(tmp_path / "rows").x.tolist() == (rows().x + 100).tolist()


@pytest.mark.parametrize("chunksize", [0, 1, 5])
def test_what_a_function_writes_into_its_chunk_shows_in_the_data(chunksize: int) -> None:
    data = rows()
    assert data.map(work.in_place, chunksize=chunksize, **two) is None
    assert data.x.tolist() == (rows().x + 100).tolist()


def test_results_are_no_views_of_the_data() -> None:
    data = rows(4)
    for chunk in data.map_iter(work.same, chunksize=2, **two):
        chunk.x.fill_(7)
    assert_equal(data, rows(4))


def test_a_function_that_is_no_name_of_a_module_runs_in_forked_processes() -> None:
    offset = 3
    assert rows(4).map(lambda chunk: chunk.n + offset, mp_start_method="fork", **two).tolist() == [3, 4, 5, 6]


def test_functions_with_arguments(tmp_path: Path) -> None:
    assert rows(4).map(partial(_scaled, by=3), **two).tolist() == [0, 3, 6, 9]


def _scaled(chunk: Row, by: int) -> Any:
    return chunk.n * by


# -- map_iter ---------------------------------------------------------------------------------------------------------


def test_shuffled_chunks_have_every_row_once() -> None:
    generator = torch.Generator().manual_seed(1)
    found = list(rows().map_iter(work.same, shuffle=True, chunksize=5, generator=generator, **two))
    assert sorted(len(chunk) for chunk in found) == [2, 5, 5]
    numbers = [n for chunk in found for n in chunk.n.tolist()]
    assert numbers != sorted(numbers)
    assert sorted(numbers) == list(range(12))
    again = list(rows().map_iter(work.same, shuffle=True, chunksize=5, generator=generator.manual_seed(1), **two))
    assert {tuple(chunk.n.tolist()) for chunk in again} == {tuple(chunk.n.tolist()) for chunk in found}


def test_no_shuffling_of_chunks_that_are_cut_in_advance() -> None:
    with pytest.raises(RuntimeError, match="index_with_generator"):
        rows().map_iter(work.same, shuffle=True, index_with_generator=False)


def test_an_iteration_that_is_left_ends_its_processes() -> None:
    for chunk in rows(100).map_iter(work.first_number, chunksize=1, **two):
        if chunk == 3:
            break
    with pytest.raises(ZeroDivisionError):
        _taken(rows(100).map_iter(work.first_number, chunksize=1, **two))
    iterator = rows(100).map_iter(work.hangs, chunksize=1, **two)
    del iterator


def test_an_iteration_that_is_closed_is_dropped_without_a_call_in_which_an_interrupt_would_be_lost() -> None:
    with ThreadPoolExecutor(1) as threads:
        held = [rows(2).map_iter(work.first_number, chunksize=1, executor=threads) for _ in range(2)]
        assert [next(one) for one in held] == [0, 0]
        held[0].close()  # type: ignore[attr-defined]
        assert list(held[1]) == [1]
        outcome = interrupted(held.clear, 1, inside=parallel_map.__file__)
        assert (outcome.where, outcome.noticed) == (None, ())


def _taken(numbers: Iterator[int]) -> None:
    for number in numbers:
        _ = 1 // (number - 3)


def test_an_iteration_runs_not_far_ahead(tmp_path: Path) -> None:
    iterator = rows(100).map_iter(partial(_counted, folder=tmp_path), chunksize=1, **two)
    assert next(iterator) == 0
    assert len(os.listdir(tmp_path)) < 50
    iterator.close()


def _counted(chunk: Row, folder: Path) -> int:
    import time

    (folder / str(int(chunk.n))).touch()
    time.sleep(0.01)
    return int(chunk.n)


# -- random numbers ---------------------------------------------------------------------------------------------------


def test_each_chunk_has_random_numbers_of_its_own_whoever_does_it() -> None:
    generator = torch.Generator()
    one = rows().map(work.drawn, num_workers=1, chunksize=2, generator=generator.manual_seed(3))
    many = rows().map(work.drawn, num_workers=3, chunksize=2, generator=generator.manual_seed(3))
    other = rows().map(work.drawn, num_workers=3, chunksize=2, generator=generator)
    assert_equal(one, many)
    assert len(set(one["r"][:, 0].tolist())) == 6
    assert len(set(one["r"][0].tolist())) == 3
    assert not bool((one["r"] == other["r"]).any())


def test_torchs_own_generator_is_the_default() -> None:
    torch.manual_seed(5)
    one = rows().map(work.drawn, **two)
    two_ = rows().map(work.drawn, **two)
    torch.manual_seed(5)
    assert_equal(rows().map(work.drawn, **two), one)
    assert not bool((one["r"] == two_["r"]).any())


# -- where results go -------------------------------------------------------------------------------------------------


def _out(kind: str, size: int, folder: Path) -> Any:
    out = TensorDict({"x": torch.zeros(size, 2), "n": torch.zeros(size, dtype=torch.int64)}, [size])
    return {"memory": out, "shared": out.share_memory_(), "files": out.memmap(folder / "out")}[kind]


@pytest.mark.parametrize("kind", ["memory", "shared", "files"])
@pytest.mark.parametrize("chunksize", [0, 1, 5])
def test_results_are_written_into_out(kind: str, chunksize: int, tmp_path: Path) -> None:
    out = _out(kind, 12, tmp_path)
    assert rows().map(work.plus, chunksize=chunksize, out=out, **two) is out
    assert out["x"].tolist() == (rows().x + 1).tolist()
    if kind == "files":
        assert TensorDict.load_memmap(tmp_path / "out")["x"].tolist() == (rows().x + 1).tolist()


def test_results_of_workers_are_written_into_tensors_too() -> None:
    for out in (torch.zeros(12, 2), torch.zeros(12, 2).share_memory_()):
        assert rows().map(work.tensor, chunksize=5, out=out, **two) is out
        assert out.tolist() == (2 * rows().x).tolist()


def test_text_is_written_into_out() -> None:
    out = rows(4).clone()
    rows(4).map(work.with_text, chunksize=2, out=out, **two)
    assert list(out.text) == ["from 0"] * 2 + ["from 2"] * 2


@pytest.mark.parametrize("shared", [False, True])
def test_rows_without_a_result_stay(shared: bool) -> None:
    out = TensorDict({"n": torch.full((12,), -1)}, [12])
    rows().map(_numbers_of_even, chunksize=2, out=out.share_memory_() if shared else out, **two)
    assert out["n"].tolist() == [0, 1, -1, -1, 4, 5, -1, -1, 8, 9, -1, -1]


def _numbers_of_even(chunk: Row) -> TensorDict | None:
    found = work.even_only(chunk)
    return None if found is None else TensorDict({"n": found.n}, [2])


def test_a_function_may_give_more_rows_than_it_gets() -> None:
    out = TensorDict({"y": torch.zeros(24, dtype=torch.int64)}, [24])
    rows().map(work.grows, chunksize=5, out=out, **two)
    assert out["y"].tolist() == [n for n in range(12) for _ in range(2)]


def test_out_that_does_not_fit_is_an_error_before_any_work() -> None:
    with pytest.raises(ValueError, match="out: expected 12 rows in dimension 0"):
        rows().map(work.hangs, out=TensorDict({}, [11]), **two)
    with pytest.raises(ValueError, match="out: expected a dimension 0"):
        rows().map(work.hangs, out=TensorDict({}), **two)
    with pytest.raises(TypeError, match="out: expected a collection or a tensor"):
        rows().map(work.hangs, out={}, **two)  # type: ignore[type-var]


def test_results_that_do_not_fit_out_are_errors() -> None:
    for out in (TensorDict({"y": torch.zeros(12)}, [12]), TensorDict({"y": torch.zeros(12)}, [12]).share_memory_()):
        with pytest.raises(
            RuntimeError, match=r"out has room for the batch size \[6\], got \[12\]: it has 12 rows for the 12"
        ):
            rows().map(work.grows, out=out, **two)
        with pytest.raises(KeyError, match="out, a TensorDict, does not take the TensorDict of the function: key 'x'"):
            rows().map(work.plus, out=out, **two)


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, message, options",
    [
        (IndexError, r"dim: the batch size \[12\] has no dimension 1", {"dim": 1}),
        (TypeError, "dim: expected an int", {"dim": "rows"}),
        (ValueError, "expected chunksize or num_chunks, got both", {"chunksize": 1, "num_chunks": 1}),
        (ValueError, "chunksize: expected a number of rows", {"chunksize": -1}),
        (TypeError, "chunksize: expected an int", {"chunksize": 1.5}),
        (ValueError, "num_chunks: expected at least one", {"num_chunks": 0}),
        (ValueError, "num_workers: expected a number of processes, at least 1, got 0", {"num_workers": 0}),
        (ValueError, "max_tasks_per_child: expected an int, at least 1", {"max_tasks_per_child": 0}),
        (ValueError, "worker_threads: expected an int, at least 1", {"worker_threads": 0}),
        (ValueError, "retries: expected an int, at least 0", {"retries": -1}),
        (ValueError, "timeout: expected seconds", {"timeout": 0}),
        (TypeError, "generator: expected a torch.Generator", {"generator": 3}),
        (ValueError, "nowhere", {"mp_start_method": "nowhere"}),
    ],
)
def test_wrong_arguments_are_errors_before_any_work(error: type[Exception], message: str, options: Any) -> None:
    with pytest.raises(error, match=message):
        rows().map(work.hangs, **options)
    with pytest.raises(error, match=message):
        rows().map_iter(work.hangs, **options)


def test_what_is_no_function_is_an_error() -> None:
    with pytest.raises(TypeError, match="expected a function of a chunk, got 3"):
        rows().map(3)  # type: ignore[call-overload]


def test_a_collection_without_dimensions_has_no_chunks() -> None:
    with pytest.raises(
        IndexError, match=r"batch size \[\] has no dimension 0; to have rows, construct the record with batch_size="
    ):
        TensorDict({"a": 1}).map(work.same)


# -- workers ----------------------------------------------------------------------------------------------------------


def test_a_process_is_replaced_after_some_chunks() -> None:
    pids = rows().map(work.pid, chunksize=1, max_tasks_per_child=2, **two)
    assert max(pids.count(pid) for pid in pids) <= 2
    assert len(set(pids)) >= 6


def test_no_more_processes_than_chunks() -> None:
    assert len(set(rows().map(work.pid, num_chunks=2, num_workers=5))) <= 2
    assert os.getpid() not in rows().map(work.pid, **two)


def test_threads_of_torch_in_workers() -> None:
    assert rows().map(work.threads, num_workers=1, worker_threads=2) == [2]
    assert rows().map(work.threads, num_workers=1) == [1]


def test_a_bar_shows_the_chunks(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)  # no thread that stays
    rows().map(work.same, chunksize=5, pbar=True, **two)
    assert "3/3" in capfd.readouterr().err
    list(rows().map_iter(work.same, chunksize=5, pbar=True, **two))
    assert "3/3" in capfd.readouterr().err


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_processes_that_are_not_forked_get_the_rows_too(start: str) -> None:
    data, options = rows(), {"num_workers": 1, "chunksize": 5, "mp_start_method": start}
    found = data.map(work.total_in_place, **options)  # type: ignore[call-overload]
    assert found.total.tolist() == rows().x.sum(-1).tolist()
    assert data.x.tolist() == (rows().x + 100).tolist()
