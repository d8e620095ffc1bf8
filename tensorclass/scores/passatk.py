"""pass@k and pass^k: the chance that one of k samples is right, and that all are, estimated from n samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["pass_at_k", "pass_hat_k"]


def pass_at_k(num_samples: ArrayLike, num_correct: ArrayLike, k: int) -> NDArray[np.float64]:
    r"""Compute the unbiased estimate of pass@k for each problem.

    ``1 - C(n - c, k) / C(n, k)``: of all ways to draw k of the n samples, the share that holds at least one of the c
    right ones. Computed as a product of k ratios, which neither overflows nor cancels.

    Args:
        num_samples: n, samples drawn for each problem; whole numbers of any shape.
        num_correct: c, how many of them passed; broadcast against ``num_samples``, ``0 <= c <= n``.
        k: how many samples may be tried, at least 1.

    Returns:
        Fractions 0..1 in the common shape; NaN where ``n < k``, since k samples were never drawn there, and where a
        count is NaN.

    Raises:
        ValueError: ``k < 1``, or a count that is negative, not whole, or more right samples than samples.

    Example:
        >>> from tensorclass.scores import pass_at_k
        >>> pass_at_k([5, 5, 5], [0, 2, 5], k=1).tolist()
        [0.0, 0.4, 1.0]
        >>> pass_at_k(5, 2, k=2).item()  # 1 - 3/10
        0.7

    Source: Chen et al., 2021, "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, equation 1.
    """
    n, c = _counts(num_samples, num_correct, k)
    missed = np.ones(n.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for drawn in range(k):
            missed = missed * np.maximum(n - c - drawn, 0.0) / (n - drawn)
    estimate: NDArray[np.float64] = np.where(n >= k, 1.0 - missed, np.nan)
    estimate[np.isnan(c)] = np.nan
    return estimate


def pass_hat_k(num_samples: ArrayLike, num_correct: ArrayLike, k: int) -> NDArray[np.float64]:
    r"""Compute the unbiased estimate of pass^k for each problem: the chance that k samples are all right.

    ``C(c, k) / C(n, k)``: of all ways to draw k of the n samples, the share in which all are right. It says how
    reliable a model is, where pass@k says what it can do in one of several tries.

    Args:
        num_samples: n, samples drawn for each problem; whole numbers of any shape.
        num_correct: c, how many of them passed; broadcast against ``num_samples``, ``0 <= c <= n``.
        k: how many samples have to be right, at least 1.

    Returns:
        Fractions 0..1 in the common shape; NaN where ``n < k``, since k samples were never drawn there, and where a
        count is NaN.

    Raises:
        ValueError: ``k < 1``, or a count that is negative, not whole, or more right samples than samples.

    Example:
        >>> from tensorclass.scores import pass_hat_k
        >>> pass_hat_k([4, 4, 4], [0, 3, 4], k=2).tolist()
        [0.0, 0.5, 1.0]

    Source: Yao et al., 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains", arXiv
    2406.12045, section 3.
    """
    n, c = _counts(num_samples, num_correct, k)
    right = np.ones(n.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for drawn in range(k):
            right = right * np.maximum(c - drawn, 0.0) / (n - drawn)
    estimate: NDArray[np.float64] = np.where(n >= k, right, np.nan)
    return estimate


def _counts(num_samples: ArrayLike, num_correct: ArrayLike, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if k < 1:
        raise ValueError(f"k: expected a number of samples of at least 1, got {k}")
    n, c = np.broadcast_arrays(np.asarray(num_samples, dtype=np.float64), np.asarray(num_correct, dtype=np.float64))
    for name, counts in (("num_samples", n), ("num_correct", c)):
        _check(name, counts, (counts < 0) | (counts != np.floor(counts)), "whole numbers of at least 0")
    _check("num_correct", c, c > n, "no more right samples than samples (num_correct <= num_samples)")
    return n, c


def _check(name: str, counts: NDArray[np.float64], wrong: NDArray[np.bool_], expected: str) -> None:
    wrong = wrong & ~np.isnan(counts)
    if wrong.any():
        position = tuple(int(place) for place in np.argwhere(wrong)[0])
        place = f" at position {list(position)}" if position else ""
        raise ValueError(f"{name}: expected {expected}, got {counts[position]:g}{place}")
