"""Opening takes memory that is bounded by the size of a file, and what this package writes is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tests.storage.bombs import BOMBS, run
from tests.storage.formats import FORMATS, _read

REFUSED = ("one hash", "bzip2", "lzma", "JSON", "deep", "again", "long numbers", "that are", "pytree")


def test_no_small_file_takes_much_memory_or_long() -> None:
    """One process opens all, within limits; ``python -m tests.storage.bombs`` prints what each takes."""
    quick = {name: bomb for name, bomb in BOMBS.items() if "lzma" not in name}  # which takes long to write
    for name, result in run(quick, (1,)):
        assert result.memory < 2**62, (name, result.said)  # it was opened, or refused
        assert result.has_bounded_memory, (name, result)
        if any(word in name for word in REFUSED) and name != "folder: long numbers":
            assert result.said.startswith("FileError: PATH"), (name, result.said)


@pytest.mark.parametrize("compression", ["deflated", "bzip2"])
def test_an_archive_of_zeros_and_equal_texts_is_read_again(compression: str, tmp_path: Path) -> None:
    texts = {"s": ["again and again"] * 80_000, "n": list(range(80_000))}
    data = TensorDict({"x": torch.zeros(2**20).expand(80, -1), "texts": TensorDict(texts, [80_000])})
    data.memmap(tmp_path / "f.tdz", compression=compression)
    assert (tmp_path / "f.tdz").stat().st_size < 2**24
    found = TensorDict.load_memmap(tmp_path / "f.tdz")
    assert found["x"].shape == (80, 2**20)
    assert (found["texts", "s"], found["texts", "n"][-1]) == (texts["s"], 79_999)


@pytest.mark.parametrize("form", ["deflated", "h5", "zarr"])
def test_many_equal_texts_are_read_again(form: str, tmp_path: Path) -> None:
    data = TensorDict({"s": ["the same text, again and again"] * 40_000}, [40_000])
    FORMATS[form].save(data, tmp_path / "f")
    found: Any = FORMATS[form].load(tmp_path / "f")
    assert found["s"] == ["the same text, again and again"] * 40_000


def test_keys_of_one_hash_are_not_written(tmp_path: Path) -> None:
    numbers = [at * (2**61 - 1) for at in range(200)]
    for value in (set(numbers), frozenset(numbers), [dict.fromkeys(numbers)]):
        with pytest.raises(TypeError, match="o: more than 100 items of a set, or keys, have the same hash"):
            TensorDict(o=value, x=torch.ones(1)).memmap(tmp_path / "f")
    TensorDict(o=set(numbers[:50]), x=torch.ones(1)).memmap(tmp_path / "f")
    assert TensorDict.load_memmap(tmp_path / "f")["o"] == set(numbers[:50])


def test_texts_of_other_programs_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py

    from tensorclass.storage.hdf5_zarr import hdf5

    monkeypatch.setattr(hdf5, "VALUES", 2**16)
    texts = [f"text {at}" for at in range(1000)]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("s", data=texts, dtype=h5py.string_dtype(), chunks=(64,), compression="gzip")
        file.create_dataset("t", data=[texts[:10]] * 100, dtype=h5py.string_dtype(), chunks=(10, 10))
    found = _read(TensorDict.from_h5(tmp_path / "f.h5", batch_size=[]))
    assert found["s"] == texts
    assert found["t"] == [texts[:10]] * 100
