"""The sides of the works that programs are made of give the same results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import real_work


def test_all_sides_of_an_epoch_read_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_work, "BATCH", 64)
    sides = real_work.epoch(tmp_path, 1_000)
    assert {name: work() for name, work in sides.items()} == dict.fromkeys(sides, 499_500)
    assert {"ours", "by hand", "tensordict"} <= sides.keys()


def test_each_side_is_timed() -> None:
    calls: list[str] = []
    best = real_work.measure({"ours": lambda: calls.append("a"), "by hand": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert all(0 <= seconds < 60 for seconds in best.values())
