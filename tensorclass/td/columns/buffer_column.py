"""The base of columns whose rows are spans of one buffer: :class:`Ragged` and :class:`Text`.

Operations on shapes and indices act on the spans, as on the tensor of any collection, and share the buffer. A row that
is written goes after the items of the buffer and gets a new span, so columns that share the buffer do not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import native, shapes
from tensorclass.td.collection import Collection, functorch
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.get import MISSING
from tensorclass.td.indexing import IN_FILES, NO_DIMS, check_broadcast
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.leaf import RowByRow
from tensorclass.td.leaves.number_operations import cast_to
from tensorclass.td.leaves.object_codes import MANY_TIMES
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.prepared_index import prepare_index
from tensorclass.td.safe_unpickling import allow_function, found
from tensorclass.td.shapes import Names
from tensorclass.td.stack_and_cat import _append_dims
from tensorclass.td.tracing import has_values, is_batched, is_fake, knows_addresses

from . import column_nodes
from .column_nodes import SPANS as SPANS
from .column_repr import describe_column, rows_in_line, values_of

if TYPE_CHECKING:
    from tensorclass.td.collection import Store
    from tensorclass.td.indexing import Index
    from tensorclass.td.keys import NestedKey

    from .ragged import Ragged

    #: a buffer: a tensor ``[items, *item shape]``, or a column whose rows are the items
    Items: TypeAlias = Tensor | Ragged[Any]


class BufferColumn(RowByRow):
    """A buffer of items, and the spans of the rows in it."""

    __slots__ = ("_is_compact", "_items", "_room")

    _items: Items
    #: known to lie row by row in the buffer, without gaps and without more items
    _is_compact: bool
    #: a larger tensor of which the buffer is the beginning, to append written rows; only the column that made it has it
    _room: Tensor | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        column_nodes.register(cls)

    # -- private constructors -----------------------------------------------------------------------------------------

    @classmethod
    def _of(cls, items: Items, spans: Tensor, names: Names = None, *, compact: bool = False) -> Self:
        """Return a column of a buffer and spans. Nothing is checked."""
        new = object.__new__(cls)
        new._begin_over(items, spans, names, compact)
        return new

    def _begin_over(self, items: Items, spans: Tensor, names: Names, is_compact: bool) -> None:
        """Set the slots of a new column, which is unlocked. Nothing is checked."""
        self._begin({SPANS: spans}, spans.shape[:-1], items.device, names)
        self._items = items
        self._is_compact = is_compact
        self._room = None

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Self:
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = batch_size
        new._device = self._device
        new._names = names
        new._lock = None
        new._items = self._items
        new._is_compact = False
        new._room = None
        return new

    def _shallow(self) -> Self:
        new = self._like({SPANS: self._store[SPANS]}, self._batch_size, self._names)
        new._is_compact = self._is_compact
        return new

    def _with_items(self, items: Items) -> Self:
        """Return the rows in order over other items, as many as :meth:`_packed` gives."""
        return self._of(items, self._packed_spans(), self._names, compact=True)

    # -- content ------------------------------------------------------------------------------------------------------

    @property
    def spans(self) -> Tensor:
        """Start and length of each row in the buffer, ``int64[*batch, 2]``; the length -1 marks one without a value.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "bc"]).spans
            tensor([[0, 1],
                    [1, 2]])
        """
        return self._store[SPANS]  # type: ignore[return-value]

    @property
    def lengths(self) -> Tensor:
        """The number of items of each row, ``int64[*batch]``; 0 for rows without a value.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).lengths
            tensor([2, 1])
        """
        return span_functions.counts_of(self._spans())

    @property
    def missing(self) -> Tensor:
        """True for rows without a value (``None``), ``bool[*batch]``.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", None]).missing
            tensor([False,  True])
        """
        return self._spans()[..., 1] < 0

    def _spans(self) -> Tensor:
        return self._store[SPANS]  # type: ignore[return-value]

    def _packed(self) -> tuple[Items, Tensor]:
        """Return the items of the rows in order, without others, and their spans. Both can be shared with this.

        Inside of a vmap, which hides the lengths, return the whole buffer.
        """
        items, spans = self._items, self._spans()
        if self._keeps_spans(spans):
            return items, spans
        if has_values(spans):
            run = span_functions.run_of(spans)
            if run is not None:
                first, total = run
                return (items if total == len(items) else items[first : first + total]), self._packed_spans()
        elif is_fake(spans):
            fake: Any = spans
            if getattr(fake, "fake_mode", None) is not None and fake.fake_mode.shape_env is None:
                return items, spans  # no sizes that depend on values
        return self._taken(span_functions.positions(spans)), self._packed_spans()

    def _packed_spans(self) -> Tensor:
        spans = self._spans()
        return spans if self._keeps_spans(spans) else span_functions.from_lengths(spans[..., 1])

    def _keeps_spans(self, spans: Tensor) -> bool:
        """Return whether the buffer stays as it is where the items of the rows are asked for."""
        return self._is_compact or spans.is_meta or is_batched(spans)

    def _taken(self, positions: Tensor) -> Items:
        """Return items at some positions of the buffer."""
        items = self._items
        return items.index_select(0, positions) if isinstance(items, Tensor) else items[positions]

    def compact(self) -> Self:
        """Return the rows in order in a buffer of their own size.

        Returns:
            This column if it is compact already; else one that shares no memory with it, unless the rows lie in order
            and are many.

        Example:
            >>> from tensorclass import Ragged
            >>> rows = Ragged([[1, 2], [3], [4, 5, 6]])[[2, 0]]
            >>> rows.values.shape, rows.compact().values
            (torch.Size([6]), tensor([4, 5, 6, 1, 2]))
        """
        if self._is_compact or is_batched(self._spans()):
            return self
        items, spans = self._packed()
        if not isinstance(items, Tensor):
            items = items.compact()
        elif has_values(spans) and _are_few(items.nbytes, items):
            items = items.clone()
        return self._of(items, spans, self._names, compact=True)

    def _trimmed(self) -> Self:
        items: Any = self._items
        while not isinstance(items, Tensor):
            items = items._items
        is_readable = has_values(self._spans())
        return self.compact() if is_readable and _are_few(self.nbytes(), items) else self

    def _compacted(self) -> Self:
        return self.compact()

    def _compact_in_place(self) -> None:
        self._become(self.compact())

    def _leaves_and_buffers(self) -> Iterator[Tensor]:
        if isinstance(self._items, Tensor):
            yield self._items
        else:
            yield from self._items._leaves_and_buffers()
        yield self._spans()

    def _with_leaves_and_buffers(self, buffers: Iterator[Tensor]) -> Self:
        items = next(buffers) if isinstance(self._items, Tensor) else self._items._with_leaves_and_buffers(buffers)
        return self._of(items, next(buffers), self._names, compact=self._is_compact)

    def _row_mismatch(self, other: Collection) -> str | None:
        if not isinstance(other, BufferColumn):
            return None
        if other._keeps_items is not self._keeps_items:
            return f"one is a {type_name(self)}, the other a {type_name(other)}"
        if other._batch_size != self._batch_size:
            return f"the batch sizes are {list(self._batch_size)} and {list(other._batch_size)}"
        if not (has_values(self._spans()) and has_values(other._spans())):
            return None
        return self._first_difference(other)

    def _first_difference(self, other: Any) -> str | None:
        """Return how the first row that differs from that of a column of this kind and batch size does so."""
        raise NotImplementedError

    def _check_flat(self, what: str) -> None:
        if len(self._batch_size) != 1:
            raise ValueError(f"{what}: expected one batch dimension, got the batch size {list(self._batch_size)}")

    def _named_columns(self) -> list[tuple[tuple[str, ...], Any]]:
        return [((), self)]

    def _state_leaves(self) -> list[tuple[tuple[str, ...], Tensor]]:
        items = self._items
        below: list[Any] = [((), items)] if isinstance(items, Tensor) else items._state_leaves()
        return [*((("values", *path), leaf) for path, leaf in below), (("spans",), self._spans())]

    def _from_state(self, state: dict[tuple[str, ...], Tensor], assign: bool) -> Self:
        """Return a column of the tensors of a state dict, by the end of their keys.

        Args:
            state: the tensors.
            assign: take them as they are, with another dtype or batch size, too. Otherwise they are copied.

        Raises:
            TypeError: spans are not int64.
            ValueError: the shapes or a row do not fit.
            RuntimeError: the rows of this column are in a file.
        """
        spans, own = state[("spans",)], self._items
        if not assign and self._stands_in_file():
            raise RuntimeError(IN_FILES)
        items: Any = state.get(("values",))
        if isinstance(own, Tensor):
            assert items is not None
            if items.shape[1:] != own.shape[1:] or items.ndim != own.ndim:
                raise ValueError(f"expected items of shape {list(own.shape[1:])}, got {list(items.shape[1:])}")
            if self._keeps_items and items.dtype != own.dtype:
                raise TypeError(f"expected a buffer of dtype {own.dtype}, got {items.dtype}")
            items = items if assign else items.to(dtype=own.dtype, device=own.device, copy=True)
        else:
            items = own._from_state({path[1:]: leaf for path, leaf in state.items() if path[0] == "values"}, True)
            items = items if assign else items.to(self._device).clone()
        span_functions.check(spans, len(items), type(self).__name__)
        if not assign and spans.shape[:-1] != self._batch_size:
            raise ValueError(f"expected spans of shape {[*self._batch_size, 2]}, got {list(spans.shape)}")
        return self._of(items, spans if assign else spans.to(items.device, copy=True), self._names)

    def nbytes(self) -> int:
        """Return the bytes of the rows: of their items and of their spans, without items that no row refers to.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "bc"]).nbytes()
            35
        """
        spans = self._spans()
        if isinstance(self._items, Tensor) and spans.is_meta:  # nobody knows the lengths
            below = self._items.numel() * self._items.element_size()
        elif isinstance(self._items, Tensor):
            item = self._items.element_size() * self._items.shape[1:].numel()
            below = int(span_functions.counts_of(spans).sum()) * item
        else:
            items = self._packed()[0]
            below = items.nbytes if isinstance(items, Tensor) else items.nbytes()
        return below + spans.numel() * spans.element_size()

    def _bytes(self) -> int:
        return self.nbytes()

    def _values_for_repr(self) -> Iterable[Any]:
        return values_of(self)

    def __repr__(self) -> str:
        return describe_column(self)

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        return rows_in_line(self, width, count, self._row_width)

    def _device_for_repr(self) -> torch.device | None:
        return self._device

    # -- reading ------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Index) -> Self:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # has no keys
        rows: Self = self._index_value(index)
        return rows

    @native.tries("index_column")
    def _index_value(self, index: Any) -> Any:
        given: object = index
        kind = type(given)
        spans: Any = self._store[SPANS]
        size = self._batch_size
        if not size:
            try:
                return super().__getitem__(index)
            except IndexError:
                raise IndexError(self._no_rows_message()) from None
        if kind is int:
            found = spans[index]
            size = NO_DIMS if len(size) == 1 else size[1:]
        elif kind is slice:
            found = spans[index]
            size = found.shape[:-1]
        elif kind is Tensor and index.dtype is torch.int64 and index.ndim == 1 and has_values(index):
            try:
                found = span_functions.take(spans, index) if spans.is_contiguous() else spans[index]
            except (IndexError, RuntimeError):  # negative, or out of range
                return super().__getitem__(index)
            size = found.shape[:-1]
        elif kind is str:
            raise self._key_error(index)
        else:
            return super().__getitem__(index)
        names = self._names
        return self._like({SPANS: found}, size, None if names is None else shapes.names_indexed(names, (index,)))

    # -- copies -------------------------------------------------------------------------------------------------------

    def clone(self, recurse: bool = True, *, memory_format: torch.memory_format = torch.preserve_format) -> Self:
        """Return a compact copy.

        Args:
            recurse: ``False`` returns another holder of the same memory. Default: ``True``.
            memory_format: has no effect here.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]])[1:].clone().values
            tensor([3])
        """
        if not recurse:
            return self._shallow()
        items, spans = self._packed()
        if items is self._items or self._shares(items):
            items = items.clone()
        return self._of(items, spans.clone() if spans is self._spans() else spans, self._names, compact=True)

    def _shares(self, items: Items) -> bool:
        """Return whether items share memory with the buffer."""
        if not isinstance(items, Tensor) or not isinstance(self._items, Tensor):
            return True
        if not has_values(self._spans()):  # _packed() gives the buffer or a copy
            return False
        return items._base is not None or items.untyped_storage().data_ptr() == self._items.untyped_storage().data_ptr()

    def _copied(self) -> Self:
        return self.clone()

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """Return the compact column; see :meth:`compact`.

        Args:
            canonical: has no effect here.
            inplace: let this column take the compact buffer. Default: ``False``.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).flip(0).contiguous().values
            tensor([3, 1, 2])
        """
        new = self.compact()
        if inplace and new is not self:
            self._become(new)
            return self
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = memo[id(self)] = self.clone()
        return new

    def __reduce__(self) -> Any:
        items, spans = self._packed()
        if isinstance(items, Tensor) and items.numel() != items.untyped_storage().nbytes() // items.element_size():
            items = items.clone()  # torch would write the whole storage
        if spans.untyped_storage().nbytes() != spans.numel() * spans.element_size():
            spans = spans.clone()
        return _rebuild, (type(self), items, spans, self._names, self._lock is not None)

    # -- devices ------------------------------------------------------------------------------------------------------

    def _to_device(self, device: torch.device, non_blocking: bool) -> Self:
        return self._to(device, None, non_blocking, False, None)

    def _to(
        self,
        device: torch.device | None,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool,
        memory_format: torch.memory_format | None,
        numbers: bool = True,
    ) -> Self:
        items, spans = self._packed()
        if isinstance(items, Tensor):
            dtype = cast_to(items, dtype, numbers) if self._has_numbers else None
            items = items.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=copy)
        else:
            items = items._to(device, dtype, non_blocking, copy, None, numbers)
        spans = spans.to(device=device, non_blocking=non_blocking, copy=copy)
        return self._of(items, spans, self._names, compact=True)

    def _clear_device(self) -> None:
        """Do nothing: the device is that of the items."""

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Self:
        """Return the rows with new ones: without items, or of text without a string."""
        ndim = len(self._batch_size)
        pairs = [*pairs, *[(0, 0)] * (ndim - len(pairs))]
        widths = [width for pair in reversed(pairs) for width in pair]
        starts, lengths = self._spans().unbind(-1)
        lengths = torch.nn.functional.pad(lengths, widths, value=self._new_length)
        return self._like(
            {SPANS: torch.stack((torch.nn.functional.pad(starts, widths), lengths), -1)}, lengths.shape, self._names
        )

    # -- writing rows -------------------------------------------------------------------------------------------------

    def _take_content(self, source: BufferColumn) -> None:
        self._items = source._items
        self._store = dict(source._store)
        self._is_compact = source._is_compact
        self._room = source._room

    def _as_rows_of(self, value: Any, batch_size: Size) -> Self:
        """Convert a value that is written to rows of a batch size."""
        raise NotImplementedError

    def __setitem__(self, index: Any, value: Any) -> None:
        prepared = prepare_index(index, self._batch_size, writing=True)
        if self._stands_in_file():
            raise RuntimeError(f"{type_name(self)}: {IN_FILES}")
        rows = self._as_rows_of(value, shapes.indexed(self._batch_size, prepared))
        self._write_checked(prepared, rows, len(self._batch_size), rows.ndim)

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        self._check_same_kind(rows, f"{dotted(path)}: cannot write", "; nothing was written")
        check_broadcast(path, self.shape[ndim:], rows.shape[row_ndim:], row_ndim)

    def _check_same_kind(self, other: object, what: str, end: str = "") -> None:
        """Raise if the items of another column are of another type, such as text and numbers."""
        raise NotImplementedError

    def _object_rows(self, rows: Collection, path: tuple[str, ...]) -> list[Any]:
        return [(path, self, rows)] if self._stands_in_file() else []

    def _stands_in_file(self) -> bool:
        """Return whether other processes read the rows from a file, which cannot take rows of other lengths."""
        spans: Tensor = self._spans()
        return type(spans) is MemoryMappedTensor and spans.is_in_file()

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Self:
        self._check_same_kind(rows, "cannot write")
        assert isinstance(rows, BufferColumn)
        self._is_compact = False  # before the buffer grows: an interrupt can come between any two lines
        spans = self._spans().clone()
        source = rows._spans()
        if rows._items is not self._items:
            items, source = rows._packed()
            start = len(self._items)
            self._append(items)
            source = torch.stack((source[..., 0] + start, source[..., 1]), -1)
        spans[index if index else ...] = source
        self._store = {SPANS: spans}
        return self

    def _append(self, items: Items) -> None:
        """Append items to the buffer, in a buffer with room for more, which only this column writes to."""
        old = self._items
        if (
            not isinstance(old, Tensor)
            or not isinstance(items, Tensor)
            or old.requires_grad
            or items.requires_grad
            or not has_values(self._spans())
        ):
            self._room = None
            self._items = type(self)._join([old, items])
            return
        count, more = len(old), len(items)
        room = self._room
        if room is None or len(room) < count + more:
            room = old.new_empty((max(count + more, (count + more) * 3 // 2), *old.shape[1:]))
            room[:count] = old
        room[count : count + more] = items
        self._room = None  # an interrupt must not leave a room that belongs to another buffer
        self._items = room[: count + more]
        self._room = room

    def _allocated(self, batch_size: Size) -> Self:
        return self._of(self._items[:0], self._spans().new_zeros((*batch_size, 2)))

    def _copy(self, source: Any, non_blocking: bool = False) -> Self:
        rows = self._as_rows_of(source, self._batch_size)
        self._become(rows.to(self._device) if rows._device != self._device else rows.clone())
        return self

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write other rows into this column, also if it is locked.

        Args:
            src: a column of this kind, or rows as the constructor takes them.
            non_blocking: has no effect here.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).copy_([[4], [5, 6]]).tolist()
            [[4], [5, 6]]
        """
        return self._copy(src, non_blocking)

    def _key_error(self, key: NestedKey) -> KeyError:
        return KeyError(f"key {key!r} not found: a {type_name(self)} has no keys{self._CONTENT_HINT}")

    def _show_content(self, new: Any, dim: int, level: int, count: int) -> None:
        items = self._items
        if not isinstance(items, Tensor):
            if any(is_batched(leaf) for leaf in items._leaves()):
                raise RuntimeError(
                    f"vmap: the result has a {type_name(self)} with ragged items that differ for each mapped row; "
                    "compute it outside of vmap, on the whole column"
                )
        elif is_batched(items) and functorch.maybe_get_level(items) == level:
            shown = functorch._remove_batch_dim(items, level, count, 0)
            shifts = torch.arange(count, device=shown.device) * shown.shape[1]
            shifts = shifts.reshape(count, *(1,) * (new.ndim - 1 - dim))
            spans = new._store[SPANS]
            new._store = {SPANS: torch.stack((spans[..., 0] + shifts, spans[..., 1]), -1)}
            new._items = shown.flatten(0, 1)

    # -- joining ------------------------------------------------------------------------------------------------------

    @classmethod
    def _join(cls, parts: list[Items]) -> Items:
        """Join buffers with the same number of ragged dimensions."""
        if isinstance(parts[0], Tensor):
            tensors = cast("list[Tensor]", parts)
            if any(tensor.dtype != tensors[0].dtype for tensor in tensors):
                tensors = [tensor for tensor in tensors if len(tensor)] or tensors  # empty ones decide no dtype
            return torch.cat(tensors)
        joined: Ragged[Any] = parts[0]._cat(parts, 0)
        return joined

    def _in_one_buffer(self, items: list[Any]) -> tuple[Items, list[Tensor]]:
        """Return one buffer for several columns, and the spans of each in it."""
        first = items[0]
        if all(item._items is first._items for item in items):
            return first._items, [item._spans() for item in items]
        buffers: list[Items] = []
        spans: list[Tensor] = []
        known: dict[int, int] = {}  # id of a buffer that several columns share -> its start
        start = 0
        shared = _shared_buffers(items)
        for item in items:
            if shared and item._is_compact and (key := id(item._items)) in shared:
                if key not in known:
                    known[key] = start
                    buffers.append(item._items)
                    start += len(item._items)
                shift, own = known[key], item._spans()
            else:
                packed, own = item._packed()
                buffers.append(packed)
                shift = start
                start += len(packed)
            spans.append(torch.stack((own[..., 0] + shift, own[..., 1]), -1) if shift else own)
        return self._join(buffers), spans

    def _combine(self, what: str, items: list[Any], dim: int | None) -> tuple[Items, list[Tensor]]:
        for position, item in enumerate(items):
            self._check_same_kind(item, f"{what}: item {position}: cannot join")
        self._check_joinable(BufferColumn, items, dim)
        return self._in_one_buffer(items)

    def _stack(self, items: list[Any], dim: int) -> Any:
        buffer, spans = self._combine("stack", items, None)
        return self._of(buffer, torch.stack(spans, dim), self._names_stacked(items, dim))

    def _cat(self, items: list[Any], dim: int) -> Any:
        buffer, spans = self._combine("cat", items, dim)
        compact = dim == 0 and buffer is not self._items and not _shared_buffers(items)  # joined in this order
        return self._of(buffer, torch.cat(spans, dim), self._names, compact=compact)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Any:
        rows = other if isinstance(other, Collection) else self._as_other(other)
        self._check_same_kind(rows, f"where: {dotted(path)}: cannot choose between it and")
        buffer, (ours, theirs) = self._in_one_buffer([self, rows])
        theirs = theirs.expand(ours.shape)
        return self._of(buffer, torch.where(_append_dims(condition, ours.ndim), ours, theirs), self._names)

    def _as_other(self, other: Any) -> Any:
        """Convert the operand of ``where`` to rows."""
        return self._as_rows_of(other, self._batch_size)

    # -- gradients and values of several columns ----------------------------------------------------------------------

    def _identity(self) -> tuple[Any, ...]:
        return (self._items, *self._store.values())

    def _find(self, path: tuple[str, ...]) -> Any:
        return MISSING if path else self

    #: whether functions over the leaves of a pytree leave the buffer as it is
    _keeps_items: ClassVar[bool] = False
    #: the length of rows that padding adds
    _new_length: ClassVar[int] = 0
    #: the most columns of one row among others, where a line shows several
    _row_width: ClassVar[int | None] = None


#: rows of more bytes are not copied to free a buffer
_FEW = 2**20
#: smaller buffers may stay
_SMALL = 2**12


def _are_few(nbytes: int, items: Tensor) -> bool:
    """Return whether rows are so few of a buffer that a copy of them frees it."""
    if nbytes > _FEW or _is_wrapped(items) or items.is_meta:
        return False
    return max(MANY_TIMES * nbytes, _SMALL) <= items.untyped_storage().nbytes()


def _shared_buffers(columns: list[Any]) -> set[int]:
    """Return the ids of buffers that several columns share; none while a compiler traces.

    It would guard each id, and the tensors of the next call have others.
    """
    if not knows_addresses():
        return set()
    uses = Counter([id(column._items) for column in columns])
    return {buffer for buffer, count in uses.items() if count > 1}


@allow_function
def _rebuild(cls: Any, items: Items, spans: Tensor, names: Any, locked: bool) -> BufferColumn:
    column: type[BufferColumn] = found(cls, BufferColumn)
    span_functions.check(spans, len(items), column.__name__)
    new = column._of(items, spans, None if names is None else tuple(names))
    if locked:
        new._lock_under(())
    return new


column_rebuild: Any = _rebuild
_is_wrapped: Any = functorch.is_functorch_wrapped_tensor  # true inside vmap, grad, ...
