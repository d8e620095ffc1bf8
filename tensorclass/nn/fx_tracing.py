"""Modules as opaque calls in ``torch.fx.symbolic_trace``."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.fx import Proxy

from tensorclass.support.printable import type_name


def as_call(module: nn.Module, *args: Any) -> Proxy:
    """Record the call of a module as one node of the graph.

    Args:
        module: the module that is called.
        *args: its arguments; the first one is a proxy.

    Raises:
        ValueError: the module is itself the root of the trace.
    """
    tracer: Any = args[0].tracer
    path = tracer.path_of_module(module)
    if not path:
        raise ValueError(
            f"{type_name(module)}: it is traced as one call, inside of another module such as a sequence; by "
            "itself it has no graph"
        )
    call: Proxy = tracer.create_proxy("call_module", path, args, {})
    return call
