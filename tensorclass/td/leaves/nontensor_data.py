""":class:`NonTensorData` and :class:`MetaData`: one object for all positions of a batch.

Operations on shapes change the batch size alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.td import pytree, registry, shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.indexing import NO_DIMS
from tensorclass.td.printing.text_previews import for_all_rows, object_text
from tensorclass.td.safe_unpickling import allow_class
from tensorclass.td.shapes import Names

from .content import register_kind
from .leaf import Uniform
from .nontensor_base import NonTensorDataBase
from .object_codes import CPU, codes_along, fill_lists, same_object

if TYPE_CHECKING:
    from tensorclass.td.keys import NestedKey


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
        size = shapes.as_size(batch_size)
        self._check(data)
        self._begin_with((data,), {}, size, as_device(device), shapes.as_names(names, len(size)), _metadata)

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

    def _check(self, value: Any) -> None:
        """Raise if this data cannot hold an object."""

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
        self._check(value)
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
        if not self._batch_size:
            return self
        return registry.stack_of(self._objects, self._codes(), self._device, self._names)

    def _type_for_repr(self) -> str:
        name = type_name(self._objects[0])
        return "None" if name == "NoneType" else name

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        value = self._objects[0]
        return for_all_rows(lambda room: "" if value is None else object_text(value, room), width, ndim).strip()

    def _objects_for_repr(self) -> str:
        return f"data={printable(repr(self._objects[0]), lines=True)}"

    # -- the batch ----------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        size = self._batch_size
        if type(index) is int and size and -size[0] <= index < size[0]:
            size = NO_DIMS if len(size) == 1 else size[1:]
            return self._like({}, size, None if self._names is None else self._names[1:] or None)
        return super().__getitem__(index)

    _index_value = __getitem__  # type: ignore[assignment]

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        return NonTensorDataBase._padded(self, pairs, value)  # new positions have no object

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
        own = self._objects[0]
        for value in objects:
            if value is not own and not self._same_as(value):
                break
        else:
            if self._captures():
                return self._stacked_as_one(items, dim)
        codes = codes_along(dim, shapes.inserted(size, dim, len(items)))
        return registry.stack_of(tuple(objects), codes, self._device, self._names_stacked(items, dim))

    def _cat(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(NonTensorDataBase, items, dim)
        return self._joined_as_one(items, dim) if self._one(items) else super()._cat(items, dim)


class MetaData(NonTensorData):
    """One object about a batch as a whole, such as its configuration.

    Unlike :class:`NonTensorData`, two instances count as one only if they hold the identical object (``is``), and no
    mode turns it into a stack (see :class:`set_capture_non_tensor_stack`).

    ``MetaData[cls]`` is a subclass that accepts only instances of ``cls``, a class or a tuple of classes.

    Args:
        data: the object; for other NonTensorData, the object that it holds.
        batch_size: the batch size. Default: none.
        device: the device of the collection that it belongs to. The object is not moved.
        names: a name or ``None`` for each batch dimension.

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

    def _check(self, value: Any) -> None:
        if self._takes is not None and not isinstance(value, self._takes):
            raise TypeError(
                f"{type_name(self)}: expected an instance of {_class_name(self._takes)}, got "
                f"{type_name(value)} {value!r}"
            )

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


def _class_name(takes: Any) -> str:
    return class_name(takes) if isinstance(takes, type) else str(takes)


registry.register(NonTensorData)
for _cls in (NonTensorData, MetaData):
    pytree.register(_cls)
    allow_class(_cls, "tensorclass.td.leaves.nontensor")
register_kind(MetaData)
