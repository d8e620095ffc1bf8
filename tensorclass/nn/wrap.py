"""Functions on collections as modules, and functions on tensors as functions on collections."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from torch import nn

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import NestedKey

from .base import DISCARDED, T, TensorDictModuleBase, as_key_list, names_of
from .dispatch import as_outputs
from .module import TensorDictModule


class WrapModule(TensorDictModuleBase):
    """A function, or a module, from collection to collection, among modules that say what they read and write.

    >>> from tensorclass import TensorDict
    >>> WrapModule(lambda data: data + 1)(TensorDict(a=1))["a"]
    tensor(2)

    Args:
        func: takes a collection and gives one.
        inplace: write what it gives into the collection that came in, and give that.
        in_keys: the keys that it reads, as far as they are known.
        out_keys: the keys that it writes, as far as they are known.

    Raises:
        TypeError: ``func`` can't be called.
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
        """What the function gives; with ``inplace`` the collection that it was called with."""
        result = self.func(data)
        if not self.inplace or result is data:
            return result
        if not isinstance(result, TensorCollection):
            raise TypeError(
                f"{names_of(self.func)}: with inplace=True it must give a collection, gave a {type(result).__name__}"
            )
        data.update(result)
        return data

    def extra_repr(self) -> str:
        func = "" if "func" in self._modules else f"func={names_of(self.func)}, "
        return func + super().extra_repr()


class TensorDictFunction(Protocol):
    """A function on collections that can be called with tensors: see :class:`as_tensordict_module`."""

    @overload
    def __call__(self, tensordict: T, /) -> T: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class as_tensordict_module:
    """Makes a function on tensors one that reads its arguments from a collection, and writes its results there.

    It can still be called with tensors. A module becomes a :class:`TensorDictModule`.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> @as_tensordict_module(in_keys=["a", "b"], out_keys="total")
    ... def add(x, y):
    ...     return x + y
    >>> add(TensorDict(a=1, b=2))["total"], add(torch.tensor(1), torch.tensor(2))
    (tensor(3), tensor(3))

    Args:
        in_keys: the keys of the arguments, but for the ``self`` of a method.
        out_keys: the keys of the results.
    """

    def __init__(self, *, in_keys: NestedKey | Sequence[NestedKey], out_keys: NestedKey | Sequence[NestedKey]) -> None:
        self.in_keys: NestedKey | Sequence[NestedKey] = in_keys
        self.out_keys: NestedKey | Sequence[NestedKey] = out_keys

    def __call__(self, func: Callable[..., Any], /) -> TensorDictFunction:
        module = TensorDictModule(func, self.in_keys, self.out_keys)
        if isinstance(func, nn.Module):
            return module
        try:
            is_method = [*inspect.signature(func).parameters][:1] == ["self"]
        except ValueError:  # one that is not written in Python
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
    """The base of modules around another one: keys, hooks and attributes are those of the module inside.

    Args:
        td_module: the module.
    """

    td_module: TensorDictModuleBase

    if not TYPE_CHECKING:

        @property
        def in_keys(self):
            """The keys that the module inside reads."""
            return self.td_module.in_keys

        @in_keys.setter
        def in_keys(self, keys):
            self.td_module.in_keys = keys

        @property
        def out_keys(self):
            """The keys that are written: those of the module inside, or those of them that were selected here."""
            return self.td_module.out_keys if self._source is None else self._out_keys

        @out_keys.setter
        def out_keys(self, keys):
            self._reset()
            self.td_module.out_keys = keys

    def __init__(self, td_module: TensorDictModuleBase) -> None:
        super().__init__()
        if not self.is_tdmodule_compatible(td_module):
            raise AttributeError(
                f"{type(self).__name__}: expected a module with in_keys and out_keys, got {names_of(td_module)}; "
                "TensorDictModule gives it some"
            )
        self.td_module = td_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module inside gives; of its keys those that are selected here."""
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
