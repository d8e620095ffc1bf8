"""Limits of scores: values that no evaluation gives are errors, since every figure that is made of them is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NOT_A_SHARE",
    "ROUNDING",
    "check_counts",
    "check_shares",
    "contradiction",
    "finite_number",
    "is_never_negative",
    "is_on_a_scale",
    "is_share",
]

ROUNDING = 1e-6
"""The rounding error of the mean of a few float32 verdicts that are all 1."""

NOT_A_SHARE = "divide percents by 100; a metric that is no share names its unit: field(metadata=metric(Mean(unit=...)))"
"""The advice for a value that is not a fraction from 0 to 1."""


_NEVER_NEGATIVE = re.compile(
    r"(bleu|rouge|chrf|ter|meteor|mae|mse|rmse|perplexity|brier|wer|cer|tokens|seconds|latency)([\W_\dL].*)?",
    re.IGNORECASE,
)
_ON_A_SCALE = re.compile(r"(bleu|rouge|chrf|meteor)([\W_\dL].*)?", re.IGNORECASE)


def is_never_negative(name: str) -> bool:
    """Return whether the name is one of a metric that is 0 or more, and no share.

    Example:
        >>> is_never_negative("rougeL"), is_never_negative("sacrebleu/bleu"), is_never_negative("reward")
        (True, True, False)
    """
    return _NEVER_NEGATIVE.fullmatch(name.rpartition("/")[2]) is not None


def is_on_a_scale(name: str) -> bool:
    """Return whether the name is one of a metric from 0 to 1, or 0 to 100, and no share.

    Example:
        >>> is_on_a_scale("rougeL"), is_on_a_scale("sacrebleu/bleu"), is_on_a_scale("wer")
        (True, True, False)
    """
    return _ON_A_SCALE.fullmatch(name.rpartition("/")[2]) is not None


def is_share(value: float) -> bool:
    """Return whether a value is a fraction from 0 to 1, up to rounding, or NaN: not scored.

    Example:
        >>> is_share(0.5), is_share(87.5), is_share(-0.1), is_share(float("nan"))
        (True, False, False, True)
    """
    return not (value < -ROUNDING or value > 1 + ROUNDING)


def finite_number(value: object) -> float | None:
    """Return a number of a log as a float; None for verdicts and other values, and for numbers that no float holds.

    Example:
        >>> finite_number(2), finite_number(float("nan")), finite_number(True), finite_number(10**400)
        (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def check_shares(field: str, values: NDArray[np.float64]) -> None:
    """Raise where a value is no share.

    Args:
        field: the field, for the error.
        values: ``[prompts, ...]``; NaN where not scored.

    Raises:
        ValueError: a value outside of 0..1; names the field and the row.
    """
    wrong = (values < -ROUNDING) | (values > 1 + ROUNDING)
    if wrong.any():
        raise ValueError(
            f"{field}: expected fractions from 0 to 1, since it is a share, {_first(values, wrong)}; {NOT_A_SHARE}"
        )


def check_counts(field: str, values: NDArray[np.float64]) -> None:
    """Raise where a count is negative. The arguments are as for :func:`check_shares`."""
    wrong = values < 0
    if wrong.any():
        raise ValueError(f"{field}: expected counts of at least 0, {_first(values, wrong)}; NaN stands for not scored")


def contradiction(every: float, each: Sequence[float]) -> str | None:
    """Compare the verdict on a prompt with the verdicts on its instructions: it is right if all of them are.

    Means of several samples are compared as well: the share that follows all instructions is at most the smallest
    share of an instruction, and at least what remains if no two instructions fail in the same sample.

    Args:
        every: the verdict on the prompt, 0 to 1; NaN where not scored.
        each: the verdicts on its instructions, likewise.

    Returns:
        The expected verdict, in words; None if the verdicts agree.

    Example:
        >>> contradiction(True, [True, True]), contradiction(True, [False, False])
        (None, 'false, since not all instructions are followed')
    """
    if not len(each):
        return None
    least, fewest = min(each), max(0.0, sum(each) - (len(each) - 1))
    if not every > least + ROUNDING and not every < fewest - ROUNDING:
        return None
    if every > least:
        return "false, since not all instructions are followed" if least == 0 else f"at most {least:g}"
    return "true, since all instructions are followed" if fewest == 1 else f"at least {fewest:g}"


def _first(values: NDArray[np.float64], wrong: NDArray[np.bool_]) -> str:
    place = [int(one) for one in np.argwhere(wrong)[0]]
    return f"got {values[tuple(place)]:g} in row {place[0] if len(place) == 1 else place}"
