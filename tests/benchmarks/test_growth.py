"""Growth of costs: each operation runs at its smallest sizes, and the figures of a line are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.growth import GROWTHS, Figures, Growth, row


@pytest.mark.parametrize("growth", GROWTHS, ids=lambda growth: growth.name)
def test_operations_run_at_their_smallest_sizes(growth: Growth, tmp_path: Path) -> None:
    assert list(growth.sizes) == sorted(growth.sizes)
    for size in growth.sizes[:2]:
        place = tmp_path / str(size)
        place.mkdir()
        assert growth.work(growth.prepare(size, place)) is not None


def test_the_power_and_the_cost_of_a_unit_come_from_the_two_largest_sizes() -> None:
    growth = Growth("parts: read", (1, 10, 100), lambda size, place: size, lambda given: given)
    quadratic = Figures(growth, [5.0, 10.0, 1000.0], [0, 0, 0])
    assert quadratic.exponent() == pytest.approx(2)
    assert quadratic.unit() == pytest.approx(11_000)
    assert "steeper" in row(quadratic)
    assert "steeper" not in row(Figures(growth, [5.0, 10.0, 100.0], [0, 0, 0]))
