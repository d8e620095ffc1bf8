"""Stores other than a plain dict, one per file. ``store_protocol.py`` lists what a store must and may answer.

A collection on such a store is an instance of a subclass of its class, made once by :func:`on_store`, in which the
methods that the store answers itself come first. So ``Sample.lazy_stack(...)`` is a ``Sample``, and operations on a
plain dict pay nothing for other stores. Operations that a store does not answer run over its items, and their results
are on a plain dict.
"""

from .store_classes import on_store
from .sub_tensordict import SubTensorDict

__all__ = ["SubTensorDict", "on_store"]
