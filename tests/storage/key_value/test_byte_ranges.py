"""The bytes of a box are those that numpy selects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorclass.storage.key_value.byte_ranges import gather, runs_of

SHAPE = (40, 6, 5)
BOXES: list[tuple[Any, ...]] = [
    (),
    (slice(3, 8, 1),),
    (slice(0, 0, 1),),
    (slice(1, 30, 7),),
    (np.array([0, 1, 2, 39]),),
    (slice(2, 4, 1), slice(1, 3, 1)),
    (slice(0, 40, 1), slice(0, 6, 1), slice(2, 3, 1)),
    (slice(0, 40, 1), np.array([0, 5])),
    (slice(5, 6, 1), slice(2, 3, 1), slice(0, 5, 2)),
    (slice(4, 9, 1), slice(3, 3, 1)),
]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("box", BOXES)
def test_runs_are_the_bytes_of_the_box(box: tuple[Any, ...], far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if far:
        monkeypatch.setattr("tensorclass.storage.key_value.byte_ranges._MOST_BETWEEN", 0)
    values = np.random.default_rng(0).integers(0, 1000, SHAPE).astype("<i2")
    raw = values.tobytes()
    expected = values[box] if box else values
    runs = runs_of(box, SHAPE, 2)
    assert b"".join(raw[start : start + runs.length] for start in runs.starts.tolist()) == expected.tobytes()
    pieces = [raw[start:stop] for start, stop in runs.merged()]
    assert gather(runs, pieces, values.dtype).tobytes() == expected.tobytes()


def test_rows_that_follow_each_other_are_one_run() -> None:
    runs = runs_of((slice(3, 8, 1),), SHAPE, 4)
    assert (runs.starts.tolist(), runs.length) == ([3 * 30 * 4], 5 * 30 * 4)


def test_missing_bytes_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected 60 bytes from byte 0 on, found 59"):
        gather(runs_of((slice(0, 1, 1),), SHAPE, 2), [b"\0" * 59], np.dtype("<i2"))
