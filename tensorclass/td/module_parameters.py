"""Read the parameters and buffers of an ``nn.Module`` as a collection, and swap a collection into a module.

A swap writes the tensors into the module's tables (``_parameters``, ``_buffers``), as ``functional_call`` of
``torch.func`` does. So attributes, ``named_parameters()`` and the order of ``state_dict()`` stay the same for every
type of tensor. Each replaced entry is recorded, so that undoing the swap needs no comparison and no lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Size, Tensor, nn
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.nn import Parameter
from typing_extensions import Self

from tensorclass.support.printable import printable, type_name

from . import registry
from .collection import Collection
from .context import Block
from .delegated.engine_functions import as_parameters
from .hidden_members import with_members
from .keys import dotted
from .state_dict_hooks import Loaded, Loading, nested
from .value_checks import Misfit, is_strided_nested, refuse_strided_nested, strided_nested

if TYPE_CHECKING:
    from tensorclass.nn.params import TensorDictParams

    from .collection import Store

    #: table of a module, key, old tensor, new tensor, and the store of the collection that has the new tensor
    Entry = tuple[dict[str, Any], str, Tensor | None, Tensor, Store]

_NO_SIZE = Size(())


class ModuleMismatch(KeyError):
    """A collection has values that match no parameter, buffer or submodule of the module. The message lists all."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: str = message

    def __str__(self) -> str:  # KeyError would return the repr of the message
        return self.message


# -- reading ----------------------------------------------------------------------------------------------------------


def _check_module(module: object, operation: str) -> None:
    if not isinstance(module, nn.Module):
        raise TypeError(f"{operation}: expected an nn.Module, got {type_name(module)}")


def _node(store: Any, cls: type[Any]) -> Any:
    """Return a collection with an empty batch size and no device, without checks."""
    new = object.__new__(cls)
    new._store = store
    new._batch_size = _NO_SIZE
    new._device = None
    new._names = None
    new._lock = None
    return new


def _tree(module: nn.Module, filter_empty: bool, cls: type[Any], seen: dict[int, Any]) -> Any:
    """Return the parameters and buffers of a module. A submodule registered twice gives the same collection twice."""
    store: dict[str, Any] = {key: value for key, value in module._parameters.items() if value is not None}
    if module._buffers:
        store |= {key: value for key, value in module._buffers.items() if value is not None}
    for value in store.values():
        if value.is_nested:
            refuse_strided_nested(store)
    children: dict[str, Any] = module._modules  # a child that is itself a collection keeps its batch size
    for key, child in children.items():
        if child is not None:
            below = seen.get(id(child))
            if below is None:
                try:
                    is_collection = isinstance(child, Collection)
                    below = _densified(child) if is_collection else _tree(child, filter_empty, cls, seen)
                except Misfit as error:
                    raise error.below(key) from None
            if below._store or not filter_empty:
                store[key] = below
    node = seen[id(module)] = _node(store, cls)
    return node


def _densified(parameters: Any) -> Any:
    """Return the values of a module that is itself a collection, as a dense collection."""
    return _without_strided_nested(parameters._densified())


def _without_strided_nested(tree: Any) -> Any:
    """Return the collection. Raise if one of its tensors is nested and has no shape."""
    for path, leaf in tree._named_leaves():
        if leaf.is_nested and is_strided_nested(leaf):
            raise strided_nested(path)
    return tree


def _as_dict(node: Collection) -> dict[str, Any]:
    return {key: _as_dict(value) if isinstance(value, Collection) else value for key, value in node._now().items()}


def _stacked(
    trees: list[Any], path: tuple[str, ...], expand_identical: bool, cls: type[Any], made: dict[tuple[int, ...], Tensor]
) -> Any:
    """Return the parameters of several modules, stacked densely. Tied parameters stay tied."""
    stores = [tree._now() for tree in trees]
    keys = [set(store) for store in stores]
    if any(other != keys[0] for other in keys):
        where = f"below {'.'.join(path)!r} " if path else ""
        raise RuntimeError(
            f"from_modules: the modules have different keys {where}and cannot be stacked: "
            + "; ".join(f"{i}: {sorted(some)}" for i, some in enumerate(keys))
            + ". Give lazy_stack=True for modules that differ"
        )
    store: dict[str, Any] = {}
    for key, first in stores[0].items():
        values = [store[key] for store in stores]
        if isinstance(first, Tensor):
            store[key] = _stacked_tensors(values, (*path, key), expand_identical, made)
        elif first._is_tree():
            store[key] = _stacked(values, (*path, key), expand_identical, cls, made)
        else:
            store[key] = torch.stack(values)
    node = _node(store, cls)
    node._batch_size = Size((len(trees),))
    return node


def _stacked_tensors(
    values: list[Any], path: tuple[str, ...], expand_identical: bool, made: dict[tuple[int, ...], Tensor]
) -> Tensor:
    first = values[0]
    if expand_identical and len(values) > 1 and all(value is first for value in values):
        return first.expand(len(values), *first.shape)  # type: ignore[no-any-return]
    ids = tuple([id(value) for value in values])
    if ids in made:
        return made[ids]
    if any(value.shape != first.shape for value in values):
        raise RuntimeError(
            f"from_modules: {dotted(path)}: the tensors have different shapes "
            f"{[list(value.shape) for value in values]} and cannot be stacked; give lazy_stack=True for modules that "
            "differ"
        )
    stacked = torch.stack([value.detach() for value in values])
    if any(isinstance(value, Parameter) for value in values):
        stacked = Parameter(stacked, requires_grad=any(value.requires_grad for value in values))
    made[ids] = stacked
    return stacked


# -- swapping ---------------------------------------------------------------------------------------------------------


class _Swapping:
    """One call of ``to_module``: its options, and the entries that it replaced."""

    __slots__ = ("cls", "done", "recurrent", "wrap")

    def __init__(self, wrap: bool, cls: type[Any]) -> None:
        self.wrap: bool = wrap
        self.cls: type[Any] = cls
        self.done: list[Entry] = []
        self.recurrent: list[nn.Module] = []

    def swap(self, node: Any, module: nn.Module, seen: dict[int, Any]) -> Any:
        """Put the tensors of a collection into a module. Return the replaced values as a collection.

        A module that is registered twice is swapped once, with the first collection given for it.
        """
        old: dict[str, Any] = {}
        parameters: dict[str, Any] = module._parameters
        buffers: dict[str, Any] = module._buffers
        given = node._store
        done = self.done.append
        for key, value in {**given}.items():
            if key in parameters:
                table = parameters
                before = table[key]
                kind = value.__class__
                if kind is not Parameter and not (kind is Tensor and value.requires_grad):
                    value = self._parameter(value, before)
            elif key in buffers:
                table = buffers
                before = table[key]
                if not isinstance(value, Tensor):
                    value = _tensor_of(value)
            else:
                child = module._modules.get(key)
                if child is None or isinstance(value, Tensor) or not value._is_tree():
                    raise _Misplaced
                below = seen.get(id(child))
                old[key] = self.swap(value, child, seen) if below is None else below
                continue
            if before is not None:
                if before.is_nested:
                    refuse_strided_nested({key: before})
                old[key] = before
            done((table, key, before, value, given))
            table[key] = value
        if "_flat_weights" in module.__dict__:
            self.recurrent.append(module)
        cls = node.__class__
        result = seen[id(module)] = _node(old, cls if cls is self.cls else _dense(node))
        return result

    def _parameter(self, value: Any, before: Any) -> Tensor:
        """Wrap a value as a ``Parameter``, which requires a gradient if the replaced parameter does.

        A tensor computed from other tensors is returned unchanged, since a wrapper would cut off its gradient. With
        ``wrap=False``, so is every tensor: tensors at a level of ``torch.func`` must not be wrapped either.
        """
        if not isinstance(value, Tensor):
            value = _tensor_of(value)
        if not self.wrap or value.requires_grad or isinstance(value, Parameter):
            return value  # type: ignore[no-any-return]
        return Parameter(value, requires_grad=before is not None and before.requires_grad)

    def put_back(self) -> Sequence[tuple[Any, str, Tensor]]:
        """Undo the swap. Return the tensors that came into the module since: the store, the key, the tensor."""
        changed: list[tuple[Any, str, Tensor]] = []
        for table, key, before, put, given in reversed(self.done):
            now = table.get(key)
            if now is not put and now is not None:
                changed.append((given, key, now))
            table[key] = before
        return changed

    def undo(self) -> None:
        for table, key, before, _, _ in reversed(self.done):
            table[key] = before

    def refresh(self) -> None:
        """Update the list of weights that recurrent modules of torch keep beside their table."""
        for module in self.recurrent:
            names: Any = module._flat_weights_names
            module.__dict__["_flat_weights"] = [module._parameters.get(name) for name in names]


class _Misplaced(Exception):
    """A value fits no entry of the module. Callers replace it by a :class:`ModuleMismatch`, which lists all of them."""


def _tensor_of(value: Any) -> Tensor:
    """Return the tensor of an unbatched value. Raise for other collections and for objects."""
    held: Tensor | None = None if value._is_tree() else value._wrapped_tensor()
    if held is None:
        raise _Misplaced
    return held


def _dense(node: Any) -> Any:
    """Return the class of the results of operations on a collection."""
    return getattr(node, "_dense", node.__class__)


def _kind(value: Any) -> str:
    is_tensor = isinstance(value, Tensor) or value._wrapped_tensor() is not None
    return "a tensor" if is_tensor else f"a {type_name(value)}"


def _differences(node: Any, module: nn.Module, path: tuple[str, ...], found: list[str]) -> None:
    values: dict[str, Any] = {**node._store}
    for key, value in values.items():
        here = dotted((*path, key))
        kind = _kind(value)
        child = module._modules.get(key)
        if key in module._parameters or key in module._buffers:
            if kind != "a tensor":
                what = "parameter" if key in module._parameters else "buffer"
                found.append(f"{here}: the module has a {what} there, the collection {kind}")
        elif child is None:
            found.append(f"{here}: the module has nothing of this name, the collection {kind}")
        elif kind == "a tensor" or not value._is_tree():
            found.append(f"{here}: the module has a {type_name(child)} there, the collection {kind}")
        else:
            _differences(value, child, (*path, key), found)


def _misfit(node: Any, module: nn.Module) -> ModuleMismatch:
    found: list[str] = []
    _differences(node, module, (), found)
    names = dict.fromkeys([*module._parameters, *module._buffers, *module._modules])
    is_flat = any(key.partition(".")[0] in module._modules for key in node._store if "." in key)
    return ModuleMismatch(
        f"to_module: this {type_name(node)} does not fit the {type_name(module)}, which was not changed: "
        + "; ".join(found)
        + f". The module has {list(names)}"
        + ('; the keys of a state dict are nested by unflatten_keys(".")' if is_flat else "")
    )


class _Swap(Block):
    """Undoes ``with params.to_module(module):`` at the end of its block.

    The module gets its old tensors back. A tensor that the block replaced in the module, such as a buffer that each
    call computes anew, goes to the collection.
    """

    def __init__(self, swapping: _Swapping) -> None:
        self.swapping: _Swapping = swapping

    def leave(self, result: Collection, *exception: Any) -> None:
        changed = self.swapping.put_back()
        if self.swapping.recurrent:
            self.swapping.refresh()
        if changed and exception[0] is None:
            for _, key, now in changed:
                refuse_strided_nested({key: now})
            for store, key, now in reversed(changed):
                store[key] = now


class _Copy(Block):
    """Undoes ``with params.to_module(module, inplace=True):``, which copied numbers and replaced no tensors."""

    def __init__(self, entries: list[tuple[Entry, int]]) -> None:
        self.entries: list[tuple[Entry, int]] = entries

    def leave(self, result: Collection, *exception: Any) -> None:
        with torch.no_grad():
            for (table, key, _, target, given), version in self.entries:
                now, source = table.get(key), given[key]
                written = now is not target or target._version != version
                if exception[0] is None and now is not None and isinstance(source, Tensor) and written:
                    source.copy_(now)
            for (table, key, before, target, _), _ in self.entries:
                table[key] = target
                target.copy_(before)  # type: ignore[arg-type]


def _copied(node: Any, module: nn.Module, non_blocking: bool) -> tuple[Any, list[tuple[Entry, int]]]:
    """Copy the numbers of a collection into the tensors of a module. Return the old numbers, and the entries written.

    Each entry comes with the version of its tensor after the copy, which tells later whether the tensor was written.
    """
    swapping = _Swapping(False, registry.TensorDict)
    try:
        old = swapping.swap(node, module, {})
    except _Misplaced:
        swapping.undo()
        raise _misfit(node, module) from None
    swapping.undo()
    problems = [
        f"{printable(key)}: expected shape {list(before.shape) if before is not None else None}, "
        f"got {list(value.shape)}"
        for _, key, before, value, _ in swapping.done
        if before is None or before.shape != value.shape
    ]
    if problems:
        raise ValueError("to_module: nothing was copied into the module; " + "; ".join(problems))
    written: list[Entry] = []
    with torch.no_grad():
        copies: dict[int, Tensor] = {}
        for table, key, target, value, given in swapping.done:
            assert target is not None
            copy = copies.get(id(target))  # a tied tensor is saved once, before the first write
            if copy is None:
                copies[id(target)] = copy = target.detach().clone()
            target.copy_(value, non_blocking=non_blocking)
            written.append((table, key, copy, target, given))
    leaves = [copies.get(id(leaf), leaf) for leaf in old._leaves()]
    return old._with_leaves(iter(leaves)), [(entry, entry[3]._version) for entry in written]


# -- methods ----------------------------------------------------------------------------------------------------------


class Modules(Collection):
    """``from_module``, ``from_modules`` and ``to_module``."""

    __slots__ = ()

    @overload
    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        as_module: Literal[False] = False,
        lock: bool = False,
        use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Self: ...
    @overload
    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        as_module: bool,
        lock: bool = False,
        use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Self | TensorDictParams: ...
    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        as_module: bool = False,
        lock: bool = False,
        use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Any:
        """Return the parameters and buffers of a module, nested as its submodules are. Nothing is copied.

        A submodule that is registered twice gives the same collection under both keys. A record class needs fields
        with the names of the module's parameters.

        Args:
            module: an ``nn.Module``.
            as_module: return a :class:`~tensorclass.nn.TensorDictParams`, which can be an attribute of another module.
            lock: lock the result.
            use_state_dict: read ``module.state_dict()``, which runs its hooks and detaches the tensors. Extra state
                that is not a tensor becomes one object.
            filter_empty: leave out submodules that have neither parameters nor buffers.

        Returns:
            A collection that shares memory with the module. Its batch size is empty, unless the module is a
            collection itself.

        Raises:
            TypeError: ``module`` is not an ``nn.Module``.

        Example:
            >>> from torch import nn
            >>> from tensorclass import TensorDict
            >>> params = TensorDict.from_module(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
            >>> params["0", "weight"].shape
            torch.Size([4, 3])
        """
        _check_module(module, "from_module")
        if use_state_dict:
            tree = _without_strided_nested(nested(module.state_dict()))
        else:
            given: Any = module
            tree = (
                _densified(given)
                if isinstance(module, Collection)
                else _tree(module, filter_empty, registry.TensorDict, {})
            )
        return _finished(cls, tree, as_module, lock)

    @overload
    @classmethod
    def from_modules(
        cls,
        *modules: nn.Module,
        as_module: Literal[False] = False,
        lock: bool = True,
        use_state_dict: bool = False,
        lazy_stack: bool = False,
        expand_identical: bool = False,
    ) -> Self: ...
    @overload
    @classmethod
    def from_modules(
        cls,
        *modules: nn.Module,
        as_module: bool,
        lock: bool = True,
        use_state_dict: bool = False,
        lazy_stack: bool = False,
        expand_identical: bool = False,
    ) -> Self | TensorDictParams: ...
    @classmethod
    def from_modules(
        cls,
        *modules: nn.Module,
        as_module: bool = False,
        lock: bool = True,
        use_state_dict: bool = False,
        lazy_stack: bool = False,
        expand_identical: bool = False,
    ) -> Any:
        """Stack the parameters of several modules along a new first dimension, for ``vmap`` over models.

        Args:
            modules: modules of the same structure, unless ``lazy_stack`` is set.
            as_module: return a :class:`~tensorclass.nn.TensorDictParams`, which can be an attribute of another module.
            lock: lock the result.
            use_state_dict: read ``module.state_dict()``, which runs its hooks and detaches the tensors.
            lazy_stack: keep the parameters of each module, and stack them at each read. By default they are copied
                into new parameters, which are then the ones to pass to an optimizer.
            expand_identical: return a parameter that all modules share as an expanded view, without a copy. Not
                possible with ``as_module``, since views cannot be the parameters of a module.

        Returns:
            A collection of batch size ``[len(modules)]``.

        Raises:
            TypeError: one of ``modules`` is not an ``nn.Module``.
            RuntimeError: no module was given, the modules differ in keys or shapes, or ``as_module`` was combined
                with ``lazy_stack`` or with expanded views.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from tensorclass import TensorDict
            >>> modules = [nn.Linear(3, 4) for _ in range(2)]
            >>> params = TensorDict.from_modules(*modules)
            >>> empty = nn.Linear(3, 4, device="meta")
            >>> def call(params, x):
            ...     with params.to_module(empty):
            ...         return empty(x)
            >>> torch.vmap(call, (0, None))(params, torch.ones(3)).shape
            torch.Size([2, 4])
        """
        if not modules:
            raise RuntimeError("from_modules: expected at least one module")
        if lazy_stack and as_module:
            raise RuntimeError("from_modules: a lazy stack cannot be a module; give lazy_stack or as_module, not both")
        for module in modules:
            _check_module(module, "from_modules")
        trees: list[Any] = [
            registry.TensorDict.from_module(module, use_state_dict=use_state_dict) for module in modules
        ]
        if lazy_stack:
            target: Any = cls
            stack = target.lazy_stack([_finished(cls, tree, False, False) for tree in trees])
            return stack.lock_() if lock else stack
        made: dict[tuple[int, ...], Tensor] = {}
        tree = _stacked(trees, (), expand_identical, registry.TensorDict, made)
        if as_module and any(leaf.requires_grad and not leaf.is_leaf for leaf in tree._leaves()):
            raise RuntimeError(
                "from_modules: expand_identical gives views of parameters that the modules share, which cannot be the "
                "parameters of another module; leave expand_identical or as_module out"
            )
        return _finished(cls, tree, as_module, lock)

    @overload
    def to_module(
        self,
        module: nn.Module,
        *,
        inplace: bool | None = None,
        return_swap: Literal[True] = True,
        swap_dest: None = None,
        use_state_dict: bool = False,
        non_blocking: bool = False,
        preserve_module_state: bool = True,
        memo: None = None,
    ) -> Self: ...
    @overload
    def to_module(
        self,
        module: nn.Module,
        *,
        inplace: bool | None = None,
        return_swap: bool = True,
        swap_dest: Any = None,
        use_state_dict: bool = False,
        non_blocking: bool = False,
        preserve_module_state: bool = True,
        memo: None = None,
    ) -> Any: ...
    def to_module(
        self,
        module: nn.Module,
        *,
        inplace: bool | None = None,
        return_swap: bool = True,
        swap_dest: Any = None,
        use_state_dict: bool = False,
        non_blocking: bool = False,
        preserve_module_state: bool = True,
        memo: None = None,
    ) -> Any:
        """Replace a module's parameters and buffers by the values of this collection.

        In a ``with`` statement, the replacement lasts for the block. At its end, also after an exception, the module
        gets its old tensors back. Without an exception, tensors that the block replaced in the module, such as
        buffers, are then stored in this collection, even if it is locked.

        Args:
            module: an ``nn.Module``. Parameters and buffers for which there is no value stay.
            inplace: copy the numbers into the tensors of the module instead of replacing the tensors.
            return_swap: return the old values, which a ``with`` statement needs. Otherwise return ``None``.
            swap_dest: a collection that is updated with the old values, and returned.
            use_state_dict: load the values as a state dict: run the module's hooks before and after loading, load its
                extra state, and return the old values as a state dict. The tensors themselves are put in the module,
                so a custom ``_load_from_state_dict`` is not called.
            non_blocking: do not wait for the copies that ``inplace`` makes between devices.
            preserve_module_state: wrap a tensor that requires no gradient as a parameter, which requires a gradient
                if the replaced one does. With ``False`` the module gets the tensor itself. Tensors that require a
                gradient are never wrapped, nor is any tensor under ``torch.func`` and ``torch.compile``.
            memo: part of the signature for compatibility. Must be ``None``.

        Returns:
            The old values, as a collection of the same keys: the replaced tensors themselves, or copies if
            ``inplace``. ``None`` if ``return_swap`` is ``False``.

        Raises:
            TypeError: ``module`` is not an ``nn.Module``.
            ModuleMismatch: values match nothing in the module. A ``KeyError``, which lists them. The module is
                unchanged.
            ValueError: with ``inplace``, a value and its target differ in shape. The module is unchanged.
            RuntimeError: ``memo`` was given.

        Example:
            >>> from torch import nn
            >>> from tensorclass import TensorDict
            >>> module = nn.Linear(1, 1)
            >>> params = TensorDict.from_module(module).data.clone().zero_()
            >>> with params.to_module(module):
            ...     module.weight.item()
            0.0
        """
        _check_module(module, "to_module")
        if memo is not None:
            raise RuntimeError("to_module: memo cannot be given; modules that stand in several places are found here")
        if not isinstance(preserve_module_state, bool):
            raise TypeError(f"to_module: preserve_module_state: expected True or False, got {preserve_module_state!r}")
        source: Any = self
        loading = Loading(source, module) if use_state_dict else None
        hooked = source if loading is None else loading.tree
        before: Any = None
        if loading is not None:
            before = (
                with_members(nested(module.state_dict())).clone()
                if inplace
                else nested(module.state_dict(keep_vars=True))
            )
        block: Block
        if inplace:
            old, entries = _copied(hooked, module, non_blocking)
            block = _Copy(entries)
            undo: Callable[[], Any] = lambda: block.leave(self, None)  # noqa: E731
        else:
            wrap = preserve_module_state and not torch.compiler.is_compiling() and not _transforms_active()
            swapping = _Swapping(wrap, registry.TensorDict)
            undo = swapping.undo
            try:
                old = swapping.swap(hooked, module, {})
            except _Misplaced:
                undo()
                raise _misfit(hooked, module) from None
            except BaseException:
                undo()
                raise
            if swapping.recurrent:
                swapping.refresh()
            block = _Swap(swapping)
        if loading is not None:
            try:
                loading.finish()
            except BaseException:
                undo()
                raise
            block = Loaded(block, loading)
            undo = lambda: block.leave(self, None)  # noqa: E731
            keys = [*old.keys(True, True)]
            # hooks may have changed the keys
            whole = hooked is not source or any(key not in with_members(before).keys(True, True) for key in keys)
            old = before if whole else with_members(before).select(*keys)
        if swap_dest is not None:
            try:
                swap_dest.update(old)
            except BaseException:
                undo()
                raise
            old = swap_dest
        if not return_swap:
            return None
        old._context = ((), block)
        return old


def _finished(cls: type[Any], tree: Any, as_module: bool, lock: bool) -> Any:
    """Convert the collection read from a module to the requested class, and lock it if requested."""
    asked: Any = getattr(cls, "_dense", cls)
    if asked is not registry.TensorDict and hasattr(asked, "_specs"):
        size = tree._batch_size
        tree = asked.from_dict(_as_dict(tree), batch_size=size)
    if as_module:
        tree = as_parameters(tree)
    return with_members(tree).lock_() if lock else tree
