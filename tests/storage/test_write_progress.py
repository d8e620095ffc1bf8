"""Bars over the bytes that are written, where they are asked for, and where it takes long."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict, append_memmap, pack_memmap, unpack_memmap
from tensorclass.support import progress


def data() -> TensorDict:
    return TensorDict({"a": torch.zeros(1000, 25), "below": {"b": torch.ones(1000, 50), "t": "text"}}, [1000])


BYTES = 4 * 75 * 1000

WRITE: dict[str, Callable[[Path, bool | None], Any]] = {
    "memmap": lambda path, shown: data().memmap(path / "b", progress=shown),
    "memmap_": lambda path, shown: data().memmap_(path / "b", progress=shown),
    "save": lambda path, shown: data().save(path / "b", progress=shown, num_threads=2),
    "early": lambda path, shown: data().memmap(path / "b", progress=shown, return_early=True).result(),
    "archive": lambda path, shown: data().memmap(path / "b.tdz", progress=shown),
    "append_memmap": lambda path, shown: append_memmap(path / "a", data(), progress=shown),
    "to_h5": lambda path, shown: data().to_h5(path / "b.h5", progress=shown).close(),
    "to_zarr": lambda path, shown: data().to_zarr(path / "b", progress=shown).close(),
    "pack_memmap": lambda path, shown: pack_memmap(path / "a", path / "b", progress=shown),
    "unpack_memmap": lambda path, shown: unpack_memmap(path / "a.tdz", path / "b", progress=shown),
}


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize("shown", [True, False, None])
def test_a_bar_is_shown_where_it_is_asked_for(
    tmp_path: Path, name: str, shown: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data().memmap(tmp_path / "a")
    data().memmap(tmp_path / "a.tdz")
    done: list[int] = []
    monkeypatch.setattr(progress.Bar, "advance", lambda bar, count=1: done.append(count) or _ADVANCE(bar, count))
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    WRITE[name](tmp_path, shown)
    assert bool(stream.getvalue()) == bool(shown)
    assert BYTES <= sum(done) < BYTES + 3000  # packed files have what they say of themselves, too
    assert "100%" in stream.getvalue() or not shown


_ADVANCE = progress.Bar.advance


@pytest.mark.parametrize("name", ["memmap", "to_h5", "pack_memmap"])
def test_a_bar_goes_where_writing_fails(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data().memmap(tmp_path / "a")
    closed: list[bool] = []
    monkeypatch.setattr(progress.Bar, "close", lambda bar: closed.append(True))

    def fail(bar: Any, count: int = 1) -> None:
        raise OSError(28, "disk full")

    monkeypatch.setattr(progress.Bar, "advance", fail)
    with pytest.raises(OSError, match="disk full"):
        WRITE[name](tmp_path, False)
    assert closed == [True]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
