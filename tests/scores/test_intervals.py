from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from tensorclass.scores.intervals import (
    Interval,
    Sums,
    added_prompts,
    interval_of_ratio,
    is_share,
    share_interval,
    standard_error,
    t_interval,
    varies,
    wilson,
)
from tensorclass.scores.resampling import (
    RESAMPLES,
    DistinctRows,
    default_resamples,
    distinct_rows,
    generator,
    resample_sums,
)
from tensorclass.scores.students_t import t_p_value, t_quantile

levels = st.floats(0.5, 0.999)


@given(st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), levels)
def test_wilson_is_the_interval_that_scipy_gives(counts: tuple[int, int], level: float) -> None:
    successes, trials = counts
    expected = stats.binomtest(successes, trials).proportion_ci(level, method="wilson")
    assert_allclose(wilson(successes, trials, level), expected, rtol=1e-9, atol=1e-12)


def test_wilson_has_a_width_where_all_trials_agree() -> None:
    assert wilson(0, 10)[0] == 0.0
    assert wilson(0, 10)[1] > 0.2
    assert wilson(10, 10)[0] < 0.8
    assert wilson(10, 10)[1] == 1.0


def test_wilson_without_a_trial_is_nan() -> None:
    assert np.isnan(wilson(0, 0)).all()


@pytest.mark.parametrize("arguments", [(3, 2), (-1, 2), (1, 2, 1.0), (1, 2, 0.0)])
def test_wilson_refuses_what_is_no_proportion(arguments: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        wilson(*arguments)


prompts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40).map(
    lambda pairs: (
        np.array([float(min(pair)) for pair in pairs]),
        np.array([float(max(pair)) for pair in pairs]),
    )
)


@given(prompts, st.randoms(use_true_random=False))
def test_the_order_of_prompts_changes_nothing(columns: tuple[np.ndarray, np.ndarray], random: object) -> None:
    above, below = columns
    order = np.random.default_rng(7).permutation(len(above))
    first = interval_of_ratio(above, below, resamples=50)
    second = interval_of_ratio(above[order], below[order], resamples=50)
    assert_allclose(first[:3], second[:3], rtol=0, atol=0)


@given(prompts)
def test_the_figure_pools_what_prompts_count(columns: tuple[np.ndarray, np.ndarray]) -> None:
    above, below = columns
    found = interval_of_ratio(above, below, resamples=20)
    if below.sum():
        assert found.value == pytest.approx(above.sum() / below.sum())
        assert found.method == "none" or 0 <= found.low <= found.value + 1e-12 <= found.high + 1e-9 <= 1 + 2e-9
    else:
        assert np.isnan(found.value)
        assert found.method == "none"


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), levels)
def test_a_single_proportion_has_agresti_and_coulls_interval_with_a_t_quantile(
    counts: tuple[int, int], level: float
) -> None:
    successes, trials = counts
    low, high = share_interval(np.arange(trials) < successes, np.ones(trials), level)
    z = stats.norm.isf((1 - level) / 2)
    total = trials + z**2
    share = (successes + z**2 / 2) / total
    half = stats.t.isf((1 - level) / 2, max(total - 1, 1)) * np.sqrt(share * (1 - share) / max(total - 1, 1))
    assert_allclose([low, high], [max(share - half, 0), min(share + half, 1)], rtol=1e-9, atol=1e-12)
    assert low <= successes / trials <= high


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_quantiles_of_t_are_those_that_scipy_gives(level: float) -> None:
    freedom = np.array([1.0, 1.5, 2.0, 2.84, 5.0, 17.3, 100.0, 199.0, 201.0, 5e3, 1e7])
    assert_allclose(t_quantile(freedom, level), stats.t.isf((1 - level) / 2, freedom), rtol=1e-6)


@pytest.mark.parametrize("statistic", [0.0, 0.1, 1.0, 2.5, 6.0, -12.0])
def test_p_values_of_t_are_those_that_scipy_gives(statistic: float) -> None:
    freedom = [1.0, 1.5, 2.0, 7.3, 30.0, 199.0, 1000.0, 1e5]
    found = [t_p_value(statistic, one) for one in freedom]
    assert_allclose(found, 2 * stats.t.sf(abs(statistic), freedom), rtol=1e-5)


def test_a_figure_that_is_no_share_has_students_interval() -> None:
    tokens = np.array([31.0, 40.0, 37.0, 52.0])
    found = interval_of_ratio(tokens, np.ones(4), share=False)
    expected = stats.ttest_1samp(tokens, 0).confidence_interval()
    assert found.method == "t"
    assert_allclose(found[1:3], expected)


TOKENS = np.array([31.0, 40.0, 40.0, 37.0, 52.0, 31.0, 40.0])  # three prompts have equal ones, two have others
LENGTHS = np.array([2.0, 1.0, 3.0, 2.0, 5.0, 2.0, 1.0])


def ratio_error(above: np.ndarray, below: np.ndarray, number: float) -> float:
    """Cochran's formula: the standard error of ``above.sum() / below.sum()`` over so many prompts."""
    residuals = above - above.sum() / below.sum() * below
    return float(np.sqrt((residuals**2).sum() * number / (number - 1)) / below.sum())


@pytest.mark.parametrize("share", [True, False])
def test_prompts_with_equal_values_count_each(share: bool) -> None:
    found = interval_of_ratio(TOKENS, np.ones(7), confidence=0.8, share=share)
    assert_allclose(found[1:3], stats.ttest_1samp(TOKENS, 0).confidence_interval(0.8))
    assert_allclose([found.value, found.stderr], [TOKENS.mean(), stats.sem(TOKENS)])


def test_prompts_that_count_differently_have_the_interval_of_their_effective_number() -> None:
    effective = LENGTHS.sum() ** 2 / (LENGTHS**2).sum()
    half = stats.t.isf(0.05, effective - 1) * ratio_error(TOKENS, LENGTHS, effective)
    value = TOKENS.sum() / LENGTHS.sum()
    assert_allclose(t_interval(TOKENS, LENGTHS, 0.9), [value - half, value + half])
    found = interval_of_ratio(TOKENS, LENGTHS, confidence=0.9)
    assert_allclose(found[:3], [value, value - half, value + half])
    assert found.stderr == pytest.approx(ratio_error(TOKENS, LENGTHS, 7))


def test_the_variance_has_at_least_one_degree_of_freedom() -> None:
    above, below = np.array([3.0, 20.0]), np.array([1.0, 10.0])  # 1.2 effective prompts
    effective = 121 / 101
    half = stats.t.isf(0.025, 1) * ratio_error(above, below, effective) * np.sqrt(effective - 1)
    assert_allclose(t_interval(above, below), [23 / 11 - half, 23 / 11 + half])


def test_a_share_has_the_t_interval_with_right_and_wrong_prompts_added() -> None:
    above, below = np.array([2.0, 0.0, 3.0, 1.0, 2.0]), np.array([2.0, 1.0, 4.0, 2.0, 3.0])
    added, size = stats.norm.isf(0.1) ** 2 / 2, (below**2).sum() / below.sum()
    counts = np.array([1.0, 1.0, 1.0, 1.0, 1.0, added, added])
    expected = t_interval(np.append(above, [size, 0.0]), np.append(below, [size, size]), 0.8, counts=counts)
    assert added_prompts(0.8) == pytest.approx(added)
    assert_allclose(share_interval(above, below, 0.8), expected)
    assert_allclose(interval_of_ratio(above, below, confidence=0.8)[1:3], expected)


@pytest.mark.parametrize("interval", [t_interval, share_interval, standard_error])
def test_data_sets_beside_each_other_have_the_figures_of_each(interval: Callable[..., object]) -> None:
    above = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 0.0, 1.0, 3.0]])
    below = np.array([[1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 1.0, 4.0]])
    counts = np.array([[1.0, 3.0, 2.0, 1.0], [2.0, 1.0, 1.0, 2.0]])
    each = [
        interval(*(np.repeat(part, number.astype(int)) for part in parts))
        for *parts, number in zip(above, below, counts, strict=True)
    ]
    assert_allclose(np.stack(interval(above, below, counts=counts), -1), each)  # type: ignore[call-overload]


@pytest.mark.parametrize("counts", [None, np.array([2.0, 1.0, 1.0, 5.0])])
def test_prompts_that_count_nothing_do_not_change_the_standard_error(counts: np.ndarray | None) -> None:
    above, below = np.array([1.0, 0.0, 3.0, 0.0]), np.array([1.0, 2.0, 3.0, 0.0])
    held = [0, 0, 1, 2] if counts is not None else [0, 1, 2]
    expected = ratio_error(above[held], below[held], len(held))
    assert standard_error(above, below, counts=counts) == pytest.approx(expected)
    assert interval_of_ratio(above, below).stderr == pytest.approx(ratio_error(above[:3], below[:3], 3))


def test_rounding_is_no_spread() -> None:
    above, below = np.array([0.1, 0.3, 0.7]), np.array([1.0, 3.0, 7.0])
    assert (above - above.sum() / below.sum() * below).any()  # what is left of 0.1 * 3
    assert standard_error(above, below) == 0.0
    assert not varies(above, below, above.sum() / below.sum())
    assert interval_of_ratio(10 * above, below, share=False).reason.startswith("all prompts agree")
    assert varies(above + np.array([0.0, 1e-9, 0.0]), below, above.sum() / below.sum())


@pytest.mark.parametrize("unit", [1e-9, 1e5 / 3, 1e9])
def test_intervals_are_in_the_unit_of_the_figure(unit: float) -> None:
    assert_allclose(standard_error(unit * TOKENS, LENGTHS), unit * standard_error(TOKENS, LENGTHS), rtol=1e-9)
    assert_allclose(t_interval(unit * TOKENS, LENGTHS), unit * np.array(t_interval(TOKENS, LENGTHS)), rtol=1e-9)
    assert standard_error(unit * 0.7 * LENGTHS, LENGTHS) == 0.0
    assert interval_of_ratio(unit * 0.7 * LENGTHS, LENGTHS, share=False).reason.startswith("all prompts agree")


def test_one_prompt_has_no_standard_error() -> None:
    assert np.isnan(standard_error(np.array([3.0]), np.array([4.0])))
    assert np.isnan(standard_error(np.array([3.0, 0.0]), np.array([4.0, 0.0])))
    assert np.isnan(interval_of_ratio(np.array([3.0]), np.array([4.0])).stderr)


def test_where_nothing_was_counted_the_figure_says_so() -> None:
    nothing = np.zeros(3)
    found = interval_of_ratio(nothing, nothing)
    assert np.isnan([found.value, found.low, found.high, found.stderr]).all()
    assert (found.method, found.reason) == ("none", "nothing was counted")
    assert np.isnan([*share_interval(nothing, nothing), *t_interval(nothing, nothing)]).all()
    assert np.isnan(standard_error(nothing, nothing))


def test_a_share_lies_between_0_and_1_for_each_prompt_up_to_rounding() -> None:
    below = np.array([1.0, 10.0])
    assert is_share(np.array([0.0, 10.0]), below)
    assert is_share(np.array([-5e-7, 10.000005]), below)
    assert not is_share(np.array([-2e-6, 5.0]), below)
    assert not is_share(np.array([0.5, 10.00002]), below)
    assert interval_of_ratio(np.array([2.0, 0.0, 1.0]), np.ones(3)).method == "t"
    assert interval_of_ratio(np.array([1.0, 0.0, 1.0]), np.ones(3), share=False).method == "t"


def test_sums_know_their_ratio_and_the_influence_of_each_prompt_on_it() -> None:
    sums = Sums(np.array([1.0, 0.0, 3.0]), np.array([1.0, 2.0, 5.0]))
    assert sums.value == 0.5
    assert sums.influence(np.array(0.5), np.array(8.0)).tolist() == [0.0625, -0.125, 0.0625]


def test_equal_verdicts_have_a_width() -> None:
    found = interval_of_ratio(np.array([2.0, 1.0, 3.0]), np.array([2.0, 1.0, 3.0]))
    assert (found.value, found.high, found.method) == (1.0, 1.0, "adjusted t")
    assert found.low < 0.5
    ties = interval_of_ratio(np.full(10, 0.5), np.ones(10))
    assert ties.low < 0.4
    assert ties.high > 0.6
    seeds = interval_of_ratio(np.ones(2), np.full(2, 2.0))  # two prompts, each solved with one of two seeds
    assert seeds.high - seeds.low > 0.5


@pytest.mark.parametrize("share", [True, False])
def test_a_figure_without_bounds_has_no_interval_without_variance(share: bool) -> None:
    found = interval_of_ratio(np.full(5, 7.0), np.ones(5), share=share)  # 7 is no share, whatever is said of it
    assert found.value == 7.0
    assert np.isnan(found[1:3]).all()
    assert (found.method, found.reason) == ("none", "all prompts agree, which leaves no variance to measure")
    one = interval_of_ratio(np.array([7.0]), np.array([3.0]), share=share)
    assert (one.method, one.reason) == ("none", "a single prompt has no variance to measure")


def test_the_bootstrap_is_for_prompts_that_vary() -> None:
    right = np.array([1.0, 1.0, 0.0, 1.0, 0.0])
    assert interval_of_ratio(right, np.ones(5), interval="bootstrap").method == "bootstrap"
    assert interval_of_ratio(np.ones(5), np.ones(5), interval="bootstrap").method == "adjusted t"


def test_the_bootstrap_has_the_quantiles_of_its_confidence() -> None:
    right = np.repeat([1.0, 0.0], [70, 30])
    found = interval_of_ratio(right, np.ones(100), interval="bootstrap", confidence=0.5)
    assert_allclose(found[1:3], np.array(stats.binom.interval(0.5, 100, 0.7)) / 100, atol=0.011)
    assert (found.value, found.stderr, found.reason) == (0.7, pytest.approx(stats.sem(right)), "")
    one = interval_of_ratio(right, np.ones(100), interval="bootstrap", resamples=1)
    assert one.low == one.high


@pytest.mark.parametrize("options", [{"interval": "wilson"}, {"confidence": 95.0}, {"confidence": 0.0}])
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}: expected"):
        interval_of_ratio(np.zeros(3), np.zeros(3), **options)


def test_the_seed_fixes_the_bootstrap() -> None:
    above, below = np.arange(6.0) % 3, np.full(6, 3.0)

    def bootstrap(seed: int, resamples: int | None = None) -> Interval:
        return interval_of_ratio(above, below, seed=seed, resamples=resamples, interval="bootstrap")

    assert bootstrap(1) == bootstrap(1)
    assert bootstrap(1, 99) != bootstrap(2, 99)
    named = [
        interval_of_ratio(above, below, name=name, seed=1, resamples=99, interval="bootstrap") for name in ("", "other")
    ]
    assert bootstrap(1, 99) == named[0] != named[1]
    with pytest.raises(ValueError, match="seed"):
        bootstrap(-1)


def every_resample(columns: list[np.ndarray]) -> np.ndarray:
    """The column sums of all ways to draw N rows out of N with replacement."""
    table = np.stack(columns, axis=1)
    return np.array([table[list(drawn)].sum(axis=0) for drawn in product(range(len(table)), repeat=len(table))])


@pytest.mark.parametrize(
    "columns",
    [
        [np.array([0.0, 1.0, 1.0, 1.0, 1.0])],
        [np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0, 3.0])],
        [np.array([0.1, 0.7, 0.35, 2.0, 1.5])],
    ],
    ids=["two distinct rows", "three distinct rows", "all rows distinct"],
)
@pytest.mark.parametrize("copies", [1, 2])
def test_resamples_follow_the_distribution_of_drawing_with_replacement(columns: list[np.ndarray], copies: int) -> None:
    # Twice the rows: the same table drawn by counts rather than by index, or the other way round.
    from tensorclass.scores import resampling

    exact = every_resample(columns)
    table = distinct_rows(columns)
    draw = (resampling._by_counts, resampling._by_index)[copies - 1]
    drawn = draw(table, 40_000, np.random.default_rng(3))
    for column in range(len(columns)):
        values, frequency = np.unique(exact[:, column].round(9), return_counts=True)
        expected = frequency / len(exact)
        found = np.array([(np.abs(drawn[:, column] - value) < 1e-6).mean() for value in values])
        assert found.sum() == pytest.approx(1.0)
        assert_allclose(found, expected, atol=5 * np.sqrt(0.25 / 40_000))


def test_the_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    rng = np.random.default_rng(0)
    below = rng.integers(1, 4, 200).astype(float)
    above = rng.binomial(below.astype(int), 0.8).astype(float)
    found = interval_of_ratio(above, below, resamples=20_000, interval="bootstrap")
    expected = stats.bootstrap(
        (above, below),
        lambda a, b, axis: a.sum(axis) / b.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert_allclose(found[1:3], expected, atol=0.002)


def test_intervals_of_simulated_runs_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for run in range(300):
        skill = rng.beta(4, 1, 150)  # what makes a prompt hard is shared by its instructions
        below = rng.integers(1, 4, 150).astype(float)
        above = rng.binomial(below.astype(int), skill).astype(float)
        found = interval_of_ratio(above, below, seed=run, resamples=400)
        covered += found.low <= 0.8 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 2.0])), min_size=1, max_size=30))
def test_distinct_rows_are_those_that_numpy_finds(rows: list[tuple[float, float]]) -> None:
    table = np.array(rows)
    found = distinct_rows([table[:, 0], table[:, 1]])
    expected, counts = np.unique(table, axis=0, return_counts=True)
    assert_allclose(found.rows, expected)
    assert found.counts.tolist() == counts.tolist()
    assert_allclose(found.sums(), table.sum(axis=0))


def test_fewer_resamples_are_drawn_by_default_only_where_many_rows_are_distinct() -> None:
    few = DistinctRows(np.zeros((2, 1)), np.array([1_000_000, 1]))
    many = DistinctRows(np.zeros((40_000, 1)), np.ones(40_000, dtype=np.int64))
    huge = DistinctRows(np.zeros((1_000_000, 1)), np.ones(1_000_000, dtype=np.int64))
    assert [default_resamples(table) for table in (few, many, huge)] == [RESAMPLES, 5_000, 1_000]


def test_a_figure_keeps_its_resamples_whatever_else_is_aggregated() -> None:
    assert generator(0, "acc").random() == generator(0, "acc").random()
    assert generator(0, "acc").random() != generator(0, "acc_norm").random()


def test_no_resample_is_an_error() -> None:
    with pytest.raises(ValueError, match="resamples"):
        resample_sums(distinct_rows([np.ones(3)]), 0, generator(0, ""))
