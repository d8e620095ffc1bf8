"""Differences with p-values and intervals corrected for all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorclass.scores.corrections import benjamini_hochberg, holm
from tensorclass.scores.estimate import Difference
from tensorclass.scores.paired import agreeing_ends, is_significant

__all__ = ["CORRECTIONS", "Corrected", "check_correction", "corrected_differences"]

_Correction: TypeAlias = Callable[[ArrayLike], NDArray[np.float64]]

CORRECTIONS: Final[Mapping[str, _Correction]] = {"holm": holm, "bh": benjamini_hochberg, "none": np.asarray}
"""The corrections of p-values by name."""


class Corrected(NamedTuple):
    """A difference's p-value and interval after a correction.

    Attributes:
        p_value: the corrected p-value.
        low: the lower end of the corrected interval.
        high: its upper end.
    """

    p_value: float
    low: float
    high: float


def check_correction(name: str) -> None:
    """Raise a ValueError if there is no such correction."""
    if name not in CORRECTIONS:
        raise ValueError(f"correction: expected {', '.join(map(repr, CORRECTIONS))}, got {name!r}")


def corrected_differences(
    found: Sequence[Difference], correction: str, confidence: float, wider: Callable[[int, float], Difference]
) -> list[Corrected]:
    """Correct p-values and intervals for all differences together.

    With Holm's method all intervals hold at once (Bonferroni's level), with Benjamini and Hochberg's those of the
    differences that are found (Benjamini and Yekutieli, 2005, "False discovery rate-adjusted multiple confidence
    intervals for selected parameters", JASA 100:71-81). An interval excludes 0 where its corrected p-value is
    significant.

    Args:
        found: the differences.
        correction: ``"holm"``, ``"bh"`` or ``"none"``.
        confidence: the level of the intervals.
        wider: computes a difference, by its position, at another confidence.
    """
    adjusted = CORRECTIONS[correction]([float(one.p_value) for one in found]).tolist()
    share = 1.0
    if correction != "none" and (tests := sum(p_value == p_value for p_value in adjusted)):
        held = sum(is_significant(p_value, confidence) for p_value in adjusted) if correction == "bh" else 1
        share = max(held, 1) / tests
    result: list[Corrected] = []
    for place, (one, p_value) in enumerate(zip(found, adjusted, strict=True)):
        wide = one if share == 1 else wider(place, 1 - share * (1 - confidence))
        ends = agreeing_ends(float(one.value), float(wide.low), float(wide.high), p_value, confidence)
        result.append(Corrected(p_value, *ends))
    return result
