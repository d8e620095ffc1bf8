"""Modules that ``fully_shard`` of ``torch.distributed.fsdp`` has made of others, and that give collections.

Such a module must know when gradients come, to gather its parameters and to reduce their gradients. It asks the
tensors of its result for that, and looks for them in dicts, lists, tuples and dataclasses alone: in a collection it
would find none, and train nothing without a word.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from tensorclass.td.base import TensorCollection


def look_into_results(cls: type[nn.Module]) -> None:
    """Lets a class find the tensors in a collection where it is one that ``fully_shard`` makes."""
    if any(base.__name__ == "FSDPModule" and base.__module__.startswith("torch.distributed") for base in cls.__mro__):
        call: Any = _call
        cls.__call__ = call  # type: ignore[method-assign]


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    result: Any = nn.Module.__call__(self, *args, **kwargs)
    if isinstance(result, TensorCollection):
        self._get_fsdp_state()._register_pre_backward_hook([*result._leaves()])
    return result
