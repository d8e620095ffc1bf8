"""What ``print`` shows."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .collection import Collection


class Printing(Collection):
    """``repr``: the fields with shape, dtype and device, not their content."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = [f"{key}: {described(value)}" for key, value in self._items_for_repr()]
        body = ",".join("\n        " + field.replace("\n", "\n        ") for field in fields)
        head = f"\n    fields={{{body}}}"
        names = f",\n    names={self.names}" if self._names is not None else ""
        return (
            f"{type(self).__name__}({head},\n    batch_size={self._batch_size},\n    device={self._device}{names},\n"
            f"    is_shared={self.is_shared()})"
        )

    def _items_for_repr(self) -> Any:
        return sorted(self._store.items())

    def is_shared(self) -> bool:
        """Whether all tensors are in shared memory (CUDA tensors always are)."""
        leaves = list(self._leaves())
        return bool(leaves) and all(_is_shared(leaf) for leaf in leaves)


def _is_shared(value: Any) -> bool:
    leaf = value
    try:
        shared: bool = isinstance(value, Tensor) and leaf.is_shared()
    except (NotImplementedError, RuntimeError):  # a tensor without memory of its own: inside vmap, sparse, nested
        return False
    return shared


def described(value: Any) -> str:
    """One value in a ``repr``: a tensor by its form, everything else by its own ``repr``."""
    if isinstance(value, Tensor):
        return (
            f"{type(value).__name__}(shape={value.shape}, device={value.device}, dtype={value.dtype}, "
            f"is_shared={_is_shared(value)})"
        )
    return repr(value)
