"""Leaves with the numbers of one tensor, and point-wise operations of collections on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td.dtype_casts import is_inexact
from tensorclass.td.tensordict import TensorDict

from .leaf import Leaf

_ONLY = "<tensor>"  # a key that no user writes
#: operations whose tensor is a mask, no operand
_OF_A_MASK = ("masked_fill", "masked_fill_")


def alone(tensor: Tensor) -> TensorDict:
    """Return a collection without batch dimensions that holds only the tensor."""
    new = object.__new__(TensorDict)
    new._begin({_ONLY: tensor}, Size(()), None, None)
    return new


def number_result(operation: Callable[..., Any], tensor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the tensor that an operation of :class:`Pointwise` gives for a tensor.

    Args:
        operation: the function of the method.
        tensor: the tensor; for another value, its method of that name is called.
        args: numbers and tensors.
        kwargs: likewise.
    """
    if not isinstance(tensor, Tensor):
        return getattr(tensor, operation.__name__)(*args, **kwargs)
    only = alone(tensor)
    if operation.__name__ in _OF_A_MASK:
        return operation(only, *args, **kwargs)._store[_ONLY]
    args = tuple([alone(arg) if isinstance(arg, Tensor) and arg.ndim else arg for arg in args])
    kwargs = {key: alone(arg) if isinstance(arg, Tensor) and arg.ndim else arg for key, arg in kwargs.items()}
    result = operation(only, *args, **kwargs)
    return result._store[_ONLY] if isinstance(result, TensorDict) else result


class NumberLeaf(Leaf):
    """Base of leaves that hold the numbers of one tensor: an unbatched one, or the items of all rows."""

    __slots__ = ()

    _has_numbers = True

    def _wrapped_tensor(self) -> Tensor:
        raise NotImplementedError

    def _with_tensor(self, tensor: Any) -> Self:
        """Return the same holder with another tensor."""
        raise NotImplementedError

    def _leaves(self) -> Iterator[Tensor]:
        yield self._wrapped_tensor()

    def _with_leaves(self, leaves: Iterator[Tensor]) -> Self:
        return self._with_tensor(next(leaves))

    def _named_leaves(self) -> list[tuple[tuple[str, ...], Tensor]]:
        return [((), self._wrapped_tensor())]

    def to_dict(self, *, convert_tensors: bool | str = False, **options: Any) -> Any:
        """Return another holder of the same memory, or nested lists: the form of this leaf in that of a collection.

        Args:
            convert_tensors: return nested lists; an array for ``"numpy"``. Default: ``False``.
            options: further options of the method of collections. They have no effect here.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).to_dict(convert_tensors=True)
            [[1, 2], [3]]
        """
        if convert_tensors == "numpy":
            return self.numpy()
        return self.tolist() if convert_tensors else self._shallow()

    def type(self, dst_type: torch.dtype, *, cast_filter: Any = None) -> Self:
        """Return the same leaf with numbers of a dtype.

        Args:
            dst_type: the dtype.
            cast_filter: called with the key and the tensor; ``False`` keeps its dtype.

        Example:
            >>> import torch
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).type(torch.float64).dtype
            torch.float64
        """
        return self._filtered_cast(dst_type, cast_filter, ())

    def _filtered_cast(self, dtype: torch.dtype, cast_filter: Any, path: tuple[str, ...]) -> Self:
        is_cast = cast_filter is None or cast_filter(path, self._wrapped_tensor())
        return self._with_tensor(self._wrapped_tensor().type(dtype)) if is_cast else self

    def _to_device(self, device: torch.device, non_blocking: bool) -> Self:
        return self._to(device, None, non_blocking, False, None)


def cast_to(tensor: Tensor, dtype: torch.dtype | None, numbers: bool) -> torch.dtype | None:
    """Return the dtype to which a tensor is cast: without ``numbers``, integers and booleans keep theirs."""
    keeps = dtype is not None and not numbers and is_inexact(dtype) and not is_inexact(tensor.dtype)
    return None if keeps else dtype
