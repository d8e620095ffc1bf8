"""Send collections to other processes of this machine through one handle of shared memory for all tensors.

:mod:`tensorclass.distributed.shared_pickle` implements this. It is imported when the first collection is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorclass.support.parent_process import watch_workers

from .delegated.engine_functions import reduced

watch_workers()  # collections fill the pipe to a parent that is gone
_register: Callable[[type, Callable[[Any], Any]], None] = ForkingPickler.register


def register(cls: type) -> None:
    """Make the queues, pipes and pools of ``multiprocessing`` send collections of a class by one handle.

    Args:
        cls: class of the collections. Subclasses are registered separately.
    """
    _register(cls, reduced)


def forget(cls: type) -> None:
    """Undo :func:`register`. Does nothing if the class is not registered."""
    reducers: dict[type, Any] = getattr(ForkingPickler, "_extra_reducers", {})
    reducers.pop(cls, None)
