"""Writing and removing by key."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from tensorclass.interrupts import uninterrupted

from . import rehearsal, shapes
from .collection import Collection
from .indexing import check_objects_in_files
from .keys import NestedKey, dotted, tree_of, unravel_key_to_tuple
from .reading import MISSING, Reading
from .values import (
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
    from .reading import IsLeaf

    #: a collection, and what was in it: its entries, batch size and names
    Before = tuple["Access", dict[str, Value], Size, shapes.Names]


def _check_broadcast(key: str, value: Tensor, destination: Tensor) -> None:
    """Raises when a value cannot be written into a tensor in place."""
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
    what = "a tensor" if isinstance(destination, Tensor) else f"a {type(destination).__name__}"
    return KindMismatch(
        (key,), f"cannot write a {type(value).__name__} into {what} in place; set() puts it in its place"
    )


def entries_of(source: Any) -> Any:
    """What has the items of a source."""
    if isinstance(source, Collection):
        return source._store
    if not hasattr(source, "items"):
        raise TypeError(f"expected a mapping or a collection to update from, got {source!r} ({type(source).__name__})")
    return source


def leaf_above(path: Sequence[str]) -> KeyError:
    return KeyError(f"{dotted(path)} is a leaf: it cannot hold other keys")


def restore(undo: list[Before]) -> None:
    """Takes back what a merge wrote."""
    for node, store, size, names in reversed(undo):
        node._store.clear()
        node._store.update(store)
        node._batch_size, node._names = size, names


def _chosen(source: Any, wanted: Any) -> Any:
    """The wanted keys of a collection or a mapping."""
    if isinstance(source, Collection):
        return source._same(source._selected(wanted, strict=False))  # type: ignore[attr-defined]
    chosen: dict[Any, Any] = {}
    for key, value in source.items():
        below: Any = wanted
        for name in unravel_key_to_tuple(key):
            tree = below
            below = tree.get(name, MISSING) if isinstance(below, dict) else below
        if below is None:
            chosen[key] = value
        elif below is not MISSING and isinstance(value, (Collection, Mapping)):
            chosen[key] = _chosen(value, below)
    return chosen


def has_keys(value: object) -> bool:
    """Whether a source has other values below this one."""
    return isinstance(value, Mapping) or (isinstance(value, Collection) and value._is_tree())


def _cloned(value: Any) -> Any:
    """A value of which no tensor is shared; what is neither tensor, collection nor mapping stays."""
    source: Any = value
    if isinstance(value, Mapping):
        return {key: _cloned(item) for key, item in source.items()}
    return value.clone() if isinstance(value, (Tensor, Collection)) else value  # type: ignore[union-attr]


def _gives_views(item: object) -> bool:
    """Whether an index that is not just an int stands for a slice or for a single position."""
    array: Any = item
    if isinstance(item, (Tensor, np.ndarray)):
        return not array.ndim and array.dtype in _INTS
    return isinstance(item, (slice, np.integer))


#: of a single position; torch takes other integers for a mask
_INTS = (torch.int64, torch.int32, np.dtype("int64"), np.dtype("int32"))


class Access(Reading):
    """set, update, pop and everything else of a dict that changes it; nested keys as any nesting of tuples."""

    __slots__ = ()

    #: whether a tensor that has the batch size in front fits any key of a plain dict
    _TAKES_ANY_KEY = False

    # -- writing ------------------------------------------------------------------------------------------------------

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        """What is stored when ``value`` is written to ``key``. A record checks its field here."""
        return fit(self, key, value, non_blocking)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        """Writes one key of this level."""
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        if self._lock is not None:
            self._check_unlocked()
        if self._device is None and type(value) is Tensor:  # what most writes are, and needs no more
            size = self._batch_size
            try:
                shape = value.shape
            except RuntimeError:
                shape = shape_of(value, key)
            ndim = len(size)
            if (shape[0] == size[0]) if ndim == 1 and shape else shape[:ndim] == size:  # the first takes half the time
                self._store[key] = value
                return
        self._store[key] = self._fit(key, value, non_blocking)

    #: :meth:`_set` as a part of an update, which is looked at as a whole when it is done: see :meth:`_check_changed`
    _put = _set

    def _check_entering(self, entries: Mapping[str, Value]) -> None:
        """Raises an error where entries, as they would be stored, don't fit; a record with contracts knows."""

    def _check_changed(self, before: Mapping[str, Value]) -> None:
        """Raises an error where entries that are others than before don't fit; a record with contracts knows."""

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        """Writes into the value of a key of this level."""
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

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        """Writes the values of a collection into those of this one. Keys that the source lacks stay as they are.

        Gives what stands for this collection afterwards: itself, but for non-tensor data.
        """
        if not isinstance(source, Collection):
            raise TypeError(f"expected a collection to copy from, got a {type(source).__name__}")
        self._require(source, None, True)
        for key, value in source._store.items():
            self._set_(key, value, non_blocking)
        return self

    def _parent_of(self, path: Sequence[str], create: bool = False) -> Access:
        """The collection that holds the last name of a nested key."""
        node: Access = self
        for depth, name in enumerate(path):
            below = node._store.get(name)
            if below is None:
                if not create:
                    raise self._key_error(tuple(path[: depth + 1]))
                node._set(name, {})
                below = node._store[name]
            if not isinstance(below, Access) or not below._is_tree():
                raise leaf_above(path[: depth + 1])
            node = below
        return node

    def set(
        self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any
    ) -> Self:
        """Writes a value.

        Args:
            key: where; the collections on the way are made when they are missing.
            item: a tensor, a collection, a mapping (becomes a nested collection), a number, array or list of numbers
                (becomes a tensor), anything else (becomes non-tensor data).
            inplace: write into the value that is there, if there is one.
            non_blocking: do not wait for the transfer to the collection's device.
        """
        if kwargs:
            raise TypeError(f"set: unknown arguments {sorted(kwargs)}")
        if type(key) is str:
            self._set(key, item, inplace, non_blocking)
        else:
            self._set_nested(unravel_key_to_tuple(key), item, inplace, non_blocking)
        return self

    def _set_nested(self, path: tuple[str, ...], item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        """Writes a value below this level. What is missing on the way is made whole before any of it is stored."""
        node: Access = self
        for depth, name in enumerate(path[:-1]):
            below = node._store.get(name)
            if below is None:
                for key in reversed(path[depth + 1 :]):
                    item = {key: item}
                break
            if not isinstance(below, Access) or not below._is_tree():
                raise leaf_above(path[: depth + 1])
            node = below
        else:
            depth, name = len(path) - 1, path[-1]
        try:
            node._set(name, item, inplace, non_blocking)
        except Misfit as error:
            raise error.below(*path[:depth]) from None

    def set_(self, key: NestedKey, item: Any, *, non_blocking: bool = False) -> Self:
        """Writes into the value at ``key``, which must be there; works on locked collections."""
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
        """Writes into rows of the value at ``key``: ``data[key][index] = value``, which waits for transfers anyway."""
        *path, last = unravel_key_to_tuple(key)
        self._parent_of(path)._set_at(last, value, index)
        return self

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        """:meth:`set_at_` for a key of this level."""
        if is_strided_nested(value):
            raise strided_nested(key)
        if isinstance(value, (list, tuple)) and isinstance(self._store.get(key), Tensor):
            value = as_tensor(value)
        try:
            entry: Any = self._store[key]
            entry[index] = value
        except KeyError:
            if key in self._store:
                raise
            raise self._key_error(key) from None

    def set_non_tensor(self, key: NestedKey, value: Any) -> Self:
        """Writes ``value`` as non-tensor data, whatever it is."""
        from .nontensor import NonTensorData, NonTensorDataBase

        *path, last = unravel_key_to_tuple(key)
        parent = self._parent_of(path, create=True)
        if not isinstance(value, NonTensorDataBase):
            value = NonTensorData(value, batch_size=parent._batch_size, device=parent._device)
        parent._set(last, value)
        return self

    def fill_(self, key: NestedKey, value: float | bool) -> Self:
        """Fills the value at ``key`` (all values of it when it is a collection) in place."""
        *path, last = unravel_key_to_tuple(key)
        self._parent_of(path)._fill_at(last, value)
        return self

    def _fill_at(self, key: str, value: Any) -> None:
        """:meth:`fill_` for a key of this level."""
        destination = self._store.get(key)
        if destination is None:
            raise self._key_error(key)
        if isinstance(destination, Access):
            destination._fill(..., value)
        else:
            destination.fill_(value)

    def setdefault(self, key: NestedKey, default: Any, inplace: bool = False) -> Any:
        """The value at ``key``, after writing ``default`` there when there is none."""
        if key not in self:
            self.set(key, default, inplace=inplace)
        return self.get(key)

    def create_nested(self, key: NestedKey) -> Self:
        """Writes an empty nested collection at ``key``."""
        *path, last = unravel_key_to_tuple(key)
        self._parent_of(path, create=True)._set(last, {})
        return self

    def update(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection | None = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        is_leaf: IsLeaf | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Writes the values of a mapping or a collection; nested ones are merged.

        Args:
            input_dict_or_td: the source; more entries can come as keywords.
            clone: write copies of the values.
            inplace: write into values that are there.
            non_blocking: do not wait for transfers between devices.
            keys_to_update: only these keys of the source.
            is_leaf: called with the class of a value: ``True`` replaces it whole where it would be merged.
            update_batch_size: take the batch size of the source, which must be a collection.
            ignore_lock: write to a locked collection.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": 1, "b": {"c": 2}})
        >>> sorted(data.update({"b": {"d": 3}}).keys(True, True), key=str)
        [('b', 'c'), ('b', 'd'), 'a']
        """
        if self._lock is not None:
            if not inplace and not ignore_lock:
                self._check_unlocked()
            if ignore_lock and not is_dynamo_compiling():
                with uninterrupted() as section, self._opened(), section.interruptible():
                    Access.update(
                        self, input_dict_or_td, clone, inplace, non_blocking=non_blocking,
                        keys_to_update=keys_to_update, is_leaf=is_leaf, update_batch_size=update_batch_size, **kwargs,
                    )  # fmt: skip
                return self
        elif (
            input_dict_or_td.__class__ is dict
            and self._TAKES_ANY_KEY
            and self._device is None
            and not (
                clone or inplace or kwargs or update_batch_size or keys_to_update is not None or is_leaf is not None
            )
        ):  # what most updates are: tensors that fit replace those there, and nothing can fail
            size = self._batch_size
            ndim = len(size)
            given: Any = input_dict_or_td
            for key, value in given.items():
                if type(key) is not str or type(value) is not Tensor or value.is_nested or value.shape[:ndim] != size:
                    break
            else:
                self._store.update(given)
                return self
        wanted = None if keys_to_update is None else tree_of(keys_to_update)
        lock = self._lock
        if ignore_lock and lock is not None:
            self._unlock_below()
        undo: list[Before] = []
        try:
            if update_batch_size:
                if not isinstance(input_dict_or_td, Collection):
                    raise TypeError("update: update_batch_size needs a collection as the source: a mapping has none")
                self._make_room(input_dict_or_td, wanted, undo)
            sources = [input_dict_or_td, kwargs] if kwargs else [input_dict_or_td]
            if inplace:  # what is written into tensors cannot be undone
                for source in sources:
                    if source is not None:
                        self._require(source, wanted, True, optional=True)
            self._merge_all(sources, wanted, clone, inplace, non_blocking, is_leaf, undo)
        except BaseException:
            restore(undo)
            raise
        finally:
            if ignore_lock and lock is not None:
                self._lock_under(())
                self._lock = lock
        return self

    @contextmanager
    def _opened(self) -> Generator[None]:
        """Unlock a locked collection for a block."""
        lock = self._lock
        self._unlock_below()
        try:
            yield
        finally:
            self._lock_under(())
            self._lock = lock

    def _make_room(self, source: Collection, wanted: dict[str, Any] | None, undo: list[Before]) -> None:
        """Takes over the batch size of a source, which must replace all values that this batch size does not fit."""
        undo.append((self, {**self._store}, self._batch_size, self._names))
        size = source._batch_size
        for key, value in self._store.items():
            new = source._store.get(key) if wanted is None or key in wanted else None
            if isinstance(value, Access) and value._is_tree() and isinstance(new, Access) and new._is_tree():
                value._make_room(new, None if wanted is None else wanted[key], undo)
            elif new is None and value.shape[: len(size)] != size:
                raise RuntimeError(
                    f"update: the batch size {list(size)} does not fit {key!r}, which is not updated and has shape "
                    f"{list(value.shape)}"
                )
        self._batch_size = size
        self._names = source._names

    def _merge_all(self, sources: list[Any], *options: Any) -> None:
        """:meth:`_merge` with one source after the other."""
        for source in sources:
            self._merge(source, *options)
        for node, store, *_ in options[-1]:
            try:
                node._check_changed(store)
            except Misfit as error:
                path = self._path_to(node)
                raise error.below(*path) if path else error from None

    def _path_to(self, node: Collection) -> tuple[str, ...] | None:
        """The key of a nested collection, empty for this one and its parts; ``None`` where it is none of them."""
        if node is self:
            return ()
        holds = self._holds_values()
        below = [((key,), value) for key, value in self._store.items()] if holds else [((), x) for x in self._nodes()]
        for key, value in below:
            path = value._path_to(node) if isinstance(value, Access) else None
            if path is not None:
                return (*key, *path)
        return None

    def _merge(
        self,
        source: Any,
        wanted: dict[str, Any] | None,
        clone: bool,
        inplace: bool,
        non_blocking: bool,
        is_leaf: IsLeaf | None,
        undo: list[Before],
        /,
    ) -> None:
        """Writes the values of a source, and notes in ``undo`` what each level was before."""
        if source is None:
            return
        store = self._store
        undo.append((self, {**store}, self._batch_size, self._names))
        key: Any
        value: Any
        for key, value in entries_of(source).items():
            rest: Sequence[str] = ()
            if type(key) is not str:
                key, *rest = unravel_key_to_tuple(key)
                if rest:
                    value = {tuple(rest): value}
            below = None
            if wanted is not None:
                if key not in wanted:
                    continue
                below = wanted[key]
            if type(value) is Tensor and below is None:
                self._put(key, value.clone() if clone else value, inplace, non_blocking)
                continue
            nested: object = value
            if below is not None and not has_keys(nested):
                continue  # only something below this key is wanted, and there is nothing below
            if isinstance(value, (Collection, Mapping)):
                current = store.get(key)
                whole = not rest and is_leaf is not None and is_leaf(type(nested))
                if isinstance(current, Access) and current._merges(nested) and not whole:
                    try:
                        current._merge(nested, below, clone, inplace, non_blocking, is_leaf, undo)
                    except Misfit as error:
                        raise error.below(key) from None
                    continue
                if rest and current is not None:
                    raise leaf_above((key,))
                if below is not None:
                    value = _chosen(value, below)
            self._put(key, _cloned(value) if clone else value, inplace, non_blocking)

    def _merges(self, source: object) -> bool:
        """Whether ``update`` merges a nested source into this value; what is no tree is replaced whole."""
        return not isinstance(source, Collection) or source._is_tree()

    def update_(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection | None = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Writes into the values that are there, in place; a key that is missing here is a ``KeyError``."""
        wanted = None if keys_to_update is None else tree_of(keys_to_update)
        sources = [source for source in (input_dict_or_td, kwargs or None) if source is not None]
        for source in sources:
            self._require(source, wanted, True)
        for source in sources:
            self._merge(source, wanted, clone, True, non_blocking, None, [])
        return self

    def _require(
        self,
        source: Mapping[Any, Any] | Collection,
        wanted: dict[str, Any] | None,
        whole: bool = False,
        optional: bool = False,
    ) -> None:
        """Raises an error where a (wanted) key of the source is missing here.

        Args:
            whole: also where its value cannot be written into the one that is here.
            optional: keys that are missing here will be set.
        """
        for key, value in entries_of(source).items():
            if type(value) is Tensor and type(key) is str and wanted is None and whole:  # what most calls are
                current = self._store.get(key)
                if type(current) is Tensor and shape_of(value, key) == current.shape and not value.is_meta:
                    if current.requires_grad:
                        rehearsal.check_history((key,), current)
                    continue
            first, *rest = unravel_key_to_tuple(key)
            if wanted is not None and (
                first not in wanted or (wanted[first] is not None and not rest and not has_keys(value))
            ):
                continue
            current = self._store.get(first)
            tree = isinstance(current, Access) and current._is_tree()
            if current is None and optional:
                self._check_unlocked()
                if value is not None:
                    self._unnamed_fit(first, {tuple(rest): value} if rest else value)
                continue
            if current is None or (rest and not tree):
                raise self._key_error(key)
            value = {tuple(rest): value} if rest else value
            if tree and isinstance(value, (Collection, Mapping)) and current._merges(value):  # type: ignore[union-attr]
                below = wanted[first] if wanted is not None else None
                try:
                    current._require(value, below, whole, optional)  # type: ignore[union-attr]
                except Misfit as error:
                    raise error.below(first) from None
            elif whole:
                self._check_in_place(first, value, current)

    def _unnamed_fit(self, key: str, value: Any, non_blocking: bool = False) -> Value:
        """:meth:`_fit` for contents that are copied: the names of their dimensions say nothing."""
        if isinstance(value, Collection) and value._names is not None:
            value = value.rename(None)
        return self._fit(key, value, non_blocking)

    def _check_in_place(self, key: str, value: Any, current: Any) -> None:
        """Raises an error where a value cannot be written into the one that is here."""
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
                rehearsal.check_history((key,), current)

    def update_at_(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection,
        idx: Any,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
    ) -> Self:
        """Writes into rows of the values that are there: ``data[idx] = source`` for keys that exist.

        Args:
            input_dict_or_td: the rows.
            idx: an index of the batch.
            clone: says nothing here: what is written to rows is a copy.
            non_blocking: says nothing here: writing rows waits for transfers.
            keys_to_update: only these keys of the source.
        """
        wanted = None if keys_to_update is None else tree_of(keys_to_update)
        self._require(input_dict_or_td, wanted)
        self[idx] = input_dict_or_td if wanted is None else _chosen(input_dict_or_td, wanted)  # type: ignore[index]
        return self

    def copy_(self, tensordict: Collection, non_blocking: bool = False) -> Self:
        """Writes the values of ``tensordict``, which must have all the keys of this one, into the values here."""
        keys = [key for key, value in self._walk(True) if not (isinstance(value, Access) and value._is_tree())]
        missing = [key for key in keys if key not in tensordict]  # type: ignore[operator]
        if missing:
            raise KeyError(f"copy_: the source lacks the keys {missing}; its keys are {list(tensordict._store)}")
        return self.update_(tensordict, non_blocking=non_blocking, keys_to_update=keys)

    def copy_at_(self, tensordict: Collection, idx: Any, non_blocking: bool = False, *, fast: bool = True) -> Self:
        """Writes tensors into rows of those that are there; like :meth:`update_at_`, with fewer questions asked.

        Args:
            tensordict: a collection whose tensors have the shapes of those of ``self[idx]``; keys may be missing.
            idx: an int (also one of numpy, or a tensor with one), a slice, ``None``, ``...``, or a tuple of them.
            non_blocking: do not wait for transfers between devices.
            fast: ``False`` takes all that :meth:`update_at_` takes: other indices, mappings, objects, broadcasting.

        Raises:
            RuntimeError: ``fast`` is on and this is not the simple case that it is for. Nothing was written.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": torch.zeros(3)}, [3])
        >>> data.copy_at_(TensorDict({"a": 5.0}), 1)["a"]
        tensor([0., 5., 0.])
        """
        if not fast or type(self._store) is not dict:  # what is read from another store may be a copy
            return self.update_at_(tensordict, idx, non_blocking=non_blocking)
        given: Any = idx
        index: tuple[Any, ...] = given if isinstance(idx, tuple) else (idx,)
        views: list[tuple[Tensor, Tensor]] = []
        simple = all(item is None or item is ... or type(item) is int or _gives_views(item) for item in index)
        if not (simple and isinstance(tensordict, Access) and self._views_at(index, tensordict, views)):
            raise RuntimeError(
                "copy_at_: expected an index of ints, slices, None and ..., and tensors with the shapes "
                "of the indexed ones, under keys that are there; fast=False takes the rest. Nothing was written"
            )
        for view, row in views:
            view.copy_(row, non_blocking=non_blocking)
        return self

    def _views_at(self, index: tuple[Any, ...], rows: Collection, views: list[tuple[Tensor, Tensor]]) -> bool:
        """Collects the indexed tensors with what is to be written into them; ``False`` where one does not fit."""
        store: Any = self._store
        if type(store) is not dict:
            return False
        for key, row in rows._store.items():
            value: Any = self._store.get(key)
            if isinstance(value, Tensor) and isinstance(row, Tensor):
                view = value[index]
                if view.shape != row.shape:
                    return False
                if value.requires_grad:
                    rehearsal.check_history((key,), value)
                views.append((view, row))
            elif (
                not isinstance(value, Access) or not isinstance(row, Access)
                or not value._is_tree() or not row._is_tree() or not value._views_at(index, row, views)
            ):  # fmt: skip
                return False
        return True

    if TYPE_CHECKING:

        def _fill(self, item: Any, value: Any) -> None: ...
        def _check_new_key(self, key: str) -> None: ...
        def _lock_under(self, parents: Any) -> None: ...
        def _unlock_below(self) -> None: ...

    # -- removing -----------------------------------------------------------------------------------------------------

    def del_(self, key: NestedKey) -> Self:
        """Removes a key."""
        self.pop(key)
        return self

    def __delitem__(self, key: NestedKey) -> None:
        self.pop(key)

    def pop(self, key: NestedKey, default: Any = MISSING) -> Any:
        """Removes a key and gives its value; the default (if one is given) when there is no such key."""
        *path, last = unravel_key_to_tuple(key)
        parent = self._find(tuple(path))
        if isinstance(parent, Access) and last in parent._store:
            self._check_unlocked()
            parent._check_unlocked()
            return parent._store.pop(last)
        if default is MISSING:
            raise self._key_error(key)
        return default

    def popitem(self) -> tuple[str, Value]:
        """Removes the key that was written last and gives it with its value."""
        self._check_unlocked()
        if not self._store:
            raise KeyError("popitem: the collection has no keys")
        key = next(reversed(list(self._store)))
        return key, self._store.pop(key)

    def clear(self) -> Self:
        """Removes all keys."""
        self._check_unlocked()
        self._store.clear()
        return self

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Renames a key; with ``safe``, a ``KeyError`` when the new one is there already."""
        self._check_unlocked()
        if type(old_key) is str and type(new_key) is str:
            if old_key not in self._store:
                raise self._key_error(old_key)
            if new_key == old_key:
                return self
            if safe and new_key in self._store:
                raise KeyError(f"rename_key_: {new_key!r} is there already; safe=False replaces it")
            self._check_new_key(new_key)
            self._store[new_key] = self._store.pop(old_key)
            return self
        old, new = unravel_key_to_tuple(old_key), unravel_key_to_tuple(new_key)
        value = self._find(old)
        if value is MISSING:
            raise self._key_error(old_key)
        if old == new:
            return self
        if safe and new in self:
            raise KeyError(f"rename_key_: {new_key!r} is there already; safe=False replaces it")
        parent = self._parent_of(old[:-1])
        parent._check_unlocked()
        for depth in range(1, len(new)):
            above = MISSING if new[:depth] == old else self._find(new[:depth])
            if above is MISSING:
                break
            if not isinstance(above, Access) or not above._is_tree():
                raise leaf_above(new[:depth])
        before = {**parent._store}
        del parent._store[old[-1]]  # first, because the new key may lie below the old one, or the other way round
        try:
            self._set_nested(new, value)
        except BaseException:
            parent._store.clear()
            parent._store.update(before)
            raise
        return self
