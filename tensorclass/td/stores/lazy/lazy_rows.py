"""Rows of lazy stacks: an index selects parts, and the rest of it indexes each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td import shapes
from tensorclass.td.first_class_dims import BoundIndex
from tensorclass.td.hidden_members import with_members
from tensorclass.td.indexing import expanded_rows
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.prepared_index import prepare_index

from .lazy_base import LazyParts, lazily


class LazyRows(LazyParts):
    """Reading and writing by index."""

    __slots__ = ()

    # -- rows ---------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        kind: Any = index.__class__
        if kind is str:
            return super().__getitem__(index)
        items: list[Any] = self._store.items_
        if kind is int and not self._store.dim and 0 <= index < len(items):
            return items[index]
        if kind is slice and not self._store.dim:
            chosen = items[index]
            if chosen:
                return lazily(chosen, 0, self._store, self._store.name)
        if kind is tuple and index and (type(index[0]) is str or type(index[0]) is tuple):
            return super().__getitem__(index)
        if index is Ellipsis:
            return self
        try:
            prepared = prepare_index(index, self._batch_size)
        except BoundIndex:
            return super().__getitem__(index)
        return self._index_prepared(prepared)

    def _index_prepared(self, index: tuple[Any, ...]) -> Any:
        plan = _split_index(index, self._batch_size, self._store.dim)
        if plan is None:
            return self._rowwise(index) if self._is_uneven() else super()._index_prepared(index)
        picked, rest, dim = plan
        items = self._store.items_
        if isinstance(picked, int):
            return items[picked]._index_prepared(rest) if rest else items[picked]
        if not picked:
            return super()._index_prepared(index)
        name = self._store.name if type(picked[0]) is int else None
        return self._picked(picked, rest, dim, name)

    def _picked(self, positions: list[Any], rest: tuple[Any, ...], dim: int, name: str | None) -> Any:
        """Return the stack of the parts at positions, in nested lists, each of them indexed with the rest."""
        items: list[Any] = self._store.items_
        if type(positions[0]) is not int:
            parts = [self._picked(below, rest, dim, name) for below in positions]
        elif rest:
            parts = [items[position]._index_prepared(rest) for position in positions]
        else:
            parts = [items[position] for position in positions]
        return lazily(parts, dim, self._store, name)

    def _rowwise(self, index: tuple[Any, ...]) -> Any:
        """Index parts and their rows with tensors, row by row, because the values cannot be stacked."""
        tensors = [item for item in index if isinstance(item, Tensor)]
        if any(isinstance(item, bool) or item is None for item in index) or len(tensors) < 2:
            raise RuntimeError(f"a lazy stack of the batch size {list(self._batch_size)} cannot be indexed in this way")
        shape = shapes.broadcast(*[tensor.shape for tensor in tensors])
        rows = [to_lists(item.expand(shape).reshape(-1)) if isinstance(item, Tensor) else item for item in index]
        first = next(i for i, item in enumerate(index) if isinstance(item, Tensor))
        at = sum(1 for item in index[:first] if isinstance(item, slice))
        picked = [
            self._index_prepared(tuple([row[i] if isinstance(row, list) else row for row in rows]))
            for i in range(shapes.numel(shape))
        ]
        return folded(picked, list(shape), at)

    def _rows_of_parts(self, index: tuple[Any, ...]) -> list[tuple[Any, tuple[Any, ...], Any]]:
        """Return for each part that a write concerns: the part, an index into it, the index of its rows in ``rows``.

        The last is ``None`` if it gets all of ``rows``.
        """
        plan = _split_index(index, self._batch_size, self._store.dim)
        items = self._store.items_
        if plan is not None:
            picked, rest, dim = plan
            if isinstance(picked, int):
                return [(items[picked], rest, None)]
            if all(isinstance(which, int) for which in picked):
                front = (slice(None),) * dim
                return [(items[which], rest, (*front, i)) for i, which in enumerate(picked)]
        if self._is_ragged():
            raise RuntimeError(f"a lazy stack of the batch size {list(self._batch_size)} cannot be written in this way")
        # the destination of each row to write, by position
        size, dim = self._batch_size, self._store.dim
        positions = torch.arange(shapes.numel(size)).reshape(size)[index]
        coordinates = torch.unravel_index(positions, size)
        found: list[tuple[Any, tuple[Any, ...], Any]] = []
        there: list[int] = to_lists(torch.unique(coordinates[dim]))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        for which in there:
            here = coordinates[dim] == which
            inner = tuple([coordinate[here] for axis, coordinate in enumerate(coordinates) if axis != dim])
            # a part without batch dimensions is one row: the last write wins
            taken: Any = here if inner else tuple(to_lists(here.nonzero()[-1]))
            found.append((items[which], inner, taken))
        return found

    def _write(self, index: tuple[Any, ...], rows: Any) -> Any:
        selected = self._rows_of_parts(index)
        if not self._is_ragged():
            target = shapes.indexed(self._batch_size, index)
            if rows._batch_size != target:
                rows = expanded_rows(rows, target)
        writes = [(part, inner, rows if taken is None else rows[taken]) for part, inner, taken in selected]
        if not all(inner or isinstance(part, LazyParts) for part, inner, _ in writes):
            writes = [
                (part, inner or (slice(None),) if part._batch_size else inner, part_rows)
                for part, inner, part_rows in writes
            ]
        for part, inner, part_rows in writes:
            part._check_write(inner, part_rows)
        for part, inner, part_rows in writes:
            part._write(inner, part_rows)
        return self

    def copy_at_(self, tensordict: Any, idx: Any, non_blocking: bool = False, *, fast: bool = True) -> Self:
        return with_members(self).update_at_(tensordict, idx, non_blocking=non_blocking)

    def _check_write(self, index: tuple[Any, ...], rows: Any) -> None:
        for part, inner, taken in self._rows_of_parts(index):
            part._check_write(inner, rows if taken is None else rows[taken])

    def _check_rows(self, rows: Any, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        if not self._is_ragged():  # otherwise shapes are checked when the parts are written
            super()._check_rows(rows, ndim, row_ndim, path)

    def _write_checked(self, index: tuple[Any, ...], rows: Any, ndim: int, row_ndim: int) -> Any:
        if not self._is_ragged():
            target = shapes.indexed(self._batch_size, index)
            # the rows may have the batch size of the collection that holds this stack
            if len(rows._batch_size) < len(target):
                rows = rows._shallow()
                rows._set_batch_size(target)
        return self._write(index, rows)

    def _fill(self, item: Any, value: Any) -> None:
        index = prepare_index(item, self._batch_size)
        if isinstance(value, Tensor) and value.ndim:
            for key in self._store:
                current: Any = self._store[key]
                if isinstance(current, LazyRows):
                    current._fill(item, value)
                elif isinstance(current, Tensor):
                    current[item] = value
                    for part, own in zip(self._store.items_, current.unbind(self.stack_dim), strict=True):
                        leaf: Any = part._store[key]
                        leaf.copy_(own)
            return
        for part, inner, _ in self._rows_of_parts(index):
            part._fill(inner if inner else ..., value)


def folded(items: Sequence[Any], sizes: list[int], dim: int) -> Any:
    """Arrange a flat list of collections in nested lazy stacks, all along ``dim``."""
    if len(sizes) == 1:
        return lazily(list(items), dim)
    step = len(items) // sizes[0]
    return lazily([folded(items[i * step : (i + 1) * step], sizes[1:], dim) for i in range(sizes[0])], dim)


def _split_index(index: tuple[Any, ...], batch_size: Size, dim: int) -> tuple[Any, tuple[Any, ...], int] | None:
    """Split an index: positions of parts, the index into each, and the stack dimension in the result.

    The positions are one int, or (nested lists of) ints. Return ``None`` for an index whose tensors mix the stack
    dimension with others.
    """
    own: Any = slice(None)
    at, seen = len(index), 0
    advanced: list[int] = []
    for position, item in enumerate(index):
        if type(item) is bool:
            return None
        if item is not None:  # it consumes a batch dimension
            if seen == dim:
                at, own = position, item
            elif type(item) is not int and type(item) is not slice and isinstance(item, Tensor) and item.ndim:
                advanced.append(position)
            seen += 1
    rest = (*index[:at], *index[at + 1 :])
    while rest and type(rest[-1]) is slice and rest[-1] == slice(None):
        rest = rest[:-1]
    count = batch_size[dim]
    if isinstance(own, Tensor) and own.ndim:
        if advanced:
            return None
        return _positions(own, count), rest, _new_dims(index[:at]) + max(0, dim - seen if at == len(index) else 0)
    if not isinstance(own, slice):
        position = int(own)
        if not -count <= position < count:
            raise IndexError(f"index {position} is out of bounds for batch dimension {dim} with size {count}")
        if len(advanced) > 1 and advanced[0] < at < advanced[-1] and _gaps(index, advanced, at):
            return None
        return position % count, rest, 0
    stacked = _new_dims(index[:at]) + (dim - seen if at == len(index) else 0)
    if advanced:
        block = shapes.broadcast(*[index[i].shape for i in advanced])
        if advanced[0] < at < advanced[-1]:
            return None
        if _gaps(index, advanced, -1) or advanced[0] < at:  # torch puts the dimensions of index tensors in front
            stacked += len(block)
    return list(range(*own.indices(count))), rest, stacked


def _new_dims(items: Sequence[Any]) -> int:
    """Return the number of dimensions that slices and ``None`` among items make."""
    return len([item for item in items if item is None or type(item) is slice])


def _gaps(index: tuple[Any, ...], advanced: list[int], ignored: int) -> bool:
    """Return whether an item that makes a dimension is between index tensors."""
    between = range(advanced[0], advanced[-1])
    return any(i != ignored and (index[i] is None or type(index[i]) is slice) for i in between)


def _positions(own: Tensor, count: int) -> Any:
    low, high = (int(own.min()), int(own.max())) if own.numel() else (0, -1)
    if low < -count or high >= count:
        wrong = low if low < -count else high
        raise IndexError(f"index {wrong} is out of bounds for a lazy stack of {count} parts")
    return to_lists(own % count) if own.numel() else []
