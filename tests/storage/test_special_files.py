"""Pipes, devices and links in the place of files: errors at once, and nothing outside is opened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from tensorclass import (
    MemoryMappedTensor,
    PersistentTensorDict,
    TensorDict,
    append_memmap,
    is_memmap_archive,
    pack_memmap,
    refresh_archive_checksums,
    unpack_memmap,
)
from tensorclass.scores import ExactMatchScoreData, FileHead, load_scores, save_scores
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.regular_files import NotRegular, open_regular
from tests import fresh_python
from tests.storage.formats import FORMATS, contents


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """What hangs is an error after some seconds."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def sample(value: float = 1.0) -> TensorDict:
    return TensorDict({"x": torch.full((4, 3), float(value)), "below": {"c": torch.full((4,), float(value))}}, [4])


def test_a_part_of_the_search() -> None:
    """``python -m tests.storage.special_files`` is all of it."""
    command = ["-W", "ignore", "-m", "tests.storage.special_files", "--cases", "4", "--actions", "2"]
    done = fresh_python.run(command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert {result["format"] for result in found} == set(FORMATS)
    assert all(result.get("refused", 0) + result.get("right", 0) == 8 for result in found)


# -- pipes and devices ------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Path], Any]] = {
    "load_memmap": TensorDict.load_memmap,
    "load_memmap_": lambda path: sample().load_memmap_(path),
    "load": TensorDict.load,
    "safetensors": TensorDict.load_safetensors,
    "consolidated": TensorDict.from_consolidated,
    "h5": TensorDict.from_h5,
    "h5 for writing": lambda path: TensorDict.from_h5(path, mode="r+"),
    "h5 by its class": lambda path: PersistentTensorDict(filename=path),
    "a new h5": lambda path: PersistentTensorDict(filename=path, mode="w"),
    "zarr": TensorDict.from_zarr,
    "zarr for writing": lambda path: TensorDict.from_zarr(path, mode="r+"),
    "a new zarr": lambda path: PersistentTensorDict(filename=path, mode="w", backend="zarr"),
    "unpack": lambda path: unpack_memmap(path, path.parent / "unpacked"),
    "refresh": refresh_archive_checksums,
    "append": lambda path: append_memmap(path, sample()),
    "a tensor": lambda path: MemoryMappedTensor.from_filename(path, torch.float32, [3]),
    "csv": TensorDict.from_csv,
    "json": TensorDict.from_json,
    "parquet": TensorDict.from_parquet,
    "feather": TensorDict.from_feather,
    "parts of a table": lambda path: TensorDict.from_parquet(_folder_of(path)),
    "scores": load_scores,
}
WRITERS: dict[str, Callable[[Path], Any]] = {
    "folder": lambda path: sample().memmap(path),
    "archive": lambda path: sample().memmap(path, archive=True),
    "safetensors": lambda path: sample().save_safetensors(path),
    "consolidated": lambda path: sample().consolidate(path),
    "h5": lambda path: sample().to_h5(path),
    "zarr": lambda path: sample().to_zarr(path),
    "csv": lambda path: TensorDict({"x": torch.ones(4)}, [4]).to_csv(path),
    "parquet": lambda path: sample().to_parquet(path),
    "scores": lambda path: save_scores(ExactMatchScoreData(torch.ones(2), batch_size=[2]), path),
}


def _folder_of(path: Path) -> Path:
    folder = path.parent / "table"
    folder.mkdir()
    path.rename(folder / "part.parquet")
    return folder


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_no_file_to_read(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tdz")
    with pytest.raises((ValueError, OSError), match=r"pipe\.tdz|part\.parquet") as error:
        READERS[name](tmp_path / "pipe.tdz")
    assert name in ("append", "unpack", "refresh") or "a pipe" in str(error.value)
    assert not is_memmap_archive(tmp_path / "pipe.tdz")


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(name: str, kind: str, tmp_path: Path) -> None:
    if name == "zarr":
        pytest.importorskip("zarr")
    path = tmp_path / "place"
    if kind == "a device" and os.geteuid():
        path.symlink_to("/dev/null")  # where a device can be made by root alone
    elif kind == "a device":
        os.mknod(path, 0o20666, os.makedev(1, 3))
    else:
        os.mkfifo(path)
    before = path.stat()
    with pytest.raises((ValueError, OSError), match="place"):
        WRITERS[name](path)
    assert path.stat().st_mode == before.st_mode
    assert os.listdir(tmp_path) == ["place"]


def test_what_is_no_file_is_called_by_its_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(NotRegular, match=f"{name}: expected a file, found a pipe"):
            open_regular(tmp_path / name)
    with pytest.raises(NotRegular, match="/dev/zero: expected a file, found a device"):
        open_regular("/dev/zero")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "to file").symlink_to("file")
    with pytest.raises(NotRegular, match="to file: expected a file, found a link, which is not followed"):
        open_regular("to file", folder=folder)
    handle = open_regular("file", folder=folder)
    assert os.read(handle, 9) == b"abc"
    os.close(handle)
    os.close(folder)


def test_a_pipe_that_is_refused_keeps_its_writer_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe"):
        TensorDict.load_safetensors(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):  # nobody reads
        os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)


def test_a_pipe_as_metadata_is_saved_over(tmp_path: Path) -> None:
    sample().memmap(tmp_path / "saved")
    (tmp_path / "saved" / "meta.json").unlink()
    os.mkfifo(tmp_path / "saved" / "meta.json")
    with pytest.raises(FileError, match=r"meta\.json: expected a file, found a pipe"):
        TensorDict.load_memmap(tmp_path / "saved")
    sample(2).memmap(tmp_path / "saved")
    assert (TensorDict.load_memmap(tmp_path / "saved")["x"] == 2).all()


def test_logs_of_scores_come_through_pipes_and_from_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=('{"a": 1}\n',))
    writer.start()
    assert list(FileHead.of(tmp_path / "pipe").rows()) == [(1, {"a": 1})]
    writer.join()
    with pytest.raises(ScoreFileError, match="/dev/zero: expected a file, found a device"):
        FileHead.of("/dev/zero")


# -- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_a_link_as_the_path_or_above_it_is_followed(form: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    FORMATS[form].save(sample(), tmp_path / "data" / "saved")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "saved")
    for path in (tmp_path / "data" / "saved", tmp_path / "link"):
        assert contents(FORMATS[form].load(path)) == contents(sample())


def _outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside.h5"
    sample(7).to_h5(path).close()
    return path


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("hops", [0, 1, 3])
@pytest.mark.parametrize("key", ["x", "below"])
def test_soft_links_to_an_external_one_are_not_followed(key: str, hops: int, mode: str, tmp_path: Path) -> None:
    outside, path = _outside(tmp_path), tmp_path / "f.h5"
    before = outside.read_bytes()
    with h5py.File(path, "w") as file:
        file["here"] = np.ones((4, 3), "f4")
        hidden = file.create_group("%draft")  # is no key, and not looked at for itself
        hidden["hop0"] = h5py.ExternalLink(str(outside), "/")
        for at in range(hops):
            hidden[f"hop{at + 1}"] = h5py.SoftLink(f"/./%draft/hop{at}")
        file[key] = h5py.SoftLink(f"%draft/hop{hops}/{key}")
    with pytest.raises(FileError, match=rf"f\.h5: {key}: .*another file"):
        TensorDict.from_h5(path, mode=mode)
    assert outside.read_bytes() == before


def test_an_open_file_writes_over_no_link(tmp_path: Path) -> None:
    outside, path = _outside(tmp_path), tmp_path / "f.h5"
    before = outside.read_bytes()
    sample().to_h5(path).close()
    with TensorDict.from_h5(path, mode="r+") as data:
        file = data._store.file.root.file
        file["%hop"] = h5py.ExternalLink(str(outside), "/")
        del file["x"], file["below"]["c"]
        file["x"] = h5py.SoftLink("%hop/x")
        file["below"]["c"] = h5py.ExternalLink(str(outside), "/below/c")
        for work in (
            lambda: data["x"],
            lambda: data.set_at_("x", torch.zeros(3), 0),
            lambda: data["below", "c"],
            lambda: data["below"].set_at_("c", torch.tensor(0.0), 0),
        ):
            with pytest.raises(FileError, match="another file"):
                work()
    assert outside.read_bytes() == before


def test_soft_links_inside_of_a_file_are_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["group/x"] = np.arange(3)
        file["direct"] = h5py.SoftLink("group/x")
        file["over"] = h5py.SoftLink("/./again")
        file["again"] = h5py.SoftLink("direct")
    data = TensorDict.from_h5(tmp_path / "f.h5", mode="r+")
    assert data["over"].tolist() == data["direct"].tolist() == [0, 1, 2]
    data.set_at_("again", 5, 0)
    assert data["group", "x"].tolist() == [5, 1, 2]
    data.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", ["nothing", "nothing/at/all", "x", "y", "group/x/below"])
def test_soft_links_that_lead_nowhere_are_an_error(target: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["group/x"] = np.arange(3)
        file["y"] = h5py.SoftLink("x")
        file["x"] = h5py.SoftLink(target)
    with pytest.raises(FileError, match=r"f\.h5: [xy]: it is a link (without a target|over too many others)"):
        TensorDict.from_h5(tmp_path / "f.h5")


# -- zarr -------------------------------------------------------------------------------------------------------------


def _linked_out(place: Path, outside: Path) -> None:
    """What was inside lies outside, and a link leads there."""
    outside.mkdir(exist_ok=True)
    place.rename(outside / "moved")
    place.symlink_to(outside / "moved")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["x", "x/c", "x/c/0", "x/c/0/0", "x/zarr.json", "below", "below/c", "zarr.json"])
@pytest.mark.parametrize("when", ["before", "while it is open"])
def test_zarr_neither_reads_nor_writes_through_links(name: str, when: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    path = tmp_path / "saved"
    sample().to_zarr(path).close()

    def plant() -> None:
        _linked_out(path / name, tmp_path / "outside")

    if when == "before":
        plant()
        before = _files(tmp_path / "outside")
        with pytest.raises(FileError, match="a link"):
            TensorDict.from_zarr(path).to_memory()
        with pytest.raises(FileError, match="a link"), TensorDict.from_zarr(path, mode="r+") as data:
            data.to_memory()
    else:
        data = TensorDict.from_zarr(path, mode="r+", batch_size=[4])
        plant()
        before = _files(tmp_path / "outside")
        refused: list[str] = []
        for work in (
            data.to_memory,
            lambda: data.set_at_("x", torch.zeros(3), 0),
            lambda: data.update_(sample(3)),
            lambda: data["below"].set_at_("c", torch.tensor(9.0), 0),
            lambda: data.extend(sample(5)),
        ):
            try:
                work()
            except FileError as error:
                refused.append(str(error))
        assert all("a link" in text for text in refused)
        assert refused or name == "zarr.json"  # what it says was read before
        data.close()
    assert _files(tmp_path / "outside") == before


def test_zarr_reads_no_metadata_without_an_end(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    for name in ("zarr.json", "x/zarr.json", "x/c/0/0"):
        for plant in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            sample().to_zarr(tmp_path / "saved").close()
            (tmp_path / "saved" / name).unlink()
            plant(tmp_path / "saved" / name)
            with pytest.raises(FileError, match=r"a (pipe|link)"):
                TensorDict.from_zarr(tmp_path / "saved").to_memory()
            shutil.rmtree(tmp_path / "saved")


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("folder", ["", "below"])
def test_zarr_takes_no_names_from_copies_of_metadata(folder: str, mode: str, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    sample(7).to_zarr(tmp_path / "outside").close()
    root = zarr.create_group(zarr.storage.LocalStore(tmp_path / "saved"))
    root.create_group("below").create_array("c", data=np.ones(4))
    about = json.loads((tmp_path / "outside" / "x" / "zarr.json").read_text())
    place = tmp_path / "saved" / folder / "zarr.json"
    known = json.loads(place.read_text())
    names = {"../outside/x": about, "../../outside/x": about, f"{tmp_path}/outside/x": about}
    known["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": names}
    place.write_text(json.dumps(known))
    before = _files(tmp_path / "outside")
    try:
        with TensorDict.from_zarr(tmp_path / "saved", mode=mode) as data:
            found = set(data.keys(True, True))
    except FileError:
        found = {("below", "c")}
    assert found == {("below", "c")}
    assert _files(tmp_path / "outside") == before


@pytest.mark.parametrize("key", ["../outside/x", "below/../../outside", "/etc/../x", "a/./b", "a\0b"])
def test_a_key_of_a_store_leads_nowhere_else(key: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    from tensorclass.storage.hdf5_zarr.zarr_store import FolderStore, HeldFolder

    (tmp_path / "saved").mkdir()
    (tmp_path / "outside").mkdir()
    store = FolderStore(HeldFolder(str(tmp_path / "saved")))
    for work in (store.read, lambda key: store.write(key, b"x"), store.remove, store.has_file, store.names):
        with pytest.raises(FileError, match="not a path in this folder"):
            work(key)
    assert os.listdir(tmp_path / "outside") == []


def test_a_group_of_zarr_that_is_open_is_read_below_its_folder(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    sample().to_zarr(tmp_path / "saved").close()
    _linked_out(tmp_path / "saved" / "x" / "c", tmp_path / "outside")
    group = zarr.open_group(tmp_path / "saved", mode="r+")
    data = PersistentTensorDict(group=group["below"], backend="zarr")
    assert data["c"].tolist() == [1.0] * 4
    with pytest.raises(FileError, match="a link"):
        PersistentTensorDict(group=group, backend="zarr")
    with pytest.raises(TypeError, match="LocalStore"):
        PersistentTensorDict(group=zarr.create_group(zarr.storage.MemoryStore()), backend="zarr")


# -- folders ----------------------------------------------------------------------------------------------------------


def test_a_nested_collection_is_not_loaded_through_a_link(tmp_path: Path) -> None:
    sample().memmap(tmp_path / "saved")
    _linked_out(tmp_path / "saved" / "below", tmp_path / "outside")
    with pytest.raises(FileError, match="below: expected a folder, found a link"):
        TensorDict.load_memmap(tmp_path / "saved", subpath="below")


def test_new_tensors_are_not_made_through_a_link(tmp_path: Path) -> None:
    data = sample().memmap(tmp_path / "saved")
    _linked_out(tmp_path / "saved" / "below", tmp_path / "outside")
    (tmp_path / "saved" / "deep").symlink_to(tmp_path / "outside")
    before = _files(tmp_path / "outside")
    with pytest.raises(FileError, match="below: expected a folder, found a link"):
        data.make_memmap(("below", "new"), [4], dtype=torch.float32)
    with pytest.raises(FileError, match="deep: expected a folder, found a link"):
        data.make_memmap(("deep", "new"), [4], dtype=torch.float32)
    assert _files(tmp_path / "outside") == before


@pytest.mark.parametrize("name", ["x.memmap", "below/c.memmap"])
def test_rows_are_not_appended_through_a_link(name: str, tmp_path: Path) -> None:
    outside = tmp_path / ("o" * 60)  # a link has the length of its target
    sample().memmap(tmp_path / "saved")
    _linked_out(tmp_path / "saved" / name, outside)
    before = _files(outside)
    with pytest.raises(FileError, match=f"{name}: expected a file, found a link"):
        append_memmap(tmp_path / "saved", sample(2))
    assert _files(outside) == before


def test_links_are_not_packed(tmp_path: Path) -> None:
    sample().memmap(tmp_path / "saved")
    os.mkfifo(tmp_path / "saved" / "pipe")
    with pytest.raises(FileError, match="pipe"):
        pack_memmap(tmp_path / "saved", tmp_path / "packed.tdz")
    assert os.listdir(tmp_path) == ["saved"]


def test_rows_are_not_appended_to_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "loop", tmp_path / "loop" / "saved"):
        with pytest.raises(OSError, match="loop"):
            append_memmap(path, sample(2))
    assert os.listdir(tmp_path) == ["loop"]


def test_the_folder_that_a_link_as_metadata_leads_to_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample().memmap(tmp_path / "saved")
    sample().memmap(tmp_path / "outside")
    (tmp_path / "saved" / "meta.json").unlink()
    (tmp_path / "saved" / "meta.json").symlink_to(tmp_path / "outside" / "meta.json")
    opened: list[str] = []
    open_file = os.open

    def noted(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(os.fspath(path))
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", noted)
    with pytest.raises(FileError, match="links are not followed"):
        pack_memmap(tmp_path / "saved", tmp_path / "packed.tdz")
    assert not [path for path in opened if path.startswith(str(tmp_path / "outside"))]
