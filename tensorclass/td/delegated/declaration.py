"""Declare a method whose work is a function of another package, which is imported on the first call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from torch.compiler import is_dynamo_compiling

F = TypeVar("F", bound=Callable[..., Any])


def _import() -> Any:
    from module import name as function  # type: ignore[import-not-found]

    return function  # pyright: ignore[reportUnknownVariableType]


_IMPORT = _import.__code__  # its names are ("module", "name")


def delegated(module: str, name: str | None = None) -> Callable[[F], F]:
    """Make a method (or function) of a signature and a docstring: calls go to a function of another module.

    The module is imported on the first call, and the function is kept. It takes the same arguments, with the collection
    (or, for a class method, the class) in front. ``tests/td/test_delegated.py`` compares the two signatures.

    ``torch.compile`` traces through the call. So the first import is an import statement, whose names are put into its
    bytecode: dynamo traces statements and no call of ``importlib``. What is imported while it traces is not kept, or
    the guard that dynamo just wrote for the function would fail.

    Args:
        module: the full name of the module.
        name: the name of the function; by default the method's.

    >>> class Numbers(list):
    ...     @delegated("statistics")
    ...     def fmean(self, weights=None) -> float:
    ...         '''Return the mean.'''
    ...         ...
    >>> Numbers([1, 2, 6]).fmean()
    3.0
    """

    def declare(declaration: F) -> F:
        load = FunctionType(_IMPORT.replace(co_names=(module, name or declaration.__name__)), globals())
        target: Callable[..., Any] = declaration

        def load_and_call(*args: Any, **kwargs: Any) -> Any:
            nonlocal target
            function = load()
            if not is_dynamo_compiling():
                target = function
            return function(*args, **kwargs)

        target = load_and_call

        @wraps(declaration)
        def call(*args: Any, **kwargs: Any) -> Any:
            return target(*args, **kwargs)

        call.__delegated__ = (module, name or declaration.__name__)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return declare
