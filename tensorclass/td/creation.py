"""New values in the form of existing ones: the ``*_like`` functions and the ``new_*`` methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from . import shapes
from .collection import Collection, as_device

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store

T = TypeVar("T", bound="TensorCollection")


class Creation(Collection):
    """``new_zeros``, ``new_full`` and the machinery of ``torch.zeros_like`` and its kin."""

    __slots__ = ()

    def _each(self, function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Self:
        """``function(value, *args, **kwargs)`` for each value, nested ones included; a ``device`` is the result's."""
        result = self._same({key: function(value, *args, **kwargs) for key, value in self._store.items()})
        if kwargs.get("device") is not None:
            result._device = as_device(kwargs["device"])
        return result

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        batch_size = Size(shapes.as_sequence(size))
        ndim = len(self._batch_size)
        kwargs = {key: value for key, value in kwargs.items() if value is not None}
        if "device" not in kwargs and self._device is not None:
            kwargs["device"] = self._device
        store = {
            key: getattr(value, name)(batch_size + value.shape[ndim:], *args, **kwargs)
            for key, value in self._store.items()
        }
        result = self._like(store, batch_size)
        if kwargs.get("device") is not None:
            result._device = as_device(kwargs["device"])
        return result

    def new_zeros(
        self,
        *size: Any,
        dtype: torch.dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
    ) -> Self:
        """Zeros with another batch size."""
        options = _options(dtype, device, requires_grad, layout, pin_memory)
        return self._new("new_zeros", size, (), options)

    def new_ones(
        self,
        *size: Any,
        dtype: torch.dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
    ) -> Self:
        """Ones with another batch size."""
        options = _options(dtype, device, requires_grad, layout, pin_memory)
        return self._new("new_ones", size, (), options)

    def new_empty(
        self,
        *size: Any,
        dtype: torch.dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
    ) -> Self:
        """Uninitialised values with another batch size."""
        options = _options(dtype, device, requires_grad, layout, pin_memory)
        return self._new("new_empty", size, (), options)

    def new_full(
        self,
        size: Any,
        fill_value: Any,
        *,
        dtype: torch.dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: torch.layout = torch.strided,
        pin_memory: bool | None = None,
    ) -> Self:
        """``fill_value`` everywhere, with another batch size."""
        options = _options(dtype, device, requires_grad, layout, pin_memory)
        return self._new("new_full", (size,), (fill_value,), options)

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool | None = None,
    ) -> Self:
        """A copy of ``data`` with the dtypes and devices of the values here: of a collection, value by value.

        Of a tensor (or an array, a number, a sequence of numbers) there is a copy for each value.
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
                store[key] = source.to(dtype=dtype or like.dtype, device=device or like.device, copy=True)
                store[key].requires_grad_(requires_grad)
            elif like._is_tree():
                store[key] = like.new_tensor(source, dtype=dtype, device=device, requires_grad=requires_grad)
            else:
                store[key] = source.clone() if isinstance(source, Collection) else like._new("", batch_size, (), {})
        result = self._like(store, batch_size, names)
        if device is not None:
            result._device = as_device(device)
        return result

    if TYPE_CHECKING:

        def _is_tree(self) -> bool: ...


def _options(
    dtype: torch.dtype | None, device: Any, requires_grad: bool, layout: torch.layout, pin_memory: bool | None
) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "device": device,
        "requires_grad": requires_grad or None,
        "layout": layout if layout is not torch.strided else None,
        "pin_memory": pin_memory or None,
    }
