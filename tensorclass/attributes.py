"""The record that ``attrs()`` makes for each tensor."""

from __future__ import annotations

from typing import Any

from .record import TensorClass
from .td.attributes import Attributes


class TensorAttrs(TensorClass):
    """What is known of a tensor beside its values: what :meth:`TensorDict.attrs` gives for each.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> found = TensorDict({"a": torch.zeros(3)}).attrs()["a"]
    >>> found.tgt_device, found.tgt_dtype, found.tgt_shape
    (device(type='cpu'), torch.float32, torch.Size([3]))
    """

    tgt_device: Any = None
    tgt_dtype: Any = None
    tgt_shape: Any = None


Attributes._described = TensorAttrs
