"""Writers of one folder: the result is that of one order, or one of them gets an error."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import MemoryMappedTensor, TensorDict, pack_memmap
from tensorclass.storage import archive
from tensorclass.storage.memmap import memmap_folder
from tensorclass.support import folder_locks
from tests.interrupting import Held, interrupted, points


def rows(count: int, value: float) -> TensorDict:
    return TensorDict({"x": torch.full((count,), value), "below": {"y": torch.full((count, 2), value)}}, [count])


def values_of(path: Path) -> list[float]:
    found = TensorDict.load_memmap(path)
    assert found["below", "y"][:, 1].tolist() == found["x"].tolist()
    return found["x"].tolist()


def test_a_collection_that_is_saved_where_it_lay_is_not_mixed_with_what_is_there_by_now(tmp_path: Path) -> None:
    mapped = rows(2, 1.0).memmap(tmp_path / "rows")
    rows(3, 2.0).memmap(tmp_path / "rows")
    mapped.memmap(tmp_path / "rows")
    assert values_of(tmp_path / "rows") == [1.0, 1.0]


def test_a_collection_that_is_saved_where_it_lies_keeps_its_files(tmp_path: Path) -> None:
    mapped = rows(2, 1.0).memmap(tmp_path / "rows")
    before = (tmp_path / "rows" / "x.memmap").stat().st_ino
    mapped.memmap(tmp_path / "rows")
    assert (tmp_path / "rows" / "x.memmap").stat().st_ino == before
    assert (tmp_path / "rows" / "x.memmap").stat().st_nlink == 1


def test_what_is_written_to_a_collection_that_is_only_read_is_saved(tmp_path: Path) -> None:
    rows(2, 1.0).memmap(tmp_path / "rows")
    mapped = TensorDict.load_memmap(tmp_path / "rows", mode="r")
    mapped["x"].fill_(5.0)
    mapped["below", "y"].fill_(5.0)
    mapped.memmap(tmp_path / "rows")
    assert values_of(tmp_path / "rows") == [5.0, 5.0]


def test_rows_that_others_have_mapped_stay_theirs(tmp_path: Path) -> None:
    first = rows(2, 1.0).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", rows(3, 2.0))
    others = TensorDict.load_memmap(tmp_path / "rows")
    first.memmap(tmp_path / "rows")  # which has two rows
    TensorDict.append_memmap(tmp_path / "rows", rows(3, 3.0))
    assert values_of(tmp_path / "rows") == [1.0, 1.0, 3.0, 3.0, 3.0]
    assert others["x"].tolist() == [1.0, 1.0, 2.0, 2.0, 2.0]


def test_a_collection_whose_folder_is_gone_is_saved_again(tmp_path: Path) -> None:
    mapped = rows(2, 1.0).memmap(tmp_path / "rows")
    os.rename(tmp_path / "rows", tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"no folder .*rows any more"):
        mapped.make_memmap("z", [2])
    mapped.memmap(tmp_path / "rows")
    assert values_of(tmp_path / "rows") == [1.0, 1.0]


def test_a_save_gives_what_it_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, threads = memmap_folder.load_folder, list[threading.Thread]()

    def saved_before(*given: Any, **options: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=lambda: rows(3, 2.0).memmap(tmp_path / "rows")))
            threads[0].start()
            threads[0].join(0.3)
        return load(*given, **options)

    monkeypatch.setattr(memmap_folder, "load_folder", saved_before)
    assert rows(2, 1.0).memmap(tmp_path / "rows")["x"].tolist() == [1.0, 1.0]
    threads[0].join(60)
    assert values_of(tmp_path / "rows") == [2.0] * 3


def test_of_two_that_save_where_nothing_may_be_one_gets_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = memmap_folder.write_values, list[int]()

    def saved_meanwhile(file: int, tensor: Tensor, advance: Any = None) -> None:
        calls.append(file)
        if len(calls) == 1:
            rows(3, 2.0).memmap(tmp_path / "rows", existsok=False)
        write(file, tensor, advance)

    monkeypatch.setattr(memmap_folder, "write_values", saved_meanwhile)
    with pytest.raises(FileExistsError, match="a collection is saved"):
        rows(2, 1.0).memmap(tmp_path / "rows", existsok=False)
    assert values_of(tmp_path / "rows") == [2.0] * 3
    assert os.listdir(tmp_path) == ["rows"]


def test_a_new_tensor_fits_what_is_there(tmp_path: Path) -> None:
    mapped = rows(2, 1.0).memmap(tmp_path / "rows")
    TensorDict.append_memmap(tmp_path / "rows", rows(1, 1.0))
    with pytest.raises(RuntimeError, match=r"batch size is \[3\] now, not \[2\]; memmap_refresh_\(\)"):
        mapped.make_memmap("z", [2])
    with pytest.raises(RuntimeError, match=r"batch size is \[3\] now, not \[2\]; memmap_refresh_\(\)"):
        mapped.make_memmap(("below", "z"), [2])
    assert values_of(tmp_path / "rows") == [1.0] * 3
    mapped.memmap_refresh_().make_memmap("z", [3]).fill_(4.0)
    assert TensorDict.load_memmap(tmp_path / "rows")["z"].tolist() == [4.0] * 3


def test_new_tensors_of_two_writers_in_one_new_collection_both_stay(tmp_path: Path) -> None:
    first = rows(2, 1.0).memmap(tmp_path / "rows")
    second = TensorDict.load_memmap(tmp_path / "rows").lock_()
    first.make_memmap(("new", "a"), [2]).fill_(1.0)
    second.make_memmap(("new", "b"), [2]).fill_(2.0)
    found = TensorDict.load_memmap(tmp_path / "rows")["new"]
    assert found["a"].tolist() == [1.0, 1.0]
    assert found["b"].tolist() == [2.0, 2.0]
    with pytest.raises(FileExistsError, match="has a 'a' already"):
        second.make_memmap_from_tensor(("new", "a"), torch.ones(2), existsok=False)
    second.make_memmap(("new", "a"), [2, 3])
    assert TensorDict.load_memmap(tmp_path / "rows")["new", "a"].shape == (2, 3)


@pytest.mark.parametrize("at", range(3))
def test_a_new_tensor_in_the_place_of_another_shape_is_whole_at_every_line(tmp_path: Path, at: int) -> None:
    def made(place: Path, data: TensorDict) -> None:
        data.make_memmap("z", [2, 5])

    def prepared(place: Path) -> TensorDict:
        mapped = rows(2, 1.0).memmap(place)
        TensorDict.load_memmap(place).lock_().make_memmap("z", [2, 50])
        return mapped

    place = tmp_path / "rows"
    data = prepared(place)
    total = points(lambda: made(place, data))
    for line in range(1 + at, total, 40):
        data = prepared(place)
        before = Held.now()
        outcome = interrupted(lambda data=data: made(place, data), line)  # type: ignore[misc]
        beyond = Held.now().beyond(before)
        assert [name for name in beyond if not name.startswith("mapped")] == [], outcome  # the collection may have it
        assert not folder_locks._held
        assert values_of(place) == [1.0, 1.0]
        assert os.listdir(tmp_path) == ["rows"], outcome


def test_a_load_that_is_interrupted_at_any_line_keeps_no_file_open(tmp_path: Path) -> None:
    rows(2, 1.0).memmap(tmp_path / "rows")

    def loaded() -> None:
        TensorDict.load_memmap(tmp_path / "rows")

    for line in range(1, points(loaded), 11):
        before = Held.now()
        outcome = interrupted(loaded, line)
        assert isinstance(outcome.error, KeyboardInterrupt), outcome
        assert Held.now().beyond(before) == [], outcome


@pytest.mark.parametrize("threads", [0, 2])
def test_a_save_that_is_interrupted_at_any_line_leaves_one_of_both(tmp_path: Path, threads: int) -> None:
    place = tmp_path / "rows"
    rows(2, 1.0).memmap(place)

    def saved() -> None:
        rows(3, 2.0).memmap(place, num_threads=threads)

    total = points(saved)
    for line in range(1, total, total // 30):
        rows(2, 1.0).memmap(place)
        before = Held.now()
        outcome = interrupted(saved, line)
        assert Held.now().beyond(before) == [], outcome
        assert isinstance(outcome.error, KeyboardInterrupt), outcome
        assert not folder_locks._held
        assert values_of(place) in ([1.0] * 2, [2.0] * 3)
        assert os.listdir(tmp_path) == ["rows"], outcome


def test_a_file_that_cannot_be_written_takes_no_other_one_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(file: int, tensor: Tensor) -> None:
        (tmp_path / "other").write_text("of another writer")
        os.replace(tmp_path / "other", tmp_path / "x")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorclass.td.memory.mapped_tensor.write_values", replaced)
    with pytest.raises(OSError, match="No space"):
        MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "x")
    assert (tmp_path / "x").read_text() == "of another writer"


def in_a_fork(work: Callable[[], bool]) -> bool:
    """Whether work in a process that is forked now says yes."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def test_a_process_that_is_forked_has_no_lock(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    with folder_locks.FolderLock() as folder_lock:
        assert folder_lock.acquire(tmp_path / "rows")
        assert in_a_fork(lambda: not folder_locks._held and folder_lock.handle is None)
        assert folder_lock.handle is not None
    with folder_locks.FolderLock() as folder_lock:
        assert folder_lock.acquire(tmp_path / "rows")


def test_writers_of_inner_collections_share_the_outer_one(tmp_path: Path) -> None:
    rows(2, 1.0).memmap(tmp_path / "rows")
    with folder_locks.FolderLock() as one:
        one.share_above(tmp_path / "rows" / "below")
        assert one.acquire(tmp_path / "rows" / "below")
        done = list[bool]()

        def other() -> None:
            with folder_locks.FolderLock() as another:
                another.share_above(tmp_path / "rows" / "new")
                done.append(True)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
        assert done


def test_a_zarr_folder_that_is_replaced_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorclass.storage.hdf5_zarr import zarr_store

    rows(2, 1.0).to_zarr(tmp_path / "rows").close()
    init, calls = zarr_store.HeldFolder.__init__, list[str]()

    def replaced_behind(held: Any, path: str) -> None:
        init(held, path)
        calls.append(path)
        if len(calls) == 1:
            rows(3, 2.0).to_zarr(tmp_path / "rows").close()

    monkeypatch.setattr(zarr_store.HeldFolder, "__init__", replaced_behind)
    assert TensorDict.from_zarr(tmp_path / "rows")["x"].tolist() == [2.0] * 3
    assert len(calls) > 1


@pytest.mark.parametrize("form", ["archive", "consolidated"])
def test_a_file_that_is_replaced_at_once_is_not_taken_for_the_one_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    def saved(data: TensorDict) -> TensorDict:
        if form == "archive":
            return data.memmap(tmp_path / "file", archive=True)
        return data.consolidate(tmp_path / "file")

    replace, calls = os.replace, list[object]()

    def replaced_again(one: Any, other: Any) -> None:
        replace(one, other)
        calls.append(one)
        if len(calls) == 1:
            saved(TensorDict({"x": torch.ones(1)}, [1]))

    monkeypatch.setattr(os, "replace", replaced_again)
    assert saved(rows(3, 2.0))["x"].tolist() == [2.0] * 3
    load = TensorDict.load_memmap if form == "archive" else TensorDict.from_consolidated
    assert load(tmp_path / "file")["x"].tolist() == [1.0]


def test_what_is_packed_is_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows(2, 1.0).memmap(tmp_path / "rows")
    below, threads = archive._files_below, list[threading.Thread]()

    def saved_meanwhile(root: Path, inside: str) -> Any:
        found = list(below(root, inside))
        if not threads:
            threads.append(threading.Thread(target=lambda: rows(3, 2.0).memmap(tmp_path / "rows")))
            threads[0].start()
            threads[0].join(0.3)
        return iter(found)

    monkeypatch.setattr(archive, "_files_below", saved_meanwhile)
    pack_memmap(tmp_path / "rows", tmp_path / "rows.tdz")
    assert values_of(tmp_path / "rows.tdz") == [1.0, 1.0]
    threads[0].join(60)
    assert values_of(tmp_path / "rows") == [2.0] * 3
