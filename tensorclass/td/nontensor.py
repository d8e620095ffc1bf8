"""Values that are not tensors: text, objects, ``None``.

:class:`NonTensorData` is one object at every position of a batch. :class:`NonTensorStack` holds an object for each
position, the way a categorical column does: the distinct objects once, and a tensor of codes over the batch. So every
operation on shapes works on them as on any collection (it acts on the codes, if there are any), while operations on
numbers leave them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from . import shapes
from .base import TensorCollection
from .collection import Collection, DeviceLike, as_device
from .combining import _chosen, _common_names
from .mapping import Applying
from .pointwise import Pointwise
from .shapes import Names

if TYPE_CHECKING:
    from .collection import Store

_CODES = "<codes>"  # no key that a user would write


class NonTensorDataBase(TensorCollection):
    """What :class:`NonTensorData` and :class:`NonTensorStack` share."""

    __slots__ = ("_objects",)

    #: The distinct objects: just one for NonTensorData, the targets of the codes for NonTensorStack.
    _objects: tuple[Any, ...]

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Self:
        new = object.__new__(self.__class__)
        new._store = store
        new._batch_size = batch_size
        new._device = self._device
        new._names = names
        new._lock = None
        new._objects = self._objects
        return new

    def _same(self, store: Store) -> Self:
        new = super()._same(store)
        new._objects = self._objects
        return new

    # -- a leaf among leaves: what walks a tree does not go below ------------------------------------------------------

    def _leaves(self) -> Iterator[Tensor]:
        return iter(())

    def _with_leaves(self, leaves: Iterator[Tensor]) -> Self:
        return self._shallow()

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        pass

    def _fill(self, item: Any, value: Any) -> None:
        pass

    def _walk_into(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _is_tree(self) -> bool:
        return False

    def _content(self) -> tuple[Any, ...]:
        return (self._objects, *self._store.values())

    def is_empty(self) -> bool:
        """Never: it holds an object."""
        return False

    def _unwrapped(self) -> Any:
        return self.tolist() if isinstance(self, NonTensorStack) else self._objects[0]

    # -- it has no keys: the codes are its own affair ------------------------------------------------------------------

    def keys(self, *args: Any, **kwargs: Any) -> Any:
        """No keys."""
        return dict[str, Any]().keys()

    def values(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """No values."""
        return iter(())

    def items(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
        """No items."""
        return iter(())

    def __contains__(self, key: object) -> bool:
        return False

    # -- what it holds ------------------------------------------------------------------------------------------------

    def tolist(self) -> Any:  # type: ignore[override]
        """The objects as nested lists, as deep as the batch has dimensions; without any, the object itself.

        >>> NonTensorData("a", batch_size=[2]).tolist()
        ['a', 'a']
        """
        raise NotImplementedError

    def _codes(self) -> Tensor:
        """For each position the index of its object in ``_objects``."""
        raise NotImplementedError

    def to_dict(self, **kwargs: Any) -> Any:
        """The object, or nested lists of them."""
        return self._unwrapped()

    def numpy(self) -> Any:
        """The object, or nested lists of them."""
        return self._unwrapped()

    # -- operations on numbers leave it alone (see the end of this module); moving it moves nothing --------------------

    def _placed(self, device: torch.device, non_blocking: bool) -> Self:
        return self._on(dict(self._store), device)

    def _moved(
        self,
        device: torch.device | None,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool,
        memory_format: torch.memory_format | None,
    ) -> Self:
        return self._on(dict(self._store), self._device if device is None else device)

    def _resized(self, batch_size: Size) -> Self:
        """The same data in another batch size, where that makes sense."""
        if self._batch_size == batch_size:
            return self
        if isinstance(self, NonTensorData):  # one object fits any size
            return self._like({}, batch_size)
        return self.expand(batch_size) if len(batch_size) >= self.ndim else self[(0,) * (self.ndim - len(batch_size))]

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        if isinstance(self, NonTensorStack) and self._batch_size[: len(size)] != size:
            raise RuntimeError(
                f"batch_size: {list(size)} does not fit {'.'.join(path) or 'this stack'!r}, which holds an object "
                f"for each position of {list(self._batch_size)}. Nothing was changed"
            )

    def _take_batch_size(self, size: Size) -> None:
        if isinstance(self, NonTensorData):
            super()._take_batch_size(size)

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Self:
        if isinstance(dim, str):
            return self
        dims = tuple(range(self.ndim)) if dim is None else shapes.wrap_dims(dim, self.ndim)
        if isinstance(self, NonTensorData):
            size = shapes.reduced(self._batch_size, dims, keepdim)
            return self._like({}, size, shapes.names_reduced(self._names, dims, keepdim))
        if 0 in self._batch_size:  # no object is left
            return NonTensorData(None, batch_size=shapes.reduced(self._batch_size, dims, keepdim), device=self._device)  # type: ignore[return-value]
        result: Self = self
        for d in sorted(dims, reverse=True):
            # of several objects the first stands for them
            result = result.narrow(d, 0, 1) if keepdim else result._index((slice(None),) * d + (0,))
        return result

    def _two(self, name: str, args: tuple[Any, ...], size: Size, names: Names) -> Any:
        result = self._reduce(getattr, args[0], args[1], {}) if len(args) == 2 else self
        return result, result

    def _viewed(self, dtype: torch.dtype) -> Self:
        return self._same(dict(self._store))

    def _under(self, shape: Size) -> Self:
        return self.expand(shape + self._batch_size)

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        """``None`` at the new positions."""
        result: NonTensorDataBase = self
        for dim, (before, behind) in enumerate(pairs):
            if before < 0 or behind < 0:  # positions are cut off
                start = max(-before, 0)
                result = result.narrow(dim, start, result._batch_size[dim] - start - max(-behind, 0))
            more = [
                NonTensorData(None, batch_size=shapes.with_size(result._batch_size, dim, max(count, 0)))
                for count in (before, behind)
            ]
            parts = [part for part in (more[0], result, more[1]) if part is result or part._batch_size[dim]]
            if len(parts) > 1:
                result = result._cat(parts, dim)
        return result

    def _new(self, name: str, size: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        batch_size = Size(shapes.as_sequence(size))
        if isinstance(self, NonTensorData):
            return self._like({}, batch_size)
        return NonTensorData(None, batch_size=batch_size, device=self._device)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write_views(self, index: tuple[Any, ...], rows: Collection) -> bool:
        return False  # the codes of two stand for different objects

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        if not isinstance(source, NonTensorDataBase):
            raise TypeError(f"cannot write a {type(source).__name__} into non-tensor data")
        return source._resized(self._batch_size)

    def _become(self, source: Any) -> None:
        """Takes over the content of other non-tensor data of this batch size, in place."""
        self.__class__ = source.__class__
        self._objects = source._objects
        self._store = dict(source._store)

    def update(self, input_dict_or_td: Any = None, *args: Any, **kwargs: Any) -> Self:
        """Replaces the object (or objects) by those of other non-tensor data, or by an object."""
        source = input_dict_or_td
        if not isinstance(source, NonTensorDataBase):
            source = NonTensorData(source, batch_size=self._batch_size, device=self._device)
        self._check_unlocked()
        self._become(self._copy(source))
        return self

    def update_(self, input_dict_or_td: Any = None, *args: Any, **kwargs: Any) -> Self:
        """:meth:`update`, also where it is locked."""
        lock, self._lock = self._lock, None
        try:
            return self.update(input_dict_or_td)
        finally:
            self._lock = lock

    def _merges(self, source: object) -> bool:
        return False

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Collection:
        if not isinstance(rows, NonTensorDataBase):
            raise TypeError(f"cannot write a {type(rows).__name__} into non-tensor data")
        if _one_object([self, rows]) is not None:
            return self

        def write(codes: list[Tensor]) -> Tensor:
            target = codes[0].clone()
            target[tuple([_on_cpu(item) for item in index])] = codes[1]
            return target

        return _coded(*_joined([self, rows], write), self._device, self._names)

    def _allocated(self, batch_size: Size) -> Self:
        return NonTensorData(None, batch_size=batch_size, device=self._device)  # type: ignore[return-value]

    def __setitem__(self, index: Any, value: Any) -> None:
        from .indexing import prepare

        prepared = prepare(index, self._batch_size)
        if not isinstance(value, NonTensorDataBase):
            value = NonTensorData(value, batch_size=shapes.indexed(self._batch_size, prepared))
        self._become(self._write(prepared, value))

    # -- combining ----------------------------------------------------------------------------------------------------

    def _stack(self, items: list[Any], dim: int) -> Any:
        names = self._names and shapes.names_inserted(_common_names(items), dim)
        if all(type(item) is NonTensorData and item._batch_size == self._batch_size for item in items):
            objects, codes = _distinct([item._objects[0] for item in items])
            size = shapes.inserted(self._batch_size, dim, len(items))
            if len(objects) == 1:
                return self._like({}, size, names)
            column = torch.tensor(codes).reshape(-1, *(1,) * (self.ndim - dim))
            return _coded(objects, column.expand(size), self._device, names)
        if not all(isinstance(item, NonTensorDataBase) and item._batch_size == self._batch_size for item in items):
            self._cannot_combine("stack", items, None)
        if (one := _one_object(items)) is not None:
            return one._like({}, shapes.inserted(self._batch_size, dim, len(items)), names)
        return _coded(*_joined(items, lambda codes: torch.stack(codes, dim)), self._device, names)

    def _cat(self, items: list[Any], dim: int) -> Any:
        if not all(isinstance(item, NonTensorDataBase) and item.ndim == self.ndim for item in items):
            self._cannot_combine("cat", items, dim)
        for item in items:
            if shapes.with_size(item._batch_size, dim, 0) != shapes.with_size(self._batch_size, dim, 0):
                self._cannot_combine("cat", items, dim)
        if (one := _one_object(items)) is not None:
            total = sum(item._batch_size[dim] for item in items)
            return one._like({}, shapes.with_size(self._batch_size, dim, total), self._names)
        return _coded(*_joined(items, lambda codes: torch.cat(codes, dim)), self._device, self._names)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Any:
        if not isinstance(other, NonTensorDataBase):
            return self
        if (one := _one_object([self, other])) is not None:
            return one._like({}, self._batch_size, self._names)
        objects, codes = _joined([self, other], lambda codes: _chosen(path, condition.cpu(), codes[0], codes[1], None))
        return _coded(objects, codes, self._device, self._names)

    def gather(self, dim: int, index: Tensor, out: Any = None, *, inplace: bool = False) -> Any:
        """For each position of ``index`` the object at that index along ``dim``."""
        if isinstance(self, NonTensorData):
            return self._like({}, index.shape, self._names)
        return super().gather(dim, index.cpu(), out, inplace=inplace)

    def repeat_interleave(self, repeats: Tensor | int, *args: Any, **kwargs: Any) -> Self:
        """Each object along a dimension several times in a row."""
        return super().repeat_interleave(_on_cpu(repeats), *args, **kwargs)

    # -- comparison ---------------------------------------------------------------------------------------------------

    def _compared(self, other: Any, equal: bool) -> Any:
        """Position by position, as a tensor of booleans over the batch."""
        objects = other._objects if isinstance(other, NonTensorDataBase) else (other,)
        table = torch.tensor([[_same_object(a, b) == equal for b in objects] for a in self._objects], dtype=torch.bool)
        theirs = other._codes() if isinstance(other, NonTensorDataBase) else torch.zeros((), dtype=torch.long)
        return table[self._codes(), theirs]

    def __eq__(self, other: Any) -> Any:
        return self._compared(other, True)

    def __ne__(self, other: Any) -> Any:
        return self._compared(other, False)

    __hash__ = None  # type: ignore[assignment]

    # -- one by one ---------------------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            self._objects,
            dict(self._store),
            tuple(self._batch_size),
            self._device,
            self._names,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        new = memo[id(self)] = self._same({key: value.clone() for key, value in self._store.items()})
        new._objects = copy.deepcopy(self._objects, memo)
        return new


class NonTensorData(NonTensorDataBase):
    """One object that belongs to every position of a batch.

    Written by ``data["key"] = obj`` for any object that is no tensor; ``data["key"]`` gives the object back,
    ``data.get("key")`` this holder.

    >>> from tensorclass import TensorDict
    >>> data = TensorDict({"text": "hello"}, [3])
    >>> data["text"], data[0]["text"], data.get("text").batch_size
    ('hello', 'hello', torch.Size([3]))
    """

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        size = self._batch_size
        if type(index) is int and size and -size[0] <= index < size[0]:
            return self._like({}, size[1:], (self._names and self._names[1:]) or None)
        return super().__getitem__(index)

    def __init__(
        self,
        data: Any,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        if isinstance(data, NonTensorData):
            data = data._objects[0]
        self._store = {}
        self._batch_size = shapes.as_size(batch_size)
        self._device = as_device(device)
        self._names = shapes.as_names(names, len(self._batch_size))
        self._lock = None
        self._objects = (data,)

    @property
    def data(self) -> Any:
        """The object."""
        return self._objects[0]

    @data.setter
    def data(self, value: Any) -> None:
        self._check_unlocked()
        self._objects = (value,)

    def maybe_to_stack(self) -> NonTensorDataBase:
        """A stack with the object at each position; itself without batch dimensions."""
        return NonTensorStack.from_nontensordata(self) if self._batch_size else self

    def tolist(self) -> Any:  # type: ignore[override]
        """The object for each position, as nested lists; without batch dimensions, the object itself."""
        return _filled(self._objects[0], self._batch_size)

    def _codes(self) -> Tensor:
        return torch.zeros(self._batch_size, dtype=torch.long)

    def __repr__(self) -> str:
        return f"NonTensorData(data={self._objects[0]!r}, batch_size={self._batch_size}, device={self._device})"


class NonTensorStack(NonTensorDataBase):
    """An object for each position of a batch.

    Made by stacking or joining collections whose objects differ; ``data["key"]`` gives nested lists.

    >>> from tensorclass import TensorDict, stack
    >>> rows = stack([TensorDict({"text": text}) for text in ("a", "b", "a")])
    >>> rows["text"], rows[1]["text"], rows[::2]["text"]
    (['a', 'b', 'a'], 'b', ['a', 'a'])

    Args:
        items: the objects (or :class:`NonTensorData` of one batch size) along the first dimension.
    """

    __slots__ = ()

    def __init__(self, *items: Any, device: DeviceLike | None = None) -> None:
        if not items:
            raise RuntimeError("NonTensorStack: expected at least one object")
        parts = [item if isinstance(item, NonTensorDataBase) else NonTensorData(item) for item in items]
        objects, codes = _joined(parts, lambda codes: torch.stack(codes, 0))
        self._store = {_CODES: codes}
        self._batch_size = codes.shape
        self._device = as_device(device)
        self._names = None
        self._lock = None
        self._objects = tuple(objects)

    @classmethod
    def from_list(cls, non_tensors: Sequence[Any]) -> NonTensorStack:  # type: ignore[override]
        """From nested lists of objects of one depth.

        >>> NonTensorStack.from_list([["a", "b"], ["c", "d"]]).batch_size
        torch.Size([2, 2])
        """
        items: list[Any] = []
        for item in non_tensors:
            below = item
            items.append(cls.from_list(below) if isinstance(item, list) else item)
        return cls(*items)

    @property  # type: ignore[misc]  # read only here: there is no one object to set
    def data(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The objects as nested lists."""
        return self.tolist()

    def _codes(self) -> Tensor:
        codes = self._store[_CODES]
        assert isinstance(codes, Tensor)
        return codes

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Any:
        if not batch_size:  # one position, one object
            return NonTensorData(self._objects[int(store[_CODES])], device=self._device)  # type: ignore[arg-type]
        return super()._like(store, batch_size, names)

    def _index(self, index: tuple[Any, ...]) -> Any:
        return super()._index(tuple([_on_cpu(item) for item in index]))

    @classmethod
    def from_nontensordata(cls, non_tensor: NonTensorData) -> NonTensorStack:
        """An object for each position from one for all of them.

        >>> NonTensorStack.from_nontensordata(NonTensorData("a", batch_size=[2]))
        NonTensorStack(['a', 'a'], batch_size=torch.Size([2]), device=None)
        """
        return _stack_of(non_tensor._objects, non_tensor._codes(), non_tensor._device, non_tensor._names)

    def tolist(self) -> Any:  # type: ignore[override]
        """The objects as nested lists."""
        return _looked_up(self._codes().tolist(), self._objects)  # pyright: ignore[reportUnknownMemberType]

    def maybe_to_stack(self) -> NonTensorStack:
        """Itself: it is a stack."""
        return self

    def __repr__(self) -> str:
        return f"NonTensorStack({self.tolist()!r}, batch_size={self._batch_size}, device={self._device})"


def non_tensor(value: Any, batch_size: Size, device: torch.device | None, names: Names) -> NonTensorDataBase:
    """An object as it is stored: a list with one object for each row of the batch as a stack, else one for all of it.

    Lists of such lists give an object for each position of two dimensions, and so on.
    """
    level = [value]
    depth = 0
    length: Callable[[Any], int] = len
    for size in batch_size:
        if not all(isinstance(item, list) and length(item) == size for item in level):
            break
        level = [below for item in level for below in item]
        depth += 1
    if not depth or not level:
        return NonTensorData(value, batch_size=batch_size, device=device, names=names)
    objects, places = _distinct(level)
    codes = torch.tensor(places, dtype=torch.long).reshape(*batch_size[:depth], *(1,) * (len(batch_size) - depth))
    return _stack_of(objects, codes.expand(batch_size), device, names)


def _on_cpu(value: Any) -> Any:
    """A tensor where the codes are: objects stay in main memory, wherever the tensors beside them are."""
    return value.cpu() if isinstance(value, Tensor) else value


def _same_object(a: Any, b: Any) -> bool:
    """Whether two objects count as one; those whose comparison has no plain answer do when they are identical."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:  # comparing arbitrary objects can raise anything; then they are not known to be equal
        return False


def _one_object(items: list[Any]) -> NonTensorData | None:
    """The first item, when all are NonTensorData with an equal object."""
    first = items[0]
    if not isinstance(first, NonTensorData):
        return None
    for item in items:
        if not isinstance(item, NonTensorData) or not _same_object(item._objects[0], first._objects[0]):
            return None
    return first


def _joined(items: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> tuple[list[Any], Tensor]:
    """The objects of several without repetition, and their codes joined."""
    objects, places = _distinct([value for item in items for value in item._objects])
    codes: list[Tensor] = []
    made: dict[int, Tensor] = {}
    place = iter(places)
    for item in items:
        targets = [next(place) for _ in item._objects]
        if len(targets) == 1:  # one object at all positions: items that share it share the codes
            code = targets[0]
            shared = made.get(code)
            if shared is None or shared.shape != item._batch_size:
                shared = made[code] = torch.full(item._batch_size, code, dtype=torch.long)
            codes.append(shared)
        else:
            own = item._codes()
            codes.append(own if targets == list(range(len(targets))) else torch.tensor(targets, dtype=torch.long)[own])
    return objects, join(codes)


def _distinct(values: list[Any]) -> tuple[list[Any], list[int]]:
    """The values without repetition, and for each one its place among them."""
    try:
        known: dict[Any, int] = {}
        codes: list[int] = [known.setdefault((type(value), value), len(known)) for value in values]
        return [value for _, value in known], codes
    except TypeError:  # not hashable: looked for one by one
        objects: list[Any] = []
        codes = []
        for value in values:
            code = next((i for i, seen in enumerate(objects) if _same_object(seen, value)), len(objects))
            if code == len(objects):
                objects.append(value)
            codes.append(code)
        return objects, codes


def _coded(objects: Sequence[Any], codes: Tensor, device: torch.device | None, names: Names) -> NonTensorDataBase:
    if len(objects) == 1 or not codes.ndim:
        value = objects[0] if len(objects) == 1 else objects[int(codes)]
        return NonTensorData(value, batch_size=codes.shape, device=device, names=names)
    return _stack_of(objects, codes, device, names)


def _stack_of(objects: Sequence[Any], codes: Tensor, device: torch.device | None, names: Names) -> NonTensorStack:
    new = object.__new__(NonTensorStack)
    new._store = {_CODES: codes}
    new._batch_size = codes.shape
    new._device = device
    new._names = names
    new._lock = None
    new._objects = tuple(objects)
    return new


def _looked_up(codes: Any, objects: tuple[Any, ...]) -> Any:
    below = codes
    return [_looked_up(code, objects) for code in below] if isinstance(codes, list) else objects[codes]


def _filled(value: Any, shape: Sequence[int]) -> Any:
    return [_filled(value, shape[1:]) for _ in range(shape[0])] if shape else value


def _rebuild(
    cls: type[NonTensorDataBase],
    objects: tuple[Any, ...],
    store: dict[str, Any],
    batch_size: tuple[int, ...],
    device: torch.device | None,
    names: Names,
) -> NonTensorDataBase:
    new = object.__new__(cls)
    new._store = store
    new._batch_size = Size(batch_size)
    new._device = device
    new._names = names
    new._lock = None
    new._objects = objects
    return new


def is_non_tensor(data: object) -> bool:
    """Whether an object is non-tensor data as a collection stores it.

    >>> is_non_tensor(NonTensorData("a")), is_non_tensor("a")
    (True, False)
    """
    return isinstance(data, NonTensorDataBase)


def is_leaf_nontensor(cls: type) -> bool:
    """Whether a class is that of a leaf, text and other objects counting as leaves; an ``is_leaf=`` for ``keys()``.

    >>> from tensorclass import TensorDict
    >>> list(TensorDict({"text": "a", "n": {"x": 1}}).keys(True, True, is_leaf=is_leaf_nontensor))
    ['text', ('n', 'x')]
    """
    return issubclass(cls, NonTensorDataBase) or not issubclass(cls, Collection)


def _unchanged(self: NonTensorDataBase, *args: Any, **kwargs: Any) -> NonTensorDataBase:
    return self._shallow()  # one for each collection, because what it holds can be replaced in place, or locked


def _itself(self: NonTensorDataBase, *args: Any, **kwargs: Any) -> NonTensorDataBase:
    return self


# Operations on numbers leave non-tensor data as it is: all of the point-wise family, and these of the other families.
_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__")
_NUMERIC = ("_plain", "apply", "apply_", "named_apply", "cumsum", "cumprod", "softmax", "type", "_each")
for _name, _member in vars(Pointwise).items():
    if callable(_member) and _name not in vars(NonTensorDataBase) and (_name[0] != "_" or _name.endswith("__")):
        setattr(NonTensorDataBase, _name, _unchanged)
for _name in _NUMERIC:
    setattr(NonTensorDataBase, _name, _unchanged)
for _name in vars(Applying) | vars(Pointwise):
    if (_name.endswith("_") and not _name.endswith("__")) or _name in _IN_PLACE:
        setattr(NonTensorDataBase, _name, _itself)
for _name in ("eq", "ne"):
    setattr(NonTensorDataBase, _name, getattr(NonTensorDataBase, f"__{_name}__"))
