"""Questions of code that does what torch.compile or a transform of ``torch.func`` cannot trace."""

from __future__ import annotations

from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.compiler import is_dynamo_compiling


def kernels_run() -> bool:
    """Return whether one call for a list of tensors runs: there are none inside of vmap, nor for collections traced."""
    return not is_dynamo_compiling() and not _transforms_active()


def knows_addresses() -> bool:
    """Return whether objects may be told apart by ``id``, and tensors by their memory.

    Compiled code must not: a guard on an address fails for the next object.
    """
    return not is_dynamo_compiling()


def may_cache() -> bool:
    """Return whether a function may keep a result for its next calls.

    Compiled code must not: it guards what it finds in a cache, and is compiled again when that grows.
    """
    return not is_dynamo_compiling()
