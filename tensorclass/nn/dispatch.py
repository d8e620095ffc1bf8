"""Call a module with tensors instead of a collection."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from torch.fx import Proxy

from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key_list
from tensorclass.td.tensordict import TensorDict

from .module_base import DISCARDED

F = TypeVar("F", bound=Callable[..., Any])


class TooManyArguments(TypeError, ValueError):
    """A module is called with more tensors than it has ``in_keys``."""


class GivenTwice(TypeError, RuntimeError):
    """A module gets a tensor by position and by keyword."""


def joined(key: FlatKey, separator: str) -> str:
    """Return the keyword for a key."""
    return key if isinstance(key, str) else separator.join(key)


def given_values(
    name: str, keys: Sequence[FlatKey], separator: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[FlatKey, Any]:
    """Collect the arguments of a call with tensors by key. Keywords that are keys are removed from ``kwargs``.

    Args:
        name: the called module, for errors.
        keys: its ``in_keys``.
        separator: joins the names of a nested key.
        args: positional arguments, in the order of ``keys``.
        kwargs: keyword arguments; changed.

    Raises:
        TypeError: there are more tensors than keys, or one is given twice.
    """
    if len(args) > len(keys):
        raise TooManyArguments(
            f"{name}: expected at most {len(keys)} positional arguments, for the in_keys {list(keys)}, got {len(args)}"
        )
    values: dict[FlatKey, Any] = dict(zip(keys, args, strict=False))
    for key in keys:
        keyword = joined(key, separator)
        if keyword in kwargs:
            if key in values:
                raise GivenTwice(f"{name}: {keyword!r} is given by position and by keyword")
            values[key] = kwargs.pop(keyword)
    return values


def only_values(
    name: str, keys: Sequence[FlatKey], args: Sequence[Any], kwargs: dict[str, Any], error: type[TypeError] = TypeError
) -> dict[FlatKey, Any]:
    """Collect the arguments of a call as :func:`given_values` does. Raise if there are other keywords."""
    values = given_values(name, keys, "_", args, kwargs)
    if kwargs:
        known = f"the in_keys are {list(keys)}{did_you_mean(kwargs, keys)}"
        raise error(f"{name}: unknown keywords {[*kwargs]}; {known}")
    return values


def collected(values: Mapping[FlatKey, Any], auto_batch_size: bool = True) -> TensorDict:
    """Return a TensorDict of the values. Its batch size is the leading dimensions that all of them share, or empty."""
    data = TensorDict()
    for key, value in values.items():
        data.set(key, value)
    return data.auto_batch_size_() if auto_batch_size else data


class Dispatch:
    """Let a method that takes a collection also take tensors, by position or by keyword, and return tensors.

    ``@dispatch`` decorates ``forward(self, tensordict, ...)`` of a module with ``in_keys`` and ``out_keys``. A call
    with a collection is unchanged. A call with tensors puts them into a TensorDict under the keys that the method
    reads, calls it, and returns the values that it wrote: one tensor, or a tuple if there are several keys.

    Args:
        separator: joins the names of a nested key to a keyword.
        source: the keys to read, or the name of the attribute that holds them.
        dest: the keys to return, or the name of the attribute that holds them. ``"_"`` is left out.
        auto_batch_size: give the TensorDict the leading dimensions that all tensors share; otherwise none.

    Raises:
        TypeError: a call has more tensors than keys, or one tensor twice.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import dispatch
        >>> class Sum(nn.Module):
        ...     in_keys = ["a", ("b", "c")]
        ...     out_keys = ["total"]
        ...
        ...     @dispatch
        ...     def forward(self, tensordict):
        ...         return tensordict.set("total", tensordict["a"] + tensordict["b", "c"])
        >>> Sum()(torch.ones(2), torch.ones(2)), Sum()(a=torch.ones(2), b_c=torch.zeros(2))
        (tensor([2., 2.]), tensor([1., 1.]))
    """

    DEFAULT_SEPARATOR: str = "_"
    DEFAULT_SOURCE: str = "in_keys"
    DEFAULT_DEST: str = "out_keys"

    def __init__(
        self,
        separator: str = DEFAULT_SEPARATOR,
        source: str | Sequence[NestedKey] = DEFAULT_SOURCE,
        dest: str | Sequence[NestedKey] = DEFAULT_DEST,
        auto_batch_size: bool = True,
    ) -> None:
        self.separator: str = separator
        self.source: str | list[FlatKey] = source if isinstance(source, str) else unravel_key_list(source)
        self.dest: str | list[FlatKey] = dest if isinstance(dest, str) else unravel_key_list(dest)
        self.auto_batch_size: bool = auto_batch_size

    def get_source(self, func: Callable[..., Any], self_func: object) -> list[FlatKey]:
        """Return the keys that a decorated method reads.

        Args:
            func: the method. Not used.
            self_func: the object of the method; ``None`` for a function.

        Example:
            >>> from tensorclass.nn import TensorDictModule, dispatch
            >>> module = TensorDictModule(lambda a: a + 1, in_keys=["a"], out_keys=["b"])
            >>> dispatch.get_source(module.forward, module), dispatch(source=["a", "c"]).get_source(print, None)
            (['a'], ['a', 'c'])
        """
        return _resolve_keys(self.source, self_func)

    @overload
    def __call__(self, separator: F, /) -> F: ...
    @overload
    def __call__(
        self,
        separator: str = "_",
        source: str | Sequence[NestedKey] = "in_keys",
        dest: str | Sequence[NestedKey] = "out_keys",
        auto_batch_size: bool = True,
    ) -> Dispatch: ...
    def __call__(
        self,
        separator: Any = "_",
        source: str | Sequence[NestedKey] = "in_keys",
        dest: str | Sequence[NestedKey] = "out_keys",
        auto_batch_size: bool = True,
    ) -> Any:
        if isinstance(separator, str):
            return Dispatch(separator, source, dest, auto_batch_size)
        return self._decorated(separator)  # @dispatch without parentheses

    def _decorated(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a method or a function that takes a collection first."""
        names = [*inspect.signature(func).parameters]
        is_method = names[:1] == ["self"]
        taken = names[is_method] if len(names) > is_method else ""

        @functools.wraps(func)
        def dispatched(*args: Any, **kwargs: Any) -> Any:
            first = args[is_method] if len(args) > is_method else kwargs.get(taken)
            if isinstance(first, (TensorCollection, Proxy)):  # torch.fx traces with a proxy
                return func(*args, **kwargs)
            owner = args[:is_method]
            name = f"{type_name(owner[0])}.{func.__name__}" if owner else func.__name__
            keys = self.get_source(func, owner[0] if owner else None)
            values = given_values(name, keys, self.separator, args[is_method : is_method + len(keys)], kwargs)
            rest = args[is_method + len(keys) :]
            result = func(*owner, collected(values, self.auto_batch_size), *rest, **kwargs)
            dest = _resolve_keys(self.dest, owner[0] if owner else None)
            return as_outputs([result[key] for key in dest if key != DISCARDED])

        return dispatched


dispatch: Dispatch = Dispatch()


def as_outputs(values: Sequence[Any]) -> Any:
    """Return the results of a call with tensors: one value, or a tuple of them."""
    return values[0] if len(values) == 1 else tuple(values)


def _resolve_keys(keys: str | list[FlatKey], owner: object) -> list[FlatKey]:
    return unravel_key_list(getattr(owner, keys)) if isinstance(keys, str) else keys
