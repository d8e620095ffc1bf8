"""Stubs (``.pyi``) made from the text of modules, without importing them.

``public_names`` resolves the names of a module, ``inference`` the type of an expression where the text shows it.
``statements`` turns the statements of a module into those of its stub, ``class_stub`` and ``function_stub`` its classes
and functions, and ``formatting`` prints the result. ``module_paths`` finds the modules that a user names, and
``stubs_command`` is ``tensorclass stubs``.
"""

from .module_paths import Module
from .module_stub import Syntax, stub

__all__ = ["Module", "Syntax", "stub"]
