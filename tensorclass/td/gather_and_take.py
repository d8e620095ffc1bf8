"""Operations that take items by their positions: gather, take, masked_select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from typing_extensions import Self

from . import shapes
from .hidden_members import with_members
from .shape_operations import Shaping

if TYPE_CHECKING:
    from .collection import Collection


class Gathering(Shaping):
    """Operations that take items by their positions, as copies."""

    __slots__ = ()

    def gather(self, dim: int, index: Tensor, out: Self | None = None, *, inplace: bool = False) -> Self:
        """Gather items along a batch dimension by an index for each position, as ``torch.gather`` does.

        Args:
            dim: the batch dimension.
            index: integer tensor with as many dimensions as the batch. Dimensions of the values after the batch are
                taken whole.
            out: collection that the result is written to, and that is returned.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection whose batch size is the shape of ``index``, with copies.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: ``index`` has another number of dimensions, or an entry is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([[1, 2], [3, 4]])}, [2, 2]).gather(1, torch.tensor([[1], [0]]))["a"]
            tensor([[2],
                    [3]])
        """
        ndim = len(self._batch_size)
        dim = shapes.wrap_dim(dim, ndim)
        if index.ndim != ndim:
            raise RuntimeError(
                f"gather: expected an index of {ndim} dimensions, as many as the batch, got {index.ndim}"
            )
        shape = index.shape
        store = {
            key: _gather(value, dim, index, ndim)
            if isinstance(value, Tensor)
            else with_members(value).gather(dim, _deeper(index, value))
            for key, value in self._now().items()
        }
        result = self._like(store, shape, self._names)
        if out is not None:
            out._copy(result)  # type: ignore[attr-defined]
            return out
        return self._done(result, inplace)

    def take(self, index: Tensor, dim: int = 0) -> Self:
        """Select items along a batch dimension.

        Args:
            index: one-dimensional integer tensor.
            dim: the batch dimension. Default: 0.

        Returns:
            A collection with copies.

        Raises:
            IndexError: ``dim`` or an entry of ``index`` is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2, 3])}, [3]).take(torch.tensor([2, 0]))["a"]
            tensor([3, 1])
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return self._index_prepared((*(slice(None),) * dim, index))

    def masked_select(self, mask: Tensor, *, inplace: bool = False) -> Self:
        """Select the items at which a mask is true: ``data[mask]``.

        Args:
            mask: boolean tensor over the leading batch dimensions.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection with copies; the dimensions of the mask become one.

        Raises:
            IndexError: the shape of the mask is not that of the leading batch dimensions.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2, 3])}, [3]).masked_select(torch.tensor([True, False, True]))["a"]
            tensor([1, 3])
        """
        return self._done(self[mask], inplace)


def _deeper(index: Tensor, value: Collection) -> Tensor:
    """Expand an index over the additional batch dimensions of a nested collection."""
    rest = value.batch_size[index.ndim :]
    return index.reshape(index.shape + (1,) * len(rest)).expand(index.shape + rest) if rest else index


def _gather(value: Tensor, dim: int, index: Tensor, ndim: int) -> Tensor:
    rest = value.shape[ndim:]
    if rest:
        index = index.reshape(index.shape + (1,) * len(rest)).expand(index.shape + rest)
    return value.gather(dim, index)
