"""Categories as one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Size, Tensor
from torch import distributions as torch_distributions
from torch.nn import functional
from typing_extensions import Self


def rand_one_hot(values: Tensor, do_softmax: bool = True) -> Tensor:
    """A random category for each row, as a one-hot vector.

    The category is where the cumulated probability passes a uniform number (inverse transform sampling: L. Devroye,
    Non-Uniform Random Variate Generation, 1986, section III.2.1).

    >>> rand_one_hot(torch.tensor([[0.0, 1.0, 0.0]]), do_softmax=False)
    tensor([[0, 1, 0]])

    Args:
        values: of shape ``[*, n]``: logits, or probabilities.
        do_softmax: they are logits; with ``False``, probabilities that add up to 1.

    Returns:
        integers of the shape of ``values``.
    """
    cumulated = (values.softmax(-1) if do_softmax else values).cumsum(-1)
    total = cumulated[..., -1:]
    drawn = torch.rand_like(total).mul_(total)  # the sum is 1 up to rounding
    index = torch.searchsorted(cumulated, drawn, right=True).clamp_max_(values.shape[-1] - 1)
    return torch.zeros_like(values, dtype=torch.long).scatter_(-1, index, 1)


class OneHotCategorical(torch_distributions.OneHotCategorical):
    """Categories whose samples are one-hot vectors of integers.

    ``batch_shape`` is ``[*]`` and ``event_shape`` is ``[n]`` for parameters of shape ``[*, n]``.

    >>> OneHotCategorical(logits=torch.tensor([0.0, 5.0, 0.0])).mode
    tensor([0, 1, 0])

    Args:
        logits: unnormalised log-probabilities, of shape ``[*, n]``.
        probs: instead of them, probabilities up to a factor.
        kwargs: ``validate_args``, as for all distributions.

    Raises:
        ValueError: both are given, or none.
    """

    num_params: ClassVar[int] = 1

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(probs=probs, logits=logits, **kwargs)

    def expand(self, batch_shape: Size | Sequence[int], _instance: Any = None) -> Self:
        """The same distribution for a larger batch."""
        base: Any = super()
        new: Self = base.expand(Size(batch_shape), object.__new__(type(self)) if _instance is None else _instance)
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of the category that each vector has its 1 at.

        Args:
            value: of shape ``[*, n]``: integers, booleans or numbers.

        Raises:
            ValueError: a vector is not one-hot (where arguments are checked).
        """
        if self._validate_args:
            self._validate_sample(value)
        index = (value if value.dtype is not torch.bool else value.to(torch.uint8)).argmax(-1, keepdim=True)
        logits: Tensor = self.logits
        if logits.shape != value.shape:
            untyped: Any = torch
            shape: Size = untyped.broadcast_shapes(logits.shape, value.shape)
            logits, index = logits.expand(shape), index.expand(*shape[:-1], 1)
        return logits.gather(-1, index).squeeze(-1)

    @property
    def mode(self) -> Tensor:
        """The most probable category."""
        logits: Tensor = self.logits
        return functional.one_hot(logits.argmax(-1), logits.shape[-1])

    @property
    def deterministic_sample(self) -> Tensor:
        """The most probable category."""
        return self.mode

    def sample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Random categories, as integers of shape ``[*sample_shape, *batch_shape, n]``."""
        categorical: Any = self._categorical
        index: Tensor = categorical.sample(Size(sample_shape or ())).unsqueeze(-1)
        zeros = torch.zeros(*index.shape[:-1], *self._event_shape, dtype=torch.long, device=index.device)
        return zeros.scatter_(-1, index, 1)

    def rsample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Random categories, whose gradient is that of the probabilities.

        The straight-through estimator: Y. Bengio, N. Léonard, A. Courville, Estimating or Propagating Gradients
        Through Stochastic Neurons for Conditional Computation, 2013 (arXiv:1308.3432).

        Returns:
            numbers 0 and 1 of shape ``[*sample_shape, *batch_shape, n]``.
        """
        probs: Tensor = self.probs
        return self.sample(sample_shape).to(probs.dtype) + (probs - probs.detach())
