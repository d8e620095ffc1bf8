"""Functions on collections as modules, and functions on tensors as functions on collections."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from torch import nn

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import NestedKey

from .dispatch import as_outputs
from .module import TensorDictModule
from .module_base import DISCARDED, T, TensorDictModuleBase, as_key_list, names_of


class WrapModule(TensorDictModuleBase):
    """Wrap a function or module from collection to collection as a module that can declare its keys.

    Args:
        func: takes a collection and returns one.
        inplace: write the result into the input, and return the input.
        in_keys: the keys that ``func`` reads, if known.
        out_keys: the keys that ``func`` writes, if known.

    Raises:
        TypeError: ``func`` is not callable.

    Example:
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import WrapModule
        >>> WrapModule(lambda data: data + 1)(TensorDict(a=1))["a"]
        tensor(2)
    """

    func: Callable[..., Any]

    def __init__(
        self,
        func: Callable[[Any], Any],
        *,
        inplace: bool = False,
        in_keys: NestedKey | Sequence[NestedKey] | None = None,
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        given: object = func
        if not callable(given):
            raise TypeError(f"WrapModule: expected a function or a module from collection to collection, got {given!r}")
        self.func = func
        self.inplace: bool = inplace
        self._in_keys = as_key_list([] if in_keys is None else in_keys, "WrapModule: in_keys")
        self._out_keys = as_key_list([] if out_keys is None else out_keys, "WrapModule: out_keys")

    def forward(self, data: Any) -> Any:
        """Call the function on a collection.

        Args:
            data: the collection.

        Returns:
            Its result; with ``inplace`` the input.

        Raises:
            TypeError: with ``inplace``, the result is not a collection.

        Example:
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import WrapModule
            >>> data = TensorDict(a=1)
            >>> WrapModule(lambda data: data + 1, inplace=True)(data) is data, data["a"]
            (True, tensor(2))
        """
        result = self.func(data)
        if not self.inplace or result is data:
            return result
        if not isinstance(result, TensorCollection):
            raise TypeError(
                f"{names_of(self.func)}: with inplace=True it must give a collection, gave a {type_name(result)}"
            )
        data.update(result)
        return data

    def extra_repr(self) -> str:
        """Return the function and the keys, for the repr of the module.

        Example:
            >>> from tensorclass.nn import WrapModule
            >>> def double(data):
            ...     return data * 2
            >>> WrapModule(double, in_keys=["x"], out_keys=["x"]).extra_repr()
            "func=double, in_keys=['x'], out_keys=['x']"
        """
        func = "" if "func" in self._modules else f"func={names_of(self.func)}, "
        return func + super().extra_repr()


class TensorDictFunction(Protocol):
    """A function on collections that can also be called with tensors: see :class:`as_tensordict_module`."""

    @overload
    def __call__(self, tensordict: T, /) -> T: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class as_tensordict_module:
    """Decorate a function on tensors: it reads its arguments from a collection and writes its results there.

    It can still be called with tensors. A module becomes a :class:`TensorDictModule`.

    Args:
        in_keys: the keys of the arguments, without the ``self`` of a method.
        out_keys: the keys of the results.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import as_tensordict_module
        >>> @as_tensordict_module(in_keys=["a", "b"], out_keys="total")
        ... def add(x, y):
        ...     return x + y
        >>> add(TensorDict(a=1, b=2))["total"], add(torch.tensor(1), torch.tensor(2))
        (tensor(3), tensor(3))
    """

    def __init__(self, *, in_keys: NestedKey | Sequence[NestedKey], out_keys: NestedKey | Sequence[NestedKey]) -> None:
        self.in_keys: NestedKey | Sequence[NestedKey] = in_keys
        self.out_keys: NestedKey | Sequence[NestedKey] = out_keys

    def __call__(self, func: Callable[..., Any], /) -> TensorDictFunction:
        """Decorate ``func``."""
        module = TensorDictModule(func, self.in_keys, self.out_keys)
        if isinstance(func, nn.Module):
            return module
        try:
            is_method = [*inspect.signature(func).parameters][:1] == ["self"]
        except ValueError:  # a builtin without a signature
            is_method = False
        if not is_method:

            def run(*args: Any, **kwargs: Any) -> Any:
                return module(*args, **kwargs)

        else:

            def run(*args: Any, **kwargs: Any) -> Any:
                bound = TensorDictModule(functools.partial(func, args[0]), self.in_keys, self.out_keys)
                return bound(*args[1:], **kwargs)

        wrapped: Any = functools.wraps(func)(run)
        return cast("TensorDictFunction", wrapped)


class TensorDictModuleWrapper(TensorDictModuleBase):
    """Base class of modules around another module. Keys, hooks and attributes are those of the inner module.

    Args:
        td_module: the inner module.

    Raises:
        AttributeError: the inner module has no ``in_keys`` and ``out_keys``.

    Example:
        >>> import torch
        >>> from tensorclass.nn import TensorDictModule, TensorDictModuleWrapper
        >>> module = TensorDictModuleWrapper(TensorDictModule(torch.exp, "x", "y"))
        >>> module.in_keys, module.out_keys
        (['x'], ['y'])
    """

    td_module: TensorDictModuleBase

    if not TYPE_CHECKING:

        @property
        def in_keys(self):
            """The keys that the inner module reads.

            Example:
                >>> import torch
                >>> from tensorclass.nn import TensorDictModule, TensorDictModuleWrapper
                >>> TensorDictModuleWrapper(TensorDictModule(torch.exp, "x", "y")).in_keys
                ['x']
            """
            return self.td_module.in_keys

        @in_keys.setter
        def in_keys(self, keys):
            self.td_module.in_keys = keys

        @property
        def out_keys(self):
            """The keys of the inner module, or the ones selected on this wrapper.

            Example:
                >>> import torch
                >>> from tensorclass.nn import TensorDictModule, TensorDictModuleWrapper
                >>> TensorDictModuleWrapper(TensorDictModule(torch.exp, "x", "y")).out_keys
                ['y']
            """
            return self.td_module.out_keys if self._source is None else self._out_keys

        @out_keys.setter
        def out_keys(self, keys):
            self._reset()
            self.td_module.out_keys = keys

    def __init__(self, td_module: TensorDictModuleBase) -> None:
        super().__init__()
        if not self.is_tdmodule_compatible(td_module):
            raise AttributeError(
                f"{type_name(self)}: expected a module with in_keys and out_keys, got {names_of(td_module)}; "
                "TensorDictModule gives it some"
            )
        self.td_module = td_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the inner module. Of its outputs, those selected on this wrapper are returned or written.

        Args:
            *args: a collection, or tensors in the order of the ``in_keys``.
            **kwargs: tensors by keyword.

        Returns:
            As the inner module: a collection for a collection, else the selected outputs.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule, TensorDictModuleWrapper
            >>> inner = TensorDictModule(torch.frexp, "x", ["mantissa", "exponent"])
            >>> TensorDictModuleWrapper(inner).select_out_keys("mantissa")(torch.ones(2))
            tensor([0.5000, 0.5000])
        """
        result = self.td_module(*args, **kwargs)
        if self._source is None or isinstance(result, TensorCollection):
            return result
        given = [key for key in self._source if key != DISCARDED]
        found = dict(zip(given, result if len(given) > 1 else (result,), strict=True))
        return as_outputs([found[key] for key in self._out_keys])

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "td_module" or name.startswith("__"):
                raise
            return getattr(self.td_module, name)
