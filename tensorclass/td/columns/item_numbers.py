"""The items of ragged rows as numbers: dtype, gradients, and the operations of collections that act on items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.leaves.number_operations import NumberLeaf, number_result
from tensorclass.td.tracing import is_batched
from tensorclass.td.value_checks import is_array

from .buffer_column import BufferColumn

if TYPE_CHECKING:
    from .buffer_column import Items


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
