"""Parameters and buffers of an ``nn.Module`` as a collection, and a collection put in their place.

A swap writes the tensors into the tables of the module (``_parameters``, ``_buffers``), where ``torch.func``'s
``functional_call`` writes them too: attributes, ``named_parameters()`` and the order of ``state_dict()`` stay what they
are, whatever kind of tensor comes. What was there is noted entry by entry, so that the way back compares nothing and
looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Size, Tensor, nn
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.nn import Parameter
from typing_extensions import Self

from tensorclass.support.printable import printable

from . import registry
from .collection import Collection
from .context import Block
from .delegated.engine_functions import as_parameters
from .keys import dotted
from .state_dict_hooks import Loaded, Loading, nested
from .value_checks import is_strided_nested, refuse_strided_nested, strided_nested

if TYPE_CHECKING:
    from tensorclass.nn.params import TensorDictParams

    from .collection import Store

    #: a table of a module, the key, what was there, what came, and the store that it came from
    Entry = tuple[dict[str, Any], str, Tensor | None, Tensor, Store]

_NO_SIZE = Size(())


class ModuleMismatch(KeyError):
    """A collection has values that are no parameters, buffers or submodules of a module; lists all of them."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: str = message

    def __str__(self) -> str:  # not the repr, which KeyError gives
        return self.message


# -- reading ----------------------------------------------------------------------------------------------------------


def _check_module(module: object, operation: str) -> None:
    if not isinstance(module, nn.Module):
        raise TypeError(f"{operation}: expected an nn.Module, got {type(module).__name__}")


def _node(store: Any, cls: type[Any]) -> Any:
    """A collection without batch size and device: nothing is checked."""
    new = object.__new__(cls)
    new._store = store
    new._batch_size = _NO_SIZE
    new._device = None
    new._names = None
    new._lock = None
    return new


def _tree(module: nn.Module, filter_empty: bool, cls: type[Any], seen: dict[int, Any]) -> Any:
    """The parameters and buffers of a module; a module that stands in two places gives one collection."""
    store: dict[str, Any] = {key: value for key, value in module._parameters.items() if value is not None}
    if module._buffers:
        store |= {key: value for key, value in module._buffers.items() if value is not None}
    children: dict[str, Any] = module._modules  # one that is a collection already has a batch size
    for key, child in children.items():
        if child is not None:
            below = seen.get(id(child))
            if below is None:
                below = _densified(child) if isinstance(child, Collection) else _tree(child, filter_empty, cls, seen)
            if below._store or not filter_empty:
                store[key] = below
    node = seen[id(module)] = _node(store, cls)
    return node


def _densified(parameters: Any) -> Any:
    """What a module holds that is a collection itself."""
    return parameters._densified()


def _as_dict(node: Collection) -> dict[str, Any]:
    return {key: _as_dict(value) if isinstance(value, Collection) else value for key, value in node._store.items()}


def _stacked(
    trees: list[Any], path: tuple[str, ...], expand_identical: bool, cls: type[Any], made: dict[tuple[int, ...], Tensor]
) -> Any:
    """The dense stack of parameters. Those of a module that are tied stay tied."""
    keys = [set(tree._store) for tree in trees]
    if any(other != keys[0] for other in keys):
        where = f"below {'.'.join(path)!r} " if path else ""
        raise RuntimeError(
            f"from_modules: the modules have different keys {where}and cannot be stacked: "
            + "; ".join(f"{i}: {sorted(some)}" for i, some in enumerate(keys))
            + ". Give lazy_stack=True for modules that differ"
        )
    store: dict[str, Any] = {}
    for key, first in trees[0]._store.items():
        values = [tree._store[key] for tree in trees]
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


# -- putting in place -------------------------------------------------------------------------------------------------


class _Swapping:
    """One call of ``to_module``: what it was told, and what it did."""

    __slots__ = ("cls", "done", "recurrent", "wrap")

    def __init__(self, wrap: bool, cls: type[Any]) -> None:
        self.wrap: bool = wrap
        self.cls: type[Any] = cls
        self.done: list[Entry] = []
        self.recurrent: list[nn.Module] = []

    def swap(self, node: Any, module: nn.Module, seen: dict[int, Any]) -> Any:
        """Puts the tensors of a collection into a module, and gives what was there.

        A module that comes again has its tensors already: the first of the trees that are given for it holds.
        """
        old: dict[str, Any] = {}
        parameters: dict[str, Any] = module._parameters
        buffers: dict[str, Any] = module._buffers
        given = node._store
        done = self.done.append
        for key, value in given.items():
            if key in parameters:
                table = parameters
                before = table[key]
                if value.__class__ is not Parameter:
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
        """What stands for a parameter: one that can be trained where the one before could.

        What is computed from other tensors stays what it is, or gradients would not get there; and so does what
        carries a level of ``torch.func``.
        """
        if not isinstance(value, Tensor):
            value = _tensor_of(value)
        if not self.wrap or value.requires_grad or isinstance(value, Parameter):
            return value  # type: ignore[no-any-return]
        return Parameter(value, requires_grad=before is not None and before.requires_grad)

    def undo(self) -> None:
        for table, key, before, _, _ in reversed(self.done):
            table[key] = before

    def refresh(self) -> None:
        """Recurrent modules of torch keep a list of their weights beside the table."""
        for module in self.recurrent:
            names: Any = module._flat_weights_names
            module.__dict__["_flat_weights"] = [module._parameters.get(name) for name in names]


class _Misplaced(Exception):
    """Never leaves this module: the differences are listed instead."""


def _tensor_of(value: Any) -> Tensor:
    """The tensor of an unbatched one; there is none in another collection or in an object."""
    held: Tensor | None = None if value._is_tree() else value._held()
    if held is None:
        raise _Misplaced
    return held


def _dense(node: Any) -> Any:
    """The class of what is computed from a collection."""
    return getattr(node, "_dense", node.__class__)


def _kind(value: Any) -> str:
    is_tensor = isinstance(value, Tensor) or value._held() is not None
    return "a tensor" if is_tensor else f"a {type(value).__name__}"


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
            found.append(f"{here}: the module has a {type(child).__name__} there, the collection {kind}")
        else:
            _differences(value, child, (*path, key), found)


def _misfit(node: Any, module: nn.Module) -> ModuleMismatch:
    found: list[str] = []
    _differences(node, module, (), found)
    names = dict.fromkeys([*module._parameters, *module._buffers, *module._modules])
    is_flat = any(key.partition(".")[0] in module._modules for key in node._store if "." in key)
    return ModuleMismatch(
        f"to_module: this {type(node).__name__} does not fit the {type(module).__name__}, which was not changed: "
        + "; ".join(found)
        + f". The module has {list(names)}"
        + ('; the keys of a state dict are nested by unflatten_keys(".")' if is_flat else "")
    )


class _Swap(Block):
    """What the end of ``with params.to_module(module):`` undoes.

    A tensor that the module got in place of one that was swapped in, such as a buffer that is computed anew in each
    call, goes to the collection; what was swapped out comes back.
    """

    def __init__(self, swapping: _Swapping) -> None:
        self.swapping: _Swapping = swapping

    def leave(self, result: Collection, *exception: Any) -> None:
        changed: list[tuple[Any, str, Tensor]] = []
        for table, key, before, put, given in reversed(self.swapping.done):
            now = table.get(key)
            if now is not put and now is not None:
                changed.append((given, key, now))
            table[key] = before
        if self.swapping.recurrent:
            self.swapping.refresh()
        if changed and exception[0] is None:
            for _, key, now in changed:
                refuse_strided_nested({key: now})
            for store, key, now in reversed(changed):
                store[key] = now


class _Copy(Block):
    """What the end of ``with params.to_module(module, inplace=True):`` undoes: numbers, not tensors."""

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
    """Writes the numbers of a collection into the tensors of a module; gives copies of what they were."""
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
            copy = copies.get(id(target))  # a tied one is copied before it is written to the first time
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
        """The parameters and buffers of a module, in the tree of its submodules. Nothing is copied.

        Args:
            module: an ``nn.Module``.
            as_module: give a :class:`~tensorclass.nn.TensorDictParams`, which can be an attribute of another module.
            lock: lock the result.
            use_state_dict: read ``module.state_dict()``, with what its hooks do: detached tensors. Extra state that is
                no tensor is one object.
            filter_empty: leave out submodules that have neither parameters nor buffers.

        A submodule that stands in two places gives one collection under both keys. For a record class the names of
        the module's parameters are those of its fields.

        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> params = TensorDict.from_module(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
        >>> params["0", "weight"].shape
        torch.Size([4, 3])
        """
        _check_module(module, "from_module")
        if use_state_dict:
            tree = nested(module.state_dict())
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
        """The parameters of several modules, stacked along a new first dimension: for ``vmap`` over models.

        Args:
            modules: of one structure, unless they are stacked lazily.
            as_module: give a :class:`~tensorclass.nn.TensorDictParams`, which can be an attribute of another module.
            lock: lock the result.
            use_state_dict: read ``module.state_dict()``, with what its hooks do: detached tensors.
            lazy_stack: keep the parameters of each module, and stack them when they are read, each time. By default
                they are copied into new parameters: these are what an optimizer gets then.
            expand_identical: give a parameter that is the same in all modules as an expanded view, not copied. Not
                with ``as_module``: views cannot be the parameters of a module.

        Raises:
            RuntimeError: the modules differ in keys or shapes.

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
        """Puts the values in the place of a module's parameters and buffers; in a ``with`` statement, for its block.

        Args:
            module: an ``nn.Module``. It may have more parameters than there are values: these stay.
            inplace: write the numbers into the tensors of the module instead of replacing them.
            return_swap: give what was there, which a ``with`` statement needs; otherwise ``None``.
            swap_dest: a collection that gets what was there, and is given back.
            use_state_dict: put the values in as a state dict: through the hooks that modules have for these, before and
                after loading, and with their extra state; and give what was there as a state dict. The tensors are
                put in place as they are, so a ``_load_from_state_dict`` of one's own is not called.
            non_blocking: do not wait for the copies that ``inplace`` makes between devices.
            preserve_module_state: a tensor that requires no gradient becomes a parameter that can be trained where
                the one that it replaces could. With ``False`` the module gets the tensor itself. A tensor that
                requires a gradient always stays itself, and so do all under ``torch.func`` and ``torch.compile``.
            memo: for the peer's signature; nothing may be given.

        What was there comes as a collection of the same keys. When the block of a ``with`` statement ends, also by an
        exception, it is back in the module. Without an exception, tensors that were replaced in the module meanwhile,
        such as buffers, are then in this collection, locked or not.

        Raises:
            ModuleMismatch: values have no place in the module: a ``KeyError`` that lists them. Nothing was changed.
            ValueError: a shape is not that of the tensor that ``inplace`` writes to. Nothing was changed.

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
        source: Any = self
        loading = Loading(source, module) if use_state_dict else None
        hooked = source if loading is None else loading.tree
        before: Any = None
        if loading is not None:
            before = nested(module.state_dict()).clone() if inplace else nested(module.state_dict(keep_vars=True))
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
            whole = hooked is not source or any(key not in before.keys(True, True) for key in keys)  # after hooks
            old = before if whole else before.select(*keys)
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
    """The tree of a module as what was asked for."""
    if any(leaf.is_nested for leaf in tree._leaves()):
        for path, leaf in tree._named_leaves():
            if is_strided_nested(leaf):
                raise strided_nested(path)

    asked: Any = getattr(cls, "_dense", cls)
    if asked is not registry.TensorDict and hasattr(asked, "_specs"):
        size = tree._batch_size
        tree = asked.from_dict(_as_dict(tree), batch_size=size)
    if as_module:
        tree = as_parameters(tree)
    return tree.lock_() if lock else tree
