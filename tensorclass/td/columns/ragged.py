"""Rows of different length over one buffer of items."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self, TypeVar

from tensorclass.support.printable import type_name
from tensorclass.td import native, shapes
from tensorclass.td.collection import DeviceLike
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.delegated.engine_functions import ragged_from_arrow
from tensorclass.td.leaves.content import Content, register_kind
from tensorclass.td.leaves.object_codes import nest_lists, to_lists
from tensorclass.td.safe_unpickling import allow_class
from tensorclass.td.value_checks import as_tensor, is_array

from .buffer_column import SPANS
from .column_repr import ragged_rows, ragged_type
from .item_numbers import ItemNumbers
from .items_from_rows import join_jagged, join_rows, split_jagged, wrong_row
from .padded_rows import Padded, Side, check_side, pad_rows, padded_length, unpad_by_lengths, unpad_by_mask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from .buffer_column import Items
    from .column_inputs import RaggedRows

#: the annotation of one row, for checkers and contracts
Row = TypeVar("Row", default=Any)


class Ragged(ItemNumbers, Generic[Row]):
    """Rows of different length: a buffer of items, and the start and length of each row in it.

    It is a value of a collection like a tensor. Indices and shape operations act on the batch dimensions, whatever the
    lengths are, and share the buffer: their cost does not grow with the items. Arithmetic, comparisons and functions of
    torch act on the items. Reductions along the rows (:meth:`sum`, :meth:`max`, ...) give a tensor over the batch.

    Args:
        data: a sequence of rows, each a sequence of numbers, an array, a tensor, or ``None`` for a row without a value;
            or the buffer of items, ``[items, *item shape]``, if ``spans`` is given.
        spans: start and length of each row, ``int64[*batch, 2]``.
        dtype: of the items. Default: as :func:`torch.tensor` infers it.
        device: of the items. Default: that of the data.
        names: a name or ``None`` for each batch dimension.

    Raises:
        TypeError: the data is neither rows nor a buffer, or spans are not int64.
        ValueError: a row lies outside of the buffer, or the items of rows differ in shape.

    Example:
        >>> from tensorclass import Ragged
        >>> tokens = Ragged([[5, 6], [7], [8, 9, 1]])
        >>> tokens[1:].tolist(), tokens.lengths, (tokens * 10)[0].tensor()
        ([[7], [8, 9, 1]], tensor([2, 1, 3]), tensor([50, 60]))
        >>> tokens.to_padded().values
        tensor([[5, 6, 0],
                [7, 0, 0],
                [8, 9, 1]])
    """

    __slots__ = ()
    _CONTENT = Content.RAGGED
    _KIND = "Ragged"
    _row_reader = ".tensor() or .tolist()"
    _CONTENT_HINT = "; its items are in `values`"

    if TYPE_CHECKING:
        # Checkers ask a field for these, as for any descriptor: constructors and assignments take what people have.
        def __get__(self, record: object, owner: Any = None) -> Self: ...
        def __set__(self, record: Any, value: RaggedRows | None) -> None: ...

    def __init__(
        self,
        data: Any,
        spans: Tensor | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        items: Items
        if spans is None:
            made = as_ragged(data, dtype=dtype, device=device)
            items, own, is_compact = made._items, made._spans(), made._is_compact
        else:
            buffer: Any = data
            items = buffer if isinstance(data, (Tensor, Ragged)) else torch.as_tensor(buffer)
            if isinstance(items, Tensor) and not items.ndim:
                raise ValueError("Ragged: expected a buffer of the shape [items, *item shape], got a number")
            if dtype is not None or device is not None:
                items = items.to(device=device, dtype=dtype)
            span_functions.check(spans, len(items), "Ragged")
            own, is_compact = spans.to(items.device), False
        self._begin_over(items, own, shapes.as_names(names, own.ndim - 1), is_compact)

    # -- from other forms ---------------------------------------------------------------------------------------------

    @classmethod
    def from_list(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        rows: Iterable[Any],
        *,
        dtype: torch.dtype | None = None,
        device: DeviceLike | None = None,
        ragged_dims: int = 1,
    ) -> Self:
        """Make a column from a sequence of rows.

        Args:
            rows: each a sequence of numbers, an array, a tensor, or ``None`` for a row without a value.
            dtype: of the items. Default: as :func:`torch.tensor` infers it; float for no items.
            device: of the items. Default: that of the rows.
            ragged_dims: the number of dimensions whose length differs. 2 makes a column whose items are ragged, too.

        Raises:
            ValueError: the items of rows differ in shape. The message names the row.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged.from_list([[1, 2], None, [3]]).missing
            tensor([False,  True, False])
            >>> Ragged.from_list([[[1, 2], [3]], [[4]]], ragged_dims=2).tolist()
            [[[1, 2], [3]], [[4]]]
        """
        listed = list(rows)
        try:
            lengths = torch.tensor([-1 if row is None else len(row) for row in listed], dtype=torch.int64)
        except TypeError:  # a row without a length
            raise wrong_row(listed) from None
        items: Items
        if ragged_dims > 1:
            below = list(itertools.chain.from_iterable(row for row in listed if row is not None))
            items = cls.from_list(below, dtype=dtype, device=device, ragged_dims=ragged_dims - 1)
        else:
            items = join_rows(listed, dtype)
            if device is not None or dtype is not None:
                items = items.to(device=device, dtype=dtype)
        return cls._of(items, span_functions.from_lengths(lengths).to(items.device), compact=True)

    @classmethod
    def from_lengths(cls, values: Tensor | Ragged[Any], lengths: Tensor | Sequence[int]) -> Self:
        """Make a column from items that lie row by row.

        Args:
            values: the items, ``[items, *item shape]``.
            lengths: the number of items of each row, int64 of any shape, which is the batch size. -1 marks a row
                without a value.

        Returns:
            A column that shares the memory of ``values``.

        Raises:
            ValueError: the lengths do not add up to the number of items.

        Example:
            >>> from tensorclass import Ragged
            >>> import torch
            >>> Ragged.from_lengths(torch.arange(3), [1, 2]).tolist()
            [[0], [1, 2]]
        """
        counts = torch.as_tensor(lengths, dtype=torch.int64, device=values.device)
        total = counts.clamp(min=0).sum()
        if not counts.is_meta and int(total) != len(values):
            raise ValueError(f"Ragged.from_lengths: the lengths add up to {int(total)}, there are {len(values)} items")
        return cls._of(values, span_functions.from_lengths(counts), compact=True)

    @classmethod
    def from_offsets(cls, values: Tensor | Ragged[Any], offsets: Tensor | Sequence[int]) -> Self:
        """Make a column from offsets, as Arrow's lists and torch's jagged tensors have them.

        Args:
            values: the items, ``[items, *item shape]``.
            offsets: ``n + 1`` integers: the start of each row, and the end of the last.

        Returns:
            A column of ``n`` rows that shares the memory of ``values``.

        Raises:
            ValueError: offsets decrease, or lie outside of the items.

        Example:
            >>> from tensorclass import Ragged
            >>> import torch
            >>> Ragged.from_offsets(torch.arange(3), [0, 1, 3]).tolist()
            [[0], [1, 2]]
        """
        spans = span_functions.from_offsets(torch.as_tensor(offsets, device=values.device))
        span_functions.check(spans, len(values), "Ragged.from_offsets")
        if not spans.is_meta and bool((spans[:, 1] < 0).any()):
            raise ValueError("Ragged.from_offsets: offsets decrease")
        return cls._of(values, spans)

    @classmethod
    def from_padded(
        cls, padded: Tensor, *, lengths: Tensor | Sequence[int] | None = None, mask: Tensor | None = None
    ) -> Self:
        """Make a column from a padded tensor.

        Args:
            padded: ``[*batch, longest, *item shape]``.
            lengths: the number of items of each row, ``int[*batch]``: each row begins with its items.
            mask: instead, ``bool[*batch, longest]``, true at items. They can lie anywhere in a row.

        Returns:
            A column that shares the memory of ``padded`` where ``lengths`` are given and the memory allows it.

        Raises:
            ValueError: neither or both are given, or shapes do not fit.

        Example:
            >>> from tensorclass import Ragged
            >>> import torch
            >>> padded = torch.tensor([[1, 2], [3, 0]])
            >>> (
            ...     Ragged.from_padded(padded, lengths=[2, 1]).tolist(),
            ...     Ragged.from_padded(padded, mask=padded > 0).tolist(),
            ... )
            ([[1, 2], [3]], [[1, 2], [3]])
        """
        if (lengths is None) == (mask is None):
            raise ValueError("Ragged.from_padded: give either lengths= or mask=")
        if mask is not None:
            items, spans = unpad_by_mask(padded, mask)
            return cls._of(items, spans, compact=True)
        assert lengths is not None
        return cls._of(*unpad_by_lengths(padded, lengths))

    @classmethod
    def from_jagged(cls, tensor: Tensor) -> Self:
        """Make a column from a nested tensor of torch.

        Args:
            tensor: of the layout ``torch.jagged`` or ``torch.strided``; its dimension 1 is the ragged one.

        Returns:
            A column that shares the memory of a jagged tensor.

        Raises:
            TypeError: it is not a nested tensor.
            ValueError: its ragged dimension is not the second.

        Example:
            >>> from tensorclass import Ragged
            >>> import torch
            >>> jagged = torch.nested.nested_tensor([torch.arange(2), torch.arange(1)], layout=torch.jagged)
            >>> Ragged.from_jagged(jagged).tolist()
            [[0, 1], [0]]
        """
        if not tensor.is_nested:
            raise TypeError(f"Ragged.from_jagged: expected a nested tensor, got one of shape {list(tensor.shape)}")
        if tensor.layout is not torch.jagged:
            return cls.from_list(tensor.unbind())
        return cls._of(*split_jagged(tensor))

    # -- content ------------------------------------------------------------------------------------------------------

    @property
    def values(self) -> Tensor | Ragged[Any]:
        """The buffer of items, ``[items, *item shape]``, shared with the columns that it was indexed from.

        It can hold items of other rows: :meth:`compact` removes them.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]])[1:].values
            tensor([1, 2, 3])
        """
        return self._items

    def row(self) -> Tensor | Ragged[Any]:
        """Return the items of one row: a tensor ``[length, *item shape]``, or a column where items are ragged.

        Returns:
            A view of the buffer.

        Raises:
            ValueError: this is a batch of rows, or a row without a value.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged.from_list([[[1], [2, 3]]], ragged_dims=2)[0].row().tolist()
            [[1], [2, 3]]
        """
        if self._batch_size:
            raise ValueError(
                f"this column has the batch size {list(self._batch_size)}: index one row first, as in "
                "rows[0].tensor(), or take .tensors(), .to_padded() or .values"
            )
        start, length = to_lists(self._spans())
        if length < 0:
            raise ValueError("this row has no value (None)")
        return self._items[start : start + length]

    def tensor(self) -> Tensor:
        """Return the items of one row, ``[length, *item shape]``, as a view of the buffer.

        Raises:
            ValueError: this is a batch of rows, or a row without a value.
            TypeError: the items are ragged; use :meth:`row`.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]])[0].tensor()
            tensor([1, 2])
        """
        row = self.row()
        if not isinstance(row, Tensor):
            raise TypeError("tensor(): the items of this row are ragged, too: take .row(), a column of its items")
        return row

    def tensors(self) -> list[Tensor]:
        """Return a tensor for each row of a batch with one dimension, as views of the buffer.

        Raises:
            ValueError: the batch has not one dimension, or a row has no value.
            TypeError: the items are ragged.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).tensors()
            [tensor([1, 2]), tensor([3])]
        """
        self._check_flat("tensors()")
        if not isinstance(self._items, Tensor):
            raise TypeError("tensors(): the items are ragged, too: iterate over the rows and take .row() of each")
        items = self._items
        spans: list[tuple[int, int]] = to_lists(self._spans())
        if any(length < 0 for _, length in spans):
            raise ValueError("tensors(): a row has no value (None); see .missing")
        return [items[start : start + length] for start, length in spans]

    def tolist(self, **options: Any) -> Any:
        """Return the rows as nested lists, ``None`` for rows without a value.

        Without batch dimensions, return the list of the one row.

        Args:
            options: those of the method of collections. They have no effect on rows.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).tolist()
            [[1, 2], [3]]
        """
        items, spans = self._packed()
        flat: list[Any] = to_lists(items) if isinstance(items, Tensor) else items.tolist()
        rows = [None if n < 0 else flat[start : start + n] for start, n in to_lists(spans.reshape(-1, 2))]
        return nest_lists(rows, self._batch_size) if self._batch_size else rows[0]

    def _row_texts(self, count: int, width: int) -> list[str]:
        return ragged_rows(self, count, width)

    def _type_for_repr(self) -> str:
        return ragged_type(self)

    def _first_difference(self, other: Any) -> str | None:
        if self.ragged_dims != other.ragged_dims:
            return f"there are {self.ragged_dims} and {other.ragged_dims} ragged dimensions"
        ours, theirs = self._spans()[..., 1], other._spans()[..., 1].to(self._device)
        different = ours != theirs
        if bool(different.any()):
            at, first, second = span_functions.first_row(different), ours[different][0], theirs[different][0]
            return f"the lengths of row {at} differ: {int(first)} and {int(second)}"
        items, others = self._packed()[0], other._packed()[0]
        return None if isinstance(items, Tensor) else items._row_mismatch(others)

    # -- padded and jagged forms --------------------------------------------------------------------------------------

    def _as_padded(self, padding: float) -> Any:
        return self.to_padded(padding)

    def to_padded(
        self,
        padding: complex = 0,
        *,
        side: Side = "right",
        length: int | None = None,
        multiple_of: int | None = None,
    ) -> Padded:
        """Return a padded tensor and its mask.

        Args:
            padding: the value at padded positions. Default: 0.
            side: the side at which rows are padded. Default: ``"right"``.
            length: the padded length. Default: that of the longest row.
            multiple_of: round the padded length up to a multiple of this. Default: 1.

        Returns:
            ``values`` of shape ``[*batch, length, *item shape]`` and ``mask``, ``bool[*batch, length]``, true at items.
            With ragged items: ``[*batch, length, length of items, *item shape]``, and a mask of both lengths.

        Raises:
            ValueError: a row is longer than ``length``; :meth:`truncate` first.

        Example:
            >>> from tensorclass import Ragged
            >>> values, mask = Ragged([[1, 2], [3]]).to_padded(-1, side="left")
            >>> values, mask
            (tensor([[ 1,  2],
                    [-1,  3]]), tensor([[ True,  True],
                    [False,  True]]))
        """
        check_side(side, "to_padded")
        spans = self._spans()
        longest = padded_length(spans, length, multiple_of)
        items = self._items
        if isinstance(items, Tensor):
            return pad_rows(items, spans, longest, padding, side)
        packed, spans = self._packed()
        assert isinstance(packed, Ragged)
        inner = packed.to_padded(padding, side=side)
        values, mask = pad_rows(inner.values, spans, longest, padding, side)
        below = pad_rows(inner.mask, spans, longest, False, side).values
        return Padded(values, below & mask.unsqueeze(-1))

    def to_jagged(self) -> Tensor:
        """Return a nested tensor of torch with the layout ``torch.jagged``, for instance for attention.

        Returns:
            A tensor ``[batch, *, *item shape]``. It shares memory where the rows lie in order.

        Raises:
            ValueError: the batch has not one dimension, items are ragged, or a row has no value.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).to_jagged().offsets()
            tensor([0, 2, 3])
        """
        items, spans = self._packed()
        if len(self._batch_size) != 1 or not isinstance(items, Tensor):
            raise ValueError(
                f"to_jagged: expected one batch dimension and one ragged dimension, got the batch size "
                f"{list(self._batch_size)} and {self.ragged_dims} ragged dimensions"
            )
        return join_jagged(items, spans)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def truncate(self, length: int, *, side: Side = "right") -> Self:
        """Shorten rows that have more items. The result shares the buffer.

        Args:
            length: the largest number of items of a row.
            side: the side at which items are cut off. Default: ``"right"``.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2, 3], [4]]).truncate(2).tolist(), Ragged([[1, 2, 3]]).truncate(2, side="left").tolist()
            ([[1, 2], [4]], [[2, 3]])
        """
        if length < 0:
            raise ValueError(f"truncate: expected a length of at least 0, got {length}")
        check_side(side, "truncate")
        spans = self._spans()
        sizes = spans[..., 1].clamp(max=length)
        starts = spans[..., 0] if side == "right" else spans[..., 0] + (spans[..., 1] - sizes)
        return self._same({SPANS: torch.stack((starts, sizes), -1)})

    def sort_by_length(self, *, descending: bool = False) -> tuple[Self, Tensor]:
        """Sort the rows of a batch with one dimension by their length. Rows of one length keep their order.

        Args:
            descending: longest rows first. Default: ``False``.

        Returns:
            The sorted rows, which share the buffer, and the positions that they had, ``int64[batch]``.

        Example:
            >>> from tensorclass import Ragged
            >>> rows, order = Ragged([[1, 2], [3]]).sort_by_length()
            >>> rows.tolist(), order
            ([[3], [1, 2]], tensor([1, 0]))
        """
        self._check_flat("sort_by_length")
        order = torch.argsort(self.lengths, descending=descending, stable=True)
        return self._index_value(order), order

    def cat_items(self, *others: Ragged[Any]) -> Self:
        """Append the items of other columns, row by row.

        Args:
            others: columns of the same batch size. A row without a value counts as an empty one.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1], [2]]).cat_items(Ragged([[3, 4], []])).tolist()
            [[1, 3, 4], [2]]
        """
        columns: list[Any] = [self, *others]
        for other in others:
            self._check_same_kind(other, "cat_items: cannot append")
            if other._batch_size != self._batch_size:
                raise ValueError(
                    f"cat_items: expected the batch size {list(self._batch_size)}, got {list(other._batch_size)}"
                )
        buffer, spans = self._in_one_buffer(columns)
        together = torch.stack(spans, -2)
        at = span_functions.positions(together)
        items = buffer.index_select(0, at) if isinstance(buffer, Tensor) else buffer[at]
        counts = span_functions.counts_of(together).sum(-1)
        return self._of(items, span_functions.from_lengths(counts), self._names, compact=True)

    def map_values(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Call a function once with all items of the rows.

        Args:
            function: takes a tensor ``[items, *item shape]`` and returns one with as many items, of any dtype and
                item shape.

        Returns:
            The rows with the items of the result.

        Raises:
            ValueError: the result has another number of items.

        Example:
            >>> from tensorclass import Ragged
            >>> import torch
            >>> embedding = torch.nn.Embedding(10, 4)
            >>> Ragged([[1, 2], [3]]).map_values(embedding).item_shape
            torch.Size([4])
        """
        items = self._packed()[0]
        below: Items = items.map_values(function) if isinstance(items, Ragged) else function(items)
        if not isinstance(below, (Tensor, Ragged)) or len(below) != len(items):
            got = f"shape {list(below.shape)}" if isinstance(below, Tensor) else type_name(below)
            raise ValueError(f"map_values: expected a tensor of {len(items)} items, got {got}")
        return self._with_items(below)

    def _unwrapped(self) -> Any:
        return self if self._batch_size or self.ragged_dims > 1 else self.tensor()

    def numpy(self) -> NDArray[Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the rows as an array of arrays: an object array over the batch; of one row the items.

        Example:
            >>> from tensorclass import Ragged
            >>> rows = Ragged([[1, 2], [3]])
            >>> rows.numpy(), rows[0].numpy()
            (array([array([1, 2]), array([3])], dtype=object), array([1, 2]))
        """
        if not self._batch_size:
            return self.tensor().numpy(force=True)
        rows: Any = np.empty(self._batch_size.numel(), dtype=object)
        items, spans = self._packed()
        if not isinstance(items, Tensor):
            raise TypeError("numpy(): the items are ragged, too: use tolist()")
        array: Any = items.numpy(force=True)
        for position, (start, length) in enumerate(to_lists(spans.reshape(-1, 2))):
            rows[position] = None if length < 0 else array[start : start + length]
        shaped: NDArray[np.object_] = rows.reshape(self._batch_size)
        return shaped

    def _as_array(self, dtype: Any = None) -> NDArray[Any]:
        return self.numpy() if dtype is None or np.dtype(dtype).kind == "O" else self._one_tensor().numpy(force=True)

    def _one_tensor(self) -> Tensor:
        """Return equal rows as a tensor, ``[*batch, length, *item shape]``, a view of the buffer if it is compact."""
        items, spans = self._packed()
        lengths = set(to_lists(spans[..., 1].reshape(-1)))
        if len(lengths) > 1 or min(lengths, default=0) < 0:
            what = (
                "a row has no value (None)" if min(lengths) < 0 else f"rows have {min(lengths)} to {max(lengths)} items"
            )
            raise ValueError(f"this Ragged is no tensor: {what}; to_padded() gives a tensor, to_jagged() a nested one")
        inner = items if isinstance(items, Tensor) else items._one_tensor()
        return inner.reshape(*self._batch_size, *lengths or (0,), *inner.shape[1:])

    # -- rows that are written ----------------------------------------------------------------------------------------

    def _as_rows_of(self, value: Any, batch_size: Size) -> Any:
        rows: Any = value
        if not isinstance(value, Ragged):
            listed = rows if batch_size else [rows]
            rows = as_ragged(listed, dtype=self._items.dtype, device=self._device, ragged_dims=self.ragged_dims)
            rows = rows if batch_size else rows._index_value(0)
        return rows if rows._batch_size == batch_size else rows.expand(batch_size)

    def _check_same_kind(self, other: object, what: str, end: str = "") -> None:
        if not isinstance(other, Ragged) or other.ragged_dims != self.ragged_dims:
            got = f"{other.ragged_dims} ragged dimensions" if isinstance(other, Ragged) else type_name(other)
            raise RuntimeError(f"{what} a Ragged of {self.ragged_dims} ragged dimensions and a value of {got}{end}")
        if other.item_shape != self.item_shape:
            raise RuntimeError(
                f"{what} a Ragged with items of shape {list(self.item_shape)} and one with items of shape "
                f"{list(other.item_shape)}{end}"
            )

    def _as_other(self, other: Any) -> Any:
        like: Any = self._packed()[0]  # a Ragged goes through torch's functions, too
        if isinstance(other, Tensor):
            return self._with_items(self._operand(other).expand_as(like).to(self.dtype))
        if isinstance(other, (int, float, complex, bool)):
            return self._with_items(torch.full_like(like, other))
        return super()._as_other(other)


# -- making ----------------------------------------------------------------------------------------------------------


def as_ragged(
    data: Any, *, dtype: torch.dtype | None = None, device: DeviceLike | None = None, ragged_dims: int = 1
) -> Ragged[Any]:
    """Make a :class:`Ragged` from what people have: rows, arrays, nested tensors, Arrow's lists.

    Args:
        data: a Ragged; a sequence of rows; an object array; a nested tensor; a list array of Arrow; or a tensor or
            array ``[n, length, ...]``, whose rows have all the same length.
        dtype: of the items.
        device: of the items.
        ragged_dims: the number of dimensions whose length differs.

    Raises:
        TypeError: the data is none of these.

    Example:
        >>> from tensorclass import Ragged
        >>> import torch
        >>> as_ragged(torch.arange(4).reshape(2, 2)).tolist()
        [[0, 1], [2, 3]]
    """
    made: Ragged[Any]
    given: Any = data
    if isinstance(data, Ragged):
        made = given
    elif isinstance(data, Tensor):
        if data.is_nested:
            made = Ragged.from_jagged(data)
        elif data.ndim < 2:
            raise TypeError(
                f"Ragged: expected rows, got a tensor of shape {list(data.shape)}; for a buffer of items give spans=, "
                "or use Ragged.from_lengths(values, lengths)"
            )
        else:
            made = Ragged.from_padded(data, lengths=torch.full((data.shape[0],), data.shape[1], device=data.device))
    elif hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        made = ragged_from_arrow(data)
    elif is_array(data) and data.dtype != object:
        tensor = as_tensor(data)
        if tensor is None:
            raise TypeError(f"Ragged: expected numbers, got an array of dtype {data.dtype}")
        return as_ragged(tensor, dtype=dtype, device=device)
    elif isinstance(data, (str, bytes, dict)) or not hasattr(data, "__iter__"):
        raise TypeError(f"Ragged: expected a sequence of rows, got a {type_name(given)}")
    else:
        return Ragged.from_list(given, dtype=dtype, device=device, ragged_dims=ragged_dims)
    if (dtype is not None and made.dtype != dtype) or device is not None:
        made = made._to(None if device is None else torch.device(device), dtype, False, False, None)
    return made


allow_class(Ragged)
register_kind(Ragged)
native.tell("bind_column", Ragged, SPANS, False)
