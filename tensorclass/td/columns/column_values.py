"""Make the column of a declared field from the values that users give: lists, arrays, one row, another column."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, NamedTuple, cast

import torch
from torch import Size, Tensor

from tensorclass.td.collection import Collection
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.value_checks import is_array

from .buffer_column import BufferColumn
from .column import Column, as_column
from .item_types import predicate
from .ragged import Ragged, as_ragged
from .text import Text, as_text


class DefaultRow(NamedTuple):
    """The default of a field that is one row: each row of a batch gets it."""

    row: Any
    #: makes the default of a further row, which can be another object
    make: Callable[[], Any]


class Declared(NamedTuple):
    """The declaration of a column: ``Text``, ``Ragged[Int[Tensor, "n"]]``, ``Column[list[str]]``."""

    #: Text, Ragged, Column, or a subclass of one
    cls: type[BufferColumn | Column[Any]]
    #: the annotation of the objects of a Column
    item_type: Any = Any
    #: the number of dimensions of a Ragged whose length differs
    ragged_dims: int = 1
    #: the dtype of a Ragged that is made from rows without items; ``None``: torch's default
    empty_dtype: torch.dtype | None = None
    #: the number of dimensions of an item of a Ragged
    item_ndim: int = 0
    #: the shape of an item of a Ragged that is made from rows without items; ``None``: a number
    empty_shape: tuple[int, ...] | None = None

    def implied_size(self, value: Any) -> Size | None:
        """Return the batch size that a value has by itself; ``None`` if it could be that of any batch."""
        if isinstance(value, Collection):
            return value._batch_size
        if value is None or isinstance(value, DefaultRow) or (isinstance(value, str) and issubclass(self.cls, Text)):
            return None
        if self._is_row(value):
            return Size(())
        if is_array(value):
            return Size(value.shape) if value.dtype == object or issubclass(self.cls, Text) else Size(value.shape[:1])
        return Size((len(value),)) if isinstance(value, Sized) else None

    def default(self, make: Callable[[], Any]) -> Any:
        """Return the default of a field, as a :class:`DefaultRow` unless it has rows itself.

        Args:
            make: makes the default: rows, one row, or a column without batch dimensions.
        """
        value = make()
        return DefaultRow(value, make) if self._can_be_row(value) else value

    def _can_be_row(self, value: Any) -> bool:
        """Return whether a default is one row: where it has no items, it could also be a batch without rows."""
        if value is None or issubclass(self.cls, Text):  # one text is for all rows
            return False
        if isinstance(value, Collection):
            return not value._batch_size
        if issubclass(self.cls, Column) and predicate(self.item_type) is None:
            return True
        return self._is_row(value) or (issubclass(self.cls, Ragged) and _depth_of(value) == (1, False))

    def made(self, value: Any, batch_size: Size) -> Any:
        """Return a value as a column of a batch size.

        Raises:
            TypeError: the value is no column and no rows, or a row has another type.
            ValueError: the rows do not fit together.
        """
        if issubclass(self.cls, Text):
            column: Any = as_text(value)
            if not column._batch_size and batch_size:  # one string for all rows
                column = column.expand(batch_size)
        elif isinstance(value, DefaultRow):
            column = self._rows_of_default(value, batch_size)
        elif issubclass(self.cls, Ragged):
            column = self._ragged(value, batch_size)
        elif isinstance(value, NonTensorDataBase):
            column = as_column(value, self.item_type)
        else:
            one_row = not batch_size
            column = as_column([value] if one_row else value, self.item_type, Size((1,)) if one_row else batch_size)
            column = column._index_value(0) if one_row else column
        return self.in_class(column)

    def in_class(self, column: Any) -> Any:
        """Return the column as one of the declared class if that is a subclass of its own."""
        made: Any = column.__class__
        if made is self.cls or not issubclass(self.cls, made):
            return column
        cls: Any = self.cls
        if issubclass(made, BufferColumn):
            return cls._of(column._items, column._spans(), column._names, compact=column._is_compact)
        return cls._of(column._objects, column._codes(), column._item_type, column._device, column._names)

    def _rows_of_default(self, default: DefaultRow, batch_size: Size) -> Any:
        if issubclass(self.cls, Ragged):
            return self._ragged(default.row, Size(())).expand(batch_size)
        count = batch_size.numel()
        rows = [default.row, *[default.make() for _ in range(count - 1)]][:count]
        items: list[Any] = [row.item() if isinstance(row, Column) else row for row in rows]  # pyright: ignore[reportUnknownMemberType]
        return as_column(items, self.item_type).reshape(batch_size)

    def _ragged(self, value: Any, batch_size: Size) -> Any:
        if isinstance(value, NonTensorDataBase):
            value = value.tolist()
        if not batch_size and not isinstance(value, Ragged):
            rows = value if isinstance(value, Tensor) and value.is_nested else [value]
            return self._typed(as_ragged(rows, ragged_dims=self.ragged_dims))._index_value(0)
        return self._typed(as_ragged(value, ragged_dims=self.ragged_dims))

    def _typed(self, column: Ragged[Any]) -> Ragged[Any]:
        """Return the column in the declared dtype and item shape if it has no items, which would show them."""
        items: Any = column.values
        while isinstance(items, Ragged):
            items = items.values
        if len(items):
            return column
        dtype, shape = self.empty_dtype or items.dtype, (0, *(items.shape[1:] or self.empty_shape or ()))
        if items.dtype == dtype and items.shape == shape:
            return column
        return column.map_values(lambda nothing: nothing.new_empty(shape, dtype=dtype))

    def _is_row(self, value: Any) -> bool:
        """Return whether a value is one row, not a sequence of rows."""
        if issubclass(self.cls, Ragged):
            if isinstance(value, Tensor) and value.is_nested:
                return False
            depth, has_items = _depth_of(value)
            return has_items and 0 < depth <= self.ragged_dims + self.item_ndim
        if issubclass(self.cls, Column):
            fits = predicate(self.item_type)
            return fits is not None and fits(value)
        return False


def _depth_of(value: Any) -> tuple[int, bool]:
    """Return how deep lists and arrays are nested, and whether they have items, so that they cannot be deeper."""
    if isinstance(value, Tensor) or (is_array(value) and value.dtype != object):
        return value.ndim, value.ndim > 0
    if is_array(value):
        return _depth_of(value.tolist())
    if not isinstance(value, (list, tuple)):
        return 0, not isinstance(value, (Collection, str, Sized))
    deepest = 0
    for below in cast("Sequence[Any]", value):
        if below is not None:
            depth, has_items = _depth_of(below)
            if has_items:
                return depth + 1, True
            deepest = max(deepest, depth)
    return deepest + 1, False
