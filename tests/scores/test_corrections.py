from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from tensorclass.scores import benjamini_hochberg, holm

both = pytest.mark.parametrize("correct, method", [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])


@both
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_adjusted_p_values_are_those_of_statsmodels(
    correct: Callable[..., np.ndarray], method: str, count: int
) -> None:
    p_values = np.random.default_rng(count).beta(0.4, 1.0, count).round(2)  # with ties and zeros
    np.testing.assert_allclose(correct(p_values), multipletests(p_values, method=method)[1], rtol=1e-12)


@both
def test_tests_that_were_not_made_do_not_count(correct: Callable[..., np.ndarray], method: str) -> None:
    found = correct([[0.01, np.nan], [0.04, 0.03]])
    assert found.shape == (2, 2)
    assert np.isnan(found[0, 1])
    np.testing.assert_array_equal(found[[0, 1, 1], [0, 0, 1]], correct([0.01, 0.04, 0.03]))


@both
def test_no_tests_give_no_p_values(correct: Callable[..., np.ndarray], method: str) -> None:
    assert correct([]).shape == (0,)
    assert np.isnan(correct([np.nan])).all()


@both
def test_what_is_no_p_value_is_an_error(correct: Callable[..., np.ndarray], method: str) -> None:
    with pytest.raises(ValueError, match=r"p_values: expected numbers from 0 to 1, got 1\.2"):
        correct([0.5, 1.2])
