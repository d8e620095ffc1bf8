"""Private names of ``tensordict.nn`` that clients import."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from tensorclass.nn.distributions.truncated_normal import TruncatedNormal
from tensorclass.nn.interaction import InteractionType
from tensorclass.nn.interaction import interaction_type as current_interaction_type
from tensorclass.nn.probabilistic import ProbabilisticTensorDictModule
from tensorclass.nn.probabilistic_sequence import ProbabilisticTensorDictSequential
from tensorclass.nn.randomness import drawing_from
from tensorclass.nn.skipping import set_skip_existing
from tensorclass.td.base import TensorCollection
from tensorclass.td.modes import FlagSetting, Mode

__all__ = [
    "TruncatedStandardNormal",
    "_dispatch_td_nn_modules",
    "_set_dispatch_td_nn_modules",
    "_set_skip_existing_None",
    "_use_generator",
    "set_tensor",
]

_DISPATCH: Mode[bool | None] = Mode("dispatch_td_nn_modules", True)


class _set_dispatch_td_nn_modules(FlagSetting):
    """Choose what :func:`_dispatch_td_nn_modules` answers.

    Clients use it to leave out the work of ``@dispatch`` where they call modules with collections. That work is one
    check of a type here, so ``@dispatch`` itself does not ask.
    """

    _mode: ClassVar[Mode[bool | None]] = _DISPATCH


def _dispatch_td_nn_modules() -> bool:
    """Return what :class:`_set_dispatch_td_nn_modules` has set; ``True`` by default."""
    return bool(_DISPATCH.current())


class _set_skip_existing_None(set_skip_existing):
    """Let the blocks around a call choose whether a method is skipped: ``set_skip_existing(None)`` as a decorator."""

    def __init__(self) -> None:
        super().__init__(None)


def _use_generator(generator: torch.Generator | None) -> AbstractContextManager[None]:
    """Draw the random numbers of the block from a generator; from torch's own if it is ``None``."""
    return contextlib.nullcontext() if generator is None else drawing_from(generator)


def set_tensor(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Set a parameter, a buffer or another attribute of a module to a tensor, without making it a parameter."""
    for registered in (module._parameters, module._buffers):
        if name in registered:
            entries: dict[str, Any] = registered
            entries[name] = tensor
            return
    object.__setattr__(module, name, tensor)


class TruncatedStandardNormal(TruncatedNormal):
    """The normal distribution of mean 0 and standard deviation 1 on the interval from ``a`` to ``b``."""

    def __init__(self, a: Tensor | float, b: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(torch.zeros(()), torch.ones(()), a, b, validate_args=validate_args)


# -- private methods of modules ---------------------------------------------------------------------------------------


def _resolve_generator(
    self: ProbabilisticTensorDictModule, tensordict: TensorCollection
) -> tuple[torch.Generator | None, Callable[[torch.Generator], None] | None]:
    """Return the generator for a call, and the function to call with it after the draw. See ``Randomness.resolved``."""
    source = self._randomness
    return (None, None) if source is None else source.resolved(tensordict, self._device_of(tensordict))


def _dist_sample(
    self: Any,
    dist: Distribution,
    interaction_type: InteractionType | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Any:
    """Return a sample or a statistic of a distribution, as the mode says; that of a sequence is its last module's."""
    module: ProbabilisticTensorDictModule = (
        self._drawing()[-1] if isinstance(self, ProbabilisticTensorDictSequential) else self
    )
    with _use_generator(generator):
        return module._value(dist, interaction_type or current_interaction_type() or module.default_interaction_type)


#: class, name and function of each
METHODS: Final[list[tuple[type, str, Callable[..., Any]]]] = [
    (ProbabilisticTensorDictModule, "_resolve_generator", _resolve_generator),
    (ProbabilisticTensorDictModule, "_dist_sample", _dist_sample),
    (ProbabilisticTensorDictSequential, "_dist_sample", _dist_sample),
]
