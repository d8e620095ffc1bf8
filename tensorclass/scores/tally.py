"""Contributions of prompts to a figure, and how they are pooled: sums above and below a line, or rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.bootstrap import WeightedFigure

__all__ = ["Sample", "Tally"]


@dataclass(frozen=True, eq=False)
class Tally:
    """The contributions of each prompt to one figure.

    Attributes:
        name: the figure's name, unique in a record.
        numerator: ``[prompts]``, float64.
        denominator: ``[prompts]``, float64, at least 0: how many units (prompts, instructions, samples) it counts.
        unit: ``"%"`` for a fraction 0..1, which is shown in percent; any other text is shown after the figure.
        cluster: ``[prompts]``, int64, a number for the cluster of each prompt, the same for prompts that are not
            independent of each other; None if each prompt stands for itself.
        missing: ``[prompts]``, float64, how many verdicts of each prompt should be there and are not; None if all are.

    Example:
        >>> import numpy as np
        >>> from tensorclass.scores import Tally
        >>> tally = Tally("accuracy", numerator=np.array([1.0, 0.0]), denominator=np.array([1.0, 1.0]))
        >>> float(tally.numerator.sum() / tally.denominator.sum())
        0.5
    """

    name: str
    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64]
    unit: str = "%"
    cluster: NDArray[np.int64] | None = None
    missing: NDArray[np.float64] | None = None

    @property
    def prompts(self) -> int:
        """The number of prompts that count.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Tally
            >>> Tally("accuracy", np.array([1.0, 0.0]), np.array([1.0, 0.0])).prompts
            1
        """
        return int((self.denominator > 0).sum())

    @property
    def lacks(self) -> NDArray[np.bool_]:
        """``[prompts]``, whether all verdicts of a prompt are missing.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Tally
            >>> Tally("accuracy", np.zeros(2), np.array([1.0, 0.0]), missing=np.array([0.0, 1.0])).lacks.tolist()
            [False, True]
        """
        none = np.zeros(len(self.denominator)) if self.missing is None else self.missing
        found: NDArray[np.bool_] = (self.denominator <= 0) & (none > 0)
        return found

    @property
    def missed(self) -> int:
        """The number of verdicts that are missing.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Tally
            >>> Tally("accuracy", np.zeros(2), np.array([1.0, 0.0]), missing=np.array([0.0, 1.0])).missed
            1
        """
        return 0 if self.missing is None else int(self.missing.sum())

    def at(self, positions: NDArray[np.int64]) -> Tally:
        """Return the tally of some prompts.

        Args:
            positions: ``[n]``, the positions of the prompts, in the order of the result.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Tally
            >>> Tally("accuracy", np.array([1.0, 0.0]), np.ones(2)).at(np.array([1])).numerator.tolist()
            [0.0]
        """
        cluster = None if self.cluster is None else self.cluster[positions]
        missing = None if self.missing is None else self.missing[positions]
        return Tally(self.name, self.numerator[positions], self.denominator[positions], self.unit, cluster, missing)

    def pooled(self, place: NDArray[np.int64]) -> Tally:
        """Sum contributions that belong together; their cluster is that of the first.

        Args:
            place: ``[prompts]``, the position of each contribution in the result: 0, 1, ... without gaps.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Tally
            >>> Tally("accuracy", np.array([1.0, 0.0, 1.0]), np.ones(3)).pooled(np.array([1, 0, 1])).numerator.tolist()
            [0.0, 2.0]
        """
        # Sorted by value, so that sums don't depend on the order of the rows.
        order = np.lexsort((self.denominator, self.numerator, place))
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        numerator, denominator = (np.add.reduceat(side[order], starts) for side in (self.numerator, self.denominator))
        missing = None if self.missing is None else np.add.reduceat(self.missing[order], starts)
        cluster = None if self.cluster is None else self.cluster[order][starts]
        return Tally(self.name, numerator, denominator, self.unit, cluster, missing)

    def by_cluster(self) -> Tally:
        """Return the contributions of each cluster: those that vary independently.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Tally
            >>> tally = Tally("accuracy", np.array([1.0, 0.0, 1.0]), np.ones(3), cluster=np.array([7, 7, 3]))
            >>> tally.by_cluster().numerator.tolist()
            [1.0, 1.0]
        """
        if self.cluster is None or not len(self.cluster):
            return self
        found = self.pooled(np.unique(self.cluster, return_inverse=True)[1])
        return Tally(self.name, found.numerator, found.denominator, self.unit)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a figure that is no ratio of two sums. A prompt has a row for each of its values that count.

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
        about: what a reader should know of the figure, such as the number of its bins.
    """

    name: str
    figure: WeightedFigure
    columns: tuple[NDArray[np.float64], ...]
    prompt: NDArray[np.int64]
    prompts: int
    unit: str = "%"
    cluster: NDArray[np.int64] | None = None
    biased: bool = False
    fewest: Callable[[float], int] = lambda confidence: 2
    about: str = ""

    @property
    def held(self) -> int:
        """The number of prompts that have a row."""
        return len(np.unique(self.prompt))

    @property
    def lacks(self) -> NDArray[np.bool_]:
        """``[prompts]``, whether a prompt has no row."""
        found = np.ones(self.prompts, dtype=np.bool_)
        found[self.prompt] = False
        return found

    @property
    def missed(self) -> int:
        """The number of prompts that have no row."""
        return self.prompts - self.held

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
