"""Call a module with other parameters than its own."""

from __future__ import annotations

from typing import Any

from torch import nn

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.tensordict import TensorDict


class _FunctionalForward:
    """The ``forward`` of a module, with an additional argument ``params``."""

    def __init__(self, module: nn.Module) -> None:
        self.module: nn.Module = module

    def __call__(self, *args: Any, params: Any = None, **kwargs: Any) -> Any:
        module = self.module
        forward: Any = type(module).forward
        if params is None and len(args) > 1 and _fits_module(args[-1], module):
            *args, params = args  # type: ignore[assignment]
        if params is None:
            return forward(module, *args, **kwargs)
        with params.to_module(module):
            return forward(module, *args, **kwargs)


def _fits_module(value: object, module: nn.Module) -> bool:
    """Return whether a collection holds entries of the module and nothing else."""
    if not isinstance(value, Collection):
        return False
    keys = value._store.keys()
    return bool(keys) and keys <= {*module._parameters, *module._buffers, *module._modules}


def make_functional(module: nn.Module) -> TensorDict:
    """Let a module be called with parameters, ``module(x, params=params)``, and return its own.

    Parameters can also be the last positional argument, after at least one other: ``torch.vmap`` can then map over
    them. A call without parameters uses the module's own. A call with parameters runs inside ``with
    params.to_module(module)``.

    Args:
        module: the module. Its ``forward`` is replaced; its parameters stay.

    Returns:
        The parameters and buffers of the module; they share memory with it.

    Raises:
        TypeError: ``module`` is not an ``nn.Module``.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensorclass.nn import make_functional
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
        >>> params = make_functional(model)
        >>> x = torch.randn(10, 3)
        >>> torch.vmap(model, (None, 0))(x, torch.stack([params, params])).shape
        torch.Size([2, 10, 4])
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"make_functional: expected an nn.Module, got {type_name(module)}")
    if not isinstance(vars(module).get("forward"), _FunctionalForward):
        forward: Any = _FunctionalForward(module)
        module.forward = forward
    return TensorDict.from_module(module)
