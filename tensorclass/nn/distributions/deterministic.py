"""One value that represents a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch import distributions as torch_distributions
from torch.distributions import Distribution
from torch.nn import functional


def _mode(distribution: Any) -> Tensor:
    mode: Tensor = distribution.mode
    return mode


def _likelier_end(distribution: Any) -> Tensor:
    """Return the likelier of 0 and 1, for a relaxed Bernoulli variable."""
    probs: Tensor = distribution.probs
    return (probs > 0.5).to(probs.dtype)


def _likeliest_corner(distribution: Any) -> Tensor:
    """Return the most probable category as a one-hot vector, for relaxed categories."""
    logits: Tensor = distribution.logits
    return functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)


def _transformed_mean(distribution: Any) -> Tensor:
    """Transform the mean of the underlying normal distribution, for a logistic normal one."""
    value: Tensor = distribution.base_dist.mean
    for transform in distribution.transforms:
        value = transform(value)
    return value


def _of_base(distribution: Any) -> Any:
    return deterministic_sample(distribution.base_dist)


#: distributions of torch that are not represented by their mean
_FORMULAS: dict[type[Distribution], Callable[[Any], Any]] = {
    torch_distributions.Bernoulli: _mode,
    torch_distributions.Binomial: _mode,
    torch_distributions.Categorical: _mode,
    torch_distributions.OneHotCategorical: _mode,
    torch_distributions.OneHotCategoricalStraightThrough: _mode,
    torch_distributions.RelaxedBernoulli: _likelier_end,
    torch_distributions.RelaxedOneHotCategorical: _likeliest_corner,
    torch_distributions.LogisticNormal: _transformed_mean,
    torch_distributions.Independent: _of_base,
}


def deterministic_sample(distribution: Distribution) -> Any:
    """Return one value of the support that represents the distribution.

    That is its own ``deterministic_sample`` if it has one; the most probable value for Bernoulli, binomial and
    categorical distributions, also relaxed ones; and the mean for all others.

    Args:
        distribution: the distribution.

    Raises:
        NotImplementedError: there is no formula for the mean.

    Example:
        >>> import torch
        >>> from tensorclass.nn.distributions import deterministic_sample
        >>> deterministic_sample(torch.distributions.Categorical(probs=torch.tensor([0.2, 0.8])))
        tensor(1)
        >>> deterministic_sample(torch.distributions.Normal(3.0, 1.0))
        tensor(3.)
    """
    own = getattr(distribution, "deterministic_sample", None)
    if own is not None:
        return own
    for kind in type(distribution).__mro__:
        formula = _FORMULAS.get(kind)
        if formula is not None:
            return formula(distribution)
    return distribution.mean
