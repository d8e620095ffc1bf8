"""What is promised of each format: whole or absent, damage is seen, nothing stays open. Longer runs are commands."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.storage import FileError
from tests.storage import fuzz
from tests.storage.formats import FORMATS, a_bit_of_all, contents

CHECKED = [form for form, known in FORMATS.items() if known.save_checked is not None]


@pytest.mark.parametrize("form", FORMATS)
def test_a_writer_that_is_killed_leaves_one_version_whole(form: str) -> None:
    """20 kills; ``python -m tests.storage.kills --kills 1000`` is the long run."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.storage.kills", "--kills", "20", "--format", form]
    done = subprocess.run([*command, "--readers", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout)
    assert results["new"] + results.get("old", 0) == 20
    assert results["read"] > 0


@pytest.mark.parametrize("form", FORMATS)
def test_mutated_files_are_seen(form: str) -> None:
    """200 files; ``python -m tests.storage.fuzz --files 100000`` is the long run."""
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = fuzz.Fuzzer(Path(folder), [form])
        found = [fuzzer.try_one(seed) for seed in range(200)]
    assert [what for kind, what in found if kind == "WRONG"] == []
    assert sum(kind == "error" for kind, _ in found) > 100


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_leaves_the_old_version(form: str, tmp_path: Path) -> None:
    """The limit of the size of a file stands for the disk."""
    program = """
import resource, signal, sys, torch
from tensorclass import TensorDict
from tests.storage.formats import FORMATS
form, path = sys.argv[1:]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    FORMATS[form].save(TensorDict(a=torch.ones(10), b=torch.ones(100_000)), path)
except Exception as error:
    print(type(error).__name__, error)
"""
    path = tmp_path / "place"
    FORMATS[form].save(a_bit_of_all(1), path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, form, str(path)], capture_output=True, text=True
    )
    assert str(path) in done.stdout, done.stdout + done.stderr
    assert os.listdir(tmp_path) == ["place"]
    assert contents(FORMATS[form].load(path)) == contents(a_bit_of_all(1))


def test_a_disk_that_is_full_in_the_middle_leaves_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_bit_of_all(1).memmap(tmp_path / "place")
    written, write = list[int](), os.write

    def full(file: int, data: Any) -> int:
        written.append(file)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/place'"):
        a_bit_of_all(2).memmap(tmp_path / "place")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["place"]
    assert contents(TensorDict.load_memmap(tmp_path / "place")) == contents(a_bit_of_all(1))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", [object(), torch.ones(2, device="meta"), torch.eye(2).to_sparse()])
def test_a_value_that_cannot_be_written_leaves_the_old_version(form: str, value: Any, tmp_path: Path) -> None:
    FORMATS[form].save(a_bit_of_all(1), tmp_path / "place")
    with pytest.raises(TypeError):
        FORMATS[form].save(TensorDict(a=torch.ones(2), b=value), tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(a_bit_of_all(1))


@pytest.mark.parametrize("form", CHECKED)
def test_a_value_that_changed_is_seen_where_it_is_asked_for(form: str, tmp_path: Path) -> None:
    save, load = FORMATS[form].save_checked, FORMATS[form].load_checked
    assert save is not None
    assert load is not None
    save(TensorDict(a=torch.full((100,), 2.0)), tmp_path / "place")
    path = tmp_path / "place" if form != "folder" else tmp_path / "place" / "a.memmap"
    text = bytearray(path.read_bytes())
    text[-7] ^= 1
    path.write_bytes(text)
    assert FORMATS[form].load(tmp_path / "place")["a"].shape == (100,)
    with pytest.raises(FileError, match=f"^{tmp_path / 'place'}: a: its values are not those that were written"):
        load(tmp_path / "place")


@pytest.mark.parametrize("form", CHECKED)
def test_what_has_no_checksums_is_not_called_verified(form: str, tmp_path: Path) -> None:
    load = FORMATS[form].load_checked
    assert load is not None
    FORMATS[form].save(TensorDict(a=torch.ones(2)), tmp_path / "place")
    with pytest.raises(FileError, match="checksum=True"):
        load(tmp_path / "place")


def test_the_file_of_another_collection_is_seen_by_its_length_or_its_checksum(tmp_path: Path) -> None:
    TensorDict(a=torch.ones(4), b=torch.zeros(4), c=torch.ones(5)).memmap(tmp_path / "place", checksum=True)
    place = tmp_path / "place"
    os.rename(place / "b.memmap", place / "a.memmap")
    os.link(place / "a.memmap", place / "b.memmap")
    assert TensorDict.load_memmap(place)["a"].tolist() == [0.0] * 4  # as long as it should be
    with pytest.raises(FileError, match="a: its values"):
        TensorDict.load_memmap(place, verify=True)
    os.rename(place / "a.memmap", place / "c.memmap")
    with pytest.raises(FileError):
        TensorDict.load_memmap(place)


def test_checksums_hold_after_rows_were_appended(tmp_path: Path) -> None:
    def rows(value: int) -> TensorDict:
        return TensorDict({"x": torch.full((2, 3), value), "text": ["a", "b"]}, [2])

    rows(1).memmap(tmp_path / "place", checksum=True)
    TensorDict.append_memmap(tmp_path / "place", rows(2))
    assert TensorDict.load_memmap(tmp_path / "place", verify=True)["x"][:, 0].tolist() == [1, 1, 2, 2]


def opened() -> tuple[int, int]:
    """How many files this process has open, and how many it has mapped to memory."""
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if "/place" in line]
    return len(os.listdir("/proc/self/fd")), len(maps)


def broken(load: Callable[[Path], object], path: Path) -> None:
    with pytest.raises((FileError, FileNotFoundError)):
        load(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
@pytest.mark.parametrize("form", FORMATS)
def test_nothing_stays_open(form: str, tmp_path: Path) -> None:
    save, load = FORMATS[form].save, FORMATS[form].load
    save(a_bit_of_all(0), tmp_path / "place")
    load(tmp_path / "place")
    (tmp_path / "place 2").write_bytes(b"damaged") if form != "folder" else (tmp_path / "place 2").mkdir()
    save(a_bit_of_all(1), tmp_path / "place 3")
    if form == "folder":
        (tmp_path / "place 3" / "below" / "c.memmap").unlink()
    before = opened()
    for value in range(100):
        save(a_bit_of_all(value % 10), tmp_path / "place")
        load(tmp_path / "place")
        broken(load, tmp_path / "place 2")
        broken(load, tmp_path / "nothing")
        if form == "folder":
            broken(load, tmp_path / "place 3")
    assert opened() == before
    assert sorted(os.listdir(tmp_path)) == ["place", "place 2", "place 3"]


def test_a_thousand_tensors_and_parts_are_loaded_where_few_files_may_be_open(tmp_path: Path) -> None:
    import resource

    from tensorclass import lazy_stack

    parts = lazy_stack([TensorDict(a=torch.full((2,), at)) for at in range(300)])
    data = TensorDict({**{f"x{at}": torch.full((2,), at) for at in range(300)}, "parts": {"rows": parts}})
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, before[1]))
    try:
        data.memmap(tmp_path / "place")
        loaded = TensorDict.load_memmap(tmp_path / "place")
        assert loaded["x299"].tolist() == [299, 299]
        assert loaded["parts", "rows"][299]["a"].tolist() == [299, 299]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
