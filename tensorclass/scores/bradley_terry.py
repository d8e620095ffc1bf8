"""Ratings of models from comparisons of two at a time: the model of Bradley and Terry, on the Elo scale.

A model of strength s beats one of strength t with the chance ``1 / (1 + exp(t - s))``; a tie is half a win of each. The
strengths are the maximum likelihood estimates, and none exist where some models never lose to the others (Ford, 1957).

Source: Bradley and Terry, 1952, "Rank Analysis of Incomplete Block Designs: I. The Method of Paired Comparisons",
Biometrika 39:324-345; Ford, 1957, "Solution of a ranking problem from binary comparisons", The American Mathematical
Monthly 64:28-33; the scale: Elo, 1978, "The Rating of Chessplayers"; for language models, Chiang et al., 2024,
"Chatbot Arena", arXiv 2403.04132.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.bootstrap import MemberFigure
from tensorclass.scores.labels import label_number
from tensorclass.scores.limits import check_shares
from tensorclass.scores.metrics import Metric, Rows
from tensorclass.scores.row_metrics import rows_of
from tensorclass.scores.tally import Sample, Tally

__all__ = ["RATING", "BradleyTerry", "strengths", "wins_of"]

_Numbers = NDArray[np.float64]

RATING: Final = "elo"
"""The name of the figure."""

_ELO = 400 / log(10)  # points for a strength of 1
_MEAN = 1000.0  # of the ratings of all models
_STEPS = 100
_LONGEST = 2.0  # a longer step of Newton's method overshoots


@dataclass(frozen=True)
class BradleyTerry(Metric):
    """Ratings of models, declared at the field of the first model of each comparison; a group for each model.

    The ratings have a mean of 1,000, and 400 points more are odds of ten to one. A model that never lost, or never won,
    to the others has no rating.

    Args:
        second: the field of the second model. Both are :func:`~tensorclass.scores.codes` with the same names.
        outcome: the field of outcomes: 1 where the first wins, 0 where the second wins, 0.5 for a tie.
        name: the figure's name.
        scale: ``"elo"``, or ``"win_rate"`` for the expected share of wins against the other models, all alike.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.

    Raises:
        ValueError: another ``scale``.

    Example:
        >>> import torch
        >>> from tensorclass.scores import BattleScoreData
        >>> battles = BattleScoreData(
        ...     torch.tensor([0, 0, 0, 1, 1, 2, 2, 0]),
        ...     torch.tensor([1, 1, 2, 2, 2, 0, 1, 1]),
        ...     torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.5, 0.0]),
        ...     models=("alpha", "beta", "gamma"),
        ...     batch_size=[8],
        ... )
        >>> {name: round(one.value.item()) for name, one in battles.aggregate().groups["elo"].items()}
        {'alpha': 1045, 'beta': 961, 'gamma': 994}
    """

    second: str
    outcome: str
    name: str = RATING
    scale: str = "elo"
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("elo", "win_rate"):
            raise ValueError(f"scale: expected 'elo' or 'win_rate', got {self.scale!r}")

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        return []

    def sample_groups(self, field: str, rows: Rows) -> Mapping[str, Mapping[str, Sample]]:
        coded = rows.codes(field)
        found = rows_of((field, self.second, self.outcome), rows, self.name)
        if coded is None or found is None:
            return {}
        columns = found[0]
        check_shares(self.outcome, columns[2])
        cluster = None if self.cluster is None else rows.clusters(self.cluster)
        held = set(columns[0].tolist()) | set(columns[1].tolist())
        models = {name: label_number(name) for name in coded[1] if label_number(name) in held}
        labels = np.array(list(models.values()))
        unit = "" if self.scale == "elo" else "%"
        computed: dict[Hashable, _Numbers] = {}
        every = partial(self._ratings, labels)
        return {
            self.name: {
                name: Sample(
                    f"{self.name}/{name}", MemberFigure(every, place, self.name, computed), *found, unit, cluster
                )
                for place, name in enumerate(models)
            }
        }

    def _ratings(self, labels: _Numbers, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        found = strengths(wins_of(columns[0], columns[1], columns[2], weights, labels))
        if self.scale == "elo":
            return _MEAN + _ELO * found
        others = len(labels) - 1
        chances = _chance(found[..., :, None] - found[..., None, :]).sum(-1) - 0.5  # without the model itself
        rates: _Numbers = chances / others if others else np.full_like(found, np.nan)
        return rates


def wins_of(first: _Numbers, second: _Numbers, outcome: _Numbers, weights: _Numbers, models: _Numbers) -> _Numbers:
    """Count wins, ties as half a win of each.

    Args:
        first: ``[rows]``, the first model of each comparison, as one of ``models``.
        second: ``[rows]``, the second.
        outcome: ``[rows]``, 1 where the first wins, 0 where the second wins, 0.5 for a tie.
        weights: ``[resamples, rows]``, how often each row counts.
        models: ``[models]``, the number of each.

    Returns:
        ``[resamples, models, models]``, how often the model of the row beat that of the column.

    Example:
        >>> first, second, models = np.array([7.0, 8.0]), np.array([8.0, 7.0]), np.array([7.0, 8.0])
        >>> wins_of(first, second, np.array([1.0, 0.5]), np.ones((1, 2)), models).tolist()
        [[[0.0, 1.5], [0.5, 0.0]]]
    """
    size = len(models)
    order = np.argsort(models)
    one, other = (order[np.searchsorted(models, column, sorter=order)] for column in (first, second))
    cell = np.concatenate([one * size + other, other * size + one])
    share = np.concatenate([outcome, 1 - outcome])
    by_cell = np.argsort(cell, kind="stable")
    held, starts = np.unique(cell[by_cell], return_index=True)
    flat = np.zeros((len(weights), size * size))
    if len(held):
        flat[:, held] = np.add.reduceat(weights[:, by_cell % max(len(first), 1)] * share[by_cell], starts, axis=1)
    wins = np.reshape(flat, (len(weights), size, size))
    return wins * (1 - np.eye(size))  # a model against itself says nothing


def strengths(wins: _Numbers) -> _Numbers:
    """Estimate strengths by maximum likelihood, with Newton's method; their mean is 0.

    Args:
        wins: ``[..., models, models]``, how often the model of the row beat that of the column.

    Returns:
        ``[..., models]``; NaN where no estimates exist.

    Example:
        >>> strengths(np.array([[0.0, 3.0], [1.0, 0.0]])).round(4).tolist()
        [0.5493, -0.5493]
    """
    size = wins.shape[-1]
    exists = _all_reached(wins)
    solvable: _Numbers = np.where(exists[..., None, None], wins, 1.0 - np.eye(size))
    games = solvable + np.swapaxes(solvable, -1, -2)
    found: _Numbers = np.zeros_like(wins[..., 0])
    for _ in range(_STEPS):
        chance = _chance(found[..., :, None] - found[..., None, :])
        slope = (solvable - games * chance).sum(-1)
        curve = -games * chance * (1 - chance)
        # The ones fix the mean, which the comparisons say nothing about.
        whole = curve - np.eye(size) * curve.sum(-1)[..., None] + 1.0
        step: _Numbers = np.asarray(np.linalg.solve(whole, slope[..., None]), dtype=np.float64)[..., 0]
        longest = np.abs(step).max(-1, keepdims=True)
        found = found + step * np.minimum(1.0, _LONGEST / np.maximum(longest, 1e-300))
        if float(longest.max(initial=0.0)) < 1e-10:
            break
    return np.where(exists[..., None], found, np.nan)


def _chance(apart: _Numbers) -> _Numbers:
    found: _Numbers = 1 / (1 + np.exp(-apart))
    return found


def _all_reached(wins: _Numbers) -> NDArray[np.bool_]:
    """Return whether each model is reached from every other one by wins; only then there are estimates."""
    size = wins.shape[-1]
    reached = (wins > 0) | np.eye(size, dtype=np.bool_)
    for _ in range(max(1, int(size).bit_length())):
        reached = (reached.astype(np.float64) @ reached.astype(np.float64)) > 0
    return np.asarray(reached.all(axis=(-1, -2)))
