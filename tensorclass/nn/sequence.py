"""Run modules on a collection one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import torch
from torch import nn
from torch.fx import Proxy
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.get import MISSING
from tensorclass.td.keys import FlatKey, NestedKey, missing_key, unravel_key_list

from .dispatch import as_outputs, collected, only_values
from .module import as_inplace, device_of
from .module_base import DISCARDED, MissingKeys, T, TensorDictModuleBase, as_key_list, missing_keys, names_of
from .outputs import Inplace, beside, noted, remove, restore, set_value, write
from .skipping import SKIPPING, skips
from .wrap import WrapModule


class TensorDictSequential(TensorDictModuleBase):
    """Run modules on a collection one after another. Each reads the input and the outputs of the modules before it.

    Call it with a collection: it returns the collection with the outputs of the modules. Or call it with the values of
    ``in_keys``, by position or by keyword: it returns the values of ``out_keys``. If a call fails, the collection is
    unchanged.

    Args:
        *modules: modules, or functions from collection to collection; or a list of them, or a dict that names them.
        partial_tolerant: skip modules whose ``in_keys`` are not all present. In a lazy stack this is decided for each
            stacked collection.
        selected_out_keys: write these keys only; values under other keys stay as they are.
        inplace: ``None`` leaves it to the modules; otherwise as in :class:`TensorDictModule`.

    Raises:
        TypeError: a module is not callable.
        ValueError: no module writes a selected key.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
        >>> net = TensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 4), "x", "hidden"),
        ...     TensorDictModule(torch.mul, ["hidden", "mask"], "y"),
        ... )
        >>> net.in_keys, net.out_keys
        (['x', 'mask'], ['hidden', 'y'])
        >>> net(TensorDict(x=torch.ones(2, 3), mask=torch.ones(2, 4)))["y"].shape
        torch.Size([2, 4])
    """

    _selects = True

    module: nn.ModuleList | nn.ModuleDict
    partial_tolerant: bool
    inplace: Inplace
    #: one written key per nested collection that the modules write to
    _nested: list[FlatKey]

    def __init__(
        self,
        *modules: Callable[..., Any] | Sequence[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        partial_tolerant: bool = False,
        selected_out_keys: Sequence[NestedKey] | None = None,
        inplace: bool | str | None = None,
    ) -> None:
        super().__init__()
        first: object = modules[0] if len(modules) == 1 else None
        given: Any = modules[0] if isinstance(first, (list, tuple, Mapping)) else modules
        if isinstance(first, Mapping):
            self.module = nn.ModuleDict({name: as_module(module) for name, module in given.items()})
        else:
            self.module = nn.ModuleList([as_module(module) for module in given])
        self.partial_tolerant = partial_tolerant
        self.inplace = as_inplace(inplace, type_name(self))
        self._find_keys()
        if selected_out_keys is not None:
            self.select_out_keys(*as_key_list(selected_out_keys, f"{type_name(self)}: selected_out_keys"))

    def _find_keys(self) -> None:
        """Compute ``in_keys``, which no earlier module writes, and ``out_keys``."""
        self._reset()
        self._in_keys, self._out_keys = self._compute_in_and_out_keys(self)

    def _compute_in_and_out_keys(self, modules: Iterable[Any]) -> tuple[list[FlatKey], list[FlatKey]]:
        """Return the keys that modules need and those that they write. TorchRL calls it before ``__init__``."""
        needed: list[FlatKey] = []
        written: list[FlatKey] = []
        for module in modules:
            needed += [key for key in keys_of(module, "in_keys") if key not in needed and not _is_covered(key, written)]
            new = [key for key in keys_of(module, "out_keys") if key != DISCARDED]
            written = [key for key in written if key not in new] + new
        vars(self)["_nested"] = [*{key[:-1]: key for key in written if isinstance(key, tuple)}.values()]
        return needed, written

    # -- calling it ---------------------------------------------------------------------------------------------------

    @overload
    def forward(self, tensordict: T, tensordict_out: None = None) -> T: ...
    @overload
    def forward(self, tensordict: TensorCollection, tensordict_out: T) -> T: ...
    @overload
    def forward(self, *args: Any, **kwargs: Any) -> Any: ...
    def forward(
        self,
        tensordict: Any = None,
        *args: Any,
        tensordict_out: TensorCollection | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the modules on a collection, or on tensors.

        Args:
            tensordict: a collection that has the ``in_keys``; or the first tensor.
            *args: further tensors, in the order of ``in_keys``.
            tensordict_out: write the outputs here instead of into ``tensordict``.
            **kwargs: tensors by keyword.

        Returns:
            The collection with the outputs; for a call with tensors the values of ``out_keys``.

        Raises:
            KeyError: ``in_keys`` are missing.
            TypeError: unknown arguments, or a module does not return a collection.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
            >>> net = TensorDictSequential(TensorDictModule(torch.neg, "a", "b"), TensorDictModule(torch.abs, "b", "c"))
            >>> net(torch.ones(2))
            (tensor([-1., -1.]), tensor([1., 1.]))
        """
        if not isinstance(tensordict, TensorCollection):
            return self._call_with_tensors(tensordict, args, kwargs)
        if args or kwargs:
            out: Any = args[0] if len(args) == 1 else None
            if tensordict_out is not None or kwargs or not isinstance(out, TensorCollection):
                raise WrongArguments(
                    f"{type_name(self)}: expected one collection, and maybe tensordict_out; got {len(args)} more "
                    f"arguments and the keywords {[*kwargs]}"
                )
            tensordict_out = out
        if SKIPPING.current() and skips(tensordict, self._in_keys, self._out_keys):
            return tensordict
        if tensordict_out is not None or (self.inplace is not None and self.inplace is not True):
            return self._run_beside(tensordict, tensordict_out)
        before = noted(tensordict, self._nested)
        unwanted: dict[FlatKey, Any] = {}
        if self._source is not None:
            unwanted = {key: _find(tensordict, key) for key in self._source if key not in self._out_keys}
        try:
            result = self._run(tensordict)
            if result is not tensordict and self.inplace:
                tensordict.update(result)
                result = tensordict
            for key, value in unwanted.items():
                if value is MISSING or result is not tensordict:
                    remove(result, key)
                else:
                    set_value(result, key, value)
        except BaseException as error:
            restore(before)
            if isinstance(error, MissingKeys):
                raise self._missing(error, tensordict) from error.__cause__
            raise
        return result

    if TYPE_CHECKING:

        @overload
        def __call__(self, tensordict: T, tensordict_out: None = None) -> T: ...
        @overload
        def __call__(self, tensordict: TensorCollection, tensordict_out: T) -> T: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:
        __call__ = nn.Module.__call__

    def _run(self, data: TensorCollection) -> TensorCollection:
        """Run the modules, each on the result of the one before it."""
        result: Any = data
        modules: Any = self._modules["module"]
        tolerant = self.partial_tolerant
        for step in modules._modules.values():
            result = self._run_tolerant(step, result) if tolerant else step(result)
            if not isinstance(result, TensorCollection):
                raise TypeError(
                    f"{type_name(self)}: {names_of(getattr(step, 'func', step))} returned "
                    f"{_describe_value(result)}; each module of a sequence must return a collection"
                )
        run: TensorCollection = result
        return run

    def _run_tolerant(self, module: Any, data: TensorCollection) -> Any:
        """Run a module if its keys are present. Decide for each collection of a lazy stack."""
        store = data._store
        for key in keys_of(module, "in_keys"):
            if key not in store if type(key) is str else _find(data, key) is MISSING:
                break
        else:
            return module(data)
        if not data._holds_values():
            part: Any
            for part in data._nodes():
                if self._run_tolerant(module, part) is not part:
                    raise TypeError(
                        f"{type_name(self)}: {names_of(module)} gives another collection than it takes, which "
                        "can't be done with some parts of a lazy stack; it needs inplace=True"
                    )
        return data

    def _run_beside(self, data: TensorCollection, out: TensorCollection | None) -> TensorCollection:
        """Run on a copy that shares the values, and write the outputs to another collection."""
        copied = data.copy()
        try:
            result = self._run(copied)
        except MissingKeys as error:
            raise self._missing(error, data) from error.__cause__
        found = {key: _find(result, key) for key in self._out_keys}
        keys = [key for key, value in found.items() if value is not MISSING]
        if out is None:
            out = beside(data, self.inplace, keys)
        write(out, keys, [found[key] for key in keys])
        return out

    def _missing(self, error: MissingKeys, data: TensorCollection) -> MissingKeys:
        """Name all keys that the sequence lacks; without any, return the error of the module."""
        there = data.keys(True)
        absent = [key for key in self._in_keys if key not in there]
        return missing_keys(type_name(self), absent, data) if absent else error

    def _trace(self, data: Proxy) -> Proxy:
        """Record the modules one after another in ``torch.fx.symbolic_trace``."""
        if self._source is not None or self.partial_tolerant or not (self.inplace is None or self.inplace is True):
            raise ValueError(
                f"{type_name(self)}: it can be traced when it writes all its keys into its input: without "
                "selected_out_keys, partial_tolerant and inplace"
            )
        for module in self:
            data = module(data)
        return data

    def _call_with_tensors(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(first, Proxy):
            return self._trace(first)
        given = args if first is None else (first, *args)
        values = only_values(type_name(self), self._in_keys, given, kwargs, WrongArguments)
        try:
            result = self._run(collected(values, False))
        except MissingKeys as error:
            raise self._missing(error, collected(values, False)) from error.__cause__
        return as_outputs([result._get_key(key) for key in self._out_keys])

    # -- the modules --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[TensorDictModuleBase]:
        return iter([module for _, module in self._named()])

    def __len__(self) -> int:
        return len(self.module)

    @overload
    def __getitem__(self, index: int | str) -> TensorDictModuleBase: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice | str) -> TensorDictModuleBase | Self:
        """Return a module by its position or name, or a sequence of the modules in a slice."""
        names = [*self.module._modules]
        if isinstance(index, slice):
            return self._of(names[index])
        name = index if isinstance(index, str) else names[self._position(index)]
        if name not in names:
            raise missing_key(f"{type_name(self)}: there is no module {name!r}; there are {names}", name, names)
        return cast("TensorDictModuleBase", self.module._modules[name])

    def __setitem__(self, index: int | str, module: Callable[..., Any]) -> None:
        name = index if isinstance(index, str) else [*self.module._modules][self._position(index)]
        setattr(self.module, name, as_module(module))
        self._find_keys()

    def __delitem__(self, index: int | slice | str) -> None:
        modules: Any = self.module
        names = [*self.module._modules]
        if isinstance(index, int):
            index = slice(self._position(index), self._position(index) + 1)
        if isinstance(self.module, nn.ModuleList):
            del modules[index]
        else:
            for name in names[index] if isinstance(index, slice) else [index]:
                del modules[name]
        self._find_keys()

    def append(self, module: Callable[..., Any]) -> Self:
        """Add a module at the end.

        Args:
            module: a module, or a function from collection to collection.

        Returns:
            This module.

        Raises:
            TypeError: the modules have names; assign ``sequence[name] = module``.

        Example:
            >>> from tensorclass.nn import TensorDictSequential
            >>> len(TensorDictSequential().append(lambda data: data))
            1
        """
        return self.insert(len(self), module)

    def extend(self, modules: Iterable[Callable[..., Any]]) -> Self:
        """Add modules at the end. See :meth:`append`.

        Args:
            modules: modules, or functions from collection to collection.

        Returns:
            This module.

        Example:
            >>> from tensorclass.nn import TensorDictSequential
            >>> len(TensorDictSequential().extend([lambda data: data, lambda data: data]))
            2
        """
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Callable[..., Any]) -> Self:
        """Add a module before the one at ``index``, as ``list.insert`` does.

        Args:
            index: the position.
            module: a module, or a function from collection to collection.

        Returns:
            The sequence itself.

        Raises:
            TypeError: the modules have names; assign ``sequence[name] = module``.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
            >>> net = TensorDictSequential(TensorDictModule(torch.exp, "b", "c"))
            >>> net.insert(0, TensorDictModule(torch.exp, "a", "b")).in_keys
            ['a']
        """
        if not isinstance(self.module, nn.ModuleList):
            raise TypeError(f"{type_name(self)}: its modules have names; add one by its name: sequence[name] = module")
        self.module.insert(slice(index, None).indices(len(self))[0], as_module(module))
        self._find_keys()
        return self

    def _position(self, index: int) -> int:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"{type_name(self)}: there is no module {index}, there are {size}")
        return index % size

    def _of(self, names: Iterable[str], replaced: Mapping[str, TensorDictModuleBase] | None = None) -> Self:
        """Return a sequence of some of the modules."""
        chosen: dict[str, Any] = {name: (replaced or {}).get(name, self.module._modules[name]) for name in names}
        named = isinstance(self.module, nn.ModuleDict)
        modules: list[Any] = [chosen] if named else [*chosen.values()]
        return type(self)(*modules, partial_tolerant=self.partial_tolerant, inplace=self.inplace)

    def select_subsequence(
        self, in_keys: Iterable[NestedKey] | None = None, out_keys: Iterable[NestedKey] | None = None
    ) -> Self:
        """Return a sequence of the modules needed to compute ``out_keys`` from ``in_keys``. It shares the modules.

        Args:
            in_keys: the available keys; by default all that the sequence reads.
            out_keys: the wanted keys; by default all that the sequence writes.

        Raises:
            ValueError: no module is left.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
            >>> net = TensorDictSequential(TensorDictModule(torch.exp, "a", "b"), TensorDictModule(torch.exp, "b", "c"))
            >>> [module.out_keys for module in net.select_subsequence(out_keys=["b"])]
            [['b']]
        """
        available = [*self._in_keys] if in_keys is None else as_key_list(in_keys, "in_keys")
        wanted = [*self._out_keys] if out_keys is None else as_key_list(out_keys, "out_keys")
        kept: dict[str, TensorDictModuleBase] = {}
        known = [*available]
        for name, module in self._named():
            if isinstance(module, TensorDictSequential):
                try:
                    module = module.select_subsequence(known)
                except ValueError:
                    continue
            elif not all(_is_covered(key, known) for key in keys_of(module, "in_keys")):
                continue
            kept[name] = module
            known += keys_of(module, "out_keys")
        needed = unravel_key_list(wanted)
        for name, module in reversed(list(kept.items())):
            written = [key for key in keys_of(module, "out_keys") if any(_overlap(key, other) for other in needed)]
            if not written:
                del kept[name]
                continue
            if isinstance(module, TensorDictSequential):
                kept[name] = module = module.select_subsequence(out_keys=written)
            needed += keys_of(module, "in_keys")
        if not kept:
            raise ValueError(
                f"{type_name(self)}: no module leads from the keys {available} to {wanted}; the sequence reads "
                f"{self._in_keys} and writes {[*self.out_keys_source]}"
            )
        return self._of(kept, kept)

    def _named(self) -> list[tuple[str, TensorDictModuleBase]]:
        return [(name, cast("TensorDictModuleBase", module)) for name, module in self.module._modules.items()]

    # -- properties ---------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of the first parameter or buffer; the CPU if there is none.

        Example:
            >>> from torch import nn
            >>> from tensorclass.nn import TensorDictSequential
            >>> TensorDictSequential(nn.Linear(3, 4)).device
            device(type='cpu')
        """
        return device_of(self)

    @property
    def is_functional(self) -> bool:
        """``False``: the parameters belong to the modules and are never arguments of the sequence.

        Example:
            >>> from tensorclass.nn import TensorDictSequential
            >>> TensorDictSequential().is_functional
            False
        """
        return False


class WrongArguments(TypeError, RuntimeError):
    """A sequence is called with arguments that it does not take."""


def as_module(module: Any) -> TensorDictModuleBase:
    """Return a module that declares its keys. Other callables are wrapped, without known keys."""
    if isinstance(module, nn.Module) and TensorDictModuleBase.is_tdmodule_compatible(module):
        return cast("TensorDictModuleBase", module)
    return WrapModule(module)


def keys_of(module: TensorDictModuleBase, name: str) -> list[FlatKey]:
    """Return the ``in_keys`` or ``out_keys`` of a module."""
    return unravel_key_list(getattr(module, name))


def _find(data: TensorCollection, key: FlatKey) -> Any:
    return data._find((key,) if isinstance(key, str) else key)


def _is_covered(key: FlatKey, keys: Sequence[FlatKey]) -> bool:
    """Return whether a key, or a collection that contains it, is among ``keys``."""
    if key in keys or isinstance(key, str):
        return key in keys
    return key[0] in keys or any(key[:depth] in keys for depth in range(2, len(key)))


def _overlap(key: FlatKey, other: FlatKey) -> bool:
    """Return whether one of two keys contains the other."""
    return _is_covered(key, [other]) or _is_covered(other, [key])


def _describe_value(value: object) -> str:
    return "None" if value is None else f"a {type_name(value)}"
