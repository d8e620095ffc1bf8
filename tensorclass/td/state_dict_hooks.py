"""Swap the parameters of a module through its state-dict hooks, and with its extra state.

A swap with ``use_state_dict`` puts the tensors themselves into a module, as ``load_state_dict(assign=True)`` does, and
makes the same calls in the same order: pre-load hooks, ``set_extra_state``, post-load hooks. A
``_load_from_state_dict`` that a class overrides is not called, because it writes into the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from tensorclass.support.printable import type_name

from . import registry
from .context import Block
from .get import MISSING
from .hidden_members import with_members

#: key of the extra state of a module in torch's state dicts
_EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """The argument of hooks: keys of the module that are not swapped. There are no unexpected ones."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def nested(flat: Mapping[str, Any]) -> Any:
    """Convert a state dict to a collection with the tree of the module. Values that are not tensors become objects."""
    return registry.TensorDict(
        {
            tuple(key.split(".")): value if isinstance(value, Tensor) else registry.NonTensorData(value)
            for key, value in flat.items()
        }
    )


class Loading:
    """The loading of a collection into a module.

    Args:
        source: the values, in the tree of the module.
        module: the module. Its pre-load hooks are called at once.

    Raises:
        RuntimeError: hooks report errors.
    """

    __slots__ = ("extra", "keys", "module", "replaced", "tree")

    def __init__(self, source: Any, module: Any) -> None:  # torch has no types for the hooks of a module
        self.module: nn.Module = module
        flat: dict[str, Any] = {".".join(path): leaf for path, leaf in source._named_leaves()}
        given = dict(flat)
        extended = [(_below(name, _EXTRA), child) for name, child in module.named_modules() if _has_extra_state(child)]
        for key, _ in extended:
            value = source._find(tuple(key.split(".")))
            if value is not MISSING:
                flat = {name: leaf for name, leaf in flat.items() if not name.startswith(f"{key}.")}
                flat[key] = _object(value)
        errors: list[str] = []
        _call_pre_hooks(module, flat, "", errors)
        if errors:
            raise RuntimeError(f"to_module: nothing was put into the {type_name(module)}; " + "; ".join(errors))
        self.extra: list[tuple[Any, Any]] = [(child, flat.pop(key)) for key, child in extended if key in flat]
        self.keys: set[str] = {*flat}
        self.replaced: list[tuple[Any, Any]] = []
        #: values for the tables of the module: the source itself, unless a hook changed something
        changed = bool(self.extra) or flat.keys() != given.keys() or any(flat[key] is not given[key] for key in flat)
        self.tree: Any = nested(flat) if changed else source

    def finish(self) -> None:
        """Set extra state, and call the post-load hooks."""
        try:
            for child, value in self.extra:
                self.replaced.append((child, child.get_extra_state()))
                child.set_extra_state(value)
            hooked = [child for child in _children_first(self.module) if child._load_state_dict_post_hooks]
            if hooked:
                keys = IncompatibleKeys([key for key in self.module.state_dict() if key not in self.keys], [])
                for child in hooked:
                    for hook in child._load_state_dict_post_hooks.values():
                        hook(child, keys)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Restore the previous extra state."""
        for child, value in reversed(self.replaced):
            child.set_extra_state(value)


class Loaded(Block):
    """The block of ``with params.to_module(module, use_state_dict=True)``, whose end restores the module."""

    def __init__(self, block: Block, loading: Loading) -> None:
        self.block: Block = block
        self.loading: Loading = loading

    def leave(self, result: Any, *exception: Any) -> None:
        try:
            self.block.leave(result, *exception)
        finally:
            self.loading.undo()


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _has_extra_state(module: nn.Module) -> bool:
    return type(module).set_extra_state is not nn.Module.set_extra_state


def _object(value: Any) -> Any:
    """Return extra state in the form in which the module gave it."""
    if isinstance(value, Tensor):
        return value
    return with_members(value).to_dict() if value._is_tree() else value.data


def _call_pre_hooks(module: Any, flat: dict[str, Any], prefix: str, errors: list[str]) -> None:
    """Call the hooks of a module and its children. Each gets its own part of the state dict, as in torch."""
    hooks: Any = module._load_state_dict_pre_hooks
    for hook in hooks.values():
        hook(flat, prefix, {}, True, [], [], errors)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {key: value for key, value in flat.items() if key.startswith(below)}
            changed = dict(part)
            _call_pre_hooks(child, changed, below, errors)
            for key in part.keys() - changed.keys():
                del flat[key]
            flat.update(changed)


def _children_first(module: nn.Module) -> Iterator[Any]:
    for child in module._modules.values():
        if child is not None:
            yield from _children_first(child)
    yield module
