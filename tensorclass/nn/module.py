"""A function or module on tensors as a module on collections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.get import MISSING
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key_list
from tensorclass.td.tensordict import TensorDict

from .dispatch import collected, given_values
from .module_base import DISCARDED, MissingKeys, T, TensorDictModuleBase, as_keys, missing_keys, names_of
from .outputs import Inplace, beside, write
from .skipping import SKIPPING, skips


class WrongOutputs(RuntimeError):
    """The module returned another number of values than it has ``out_keys``."""


class TensorDictModule(TensorDictModuleBase):
    """Wrap a function or module on tensors: read its arguments from a collection and write its results there.

    Call it with a collection: it returns the collection, with the results under ``out_keys``. A record stays a record,
    so the keys must be its fields. Or call it with the arguments of the function, by position or by keyword (the names
    of a nested key joined by ``_``): it returns the value under ``out_keys``, or a tuple of them.

    A call raises ``KeyError`` if keys are missing (with ``strict``, or if the module fails on ``None``),
    ``RuntimeError`` if the module returns more or fewer values than there are ``out_keys``, and the error of the
    collection if a value does not fit. The collection is then unchanged.

    Args:
        module: a function, a module, or with ``method`` any object.
        in_keys: the keys of its arguments, in order: one key, a list of keys, or a dict from keyword arguments to keys:
            ``{"input": "x"}``.
        out_keys: the keys of its results: one key, or a list with one key per result. A result under ``"_"`` is
            discarded. If the module returns a mapping or a collection that has these keys, its values are taken.
        out_to_in_map: the direction of a dict of ``in_keys``: ``{argument: key}`` by default and with ``True``,
            ``{key: argument}`` with ``False``.
        inplace: ``True`` writes into the input, ``"empty"`` into an empty collection of the same class and batch size,
            ``False`` into a new TensorDict without batch dimensions (for a record: an empty one of its class).
        method: the name of the method to call; by default the object itself is called.
        method_kwargs: keyword arguments added to each call.
        strict: require all ``in_keys``; otherwise the module gets ``None`` for missing keys.
        get_kwargs: options for reading from a lazy stack, such as ``as_padded_tensor=True``; see
            :meth:`TensorDict.get`.

    Raises:
        ValueError: a key is not valid, two results have the same key, or ``module`` is not callable.
        AttributeError: the object has no such ``method``.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import TensorDictModule
        >>> module = TensorDictModule(nn.Linear(3, 4), in_keys=["x"], out_keys=[("out", "y")])
        >>> module(TensorDict(x=torch.ones(2, 3), batch_size=[2]))["out", "y"].shape
        torch.Size([2, 4])
        >>> module(torch.ones(2, 3)).shape, module(x=torch.ones(2, 3)).shape
        (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    _selects = True

    module: Callable[..., Any]
    method: str | None
    method_kwargs: dict[str, Any]
    inplace: Inplace
    strict: bool
    get_kwargs: dict[str, Any]
    #: the names of the arguments, if ``in_keys`` was a dict
    _arguments: list[str] | None

    def __init__(
        self,
        module: Callable[..., Any],
        in_keys: NestedKey | Sequence[NestedKey] | Mapping[Any, Any],
        out_keys: NestedKey | Sequence[NestedKey],
        *,
        out_to_in_map: bool | None = None,
        inplace: bool | str | None = True,
        method: str | None = None,
        method_kwargs: Mapping[str, Any] | None = None,
        strict: bool = False,
        get_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        given: object = module
        if method is not None:
            if not callable(getattr(given, method)):
                raise ValueError(f"{name}: {names_of(given)}.{method} is not callable")
        elif isinstance(given, type) or not callable(given):
            raise ValueError(
                f"{name}: expected a function or a module, got {given!r}; "
                + ("make an object of the class" if isinstance(given, type) else "method= names what is to be called")
            )
        self._arguments = None
        if isinstance(in_keys, Mapping):
            self._arguments, in_keys = _arguments_and_keys(in_keys, out_to_in_map is not False, name)
        elif out_to_in_map is not None:
            raise ValueError(f"{name}: out_to_in_map tells which way round a dict is, the in_keys are {in_keys!r}")
        self._in_keys = as_keys(in_keys, f"{name}: in_keys")
        self._out_keys = as_keys(out_keys, f"{name}: out_keys")
        written = [key for key in self._out_keys if key != DISCARDED]
        if len({*written}) < len(written):
            raise ValueError(f"{name}: two results have the same key: {written}; '_' discards one")
        self.inplace = as_inplace(inplace, name)
        self.module = module
        self.method = method
        self.method_kwargs = dict(method_kwargs or {})
        self.strict = strict
        self.get_kwargs = dict(get_kwargs or {})

    # -- calling it ---------------------------------------------------------------------------------------------------

    @overload
    def forward(self, tensordict: T, *, tensordict_out: None = None, **kwargs: Any) -> T: ...
    @overload
    def forward(self, tensordict: TensorCollection, *, tensordict_out: T, **kwargs: Any) -> T: ...
    @overload
    def forward(self, *args: Any, **kwargs: Any) -> Any: ...
    def forward(
        self,
        tensordict: Any = None,
        *args: Any,
        tensordict_out: TensorCollection | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the module on a collection, or on tensors.

        Args:
            tensordict: a collection that has the ``in_keys``; or the first tensor.
            *args: further tensors, in the order of ``in_keys``.
            tensordict_out: write the results here instead of into ``tensordict``.
            **kwargs: tensors by keyword; in a call with a collection, further arguments of the wrapped module.

        Returns:
            The collection with the results; for a call with tensors the result, or a tuple of the results.

        Raises:
            KeyError: keys are missing.
            RuntimeError: the number of results differs from the number of ``out_keys``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import TensorDictModule
            >>> out = TensorDict()
            >>> module = TensorDictModule(torch.exp, "x", "y")
            >>> module(TensorDict(x=torch.zeros(2)), tensordict_out=out) is out, list(out.keys())
            (True, ['y'])
        """
        if not isinstance(tensordict, TensorCollection):
            return self._call_with_tensors(tensordict, args, kwargs)
        if args:
            raise TypeError(f"{type_name(self)}: expected one collection, got {len(args)} more arguments")
        if SKIPPING.current() and skips(tensordict, self._in_keys, self._out_keys):
            return tensordict
        values: list[Any] = []
        store: Any = {} if self.get_kwargs else tensordict._store
        absent: list[FlatKey] | None = None
        for key in self._in_keys:
            value: Any
            if type(key) is str:
                value = store.get(key)
            else:  # _find(), inlined to save the cost of a call
                value = store
                try:
                    for name in key[:-1]:
                        value = value[name]._store
                    value = value.get(key[-1])
                except (KeyError, AttributeError):
                    value = None
            if type(value) is not Tensor:
                value = self._read(tensordict, key)
                if value is MISSING:
                    value = None
                    absent = [*(absent or ()), key]
            values.append(value)
        if absent and self.strict:
            raise self._missing(absent, tensordict)
        try:
            if self._arguments is None and self.method is None and not self.method_kwargs:  # most calls
                modules = self._modules
                module: Any = modules["module"] if "module" in modules else self.module  # noqa: SIM401  # quicker
                result = module(*values, **kwargs) if kwargs else module(*values)
            else:
                result = self._call_module(values, kwargs)
            out_keys = self._out_keys
            results: Sequence[Any] = result if result.__class__ is tuple else (result,)
            if (
                len(results) != len(out_keys)
                or not (type(result) is Tensor or results is result)
                or self._source is not None
                or DISCARDED in out_keys
            ):
                out_keys, results = self._outputs(result)
        except Exception as error:
            if absent and not isinstance(error, MissingKeys):
                raise self._missing(absent, tensordict) from error
            raise
        out: TensorCollection
        if tensordict_out is not None:
            out = tensordict_out
        elif self.inplace is True:
            out = tensordict
        else:
            out = beside(tensordict, self.inplace, out_keys)
        if len(out_keys) == 1:
            key, value = out_keys[0], results[0]
            if type(key) is str:
                out._set(key, value)
            else:
                out._set_nested(key, value)  # type: ignore[arg-type]
        elif out_keys:
            write(out, out_keys, results)
        return out

    if TYPE_CHECKING:

        @overload
        def __call__(self, tensordict: T, *, tensordict_out: None = None, **kwargs: Any) -> T: ...
        @overload
        def __call__(self, tensordict: TensorCollection, *, tensordict_out: T, **kwargs: Any) -> T: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:
        __call__ = nn.Module.__call__

    def _call_module(self, values: list[Any], kwargs: dict[str, Any]) -> Any:
        modules = self._modules
        module: Any = modules["module"] if "module" in modules else self.module  # noqa: SIM401  # quicker
        if self.method is not None:
            module = getattr(module, self.method)
        if self.method_kwargs:
            kwargs = {**self.method_kwargs, **kwargs}
        if self._arguments is not None:
            keywords = dict(zip(self._arguments, values, strict=True))
            return module(**keywords, **kwargs) if kwargs else module(**keywords)
        return module(*values, **kwargs) if kwargs else module(*values)

    def _call_with_tensors(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(first, Proxy):
            return self._trace(first)
        keys = self._in_keys
        arguments: Sequence[Any] = args if first is None else (first, *args)
        by_key: dict[FlatKey, Any] = {}
        absent: list[FlatKey] = []
        if kwargs or len(arguments) != len(keys):
            by_key = given_values(type(self).__name__, keys, "_", arguments, kwargs)
            arguments = [by_key.get(key) for key in keys]
            if len(by_key) < len(keys):
                absent = [key for key in keys if key not in by_key]
                if absent and self.strict:
                    raise self._missing(absent, collected(by_key))
        values = [value if type(value) is Tensor else _as_read(value) for value in arguments]
        try:
            _, results = self._outputs(self._call_module(values, kwargs))
        except Exception as error:
            if absent and not isinstance(error, MissingKeys):
                raise self._missing(absent, collected(by_key)) from error
            raise
        outputs = [value if type(value) is Tensor else _as_read(value) for value in results]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _trace(self, data: Proxy) -> Proxy:
        """Record the reads, the call and the writes as nodes of ``torch.fx.symbolic_trace``."""
        if self.inplace is not True:
            raise ValueError(f"{type_name(self)}: it can be traced with inplace=True, not {self.inplace!r}")
        options: Any = self.get_kwargs
        result = self._call_module([data.get(key, **options) for key in self._in_keys], {})
        keys = self._out_keys if self._source is None else self._source
        values: Any = (result,) if len(keys) == 1 and result.__class__ is not tuple else result
        for position, key in enumerate(keys):
            if key != DISCARDED and key in self._out_keys:
                data = data.set(key, values[position])
        return data

    def _read(self, data: TensorCollection, key: FlatKey) -> Any:
        """Return the value of a key, or ``MISSING``."""
        if self.get_kwargs:
            value = data.get(key, MISSING, **self.get_kwargs)
        else:
            value = data._find((key,) if isinstance(key, str) else key)
        return value if value is MISSING or isinstance(value, Tensor) else data._out(value, key)

    def _outputs(self, result: Any) -> tuple[list[FlatKey], Sequence[Any]]:
        """Return the keys to write and their values."""
        keys = self._out_keys if self._source is None else self._source
        values = _as_results(result, keys)
        if len(values) != len(keys):
            raise WrongOutputs(
                f"{names_of(self.module)}: expected {len(keys)} results, for the out_keys {keys}, got "
                f"{_describe_result(result)}; '_' among the out_keys discards a result"
            )
        if self._source is None and DISCARDED not in keys:
            return keys, values
        if self._source is None:
            kept = [position for position, key in enumerate(keys) if key != DISCARDED]
            return [keys[position] for position in kept], [values[position] for position in kept]
        selected = [key for key in self._out_keys if key != DISCARDED]
        return selected, [values[keys.index(key)] for key in selected]

    def _missing(self, absent: list[FlatKey], data: TensorCollection) -> MissingKeys:
        return missing_keys(f"{type_name(self)}({names_of(self.module)})", absent, data)

    # -- properties ---------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of the first parameter or buffer; the CPU if the module has none.

        Example:
            >>> from torch import nn
            >>> from tensorclass.nn import TensorDictModule
            >>> TensorDictModule(nn.Linear(3, 4), "x", "y").device
            device(type='cpu')
        """
        return device_of(self)

    @property
    def is_functional(self) -> bool:
        """``False``: the parameters belong to the module and are never arguments of it.

        Example:
            >>> from torch import nn
            >>> from tensorclass.nn import TensorDictModule
            >>> TensorDictModule(nn.Linear(3, 4), "x", "y").is_functional
            False
        """
        return False

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module" or name.startswith("__"):
                raise
            return getattr(self.module, name)

    def extra_repr(self) -> str:
        """Return the wrapped function and the keys, for the repr of the module.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule
            >>> TensorDictModule(torch.exp, "x", "y").extra_repr()
            "module=exp, in_keys=['x'], out_keys=['y']"
        """
        module = "" if "module" in self._modules else f"module={names_of(self.module)}, "
        return module + super().extra_repr()


def _as_read(value: Any) -> Any:
    """Return a value as reading it from a collection would: a number becomes a tensor."""
    if value is None or isinstance(value, (Tensor, Collection)):
        return value
    return TensorDict({"value": value})["value"]


def device_of(module: nn.Module) -> torch.device:
    """Return the device of the first parameter or buffer, or the CPU."""
    tensor: Tensor | None = next(chain(module.parameters(), module.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def as_inplace(inplace: Any, name: str) -> Inplace:
    """Check the ``inplace`` argument of the module ``name``."""
    if inplace is None or inplace is True or inplace is False or inplace == "empty":
        mode: Inplace = inplace
        return mode
    raise ValueError(f"{name}: inplace is True, False or 'empty', got {inplace!r}")


def _arguments_and_keys(in_keys: Mapping[Any, Any], by_argument: bool, name: str) -> tuple[list[str], list[FlatKey]]:
    """Split a dict of ``in_keys`` into the names of arguments and the keys that they are read from."""
    pairs = list(in_keys.items()) if by_argument else [(argument, key) for key, argument in in_keys.items()]
    wrong = [argument for argument, _ in pairs if not isinstance(argument, str)]
    if wrong:
        way = "{argument: key}" if by_argument else "{key: argument}, as out_to_in_map=False says"
        raise ValueError(f"{name}: in_keys: expected {way}, got {dict(in_keys)}; {wrong} are no names of arguments")
    try:
        return [argument for argument, _ in pairs], unravel_key_list([key for _, key in pairs])
    except TypeError as error:
        raise ValueError(f"{name}: in_keys: {error}") from None


def _as_results(result: Any, keys: Sequence[FlatKey]) -> Sequence[Any]:
    """Return the values that a module returned, as a sequence."""
    if type(result) is Tensor:
        return (result,)
    given: object = result
    if isinstance(given, tuple):
        several: Sequence[Any] = result
        return several
    if given is None:
        return ()
    if isinstance(given, (TensorCollection, Mapping)) and keys:
        there: Any = given.keys(True) if isinstance(given, TensorCollection) else result
        if all(key in there for key in keys):
            return [result._get_key(key) if isinstance(given, TensorCollection) else result[key] for key in keys]
    return (result,)


def _describe_result(result: Any) -> str:
    """Describe the result of a module for an error message."""
    given: object = result
    if isinstance(given, tuple):
        return f"a tuple of {len(result)}"
    if isinstance(given, (TensorCollection, Mapping)):
        return f"a {type_name(result)} with the keys {[*result.keys()]}"
    return "None" if result is None else f"one {type_name(result)}"
