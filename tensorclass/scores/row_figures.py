"""Figures of weighted rows that are no ratio of two sums: classification, ranking, calibration, quantiles.

Each takes columns, ``[rows]``, and weights, ``[..., rows]``, and returns ``[...]``; a weight of 2 counts a row twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "auroc",
    "expected_calibration_error",
    "macro_f1",
    "matthews",
    "multilabel_macro_f1",
    "perplexity",
    "quantile",
    "weighted_f1",
]

_Numbers = NDArray[np.float64]


def macro_f1(predicted: _Numbers, target: _Numbers, weights: _Numbers) -> _Numbers:
    """The mean over classes of F1; the classes are those that are predicted or expected at least once.

    Source: Sokolova and Lapalme, 2009, "A systematic analysis of performance measures for classification tasks",
    Information Processing & Management 45:427-437; the mean of the F1 of classes, as scikit-learn has it.

    Example:
        >>> macro_f1(np.array([0.0, 1, 1]), np.array([0.0, 0, 1]), np.ones(3)).round(4)
        np.float64(0.6667)
    """
    right, guessed, expected = _confusion(predicted, target, weights)
    both = guessed + expected
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Numbers = np.where(both > 0, 2 * right / both, 0.0).sum(-1) / (both > 0).sum(-1)
    return found


def weighted_f1(predicted: _Numbers, target: _Numbers, weights: _Numbers) -> _Numbers:
    """The mean over classes of F1, each weighted by how often it is expected.

    Source: see :func:`macro_f1`; the weighted mean of the F1 of classes, as scikit-learn has it.

    Example:
        >>> weighted_f1(np.array([0.0, 1, 1]), np.array([0.0, 0, 1]), np.ones(3))
        np.float64(0.6666666666666666)
    """
    right, guessed, expected = _confusion(predicted, target, weights)
    both = guessed + expected
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Numbers = (expected * np.where(both > 0, 2 * right / both, 0.0)).sum(-1) / expected.sum(-1)
    return found


def multilabel_macro_f1(predicted: _Numbers, target: _Numbers, label: _Numbers, weights: _Numbers) -> _Numbers:
    """The mean of F1 over labels, of rows that say of one label whether it is predicted and whether it is expected.

    Source: see :func:`macro_f1`; labels that are neither predicted nor expected in any row are left out.

    Example:
        >>> label = np.array([0.0, 1, 0, 1])
        >>> multilabel_macro_f1(np.array([1.0, 0, 1, 1]), np.array([1.0, 1, 0, 1]), label, np.ones(4)).round(4)
        np.float64(0.6667)
    """
    scores: list[_Numbers] = []
    for one in np.unique(label):
        of_label = label == one
        own = weights[..., of_label]
        right, both = own @ (predicted * target)[of_label], own @ (predicted + target)[of_label]
        with np.errstate(invalid="ignore", divide="ignore"):
            scores.append(np.where(both > 0, 2 * right / both, np.nan))
    every = np.array(scores)
    some = ~np.isnan(every)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Numbers = np.where(some, every, 0.0).sum(0) / some.sum(0)
    return found


def matthews(predicted: _Numbers, target: _Numbers, weights: _Numbers) -> _Numbers:
    """Matthews' correlation coefficient of predicted and expected classes, two or more; 0 where either has only one.

    Source: Gorodkin, 2004, "Comparing two K-category assignments by a K-category correlation coefficient",
    Computational Biology and Chemistry 28:367-374; for two classes, Matthews, 1975.

    Example:
        >>> matthews(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0]), np.ones(4)).round(4)
        np.float64(0.5774)
    """
    right, guessed, expected = _confusion(predicted, target, weights)
    total = weights.sum(-1)
    covariance = right.sum(-1) * total - (guessed * expected).sum(-1)
    spread = (total**2 - (guessed**2).sum(-1)) * (total**2 - (expected**2).sum(-1))
    some = spread > 1e-9 * total**4
    found: _Numbers = np.where(some, covariance / np.sqrt(np.where(some, spread, 1.0)), 0.0)
    return np.where(total > 0, found, np.nan)


def auroc(score: _Numbers, positive: _Numbers, weights: _Numbers) -> _Numbers:
    """The chance that a positive row has a higher score than a negative one, ties counted half; NaN without both.

    Source: Hanley and McNeil, 1982, "The meaning and use of the area under a receiver operating characteristic (ROC)
    curve", Radiology 143:29-36.

    Example:
        >>> auroc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0.0, 0, 1, 1]), np.ones(4))
        np.float64(0.875)
    """
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    is_positive = positive[order] > 0.5
    ordered = weights[..., order]
    above = np.add.reduceat(np.where(is_positive, ordered, 0.0), starts, axis=-1)
    below = np.add.reduceat(np.where(is_positive, 0.0, ordered), starts, axis=-1)
    passed = np.cumsum(below, axis=-1) - below / 2
    pairs = above.sum(-1) * below.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Numbers = (above * passed).sum(-1) / np.where(pairs > 0, pairs, np.nan)
    return found


def expected_calibration_error(confidence: _Numbers, correct: _Numbers, weights: _Numbers, *, bins: int) -> _Numbers:
    """The mean distance of confidence and accuracy over bins of equal width, weighted by their rows.

    Source: Guo et al., 2017, "On Calibration of Modern Neural Networks", arXiv 1706.04599, equation 3.

    Example:
        >>> expected_calibration_error(np.array([0.95, 0.95, 0.55]), np.array([1.0, 0, 1]), np.ones(3), bins=10).round(
        ...     4
        ... )
        np.float64(0.45)
    """
    place = np.minimum(
        np.maximum(np.ceil(confidence * bins).astype(np.int64) - 1, 0), bins - 1
    )  # bins are open at the left
    held = (place[:, None] == np.unique(place)).astype(np.float64)
    gaps = np.abs(weights @ (held * (confidence - correct)[:, None]))
    total = weights.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Numbers = gaps.sum(-1) / total
    return found


def perplexity(log_likelihood: _Numbers, units: _Numbers, weights: _Numbers) -> _Numbers:
    """The exponential of the mean negative log-likelihood of a unit (token, word, byte); logarithms are natural.

    Example:
        >>> perplexity(np.array([-2.0, -4.0]), np.array([1.0, 2.0]), np.ones(2)).round(4)
        np.float64(7.3891)
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        found: _Numbers = np.exp(-(weights @ log_likelihood) / (weights @ units))
    return found


def quantile(values: _Numbers, weights: _Numbers, *, share: float) -> _Numbers:
    """A quantile of values with whole weights, interpolated between the two nearest as numpy does by default.

    Source: Hyndman and Fan, 1996, "Sample quantiles in statistical packages", The American Statistician 50:361-365,
    definition 7.

    Example:
        >>> quantile(np.array([1.0, 2.0, 10.0]), np.array([1.0, 2.0, 1.0]), share=0.5)
        array(2.)
    """
    order = np.argsort(values, kind="stable")
    sorted_values, held = values[order], np.cumsum(weights[..., order], axis=-1)
    total = held[..., -1]
    place = np.maximum(total - 1, 0) * share
    first = np.floor(place + 1e-9)

    def at(position: _Numbers) -> _Numbers:
        found = (held <= position[..., None] + 0.5).sum(-1)
        values_there: _Numbers = sorted_values[np.minimum(found, len(sorted_values) - 1)]
        return values_there

    low, high = at(first), at(np.minimum(first + 1, np.maximum(total - 1, 0)))
    return np.where(total > 0, low + (place - first) * (high - low), np.nan)


def _confusion(predicted: _Numbers, target: _Numbers, weights: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers]:
    """By class, the weights of rows that are right, that are predicted so and that are expected so."""
    classes = np.unique(np.concatenate([predicted, target]))
    guessed, expected = ((labels[:, None] == classes).astype(np.float64) for labels in (predicted, target))
    return weights @ (guessed * expected), weights @ guessed, weights @ expected
