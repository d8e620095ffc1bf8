"""Fields with another name in files: ``field(name=...)``, in all formats of storage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tensorclass import Ragged, TensorClass, TensorDict, Text, field, lazy_stack
from tensorclass.storage import FileError


class Point(TensorClass):
    lat: Tensor = field(name="latitude")
    lon: Tensor


class Sample(TensorClass):
    part: Text = field(name="split")
    x: Tensor
    at: Point = field(name="where/is it")
    tokens: Ragged[Tensor] | None = field(default=None, name="ids")
    count: int = field(default=3, name="n")


class OlderPoint(TensorClass):
    lat: Tensor
    lon: Tensor


class Older(TensorClass):
    part: Text
    x: Tensor
    at: OlderPoint
    tokens: Ragged[Tensor] | None = None
    count: int = 3


class Store(NamedTuple):
    """How a collection is written to a path, and read as a class."""

    save: Callable[[Any, Path], Any]
    load: Callable[[Any, Path], Any]
    stays: bool = False  #: its collections stay in the file


STORES = {
    "memmap": Store(lambda data, path: data.memmap(path), lambda cls, path: cls.load_memmap(path)),
    "archive": Store(lambda data, path: data.memmap(path, archive=True), lambda cls, path: cls.load_memmap(path)),
    "safetensors": Store(lambda data, path: data.save_safetensors(path), lambda cls, path: cls.load_safetensors(path)),
    "consolidated": Store(lambda data, path: data.consolidate(path), lambda cls, path: cls.from_consolidated(path)),
    "h5": Store(lambda data, path: data.to_h5(path).close(), lambda cls, path: cls.from_h5(path, mode="r+"), True),
    "zarr": Store(
        lambda data, path: data.to_zarr(path).close(), lambda cls, path: cls.from_zarr(path, mode="r+"), True
    ),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Store:
    return STORES[request.param]


def sample(cls: Any = Sample, point: Any = Point) -> Any:
    at = point(torch.tensor([1.0, 2.0]), torch.zeros(2), batch_size=[2])
    return cls(["a", "b"], torch.arange(2.0), at, count=5, batch_size=[2])


def contents(data: Any) -> list[Any]:
    return [data.part.tolist(), data.x.tolist(), data.at.lat.tolist(), data.tokens, data["count"]]


EXPECTED = [["a", "b"], [0, 1], [1, 2], None, 5]


def test_a_file_has_the_stored_names_and_the_record_those_of_its_fields(store: Store, tmp_path: Path) -> None:
    store.save(sample(), tmp_path / "a")
    found = store.load(Sample, tmp_path / "a")
    assert isinstance(found, Sample)
    assert contents(found) == EXPECTED
    if store.stays:
        found.close()
    untyped = store.load(TensorDict, tmp_path / "a")
    assert set(untyped.keys()) == {"split", "x", "where/is it", "n"}
    if store.stays:
        untyped.close()


def test_files_that_were_written_before_a_field_got_its_name_are_read(store: Store, tmp_path: Path) -> None:
    store.save(sample(Older, OlderPoint), tmp_path / "a")
    found = store.load(Sample, tmp_path / "a")
    assert contents(found) == EXPECTED
    if store.stays:
        found.close()


def test_errors_have_both_names(store: Store, tmp_path: Path) -> None:
    at = TensorDict({"lat": torch.zeros(1), "lon": torch.zeros(1)}, [1])
    store.save(TensorDict({"x": torch.zeros(1), "at": at}, [1]), tmp_path / "a")
    with pytest.raises(FileError, match=r"'part' \(stored as 'split'\)"):
        store.load(Sample, tmp_path / "a")
    both = TensorDict({"x": torch.zeros(1), "at": at, "part": Text(["a"]), "split": Text(["b"])}, [1])
    store.save(both, tmp_path / "b")
    with pytest.raises(FileError, match="part: the file has both 'part' and 'split'"):
        store.load(Sample, tmp_path / "b")


@pytest.mark.parametrize("form", ["h5", "zarr"])
@pytest.mark.parametrize("cls, point, names", [(Sample, Point, "stored"), (Older, OlderPoint, "own")])
def test_fields_are_written_in_place_under_the_name_that_the_file_has(
    form: str, cls: Any, point: Any, names: str, tmp_path: Path
) -> None:
    store = STORES[form]
    store.save(sample(cls, point), tmp_path / "a")
    with store.load(Sample, tmp_path / "a") as held:
        held.part = ["p", "q"]
        held[1:] = held[:1].to_tensordict()
        held.at = sample().at
        held.at.lat = torch.tensor([7.0, 8.0])
        assert held[0].part == "p"
        assert "split" not in held
        with pytest.raises(KeyError, match=r"'split' is the name of the field 'part' in files"):
            held["split"]
        held.tokens = [torch.tensor([1]), torch.tensor([2, 3])]
    with store.load(TensorDict, tmp_path / "a") as held:
        part, at = ("split", "where/is it") if names == "stored" else ("part", "at")
        assert set(held.keys()) == {part, "x", at, "ids", "n" if names == "stored" else "count"}
        assert held[part].tolist() == ["p", "p"]
    with store.load(Sample, tmp_path / "a") as held:
        assert held.at.lat.tolist() == [7, 8]
        assert held.tokens is not None
        assert held.tokens.lengths.tolist() == [1, 2]
        assert contents(held.to_memory())[0] == ["p", "p"]
        del held["tokens"]
        assert held.tokens is None


@pytest.mark.parametrize("cls, point", [(Sample, Point), (Older, OlderPoint)])
def test_rows_are_appended_to_a_folder(cls: Any, point: Any, tmp_path: Path) -> None:
    saved = sample(cls, point).memmap(tmp_path / "a")
    assert saved.saved_path == tmp_path / "a"
    before = set(os.listdir(tmp_path / "a"))
    Sample.append_memmap(tmp_path / "a", sample())
    assert Sample.load_memmap(tmp_path / "a").part.tolist() == ["a", "b", "a", "b"]
    assert set(os.listdir(tmp_path / "a")) == before
    assert Sample.load_memmap(tmp_path / "a").saved_path == tmp_path / "a"
    unlike = sample()
    unlike.tokens = [torch.tensor([1]), torch.tensor([2])]
    with pytest.raises(ValueError, match=r"unexpected: \['ids'\]"):
        Sample.append_memmap(tmp_path / "a", unlike)


def test_a_tensor_is_added_to_a_folder_under_its_stored_name(tmp_path: Path) -> None:
    class Later(TensorClass):
        a: Tensor
        b: Tensor | None = field(default=None, name="bee")

    saved = Later(torch.zeros(2), batch_size=[2]).memmap(tmp_path / "a")
    saved.make_memmap("b", [2]).fill_(3)
    assert (tmp_path / "a" / "bee.memmap").exists()
    found = Later.load_memmap(tmp_path / "a").b
    assert found is not None
    assert found.tolist() == [3, 3]
    assert sample().memmap(tmp_path / "c", robust_key=True).part.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"robust_key=False keys must be names of files, got \['where/is it'"):
        sample().memmap(tmp_path / "b", robust_key=False)


def test_parts_of_a_safetensors_file_are_chosen_by_either_name(tmp_path: Path) -> None:
    class Later(TensorClass):
        a: Tensor
        b: Tensor | None = field(default=None, name="bee")

    Later(torch.zeros(2), torch.ones(2), batch_size=[2]).save_safetensors(tmp_path / "a")
    for name in ("b", "bee"):
        assert list(TensorDict.load_safetensors(tmp_path / "a", keys=["bee"]).keys()) == ["bee"]
        chosen = Later.load_safetensors(tmp_path / "a", keys=["a", name])
        assert chosen.b is not None


def test_lazy_stacks_keep_the_names(tmp_path: Path) -> None:
    stacked = lazy_stack([sample(), sample()])
    stacked.memmap(tmp_path / "a")
    assert (tmp_path / "a" / "0" / "split").is_dir()
    assert Sample.load_memmap(tmp_path / "a").part.tolist() == [["a", "b"]] * 2


def test_a_pickle_has_the_names_of_the_fields(tmp_path: Path) -> None:
    torch.save(sample(), tmp_path / "a.pt")
    assert contents(torch.load(tmp_path / "a.pt")) == EXPECTED
