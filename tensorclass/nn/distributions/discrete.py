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
    """Draw a category for each row, as a one-hot vector, by inverse transform sampling.

    Args:
        values: logits or probabilities of shape ``[*, n]``.
        do_softmax: ``values`` are logits; with ``False``, probabilities that sum to 1.

    Returns:
        Integers of the shape of ``values``.

    Example:
        >>> import torch
        >>> from tensorclass.nn import rand_one_hot
        >>> rand_one_hot(torch.tensor([[0.0, 1.0, 0.0]]), do_softmax=False)
        tensor([[0, 1, 0]])

    Source: L. Devroye, Non-Uniform Random Variate Generation, 1986, section III.2.1.
    """
    cumulated = (values.softmax(-1) if do_softmax else values).cumsum(-1)
    total = cumulated[..., -1:]
    drawn = torch.rand_like(total).mul_(total)  # the sum is 1 up to rounding
    index = torch.searchsorted(cumulated, drawn, right=True).clamp_max_(values.shape[-1] - 1)
    return torch.zeros_like(values, dtype=torch.long).scatter_(-1, index, 1)


class OneHotCategorical(torch_distributions.OneHotCategorical):
    """Categories whose samples are one-hot vectors of integers.

    Parameters of shape ``[*, n]`` make ``batch_shape`` ``[*]`` and ``event_shape`` ``[n]``.

    Args:
        logits: unnormalised log-probabilities, of shape ``[*, n]``.
        probs: unnormalised probabilities, instead of ``logits``.
        **kwargs: ``validate_args``, as for all distributions.

    Raises:
        ValueError: both ``logits`` and ``probs`` are given, or neither.

    Example:
        >>> import torch
        >>> from tensorclass.nn import OneHotCategorical
        >>> OneHotCategorical(logits=torch.tensor([0.0, 5.0, 0.0])).mode
        tensor([0, 1, 0])
    """

    num_params: ClassVar[int] = 1

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(probs=probs, logits=logits, **kwargs)

    def expand(self, batch_shape: Size | Sequence[int], _instance: Any = None) -> Self:
        """Return the same distribution for a larger batch, as views of its parameters.

        Args:
            batch_shape: the new batch shape, to which the old one broadcasts.

        Example:
            >>> import torch
            >>> from tensorclass.nn import OneHotCategorical
            >>> OneHotCategorical(logits=torch.zeros(3)).expand([4]).batch_shape
            torch.Size([4])
        """
        base: Any = super()
        new: Self = base.expand(Size(batch_shape), object.__new__(type(self)) if _instance is None else _instance)
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the log-probability of the category at the 1 of each vector.

        Args:
            value: integers, booleans or floats of shape ``[*, n]``.

        Returns:
            A tensor of shape ``[*]``.

        Raises:
            ValueError: a vector is not one-hot, if arguments are validated.

        Example:
            >>> import torch
            >>> from tensorclass.nn import OneHotCategorical
            >>> OneHotCategorical(probs=torch.tensor([0.5, 0.5])).log_prob(torch.tensor([1, 0]))
            tensor(-0.6931)
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
        """The most probable category.

        Example:
            >>> import torch
            >>> from tensorclass.nn import OneHotCategorical
            >>> OneHotCategorical(probs=torch.tensor([0.2, 0.8])).mode
            tensor([0, 1])
        """
        logits: Tensor = self.logits
        return functional.one_hot(logits.argmax(-1), logits.shape[-1])

    @property
    def deterministic_sample(self) -> Tensor:
        """The most probable category.

        Example:
            >>> import torch
            >>> from tensorclass.nn import OneHotCategorical
            >>> OneHotCategorical(probs=torch.tensor([0.2, 0.8])).deterministic_sample
            tensor([0, 1])
        """
        return self.mode

    def sample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Draw categories.

        Args:
            sample_shape: dimensions in front of the batch; none by default.

        Returns:
            Integers of shape ``[*sample_shape, *batch_shape, n]``.

        Example:
            >>> import torch
            >>> from tensorclass.nn import OneHotCategorical
            >>> OneHotCategorical(logits=torch.zeros(3)).sample([4]).sum(-1)
            tensor([1, 1, 1, 1])
        """
        categorical: Any = self._categorical
        index: Tensor = categorical.sample(Size(sample_shape or ())).unsqueeze(-1)
        zeros = torch.zeros(*index.shape[:-1], *self._event_shape, dtype=torch.long, device=index.device)
        return zeros.scatter_(-1, index, 1)

    def rsample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Draw categories, with the gradient of the probabilities (the straight-through estimator).

        Args:
            sample_shape: dimensions in front of the batch; none by default.

        Returns:
            Zeros and ones of shape ``[*sample_shape, *batch_shape, n]``, in the dtype of the probabilities.

        Example:
            >>> import torch
            >>> from tensorclass.nn import OneHotCategorical
            >>> OneHotCategorical(logits=torch.zeros(3)).rsample([4]).shape
            torch.Size([4, 3])

        Source: Y. Bengio, N. Léonard, A. Courville, Estimating or Propagating Gradients Through Stochastic Neurons for
        Conditional Computation, 2013 (arXiv:1308.3432).
        """
        probs: Tensor = self.probs
        return self.sample(sample_shape).to(probs.dtype) + (probs - probs.detach())
