"""Non-tensor data: :class:`NonTensorStack`, and the functions that make and recognize values that are not tensors.

:class:`NonTensorData` is one object at every position of a batch. :class:`NonTensorStack` has an object for each
position, stored like a categorical column: the distinct objects, and a tensor of codes over the batch. Operations on
shapes act on the codes, as on the values of any collection; operations on numbers change nothing. Both classes are
holders: the result of an operation is another holder of the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import printable, type_name
from tensorclass.td import native, pytree, registry, shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.indexing import NO_DIMS, lies_in_files
from tensorclass.td.modes import LIST_TO_STACK
from tensorclass.td.printing.short_form import line_width
from tensorclass.td.printing.text_previews import ROWS, object_text, objects_text
from tensorclass.td.safe_unpickling import allow_class
from tensorclass.td.shapes import Names
from tensorclass.td.stack_and_cat import stack

from .leaf import RowByRow
from .linked_list import LinkedList
from .nontensor_base import NonTensorDataBase as NonTensorDataBase
from .nontensor_data import MetaData as MetaData
from .nontensor_data import NonTensorData as NonTensorData
from .object_codes import (
    MANY_TIMES,
    Deferred,
    codes_along,
    codes_row_by_row,
    drop_unused,
    flatten_lists,
    join_objects,
    look_up_lists,
    on_cpu,
    realize,
    same_object,
)

if TYPE_CHECKING:
    from tensorclass.td.collection import Store

#: objects of a stack that ``repr`` shows as they are
_SHOWN_OBJECTS = 16
CODES = "<codes>"  # a key that no user would write


class NonTensorStack(RowByRow, NonTensorDataBase):
    """An object for each position of a batch.

    Stacking or concatenating collections with different objects makes one, and so does setting a list with an object
    for each row. ``data["key"]`` returns nested lists; assigning their items writes into the data.

    Args:
        items: the objects, or non-tensor data of one batch size, along the new dimension.
        stack_dim: the position of the new dimension. Default: 0.
        batch_size: the expected batch size. Default: not checked.
        device: the device of the collection that it belongs to. Objects are not moved.
        names: a name or ``None`` for each batch dimension.
        stack_dim_name: the name of the new dimension.

    Example:
        >>> from tensorclass import TensorDict, stack
        >>> rows = stack([TensorDict({"text": text}) for text in ("a", "b", "a")])
        >>> rows["text"], rows[1]["text"], rows[::2]["text"]
        (['a', 'b', 'a'], 'b', ['a', 'a'])
    """

    __slots__ = ()

    _ROW = "an object"

    def __init__(
        self,
        *items: Any,
        stack_dim: int = 0,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        stack_dim_name: str | None = None,
    ) -> None:
        parts = [item if isinstance(item, NonTensorDataBase) else NonTensorData(item) for item in items]
        if not parts:
            objects: Sequence[Any] = ()
            codes = codes_row_by_row(Size((0,)))
        else:
            below = parts[0]._batch_size
            for position, part in enumerate(parts):
                if part._batch_size != below:
                    raise RuntimeError(
                        f"{type_name(self)}: all items need the same batch size; item 0 has {list(below)}, item "
                        f"{position} has {list(part._batch_size)}"
                    )
            dim = shapes.unsqueezed_dim(len(below), stack_dim)
            objects, codes = join_objects(parts, lambda codes: torch.stack(codes, dim))
            if stack_dim_name is not None:
                own: list[str | None] = [None] * codes.ndim if names is None else list(names)
                own[dim] = stack_dim_name
                names = own
        if batch_size is not None and shapes.as_size(batch_size) != codes.shape:
            raise RuntimeError(
                f"{type_name(self)}: expected the batch size {list(shapes.as_size(batch_size))}, the items have "
                f"{list(codes.shape)}"
            )
        self._begin_with(objects, {CODES: codes}, codes.shape, as_device(device), shapes.as_names(names, codes.ndim))

    @classmethod
    def from_list(cls, non_tensors: Sequence[Any]) -> NonTensorStack:  # type: ignore[override]
        """Return a stack of the objects in (nested) lists, down to the level at which lists differ in length.

        Args:
            non_tensors: the lists.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack.from_list([["a", "b"], ["c", "d"]]).batch_size
            torch.Size([2, 2])
        """
        flat, lengths = flatten_lists(list(non_tensors))
        if any(isinstance(item, NonTensorDataBase) for item in flat):
            return cls(*[cls.from_list([*item]) if isinstance(item, list) else item for item in non_tensors])
        return stack_of(tuple(flat), codes_row_by_row(Size(lengths)), None, None)

    @classmethod
    def from_nontensordata(cls, non_tensor: NonTensorDataBase) -> NonTensorDataBase:
        """Return a stack of one object at each position; the data itself if it has no batch dimensions.

        Args:
            non_tensor: the data.

        Example:
            >>> from tensorclass import NonTensorData, NonTensorStack
            >>> NonTensorStack.from_nontensordata(NonTensorData("a", batch_size=[2]))
            NonTensorStack(['a', 'a'], batch_size=torch.Size([2]), device=None)
        """
        if not non_tensor._batch_size:
            return non_tensor
        return stack_of(non_tensor._objects, non_tensor._codes(), non_tensor._device, non_tensor._names)

    # -- what it holds ------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """The object, if it is equal at all positions. Setting it writes an object to all positions.

        Raises:
            AttributeError: the objects differ. Use ``tolist()``.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> stack = NonTensorStack("a", "b")
            >>> stack.data = "c"
            >>> stack.data, stack.tolist()
            ('c', ['c', 'c'])
        """
        objects, _ = drop_unused(self._objects, self._codes())
        if objects and all(same_object(objects[0], value) for value in objects):
            return objects[0]
        raise AttributeError(
            f"data: the objects of this stack differ between positions of {list(self._batch_size)}; use tolist()"
        )

    @data.setter
    def data(self, value: Any) -> None:
        self._check_unlocked()
        self._become(self._as_held(NonTensorData(value, batch_size=self._batch_size)))

    def _unwrapped(self) -> Any:
        return self._listed()

    def _as_read(self) -> Any:
        return LinkedList(self._listed(), td=self, depth=len(self._batch_size))

    def _codes(self, start: int = 0) -> Tensor:
        codes = self._store[CODES]
        assert isinstance(codes, Tensor)
        return codes + start if start else codes

    def _listed(self) -> Any:
        return look_up_lists(self._codes(), realize(self._objects, self._batch_size.numel()))

    def maybe_to_stack(self) -> NonTensorStack:
        """Return this stack.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> rows = NonTensorStack("a", "b")
            >>> rows.maybe_to_stack() is rows
            True
        """
        return self

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        if not self._batch_size:
            return ""
        few = self._index_prepared((slice(ROWS),))._listed()
        return objects_text(few, count or self._batch_size[0], width)

    def _row_texts(self, count: int, width: int) -> list[str]:
        rows: list[Any] = self._index_prepared((slice(count),))._listed() if self._batch_size else []
        return [object_text(row, width) for row in rows]

    def _objects_for_repr(self) -> str:
        if self._batch_size.numel() <= _SHOWN_OBJECTS:
            return printable(repr(self._listed()), lines=True)
        return self._content_for_repr(line_width() - 20, 0)

    # -- the batch ----------------------------------------------------------------------------------------------------

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Any:
        if not batch_size:  # one object at one position
            return NonTensorData._of_rows(self._objects[int(store[CODES])], NO_DIMS, self._device)  # type: ignore[arg-type]
        return stack_of(self._objects, store[CODES], self._device, names, self._metadata)  # type: ignore[arg-type]

    def _index_value(self, index: Any) -> Any:
        if (type(index) is int or type(index) is slice) and self._names is None:
            codes = self._store[CODES][index]
            return self._like({CODES: codes}, codes.shape)
        return super().__getitem__(index)

    def _trimmed(self) -> Self:
        codes = self._codes()
        if isinstance(self._objects, Deferred) or MANY_TIMES * codes.numel() > len(self._objects):
            return self
        objects, codes = drop_unused(self._objects, codes)
        new = self._like({CODES: codes}, self._batch_size, self._names)
        new._objects = objects
        return new  # type: ignore[no-any-return]

    def _index_prepared(self, index: tuple[Any, ...]) -> Any:
        return super()._index_prepared(tuple([on_cpu(item) for item in index]))

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """Return the objects at each position of a batch dimension; see :meth:`TensorDict.unbind`.

        Args:
            dim: the batch dimension. Default: 0.

        Returns:
            Stacks without this dimension; :class:`NonTensorData` if there is no other. They share the objects.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> [row.data for row in NonTensorStack("a", "b").unbind()]
            ['a', 'b']
        """
        dim, like = shapes.wrap_dim(dim, len(self._batch_size)), self._like
        size = Size(shapes.without(self._batch_size, (dim,)))
        names = self._names and shapes.names_without(self._names, (dim,))
        return tuple([like({CODES: codes}, size, names) for codes in self._codes().unbind(dim)])

    def gather(self, dim: int, index: Tensor, out: Any = None, *, inplace: bool = False) -> Any:
        """Return the object at each index along a dimension, as :func:`torch.gather` does for numbers.

        Args:
            dim: the batch dimension.
            index: int64 positions along ``dim``, with as many dimensions as the batch.
            out: a stack of the index's shape to write into.
            inplace: without ``out``, replace the objects of this stack by the result. Default: ``False``.

        Returns:
            A stack of the shape of ``index``; ``out`` or this stack if it was written into.

        Example:
            >>> import torch
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack("a", "b").gather(0, torch.tensor([1, 1, 0])).tolist()
            ['b', 'b', 'a']
        """
        return super().gather(dim, index.cpu(), out, inplace=inplace)

    def _called(self) -> str:
        return "this stack"

    def _without_value(self, batch_size: Size) -> Any:
        return NonTensorData._of_rows(None, batch_size, self._device)

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._without_value(Size(shapes.as_sequence(size)))

    # -- writing ------------------------------------------------------------------------------------------------------

    def _as_held(self, source: NonTensorDataBase) -> NonTensorDataBase:
        return NonTensorStack.from_nontensordata(source)

    def _written(self, new: NonTensorDataBase) -> Collection:
        self._become(new)
        return self

    @property
    def stack_dim(self) -> int:
        """The dimension along which :attr:`tensordicts` lie: 0.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack("a", "b").stack_dim
            0
        """
        return 0

    @property
    def tensordicts(self) -> list[Any]:
        """The slices along the first dimension.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> [item.data for item in NonTensorStack("a", "b").tensordicts]
            ['a', 'b']
        """
        return list(self.unbind(0))

    def append(self, item: Any) -> None:
        """Append an object to the first dimension, in place.

        Args:
            item: the object, or non-tensor data of the batch size of a row.

        Raises:
            RuntimeError: the stack is locked, or the batch size of ``item`` differs from that of a row.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> rows = NonTensorStack("a", "b")
            >>> rows.append("c")
            >>> rows.tolist()
            ['a', 'b', 'c']
        """
        self.insert(len(self), item)

    def extend(self, items: Iterable[Any]) -> None:
        """Append several objects to the first dimension, in place.

        Args:
            items: the objects, or non-tensor data of the batch size of a row.

        Raises:
            RuntimeError: the stack is locked, or the batch size of an item differs from that of a row.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> rows = NonTensorStack("a")
            >>> rows.extend(["b", "c"])
            >>> rows.tolist()
            ['a', 'b', 'c']
        """
        self._insert("extend", len(self), list(items))

    def insert(self, index: int, item: Any) -> None:
        """Insert an object before a position of the first dimension, in place.

        Args:
            index: the position; negative ones count from the end.
            item: the object, or non-tensor data of the batch size of a row.

        Raises:
            RuntimeError: the stack is locked, or the batch size of ``item`` differs from that of a row.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> rows = NonTensorStack("a", "c")
            >>> rows.insert(1, "b")
            >>> rows.tolist()
            ['a', 'b', 'c']
        """
        self._insert("insert", index, [item])

    def _insert(self, what: str, index: int, items: list[Any]) -> None:
        """Insert rows before a position of the first dimension, in place."""
        self._check_unlocked()
        size = self._batch_size[1:]
        rows: list[Any] = []
        if any(isinstance(item, NonTensorDataBase) for item in items):
            for item in items:
                row = item if isinstance(item, NonTensorDataBase) else NonTensorData(item, batch_size=size)
                if row._batch_size != size:
                    raise RuntimeError(
                        f"{what}: expected the batch size {list(size)} of a row, got {list(row._batch_size)}"
                    )
                rows.append(row[None])
        elif items:
            rows = [stack_of(tuple(items), codes_along(0, Size((len(items), *size))), None, None)]
        parts = join_objects([self[slice(None, index)], *rows, self[slice(index, None)]], torch.cat)
        self._become(stack_of(*parts, None, None))
        self._batch_size = parts[1].shape

    def __reduce__(self) -> Any:
        rebuild, args = super().__reduce__()
        objects, codes = drop_unused(self._objects, self._codes())
        return rebuild, (args[0], objects, {CODES: codes}, *args[3:])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = super().__deepcopy__(memo)
        new._store = {CODES: self._codes().clone()}
        return new


def stack_of(
    objects: Sequence[Any],
    codes: Tensor,
    device: torch.device | None,
    names: Names,
    metadata: dict[Any, Any] | None = None,
) -> NonTensorStack:
    """Return a NonTensorStack of objects and codes. Nothing is checked."""
    new = object.__new__(NonTensorStack)
    new._store = {CODES: codes}
    new._batch_size = codes.shape
    new._device = device
    new._names = names
    new._lock = None
    new._objects = objects
    new._metadata = metadata
    return new


def is_non_tensor(data: object) -> bool:
    """Return whether an object is non-tensor data, as collections store it.

    Args:
        data: any object.

    Example:
        >>> from tensorclass import NonTensorData, is_non_tensor
        >>> is_non_tensor(NonTensorData("a")), is_non_tensor("a")
        (True, False)
    """
    return isinstance(data, NonTensorDataBase)


def is_leaf_nontensor(cls: type) -> bool:
    """Return whether a class is that of a leaf: a tensor, text or another object.

    Use it as ``is_leaf=`` of ``keys`` and of other methods.

    Example:
        >>> from tensorclass import TensorDict, is_leaf_nontensor
        >>> list(TensorDict({"text": "a", "n": {"x": 1}}).keys(True, True, is_leaf=is_leaf_nontensor))
        ['text', ('n', 'x')]
    """
    return issubclass(cls, NonTensorDataBase) or not issubclass(cls, Collection)


def non_tensor(value: Any, batch_size: Size, device: torch.device | None, names: Names) -> Any:
    """Return the stored form of an object.

    A list with one object for each row of the batch becomes a stack; nested lists give an object for each position of
    several dimensions. A list of collections is stacked. Anything else is one object for the whole batch.
    :class:`set_list_to_stack` changes this.
    """
    given: Any = value
    if isinstance(value, list) and (column := as_column(given, batch_size)) is not None:
        return column
    shapes.check_size(batch_size)
    return NonTensorData._of_rows(value, batch_size, device, names)


def as_column(value: list[Any], batch_size: Size) -> Any:
    """Return a list as a stack or a stacked collection; ``None`` if it is one object."""
    mode = LIST_TO_STACK.current()
    if mode is False:
        return None
    if value and all(isinstance(item, Collection) for item in value):
        if mode or (batch_size and len(value) == batch_size[0]):
            return stack(value)
        return None
    if mode:
        return NonTensorStack.from_list(value)
    flat, lengths = flatten_lists(value, len(batch_size))
    depth = 0
    while depth < len(lengths) and lengths[depth] == batch_size[depth]:
        depth += 1
    if not depth or not flat:
        return None
    if depth < len(lengths):
        flat, lengths = flatten_lists(value, depth)
    codes = codes_row_by_row(Size(lengths)).reshape(*lengths, *(1,) * (len(batch_size) - depth))
    return stack_of(tuple(flat), codes.expand(batch_size), None, None)


def note_files(data: Any) -> Any:
    """Mark the objects of a loaded collection if writes to its tensors go to files, and return the collection."""
    for node in data._all_nodes() if lies_in_files(data) else ():
        if isinstance(node, NonTensorDataBase):
            node._in_file = True
    return data


registry.register(stack_of, non_tensor)
native.tell("bind_objects", NonTensorData, NonTensorStack, CODES)
pytree.register(NonTensorStack)
allow_class(NonTensorStack)
