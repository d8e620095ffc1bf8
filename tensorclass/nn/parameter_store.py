"""The tables of an ``nn.Module`` as the store of a collection."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import Parameter

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection


class ModuleEntries(MutableMapping[str, Any]):
    """The entries of a module by name: parameters, buffers, nested collections, and objects.

    Tensors and submodules live in the tables of the module and nowhere else. A change that ``nn.Module`` makes there (a
    move to another device, a loaded state dict, parameters that are swapped or sharded) is a change here.

    Args:
        module: the owner of the tables. It is not kept, which would be a reference cycle.
        nested: makes the submodule for a nested collection.
        convert: convert floating point tensors to parameters; otherwise they become buffers.
    """

    __slots__ = ("buffers", "convert", "modules", "nested", "objects", "parameters")

    def __init__(self, module: Any, nested: Callable[[TensorCollection, bool], Any], convert: bool) -> None:
        self.parameters: dict[str, Tensor | None] = module._parameters
        self.buffers: dict[str, Tensor | None] = module._buffers
        self.modules: dict[str, Any] = module._modules
        self.objects: dict[str, Any] = {}
        self.nested: Callable[[TensorCollection, bool], Any] = nested
        self.convert: bool = convert

    def __getitem__(self, key: str) -> Any:
        value: Any = self.parameters.get(key)
        if value is None:
            value = self.buffers.get(key)
        if value is None:
            value = self.modules.get(key)
            if not isinstance(value, Collection):  # a submodule that is not an entry
                return self.objects[key]
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        table, value = self._table_for(key, value)
        for other in (self.parameters, self.buffers, self.modules, self.objects):
            if other is not table:
                other.pop(key, None)
        table[key] = value

    def _table_for(self, key: str, value: Any) -> tuple[dict[str, Any], Any]:
        if isinstance(value, Parameter):
            return self.parameters, value
        if isinstance(value, Tensor):
            is_buffer = _is_buffer(value) or not (value.is_floating_point() or value.is_complex())
            if is_buffer or not self.convert:
                return self.buffers, value
            return self.parameters, Parameter(value.detach())
        if value._wrapped_tensor() is not None:
            kind = type_name(value)
            raise TypeError(
                f"{key}: {'an' if kind[0] in 'AEIOU' else 'a'} {kind} cannot be a parameter or a buffer: give its "
                "tensor, expanded to the batch size"
            )
        if value._is_tree():
            return self.modules, self.nested(value, self.convert)
        return self.objects, value

    def __delitem__(self, key: str) -> None:
        for table in (self.parameters, self.buffers, self.modules, self.objects):
            if table.pop(key, None) is not None:
                return
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.merged())

    def items(self) -> ItemsView[str, Any]:
        """Return keys and values, as :meth:`merged` orders them."""
        return self.merged().items()

    def values(self) -> Any:
        """Return the values, as :meth:`merged` orders them."""
        return self.merged().values()

    def __len__(self) -> int:
        return len(self.merged())

    def merged(self) -> dict[str, Any]:
        """Return all entries in a new dict: parameters first, then buffers, nested collections and objects."""
        merged: dict[str, Any] = {key: value for key, value in self.parameters.items() if value is not None}
        if self.buffers:
            merged |= {key: value for key, value in self.buffers.items() if value is not None}
        if self.modules:
            merged |= {key: value for key, value in self.modules.items() if isinstance(value, Collection)}
        if self.objects:
            merged |= self.objects
        return merged

    def clear(self) -> None:
        """Remove all entries. Submodules that are not entries stay."""
        for key in self.merged():
            del self[key]


def _is_buffer(value: Tensor) -> bool:
    """Return whether a tensor was made by ``nn.Buffer``."""
    return bool(getattr(value, "_is_buffer", False))
