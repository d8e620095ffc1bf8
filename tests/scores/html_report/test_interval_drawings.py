from __future__ import annotations

import re
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores.html_report.interval_drawings import axis_of


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.booleans())
def test_an_axis_holds_all_values_between_its_first_and_last_tick(values: list[float], zero: bool) -> None:
    axis = axis_of("x", values, "ms", zero=zero)
    ticks, slack = axis.ticks(), 1e-6 * (axis.high - axis.low)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= min(values) + slack
    assert ticks[-1] >= max(values) - slack
    assert not zero or ticks[0] <= slack <= ticks[-1] + 2 * slack


def test_ticks_are_round_numbers() -> None:
    assert axis_of("x", [0.287, 0.721], "%").ticks() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert axis_of("x", [-0.021, 0.013], "%", zero=True).ticks() == pytest.approx([-0.03, -0.02, -0.01, 0, 0.01, 0.02])


def test_labels_of_shares_are_percent_and_those_of_differences_have_signs() -> None:
    assert re.findall(r">([^<]+)</text>", axis_of("x", [0.5, 0.9], "%").scale()) == ["50", "60", "70", "80", "90"]
    assert re.findall(r">([^<]+)</text>", axis_of("x", [-1, 1], "s", zero=True).scale()) == [
        "-1",
        "-0.5",
        "0",
        "+0.5",
        "+1",
    ]


def test_positions_grow_with_the_values() -> None:
    drawing = axis_of("x", [0, 10], "s").interval(5, 2.5, 7.5)
    low, high = re.findall(r'class="range"[^>]* x1="([\d.]+)%" x2="([\d.]+)%"', drawing)[0]
    (value,) = re.findall(r'class="value" x1="([\d.]+)%"', drawing)
    assert (float(low) + float(high)) / 2 == pytest.approx(50) == float(value)
    assert float(low) < 50


def test_no_interval_is_no_bar_and_no_figure_no_stroke() -> None:
    axis = axis_of("x", [0, 1], "s")
    assert "range" not in axis.interval(0.5, nan, nan)
    assert "value" in axis.interval(0.5, nan, nan)
    assert "value" not in axis.interval(nan, nan, nan)


def test_one_value_and_none_have_an_axis_too() -> None:
    assert axis_of("x", [0.5], "%").low < 0.5 < axis_of("x", [0.5], "%").high
    assert axis_of("x", [nan], "%").low < axis_of("x", [nan], "%").high
