"""Columns as nodes of pytrees.

The leaves of a :class:`Ragged` are its items, packed row by row, and the spans of the rows. So a function over the
leaves acts on the items, and traced and exported programs get the lengths of the rows as an input. Functions must not
change the spans: if what comes back does not fit the items, the spans from before are taken. The leaves of a
:class:`Text` are its bytes and spans, and both come back unless they are the bytes and spans of another text.

``torch.func.grad`` and ``jvp`` differentiate with respect to each leaf, so for them spans and text are no leaves.

A traced program must not depend on lengths, so while one is traced the whole buffer is the leaf.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Size, Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.compiler import is_dynamo_compiling
from torch.utils import _pytree

from tensorclass.support.printable import class_name
from tensorclass.td import pytree
from tensorclass.td.collection import Collection, functorch
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.shapes import Names
from tensorclass.td.tracing import has_values, is_batched

SPANS = "<spans>"  # a key that no user would write
_KEYS = ("items", "spans")
_Flat = tuple[list[Any], Any]


class _Rows:
    """State of a column when it was flattened. Compares equal to all others: trees of other rows have one structure."""

    __slots__ = ("content", "is_compact", "level", "names", "size")

    def __init__(self, size: Size, names: Names, level: int, content: tuple[Any, ...], is_compact: bool) -> None:
        self.size = size
        self.names = names
        self.level = level
        self.content = content  #: items and spans; empty if they were traced
        self.is_compact = is_compact

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rows)

    def __hash__(self) -> int:
        return hash(())

    def __repr__(self) -> str:
        return f"<{list(self.size)}>"


def _is_traced(tensor: Any) -> bool:
    """Return whether a tensor has no values to read: on meta, fake, functional, or hidden by a vmap."""
    while isinstance(tensor, Collection):
        tensor = getattr(tensor, "_items", None)
    return not isinstance(tensor, Tensor) or not has_values(tensor) or functorch.is_functorch_wrapped_tensor(tensor)


def _is_differentiating() -> bool:
    """Return whether the innermost transform of ``torch.func`` differentiates."""
    if not _transforms_active():
        return False
    top = functorch.peek_interpreter_stack()
    return top is not None and top.key() in (functorch.TransformType.Grad, functorch.TransformType.Jvp)


def _flatten_rows(column: Any) -> _Flat:
    """Return items and spans of a Ragged, bytes and spans of a Text, and the context."""
    spans: Any = column._store[SPANS]
    items: Any = column._items
    is_compact = column._is_compact
    cls: type[Any] = column.__class__
    if _is_traced(spans) or not isinstance(items, (Tensor, Collection)):
        if is_dynamo_compiling():
            return [items, spans], (cls, None)
        content: tuple[Any, ...] = (items, spans) if _is_differentiating() else ()
    else:
        items, spans = column._packed()
        content, is_compact = (items, spans), True
    context = cls, _Rows(column._batch_size, column._names, _depth(), content, is_compact)
    if content and _is_differentiating():
        return ([] if cls._keeps_items else [items]), context
    return [items, spans], context


def _flatten_rows_with_keys(column: Any) -> _Flat:
    leaves, context = _flatten_rows(column)
    return [(_pytree.GetAttrKey(key), leaf) for key, leaf in zip(_KEYS, leaves, strict=False)], context


def unflatten(values: Iterable[Any], context: Any) -> Any:
    """Return the column of leaves and context.

    Raises:
        ValueError: there are not as many items as the rows have.
        RuntimeError: ``torch.vmap`` mapped over the items, which are one buffer for all rows.
    """
    cls, rows = context
    leaves = list(values)
    known: Any = rows.content if rows is not None else ()
    items: Any
    spans: Any
    items, spans = leaves + list(known[len(leaves) :])
    new = object.__new__(cls)
    if not isinstance(items, (Tensor, Collection)) or not isinstance(spans, Tensor):
        return _with_other_objects(new, items, spans, rows)
    is_compact = False
    if rows is None:  # traced code: its vmap maps over items and spans alike
        is_mapped = _is_row(items)
    else:
        is_mapped = rows.level < _depth() and len(leaves) == 2 and _is_hidden(items, rows.level)
    if is_mapped:
        raise RuntimeError(
            f"vmap: the items of a {class_name(cls)} are one buffer for all rows, so they cannot be mapped in this "
            "call. Pass the collection itself as an argument, without chunk_size; or pad it first, with "
            "to_padded()"
        )
    if rows is not None:
        if known and not _is_traced(spans) and not _is_traced(items):
            items, spans, is_compact = _fitting(cls, items, spans, rows)
        else:
            is_compact = rows.is_compact and len(leaves) < 2
    names = None if rows is None else rows.names
    new._begin_over(items, spans, names if names is None or len(names) == spans.ndim - 1 else None, is_compact)
    return new


def _depth() -> int:
    depth: int = functorch.get_dynamic_layer_stack_depth() if _transforms_active() else 0
    return depth


def _is_row(items: Any) -> bool:
    """Return whether items are a row of theirs, inside of a vmap."""
    while isinstance(items, Collection):
        items = getattr(items, "_items", None)
    return isinstance(items, Tensor) and is_batched(items)


def _is_hidden(items: Any, level: int) -> bool:
    """Return whether a vmap above a level hides a dimension of items."""
    while isinstance(items, Collection):
        items = getattr(items, "_items", None)
    while isinstance(items, Tensor) and functorch.is_functorch_wrapped_tensor(items):
        if functorch.maybe_get_level(items) <= level:
            return False
        if functorch.is_batchedtensor(items):
            return True
        items = functorch.get_unwrapped(items)
    return False


def _with_other_objects(new: Any, items: Any, spans: Any, rows: Any) -> Any:
    """Return a node with other objects as leaves, as torch makes to compare structures."""
    size, names = (Size(()), None) if rows is None else (rows.size, rows.names)
    new._begin({SPANS: spans}, size, None, names)
    new._items = items
    new._is_compact = True
    new._room = None
    return new


def _fitting(cls: Any, items: Any, spans: Tensor, rows: _Rows) -> tuple[Any, Tensor, bool]:
    """Return the items and spans of a column of leaves; the spans from before if a function changed them."""
    own_items, own = rows.content
    if spans is own and items is own_items:
        return items, spans, rows.is_compact
    keeps_items = isinstance(own_items, Tensor) and own_items.dtype is torch.uint8 and cls._keeps_items
    if keeps_items and (items.dtype is not torch.uint8 or items.ndim != 1):
        return own_items, own, rows.is_compact
    count = _count(items)
    are_spans = spans is not own and spans.dtype is torch.int64 and spans.ndim and spans.shape[-1] == 2
    if are_spans and int(span_functions.counts_of(spans).sum()) == count:  # else a function has changed them
        return items, span_functions.from_lengths(spans[..., 1]), True
    if count == _count(own_items):
        if keeps_items and spans is not own:
            return own_items, own, rows.is_compact
        return items, own if own.device == items.device else own.to(items.device), rows.is_compact
    if keeps_items:
        return own_items, own, rows.is_compact
    raise ValueError(
        f"{class_name(cls)}: a function over the leaves must return as many items as it takes: expected "
        f"{_count(own_items)}, got {'a number' if count is None else count}"
    )


def _count(items: Any) -> int | None:
    return len(items) if items.ndim else None


def _flatten_column(column: Any) -> _Flat:
    """Return the codes of a Column, and the context, which has the objects and their type."""
    values, context = pytree._flatten(column)
    return values, (context, column._item_type)


def _flatten_column_with_keys(column: Any) -> _Flat:
    values, context = _flatten_column(column)
    return [(_pytree.GetAttrKey("codes"), value) for value in values], context


def _unflatten_column(values: Iterable[Any], context: Any) -> Any:
    new = pytree._unflatten(values, context[0])
    new._item_type = context[1]
    return new


def register_column(cls: Any) -> None:
    """Register a class of columns of objects as a node of pytrees."""
    pytree.register(
        cls,
        _flatten_column,
        _unflatten_column,
        _flatten_column_with_keys,
        slots=("_objects", "_item_type"),
        new_slots={"_metadata": None},
    )


def register(cls: Any) -> None:
    """Register a class of columns with a buffer as a node of pytrees."""
    pytree.register(
        cls,
        _flatten_rows,
        unflatten,
        _flatten_rows_with_keys,
        entries=_entries,
        slots=("_items",),
        new_slots={"_is_compact": False, "_room": None},
        to_text=_as_text,
        from_text=functools.partial(_of_text, cls),
    )


def _entries(leaves: Any) -> tuple[str, ...]:
    return _KEYS[: len(leaves)]


def _as_text(context: Any) -> dict[str, Any]:
    rows = context[1]
    names = None if rows is None else rows.names
    return {"ndim": len(rows.size) if rows is not None else 0, "names": names}


def _of_text(cls: Any, dumped: dict[str, Any]) -> tuple[Any, _Rows]:
    """Return the context of :func:`_as_text`."""
    names = dumped["names"]
    return cls, _Rows(Size((0,) * dumped["ndim"]), None if names is None else tuple(names), 0, (), False)
