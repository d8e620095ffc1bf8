"""Metrics of right samples out of several: pass@k and pass^k, for several k."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.metrics import Metric, Rows
from tensorclass.scores.passatk import pass_at_k, pass_hat_k
from tensorclass.scores.tally import Tally

__all__ = ["PassAtK", "PassHatK"]


class _PassMetric(Metric):
    """The mean over problems of an estimate from the numbers of samples and of right ones."""

    total: str
    ks: Sequence[int]
    prefix: str

    @abstractmethod
    def _name(self, k: int) -> str: ...

    @abstractmethod
    def _estimate(self, total: NDArray[np.float64], correct: NDArray[np.float64], k: int) -> NDArray[np.float64]: ...

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        correct, total = rows.numbers(field), rows.numbers(self.total)
        if correct is None:
            return []
        if total is None:
            raise ValueError(f"{self.total}: expected the number of samples of each problem, got None")
        tallies: list[Tally] = []
        inner = tuple(range(1, correct.ndim))
        for k in self.ks:
            estimate = self._estimate(total, correct, k)
            counted = ~np.isnan(estimate)
            if counted.any():
                above, below = np.where(counted, estimate, 0.0).sum(inner), counted.sum(inner, dtype=np.float64)
                tallies.append(Tally(f"{self.prefix}{self._name(k)}", above, below))
        return tallies


@dataclass(frozen=True)
class PassAtK(_PassMetric):
    """pass@k of a field of right samples, for several k: the mean over problems of the unbiased estimate.

    A problem with fewer than k samples isn't counted for that k; a k that no problem reaches isn't reported.

    Args:
        total: the field with the number of samples of each problem.
        ks: the k to report.
        prefix: what the names of the figures begin with: ``"plus/"`` for ``plus/pass@1``.

    Example:
        >>> from tensorclass.scores import PassAtK
        >>> PassAtK(total="num_samples", ks=(1, 10)).ks
        (1, 10)

    Source: Chen et al., 2021, arXiv 2107.03374; see :func:`~tensorclass.scores.passatk.pass_at_k`.
    """

    total: str
    ks: Sequence[int] = (1, 5, 10, 25, 50, 100)
    prefix: str = ""

    def _name(self, k: int) -> str:
        return f"pass@{k}"

    def _estimate(self, total: NDArray[np.float64], correct: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        return pass_at_k(total, correct, k)


@dataclass(frozen=True)
class PassHatK(_PassMetric):
    """pass^k of a field of right samples, for several k: the chance that k samples of a problem are all right.

    A problem with fewer than k samples isn't counted for that k; a k that no problem reaches isn't reported.

    Args:
        total: the field with the number of samples of each problem.
        ks: the k to report.
        prefix: what the names of the figures begin with: ``"retail/"`` for ``retail/pass^1``.

    Example:
        >>> import torch
        >>> from tensorclass.scores import PassAtKScoreData, PassHatK
        >>> scores = PassAtKScoreData(torch.tensor([4, 4]), torch.tensor([4, 2]), batch_size=[2])
        >>> report = scores.aggregate(metrics={"num_correct": PassHatK("num_samples")})
        >>> {name: round(one.value.item(), 3) for name, one in report.items()}
        {'pass^1': 0.75, 'pass^2': 0.583, 'pass^4': 0.5}

    Source: Yao et al., 2024, arXiv 2406.12045; see :func:`~tensorclass.scores.pass_hat_k`.
    """

    total: str
    ks: Sequence[int] = (1, 2, 4, 8)
    prefix: str = ""

    def _name(self, k: int) -> str:
        return f"pass^{k}"

    def _estimate(self, total: NDArray[np.float64], correct: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        return pass_hat_k(total, correct, k)
