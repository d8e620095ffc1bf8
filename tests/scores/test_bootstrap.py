from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from tensorclass.scores.bootstrap import bootstrap_difference, bootstrap_interval
from tensorclass.scores.row_figures import quantile


def mean(columns: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    return weights @ columns[0] / weights.sum(-1)


def median(columns: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    return quantile(columns[0], weights, share=0.5)


def test_the_interval_is_that_of_scipy_at_widened_levels() -> None:
    values = np.random.default_rng(0).exponential(size=25)
    found = bootstrap_interval(mean, [values], np.arange(25), resamples=20_000)
    # Hesterberg's levels: the normal quantile of the BCa interval becomes t sqrt(n / (n - 1)).
    widened = 2 * stats.norm.cdf(stats.t.ppf(0.975, 24) * np.sqrt(25 / 24)) - 1
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=widened, method="BCa", random_state=1
    )
    assert found.method == "BCa"
    assert found.low == pytest.approx(expected.confidence_interval.low, abs=0.02)
    assert found.high == pytest.approx(expected.confidence_interval.high, abs=0.04)
    assert found.stderr == pytest.approx(stats.sem(values), rel=0.03)


@pytest.mark.parametrize("figure", [mean, median])
def test_the_order_of_rows_and_units_changes_nothing(figure: object) -> None:
    rng = np.random.default_rng(1)
    values, unit = rng.normal(size=60).round(1), rng.integers(0, 25, 60)
    order, names = rng.permutation(60), rng.permutation(25)
    found = bootstrap_interval(figure, [values], unit)  # type: ignore[arg-type]
    assert bootstrap_interval(figure, [values[order]], names[unit[order]]) == found  # type: ignore[arg-type]
    assert bootstrap_interval(figure, [values], unit, seed=1) != found  # type: ignore[arg-type]


def test_rows_of_a_unit_stay_together() -> None:
    values = np.random.default_rng(2).normal(size=20)
    alone = bootstrap_interval(mean, [values], np.arange(20))
    fivefold = bootstrap_interval(mean, [np.repeat(values, 5)], np.repeat(np.arange(20), 5))
    assert fivefold.stderr == pytest.approx(alone.stderr, rel=0.05)
    assert fivefold.high - fivefold.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_many_distinct_units_are_drawn_by_index_and_left_out_in_groups() -> None:
    values = np.random.default_rng(3).normal(size=700)
    found = bootstrap_interval(mean, [values], np.arange(700))
    assert found.stderr == pytest.approx(stats.sem(values), rel=0.06)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(0.95, 699, found.value, stats.sem(values)), abs=0.01
    )


def test_there_is_no_interval_without_variance_and_a_reason_for_it() -> None:
    nothing = bootstrap_interval(mean, [np.zeros(0)], np.zeros(0, dtype=np.int64))
    one = bootstrap_interval(mean, [np.array([1.0, 2.0])], np.array([3, 3]))
    same = bootstrap_interval(mean, [np.ones(5)], np.arange(5))
    undefined = bootstrap_interval(lambda columns, weights: np.full(len(weights), np.nan), [np.ones(5)], np.arange(5))
    often = bootstrap_interval(
        lambda columns, weights: np.where(weights[:, 0] > 0, mean(columns, weights), np.nan),
        [np.array([7.0, 1, 2, 3])],
        np.arange(4),
    )
    for found, reason in (
        (nothing, "nothing was counted"),
        (one, "a single prompt"),
        (same, "all prompts agree"),
        (undefined, "not defined for these rows"),
        (often, "more than a tenth of the resamples"),
    ):
        assert found.method == "none"
        assert np.isnan(found.low)
        assert reason in found.reason
    assert one.value == 1.5
    assert same.stderr == 0.0


def test_the_permutation_test_of_means_is_the_sign_flip_test() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=8), rng.normal(size=8) + 0.8
    expected = stats.permutation_test(
        (a, b), lambda x, y: np.mean(y - x), permutation_type="samples", alternative="two-sided"
    ).pvalue
    found = bootstrap_difference(
        mean, [np.concatenate([a, b])], np.arange(16) >= 8, np.tile(np.arange(8), 2), resamples=20_000
    )
    assert (found.a, found.b) == (pytest.approx(a.mean()), pytest.approx(b.mean()))
    assert found.difference.value == pytest.approx((b - a).mean())
    assert found.p_value == pytest.approx(expected, abs=0.01)
    assert found.difference.stderr == pytest.approx(stats.sem(b - a), rel=0.05)


def test_runs_that_are_the_same_do_not_differ() -> None:
    values = np.random.default_rng(5).normal(size=30)
    found = bootstrap_difference(
        median, [np.concatenate([values, values])], np.arange(60) >= 30, np.tile(np.arange(30), 2)
    )
    assert (found.difference.value, found.p_value, found.difference.method) == (0.0, 1.0, "none")


def test_a_run_without_rows_has_no_difference() -> None:
    found = bootstrap_difference(mean, [np.ones(3)], np.zeros(3, dtype=bool), np.arange(3))
    assert np.isnan(found.p_value)
    assert found.difference.reason == "nothing was counted"
