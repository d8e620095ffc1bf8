"""Append rows to the arrays of a file, and undo it if a step fails."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.stores.write_back import WrittenBack

from .array_backend import Note
from .array_selection import select
from .group_store import GroupStore


def check_room(data: Any, rows: Any, path: tuple[str, ...], problems: list[str]) -> None:
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
        elif isinstance(row, NonTensorDataBase) and data._node(key, "object_rows") is not None:
            continue
        elif isinstance(store[key], WrittenBack) and isinstance(row, Collection):
            check_room(store[key], row, (*path, key), problems)
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


class AppendStep(NamedTuple):
    """A target of appended rows: a collection, an array in its group, or an array or the note of a column."""

    data: Any
    key: str  #: the key of the array or column; ``""`` for the collection
    rows: int  #: the number of rows before
    array: Any = None  #: the array of a column
    note: Note | None = None  #: the note that the column had


def append_rows(data: Any, rows: Any, steps: list[AppendStep]) -> None:
    """Append rows to all entries of a collection on a file. Note each step in ``steps``, for :func:`undo_append`."""
    store, before = data._store, data._batch_size[0]
    size = Size([before + rows._batch_size[0], *data._batch_size[1:]])
    for key in list(store):
        found = data._array(key)
        if found is not None:
            steps.append(AppendStep(data, key, before))
            store.file.backend.resize(found[2], size[0])
            node, note = store.find(key)
            index = (slice(before, size[0]),)
            store.write(key, node, note, rows._store[key], select(index, store.shape(key, node)))
        elif (column := data._column(key)) is not None:
            _, _, node, note = column
            _append_to_column(data, key, node, note or {}, rows._store[key].to("cpu").compact(), steps)
        elif _append_objects(data, key, rows._store[key], steps):
            continue
        elif isinstance(store[key], WrittenBack):
            append_rows(store[key], rows._store[key], steps)
        else:
            store[key] = torch.cat([store[key], rows._store[key]])
    steps.append(AppendStep(data, "", before))
    data._batch_size = size
    data._note()


def _append_to_column(data: Any, key: str, group: Any, note: Note, rows: Any, steps: list[AppendStep]) -> None:
    """Append items, then spans, whose starts are shifted by the items that are there."""
    store = data._store
    values, values_note = store.column_array(key, group, "values")
    spans, spans_note = store.column_array(key, group, "spans")
    if store.file.backend.is_group(values):
        before = store.column_size(key, values)[0]
        _append_to_column(data, key, values, values_note or {}, rows._items, steps)
    else:
        before = store.shape(key, values)[0]
        _append_to_array(data, key, values, values_note, rows._items, steps)
    own = rows.spans
    if not note["missing"] and bool((own[..., 1] < 0).any()):
        steps.append(AppendStep(data, key, 0, group, note))
        store.file.backend.write_note(group, {**note, "missing": True})
    _append_to_array(data, key, spans, spans_note, torch.stack((own[..., 0] + before, own[..., 1]), -1), steps)


def _append_objects(data: Any, key: str, rows: Any, steps: list[AppendStep]) -> bool:
    """Append objects to those in rows of text; return whether that is possible."""
    found = data._node(key, "object_rows")
    if found is None or not isinstance(rows, NonTensorDataBase):
        return False
    store, _, group, note = found
    arrays = [store.column_array(key, group, name)[0] for name in ("values", "spans")]
    if not all(map(store.file.backend.can_resize, arrays)):
        return False
    text = store.file.text_rows(rows, note.get("form"), (*store.path, key))
    if text is None:
        return False
    _append_to_column(data, key, group, note, text, steps)
    return True


def _append_to_array(data: Any, key: str, array: Any, note: Note | None, rows: Tensor, steps: list[AppendStep]) -> None:
    store = data._store
    before = store.shape(key, array)[0]
    steps.append(AppendStep(data, key, before, array))
    if len(rows):
        store.file.backend.resize(array, before + len(rows))
        store.write(key, array, note, rows, select((slice(before, before + len(rows)),), store.shape(key, array)))


def undo_append(file: Any, steps: list[AppendStep]) -> None:
    """Undo an append that failed. A closed file has undone it already."""
    for data, key, rows, array, note in reversed(steps):
        if not key:
            data._batch_size = Size([rows, *data._batch_size[1:]])
        if file.is_closed:
            continue
        with suppress(OSError, ValueError, KeyError):
            if note is not None:
                file.backend.write_note(array, note)
            elif key:
                file.backend.resize(data._array(key)[2] if array is None else array, rows)
            else:
                data._note()
