"""Arguments that make no sense are errors that say what was expected, before anything is written."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import Column, NonTensorData, NonTensorStack, TensorDict, UnbatchedTensor, pack_memmap
from tests.checks import outcome


def data() -> TensorDict:
    return TensorDict({"x": torch.ones(3, 2), "name": torch.zeros(3)}, [3])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    data().memmap(tmp_path / "a")
    data().save_safetensors(tmp_path / "b")
    return tmp_path


THREADS: dict[str, Callable[[Path, Any], Any]] = {
    "memmap": lambda path, count: data().memmap(path / "new", num_threads=count),
    "memmap_like": lambda path, count: data().memmap_like(path / "new", num_threads=count),
    "load": lambda path, count: TensorDict.load(path / "a", num_threads=count),
    "load_memmap": lambda path, count: TensorDict.load_memmap(path / "a", num_threads=count, out=data()),
    "consolidate": lambda path, count: data().consolidate(path / "new", num_threads=count),
}


@pytest.mark.parametrize("call", THREADS)
@pytest.mark.parametrize("count, error", [("2", TypeError), (2.5, TypeError), (None, TypeError), (-1, ValueError)])
def test_a_number_of_threads_is_a_number(saved: Path, call: str, count: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="expected num_threads to be"):
        THREADS[call](saved, count)
    assert sorted(os.listdir(saved)) == ["a", "b"]


@pytest.mark.parametrize("out", [3, {}, TensorDict])
def test_out_is_a_collection(saved: Path, out: Any) -> None:
    with pytest.raises(TypeError, match="expected out to be a collection"):
        TensorDict.load_memmap(saved / "a", out=out)


@pytest.mark.parametrize("compression, level", [("deflated", 99), ("bzip2", 0), ("deflated", "9")])
def test_a_level_of_compression_is_one_of_its_method(saved: Path, compression: str, level: Any) -> None:
    with pytest.raises(ValueError, match="compresslevel"):
        pack_memmap(saved / "a", saved / "a.tdz", compression=compression, compresslevel=level)
    assert sorted(os.listdir(saved)) == ["a", "b"]


def test_one_key_is_no_list_of_keys(saved: Path) -> None:
    keys: Any = "name"
    with pytest.raises(TypeError, match=r"expected keys to be a list .*\['name'\]"):
        TensorDict.load_safetensors(saved / "b", keys=keys)


def test_a_new_tensor_in_a_folder_is_made_of_a_tensor(saved: Path) -> None:
    values: Any = [1, 2, 3]
    with pytest.raises(TypeError, match=r"expected a tensor, got list"):
        TensorDict.load(saved / "a").make_memmap_from_tensor("new", values)
    with pytest.raises(ValueError, match=r"\[3, 5\].*60 bytes.*8"):
        TensorDict.load(saved / "a").make_memmap_from_storage("new", torch.ones(2).untyped_storage(), [3, 5])
    assert list(TensorDict.load(saved / "a").keys()) == ["x", "name"]


def test_a_zarr_folder_that_may_not_be_read_is_no_damaged_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zarr

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(saved / "c" / "zarr.json"))

    data().to_zarr(saved / "c").close()
    monkeypatch.setattr(zarr, "open_group", refuse)
    with pytest.raises(PermissionError, match=r"zarr\.json") as error:
        TensorDict.from_zarr(saved / "c")
    assert not isinstance(error.value, ValueError)


SHARED: dict[str, Callable[[], Any]] = {
    "checksum": lambda: data().memmap(checksum=True),
    "checksum in place": lambda: data().memmap_(checksum=True),
}


@pytest.mark.parametrize("call", SHARED)
def test_memory_without_a_path_has_no_checksums(call: str) -> None:
    with pytest.raises(ValueError, match="needs a path"):
        SHARED[call]()


def test_tensors_without_values_are_named_where_they_would_be_copied_to_memory() -> None:
    with pytest.raises(TypeError, match=r"no values: \['x', 'name'\]"):
        data().to("meta").memmap()


@pytest.mark.parametrize("subpath", ["..", ".", "", ("n", ".."), "n/.."])
def test_a_subpath_does_not_leave_the_folder(tmp_path: Path, subpath: Any) -> None:
    TensorDict({"n": {"m": {"x": torch.ones(2)}}}, [2]).memmap(tmp_path / "above")
    with pytest.raises(ValueError, match="no collection is saved there under"):
        TensorDict.load_memmap(tmp_path / "above" / "n", subpath=subpath)


def test_a_collection_that_is_mapped_but_not_locked_is_told_to_be_locked(saved: Path) -> None:
    loaded = TensorDict.load(saved / "a")
    with pytest.raises(RuntimeError, match=r"not memory-mapped; call lock_\(\) first"):
        loaded.make_memmap("new", [3])
    assert loaded.lock_().make_memmap("new", [3]).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match=r"not memory-mapped; call memmap\(folder\) first"):
        data().make_memmap("new", [3])


@pytest.mark.parametrize("backend", ["h5", "zarr"])
@pytest.mark.parametrize("chunks", [0, -1, "a", (), 2.5, (3, 0)])
def test_chunks_are_rows_or_dimensions(tmp_path: Path, backend: str, chunks: Any) -> None:
    with pytest.raises(ValueError, match="expected chunks to be"):
        getattr(data(), f"to_{backend}")(tmp_path / "new", chunks=chunks)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("backend", ["h5", "zarr"])
@pytest.mark.parametrize("chunks", [True, None, 2, (2,), (2, 1), 99])
def test_chunks_go_for_arrays_of_any_shape(tmp_path: Path, backend: str, chunks: Any) -> None:
    with getattr(data(), f"to_{backend}")(tmp_path / "new", chunks=chunks) as held:
        assert (held.to_memory() == data()).all()


@pytest.mark.parametrize("chunks, shards", [(1, 2), (2, 4), ((2, 1), 4), (2, (4, 2)), (10, 100)])
def test_shards_go_for_arrays_of_any_shape(tmp_path: Path, chunks: Any, shards: Any) -> None:
    with data().to_zarr(tmp_path / "new", chunks=chunks, shards=shards) as held:
        assert (held.to_memory() == data()).all()
    assert (TensorDict.from_zarr(tmp_path / "new").to_memory() == data()).all()


@pytest.mark.parametrize("mode, other", [("r", "r+"), ("r", "a"), ("r+", "w")])
def test_a_file_that_is_open_already_is_no_damaged_one(tmp_path: Path, mode: str, other: str) -> None:
    data().to_h5(tmp_path / "new").close()
    with TensorDict.from_h5(tmp_path / "new", mode=mode), pytest.raises(OSError, match=r"new: .*open.*close\(\)"):
        TensorDict.from_h5(tmp_path / "new", mode=other)
    with TensorDict.from_h5(tmp_path / "new", mode=other) as held:
        assert len(held.keys()) == (0 if other == "w" else 2)


ALONE: dict[str, Callable[[], Any]] = {
    "objects": lambda: NonTensorStack("a", "b"),
    "an object": lambda: NonTensorData("a", batch_size=[2]),
    "a column": lambda: Column(["a", "b"]),
    "an unbatched tensor": lambda: UnbatchedTensor(torch.ones(3)),
}
WRITERS: dict[str, Callable[[Any, Path], Any]] = {
    "memmap": lambda value, path: value.memmap(path),
    "an archive": lambda value, path: value.memmap(path, archive=True),
    "to_h5": lambda value, path: value.to_h5(path),
    "to_zarr": lambda value, path: value.to_zarr(path),
    "save_safetensors": lambda value, path: value.save_safetensors(path),
    "consolidate": lambda value, path: value.consolidate(path),
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_value_by_itself_comes_back_or_is_an_error_that_says_what_to_do(
    name: str, writer: str, tmp_path: Path
) -> None:
    value = ALONE[name]()
    found = outcome(lambda: WRITERS[writer](value, tmp_path / "new"))
    if isinstance(found, Exception):
        assert re.search(r"expected a collection, got a .*TensorDict\(\{'value': ...\}, batch_size=", str(found))
        assert os.listdir(tmp_path) == []
    else:
        load = {"save_safetensors": "load_safetensors", "consolidate": "from_consolidated"}[writer]
        assert getattr(type(value), load)(tmp_path / "new").tolist() == value.tolist()
