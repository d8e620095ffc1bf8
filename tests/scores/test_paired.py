from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from tensorclass.scores.paired import (
    difference_interval,
    mcnemar,
    mcnemar_p_value,
    paired_difference,
    share_difference_interval,
)

counts = st.integers(0, 2000)


@given(counts, counts)
def test_mcnemars_exact_p_value_is_the_binomial_test(only_a: int, only_b: int) -> None:
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert_allclose(mcnemar_p_value(only_a, only_b), expected, rtol=1e-8, atol=1e-300)


@given(counts, counts)
def test_mcnemars_corrected_p_value_is_the_chi_squared_test(only_a: int, only_b: int) -> None:
    differing = only_a + only_b
    statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / differing if differing else 0.0
    expected = stats.chi2.sf(statistic, df=1)
    assert_allclose(mcnemar_p_value(only_a, only_b, exact=False), expected, rtol=1e-9, atol=1e-300)


def test_mcnemar_counts_the_prompts_where_the_runs_differ() -> None:
    a = np.array([True, True, True, False, False])
    b = np.array([True, False, False, True, False])
    assert mcnemar(a, b)[:2] == (2, 1)
    assert mcnemar(b, a)[:2] == (1, 2)


def test_verdicts_that_do_not_pair_up_are_an_error() -> None:
    with pytest.raises(TypeError, match="right_b: expected bools, got int64"):
        mcnemar(np.array([True]), np.array([1]))
    with pytest.raises(ValueError, match=r"the same prompts, got shapes \[1\] and \[2\]"):
        mcnemar(np.array([True]), np.array([True, False]))


@pytest.mark.parametrize("counted", [(-1, 2), (2, -1)])
def test_negative_counts_are_an_error(counted: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"at least 0, got {counted[0]} and {counted[1]}"):
        mcnemar_p_value(*counted)


runs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)), min_size=2, max_size=30).map(
    lambda rows: (
        np.array([float(min(a, n)) for a, _, n in rows]),
        np.array([float(min(b, n)) for _, b, n in rows]),
        np.array([float(n) for _, _, n in rows]),
    )
)


@given(runs)
def test_the_difference_is_that_of_the_pooled_figures(columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    a, b, below = columns
    found = paired_difference(a, below, b, below, resamples=50)
    assert found.value == pytest.approx(b.sum() / below.sum() - a.sum() / below.sum())
    assert found.prompts == len(a)
    assert 2.0 ** (1 - len(a)) * (1 - 1e-9) <= found.p_value <= 1
    assert found.low <= found.value <= found.high


@given(runs)
def test_a_run_does_not_differ_from_itself(columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    a, _, below = columns
    found = paired_difference(a, below, a, below, resamples=50)
    assert (found.value, found.p_value) == (0.0, 1.0)
    assert found.low == pytest.approx(-found.high)
    assert found.high > 1 / len(a)  # that they agree on these prompts doesn't make them the same


def test_each_side_counts_the_prompts_that_its_run_scored() -> None:
    one, zero = np.ones(4), np.zeros(4)
    held_a, held_b = np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0])
    found = paired_difference(one * held_a, held_a, zero, held_b)
    assert (found.a, found.b, found.prompts, found.prompts_a, found.prompts_b) == (1.0, 0.0, 3, 2, 3)
    nothing = paired_difference(one, zero, one, one)
    assert (nothing.prompts, nothing.prompts_a, nothing.method) == (4, 0, "none")
    assert np.isnan([nothing.a, nothing.value, nothing.low, nothing.p_value]).all()


def test_pairing_narrows_the_interval_where_prompts_are_hard_for_both() -> None:
    rng = np.random.default_rng(0)
    hard = rng.random(400)
    a, b = (hard < 0.6).astype(float), (hard < 0.65).astype(float)
    paired = paired_difference(a, np.ones(400), b, np.ones(400))
    apart = paired_difference(a, np.ones(400), rng.permutation(b), np.ones(400))
    assert paired.high - paired.low < 0.5 * (apart.high - apart.low)
    assert paired.p_value < 0.001


def test_the_p_value_is_uniform_where_the_runs_are_alike() -> None:
    rng = np.random.default_rng(1)
    values = []
    for seed in range(200):
        skill, below = rng.beta(3, 2, 120), rng.integers(1, 4, 120).astype(float)
        a, b = (rng.binomial(below.astype(int), skill).astype(float) for _ in range(2))
        values.append(paired_difference(a, below, b, below, seed=seed, resamples=300).p_value)
    assert 0.01 <= np.mean(np.array(values) < 0.05) <= 0.11
    assert 0.38 <= np.mean(np.array(values) < 0.5) <= 0.62


levels = st.sampled_from([0.5, 0.9, 0.95, 0.99])
values = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=12).filter(
    lambda rows: len({b - a for a, b in rows}) > 1
)


@given(values, levels)
def test_the_difference_of_any_figures_has_the_paired_t_interval(rows: list[tuple[int, int]], level: float) -> None:
    a, b = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    expected = stats.ttest_rel(b, a).confidence_interval(level)
    one = np.ones(len(a))
    assert_allclose(difference_interval(a, one, b, one, level), expected, rtol=1e-7, atol=1e-9)
    found = paired_difference(a, one, b, one, confidence=level, share=False, resamples=9)
    assert_allclose((found.low, found.high), expected, rtol=1e-7, atol=1e-9)
    assert_allclose(found.stderr, stats.sem(b - a), rtol=1e-9)
    assert (found.method, found.reason) == ("t", "")
    assert (found.a, found.b, found.value) == pytest.approx((a.mean(), b.mean(), b.mean() - a.mean()))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_difference_of_shares_has_the_t_interval_after_prompts_are_added(
    rows: list[tuple[bool, bool]], level: float
) -> None:
    a, b = np.array(rows, dtype=float).T
    added = stats.norm.ppf((1 + level) / 2) ** 2 / 2
    only_a, only_b = (a > b).sum() + added, (b > a).sum() + added
    prompts = len(a) + 2 * added
    value = (only_b - only_a) / prompts
    stderr = np.sqrt((only_a + only_b - prompts * value**2) / (prompts - 1) / prompts)
    half = stats.t.ppf((1 + level) / 2, prompts - 1) * stderr
    expected = max(value - half, -1.0), min(value + half, 1.0)
    one = np.ones(len(a))
    assert_allclose(share_difference_interval(a, one, b, one, level), expected, rtol=1e-7, atol=1e-9)
    found = paired_difference(a, one, b, one, confidence=level, resamples=9)
    exact = b.mean() - a.mean()
    assert_allclose((found.low, found.high), (min(expected[0], exact), max(expected[1], exact)), rtol=1e-7, atol=1e-9)
    assert (found.method, found.reason) == ("adjusted t", "")


@pytest.mark.parametrize("interval", [difference_interval, share_difference_interval])
def test_a_count_stands_for_so_many_prompts(interval: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    rng = np.random.default_rng(3)
    counts, below_a, below_b = rng.integers(1, 4, (3, 2, 8)).astype(float)
    above_a, above_b = (np.minimum(rng.integers(0, 4, (2, 8)), below) for below in (below_a, below_b))
    found = interval(above_a, below_a, above_b, below_b, 0.9, counts=counts)
    columns = [above_a, below_a, above_b, below_b]
    for row in (0, 1):
        repeated = [np.repeat(column[row], counts[row].astype(int)) for column in columns]
        expected = interval(*repeated, 0.9)
        assert_allclose((found[0][row], found[1][row]), expected, rtol=1e-9)


def test_the_interval_is_for_each_level_of_confidence_and_swaps_with_the_runs() -> None:
    a, b, below = np.array([1.0, 0, 2, 1]), np.array([1.0, 3, 2, 0]), np.array([1.0, 3, 2, 1])
    for interval in (difference_interval, share_difference_interval):
        low, high = interval(a, below, b, below)
        assert_allclose((low, high), interval(a, below, b, below, 0.95))
        assert_allclose((-high, -low), interval(b, below, a, below), atol=1e-12)
        nothing = interval(a, below, 0 * b, 0 * below)
        assert np.isnan(nothing).all()


def test_a_difference_without_spread_has_no_interval_and_says_why() -> None:
    a, one = np.array([3.0, 5.0]), np.ones(2)
    same = paired_difference(a, one, a + 1, one, share=False)
    assert (same.value, same.method, same.stderr) == (1.0, "none", 0.0)
    assert same.reason == "the runs differ by the same in all prompts, which leaves no variance to measure"
    single = paired_difference(a[:1], one[:1], a[1:], one[1:], share=False)
    assert (single.value, single.method, single.reason) == (2.0, "none", "a single prompt has no variance to measure")
    assert np.isnan([single.low, single.high, single.stderr]).all()
    tenths = np.array([0.1, 0.2, 0.3])
    assert paired_difference(tenths, np.ones(3), tenths + 0.1, np.ones(3), share=False).method == "none"
    with pytest.raises(ValueError, match="confidence"):
        paired_difference(a, one, a, one, confidence=1.0)


def test_the_seed_and_the_name_fix_the_ways_that_the_test_draws() -> None:
    rng = np.random.default_rng(5)
    a, b, one = rng.normal(size=60), rng.normal(0.3, size=60), np.ones(60)

    def p_value(**options: Any) -> float:
        return float(paired_difference(a, one, b, one, share=False, resamples=99, **options).p_value)

    assert p_value() == p_value(seed=0, name="")
    assert len({p_value(), p_value(seed=1), p_value(name="other")}) > 1


def test_the_test_is_named_whatever_the_interval() -> None:
    a, b, one = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 0]), np.ones(4)
    shares = paired_difference(a, one, b, one)
    others = paired_difference(a, one, b, one, share=False)
    assert shares.test == others.test
    assert isinstance(shares.test, str)
    assert shares.test not in ("", "none")
