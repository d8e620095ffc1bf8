"""The sign-flip test beside all ways to flip, and p-values that no variance may not make certain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import stats

from tensorclass.scores.paired import mcnemar_p_value, paired_difference
from tensorclass.scores.resampling import distinct_rows, generator
from tensorclass.scores.signflips import SignFlips, lower_tail, sign_flips

Numbers = NDArray[np.float64]


def flips(above_a: Numbers, below_a: Numbers, above_b: Numbers, below_b: Numbers, resamples: int = 2000) -> SignFlips:
    return sign_flips(distinct_rows([above_a, below_a, above_b, below_b]), resamples, generator(0, ""))


def distance(above_a: Numbers, below_a: Numbers, above_b: Numbers, below_b: Numbers) -> float:
    """How far apart two ratios are, in standard errors where no difference is assumed, squared."""
    pooled = (above_a.sum() + above_b.sum()) / (below_a.sum() + below_b.sum())
    if not below_a.sum() or not below_b.sum():
        return float("inf")
    apart = above_b.sum() / below_b.sum() - above_a.sum() / below_a.sum()
    if abs(apart) < 1e-12:
        return 0.0
    each = (above_b - pooled * below_b) / below_b.sum() - (above_a - pooled * below_a) / below_a.sum()
    return float(apart**2 / (each**2).sum())


def by_brute_force(above_a: Numbers, below_a: Numbers, above_b: Numbers, below_b: Numbers) -> float:
    observed = distance(above_a, below_a, above_b, below_b)
    ways = [np.array(way) for way in product([False, True], repeat=len(above_a))]
    beyond = [
        distance(
            np.where(way, above_b, above_a),
            np.where(way, below_b, below_a),
            np.where(way, above_a, above_b),
            np.where(way, below_a, below_b),
        )
        >= observed * (1 - 1e-9)
        for way in ways
    ]
    return float(np.mean(beyond))


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """What up to eight prompts add in two runs; in whole numbers or not, with the same denominators or not."""
    count = draw(st.integers(1, 8))
    part = st.sampled_from([0.0, 1.0]) if draw(st.booleans()) else st.floats(0, 1).map(lambda one: round(one, 3))
    below_a, below_b = (
        np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0]), min_size=count, max_size=count)))
        for _ in range(2)
    )
    if draw(st.booleans()):
        below_a = below_b = np.ones(count)
    above_a, above_b = (
        below * np.array(draw(st.lists(part, min_size=count, max_size=count))) for below in (below_a, below_b)
    )
    if not below_a.sum() or not below_b.sum():
        below_a, below_b = below_a + 1, below_b + 1
    return above_a, below_a, above_b, below_b


@given(outcomes())
def test_all_ways_are_counted_where_they_are_few(rows: tuple[Numbers, Numbers, Numbers, Numbers]) -> None:
    found = flips(*rows)
    assert found.method == "exact"
    assert_allclose(found.p_value, by_brute_force(*rows), rtol=1e-9)


def test_one_verdict_a_prompt_gives_mcnemars_exact_test() -> None:
    rng = np.random.default_rng(0)
    for count in (2, 9, 40, 700):
        a, b = ((rng.random(count) < rate).astype(float) for rate in (0.4, 0.55))
        only_a, only_b = int((a > b).sum()), int((b > a).sum())
        found = flips(a, np.ones(count), b, np.ones(count))
        assert found.method == "exact"
        assert_allclose(found.p_value, mcnemar_p_value(only_a, only_b))


def test_differences_of_many_prompts_on_a_lattice_are_counted_exactly() -> None:
    rng = np.random.default_rng(1)
    below = rng.integers(1, 4, 400).astype(float)
    a, b = (rng.binomial(below.astype(int), rate).astype(float) for rate in (0.7, 0.76))
    found = flips(a, below, b, below)
    signs = rng.choice([-1.0, 1.0], (20_000, 400))
    sampled = np.mean(np.abs(signs @ (b - a)) >= abs((b - a).sum()) - 1e-9)
    assert found.method == "exact"
    assert found.p_value == pytest.approx(sampled, abs=5 * np.sqrt(sampled / 20_000))


@pytest.mark.parametrize("denominators", ["equal", "different"])
def test_drawn_ways_come_near_to_all(denominators: str) -> None:
    rng = np.random.default_rng(2)
    below_a = rng.random(300) + 0.5
    below_b = below_a if denominators == "equal" else rng.random(300) + 0.5
    a, b = below_a * rng.random(300), below_b * np.clip(rng.random(300) + 0.03, 0, 1)
    found = flips(a, below_a, b, below_b, resamples=20_000)
    assert found.method == "sampled"
    pooled = (a.sum() + b.sum()) / (below_a.sum() + below_b.sum())
    each = (b - pooled * below_b) / below_b.sum() - (a - pooled * below_a) / below_a.sum()
    expected = 2 * stats.norm.sf(abs(each.sum()) / np.sqrt((each**2).sum()))
    assert found.p_value == pytest.approx(expected, abs=0.02)
    assert flips(a, below_a, b, below_b, resamples=9).p_value >= 0.1  # the observed way is one of ten


def test_a_p_value_below_what_drawn_ways_can_show_is_bounded() -> None:
    rng = np.random.default_rng(4)
    below = rng.random(400) + 0.5
    a = below * rng.random(400) * 0.5
    found = flips(a, below, a + below * rng.random(400) * 0.4, below, resamples=1000)
    assert found.method == "bound"
    assert 0 < found.p_value < 1e-20
    assert flips(a, below, a, below).p_value == 1.0


def test_the_bound_is_above_the_exact_p_value() -> None:
    rng = np.random.default_rng(5)
    below = rng.integers(1, 4, 400).astype(float)
    a, b = (rng.binomial(below.astype(int), rate).astype(float) for rate in (0.6, 0.8))
    exact = flips(a, below, b, below)
    noise = 1e-9 * rng.random(400)  # leaves no lattice
    bound = flips(a + noise, below, b, below)
    assert (exact.method, bound.method) == ("exact", "bound")
    assert exact.p_value < bound.p_value < 1e-4


def test_prompts_of_several_kinds_are_drawn_by_their_number() -> None:
    rng = np.random.default_rng(3)
    below_a, below_b = (rng.integers(1, 4, 600).astype(float) for _ in range(2))
    a, b = rng.binomial(below_a.astype(int), 0.7).astype(float), rng.binomial(below_b.astype(int), 0.72).astype(float)
    kinds = flips(a, below_a, b, below_b, resamples=20_000)
    noise = 1e-5 * rng.random(600)  # makes each prompt a kind of its own
    singles = flips(a + noise, below_a, b + noise, below_b, resamples=20_000)
    assert (kinds.method, singles.method) == ("sampled", "sampled")
    assert kinds.p_value == pytest.approx(singles.p_value, abs=0.02)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_tails_of_a_coin_are_those_that_scipy_gives(heads: int, more: int) -> None:
    trials = 2 * heads + more
    assert_allclose(lower_tail(heads, trials), stats.binom.cdf(heads, trials, 0.5), rtol=1e-8, atol=1e-300)


def test_no_p_value_is_below_what_so_few_prompts_can_tell() -> None:
    for count in (1, 2, 3, 6, 10, 30):
        one = np.ones(count)
        for a, b in ((0 * one, one), (0.5 * one, 0.6 * one), (7 * one, 9.5 * one)):
            found = paired_difference(a, one, b, one)
            assert found.p_value == pytest.approx(2.0 ** (1 - count))


def test_no_draw_is_an_error_where_ways_are_drawn() -> None:
    values = np.random.default_rng(0).random(40)
    with pytest.raises(ValueError, match="resamples: expected a whole number of at least 1"):
        flips(values, np.ones(40), values[::-1].copy(), np.ones(40), resamples=0)
