from __future__ import annotations

import numpy as np
import pytest

from tensorclass.scores.intervals import Sums, interval_of_ratio
from tensorclass.scores.paired import paired_difference
from tensorclass.scores.stratified import PairedTask, average_difference, average_interval


def verdicts(right: int, of: int) -> Sums:
    return Sums((np.arange(of) < right).astype(float), np.ones(of))


def test_the_average_of_one_task_is_the_task() -> None:
    one = Sums(np.array([1.0, 2.0, 0.0, 3.0]), np.array([2.0, 2.0, 1.0, 3.0]))
    for share in (True, False):
        expected = interval_of_ratio(*one, share=share)
        found = average_interval([one], [1.0], share=share)
        assert found.method == expected.method
        assert found[:3] == pytest.approx(expected[:3])
        assert found.stderr == pytest.approx(expected.stderr)


@pytest.mark.parametrize("share", [True, False])
def test_the_difference_of_averages_of_one_task_is_that_of_the_task(share: bool) -> None:
    a, b = verdicts(11, 20), Sums((np.arange(20) > 3).astype(float), np.ones(20))
    found = average_difference([PairedTask(a, b)], [1.0], share=share)
    expected = paired_difference(*a, *b, share=share)
    assert found[:6] == pytest.approx(expected[:6])
    assert found[6:11] == expected[6:11]
    assert found.stderr == pytest.approx(expected.stderr)


def test_the_standard_error_is_that_of_independent_means() -> None:
    tasks = [verdicts(9, 20), verdicts(12, 20)]
    found = average_interval(tasks, [0.5, 0.5])
    expected = np.hypot(*(one.above.std(ddof=1) / np.sqrt(20) for one in tasks)) / 2
    assert found.value == pytest.approx(0.525)
    assert found.stderr == pytest.approx(expected)


def test_what_differs_between_tasks_is_no_uncertainty() -> None:
    apart = average_interval([verdicts(2, 100), verdicts(98, 100)], [0.5, 0.5])
    alike = average_interval([verdicts(50, 100), verdicts(50, 100)], [0.5, 0.5])
    assert apart.high - apart.low < 0.5 * (alike.high - alike.low)


def test_many_tasks_do_not_add_prompts_for_each() -> None:
    tasks = [verdicts(95, 100)] * 50
    found = average_interval(tasks, [1 / 50] * 50)
    pooled = interval_of_ratio(np.concatenate([one.above for one in tasks]), np.ones(5000))
    assert found[:3] == pytest.approx(pooled[:3], abs=2e-4)


def test_a_task_with_one_prompt_counts_with_the_largest_variance() -> None:
    wide = average_interval([verdicts(90, 100), verdicts(1, 1)], [0.5, 0.5])
    assert wide.high - wide.low > 0.5
    assert average_interval([verdicts(90, 100), verdicts(1, 1)], [0.5, 0.5], share=False).reason.startswith("a single")


def test_a_task_that_counts_nothing_leaves_no_average() -> None:
    nothing = Sums(np.zeros(3), np.zeros(3))
    assert average_interval([verdicts(1, 2), nothing], [0.5, 0.5]).reason == "nothing was counted"
    paired = average_difference([PairedTask(verdicts(1, 3), nothing)], [1.0])
    assert np.isnan(paired.p_value)
    assert paired.reason == "nothing was counted"


@pytest.mark.parametrize("sizes, rates", [((30, 60, 100), (0.8, 0.5, 0.3)), ((20,) * 12, (0.9, 0.8, 0.7) * 4)])
def test_intervals_of_averages_cover_as_often_as_they_say(sizes: tuple[int, ...], rates: tuple[float, ...]) -> None:
    generator, trials, weights = np.random.default_rng(5), 800, [1 / len(sizes)] * len(sizes)
    covered = covered_difference = 0
    for _ in range(trials):
        a, b = (
            [
                Sums((generator.random(size) < rate).astype(float), np.ones(size))
                for size, rate in zip(sizes, rates, strict=True)
            ]
            for _ in range(2)
        )
        found = average_interval(a, weights)
        covered += found.low <= np.mean(rates) <= found.high
        pairs = [PairedTask(*pair) for pair in zip(a, b, strict=True)]
        difference = average_difference(pairs, weights, resamples=1)
        covered_difference += difference.low <= 0 <= difference.high
    assert 0.93 <= covered / trials <= 0.975
    assert 0.93 <= covered_difference / trials <= 0.975
