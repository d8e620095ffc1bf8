"""Operations that change the order of batch dimensions, or of the items along them: permute, flip, roll, rotate."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

from typing_extensions import Self

from . import native, shapes
from .context import FLIPPED, PERMUTED, ROLLED, ROTATED
from .hidden_members import member_items, with_members
from .shape_operations import Shaping


class Permuting(Shaping):
    """Operations that change the order of dimensions, or of the items along them."""

    __slots__ = ()

    @native.tries("permute")
    def _permute(self, order: tuple[int, ...]) -> Self:
        """Permute the batch dimensions; the order is checked already."""
        ndim = len(order)
        if order:
            store = {**self._store}
            for key, value in member_items(store):
                store[key] = value.permute(*order, *range(ndim, value.ndim))
            names = self._names and shapes.names_permuted(self._names, order)
            result = self._like(store, shapes.permuted(self._batch_size, order), names)
        else:
            result = self._index_prepared(())
        result._context = ((), PERMUTED, ref(self), order)
        return result

    def permute(self, *args: int | Sequence[int], dims: Sequence[int] | None = None) -> Self:
        """Permute the batch dimensions.

        Args:
            args: all batch dimensions in their new order, as ints or one sequence.
            dims: the same by keyword.

        Returns:
            A collection whose tensors are views.

        Raises:
            ValueError: a dimension is missing or appears twice.
            IndexError: a dimension is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3]).permute(1, 0)["a"].shape
            torch.Size([3, 2, 4])
        """
        if dims is not None:
            args = (dims,)
        return self._permute(shapes.permutation(len(self._batch_size), shapes.as_sequence(args)))

    @native.tries("transpose")
    def transpose(self, dim0: int, dim1: int) -> Self:
        """Swap two batch dimensions.

        Args:
            dim0: first dimension.
            dim1: second dimension.

        Returns:
            A collection whose tensors are views.

        Raises:
            ValueError: a dimension is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3]).transpose(0, 1)["a"].shape
            torch.Size([3, 2, 4])
        """
        batch_size = self._batch_size
        order = shapes.transposition(len(batch_size), dim0, dim1)
        ndim = len(order)
        dim0, dim1 = dim0 % ndim, dim1 % ndim
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.transpose(dim0, dim1)
        names = self._names and shapes.names_permuted(self._names, order)
        result = self._like(store, shapes.permuted(batch_size, order), names)
        result._context = ((), PERMUTED, ref(self), order)
        return result

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """Swap two batch dimensions; see :meth:`transpose`.

        Args:
            axis0: first dimension.
            axis1: second dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3)}, [2, 3]).swapaxes(0, 1).batch_size
            torch.Size([3, 2])
        """
        return with_members(self).transpose(axis0, axis1)

    def swapdims(self, axis0: int, axis1: int) -> Self:
        """Swap two batch dimensions; see :meth:`transpose`.

        Args:
            axis0: first dimension.
            axis1: second dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3)}, [2, 3]).swapdims(0, 1).batch_size
            torch.Size([3, 2])
        """
        return with_members(self).transpose(axis0, axis1)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Move batch dimensions to other positions. The others keep their order.

        Args:
            source: one dimension or several.
            destination: their new positions.

        Returns:
            A collection whose tensors are views.

        Raises:
            IndexError: a dimension is out of range.
            RuntimeError: ``source`` and ``destination`` differ in length, or a dimension appears twice.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3, 4]).movedim(0, -1).batch_size
            torch.Size([3, 4, 2])
        """
        return self._permute(shapes.movement(len(self._batch_size), source, destination))

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Move batch dimensions to other positions; see :meth:`movedim`.

        Args:
            source: one dimension or several.
            destination: their new positions.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3, 4]).moveaxis(0, -1).batch_size
            torch.Size([3, 4, 2])
        """
        return with_members(self).movedim(source, destination)

    def flip(self, *args: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Reverse the items along batch dimensions.

        Args:
            args: the dimensions, as ints or one sequence.
            dims: the same by keyword.

        Returns:
            A collection with copies.

        Raises:
            IndexError: a dimension is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2, 3])}, [3]).flip(0)["a"]
            tensor([3, 2, 1])
        """
        if dims is not None:
            args = (dims,)
        result = self._same({**self._store})  # first, with the batch size that the dimensions are checked with
        wrapped = shapes.wrap_dims(shapes.as_sequence(args), len(result._batch_size))
        if wrapped:
            store = result._store
            for key, value in member_items(store):
                store[key] = value.flip(*wrapped)
        else:
            result = self._copied()
        result._context = ((), FLIPPED, ref(self), wrapped)
        return result

    def fliplr(self) -> Self:
        """Reverse the items along the second batch dimension; see :meth:`flip`.

        Raises:
            RuntimeError: there are less than two batch dimensions.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([[1, 2, 3]])}, [1, 3]).fliplr()["a"]
            tensor([[3, 2, 1]])
        """
        self._check_plane("fliplr")
        return with_members(self).flip(1)

    def flipud(self) -> Self:
        """Reverse the items along the first batch dimension; see :meth:`flip`.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2, 3])}, [3]).flipud()["a"]
            tensor([3, 2, 1])
        """
        return with_members(self).flip(0)

    def roll(
        self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None, *, inplace: bool = False
    ) -> Self:
        """Rotate the items along batch dimensions: items that leave at one end come in at the other.

        Args:
            shifts: number of positions, one int for each of ``dims``.
            dims: one dimension or several. Default: the flattened batch.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection with copies.

        Raises:
            IndexError: a dimension is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2, 3])}, [3]).roll(1, 0)["a"]
            tensor([3, 1, 2])
        """
        if dims is None:
            wrapped = None
            result = self._rolled(shifts, len(self._batch_size))
        else:
            result = self._same({**self._now()})
            ndim = len(result._batch_size)
            wrapped = tuple(shapes.wrap_dim(d, ndim) for d in ((dims,) if isinstance(dims, int) else dims))
            store = result._store
            for key, value in member_items(store):
                store[key] = value.roll(shifts, wrapped)
        result._context = ((), ROLLED, ref(self), shifts, wrapped)
        return self._done(result, inplace)

    def _rolled(self, shifts: int | Sequence[int], ndim: int) -> Self:
        """Rotate along the first ``ndim`` dimensions as if they were one."""
        count = shapes.numel(self._batch_size[:ndim])
        return self._same(
            {
                key: value._rolled(shifts, ndim)
                if isinstance(value, Permuting)
                else value.reshape(count, *value.shape[ndim:]).roll(shifts, 0).reshape(value.shape)
                for key, value in self._now().items()
            }
        )

    def _check_plane(self, what: str) -> None:
        if len(self._batch_size) < 2:
            raise RuntimeError(
                f"{what}: expected at least 2 batch dimensions, got the batch size {list(self._batch_size)}"
            )

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Self:
        """Rotate the plane of two batch dimensions by multiples of 90 degrees.

        Args:
            k: number of rotations, from the first towards the second of ``dims``. Default: 1.
            dims: the two dimensions. Default: the first two.

        Raises:
            RuntimeError: there are less than two batch dimensions.
            IndexError: a dimension is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([[1, 2], [3, 4]])}, [2, 2]).rot90()["a"]
            tensor([[2, 4],
                    [1, 3]])
        """
        self._check_plane("rot90")
        first, second = shapes.wrap_dims(dims, len(self._batch_size))
        k %= 4
        if k == 0:
            result = self._copied()
        elif k == 2:
            result = with_members(self).flip(first, second)
        elif k == 1:
            result = with_members(with_members(self).flip(second)).transpose(first, second)
        else:
            result = with_members(with_members(self).transpose(first, second)).flip(second)
        result._context = ((), ROTATED, ref(self), k, (first, second))
        return result
