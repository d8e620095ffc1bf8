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


def _sides(distribution: Any) -> Tensor:
    """0 or 1, for a relaxed Bernoulli variable: the side of 0.5 that has more probability."""
    probs: Tensor = distribution.probs
    return (probs > 0.5).to(probs.dtype)


def _corners(distribution: Any) -> Tensor:
    """The most probable category, for relaxed categories."""
    logits: Tensor = distribution.logits
    return functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)


def _transformed(distribution: Any) -> Tensor:
    """What the transforms make of the middle of the normal distribution that a logistic normal one comes from."""
    value: Tensor = distribution.base_dist.mean
    for transform in distribution.transforms:
        value = transform(value)
    return value


def _of_base(distribution: Any) -> Any:
    return deterministic_sample(distribution.base_dist)


#: distributions of torch for which the mean is not the value to take
_FORMULAS: dict[type[Distribution], Callable[[Any], Any]] = {
    torch_distributions.Bernoulli: _mode,
    torch_distributions.Binomial: _mode,
    torch_distributions.Categorical: _mode,
    torch_distributions.OneHotCategorical: _mode,
    torch_distributions.OneHotCategoricalStraightThrough: _mode,
    torch_distributions.RelaxedBernoulli: _sides,
    torch_distributions.RelaxedOneHotCategorical: _corners,
    torch_distributions.LogisticNormal: _transformed,
    torch_distributions.Independent: _of_base,
}


def deterministic_sample(distribution: Distribution) -> Any:
    """One value of the support that represents the distribution.

    It is the distribution's own ``deterministic_sample`` where it has one; the most probable value of Bernoulli
    and binomial variables and of categories, also of relaxed ones; the mean of all others.

    >>> import torch
    >>> deterministic_sample(torch_distributions.Categorical(probs=torch.tensor([0.2, 0.8])))
    tensor(1)
    >>> deterministic_sample(torch_distributions.Normal(3.0, 1.0))
    tensor(3.)

    Raises:
        NotImplementedError: there is no formula for the mean.
    """
    own = getattr(distribution, "deterministic_sample", None)
    if own is not None:
        return own
    for kind in type(distribution).__mro__:
        formula = _FORMULAS.get(kind)
        if formula is not None:
            return formula(distribution)
    return distribution.mean
