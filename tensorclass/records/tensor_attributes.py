"""The record class of the results of ``attrs()``."""

from __future__ import annotations

from typing import Any

from tensorclass.td import registry

from .record import TensorClass


class TensorAttrs(TensorClass):
    """Device, dtype and shape of a tensor, as :meth:`TensorDict.attrs` returns them for each.

    Attributes:
        tgt_device: the device.
        tgt_dtype: the dtype.
        tgt_shape: the shape, a ``torch.Size``.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> found = TensorDict({"a": torch.zeros(3)}).attrs()["a"]
        >>> found.tgt_device, found.tgt_dtype, found.tgt_shape
        (device(type='cpu'), torch.float32, torch.Size([3]))
    """

    tgt_device: Any = None
    tgt_dtype: Any = None
    tgt_shape: Any = None


registry.register(TensorAttrs)
