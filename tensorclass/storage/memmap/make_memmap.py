"""Tensors that are made in a collection on memory-mapped files: ``make_memmap`` and its kin."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tensorclass.support.folder_locks import FolderLock
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.get import MISSING
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.leaves.object_codes import CPU
from tensorclass.td.memory.filled_tensors import as_shape
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.stored_names import stored_path
from tensorclass.td.tensordict import TensorDict

from . import folder_layout, memmap_folder
from .memmap_methods import saved_path

METHODS_OF = "MemoryMaps"


def make_memmap(
    data: TensorCollection,
    key: NestedKey,
    shape: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    robust_key: bool | None = True,
) -> MemoryMappedTensor:
    """Create a tensor of zeros in this memory-mapped collection, in a file of its folder.

    Args:
        key: the key of the tensor. Missing nested collections are created.
        shape: the shape, which begins with the batch size.
        dtype: the dtype; by default torch's default dtype.
        robust_key: encode keys that cannot be names of files. With ``False`` they are an error.

    Returns:
        The new tensor.

    Raises:
        RuntimeError: the collection is not memory-mapped, already has the key, or is a lazy stack.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
        ...     data.make_memmap("y", [3, 2]).fill_(1.0)
        ...     sorted(TensorDict.load_memmap(folder + "/rows").keys())
        MemoryMappedTensor([[1., 1.],
                            [1., 1.],
                            [1., 1.]])
        ['x', 'y']
    """
    return _make_memmap(data, key, shape, dtype, robust_key, True)


def _make_memmap(
    data: Any, key: NestedKey, shape: Sequence[int], dtype: torch.dtype | None, robust_key: bool | None, existsok: bool
) -> MemoryMappedTensor:
    path = unravel_key_to_tuple(key)
    size, dtype = as_shape(shape), dtype or torch.get_default_dtype()
    if robust_key is False and any(folder_layout.file_name(name) != name for name in path):
        raise ValueError(f"make_memmap: with robust_key=False the key must be the name of a file, got {key!r}")
    if not data._holds_values():
        raise RuntimeError("make_memmap: a lazy stack has no tensors of its own; make one in each of its items")
    if not data.is_memmap():
        leaf_classes: set[type[Any]] = {type(leaf) for leaf in data._leaves()}
        hint = "lock_()" if leaf_classes == {MemoryMappedTensor} else "memmap(folder)"
        raise RuntimeError(f"make_memmap: the collection is not memory-mapped; call {hint} first")
    if data._find(path) is not MISSING:
        raise RuntimeError(f"make_memmap: there is a value at {key!r} already; write to it in place")
    if size[: data.ndim] != data.batch_size:
        raise RuntimeError(
            f"make_memmap: the shape {list(size)} does not begin with the batch size {list(data.batch_size)}"
        )
    saved: Path | None = None
    with suppress(AttributeError):  # it is in shared memory
        saved = saved_path(data)
    names = stored_path(data, path)
    holder: Any = data
    with uninterrupted() as section, FolderLock(section) as folder_lock:
        for depth, name in enumerate(path[:-1]):
            below: Any = holder._store.get(name)
            if below is None:
                below = TensorDict({}, data.batch_size, device=CPU)
                below._lock_under((weakref.ref(holder),))
                if saved is not None:
                    memmap_folder.add_folder(folder_lock, saved, names[: depth + 1], data.batch_size, holder.batch_size)
                holder._store[name] = below
            holder = below
        if saved is None:
            made = MemoryMappedTensor.empty(size, dtype=dtype)
        else:
            made = memmap_folder.add_tensor(folder_lock, saved, names, size, dtype, holder.batch_size, existsok)
        holder._store[path[-1]] = made
    return made


def make_memmap_from_tensor(
    data: TensorCollection,
    key: NestedKey,
    tensor: Tensor,
    *,
    copy_data: bool = True,
    existsok: bool = True,
    robust_key: bool | None = True,
) -> MemoryMappedTensor:
    """Create a copy of a tensor in this memory-mapped collection; see :meth:`make_memmap`.

    Args:
        key: the key of the new tensor.
        tensor: gives the shape, the dtype and the values.
        copy_data: write the values; with ``False`` the file holds zeros.
        existsok: replace a file of that name that belongs to no key; with ``False`` it is an error.
        make_memmap: robust_key

    Returns:
        make_memmap

    Raises:
        RuntimeError: as in :meth:`make_memmap`.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
        ...     _ = data.make_memmap_from_tensor("y", torch.arange(3))
        ...     TensorDict.load_memmap(folder + "/rows")["y"]
        MemoryMappedTensor([0, 1, 2])
    """
    if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"make_memmap_from_tensor: expected a tensor, got {type_name(tensor)}")
    made = _make_memmap(data, key, tensor.shape, tensor.dtype, robust_key, existsok)
    if copy_data:
        made.copy_(tensor.detach())
    return made


def make_memmap_from_storage(
    data: TensorCollection,
    key: NestedKey,
    storage: torch.UntypedStorage,
    shape: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    robust_key: bool | None = True,
) -> MemoryMappedTensor:
    """Create a tensor with the values of a storage in this memory-mapped collection; see :meth:`make_memmap`.

    Args:
        key: the key of the new tensor.
        storage: the values.
        shape: the shape, which begins with the batch size.
        dtype: the dtype of the values; by default torch's default dtype.
        make_memmap: robust_key

    Returns:
        make_memmap

    Raises:
        RuntimeError: as in :meth:`make_memmap`.
        ValueError: the storage has fewer bytes than the shape needs.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
        ...     storage = torch.arange(6.0).untyped_storage()
        ...     _ = data.make_memmap_from_storage("y", storage, [3, 2])
        ...     TensorDict.load_memmap(folder + "/rows")["y"]
        MemoryMappedTensor([[0., 1.],
                            [2., 3.],
                            [4., 5.]])
    """
    flat = torch.empty(0, dtype=dtype or torch.get_default_dtype(), device=CPU).set_(storage)
    size = as_shape(shape)
    if flat.numel() < size.numel():
        raise ValueError(
            f"make_memmap_from_storage: the shape {list(size)} of {flat.dtype} needs "
            f"{size.numel() * flat.element_size()} bytes, the storage has {storage.nbytes()}"
        )
    values = flat[: size.numel()].view(size)
    return make_memmap_from_tensor(data, key, values, copy_data=True, robust_key=robust_key)
