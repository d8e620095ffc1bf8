"""What is promised of each format: whole or absent, damage is seen, nothing stays open. Longer runs are commands."""

from __future__ import annotations

import errno
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.storage import FileError
from tests import fresh_python
from tests.open_files import linux, open_files
from tests.storage.formats import FORMATS, a_bit_of_all, contents

COMPRESSED = ("deflated", "h5-chunks", "zarr")  #: what is compressed has checksums, or cannot be read, in any case
CHECKED = [form for form, known in FORMATS.items() if known.save_checked is not None]


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A collection in each format, over which a larger one could not be written, and the errors of that."""
    program = """
import json, resource, signal, sys, torch
from pathlib import Path
from tensorclass import TensorDict
from tests.storage.formats import FORMATS
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
errors = {}
for form, known in FORMATS.items():
    try:
        known.save(TensorDict(a=torch.rand(10), b=torch.rand(100_000)), Path(sys.argv[1]) / form / "place")
    except Exception as error:
        errors[form] = type(error).__name__ + ": " + str(error)
print(json.dumps(errors))
"""
    folder = tmp_path_factory.mktemp("disk")
    for form, known in FORMATS.items():
        (folder / form).mkdir()
        known.save(a_bit_of_all(1), folder / form / "place")
    command = ["-W", "ignore", "-c", program, str(folder)]
    done = fresh_python.run(command)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_leaves_the_old_version(form: str, full_disk: tuple[Path, dict[str, str]]) -> None:
    """The limit of the size of a file stands for the disk."""
    folder, errors = full_disk
    assert errors[form].startswith("OSError")
    assert str(folder / form / "place") in errors[form]
    assert os.listdir(folder / form) == ["place"]
    assert contents(FORMATS[form].load(folder / form / "place")) == contents(a_bit_of_all(1))


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
    with pytest.raises((TypeError, ValueError), match=r"meta|object|layout"):
        FORMATS[form].save(TensorDict(a=torch.ones(2), b=value), tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(a_bit_of_all(1))


@pytest.mark.parametrize("form", CHECKED)
def test_a_value_that_changed_is_seen_where_it_is_asked_for(form: str, tmp_path: Path) -> None:
    save, load = FORMATS[form].save_checked, FORMATS[form].load_checked
    assert save is not None
    assert load is not None
    path = tmp_path / "place"
    save(TensorDict(a=torch.full((100,), 2.0)), path)
    ((name, ((start, stop), *_)),) = FORMATS[form].payload(path).items()
    file = path / name if name else path
    text = bytearray(file.read_bytes())
    text[(start + stop) // 2] ^= 1
    file.write_bytes(text)
    if form not in COMPRESSED:
        assert FORMATS[form].load(path)["a"].shape == (100,)
    with pytest.raises(FileError, match=f"^{path}: a"):
        load(path)


@pytest.mark.parametrize("form", CHECKED)
def test_what_has_no_checksums_is_not_called_verified(form: str, tmp_path: Path) -> None:
    if form == "archive":
        return  # it has them in any case
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


def opened(folder: Path) -> tuple[list[str], list[str]]:
    """The files of a folder that this process has open, and those that it has mapped to memory."""
    gc.collect()
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    return open_files(folder), maps


def broken(load: Callable[[Path], object], path: Path) -> None:
    with pytest.raises((FileError, FileNotFoundError)):
        load(path)


@linux
@pytest.mark.parametrize("form", FORMATS)
def test_nothing_stays_open(form: str, tmp_path: Path) -> None:
    save, load = FORMATS[form].save, FORMATS[form].load
    save(a_bit_of_all(0), tmp_path / "place")
    load(tmp_path / "place")
    (tmp_path / "place 2").mkdir() if FORMATS[form].is_folder else (tmp_path / "place 2").write_bytes(b"damaged")
    save(a_bit_of_all(1), tmp_path / "place 3")
    if form == "folder":
        (tmp_path / "place 3" / "below" / "c.memmap").unlink()
    before = opened(tmp_path)
    for value in range(4 if form == "zarr" else 20):
        save(a_bit_of_all(value % 10), tmp_path / "place")
        load(tmp_path / "place")
        broken(load, tmp_path / "place 2")
        broken(load, tmp_path / "nothing")
        if form == "folder":
            broken(load, tmp_path / "place 3")
    assert opened(tmp_path) == before
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


def test_a_default_device_of_the_program_changes_nothing(tmp_path: Path) -> None:
    program = """
import sys, torch
from pathlib import Path
torch.set_default_device("meta")  # where a tensor of the library would have no values
from tests.storage.formats import FORMATS, a_bit_of_all, contents
with torch.device("cpu"):
    data = a_bit_of_all()
    wanted = contents(data)
for form, known in FORMATS.items():
    place = Path(sys.argv[1]) / form
    (known.save_checked or known.save)(data, place)
    loaded = (known.load_checked or known.load)(place)
    with torch.device("cpu"):
        assert contents(loaded) == wanted, form
"""
    done = fresh_python.run(["-c", program, str(tmp_path)])
    assert done.returncode == 0, done.stderr
