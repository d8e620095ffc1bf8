"""A small run of the simulation that :mod:`tests.scores.simulate_figures` does at length."""

from __future__ import annotations

import pytest

from tensorclass.scores.row_figures import macro_f1
from tests.scores.simulate_figures import classes, clusters, line_of, of_rows, seeds


@pytest.mark.parametrize("kind", [clusters(), seeds(3, 0.4)], ids=["clusters", "seeds"])
def test_intervals_and_p_values_hold_what_they_promise(kind: object) -> None:
    found = line_of(kind, 30, 150)  # type: ignore[arg-type]
    assert found.coverage > 0.9
    assert found.paired_coverage > 0.9
    assert found.level < 0.1


def test_those_of_figures_of_rows_do() -> None:
    found = line_of(of_rows("macro-F1", lambda columns, weights: macro_f1(*columns, weights), classes), 40, 60)
    assert found.coverage > 0.87
    assert found.paired_coverage > 0.85
    assert found.level < 0.13
    assert found.intervals == 1
