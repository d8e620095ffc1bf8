"""Shape operations: each is one line over the values, plus the new batch size and the new dimension names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import printable

from . import jagged, shapes
from .collection import Collection
from .context import COPIED, FLIPPED, PERMUTED, RESIZED, ROLLED, ROTATED, VIEWED
from .hidden_members import member_items, member_values, with_members

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store


class Shaping(Collection):
    """Operations that move, split, merge, add or repeat batch dimensions."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _index(self, index: tuple[Any, ...]) -> Self: ...

    # -- other sizes --------------------------------------------------------------------------------------------------

    def reshape(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Self:
        """Return the same items in another batch size.

        Args:
            shape: new batch size, as ints or one sequence. One size may be ``-1``, the size that is left.
            size: the same by keyword.

        Returns:
            A collection whose tensors are views if their strides allow it.

        Raises:
            RuntimeError: the number of items differs.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(6, 2)}, [6]).reshape(2, -1)["a"].shape
            torch.Size([2, 3, 2])
        """
        if size is not None:
            shape = tuple(size)
        old = self._batch_size
        new = shapes.reshaped(old, shapes.as_sequence(shape))
        ndim = len(old)
        if new:
            result = self._like(
                {key: value.reshape(*new, *value.shape[ndim:]) for key, value in member_items(self._store)},
                new,
                self._names and shapes.names_reshaped(self._names, old, new),
            )
        else:  # a leaf without dimensions: torch's reshape needs an argument
            result = self._index((0,) * ndim)
        result._context = ((), COPIED, ref(self))
        return result

    def view(
        self,
        *shape: int | Sequence[int] | torch.dtype,
        size: Sequence[int] | None = None,
        batch_size: Size | None = None,
    ) -> Self:
        """Return views of all values in another batch size, or read as another dtype.

        As a context manager, writes the changes made inside the block back at its end. The other shape operations that
        have an inverse do so too, as do ``to``, ``flatten_keys`` and ``unflatten_keys``.

        Args:
            shape: new batch size, as ints or one sequence, in which one size may be ``-1``; or a dtype, as which the
                memory of the values is read.
            size: the batch size by keyword.
            batch_size: the same.

        Returns:
            A collection that shares the memory of all tensors.

        Raises:
            RuntimeError: the number of items differs, or the strides of a value require a copy.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2, 3)}, [2, 3])
            >>> with data.view(-1) as flat:
            ...     flat["b"] = torch.arange(6)
            >>> data["b"]
            tensor([[0, 1, 2],
                    [3, 4, 5]])
        """
        if size is not None or batch_size is not None:
            shape = tuple(size if size is not None else batch_size or ())
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            return self._viewed(shape[0])
        old = self._batch_size
        new = shapes.reshaped(old, shapes.as_sequence(shape))
        ndim = len(old)
        if new:
            result = self._like(
                {key: value.view(*new, *value.shape[ndim:]) for key, value in member_items(self._store)},
                new,
                self._names and shapes.names_reshaped(self._names, old, new),
            )
        else:
            result = self._index((0,) * ndim)
        result._context = ((), RESIZED, ref(self))
        return result

    def _viewed(self, dtype: torch.dtype) -> Self:
        """Read the memory of the values as another dtype."""
        store: Store = {}
        size = self._batch_size
        for key, value in self._store.items():
            new = value._viewed(dtype) if isinstance(value, Shaping) else value.view(dtype)
            if new.shape[: len(size)] != size:
                raise RuntimeError(
                    f"view: {printable(key)}: expected the batch size {list(size)} in front, but read as {dtype} its "
                    f"shape {list(value.shape)} becomes {list(new.shape)}"
                )
            store[key] = new
        result = self._same(store)
        result._context = ((), VIEWED, ref(self))
        return result

    def flatten(self, start_dim: int | None = None, end_dim: int | None = None, *, inplace: bool = False) -> Self:
        """Merge batch dimensions to one. A collection without batch dimensions gets one of size 1.

        Args:
            start_dim: first of the merged dimensions. Default: the first one.
            end_dim: last of the merged dimensions. Default: the last one.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection whose tensors are views if their strides allow it.

        Raises:
            IndexError: a dimension is out of range.
            RuntimeError: ``start_dim`` comes after ``end_dim``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3]).flatten()["a"].shape
            torch.Size([6, 4])
        """
        if not self._batch_size:
            return self._done(with_members(self).unsqueeze(0), inplace)
        first, last = 0 if start_dim is None else start_dim, -1 if end_dim is None else end_dim
        start, end = shapes.flat_range(self._batch_size, first, last)
        result = self._like(
            {key: value.flatten(start, end) for key, value in member_items(self._store)},
            shapes.flattened(self._batch_size, start, end),
            self._names and shapes.names_flattened(self._names, start, end),
        )
        result._context = ((), COPIED, ref(self))
        return self._done(result, inplace)

    def unflatten(self, dim: int, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        """Split a batch dimension into several.

        Args:
            dim: the batch dimension.
            unflattened_size: sizes of the new dimensions; one may be ``-1``.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: the sizes do not fit the size of the dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(6, 4)}, [6]).unflatten(0, (2, 3))["a"].shape
            torch.Size([2, 3, 4])
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        sizes = shapes.as_sequence((unflattened_size,))
        result = self._like(
            {key: value.unflatten(dim, sizes) for key, value in member_items(self._store)},
            shapes.unflattened(self._batch_size, dim, sizes),
            self._names and shapes.names_unflattened(self._names, dim, len(sizes)),
        )
        result._context = ((), RESIZED, ref(self))
        return self._done(result, inplace)

    def _done(self, result: Self, inplace: bool) -> Self:
        """Return the result, or take over its content if the operation is in place."""
        if not inplace:
            return result
        self._check_unlocked()
        self._store.update(result._store)
        self._batch_size = result._batch_size
        self._names = result._names
        return self

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Remove batch dimensions of size 1.

        Args:
            dim: one dimension or several; those of another size stay. Default: all of size 1.

        Returns:
            A collection whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(1, 3, 4)}, [1, 3]).squeeze()["a"].shape
            torch.Size([3, 4])
        """
        dims = shapes.squeezed_dims(self._batch_size, dim)
        removed = dims[0] if len(dims) == 1 else dims
        result = self._like(
            {key: value.squeeze(removed) for key, value in member_items(self._store)},
            Size(shapes.without(self._batch_size, dims)),
            self._names and shapes.names_without(self._names, dims),
        )
        result._context = ((), RESIZED, ref(self))
        return result

    def unsqueeze(self, dim: int) -> Self:
        """Add a batch dimension of size 1.

        Args:
            dim: its position. A negative one counts from the end of the batch dimensions.

        Returns:
            A collection whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3, 4)}, [3]).unsqueeze(-1)["a"].shape
            torch.Size([3, 1, 4])
        """
        dim = shapes.unsqueezed_dim(len(self._batch_size), dim)
        result = self._like(
            {key: value.unsqueeze(dim) for key, value in member_items(self._store)},
            shapes.inserted(self._batch_size, dim, 1),
            self._names and shapes.names_inserted(self._names, dim),
        )
        result._context = ((), RESIZED, ref(self))
        return result

    def atleast_1d(self) -> Self:
        """Return a collection with at least one batch dimension.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1}).atleast_1d().batch_size
            torch.Size([1])
        """
        return self if self._batch_size else with_members(self).unsqueeze(0)

    def atleast_2d(self) -> Self:
        """Return a collection with at least two batch dimensions. New ones are in front.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": [1, 2, 3]}, [3]).atleast_2d().batch_size
            torch.Size([1, 3])
        """
        result = self
        while len(result._batch_size) < 2:
            result = with_members(result).unsqueeze(0)
        return self._resized_from(result)

    def atleast_3d(self) -> Self:
        """Return a collection with at least three batch dimensions, of size 1 where torch adds them.

        ``[n]`` becomes ``[1, n, 1]``, and ``[m, n]`` becomes ``[m, n, 1]``.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": [1, 2, 3]}, [3]).atleast_3d().batch_size
            torch.Size([1, 3, 1])
        """
        result = with_members(self).atleast_2d()
        return self._resized_from(with_members(result).unsqueeze(-1) if len(result._batch_size) < 3 else result)

    def _resized_from(self, result: Self) -> Self:
        """Let a context manager undo several steps in one."""
        if result is not self:
            result._context = ((), RESIZED, ref(self))
        return result

    def expand(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Self:
        """Expand batch dimensions of size 1, and add new ones in front, without a copy.

        Args:
            shape: new batch size, as ints or one sequence. ``-1`` keeps the size of a dimension.
            size: the same by keyword.

        Returns:
            A collection whose tensors are views.

        Raises:
            RuntimeError: the batch size cannot be expanded to ``shape``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3, 2)}, [3]).expand(4, 3)["a"].shape
            torch.Size([4, 3, 2])
        """
        if size is not None:
            shape = tuple(size)
        new = shapes.expanded(self._batch_size, shapes.as_sequence(shape))
        ndim = len(self._batch_size)
        if not new:
            return self._index(())
        more = len(new) - ndim
        if new[more:] == self._batch_size:  # only new dimensions in front
            front = new[:more]
            store = {key: value.expand(*front, *value.shape) for key, value in member_items(self._store)}
        else:
            store = {key: value.expand(*new, *value.shape[ndim:]) for key, value in member_items(self._store)}
        return self._like(store, new, self._names and shapes.names_padded(self._names, more))

    def expand_as(self, other: TensorCollection | Tensor) -> Self:
        """Expand to the batch size of a collection, or to the shape of a tensor; see :meth:`expand`.

        Args:
            other: a collection or a tensor.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3)}, [3]).expand_as(torch.zeros(2, 3)).batch_size
            torch.Size([2, 3])
        """
        return with_members(self).expand(with_members(other).shape)

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """Expand to a batch size; see :meth:`expand`.

        Args:
            shape: the new batch size.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3)}, [3]).broadcast_to([2, 3]).batch_size
            torch.Size([2, 3])
        """
        return with_members(self).expand(shape)

    def repeat(self, *repeats: int | Sequence[int], inplace: bool = False) -> Self:
        """Repeat the items along each batch dimension.

        Args:
            repeats: number of repetitions for each batch dimension, as ints or one sequence.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection with copies.

        Raises:
            ValueError: the number of repeats is not the number of batch dimensions.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2])}, [2]).repeat(2)["a"]
            tensor([1, 2, 1, 2])
        """
        counts = shapes.as_sequence(repeats)
        if len(counts) != len(self._batch_size):
            raise ValueError(
                f"repeat: expected {len(self._batch_size)} repeats, one for each batch dimension, got {len(counts)}"
            )
        ndim = len(counts)
        if not counts:
            return self._done(self._copied(), inplace)
        return self._done(
            self._like(
                {key: value.repeat(*counts, *(1,) * (value.ndim - ndim)) for key, value in member_items(self._store)},
                shapes.repeated(self._batch_size, counts),
                self._names,
            ),
            inplace,
        )

    def tile(self, dims: int | Sequence[int]) -> Self:
        """Repeat the items as ``torch.tile`` does.

        Args:
            dims: number of repetitions for each batch dimension. Missing ones are 1, in front; additional ones add
                dimensions in front.

        Returns:
            A collection with copies.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2])}, [2]).tile((2, 1)).batch_size
            torch.Size([2, 2])
        """
        dims = (dims,) if isinstance(dims, int) else dims
        counts = (1,) * (len(self._batch_size) - len(dims)) + tuple(dims)
        result = self
        for _ in range(len(counts) - len(self._batch_size)):
            result = with_members(result).unsqueeze(0)
        return with_members(result).repeat(counts)

    def repeat_interleave(
        self, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None, inplace: bool = False
    ) -> Self:
        """Repeat each item along a batch dimension.

        Args:
            repeats: number of repetitions: an int, or an integer tensor with one for each item.
            dim: the batch dimension. Default: the flattened batch.
            output_size: size of the dimension in the result, which saves a synchronization with an accelerator.
            inplace: change this collection and return it. Default: ``False``.

        Returns:
            A collection with copies.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: ``output_size`` is not the sum of the repeats.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.tensor([1, 2])}, [2]).repeat_interleave(2)["a"]
            tensor([1, 1, 2, 2])
        """
        if dim is None:
            flat = self if len(self._batch_size) == 1 else with_members(self).reshape(-1)
            return self._done(with_members(flat).repeat_interleave(repeats, 0, output_size=output_size), inplace)
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        size = self._batch_size[dim]
        if isinstance(repeats, int):
            total = size * repeats
        elif repeats.numel() == 1:
            total = size * int(repeats)
        else:
            total = int(repeats.sum()) if output_size is None else output_size
        if output_size is not None and output_size != total:
            raise RuntimeError(f"repeat_interleave: output_size is {output_size}, the repeats sum to {total}")
        return self._done(
            self._like(
                {
                    key: with_members(value).repeat_interleave(repeats, dim, output_size=total)
                    for key, value in member_items(self._store)
                },
                shapes.with_size(self._batch_size, dim, total),
                self._names,
            ),
            inplace,
        )

    def _copied(self) -> Self:
        """Return a copy: the result of an operation that copies but has nothing to do."""
        return self._same({key: value.clone() for key, value in member_items(self._store)})

    # -- another order ------------------------------------------------------------------------------------------------

    def _permute(self, order: tuple[int, ...]) -> Self:
        """Permute the batch dimensions; the order is checked already."""
        ndim = len(order)
        if order:
            result = self._like(
                {key: value.permute(*order, *range(ndim, value.ndim)) for key, value in member_items(self._store)},
                shapes.permuted(self._batch_size, order),
                self._names and shapes.names_permuted(self._names, order),
            )
        else:
            result = self._index(())
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
        order = shapes.transposition(len(self._batch_size), dim0, dim1)
        ndim = len(order)
        dim0, dim1 = dim0 % ndim, dim1 % ndim
        result = self._like(
            {key: value.transpose(dim0, dim1) for key, value in member_items(self._store)},
            shapes.permuted(self._batch_size, order),
            self._names and shapes.names_permuted(self._names, order),
        )
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
        wrapped = shapes.wrap_dims(shapes.as_sequence(args), len(self._batch_size))
        if wrapped:
            result = self._same({key: value.flip(*wrapped) for key, value in member_items(self._store)})
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
            wrapped = tuple(
                shapes.wrap_dim(d, len(self._batch_size)) for d in ((dims,) if isinstance(dims, int) else dims)
            )
            result = self._same({key: value.roll(shifts, wrapped) for key, value in member_items(self._store)})
        result._context = ((), ROLLED, ref(self), shifts, wrapped)
        return self._done(result, inplace)

    def _rolled(self, shifts: int | Sequence[int], ndim: int) -> Self:
        """Rotate along the first ``ndim`` dimensions as if they were one."""
        count = shapes.numel(self._batch_size[:ndim])
        return self._same(
            {
                key: value._rolled(shifts, ndim)
                if isinstance(value, Shaping)
                else value.reshape(count, *value.shape[ndim:]).roll(shifts, 0).reshape(value.shape)
                for key, value in self._store.items()
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

    # -- split --------------------------------------------------------------------------------------------------------

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along a batch dimension.

        Args:
            split_size: size of each piece (the last may be smaller), or a list of sizes.
            dim: the batch dimension. Default: 0.

        Returns:
            Collections whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: ``split_size`` is not positive, or the sizes do not add up to the size of the dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> [len(part) for part in TensorDict({"a": torch.zeros(5)}, [5]).split(2)]
            [2, 2, 1]
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return with_members(self).split_with_sizes(shapes.split_sizes(self._batch_size[dim], split_size), dim)

    def split_with_sizes(self, sizes: list[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along a batch dimension into pieces of given sizes.

        Args:
            sizes: sizes of the pieces, which add up to the size of the dimension.
            dim: the batch dimension. Default: 0.

        Returns:
            Collections whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: the sizes do not add up.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> [len(piece) for piece in TensorDict({"a": torch.zeros(5)}, [5]).split_with_sizes([2, 3])]
            [2, 3]
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        batch_size = self._batch_size
        store = self._store
        try:
            columns = [value.split_with_sizes(sizes, dim) for value in member_values(store.values())]
        except RuntimeError:
            if not jagged.any_nested(store.values()):
                raise
            columns = [jagged.split_rows(value, sizes, dim) for value in store.values()]
        rows = zip(*columns) if columns else [()] * len(sizes)  # noqa: B905
        parts: list[Self] = []
        size = batch_size
        for count, row in zip(sizes, rows):  # noqa: B905
            if size[dim] != count:
                size = shapes.with_size(batch_size, dim, count)
            parts.append(self._like(dict(zip(store, row)), size, self._names))  # noqa: B905
        return tuple(parts)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Split along a batch dimension into at most ``chunks`` pieces of one size; the last may be smaller.

        Args:
            chunks: number of pieces, at most.
            dim: the batch dimension. Default: 0.

        Returns:
            Collections whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: ``chunks`` is less than 1.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> [len(piece) for piece in TensorDict({"a": torch.zeros(5)}, [5]).chunk(2)]
            [3, 2]
        """
        if chunks < 1:
            raise RuntimeError(f"chunk: expected at least one chunk, got {chunks}")
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        size = self._batch_size[dim]
        if size == 0:
            return with_members(self).split_with_sizes([0] * chunks, dim)
        return with_members(self).split_with_sizes(shapes.split_sizes(size, -(-size // chunks)), dim)

    def tensor_split(self, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Self, ...]:
        """Split along a batch dimension into nearly equal pieces, or at indices.

        Args:
            indices_or_sections: number of pieces, or indices at which to cut.
            dim: the batch dimension. Default: 0.

        Returns:
            Collections whose tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.
            RuntimeError: the number of pieces is less than 1.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> [len(piece) for piece in TensorDict({"a": torch.zeros(5)}, [5]).tensor_split([1, 3])]
            [1, 2, 2]
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        size = self._batch_size[dim]
        if isinstance(indices_or_sections, Tensor):
            indices_or_sections = indices_or_sections.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(indices_or_sections, int):
            if indices_or_sections < 1:
                raise RuntimeError(f"tensor_split: expected at least one section, got {indices_or_sections}")
            each, more = size // indices_or_sections, size % indices_or_sections
            return with_members(self).split_with_sizes([each + (i < more) for i in range(indices_or_sections)], dim)
        bounds = [slice(start, stop).indices(size)[:2] for start, stop in _pairs(indices_or_sections)]
        prefix = (slice(None),) * dim
        return tuple([self._index((*prefix, slice(start, max(start, stop)))) for start, stop in bounds])

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the collection at each position of a batch dimension.

        Args:
            dim: the batch dimension. Default: 0.

        Returns:
            Collections without this dimension. Their tensors are views.

        Raises:
            IndexError: ``dim`` is out of range.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> [row["a"].item() for row in TensorDict({"a": torch.tensor([1, 2])}, [2]).unbind()]
            [1, 2]
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        batch_size = Size(shapes.without(self._batch_size, (dim,)))
        names = self._names and shapes.names_without(self._names, (dim,))
        store = self._store
        if not store:
            return tuple([self._like({}, batch_size, names) for _ in range(self._batch_size[dim])])
        columns = [value.unbind(dim) for value in member_values(store.values())]
        like = self._like
        keys = list(store)
        return tuple([like(dict(zip(keys, row)), batch_size, names) for row in zip(*columns)])  # noqa: B905

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """Return a range of items along a batch dimension.

        Args:
            dim: the batch dimension.
            start: first item; a negative one counts from the end.
            length: number of items.

        Returns:
            A collection whose tensors are views.

        Raises:
            IndexError: ``dim`` or ``start`` is out of range.
            RuntimeError: the range exceeds the dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.arange(5)}, [5]).narrow(0, 1, 2)["a"]
            tensor([1, 2])
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        size = self._batch_size[dim]
        if not -size <= start <= size:
            raise IndexError(f"narrow: expected start in [{-size}, {size}] for dimension {dim}, got {start}")
        start = start + size if start < 0 else start
        if length < 0 or start > size - length:
            raise RuntimeError(f"narrow: start {start} and length {length} exceed the size {size} of dimension {dim}")
        return self._index((*(slice(None),) * dim, slice(start, start + length)))

    # -- by position --------------------------------------------------------------------------------------------------

    def gather(self, dim: int, index: Tensor, out: Self | None = None, *, inplace: bool = False) -> Self:
        """Gather items along a batch dimension by an index for each position, as ``torch.gather`` does.

        Args:
            dim: the batch dimension.
            index: integer tensor with as many dimensions as the batch. Dimensions of the values behind the batch are
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
            for key, value in self._store.items()
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
        return self._index((*(slice(None),) * dim, index))

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
        return self._done(self[mask], inplace)  # type: ignore[index]

    # -- memory -------------------------------------------------------------------------------------------------------

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """Return a collection whose tensors are contiguous in memory.

        Args:
            canonical: also give dimensions of size 1 the strides of a new tensor. All tensors are copied then. Default:
                ``False``.
            inplace: replace the values of this collection and return it. Default: ``False``.

        Returns:
            A collection; tensors that are contiguous already are shared.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3, 2).T}, [2, 3])
            >>> data.is_contiguous(), data.contiguous().is_contiguous()
            (False, True)
        """
        if canonical:
            store = {key: _canonical(value) for key, value in self._store.items()}
        else:
            store = {key: value.contiguous() for key, value in member_items(self._store)}
        return self._done(self._same(store), inplace)

    def is_contiguous(self) -> bool:
        """Return whether all tensors are contiguous in memory.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3, 2)}, [3]).is_contiguous()
            True
        """
        return all(leaf.is_contiguous() for leaf in self._leaves())


def _canonical(value: Any) -> Any:
    """Copy a value to the strides of a new tensor."""
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device=value.device).copy_(value)
    return with_members(value).contiguous(canonical=True)


def _pairs(indices: Any) -> list[tuple[int | None, int | None]]:
    """Return the bounds between consecutive indices, open at both ends."""
    bounds: list[int | None] = [None, *indices, None]
    return list(pairwise(bounds))


def _deeper(index: Tensor, value: Collection) -> Tensor:
    """Expand an index over the additional batch dimensions of a nested collection."""
    rest = value.batch_size[index.ndim :]
    return index.reshape(index.shape + (1,) * len(rest)).expand(index.shape + rest) if rest else index


def _gather(value: Tensor, dim: int, index: Tensor, ndim: int) -> Tensor:
    rest = value.shape[ndim:]
    if rest:
        index = index.reshape(index.shape + (1,) * len(rest)).expand(index.shape + rest)
    return value.gather(dim, index)


V = TypeVar("V", Tensor, "TensorCollection")


def expand_right(tensor: V, shape: Sequence[int]) -> V:
    """Expand a tensor or a collection to a shape with additional dimensions behind its own.

    Args:
        tensor: tensor or collection.
        shape: the shape, or batch size, of the result, which starts with the present one.

    Returns:
        A view, or a collection of views.

    Example:
        >>> import torch
        >>> from tensorclass.utils import expand_right
        >>> expand_right(torch.arange(2), (2, 3))
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    result: Any = tensor
    for _ in range(len(shape) - result.ndim):
        result = result.unsqueeze(-1)
    return result.expand(tuple(shape))  # type: ignore[no-any-return]


def expand_as_right(tensor: V, dest: Tensor | TensorCollection) -> V:
    """Expand to the shape of another tensor or collection; see :func:`expand_right`.

    Args:
        tensor: tensor or collection.
        dest: tensor or collection whose shape the result has.

    Returns:
        A view, or a collection of views.

    Raises:
        RuntimeError: the dimensions of ``tensor`` are neither the first ones of ``dest`` nor of size 1.

    Example:
        >>> import torch
        >>> from tensorclass.utils import expand_as_right
        >>> expand_as_right(torch.zeros(3), torch.zeros(3, 4)).shape
        torch.Size([3, 4])
    """
    given, shape = tensor.shape, dest.shape
    if len(given) > len(shape) or any(a not in (1, b) for a, b in zip(given, shape, strict=False)):
        raise RuntimeError(
            f"expand_as_right: {list(given)} cannot be expanded to {list(shape)}: its sizes must be the first sizes of "
            "the destination, or 1"
        )
    return expand_right(tensor, shape)
