"""``fully_shard`` of ``torch.distributed.fsdp`` on modules that return collections.

A sharded module gathers its parameters and reduces their gradients when gradients arrive. It registers hooks for that
on the tensors of its result, which it looks for in dicts, lists, tuples and dataclasses only. In a collection it would
find none, and silently train nothing.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from tensorclass.td.base import TensorCollection


def look_into_results(cls: type[nn.Module]) -> None:
    """Register the hooks on the tensors of collections, if ``cls`` is a class that ``fully_shard`` made."""
    if any(base.__name__ == "FSDPModule" and base.__module__.startswith("torch.distributed") for base in cls.__mro__):
        call: Any = _call
        cls.__call__ = call  # type: ignore[method-assign]


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    result: Any = nn.Module.__call__(self, *args, **kwargs)
    if isinstance(result, TensorCollection):
        self._get_fsdp_state()._register_pre_backward_hook([*result._leaves()])
    return result
