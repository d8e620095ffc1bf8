"""Every reader of the package refuses what is no file, at once, and a pointer of git-LFS, by its name."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.cli import main
from tensorclass.scores import ExactMatchScoreData, load_scores, read_runs, save_scores
from tensorclass.scores.readers import unpacked_file
from tensorclass.support.regular_files import LfsPointer, NotRegular, check_regular, content_of, reading_regular

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)

DATA = TensorDict({"a": torch.arange(64.0), "b": torch.arange(64) % 2}, [64])


def _save_scores(path: Path) -> None:
    save_scores(ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2]), path)


def _run_command(*arguments: str) -> Callable[[Path], None]:
    """A command that is given a path, and fails with what it says on stderr."""

    def run(path: Path) -> None:
        if main([arguments[0], str(path), *arguments[1:]]) == 2:
            raise ValueError("see stderr")

    return run


def _read_scores(path: Path) -> None:
    read_runs([path], columns={"prompt": "a", "right": "b"})


#: how a file is written, the file of it that is replaced, and how it is read
READERS: dict[str, tuple[Callable[[Path], Any], str, Callable[[Path], Any]]] = {
    "folder": (DATA.memmap, "meta.json", TensorDict.load_memmap),
    "folder, values": (DATA.memmap, "a.memmap", TensorDict.load_memmap),
    "archive": (lambda path: DATA.memmap(path, archive=True), "", TensorDict.load_memmap),
    "safetensors": (DATA.to_safetensors, "", TensorDict.load_safetensors),
    "consolidated": (lambda path: DATA.consolidate(path), "", TensorDict.from_consolidated),
    "hdf5": (DATA.to_h5, "", TensorDict.from_h5),
    "zarr": (DATA.to_zarr, "zarr.json", lambda path: TensorDict.from_zarr(path).to_tensordict()),
    "parquet": (DATA.to_parquet, "", TensorDict.from_parquet),
    "feather": (DATA.to_feather, "", TensorDict.from_feather),
    "csv": (DATA.to_csv, "", TensorDict.from_csv),
    "json": (DATA.to_json, "", TensorDict.from_json),
    "csv, in pieces": (DATA.to_csv, "", lambda path: list(TensorDict.iter_csv(path, batch_size=2))),
    "scores of this package": (_save_scores, "", load_scores),
    "table of scores": (DATA.to_csv, "", _read_scores),
    "Parquet of scores": (DATA.to_parquet, "", _read_scores),
    "inspect": (DATA.to_csv, "", _run_command("inspect")),
    "inspect, folder": (DATA.memmap, "meta.json", _run_command("inspect")),
    "convert": (DATA.to_csv, "", lambda path: _run_command("convert", f"{path}.parquet", "--overwrite")(path)),
    "scores": (DATA.to_csv, "", _run_command("scores", "--columns", "prompt=a,right=b")),
    "migrate": (lambda path: path.write_text("import tensordict\n"), "", _run_command("migrate", "--check")),
    "stubs": (lambda path: path.write_text("class A: ..."), "", lambda p: _run_command("stubs", "--out", f"{p}.o")(p)),
}
SUFFIXES = {"archive": ".tdz", "hdf5": ".h5", "stubs": ".py", "migrate": ".py"}
CSV = ("csv", "csv, in pieces", "table of scores", "inspect", "convert", "scores")


@pytest.fixture
def saved(reader: str, tmp_path: Path) -> tuple[Path, Path]:
    """The path of what a reader reads, and the file of it that is to be replaced."""
    write, member, read = READERS[reader]
    path = tmp_path / f"data{'.csv' if reader in CSV else SUFFIXES.get(reader, '')}"
    write(path)
    if reader != "stubs":  # there are no classes
        read(path)
    return path, path / member if member else path


def _error(read: Callable[[Path], Any], path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of reading a path, or what a command says."""
    with pytest.raises((ValueError, OSError)) as caught:
        read(path)
    return f"{caught.value} {capsys.readouterr().err}"


@pytest.mark.parametrize("reader", READERS)
def test_a_pointer_of_git_lfs_is_named(
    reader: str, saved: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path, replaced = saved
    replaced.unlink()
    replaced.write_bytes(POINTER)
    said = _error(READERS[reader][2], path, capsys)
    assert "a pointer of git-LFS" in said
    assert "`git lfs pull`" in said
    assert replaced.name in said


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(path))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("place", [_pipe, _socket, _device, Path.mkdir], ids=["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("reader", [reader for reader in READERS if reader != "migrate"])  # which takes folders
def test_what_is_no_file_is_refused_at_once(
    reader: str,
    place: Callable[[Path], None],
    saved: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpacked_file, "PATIENCE", 0.05)  # scores are read from a pipe that somebody writes to
    path, replaced = saved
    monkeypatch.chdir(path.parent)
    replaced.unlink()
    place(replaced)
    assert path.name in _error(READERS[reader][2], path, capsys)


def test_what_is_nearly_a_pointer_is_a_file(tmp_path: Path) -> None:
    for content in (POINTER.replace(b"v1", b"v9"), POINTER + b"x" * 1024, POINTER[:43], b"\n" + POINTER):
        path = tmp_path / "file"
        path.write_bytes(content)
        check_regular(path)
        assert content_of(path) == content


def test_a_pointer_is_an_error_of_values_and_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(POINTER)
    for refuses in (check_regular, content_of):
        with pytest.raises(LfsPointer, match="file: expected a file, found a pointer of git-LFS") as caught:
            refuses(path)
        assert isinstance(caught.value, NotRegular | ValueError)
    with pytest.raises(OSError), reading_regular(path):
        pass
