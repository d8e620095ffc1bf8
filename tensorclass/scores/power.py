"""Power: which differences so many prompts and repeats can show, and how many are needed for a given one.

The differences are paired: both runs answer the same prompts. All sizes are for a two-sided test of no difference, at
the level 0.05, that shows the difference with a chance of 0.8, if nothing else is said.

Source: Miller, 2024, "Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations", arXiv
2411.00640, section 5; with seeds as a level of their own, Brennan, 2001, "Generalizability Theory", chapter 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorclass.scores.estimate import Difference

__all__ = ["PairedDesign", "detectable_difference"]


def detectable_difference(stderr: float, *, power: float = 0.8, level: float = 0.05) -> float:
    """Compute the smallest true difference that a test shows with a given chance, from the difference's standard error.

    Args:
        stderr: the standard error of the difference.
        power: the chance that a true difference of this size is significant, above half the level.
        level: the level of the two-sided test.

    Returns:
        The difference, in the unit of ``stderr``: at the defaults, 2.80 standard errors.

    Raises:
        ValueError: a ``power`` or a ``level`` that is no chance.

    Example:
        >>> from tensorclass.scores import detectable_difference
        >>> f"{detectable_difference(0.01):.4f}"
        '0.0280'
    """
    if not 0 < level < 1:
        raise ValueError(f"level: expected a fraction between 0 and 1 (0.05 for 5 %), got {level}")
    if not level / 2 < power < 1:
        raise ValueError(f"power: expected a fraction above level / 2 = {level / 2:g} and below 1, got {power}")
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * stderr


@dataclass(frozen=True)
class PairedDesign:
    """The spread of a paired difference, from which the size of an evaluation follows.

    Attributes:
        between: the variance over prompts of the difference between the runs' expected scores.
        within: the variance of repeats of one prompt, summed over both runs: 0 where repeats agree.
        seeds: the variance over seeds of a run's expected figure, summed over both runs; prompts don't lessen it.

    Raises:
        ValueError: a variance below 0.

    Example:
        >>> from tensorclass.scores import PairedDesign
        >>> design = PairedDesign(between=0.05, within=0.2)
        >>> f"{design.stderr(1000):.4f}, with ten repeats {design.stderr(1000, repeats=10):.4f}"
        '0.0158, with ten repeats 0.0084'
        >>> design.prompts_needed(0.03), design.prompts_needed(0.03, repeats=10)
        (2181, 611)
        >>> design.repeats_needed(0.03, prompts=1000)
        4
    """

    between: float
    within: float = 0.0
    seeds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("between", "within", "seeds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: expected a variance of at least 0, got {getattr(self, name)}")

    @classmethod
    def of_rates(cls, rate_a: float, rate_b: float | None = None, *, correlation: float = 0.0) -> PairedDesign:
        """Return the design of two runs with one verdict of 0 or 1 a prompt, before there are any.

        Args:
            rate_a: the share of prompts that the first run has right.
            rate_b: that of the second; by default the same.
            correlation: of the runs' verdicts on a prompt. 0, the default, is on the safe side: similar models tend to
                fail on the same prompts, with correlations of 0.3 to 0.7 (Miller, 2024).

        Raises:
            ValueError: a rate outside of 0 to 1, or a correlation outside of -1 to 1.

        Example:
            >>> from tensorclass.scores import PairedDesign
            >>> PairedDesign.of_rates(0.5).prompts_needed(0.05)
            1570
            >>> PairedDesign.of_rates(0.5, correlation=0.5).prompts_needed(0.05)
            785
        """
        rate_b = rate_a if rate_b is None else rate_b
        for name, rate in (("rate_a", rate_a), ("rate_b", rate_b)):
            if not 0 <= rate <= 1:
                raise ValueError(f"{name}: expected a fraction from 0 to 1, got {rate}")
        if not -1 <= correlation <= 1:
            raise ValueError(f"correlation: expected a number from -1 to 1, got {correlation}")
        variance_a, variance_b = rate_a * (1 - rate_a), rate_b * (1 - rate_b)
        return cls(max(variance_a + variance_b - 2 * correlation * sqrt(variance_a * variance_b), 0.0))

    @classmethod
    def of_difference(cls, difference: Difference) -> PairedDesign:
        """Return the design of a comparison that was made: its spread over prompts, whatever it comes from.

        Repeats that were pooled within their prompts are taken as part of the design.

        Args:
            difference: of two runs, as :func:`~tensorclass.scores.compare` gives it.

        Raises:
            ValueError: a difference without a standard error.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, PairedDesign, compare
            >>> a, b = (ExactMatchScoreData(torch.tensor(v), batch_size=[4]) for v in ([1.0, 0, 0, 1], [1.0, 1, 0, 1]))
            >>> PairedDesign.of_difference(compare(a, b)["exact_match"])
            PairedDesign(between=0.25, within=0.0, seeds=0.0)
        """
        stderr = float(difference.stderr)
        if stderr != stderr:
            raise ValueError("difference: expected a standard error, got NaN; fewer than two prompts count")
        return cls(stderr**2 * int(difference.prompts))

    def stderr(self, prompts: int, repeats: int = 1) -> float:
        """Return the standard error of the difference.

        Args:
            prompts: the number of prompts.
            repeats: the number of repeats of each prompt in each run.

        Example:
            >>> from tensorclass.scores import PairedDesign
            >>> PairedDesign(between=0.25).stderr(100)
            0.05
        """
        for name, count in (("prompts", prompts), ("repeats", repeats)):
            if count < 1:
                raise ValueError(f"{name}: expected at least 1, got {count}")
        return sqrt((self.between + self.within / repeats) / prompts + self.seeds / repeats)

    def detectable(self, prompts: int, repeats: int = 1, *, power: float = 0.8, level: float = 0.05) -> float:
        """Return the smallest difference that so many prompts and repeats show; see :func:`detectable_difference`.

        Args:
            prompts: the number of prompts.
            repeats: the number of repeats of each prompt in each run.
            power: the chance to show it.
            level: the level of the two-sided test.

        Example:
            >>> from tensorclass.scores import PairedDesign
            >>> f"{PairedDesign.of_rates(0.5).detectable(1000):.4f}"
            '0.0626'
        """
        return detectable_difference(self.stderr(prompts, repeats), power=power, level=level)

    def prompts_needed(
        self, difference: float, repeats: int = 1, *, power: float = 0.8, level: float = 0.05
    ) -> int | None:
        """Return the number of prompts that show a difference; None if no number does, since seeds vary too much.

        Args:
            difference: the true difference, not 0.
            repeats: the number of repeats of each prompt in each run.
            power: the chance to show it.
            level: the level of the two-sided test.

        Example:
            >>> from tensorclass.scores import PairedDesign
            >>> PairedDesign(between=0.2).prompts_needed(0.02)
            3925
            >>> PairedDesign(between=0.2, seeds=0.01).prompts_needed(0.02) is None
            True
        """
        left = self._variance(difference, power, level) - self.seeds / repeats
        return _at_least((self.between + self.within / repeats) / left) if left > 0 else None

    def repeats_needed(self, difference: float, prompts: int, *, power: float = 0.8, level: float = 0.05) -> int | None:
        """Return the number of repeats (seeds) that show a difference on so many prompts; None if no number does.

        Args:
            difference: the true difference, not 0.
            prompts: the number of prompts.
            power: the chance to show it.
            level: the level of the two-sided test.

        Example:
            >>> from tensorclass.scores import PairedDesign
            >>> PairedDesign(between=0.05, within=0.2).repeats_needed(0.01, prompts=1000) is None
            True
        """
        left = self._variance(difference, power, level) - self.between / prompts
        return _at_least((self.within / prompts + self.seeds) / left) if left > 0 else None

    def _variance(self, difference: float, power: float, level: float) -> float:
        """The variance at which the difference is just shown."""
        if difference == 0 or difference != difference:
            raise ValueError(f"difference: expected a difference other than 0, got {difference}")
        return (difference / detectable_difference(1.0, power=power, level=level)) ** 2


def _at_least(needed: float) -> int:
    return max(1, ceil(needed * (1 - 1e-12)))
