"""Set values by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name

from . import in_place_checks, native, registry
from .collection import Collection
from .get import Reading
from .hidden_members import with_members
from .indexing import Indexing, check_objects_in_files
from .keys import NestedKey, dotted, unravel_key_to_tuple
from .value_checks import (
    KindMismatch,
    Misfit,
    ShapeMismatch,
    as_tensor,
    batch_mismatch,
    fit,
    is_strided_nested,
    shape_of,
    strided_nested,
)

if TYPE_CHECKING:
    from .collection import Value


def _check_broadcast(key: str, value: Tensor, destination: Tensor) -> None:
    """Raise if a value cannot be written into a tensor in place."""
    got, expected = value.shape[::-1], destination.shape[::-1]
    if len(got) > len(expected) or any(a not in (1, b) for a, b in zip(got, expected, strict=False)):
        raise ShapeMismatch(
            (key,),
            f"cannot write in place: expected shape {list(destination.shape)}, or one that broadcasts to it, "
            f"got {list(value.shape)}",
        )
    if value.is_meta and not destination.is_meta:
        raise ShapeMismatch(
            (key,), f"cannot write a tensor without data, on the device meta, into one on {destination.device}"
        )


def _wrong_kind(key: str, value: object, destination: object) -> KindMismatch:
    """Return the error for a value that cannot be written into one of another type."""
    what = "a tensor" if isinstance(destination, Tensor) else f"a {type_name(destination)}"
    return KindMismatch((key,), f"cannot write a {type_name(value)} into {what} in place; set() replaces the value")


def leaf_above(path: Sequence[str]) -> KeyError:
    """Return the error for a key below a leaf."""
    return KeyError(f"{dotted(path)} is a leaf: it cannot hold other keys")


class Writing(Reading, Indexing):
    """The methods that set values by key. A nested key is a tuple of strings, or any nesting of such tuples."""

    __slots__ = ()

    #: whether every tensor whose shape begins with the batch size fits under every key
    _TAKES_ANY_KEY = False

    if TYPE_CHECKING:

        def _copy(self, source: Any, non_blocking: bool = False) -> Any: ...

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        """Return ``value`` as it is stored under ``key``. Records check the field here."""
        return fit(self, key, value, non_blocking)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        """Set a key of this level."""
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        if self._lock is not None:
            self._check_unlocked()
        if self._device is None and type(value) is Tensor:  # the most frequent case needs no more checks
            size = self._batch_size
            try:
                shape = value.shape
            except RuntimeError:
                shape = shape_of(value, key)
            ndim = len(size)  # slicing a torch.Size is slow
            if shape == size or ((shape[0] == size[0]) if ndim == 1 and shape else shape[:ndim] == size):
                self._store[key] = value
                return
        self._store[key] = self._fit(key, value, non_blocking)

    #: :meth:`_set` within an update, which is checked as a whole at its end by :meth:`_check_changed`
    _put = _set

    def _check_entering(self, entries: Mapping[str, Value]) -> None:
        """Raise if entries, in their stored form, do not fit. Records with contracts override this."""

    def _check_changed(self, before: Mapping[str, Value]) -> None:
        """Raise if an entry that differs from ``before`` does not fit. Records with contracts override this."""

    def _unnamed_fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        """:meth:`_fit` for a value that is copied into an existing one, which keeps its dimension names."""
        if isinstance(value, Collection) and value._names is not None:
            value = with_members(value).rename(None)
        return self._fit(key, value, non_blocking)

    def _check_in_place(self, key: str, value: Any, current: Any) -> None:
        """Raise if a value cannot be written into the existing one in place."""
        if not isinstance(value, Tensor):
            value = self._unnamed_fit(key, value)
        if not isinstance(current, Tensor):
            if not isinstance(value, Collection) or value._is_tree() is not current._is_tree():
                raise _wrong_kind(key, value, current)
            if not value._is_tree() and (objects := current._object_rows(value, (key,))):
                check_objects_in_files(self, (), objects)
        elif not isinstance(value, Tensor):
            raise _wrong_kind(key, value, current)
        else:
            if value.shape != current.shape or value.is_meta:
                if value.shape[: len(self._batch_size)] != self._batch_size:
                    raise batch_mismatch(key, self._batch_size, value.shape)
                _check_broadcast(key, value, current)
            if current.requires_grad:
                in_place_checks.check_history((key,), current)

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        """Write in place into the value at a key of this level."""
        try:
            destination = self._store[key]
        except KeyError:
            raise self._key_error(key) from None
        if type(destination) is Tensor and type(value) is Tensor and shape_of(value, key) == destination.shape:
            destination.copy_(value, non_blocking=non_blocking)
            return
        value = self._unnamed_fit(key, value, non_blocking)
        if isinstance(destination, Tensor):
            if not isinstance(value, Tensor):
                raise _wrong_kind(key, value, destination)
            _check_broadcast(key, value, destination)
            destination.copy_(value, non_blocking=non_blocking)
        elif not isinstance(value, Collection) or value._is_tree() is not destination._is_tree():
            raise _wrong_kind(key, value, destination)
        else:
            if not value._is_tree() and (objects := destination._object_rows(value, (key,))):
                check_objects_in_files(self, (), objects)
            try:
                written = self._store[key] = destination._copy(value, non_blocking)
            except Misfit as error:
                raise error.below(key) from None
            if written._lock is None:
                written._lock = destination._lock

    def _parent_of(self, path: Sequence[str]) -> Writing:
        """Return the collection at ``path``: the names of a nested key before the last one."""
        node: Writing = self
        for depth, name in enumerate(path):
            below = node._store.get(name)
            if below is None:
                raise self._key_error(tuple(path[: depth + 1]))
            if not isinstance(below, Writing) or not below._is_tree():
                raise leaf_above(path[: depth + 1])
            node = below
        return node

    @native.tries("set_tensor")
    def set(
        self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any
    ) -> Self:
        """Set the value at a key.

        Missing nested collections on the way to a nested key are created. If the value does not fit, nothing changes.

        Args:
            key: the key, nested or not.
            item: a tensor or a collection, whose shape begins with the batch size. A mapping becomes a nested
                collection; a number, an array or a list of numbers becomes a tensor; anything else becomes non-tensor
                data.
            inplace: write into the existing value, if there is one, instead of replacing it. Default: ``False``.
            non_blocking: do not wait for the transfer to the collection's device. Default: ``False``.

        Returns:
            This collection. A tensor that needs no transfer is stored as it is, so both share memory.

        Raises:
            RuntimeError: the collection is locked, or the value's shape does not begin with the batch size.
            KeyError: the key lies below a leaf.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> data.set(("b", "c"), torch.ones(2, 3)).set("label", "train")["b", "c"].shape
            torch.Size([2, 3])
        """
        if kwargs:
            raise TypeError(f"set: unknown arguments {sorted(kwargs)}")
        if type(key) is str:
            self._set(key, item, inplace, non_blocking)
        else:
            self._set_nested(unravel_key_to_tuple(key), item, inplace, non_blocking)
        return self

    def _set_nested(self, path: tuple[str, ...], item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        """Set a value at a nested key. Missing collections are built as a whole before anything is stored."""
        node: Writing = self
        for depth, name in enumerate(path[:-1]):
            below = node._store.get(name)
            if below is None:
                for key in reversed(path[depth + 1 :]):
                    item = {key: item}
                break
            if not isinstance(below, Writing) or not below._is_tree():
                raise leaf_above(path[: depth + 1])
            node = below
        else:
            depth, name = len(path) - 1, path[-1]
        try:
            node._set(name, item, inplace, non_blocking)
        except Misfit as error:
            raise error.below(*path[:depth]) from None

    @native.tries("write_key")
    def set_(self, key: NestedKey, item: Any, *, non_blocking: bool = False) -> Self:
        """Write into the existing value at a key, in place. This works on locked collections.

        Args:
            key: the key, nested or not.
            item: what :meth:`set` takes, in a shape that broadcasts to that of the existing value.
            non_blocking: do not wait for transfers between devices. Default: ``False``.

        Returns:
            This collection. Its tensors are the same objects as before.

        Raises:
            KeyError: there is no such key.
            RuntimeError: the shapes do not fit.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> a = data["a"]
            >>> data.set_("a", torch.ones(2))["a"] is a, a
            (True, tensor([1., 1.]))
        """
        if type(key) is str:
            self._set_(key, item, non_blocking)
        else:
            *path, last = unravel_key_to_tuple(key)
            parent = self._parent_of(path)
            try:
                parent._set_(last, item, non_blocking)
            except Misfit as error:
                raise error.below(*path) from None
        return self

    def set_at_(self, key: NestedKey, value: Any, index: Any, *, non_blocking: bool = False) -> Self:
        """Write into rows of the existing value at a key: ``data[key][index] = value``.

        Args:
            key: the key, nested or not.
            value: a tensor, a number, an array or a list of numbers that broadcasts to the shape of
                ``data[key][index]``.
            index: an index, as tensors take it.
            non_blocking: has no effect: writing to rows waits for transfers between devices.

        Returns:
            This collection.

        Raises:
            KeyError: there is no such key.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(3)}, [3]).set_at_("a", 1.0, slice(1, None))["a"]
            tensor([0., 1., 1.])
        """
        *path, last = unravel_key_to_tuple(key)
        self._parent_of(path)._set_at(last, value, index)
        return self

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        """:meth:`set_at_` for a key of this level."""
        if is_strided_nested(value):
            raise strided_nested(key)
        given: Any = value
        if isinstance(value, (list, tuple, np.ndarray, np.generic)) and isinstance(self._store.get(key), Tensor):
            tensor = as_tensor(given)
            if tensor is None:
                raise TypeError(
                    f"set_at_: {key!r}: expected a tensor, a number, an array or a list of numbers, got {given!r} "
                    f"({type_name(given)})"
                )
            value = tensor
        try:
            entry: Any = self._store[key]
            entry[index] = value
        except KeyError:
            if key in self._store:
                raise
            raise self._key_error(key) from None

    def set_non_tensor(self, key: NestedKey, value: Any) -> Self:
        """Set a value as non-tensor data, even if it could become a tensor or a nested collection.

        Args:
            key: the key, nested or not. Missing nested collections on the way are created.
            value: any object. It is stored as it is, not copied.

        Returns:
            This collection.

        Raises:
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({}, [2]).set_non_tensor("sizes", [3, 4])["sizes"]
            [3, 4]
        """
        path = unravel_key_to_tuple(key)
        if not isinstance(value, registry.NonTensorDataBase):
            parent: Any = self
            for name in path[:-1]:  # created collections get the batch size of the last one that exists
                below = parent._store.get(name)
                if not isinstance(below, Writing):
                    break
                parent = below
            value = registry.NonTensorData(value, batch_size=parent._batch_size, device=parent._device)
        self._set_nested(path, value)
        return self

    def fill_(self, key: NestedKey, value: float | bool) -> Self:
        """Fill the value at a key with one number, in place. In a nested collection all tensors are filled.

        Args:
            key: the key, nested or not.
            value: the number, cast to the dtype of each tensor.

        Returns:
            This collection.

        Raises:
            KeyError: there is no such key.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2)}, [2]).fill_("a", 3)["a"]
            tensor([3., 3.])
        """
        *path, last = unravel_key_to_tuple(key)
        self._parent_of(path)._fill_at(last, value)
        return self

    def _fill_at(self, key: str, value: Any) -> None:
        """:meth:`fill_` for a key of this level."""
        destination = self._store.get(key)
        if destination is None:
            raise self._key_error(key)
        if isinstance(destination, Collection):
            destination._fill(..., value)
        else:
            destination.fill_(value)

    def setdefault(self, key: NestedKey, default: Any, inplace: bool = False) -> Any:
        """Return the value at a key. If there is none, set ``default`` first.

        Args:
            key: the key, nested or not.
            default: what :meth:`set` takes.
            inplace: passed to :meth:`set`; has no effect on a missing key. Default: ``False``.

        Returns:
            The value, as :meth:`get` returns it.

        Raises:
            RuntimeError: the key is missing and the collection is locked, or ``default`` does not fit.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": 1})
            >>> data.setdefault("a", 5), data.setdefault("b", 5)
            (tensor(1), tensor(5))
        """
        if key not in self:
            with_members(self).set(key, default, inplace=inplace)
        return with_members(self).get(key)

    def create_nested(self, key: NestedKey) -> Self:
        """Set an empty nested collection at a key. It has the batch size and the device of its parent.

        Args:
            key: the key, nested or not. An existing value is replaced.

        Returns:
            This collection.

        Raises:
            RuntimeError: the collection is locked.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({}, [3]).create_nested(("a", "b"))
            >>> data["a", "b"].batch_size
            torch.Size([3])
        """
        self._set_nested(unravel_key_to_tuple(key), {})
        return self
