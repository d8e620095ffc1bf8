"""Shape operations: each is one line over the values, plus the new batch size, plus the new dimension names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.printable import printable

from . import jagged, shapes
from .collection import Collection
from .context import COPIED, FLIPPED, PERMUTED, RESIZED, ROLLED, ROTATED, VIEWED

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store


class Shaping(Collection):
    """Operations on the batch dimensions that move, split, merge, add or repeat them."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _index(self, index: tuple[Any, ...]) -> Self: ...

    # -- other sizes --------------------------------------------------------------------------------------------------

    def reshape(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Self:
        """The same items in another batch size; the values are views where that is possible.

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
                {key: value.reshape(*new, *value.shape[ndim:]) for key, value in self._store.items()},
                new,
                self._names and shapes.names_reshaped(self._names, old, new),
            )
        else:  # a leaf may have no dimension left, and torch wants an argument
            result = self._index((0,) * ndim)
        result._context = ((), COPIED, ref(self))
        return result

    def view(
        self,
        *shape: int | Sequence[int] | torch.dtype,
        size: Sequence[int] | None = None,
        batch_size: Size | None = None,
    ) -> Self:
        """:meth:`reshape` that never copies: an error where a value's memory does not allow it.

        With a dtype, the values' memory read as that dtype. After ``with``, what changes inside is written back; so it
        is for the other operations here that have an inverse, for ``to``, ``flatten_keys`` and ``unflatten_keys``.

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
                {key: value.view(*new, *value.shape[ndim:]) for key, value in self._store.items()},
                new,
                self._names and shapes.names_reshaped(self._names, old, new),
            )
        else:
            result = self._index((0,) * ndim)
        result._context = ((), RESIZED, ref(self))
        return result

    def _viewed(self, dtype: torch.dtype) -> Self:
        """The values' memory read as another dtype."""
        store: Store = {}
        size = self._batch_size
        for key, value in self._store.items():
            new = value._viewed(dtype) if isinstance(value, Shaping) else value.view(dtype)
            if new.shape[: len(size)] != size:
                raise RuntimeError(
                    f"view: {printable(key)}: read as {dtype} its shape {list(value.shape)} becomes {list(new.shape)}, "
                    f"without the batch size {list(size)} in front"
                )
            store[key] = new
        result = self._same(store)
        result._context = ((), VIEWED, ref(self))
        return result

    def flatten(self, start_dim: int | None = None, end_dim: int | None = None, *, inplace: bool = False) -> Self:
        """The batch dimensions ``start_dim`` to ``end_dim`` made one (without batch dimensions: one of size 1).

        All of them by default.
        """
        if not self._batch_size:
            return self._done(self.unsqueeze(0), inplace)
        first, last = 0 if start_dim is None else start_dim, -1 if end_dim is None else end_dim
        start, end = shapes.flat_range(self._batch_size, first, last)
        result = self._like(
            {key: value.flatten(start, end) for key, value in self._store.items()},
            shapes.flattened(self._batch_size, start, end),
            self._names and shapes.names_flattened(self._names, start, end),
        )
        result._context = ((), COPIED, ref(self))
        return self._done(result, inplace)

    def unflatten(self, dim: int, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        """The batch dimension ``dim`` split into several."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        sizes = shapes.as_sequence((unflattened_size,))
        result = self._like(
            {key: value.unflatten(dim, sizes) for key, value in self._store.items()},
            shapes.unflattened(self._batch_size, dim, sizes),
            self._names and shapes.names_unflattened(self._names, dim, len(sizes)),
        )
        result._context = ((), RESIZED, ref(self))
        return self._done(result, inplace)

    def _done(self, result: Self, inplace: bool) -> Self:
        """The result, or this collection with the result's content when the operation is in place."""
        if not inplace:
            return result
        self._check_unlocked()
        self._store.update(result._store)
        self._batch_size = result._batch_size
        self._names = result._names
        return self

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without the batch dimensions of size 1 (those among ``dim``)."""
        dims = shapes.squeezed_dims(self._batch_size, dim)
        which = dims[0] if len(dims) == 1 else dims
        result = self._like(
            {key: value.squeeze(which) for key, value in self._store.items()},
            Size(shapes.without(self._batch_size, dims)),
            self._names and shapes.names_without(self._names, dims),
        )
        result._context = ((), RESIZED, ref(self))
        return result

    def unsqueeze(self, dim: int) -> Self:
        """With one more batch dimension, of size 1, at ``dim``; a negative one counts from the end of the batch."""
        dim = shapes.unsqueezed_dim(len(self._batch_size), dim)
        result = self._like(
            {key: value.unsqueeze(dim) for key, value in self._store.items()},
            shapes.inserted(self._batch_size, dim, 1),
            self._names and shapes.names_inserted(self._names, dim),
        )
        result._context = ((), RESIZED, ref(self))
        return result

    def atleast_1d(self) -> Self:
        """With at least one batch dimension."""
        return self if self._batch_size else self.unsqueeze(0)

    def atleast_2d(self) -> Self:
        """With at least two batch dimensions, new ones in front."""
        result = self
        while result.ndim < 2:
            result = result.unsqueeze(0)
        return self._resized_from(result)

    def atleast_3d(self) -> Self:
        """With at least three batch dimensions, where torch puts them: one row becomes ``[1, n, 1]``."""
        result = self.atleast_2d()
        return self._resized_from(result.unsqueeze(-1) if result.ndim < 3 else result)

    def _resized_from(self, result: Self) -> Self:
        """The result of several steps, undone in one."""
        if result is not self:
            result._context = ((), RESIZED, ref(self))
        return result

    def expand(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Self:
        """Batch dimensions of size 1 made larger, and new ones in front, without a copy; ``-1`` keeps a size.

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
            store = {key: value.expand(*front, *value.shape) for key, value in self._store.items()}
        else:
            store = {key: value.expand(*new, *value.shape[ndim:]) for key, value in self._store.items()}
        return self._like(store, new, self._names and shapes.names_padded(self._names, more))

    def expand_as(self, other: TensorCollection | Tensor) -> Self:
        """:meth:`expand` to the batch size of a collection, or to the shape of a tensor."""
        return self.expand(other.shape)

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """:meth:`expand`."""
        return self.expand(shape)

    def repeat(self, *repeats: int | Sequence[int], inplace: bool = False) -> Self:
        """Copies along each batch dimension; more repeats than dimensions add dimensions in front."""
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
                {key: value.repeat(*counts, *(1,) * (value.ndim - ndim)) for key, value in self._store.items()},
                shapes.repeated(self._batch_size, counts),
                self._names,
            ),
            inplace,
        )

    def tile(self, dims: int | Sequence[int]) -> Self:
        """:meth:`repeat` where missing counts are ones in front, and more of them add dimensions in front."""
        dims = (dims,) if isinstance(dims, int) else dims
        counts = (1,) * (len(self._batch_size) - len(dims)) + tuple(dims)
        result = self
        for _ in range(len(counts) - len(self._batch_size)):
            result = result.unsqueeze(0)
        return result.repeat(counts)

    def repeat_interleave(
        self, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None, inplace: bool = False
    ) -> Self:
        """Each item along ``dim`` several times in a row; without ``dim``, along the flattened batch."""
        if dim is None:
            flat = self if len(self._batch_size) == 1 else self.reshape(-1)
            return self._done(flat.repeat_interleave(repeats, 0, output_size=output_size), inplace)
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
                {key: value.repeat_interleave(repeats, dim, output_size=total) for key, value in self._store.items()},
                shapes.with_size(self._batch_size, dim, total),
                self._names,
            ),
            inplace,
        )

    def _copied(self) -> Self:
        """The result of an operation that copies, where there is nothing to do."""
        return self._same({key: value.clone() for key, value in self._store.items()})

    # -- another order ------------------------------------------------------------------------------------------------

    def _permute(self, order: tuple[int, ...]) -> Self:
        """The batch dimensions in a checked order."""
        ndim = len(order)
        if order:
            result = self._like(
                {key: value.permute(*order, *range(ndim, value.ndim)) for key, value in self._store.items()},
                shapes.permuted(self._batch_size, order),
                self._names and shapes.names_permuted(self._names, order),
            )
        else:
            result = self._index(())
        result._context = ((), PERMUTED, ref(self), order)
        return result

    def permute(self, *args: int | Sequence[int], dims: Sequence[int] | None = None) -> Self:
        """The batch dimensions in another order.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3]).permute(1, 0)["a"].shape
        torch.Size([3, 2, 4])
        """
        if dims is not None:
            args = (dims,)
        return self._permute(shapes.permutation(len(self._batch_size), shapes.as_sequence(args)))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Two batch dimensions swapped."""
        order = shapes.transposition(len(self._batch_size), dim0, dim1)
        ndim = len(order)
        dim0, dim1 = dim0 % ndim, dim1 % ndim
        result = self._like(
            {key: value.transpose(dim0, dim1) for key, value in self._store.items()},
            shapes.permuted(self._batch_size, order),
            self._names and shapes.names_permuted(self._names, order),
        )
        result._context = ((), PERMUTED, ref(self), order)
        return result

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """:meth:`transpose`."""
        return self.transpose(axis0, axis1)

    def swapdims(self, axis0: int, axis1: int) -> Self:
        """:meth:`transpose`."""
        return self.transpose(axis0, axis1)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Some batch dimensions moved, the others in their order."""
        return self._permute(shapes.movement(len(self._batch_size), source, destination))

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """:meth:`movedim`."""
        return self.movedim(source, destination)

    def flip(self, *args: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """The items along some batch dimensions in reverse."""
        if dims is not None:
            args = (dims,)
        wrapped = shapes.wrap_dims(shapes.as_sequence(args), len(self._batch_size))
        if wrapped:
            result = self._same({key: value.flip(*wrapped) for key, value in self._store.items()})
        else:
            result = self._copied()
        result._context = ((), FLIPPED, ref(self), wrapped)
        return result

    def fliplr(self) -> Self:
        """:meth:`flip` of the second batch dimension."""
        self._check_plane("fliplr")
        return self.flip(1)

    def flipud(self) -> Self:
        """:meth:`flip` of the first batch dimension."""
        return self.flip(0)

    def roll(
        self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None, *, inplace: bool = False
    ) -> Self:
        """The items moved along some batch dimensions, coming in again at the other end.

        Without ``dims`` along the flattened batch.
        """
        if dims is None:
            wrapped = None
            result = self._rolled(shifts, len(self._batch_size))
        else:
            wrapped = tuple(shapes.wrap_dim(d, self.ndim) for d in ((dims,) if isinstance(dims, int) else dims))
            result = self._same({key: value.roll(shifts, wrapped) for key, value in self._store.items()})
        result._context = ((), ROLLED, ref(self), shifts, wrapped)
        return self._done(result, inplace)

    def _rolled(self, shifts: int | Sequence[int], ndim: int) -> Self:
        """:meth:`roll` along the first ``ndim`` dimensions, as if they were one."""
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
        """The plane of two batch dimensions turned by 90 degrees ``k`` times, from the first towards the second."""
        self._check_plane("rot90")
        first, second = shapes.wrap_dims(dims, self.ndim)
        k %= 4
        if k == 0:
            result = self._copied()
        elif k == 2:
            result = self.flip(first, second)
        elif k == 1:
            result = self.flip(second).transpose(first, second)
        else:
            result = self.transpose(first, second).flip(second)
        result._context = ((), ROTATED, ref(self), k, (first, second))
        return result

    # -- parts --------------------------------------------------------------------------------------------------------

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along a batch dimension, each of a size (the last may be smaller), or of the sizes given.

        >>> from tensorclass import TensorDict
        >>> [len(part) for part in TensorDict({"a": torch.zeros(5)}, [5]).split(2)]
        [2, 2, 1]
        """
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return self.split_with_sizes(shapes.split_sizes(self._batch_size[dim], split_size), dim)

    def split_with_sizes(self, sizes: list[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts of the sizes given along a batch dimension: :meth:`split` without its choice of forms."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        batch_size = self._batch_size
        store = self._store
        try:
            columns = [value.split_with_sizes(sizes, dim) for value in store.values()]
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
        """At most ``chunks`` parts along a batch dimension, of one size but for the last."""
        if chunks < 1:
            raise RuntimeError(f"chunk: expected at least one chunk, got {chunks}")
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        size = self._batch_size[dim]
        if size == 0:
            return self.split_with_sizes([0] * chunks, dim)
        return self.split_with_sizes(shapes.split_sizes(size, -(-size // chunks)), dim)

    def tensor_split(self, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Self, ...]:
        """Parts along a batch dimension: a number of nearly equal ones, or cut at the indices given."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        size = self._batch_size[dim]
        if isinstance(indices_or_sections, Tensor):
            indices_or_sections = indices_or_sections.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(indices_or_sections, int):
            if indices_or_sections < 1:
                raise RuntimeError(f"tensor_split: expected at least one section, got {indices_or_sections}")
            each, more = size // indices_or_sections, size % indices_or_sections
            return self.split_with_sizes([each + (i < more) for i in range(indices_or_sections)], dim)
        bounds = [slice(start, stop).indices(size)[:2] for start, stop in _pairs(indices_or_sections)]
        prefix = (slice(None),) * dim
        return tuple([self._index((*prefix, slice(start, max(start, stop)))) for start, stop in bounds])

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The collections at each position of a batch dimension."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        batch_size = Size(shapes.without(self._batch_size, (dim,)))
        names = self._names and shapes.names_without(self._names, (dim,))
        store = self._store
        if not store:
            return tuple([self._like({}, batch_size, names) for _ in range(self._batch_size[dim])])
        columns = [value.unbind(dim) for value in store.values()]
        like = self._like
        keys = list(store)
        return tuple([like(dict(zip(keys, row)), batch_size, names) for row in zip(*columns)])  # noqa: B905

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """``length`` items from ``start`` along a batch dimension."""
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
        """For each position of ``index`` the item at that index along ``dim``, as ``torch.gather`` does for the batch.

        ``index`` has as many dimensions as the batch; the dimensions behind are taken whole.
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
            else value.gather(dim, _deeper(index, value))
            for key, value in self._store.items()
        }
        result = self._like(store, shape, self._names)
        if out is not None:
            out._copy(result)  # type: ignore[attr-defined]
            return out
        return self._done(result, inplace)

    def take(self, index: Tensor, dim: int = 0) -> Self:
        """The items at a one-dimensional ``index`` along ``dim``."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return self._index((*(slice(None),) * dim, index))

    def masked_select(self, mask: Tensor, *, inplace: bool = False) -> Self:
        """The items where ``mask``, of the shape of the leading batch dimensions, is true: ``data[mask]``."""
        return self._done(self[mask], inplace)  # type: ignore[index]

    # -- memory -------------------------------------------------------------------------------------------------------

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """All values contiguous in memory; those that are come as they are.

        Args:
            canonical: also give dimensions of size 1 the strides that a new tensor would have.
            inplace: replace the values of this collection.
        """
        if canonical:
            store = {key: _canonical(value) for key, value in self._store.items()}
        else:
            store = {key: value.contiguous() for key, value in self._store.items()}
        return self._done(self._same(store), inplace)

    def is_contiguous(self) -> bool:
        """Whether all values are contiguous in memory."""
        return all(leaf.is_contiguous() for leaf in self._leaves())


def _canonical(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device=value.device).copy_(value)
    return value.contiguous(canonical=True)


def _pairs(indices: Any) -> list[tuple[int | None, int | None]]:
    """The bounds between consecutive indices, open at both ends."""
    bounds: list[int | None] = [None, *indices, None]
    return list(pairwise(bounds))


def _deeper(index: Tensor, value: TensorCollection) -> Tensor:
    """The index with the further batch dimensions of a nested collection."""
    rest = value.batch_size[index.ndim :]
    return index.reshape(index.shape + (1,) * len(rest)).expand(index.shape + rest) if rest else index


def _gather(value: Tensor, dim: int, index: Tensor, ndim: int) -> Tensor:
    rest = value.shape[ndim:]
    if rest:
        index = index.reshape(index.shape + (1,) * len(rest)).expand(index.shape + rest)
    return value.gather(dim, index)


V = TypeVar("V", Tensor, "TensorCollection")


def expand_right(tensor: V, shape: Sequence[int]) -> V:
    """A tensor or a collection expanded to a shape that has more dimensions behind its own.

    >>> expand_right(torch.arange(2), (2, 3))
    tensor([[0, 0, 0],
            [1, 1, 1]])
    """
    result: Any = tensor
    for _ in range(len(shape) - result.ndim):
        result = result.unsqueeze(-1)
    return result.expand(tuple(shape))  # type: ignore[no-any-return]


def expand_as_right(tensor: V, dest: Tensor | TensorCollection) -> V:
    """:func:`expand_right` to the shape of another tensor or collection.

    Raises:
        RuntimeError: the dimensions of ``tensor`` are not the first ones of ``dest``, or of size 1.

    >>> expand_as_right(torch.zeros(3), torch.zeros(3, 4)).shape
    torch.Size([3, 4])
    """
    given, shape = tensor.shape, dest.shape
    if len(given) > len(shape) or any(a not in (1, b) for a, b in zip(given, shape, strict=False)):
        raise RuntimeError(
            f"expand_as_right: {list(given)} cannot be expanded to {list(shape)}: its sizes must be the first ones of "
            "it, or 1"
        )
    return expand_right(tensor, shape)
