"""Lazy stacks: collections that are stacked when a key is read."""

from .lazy_base import lazily
from .lazy_stack import LazyStacked, LazyStackedTensorDict, dense_stack_tds, lazy_stack, maybe_dense_stack

__all__ = ["LazyStacked", "LazyStackedTensorDict", "dense_stack_tds", "lazily", "lazy_stack", "maybe_dense_stack"]
