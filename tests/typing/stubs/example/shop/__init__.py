"""A shop."""

from .prices import Price, total
from .data import loaders

__version__ = "1.2"
