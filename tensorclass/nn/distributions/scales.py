"""Mappings from the real line to positive numbers, for scales and other parameters that must be positive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

Mapping: TypeAlias = Callable[[Tensor], Tensor]


@overload
def inv_softplus(bias: float) -> float: ...
@overload
def inv_softplus(bias: Tensor) -> Tensor: ...
def inv_softplus(bias: float | Tensor) -> float | Tensor:
    """The number whose softplus is ``bias``: ``log(exp(bias) - 1)``.

    It is computed as ``bias + log(1 - exp(-bias))``, which does not overflow for large numbers.

    >>> round(inv_softplus(1.0), 6)
    0.541325
    >>> inv_softplus(100.0)
    100.0

    Args:
        bias: positive: a number, or a tensor of any shape. A tensor gives -inf at 0 and nan below, as ``log`` does.

    Raises:
        ValueError: the number is not positive.
    """
    if isinstance(bias, Tensor):
        bias = bias if bias.is_floating_point() else bias.to(torch.get_default_dtype())
        return bias + torch.log(-torch.expm1(-bias))
    if not bias > 0:
        raise ValueError(f"inv_softplus: softplus is positive, so there is no number whose softplus is {bias!r}")
    return bias + math.log(-math.expm1(-bias))


class biased_softplus(nn.Module):
    """A softplus that is ``bias`` at 0 and never below ``min_val``.

    ``softplus(x + shift) + min_val``, with the ``shift`` that makes it ``bias`` at 0. A network whose outputs start
    around 0 then starts with scales around ``bias``.

    >>> biased_softplus(0.5)(torch.tensor([-100.0, 0.0]))
    tensor([0.0100, 0.5000])

    Args:
        bias: the value at 0; larger than ``min_val``.
        min_val: the lower bound, which is reached at minus infinity.

    Raises:
        ValueError: ``bias`` is not larger than ``min_val``.
    """

    def __init__(self, bias: float, min_val: float = 0.01) -> None:
        super().__init__()
        if not bias > min_val:
            raise ValueError(f"biased_softplus: the value at 0, {bias!r}, must be larger than min_val, {min_val!r}")
        self.bias: float = inv_softplus(float(bias) - float(min_val))
        self.min_val: float = min_val

    def forward(self, x: Tensor) -> Tensor:
        """``softplus(x + shift) + min_val`` for each element."""
        return functional.softplus(x + self.bias) + self.min_val


def expln(x: Tensor) -> Tensor:
    """``exp(x)`` up to 0 and ``1 + log(1 + x)`` above: positive, smooth to the first derivative, and slow to grow.

    Source: T. Rückstieß et al., Exploring Parameter Space in Reinforcement Learning, Paladyn 1 (2010).
    """
    above = x.clamp_min(0.0)  # each branch gets what it can take, so that no nan comes back from the other one
    return torch.where(x > 0, above.log1p() + 1.0, x.clamp_max(0.0).exp())


def _as_it_is(x: Tensor) -> Tensor:
    return x


_MAPPINGS: dict[str, Mapping] = {
    "softplus": functional.softplus,
    "exp": torch.exp,
    "relu": torch.relu,
    "expln": expln,
    "none": _as_it_is,
}

_BIASED = "biased_softplus"


def mappings(key: str) -> Mapping:
    """The mapping of that name.

    ``"softplus"``, ``"exp"``, ``"relu"``, ``"expln"``, ``"none"``, those of :func:`add_custom_mapping`, and
    ``"biased_softplus"``, ``"biased_softplus_<bias>"`` or ``"biased_softplus_<bias>_<min_val>"`` for a
    :class:`biased_softplus`, whose ``bias`` is 1.0 if nothing is said.

    >>> mappings("biased_softplus_0.5_0.1")(torch.zeros(()))
    tensor(0.5000)

    Raises:
        NotImplementedError: no mapping has that name.
        ValueError: what follows ``biased_softplus`` is not one or two numbers.
    """
    if not isinstance(key, str):
        raise TypeError(f"mappings: expected the name of a mapping, got {key!r}")
    found = _MAPPINGS.get(key)
    if found is not None:
        return found
    name, *numbers = key.rsplit("_", key.count("_") - 1) if key.startswith(_BIASED) else (key,)
    if name == _BIASED:
        try:
            values = [float(number) for number in numbers]
        except ValueError:
            values = []
        if len(values) != len(numbers) or len(values) > 2:
            raise ValueError(
                f"mappings: {_BIASED} takes a bias and a min_val, both numbers, as in 'biased_softplus_1.0_0.01'; "
                f"got {key!r}"
            )
        return biased_softplus(*values or (1.0,))
    raise NotImplementedError(
        f"no mapping is called {key!r}; there are {sorted((*_MAPPINGS, _BIASED))}, and add_custom_mapping adds others"
    )


def add_custom_mapping(name: str, mapping: Mapping) -> None:
    """Gives a mapping a name under which :func:`mappings` and what has a ``scale_mapping`` find it.

    A name that is in use gets the new mapping.

    Args:
        name: what it is called.
        mapping: from a tensor to a tensor of the same shape.

    Raises:
        TypeError: the name is not a string, or the mapping cannot be called.
    """
    if not isinstance(name, str) or not callable(mapping):
        raise TypeError(f"add_custom_mapping: expected a name and a callable, got {name!r} and {mapping!r}")
    _MAPPINGS[name] = mapping
