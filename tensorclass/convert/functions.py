"""The functions of the package that make an untyped collection: methods of :class:`TensorDict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.keys import NestedKey
from tensorclass.td.tensordict import TensorDict

from .tree import BatchSize


def from_any(
    obj: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
) -> Any:
    """See :meth:`TensorDict.from_any`."""
    return TensorDict.from_any(
        obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_arrow(
    table: Any,
    *,
    copy: bool | None = None,
    nulls: Literal["raise", "fill", "mask"] = "raise",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
) -> TensorDict:
    """See :meth:`TensorDict.from_arrow`."""
    return TensorDict.from_arrow(table, copy=copy, nulls=nulls, mask_key=mask_key, device=device)


def from_dict(
    input_dict: Mapping[Any, Any] | Collection,
    *,
    auto_batch_size: bool | None = None,
    batch_size: BatchSize = None,
    device: DeviceLike | None = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
) -> TensorDict:
    """See :meth:`TensorDict.from_dict`."""
    return TensorDict.from_dict(
        input_dict,
        auto_batch_size=auto_batch_size,
        batch_size=batch_size,
        device=device,
        batch_dims=batch_dims,
        names=names,
    )


def from_namedtuple(
    named_tuple: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
) -> TensorDict:
    """See :meth:`TensorDict.from_namedtuple`."""
    return TensorDict.from_namedtuple(
        named_tuple, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_pandas(
    dataframe: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
) -> TensorDict:
    """See :meth:`TensorDict.from_pandas`."""
    return TensorDict.from_pandas(
        dataframe,
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
    )


def from_pytree(
    pytree: Any, *, batch_size: BatchSize = None, auto_batch_size: bool = False, batch_dims: int | None = None
) -> Any:
    """See :meth:`TensorDict.from_pytree`."""
    return TensorDict.from_pytree(pytree, batch_size=batch_size, auto_batch_size=auto_batch_size, batch_dims=batch_dims)


def from_struct_array(
    struct_array: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
) -> TensorDict:
    """See :meth:`TensorDict.from_struct_array`."""
    return TensorDict.from_struct_array(
        struct_array, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_tuple(
    obj: Sequence[Any],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
) -> TensorDict:
    """See :meth:`TensorDict.from_tuple`."""
    return TensorDict.from_tuple(
        obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )
