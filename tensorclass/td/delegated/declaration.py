"""Declare a method whose work is a function of another package, which is imported on the first call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from types import FunctionType
from typing import Any, TypeVar

from tensorclass.support.nearest import did_you_mean
from tensorclass.td.tracing import may_cache

from .familiar_keywords import keyword_advice

F = TypeVar("F", bound=Callable[..., Any])


def _import() -> Any:
    from module import name as function  # type: ignore[import-not-found]

    return function  # pyright: ignore[reportUnknownVariableType]


_IMPORT = _import.__code__  # its names are ("module", "name")


def _check_arguments(declaration: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error that names the method if it does not take these arguments."""
    declared = signature(declaration)
    try:
        declared.bind(*args, **kwargs)
    except TypeError as error:
        keywords = [name for name, one in [*declared.parameters.items()][1:] if one.kind is not one.VAR_KEYWORD]
        unknown = [name for name in kwargs if name not in declared.parameters]
        hint = keyword_advice(unknown, keywords) or did_you_mean(
            unknown, [name for name in keywords if name not in kwargs]
        )
        keys = list(args[1:])
        takes_keys = any(str(one.annotation).startswith("Keys") for one in declared.parameters.values())
        if takes_keys and len(keys) > 1 and all(isinstance(key, str) for key in keys):
            hint = f"; several keys are one list: {declaration.__name__}({keys})"
        if not hint and "positional" in str(error):
            hint = f"; it takes {', '.join(keywords) or 'none'}"
        raise TypeError(f"{declaration.__name__}() {error}{hint}") from None


def delegated(module: str, name: str | None = None) -> Callable[[F], F]:
    """Make a method (or function) of a signature and a docstring: calls go to a function of another module.

    The module is imported on the first call, and the function is kept. It takes the same arguments, with the collection
    (or, for a class method, the class) in front. ``tests/td/delegated/test_declared_methods.py`` compares the two
    signatures.

    The function checks its arguments. Where it raises a TypeError, they are compared with the declaration, so that the
    message names the method.

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
            if may_cache():
                target = function
            return function(*args, **kwargs)

        target = load_and_call

        @wraps(declaration)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return target(*args, **kwargs)
            except TypeError:
                _check_arguments(declaration, args, kwargs)
                raise

        call.__delegated__ = (module, name or declaration.__name__)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return declare
