"""Register collections as pytree nodes of ``optree`` without importing it.

If optree is imported already, a class is registered when it is defined; otherwise as soon as optree is imported. For
this a finder in ``sys.meta_path`` sees the import of every module that is not loaded yet. It removes itself after the
import of optree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from torch.utils import _pytree

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]
Entries = Callable[[list[Any]], tuple[str, ...]]

#: the classes to register once optree is imported
_waiting: list[tuple[type[Any], Flatten, Unflatten, Entries | None]] = []


def register_with_optree(
    cls: type[Any], flatten: Flatten, unflatten: Unflatten, entries: Entries | None = None
) -> None:
    """Register a class as a node of optree, now or when optree is imported.

    Args:
        cls: the class.
        flatten, unflatten: as for torch's pytrees.
        entries: returns the names of some leaves. Default: the keys of the store.
    """
    if _WATCHER in sys.meta_path:
        _waiting.append((cls, flatten, unflatten, entries))
    else:
        _register_now(cls, flatten, unflatten, entries)


def _register_now(cls: type[Any], flatten: Flatten, unflatten: Unflatten, entries: Entries | None) -> None:
    optree: Any = sys.modules["optree"]

    def flattened(collection: Any) -> tuple[list[Any], Any, tuple[str, ...]]:
        leaves, context = flatten(collection)
        return leaves, context, tuple(collection._store) if entries is None else entries(leaves)

    def unflattened(context: Any, values: Iterable[Any]) -> Any:
        return unflatten(values, context)

    everywhere = getattr(optree.registry, "__GLOBAL_NAMESPACE")
    optree.register_pytree_node(cls, flattened, unflattened, path_entry_type=optree.MappingEntry, namespace=everywhere)


def unregister_from_optree(cls: type[Any]) -> None:
    """Unregister a class, also from torch's registry for optree."""
    _waiting[:] = [entry for entry in _waiting if entry[0] is not cls]
    pending: list[Any] = getattr(_pytree, "_cxx_pytree_pending_imports", [])
    pending[:] = [entry for entry in pending if entry[0][0] is not cls]
    optree: Any = sys.modules.get("optree")
    if optree is None:
        return
    for namespace in (getattr(optree.registry, "__GLOBAL_NAMESPACE"), "torch"):
        with suppress(ValueError):  # it is not registered
            optree.unregister_pytree_node(cls, namespace=namespace)


class _ImportWatcher:
    """Finds optree through the other finders, with a loader that registers the waiting classes after the import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "optree":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _RegisteringLoader(spec.loader)
                return spec
        return None


class _RegisteringLoader(Loader):
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        if _WATCHER in sys.meta_path:
            sys.meta_path.remove(_WATCHER)
        while _waiting:
            _register_now(*_waiting.pop())


_WATCHER: Any = _ImportWatcher()
if "optree" not in sys.modules:
    sys.meta_path.insert(0, _WATCHER)
