"""Standard errors against scipy and statsmodels; those of public results are in ``test_public_results.py``."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from scipy import stats

from tensorclass.scores import ExactMatchScoreData, IFEvalScoreData, compare, ragged
from tensorclass.scores.intervals import standard_error


def exact(values: np.ndarray) -> ExactMatchScoreData:
    return ExactMatchScoreData(torch.as_tensor(values), batch_size=[len(values)])


def test_the_standard_error_of_a_mean_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).random(30)
    found = exact(values).aggregate()["exact_match"]
    assert found.stderr.item() == pytest.approx(stats.sem(values), rel=1e-12)


def test_it_is_that_of_lm_evaluation_harness() -> None:
    found = exact(np.repeat([1.0, 0.0], [9, 11])).aggregate()["exact_match"]
    assert f"{found.stderr.item():.5f}" == "0.11413"  # acc 0.45 of 20 documents


def test_instructions_of_a_prompt_stay_together_as_clusters_of_a_regression_do() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 4, 40)
    verdicts = [(rng.random(size) < rng.random()).tolist() for size in sizes]
    scores = IFEvalScoreData(None, ragged(verdicts), None, None, batch_size=[40])
    flat, prompt = np.concatenate(verdicts).astype(float), np.repeat(np.arange(40), sizes)
    fit = sm.OLS(flat, np.ones(len(flat))).fit(cov_type="cluster", cov_kwds={"groups": prompt})
    found = scores.aggregate()["inst_level_strict_acc"]
    assert found.value.item() == pytest.approx(fit.params[0], rel=1e-12)
    assert found.stderr.item() == pytest.approx(fit.bse[0], rel=1e-10)


def test_the_standard_error_of_a_difference_is_that_of_the_paired_differences() -> None:
    a, b = np.random.default_rng(2).random((2, 25)).round(1)
    found = compare(exact(a), exact(b))["exact_match"]
    assert found.stderr.item() == pytest.approx(stats.sem(b - a), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0])
def test_it_is_zero_where_all_prompts_agree(value: float) -> None:
    same = exact(np.full(7, value))
    assert same.aggregate()["exact_match"].stderr.item() == 0.0
    assert compare(same, same)["exact_match"].stderr.item() == 0.0


def test_one_prompt_has_none() -> None:
    one = exact(np.array([1.0]))
    assert one.aggregate()["exact_match"].stderr.isnan()
    assert compare(one, one)["exact_match"].stderr.isnan()
    assert exact(np.array([1.0, np.nan])).aggregate()["exact_match"].stderr.isnan()


def test_prompts_that_count_nothing_are_left_out() -> None:
    above, below = np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0])
    assert standard_error(above, below) == pytest.approx(stats.sem([1.0, 0.0, 0.0]))
    assert standard_error(above[:2], below[:2], counts=np.array([1.0, 2.0])) == pytest.approx(stats.sem([1, 0, 0]))


def test_stacked_runs_have_one_each() -> None:
    values = np.random.default_rng(3).random((2, 12))
    stacked = ExactMatchScoreData(torch.as_tensor(values), batch_size=[2, 12]).aggregate()["exact_match"]
    np.testing.assert_allclose(stacked.stderr.numpy(), stats.sem(values, axis=1), rtol=1e-12)
