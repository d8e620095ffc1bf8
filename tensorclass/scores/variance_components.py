"""Shares of variance as a record: how much of it comes from prompts, from repeats and from neither."""

from __future__ import annotations

import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.scores.crossed import CrossedVariance
from tensorclass.scores.power import PairedDesign

__all__ = ["VarianceComponents", "variance_record"]


class VarianceComponents(TensorClass):
    """The variances of one verdict: over prompts, over repeats (seeds) of all prompts, and of the rest.

    The batch dimensions are those of the runs. The rest is what varies from repeat to repeat of a prompt, beyond what
    the repeat shifts all prompts by.

    Attributes:
        prompts: float64, the variance over prompts of their expected verdicts.
        repeats: float64, the variance over repeats of their expected figures.
        rest: float64, the variance that neither explains.
        num_prompts: int64, the prompts (or clusters of them) that count.
        num_repeats: int64, the repeats.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> seeds = torch.tensor([[1.0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [1, 1, 0, 1, 1]])
        >>> found = ExactMatchScoreData(seeds, batch_size=[3, 5]).variance_components(dim=(0, 1))["exact_match"]
        >>> {name: round(share.item(), 2) for name, share in found.shares().items()}
        {'prompts': 0.53, 'repeats': 0.06, 'rest': 0.41}
    """

    prompts: Tensor
    repeats: Tensor
    rest: Tensor
    num_prompts: Tensor
    num_repeats: Tensor

    def shares(self) -> dict[str, Tensor]:
        """Return the share of each in the variance of one verdict; NaN where nothing varies.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData
            >>> seeds = ExactMatchScoreData(torch.tensor([[1.0, 0.0, 1.0]] * 2), batch_size=[2, 3])
            >>> seeds.variance_components(dim=(0, 1))["exact_match"].shares()["prompts"].item()
            1.0
        """
        total = self.prompts + self.repeats + self.rest
        return {name: getattr(self, name) / total for name in ("prompts", "repeats", "rest")}

    def design(self) -> PairedDesign:
        """Return the design of a comparison of two runs that vary like this one, with other verdicts on its prompts.

        That is the safe side: runs that find the same prompts hard differ less from prompt to prompt.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData
            >>> seeds = torch.tensor([[1.0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [1, 1, 0, 1, 1]])
            >>> found = ExactMatchScoreData(seeds, batch_size=[3, 5]).variance_components(dim=(0, 1))["exact_match"]
            >>> found.design().prompts_needed(0.2, repeats=10)
            184
        """
        return PairedDesign(*(2 * float(variance) for variance in (self.prompts, self.rest, self.repeats)))


def variance_record(found: CrossedVariance) -> VarianceComponents:
    """The record of a crossed variance."""
    over_prompts, over_repeats, rest = (torch.tensor(one, dtype=torch.float64) for one in found.components)
    return VarianceComponents(
        over_prompts, over_repeats, rest, torch.tensor(found.prompts), torch.tensor(found.repeats), batch_size=[]
    )
