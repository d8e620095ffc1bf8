"""Queries for the storage of a collection: memory-mapped files, or one consolidated buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from .collection import Collection
from .memory.consolidated_buffer import flat_of, parts_of
from .memory.mapped_tensor import MemoryMappedTensor


def _is_mapped(leaf: Tensor) -> bool:
    """Return whether a tensor, or all buffers of a jagged one, are memory-mapped."""
    return type(leaf) is MemoryMappedTensor or (
        leaf.is_nested and all(type(part) is MemoryMappedTensor for part in parts_of(leaf))
    )


class Storing(Collection):
    """``is_memmap`` and ``is_consolidated``."""

    __slots__ = ()

    def is_memmap(self) -> bool:
        """Return whether all tensors are memory-mapped and the collection is locked.

        The lock guarantees that no tensor is replaced by one outside the files.

        Returns:
            ``False`` for a collection without tensors.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> data.is_memmap(), data.memmap().is_memmap()
            (False, True)
        """
        leaves = list(self._arrays())
        return self._lock is not None and bool(leaves) and all(map(_is_mapped, leaves))

    def is_consolidated(self) -> bool:
        """Return whether all tensors lie one after the other in one buffer, which holds hardly anything else.

        The memory of the tensors is examined at each call, so the answer does not depend on how they were made. Up to
        64 unused bytes for each tensor are tolerated, for alignment.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2), "b": torch.ones(2)}, [2])
            >>> data.is_consolidated(), data.consolidate().is_consolidated()
            (False, True)
        """
        return flat_of(self._arrays()) is not None

    if TYPE_CHECKING:

        def _leaves(self) -> Any: ...
