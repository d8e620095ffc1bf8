"""How collections cross to other processes of this machine: one handle for all tensors.

:mod:`tensorclass.distributed.shared_pickle` does it, and is imported when the first one is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .delegated.engine_functions import reduced

_register: Callable[[type, Callable[[Any], Any]], None] = ForkingPickler.register


def register(cls: type) -> None:
    """Lets the queues, pipes and pools of ``multiprocessing`` send collections of a class by one handle."""
    _register(cls, reduced)


def forget(cls: type) -> None:
    """Let a class go."""
    reducers: dict[type, Any] = getattr(ForkingPickler, "_extra_reducers", {})
    reducers.pop(cls, None)
