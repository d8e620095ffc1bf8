"""Questions of code that does what torch.compile or a transform of ``torch.func`` cannot trace."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch._C._functorch import is_batchedtensor
from torch.compiler import is_dynamo_compiling

#: whether a tensor is a row of one inside of a vmap
is_batched: Callable[[Tensor], bool] = is_batchedtensor


def kernels_run() -> bool:
    """Return whether kernels run as they are called, so that the faster of two is worth a question.

    Compiled code makes its own, and inside of vmap there are none for lists of tensors.
    """
    return not is_dynamo_compiling() and not _transforms_active()


def knows_addresses() -> bool:
    """Return whether objects may be told apart by ``id``, and tensors by their memory.

    Compiled code must not: a guard on an address fails for the next object.
    """
    return not is_dynamo_compiling()


def sizes_are_known() -> bool:
    """Return whether sizes may be compared where nothing depends on it but an error or the time.

    Compiled code must not: the comparison is a guard, and other sizes are compiled again.
    """
    return not is_dynamo_compiling()


def has_values(tensor: Tensor) -> bool:
    """Return whether numbers can be read: not on meta or of fake tensors, while a program is traced, or in a vmap."""
    return not (is_dynamo_compiling() or tensor.is_meta or is_fake(tensor) or is_batched(tensor))


def is_fake(tensor: Tensor) -> bool:
    """Return whether a tensor stands for one in a traced program."""
    return tensor.__class__ is not Tensor and tensor.__class__.__module__.startswith("torch._subclasses")


def may_cache() -> bool:
    """Return whether a function may keep a result for its next calls.

    Compiled code must not: it guards what it finds in a cache, and is compiled again when that grows.
    """
    return not is_dynamo_compiling()
