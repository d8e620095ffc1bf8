"""Tensors over memory that plain tensors cannot describe: elements at any distance and any address.

The strides of a plain tensor count elements, so it cannot describe the column ``b`` of the packed structure
``[("a", "u1"), ("b", "f8")]``, whose elements are 9 bytes apart. Torch's kernels also need complex doubles at multiples
of 16 bytes; elsewhere the process ends in a segmentation fault. A :class:`PackedTensor` holds the bytes as a tensor
whose last dimension is the bytes of an element. Views are taken on the bytes, so that views of a packed tensor are
packed tensors on the same memory. All other operations run on plain copies; results of writes are copied back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from numpy.typing import NDArray

aten: Any = torch.ops.aten

# torch has only some of their types
_from_numpy: Callable[[Any], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_make: Callable[..., Any] = Tensor._make_wrapper_subclass
_tree_map: Callable[..., Any] = pytree.tree_map
_without_functions: Any = torch._C._disabled_torch_function_impl  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class PackedTensor(Tensor):
    """A tensor over bytes at which no plain tensor can lie. See :meth:`TensorDict.from_struct_array`.

    Use it like any tensor. Operations return plain tensors, writes in place go to the bytes, and views are packed
    tensors on the same memory. ``clone()`` and ``contiguous()`` return plain tensors, which compute faster and which
    ``torch.compile`` supports; pickling and transfers to other devices return plain tensors, too. Strides and storage
    offset are in bytes.
    """

    _bytes: Tensor
    _never_moves = True  #: ``share_memory_`` only raises

    @staticmethod
    def __new__(cls: type[PackedTensor], data: Tensor, dtype: torch.dtype) -> PackedTensor:
        made: PackedTensor = _make(
            cls, data.shape[:-1], strides=data.stride()[:-1], storage_offset=data.storage_offset(), dtype=dtype,
            device=data.device,
        )  # fmt: skip
        made._bytes = data
        return made

    def __init__(self, data: Tensor, dtype: torch.dtype) -> None:
        """Create a tensor over the bytes ``data`` of shape ``(*shape, itemsize of dtype)``, whose last stride is 1."""

    __torch_function__: Any = _without_functions

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _OF_DTYPES:
            return _OF_DTYPES[func](*args)
        if torch.Tag.inplace_view in func.tags:
            raise RuntimeError(
                f"{func}: a packed tensor cannot be reshaped in place; call the function that returns a view"
            )
        return (_packed_view if func.is_view else _on_dense_copies)(func, args, kwargs or {})

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """Return an array on the same bytes."""
        if self.requires_grad and not force:
            raise RuntimeError("the tensor requires gradients, which an array cannot have; call detach() first")
        data: Any = self._bytes.numpy()
        array: NDArray[Any] = data.view(_dtype_of_numpy(self.dtype))[..., 0]
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.numpy(), dtype, copy=copy)

    def tolist(self) -> Any:
        """Return the numbers in nested lists."""
        return self.numpy(force=True).tolist()

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._bytes.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return the storage of the bytes."""
        return self._bytes.untyped_storage()

    def share_memory_(self) -> NoReturn:
        """Raise: the memory of an array cannot be shared with other processes."""
        raise RuntimeError("a packed tensor is in the memory of an array, which cannot be shared; call clone() first")

    def __dlpack__(self, **_: Any) -> NoReturn:
        raise BufferError("the strides of a packed tensor are not multiples of its item size; call clone() first")

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return repr(self.detach().clone())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self.ndim else object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        copied: Any = _dense_copy(self).requires_grad_(self.requires_grad)
        return copied.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = memo[id(self)] = _dense_copy(self).requires_grad_(self.requires_grad)
        return copied


def as_packed_tensor(array: NDArray[Any]) -> Tensor:
    """Return an array in native byte order as a tensor on the same memory: a plain one if possible, else a packed one.

    Raises:
        TypeError: torch does not have its dtype.
        ValueError: a stride is negative.

    >>> pairs = np.zeros(3, dtype=[("a", "u1"), ("b", "f8")])
    >>> b = as_packed_tensor(pairs["b"])
    >>> b += 2
    >>> pairs["b"]
    array([2., 2., 2.])
    """
    itemsize = array.itemsize
    if itemsize != 16 or not array.ctypes.data % 16:
        for stride in array.strides:
            if stride % itemsize:
                break
        else:
            return _from_numpy(array)
        if array.size < 2:  # its strides are never used
            alone: NDArray[Any] = np.ndarray(array.shape, array.dtype, array.data)
            return _from_numpy(alone)
    dtype = _dtype_of_torch(array.dtype)
    items: Any = array[..., None]
    return PackedTensor(_from_numpy(items.view(np.uint8)), dtype)


@functools.cache
def _dtype_of_numpy(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


@functools.cache
def _dtype_of_torch(dtype: np.dtype[Any]) -> torch.dtype:
    return _from_numpy(np.empty(0, dtype)).dtype


def _dense_copy(value: PackedTensor) -> Tensor:
    """Return a contiguous copy of the elements."""
    return value._bytes.clone(memory_format=torch.contiguous_format).view(value.dtype).squeeze(-1)


def _on_dense_copies(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operation on plain copies of packed tensors, and copy results of writes back."""
    read: dict[int, tuple[PackedTensor, Tensor]] = {}

    def plain(value: Any) -> Any:
        if not isinstance(value, PackedTensor):
            return value
        if id(value) not in read:
            read[id(value)] = value, _dense_copy(value)
        return read[id(value)][1]

    result = func(*_tree_map(plain, args), **_tree_map(plain, kwargs))
    if not func._schema.is_mutable:
        return result
    written: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value: Any = args[position] if position < len(args) else kwargs.get(argument.name)
            written += value if isinstance(value, (list, tuple)) else [value]
    owners: dict[int, PackedTensor] = {}
    for value in written:
        if isinstance(value, PackedTensor):
            _, computed = read[id(value)]
            if computed.shape != value.shape:
                raise RuntimeError(f"{func}: a packed tensor cannot change its shape; call clone() first")
            owners[id(computed)] = value
            value._bytes.copy_(computed.contiguous().unsqueeze(-1).view(torch.uint8))

    def given(value: Any) -> Any:
        return owners.get(id(value), value)

    return _tree_map(given, result)


def _packed_view(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a view of a packed tensor, or several.

    The same view is taken of a plain tensor of the first byte of each element, which shows where the elements of the
    result begin.
    """
    owner = next(value for value in args if isinstance(value, PackedTensor))
    data, dtype = owner._bytes, owner.dtype

    def beginnings(value: Any) -> Any:
        return value._bytes.select(-1, 0) if isinstance(value, PackedTensor) else value

    def whole(first: Tensor) -> PackedTensor:
        size, stride = (*first.shape, data.shape[-1]), (*first.stride(), 1)
        return PackedTensor(data.as_strided(size, stride, first.storage_offset()), dtype)

    return _tree_map(whole, func(*_tree_map(beginnings, args), **_tree_map(beginnings, kwargs)))


def _view_dtype(value: PackedTensor, dtype: torch.dtype) -> PackedTensor:
    if dtype.itemsize != value.dtype.itemsize:
        raise RuntimeError(f"a packed tensor has no view of {dtype}, whose size differs; call clone() first")
    return PackedTensor(value._bytes, dtype)


def _view_as_real(value: PackedTensor) -> PackedTensor:
    data = value._bytes
    half = data.shape[-1] // 2
    pairs = data.as_strided((*data.shape[:-1], 2, half), (*data.stride()[:-1], half, 1), data.storage_offset())
    return PackedTensor(pairs, value.dtype.to_real())


def _conj(value: PackedTensor) -> Tensor:
    return _dense_copy(value).conj()


#: views of another dtype, and the conjugate, which is a copy
_OF_DTYPES: dict[Any, Callable[..., Tensor]] = {
    aten.view.dtype: _view_dtype,
    aten.view_as_real.default: _view_as_real,
    aten._conj.default: _conj,
}
