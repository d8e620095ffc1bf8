"""Shape operations: each is one line over the values, plus the new batch size and the new dimension names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import printable

from . import native, shapes
from .context import COPIED, RESIZED, VIEWED
from .hidden_members import member_items, with_members
from .indexing import Indexing

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store


class Shaping(Indexing):
    """Operations that merge, add, drop or repeat batch dimensions."""

    __slots__ = ()

    # -- other sizes --------------------------------------------------------------------------------------------------

    @native.tries("reshape")
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
            store = {**self._store}
            for key, value in member_items(store):
                store[key] = value.reshape(*new, *value.shape[ndim:])
            names = self._names and shapes.names_reshaped(self._names, old, new)
            result = self._like(store, new, names)
        else:  # a leaf without dimensions: torch's reshape needs an argument
            result = self._index_prepared((0,) * ndim)
        result._context = ((), COPIED, ref(self))
        return result

    @native.tries("view")
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
            batch_size: the same. With a dtype, the batch size of the result, where the sizes of items change the last
                dimension of the batch; nested collections that have more dimensions take it, too.

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
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            if size is not None:
                raise TypeError("view: give a dtype or size=, not both; the batch size beside a dtype is batch_size=")
            return self._viewed(shape[0], None if batch_size is None else shapes.as_size(batch_size))
        if size is not None or batch_size is not None:
            if shape:
                raise TypeError(f"view: the new batch size is given twice, as {shape} and by keyword")
            shape = tuple(size if size is not None else batch_size or ())
        old = self._batch_size
        new = shapes.reshaped(old, shapes.as_sequence(shape))
        ndim = len(old)
        if new:
            store = {**self._store}
            for key, value in member_items(store):
                store[key] = value.view(*new, *value.shape[ndim:])
            names = self._names and shapes.names_reshaped(self._names, old, new)
            result = self._like(store, new, names)
        else:
            result = self._index_prepared((0,) * ndim)
        result._context = ((), RESIZED, ref(self))
        return result

    def _viewed(self, dtype: torch.dtype, batch_size: Size | None = None) -> Self:
        """Read the memory of the values as another dtype. ``batch_size`` is that of the result, at every level."""
        store: Store = {}
        size = self._batch_size if batch_size is None else batch_size
        for key, value in self._now().items():
            new = value._viewed(dtype, batch_size) if isinstance(value, Shaping) else value.view(dtype)
            if new.shape[: len(size)] != size:
                raise RuntimeError(
                    f"view: {printable(key)}: expected the batch size {list(size)} in front, but read as {dtype} its "
                    f"shape {list(value.shape)} becomes {list(new.shape)}"
                )
            store[key] = new
        result = self._like(store, size, shapes.names_fitted(self._names, len(size)))
        result._context = ((), VIEWED, ref(self))
        return result

    @native.tries("flatten")
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
        batch_size = self._batch_size
        if not batch_size:
            return self._done(with_members(self).unsqueeze(0), inplace)
        first, last = 0 if start_dim is None else start_dim, -1 if end_dim is None else end_dim
        start, end = shapes.flat_range(batch_size, first, last)
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.flatten(start, end)
        names = self._names and shapes.names_flattened(self._names, start, end)
        result = self._like(store, shapes.flattened(batch_size, start, end), names)
        result._context = ((), COPIED, ref(self))
        return self._done(result, inplace)

    @native.tries("unflatten")
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
        sizes = shapes.as_sequence((unflattened_size,))
        batch_size = self._batch_size
        dim = shapes.wrap_dim(dim, len(batch_size))
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.unflatten(dim, sizes)
        names = self._names and shapes.names_unflattened(self._names, dim, len(sizes))
        result = self._like(store, shapes.unflattened(batch_size, dim, sizes), names)
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

    @native.tries("squeeze")
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
        batch_size = self._batch_size
        dims = shapes.squeezed_dims(batch_size, dim)
        removed = dims[0] if len(dims) == 1 else dims
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.squeeze(removed)
        names = self._names and shapes.names_without(self._names, dims)
        result = self._like(store, Size(shapes.without(batch_size, dims)), names)
        result._context = ((), RESIZED, ref(self))
        return result

    @native.tries("unsqueeze")
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
        batch_size = self._batch_size
        dim = shapes.unsqueezed_dim(len(batch_size), dim)
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.unsqueeze(dim)
        names = self._names and shapes.names_inserted(self._names, dim)
        result = self._like(store, shapes.inserted(batch_size, dim, 1), names)
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

    @native.tries("expand")
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
        batch_size = self._batch_size
        new = shapes.expanded(batch_size, shapes.as_sequence(shape))
        ndim = len(batch_size)
        if not new:
            return self._index_prepared(())
        more = len(new) - ndim
        store = {**self._store}
        if new[more:] == batch_size:  # only new dimensions in front
            front = new[:more]
            for key, value in member_items(store):
                store[key] = value.expand(*front, *value.shape)
        else:
            for key, value in member_items(store):
                store[key] = value.expand(*new, *value.shape[ndim:])
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
        batch_size = self._batch_size
        if len(counts) != len(batch_size):
            raise ValueError(
                f"repeat: expected {len(batch_size)} repeats, one for each batch dimension, got {len(counts)}"
            )
        ndim = len(counts)
        if not counts:
            return self._done(self._copied(), inplace)
        store: Store = {
            key: value.repeat(*counts, *(1,) * (value.ndim - ndim)) for key, value in member_items(self._now())
        }
        return self._done(self._like(store, shapes.repeated(batch_size, counts), self._names), inplace)

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
        batch_size = self._batch_size
        counts = (1,) * (len(batch_size) - len(dims)) + tuple(dims)
        result = self
        for _ in range(len(counts) - len(batch_size)):
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
        batch_size = self._batch_size
        if dim is None:
            flat = self if len(batch_size) == 1 else with_members(self).reshape(-1)
            return self._done(with_members(flat).repeat_interleave(repeats, 0, output_size=output_size), inplace)
        dim = shapes.wrap_dim(dim, len(batch_size))
        size = batch_size[dim]
        if isinstance(repeats, int):
            total = size * repeats
        elif repeats.numel() == 1:
            total = size * int(repeats)
        elif repeats.numel() != size:
            raise RuntimeError(f"repeat_interleave: expected {size} repeats, one for each item, got {repeats.numel()}")
        else:
            total = int(repeats.sum()) if output_size is None else output_size
        if total < 0:
            raise RuntimeError(f"repeat_interleave: repeats cannot be negative, got {repeats}")
        if output_size is not None and output_size != total:
            raise RuntimeError(f"repeat_interleave: output_size is {output_size}, the repeats sum to {total}")
        store: Store = {
            key: value.repeat_interleave(repeats, dim, output_size=total) for key, value in member_items(self._now())
        }
        return self._done(self._like(store, shapes.with_size(batch_size, dim, total), self._names), inplace)

    def _copied(self) -> Self:
        """Return a copy: the result of an operation that copies but has nothing to do."""
        return self._same({key: value.clone() for key, value in member_items(self._now())})

    # -- memory -------------------------------------------------------------------------------------------------------

    @native.tries("contiguous")
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
            store = {key: _canonical(value) for key, value in self._now().items()}
        else:
            store = {**self._store}
            for key, value in member_items(store):
                store[key] = value.contiguous()
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


V = TypeVar("V", Tensor, "TensorCollection")


def expand_right(tensor: V, shape: Sequence[int]) -> V:
    """Expand a tensor or a collection to a shape with additional dimensions after its own.

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
