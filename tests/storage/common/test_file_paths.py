"""What is at a path, or is no path: nothing that is not of the collection goes, and errors say what to do."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, append_memmap, lazy_stack, pack_memmap, unpack_memmap

SAVE: dict[str, Callable[[Any, Any], Any]] = {
    "memmap": lambda data, path: data.memmap(path),
    "memmap_like": lambda data, path: data.memmap_like(path),
    "archive": lambda data, path: data.memmap(path, archive=True),
    "safetensors": lambda data, path: data.save_safetensors(path),
    "consolidate": lambda data, path: data.consolidate(path),
    "h5": lambda data, path: data.to_h5(path).close(),
    "zarr": lambda data, path: data.to_zarr(path).close(),
}
LOAD: dict[str, Callable[[Any], Any]] = {
    "memmap": lambda path: Sample.load_memmap(path),
    "in place": lambda path: sample().load_memmap_(path),
    "archive": lambda path: Sample.load(path),
    "safetensors": lambda path: Sample.load_safetensors(path),
    "consolidate": lambda path: Sample.from_consolidated(path),
    "h5": lambda path: Sample.from_h5(path),
    "zarr": lambda path: Sample.from_zarr(path),
}
FOLDERS = ("memmap", "memmap_like", "zarr")


class Sample(TensorClass):
    x: Tensor
    text: str = "t"


def sample() -> Sample:
    return Sample(torch.ones(3, 2), batch_size=[3])


def below(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# -- what is there already --------------------------------------------------------------------------------------------


def others(folder: Path) -> dict[str, bytes]:
    """Files of other programs, and collections that were saved by themselves."""
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("mine")
    (folder / "own.memmap").write_bytes(b"123")
    for name in ("step1", "step2"):
        TensorDict({"y": torch.full((2,), 7.0)}, [2]).memmap(folder / name)
    return below(folder)


@pytest.mark.parametrize("save", ["memmap", "memmap_like", "unpack"])
def test_what_was_saved_by_itself_in_a_folder_stays(tmp_path: Path, save: str) -> None:
    before = others(tmp_path / "runs")
    if save == "unpack":
        sample().memmap(tmp_path / "a.tdz", archive=True)
        unpack_memmap(tmp_path / "a.tdz", tmp_path / "runs")
    else:
        SAVE[save](sample(), tmp_path / "runs")
    assert before.items() <= below(tmp_path / "runs").items()
    assert Sample.load_memmap(tmp_path / "runs").x.shape == (3, 2)
    assert TensorDict.load_memmap(tmp_path / "runs" / "step2")["y"].tolist() == [7.0, 7.0]


@pytest.mark.parametrize("again", ["memmap", "append"])
def test_it_stays_when_the_collection_is_written_again(tmp_path: Path, again: str) -> None:
    sample().memmap(tmp_path / "runs")
    TensorDict({"y": torch.zeros(1)}).memmap(tmp_path / "runs" / "step1")
    if again == "append":
        append_memmap(tmp_path / "runs", sample())
    else:
        sample().memmap(tmp_path / "runs")
    assert TensorDict.load_memmap(tmp_path / "runs" / "step1")["y"].shape == (1,)


def test_it_stays_below_a_nested_collection(tmp_path: Path) -> None:
    data = TensorDict({"n": {"a": torch.zeros(2)}}, [2])
    data.memmap(tmp_path / "runs")
    sample().memmap(tmp_path / "runs" / "n" / "extra")
    data.memmap(tmp_path / "runs")
    assert Sample.load_memmap(tmp_path / "runs" / "n" / "extra").x.shape == (3, 2)


@pytest.mark.parametrize(
    "data",
    [
        TensorDict(
            {"gone": {"a": torch.zeros(2)}, "t": "text", "g": torch.zeros(2), "shape": {"a": torch.zeros(2)}}, [2]
        ),
        TensorDict({"rows": ["a", "b"], "a/b": {"c": torch.zeros(2)}}, [2]),
        lazy_stack([TensorDict({"a": torch.zeros(at)}) for at in range(3)]),
    ],
    ids=["nested", "objects", "lazy stack"],
)
def test_what_belonged_to_the_collection_before_goes(tmp_path: Path, data: Any) -> None:
    sample().memmap(tmp_path / "fresh")
    data.memmap(tmp_path / "runs")
    sample().memmap(tmp_path / "runs")
    assert below(tmp_path / "runs").keys() == below(tmp_path / "fresh").keys()


def test_a_folder_of_something_else_is_not_replaced_by_a_zarr_folder(tmp_path: Path) -> None:
    before = others(tmp_path / "runs")
    with pytest.raises(FileExistsError, match=r"runs.*not a zarr folder.*another"):
        sample().to_zarr(tmp_path / "runs")
    assert below(tmp_path / "runs") == before
    (tmp_path / "empty").mkdir()
    for _ in range(2):
        sample().to_zarr(tmp_path / "empty").close()
    assert Sample.from_zarr(tmp_path / "empty").x.shape == (3, 2)


def test_nor_by_an_empty_one(tmp_path: Path) -> None:
    before = others(tmp_path / "runs")
    with pytest.raises(FileExistsError, match=r"runs.*not a zarr folder.*another"):
        TensorDict.from_zarr(tmp_path / "runs", mode="w")
    assert below(tmp_path / "runs") == before


@pytest.mark.parametrize("address", ["s3://bucket/x", "https://host/x", "file:///x"])
@pytest.mark.parametrize("save", SAVE)
def test_an_address_is_no_path(tmp_path: Path, save: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"path of this system.*URL"):
        SAVE[save](sample(), address)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", ".", "..", "inside/.."])
@pytest.mark.parametrize("save", FOLDERS)
def test_the_working_directory_is_not_replaced(
    tmp_path: Path, path: str, save: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "inside").mkdir(parents=True)
    (tmp_path / "here" / "zarr.json").write_text("{}")
    (tmp_path / "zarr.json").write_text("{}")
    before = below(tmp_path)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises((OSError, ValueError), match=r"working directory|empty"):
        SAVE[save](sample(), path)
    assert Path.cwd() == tmp_path / "here"
    assert below(tmp_path) == before


# -- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [str, Path], ids=["str", "Path"])
@pytest.mark.parametrize("save", SAVE)
def test_a_relative_path_with_spaces_and_letters_of_all_kinds(
    tmp_path: Path, save: str, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Ünï cödé 日本 %41").mkdir()
    path = form(f"Ünï cödé 日本 %41/{save} it")
    SAVE[save](sample(), path)
    found = LOAD[save.removesuffix("_like")](path)
    assert found.x.shape == (3, 2)
    assert os.listdir(tmp_path) == ["Ünï cödé 日本 %41"]
    assert os.listdir(tmp_path / "Ünï cödé 日本 %41") == [f"{save} it"]


@pytest.mark.parametrize(
    "path", [b"bytes", "", 3, torch.ones(1), "a\0b"], ids=["bytes", "empty", "int", "tensor", "null"]
)
@pytest.mark.parametrize("name", [*SAVE, *[f"load {name}" for name in LOAD], "pack", "unpack", "append"])
def test_what_is_no_path_is_an_error_before_anything_is_done(
    tmp_path: Path, path: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: dict[str, Callable[[Any], Any]] = {
        "pack": lambda path: pack_memmap(path, tmp_path / "a.tdz"),
        "unpack": lambda path: unpack_memmap(path, tmp_path / "a"),
        "append": lambda path: append_memmap(path, sample()),
        **{f"load {name}": load for name, load in LOAD.items()},
    }
    call = calls[name] if name in calls else lambda path: SAVE[name](sample(), path)
    with pytest.raises((TypeError, ValueError), match=r"expected a path|null|empty"):
        call(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("save", SAVE)
def test_a_path_in_the_home_folder_is_not_guessed(tmp_path: Path, save: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"expanduser"):
        SAVE[save](sample(), f"~/{save}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("save", [name for name in SAVE if name not in FOLDERS])
def test_a_folder_that_is_not_there_is_an_error_of_a_file(tmp_path: Path, save: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*no"):
        SAVE[save](sample(), tmp_path / "no" / "file")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("save", FOLDERS)
def test_missing_folders_above_a_folder_are_made(tmp_path: Path, save: str) -> None:
    SAVE[save](sample(), tmp_path / "a" / "b")
    assert LOAD[save.removesuffix("_like")](tmp_path / "a" / "b").x.shape == (3, 2)


@pytest.mark.parametrize("save", SAVE)
def test_a_file_where_a_folder_should_be_is_an_error(tmp_path: Path, save: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="file"):
        SAVE[save](sample(), tmp_path / "file" / "a")
    if save in FOLDERS:
        with pytest.raises(NotADirectoryError, match="expected a folder"):
            SAVE[save](sample(), tmp_path / "file")
    assert below(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("save", SAVE)
def test_a_folder_that_is_only_read_is_an_error(tmp_path: Path, save: str) -> None:
    (tmp_path / "read").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="read"):
        SAVE[save](sample(), tmp_path / "read" / "a")


@pytest.mark.parametrize("load", LOAD)
def test_nothing_there_is_an_error_that_names_the_path(tmp_path: Path, load: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"no (file|folder).*nothing"):
        LOAD[load](tmp_path / "nothing")


@pytest.mark.parametrize("load", LOAD)
def test_a_folder_of_something_else_is_an_error_that_names_it(tmp_path: Path, load: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("mine")
    with pytest.raises((ValueError, FileNotFoundError), match="other") as error:
        LOAD[load](tmp_path / "other")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("load", LOAD)
@pytest.mark.parametrize("saved", SAVE)
def test_a_file_of_another_kind_is_an_error_that_says_what_loads_it(tmp_path: Path, saved: str, load: str) -> None:
    kind = saved.removesuffix("_like")
    if kind == load or {kind, load} <= {"memmap", "in place", "archive"}:
        pytest.skip("that loads it")
    SAVE[saved](sample(), tmp_path / "saved")
    how = {"archive": "load_memmap", "memmap": "load_memmap", "consolidate": "from_consolidated"}
    how |= {"h5": "from_h5", "zarr": "from_zarr", "safetensors": "load_safetensors"}
    with pytest.raises((ValueError, FileNotFoundError), match=rf"saved.*{how[kind]}"):
        LOAD[load](tmp_path / "saved")
