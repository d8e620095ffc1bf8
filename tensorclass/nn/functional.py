"""Modules that are called with their parameters."""

from __future__ import annotations

from typing import Any

from torch import nn

from tensorclass.td.collection import Collection
from tensorclass.td.tensordict import TensorDict


class _Forward:
    """The ``forward`` of a module that takes parameters too."""

    def __init__(self, module: nn.Module) -> None:
        self.module: nn.Module = module

    def __call__(self, *args: Any, params: Any = None, **kwargs: Any) -> Any:
        module = self.module
        forward: Any = type(module).forward
        if params is None and len(args) > 1 and _is_for(args[-1], module):
            *args, params = args  # type: ignore[assignment]
        if params is None:
            return forward(module, *args, **kwargs)
        with params.to_module(module):
            return forward(module, *args, **kwargs)


def _is_for(value: object, module: nn.Module) -> bool:
    """Whether a collection has values of a module, and no others."""
    if not isinstance(value, Collection):
        return False
    keys = value._store.keys()
    return bool(keys) and keys <= {*module._parameters, *module._buffers, *module._modules}


def make_functional(module: nn.Module) -> TensorDict:
    """Lets a module be called with parameters, ``module(x, params=params)``, and gives those that it has.

    Parameters can also come as the last argument by position, behind another one: then ``torch.vmap`` can go over
    them. In a call without any the module uses its own. A call with parameters is one in the block of
    ``with params.to_module(module)``.

    Args:
        module: an ``nn.Module``; it is changed, and keeps its parameters.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
    >>> params = make_functional(model)
    >>> x = torch.randn(10, 3)
    >>> torch.vmap(model, (None, 0))(x, torch.stack([params, params])).shape
    torch.Size([2, 10, 4])
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"make_functional: expected an nn.Module, got {type(module).__name__}")
    if not isinstance(vars(module).get("forward"), _Forward):
        forward: Any = _Forward(module)
        module.forward = forward
    return TensorDict.from_module(module)
