"""Metrics of a judge's preferences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.length_control import weighted_length_control
from tensorclass.scores.metrics import Rows
from tensorclass.scores.row_metrics import NamedRowMetric
from tensorclass.scores.tally import Sample

__all__ = ["LengthControlledWinRate"]

_Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LengthControlledWinRate(NamedRowMetric):
    """The win rate controlled for length, declared at the field of preferences, 0 to 1.

    Args:
        length_difference: the field with the length of the model's answer less that of the baseline's. There is no
            figure for a record that doesn't hold it.
        difficulty: the field with the difficulties of the prompts; where the record doesn't hold it, the term is left
            out, and the figure has another name.
        name: the figure's name.
        name_without: its name where difficulties are left out: it is not AlpacaEval's figure.
        penalty: the strength of the L2 penalty.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import AlpacaEvalScoreData
        >>> won, longer = torch.tensor([[1, 1, 1, 0, 1, 0, 0, 1], [300, 250, 400, -200, 350, -100, -300, 20]]).float()
        >>> scores = AlpacaEvalScoreData(won, longer, batch_size=[8])
        >>> f"{scores.aggregate()['length_adjusted_win_rate'].value:.3f}"
        '0.583'

    Source: see :func:`~tensorclass.scores.length_controlled_win_rate`.
    """

    length_difference: str
    difficulty: str | None = None
    name: str = "length_controlled_win_rate"
    penalty: float = 1.0
    cluster: str | None = None
    unit: str = "%"
    name_without: str = "length_adjusted_win_rate"

    def fields(self, field: str) -> tuple[str, ...]:
        others = () if self.difficulty is None else (self.difficulty,)
        return (field, self.length_difference, *others)

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return weighted_length_control(columns, weights, penalty=self.penalty)

    def samples(self, field: str, rows: Rows) -> list[Sample]:
        if rows.labels(self.length_difference) is None:
            return []
        if self.difficulty is not None and rows.labels(self.difficulty) is None:
            return replace(self, difficulty=None, name=self.name_without).samples(field, rows)
        return super().samples(field, rows)
