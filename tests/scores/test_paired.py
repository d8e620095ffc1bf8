from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from tensorclass.scores.paired import mcnemar, mcnemar_p_value, paired_difference

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
