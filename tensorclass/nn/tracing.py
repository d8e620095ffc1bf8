"""What ``torch.fx.symbolic_trace`` notes of modules that it cannot look into."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.fx import Proxy


def as_call(module: nn.Module, *args: Any) -> Proxy:
    """The call of a module as one node of the graph; the first argument is a proxy.

    Raises:
        ValueError: the module is what is traced.
    """
    tracer: Any = args[0].tracer
    path = tracer.path_of_module(module)
    if not path:
        raise ValueError(
            f"{type(module).__name__}: it is traced as one call, inside of another module such as a sequence; by "
            "itself it has no graph"
        )
    call: Proxy = tracer.create_proxy("call_module", path, args, {})
    return call
