"""``implement_for``: one of several implementations of a function, by the version of a module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from torch.torch_version import TorchVersion

__all__ = ["implement_for"]


class implement_for:
    """Decorate implementations of one function: a call runs that for the installed version of a module.

    The implementations have the same name. Of several for the installed version the last one is called.

    Args:
        module_name: of the module whose ``__version__`` decides, or a function that returns the module.
        from_version: the first version that the implementation is for. Default: any.
        to_version: the first version that it is no longer for. Default: none.
        class_method: the function is a class method. Default: ``False``.
        compilable: has no effect: calls can be compiled in any case.
    """

    _chosen: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init__(
        self,
        module_name: str | Callable[[], Any],
        from_version: str | None = None,
        to_version: str | None = None,
        *,
        class_method: bool = False,
        compilable: bool = False,
    ) -> None:
        self._module = module_name
        self._from, self._to = from_version, to_version
        self._class_method = class_method

    def _fits(self) -> bool:
        try:
            module = import_module(self._module) if isinstance(self._module, str) else self._module()
        except ImportError:
            return False
        installed: Any = TorchVersion(module.__version__)
        return (self._from is None or installed >= self._from) and (self._to is None or installed < self._to)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Register an implementation. Return the function that calls the chosen one."""
        name = f"{function.__module__}.{function.__qualname__}"
        if self._fits():
            self._chosen[name] = function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            chosen = self._chosen.get(name)
            if chosen is None:
                raise ModuleNotFoundError(
                    f"{name}: there is no implementation for the installed version of {self._module}; one is for "
                    f"versions from {self._from or 'the first'} to before {self._to or 'any later one'}"
                )
            return chosen(*args, **kwargs)

        return classmethod(call) if self._class_method else call
