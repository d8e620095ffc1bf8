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
from .group_entry import GroupEntry
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
        found = data._entry(key, "tensor", "column", "object_rows")
        if found is not None and found.kind == "tensor":
            shape = found.shape
            if not isinstance(row, Tensor) or row.shape[1:] != shape[1:]:
                problems.append(f"{where}: expected rows of shape {list(shape[1:])}, got {list(row.shape[1:])}")
            elif not store.file.backend.can_resize(found.node):
                problems.append(f"{where}: its array has a fixed size; write the file with resizable=True")
        elif found is not None and found.kind == "column":
            _check_column_room(store.placeholder(key), found, row, where, problems)
        elif found is not None and holds_objects(row):
            continue
        elif isinstance(store[key], WrittenBack) and isinstance(row, Collection):
            _check_room(store[key], row, (*path, key), problems)
        elif isinstance(store[key], Collection) and not store[key]._is_tree() and isinstance(row, Collection):
            continue
        else:
            problems.append(f"{where}: a {type_name(store[key])} cannot get more rows in a file")


def _check_column_room(own: Any, entry: GroupEntry, row: Any, where: str, problems: list[str]) -> None:
    """Note why rows cannot be appended to a column; ``own`` has the shapes and dtypes of what is there."""
    backend = entry.file.backend
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
        values, arrays = entry.part("values"), [entry.part("spans").node]
        if not values.is_group:
            arrays.append(values.node)
            if row._items.dtype != dtype and bool((row._spans()[..., 1] > 0).any()):  # without items it says nothing
                problems.append(f"{where}: expected items of {dtype}, got {row._items.dtype}")
        if not all(map(backend.can_resize, arrays)):
            problems.append(f"{where}: its arrays have a fixed size; write the file with resizable=True")
            return
        entry, row, own = values, row._items, own._items if values.is_group else None


def _append_rows(data: Any, rows: Any, undo: list[Undo]) -> None:
    """Append rows to all entries of a collection on a file. Add what undoes each step."""
    store, before = data._store, data._batch_size[0]
    size = Size([before + rows._batch_size[0], *data._batch_size[1:]])
    for key in list(store):
        found, row = data._entry(key, "tensor", "column", "object_rows"), rows._store[key]
        if found is not None and found.kind == "tensor":
            undo.append(partial(_resize, store, found.node, before))
            _resize(store, found.node, size[0])
            found = store.find(key)
            found.write(row, select((slice(before, size[0]),), found.shape))
        elif found is not None and found.kind == "column":
            _append_to_column(found, row.to("cpu").compact(), undo)
        elif found is not None and _append_objects(found, row, undo):
            continue
        elif isinstance(store[key], WrittenBack):
            _append_rows(store[key], row, undo)
        else:
            store[key] = torch.cat([store[key], row])
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


def _append_to_column(entry: GroupEntry, rows: Any, undo: list[Undo]) -> None:
    """Append items, then spans, whose starts are shifted by the items that are there."""
    values, spans, note = entry.part("values"), entry.part("spans"), entry.note or {}
    if values.is_group:
        before = values.column_size[0]
        _append_to_column(values, rows._items, undo)
    else:
        before = values.shape[0]
        _append_to_array(values, rows._items, undo)
    own = rows.spans
    if not note["missing"] and bool((own[..., 1] < 0).any()):
        undo.append(partial(_write_note, entry.store, entry.node, note))
        _write_note(entry.store, entry.node, {**note, "missing": True})
    _append_to_array(spans, torch.stack((own[..., 0] + before, own[..., 1]), -1), undo)


def _append_objects(entry: GroupEntry, rows: Any, undo: list[Undo]) -> bool:
    """Append objects to those in rows of text; return whether that is possible."""
    arrays = [entry.part(name).node for name in ("values", "spans")]
    if not holds_objects(rows) or not all(map(entry.file.backend.can_resize, arrays)):
        return False
    text = entry.file.text_rows(rows, (entry.note or {}).get("form"), entry.path)
    if text is None:
        return False
    _append_to_column(entry, text, undo)
    return True


def _append_to_array(entry: GroupEntry, rows: Tensor, undo: list[Undo]) -> None:
    before = entry.shape[0]
    undo.append(partial(_resize, entry.store, entry.node, before))
    if len(rows):
        _resize(entry.store, entry.node, before + len(rows))
        entry.write(rows, select((slice(before, before + len(rows)),), entry.shape))
