"""Values that are not tensors: text, objects, ``None``.

:class:`NonTensorData` is one object at every position of a batch. :class:`NonTensorStack` has an object for each
position, stored like a categorical column: the distinct objects, and a tensor of codes over the batch. Operations on
shapes act on the codes, as on the values of any collection; operations on numbers change nothing. Both classes are
holders: the result of an operation is another holder of the same objects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.td import native, pytree, registry, shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.indexing import NO_DIMS
from tensorclass.td.printing.representations import failed_text
from tensorclass.td.printing.short_form import line_width
from tensorclass.td.printing.text_previews import ROWS, for_all_rows, object_text, objects_text
from tensorclass.td.safe_unpickling import allow_class
from tensorclass.td.shapes import Names
from tensorclass.td.stack_and_cat import _shared_names

from .content import register_kind
from .linked_list import LinkedList
from .nontensor_base import NonTensorDataBase
from .object_codes import (
    CPU,
    MANY_TIMES,
    Deferred,
    codes_along,
    codes_row_by_row,
    drop_unused,
    fill_lists,
    flatten_lists,
    join_objects,
    look_up_lists,
    on_cpu,
    realize,
    same_object,
)
from .row_independent import Uniform

if TYPE_CHECKING:
    from tensorclass.td.collection import Store
    from tensorclass.td.keys import NestedKey

__all__ = [
    "MetaData",
    "NonTensorData",
    "NonTensorDataBase",
    "NonTensorStack",
    "is_leaf_nontensor",
    "is_non_tensor",
    "stack_of",
]

#: objects of a stack that ``repr`` shows as they are
_SHOWN_OBJECTS = 16
CODES = "<codes>"  # a key that no user would write


@dataclasses.dataclass
class _Arguments:
    """The arguments of NonTensorData that every library of records would call fields."""

    data: Any
    _metadata: dict[Any, Any] | None = None
    _is_non_tensor: bool = True


class NonTensorData(Uniform, NonTensorDataBase):
    """One object at every position of a batch.

    ``data["key"] = obj`` makes one for any object that is not a tensor. ``data["key"]`` returns the object,
    ``data.get("key")`` the holder.

    Args:
        data: the object; for other NonTensorData, the object that it holds.
        _metadata: a dict about the object for the program's own use. Operations keep it, pytrees do not.
        _is_non_tensor: must be ``True``.
        batch_size: the batch size. Default: none.
        device: the device of the collection that it belongs to. The object is not moved.
        names: a name or ``None`` for each batch dimension.

    Example:
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"text": "hello"}, [3])
        >>> data["text"], data[0]["text"], data.get("text").batch_size
        ('hello', 'hello', torch.Size([3]))
    """

    __slots__ = ()

    def __init__(
        self,
        data: Any,
        _metadata: dict[Any, Any] | None = None,
        _is_non_tensor: bool = True,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        if not _is_non_tensor:
            raise ValueError(f"{type_name(self)}: _is_non_tensor can only be True")
        if isinstance(data, NonTensorDataBase):
            data = data.data
        self._store = {}
        self._batch_size = shapes.as_size(batch_size)
        self._device = as_device(device)
        self._names = shapes.as_names(names, len(self._batch_size))
        self._lock = None
        self._objects = (data,)
        self._metadata = _metadata

    @classmethod
    def _of_rows(cls, data: Any, batch_size: Size, device: torch.device | None = None, names: Names = None) -> Self:
        """Make the holder of an object in a collection with this metadata, without checks."""
        new = object.__new__(cls)
        new._store = {}
        new._batch_size = batch_size
        new._device = device
        new._names = names
        new._lock = None
        new._objects = (data,)
        new._metadata = None
        return new

    @property
    def data(self) -> Any:
        """The object.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[3]).data
            'a'
        """
        return self._objects[0]

    @data.setter
    def data(self, value: Any) -> None:
        self._check_unlocked()
        self._check_objects((value,))
        self._objects = (value,)

    def _unwrapped(self) -> Any:
        return self._objects[0]

    _as_read = _unwrapped

    def get(self, key: NestedKey, default: Any = None, **forms: Any) -> Any:
        """Return the object for the key ``"data"``, and ``default`` for all other keys.

        Args:
            key: the key.
            default: returned for other keys. Default: ``None``.
            forms: ignored.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").get("data")
            'a'
        """
        return self._objects[0] if key == "data" else default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object, for one that is a function."""
        return self._objects[0](*args, **kwargs)

    @classmethod
    def fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """Return the arguments of the constructor as dataclass fields. The peer has marked this method deprecated.

        Example:
            >>> from tensorclass import NonTensorData
            >>> [field.name for field in NonTensorData.fields()]
            ['data', '_metadata', '_is_non_tensor']
        """
        return dataclasses.fields(_Arguments)

    def extend(self, tensordict: Iterable[Any]) -> None:
        """Raise: one object for all rows has no rows to add to. :meth:`NonTensorStack.extend` has.

        Args:
            tensordict: not used.

        Raises:
            AttributeError: always.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").extend(["b"])
            Traceback (most recent call last):
            AttributeError: NonTensorData.extend: this is one object for all rows, ...
        """
        raise AttributeError(
            f"{type_name(self)}.extend: this is one object for all rows, to which none can be added; make a stack "
            "of it first, NonTensorStack.from_nontensordata(data), or join both, torch.cat([data, other])"
        )

    def _codes(self, start: int = 0) -> Tensor:
        return torch.full(self._batch_size, start, dtype=torch.long, device=CPU)

    def _listed(self) -> Any:
        return fill_lists(self._objects[0], self._batch_size)

    @classmethod
    def from_tensordict(
        cls,
        tensordict: Collection | Mapping[str, Any],
        non_tensordict: Mapping[str, Any] | None = None,
        safe: bool | None = None,
    ) -> Self:
        """Return the object under the key ``"data"`` as non-tensor data, with the metadata of its collection.

        Args:
            tensordict: the collection, whose batch size, device and names are taken. Without the key the object is
                ``None``.
            non_tensordict: a mapping whose ``"data"`` is used instead.
            safe: ``False`` accepts a mapping as ``tensordict``, too.

        Returns:
            A new holder of the same object.

        Raises:
            ValueError: there are other keys.
            TypeError: ``tensordict`` is not a collection.

        Example:
            >>> from tensorclass import NonTensorData, TensorDict
            >>> NonTensorData.from_tensordict(TensorDict({}, [2]), {"data": "a"}).tolist()
            ['a', 'a']
        """
        source: Any = tensordict
        if isinstance(source, Collection):
            metadata: tuple[Any, ...] = (source._batch_size, source._device, source._names)
            found: Any = source._store
        elif safe is False and isinstance(source, Mapping):
            metadata, found = (None, None, None), tensordict
        else:
            raise TypeError(f"from_tensordict: expected a collection, got a {type_name(source)}")
        items: dict[Any, Any] = {**found, **(non_tensordict or {})}
        if unexpected := [key for key in items if key != "data"]:
            raise ValueError(f"{class_name(cls)}: the only key is 'data'; unexpected: {unexpected}")
        size, device, names = metadata
        return cls(items.get("data"), batch_size=size, device=device, names=names)

    def maybe_to_stack(self) -> NonTensorDataBase:
        """Return a :class:`NonTensorStack` with the object at each position; this data if it has no batch dimensions.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).maybe_to_stack()
            NonTensorStack(['a', 'a'], batch_size=torch.Size([2]), device=None)
        """
        return NonTensorStack.from_nontensordata(self) if self._batch_size else self

    def _type_for_repr(self) -> str:
        name = type_name(self._objects[0])
        return "None" if name == "NoneType" else name

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        value = self._objects[0]
        return for_all_rows(lambda room: "" if value is None else object_text(value, room), width, ndim).strip()

    def __repr__(self) -> str:
        try:
            head = f"{type_name(self)}(data={printable(repr(self._objects[0]), lines=True)}"
            return f"{head}, batch_size={self._batch_size}, device={self._device})"
        except Exception as error:  # half-constructed, or an object whose repr raises
            return failed_text(self, error)

    # -- the batch ----------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        size = self._batch_size
        if type(index) is int and size and -size[0] <= index < size[0]:
            size = NO_DIMS if len(size) == 1 else size[1:]
            return self._like({}, size, None if self._names is None else self._names[1:] or None)
        return super().__getitem__(index)

    _at = __getitem__  # type: ignore[assignment]

    def _as_held(self, source: NonTensorDataBase) -> NonTensorDataBase:
        return source._like({}, self._batch_size) if isinstance(source, NonTensorData) else source

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._like({}, Size(shapes.as_sequence(size)))

    def unsqueeze(self, dim: int) -> Any:
        """Return the data with another batch dimension of size 1.

        Args:
            dim: the position of the new dimension; negative ones count from the end.

        Returns:
            NonTensorData; a NonTensorStack if :class:`set_capture_non_tensor_stack` is ``False``.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a", batch_size=[2]).unsqueeze(0).batch_size
            torch.Size([1, 2])
        """
        new = super().unsqueeze(dim)
        return new if self._captures() else new.maybe_to_stack()

    def expand(self, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Any:
        """Return the data with batch dimensions of size 1 expanded, and new dimensions in front.

        Args:
            shape: the new batch size, as ints or as one sequence; ``-1`` keeps a size.
            size: the same by keyword.

        Returns:
            NonTensorData; a NonTensorStack if :class:`set_capture_non_tensor_stack` is ``False`` and the batch size
            changes.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").expand(2).tolist()
            ['a', 'a']
        """
        new = super().expand(*shape, size=size)
        return new if self._captures() or new._batch_size == self._batch_size else new.maybe_to_stack()

    # -- combining ----------------------------------------------------------------------------------------------------

    def _same_as(self, value: Any) -> bool:
        """Return whether an object counts as equal to this one's."""
        return same_object(self._objects[0], value)

    def _one(self, items: list[Any]) -> bool:
        cls, own = self.__class__, self._objects[0]
        return all(
            item.__class__ is cls and (item._objects[0] is own or self._same_as(item._objects[0])) for item in items
        )

    def _stack(self, items: list[Any], dim: int) -> Any:
        size, cls = self._batch_size, self.__class__
        objects: list[Any] = []
        for item in items:
            if item.__class__ is not cls or item._batch_size != size:
                return super()._stack(items, dim)  # handles several classes, and raises
            objects.append(item._objects[0])
        names = self._names and shapes.names_inserted(_shared_names(items), dim)
        size = shapes.inserted(size, dim, len(items))
        own = self._objects[0]
        for value in objects:
            if value is not own and not self._same_as(value):
                break
        else:
            if self._captures():
                return self._like({}, size, names)
        return stack_of(tuple(objects), codes_along(dim, size), self._device, names)


class MetaData(NonTensorData):
    """One object about a batch as a whole, such as its configuration.

    Unlike :class:`NonTensorData`, two instances count as one only if they hold the identical object (``is``), and no
    mode turns it into a stack (see :class:`set_capture_non_tensor_stack`).

    ``MetaData[cls]`` is a subclass that accepts only instances of ``cls``, a class or a tuple of classes.

    Args:
        data: the object.
        args: as for :class:`NonTensorData`.
        kwargs: as for :class:`NonTensorData`: ``batch_size``, ``device``, ``names``, ...

    Raises:
        TypeError: the object is not an instance of ``cls``.

    Example:
        >>> from tensorclass import MetaData, TensorDict, stack
        >>> config = {"lr": 0.1}
        >>> data = TensorDict({"config": MetaData(config)}, [3])
        >>> stack([data, data])["config"] is config
        True
        >>> MetaData[str](1)
        Traceback (most recent call last):
            ...
        TypeError: MetaData[str]: expected an instance of str, got int 1
    """

    __slots__ = ()

    _KIND = "MetaData"

    #: the class or classes of which the object must be an instance
    _takes: ClassVar[Any] = None
    _subclasses: ClassVar[dict[Any, type[MetaData]]] = {}

    def __class_getitem__(cls, item: Any) -> type[MetaData]:
        made = MetaData._subclasses.get(item)
        if made is None:
            isinstance(None, item)  # raises TypeError if `item` is not a class
            name = f"MetaData[{_class_name(item)}]"
            made = MetaData._subclasses[item] = type(name, (MetaData,), {"__slots__": (), "_takes": item})
            pytree.register(made)
        return made

    def __init__(self, data: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(data, *args, **kwargs)
        self._check(self._objects[0])

    def _check(self, value: Any) -> None:
        if self._takes is not None and not isinstance(value, self._takes):
            raise TypeError(
                f"{type_name(self)}: expected an instance of {_class_name(self._takes)}, got "
                f"{type_name(value)} {value!r}"
            )

    @property
    def data(self) -> Any:
        """The object.

        Example:
            >>> from tensorclass import MetaData
            >>> MetaData({"lr": 0.1}).data
            {'lr': 0.1}
        """
        return self._objects[0]

    @data.setter
    def data(self, value: Any) -> None:
        self._check(value)
        self._check_unlocked()
        self._check_objects((value,))
        self._objects = (value,)

    def _as_held(self, source: NonTensorDataBase) -> NonTensorDataBase:
        if not isinstance(source, NonTensorData):
            return source
        self._check(source._objects[0])
        new = self._shallow()  # stays MetaData, whatever the class of the source
        new._objects = source._objects
        return new

    def _same_as(self, value: Any) -> bool:
        return self._objects[0] is value

    def _captures(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        rebuild, args = super().__reduce__()
        return rebuild, ((MetaData, self._takes) if self._takes is not None else type(self), *args[1:])


class NonTensorStack(NonTensorDataBase):
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
        self._store = {CODES: codes}
        self._batch_size = codes.shape
        self._device = as_device(device)
        self._names = shapes.as_names(names, codes.ndim)
        self._lock = None
        self._objects = objects
        self._metadata = None

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
        few = self._index((slice(ROWS),))._listed()
        return objects_text(few, count or self._batch_size[0], width)

    def _row_texts(self, count: int, width: int) -> list[str]:
        rows: list[Any] = self._index((slice(count),))._listed() if self._batch_size else []
        return [object_text(row, width) for row in rows]

    def __repr__(self) -> str:
        try:
            is_small = self._batch_size.numel() <= _SHOWN_OBJECTS
            objects = (
                printable(repr(self._listed()), lines=True)
                if is_small
                else self._content_for_repr(line_width() - 20, 0)
            )
            return f"{type_name(self)}({objects}, batch_size={self._batch_size}, device={self._device})"
        except Exception as error:  # half-constructed, or an object whose repr raises
            return failed_text(self, error)

    # -- the batch ----------------------------------------------------------------------------------------------------

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Any:
        if not batch_size:  # one object at one position
            return _data_of(self._objects[int(store[CODES])], self._device)  # type: ignore[arg-type]
        return stack_of(self._objects, store[CODES], self._device, names, self._metadata)  # type: ignore[arg-type]

    def _at(self, index: Any) -> Any:
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

    def _index(self, index: tuple[Any, ...]) -> Any:
        return super()._index(tuple([on_cpu(item) for item in index]))

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

    def _resized(self, batch_size: Size) -> Any:
        if self._batch_size == batch_size:
            return self
        return self.expand(batch_size) if len(batch_size) >= self.ndim else self[(0,) * (self.ndim - len(batch_size))]

    def _set_batch_size(self, batch_size: Sequence[int] | int) -> None:
        if shapes.as_size(batch_size) != self._batch_size:
            raise RuntimeError(
                f"batch_size: {list(shapes.as_size(batch_size))} does not fit this stack, which holds an object for "
                f"each position of {list(self._batch_size)}. Nothing was changed"
            )

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        if self._batch_size[: len(size)] != size:
            raise RuntimeError(
                f"batch_size: {list(size)} does not fit {'.'.join(path) or 'this stack'!r}, which holds an object "
                f"for each position of {list(self._batch_size)}. Nothing was changed"
            )

    def _take_batch_size(self, size: Size) -> None:
        pass

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Any:
        if isinstance(dim, str):
            return self._shallow()
        dims = tuple(range(self.ndim)) if dim is None else shapes.wrap_dims(dim, self.ndim)
        if 0 in self._batch_size:  # there is no object
            return NonTensorData(None, batch_size=shapes.reduced(self._batch_size, dims, keepdim), device=self._device)
        result: Any = self._shallow()
        for d in sorted(dims, reverse=True):
            # a reduction keeps the first of several objects
            result = result.narrow(d, 0, 1) if keepdim else result._index((slice(None),) * d + (0,))
        return result

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return NonTensorData(None, batch_size=Size(shapes.as_sequence(size)), device=self._device)

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


def _class_name(takes: Any) -> str:
    return class_name(takes) if isinstance(takes, type) else str(takes)


def _data_of(value: Any, device: torch.device | None) -> NonTensorData:
    """Return NonTensorData without batch dimensions. Nothing is checked."""
    new = object.__new__(NonTensorData)
    new._store = {}
    new._batch_size = NO_DIMS
    new._device = device
    new._names = None
    new._lock = None
    new._objects = (value,)
    new._metadata = None
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


registry.register(NonTensorData, stack_of)
native.tell("bind_objects", NonTensorData, NonTensorStack, CODES)

for _cls in (NonTensorData, MetaData, NonTensorStack):
    pytree.register(_cls)
    allow_class(_cls)
register_kind(MetaData)
