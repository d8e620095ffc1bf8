"""Student's t distribution: quantiles and p-values."""

from __future__ import annotations

from math import atan, exp, lgamma, log, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_confidence", "t_p_value", "t_quantile"]

_Numbers = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_MANY = 200.0  # degrees of freedom from which the series is exact to ten digits


def check_confidence(confidence: float) -> None:
    """Raise unless ``confidence`` lies strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: expected a fraction between 0 and 1 (0.95 for 95 %), got {confidence}")


def t_quantile(freedom: _Numbers | float, confidence: float) -> _Numbers:
    """The two-sided quantile of Student's t: the t that ``|T|`` stays below with probability ``confidence``.

    Newton's method on the distribution function, in the angle ``atan(t / sqrt(freedom))``, from the series in
    1/freedom (Abramowitz and Stegun, 1964, "Handbook of Mathematical Functions", 26.7.3 and 26.7.5), which alone
    serves from 200 degrees of freedom on.

    Args:
        freedom: degrees of freedom, at least 1; whole or not.
        confidence: between 0 and 1.

    Example:
        >>> t_quantile(np.array([2.0, 9.0, 1000.0]), 0.95).round(4).tolist()
        [4.3027, 2.2622, 1.9623]
    """
    check_confidence(confidence)
    every = np.asarray(freedom, dtype=np.float64)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    series = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    found = np.asarray(np.polynomial.polynomial.polyval(1 / every, series), dtype=np.float64)
    few = every < _MANY
    if few.any():
        degrees, place = np.unique(every[few], return_inverse=True)
        found = np.array(found, ndmin=every.ndim)
        found[few] = _t_of_few(degrees, confidence, z)[place]
    return found


def _t_of_few(degrees: _Numbers, confidence: float, z: float) -> _Numbers:
    scale = np.array([lgamma((one + 1) / 2) - lgamma(one / 2) for one in degrees.tolist()])
    scale = 2 * np.exp(scale - log(pi) / 2)
    # The distribution function is concave in the angle: from below the root, Newton's steps only rise to it.
    angle = np.arctan(z / np.sqrt(degrees))
    for _ in range(60):
        within = angle[:, None] * (1 + _NODES) / 2
        reached = scale * angle / 2 * (np.cos(within) ** (degrees[:, None] - 1) @ _WEIGHTS)
        step = (confidence - reached) / (scale * np.cos(angle) ** (degrees - 1))
        angle = np.minimum(angle + step, pi / 2 - 1e-12)
        if np.all(np.abs(step) < 1e-14 + 1e-13 * angle):
            break
    found: _Numbers = np.tan(angle) * np.sqrt(degrees)
    return found


def t_p_value(statistic: float, freedom: float) -> float:
    """The chance that ``|T|`` is at least so large as the statistic is.

    The integral of the density in the angle ``atan(t / sqrt(freedom))``, by Gauss and Legendre's rule.

    Args:
        statistic: the t statistic.
        freedom: degrees of freedom, at least 1; whole or not.

    Example:
        >>> f"{t_p_value(2.2622, 9):.4f}"
        '0.0500'
    """
    angle = atan(abs(statistic) / sqrt(freedom))
    scale = 2 * exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - log(pi) / 2)
    # The tail is integrated, so that small p-values keep their digits, up to where the density has fallen by 1e-16.
    fallen = exp(min(2 * 16 * log(10) / max(freedom - 1, 1e-9), 100.0))
    width = atan(sqrt(fallen * (1 + statistic**2 / freedom) - 1)) - angle
    within = angle + width * (1 + _NODES) / 2
    return min(1.0, scale * width / 2 * float(np.cos(within) ** (freedom - 1) @ _WEIGHTS))
