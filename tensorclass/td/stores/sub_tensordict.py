"""Rows of a collection as a collection that writes through to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Size, Tensor

from tensorclass.support.printable import printable, type_name
from tensorclass.td import registry, shapes
from tensorclass.td.collection import Collection
from tensorclass.td.hidden_members import with_members
from tensorclass.td.prepared_index import prepare_index
from tensorclass.td.shapes import Names

from .store_classes import OnSource, OnStore, SourceKeys, on_store
from .write_back import WrittenBack

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection
    from tensorclass.td.collection import Store, Value


class ParentRows(SourceKeys):
    """The store: rows of a parent collection at a prepared index.

    Reading a key indexes the value of the parent; writing a key writes into that value in place. A key that the parent
    lacks is allocated there with zeros. Removing a key removes it from the parent.
    """

    __slots__ = ("index", "item", "size", "views")

    def __init__(self, source: TensorCollection, index: tuple[Any, ...], size: Size) -> None:
        super().__init__(source)
        self.index: tuple[Any, ...] = index
        self.size: Size = size
        self.item: Any = index[0] if len(index) == 1 else index
        #: values that are read share memory with those of the source
        self.views: bool = _gives_views(source) and all(item is None or type(item) in (int, slice) for item in index)

    def __getitem__(self, key: str) -> Any:
        value: Any = self.source._store[key]
        if isinstance(value, Tensor) or not value._is_tree():
            return value[self.item] if isinstance(value, Tensor) else value._index_value(self.item)
        return rows_of(value, self.index)

    def __setitem__(self, key: str, value: Value) -> None:
        self.write({key: value})

    def write(self, values: Store) -> None:
        """Write several values after checking that all of them fit."""
        self.source._write(self.index, self.source._like(values, self.size))


class SubTensorDict(OnSource, WrittenBack):
    """Rows of a collection at an index, as a collection of the same class that writes through to it.

    Reading a key returns the rows of its value. Writing changes the rows of the value in the source in place, for every
    kind of index, including those for which ``source[idx]`` is a copy. A new key is allocated in the source, with zeros
    in all other rows. Removing or renaming a key does so in the source. Results of operations are independent
    collections, like ``source[idx]``.

    Args:
        source: collection or record.
        idx: any index that ``source[idx]`` takes.
        batch_size: expected batch size of the rows. Default: not checked.

    Raises:
        TypeError: ``source`` is not a collection.
        IndexError: the index is out of range.
        RuntimeError: the rows do not have the expected batch size.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": torch.zeros(4)}, [4])
        >>> rows = data.get_sub_tensordict(torch.tensor([0, 2]))
        >>> rows["a"] = torch.ones(2)
        >>> rows["b"] = torch.ones(2)
        >>> data["a"], data["b"]
        (tensor([1., 0., 1., 0.]), tensor([1., 0., 1., 0.]))
    """

    __slots__ = ()

    if TYPE_CHECKING:
        _store: ParentRows  # pyright: ignore[reportIncompatibleVariableOverride]  # no other store comes here

    def __new__(cls, source: Any, idx: Any, batch_size: Sequence[int] | None = None) -> Any:
        if not isinstance(source, Collection):
            raise TypeError(f"SubTensorDict: expected a collection as the source, got a {type_name(source)}")
        return object.__new__(on_store(SubTensorDict, type(source)))  # type: ignore[type-var]

    def __init__(self, source: TensorCollection, idx: Any, batch_size: Sequence[int] | None = None) -> None:
        index = prepare_index(idx, source._batch_size, writing=True)
        _set_up(self, source, index)
        if batch_size is not None and shapes.as_size(batch_size) != self._batch_size:
            raise RuntimeError(
                f"SubTensorDict: expected rows of the batch size {list(batch_size)}, got {list(self._batch_size)}"
            )

    def get_parent_tensordict(self) -> TensorCollection:
        """Return the collection whose rows these are.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(4)}, [4])
            >>> data.get_sub_tensordict([0, 2]).get_parent_tensordict() is data
            True
        """
        return self._store.source

    # -- writing ------------------------------------------------------------------------------------------------------

    def _take(self, values: Any, objects: bool = True) -> None:
        self._store.write(values._store)

    def _write_back(self, values: Any, objects: bool = True) -> None:
        if self._store.views:  # the tensors of the source have changed already
            values = _objects(values) if objects else None
        if values is not None and values._store:
            self._store.write(values._store)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        super()._check_unlocked()
        if value is None and self._holds_none(key):
            raise TypeError(f"{printable(key)}: a field cannot be None in some rows only; set it in the source")
        fitted = self._fit(key, value, non_blocking)
        self._check_entering({key: fitted})
        self._store[key] = fitted

    def _apart(self, values: Any) -> Any:
        return with_members(values).clone()  # written to the source together, when all of them are known to fit

    def _done(self, result: Any, inplace: bool) -> Any:
        if not inplace:
            return result
        if result._batch_size != self._batch_size:
            self._refuse_shape()
        self._take(result)
        return self

    # -- locks: the source's ------------------------------------------------------------------------------------------

    def _check_unlocked(self) -> None:
        super()._check_unlocked()
        self._store.source._check_unlocked()

    @property
    def is_locked(self) -> bool:
        """Return whether the source is locked.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"a": torch.zeros(4)}, [4]).lock_().get_sub_tensordict([0, 2])
            >>> rows.is_locked
            True
        """
        return self._lock is not None or with_members(self._store.source).is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value != self.is_locked:
            raise RuntimeError(
                "rows share the keys of their source: lock or unlock the source, .get_parent_tensordict()"
            )

    def lock_(self) -> Any:
        """Do nothing if the source is locked, otherwise raise: rows have the keys of their source.

        Returns:
            This collection.

        Raises:
            RuntimeError: the source is not locked. Lock it instead.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"a": torch.zeros(4)}, [4]).get_sub_tensordict([0, 2])
            >>> rows.lock_()
            Traceback (most recent call last):
            RuntimeError: rows share the keys of their source: ...
            >>> _ = rows.get_parent_tensordict().lock_()
            >>> rows.is_locked
            True
        """
        self.is_locked = True
        self._undoes(None)
        return self

    def unlock_(self) -> Any:
        """Do nothing if the source is not locked, otherwise raise: rows have the keys of their source.

        Returns:
            This collection.

        Raises:
            RuntimeError: the source is locked. Unlock it instead.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"a": torch.zeros(4)}, [4]).lock_().get_sub_tensordict([0, 2])
            >>> rows.unlock_()
            Traceback (most recent call last):
            RuntimeError: rows share the keys of their source: ...
        """
        self.is_locked = False
        self._undoes(None)
        return self

    def _refuse_shape(self, *args: Any) -> NoReturn:
        raise RuntimeError(
            "batch size, dimension names and device of rows follow from their source and index: change a copy, "
            ".to_tensordict(), or the source, .get_parent_tensordict()"
        )

    def _refuse_tensors(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "rows of tensors cannot have their own history, gradients or memory: do it for the source, "
            ".get_parent_tensordict()"
        )


for _name in ("_check_batch_size", "_take_batch_size", "_make_room", "_set_names", "_set_device", "_clear_device"):
    setattr(SubTensorDict, _name, SubTensorDict._refuse_shape)
for _name in ("_assign", "requires_grad_", "detach_", "zero_grad", "share_memory_", "pin_memory_"):
    setattr(SubTensorDict, _name, SubTensorDict._refuse_tensors)


def _gives_views(source: object) -> bool:
    if isinstance(source, SubTensorDict):
        return source._store.views
    return not isinstance(source, OnStore)


def rows_of(source: TensorCollection, index: tuple[Any, ...]) -> Any:
    """Return the :class:`SubTensorDict` of a collection at a prepared index."""
    new = object.__new__(on_store(SubTensorDict, type(source)))
    _set_up(new, source, index)
    return new


def _set_up(new: Any, source: TensorCollection, index: tuple[Any, ...]) -> None:
    names: Names = source._names
    size = shapes.indexed(source._batch_size, index)
    own = None if names is None else shapes.names_indexed(names, index)
    new._begin(ParentRows(source, index, size), size, source._device, own)


def _objects(values: Any) -> Any:
    """Return the non-tensor data among values."""
    found: dict[str, Any] = {}
    for key, value in values._now().items():
        if isinstance(value, Collection):
            part = _objects(value) if value._is_tree() else value
            if part._store or not value._is_tree():
                found[key] = part
    return values._same(found)


registry.register(SubTensorDict)
