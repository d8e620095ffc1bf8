"""Stubs (``.pyi``) made from the text of modules, without importing them.

``names`` knows what the names of a module stand for, ``inference`` the type of an expression where the text shows it,
``statements`` turns a module's statements into those of its stub, ``classes`` and ``functions`` do that for theirs, and
``writing`` prints the result. ``modules`` finds the modules that a user names and ``command`` is ``tensorclass stubs``.
"""

from .module_stub import Syntax, stub
from .module_paths import Module

__all__ = ["Module", "Syntax", "stub"]
