"""Collections in HDF5 files and zarr folders."""

import copy
import errno
import gc
import json
import pickle
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import (
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    lazy_stack,
    set_printoptions,
)
from tensorclass.storage import FileError, PersistentTensorDict
from tensorclass.storage.hdf5_zarr.group_loader import make_backend
from tensorclass.storage.hdf5_zarr.restorable_file import RestorableFile
from tensorclass.storage.hdf5_zarr.zarr import Zarr
from tests import forkserver, fresh_python
from tests.open_files import open_files
from tests.storage.memmap.test_memmap_folder import Inner, Sample, a_tree


class Bar(TensorClass):
    close: Tensor
    name: str = "x"


class Wider(TensorClass):
    close: Tensor
    name: str = "x"
    more: Tensor | None = None


class Narrow(TensorClass):
    close: Tensor


class Other(TensorClass):
    other: Tensor


def write(data: Any, path: Path, backend: str, **options: Any) -> Any:
    return getattr(data, f"to_{backend}")(path, **options)


def read(path: Path, backend: str, cls: Any = TensorDict, **options: Any) -> Any:
    return getattr(cls, f"from_{backend}")(path, **options)


@pytest.fixture(params=["h5", "zarr"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "zarr":
        pytest.importorskip("zarr")
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, backend: str) -> Path:
    return tmp_path / f"file.{backend}"


def rows() -> TensorDict:
    return TensorDict({"a": torch.arange(12.0).view(4, 3), "n": {"b": torch.arange(4)}, "s": list("abcd")}, [4])


def test_a_tree_comes_back_as_it_was_written(path: Path, backend: str) -> None:
    data = a_tree()
    write(data, path, backend)
    loaded = read(path, backend)
    assert list(loaded.keys()) == list(data.keys())
    assert set(loaded.keys(True)) == set(data.keys(True))
    assert (loaded.names, loaded.batch_size) == (["time"], data.batch_size)
    for key in ("a", ("b", "c"), ("b", "d/e"), "one", "shape", "empty"):
        assert loaded[key].dtype == data[key].dtype
        assert torch.equal(loaded[key], data[key])
    assert (loaded["text"], loaded["rows"]) == ("hello", ["u", "v"])


def test_a_record_comes_back_with_its_nested_record(path: Path, backend: str) -> None:
    data = Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2])
    write(data, path, backend).close()
    loaded = read(path, backend, Sample)
    assert isinstance(loaded, Sample)
    assert isinstance(loaded.inner, Inner)
    assert torch.equal(loaded.x, data.x)
    assert type(loaded[0]) is Sample
    assert type(loaded.to_memory()) is Sample
    assert loaded.text == "t"


@pytest.mark.parametrize(
    "index",
    [
        0, -1, slice(1, 3), slice(None, None, 2), torch.tensor([3, 0, 3]), [True, False, False, True], None, ...,
        torch.tensor([[0, 1], [2, 3]]), slice(4, 2), torch.tensor([], dtype=torch.long), (None, 2), torch.tensor(2),
        (..., slice(2)), False,
    ],
    ids=str,
)  # fmt: skip
def test_rows_are_those_of_the_collection_in_memory(path: Path, backend: str, index: Any) -> None:
    data = rows()
    got, expected = write(data, path, backend)[index], data[index]
    assert got.batch_size == expected.batch_size
    assert torch.equal(got["a"], expected["a"])
    assert torch.equal(got["n", "b"], expected["n", "b"])
    assert got["s"] == expected["s"]


@pytest.mark.parametrize(
    "index",
    [
        (0, 1), (slice(1, 3), [0, 2]), ([0, 3], [1, 1]), (torch.tensor([[0], [3]]), torch.tensor([0, 2])),
        torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).gt(0.5), (None, slice(2), None, 1), (..., -1),
    ],
    ids=str,
)  # fmt: skip
def test_an_index_of_two_dimensions_reads_and_writes_what_it_does_in_memory(
    path: Path, backend: str, index: Any
) -> None:
    data = TensorDict({"a": torch.arange(24.0).view(4, 3, 2)}, [4, 3])
    held = write(data, path, backend)
    assert torch.equal(held[index]["a"], data[index]["a"])
    held[index] = -1.0
    data[index] = -1.0
    assert torch.equal(held["a"], data["a"])
    new = TensorDict({"a": torch.rand(data[index]["a"].shape)}, data[index].batch_size)
    held[index] = new
    data[index] = new
    assert torch.equal(held["a"], data["a"])


def test_an_index_out_of_range_is_an_error(path: Path, backend: str) -> None:
    held = write(rows(), path, backend)
    for index in (4, -5, torch.tensor([0, 4]), (0, 0)):
        with pytest.raises(IndexError):
            held[index]


def test_what_is_written_goes_to_the_file(path: Path, backend: str) -> None:
    write(rows(), path, backend).close()
    with read(path, backend, mode="r+") as held:
        held["a"] = torch.ones(4, 3)
        held["new", "deep"] = torch.arange(4)
        held[1:3] = {"a": torch.zeros(2, 3), "n": {"b": torch.tensor([7, 8])}}
        held.set_at_("a", 5.0, (0, 1))
        held["n"].set_("b", held["n", "b"] + 1)
        held.update({"s": NonTensorStack(*"wxyz"), "new": {"other": torch.ones(4)}})
        held.update({"a": held["a"] * 2}, inplace=True)
        held["n"].mul_(2)
        held["gone"] = torch.ones(4)
        del held["gone"]
        held.rename_key_("new", "renamed")
    with read(path, backend) as held:
        assert held["a"].tolist() == [[2, 10, 2], [0, 0, 0], [0, 0, 0], [2, 2, 2]]
        assert held["n", "b"].tolist() == [2, 16, 18, 8]
        assert held["s"] == list("wxyz")
        assert set(held.keys(True, True)) == {"a", ("n", "b"), ("renamed", "deep"), ("renamed", "other")}


def test_new_keys_of_rows_are_zeros_elsewhere(path: Path, backend: str) -> None:
    held = write(rows(), path, backend)
    held[:2] = {"z": torch.ones(2, 5), "below": {"y": torch.ones(2)}, "t": ["u", "v"]}
    assert held["z"].sum(1).tolist() == [5, 5, 0, 0]
    assert held["below", "y"].tolist() == [1, 1, 0, 0]
    assert held["t"] == ["u", "v", None, None]


def test_fill_and_numbers_reach_all_values(path: Path, backend: str) -> None:
    held = write(rows().exclude("s"), path, backend)
    held.fill_("a", 3.0)
    held[0] = 1
    assert held["a"][:, 0].tolist() == [1, 3, 3, 3]
    assert held["n", "b"].tolist() == [1, 1, 2, 3]


def test_rows_that_do_not_fit_write_nothing(path: Path, backend: str) -> None:
    held = write(rows(), path, backend)
    before = held.to_tensordict()
    with pytest.raises(RuntimeError):
        held[:2] = {"n": {"b": torch.ones(2)}, "a": torch.ones(2, 4)}
    with pytest.raises(RuntimeError):
        held.update({"n": {"b": torch.zeros(4)}, "a": torch.ones(3)})
    with pytest.raises(TypeError, match="bad"):
        held["bad"] = NonTensorData(object(), batch_size=[4])
    assert (held == before).all()
    assert "bad" not in held


def test_a_file_that_is_read_refuses_to_be_written(path: Path, backend: str) -> None:
    write(rows(), path, backend).close()
    held = read(path, backend)
    for act in (
        lambda: held.set("c", torch.ones(4)), lambda: held.set_("a", torch.ones(4, 3)), lambda: held.add_(1),
        lambda: held.__setitem__(slice(2), {"a": torch.ones(2, 3)}), lambda: held.set_at_("a", 1.0, 0),
        lambda: held.update({"a": torch.ones(4, 3)}), lambda: held.del_("a"), lambda: held.fill_("a", 1.0),
        lambda: held.__setitem__(0, 1.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="mode='r\\+'"):
            act()
    assert torch.equal(held["a"], rows()["a"])


def test_a_locked_file_keeps_its_keys_and_takes_values(path: Path, backend: str) -> None:
    held = write(rows(), path, backend).lock_()
    with pytest.raises(RuntimeError, match="locked"):
        held["new"] = torch.ones(4)
    with pytest.raises(RuntimeError, match="locked"):
        held["n"]["new"] = torch.ones(4)
    held.set_("a", torch.zeros(4, 3))
    assert held["a"].sum() == 0
    with held.unlock_():
        held["new"] = torch.ones(4)
    assert held.is_locked
    assert "new" in held


def test_operations_give_collections_in_memory(path: Path, backend: str) -> None:
    held = write(rows().exclude("s"), path, backend)
    total = held + 1
    assert type(total) is TensorDict
    held.close()
    assert torch.equal(total["a"], rows()["a"] + 1)
    with pytest.raises(ValueError, match="closed"):
        held["a"]


def test_the_outline_reads_no_values(path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = write(rows(), path, backend)
    monkeypatch.setattr(type(held._store.file.backend), "read", None)
    with set_printoptions(style="long"):
        assert "shape=torch.Size([4, 3])" in repr(held)
    assert "a: f32[3]" in repr(held)
    assert ("n", "b") in held
    assert held.get_item_shape("a") == (4, 3)
    assert held.entry_class("a") is Tensor
    assert set(held.keys(True, True)) == {"a", ("n", "b")}
    held[:2] = {"a": torch.zeros(2, 3)}
    held.batch_size = []


def test_batch_size_and_names_are_kept_in_the_file(path: Path, backend: str) -> None:
    held = write(TensorDict({"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4, 3)}}, [4]), path, backend)
    held.batch_size = [4, 3]
    held.names = ["t", "x"]
    held.close()
    again = read(path, backend)
    assert (again.batch_size, again.names, again["n"].names) == ((4, 3), ["t", "x"], ["t", "x"])
    again.close()
    with pytest.raises(ValueError, match="batch size"):
        read(path, backend, batch_size=[5])
    assert read(path, backend, batch_size=[4]).batch_size == (4,)
    assert read(path, backend, auto_batch_size=True, batch_dims=1).batch_size == (4,)


def test_a_lazy_stack_comes_back_as_one(path: Path, backend: str) -> None:
    data = lazy_stack([TensorDict({"x": torch.ones(n)}, [n]) for n in (2, 3)])
    held = write(data, path, backend)
    assert held.batch_size == (2, -1)
    assert held[1]["x"].tolist() == [1, 1, 1]
    outer = TensorDict({"l": lazy_stack([TensorDict({"x": torch.ones(n)}) for n in (2, 3)])}, [2])
    write(outer, path, backend)
    assert [len(x) for x in read(path, backend)["l"].get("x", as_list=True)] == [2, 3]


def test_jagged_tensors_and_all_dtypes_come_back(path: Path, backend: str) -> None:
    dtypes = [
        torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.bool, torch.float16,
        torch.float64, torch.bfloat16, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    ]  # fmt: skip
    data = TensorDict({str(dtype): torch.tensor([0, 1, 1]).to(dtype) for dtype in dtypes}, [3])
    data["scalars"] = TensorDict({"x": torch.tensor([1.0, 2.0, 3.0])}, [3])
    data["jagged"] = torch.nested.nested_tensor([torch.ones(n) for n in (1, 2, 4)], layout=torch.jagged)
    held = write(data, path, backend)
    for dtype in dtypes:
        assert held[str(dtype)].dtype == dtype
        assert torch.equal(held[str(dtype)].to(torch.complex128), data[str(dtype)].to(torch.complex128))
        assert held[1][str(dtype)].dtype == dtype
    assert [len(row) for row in held["jagged"].unbind()] == [1, 2, 4]
    assert held["jagged"].layout == torch.jagged


def test_tensors_that_no_file_can_hold_are_all_named(path: Path, backend: str) -> None:
    data = TensorDict({"m": torch.ones(2, device="meta"), "n": {"s": torch.eye(2).to_sparse()}, "o": object()})
    with pytest.raises(TypeError, match=r"m: .*; n.s: .*; o: "):
        write(data, path, backend)
    assert not path.exists()


@pytest.mark.parametrize("key", ["a/b", "..", ".", "", "50%", "%2F", "__x", "zarr.json", "a\0b", "ä", " "])
def test_any_key_can_be_written(path: Path, backend: str, key: str) -> None:
    held = write(TensorDict({key: torch.ones(2), "n": {key: torch.zeros(2)}}, [2]), path, backend)
    held["n", "n", key] = torch.zeros(2)
    held.close()
    assert set(read(path, backend).keys(True, True)) == {key, ("n", key), ("n", "n", key)}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("value", ["a\0b", "\ud800", "", {"a": (1, None)}, 3, float("nan"), b"x", [1, "<tag>"]])
def test_objects_come_back(path: Path, backend: str, value: Any) -> None:
    data = TensorDict({"one": NonTensorData(value, batch_size=[2]), "each": NonTensorStack(value, "z")}, [2])
    held = write(data, path, backend)
    assert repr(held["one"]) == repr(value)
    assert repr(held["each"][0]) == repr(value)
    assert held[1]["each"] == "z"


def test_objects_are_pickled_only_where_both_sides_allow_it(path: Path, backend: str) -> None:
    data = TensorDict({"o": NonTensorData(Path, batch_size=[])})
    with pytest.raises(TypeError, match="allow_pickle"):
        write(data, path, backend)
    write(data, path, backend, allow_pickle=True).close()
    with pytest.raises(ValueError, match="allow_pickle"):
        read(path, backend)["o"]
    assert read(path, backend, allow_pickle=True)["o"] is Path


def test_one_object_for_all_rows_can_be_read_as_one_for_each(path: Path, backend: str) -> None:
    write(TensorDict({"s": "hi", "x": torch.ones(2)}, [2]), path, backend).close()
    assert read(path, backend, non_tensor_as_stack=True)["s"] == ["hi", "hi"]


def test_a_record_names_the_fields_that_differ(path: Path, backend: str) -> None:
    held = write(Bar(torch.ones(3), "hi", batch_size=[3]), path, backend)
    assert held.close.tolist() == [1, 1, 1]  # the field, not the method
    PersistentTensorDict.close(held)
    with pytest.raises(ValueError, match=r"missing: \['other'\]; unexpected: \['close', 'name'\]"):
        read(path, backend, Other)
    with pytest.raises(ValueError, match="strict=False"):
        read(path, backend, Narrow)
    assert list(read(path, backend, Narrow, strict=False).keys()) == ["close"]
    wider = read(path, backend, Wider)
    assert (wider.name, wider.more) == ("hi", None)
    write(Narrow(torch.ones(3), batch_size=[3]), path, backend)
    gained = read(path, backend, Bar)
    assert gained.name == "x"
    assert gained[1].name == "x"


def test_no_handle_outlives_its_use(path: Path, backend: str) -> None:
    write(rows(), path, backend)
    with read(path, backend) as held:
        held["a"]
    with pytest.raises(ValueError, match="batch size"):
        read(path, backend, batch_size=[3])
    with pytest.raises(ValueError, match="fields"):
        read(path, backend, Other)
    with pytest.raises(TypeError):
        write(TensorDict({"o": object()}), path, backend)
    del held
    gc.collect()
    assert open_files(path) == []


def test_writing_over_a_file_keeps_the_old_one_where_it_fails(path: Path, backend: str) -> None:
    write(rows(), path, backend).close()
    with pytest.raises(TypeError):
        write(TensorDict({"a": torch.ones(2), "b": object()}), path, backend)
    with pytest.raises((TypeError, ValueError)):
        write(TensorDict({"a": torch.ones(2, 2)}), path, backend, compression="none such", compressors="none such")
    assert torch.equal(read(path, backend)["a"], rows()["a"])
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_an_unknown_argument_is_an_error(path: Path, backend: str) -> None:
    with pytest.raises(TypeError, match="compresion"):
        write(rows(), path, backend, compresion="gzip")
    assert not path.exists()


def test_rows_are_appended(path: Path, backend: str) -> None:
    held = write(rows(), path, backend, resizable=True)
    held.extend(rows()[:2])
    held.extend({"a": torch.ones(1, 3), "n": {"b": torch.ones(1, dtype=torch.int64)}, "s": ["z"]})
    with pytest.raises(RuntimeError, match="nothing was written"):
        held.extend({"a": torch.ones(1, 4), "n": {"b": torch.ones(1)}, "s": ["z"]})
    held.close()
    again = read(path, backend)
    assert again.batch_size == (7,)
    assert again["n"].batch_size == (7,)
    assert torch.equal(again["a"], torch.cat([rows()["a"], rows()["a"][:2], torch.ones(1, 3)]))
    assert again["s"] == [*"abcdab", "z"]


def test_arrays_of_a_fixed_size_cannot_grow(tmp_path: Path) -> None:
    held = rows().to_h5(tmp_path / "f.h5")
    with pytest.raises(RuntimeError, match="resizable=True"):
        held.extend(rows())  # type: ignore[attr-defined]
    assert held.batch_size == (4,)


def test_chunks_and_compression_are_those_of_the_library(tmp_path: Path) -> None:
    rows().to_h5(
        tmp_path / "f.h5", chunks=2, compression="gzip", compression_opts=9, shuffle=True, fletcher32=True
    ).close()  # type: ignore[attr-defined]
    with h5py.File(tmp_path / "f.h5") as file:
        array = file["a"]
        assert (array.chunks, array.compression, array.compression_opts) == ((2, 3), "gzip", 9)
        assert (array.shuffle, array.fletcher32) == (True, True)
        assert file["n/b"].chunks == (2,)


def test_a_new_file_is_filled_key_by_key(path: Path, backend: str) -> None:
    data = PersistentTensorDict(filename=path, mode="w", batch_size=[3], backend=backend)
    data["x"] = torch.arange(3)
    data["n"] = {"y": torch.ones(3)}
    assert (data.mode, data.filename) == ("r+" if backend == "h5" else data.mode, str(path))
    data.close()
    assert read(path, backend)["n", "y"].tolist() == [1, 1, 1]
    assert isinstance(read(path, backend), PersistentTensorDict)
    made = PersistentTensorDict.from_dict({"x": torch.ones(3)}, path, backend=backend)
    assert made.batch_size == (3,)
    with pytest.raises(RuntimeError, match="filename or a group"):
        PersistentTensorDict(batch_size=[2])
    with pytest.raises(NotImplementedError, match="backend"):
        PersistentTensorDict(filename=path, backend="none")


def test_from_dict_without_a_file_makes_what_the_class_in_memory_makes(path: Path, backend: str) -> None:
    made: Any = PersistentTensorDict.from_dict({"x": torch.zeros(3, 2)}, auto_batch_size=True)
    assert (type(made), made.batch_size) == (TensorDict, torch.Size([3, 2]))
    with pytest.raises(TypeError, match="chunks"):
        PersistentTensorDict.from_dict({"x": torch.zeros(3)}, chunks=2)
    with pytest.raises(TypeError, match="give a filename"):
        PersistentTensorDict.from_dict({"x": torch.zeros(3)}, backend="zarr")
    on_file = type(write(Other(torch.zeros(3), batch_size=[3]), path, backend))
    made = on_file.from_dict({"other": torch.ones(2)}, batch_size=[2], names=["t"])
    assert (type(made), made.names) == (Other, ["t"])
    with on_file.from_dict({"other": torch.ones(2)}, path, backend=backend) as written:
        assert isinstance(written, Other)
        assert (type(written), written.other.tolist()) == (on_file, [1, 1])


def test_a_pickle_has_the_path_and_a_copy_the_values(path: Path, backend: str) -> None:
    held = write(rows(), path, backend)
    held.close()
    held = read(path, backend)
    sent = pickle.dumps(held)
    assert len(sent) < 2000
    again = pickle.loads(sent)
    assert isinstance(again, PersistentTensorDict)
    assert torch.equal(again["a"], held["a"])
    assert pickle.loads(pickle.dumps(held["n"]))["b"].tolist() == [0, 1, 2, 3]
    assert type(copy.deepcopy(held)) is TensorDict


def _rows_in_a_worker(held: Any, queue: Any) -> None:
    queue.put(held[1:3]["a"].tolist())


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_read_the_file(path: Path, backend: str, method: str) -> None:
    if method == "forkserver" and backend == "zarr":
        pytest.skip("a folder is never open")
    write(rows(), path, backend).close()
    held = read(path, backend)
    held["a"]
    context = forkserver.context_of(method)
    queue = context.Queue()
    worker = context.Process(target=_rows_in_a_worker, args=(held, queue))
    worker.start()
    assert queue.get(timeout=120) == [[3, 4, 5], [6, 7, 8]]
    worker.join()


def test_what_needs_memory_of_its_own_is_refused(path: Path, backend: str) -> None:
    held = write(rows().exclude("s"), path, backend)
    for name in ("share_memory_", "memmap_", "requires_grad_", "pin_memory_"):
        with pytest.raises(NotImplementedError, match="in a file"):
            getattr(held, name)()


def test_files_of_other_programs_are_collections(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.ones((3, 2), dtype=">f4")
        file["g/y"] = np.arange(3, dtype="u2")
        file["text"] = "hello"
        file["texts"] = ["a", "b", "ü"]
        file["fixed"] = np.array([b"a", b"bc", b"d"])
        file["soft"] = h5py.SoftLink("/x")
    data = TensorDict.from_h5(tmp_path / "f.h5", mode="r+")
    assert data.batch_size == (3,)
    assert data["x"].dtype == torch.float32
    assert data["g", "y"].tolist() == [0, 1, 2]
    assert (data["text"], data["texts"], data["fixed"]) == ("hello", ["a", "b", "ü"], ["a", "bc", "d"])
    assert data[1]["texts"] == "b"
    data["x"] = torch.zeros(3, 2)
    data[0] = {"g": {"y": torch.tensor(9)}}
    data.close()  # type: ignore[attr-defined]
    with h5py.File(tmp_path / "f.h5") as file:
        assert file["x"].dtype == ">f4"
        assert file["x"][()].sum() == 0
        assert file["g/y"][0] == 9


def test_nothing_outside_the_file_is_opened(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones(3)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["x"] = h5py.ExternalLink("other.h5", "/x")
    with pytest.raises(FileError, match="another file"):
        TensorDict.from_h5(tmp_path / "link.h5")
    layout = h5py.VirtualLayout((3,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (3,))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    with pytest.raises(FileError, match="other files"):
        TensorDict.from_h5(tmp_path / "virtual.h5")
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        file.create_dataset("x", (3,), dtype="f8", external=[("other.h5", 0, 24)])
    with pytest.raises(FileError, match="other files"):
        TensorDict.from_h5(tmp_path / "raw.h5")


def test_links_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    TensorDict({"x": torch.ones(3)}, [3]).to_zarr(tmp_path / "other.zarr")
    TensorDict({"y": torch.ones(3)}, [3]).to_zarr(tmp_path / "f.zarr")
    (tmp_path / "f.zarr" / "x").symlink_to(tmp_path / "other.zarr" / "x")
    with pytest.raises(FileError, match="link"):
        TensorDict.from_zarr(tmp_path / "f.zarr")


def test_groups_that_hold_themselves_are_an_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_group("a")["back"] = file["/"]
    with pytest.raises(FileError, match="two paths"):
        TensorDict.from_h5(tmp_path / "f.h5")


def test_values_that_torch_has_no_dtype_for_are_an_error_when_they_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.ones(3)
        file["c"] = np.zeros(3, [("a", "f4"), ("b", "i4")])
    data = TensorDict.from_h5(tmp_path / "f.h5")
    assert data["x"].sum() == 3
    with pytest.raises(FileError, match=r"c: torch has no dtype.*select"):
        data["c"]
    assert data.select("x")[0]["x"] == 1


def test_what_cannot_be_read_is_printed_as_that(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.ones(3)
        file["below/c"] = np.zeros(3, [("a", "f4"), ("b", "i4")])
    with TensorDict.from_h5(tmp_path / "f.h5") as data:
        shown = repr(data)
        assert re.search(r"c: .*cannot be read: FileError: ", shown)
        assert "x:     f64  [1.0, 1.0, 1.0]" in shown
        with set_printoptions(style="long"):
            shown = repr(data)
        assert re.search(r"c: .*cannot be read: .*torch has no dtype", shown)
        assert re.search(r"x: Tensor\(shape=torch.Size\(\[3\]\)", shown)
        with set_printoptions(compact=True):
            assert "x: f64" in repr(data)


def test_what_is_no_file_of_the_format_is_an_error(path: Path, backend: str) -> None:
    with pytest.raises(FileNotFoundError):
        read(path, backend)
    with pytest.raises(ValueError, match="mode"):
        read(path, backend, mode="zz")
    if backend == "h5":
        path.write_bytes(b"nonsense" * 100)
    else:
        path.mkdir()
        (path / "zarr.json").write_text("{nonsense")
    with pytest.raises(FileError, match=path.name) as caught:
        read(path, backend)
    assert isinstance(caught.value, OSError)


def _problem(path: Path) -> str | None:
    """The error of reading a file whose values are known; ``None`` where they are right."""
    try:
        with TensorDict.from_h5(path) as data:
            return None if torch.equal(data["a"], rows()["a"]) else "another value"
    except (KeyError, ValueError) as error:
        return str(error)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "f.h5"
    rows().to_h5(path, chunks=2, fletcher32=True).close()  # type: ignore[attr-defined]
    raw = bytearray(path.read_bytes())
    generator = torch.Generator().manual_seed(seed)
    where = int(torch.randint(len(raw), (), generator=generator))
    if seed % 2:
        raw = raw[:where]
    else:
        raw[where] ^= 0xFF
    path.write_bytes(raw)
    problem = _problem(path)
    assert problem is None or str(path) in problem or "'a'" in problem  # the name of the key can be what has changed


def test_a_note_that_lies_is_an_error(tmp_path: Path) -> None:
    import json

    rows().to_h5(tmp_path / "f.h5").close()  # type: ignore[attr-defined]
    for said in (
        {"type": "collection", "version": 1, "batch_size": [5]}, {"type": "collection", "version": 99},
        {"type": "lazy_stack", "parts": 10**9}, {"type": "collection", "version": 1, "batch_size": [-1]}, [],
    ):  # fmt: skip
        with h5py.File(tmp_path / "f.h5", "r+") as file:
            file.attrs["tensorclass"] = json.dumps(said)
        with pytest.raises(FileError, match=r"f\.h5"):
            TensorDict.from_h5(tmp_path / "f.h5")


def test_a_folder_of_zarr_2_is_written_and_read(tmp_path: Path) -> None:
    import zarr

    group = zarr.open_group(str(tmp_path / "old"), mode="w", zarr_format=2)
    group.create_array("x", data=np.arange(3.0))
    data = TensorDict.from_zarr(tmp_path / "old", mode="r+", batch_size=[3])
    data["y"] = torch.ones(3, dtype=torch.bfloat16)
    data["text"] = "t"
    data.names = ["time"]
    again = TensorDict.from_zarr(tmp_path / "old", batch_size=[3])
    assert again["y"].dtype == torch.bfloat16
    assert again["x"].tolist() == [0.0, 1.0, 2.0]
    assert again["text"] == "t"


def test_a_zarr_folder_that_is_written_over_says_so_to_those_who_have_it_open(tmp_path: Path) -> None:
    TensorDict(x=torch.zeros(3)).to_zarr(tmp_path / "f")
    data = TensorDict.from_zarr(tmp_path / "f")
    TensorDict(x=torch.ones(4)).to_zarr(tmp_path / "f")
    with pytest.raises(FileError, match="another folder has taken the place"):
        data["x"]
    assert TensorDict.from_zarr(tmp_path / "f")["x"].tolist() == [1.0] * 4


def test_keys_that_come_go_and_are_replaced_keep_a_folder_whole(tmp_path: Path) -> None:
    data = TensorDict(x=torch.zeros(3), y=torch.ones(3), z="t").to_zarr(tmp_path / "f", checksum=True)
    data["x"] = torch.zeros(2, dtype=torch.int8)
    del data["y"]
    data["new"] = torch.ones(2)
    again = TensorDict.from_zarr(tmp_path / "f", verify=True)
    assert list(again.keys()) == ["x", "z", "new"]
    assert again["x"].dtype == torch.int8


def test_a_checksum_goes_when_values_are_written(path: Path, backend: str) -> None:
    to, load = (getattr(TensorDict, f"{word}_{backend}") for word in ("to", "from"))
    data = to(TensorDict({"x": torch.zeros(3), "y": torch.ones(3)}, [3]), path, checksum=True)
    data[1:] = {"x": torch.ones(2), "y": torch.ones(2)}
    data["y"] = torch.zeros(3)
    data.close()
    assert load(path)["x"].tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(FileError, match="x: verify=True needs checksums"):
        load(path, verify=True)


def test_a_file_that_is_open_for_writing_is_told_to_a_reader(tmp_path: Path) -> None:
    data = TensorDict(x=torch.zeros(3)).to_h5(tmp_path / "f")
    code = f"from tensorclass import TensorDict; TensorDict.from_h5({str(tmp_path / 'f')!r})"
    done = fresh_python.run(["-W", "ignore", "-c", code])
    assert "BlockingIOError" in done.stderr
    data.close()


def test_codecs_that_could_run_code_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    TensorDict({"x": torch.ones(3)}, [3]).to_zarr(tmp_path / "f.zarr")
    place = tmp_path / "f.zarr" / "x" / "zarr.json"
    place.write_text(place.read_text().replace('"name": "bytes"', '"name": "numcodecs.pickle"'))
    with pytest.raises(FileError, match=r"f\.zarr"):
        TensorDict.from_zarr(tmp_path / "f.zarr")["x"]


def test_ten_rows_of_a_large_file_read_these_alone(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    PersistentTensorDict(filename=path, mode="w", batch_size=[50_000])["x"] = torch.zeros(50_000, 500)  # 100 MB

    def taken() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    with TensorDict.from_h5(path) as data:
        before = taken()
        assert data[torch.arange(0, 50_000, 5_000)]["x"].shape == (10, 500)
        assert taken() - before < 1_000_000  # HDF5 reads 64 kB around each


def test_keys_with_backslashes_come_back(path: Path, backend: str) -> None:
    data = TensorDict({"\\": torch.ones(2), "C:\\": {"a\\b": torch.zeros(2)}}, [2])
    write(data, path, backend).close()
    with read(path, backend) as held:
        assert set(held.keys(True, True)) == {"\\", ("C:\\", "a\\b")}
        assert held["\\"].tolist() == [1.0, 1.0]
        assert held["C:\\", "a\\b"].tolist() == [0.0, 0.0]


def test_backslashes_of_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    TensorDict({"a\\b": torch.ones(2)}, [2]).to_h5(tmp_path / "f.h5").close()
    with h5py.File(tmp_path / "f.h5", "r+") as file:
        file.move("a%5Cb", "a\\b")
        for name, value in file.attrs.items():
            file.attrs[name] = value.replace(b"a%5Cb", rb"a\\b") if isinstance(value, bytes) else value
    with TensorDict.from_h5(tmp_path / "f.h5") as held:
        assert held["a\\b"].tolist() == [1.0, 1.0]


keys = st.text(min_size=0, max_size=4).filter(lambda key: key.encode("utf-8", "ignore").decode() == key)
leaves = st.one_of(
    st.tuples(st.lists(st.integers(0, 3), max_size=2), st.sampled_from([torch.float32, torch.bool, torch.bfloat16])),
    st.text(max_size=5),
    st.none(),
    st.integers(),
)
trees = st.recursive(leaves, lambda below: st.dictionaries(keys, below, max_size=3), max_leaves=6)


def _made(tree: Any, size: tuple[int, ...]) -> Any:
    if isinstance(tree, dict):
        return TensorDict({key: _made(value, size) for key, value in tree.items()}, size)
    if isinstance(tree, tuple):
        return torch.rand((*size, *tree[0])).mul(3).to(tree[1])
    return NonTensorData(tree, batch_size=size)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, trees, max_size=3), st.lists(st.integers(0, 3), max_size=2), st.booleans())
def test_any_tree_comes_back(tree: dict[str, Any], size: list[int], zarr: bool) -> None:
    data = _made(tree, tuple(size))
    backend = "zarr" if zarr else "h5"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        held = write(data, path, backend)
        held.close()
        loaded = read(path, backend)
        assert loaded.batch_size == data.batch_size
        assert set(loaded.keys(True)) == set(data.keys(True))
        for (key, value), (_, found) in zip(
            sorted(data.items(True), key=lambda item: str(item[0])),
            sorted(loaded.items(True), key=lambda item: str(item[0])),
            strict=True,
        ):
            assert value.shape == found.shape, key
            if isinstance(value, Tensor):
                assert value.dtype == found.dtype
                assert torch.equal(value, found)
            elif isinstance(value, NonTensorData):
                assert value.data == found.data
        loaded.close()


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_a_schema_makes_a_file_to_be_filled(tmp_path: Path, backend: str) -> None:
    schema: dict[Any, Any] = {"image": ([64, 64], torch.bfloat16), ("n", "label"): ([], torch.int64)}
    path = tmp_path / "data"
    with TensorDict.from_schema(
        schema, batch_size=[100_000], storage=backend, filename=path, chunks=100, resizable=True
    ) as data:
        data[10:20] = TensorDict({"image": torch.ones(10, 64, 64).bfloat16(), "n": {"label": torch.ones(10)}}, [10])
    size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    assert size < 5_000_000  # of 820 MB
    with read(path, backend) as found:
        assert found.batch_size == (100_000,)
        assert found["n", "label"].sum() == 10
        assert found[9:11]["image"].float().sum((1, 2)).tolist() == [0.0, 64.0 * 64.0]
        assert found[0]["image"].dtype == torch.bfloat16


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_a_schema_of_a_record_makes_a_file_of_it(tmp_path: Path, backend: str) -> None:
    with Bar.from_schema(
        {"close": ([2], torch.float32)}, batch_size=[3], storage=backend, filename=tmp_path / "a"
    ) as bars:
        assert isinstance(bars, Bar)
        assert bars.close.shape == (3, 2)
        assert bars.name == "x"
    with Bar.from_schema({"close": ([], torch.int8)}, storage=backend, filename=tmp_path / "b", device="meta") as bars:
        assert bars.close.device.type == "meta"


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_a_schema_without_a_file_name_or_with_unknown_options_is_an_error(tmp_path: Path, backend: str) -> None:
    with pytest.raises(KeyError, match="filename"):
        TensorDict.from_schema({"a": ([2], torch.float32)}, storage=backend)
    with pytest.raises(TypeError, match="colour"):
        TensorDict.from_schema({"a": ([2], torch.float32)}, storage=backend, filename=tmp_path / "a", colour=1)
    with pytest.raises(NotImplementedError, match="redis"):
        TensorDict.from_schema({"a": ([2], torch.float32)}, storage="redis")
    assert not list(tmp_path.iterdir())


def test_parts_of_two_folders_that_do_not_fit_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    TensorDict({"text": ["one", "two"]}, [2]).to_zarr(path)
    opened: Any = TensorDict.from_zarr(path)
    form = opened._store.file.backend
    read = form.read_texts

    def of_another_folder(*args: Any, **kwargs: Any) -> Any:
        TensorDict({"text": ["six", "ten"]}, [2]).to_zarr(path)
        return read(*args, **kwargs)

    monkeypatch.setattr(form, "read_texts", of_another_folder)
    with pytest.raises(FileError, match="another folder has taken the place"):
        opened["text"]


def test_text_in_zarr_that_claims_very_many_chunks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    TensorDict({"text": ["one", "two"]}, [2]).to_zarr(path)
    note = path / "text" / "zarr.json"
    said = json.loads(note.read_text())
    said["shape"] = [2**33]
    said["chunk_grid"]["configuration"]["chunk_shape"] = [1]
    note.write_text(json.dumps(said))
    with pytest.raises(FileError, match=rf"{path}.*(damaged|chunks|seal|written)"):
        TensorDict.from_zarr(path).get("text")
    said["attributes"] = {}  # as of another program, which seals nothing
    note.write_text(json.dumps(said))
    with pytest.raises(FileError, match=f"{path}"):
        TensorDict.from_zarr(path).get("text")


def test_an_interrupt_while_the_library_calls_the_file_comes_when_the_change_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception there would end the process with a fault of memory."""
    TensorDict({"x": torch.zeros(2)}, [2]).to_h5(tmp_path / "data.h5").close()
    held = TensorDict.from_h5(tmp_path / "data.h5", mode="r+")
    calls: list[str] = []
    real = {name: getattr(RestorableFile, name) for name in ("seek", "write")}

    def interrupted(name: str) -> Any:
        def call(file: RestorableFile, *given: Any) -> Any:
            calls.append(name)
            signal.raise_signal(signal.SIGINT)
            return real[name](file, *given)

        return call

    for name in real:
        monkeypatch.setattr(RestorableFile, name, interrupted(name))
    with pytest.raises(KeyboardInterrupt):
        held["new"] = torch.ones(2)
    assert {"seek", "write"} == set(calls)
    with pytest.raises(KeyboardInterrupt):
        held.close()
    monkeypatch.undo()
    found = TensorDict.from_h5(tmp_path / "data.h5")
    assert found["new"].tolist() == [1, 1]
    found.close()


def test_a_key_whose_note_fails_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TensorDict({"x": torch.zeros(2)}, [2]).to_zarr(tmp_path / "data").close()
    held = TensorDict.from_zarr(tmp_path / "data", mode="r+")
    real: Any = Zarr._reorder

    def failing(format: Zarr, group: Any, name: str, at: int | None) -> None:
        real(format, group, name, at)
        if at is not None:
            raise OSError(errno.EIO, "cannot be written")

    monkeypatch.setattr(Zarr, "_reorder", failing)
    with pytest.raises(OSError, match="cannot be written"):
        held["new"] = torch.ones(2)
    monkeypatch.undo()
    held.close()
    assert set(TensorDict.from_zarr(tmp_path / "data").keys()) == {"x"}


class Counted(TensorClass):
    x: Tensor


@pytest.mark.parametrize("form", ["h5", "zarr"])
@pytest.mark.parametrize("made", [TensorDict, Counted], ids=["a collection", "a record"])
def test_a_save_never_gives_what_another_one_has_put_in_its_place(
    form: str, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows"
    format = type(make_backend(form))
    whole: Any = format.whole

    def save(number: int) -> Any:
        return getattr(made.from_dict({"x": torch.full((2,), number)}, batch_size=[2]), f"to_{form}")(path)

    @contextmanager
    def followed(self: Any, path: str) -> Iterator[Path]:
        with whole(self, path) as draft:
            yield draft
        monkeypatch.setattr(format, "whole", whole)
        save(2).close()

    monkeypatch.setattr(format, "whole", followed)
    with save(1) as found:
        if form == "h5":
            assert found["x"].tolist() == [1, 1]
        else:
            with pytest.raises(FileError, match="another folder has taken the place"):
                found["x"]
    with getattr(TensorDict, f"from_{form}")(path) as found:
        assert found["x"].tolist() == [2, 2]


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_an_unbatched_tensor_has_the_batch_size_of_the_file(tmp_path: Path, backend: str) -> None:
    if backend == "zarr":
        pytest.importorskip("zarr")
    data = TensorDict({"x": torch.arange(4), "shared": UnbatchedTensor(torch.ones(2))}, [4])
    with getattr(data, f"to_{backend}")(tmp_path / "rows", resizable=True) as rows:
        assert rows.get("shared").batch_size == torch.Size([4])
        assert rows[1:3].get("shared").batch_size == torch.Size([2])
        rows.extend(data)
        assert rows[6].get("x") == 2
        assert rows[6]["shared"].tolist() == [1.0, 1.0]
