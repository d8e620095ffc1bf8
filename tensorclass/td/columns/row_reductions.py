"""Reductions along rows of different length: the methods of :class:`Ragged`, and the functions that compute them.

Each function takes the items of all rows, ``[items, *item shape]``, the row number of each item, ``int64[items]``,
which never decreases, and the number of rows. Results are ``[rows, *item shape]`` unless they are items again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td.columns import spans as span_functions
from tensorclass.td.reductions import RowsOfItems
from tensorclass.td.tracing import has_values

from .item_numbers import ItemNumbers

if TYPE_CHECKING:
    from tensorclass.td.shapes import Names

Extreme = Literal["amax", "amin"]

#: sums over rows add in another order than :func:`torch.sum`, so they accumulate in the next wider dtype
_WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def wider_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype in which items are added; MPS has no float64."""
    return dtype if device.type == "mps" else _WIDER.get(dtype, dtype)


def row_sums(items: Tensor, rows: Tensor, count: int, dtype: torch.dtype | None = None) -> Tensor:
    """Sum the items of each row; 0 for a row without items.

    Args:
        items: the items of all rows.
        rows: the row number of each item.
        count: the number of rows.
        dtype: of the result. Default: that of :func:`torch.sum`.

    Example:
        >>> row_sums(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 2]), 3)
        tensor([3, 0, 3])
    """
    result = dtype or (items.dtype if items.is_floating_point() or items.is_complex() else torch.int64)
    return _added(items, rows, count, wider_dtype(result, items.device)).to(result)


def _added(items: Tensor, rows: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return items.new_zeros((count, *items.shape[1:]), dtype=dtype).index_add(0, rows, items.to(dtype))


def row_extremes(items: Tensor, rows: Tensor, count: int, extreme: Extreme) -> Tensor:
    """Return the largest or smallest item of each row; any value for a row without items.

    Example:
        >>> row_extremes(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 1]), 2, "amax")
        tensor([2, 3])
    """
    is_bool = items.dtype is torch.bool
    if is_bool:
        items = items.to(torch.uint8)
    index = _over_items(rows, items)
    start = items.new_zeros((count, *items.shape[1:]))
    reduced = start.scatter_reduce(0, index, items, extreme, include_self=False)
    return reduced.bool() if is_bool else reduced


def positions_of_extremes(items: Tensor, rows: Tensor, starts: Tensor, extreme: Extreme) -> Tensor:
    """Return the position of the largest or smallest item in each row: the first of equal ones, NaN before others.

    Args:
        items: the items of all rows.
        rows: the row number of each item.
        starts: the position of the first item of each row in ``items``.
        extreme: which item.

    Example:
        >>> positions_of_extremes(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 1]), torch.tensor([0, 2]), "amax")
        tensor([1, 0])
    """
    count = len(starts)
    items = items.detach()
    is_extreme = row_extremes(items, rows, count, extreme).index_select(0, rows) == items
    if items.is_floating_point():
        is_extreme |= items.isnan()
    positions = torch.arange(len(items), device=items.device) - starts.index_select(0, rows)
    last = torch.iinfo(torch.int64).max
    return row_extremes(torch.where(is_extreme, _over_items(positions, items), last), rows, count, "amin")


def row_softmax(items: Tensor, rows: Tensor, count: int) -> Tensor:
    """Return the softmax of the items of each row, as items.

    Example:
        >>> row_softmax(torch.zeros(3), torch.tensor([0, 0, 1]), 2)
        tensor([0.5000, 0.5000, 1.0000])
    """
    top = row_extremes(items.detach(), rows, count, "amax").index_select(0, rows)
    top = torch.where(top.isinf(), 0, top)
    powers = (items - top).exp()
    totals = _added(powers, rows, count, wider_dtype(powers.dtype, items.device))
    return (powers / totals.index_select(0, rows)).to(items.dtype)


def _over_items(values: Tensor, items: Tensor) -> Tensor:
    """Expand a value for each item to the item shape."""
    return values.reshape(-1, *(1,) * (items.ndim - 1)).expand(items.shape)


class RowReductions(ItemNumbers):
    """The methods of :class:`Ragged` that reduce the items of each row."""

    __slots__ = ()

    def _flat(self, what: str) -> tuple[Tensor, Tensor, Size]:
        """Return items in order, their row numbers, and the shape of a result over the batch."""
        items, spans = self._packed()
        if not isinstance(items, Tensor):
            raise TypeError(
                f"{what}: the items are ragged, too: reduce them first, as in "
                "Ragged.from_lengths(rows.values.sum(), rows.lengths)"
            )
        return items, span_functions.row_numbers(spans), Size((*self._batch_size, *items.shape[1:]))

    def sum(self, *, dtype: torch.dtype | None = None) -> Tensor:  # type: ignore[override]
        """Sum the items of each row: a tensor ``[*batch, *item shape]``; 0 for a row without items.

        Floating items are added in the next wider dtype, as their order differs from that of :func:`torch.sum`.

        Args:
            dtype: of the result. Default: that of :func:`torch.sum`, int64 for integers and booleans.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).sum()
            tensor([3, 3])
        """
        items, rows, shape = self._flat("sum")
        return row_sums(items, rows, self.numel(), dtype).reshape(shape)

    def mean(self, *, dtype: torch.dtype | None = None) -> Tensor:  # type: ignore[override]
        """Average the items of each row: a tensor ``[*batch, *item shape]``; NaN for a row without items.

        Args:
            dtype: of the result; floating or complex. Default: that of the items.

        Raises:
            RuntimeError: the items are integers and no dtype is given, as :func:`torch.mean`.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1.0, 2.0], [3.0]]).mean()
            tensor([1.5000, 3.0000])
        """
        items = self._items
        wanted = dtype or items.dtype
        if not (wanted.is_floating_point or wanted.is_complex):
            raise RuntimeError(f"mean: the items are {items.dtype}; give the dtype of the result, dtype=torch.float32")
        total = self.sum(dtype=wider_dtype(wanted, self._spans().device))
        counts = self.lengths.reshape(self._batch_size + (1,) * (total.ndim - len(self._batch_size)))
        return (total / counts).to(wanted)

    def max(self) -> Tensor:  # type: ignore[override]
        """Return the largest item of each row, a tensor ``[*batch, *item shape]``; NaN where a row has one.

        Raises:
            ValueError: a row has no items.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).max()
            tensor([2, 3])
        """
        return self._extremum("max", "amax")

    def min(self) -> Tensor:  # type: ignore[override]
        """Return the smallest item of each row, a tensor ``[*batch, *item shape]``; NaN where a row has one.

        Raises:
            ValueError: a row has no items.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).min()
            tensor([1, 3])
        """
        return self._extremum("min", "amin")

    def _extremum(self, what: str, extreme: Extreme) -> Tensor:
        items, rows, shape = self._flat(what)
        self._check_no_empty_row(what)
        return row_extremes(items, rows, self.numel(), extreme).reshape(shape)

    def argmax(self) -> Tensor:
        """Return the position of the largest item in each row, ``int64[*batch, *item shape]``, the first of equals.

        Raises:
            ValueError: a row has no items.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).argmax()
            tensor([1, 0])
        """
        return self._position_of("argmax", "amax")

    def argmin(self) -> Tensor:
        """Return the position of the smallest item in each row, ``int64[*batch, *item shape]``, the first of equals.

        Raises:
            ValueError: a row has no items.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).argmin()
            tensor([0, 0])
        """
        return self._position_of("argmin", "amin")

    def _position_of(self, what: str, extreme: Extreme) -> Tensor:
        items, rows, shape = self._flat(what)
        self._check_no_empty_row(what)
        starts = self._packed_spans()[..., 0].reshape(-1)
        return positions_of_extremes(items, rows, starts, extreme).reshape(shape)

    def _check_no_empty_row(self, what: str) -> None:
        if not has_values(self._spans()):
            return
        empty = self.lengths == 0
        if bool(empty.any()):
            raise ValueError(f"{what}: row {span_functions.first_row(empty)} has no items, so it has no {what}")

    def softmax(self) -> Self:  # type: ignore[override]
        """Return the softmax over the items of each row.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[0.0, 0.0], [3.0]]).softmax().tolist()
            [[0.5, 0.5], [1.0]]
        """
        items, rows, _ = self._flat("softmax")
        if not (items.is_floating_point() or items.is_complex()):
            raise RuntimeError(f"softmax: expected floating items, got {items.dtype}; convert them with .float()")
        return self._with_items(row_softmax(items, rows, self.numel()))

    # -- reductions of a collection that holds the rows ---------------------------------------------------------------

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Self:
        """Return rows of one item: of the items of each row for ``"feature"``, of all items for ``None``."""
        if dim is not None and not isinstance(dim, str):
            raise RowsOfItems
        if dim is None:
            items: Any = self._wrapped_tensor()
            total = function(items, tuple(range(items.ndim)), **kwargs)
            size = Size((1,) * len(self._batch_size)) if keepdim else Size(())
            return self._rows_of_one(total if keepdim else total.unsqueeze(0), size, self._names if keepdim else None)
        by_rows = _BY_ROWS.get(getattr(function, "plain", function))
        if by_rows is not None and not kwargs and not self.item_shape and self.ragged_dims == 1:
            return self._rows_of_one(by_rows(self).reshape(-1), self._batch_size, self._names)
        flat: Any = self.reshape(-1)
        held: list[Any] = [row._wrapped_tensor() for row in flat]
        if not held:  # one row, for dtype and shape of the result
            held = [flat._wrapped_tensor().new_ones((2, *self.item_shape))]
        rows = torch.stack([function(row, tuple(range(row.ndim)), **kwargs) for row in held])[: flat.shape[0]]
        return self._rows_of_one(rows.flatten(0, 1) if keepdim else rows, self._batch_size, self._names)

    def _rows_of_one(self, items: Tensor, size: Size, names: Names) -> Self:
        """Return rows with one item each, in as many ragged dimensions."""
        rows: Any = items
        ones = torch.ones(len(items), dtype=torch.int64, device=items.device)
        for _ in range(self.ragged_dims):
            rows = self._of(rows, span_functions.from_lengths(ones), compact=True)
        rows = rows.reshape(size)
        rows._names = names
        return rows  # type: ignore[no-any-return]

    def _values_and_indices(self, name: str, args: tuple[Any, ...], size: Size, names: Names) -> Any:
        raise RowsOfItems

    def _cumulative(self, name: str, dim: int) -> Any:
        raise RowsOfItems


#: functions of torch along the items of a row, and the method that does it for all rows at once
_BY_ROWS: dict[Any, Callable[[RowReductions], Tensor]] = {
    torch.sum: RowReductions.sum,
    torch.mean: RowReductions.mean,
    torch.amax: RowReductions.max,
    torch.amin: RowReductions.min,
}
