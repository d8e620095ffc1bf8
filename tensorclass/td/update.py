"""Update a collection from another collection or from a mapping."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import type_name

from . import in_place_checks, native, shapes
from .collection import Collection
from .get import MISSING
from .hidden_members import with_members
from .keys import NestedKey, key_tree, unravel_key_to_tuple
from .locking import Locking
from .set import Writing, leaf_above
from .tracing import kernels_run
from .value_checks import Misfit, are_tensors_of, shape_of

if TYPE_CHECKING:
    from .collection import Value
    from .get import IsLeaf

    #: a collection with its previous entries, batch size and dimension names
    Before = tuple["Updating", dict[str, Value], Size, shapes.Names]


def entries_of(source: Any) -> Any:
    """Return the mapping of a source's entries: the store of a collection, or a mapping itself."""
    if isinstance(source, Collection):
        return source._now()
    if not hasattr(source, "items"):
        raise TypeError(f"expected a mapping or a collection to update from, got {source!r} ({type_name(source)})")
    return source


def restore(undo: list[Before]) -> None:
    """Undo what a merge wrote."""
    for node, store, size, names in reversed(undo):
        node._store.clear()
        node._store.update(store)
        node._batch_size, node._names = size, names


def _source_now(source: Any) -> Any:
    """Return a snapshot of a source, so that the values that were checked are those that are written."""
    if isinstance(source, Collection):
        return source._levels_now()
    if isinstance(source, Mapping):
        entries: dict[Any, Any] = {**source}
        return {key: _source_now(value) for key, value in entries.items()}
    return source


def _wanted_entries(source: Any, wanted: Any) -> Any:
    """Return the wanted keys of a collection or a mapping."""
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
            chosen[key] = _wanted_entries(value, below)
    return chosen


def has_keys(value: object) -> bool:
    """Return whether a source value is a tree: a mapping or a nested collection."""
    return isinstance(value, Mapping) or (isinstance(value, Collection) and value._is_tree())


def _clone_value(value: Any) -> Any:
    """Copy the tensors of a value, at any depth. Other objects are returned as they are."""
    source: Any = value
    if isinstance(value, Mapping):
        return {key: _clone_value(item) for key, item in source.items()}
    return with_members(value).clone() if isinstance(value, (Tensor, Collection)) else value  # type: ignore[union-attr]


def _is_basic_index(item: object) -> bool:
    """Return whether an index other than an int is a slice or a single position."""
    array: Any = item
    if isinstance(item, (Tensor, np.ndarray)):
        return not array.ndim and array.dtype in _INTS
    return isinstance(item, (slice, np.integer))


#: dtypes of a scalar index; torch treats other integer dtypes as masks
_INTS = (torch.int64, torch.int32, np.dtype("int64"), np.dtype("int32"))


class Updating(Writing, Locking):
    """``update``, ``copy_`` and their variants."""

    __slots__ = ()

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
        """Set the values of a mapping or a collection. Nested collections are merged. On an error, no key has changed.

        Args:
            input_dict_or_td: the source: a collection or a mapping of keys, nested or not, to what :meth:`set` takes.
            clone: set copies of the values. Default: ``False``, the values are shared.
            inplace: write into existing values instead of replacing them. Default: ``False``.
            non_blocking: do not wait for transfers between devices. Default: ``False``.
            keys_to_update: the only keys of the source to use. Default: all.
            is_leaf: called with the class of a nested value. If it returns ``True``, the value is replaced as a whole
                instead of merged.
            update_batch_size: take the batch size of the source, which must be a collection. Default: ``False``.
            ignore_lock: write to a locked collection. Default: ``False``.
            kwargs: more entries of the source.

        Returns:
            This collection.

        Raises:
            RuntimeError: the collection is locked, or a value's shape does not begin with the batch size.
            TypeError: the source is neither a mapping nor a collection.

        Example:
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
                    Updating.update(
                        self, input_dict_or_td, clone, inplace, non_blocking=non_blocking,
                        keys_to_update=keys_to_update, is_leaf=is_leaf, update_batch_size=update_batch_size, **kwargs,
                    )  # fmt: skip
                return self
        elif (
            type(input_dict_or_td) is DICT
            and self._TAKES_ANY_KEY
            and self._device is None
            and not (
                clone or inplace or kwargs or update_batch_size or keys_to_update is not None or is_leaf is not None
            )
        ):  # the most frequent case: tensors that fit replace others, and nothing can fail
            size = self._batch_size
            given: Any = input_dict_or_td
            if are_tensors_of(given, size):
                self._store.update(given)
                return self
        if (
            inplace
            and not (kwargs or update_batch_size or keys_to_update is not None or is_leaf is not None)
            and self._write_at_once(input_dict_or_td, False, non_blocking)
        ):
            return self
        wanted = None if keys_to_update is None else key_tree(keys_to_update)
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
            if inplace:  # writes into tensors cannot be undone
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
        """Take over the batch size of a source, which must replace all values that this batch size does not fit."""
        undo.append((self, {**self._store}, self._batch_size, self._names))
        size = source._batch_size
        for key, value in self._now().items():
            new = source._store.get(key) if wanted is None or key in wanted else None
            if isinstance(value, Updating) and value._is_tree() and isinstance(new, Updating) and new._is_tree():
                value._make_room(new, None if wanted is None else wanted[key], undo)
            elif new is None and (shape := with_members(value).shape)[: len(size)] != size:
                raise RuntimeError(
                    f"update: the batch size {list(size)} does not fit {key!r}, which is not updated and has shape "
                    f"{list(shape)}"
                )
        self._batch_size = size
        self._names = source._names

    def _merge_all(self, sources: list[Any], *options: Any) -> None:
        """:meth:`_merge` for each source in turn."""
        for source in sources:
            self._merge(source, *options)
        for node, store, *_ in options[-1]:
            try:
                node._check_changed(store)
            except Misfit as error:
                path = self._path_to(node)
                raise error.below(*path) if path else error from None

    def _path_to(self, node: Collection) -> tuple[str, ...] | None:
        """Return the key of a nested collection: ``()`` for this one and its components, ``None`` if not found."""
        if node is self:
            return ()
        holds = self._holds_values()
        below = [((key,), value) for key, value in self._now().items()] if holds else [((), x) for x in self._nodes()]
        for key, value in below:
            path = value._path_to(node) if isinstance(value, Updating) else None
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
        """Set the values of a source. ``undo`` collects the previous state of each level."""
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
                continue  # a key below this one is wanted, but the value is a leaf
            if isinstance(value, (Collection, Mapping)):
                current = store.get(key)
                whole = not rest and is_leaf is not None and is_leaf(type(nested))
                if isinstance(current, Updating) and current._merges(nested) and not whole:
                    try:
                        current._merge(nested, below, clone, inplace, non_blocking, is_leaf, undo)
                    except Misfit as error:
                        raise error.below(key) from None
                    continue
                if rest and current is not None:
                    raise leaf_above((key,))
                if below is not None:
                    value = _wanted_entries(value, below)
            self._put(key, _clone_value(value) if clone else value, inplace, non_blocking)

    @native.tries("write_all")
    def _write_at_once(self, source: Any, whole: bool, non_blocking: bool) -> bool:
        """Write the tensors of a source into those of this collection by one call, after a check of all of them.

        Return ``False``, with nothing written, if a value needs more than a copy of the same shape.

        Args:
            source: a collection or a mapping.
            whole: write all values of this collection instead of all values of the source.
            non_blocking: do not wait for transfers between devices.
        """
        if not kernels_run():
            return False
        targets: list[Tensor] = []
        contents: list[Tensor] = []
        try:
            if not self._pairs_into(source, whole, torch.is_grad_enabled(), targets, contents):
                return False
        except RuntimeError:  # a nested tensor without a shape
            return False
        if targets:
            torch._foreach_copy_(targets, contents, non_blocking)  # pyright: ignore[reportPrivateImportUsage]
        return True

    def _pairs_into(
        self, source: Any, whole: bool, records_gradients: bool, targets: list[Tensor], contents: list[Tensor]
    ) -> bool:
        """Collect the tensors of all levels, and what :meth:`_write_at_once` writes into them."""
        store: Any = self._store
        entries: Any = source._store if isinstance(source, Updating) else source
        if type(store) is not DICT or type(entries) is not DICT:
            return False
        store, entries = {**store}, {**entries}  # as in _now
        for key in store if whole else entries:
            current, value = store.get(key), entries.get(key)
            if type(current) is Tensor and type(value) is Tensor:
                if current.shape != value.shape or value.is_meta:
                    return False
                if records_gradients and (current.requires_grad or value.requires_grad):
                    return False  # a kernel gives all tensors a history or none
                targets.append(current)
                contents.append(value)
            elif (
                not isinstance(current, Updating)
                or not current._is_tree()
                or not current._merges(value)
                or not current._pairs_into(value, whole, records_gradients, targets, contents)
            ):
                return False
        return True

    def _merges(self, source: object) -> bool:
        """Return whether ``update`` merges a nested source into this value. Leaves are replaced instead."""
        return not isinstance(source, Collection) or source._is_tree()

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        """Write the values of a collection into those of this one. Keys that the source lacks keep their values.

        Returns the collection to store from now on: this one, or another one in case of non-tensor data.
        """
        if not isinstance(source, Collection):
            raise TypeError(f"expected a collection to copy from, got a {type_name(source)}")
        if self._write_at_once(source, False, non_blocking):
            return self
        here, source = self._levels_now(), source._levels_now()
        here._require(source, None, True)
        for key, value in source._now().items():
            here._set_(key, value, non_blocking)
        return self

    def update_(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection | None = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Write the values of a mapping or a collection into existing values, in place. Locked collections allow this.

        Args:
            input_dict_or_td: the source, as for :meth:`update`. All its keys must exist here.
            clone: has no effect: values that are written in place are copied.
            non_blocking: do not wait for transfers between devices. Default: ``False``.
            keys_to_update: the only keys of the source to use. Default: all.
            kwargs: more entries of the source.

        Returns:
            This collection. Its tensors are the same objects as before.

        Raises:
            KeyError: a key of the source does not exist here.
            RuntimeError: a shape does not fit. Nothing was written.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}, [2]).lock_()
            >>> data.update_({"a": torch.ones(2)})["a"]
            tensor([1., 1.])
        """
        if keys_to_update is None and not kwargs and self._write_at_once(input_dict_or_td, False, non_blocking):
            return self
        wanted = None if keys_to_update is None else key_tree(keys_to_update)
        sources = [_source_now(source) for source in (input_dict_or_td, kwargs or None) if source is not None]
        here = self._levels_now()
        for source in sources:
            here._require(source, wanted, True)
        for source in sources:
            here._merge(source, wanted, clone, True, non_blocking, None, [])
        return self

    def _require(
        self,
        source: Mapping[Any, Any] | Collection,
        wanted: dict[str, Any] | None,
        whole: bool = False,
        optional: bool = False,
    ) -> None:
        """Raise if a (wanted) key of the source does not exist here.

        Args:
            whole: also raise if a value cannot be written into the existing one.
            optional: accept keys that do not exist here, because they will be set.
        """
        for key, value in entries_of(source).items():
            if type(value) is Tensor and type(key) is str and wanted is None and whole:  # the most frequent case
                current = self._store.get(key)
                if type(current) is Tensor and shape_of(value, key) == current.shape and not value.is_meta:
                    if current.requires_grad:
                        in_place_checks.check_history((key,), current)
                    continue
            first, *rest = unravel_key_to_tuple(key)
            if wanted is not None and (
                first not in wanted or (wanted[first] is not None and not rest and not has_keys(value))
            ):
                continue
            current = self._store.get(first)
            tree = isinstance(current, Updating) and current._is_tree()
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

    def update_at_(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection,
        idx: Any,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
    ) -> Self:
        """Write a collection or a mapping into rows of existing values: ``data[idx] = source`` for keys that exist.

        Args:
            input_dict_or_td: the rows, of the batch size of ``data[idx]`` or one that expands to it.
            idx: an index into the batch.
            clone: has no effect: rows are copied when they are written.
            non_blocking: has no effect: writing to rows waits for transfers between devices.
            keys_to_update: the only keys of the source to use. Default: all.

        Returns:
            This collection.

        Raises:
            KeyError: a key of the source does not exist here.
            RuntimeError: a shape does not fit. Nothing was written.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3)}, [3])
            >>> data.update_at_({"a": torch.ones(2)}, slice(1, None))["a"]
            tensor([0., 1., 1.])
        """
        wanted = None if keys_to_update is None else key_tree(keys_to_update)
        self._require(input_dict_or_td, wanted)
        self[idx] = input_dict_or_td if wanted is None else _wanted_entries(input_dict_or_td, wanted)
        return self

    def copy_(self, tensordict: Collection, non_blocking: bool = False) -> Self:
        """Write the values of a collection into the values of this one, in place.

        Args:
            tensordict: a collection that has all keys of this one. Other keys are ignored.
            non_blocking: do not wait for transfers between devices. Default: ``False``.

        Returns:
            This collection. Its tensors are the same objects as before.

        Raises:
            KeyError: the source lacks a key.
            RuntimeError: a shape does not fit. Nothing was written.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> data.copy_(TensorDict({"a": torch.ones(2), "b": torch.ones(2)}, [2]))["a"]
            tensor([1., 1.])
        """
        if self._write_at_once(tensordict, True, non_blocking):
            return self
        here, source = self._levels_now(), _source_now(tensordict)
        keys = [key for key, value in here._walk(True) if not (isinstance(value, Updating) and value._is_tree())]
        missing = [key for key in keys if key not in source]
        if missing:
            raise KeyError(f"copy_: the source lacks the keys {missing}; its keys are {list(source._store)}")
        with_members(here).update_(source, non_blocking=non_blocking, keys_to_update=keys)
        return self

    def copy_at_(self, tensordict: Collection, idx: Any, non_blocking: bool = False, *, fast: bool = True) -> Self:
        """Write tensors into rows of existing ones, like :meth:`update_at_` with fewer checks.

        Args:
            tensordict: a collection whose tensors have the shapes of those of ``self[idx]``; keys may be missing.
            idx: an int (of Python, of NumPy or in a tensor), a slice, ``None``, ``...``, or a tuple of these.
            non_blocking: do not wait for transfers between devices. Default: ``False``.
            fast: ``False`` accepts everything that :meth:`update_at_` accepts: other indices, mappings, objects,
                broadcasting. Default: ``True``.

        Returns:
            This collection.

        Raises:
            RuntimeError: ``fast`` is set and the arguments are not of this simple form. Nothing was written.
            TypeError: ``fast`` is neither ``True`` nor ``False``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3)}, [3])
            >>> data.copy_at_(TensorDict({"a": 5.0}), 1)["a"]
            tensor([0., 5., 0.])
        """
        if fast is not True and fast is not False:
            raise TypeError(f"copy_at_: fast: expected True or False, got {fast!r}")
        if not fast or type(self._store) is not dict:  # values that are read from another store may be copies
            return with_members(self).update_at_(tensordict, idx, non_blocking=non_blocking)
        given: Any = idx
        index: tuple[Any, ...] = given if isinstance(idx, tuple) else (idx,)
        views: list[tuple[Tensor, Tensor]] = []
        simple = all(item is None or item is ... or type(item) is int or _is_basic_index(item) for item in index)
        if not (simple and isinstance(tensordict, Updating) and self._views_at(index, tensordict, views)):
            raise RuntimeError(
                "copy_at_: expected an index of ints, slices, None and ..., and tensors with the shapes of the "
                "indexed ones, under existing keys; fast=False accepts all else. Nothing was written"
            )
        for view, row in views:
            view.copy_(row, non_blocking=non_blocking)
        return self

    def _views_at(self, index: tuple[Any, ...], rows: Collection, views: list[tuple[Tensor, Tensor]]) -> bool:
        """Collect pairs of an indexed tensor and its new content. Return ``False`` if one does not fit."""
        store: Any = self._store
        if type(store) is not dict:
            return False
        for key, row in rows._now().items():
            value: Any = self._store.get(key)
            if isinstance(value, Tensor) and isinstance(row, Tensor):
                view = value[index]
                if view.shape != row.shape:
                    return False
                if value.requires_grad:
                    in_place_checks.check_history((key,), value)
                views.append((view, row))
            elif (
                not isinstance(value, Updating) or not isinstance(row, Updating)
                or not value._is_tree() or not row._is_tree() or not value._views_at(index, row, views)
            ):  # fmt: skip
                return False
        return True
