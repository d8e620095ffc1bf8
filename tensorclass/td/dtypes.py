"""Predicates on dtypes that select what to cast: ``data.half(cast_filter=is_floating)``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

#: the dtype of torch for each of NumPy that torch has, too
NUMPY_TO_TORCH_DTYPE_DICT: Final[dict[np.dtype[Any], torch.dtype]] = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
        "float64", "complex64", "complex128",
    )
}  # fmt: skip

#: the dtype of NumPy for each of torch that NumPy has, too
TORCH_TO_NUMPY_DTYPE_DICT: Final[dict[torch.dtype, np.dtype[Any]]] = {
    dtype: name for name, dtype in NUMPY_TO_TORCH_DTYPE_DICT.items()
}


def _dtype_of_last(args: tuple[Any, ...]) -> torch.dtype | None:
    if not args:
        raise TypeError("expected a tensor, or a key and a tensor")
    dtype: torch.dtype | None = args[-1].dtype  # None: a collection of several dtypes
    return dtype


def is_bool(*args: Any) -> bool:
    """Return whether a tensor is boolean.

    Args:
        args: a tensor, or a key and a tensor, as a ``cast_filter`` is called.

    Example:
        >>> import torch
        >>> from tensorclass import is_bool
        >>> is_bool(torch.tensor([True])), is_bool("key", torch.tensor([1]))
        (True, False)
    """
    return _dtype_of_last(args) is torch.bool


def is_floating(*args: Any) -> bool:
    """Return whether a tensor has a real floating point dtype.

    Args:
        args: a tensor, or a key and a tensor, as a ``cast_filter`` is called.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, is_floating
        >>> data = TensorDict({"a": torch.ones(2), "count": torch.arange(2)})
        >>> data.half(cast_filter=is_floating)["count"].dtype
        torch.int64
    """
    dtype = _dtype_of_last(args)
    return dtype is not None and dtype.is_floating_point


def is_inexact(*args: Any) -> bool:
    """Return whether a tensor has a floating point or complex dtype.

    Args:
        args: a tensor, or a key and a tensor, as a ``cast_filter`` is called.

    Example:
        >>> import torch
        >>> from tensorclass import is_inexact
        >>> is_inexact(torch.zeros(1)), is_inexact(torch.zeros(1, dtype=torch.complex64)), is_inexact(torch.tensor(1))
        (True, True, False)
    """
    dtype = _dtype_of_last(args)
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)


def is_integer(*args: Any) -> bool:
    """Return whether a tensor has an integer dtype other than bool.

    Args:
        args: a tensor, or a key and a tensor, as a ``cast_filter`` is called.

    Example:
        >>> import torch
        >>> from tensorclass import is_integer
        >>> is_integer(torch.tensor(1)), is_integer(torch.tensor(True))
        (True, False)
    """
    dtype = _dtype_of_last(args)
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)
