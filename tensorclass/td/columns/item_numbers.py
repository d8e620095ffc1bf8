"""The items of ragged rows as numbers: dtype, gradients, and the operations of collections that act on items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.leaves.number_operations import NumberLeaf, number_result
from tensorclass.td.reductions import RowsOfItems
from tensorclass.td.tracing import has_values, is_batched
from tensorclass.td.value_checks import is_array

from .buffer_column import BufferColumn

if TYPE_CHECKING:
    from tensorclass.td.shapes import Names

    from .buffer_column import Items


# -- reductions along rows: each function takes the items of all rows, ``[items, *item shape]``, the row number of each
# item, ``int64[items]``, which never decreases, and the number of rows. Results are ``[rows, *item shape]`` unless they
# are items again.

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


class ItemNumbers(NumberLeaf, BufferColumn):
    """The members of :class:`Ragged` that see the items as one tensor, or as one column where items are ragged, too."""

    __slots__ = ()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the items.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).dtype
            torch.int64
        """
        return self._items.dtype

    @property
    def item_shape(self) -> Size:
        """The shape of an item after the ragged dimensions.

        Example:
            >>> import torch
            >>> from tensorclass import Ragged
            >>> Ragged([torch.zeros(2, 4), torch.zeros(1, 4)]).item_shape
            torch.Size([4])
        """
        return self._items.shape[1:] if isinstance(self._items, Tensor) else self._items.item_shape

    @property
    def ragged_dims(self) -> int:
        """The number of dimensions whose length differs: 1, or more where the items are ragged, too.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged.from_list([[[1], [2, 3]]], ragged_dims=2).ragged_dims
            2
        """
        return 1 if isinstance(self._items, Tensor) else 1 + self._items.ragged_dims

    @property
    def requires_grad(self) -> bool:
        """True if the items require gradients.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1.0]]).requires_grad
            False
        """
        return self._items.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let the items require gradients, in place.

        Args:
            requires_grad: Default: ``True``.

        Example:
            >>> from tensorclass import Ragged
            >>> rows = Ragged([[1.0, 2.0], [3.0]]).requires_grad_()
            >>> rows.sum().prod().backward()
            >>> rows.grad.tolist()
            [[3.0, 3.0], [3.0]]
        """
        self._items.requires_grad_(requires_grad)
        return self

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _operand(self, operand: Any) -> Any:
        """Return the operand of the items in order: of another column, or of a tensor over the batch."""
        if isinstance(operand, ItemNumbers):
            if is_batched(self._spans()):
                if operand._spans() is not self._spans():
                    span_functions.check_readable(self._spans())
                return operand._items
            theirs, spans = operand._packed()
            if operand._batch_size != self._batch_size:
                raise RuntimeError(
                    f"cannot combine Ragged of the batch sizes {list(self._batch_size)} and {list(operand._batch_size)}"
                )
            span_functions.check_lengths(self._spans(), spans, "Ragged")
            if operand.ragged_dims != self.ragged_dims:
                raise TypeError("cannot combine Ragged with different numbers of ragged dimensions")
            return theirs
        if isinstance(operand, Collection):
            raise TypeError(f"cannot combine a Ragged with a {type_name(operand)}")
        if is_array(operand):
            operand = torch.as_tensor(operand, device=self._device)
        if isinstance(operand, Tensor) and operand.ndim:
            size = self._batch_size
            ndim = len(size)
            try:
                whole = operand.expand(size + operand.shape[ndim:]) if operand.ndim >= ndim else operand.expand(size)
            except RuntimeError:
                raise RuntimeError(
                    f"a tensor operand of a Ragged has a value for each row: expected a shape that broadcasts to "
                    f"{list(size)}, got {list(operand.shape)}"
                ) from None
            if operand.ndim - ndim > len(self.item_shape):
                raise RuntimeError(
                    f"a tensor operand of a Ragged has a value for each row: expected at most "
                    f"{ndim + len(self.item_shape)} dimensions, got the shape {list(operand.shape)}; for one value for "
                    "each item, give a Ragged: Ragged.from_lengths(values, rows.lengths)"
                )
            rows = span_functions.row_numbers(self._spans())
            flat = whole.reshape(-1, *whole.shape[ndim:]).index_select(0, rows)
            more = len(self.item_shape) - (flat.ndim - 1)
            return flat.reshape(flat.shape + (1,) * more) if more > 0 else flat
        return operand

    def _own_operands(self, operand: Any) -> Iterator[Any]:
        held = self._operand(operand)
        if isinstance(held, ItemNumbers):
            yield from held._leaves()
        else:
            yield held

    def _on_numbers(
        self, operation: Callable[..., Any], in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        items, spans = self._packed()
        args = tuple([self._operand(arg) for arg in args])
        kwargs = {key: self._operand(arg) for key, arg in kwargs.items()}
        if in_place:  # on a copy, since others can share the buffer
            new = self.clone()
            if number_result(operation, new._items, args, kwargs) is NotImplemented:
                return NotImplemented
            self._become(new)
            return self
        below = number_result(operation, items, args, kwargs)
        if below is NotImplemented:
            return below
        return self._of(below, spans if self._is_compact else self._packed_spans(), self._names, compact=True)

    # -- a leaf with a tensor -----------------------------------------------------------------------------------------

    def _wrapped_tensor(self) -> Tensor:
        items = self._packed()[0]
        return items if isinstance(items, Tensor) else items._wrapped_tensor()

    def _with_tensor(self, tensor: Any) -> Self:
        """Return the same rows over other items. Raise a ``ValueError`` if these are not as many."""
        items = self._packed()[0]
        below = tensor if isinstance(items, Tensor) else items._with_tensor(tensor)
        if len(below) != len(items):
            raise ValueError(f"expected {len(items)} items, as many as the rows have, got {len(below)}")
        return self._with_items(below)

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        self._become(self._with_leaves(leaves))

    def detach(self) -> Self:
        """Return the rows without gradients, on the same memory.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1.0]]).requires_grad_().detach().requires_grad
            False
        """
        return self._over(self._items.detach())

    def _over(self, items: Items) -> Self:
        """Return the same rows over a buffer of as many items."""
        new = self._shallow()
        new._items = items
        return new

    def _plain(self) -> Self:
        return self._over(self._items.data if isinstance(self._items, Tensor) else self._items._plain())

    def _gradient(self) -> Self | None:
        gradient = self._items.grad if isinstance(self._items, Tensor) else self._items._gradient()
        return None if gradient is None else self._over(gradient)

    def _set_gradient(self, value: Collection | None) -> None:
        self._items.grad = None if value is None else self._operand(value)

    def _each(self, function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Self:
        items = self._packed()[0]
        below = (
            function(items, *args, **kwargs) if isinstance(items, Tensor) else items._each(function, *args, **kwargs)
        )
        return self._with_items(below)

    def _fill(self, item: Any, value: Any) -> None:
        """Write one value into all items of some rows."""
        if not isinstance(self._items, Tensor):
            raise TypeError("a number cannot be written into rows whose items are ragged")
        if isinstance(value, Tensor) and value.ndim:
            raise TypeError(
                "a tensor cannot be written into the items of ragged rows; write a Ragged or a list of rows"
            )
        new = self.clone()
        chosen = new._spans()[item]
        assert isinstance(new._items, Tensor)
        new._items.index_fill_(0, span_functions.positions(chosen), value)
        self._become(new)

    def _viewed(self, dtype: torch.dtype, batch_size: Size | None = None) -> Any:
        return self._in_size(self._with_items(self._packed()[0].view(dtype)), batch_size)

    # -- reductions along rows -----------------------------------------------------------------------------------------

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
_BY_ROWS: dict[Any, Callable[[ItemNumbers], Tensor]] = {
    torch.sum: ItemNumbers.sum,
    torch.mean: ItemNumbers.mean,
    torch.amax: ItemNumbers.max,
    torch.amin: ItemNumbers.min,
}
