"""The memory of a collection: whether it is memory-mapped or consolidated, and its move to shared memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import Self

from .collection import Collection
from .hidden_members import with_members
from .locking import set_locks
from .memory.consolidated_buffer import flat_of, parts_of
from .memory.mapped_tensor import MemoryMappedTensor
from .memory.shared_memory import check_shareable, share


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
        leaves = list(self._leaves_and_buffers())
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
        return flat_of(self._leaves_and_buffers()) is not None


class Sharing(Collection):
    """``share_memory_``."""

    __slots__ = ()

    def share_memory_(self) -> Self:
        """Move the tensors to shared memory, in place, and lock the collection.

        It is not copied when it is sent to another process through a queue or pipe of ``torch.multiprocessing``: each
        process sees what the other writes in place. Each process has its own non-tensor data. Tensors in memory-mapped
        files are shared already; tensors on the device ``meta`` have no memory.

        Returns:
            This collection.

        Raises:
            RuntimeError: a memory-mapped file is read-only; or the system has too little shared memory, which is a
                ``NoSharedMemory`` of :mod:`tensorclass.distributed`. Nothing is changed, unless another process took
                memory meanwhile that was free before: then some tensors are in shared memory, with their values.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.zeros(3)}, [3]).share_memory_()
            >>> data.is_shared(), data.is_locked
            (True, True)
        """
        nodes: list[Any] = self._all_nodes()
        for node in nodes:
            node._compact_in_place()
        leaves = [leaf for leaf in self._leaves_and_buffers() if not leaf.is_meta]
        check_shareable(leaves)
        locks = [node._lock for node in nodes]
        with_members(self).lock_()  # type: ignore[attr-defined]
        try:
            for leaf in leaves:
                share(leaf)
        except BaseException:
            set_locks(nodes, locks)
            raise
        return self
