"""Collections between processes: torch.distributed.

What is done is in :mod:`tensorclass.distributed`, which is imported when it is called; these methods only name it.
"""

from __future__ import annotations

from .collection import Collection


class Distributing(Collection):
    """``send``, ``recv``, ``all_reduce`` and their kin."""

    __slots__ = ()
