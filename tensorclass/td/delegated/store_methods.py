"""Collections over stores that users give."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .declaration import delegated


class Stores(Collection):
    """``from_store``."""

    __slots__ = ()

    @classmethod
    @delegated("tensorclass.td.stores.user_mapping")
    def from_store(
        cls,
        store: MutableMapping[str, Any],
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> Self:
        """Return a collection that reads from a mapping and writes to it, without a copy.

        Operations return collections on a plain dict. Operations in place read the values, change them and write them
        back.

        Args:
            store: returns and takes values under string keys. A mutable mapping in it is a nested collection that reads
                and writes through, too. Tensors and collections (nested ones and non-tensor data) are written to it.
            batch_size: the leading dimensions that all values share. Default: none.
            device: the device that all values must be on. Nothing is moved. Default: any.
            names: a name or ``None`` for each batch dimension. Default: no names.

        Returns:
            A collection of this class on ``store``.

        Raises:
            RuntimeError: a value's shape does not begin with the batch size, or it is on another device.
            TypeError: ``store`` is not a mutable mapping.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> store = {"a": torch.zeros(3), "b": {"c": torch.ones(3)}}
            >>> data = TensorDict.from_store(store, [3])
            >>> data["b", "d"] = torch.ones(3)
            >>> list(store["b"])
            ['c', 'd']
        """
        ...
