"""Archives that the peer wrote are read here, and the other way round."""

import zipfile
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tensorclass import TensorDict

pytestmark = pytest.mark.parity

VALUES: dict[str, Any] = {
    "a": torch.arange(6.0).view(2, 3),
    "b": {"c": torch.ones(2, dtype=torch.uint8), "d.e": torch.ones(2, 5, dtype=torch.int16)},
    "text": "hello",
    "empty": torch.zeros(2, 0),
}


@pytest.mark.parametrize("compression", [None, "deflated", "bzip2", "lzma"])
@pytest.mark.parametrize("writer, reader", [(tensordict, tensorclass), (tensorclass, tensordict)])
def test_an_archive_of_one_is_read_by_the_other(tmp_path: Path, writer: Any, reader: Any, compression: Any) -> None:
    data = writer.TensorDict(VALUES, [2], names=["time"])
    data.save(tmp_path / "f.tdz", compression=compression)
    data.memmap(tmp_path / "folder")
    writer.pack_memmap(tmp_path / "folder", tmp_path / "packed", compression=compression)
    reader.unpack_memmap(tmp_path / "packed", tmp_path / "unpacked")
    for name in ("f.tdz", "packed", "unpacked"):
        assert reader.is_memmap_archive(tmp_path / name) is (name != "unpacked")
        loaded = reader.TensorDict.load_memmap(tmp_path / name)
        assert loaded.names == ["time"]
        assert loaded["text"] == "hello"
        for key in ("a", ("b", "c"), ("b", "d.e"), "empty"):
            assert torch.equal(loaded[key], data[key])
            assert loaded[key].dtype == data[key].dtype


def test_checksums_are_brought_up_to_date_by_either(tmp_path: Path) -> None:
    for refresh in (tensordict.refresh_archive_checksums, tensorclass.refresh_archive_checksums):
        TensorDict(VALUES, [2]).save(tmp_path / "f.tdz")
        TensorDict.load(tmp_path / "f.tdz", mode="r+")["a"].fill_(3.0)
        assert zipfile.ZipFile(tmp_path / "f.tdz").testzip() == "a.memmap"
        refresh(tmp_path / "f.tdz")
        assert zipfile.ZipFile(tmp_path / "f.tdz").testzip() is None


def test_the_same_calls_are_errors(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for package in (tensordict, tensorclass):
        data = package.TensorDict(VALUES, [2])
        for call in (
            lambda data=data: data.save(tmp_path / "f", archive=True, compression="zip"),
            lambda data=data: data.save(tmp_path / "f", compression="deflated"),
            lambda data=data: data.save(None, archive=True),
            lambda package=package: package.unpack_memmap(tmp_path / "text", tmp_path / "out"),
            lambda package=package: package.pack_memmap(tmp_path / "none", tmp_path / "out"),
            lambda package=package: package.TensorDict.load_memmap(tmp_path / "text"),
        ):
            with pytest.raises(ValueError, match=r"\w"):
                call()


def _saved(package: Any, path: Path, **options: Any) -> Path:
    package.TensorDict(VALUES, [2]).memmap(path, archive=True, **options)
    return path


def _written_in_place(package: Any, path: Path) -> Any:
    package.load_memmap(_saved(package, path), mode="r+")["a"].zero_()
    return package.load_memmap(path)


def _of_mapped_tensors(package: Any, path: Path) -> Any:
    package.TensorDict(VALUES, [2]).memmap(path.with_suffix(".d")).memmap(path, archive=True)
    return package.load_memmap(path)


def _loaded_into(package: Any, path: Path) -> Any:
    target = package.TensorDict(VALUES, [2]).clone().zero_()
    return package.load_memmap(_saved(package, path), out=target)


ALIKE: dict[str, Any] = {
    "threads": lambda package, path: package.load_memmap(_saved(package, path, num_threads=3)),
    "mapped tensors": _of_mapped_tensors,
    "without values": lambda package, path: package.TensorDict(VALUES, [2]).memmap_like(path, archive=True),
    "without values, threads": lambda package, path: package.TensorDict(VALUES, [2]).memmap_like(
        path, archive=True, num_threads=2
    ),
    "a nested collection": lambda package, path: package.load_memmap(_saved(package, path), subpath="b"),
    "written in place": _written_in_place,
    "into a collection": _loaded_into,
}


@pytest.mark.parametrize("case", ALIKE)
def test_archives_of_both_hold_the_same(case: str, tmp_path: Path) -> None:
    ours, peers = (ALIKE[case](package, tmp_path / package.__name__) for package in (tensorclass, tensordict))
    assert ours.batch_size == peers.batch_size
    assert (ours.is_locked, ours.is_memmap()) == (peers.is_locked, peers.is_memmap())
    for key in ("a", "empty", ("b", "c"), ("b", "d.e"), "c", "d.e"):
        assert (key in ours.keys(True)) == (key in peers.keys(True))
        if key in ours.keys(True):
            assert torch.equal(ours[key], peers[key])
