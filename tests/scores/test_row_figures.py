from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tensorclass.scores.row_figures import (
    auroc,
    expected_calibration_error,
    macro_f1,
    matthews,
    perplexity,
    quantile,
)

FIGURES: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "macro_f1": macro_f1,
    "matthews": matthews,
    "auroc": lambda one, other, weights: auroc(one, (other > 1).astype(float), weights),
    "ece": lambda one, other, weights: expected_calibration_error(one / 4, (other > 1) * 1.0, weights, bins=3),
    "perplexity": lambda one, other, weights: perplexity(-one, other + 1, weights),
    "quantile": lambda one, other, weights: quantile(one + other, weights, share=0.3),
}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_weight_counts_a_row_so_often(figure: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 4, (2, 30)) * 1.0
    weights = rng.integers(0, 4, (50, 30)) * 1.0
    found = figure(one, other, weights)
    assert found.shape == (50,)
    for own, value in zip(weights, found, strict=True):
        rows = np.repeat(np.arange(30), own.astype(int))
        assert value == pytest.approx(float(figure(one[rows], other[rows], np.ones(len(rows)))), rel=1e-12)


def test_macro_f1_is_the_mean_of_the_f1_of_classes() -> None:
    predicted, target = np.random.default_rng(1).integers(0, 4, (2, 60)) * 1.0
    each = []
    for one in range(4):
        right = ((predicted == one) & (target == one)).sum()
        precision, recall = right / (predicted == one).sum(), right / (target == one).sum()
        each.append(2 * precision * recall / (precision + recall))
    assert float(macro_f1(predicted, target, np.ones(60))) == pytest.approx(np.mean(each))
    assert float(macro_f1(np.array([2.0]), np.array([3.0]), np.ones(1))) == 0.0


def test_matthews_correlation_of_two_classes_is_a_correlation() -> None:
    predicted, target = np.random.default_rng(2).integers(0, 2, (2, 60)) * 1.0
    assert float(matthews(predicted, target, np.ones(60))) == pytest.approx(np.corrcoef(predicted, target)[0, 1])
    assert float(matthews(target, target, np.ones(60))) == pytest.approx(1.0)
    assert float(matthews(np.ones(60), target, np.ones(60))) == 0.0


def test_matthews_correlation_of_several_classes_is_that_of_gorodkin() -> None:
    predicted, target = np.random.default_rng(3).integers(0, 3, (2, 60))
    # The covariance of indicator columns, over that of each with itself.
    x, y = np.eye(3)[predicted], np.eye(3)[target]

    def covariance(a: np.ndarray, b: np.ndarray) -> float:
        return float(((a - a.mean(0)) * (b - b.mean(0))).sum())

    expected = covariance(x, y) / np.sqrt(covariance(x, x) * covariance(y, y))
    assert float(matthews(predicted * 1.0, target * 1.0, np.ones(60))) == pytest.approx(expected)


def test_auroc_is_the_statistic_of_mann_and_whitney() -> None:
    rng = np.random.default_rng(4)
    score, positive = rng.integers(0, 8, 50) / 8, rng.integers(0, 2, 50)
    ranked = stats.mannwhitneyu(score[positive == 1], score[positive == 0]).statistic
    pairs = positive.sum() * (1 - positive).sum()
    assert float(auroc(score, positive * 1.0, np.ones(50))) == pytest.approx(ranked / pairs)
    assert np.isnan(auroc(score, np.ones(50), np.ones(50)))


def test_calibration_error_is_the_mean_gap_of_bins() -> None:
    rng = np.random.default_rng(5)
    confidence, correct = rng.random(200), rng.integers(0, 2, 200)
    expected = 0.0
    for first in range(10):
        held = (confidence > first / 10) & (confidence <= (first + 1) / 10)
        expected += held.mean() * abs(confidence[held].mean() - correct[held].mean())
    found = expected_calibration_error(confidence, correct * 1.0, np.ones(200), bins=10)
    assert float(found) == pytest.approx(expected)
    assert float(expected_calibration_error(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.ones(2), bins=10)) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", [1, 2, 10, 31])
def test_quantiles_are_those_of_numpy(share: float, count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    assert float(quantile(values, np.ones(count), share=share)) == pytest.approx(np.quantile(values, share))
