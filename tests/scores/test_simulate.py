"""A small run of the simulation that :mod:`tests.scores.simulate` does at length, and its alarm."""

from __future__ import annotations

import numpy as np
import pytest

from tests.scores.simulate import Line, exact, lines_of, missed, share_below


def test_intervals_and_p_values_hold_what_they_promise() -> None:
    lines = lines_of(1800, prompts=(3, 10, 40), rates=(0.02, 0.6))
    assert {line.kind for line in lines} >= {
        "verdicts, exact",
        "pooled verdicts",
        "ratio",
        "preference",
        "five repeats",
    }
    assert missed(lines) == []


@pytest.mark.parametrize("count", [3, 4, 6, 8, 15, 25, 60])
def test_verdicts_hold_them_exactly(count: int) -> None:
    assert missed(exact([count], [0.01, 0.03, 0.07, 0.15, 0.25, 0.4, 0.5])) == []


def test_what_misses_a_limit_is_told() -> None:
    fine = Line("ratio", 10, 0.5, 0.94, 0.95, 0.05, 0.2, 0.3, 1000, 1000)
    low = Line("ratio", 30, 0.1, 0.88, 0.95, 0.05, 0.2, 0.3, 1000, 1000)
    apart = Line("verdicts, exact", 3, 0.1, 0.94, 0.929, 0.05, 0.2, 0.3)
    often = Line("preference", 30, 0.1, 0.94, 0.95, 0.12, 0.2, 0.3, 1000, 1000)
    assert missed([fine]) == []
    assert missed([fine, low, apart, often]) == [
        "ratio, n=30, rate 0.1: coverage 88.00 %",
        "verdicts, exact, n=3, rate 0.1: coverage of the difference 92.90 %",
        "preference, n=30, rate 0.1: p < 0.05 in 12.00 %",
        "preference: p < 0.05 in 12.00 % overall",
    ]


def test_runs_that_differ_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random((100, 60)) < 0.4).astype(float), (rng.random((100, 60)) < 0.8).astype(float)
    assert share_below((a, np.ones(a.shape), b, np.ones(a.shape)), rng) > 0.9
