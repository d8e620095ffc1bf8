"""Corrections of p-values for many tests at once."""

from __future__ import annotations

from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["benjamini_hochberg", "holm"]


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values so that the chance of any false finding stays below the level: the step-down method of Holm.

    Valid whatever the dependence of the tests. A test is significant at 5 % among all of them if its adjusted p-value
    is at most 0.05.

    Args:
        p_values: of any shape, 0 to 1; NaN stands for "not tested", stays NaN and doesn't count.

    Returns:
        The adjusted p-values in the same shape, at most 1.

    Raises:
        ValueError: a p-value outside of 0 to 1.

    Example:
        >>> from tensorclass.scores import holm
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]

    Source: Holm, 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
    6:65-70.
    """
    flat, order = _tested(p_values)
    steps = np.arange(len(order), 0, -1)
    adjusted = np.maximum.accumulate(flat[order] * steps)
    return _in_original_order(p_values, order, adjusted)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values so that the expected share of false findings stays below the level.

    Valid for tests that are independent or positively dependent, as those of several runs with one baseline are.
    Finds more than :func:`holm`, and promises less.

    Args:
        p_values: of any shape, 0 to 1; NaN stands for "not tested", stays NaN and doesn't count.

    Returns:
        The adjusted p-values in the same shape, at most 1.

    Raises:
        ValueError: a p-value outside of 0 to 1.

    Example:
        >>> from tensorclass.scores import benjamini_hochberg
        >>> benjamini_hochberg([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.04, 0.04]

    Source: Benjamini and Hochberg, 1995, "Controlling the false discovery rate", JRSS B 57:289-300; dependence:
    Benjamini and Yekutieli, 2001, Annals of Statistics 29:1165-1188.
    """
    flat, order = _tested(p_values)
    steps = len(order) / np.arange(1, len(order) + 1)
    adjusted = np.minimum.accumulate((flat[order] * steps)[::-1])[::-1]
    return _in_original_order(p_values, order, adjusted)


def _tested(p_values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The p-values as a flat array, and the positions of those that were tested, the smallest first."""
    flat = np.asarray(p_values, dtype=np.float64).ravel()
    wrong = (flat < 0) | (flat > 1)
    if wrong.any():
        raise ValueError(f"p_values: expected numbers from 0 to 1, got {flat[wrong][0]:g}")
    tested = np.flatnonzero(~np.isnan(flat))
    return flat, tested[np.argsort(flat[tested], kind="stable")]


def _in_original_order(
    p_values: ArrayLike, order: NDArray[np.int64], adjusted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return adjusted p-values, at most 1, at the positions ``order`` of the given ones, and NaN elsewhere."""
    found = np.full_like(np.asarray(p_values, dtype=np.float64), nan)
    np.put(found, order, np.minimum(adjusted, 1.0))
    return found
