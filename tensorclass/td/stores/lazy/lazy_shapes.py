"""Shape operations on lazy stacks, and stacking and concatenating several: lazy as long as the parts stay whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td import shapes
from tensorclass.td.context import COPIED, NOTHING, RESIZED
from tensorclass.td.get import MISSING
from tensorclass.td.hidden_members import member_values, with_members
from tensorclass.td.leaves.object_codes import to_lists

from .lazy_base import LazyParts
from .lazy_rows import folded

#: marks an operation that a `with` statement undoes in the parts
_BY_PART: Any = "_by_part"


class LazyShaping(LazyParts):
    """Shape operations, stack and cat of lazy stacks."""

    __slots__ = ()

    # A `with` statement on the result of an operation on each part undoes it in each part.

    def _undone_by_part(self, items: list[Any], dim: int | None = None, name: Any = MISSING) -> Self:
        result = self._with_parts(items, dim, name)
        if result is not self:
            own = {id(part) for part in self._store.items_}
            result._context = ((), _BY_PART, [part for part in items if id(part) not in own])
        return result

    def __enter__(self) -> Self:
        context = getattr(self, "_context", NOTHING)
        if context[1] is not _BY_PART:
            return super().__enter__()
        for part in context[2]:
            part.__enter__()
        self._context = ((*context[0], (_BY_PART, context)), _BY_PART, context[2])
        return self

    def __exit__(self, *exception: Any) -> None:
        undo, before = self._context[0][-1]
        if undo is not _BY_PART:
            super().__exit__(*exception)
            return
        self._context = before
        for part in before[2]:
            part.__exit__(*exception)

    # -- shapes -------------------------------------------------------------------------------------------------------

    def unsqueeze(self, dim: int) -> Self:
        dim, own = shapes.unsqueezed_dim(len(self._batch_size), dim), self._store.dim
        before = dim <= own
        parts = [part.unsqueeze(dim if before else dim - 1) for part in member_values(self._store.items_)]
        return self._undone_by_part(parts, own + before)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        dims, own = shapes.squeezed_dims(self._batch_size, dim), self._store.dim
        inner = tuple([d - (d > own) for d in dims if d != own])
        items = [part.squeeze(inner) if inner else part for part in self._store.items_]
        if own in dims:
            only: Any = items[0]
            return only  # type: ignore[no-any-return]
        return self._undone_by_part(items, own - sum(d < own for d in dims))

    def _permute(self, order: tuple[int, ...]) -> Self:
        own = self._store.dim
        inner = tuple([d - (d > own) for d in order if d != own])
        items = [part._permute(inner) if inner else part for part in self._store.items_]
        return self._undone_by_part(items, order.index(own))

    def transpose(self, dim0: int, dim1: int) -> Self:
        return self._permute(shapes.transposition(len(self._batch_size), dim0, dim1))

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        dim, own = shapes.wrap_dim(dim, len(self._batch_size)), self._store.dim
        if dim == own:
            return tuple(self._store.items_)
        if self._batch_size[dim] == -1:
            raise RuntimeError(f"unbind: the parts have different sizes in dimension {dim}: {self._sizes(dim)}")
        columns = [part.unbind(dim - (dim > own)) for part in member_values(self._store.items_)]
        return tuple([self._with_parts(list(row), own - (dim < own)) for row in zip(*columns, strict=True)])

    def _sizes(self, dim: int) -> list[int]:
        inner = dim - (dim > self._store.dim)
        return [part._batch_size[inner] for part in self._store.items_]

    def split_with_sizes(self, sizes: list[int], dim: int = 0) -> tuple[Any, ...]:
        dim, own = shapes.wrap_dim(dim, len(self._batch_size)), self._store.dim
        items = self._store.items_
        if dim != own:
            columns = [part.split_with_sizes(sizes, dim - (dim > own)) for part in items]
            return tuple([self._with_parts(list(row), own) for row in zip(*columns, strict=True)])
        if sum(sizes) != len(items) or min(sizes, default=0) < 0:
            raise RuntimeError(f"split: the sizes {sizes} do not sum to {len(items)}, the size of dimension {dim}")
        front = (slice(None),) * dim
        slices = [slice(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes))]
        return tuple([self._index_prepared((*front, one)) for one in slices])

    def expand(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Self:
        asked = tuple(size) if size is not None else shapes.as_sequence(shape)
        new = shapes.expanded(self._batch_size, asked)
        more = len(new) - len(self._batch_size)
        dim = self._store.dim + more
        items = self._store.items_
        inner = shapes.without(new, (dim,))
        parts = [part.expand(inner) if inner else part for part in items]
        parts = parts if len(parts) == new[dim] else parts * new[dim]
        return self._with_parts(parts, dim)

    def _reshaped(self, new: Size, name: str) -> Any:
        """Reshape the parts if the stack dimension stays whole; otherwise return ``None``."""
        old, dim = self._batch_size, self._store.dim
        if self._is_ragged():
            return None
        before = shapes.numel(old[:dim]) if dim else 1
        at = next((i for i in range(len(new)) if new[i] == old[dim] and shapes.numel(new[:i]) == before), None)
        if at is None or (0 in old and new != old):
            return None
        inner = shapes.without(new, (at,))
        parts = [
            getattr(with_members(part), name)(*inner) if inner else part._index_prepared((0,) * len(part._batch_size))
            for part in self._store.items_
        ]
        names = self._names and shapes.names_reshaped(self._names, old, new)
        result = self._undone_by_part(parts, at, names[at] if names else None)
        if not inner:
            result._context = ((), RESIZED, ref(self))
        return result

    def reshape(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Self:
        asked = tuple(size) if size is not None else shapes.as_sequence(shape)
        if self._is_ragged():
            return self._rows(asked)
        new = shapes.reshaped(self._batch_size, asked)
        result = self._reshaped(new, "reshape") if new else None
        if result is None and new and self._is_uneven():
            return self._rows(new)
        if result is None:
            result = super(LazyShaping, self._levels_now()).reshape(*new)
            result._context = ((), COPIED, ref(self))
        return result

    def view(self, *shape: int | Sequence[int] | torch.dtype, size: Any = None, batch_size: Size | None = None) -> Self:
        if size is not None or batch_size is not None:
            shape = tuple(size if size is not None else batch_size or ())
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            return self._undone_by_part([part.view(shape[0]) for part in member_values(self._store.items_)])
        asked = shapes.as_sequence(shape)
        if self._is_ragged():
            raise RuntimeError(
                f"view: the parts have different batch sizes (together {list(self._batch_size)}); use reshape"
            )
        new = shapes.reshaped(self._batch_size, asked)
        if not new:
            return self._index_prepared((0,) * len(self._batch_size))
        result = self._reshaped(new, "view")
        if result is None:
            result = self._rows(new)
            result._context = ((), RESIZED, ref(self))
        return result  # type: ignore[no-any-return]

    def _rows(self, shape: Sequence[int]) -> Self:
        """Stack all rows, each a view of its part, lazily in another batch size."""
        if self._is_ragged() and self._store.dim != 0:
            raise RuntimeError(f"reshape: the parts of this lazy stack differ and lie along dimension {self.stack_dim}")
        rows = [self._levels_now()]
        while rows and rows[0]._batch_size:
            rows = [row for item in rows for row in with_members(item).unbind(0)]
        if not rows:
            return super().reshape(*shape)
        sizes = shapes.reshaped(Size([len(rows)]), tuple(shape))
        return folded(rows, list(sizes), 0) if sizes else rows[0]

    def flatten(self, start_dim: int | None = None, end_dim: int | None = None, *, inplace: bool = False) -> Self:
        _refuse_inplace("flatten", inplace)
        first, last = 0 if start_dim is None else start_dim, -1 if end_dim is None else end_dim
        start, end = shapes.flat_range(self._batch_size, first, last)
        if self._is_ragged():
            if (start, end) != (0, len(self._batch_size) - 1):
                raise RuntimeError("flatten: the parts differ in their batch sizes: only all dimensions can become one")
            return self._rows((-1,))
        return self.reshape(shapes.flattened(self._batch_size, start, end))

    def unflatten(self, dim: int, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        _refuse_inplace("unflatten", inplace)
        dim, own = shapes.wrap_dim(dim, len(self._batch_size)), self._store.dim
        sizes = shapes.as_sequence((unflattened_size,))
        if dim != own:
            parts = [part.unflatten(dim - (dim > own), sizes) for part in member_values(self._store.items_)]
            return self._undone_by_part(parts, own + (len(sizes) - 1 if dim < own else 0))
        if len(sizes) == 1:
            shapes.unflattened(self._batch_size, dim, sizes)  # checks the sizes
            return self._with_parts(list(self._store.items_), own)
        whole = shapes.unflattened(Size([len(self._store.items_)]), 0, sizes)
        result = folded(self._store.items_, list(whole), own)
        result._context = ((), RESIZED, ref(self))
        return result  # type: ignore[no-any-return]

    def flip(self, *args: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        asked = shapes.as_sequence(args if dims is None else (dims,))
        wrapped, own = shapes.wrap_dims(asked, len(self._batch_size)), self._store.dim
        inner = tuple([d - (d > own) for d in wrapped if d != own])
        parts = [part.flip(inner) for part in member_values(self._store.items_)]
        return self._undone_by_part(parts[::-1] if own in wrapped else parts, own)

    def repeat(self, *repeats: int | Sequence[int], inplace: bool = False) -> Self:
        _refuse_inplace("repeat", inplace)
        counts, own = shapes.as_sequence(repeats), self._store.dim
        if len(counts) != len(self._batch_size) or 0 in counts:
            return super().repeat(*counts)
        inner = shapes.without(counts, (own,))
        items: list[Any] = [part._shallow() for part in self._store.items_]  # each is read several times
        parts = [with_members(part).repeat(*inner) for _ in range(counts[own]) for part in items]
        return self._with_parts(parts, own)

    def repeat_interleave(
        self, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None, inplace: bool = False
    ) -> Any:
        _refuse_inplace("repeat_interleave", inplace)
        if dim is None or not self._is_uneven():
            flat = self.reshape(-1) if dim is None else self._densified()
            return flat.repeat_interleave(repeats, 0 if dim is None else dim, output_size=output_size)
        dim, own = shapes.wrap_dim(dim, len(self._batch_size)), self._store.dim
        items = self._store.items_
        if dim != own:
            inner = dim - (dim > own)
            parts = [with_members(part).repeat_interleave(repeats, inner, output_size=output_size) for part in items]
        else:
            counts = to_lists(torch.as_tensor(repeats).expand(len(items)))
            once: list[Any] = [part._shallow() for part in items]  # each is read several times
            parts = [with_members(part).clone() for part, count in zip(once, counts, strict=True) for _ in range(count)]
        return self._with_parts(parts, own)

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        _refuse_inplace("contiguous", inplace)
        return with_members(self._densified()).contiguous(canonical=canonical)

    def is_contiguous(self) -> bool:
        return False

    # -- with others --------------------------------------------------------------------------------------------------

    def _alike(self, items: Sequence[Any]) -> bool:
        dim, count = self._store.dim, len(self._store.items_)
        return all(
            isinstance(item, LazyParts) and item._store.dim == dim and len(item._store.items_) == count
            for item in items
        )

    def _stack(self, items: list[Any], dim: int) -> Any:
        if not self._alike(items) or len({item._batch_size for item in items}) > 1:
            return super()._stack(items, dim)
        own = self._store.dim
        before = dim <= own
        rows = zip(*[item._store.items_ for item in items], strict=True)
        parts = [row[0]._stack(list(row), dim if before else dim - 1) for row in rows]
        return self._with_parts(parts, own + before)

    def _cat(self, items: list[Any], dim: int) -> Any:
        own = self._store.dim
        if dim == own and all(isinstance(item, LazyParts) and item._store.dim == own for item in items):
            parts = [part for item in items for part in item._store.items_]
            for part in parts:
                if len(part._batch_size) != len(parts[0]._batch_size) or (
                    not self._is_ragged() and part._batch_size != parts[0]._batch_size
                ):
                    self._cannot_combine("cat", items, dim)
            return self._with_parts(parts, own)
        if dim == own or not self._alike(items):
            return super()._cat(items, dim)
        rows = zip(*[item._store.items_ for item in items], strict=True)
        return self._with_parts([row[0]._cat(list(row), dim - (dim > own)) for row in rows], own)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Any:
        conditions = self._left_pieces(condition)
        others = self._left_pieces(other)
        triples = zip(self._store.items_, conditions, others, strict=True)
        return self._with_parts([part._where(where, piece, pad, path) for part, where, piece in triples])

    def _left_pieces(self, value: Any) -> list[Any]:
        """Return the share of each part in a tensor that is aligned with the first batch dimensions."""
        if isinstance(value, Tensor) and value.ndim:
            dim, count = self._store.dim, len(self._store.items_)
            if value.ndim > dim and value.shape[dim] not in (1, count):
                raise RuntimeError(
                    f"expected a tensor over the batch, whose size is {list(self._batch_size)}, got the shape "
                    f"{list(value.shape)}; nothing was changed"
                )
            return list(value.unbind(dim)) * (count // value.shape[dim]) if value.ndim > dim else [value] * count
        return self._pieces(value)

    def masked_fill(self, mask: Tensor, value: float | bool) -> Self:
        pairs = zip(self._store.items_, self._left_pieces(mask), strict=True)
        return self._with_parts([part.masked_fill(own, value) for part, own in pairs])

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        pairs = list(zip(self._store.items_, self._left_pieces(mask), strict=True))
        for part, own in pairs:
            part._check_mask(own, value, ())
        for part, own in pairs:
            with_members(part).masked_fill_(own, value)
        return self

    def _check_mask(self, mask: Tensor, value: Any, path: tuple[str, ...]) -> None:
        for part, own in zip(self._store.items_, self._left_pieces(mask), strict=True):
            part._check_mask(own, value, path)


def _refuse_inplace(what: str, inplace: bool) -> None:
    if inplace:
        raise TypeError(f"{what}(inplace=True): the parts of a lazy stack cannot become others")
