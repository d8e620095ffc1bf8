from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores.passatk import pass_at_k, pass_hat_k

problems = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(problems)
def test_it_is_the_share_of_draws_that_hold_a_right_sample(problem: tuple[int, int, int]) -> None:
    n, c, k = problem
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k).item() == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_it_is_exact_for_many_samples(problem: tuple[int, int, int]) -> None:
    n, c, k = problem
    assert pass_at_k(n, c, k).item() == pytest.approx(1 - comb(n - c, k) / comb(n, k), abs=1e-12)


def test_it_broadcasts_and_keeps_the_shape() -> None:
    assert pass_at_k([[8], [4]], [0, 1, 2], 1).tolist() == [[0.0, 0.125, 0.25], [0.0, 0.25, 0.5]]


def test_too_few_samples_and_missing_counts_are_nan() -> None:
    assert np.isnan(pass_at_k([4, 5, np.nan], [4, np.nan, 1], 5)).all()


@pytest.mark.parametrize(
    "n, c, k, message",
    [
        (5, 6, 1, "num_correct: expected no more"),
        (5, -1, 1, "num_correct: expected whole"),
        ([5, 2.5], 1, 1, r"num_samples: expected whole numbers of at least 0, got 2.5 at position \[1\]"),
        (5, 1, 0, "k: expected"),
    ],
)
def test_impossible_counts_are_errors(n: object, c: object, k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pass_at_k(n, c, k)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_pass_hat_k_is_the_share_of_draws_that_are_all_right(k: int) -> None:
    for correct in range(6):
        draws = list(combinations([1] * correct + [0] * (5 - correct), k))
        assert pass_hat_k(5, correct, k).item() == pytest.approx(sum(map(all, draws)) / len(draws))


def test_pass_hat_k_is_not_known_from_fewer_samples() -> None:
    assert np.isnan(pass_hat_k(3, 2, k=4))
    assert np.isnan(pass_hat_k(3, np.nan, k=2))
    with pytest.raises(ValueError, match="k: expected a number of samples of at least 1"):
        pass_hat_k(3, 2, k=0)
    with pytest.raises(ValueError, match="no more right samples than samples"):
        pass_hat_k(3, 4, k=1)
