"""The tables of an ``nn.Module`` as the store of a collection."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import Parameter

from tensorclass.td.collection import Collection

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection


class Entries(MutableMapping[str, Any]):
    """What is registered in a module under strings: parameters, buffers, nested collections, and beside them objects.

    There is no second copy of anything, so what ``nn.Module`` changes in its tables is changed here: a move to another
    device, a state dict that is loaded, parameters that are swapped or sharded.

    Args:
        module: gives the tables. It is not kept: the two would keep each other.
        nested: makes what is registered for a nested collection.
        convert: whether floating point tensors become parameters; otherwise they become buffers.
    """

    __slots__ = ("buffers", "convert", "modules", "nested", "objects", "parameters")

    def __init__(self, module: Any, nested: Callable[[TensorCollection], Any], convert: bool) -> None:
        self.parameters: dict[str, Tensor | None] = module._parameters
        self.buffers: dict[str, Tensor | None] = module._buffers
        self.modules: dict[str, Any] = module._modules
        self.objects: dict[str, Any] = {}
        self.nested: Callable[[TensorCollection], Any] = nested
        self.convert: bool = convert

    def __getitem__(self, key: str) -> Any:
        value: Any = self.parameters.get(key)
        if value is None:
            value = self.buffers.get(key)
        if value is None:
            value = self.modules.get(key)
            if not isinstance(value, Collection):  # a module that is none of the entries
                return self.objects[key]
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        table, value = self._entering(key, value)
        for other in (self.parameters, self.buffers, self.modules, self.objects):
            if other is not table:
                other.pop(key, None)
        table[key] = value

    def _entering(self, key: str, value: Any) -> tuple[dict[str, Any], Any]:
        if isinstance(value, Parameter):
            return self.parameters, value
        if isinstance(value, Tensor):
            made = _is_buffer(value) or not (value.is_floating_point() or value.is_complex())
            if made or not self.convert:
                return self.buffers, value
            return self.parameters, Parameter(value.detach())
        if value._held() is not None:
            raise TypeError(
                f"{key}: an {type(value).__name__} cannot be a parameter or a buffer: give its tensor, expanded to the "
                "batch size"
            )
        if value._is_tree():
            return self.modules, self.nested(value)
        return self.objects, value

    def __delitem__(self, key: str) -> None:
        for table in (self.parameters, self.buffers, self.modules, self.objects):
            if table.pop(key, None) is not None:
                return
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.merged())

    def items(self) -> ItemsView[str, Any]:
        return self.merged().items()

    def values(self) -> Any:
        return self.merged().values()

    def __len__(self) -> int:
        return len(self.merged())

    def merged(self) -> dict[str, Any]:
        """All entries in a dict of their own: parameters first, then buffers, nested collections and objects."""
        merged: dict[str, Any] = {key: value for key, value in self.parameters.items() if value is not None}
        if self.buffers:
            merged |= {key: value for key, value in self.buffers.items() if value is not None}
        if self.modules:
            merged |= {key: value for key, value in self.modules.items() if isinstance(value, Collection)}
        if self.objects:
            merged |= self.objects
        return merged

    def clear(self) -> None:
        for key in self.merged():
            del self[key]


def _is_buffer(value: Tensor) -> bool:
    """Whether a tensor was made by ``nn.Buffer``."""
    return bool(getattr(value, "_is_buffer", False))
