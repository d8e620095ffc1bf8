"""Stores other than a plain dict, a file each. Operations ask no value and no collection what it stands on.

A collection on such a store is an instance of a subclass of its class, made once by :func:`on_store`, in which the
methods that the store answers itself come first. So ``Sample.lazy_stack(...)`` is a ``Sample``, and an operation on a
plain dict pays nothing for the other stores. What a store does not answer runs over its items, and gives a plain dict.
"""

from .classes import on_store
from .sub import SubTensorDict

__all__ = ["SubTensorDict", "on_store"]
