"""A disk that is full under an open HDF5 file or zarr folder: an error, and what was there before."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.storage import PersistentTensorDict
from tests import fresh_python
from tests.storage.formats import _close, _read, contents

ROWS = 40


def rows(value: float = 1.0) -> TensorDict:
    below = {"c": torch.full((ROWS, 3), int(value)), "s": [f"text {value}"] * ROWS}
    return TensorDict({"a": torch.full((ROWS, 100), value), "below": below}, [ROWS])


def saved(path: Path) -> None:
    _close(rows().to_h5(path, resizable=True, chunks=16))


CHANGES: dict[str, Callable[[Any], object]] = {
    "extend": lambda data: data.extend(rows(2.0)),
    "a new key": lambda data: data.set("new", torch.ones(ROWS, 500)),
    "another value": lambda data: data.set("a", torch.ones(ROWS, 7, dtype=torch.float64)),
    "rows": lambda data: data.__setitem__(slice(3, 30), rows(5.0)[3:30]),
    "in place": lambda data: data.update_({"a": torch.full((ROWS, 100), 3.0)}),
    "one less": lambda data: data.pop("a"),
    "names": lambda data: setattr(data, "names", ["time"]),
}


class Disk:
    """Counts what is written to restorable files, and is full at some number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.full_at = 0, -1
        for name in ("pwrite", "ftruncate"):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.count += 1
            if self.count - 1 == self.full_at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*args)

        return counted


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_written_or_undone_wherever_the_disk_is_full(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.h5"
    disk = Disk(monkeypatch)
    saved(path)
    before = contents(_read(TensorDict.from_h5(path)))
    whole = path.read_bytes()
    disk.count = 0
    with PersistentTensorDict(filename=path, mode="r+") as data:
        CHANGES[what](data)
    calls = disk.count
    after = contents(_read(TensorDict.from_h5(path)))
    assert after != before
    failures = 0
    for at in range(calls):
        path.write_bytes(whole)
        disk.count, disk.full_at = 0, at
        data = PersistentTensorDict(filename=path, mode="r+")
        said = ""
        try:
            CHANGES[what](data)
            data.close()
        except OSError as error:
            said = str(error)
        disk.full_at = -1
        failed = bool(re.search(f"No space left.*as it was before: '{path}'", said))
        assert bool(said) == failed
        with pytest.raises(ValueError, match="was closed"):
            data["a"]
        assert contents(_read(TensorDict.from_h5(path))) == (before if failed else after)
        failures += failed
        if failed:
            with PersistentTensorDict(filename=path, mode="r+") as data:  # nothing of it is left in the library
                CHANGES[what](data)
            assert contents(_read(TensorDict.from_h5(path))) == after
    assert failures


def test_what_was_appended_before_the_disk_was_full_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.h5"
    saved(path)
    disk = Disk(monkeypatch)
    data = TensorDict.from_h5(path, mode="r+")
    for value in (2.0, 3.0):
        data.extend(rows(value))
    disk.full_at = disk.count + 1
    with pytest.raises(OSError, match="No space left") as caught:
        data.extend(rows(4.0))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert len(data) == 3 * ROWS
    data.close()
    held = _read(TensorDict.from_h5(path))
    assert torch.equal(held["a"], torch.cat([rows(value)["a"] for value in (1.0, 2.0, 3.0)]))
    assert held["below", "s"][-1] == "text 3.0"


def test_a_file_that_is_open_twice_has_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.h5"
    saved(path)
    disk = Disk(monkeypatch)
    one, other = (TensorDict.from_h5(path, mode="r+") for _ in range(2))
    one["a"] = torch.full((ROWS, 100), 4.0)
    assert float(other["a"][0, 0]) == 4.0
    with pytest.raises(OSError, match="in another mode"):
        TensorDict.from_h5(path)
    one.close()
    other["b"] = torch.ones(ROWS)
    disk.full_at = disk.count
    with pytest.raises(OSError, match="No space left"):
        other["c"] = torch.ones(ROWS)
    assert set(_read(TensorDict.from_h5(path)).keys()) == {"a", "below", "b"}


def test_much_that_is_overwritten_is_not_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorclass.storage.hdf5_zarr import restorable_file

    monkeypatch.setattr(restorable_file, "_HEAVY", 2**16)
    data = TensorDict({"a": torch.zeros(1000, 1000)}, [1000]).to_h5(tmp_path / "f.h5", chunks=10)
    file: Any = data._store.file.backend._file  # type: ignore[attr-defined]
    for at in range(0, 1000, 10):
        data[at : at + 10] = {"a": torch.full((10, 1000), float(at))}
        assert len(file._kept) * 4096 < 2**21
    data.close()
    assert float(_read(TensorDict.from_h5(tmp_path / "f.h5"))["a"].double().sum()) == sum(range(0, 1000, 10)) * 10_000.0


PROGRAM = """
import os, resource, signal, sys, torch
from tensorclass import TensorDict
from tests.storage.formats import _close
place = sys.argv[1]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def rows(width):
    return TensorDict({"a": torch.rand(100, width) + 1, "b": torch.rand(100, 500) + 1}, [100])

forked = rows(10).to_h5(place + "/forked.h5", resizable=True)
child = os.fork()
if not child:
    assert len(forked) == 100 and float(forked["a"].min()) >= 1
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
forked.extend(rows(10))
h5 = rows(10).to_h5(place + "/f.h5", resizable=True)
left = rows(10).to_h5(place + "/left.h5")
zarr = rows(10).to_zarr(place + "/f.zarr")
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
for at in range(20):
    try:
        h5.extend(rows(10))
    except OSError as error:
        print(at, error)
        break
left["c"] = torch.ones(100)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 700_000))
wide = torch.rand(100, 5000)
for change in (lambda: zarr.extend(rows(10)), lambda: zarr.set("a", wide), lambda: zarr.set("c", wide)):
    try:
        change()
    except OSError as error:
        print(error, len(zarr), list(zarr.keys()), list(zarr["a"].shape))
"""


def test_the_process_goes_on_and_ends_as_any(tmp_path: Path) -> None:
    """The limit of the size of a file stands for the disk; files are left open."""
    done = fresh_python.run(["-c", PROGRAM, str(tmp_path)])
    assert (done.returncode, done.stderr) == (0, "")
    first, *others = done.stdout.splitlines()
    undone = "the last change was not written, and the file was closed as it was before"
    assert first == f"2 [Errno {errno.EFBIG}] File too large; {undone}: '{tmp_path}/f.h5'"
    assert others == [f"[Errno {errno.EFBIG}] File too large: '{tmp_path}/f.zarr' 100 ['a', 'b'] [100, 10]"] * 3
    for name, count in (("forked.h5", 200), ("f.h5", 300), ("left.h5", 100), ("f.zarr", 100)):
        load: Any = TensorDict.from_zarr if name == "f.zarr" else TensorDict.from_h5
        held = _read(load(tmp_path / name))
        assert len(held) == count
        assert bool((held["a"] >= 1).all() & (held["b"] >= 1).all())  # no zeros in between
        assert ("c" in held) == (name == "left.h5")


def failed_overwrite(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What an error says of rows that are written over, of which the disk takes a half."""
    data = TensorDict({"a": torch.zeros(1000, 1000)}, [1000]).to_h5(path, chunks=500)
    disk = Disk(monkeypatch)
    disk.count, disk.full_at = 0, 1
    with pytest.raises(OSError, match="No space left") as raised:  # noqa: PT012  # what is held is written by close
        data[:] = {"a": torch.ones(1000, 1000)}
        data.close()
    return str(raised.value)


def test_an_error_says_that_values_written_over_in_large_pieces_may_be_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = failed_overwrite(tmp_path / "f.h5", monkeypatch)
    assert "closed as it was before, except for the values that the change overwrites" in said
    assert set(_read(TensorDict.from_h5(tmp_path / "f.h5"))["a"].unique().tolist()) == {0.0, 1.0}


def test_an_error_says_where_too_much_was_written_over_to_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorclass.storage.hdf5_zarr import restorable_file

    monkeypatch.setattr(restorable_file, "_LARGEST", 2**30)
    monkeypatch.setattr(restorable_file, "_MOST", 2**16)
    said = failed_overwrite(tmp_path / "f.h5", monkeypatch)
    assert "could not be undone: write the file again" in said
