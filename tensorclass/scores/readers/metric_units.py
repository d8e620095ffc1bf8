"""Units of metrics that a log names and doesn't describe."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.limits import ROUNDING

__all__ = ["is_named_as_share", "unit_of"]

_SHARES: Final = re.compile(
    r"(acc|exact_match|em|f1|precision|recall|pass|mrr|hit|success|correct)([_@\d].*)?|.*_(acc|em|f1)"
)
_NUMBERS: Final = re.compile(
    r"(wb_score|bleu|rouge|chrf|ter|mae|mse|rmse|mcc|perplexity|bits_per|likelihood|brier|wer|cer).*"
)


def is_named_as_share(name: str) -> bool:
    """Return whether the name is one of a metric that is a fraction from 0 to 1: any other value is an error.

    Example:
        >>> is_named_as_share("pass@1"), is_named_as_share("bleu")
        (True, False)
    """
    return _SHARES.fullmatch(name) is not None


def unit_of(name: str, values: NDArray[np.floating[Any]]) -> str:
    """The unit of a metric: ``"%"`` for a share, none for another number.

    Names such as ``acc`` are shares, and names such as ``bleu`` none. Under another name, it is a share if all values
    are fractions from 0 to 1.

    Args:
        name: the metric.
        values: NaN where not scored.

    Example:
        >>> unit_of("bleu", np.array([0.5])), unit_of("quality", np.array([0.5])), unit_of("quality", np.array([3.0]))
        ('', '%', '')
    """
    if is_named_as_share(name):
        return "%"
    is_number = _NUMBERS.fullmatch(name) is not None or ((values < -ROUNDING) | (values > 1 + ROUNDING)).any()
    return "" if is_number else "%"
