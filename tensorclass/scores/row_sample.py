"""The rows of a run that a figure is a function of, where it is no ratio of two sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.bootstrap import WeightedFigure

__all__ = ["Sample"]


def _two(confidence: float) -> int:
    return 2


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a figure. A prompt has a row for each of its values that count.

    Attributes:
        name: the figure's name, unique in a record.
        figure: the function of the columns and of weights of the rows.
        columns: ``[rows]`` each, float64, without NaN.
        prompt: ``[rows]``, int64, the position of the prompt of each row.
        prompts: the number of prompts; some may have no row.
        unit: ``"%"`` for a fraction 0..1, which is shown in percent; any other text is shown after the figure.
        cluster: ``[prompts]``, int64, a number for the cluster of each prompt; None if each stands for itself.
        biased: whether the figure lies on average above its truth; see
            :func:`~tensorclass.scores.bootstrap.bootstrap_interval`.
        fewest: the number of prompts (or clusters) that an interval needs, by its level.
    """

    name: str
    figure: WeightedFigure
    columns: tuple[NDArray[np.float64], ...]
    prompt: NDArray[np.int64]
    prompts: int
    unit: str = "%"
    cluster: NDArray[np.int64] | None = None
    biased: bool = False
    fewest: Callable[[float], int] = _two

    @property
    def held(self) -> int:
        """The number of prompts that have a row."""
        return len(np.unique(self.prompt))

    @property
    def unit_of_row(self) -> NDArray[np.int64]:
        """``[rows]``, a number for what varies independently: the prompt of each row, or its cluster."""
        return self.prompt if self.cluster is None else self.cluster[self.prompt]

    @property
    def held_clusters(self) -> int | None:
        """The number of clusters that have a row; None without clusters."""
        return None if self.cluster is None else len(np.unique(self.unit_of_row))

    def at(self, positions: NDArray[np.int64]) -> Sample:
        """Return the rows of the prompts at these positions, each of which comes once, in their order."""
        place = np.full(self.prompts, -1, dtype=np.int64)
        place[positions] = np.arange(len(positions))
        cluster = None if self.cluster is None else self.cluster[positions]
        return self._with(place[self.prompt], len(positions), cluster)

    def pooled(self, place: NDArray[np.int64]) -> Sample:
        """Take prompts with the same place for one prompt.

        Args:
            place: ``[prompts]``, the position of each prompt in the result: 0, 1, ... without gaps.
        """
        first = np.unique(place, return_index=True)[1]
        return self._with(place[self.prompt], len(first), None if self.cluster is None else self.cluster[first])

    def _with(self, prompt: NDArray[np.int64], prompts: int, cluster: NDArray[np.int64] | None) -> Sample:
        kept = prompt >= 0
        columns = tuple(column[kept] for column in self.columns)
        return replace(self, columns=columns, prompt=prompt[kept], prompts=prompts, cluster=cluster)
