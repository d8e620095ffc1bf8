"""Whether the tensors of a collection lie in files or in one buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .collection import Collection
from .memory.consolidated_buffer import flat_of
from .memory.mapped_tensor import MemoryMappedTensor


class Storing(Collection):
    """``is_memmap`` and ``is_consolidated``."""

    __slots__ = ()

    def is_memmap(self) -> bool:
        """Return whether all tensors are memory-mapped and the keys are locked, so that none can be replaced."""
        leaves = list(self._leaves())
        return self._lock is not None and bool(leaves) and all(type(leaf) is MemoryMappedTensor for leaf in leaves)

    def is_consolidated(self) -> bool:
        """Return whether all tensors lie one after the other in one buffer, which holds hardly anything else."""
        return flat_of(self._leaves()) is not None

    if TYPE_CHECKING:

        def _leaves(self) -> Any: ...
