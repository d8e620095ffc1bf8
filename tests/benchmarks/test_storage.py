"""The rows of storage do what they say, on little data."""

from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("zarr")  # there is none for Python 3.10

from benchmarks.storage import SOURCES, Figure, Row, Scale, Source, header, line, measure, missed, processes
from benchmarks.timing import Plan

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

SMALL = Scale(leaves=20, rows=4, mapped=6000, many=20, large=100_000)
ONCE = Plan(blocks=1, rounds=1, sample_us=1.0)
FIGURE = Figure("a row", "by hand", ours=3.0, hand=2.0, peer=4.0, most=1.0)


@pytest.mark.parametrize("source", [one for one in SOURCES if one is not processes], ids=lambda one: one.__name__)
def test_every_side_of_a_row_runs(source: Source, tmp_path: Path) -> None:
    with ExitStack() as stack:
        rows = [(row, measure(row, ONCE)) for row in source(stack, tmp_path, SMALL)]
    assert len({row.name for row, _ in rows}) == len(rows)
    assert all(figure.ours > 0 and figure.hand > 0 for _, figure in rows)
    assert all((figure.peer is None) == (row.peer is None) for row, figure in rows)


def test_what_a_row_writes_is_new_each_time(tmp_path: Path) -> None:
    places = [tmp_path / "ours", tmp_path / "hand"]
    found: list[bool] = []

    def writing(place: Path) -> None:
        found.append(place.exists())
        place.touch()

    row = Row("", lambda: writing(places[0]), "", lambda: writing(places[1]), written=tuple(map(str, places)))
    measure(row, Plan(blocks=2, rounds=2))
    assert found == [False] * 8


def test_a_row_above_its_target_is_named_and_marked() -> None:
    assert "1.50" in line(FIGURE)
    assert "1!" in line(FIGURE)
    assert len(line(FIGURE)) <= len(header())
    assert missed([FIGURE]) == ["a row: 1.50 times by hand, at most 1"]


def test_a_row_slower_than_the_peer_is_named() -> None:
    slow = Figure("a row", "by hand", ours=3.0, hand=2.0, peer=2.0, most=None)
    assert missed([slow]) == ["a row: 1.50 times the peer"]
    assert missed([Figure("a row", "by hand", 1.0, 2.0, 2.0, 0.5)]) == []
