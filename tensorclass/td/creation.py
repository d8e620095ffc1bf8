"""Create new values shaped like existing ones: the ``*_like`` functions and the ``new_*`` methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from . import shapes
from .collection import Collection, DeviceLike, as_device, call_on_value
from .delegated.engine_functions import save
from .get import MISSING
from .hidden_members import member_items, with_members
from .keys import NestedKey, unravel_key_to_tuple

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store

T = TypeVar("T", bound="TensorCollection")


_STORAGES = (None, "shared", "memmap", "h5", "zarr")


class Creation(Collection):
    """``new_zeros``, ``new_full`` and the implementation of ``torch.zeros_like`` and its variants."""

    __slots__ = ()

    def _each(self, function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Self:
        """Call ``function(value, *args, **kwargs)`` for each value, nested ones included."""
        result = self._same(
            {
                key: function(value, *args, **kwargs)
                if value.__class__ is Tensor
                else call_on_value(function, value, *args, **kwargs)
                for key, value in self._now().items()
            }
        )
        if kwargs.get("device") is not None:
            result._device = as_device(kwargs["device"])
        return result

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        batch_size = Size(shapes.as_sequence(size))
        ndim = len(self._batch_size)
        if "device" not in kwargs and self._device is not None:
            kwargs["device"] = self._device
        of_tensors = kwargs
        if "empty_lazy" in kwargs:
            of_tensors = {key: value for key, value in kwargs.items() if key != "empty_lazy"}
        store = {
            key: getattr(value, name)(
                batch_size + value.shape[ndim:], *args, **(of_tensors if isinstance(value, Tensor) else kwargs)
            )
            for key, value in member_items(self._now())
        }
        result = self._like(store, batch_size)
        if "device" in kwargs:
            result._device = as_device(kwargs["device"])
        return result

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[NestedKey, tuple[Sequence[int], torch.dtype]],
        *,
        batch_size: Sequence[int] | None = None,
        storage: str | None = None,
        device: DeviceLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return zeros in the shapes and dtypes of a schema.

        Args:
            schema: for each key, nested or not, the shape after the batch dimensions and the dtype.
            batch_size: the batch size. Default: none.
            storage: where the values are kept: ``None`` for memory, ``"shared"`` for shared memory, ``"memmap"`` for
                the files of a folder, ``"h5"`` or ``"zarr"`` for arrays in a file. Files take up no space until they
                are written. Default: ``None``.
            device: the device of the result; for ``"h5"`` and ``"zarr"`` the device onto which values are read.
            kwargs: options of a storage: for ``"memmap"`` those of :meth:`memmap_like`, with the folder as ``prefix``;
                for ``"h5"`` and ``"zarr"`` those of :meth:`to_h5` and :meth:`to_zarr`, with the ``filename``.

        Returns:
            A collection of this class, based on the storage.

        Raises:
            NotImplementedError: the storage is one of a peer that is not supported here (``"redis"``, ``"dragonfly"``).
            ValueError: there is no storage of this name.
            KeyError: ``"h5"`` or ``"zarr"`` was given without a ``filename``.
            TypeError: options were given for a storage without options.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict.from_schema({"a": ([4], torch.float32), "n": ([], torch.int64)}, batch_size=[3])
            >>> rows["a"].shape, rows["n"].dtype
            (torch.Size([3, 4]), torch.int64)
        """
        if storage in ("redis", "dragonfly"):
            raise NotImplementedError(f"from_schema: storage={storage!r} is not supported; expected one of {_STORAGES}")
        if storage not in _STORAGES:
            raise ValueError(f"from_schema: expected storage to be one of {_STORAGES}, got {storage!r}")
        if kwargs and storage in (None, "shared"):
            raise TypeError(f"from_schema: storage={storage!r} has no options, got {sorted(kwargs)}")
        in_file = storage in ("h5", "zarr")
        if in_file and "filename" not in kwargs:
            raise KeyError(f"from_schema: storage={storage!r} needs a filename= for its values")
        size = shapes.as_size(batch_size)
        tree: dict[str, Any] = {}
        for key, (shape, dtype) in schema.items():
            *path, last = unravel_key_to_tuple(key)
            node = tree
            for name in path:
                node = node.setdefault(name, {})
            if storage == "memmap" or in_file:
                node[last] = torch.zeros((), dtype=dtype, device=None if in_file else device).expand((*size, *shape))
            else:
                node[last] = torch.zeros(size + tuple(shape), dtype=dtype, device=device)
        result: Any = cls._from_mapping(tree, size, None if in_file else device, None)
        if in_file:
            filename = kwargs.pop("filename")
            given = {name: kwargs.pop(name) for name in ("allow_pickle", "resizable") if name in kwargs}
            return save(result, filename, storage, device=device, values=False, options=kwargs, **given)  # type: ignore[no-any-return, arg-type]
        if storage == "memmap":
            return result.memmap_like(**kwargs)  # type: ignore[no-any-return]
        return result.share_memory_() if storage == "shared" else result  # type: ignore[no-any-return]

    def new_zeros(
        self,
        *size: int | Sequence[int],
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = MISSING,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """Return zeros with another batch size.

        Args:
            size: the batch size, as ints or as one sequence.
            dtype: the dtype of all tensors. Default: each tensor keeps its own.
            device: the device of the result, ``None`` for any. Default: that of this collection.
            requires_grad: whether the tensors require gradients. Default: ``False``.
            layout: the layout of the tensors. Default: ``torch.strided``.
            pin_memory: allocate page-locked memory. Default: ``False``.
            empty_lazy: make a lazy stack of a lazy stack, whose components have nested collections but no values yet.
                Default: ``False``, its values are stacked.

        Returns:
            A new collection of this class with tensors of the shape ``size`` plus the dimensions after the batch size
            here.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.ones(2, 3)}, [2]).new_zeros(4)["a"].shape
            torch.Size([4, 3])
        """
        options = _options(device, dtype, requires_grad, layout, pin_memory, empty_lazy)
        return self._new("new_zeros", size, (), options)

    def new_ones(
        self,
        *size: int | Sequence[int],
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = MISSING,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """Return ones with another batch size.

        Args:
            size: the batch size, as ints or as one sequence.
            dtype: the dtype of all tensors. Default: each tensor keeps its own.
            device: the device of the result, ``None`` for any. Default: that of this collection.
            requires_grad: whether the tensors require gradients. Default: ``False``.
            layout: the layout of the tensors. Default: ``torch.strided``.
            pin_memory: allocate page-locked memory. Default: ``False``.
            empty_lazy: as for :meth:`new_zeros`.

        Returns:
            A new collection of this class with tensors of the shape ``size`` plus the dimensions after the batch size
            here.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2)}, [2]).new_ones(3)["a"]
            tensor([1., 1., 1.])
        """
        options = _options(device, dtype, requires_grad, layout, pin_memory, empty_lazy)
        return self._new("new_ones", size, (), options)

    def new_empty(
        self,
        *size: int | Sequence[int],
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = MISSING,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """Return uninitialized tensors with another batch size.

        Args:
            size: the batch size, as ints or as one sequence.
            dtype: the dtype of all tensors. Default: each tensor keeps its own.
            device: the device of the result, ``None`` for any. Default: that of this collection.
            requires_grad: whether the tensors require gradients. Default: ``False``.
            layout: the layout of the tensors. Default: ``torch.strided``.
            pin_memory: allocate page-locked memory. Default: ``False``.
            empty_lazy: as for :meth:`new_zeros`.

        Returns:
            A new collection of this class with tensors of the shape ``size`` plus the dimensions after the batch size
            here.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3)}, [2]).new_empty(4, dtype=torch.int64)["a"].shape
            torch.Size([4, 3])
        """
        options = _options(device, dtype, requires_grad, layout, pin_memory, empty_lazy)
        return self._new("new_empty", size, (), options)

    def new_full(
        self,
        size: int | Sequence[int],
        fill_value: complex,
        *,
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = MISSING,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """Return tensors filled with one number, with another batch size.

        Args:
            size: the batch size, as an int or a sequence.
            fill_value: the number.
            dtype: the dtype of all tensors. Default: each tensor keeps its own.
            device: the device of the result, ``None`` for any. Default: that of this collection.
            requires_grad: whether the tensors require gradients. Default: ``False``.
            layout: the layout of the tensors. Default: ``torch.strided``.
            pin_memory: allocate page-locked memory. Default: ``False``.
            empty_lazy: as for :meth:`new_zeros`.

        Returns:
            A new collection of this class with tensors of the shape ``size`` plus the dimensions after the batch size
            here.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2)}, [2]).new_full(3, 7)["a"]
            tensor([7., 7., 7.])
        """
        options = _options(device, dtype, requires_grad, layout, pin_memory, empty_lazy)
        return self._new("new_full", (size,), (fill_value,), options)

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = MISSING,
        requires_grad: bool = False,
        pin_memory: bool | None = None,
    ) -> Self:
        """Return a copy of data in the dtypes and on the devices of the values here.

        Args:
            data: a collection, copied value by value. A tensor, array, number or sequence of numbers is copied for each
                value.
            dtype: the dtype of all tensors. Default: that of the value under the same key.
            device: the device of the result, ``None`` for any. Default: that of the value under the same key.
            requires_grad: whether the tensors require gradients. Default: ``False``.
            pin_memory: copy to page-locked memory. Default: ``False``.

        Returns:
            A new collection with the batch size of ``data``: for a tensor, the first of its dimensions, as many as this
            collection has batch dimensions.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2)}, [2]).new_tensor([1, 2, 3])["a"]
            tensor([1., 2., 3.])
        """
        if isinstance(data, Collection):
            batch_size, names, sources = data._batch_size, data._names, data._store
        else:
            tensor = data if isinstance(data, Tensor) else torch.as_tensor(np.asarray(data))
            batch_size, names, sources = tensor.shape[: len(self._batch_size)], None, dict.fromkeys(self._store, tensor)
        store: Store = {}
        for key, source in sources.items():
            like = self._store.get(key, source)
            if not isinstance(like, Creation):
                target = like.device if device is MISSING or device is None else device
                store[key] = source.to(dtype=dtype or like.dtype, device=target, copy=True)
                if pin_memory:
                    store[key] = store[key].pin_memory()
                store[key].requires_grad_(requires_grad)
            elif like._is_tree():
                store[key] = with_members(like).new_tensor(
                    source, dtype=dtype, device=device, requires_grad=requires_grad, pin_memory=pin_memory
                )
            else:
                store[key] = (
                    with_members(source).clone()
                    if isinstance(source, Collection)
                    else like._new("", batch_size, (), {})
                )
        result = self._like(store, batch_size, names)
        if device is not MISSING:
            result._device = as_device(device)
        return result

    if TYPE_CHECKING:

        @classmethod
        def _from_mapping(cls, source: Any, batch_size: Any, device: Any, names: Any) -> Self: ...
        def share_memory_(self) -> Self: ...


_OPTIONS = ("dtype", "requires_grad", "layout", "pin_memory", "empty_lazy")


def _options(device: Any, *options: Any) -> dict[str, Any]:
    """Return the options that differ from their defaults, by name; ``None`` is a device too."""
    given = {} if device is MISSING else {"device": device}
    named = zip(_OPTIONS, options, strict=True)
    return given | {name: value for name, value in named if value and value is not torch.strided}
