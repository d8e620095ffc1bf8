"""A tensor without batch dimensions, which all rows share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Size, Tensor
from torch.utils import _pytree
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import pytree, shapes
from tensorclass.td.collection import Collection, DeviceLike, functorch
from tensorclass.td.keys import dotted
from tensorclass.td.printing.field_previews import Preview, preview
from tensorclass.td.printing.long_form import value_repr
from tensorclass.td.printing.text_previews import for_all_rows
from tensorclass.td.safe_unpickling import allow_class, allow_function, found
from tensorclass.td.shape_operations import _canonical
from tensorclass.td.shapes import Names
from tensorclass.td.stack_and_cat import _append_dims, _where_value
from tensorclass.td.torch_functions import HANDLERS
from tensorclass.td.tracing import has_values
from tensorclass.td.value_checks import shape_of

from .content import Content
from .leaf import FullLeaf, Uniform
from .number_operations import NumberLeaf, cast_to, number_result
from .object_codes import to_lists

if TYPE_CHECKING:
    from tensorclass.td.collection import Store


class UnbatchedTensor(Uniform, NumberLeaf, FullLeaf):
    """One tensor for all rows of a batch, whose shape is independent of the batch size.

    ``data["key"]`` returns the tensor, ``data.get("key")`` this holder, whose shape is the batch size. Shape operations
    and reductions keep the tensor; operations on numbers act on it. Stacking or concatenating collections keeps it if
    it is equal in all of them; different ones become a tensor with the batch dimensions in front.

    Args:
        data: the tensor, or numbers or an array to make one of.
        batch_size: batch size of the rows. Default: none; a collection sets its own when this is written to it.
        device: device to which the tensor is moved. Default: its own.
        names: a name or ``None`` for each batch dimension.

    Raises:
        TypeError: ``data`` is a collection, a mapping or a string.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, UnbatchedTensor
        >>> data = TensorDict({"x": torch.zeros(4, 2), "scale": UnbatchedTensor(torch.ones(3))}, [4])
        >>> data[:2].reshape(2, 1)["scale"].shape, (data * 2)["scale"], data[0].get("scale").batch_size
        (torch.Size([3]), tensor([2., 2., 2.]), torch.Size([]))
    """

    __slots__ = ("_tensor",)

    _CONTENT = Content.TENSOR
    _CONTENT_HINT = "; its tensor is in `data`"
    _row_reader = ".data"

    _tensor: Tensor

    def __init__(
        self,
        data: Any,
        batch_size: Sequence[int] | int | None = None,
        *,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        if isinstance(data, UnbatchedTensor):
            data = data._tensor
        if not isinstance(data, Tensor):
            given: Any = data
            if isinstance(data, (Collection, Mapping, str)):
                raise TypeError(f"UnbatchedTensor: expected a tensor, got a {type_name(given)}")
            data = torch.as_tensor(given)
        shape_of(data, "UnbatchedTensor")
        size = shapes.as_size(batch_size)
        self._tensor = data if device is None else data.to(device)
        self._begin({}, size, self._tensor.device, shapes.as_names(names, len(size)))

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Self:
        new = object.__new__(self.__class__)
        new._begin(store, batch_size, self._device, names)
        new._tensor = self._tensor
        return new

    def _with_tensor(self, tensor: Any) -> Self:
        new = self._same({})
        new._tensor = tensor
        new._device = tensor.device if isinstance(tensor, Tensor) else self._device
        return new

    def _expanded(self) -> Tensor:
        """Return the tensor expanded over the batch dimensions."""
        return self._tensor.expand(*self._batch_size, *self._tensor.shape)

    @property  # type: ignore[override]
    def data(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The tensor.

        Example:
            >>> import torch
            >>> from tensorclass import UnbatchedTensor
            >>> UnbatchedTensor(torch.ones(3), batch_size=[2]).data
            tensor([1., 1., 1.])
        """
        return self._tensor

    @data.setter
    def data(self, value: Any) -> None:
        self._check_unlocked()
        shape_of(value, "data")
        self._tensor = value
        self._device = value.device

    def __repr__(self) -> str:
        return f"{type_name(self)}({value_repr(self._tensor)}, batch_size={self._batch_size})"

    def _type_for_repr(self) -> str:
        shown = self._preview()
        return " ".join([shown.type, *shown.marks])

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        return for_all_rows(self._preview().content, width, ndim)

    def _device_for_repr(self) -> torch.device | None:
        return self._tensor.device

    def _preview(self) -> Preview:
        return preview(self._tensor, 0)

    # -- a leaf among leaves ------------------------------------------------------------------------------------------

    def _wrapped_tensor(self) -> Tensor:
        return self._tensor

    def _tensor_of_all_rows(self) -> Tensor:
        return self._tensor

    def _identity(self) -> tuple[Any, ...]:
        return (self._tensor,)

    def _unwrapped(self) -> Any:
        return self._tensor

    _as_read = _unwrapped

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        next(leaves)

    def numpy(self) -> Any:
        array: np.ndarray[Any, Any] = self._tensor.numpy(force=True)
        return array

    def tolist(self) -> Any:  # type: ignore[override]
        return to_lists(self._tensor)

    # -- the tensor itself --------------------------------------------------------------------------------------------

    def clone(self, recurse: bool = True, *, memory_format: torch.memory_format = torch.preserve_format) -> Self:
        return self._with_tensor(self._tensor.clone(memory_format=memory_format)) if recurse else self._shallow()

    def _copied(self) -> Self:
        return self.clone()

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        tensor = _canonical(self._tensor) if canonical else self._tensor.contiguous()
        if not inplace:
            return self._with_tensor(tensor)
        self.data = tensor
        return self

    def detach(self) -> Self:
        return self._with_tensor(self._tensor.detach())

    def _plain(self) -> Self:
        return self._with_tensor(self._tensor.data)

    def _gradient(self) -> Self | None:
        gradient = self._tensor.grad
        return None if gradient is None else self._with_tensor(gradient)

    def _set_gradient(self, value: Collection | None) -> None:
        self._tensor.grad = None if value is None else self._operand(value)

    def _viewed(self, dtype: torch.dtype, batch_size: Size | None = None) -> Any:
        return self._in_size(self._with_tensor(self._tensor.view(dtype)), batch_size)

    def _to(
        self,
        device: torch.device | None,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool,
        memory_format: torch.memory_format | None,
        numbers: bool = True,
    ) -> Self:
        dtype = cast_to(self._tensor, dtype, numbers)
        options = {"memory_format": memory_format} if memory_format is not None else {}
        return self._with_tensor(self._tensor.to(device, dtype, non_blocking, copy, **options))

    def _clear_device(self) -> None:
        """Do nothing: the device is the tensor's."""

    def _set_device(self, device: torch.device) -> None:
        pass

    def _each(self, function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Self:
        return self._with_tensor(function(self._tensor, *args, **kwargs))

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kwargs = {key: value for key, value in kwargs.items() if value is not None and key != "empty_lazy"}
        tensor = getattr(self._tensor, name)(self._tensor.shape, *args, **kwargs) if name else self._tensor.clone()
        return self._with_tensor(tensor)._resized(Size(shapes.as_sequence(size)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._with_tensor(copy.deepcopy(self._tensor, memo))

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._tensor, tuple(self._batch_size), self._names, self._lock is not None)

    # -- as a tensor of its own ---------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._tensor)

    def __int__(self) -> int:
        return int(self._tensor)

    def __float__(self) -> float:
        return float(self._tensor)

    def __complex__(self) -> complex:
        return complex(self._tensor)

    def __index__(self) -> int:
        return self._tensor.__index__()

    def _one_tensor(self) -> Tensor:
        """Return the tensor. Raise if it has rows of its own: ``len()`` and iteration are of those of the batch."""
        if self._batch_size and self._tensor.ndim:
            raise TypeError(
                f"this UnbatchedTensor stands for the same tensor at each position of the batch "
                f"{list(self._batch_size)}; take the tensor with .data"
            )
        return self._tensor

    def __matmul__(self, other: Any) -> Any:
        return self._tensor @ (other._tensor if isinstance(other, UnbatchedTensor) else other)

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self._tensor

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function that collections do not have with the tensor itself."""
        own = all(issubclass(kind, (UnbatchedTensor, Tensor)) for kind in types)
        if func in HANDLERS or not own:
            return super().__torch_function__(func, types, args, kwargs)
        given: Any = (args, dict(kwargs or {}))
        own_args, own_kwargs = _pytree.tree_map(_held_tensor, given, is_leaf=_is_unbatched)
        return func(*own_args, **own_kwargs)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _operand(self, operand: Any) -> Any:
        """Return the operand of the tensor. Raise if it has batch dimensions or is another collection."""
        if isinstance(operand, UnbatchedTensor):
            return operand._tensor
        if isinstance(operand, Collection):
            raise TypeError(f"cannot combine an UnbatchedTensor with a {type_name(operand)}")
        if isinstance(operand, Tensor) and operand.ndim:
            self._refuse_rows(f"an operand of shape {list(operand.shape)}, with the batch dimensions,")
        return operand

    def _refuse_rows(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"an unbatched tensor is the same for every row: {what} would make its rows differ. Give it the batch "
            "dimensions first: data[key] = data[key].expand(*data.batch_size, ...)"
        )

    def _on_numbers(
        self, operation: Callable[..., Any], in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        args = tuple([self._operand(arg) for arg in args])
        kwargs = {key: self._operand(arg) for key, arg in kwargs.items()}
        result = number_result(operation, self._tensor, args, kwargs)
        if result is NotImplemented:
            return result
        return self if in_place else self._with_tensor(result)

    def _own_operands(self, operand: Any) -> Iterator[Any]:
        yield self._operand(operand)

    def _with_default(self, function: Callable[..., Any], other: Any, default: Any) -> Self:
        return self._with_tensor(function(self._tensor, self._operand(other)))

    def masked_fill(self, mask: Tensor, value: float | bool) -> Any:
        """Return a tensor with the batch dimensions in front, with ``value`` at the rows where a mask is true.

        Args:
            mask: boolean tensor over the leading batch dimensions.
            value: a number or bool.

        Returns:
            A tensor, because its rows differ.

        Example:
            >>> import torch
            >>> from tensorclass import UnbatchedTensor
            >>> UnbatchedTensor(torch.ones(3), batch_size=[2]).masked_fill(torch.tensor([True, False]), 0.0)
            tensor([[0., 0., 0.],
                    [1., 1., 1.]])
        """
        tensor = self._expanded()
        return tensor.masked_fill(_append_dims(mask, tensor.ndim), value)

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """Raise: the tensor is the same for all rows, so that some of them cannot be filled.

        :meth:`masked_fill` returns a tensor with the batch dimensions instead.

        Args:
            mask: boolean tensor over the leading batch dimensions. Not used.
            value: a number or bool. Not used.

        Raises:
            RuntimeError: always.

        Example:
            >>> import torch
            >>> from tensorclass import UnbatchedTensor
            >>> UnbatchedTensor(torch.ones(3), batch_size=[2]).masked_fill_(torch.tensor([True, False]), 0.0)
            Traceback (most recent call last):
            RuntimeError: an unbatched tensor is the same for every row: ...
        """
        self._refuse_rows("filling some of them")

    # -- writing ------------------------------------------------------------------------------------------------------

    def _fill(self, item: Any, value: Any) -> None:
        # only a number for all rows: single rows cannot differ, and a tensor is for the batch dimensions
        if (item is Ellipsis or (type(item) is tuple and not item)) and not (isinstance(value, Tensor) and value.ndim):
            self._tensor.fill_(value)

    def _copy(self, source: Any, non_blocking: bool = False) -> Self:
        if not isinstance(source, UnbatchedTensor):
            raise TypeError(f"cannot write a {type_name(source)} into an unbatched tensor in place")
        self._tensor.copy_(source._tensor, non_blocking=non_blocking)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, UnbatchedTensor):
            self._refuse_rows("writing some of them")
        self._copy(value)

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        if not isinstance(rows, UnbatchedTensor) or rows._tensor.shape != self._tensor.shape:
            got = rows._tensor.shape if isinstance(rows, UnbatchedTensor) else type_name(rows)
            raise RuntimeError(
                f"{dotted(path)}: expected an unbatched tensor of shape {list(self._tensor.shape)}, got {got}; "
                "nothing was written"
            )

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Self:
        return self._copy(rows)

    def _allocated(self, batch_size: Size) -> Self:
        return self.clone()._resized(batch_size)

    # -- several ------------------------------------------------------------------------------------------------------

    def _is_same(self, other: Any) -> bool:
        """Return whether another one holds this tensor or one that can be seen to be equal."""
        a, b = self._tensor, other._tensor
        if a is b:
            return True
        if a.requires_grad or b.requires_grad or a.dtype != b.dtype or a.device != b.device:
            return False
        return has_values(a) and has_values(b) and torch.equal(a, b)

    def _stack(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(UnbatchedTensor, items, None)
        if all(self._is_same(item) for item in items):
            return self._stacked_as_one(items, dim)
        return torch.stack([item._expanded() for item in items], dim)

    def _cat(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(UnbatchedTensor, items, dim)
        if all(self._is_same(item) for item in items):
            return self._joined_as_one(items, dim)
        return torch.cat([item._expanded() for item in items], dim)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Any:
        if isinstance(other, UnbatchedTensor):
            if self._is_same(other):
                return self._shallow()
            other = other._expanded()
        return _where_value(path, condition, self._expanded(), other, pad)


def _is_unbatched(value: object) -> bool:
    return isinstance(value, UnbatchedTensor)


def _held_tensor(value: Any) -> Any:
    return value._tensor if isinstance(value, UnbatchedTensor) else value


@allow_function
def _rebuild(cls: Any, tensor: Tensor, batch_size: tuple[int, ...], names: Names, locked: bool) -> UnbatchedTensor:
    new = found(cls, UnbatchedTensor)(tensor, batch_size=batch_size)
    new._names = names
    if locked:
        new._lock_under(())
    return new


# -- the node of pytrees: the tensor is the leaf, without the batch dimensions -----------------------------------------


def _flatten(node: Any) -> tuple[list[Any], Any]:
    return [node._tensor], pytree._context(node, (), [node._tensor])


def _flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(_pytree.GetAttrKey("data"), node._tensor)], pytree._context(node, (), [node._tensor])


def _unflatten(leaves: Any, context: Any) -> Any:
    cls, _, device, _, origin = context
    (leaf,) = leaves
    given: Any = origin
    if isinstance(origin, tuple):
        ndim, names = given
        size = Size((0,) * ndim)  # the collection that holds this one sets its own
    else:
        size, names = given.size, given.names
        while isinstance(leaf, Tensor) and functorch.is_batchedtensor(leaf):
            if functorch.maybe_get_level(leaf) <= origin.level:
                break
            leaf = functorch.get_unwrapped(leaf)  # vmap over rows does not map over a tensor that they share
    new = object.__new__(cls)
    new._begin({}, size, device, names)
    new._tensor = leaf
    return new


pytree.register(UnbatchedTensor, _flatten, _unflatten, _flatten_with_keys)
allow_class(UnbatchedTensor)
