"""Names of ``tensordict`` that this package does not have: private ones that clients import, and constants.

Each does what its known clients use it for.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Size, Tensor
from torch.utils import _pytree

import tensorclass
from tensorclass import is_tensor_collection, is_tensorclass
from tensorclass.records.record import TensorClass
from tensorclass.storage.key_value.tensordict_store import TensorDictStore
from tensorclass.support.printable import class_name
from tensorclass.td import default_is_leaf, is_leaf_nontensor, shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.dtypes import NUMPY_TO_TORCH_DTYPE_DICT, TORCH_TO_NUMPY_DTYPE_DICT
from tensorclass.td.get import NO_DEFAULT as NO_DEFAULT
from tensorclass.td.keys import is_nested_key
from tensorclass.td.leaves.nontensor import NonTensorDataBase, NonTensorStack
from tensorclass.td.leaves.unbatched_tensor import UnbatchedTensor
from tensorclass.td.prepared_index import prepare_index
from tensorclass.td.stores.lazy.lazy_stack import LazyStackedTensorDict
from tensorclass.td.stores.sub_tensordict import SubTensorDict
from tensorclass.td.tensordict import TensorDict

__all__ = [
    "NO_DEFAULT", "PYTREE_REGISTERED_LAZY_TDS", "PYTREE_REGISTERED_TDS", "STORE_BACKENDS", "_ACCEPTED_CLASSES",
    "_DTYPE2STRDTYPE", "_DTYPE_TO_STR_DTYPE", "_NESTED_TENSORS_AS_LISTS", "_NESTED_TENSORS_AS_LISTS_NONTENSOR",
    "_NUMPY_TO_TORCH_DTYPE_DICT", "_STRDTYPE2DTYPE", "_STR_DTYPE_TO_DTYPE", "_TORCH_TO_NUMPY_DTYPE_DICT", "AsLists",
    "DeviceType", "IndexType", "LazyStackedTensorDictStore", "NestedKey", "TDGraphModule", "TensorDictBase",
    "TensorDictFuture", "TensorDictStore", "_CustomOpTensorDict", "_SubTensorDict", "_check_keys",
    "_default_is_leaf", "_device", "_dtype", "_exclude_td_from_pytree", "_get_item", "_getitem_batch_size",
    "_has_exclusive_keys", "_is_dataclass", "_is_leaf_nontensor", "_is_non_tensor", "_is_tensor_collection",
    "_is_tensorclass", "_maybe_correct_neg_dim", "_pass_through", "_pass_through_cls", "_prod", "_set_item",
    "_shape", "_unravel_key_to_tuple", "_zip_strict", "lazy_stack", "symbolic_trace", "unravel_key",
    "unravel_key_to_tuple", "unravel_keys",
]  # fmt: skip

# -- keys -------------------------------------------------------------------------------------------------------------


class _NestedKeyMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return is_nested_key(instance)


class NestedKey(metaclass=_NestedKeyMeta):
    """A string, or a tuple of strings and such tuples: ``isinstance(key, NestedKey)``; in annotations."""


def unravel_key_to_tuple(key: object) -> tuple[str, ...]:
    """Return a key as a flat tuple of strings; an empty one for what is no key."""
    return tensorclass.unravel_key_to_tuple(key) if is_nested_key(key) else ()


def unravel_key(key: Any) -> str | tuple[str, ...]:
    """Return a key as a string or a flat tuple of strings; an empty tuple for a tuple that is no key."""
    given: object = key
    if isinstance(given, tuple) and not is_nested_key(key):
        return ()
    return tensorclass.unravel_key(key)


_unravel_key_to_tuple = unravel_key_to_tuple
unravel_keys: Final[Any] = partial(map, unravel_key_to_tuple)
_zip_strict: Final[Any] = partial(zip, strict=True)

# -- sizes and indices ------------------------------------------------------------------------------------------------

DeviceType: TypeAlias = torch.device | str | int
IndexType: TypeAlias = int | slice | str | Tensor | list[Any] | tuple[Any, ...] | None


def _getitem_batch_size(batch_size: Sequence[int], index: Any) -> Size:
    """Return the batch size of ``data[index]``."""
    size = Size(batch_size)
    return shapes.indexed(size, prepare_index(index, size))


def _maybe_correct_neg_dim(dim: int, shape: Size | None, ndim: int | None = None) -> int:
    """Return a dimension counted from the front, of a shape or of a number of dimensions."""
    total = len(shape) if shape is not None else ndim or 0
    if not -total <= dim < total:
        of = f"a shape {list(shape)}" if shape is not None else f"{ndim} dimensions"
        raise IndexError(f"dimension {dim} is out of range for {of}")
    return dim % total


def _shape(tensor: Any, nested_shape: bool = False) -> Size:
    """Return the shape of a leaf. Ragged dimensions of a nested tensor are -1, unless ``nested_shape`` is set."""
    if isinstance(tensor, Tensor) and tensor.is_nested and not nested_shape:
        sizes: list[int] = [tensor.size(0)]
        for dim in range(1, tensor.dim()):
            try:
                size: Any = tensor.size(dim)
            except RuntimeError:  # a ragged dimension of a strided nested tensor
                size = -1
            sizes.append(size if isinstance(size, int) else -1)
        return Size(sizes)
    held: Any = tensor
    shape: Size = held._nested_tensor_size() if nested_shape and held.is_nested else held.shape
    return shape


# clients may give the arguments by keyword, which functions of `operator` and `math` do not take


def _device(tensor: Any) -> torch.device | None:
    device: torch.device | None = tensor.device
    return device


def _dtype(tensor: Any) -> torch.dtype | None:
    dtype: torch.dtype | None = tensor.dtype
    return dtype


def _prod(sequence: Iterable[int]) -> int:
    return math.prod(sequence)


def _get_item(tensor: Any, index: Any) -> Any:
    """Return rows of a leaf."""
    return tensor[index]


def _set_item(tensor: Any, index: Any, value: Any, *, validated: bool = True, non_blocking: bool = False) -> Any:
    """Write rows of a leaf, and return the leaf."""
    tensor[index] = value
    return tensor


# -- classes of values ------------------------------------------------------------------------------------------------


class _BaseMeta(type):
    """The base of collections, as ``isinstance`` asks: not that of records and of single objects."""

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls is not TensorDictBase:  # a client's own class
            return type.__subclasscheck__(cls, subclass)
        if issubclass(subclass, (TensorClass, NonTensorDataBase, UnbatchedTensor)):
            return issubclass(subclass, NonTensorStack)
        return issubclass(subclass, TensorCollection)

    def __getattr__(cls, name: str) -> Any:
        return getattr(TensorDict, name)


class TensorDictBase(metaclass=_BaseMeta):
    """``tensordict.TensorDictBase``: the class of all collections but records, for ``isinstance`` and annotations."""


class AsLists:
    """For ``is_leaf=`` of ``items`` and ``values``: each collection of a lazy stack, under its position as a key.

    ``peer_methods.items`` reads them.
    """

    def __init__(self, is_leaf: Callable[[type], bool]) -> None:
        self._is_leaf = is_leaf

    def __call__(self, cls: type) -> bool:
        return self._is_leaf(cls)


def _default_is_leaf(cls: type) -> bool:
    """Return whether instances of a class are leaves. Unbatched tensors are, objects are not."""
    return default_is_leaf(cls) or issubclass(cls, UnbatchedTensor)


def _is_leaf_nontensor(cls: type) -> bool:
    """Return whether a class is that of a leaf. Unbatched tensors and objects are leaves."""
    return is_leaf_nontensor(cls) or issubclass(cls, UnbatchedTensor)


_NESTED_TENSORS_AS_LISTS: Final[AsLists] = AsLists(_default_is_leaf)
_NESTED_TENSORS_AS_LISTS_NONTENSOR: Final[AsLists] = AsLists(_is_leaf_nontensor)
_ACCEPTED_CLASSES: Final[tuple[type, ...]] = (Tensor, TensorCollection)


def _is_tensorclass(cls: type) -> bool:
    """Return whether a class is that of records. That of an object is not, unlike for ``is_tensorclass``."""
    return isinstance(cls, type) and issubclass(cls, TensorClass)


def _is_non_tensor(cls: type) -> bool:
    """Return whether a class is that of non-tensor data."""
    return issubclass(cls, NonTensorDataBase)


def _pass_through_cls(cls: type) -> bool:
    """Return whether a class is that of values that operations on tensors hand on."""
    return issubclass(cls, (NonTensorDataBase, UnbatchedTensor))


def _pass_through(data: object) -> bool:
    return _pass_through_cls(type(data))


def _is_dataclass(obj: object) -> bool:
    return dataclasses.is_dataclass(obj) and not is_tensorclass(obj)


def _is_tensor_collection(datatype: type) -> bool:
    return is_tensor_collection(datatype)


def _has_exclusive_keys(data: LazyStackedTensorDict) -> bool:
    """Return whether a collection of a lazy stack has a key that another one lacks."""
    keys = [set(part.keys(True, True)) for part in data.tensordicts]
    return any(other != keys[0] for other in keys)


def _check_keys(
    list_of_tensordicts: Sequence[TensorCollection],
    strict: bool = False,
    include_nested: bool = False,
    leaves_only: bool = False,
) -> set[Any]:
    """Return the keys that collections share; with ``strict``, raise if they have different ones."""
    keys: list[set[Any]] = [set(data.keys(include_nested, leaves_only)) for data in list_of_tensordicts]
    everywhere: set[Any] = {key for own in keys[:1] for key in own if all(key in other for other in keys)}
    if strict and (differing := sorted({str(key) for own in keys for key in own if key not in everywhere})):
        raise KeyError(f"expected the same keys in all collections, got some that only some of them have: {differing}")
    return everywhere


_SubTensorDict = SubTensorDict
_CustomOpTensorDict = type("_CustomOpTensorDict", (), {"__doc__": "Base of lazy views, which this package has not."})


def lazy_stack(input: Sequence[Any], dim: int = 0, *, out: Any = None, **options: Any) -> Any:
    """Stack collections lazily, as :func:`tensorclass.lazy_stack`; tensors are stacked at once."""
    if input and all(isinstance(item, Tensor) for item in input):
        return torch.stack([*input], dim, out=out)
    return LazyStackedTensorDict.lazy_stack(input, dim, out=out, **options)


# -- collections in pytrees -------------------------------------------------------------------------------------------

PYTREE_REGISTERED_TDS: Final[tuple[type, ...]] = (SubTensorDict, TensorDict)
PYTREE_REGISTERED_LAZY_TDS: Final[tuple[type, ...]] = (LazyStackedTensorDict,)


@contextmanager
def _exclude_td_from_pytree() -> Generator[None, None, None]:
    """Make torch's pytrees treat collections as leaves within the block."""
    nodes: dict[Any, Any] = _pytree.SUPPORTED_NODES
    removed = {cls: node for cls, node in nodes.items() if isinstance(cls, type) and issubclass(cls, Collection)}
    for cls in removed:
        del nodes[cls]
    try:
        yield
    finally:
        nodes.update(removed)


# -- dtypes -----------------------------------------------------------------------------------------------------------

#: every dtype of torch by its name, and the other way
_DTYPES: Final[dict[str, torch.dtype]] = {
    str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
_STRDTYPE2DTYPE: Final[dict[str, torch.dtype]] = _DTYPES
_DTYPE2STRDTYPE: Final[dict[torch.dtype, str]] = {dtype: name for name, dtype in _STRDTYPE2DTYPE.items()}
_STR_DTYPE_TO_DTYPE: Final[dict[str, torch.dtype]] = _STRDTYPE2DTYPE
_DTYPE_TO_STR_DTYPE: Final[dict[torch.dtype, str]] = _DTYPE2STRDTYPE
_NUMPY_TO_TORCH_DTYPE_DICT: Final[dict[np.dtype[Any], torch.dtype]] = NUMPY_TO_TORCH_DTYPE_DICT
_TORCH_TO_NUMPY_DTYPE_DICT: Final[dict[torch.dtype, np.dtype[Any]]] = TORCH_TO_NUMPY_DTYPE_DICT

# -- what this package has not ----------------------------------------------------------------------------------------

TensorDictFuture: TypeAlias = Future[Any]
STORE_BACKENDS: Final[tuple[str, ...]] = ("redis",)


class LazyStackedTensorDictStore:
    """Lazy stacks in a key-value server. Here they are in a ``TensorDictStore``: the class is for ``isinstance``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._refuse()

    @classmethod
    def _refuse(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: :meth:`TensorDict.to_store` writes lazy stacks."""
        raise NotImplementedError(
            f"{class_name(cls)}: tensorclass keeps lazy stacks, too, with to_store(); TensorDictStore.from_store() "
            "opens them"
        )

    from_tensordict: Any = _refuse
    from_schema: Any = _refuse


def symbolic_trace(*args: Any, **kwargs: Any) -> Any:
    """Return the graph of a module, by ``torch.fx``."""
    return torch.fx.symbolic_trace(*args, **kwargs)


TDGraphModule: TypeAlias = torch.fx.GraphModule
