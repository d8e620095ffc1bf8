"""Beside PyTorch's ``tensordict``: its collections as ours, and back. In its place: :func:`install`."""

from .bridge import BridgedModule
from .import_hook import install, is_installed, uninstall

__all__ = ["BridgedModule", "install", "is_installed", "uninstall"]
