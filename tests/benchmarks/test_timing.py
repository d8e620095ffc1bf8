"""Times in turns."""

import gc

import pytest

from benchmarks.timing import Plan, time_in_rounds, time_in_turns

PLAN = Plan(blocks=2, rounds=3, sample_us=50.0)


def test_the_slower_callable_takes_longer() -> None:
    fast, slow = time_in_turns([lambda: sum(range(10)), lambda: sum(range(5000))], PLAN)
    assert 0 < fast < slow


def test_the_garbage_collector_rests_during_the_samples_only() -> None:
    seen: set[bool] = set()
    time_in_turns([lambda: seen.add(gc.isenabled())], PLAN)
    assert seen == {False}
    assert gc.isenabled()


def test_the_garbage_collector_comes_back_after_a_callable_that_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        time_in_turns([lambda: 1 / 0], PLAN)
    assert gc.isenabled()


def test_rounds_have_one_sample_of_each_callable_in_changing_order() -> None:
    called: list[str] = []
    a, b = time_in_rounds([lambda: called.append("a"), lambda: called.append("b")], 40)
    assert len(a) == len(b) == 40
    assert min(*a, *b) > 0
    rounds = ["".join(called[i : i + 2]) for i in range(20, len(called), 2)]  # behind those that warm up
    assert {*rounds} == {"ab", "ba"}
