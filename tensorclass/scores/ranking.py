"""Ranks with intervals, and letters of groups that cannot be told apart, from tests of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["RankInterval", "compact_letters", "rank_intervals"]

_LETTERS = ascii_lowercase + ascii_uppercase


@dataclass(frozen=True)
class RankInterval:
    """The rank of a model, and the ranks that it may have.

    Attributes:
        rank: 1 for the best. Models with the same figure have the same rank.
        low: the best rank that the tests leave possible: one more than the models that are better by test.
        high: the worst rank, likewise: the number of models, less those that are worse by test.

    Example:
        >>> from tensorclass.scores import RankInterval
        >>> print(RankInterval(2, 1, 3))
        2 [1, 3]
    """

    rank: int
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.rank} [{self.low}, {self.high}]"


def rank_intervals(values: ArrayLike, ahead: ArrayLike) -> list[RankInterval]:
    """Rank models, with intervals that follow from tests of all pairs.

    If no true order of two models is reversed by the tests with probability ``confidence`` (as with Holm's
    correction), then all intervals hold the true ranks at once with that probability.

    Source: Mogstad, Romano, Shaikh and Wilhelm, 2024, "Inference for ranks with applications to mobility across
    neighbourhoods and academic achievement across countries", Review of Economic Studies 91:476-518.

    Args:
        values: ``[models]``, the figure of each model, the largest best; NaN is the last.
        ahead: bool ``[models, models]``: ``ahead[i, j]`` says that ``i`` is better than ``j`` by test.

    Returns:
        The rank of each model, in the given order.

    Example:
        >>> ahead = [[False, False, True], [False, False, False], [False, False, False]]
        >>> [str(one) for one in rank_intervals([0.9, 0.8, 0.7], ahead)]
        ['1 [1, 2]', '2 [1, 3]', '3 [2, 3]']
    """
    figures, better = np.asarray(values, dtype=np.float64), np.asarray(ahead, dtype=np.bool_)
    figures = np.where(np.isnan(figures), -np.inf, figures)
    count = len(figures)
    return [
        RankInterval(
            rank=1 + int((figures > figures[place]).sum()),
            low=1 + int(better[:, place].sum()),
            high=count - int(better[place].sum()),
        )
        for place in range(count)
    ]


def compact_letters(different: ArrayLike) -> list[str]:
    """Letters for the groups of models that cannot be told apart: two models share a letter unless they differ.

    The first model is in group ``a``. The algorithm starts with one group of all, splits a group at each pair that
    differs, and drops groups that another one contains ("insert and absorb").

    Source: Piepho, 2004, "An algorithm for a letter-based representation of all-pairwise comparisons", Journal of
    Computational and Graphical Statistics 13:456-466.

    Args:
        different: bool ``[models, models]``, symmetric: whether the two models differ by test.

    Returns:
        The letters of each model, in the given order.

    Raises:
        ValueError: the matrix is not square, or not symmetric.

    Example:
        >>> compact_letters([[False, False, True], [False, False, False], [True, False, False]])
        ['a', 'ab', 'b']
    """
    differ = np.asarray(different, dtype=np.bool_)
    if differ.ndim != 2 or differ.shape[0] != differ.shape[1]:
        raise ValueError(f"different: expected a square matrix, got shape {list(differ.shape)}")
    if not np.array_equal(differ, np.transpose(differ)):
        raise ValueError("different: expected a symmetric matrix: a differs from b if b differs from a")
    groups = [frozenset(range(len(differ)))]
    for first, second in zip(*np.nonzero(np.triu(differ, 1)), strict=True):
        pair = {int(first), int(second)}
        kept = [group for group in groups if not pair <= group]
        parts = dict.fromkeys(group - {one} for group in groups if pair <= group for one in sorted(pair))
        # Only parts can be within another group: the others were among the largest before.
        groups = kept + [one for one in parts if not any(one < other for other in (*kept, *parts)) and one not in kept]
    groups.sort(key=sorted)
    return [
        "".join(_letter(number) for number, group in enumerate(groups) if place in group)
        for place in range(len(differ))
    ]


def _letter(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else f"({number + 1})"
