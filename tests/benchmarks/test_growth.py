"""Growth of costs: each operation runs at its smallest sizes, and the figures of a line are right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.call_counts import count
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
    assert "steeper" not in row(Figures(growth, [5.0, 10.0, 1000.0], [0, 0, 0], [4.0, 9.0, 900.0]))
    assert "steeper" in row(Figures(growth, [5.0, 10.0, 100.0], [1, 10, 1000]))


#: small sizes, for counts of calls instead of times
FEW, MANY = 4, 16


@pytest.mark.parametrize(
    "growth", [growth for growth in GROWTHS if not growth.name.startswith("rows")], ids=lambda growth: growth.name
)
def test_the_number_of_calls_grows_with_the_size_at_most(growth: Growth, tmp_path: Path) -> None:
    counts: list[int] = []
    for size in (FEW, MANY):
        place = tmp_path / str(size)
        place.mkdir()
        given = growth.prepare(size, place)
        counts.append(sum(count(lambda given=given: growth.work(given))))  # type: ignore[misc]
    few, many = counts
    assert many <= few * (MANY / FEW) * 1.05 + 5


def test_a_quadratic_number_of_calls_is_found() -> None:
    def work(size: int) -> None:
        for _ in range(size * size):
            len(tensor.shape)
            tensor.dim()

    tensor = torch.zeros(2)
    few, many = (sum(count(lambda size=size: work(size))) for size in (FEW, MANY))  # type: ignore[misc]
    assert many > few * (MANY / FEW) * 1.05 + 5


@pytest.mark.parametrize(
    "growth", [growth for growth in GROWTHS if growth.name.startswith("rows")], ids=lambda growth: growth.name
)
def test_the_number_of_calls_does_not_depend_on_the_rows(growth: Growth, tmp_path: Path) -> None:
    few, many = (growth.prepare(size, tmp_path) for size in (1_000, 100_000))
    assert count(lambda: growth.work(few)) == count(lambda: growth.work(many))
