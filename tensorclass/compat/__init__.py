"""Beside PyTorch's ``tensordict``: its collections as those of this package, its modules on records, and back."""

from .bridge import BridgedModule

__all__ = ["BridgedModule"]
