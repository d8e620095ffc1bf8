"""Operations that give parts along a batch dimension: split, chunk, unbind, narrow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Size, Tensor
from typing_extensions import Self

from . import jagged, shapes
from .hidden_members import member_values, with_members
from .indexing import Indexing


class Splitting(Indexing):
    """Operations that give parts along a batch dimension, as views."""

    __slots__ = ()

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
        batch_size = self._batch_size
        dim = shapes.wrap_dim(dim, len(batch_size))
        return with_members(self).split_with_sizes(shapes.split_sizes(batch_size[dim], split_size), dim)

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
        store = self._now()
        try:
            columns = [value.split_with_sizes(sizes, dim) for value in member_values(store.values())]
        except (RuntimeError, ValueError):  # jagged tensors with holes raise a ValueError
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
        batch_size = self._batch_size
        dim = shapes.wrap_dim(dim, len(batch_size))
        size = batch_size[dim]
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
        batch_size = self._batch_size
        dim = shapes.wrap_dim(dim, len(batch_size))
        size = batch_size[dim]
        if isinstance(indices_or_sections, Tensor):
            indices_or_sections = indices_or_sections.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(indices_or_sections, int):
            if indices_or_sections < 1:
                raise RuntimeError(f"tensor_split: expected at least one section, got {indices_or_sections}")
            each, more = size // indices_or_sections, size % indices_or_sections
            return with_members(self).split_with_sizes([each + (i < more) for i in range(indices_or_sections)], dim)
        bounds = [slice(start, stop).indices(size)[:2] for start, stop in _pairs(indices_or_sections)]
        prefix, here = (slice(None),) * dim, self._levels_now()
        return tuple([here._index_prepared((*prefix, slice(start, max(start, stop)))) for start, stop in bounds])

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
        store = self._now()
        if not store:
            return tuple([self._like({}, batch_size, names) for _ in range(self._batch_size[dim])])
        columns = [value.unbind(dim) for value in member_values(store.values())]
        like = self._like
        return tuple([like(dict(zip(store, row)), batch_size, names) for row in zip(*columns)])  # noqa: B905

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
        batch_size = self._batch_size
        dim = shapes.wrap_dim(dim, len(batch_size))
        size = batch_size[dim]
        if not -size <= start <= size:
            raise IndexError(f"narrow: expected start in [{-size}, {size}] for dimension {dim}, got {start}")
        start = start + size if start < 0 else start
        if length < 0 or start > size - length:
            raise RuntimeError(f"narrow: start {start} and length {length} exceed the size {size} of dimension {dim}")
        return self._index_prepared((*(slice(None),) * dim, slice(start, start + length)))


def _pairs(indices: Any) -> list[tuple[int | None, int | None]]:
    """Return the bounds between consecutive indices, open at both ends."""
    bounds: list[int | None] = [None, *indices, None]
    return list(pairwise(bounds))
