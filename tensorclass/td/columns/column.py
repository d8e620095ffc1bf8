""":class:`Column`: an object of one type for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeGuard, overload

import torch
from torch import Size, Tensor
from typing_extensions import Self, TypeVar

from tensorclass.support.printable import type_name
from tensorclass.td import shapes
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.leaves.nontensor import CODES, NonTensorStack, stack_of
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.leaves.object_codes import (
    Deferred,
    codes_row_by_row,
    drop_unused,
    flatten_lists,
    join_objects,
    to_lists,
)
from tensorclass.td.prepared_index import prepare_index
from tensorclass.td.printing.text_previews import object_text
from tensorclass.td.safe_unpickling import allow_class, allow_function

from . import column_nodes
from .column_repr import describe_column, rows_in_line
from .item_types import decoded, encoded, predicate, shown

if TYPE_CHECKING:
    from tensorclass.td.collection import Store
    from tensorclass.td.indexing import Index
    from tensorclass.td.shapes import Names

    from .column_inputs import ColumnRows

T = TypeVar("T", default=Any)


class Column(NonTensorStack, Generic[T]):
    """An object for each row of a batch: lists, enums, paths, or anything else of one type.

    It is a value of a collection like a tensor. It always has an object for each row, also where all of them are equal,
    and a list is an object, not a dimension of the batch. ``column[3]`` and iteration give objects; every other index
    gives a Column.

    Args:
        items: the objects, nested in lists for each batch dimension after the first.
        item_type: the annotation that objects fit, such as ``list[str]``. Default: any object.
        batch_size: the batch size, which says how deep ``items`` are nested. Default: ``[len(items)]``.
        device: the device of the collection that it belongs to. Objects are not moved.
        names: a name or ``None`` for each batch dimension.

    Raises:
        TypeError: an object does not fit the type. The message names the row.
        ValueError: the nesting does not fit the batch size.

    Example:
        >>> from tensorclass import Column
        >>> tags = Column([["u"], ["v", "w"]], list[str])
        >>> tags[1], tags[:1].tolist()
        (['v', 'w'], [['u']])
    """

    __slots__ = ("_item_type",)

    _row_reader = ".item()"
    _CONTENT_HINT = "; read its objects with tolist()"

    _item_type: Any

    if TYPE_CHECKING:
        # Checkers ask a field for these, as for any descriptor: constructors and assignments take what people have.
        def __get__(self, record: object, owner: Any = None) -> Self: ...
        def __set__(self, record: Any, value: ColumnRows[T] | None) -> None: ...

    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        self,
        items: Iterable[T],
        item_type: Any = Any,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        listed = list(items)
        size = Size((len(listed),)) if batch_size is None else shapes.as_size(batch_size)
        if len(size) != 1:
            flat, lengths = flatten_lists(listed, len(size)) if size else (listed, [])
            if tuple(lengths) != tuple(size) or (not size and len(flat) != 1):
                raise ValueError(f"Column: expected lists nested to the batch size {list(size)}, got lengths {lengths}")
            listed = list(flat)
        elif len(listed) != size[0]:
            raise ValueError(f"Column: expected {size[0]} objects, got {len(listed)}")
        _check_items(listed, item_type)
        codes, own_names = codes_row_by_row(size), shapes.as_names(names, len(size))
        self._begin_with(tuple(listed), {CODES: codes}, size, as_device(device), own_names)
        self._item_type = item_type

    @classmethod
    def _of(
        cls, objects: Sequence[Any], codes: Tensor, item_type: Any, device: torch.device | None, names: Names
    ) -> Self:
        """Return a column of objects and codes. Nothing is checked."""
        new = object.__new__(cls)
        new._begin_with(objects, {CODES: codes}, codes.shape, device, names)
        new._item_type = item_type
        return new

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        column_nodes.register_column(cls)

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Any:
        return self._of(self._objects, store[CODES], self._item_type, self._device, names)  # type: ignore[arg-type]

    def _same(self, store: Store) -> Self:
        new: Self = self._like(store, self._batch_size, self._names)
        new._metadata = self._metadata
        return new

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def item_type(self) -> Any:
        """The annotation that objects fit.

        Example:
            >>> from tensorclass import Column
            >>> Column([1, 2], int).item_type
            <class 'int'>
        """
        return self._item_type

    @overload  # type: ignore[override]
    def __getitem__(self, index: int) -> T: ...  # type: ignore[overload-overlap]  # an int is an Index, too
    @overload
    def __getitem__(self, index: Index) -> Self: ...
    def __getitem__(self, index: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # has no keys
        """Return the object of one row, or a column of several.

        An index that leaves no batch dimension gives the object.
        """
        rows = self._index_value(index)
        return rows.item() if not rows._batch_size and self._batch_size else rows

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Iterate over the objects of a batch with one dimension, else over the rows of the first."""
        rows: Any = self.tolist() if len(self._batch_size) == 1 else super().__iter__()
        return iter(rows)

    def __contains__(self, item: object) -> bool:
        return item in (flatten_lists(self.tolist(), self.ndim)[0] if self._batch_size else self._no_rows())

    def keys(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: a column has no keys, and ``dict(column)`` would be empty.

        Args:
            args: ignored.
            kwargs: ignored.

        Raises:
            TypeError: always.

        Example:
            >>> from tensorclass import Column
            >>> dict(Column(["a"]))
            Traceback (most recent call last):
                ...
            TypeError: a Column has no keys; read its objects with tolist()
        """
        raise TypeError(f"a {type_name(self)} has no keys{self._CONTENT_HINT}")

    if TYPE_CHECKING:

        def values(self, *args: Any, **kwargs: Any) -> NoReturn: ...
        def items(self, *args: Any, **kwargs: Any) -> NoReturn: ...

    else:
        values = items = keys

    def item(self) -> T:
        """Return the object of one row.

        Raises:
            ValueError: this is a batch of rows.

        Example:
            >>> from tensorclass import Column
            >>> Column([["u"], ["v"]])[:1].reshape(()).item()
            ['u']
        """
        if self._batch_size:
            raise ValueError(f"item(): expected one row, got the batch size {list(self._batch_size)}; use tolist()")
        return self._objects[int(self._codes())]  # type: ignore[no-any-return]

    def _as_read(self) -> Any:
        return self

    def __repr__(self) -> str:
        return describe_column(self)

    def _row_texts(self, count: int, width: int) -> list[str]:
        rows = self._index_value(slice(None, count)).tolist() if self._batch_size else [self.item()]
        return [object_text(row, width) for row in rows]

    def _type_for_repr(self) -> str:
        return "Column" if self._item_type is Any else f"Column[{shown(self._item_type)}]"

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        return rows_in_line(self, width, count, 24)

    # -- writing ------------------------------------------------------------------------------------------------------

    def __setitem__(self, index: Any, value: Any) -> None:
        prepared = prepare_index(index, self._batch_size, writing=True)
        size = shapes.indexed(self._batch_size, prepared)
        if not isinstance(value, NonTensorDataBase):
            value = (
                as_column(value, self._item_type, size) if size else Column([value], self._item_type)._index_value(0)
            )
        self._become(self._write(prepared, value))

    def _become(self, source: Any) -> None:
        if source is self:
            return
        if not _is_column_of(source, self._item_type):
            _check_items(_used(source), self._item_type)
        super()._become(source)

    def _take_content(self, source: Any) -> None:
        self._objects = source._objects
        self._store = {CODES: source._codes()}

    def _with_objects(self, objects: Sequence[Any], codes: Tensor) -> Any:
        return as_column(stack_of(objects, codes, self._device, None), self._item_type)

    def _as_held(self, source: NonTensorDataBase) -> NonTensorDataBase:
        return self._of(source._objects, source._codes(), self._item_type, self._device, self._names)

    def _allocated(self, batch_size: Size) -> Any:
        return self._of((None,), torch.zeros(batch_size, dtype=torch.int64), self._item_type, self._device, None)

    # -- joining ------------------------------------------------------------------------------------------------------

    def _joined_objects(self, items: list[Any], join: Callable[[list[Tensor]], Tensor], names: Names) -> Self:
        for item in items:
            if not _is_column_of(item, self._item_type):
                _check_items(_used(item), self._item_type)
        return self._of(*join_objects(items, join), self._item_type, self._device, names)

    def _check_padding(self, pairs: Sequence[tuple[int, int]]) -> None:
        fits = predicate(self._item_type)
        if any(count > 0 for pair in pairs for count in pair) and not (fits is None or fits(None)):
            kind = shown(self._item_type)
            raise TypeError(
                f"Column[{kind}]: padding adds rows without an object: declare it as Column[{kind} | None], or pad the "
                "collection without it"
            )

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        self._check_padding(pairs)
        return super()._padded(pairs, value)

    def map(self, function: Callable[[Any], Any], item_type: Any = None) -> Column[Any]:  # type: ignore[override]
        """Call a function with each object, and return its results as a Column.

        Args:
            function: takes an object.
            item_type: the annotation of results. Default: that of this column.

        Raises:
            TypeError: a result does not fit the type. The message names the row.

        Example:
            >>> from tensorclass import Column
            >>> Column([["u"], ["v", "w"]]).map(len).tolist()
            [1, 2]
        """
        kind = self._item_type if item_type is None else item_type
        results = [function(item) for item in _used(self)]
        _check_items(results, kind)
        return self._of(tuple(results), codes_row_by_row(self._batch_size), kind, self._device, self._names)

    def __reduce__(self) -> Any:
        objects, codes = drop_unused(self._objects, self._codes())
        return _rebuild, (objects, codes, encoded(self._item_type), self._device, self._names, self._lock is not None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = super().__deepcopy__(memo)
        new._item_type = self._item_type
        return new


@allow_function
def _rebuild(
    objects: Sequence[Any], codes: Tensor, item_type: Any, device: torch.device | None, names: Names, locked: bool
) -> Column[Any]:
    new = Column._of(objects, codes, decoded(item_type), device, names)
    if locked:
        new._lock_under(())
    return new


def as_column(data: Any, item_type: Any = Any, batch_size: Size | None = None) -> Column[Any]:
    """Make a :class:`Column` from a sequence of objects, or from another column.

    Args:
        data: a Column or other non-tensor data, or a sequence of objects, nested for each batch dimension after the
            first.
        item_type: the annotation that objects fit.
        batch_size: the batch size. Default: ``[len(data)]``.

    Raises:
        TypeError: the data is no sequence, or an object does not fit the type.

    Example:
        >>> from tensorclass import Column
        >>> as_column(["a", "b"], str).item_type
        <class 'str'>
    """
    given: Any = data
    if isinstance(data, NonTensorDataBase):
        if _is_column_of(data, item_type):
            return data
        objects = data._objects
        check = _checker(item_type)
        if isinstance(objects, Deferred) and check is not None:
            objects = objects.checked(check)
        else:
            _check_items(_used(data), item_type)
        return Column._of(objects, data._codes(), item_type, data._device, data._names)
    if isinstance(data, (str, bytes, dict, Tensor)) or not hasattr(data, "__iter__"):
        raise TypeError(f"Column: expected a sequence with an object for each row, got a {type_name(given)}")
    return Column(given, item_type, batch_size=batch_size)


def _is_column_of(data: object, item_type: Any) -> TypeGuard[Column[Any]]:
    return isinstance(data, Column) and data._item_type == item_type


def _used(data: NonTensorDataBase) -> list[Any]:
    """Return the objects of all positions in flat order."""
    objects = data._objects
    return [objects[code] for code in to_lists(data._codes().reshape(-1))]


def _check_items(items: Sequence[Any], item_type: Any) -> None:
    check = _checker(item_type)
    if check is not None:
        for row, item in enumerate(items):
            check(row, item)


def _checker(item_type: Any) -> Callable[[int, Any], None] | None:
    """Return a function that raises if an object does not fit a type; ``None`` if every object does."""
    fits = predicate(item_type)
    if fits is None:
        return None

    def check(row: int, item: Any) -> None:
        if not fits(item):
            raise TypeError(
                f"Column[{shown(item_type)}]: row {row}: expected {shown(item_type)}, got {type_name(item)} "
                f"{item!r:.80}"
            )

    return check


column_nodes.register_column(Column)
allow_class(Column)
