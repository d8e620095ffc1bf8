"""Attributes of each tensor as a tree: device, dtype, shape, address. Sizes of a collection in bytes and elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from tensorclass.support.nearest import did_you_mean

from . import registry
from .collection import Collection, is_tree
from .hidden_members import with_members

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store

_ATTRIBUTES = ("device", "dtype", "shape")
_CPU = torch.device("cpu")


class Attributes(Collection):
    """``attrs``, ``data_ptr``, ``bytes``, ``param_count`` and ``depth``."""

    __slots__ = ()

    def attrs(self, *, fields: Sequence[str] = _ATTRIBUTES, num_threads: int | None = None) -> TensorCollection:
        """Return the device, dtype and shape of each tensor, without its values: enough to rebuild the structure.

        Args:
            fields: the attributes to read, some of ``"device"``, ``"dtype"`` and ``"shape"``; the others become
                ``None``. Default: all three.
            num_threads: the number of threads that read them, useful if reading takes time. Default: none.

        Returns:
            A TensorDict without batch dimensions that holds a :class:`TensorAttrs` for each tensor. Non-tensor data is
            kept.

        Raises:
            ValueError: there is no such attribute.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3, 4)}, [3]).attrs()["a"].tgt_shape
            torch.Size([3, 4])
        """
        wanted = (fields,) if isinstance(fields, str) else tuple(fields)
        if unknown := [name for name in wanted if name not in _ATTRIBUTES]:
            wrong = f"{unknown}{did_you_mean(unknown, _ATTRIBUTES)}"
            raise ValueError(f"attrs: expected some of the fields {list(_ATTRIBUTES)}, got {wrong}")
        read = partial(_read_attributes, wanted=wanted)
        if not num_threads or num_threads < 2:
            return self._attrs(read)
        from concurrent.futures import ThreadPoolExecutor

        leaves: list[Tensor] = []
        tree = self._captured(leaves)
        with ThreadPoolExecutor(num_threads) as pool:
            found = dict(zip(map(id, leaves), pool.map(read, leaves), strict=True))
        return tree._attrs(lambda leaf: found[id(leaf)] if id(leaf) in found else read(leaf))

    def _attrs(self, read: Callable[[Tensor], dict[str, Any]]) -> TensorCollection:
        store: Store = {}
        for key, value in self._now().items():
            if isinstance(value, Tensor):
                store[key] = registry.TensorAttrs(**read(value))
            else:
                store[key] = value._attrs(read) if is_tree(value) else value
        return self._untyped({})._like(store, Size())

    def data_ptr(self, *, storage: bool = False) -> TensorCollection:
        """Return the address in memory of each tensor's first element.

        Args:
            storage: return the address of each tensor's storage, which begins earlier if the tensor is a view into it.
                Default: ``False``.

        Returns:
            A TensorDict on the CPU, without batch dimensions, with an int64 tensor for each tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"a": torch.zeros(3)}, [3])
            >>> bool(rows.data_ptr()["a"] == rows["a"].data_ptr())
            True
        """
        store: Store = {}
        for key, value in self._now().items():
            if isinstance(value, Tensor):
                store[key] = torch.tensor(value.untyped_storage().data_ptr() if storage else value.data_ptr())
            elif is_tree(value) and (below := with_members(value).data_ptr(storage=storage))._store:
                store[key] = below
        result = self._untyped({})._like(store, Size())
        result._device = _CPU
        return result

    # -- size --------------------------------------------------------------------------------------------------------

    def bytes(self, *, count_duplicates: bool = True) -> int:
        """Return the memory of all tensors, text and ragged rows in bytes. Other objects count nothing.

        Args:
            count_duplicates: count memory that values share once for each of them, and of columns what their rows take;
                with ``False`` the buffer of a column counts as a whole. Default: ``True``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> x = torch.zeros(3)
            >>> data = TensorDict({"a": x, "b": x}, [3])
            >>> data.bytes(), data.bytes(count_duplicates=False)
            (24, 12)
        """
        if count_duplicates:
            return self._bytes()
        storages: dict[int, tuple[int, dict[Any, int]]] = {}
        for leaf in self._leaves_and_buffers():
            storage = leaf.untyped_storage()
            _, views = storages.setdefault(storage._cdata, (storage.nbytes(), {}))
            views[leaf.storage_offset(), leaf.shape, leaf.stride()] = leaf.numel() * leaf.element_size()
        return sum(min(size, sum(views.values())) for size, views in storages.values())

    def param_count(self, *, count_duplicates: bool = True) -> int:
        """Return the number of elements of all tensors.

        Args:
            count_duplicates: count a tensor once for each of its keys. Default: ``True``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> x = torch.zeros(3)
            >>> data = TensorDict({"a": x, "b": x}, [3])
            >>> data.param_count(), data.param_count(count_duplicates=False)
            (6, 3)
        """
        leaves = list(self._leaves())
        if not count_duplicates:
            leaves = list({id(leaf): leaf for leaf in leaves}.values())
        return sum(leaf.numel() for leaf in leaves)

    @property
    def depth(self) -> int:
        """Number of levels of collections below this one.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": {"b": {"c": 1}}}).depth
            2
        """
        return self._levels()

    def _levels(self) -> int:
        return max((1 + value._levels() for value in self._now().values() if is_tree(value)), default=0)


def _read_attributes(leaf: Tensor, wanted: Sequence[str]) -> dict[str, Any]:
    return {f"tgt_{name}": getattr(leaf, name) for name in wanted}
