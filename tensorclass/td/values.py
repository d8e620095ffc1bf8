"""How a value enters a collection: what it becomes, and whether it fits.

This is the only place where values are looked at; an operation whose result is right by construction never comes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor

from . import shapes
from .collection import Collection
from .shapes import Names

if TYPE_CHECKING:
    from .collection import Value


def batch_mismatch(key: object, batch_size: Size, shape: Size) -> RuntimeError:
    """The error for a value that does not have the batch size in front."""
    hint = (
        "give it that shape, for instance with .expand()"
        if len(shape) < len(batch_size)
        else "give batch_size= the leading dimensions that all values share"
    )
    return RuntimeError(
        f"{_name(key)}: batch dimension mismatch: expected batch dimensions {list(batch_size)} in front, got shape "
        f"{list(shape)}; {hint}"
    )


def _name(key: object) -> str:
    return ".".join(key) if isinstance(key, tuple) else str(key)


def fit(owner: Collection, key: str, value: Any, non_blocking: bool = False) -> Value:
    """What is stored when ``value`` is written to ``key``: on the owner's device, with its batch size in front.

    Tensors and collections stay what they are, a mapping becomes a :class:`TensorDict`, numbers, arrays and (nested)
    sequences of numbers become tensors, everything else becomes non-tensor data.
    """
    batch_size, device = owner._batch_size, owner._device
    if isinstance(value, Tensor):
        if value.shape[: len(batch_size)] != batch_size:
            raise batch_mismatch(key, batch_size, value.shape)
        if device is not None and value.device != device:
            return value.to(device, non_blocking=non_blocking)
        return value
    if isinstance(value, Collection):
        return fit_collection(owner, key, value, non_blocking)
    if isinstance(value, Mapping):
        from .tensordict import TensorDict

        return TensorDict(value, batch_size, device, _names(owner), non_blocking)
    tensor = as_tensor(value, device)
    if tensor is not None:
        if tensor.shape[: len(batch_size)] != batch_size:
            raise batch_mismatch(key, batch_size, tensor.shape)
        return tensor
    from .nontensor import non_tensor

    return non_tensor(value, batch_size, device, owner._names)


def _names(owner: Collection) -> list[str | None] | None:
    return None if owner._names is None else list(owner._names)


def fit_collection(owner: Collection, key: str, value: Collection, non_blocking: bool) -> Value:
    """:func:`fit` for a nested collection. What would have to change in it changes in a copy that shares its values."""
    batch_size, device = owner._batch_size, owner._device
    ndim = len(batch_size)
    result = value
    if value._batch_size[:ndim] != batch_size:
        result = value._shallow()
        try:
            result._set_batch_size(batch_size)
        except RuntimeError:
            raise batch_mismatch(key, batch_size, value._batch_size) from None
    if device is not None and result._device != device:
        result = result.to(device, non_blocking=non_blocking)  # type: ignore[attr-defined]
    if owner._names is not None and shapes.names_fitted(result._names, ndim) != owner._names:
        result = result._shallow() if result is value else result
        rest = result._names[ndim:] if result._names else (None,) * (result.ndim - ndim)
        result._set_names(owner._names + rest)
    return result  # type: ignore[return-value]


def as_tensor(value: Any, device: torch.device | None = None) -> Tensor | None:
    """The value as a tensor when it is a number, a numeric array or a (nested) sequence of numbers; else ``None``.

    Arrays keep their memory where the device allows.

    >>> as_tensor([1, 2])
    tensor([1, 2])
    >>> as_tensor("text") is None
    True
    """
    if isinstance(value, (bool, int, float, complex)):
        return torch.tensor(value, device=device)
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in "biufc":
            return None
        try:
            return torch.as_tensor(value, device=device)
        except TypeError:  # a dtype or byte order that torch does not have
            return None
    if isinstance(value, (list, tuple)) and value and _is_numeric(value):
        try:
            return torch.as_tensor(value, device=device)
        except (ValueError, TypeError, RuntimeError):  # ragged, or mixed with objects
            return None
    return None


def _is_numeric(value: Any) -> bool:
    """Whether the first item of a nested sequence is a number or an array: what tells most text and objects apart."""
    while isinstance(value, (list, tuple)):
        if not value:
            return False
        value = value[0]
    return isinstance(value, (bool, int, float, complex, np.number, np.bool_, np.ndarray))
