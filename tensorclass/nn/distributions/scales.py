"""Mappings from real to positive numbers, for scales and other positive parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from tensorclass.support.nearest import did_you_mean

Mapping: TypeAlias = Callable[[Tensor], Tensor]


@overload
def inv_softplus(bias: float) -> float: ...
@overload
def inv_softplus(bias: Tensor) -> Tensor: ...
def inv_softplus(bias: float | Tensor) -> float | Tensor:
    """Return the number whose softplus is ``bias``: ``log(exp(bias) - 1)``.

    It is computed as ``bias + log(1 - exp(-bias))``, which does not overflow for large numbers.

    Args:
        bias: a positive number, or a tensor of any shape. A tensor gives -inf at 0 and nan below, as ``log`` does.

    Raises:
        ValueError: the number is not positive.

    Example:
        >>> from tensorclass.nn import inv_softplus
        >>> round(inv_softplus(1.0), 6)
        0.541325
        >>> inv_softplus(100.0)
        100.0
    """
    if isinstance(bias, Tensor):
        bias = bias if bias.is_floating_point() else bias.to(torch.get_default_dtype())
        return bias + torch.log(-torch.expm1(-bias))
    if not bias > 0:
        raise ValueError(f"inv_softplus: softplus is positive, so there is no number whose softplus is {bias!r}")
    return bias + math.log(-math.expm1(-bias))


class biased_softplus(nn.Module):
    """A softplus that is ``bias`` at 0 and never below ``min_val``.

    ``softplus(x + shift) + min_val``, where ``shift`` makes it ``bias`` at 0. A network whose outputs start around 0
    thus starts with scales around ``bias``.

    Args:
        bias: the value at 0; larger than ``min_val``.
        min_val: the lower bound, approached at minus infinity.

    Raises:
        ValueError: ``bias`` is not larger than ``min_val``.

    Example:
        >>> import torch
        >>> from tensorclass.nn import biased_softplus
        >>> biased_softplus(0.5)(torch.tensor([-100.0, 0.0]))
        tensor([0.0100, 0.5000])
    """

    def __init__(self, bias: float, min_val: float = 0.01) -> None:
        super().__init__()
        if not bias > min_val:
            raise ValueError(f"biased_softplus: the value at 0, {bias!r}, must be larger than min_val, {min_val!r}")
        self.bias: float = inv_softplus(float(bias) - float(min_val))
        self.min_val: float = min_val

    def forward(self, x: Tensor) -> Tensor:
        """Compute ``softplus(x + shift) + min_val`` for each element.

        Args:
            x: a floating-point tensor of any shape.

        Returns:
            A new tensor of the same shape, with values above ``min_val``.

        Example:
            >>> import torch
            >>> from tensorclass.nn import biased_softplus
            >>> biased_softplus(0.5)(torch.zeros(2))
            tensor([0.5000, 0.5000])
        """
        return functional.softplus(x + self.bias) + self.min_val


def expln(x: Tensor) -> Tensor:
    """Compute ``exp(x)`` up to 0 and ``1 + log(1 + x)`` above.

    It is positive, has a continuous derivative and grows slowly.

    Args:
        x: a floating-point tensor of any shape.

    Returns:
        A new tensor of the same shape.

    Example:
        >>> import torch
        >>> from tensorclass.nn.distributions import expln
        >>> expln(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([0.3679, 1.0000, 1.6931])

    Source: T. Rückstieß et al., Exploring Parameter Space in Reinforcement Learning, Paladyn 1 (2010).
    """
    # Each branch gets valid inputs, so that no nan enters the gradient through the other one. It is not clamp that
    # limits them: at the limit itself the gradient of clamp is 1 or 0, as the version of torch has it.
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 0.0).log1p() + 1.0, torch.where(positive, 0.0, x).exp())


def _identity(x: Tensor) -> Tensor:
    return x


_MAPPINGS: dict[str, Mapping] = {
    "softplus": functional.softplus,
    "exp": torch.exp,
    "relu": torch.relu,
    "expln": expln,
    "none": _identity,
}

_BIASED = "biased_softplus"


def mappings(key: str) -> Mapping:
    """Return the mapping called ``key``.

    Args:
        key: ``"softplus"``, ``"exp"``, ``"relu"``, ``"expln"``, ``"none"``, a name given to :func:`add_custom_mapping`;
            or ``"biased_softplus"``, ``"biased_softplus_<bias>"``, ``"biased_softplus_<bias>_<min_val>"`` for a
            :class:`biased_softplus`, with a ``bias`` of 1.0 by default.

    Raises:
        NotImplementedError: no mapping has that name.
        TypeError: ``key`` is not a string.
        ValueError: ``biased_softplus`` is not followed by one or two numbers.

    Example:
        >>> import torch
        >>> from tensorclass.nn import mappings
        >>> mappings("biased_softplus_0.5_0.1")(torch.zeros(()))
        tensor(0.5000)
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
        + did_you_mean(key, (*_MAPPINGS, _BIASED))
    )


def add_custom_mapping(name: str, mapping: Mapping) -> None:
    """Register a mapping for :func:`mappings` and for arguments named ``scale_mapping``. An existing name is replaced.

    Args:
        name: the name.
        mapping: maps a tensor to a tensor of the same shape.

    Raises:
        TypeError: the name is not a string, or the mapping is not callable.

    Example:
        >>> import torch
        >>> from tensorclass.nn import add_custom_mapping, mappings
        >>> add_custom_mapping("square", torch.square)
        >>> mappings("square")(torch.tensor(3.0))
        tensor(9.)
    """
    if not isinstance(name, str) or not callable(mapping):
        raise TypeError(f"add_custom_mapping: expected a name and a callable, got {name!r} and {mapping!r}")
    _MAPPINGS[name] = mapping
