"""Contributions of prompts to a figure that is a ratio of two sums, and how they are pooled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tally"]


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
        return Tally(self.name, self.numerator[positions], self.denominator[positions], self.unit, cluster)

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
        cluster = None if self.cluster is None else self.cluster[order][starts]
        return Tally(self.name, numerator, denominator, self.unit, cluster)

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
