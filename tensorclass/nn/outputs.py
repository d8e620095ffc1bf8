"""Write the outputs of a module to a collection: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from torch import Tensor

from tensorclass.support.exact_types import DICT
from tensorclass.td.base import TensorCollection
from tensorclass.td.get import MISSING
from tensorclass.td.keys import FlatKey, unravel_key_to_tuple
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.update import restore

if TYPE_CHECKING:
    from tensorclass.td.update import Before

__all__ = ["Inplace", "beside", "noted", "remove", "restore", "set_value", "write"]


#: the destination of a module: its input, a new TensorDict, or an empty collection like its input
Inplace: TypeAlias = "bool | Literal['empty'] | None"


def noted(data: TensorCollection, keys: Sequence[FlatKey]) -> list[Before]:
    """Save the entries of the collections that a write to these keys changes, for :func:`restore`.

    A lazy stack is restored in the collections that it stacks. Writes that reach a file, or rows of another collection,
    cannot be undone.
    """
    before: list[Before] = []
    store: Any = data._store
    if type(store) is DICT:
        before.append((data, store.copy(), data._batch_size, data._names))
    else:
        _note(data, before)
    for key in keys:
        if type(key) is tuple:
            _note_below(data, key, before)
    return before


def _note(node: TensorCollection, before: list[Before]) -> None:
    store: Any = node._store
    if type(store) is DICT:
        before.append((node, store.copy(), node._batch_size, node._names))
    elif not node._holds_values():
        part: Any
        for part in node._nodes():
            _note(part, before)


def _note_below(node: TensorCollection, path: tuple[str, ...], before: list[Before]) -> None:
    if not node._holds_values():
        part: Any
        for part in node._nodes():
            _note_below(part, path, before)
        return
    for name in path[:-1]:
        store: Any = node._store
        below: Any = store.get(name) if type(store) is DICT else None
        if not isinstance(below, TensorCollection) or not below._is_tree():
            return
        _note(below, before)
        if not below._holds_values():
            _note_below(below, path[path.index(name) + 1 :], before)
            return
        node = below


def beside(data: TensorCollection, inplace: Inplace, keys: Sequence[FlatKey]) -> TensorCollection:
    """Return the collection to write these keys to if ``data`` must stay unchanged.

    It has an empty record wherever ``data`` has a record on the path of a key.
    """
    out: TensorCollection = data.empty() if inplace or not isinstance(data, TensorDict) else TensorDict()
    for key in keys:
        path = unravel_key_to_tuple(key)
        for depth in range(1, len(path)):
            holder: Any = data._find(path[:depth])
            is_record = isinstance(holder, TensorCollection) and not isinstance(holder, TensorDict)
            if is_record and holder._is_tree() and out._find(path[:depth]) is MISSING:
                out.set(path[:depth], holder.empty())
    return out


def write(data: TensorCollection, keys: Sequence[FlatKey], values: Sequence[Any]) -> None:
    """Write one value per key. If a value does not fit, none is written."""
    if len(keys) == 1:
        set_value(data, keys[0], values[0])
        return
    if data._TAKES_ANY_KEY and data._lock is None and data._device is None:  # most writes: nothing can fail
        size = data._batch_size
        ndim = len(size)
        store: Any = data._store
        entries = [*zip(keys, values, strict=True)]
        for key, value in entries:
            if type(key) is not str or type(value) is not Tensor:
                break
            shape = value.shape
            if (shape[0] != size[0]) if ndim == 1 and shape else shape[:ndim] != size:  # the first comparison is faster
                break
        else:
            for key, value in entries:
                store[key] = value
            return
    before = noted(data, keys)
    try:
        for key, value in zip(keys, values, strict=True):
            set_value(data, key, value)
    except BaseException:
        restore(before)
        raise


def set_value(data: TensorCollection, key: FlatKey, value: Any) -> None:
    """``data.set(key, value)``."""
    if type(key) is str:
        data._set(key, value)
    else:
        data._set_nested(key, value)  # type: ignore[arg-type]


def remove(data: TensorCollection, key: FlatKey) -> None:
    """Remove a value, and the nested collections that are empty afterwards."""
    path = unravel_key_to_tuple(key)
    if data._find(path) is not MISSING:
        data.del_(key)
    for depth in range(len(path) - 1, 0, -1):
        holder: Any = data._find(path[:depth])
        if holder is not MISSING:
            if len(holder.keys()):
                break
            data.del_(path[:depth])
