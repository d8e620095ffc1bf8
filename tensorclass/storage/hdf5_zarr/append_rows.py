"""Append rows to the arrays of a file, and undo it if a step fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Size, Tensor

from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.stores.write_back import WrittenBack

from .array_backend import Note
from .array_selection import select
from .group_store import GroupStore

#: undoes a step of an append
Undo: TypeAlias = Callable[[], object]


def extend(data: Any, rows: Any) -> None:
    """Append rows to a collection on a file; see :meth:`.PersistentTensorDict.extend`."""
    if not data._batch_size:
        raise RuntimeError("extend: a collection without batch dimensions has no rows")
    if not isinstance(rows, Collection):
        count = len(next(iter(rows.values()))) if rows else 0
        rows = data._as_rows(rows, Size([count, *data._batch_size[1:]]))
    if rows._batch_size[1:] != data._batch_size[1:] or not rows._batch_size:
        raise RuntimeError(f"extend: expected rows of the batch size {list(data._batch_size[1:])} each")
    file = data._store.file
    file.check_writable("extend")
    problems: list[str] = []
    _check_room(data, rows, (), problems)
    if problems:
        raise RuntimeError("extend: nothing was written; " + "; ".join(problems))
    undo: list[Undo] = []
    with uninterrupted():
        try:
            with file.changing():
                _append_rows(data, rows, undo)
        except BaseException:
            for step in reversed(undo):
                with suppress(OSError, ValueError, KeyError):
                    step()
            raise


def _check_room(data: Any, rows: Any, path: tuple[str, ...], problems: list[str]) -> None:
    """Note why rows cannot be appended to a collection on a file: other keys, other shapes, arrays of a fixed size."""
    store = data._store
    keys, given = set(store), set(rows._store)
    if keys != given:
        problems.append(f"{dotted(path) or 'rows'}: expected the keys {sorted(keys)}, got {sorted(given)}")
        return
    for key in store:
        row, where = rows._store[key], ".".join((*path, key))
        found = data._array(key)
        if found is not None:
            shape = store.shape(key, found[2])
            if not isinstance(row, Tensor) or row.shape[1:] != shape[1:]:
                problems.append(f"{where}: expected rows of shape {list(shape[1:])}, got {list(row.shape[1:])}")
            elif not store.file.backend.can_resize(found[2]):
                problems.append(f"{where}: its array has a fixed size; write the file with resizable=True")
        elif (column := data._column(key)) is not None:
            _check_column_room(store, key, column[2], row, where, problems)
        elif holds_objects(row) and data._node(key, "object_rows") is not None:
            continue
        elif isinstance(store[key], WrittenBack) and isinstance(row, Collection):
            _check_room(store[key], row, (*path, key), problems)
        elif isinstance(store[key], Collection) and not store[key]._is_tree() and isinstance(row, Collection):
            continue
        else:
            problems.append(f"{where}: a {type_name(store[key])} cannot get more rows in a file")


def _check_column_room(store: GroupStore, key: str, group: Any, row: Any, where: str, problems: list[str]) -> None:
    own = store.placeholder(key)
    try:
        own._check_same_kind(row, f"{where}: cannot join")
    except RuntimeError as error:
        problems.append(str(error))
        return
    while own is not None:
        dtype = own._items.dtype
        if row._batch_size[1:] != own._batch_size[1:]:
            problems.append(
                f"{where}: expected rows of shape {list(own._batch_size[1:])}, got {list(row._batch_size[1:])}"
            )
        values, _ = store.column_array(key, group, "values")
        arrays = [store.column_array(key, group, "spans")[0]]
        is_nested = store.file.backend.is_group(values)
        if not is_nested:
            arrays.append(values)
            if row._items.dtype != dtype and bool((row._spans()[..., 1] > 0).any()):  # without items it says nothing
                problems.append(f"{where}: expected items of {dtype}, got {row._items.dtype}")
        if not all(map(store.file.backend.can_resize, arrays)):
            problems.append(f"{where}: its arrays have a fixed size; write the file with resizable=True")
            return
        group, row, own = values, row._items, own._items if is_nested else None


def _append_rows(data: Any, rows: Any, undo: list[Undo]) -> None:
    """Append rows to all entries of a collection on a file. Add what undoes each step."""
    store, before = data._store, data._batch_size[0]
    size = Size([before + rows._batch_size[0], *data._batch_size[1:]])
    for key in list(store):
        found = data._array(key)
        if found is not None:
            undo.append(partial(_resize, store, found[2], before))
            _resize(store, found[2], size[0])
            node, note = store.find(key)
            index = (slice(before, size[0]),)
            store.write(key, node, note, rows._store[key], select(index, store.shape(key, node)))
        elif (column := data._column(key)) is not None:
            _, _, node, note = column
            _append_to_column(data, key, node, note or {}, rows._store[key].to("cpu").compact(), undo)
        elif _append_objects(data, key, rows._store[key], undo):
            continue
        elif isinstance(store[key], WrittenBack):
            _append_rows(store[key], rows._store[key], undo)
        else:
            store[key] = torch.cat([store[key], rows._store[key]])
    undo.append(partial(_take_batch_size, data, data._batch_size))
    _take_batch_size(data, size)


def _resize(store: GroupStore, array: Any, rows: int) -> None:
    if not store.file.is_closed:  # a file that was closed by an error has undone its changes already
        store.file.backend.resize(array, rows)


def _write_note(store: GroupStore, group: Any, note: Note) -> None:
    if not store.file.is_closed:
        store.file.backend.write_note(group, note)


def _take_batch_size(data: Any, size: Size) -> None:
    data._batch_size = size
    if not data._store.file.is_closed:
        data._note()


def _append_to_column(data: Any, key: str, group: Any, note: Note, rows: Any, undo: list[Undo]) -> None:
    """Append items, then spans, whose starts are shifted by the items that are there."""
    store = data._store
    values, values_note = store.column_array(key, group, "values")
    spans, spans_note = store.column_array(key, group, "spans")
    if store.file.backend.is_group(values):
        before = store.column_size(key, values)[0]
        _append_to_column(data, key, values, values_note or {}, rows._items, undo)
    else:
        before = store.shape(key, values)[0]
        _append_to_array(data, key, values, values_note, rows._items, undo)
    own = rows.spans
    if not note["missing"] and bool((own[..., 1] < 0).any()):
        undo.append(partial(_write_note, store, group, note))
        _write_note(store, group, {**note, "missing": True})
    _append_to_array(data, key, spans, spans_note, torch.stack((own[..., 0] + before, own[..., 1]), -1), undo)


def _append_objects(data: Any, key: str, rows: Any, undo: list[Undo]) -> bool:
    """Append objects to those in rows of text; return whether that is possible."""
    found = data._node(key, "object_rows")
    if found is None or not holds_objects(rows):
        return False
    store, _, group, note = found
    arrays = [store.column_array(key, group, name)[0] for name in ("values", "spans")]
    if not all(map(store.file.backend.can_resize, arrays)):
        return False
    text = store.file.text_rows(rows, note.get("form"), (*store.path, key))
    if text is None:
        return False
    _append_to_column(data, key, group, note, text, undo)
    return True


def _append_to_array(data: Any, key: str, array: Any, note: Note | None, rows: Tensor, undo: list[Undo]) -> None:
    store = data._store
    before = store.shape(key, array)[0]
    undo.append(partial(_resize, store, array, before))
    if len(rows):
        _resize(store, array, before + len(rows))
        store.write(key, array, note, rows, select((slice(before, before + len(rows)),), store.shape(key, array)))
