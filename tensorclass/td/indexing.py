"""Read and write by index: everything that a tensor takes as an index, on the batch dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import type_name

from . import first_class_dims, in_place_checks, jagged, native, registry, shapes
from .collection import Collection
from .hidden_members import with_members
from .keys import NestedKey, dotted, is_nested_key
from .memory.mapped_tensor import MemoryMappedTensor
from .prepared_index import prepare_index
from .tracing import kernels_run
from .value_checks import as_tensor, contains_itself, holds, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .collection import Store, Value

    IndexItem: TypeAlias = (
        int | slice | EllipsisType | bool | Tensor | Sequence[int] | Sequence[bool] | range | NDArray[Any] | None
    )
    Index: TypeAlias = IndexItem | tuple[IndexItem, ...]
    #: the key of non-tensor data, the present data, and the data to write
    ObjectRows: TypeAlias = tuple[tuple[str, ...], Any, Any]


#: the batch size of one row of a batch with one dimension; a slice would make another one
NO_DIMS = Size(())

_select: Callable[[Tensor, int, Tensor], Tensor] = torch.index_select


def _gathered(source: Store, rows: Tensor) -> Store | None:
    """Return the values at some rows; ``None`` if a row is negative or out of range, which needs an index.

    ``index_select`` takes half the time of an index.
    """
    found = {**source}
    nested = False
    try:
        for key, value in source.items():
            if type(value) is Tensor and value.is_cpu and value.is_contiguous():
                found[key] = _select(value, 0, rows)
            elif isinstance(value, Indexing):
                nested = True
            else:
                found[key] = value[rows]
    except (IndexError, RuntimeError):
        return None
    if nested:  # not above: an error below would be tried again at each level, which takes twice the time at each
        for key, value in source.items():
            if isinstance(value, Indexing):
                found[key] = value._index_value(rows)
    return found


def index_value(value: Any, index: Any) -> Any:
    """Index a value of a collection along the batch. The result is a value again: a row of text is a ``Text``."""
    return value._index_value(index) if isinstance(value, Indexing) else value[index]


class Indexing(Collection):
    """``data[index]``, ``data[index] = ...``, iteration and their variants."""

    __slots__ = ()

    if TYPE_CHECKING:

        def get(self, key: NestedKey, default: Any = ..., **forms: Any) -> Any: ...
        def _get_key(self, key: Any) -> Any: ...
        def _out(self, value: Any, key: NestedKey) -> Any: ...
        def _key_error(self, key: NestedKey) -> KeyError: ...
        def _holds_none(self, key: str) -> bool: ...
        def set(
            self, key: NestedKey, item: Any, inplace: bool = ..., *, non_blocking: bool = ..., **kwargs: Any
        ) -> Self: ...

    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: Index) -> Self: ...
    @overload
    def __getitem__(self, index: NestedKey) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        """Return the value of a key, or the collection of all values indexed along the batch dimensions."""
        # the cheap cases first; every other index is prepared
        given: object = index
        kind = type(given)
        if kind is str:
            try:
                found = self._store[index]
            except KeyError:
                if self._holds_none(index):
                    return None
                raise self._key_error(index) from None
            return found if type(found) is Tensor else self._out(found, index)
        if kind is tuple and index and type(index[0]) is str:
            return self._get_key(index)
        return self if index is Ellipsis else self._rows_at(index)

    @native.tries("index")
    def _rows_at(self, index: Any) -> Any:
        """Return the rows at an index, or the value of a nested key."""
        kind: Any = index.__class__
        batch_size = self._batch_size
        if kind is int:
            if batch_size:
                store = {**self._store}
                for key, value in store.items():
                    store[key] = value[index] if type(value) is Tensor else index_value(value, index)
                if not store and not -batch_size[0] <= index < batch_size[0]:
                    raise IndexError(f"index {index} is out of bounds for dimension 0 with size {batch_size[0]}")
                size = NO_DIMS if len(batch_size) == 1 else batch_size[1:]
                return self._like(store, size, None if self._names is None else self._names[1:] or None)
        elif kind is slice:
            if batch_size:
                return self._index_prepared((index,))
        elif kind is tuple and index and type(index[0]) is tuple and is_nested_key(index):
            return self._get_key(index)
        elif index is None:
            store = {key: value[None] for key, value in self._now().items()}
            return self._like(store, shapes.inserted(batch_size, 0, 1), shapes.names_padded(self._names, 1))
        try:
            prepared = prepare_index(index, batch_size)
        except first_class_dims.BoundIndex:
            return self._index_bound(*first_class_dims.split(index, batch_size, prepare_index))
        if len(prepared) == 1 and type(prepared[0]) is Tensor and prepared[0] is not index:
            indexed = self._rows_at(prepared[0])  # native code knows positions, but not each form of them
        else:
            indexed = self._index_prepared(prepared)
        if self._batch_size is not batch_size and self._batch_size != batch_size:
            raise RuntimeError(f"the batch size changed from {list(batch_size)} while it was indexed")
        return indexed

    def _index_value(self, index: Any) -> Self:
        """Index as a value of a collection. Text overrides it: ``text[3]`` is a string, this a :class:`Text`."""
        rows: Self = self[index]
        return rows

    def _index_prepared(self, index: tuple[Any, ...]) -> Self:
        """Index with the result of :func:`prepare_index`."""
        batch_size = self._batch_size
        item = index[0] if len(index) == 1 else index
        if len(index) > len(batch_size):  # None and bools add dimensions, or the index was made for another batch size
            consumed = sum(part is not None and type(part) is not bool for part in index)
            if consumed > len(batch_size):
                raise IndexError(shapes.too_many_indices(consumed, batch_size))
        source = self._now()
        store: Store | None = None
        if type(item) is Tensor and item.dtype is torch.int64 and item.ndim == 1 and kernels_run():
            store = _gathered(source, item)
        if store is None:
            try:
                store = {
                    key: value[item] if type(value) is Tensor else index_value(value, item)
                    for key, value in source.items()
                }
            except RuntimeError:
                if not jagged.any_nested(source.values()):
                    raise
                store = {key: jagged.index_rows(value, item) for key, value in source.items()}
        for key, result in store.items():
            if type(item) is int:
                size = NO_DIMS if len(batch_size) == 1 else batch_size[1:]
                break
            # read the batch size off a value: right for every index, and it spares torch.compile computations on sizes
            before: Any = source[key]
            if isinstance(result, Tensor):
                size = result.shape[: result.ndim - before.ndim + len(batch_size)]
            else:
                size = result._batch_size
                size = size[: len(size) - len(before._batch_size) + len(batch_size)]
            break
        else:
            size = shapes.indexed(batch_size, index)
        return self._like(store, size, None if self._names is None else shapes.names_indexed(self._names, index))

    def _index_bound(self, index: tuple[Any, ...], plain: tuple[Any, ...]) -> Self:
        """Index with first-class dimensions; see :func:`first_class_dims.split`."""
        store: dict[str, Any] = {}
        for key, value in self._now().items():
            held: Any = value
            is_tensor = first_class_dims.is_tensor(value)
            store[key] = held[index] if is_tensor else held._index_bound(index, plain)
        names = None if self._names is None else shapes.names_indexed(self._names, plain)
        return self._like(store, shapes.indexed(self._batch_size, plain), names)

    def __getitems__(self, indices: list[int]) -> Self:
        """Return the rows at ``indices``, for ``torch.utils.data.DataLoader``."""
        return self[torch.as_tensor(indices, dtype=torch.long)]

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the rows: collections without the first batch dimension."""
        if not self._batch_size:
            raise TypeError(
                f"a {type_name(self)} without batch dimensions has no rows to iterate over; iterate over its "
                "entries with .keys(), .values() or .items()"
            )
        return iter(with_members(self).unbind(0))

    if TYPE_CHECKING:

        def unbind(self, dim: int = 0) -> tuple[Self, ...]: ...

    @overload
    def __setitem__(self, index: NestedKey, value: Any) -> None: ...
    @overload
    def __setitem__(self, index: Index, value: Any) -> None: ...
    def __setitem__(self, index: Any, value: Any) -> None:
        """Set a key, or write rows in place.

        ``data[index] = rows`` takes a collection or a mapping of the batch size of ``data[index]`` (or one that expands
        to it), or a number or a tensor to write into every tensor. Keys that ``data`` lacks are created first, filled
        with zeros (non-tensor data: ``None``). On an error nothing is written.
        """
        given: object = index
        kind = type(given)
        first = index if kind is str else index[0] if kind is tuple and index else None
        if type(first) is str or (type(first) is tuple and is_nested_key(index)):
            (with_members(self) if self._hidden_members else self).set(index, value)
            return
        self._write_any(index, value)

    @native.tries("write")
    def _write_any(self, index: Any, value: Any) -> None:
        """Write rows, a mapping of rows, or a value into every tensor."""
        rows = value
        try:
            if isinstance(value, Collection):
                self._write(prepare_index(index, self._batch_size, writing=True), value)
            elif isinstance(value, Mapping):
                prepared = prepare_index(index, self._batch_size, writing=True)
                self._write(prepared, self._as_rows(rows, shapes.indexed(self._batch_size, prepared)))
            else:
                self._write_value(index, value)
        except first_class_dims.BoundIndex:
            self._write_bound(index, rows)

    def _write_bound(self, index: Any, value: Any) -> None:
        """Write at first-class dimensions: a collection of the same keys, or one value for every tensor."""
        item, plain = first_class_dims.split(index, self._batch_size, prepare_index)
        size = shapes.indexed(self._batch_size, plain)
        self._check_bound(item)
        if not isinstance(value, Collection):
            self._fill(item, value)
        elif value._batch_size != size:
            raise RuntimeError(
                f"data[{index!r}] = rows: expected the batch size {list(size)}, got {list(value._batch_size)}"
            )
        else:
            self._copy_bound(item, value)

    def _copy_bound(self, index: tuple[Any, ...], rows: Collection) -> None:
        value: Any
        for key, value in rows._now().items():
            own: Any = self._store.get(key)
            if own is None:
                raise self._key_error(key)
            if isinstance(own, Tensor) and first_class_dims.is_tensor(value):
                own[index] = value
            elif isinstance(own, Indexing) and isinstance(value, Collection) and own._is_tree() and value._is_tree():
                own._copy_bound(index, value)
            else:
                raise first_class_dims.BoundIndex(next(filter(first_class_dims.is_bound_item, index)))

    def _check_bound(self, index: tuple[Any, ...]) -> None:
        """Raise if values are read as copies, into which nothing can be written."""
        if type(self._store) is not DICT:
            raise first_class_dims.BoundIndex(next(filter(first_class_dims.is_bound_item, index)))
        for value in self._now().values():
            if isinstance(value, Indexing) and value._is_tree():
                value._check_bound(index)

    def _as_rows(self, rows: Mapping[Any, Any], batch_size: Size) -> Collection:
        """Convert a mapping to a collection of rows for this one. Records convert by their fields."""
        return registry.TensorDict(rows, batch_size)

    def _write_value(self, index: Any, value: Any) -> None:
        """Write one number or tensor into every tensor."""
        number = type(value) in _NUMBERS
        if not number and not isinstance(value, Tensor):
            tensor = as_tensor(value)
            if tensor is None:
                raise TypeError(
                    "data[index] = value: expected a collection, a mapping, a number or a tensor, got "
                    f"{value!r} ({type_name(value)})"
                )
            value = tensor
        if number or not value.ndim:
            # one value for all elements: masks are fastest as they are
            prepared = prepare_index(index, self._batch_size, keep_masks=True, writing=True)
        else:
            prepared = prepare_index(index, self._batch_size, writing=True)
            self._check_value(
                shape_of(value, "value"), shapes.indexed(self._batch_size, prepared), len(self._batch_size)
            )
        self._fill(prepared[0] if len(prepared) == 1 else prepared, value)

    def _fill(self, item: Any, value: Any) -> None:
        """Write one value into every tensor at an index."""
        leaf: Any
        for leaf in self._now().values():
            if isinstance(leaf, Indexing):
                leaf._fill(item, value)
            else:
                leaf[item] = value

    def _check_value(self, shape: Size, target: Size, ndim: int, path: tuple[str, ...] = ()) -> None:
        """Raise if a tensor of a shape cannot be written into every tensor at an index.

        Args:
            shape: of the tensor.
            target: the batch size of the indexed collection.
            ndim: the number of batch dimensions before indexing, also for nested collections with more of them.
        """
        leaf: Any
        for key, leaf in self._now().items():
            if not isinstance(leaf, Tensor):
                if leaf._is_tree():
                    leaf._check_value(shape, target, ndim, (*path, key))
                continue
            if leaf.requires_grad:
                in_place_checks.check_history((*path, key), leaf)
            expected = target + leaf.shape[ndim:]
            if not _broadcasts(shape, expected):
                raise RuntimeError(
                    f"{'.'.join((*path, key))}: a tensor of shape {list(shape)} cannot be written into items "
                    f"of shape {list(expected)}; nothing was written"
                )

    def _write(self, index: tuple[Any, ...], rows: Any) -> Any:
        """Write ``rows`` at a prepared index, after checking that all of them fit. See :meth:`_write_checked`."""
        if self._write_views(index, rows):
            return self
        batch_size = self._batch_size
        target = shapes.indexed(batch_size, index)
        if rows._batch_size != target:
            rows = expanded_rows(rows, target)
        elif self._write_tensors(index, rows, len(target)):
            return self
        ndim, rows = len(batch_size), rows._levels_now()
        self._check_rows(rows, ndim, len(target), ())
        if objects := self._object_rows(rows, ()):
            check_objects_in_files(self, index, objects)
        return self._write_checked(index, rows, ndim, len(target))

    def _write_views(self, index: tuple[Any, ...], rows: Collection) -> bool:
        """Write tensors into views of tensors of the same shapes, all with one call: the most frequent case.

        Return ``False``, with nothing written, in all other cases.
        """
        ndim = len(self._batch_size)
        for item in index:
            if type(item) is int:
                ndim -= 1
            elif type(item) is not slice:
                return False
        if len(rows._batch_size) != ndim:
            return False
        store = self._store
        item = index[0] if len(index) == 1 else index
        views: list[Tensor] = []
        sources: list[Tensor] = []
        for key, row in rows._now().items():
            value = store.get(key)
            if type(value) is not Tensor or type(row) is not Tensor:
                return False
            view = value[item] if index else value
            if view.shape != row.shape or row.is_meta:
                return False
            views.append(view)
            sources.append(row)
        if not views or not kernels_run():
            return False
        torch._foreach_copy_(views, sources)  # pyright: ignore[reportPrivateImportUsage]
        return True

    def _write_tensors(self, index: tuple[Any, ...], rows: Collection, row_ndim: int) -> bool:
        """Write plain tensors into plain tensors of the same dtype. All are checked before any is written.

        Return ``False``, with nothing written, in all other cases.
        """
        store = self._store
        if type(store) is not DICT or not self._is_tree():
            return False
        ndim = len(self._batch_size)
        pairs: list[tuple[Tensor, Tensor]] = []
        for key, row in rows._now().items():
            value = store.get(key)
            if type(value) is not Tensor or type(row) is not Tensor or value.dtype is not row.dtype:
                return False
            if value.requires_grad or row.is_meta:
                return False
            behind = value.dim() - ndim
            if behind != row.dim() - row_ndim:
                return False
            # slices of sizes take longer than numbers
            if behind == 1 and value.size(-1) != row.size(-1):
                return False
            if behind > 1 and value.shape[ndim:] != row.shape[row_ndim:]:
                return False
            pairs.append((value, row))
        item = index[0] if len(index) == 1 else index
        for value, row in pairs:
            value[item] = row
        return True

    def _check_write(self, index: tuple[Any, ...], rows: Any) -> None:
        """Raise if rows cannot be written at a prepared index."""
        target = shapes.indexed(self._batch_size, index)
        if rows._batch_size != target:
            rows = rows.expand(target)
        self._check_rows(rows, len(self._batch_size), len(target), ())
        if objects := self._object_rows(rows, ()):
            check_objects_in_files(self, index, objects)

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        """Raise if rows do not fit: their shapes after the index, their types, or their new keys."""
        store = self._store
        for key, row in rows._now().items():
            value = store.get(key)
            if type(value) is Tensor and type(row) is Tensor:
                behind = value.ndim - ndim
                if value.requires_grad:
                    in_place_checks.check_history((*path, key), value)
                if row.is_meta and not value.is_meta:
                    raise RuntimeError(
                        f"{'.'.join((*path, key))}: cannot write rows without data, on the device meta, into a tensor "
                        f"on {value.device}; nothing was written"
                    )
                if behind == row.ndim - row_ndim and (
                    behind == 0 or (behind == 1 and value.size(-1) == row.size(-1))
                ):  # a cheaper form of the next comparison
                    continue
                if value.shape[ndim:] != row.shape[row_ndim:]:
                    check_broadcast((*path, key), value.shape[ndim:], row.shape[row_ndim:], row_ndim)
            elif value is None:
                self._check_unlocked()
                self._check_new_key(key)
                if isinstance(row, Collection) and holds(row, store):
                    raise contains_itself(self, *path, key)
                more, rest = self._batch_size[ndim:], with_members(row).shape[row_ndim:]
                if rest[: len(more)] != more:
                    check_broadcast((*path, key), more, rest, row_ndim)
            elif _is_tree(row) is not _is_tree(value):
                raise RuntimeError(
                    f"{'.'.join((*path, key))}: cannot write a {type_name(row)} into a {type_name(value)}; "
                    "nothing was written"
                )
            elif isinstance(value, Indexing):
                value._check_rows(row, ndim, row_ndim, (*path, key))  # type: ignore[arg-type]
            else:
                check_broadcast((*path, key), value.shape[ndim:], row.shape[row_ndim:], row_ndim)

    def _object_rows(self, rows: Collection, path: tuple[str, ...]) -> list[ObjectRows]:
        """Return the objects among the rows, with the objects that they would replace."""
        found: list[ObjectRows] = []
        store = self._store
        if type(store) is DICT:  # values that are read from another store may come from a file
            for key, row in rows._now().items():
                value = store.get(key)
                if isinstance(value, Indexing):
                    found += value._object_rows(row, (*path, key))  # type: ignore[arg-type]
        return found

    def _check_new_key(self, key: str) -> None:
        """Raise if a new key is not allowed. Records override this."""

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Collection:
        """Write rows that fit. Return the collection to store from now on: this one, or another one (non-tensor data).

        ``ndim`` and ``row_ndim`` are the numbers of batch dimensions at the top level. Nested collections here can have
        more batch dimensions than in the rows.
        """
        store, now = self._store, self._now()
        item = index[0] if len(index) == 1 else index
        row: Any
        for key, row in rows._now().items():
            value: Any = now.get(key)
            if type(value) is Tensor:
                # torch casts if the index gives a view, and raises otherwise
                value[item] = row if row.dtype is value.dtype else row.to(value.dtype)
                continue
            if value is None:
                value = store[key] = self._allocate(row, self._batch_size[:ndim] + with_members(row).shape[row_ndim:])
            if isinstance(value, Indexing):
                written: Any = value._write_checked(index, row, ndim, row_ndim)
                if written is not value:
                    store[key] = written
            else:
                value[item] = row
        return self

    def _allocate(self, row: Value, shape: Size) -> Value:
        """Return zeros for a new key, from its first row."""
        if isinstance(row, Indexing):
            return row._allocated(shape)
        return row.new_zeros(shape, device=self._device or row.device)

    def _allocated(self, batch_size: Size) -> Self:
        """Return an empty collection of this class, to be filled row by row."""
        return self._like({}, batch_size)


def lies_in_files(data: Collection) -> bool:
    """Return whether writes to a collection, or to one that it was locked with, go to files."""
    leaves: Iterator[Tensor] = data._leaves_and_buffers()
    if any(type(leaf) is MemoryMappedTensor and leaf.is_in_file() for leaf in leaves):
        return True
    holders = [ref() for ref in data._lock or ()]
    return any(holder is not None and lies_in_files(holder) for holder in holders)


#: why text, ragged rows and objects of a memory-mapped collection are not written
IN_FILES = (
    "the objects and columns of a memory-mapped collection cannot be written in place, because its files hold their "
    "rows one after the other. Append rows with other objects (append_memmap), save a new collection (memmap), or use "
    "a tensor of numbers instead. Nothing was written"
)


def check_objects_in_files(data: Collection, index: tuple[Any, ...], objects: list[ObjectRows]) -> None:
    """Raise if objects beside tensors in files would be replaced: other processes would not see the new ones."""
    inside = lies_in_files(data)
    for path, here, rows in objects:
        if (inside or here._stands_in_file()) and not here._holds(index, rows):
            raise RuntimeError(f"{dotted(path) or 'objects'}: {IN_FILES}")


_NUMBERS = frozenset((bool, int, float, complex))


def _is_tree(value: Any) -> bool | None:
    """Return ``True`` for a nested collection, ``False`` for non-tensor data, ``None`` for a tensor."""
    return value._is_tree() if isinstance(value, Collection) else None


def _broadcasts(got: Size, expected: Size) -> bool:
    try:
        return shapes.broadcast(got, expected) == expected
    except RecursionError:
        raise
    except RuntimeError:
        return False


def check_broadcast(path: tuple[str, ...], expected: Size, got: Size, row_ndim: int) -> None:
    """Raise if rows of one shape after the batch dimensions cannot be written into another shape."""
    # with fewer dimensions after the batch size, torch would align the batch dimensions of the rows with these
    if (row_ndim and len(got) < len(expected)) or not _broadcasts(got, expected):
        raise RuntimeError(
            f"{dotted(path)}: expected rows of shape {list(expected)} behind the batch dimensions, got {list(got)}; "
            "nothing was written"
        )


def expanded_rows(rows: Any, size: Size) -> Any:
    """Expand rows to the batch size of the items that they are written into.

    Raises:
        RuntimeError: they cannot be expanded to it.
    """
    try:
        return with_members(rows).expand(size)
    except RecursionError:
        raise
    except RuntimeError:
        raise RuntimeError(
            f"data[index] = rows: the indexed batch size is {list(size)}, the batch size of the rows is "
            f"{list(rows._batch_size)}, which cannot be expanded to it; nothing was written"
        ) from None
