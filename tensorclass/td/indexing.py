"""Reading and writing by index: everything a tensor takes, on the batch dimensions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from . import shapes
from .collection import Collection
from .keys import NestedKey, is_nested_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .collection import Store, Value

    IndexItem: TypeAlias = (
        int | slice | EllipsisType | bool | Tensor | Sequence[int] | Sequence[bool] | range | NDArray[Any] | None
    )
    Index: TypeAlias = IndexItem | tuple[IndexItem, ...]


def prepare(index: Any, batch_size: Size, keep_masks: bool = False) -> tuple[Any, ...]:
    """An index in the form that every value takes, however many dimensions it has behind the batch dimensions.

    Sequences and arrays become tensors once, masks become the positions of their true entries once (each value would
    look for them again) unless they are to be kept, and an ellipsis is filled with the batch dimensions that it stands
    for.

    Raises:
        IndexError: more dimensions than the batch has, or a mask of another shape.
    """
    if type(index) is not tuple:
        if index is Ellipsis:
            return ()
        index = (index,)
    out: list[Any] = []
    consumed = 0
    ellipsis = -1
    masks = False
    for item in index:
        kind = type(item)
        if kind is int or kind is slice:
            consumed += 1
        elif item is None or kind is bool:
            pass
        elif item is Ellipsis:
            if ellipsis >= 0:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = len(out)
            continue
        else:
            item = item if kind is Tensor else _as_index(item)
            if not isinstance(item, Tensor):
                consumed += 0 if isinstance(item, bool) else 1
            elif item.dtype in _POSITIONS:
                consumed += 1
            elif item.dtype in _MASKS:
                masks = True
                consumed += item.ndim
            elif item.ndim or item.dtype.is_floating_point or item.dtype.is_complex:
                raise IndexError(f"tensors used as indices must be int64, int32 or bool, got {item.dtype}")
            else:  # torch takes an int of any dtype
                consumed += 1
        out.append(item)
    if consumed > len(batch_size):
        raise IndexError(f"too many indices: {consumed} of them for the batch size {list(batch_size)}")
    if ellipsis >= 0:
        out[ellipsis:ellipsis] = [slice(None)] * (len(batch_size) - consumed)
    return tuple(_without_masks(out, batch_size, keep_masks)) if masks else tuple(out)


_POSITIONS = frozenset((torch.int64, torch.int32))
_MASKS = frozenset((torch.bool, torch.uint8))


def _as_index(item: Any) -> Any:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, np.ndarray):
        return torch.as_tensor(item)
    if isinstance(item, range):
        return torch.arange(item.start, item.stop, item.step)
    if isinstance(item, (list, tuple)):
        try:
            return torch.as_tensor(item) if len(item) else torch.empty(0, dtype=torch.long)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged, or of something else than numbers
            raise _no_index(item, error) from None
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, torch.SymInt):
        return item
    try:
        return operator.index(item)
    except TypeError as error:
        raise _no_index(item, error) from None


def _no_index(item: Any, reason: Exception) -> IndexError:
    return IndexError(
        "a collection is indexed by keys, or by ints, slices, None, ..., bools, and sequences, arrays or tensors of "
        f"ints or bools; got {item!r} ({type(item).__name__}): {reason}"
    )


def _without_masks(items: list[Any], batch_size: Size, keep: bool) -> Iterator[Any]:
    """The items with masks, once their shapes are checked, replaced by the positions of their true entries."""
    dim = 0
    for item in items:
        if isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8):
            if item.shape != batch_size[dim : dim + item.ndim]:
                raise IndexError(
                    f"the shape of the mask {list(item.shape)} does not match the batch dimensions "
                    f"{list(batch_size[dim : dim + item.ndim])} that it indexes"
                )
            dim += item.ndim
            if keep:
                yield item
            elif item.ndim:
                yield from item.nonzero(as_tuple=True)
            else:
                yield bool(item)
        else:
            dim += 0 if item is None or isinstance(item, bool) else 1
            yield item


class Indexing(Collection):
    """``data[index]``, ``data[index] = ...``, iteration and their kin."""

    __slots__ = ()

    if TYPE_CHECKING:

        def get(self, key: NestedKey, default: Any = ...) -> Any: ...
        def _get_key(self, key: Any) -> Any: ...
        def _out(self, value: Any) -> Any: ...
        def _key_error(self, key: NestedKey) -> KeyError: ...
        def set(
            self, key: NestedKey, item: Any, inplace: bool = ..., *, non_blocking: bool = ..., **kwargs: Any
        ) -> Self: ...

    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: Index) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        """The value of a key, or the collection of all values indexed along the batch dimensions."""
        # the cheap kinds first; everything else is prepared
        kind = type(index)
        if kind is str:
            try:
                found = self._store[index]
            except KeyError:
                raise self._key_error(index) from None
            return found if type(found) is Tensor else self._out(found)
        batch_size = self._batch_size
        if kind is int:
            if batch_size:
                store = {key: value[index] for key, value in self._store.items()}
                if not store and not -batch_size[0] <= index < batch_size[0]:
                    raise IndexError(f"index {index} is out of bounds for dimension 0 with size {batch_size[0]}")
                return self._like(store, batch_size[1:], None if self._names is None else self._names[1:])
        elif kind is slice:
            if batch_size:
                return self._index((index,))
        elif kind is tuple and index and (type(index[0]) is str or is_nested_key(index)):
            return self._get_key(index)
        elif index is None:
            store = {key: value[None] for key, value in self._store.items()}
            return self._like(store, shapes.inserted(batch_size, 0, 1), shapes.names_padded(self._names, 1))
        elif index is Ellipsis:
            return self
        return self._index(prepare(index, batch_size))

    def _index(self, index: tuple[Any, ...]) -> Self:
        """Indexing with a prepared index."""
        source = self._store
        batch_size = self._batch_size
        item = index[0] if len(index) == 1 else index
        store: Store = {key: value[item] for key, value in source.items()}
        if store:
            # a value knows what the index makes of it; this also spares torch.compile a computation on sizes
            key = next(iter(store))
            result = store[key]
            size = result.shape[: result.ndim - source[key].ndim + len(batch_size)]
        else:
            size = shapes.indexed(batch_size, index)
        return self._like(store, size, None if self._names is None else shapes.names_indexed(self._names, index))

    def __getitems__(self, indices: list[int]) -> Self:
        """The rows at ``indices``, for ``torch.utils.data.DataLoader``."""
        return self[torch.as_tensor(indices)]

    def __iter__(self) -> Iterator[Self]:
        """The rows: collections without the first batch dimension."""
        if not self._batch_size:
            raise TypeError(
                f"a {type(self).__name__} without batch dimensions has no rows to iterate over; for its entries use "
                ".keys(), .values() or .items()"
            )
        return iter(self.unbind(0))

    if TYPE_CHECKING:

        def unbind(self, dim: int = 0) -> tuple[Self, ...]: ...

    def __setitem__(self, index: NestedKey | Index, value: Any) -> None:
        """Sets a key, or writes rows in place.

        ``data[index] = rows`` takes a collection or a mapping whose batch size is that of ``data[index]`` (or can be
        expanded to it), a number or a tensor (written to every value). Keys that ``data`` does not have yet are
        allocated first, filled with zeros (non-tensor data: ``None``).
        """
        kind = type(index)
        if kind is str or (kind is tuple and index and (type(index[0]) is str or is_nested_key(index))):  # type: ignore[index]
            self.set(index, value)  # type: ignore[arg-type]
            return
        if isinstance(value, Collection):
            self._write(prepare(index, self._batch_size), value)
        elif isinstance(value, Mapping):
            from .tensordict import TensorDict

            prepared = prepare(index, self._batch_size)
            self._write(prepared, TensorDict(value, shapes.indexed(self._batch_size, prepared)))
        else:
            # one value for all: a mask is best left one
            prepared = prepare(index, self._batch_size, keep_masks=True)
            item = prepared[0] if len(prepared) == 1 else prepared
            for leaf in self._leaves():
                leaf[item] = value

    def _write(self, index: tuple[Any, ...], rows: Collection) -> Any:
        """Writes ``rows`` at a prepared index, after checking that all of them fit. See :meth:`_write_checked`."""
        target = shapes.indexed(self._batch_size, index)
        if rows._batch_size != target:
            raise RuntimeError(
                f"data[index] = rows: the indexed batch size is {list(target)}, the batch size of the rows is "
                f"{list(rows._batch_size)}; give the rows that batch size, for instance with .expand()"
            )
        self._check_rows(rows, len(self._batch_size), len(target), ())
        return self._write_checked(index, rows)

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        store = self._store
        for key, row in rows._store.items():
            value = store.get(key)
            if type(value) is Tensor and type(row) is Tensor:
                if value.shape[ndim:] != row.shape[row_ndim:]:
                    _check_broadcast((*path, key), value.shape[ndim:], row.shape[row_ndim:])
            elif value is None:
                self._check_unlocked()
                self._check_new_key(key)
            elif isinstance(row, Collection) != isinstance(value, Collection):
                raise RuntimeError(
                    f"{'.'.join((*path, key))}: cannot write a {type(row).__name__} into a {type(value).__name__}"
                )
            elif isinstance(value, Indexing):
                value._check_rows(row, ndim, row_ndim, (*path, key))  # type: ignore[arg-type]
            else:
                _check_broadcast((*path, key), value.shape[ndim:], row.shape[row_ndim:])

    def _check_new_key(self, key: str) -> None:
        """Whether a key that is not there can be; a record knows."""

    def _write_checked(self, index: tuple[Any, ...], rows: Collection) -> Collection:
        """Writes rows that fit, and gives what stands for this collection afterwards: itself, but for non-tensor data."""
        store = self._store
        row_ndim = len(rows._batch_size)
        item = index[0] if len(index) == 1 else index
        row: Any
        for key, row in rows._store.items():
            value: Any = store.get(key)
            if type(value) is Tensor:
                value[item] = row
                continue
            if value is None:
                value = store[key] = self._allocate(row, row_ndim)
            if isinstance(value, Indexing):
                written: Any = value._write_checked(index, row)
                if written is not value:
                    store[key] = written
            else:
                value[item] = row
        return self

    def _allocate(self, row: Value, row_ndim: int) -> Value:
        """Zeros for a key whose first row comes, with this batch size."""
        if isinstance(row, Indexing):
            return row._allocated(self._batch_size + row._batch_size[row_ndim:])
        return row.new_zeros(self._batch_size + row.shape[row_ndim:], device=self._device or row.device)

    def _allocated(self, batch_size: Size) -> Self:
        """An empty collection of this class, to be filled row by row."""
        return self._like({}, batch_size)

    def get_at(self, key: NestedKey, index: Index, default: Any = ...) -> Any:
        """``data.get(key)[index]``; the default when the key is missing."""
        value = self.get(key, None)
        if value is None:
            if default is ...:
                raise KeyError(f"key {key!r} not found, the keys are {list(self._store)}")
            return default
        return value[index]


def _check_broadcast(path: tuple[str, ...], expected: Size, got: Size) -> None:
    try:
        fits = shapes.broadcast(got, expected) == expected
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"{'.'.join(path)}: expected rows of shape {list(expected)} behind the batch dimensions, got {list(got)}; "
            "nothing was written"
        )
